"""Decisions on the treatments of an experiment, from its rows and checks. For the driver."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from spark_eval.conventions.comparison import Mode
from spark_eval.errors import GateFailure
from spark_eval.experiments.estimates import Estimates, Method
from spark_eval.experiments.plan import ExperimentPlan, Role
from spark_eval.experiments.tables import CheckRow, DecisionRow, ExperimentRow
from spark_eval.experiments.worker.bucket import BucketSums
from spark_eval.results.effects import Finding, named_values, p_text, sentence
from spark_eval.schema import ALL
from spark_eval.statistics.significance import adjusted


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
        """Rows of ``checks``: checks of trust, then Gail and Simon's tests of ``rows``, which never fail."""
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
        """Return the decision on a treatment and its reason; the first rule that applies decides.

        The reason begins with what decides, and names all else that matters: goals that won or lost,
        guardrails that are not met, and what the effect depends on.
        """
        if not self.is_trusted:
            return Decision.BLOCKED, f"not trusted: {'; '.join(self.doubts)}; the effects mean nothing yet"
        rows = [row for row in self.rows if row.treatment == treatment and row.segment == ALL]
        goals = [row for row in rows if row.role == Role.GOAL and row.method == self.deciding(row.metric)]
        won, lost, flat = (
            sentences([row for row in goals if row.finding == finding])
            for finding in (Finding.WINS, Finding.LOSES, Finding.FLAT)
        )
        guarded = [row for row in rows if row.method == Method.NON_INFERIORITY]
        unmet = sentences([row for row in guarded if row.finding != Finding.HOLDS])
        unmet += [f"gate: {text}" for text in sentences(self.failed_gates(rows))]
        more = self.dependences(treatment)
        if lost:
            return Decision.LOSS, "; ".join([*lost, *unmet, *won, *more])
        if unmet:
            return Decision.BLOCKED, "; ".join([*unmet, *won, *more])
        if won:
            safe = [f"{', '.join(row.metric for row in guarded)} held"] if guarded else []
            return Decision.WIN, "; ".join([*won, *safe, *more])
        if flat:
            return Decision.FLAT, "; ".join(["no certain change", *flat, *more, *self.too_few(goals)])
        reasons = dict.fromkeys(row.reason for row in goals if row.reason)
        return Decision.UNDECIDED, ", ".join(map(str, reasons)) or "no goal"

    def failed_gates(self, rows: Sequence[ExperimentRow]) -> list[ExperimentRow]:
        """Return the rows of gates that do not pass; certain drops fail only if they are certain."""
        failed = []
        for metric in self.plan.metrics:
            of_gates = [row for row in rows if row.method == Method.GATE and row.metric == metric.name]
            for gate, row in zip(self.gates_of(metric), of_gates, strict=True):
                is_open = row.finding == Finding.NOT_RULED_OUT and gate.mode is not Mode.CERTAIN_DROP
                if is_open or row.finding in (Finding.BREACHED, Finding.UNKNOWN):
                    failed.append(row)
        return failed

    def too_few(self, goals: Sequence[ExperimentRow]) -> Iterator[str]:
        """Yield the goals without a certain change whose planned effect needs more units."""
        for row in goals:
            [raw] = [
                one
                for one in self.rows
                if (one.metric, one.treatment) == (row.metric, row.treatment)
                and (one.method, one.segment) == (Method.RAW, ALL)
            ]
            if row.finding == Finding.FLAT and raw.n_needed is not None and raw.n_needed > raw.n_control:
                there, wanted = f"{raw.n_control:,} in {raw.control}", f"{raw.n_needed:,}"
                yield f"too few users for the effect planned of {row.metric}: {there}, {wanted} needed"

    def dependences(self, treatment: str) -> list[str]:
        """Return sentences on what the goals depend on: effects of opposite signs first, then of other sizes.

        The p-values of each test are adjusted by Holm over goals, segments and slices.
        """
        of_goals = [row for row in self.rows if row.treatment == treatment and row.role == Role.GOAL]
        texts: dict[tuple[str, str], str] = {}
        for method in (Method.GAIL_SIMON, Method.COCHRAN_Q):
            tests = [row for row in of_goals if row.method == method]
            p_values = adjusted([row.p_value for row in tests], "holm")
            for row, p_value in zip(tests, p_values, strict=True):
                if p_value is None or p_value >= 1 - self.plan.confidence:
                    continue
                key = (row.metric, row.segment)
                parts = [one for one in of_goals if (one.metric, one.segment, one.method) == (*key, "raw")]
                values = " and ".join(named_values([one._asdict() for one in parts]))
                text = f"{row.metric} depends on {row.segment}: {values} ({p_text(p_value)})"
                texts.setdefault(key, text)
        return list(texts.values())


def sentences(rows: Sequence[ExperimentRow]) -> list[str]:
    """Return the finding of each row as a sentence."""
    return [sentence(row._asdict()) for row in rows]


def analyses(plan: ExperimentPlan, sums: BucketSums) -> Iterator[Analysis]:
    """Yield the analysis of each experiment."""
    return (Analysis(plan, experiment, sums) for experiment in plan.experiments)


def failure_of(decisions: Sequence[DecisionRow]) -> GateFailure | None:
    """Return the failure of a run: experiments that cannot be trusted, gated ones that are lost or blocked.

    >>> failure_of([DecisionRow("home", "b", "loss", "ctr lost", True, False)]) is None
    True
    """
    stopped = (Decision.LOSS, Decision.BLOCKED)
    failed = [row for row in decisions if not row.trusted or (row.gate and row.decision in stopped)]
    if not failed:
        return None
    texts = [f"{row.experiment}, {row.treatment}: {row.decision}: {row.reason}" for row in failed]
    return GateFailure("EXPERIMENT_FAILED", "; ".join(texts))
