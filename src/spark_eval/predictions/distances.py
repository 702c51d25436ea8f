"""Metrics of the distance of scores from labels: calibration, errors, variance; kernels as in ``classes``."""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from spark_eval.predictions.registry import Sums, Value, loss, prediction_metric, ratio, total
from spark_eval.predictions.task import REPLICATES, Task
from spark_eval.statistics.slopes import root_slopes

REGRESSION: Final = (Task.REGRESSION,)
# A probability is an estimate of a label that is 0 or 1, so that its error is defined as well.
NUMBERS: Final = (Task.BINARY, Task.REGRESSION)


@prediction_metric(
    formula="sum over bins of (weight of the bin / all) * |mean score - rate of positives|",
    tasks=(Task.BINARY,),
    needs=["bins"],
    best=0.0,
    is_of_users=False,
)
def ece(sums: Sums) -> Iterator[Value]:
    """Expected calibration error: mean difference of predicted and observed rates, in bins of equal width.

    In the bin of 0.75 half of the rows are positive, in the bin of 0.05 none:

    >>> Sums.of_rows([1, 0, 0], [0.75, 0.75, 0.05]).measure(ece)
    {'ece': 0.183333}

    Source: Naeini, Cooper, Hauskrecht, Obtaining well calibrated probabilities, AAAI 2015.
    """
    n_bins = sums.plan.bins
    for mark, options in sums.variants():
        positives = sums.of(f"bins{mark}")[n_bins:]
        gaps = (
            abs(scores - labels)
            for scores, labels in zip(sums.of(f"bin_scores{mark}"), positives, strict=True)
        )
        error = ratio(total(gaps), sums.weight)
        yield Value(None if error is None else float(error), options)


@prediction_metric(
    formula="the calibration error whose ece has the observed value as its median",
    tasks=(Task.BINARY,),
    needs=["bins", REPLICATES],
    best=0.0,
    is_of_users=False,
)
def ece_debiased(sums: Sums) -> Iterator[Value]:
    """Expected calibration error without the part that chance adds to ``ece``; needs ``intervals``.

    Its value and its interval follow from the bootstrap replicates, see ``worker.calibration``. Sums alone
    have none:

    >>> Sums.of_rows([1, 0, 0], [0.75, 0.75, 0.05]).measure(ece_debiased)
    {'ece_debiased': None}

    Source: Kumar, Liang, Ma, Verified uncertainty calibration, NeurIPS 2019 (the bias); Carpenter, Test
    inversion bootstrap confidence intervals, JRSS B 1999.
    """
    for _, options in sums.variants():
        yield Value(None, options)


@loss(formula="mean of |y - p|", tasks=NUMBERS, needs=["errors"])
def mae(sums: Sums) -> Iterator[Value]:
    """Mean absolute error.

    >>> Sums.of_rows([3.0, 5.0], [2.0, 8.0], task=Task.REGRESSION).measure(mae)
    {'mae': 2.0}

    Source: Willmott, Matsuura, Advantages of the mean absolute error over the RMSE, Climate Research 2005.
    """
    return sums.means("error")


@loss(formula="mean of (y - p)^2", tasks=NUMBERS, needs=["errors"])
def mse(sums: Sums) -> Iterator[Value]:
    """Mean squared error (for probabilities, the Brier score); a few large errors can dominate it.

    >>> Sums.of_rows([3.0, 5.0], [2.0, 8.0], task=Task.REGRESSION).measure(mse)
    {'mse': 5.0}

    Source: Brier, Verification of forecasts expressed in terms of probability, 1950.
    """
    return sums.means("squares")


@loss(formula="square root of MSE", tasks=NUMBERS, needs=["errors"])
def rmse(sums: Sums) -> Iterator[Value]:
    """Square root of the mean squared error, in the unit of the label.

    >>> Sums.of_rows([3.0, 5.0], [2.0, 8.0], task=Task.REGRESSION).measure(rmse)
    {'rmse': 2.236068}

    Source: Herlocker et al., Evaluating collaborative filtering recommender systems, TOIS 2004.
    """
    for mark, options in sums.variants():
        mean = ratio(sums.one(f"squares{mark}"), sums.weight)
        if mean is None:
            yield Value(None, options)
        else:
            slopes = root_slopes(mean)
            yield Value(math.sqrt(float(mean)), options, slopes=() if slopes is None else (slopes,))


@loss(formula="mean of |y - p| / |y| over rows with y != 0", tasks=REGRESSION, needs=["shares"])
def mape(sums: Sums) -> Iterator[Value]:
    """Mean absolute error as a share of the label (0.1 is 10 %); labels of 0 are left out and counted.

    (1/4 + 1/2) / 2; the label 0 is left out:

    >>> Sums.of_rows([4.0, -2.0, 0.0], [5.0, -1.0, 9.0], task=Task.REGRESSION).measure(mape)
    {'mape': 0.375}

    Source: Hyndman, Koehler, Another look at measures of forecast accuracy, 2006.
    """
    yield Value.of(ratio(sums.one("shares"), sums.one("share_weight")), {}, int(sums.one("zero")))


@prediction_metric(
    formula="1 - sum (y - p)^2 / sum (y - mean y)^2",
    tasks=REGRESSION,
    needs=["label_squares"],
    bounds=(None, 1.0),
)
def r2(sums: Sums) -> Iterator[Value]:
    """Share of the labels' variance that the scores explain; undefined if all labels are equal.

    The squared errors sum to 2; those of the mean label sum to 8:

    >>> Sums.of_rows([1.0, 3.0, 5.0], [2.0, 3.0, 4.0], task=Task.REGRESSION).measure(r2)
    {'r2': 0.75}

    Source: Kvalseth, Cautionary note about R2, The American Statistician 1985.
    """
    if not sums.weight:
        yield Value(None)
        return
    labels = sums.one("label") + sums.one("label+")
    squares = sums.one("label_squares") + sums.one("label_squares+")
    spread = squares - labels * labels / sums.weight
    # A spread that the rounding of weighted squares alone can produce counts as 0.
    is_spread = spread.value > squares.value * Fraction(1, 2**100)
    yield Value.of(1 - sums.one("squares") / spread if is_spread else None)
