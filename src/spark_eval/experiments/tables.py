"""Rows of the published tables of experiments."""

from typing import Final, NamedTuple

from spark_eval.schema import ddl_of


class ExperimentRow(NamedTuple):
    """Row of ``experiments``: a metric of a treatment against the control.

    ``method`` is ``raw``, ``z_pooled``, ``cuped`` (adjusted by the pre-period), ``sequential``,
    ``non_inferiority`` or ``gate`` (one-sided), ``novelty`` (late - early), or ``cochran_q`` or
    ``gail_simon`` over the values of a segment. ``theta`` is the coefficient of the pre-period value,
    ``variance_reduction`` the share of the variance of the difference that the adjustment removes. ``mde``
    is the smallest detectable effect, ``n_needed`` the units of the control for the effect of the metric.
    ``reason`` says why there is no p-value. ``finding`` of a row that decides is ``wins``, ``loses`` or
    ``flat``, or of a one-sided test ``holds``, ``not_ruled_out`` or ``breached``; ``unknown`` if nothing is
    measured. One-sided rows have both one-sided bounds of the change, and its limit in ``margin``.
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
    direction: str
    margin: float | None
    margin_kind: str | None
    finding: str | None


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
