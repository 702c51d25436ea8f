"""Rows of the tables ``comparisons``, ``slices`` and ``gates``, and the values that they are about."""

import math
from typing import Final, NamedTuple, TypeAlias, TypeVar

from spark_eval.errors import DataError
from spark_eval.kernels.values import MetricValue
from spark_eval.predictions.values import PredictionValue
from spark_eval.results.leaderboard import is_list_metric, list_direction, measure_of
from spark_eval.schema import Direction, ddl_of


class ComparisonRow(NamedTuple):
    """A row of the table ``comparisons``: one test of one pair of models in one cell.

    A cell is a metric at k over the users of a segment value. ``difference`` is candidate minus baseline.
    ``wins`` counts the users with a better value of the candidate. ``baseline_run`` is None within one run.
    With lists by request, ``wins``, ``ties`` and ``losses`` count requests, ``user_wins`` and so on users by
    their means; these and ``n_requests`` are None otherwise.

    ``question`` says what is compared: the recipes of models with repeats, or their artefacts, these lists.
    ``baseline_repeats`` and ``candidate_repeats`` are numbers of repeats, None without any. Of recipes,
    ``users_needed`` and ``repeats_needed`` would find a difference of this size with power 0.8, if more of
    them alone came; None if no number would.
    """

    baseline: str
    candidate: str
    metric: str
    k: int | None
    segment: str
    segment_value: str
    n_users: int = 0
    n_undefined: int = 0
    baseline_value: float | None = None
    candidate_value: float | None = None
    difference: float | None = None
    std_error: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    test: str = ""
    statistic: float | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    family_size: int = 0
    correction: str = ""
    wins: int = 0
    ties: int = 0
    losses: int = 0
    relative: float | None = None
    relative_std_error: float | None = None
    effect_size: float | None = None
    mde: float | None = None
    baseline_run: str | None = None
    conventions: str = ""
    n_requests: int | None = None
    user_wins: int | None = None
    user_ties: int | None = None
    user_losses: int | None = None
    question: str = "artefact"
    baseline_repeats: int | None = None
    candidate_repeats: int | None = None
    users_needed: int | None = None
    repeats_needed: int | None = None


class SliceRow(NamedTuple):
    """A row of the table ``slices``: one slice of users of one pair of models and one metric.

    ``attributes`` and ``values`` name the slice. ``difference`` and its interval are of the slice alone.
    ``contribution`` is its share of the users times its difference; ``rest_difference`` is its difference
    minus that of all other users. ``role`` is None unless the slice loses; ``by`` is the slice that it is
    part of, or explained by.
    """

    baseline: str
    candidate: str
    metric: str
    k: int | None
    attributes: list[str]
    values: list[str]
    n_users: int
    difference: float | None
    std_error: float | None
    ci_low: float | None
    ci_high: float | None
    statistic: float | None
    p_value: float | None
    p_adjusted: float | None
    family_size: int
    contribution: float | None
    rest_difference: float | None
    p_rest: float | None
    p_rest_adjusted: float | None
    verdict: str
    role: str | None
    by: str | None
    min_users: int
    correction: str
    confidence: float = 0.0
    baseline_run: str | None = None
    conventions: str = ""


class GateRow(NamedTuple):
    """A row of the table ``gates``: one gate in one cell, with its result and decision.

    Of a ``watch``, ``baseline_value`` is the usual value, and ``watch`` what moved: ``model`` or ``world``.
    """

    metric: str
    k: int | None
    model: str
    against_run: str | None
    against_model: str
    max_drop: float
    drop: str
    mode: str
    confidence: float
    segment: str
    segment_value: str
    min_users: int
    min_common: float
    pairing: str
    baseline_value: float | None
    candidate_value: float | None
    difference: float | None
    bound_low: float | None
    bound_high: float | None
    n_users: int
    decision: str
    passed: bool
    reason: str
    p_worse: float | None
    p_adjusted: float | None
    users_needed: int | None
    watch: str | None = None


COMPARISONS: Final = ddl_of(ComparisonRow)
SLICES: Final = ddl_of(SliceRow)
GATES: Final = ddl_of(GateRow)

Row = TypeVar("Row", ComparisonRow, SliceRow, GateRow)


def finite_row(row: Row) -> Row:
    """Return the row; raise DataError METRIC_OVERFLOW if a number of it is beyond all doubles."""
    for name, number in row._asdict().items():
        if isinstance(number, float) and not math.isfinite(number):
            message = (
                f"{measure_of(row._asdict())} has a {name} larger than any double; scale the values down"
            )
            raise DataError("METRIC_OVERFLOW", message)
    return row


ComparedValue: TypeAlias = MetricValue | PredictionValue


def is_of_predictions(text: str) -> bool:
    """Return True if a text names a metric of predictions, and no metric of lists at a cutoff.

    >>> is_of_predictions("auc"), is_of_predictions("f1(threshold=0.5)"), is_of_predictions("f1@5")
    (True, True, False)
    """
    return PredictionValue.of(text) is not None and "@" not in text and not is_list_metric(text)


def compared_direction(metric: str) -> Direction:
    """Return the direction of better values of a metric in the table ``comparisons``.

    >>> compared_direction("ndcg"), compared_direction("log_loss")
    (<Direction.HIGHER: 'higher'>, <Direction.LOWER: 'lower'>)
    """
    value = PredictionValue.of(metric) if is_of_predictions(metric) else None
    return list_direction(metric) if value is None else value.metric.direction
