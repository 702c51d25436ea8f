"""Metrics of predictions, each from exact sums of its rows, and each rounded once."""

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Final

from spark_eval.pointwise.registry import (
    BOTH,
    POINTWISE,
    Matrix,
    Sums,
    Value,
    pointwise_metric,
    ratio,
    total,
)
from spark_eval.pointwise.task import Auprc, Task
from spark_eval.stats.intervals import Summary, summarise

__all__ = ["POINTWISE"]

BINARY: Final = (Task.BINARY,)
REGRESSION: Final = (Task.REGRESSION,)
# A probability is off by as much as an estimate of a label that is 0 or 1.
NUMBERS: Final = (Task.BINARY, Task.REGRESSION)


@pointwise_metric("accuracy", formula="(TP + TN) / all; hits / all", tasks=BOTH, needs=["flags"])
def accuracy(sums: Sums) -> Iterator[Value]:
    """Share of rows of which the class is predicted; near 1 where one class is rare, whatever the model."""
    if sums.plan.task is Task.MULTICLASS:
        yield Value(ratio(total(sums.of("right")), sums.weight))
        return
    for at in sums.matrices():
        yield Value(ratio(at.tp + at.tn, sums.weight), at.options)


@pointwise_metric(
    "mean_class_accuracy",
    formula="mean of each class's own accuracy (its recall)",
    tasks=BOTH,
    needs=["flags"],
)
def mean_class_accuracy(sums: Sums) -> Iterator[Value]:
    """Mean of the recalls of the classes, so that a rare class counts as much as a frequent one.

    Classes without a row are left out and counted as undefined.
    """
    if sums.plan.task is Task.MULTICLASS:
        yield mean_of_shares(list(zip(sums.of("right"), sums.of("labels"), strict=True)), {})
        return
    for at in sums.matrices():
        yield mean_of_shares([(at.tp, at.tp + at.fn), (at.tn, at.tn + at.fp)], at.options)


def mean_of_shares(shares: Sequence[tuple[Fraction, Fraction]], options: Mapping[str, str]) -> Value:
    """The mean of the quotients that are defined."""
    found = [one / other for one, other in shares if other]
    value = float(total(found) / len(found)) if found else None
    return Value(value, options, len(shares) - len(found))


@pointwise_metric("precision", formula="TP / (TP + FP)", tasks=BOTH, needs=["flags"])
def precision(sums: Sums) -> Iterator[Value]:
    """Share of what is flagged that is positive; undefined where nothing is flagged."""
    for at in one_against_others(sums):
        yield Value(ratio(at.tp, at.tp + at.fp), at.options)


@pointwise_metric("recall", formula="TP / (TP + FN)", tasks=BOTH, needs=["flags"])
def recall(sums: Sums) -> Iterator[Value]:
    """Share of the positives that is flagged; undefined without positives."""
    for at in one_against_others(sums):
        yield Value(ratio(at.tp, at.tp + at.fn), at.options)


@pointwise_metric("f1", formula="2 TP / (2 TP + FP + FN)", tasks=BOTH, needs=["flags"])
def f1(sums: Sums) -> Iterator[Value]:
    """Harmonic mean of precision and recall; undefined where nothing is positive or flagged."""
    for at in one_against_others(sums):
        yield Value(ratio(2 * at.tp, 2 * at.tp + at.fp + at.fn), at.options)


def one_against_others(sums: Sums) -> Iterator[Matrix]:
    """The matrices of a binary task; of several classes, that of each one against all others."""
    if sums.plan.task is Task.BINARY:
        yield from sums.matrices()
        return
    columns = (sums.of(name) for name in ("right", "predicted", "labels"))
    for name, right, predicted, labels in zip(sums.plan.classes, *columns, strict=True):
        rest = sums.weight - predicted - labels + right
        yield Matrix({"class": str(name)}, right, predicted - right, labels - right, rest)


@pointwise_metric(
    "confusion",
    formula="weight of rows by class and predicted class",
    tasks=BOTH,
    needs=["flags", "confusion"],
)
def confusion(sums: Sums) -> Iterator[Value]:
    """The confusion matrix, a number for each pair of a label and a predicted class."""
    names = [str(one) for one in sums.plan.classes]
    pairs = [{"label": label, "predicted": predicted} for label in names for predicted in names]
    if sums.plan.task is Task.MULTICLASS:
        for pair, weight in zip(pairs, sums.of("confusion"), strict=True):
            yield Value(float(weight), pair)
        return
    for at in sums.matrices():
        for pair, weight in zip(pairs, (at.tn, at.fp, at.fn, at.tp), strict=True):
            yield Value(float(weight), {**pair, **at.options})


@pointwise_metric("log_loss", formula="mean of -ln(probability of the label)", tasks=BOTH, needs=["loss"])
def log_loss(sums: Sums) -> Iterator[Value]:
    """Mean of -ln of the probability that the label was given, clipped to [eps, 1 - eps]."""
    for mark, options in sums.variants():
        yield Value(ratio(sums.one(f"loss{mark}"), sums.weight), options)


@pointwise_metric(
    "log_likelihood", formula="mean of ln(probability of the label)", tasks=BOTH, needs=["loss"]
)
def log_likelihood(sums: Sums) -> Iterator[Value]:
    """Average log-likelihood of the labels: the negative log loss."""
    for mark, options in sums.variants():
        yield Value(ratio(-sums.one(f"loss{mark}"), sums.weight), options)


@pointwise_metric(
    "auc",
    formula="share of (positive, negative) pairs with the positive first, ties 1/2",
    tasks=BINARY,
    needs=["order"],
)
def auc(sums: Sums) -> Iterator[Value]:
    """Chance that a positive scores higher than a negative (area under the ROC curve), ties one half."""
    negatives, positives = sums.of("labels")
    yield Value(ratio(sums.one("pairs"), negatives * positives))


@pointwise_metric(
    "auprc",
    formula="sum of (step in recall) * precision; trapezoids under preset spark",
    tasks=BINARY,
    needs=["order"],
)
def auprc(sums: Sums) -> Iterator[Value]:
    """Area under the P-R curve, with one step per distinct score; undefined without positives."""
    name = "steps" if sums.plan.auprc is Auprc.STEP else "trapezoids"
    yield Value(ratio(sums.one(name), sums.of("labels")[1]))


@pointwise_metric("gauc", formula="mean over users of their AUC", tasks=BINARY, needs=["users"])
def gauc(sums: Sums) -> Iterator[Value]:
    """Mean of the AUC of each user's rows; users of one class are left out and counted as undefined."""
    n_users, n_defined = int(sums.one("users")), int(sums.one("users_defined"))
    mean = summarise(sums.one("users_auc"), sums.one("users_squares"), n_defined)
    yield Value(mean.value, {}, n_users - n_defined, mean)


@pointwise_metric(
    "gauc_by_impressions",
    formula="mean of the users' AUC, weighted by their rows",
    tasks=BINARY,
    needs=["users"],
)
def gauc_by_impressions(sums: Sums) -> Iterator[Value]:
    """The same mean, each user weighted by the weight of their rows."""
    yield weighted_mean(sums, "impressions")


@pointwise_metric(
    "gauc_by_positives",
    formula="mean of the users' AUC, weighted by their positives",
    tasks=BINARY,
    needs=["users"],
)
def gauc_by_positives(sums: Sums) -> Iterator[Value]:
    """The same mean, each user weighted by the weight of their positives."""
    yield weighted_mean(sums, "positives")


def weighted_mean(sums: Sums, weight: str) -> Value:
    """The users' AUC weighted, without a standard error."""
    n_undefined = int(sums.one("users") - sums.one("users_defined"))
    value = ratio(sums.one(f"users_auc_by_{weight}"), sums.one(f"users_{weight}"))
    n_users = int(sums.one("users_defined"))
    return Value(value, {}, n_undefined, Summary(value, None, None, None, n_users))


@pointwise_metric(
    "ece",
    formula="sum over bins of (weight of the bin / all) * |mean score - rate of positives|",
    tasks=BINARY,
    needs=["bins"],
)
def ece(sums: Sums) -> Iterator[Value]:
    """Expected calibration error over bins of equal width: how far probabilities are from what happens."""
    n_bins = sums.plan.bins
    for mark, options in sums.variants():
        positives = sums.of(f"bins{mark}")[n_bins:]
        gaps = (
            abs(scores - labels)
            for scores, labels in zip(sums.of(f"bin_scores{mark}"), positives, strict=True)
        )
        yield Value(ratio(total(gaps), sums.weight), options)


@pointwise_metric("mae", formula="mean of |y - p|", tasks=NUMBERS, needs=["errors"])
def mae(sums: Sums) -> Iterator[Value]:
    """Mean absolute error."""
    for mark, options in sums.variants():
        yield Value(ratio(sums.one(f"error{mark}"), sums.weight), options)


@pointwise_metric("mse", formula="mean of (y - p)^2", tasks=NUMBERS, needs=["errors"])
def mse(sums: Sums) -> Iterator[Value]:
    """Mean squared error, of probabilities the Brier score; a few rows far off may make most of it."""
    for mark, options in sums.variants():
        yield Value(ratio(sums.one(f"squares{mark}"), sums.weight), options)


@pointwise_metric("rmse", formula="square root of MSE", tasks=NUMBERS, needs=["errors"])
def rmse(sums: Sums) -> Iterator[Value]:
    """Root of the mean squared error, in the unit of the label."""
    for one in mse(sums):
        yield Value(None if one.value is None else math.sqrt(one.value), one.options)


@pointwise_metric(
    "mape", formula="mean of |y - p| / |y| over rows with y != 0", tasks=REGRESSION, needs=["shares"]
)
def mape(sums: Sums) -> Iterator[Value]:
    """Mean absolute error as a share of the label, 0.1 for 10 %; labels 0 are left out and counted."""
    yield Value(ratio(sums.one("shares"), sums.one("share_weight")), {}, int(sums.one("zero")))


@pointwise_metric(
    "r2", formula="1 - sum (y - p)^2 / sum (y - mean y)^2", tasks=REGRESSION, needs=["label_squares"]
)
def r2(sums: Sums) -> Iterator[Value]:
    """Share of the labels' variance that is predicted; undefined where all labels are equal."""
    if not sums.weight:
        yield Value(None)
        return
    labels = sums.one("label") + sums.one("label+")
    squares = sums.one("label_squares") + sums.one("label_squares+")
    spread = squares - labels * labels / sums.weight
    # What the rounding of weighted squares alone can make counts as none.
    is_spread = spread > squares * Fraction(1, 2**100)
    yield Value(float(1 - sums.one("squares") / spread) if is_spread else None)
