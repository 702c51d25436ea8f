"""Rows of the published tables of experiments."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from spark_eval.schema import ALL, Row, ddl_of


class ExperimentRow(NamedTuple):
    """Row of ``experiments``: a metric of a treatment against the control.

    ``method`` is ``raw``, ``z_pooled``, ``cuped`` (adjusted by the pre-period), ``sequential``,
    ``non_inferiority`` or ``gate`` (one-sided), ``novelty`` (late - early), or ``cochran_q`` or
    ``gail_simon`` over the values of a segment. ``theta`` is the coefficient of the pre-period value,
    ``variance_reduction`` the share of the variance of the difference that the adjustment removes. ``mde``
    is the smallest detectable effect, ``n_needed`` the units of the control for the effect of the metric.
    ``reason`` says why there is no p-value.
    """

    experiment: str
    metric: str
    treatment: str
    control: str
    method: str
    segment: str
    segment_value: str
    role: str
    n_control: int
    n_treatment: int
    undefined_control: int
    undefined_treatment: int
    control_value: float | None
    treatment_value: float | None
    control_se: float | None
    treatment_se: float | None
    difference: float | None
    std_error: float | None
    statistic: float | None
    df: float | None
    p_value: float | None
    p_adjusted: float | None
    ci_low: float | None
    ci_high: float | None
    lift: float | None
    lift_low: float | None
    lift_high: float | None
    theta: float | None
    variance_reduction: float | None
    mde: float | None
    n_needed: int | None
    reason: str | None
    trusted: bool
    conventions: str


class CheckRow(NamedTuple):
    """Row of ``checks``: a check of trust; ``passed`` is None if it cannot be decided."""

    experiment: str
    check: str
    subject: str
    statistic: float | None
    df: float | None
    p_value: float | None
    passed: bool | None


class DecisionRow(NamedTuple):
    """Row of ``decisions``: one per experiment and treatment; ``gate`` if it decides the exit code."""

    experiment: str
    treatment: str
    decision: str
    reason: str
    trusted: bool
    gate: bool


EXPERIMENTS: Final = ddl_of(ExperimentRow)
CHECKS: Final = ddl_of(CheckRow)
DECISIONS: Final = ddl_of(DecisionRow)
SHOWN: Final = ("experiment", "metric", "treatment", "control value", "value", "difference", "interval", "p")


def six_digits(value: float | None) -> str:
    """Format a number for display; an empty text if it is undefined."""
    return "" if value is None else f"{value:.6g}"


def shown_lines(rows: Iterable[Row]) -> list[tuple[str, ...]]:
    """Return a line of SHOWN for each row of ``experiments`` over all units that decides."""
    lines = []
    for row in rows:
        if row["method"] in ("raw", "sequential", "z_pooled") and row["segment"] == ALL:
            p_value = row["p_value"] if row["p_adjusted"] is None else row["p_adjusted"]
            bounds = [six_digits(row[name]) for name in ("ci_low", "ci_high")]
            numbers = [six_digits(row[name]) for name in ("control_value", "treatment_value", "difference")]
            method = "" if row["method"] == "raw" else f" ({row['method']})"
            names = (row["experiment"], row["metric"] + method, row["treatment"])
            interval = " to ".join(bounds) if all(bounds) else str(row["reason"] or "")
            lines.append((*names, *numbers, interval, six_digits(p_value)))
    return lines


def decision_lines(rows: Iterable[Row]) -> list[str]:
    """Return a sentence for each row of ``decisions``.

    >>> row = DecisionRow("home", "b", "win", "ctr is better", True, False)
    >>> decision_lines([row._asdict()])
    ['home, b: win (ctr is better)']
    """
    return [f"{row['experiment']}, {row['treatment']}: {row['decision']} ({row['reason']})" for row in rows]
