"""Decisions on the treatments of an experiment, from its rows and checks. For the driver."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from spark_eval.conventions.comparison import Mode
from spark_eval.errors import GateFailure
from spark_eval.experiments.checks import NO_SPREAD
from spark_eval.experiments.estimates import Estimates, Method
from spark_eval.experiments.plan import ExperimentPlan, Role
from spark_eval.experiments.tables import CheckRow, DecisionRow, ExperimentRow
from spark_eval.experiments.worker.bucket import BucketSums
from spark_eval.schema import ALL


class Decision(StrEnum):
    """Decision on a treatment."""

    WIN = "win"
    FLAT = "flat"
    LOSS = "loss"
    BLOCKED = "blocked"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Analysis(Estimates):
    """Results of one experiment: rows, checks and decisions."""

    @cached_property
    def shown_checks(self) -> list[CheckRow]:
        """Rows of ``checks``: those of trust, then Gail and Simon's tests of ``rows``, which never fail."""
        name, checks = self.experiment.name, list(self.checks)
        for row in self.rows:
            if row.method == Method.GAIL_SIMON:
                subject = f"{row.metric} of {row.treatment} by {row.segment}"
                checks.append(
                    CheckRow(name, "interaction", subject, row.statistic, row.df, row.p_value, passed=None)
                )
        return checks

    @cached_property
    def decisions(self) -> list[DecisionRow]:
        """One decision per treatment."""
        rows = []
        has_gate = any(gate.experiment == self.experiment.name for gate in self.plan.gates)
        for treatment in self.experiment.arms[1:]:
            decision, reason = self.decide(treatment)
            name = self.experiment.name
            rows.append(DecisionRow(name, treatment, decision.value, reason, self.is_trusted, has_gate))
        return rows

    def decide(self, treatment: str) -> tuple[Decision, str]:
        """Return the decision on a treatment and its reason; the first rule that applies decides."""
        if not self.is_trusted:
            return Decision.BLOCKED, f"not trusted: {', '.join(self.failed_checks)}"
        level = 1 - self.plan.confidence
        signs = {metric.name: metric.sign for metric in self.plan.metrics}
        rows = [row for row in self.rows if row.treatment == treatment and row.segment == ALL]
        goals = [row for row in rows if row.role == Role.GOAL and row.method == self.deciding(row.metric)]
        certain = [row for row in goals if row.p_adjusted is not None and row.p_adjusted < level]
        worse = [row.metric for row in certain if signs[row.metric] * (row.difference or 0) < 0]
        if worse:
            return Decision.LOSS, f"worse: {', '.join(worse)}"
        guarded = [row for row in rows if row.method == Method.NON_INFERIORITY]
        failed = [with_reason(row) for row in guarded if not is_within(row, signs[row.metric], level)]
        if failed:
            return Decision.BLOCKED, f"guardrails not met: {', '.join(failed)}"
        if failed := self.failed_gates(rows, signs):
            return Decision.BLOCKED, f"gates not met: {', '.join(failed)}"
        if certain:
            return Decision.WIN, f"better: {', '.join(row.metric for row in certain)}"
        if any(row.p_value is not None for row in goals):
            return Decision.FLAT, "no goal differs significantly"
        reasons = dict.fromkeys(row.reason for row in goals if row.reason)
        return Decision.UNDECIDED, ", ".join(map(str, reasons)) or "no goal"

    def failed_gates(self, rows: Sequence[ExperimentRow], signs: dict[str, int]) -> list[str]:
        """Return the metrics of gates that do not pass."""
        failed = []
        for metric in self.plan.metrics:
            of_gates = [row for row in rows if row.method == Method.GATE and row.metric == metric.name]
            for gate, row in zip(self.gates_of(metric), of_gates, strict=True):
                sign = signs[row.metric] * (-1 if gate.mode is Mode.CERTAIN_DROP else 1)
                is_drop = gate.mode is Mode.CERTAIN_DROP
                is_certain = is_within(row, sign, 1 - gate.confidence, is_strict=is_drop)
                if is_certain == is_drop or not is_measured(row):
                    failed.append(with_reason(row))
        return failed


def is_within(row: ExperimentRow, sign: int, level: float, *, is_strict: bool = False) -> bool:
    """Return True if a one-sided test is significant; without any spread its difference decides.

    Never for a metric that measures nothing.
    A difference of exactly 0 is not a drop (``is_strict``), but within the margin.
    """
    if row.p_value is not None:
        return row.p_value < level
    if not is_measured(row) or row.difference is None:
        return False
    return sign * row.difference > 0 or (row.difference == 0 and not is_strict)


def is_measured(row: ExperimentRow) -> bool:
    """Return True if a row has a test, or a difference without any spread."""
    return row.reason in (None, NO_SPREAD)


def with_reason(row: ExperimentRow) -> str:
    """Return the metric of a row, with the reason why nothing is known of it."""
    return row.metric if is_measured(row) else f"{row.metric} ({row.reason})"


def analyses(plan: ExperimentPlan, sums: BucketSums) -> Iterator[Analysis]:
    """Yield the analysis of each experiment."""
    return (Analysis(plan, experiment, sums) for experiment in plan.experiments)


def failure_of(decisions: Sequence[DecisionRow]) -> GateFailure | None:
    """Return the failure of a run: experiments that cannot be trusted, gated ones that are lost or blocked.

    >>> failure_of([DecisionRow("home", "b", "loss", "worse: ctr", True, False)]) is None
    True
    """
    stopped = (Decision.LOSS, Decision.BLOCKED)
    failed = [row for row in decisions if not row.trusted or (row.gate and row.decision in stopped)]
    if not failed:
        return None
    texts = [f"{row.experiment}, {row.treatment}: {row.decision} ({row.reason})" for row in failed]
    return GateFailure("EXPERIMENT_FAILED", "; ".join(texts))
