"""Classification metrics: of predicted classes, of probabilities and of the order of scores.

A kernel takes the exact sums of a cell and yields its values, each rounded once; there are several if there
are several thresholds or classes. Its docstring has the meaning, the undefined case, an example and the
source. A threshold flags scores at or above it; rows count by their weights.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Final

from spark_eval.predictions.registry import Matrix, Sums, Value, loss, prediction_metric, ratio, total
from spark_eval.predictions.task import PLACED, Auprc, Task
from spark_eval.statistics.differences import RatioSums
from spark_eval.statistics.intervals import Summary, normal_interval, summarise
from spark_eval.statistics.slopes import Number, Slopes

BINARY: Final = (Task.BINARY,)
BOTH: Final = (Task.BINARY, Task.MULTICLASS)


@prediction_metric(formula="(TP + TN) / all; hits / all", tasks=BOTH, needs=["flags"])
def accuracy(sums: Sums) -> Iterator[Value]:
    """Share of rows whose predicted class is right; with one rare class, near 1 for any model.

    The threshold 0.5 classifies two of three rows correctly:

    >>> Sums.of_rows([1, 1, 0], [0.9, 0.2, 0.1]).measure(accuracy)
    {'accuracy(threshold=0.5)': 0.666667}

    Source: Manning, Raghavan, Schuetze, Introduction to Information Retrieval, 8.3.
    """
    if sums.plan.task is Task.MULTICLASS:
        yield Value.of(ratio(total(sums.of("right")), sums.weight))
        return
    for at in sums.matrices():
        yield Value.of(ratio(at.tp + at.tn, sums.weight), at.options)


@prediction_metric(formula="mean of each class's own accuracy (its recall)", tasks=BOTH, needs=["flags"])
def mean_class_accuracy(sums: Sums) -> Iterator[Value]:
    """Mean of the recalls of the classes, so that a rare class counts as much as a frequent one.

    Classes without a row are left out and counted as undefined. Of two positives one is flagged, of the
    negatives none:

    >>> Sums.of_rows([1, 1, 0], [0.9, 0.2, 0.1]).measure(mean_class_accuracy)
    {'mean_class_accuracy(threshold=0.5)': 0.75}

    Source: Brodersen et al., The balanced accuracy and its posterior distribution, ICPR 2010.
    """
    if sums.plan.task is Task.MULTICLASS:
        yield mean_of_shares(list(zip(sums.of("right"), sums.of("labels"), strict=True)), {})
        return
    for at in sums.matrices():
        yield mean_of_shares([(at.tp, at.tp + at.fn), (at.tn, at.tn + at.fp)], at.options)


def mean_of_shares(shares: Sequence[tuple[Number, Number]], options: Mapping[str, str]) -> Value:
    """Return the mean of the defined ratios; each share is (part, whole)."""
    defined = [one / other for one, other in shares if other]
    mean = total(defined) / len(defined) if defined else None
    return Value.of(mean, options, len(shares) - len(defined))


@prediction_metric(formula="TP / (TP + FP)", tasks=BOTH, needs=["flags"])
def precision(sums: Sums) -> Iterator[Value]:
    """Share of the flagged rows that are positive; undefined if no row is flagged.

    >>> Sums.of_rows([1, 0, 1], [0.9, 0.6, 0.2], thresholds=(0.5, 1.0)).measure(precision)
    {'precision(threshold=0.5)': 0.5, 'precision(threshold=1)': None}

    Source: Manning, Raghavan, Schuetze, Introduction to Information Retrieval, 8.3.
    """
    for at in one_against_others(sums):
        yield Value.of(ratio(at.tp, at.tp + at.fp), at.options)


@prediction_metric(formula="TP / (TP + FN)", tasks=BOTH, needs=["flags"])
def recall(sums: Sums) -> Iterator[Value]:
    """Share of the positives that are flagged; undefined without positives.

    >>> Sums.of_rows([1, 0, 1, 1], [0.9, 0.6, 0.2, 0.5]).measure(recall)
    {'recall(threshold=0.5)': 0.666667}

    Source: Manning, Raghavan, Schuetze, Introduction to Information Retrieval, 8.3.
    """
    for at in one_against_others(sums):
        yield Value.of(ratio(at.tp, at.tp + at.fn), at.options)


@prediction_metric(formula="2 TP / (2 TP + FP + FN)", tasks=BOTH, needs=["flags"])
def f1(sums: Sums) -> Iterator[Value]:
    """Harmonic mean of precision and recall; undefined if no row is positive or flagged.

    With weight 2 for the second row, precision is 1/2 and recall 2/3:

    >>> Sums.of_rows([1, 0, 1, 1], [0.9, 0.6, 0.2, 0.5], weights=[1, 2, 1, 1]).measure(f1)
    {'f1(threshold=0.5)': 0.571429}

    Source: van Rijsbergen, Information Retrieval, 1979.
    """
    for at in one_against_others(sums):
        yield Value.of(ratio(2 * at.tp, 2 * at.tp + at.fp + at.fn), at.options)


def one_against_others(sums: Sums) -> Iterator[Matrix]:
    """Yield a matrix per threshold of a binary task, or per class against the rest of a multiclass task."""
    if sums.plan.task is Task.BINARY:
        yield from sums.matrices()
        return
    columns = (sums.of(name) for name in ("right", "predicted", "labels"))
    for name, right, predicted, labels in zip(sums.plan.classes, *columns, strict=True):
        rest = sums.weight - predicted - labels + right
        yield Matrix({"class": str(name)}, right, predicted - right, labels - right, rest)


@prediction_metric(
    formula="weight of rows by class and predicted class",
    tasks=BOTH,
    needs=["flags", "confusion"],
    bounds=(0.0, None),
    best=None,
)
def confusion(sums: Sums) -> Iterator[Value]:
    """Confusion matrix: one value for each pair of label and predicted class.

    >>> sums = Sums.of_rows([1, 0, 1, 1], [0.9, 0.6, 0.2, 0.5])
    >>> for name, weight in sums.measure(confusion).items():
    ...     print(name, weight)
    confusion(label=0,predicted=0,threshold=0.5) 0.0
    confusion(label=0,predicted=1,threshold=0.5) 1.0
    confusion(label=1,predicted=0,threshold=0.5) 1.0
    confusion(label=1,predicted=1,threshold=0.5) 2.0

    Source: Manning, Raghavan, Schuetze, Introduction to Information Retrieval, 8.3.
    """
    names = [str(one) for one in sums.plan.classes]
    pairs = [{"label": label, "predicted": predicted} for label in names for predicted in names]
    if sums.plan.task is Task.MULTICLASS:
        for pair, weight in zip(pairs, sums.of("confusion"), strict=True):
            yield Value.of(weight, pair)
        return
    for at in sums.matrices():
        for pair, weight in zip(pairs, (at.tn, at.fp, at.fn, at.tp), strict=True):
            yield Value.of(weight, {**pair, **at.options})


@loss(formula="mean of -ln(probability of the label)", tasks=BOTH, needs=["loss"])
def log_loss(sums: Sums) -> Iterator[Value]:
    """Mean of -ln of the predicted probability of the label, clipped to [eps, 1 - eps].

    (-ln 1/2 - ln 3/4) / 2:

    >>> Sums.of_rows([1, 0], [0.5, 0.25]).measure(log_loss)
    {'log_loss': 0.490415}

    Source: Good, Rational decisions, 1952; clipped as by scikit-learn's log_loss.
    """
    return sums.means("loss")


@prediction_metric(
    formula="mean of ln(probability of the label)", tasks=BOTH, needs=["loss"], bounds=(None, 0.0), best=0.0
)
def log_likelihood(sums: Sums) -> Iterator[Value]:
    """Average log-likelihood of the labels: the negative log loss.

    >>> Sums.of_rows([1, 0], [0.5, 0.25]).measure(log_likelihood)
    {'log_likelihood': -0.490415}

    Source: Good, Rational decisions, 1952.
    """
    for mark, options in sums.variants():
        yield Value.of(ratio(-sums.one(f"loss{mark}"), sums.weight), options)


@prediction_metric(
    formula="share of (positive, negative) pairs with the positive first, ties 1/2",
    tasks=BINARY,
    needs=["order"],
)
def auc(sums: Sums) -> Iterator[Value]:
    """Probability that a positive scores higher than a negative (area under the ROC curve); ties count 1/2.

    Undefined if all rows have one class. The positive wins against one negative and ties with the other:

    >>> Sums.of_rows([1, 0, 0], [0.8, 0.8, 0.1]).measure(auc)
    {'auc': 0.75}

    Source: Hanley, McNeil, The meaning and use of the area under a ROC curve, Radiology 1982.
    """
    negatives, positives = (one.value for one in sums.of("labels"))
    if not negatives * positives:
        yield Value(None)
        return
    area = sums.one("pairs").value / (negatives * positives)
    # A user's sums of placements less the area for each row, of negatives and of positives.
    slopes: list[Slopes] = [
        {(PLACED, label): float(1 / n), ("labels", label): float(-area / n)}
        for label, n in enumerate((negatives, positives))
    ]
    yield Value(float(area), slopes=slopes)


@prediction_metric(
    formula="sum of (step in recall) * precision; trapezoids under preset spark",
    tasks=BINARY,
    needs=["order"],
    is_of_users=False,
)
def auprc(sums: Sums) -> Iterator[Value]:
    """Area under the P-R curve, with one step per distinct score; undefined without positives.

    Positives at precisions 1 and 2/3; as trapezoids (1 + 1) / 2 and (1/2 + 2/3) / 2:

    >>> Sums.of_rows([1, 0, 1], [0.9, 0.6, 0.2]).measure(auprc)
    {'auprc': 0.833333}
    >>> Sums.of_rows([1, 0, 1], [0.9, 0.6, 0.2], preset="spark").measure(auprc)
    {'auprc': 0.791667}

    Source: Davis, Goadrich, The relationship between Precision-Recall and ROC curves, ICML 2006.
    """
    name = "steps" if sums.plan.auprc is Auprc.STEP else "trapezoids"
    area = ratio(sums.one(name), sums.of("labels")[1])
    yield Value(None if area is None else float(area))


@prediction_metric(formula="mean over users of their AUC", tasks=BINARY, needs=["users"], is_of_users=False)
def gauc(sums: Sums) -> Iterator[Value]:
    """Mean of the AUC of each user's rows; users with one class are left out and counted as undefined.

    User 1 has AUC 1, user 2 has 1/2, and user 3 has no negatives:

    >>> labels, scores, users = [1, 0, 1, 0, 0, 1], [0.9, 0.1, 0.5, 0.6, 0.2, 0.3], [1, 1, 2, 2, 2, 3]
    >>> Sums.of_rows(labels, scores, users=users).measure(gauc)
    {'gauc': 0.75}

    Source: Zhu et al., Optimized cost per click in Taobao display advertising, KDD 2017.
    """
    n_users, n_defined = int(sums.one("users")), int(sums.one("users_defined"))
    mean = summarise(sums.one("users_auc").value, sums.one("users_squares").value, n_defined)
    yield Value(mean.value, {}, n_users - n_defined, mean)


@prediction_metric(
    formula="mean of the users' AUC, weighted by their rows",
    tasks=BINARY,
    needs=["users"],
    is_of_users=False,
)
def gauc_by_impressions(sums: Sums) -> Iterator[Value]:
    """Mean of the users' AUC, each weighted by the total weight of the user's rows.

    User 1 has AUC 1 over 2 rows, user 2 has 1/2 over 3:

    >>> sums = Sums.of_rows([1, 0, 1, 0, 0], [0.9, 0.1, 0.5, 0.6, 0.2], users=[1, 1, 2, 2, 2])
    >>> sums.measure(gauc_by_impressions)
    {'gauc_by_impressions': 0.7}

    Source: Zhu et al., Optimized cost per click in Taobao display advertising, KDD 2017.
    """
    yield weighted_mean(sums, "impressions")


@prediction_metric(
    formula="mean of the users' AUC, weighted by their positives",
    tasks=BINARY,
    needs=["users"],
    is_of_users=False,
)
def gauc_by_positives(sums: Sums) -> Iterator[Value]:
    """Mean of the users' AUC, each weighted by the total weight of the user's positives.

    User 1 has AUC 1 and 2 positives, user 2 has AUC 1/2 and 1 positive:

    >>> labels, scores, users = [1, 1, 0, 1, 0, 0], [0.9, 0.7, 0.1, 0.5, 0.6, 0.2], [1, 1, 1, 2, 2, 2]
    >>> Sums.of_rows(labels, scores, users=users).measure(gauc_by_positives)
    {'gauc_by_positives': 0.833333}

    Source: Zhu et al., Optimized cost per click in Taobao display advertising, KDD 2017.
    """
    yield weighted_mean(sums, "positives")


def weighted_mean(sums: Sums, weight: str) -> Value:
    """Return the weighted mean of the users' AUC, with its standard error by the delta method."""
    n_defined = int(sums.one("users_defined"))
    names = ("users_auc_by_{}", "users_{}", "users_squares_by_{}", "users_products_by_{}")
    part, whole, squares, products = (sums.one(name.format(weight)).value for name in names)
    of_ratio = ((squares, products), (products, sums.one(f"users_weight_squares_by_{weight}").value))
    if not whole:
        return Value(None, {}, int(sums.one("users")) - n_defined, Summary(n=n_defined))
    estimate = RatioSums(n_defined, (part, whole), of_ratio).combination(Fraction(1))
    mean = normal_interval(estimate.value, estimate.std_error, n_defined)
    return Value(mean.value, {}, int(sums.one("users")) - n_defined, mean)
