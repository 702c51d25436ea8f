"""Published runs side by side: which models are compared, and what each gate is decided by."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql import SparkSession

from spark_eval.accounting import Entry
from spark_eval.comparing.decisions import Evidence, decide_all, without_baseline
from spark_eval.comparing.gates import Gate, Pairing
from spark_eval.comparing.gating import (
    GatedPair,
    MeanCell,
    evidence_of_means,
    evidence_of_users,
    gated_pairs,
)
from spark_eval.comparing.options import ComparePlan
from spark_eval.comparing.rows import ComparisonRow, GateRow
from spark_eval.config.comparing import Baseline
from spark_eval.errors import DataError
from spark_eval.publishing.attempt import Store
from spark_eval.runs.measured import MeasuredRun, known_runs
from spark_eval.schema import ALL
from spark_eval.stats.intervals import Summary
from spark_eval.verbs.compare import Comparison, Side, compare_sides


@dataclass
class SideBySide:
    """A candidate's run beside those that it is compared with; None stands for a run that is not there.

    ``baseline`` is what models are compared with unless gates say otherwise, None: nothing.
    """

    spark: SparkSession
    candidate: MeasuredRun
    others: Mapping[str, MeasuredRun | None]
    plan: ComparePlan
    baseline: Baseline | None

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        store: Store,
        runs: Sequence[str],
        plan: ComparePlan,
        baseline: Baseline | None,
    ) -> "SideBySide":
        """Read the records of these runs, the candidate's first.

        Raises DataError UNKNOWN_RUN for the candidate's; MISSING_BASELINE for another one, unless there are
        gates that decide what is to happen then.
        """
        first, *others = runs
        candidate = MeasuredRun.of(store, first)
        if candidate is None:
            raise DataError("UNKNOWN_RUN", f"no run {first!r} of evaluate; {known_runs(store, first)}")
        found = {run: MeasuredRun.of(store, run) for run in others}
        for run in others:
            if found[run] is None and not any(gate.against_run == run for gate in plan.gates):
                raise DataError("MISSING_BASELINE", f"no run {run!r} of evaluate; {known_runs(store, run)}")
        return cls(spark, candidate, found, plan, baseline)

    def __post_init__(self) -> None:
        self.sides: dict[str | None, Side] = {}
        self.compared: dict[tuple[str | None, str | None], Comparison] = {}

    @cached_property
    def main(self) -> Comparison | None:
        """What the section ``compare`` asks for; None where its baseline is not there."""
        if self.baseline is None:
            return None
        run, model = self.baseline.run, self.baseline.model
        if run is not None and self.others[run] is None:
            return None
        return self.compare(run, model, self.plan)

    @property
    def rows(self) -> Sequence[ComparisonRow]:
        """The rows of ``comparisons``."""
        return [] if self.main is None else self.main.rows

    @property
    def entries(self) -> list[Entry]:
        """The rows of ``accounting``: of all that was compared, once."""
        comparisons = [self.main, *self.compared.values()]
        return list(dict.fromkeys(entry for one in comparisons if one is not None for entry in one.entries))

    def compare(self, run: str | None, model: str | None, plan: ComparePlan) -> Comparison:
        """Compare the candidate's models with those of a run."""
        candidate, baseline = self.side(None), None if run is None else self.side(run)
        return compare_sides(candidate, baseline, replace(plan, gates=()), model)

    def side(self, run: str | None) -> Side:
        """Return the users of a run; None is the candidate's."""
        if run not in self.sides:
            measured = self.candidate if run is None else self.others[run]
            assert measured is not None
            self.sides[run] = measured.side(self.spark)
        return self.sides[run]

    def means(self, run: str | None) -> Mapping[MeanCell, Summary]:
        """Return the published means of a run; None is the candidate's."""
        measured = self.candidate if run is None else self.others[run]
        return {} if measured is None else measured.means(self.spark)

    def gate_rows(self) -> list[GateRow]:
        """Return the rows of ``gates``, those without a baseline last."""
        evidence, without = list[Evidence](), list[GatedPair]()
        for gate in self.plan.gates:
            pairs = gated_pairs(gate, self.candidate.models, self.baseline_models(gate))
            there = [pair for pair in pairs if pair.is_there]
            without += [pair for pair in pairs if not pair.is_there]
            if there:
                evidence += self.evidence(gate, there)
        return [*decide_all(evidence), *(without_baseline(pair.gate, pair.model) for pair in without)]

    def baseline_models(self, gate: Gate) -> Sequence[str] | None:
        """Return the models that a gate's baseline may be, None where its run is not there."""
        run = self.candidate if gate.against_run is None else self.others[gate.against_run]
        return None if run is None else run.models

    def evidence(self, gate: Gate, pairs: Sequence[GatedPair]) -> Sequence[Evidence]:
        """Return what a gate is decided by: the users of both runs, or published means."""
        if gate.is_weighted or gate.pairing is Pairing.NONE:
            return list(evidence_of_means(pairs, self.means(gate.against_run), self.means(None)))
        comparison = self.comparison_of(gate)
        return list(evidence_of_users(pairs, comparison.sums, comparison.common))

    def comparison_of(self, gate: Gate) -> Comparison:
        """Return the comparison that has a gate's sums: that of ``compare``, or one for all such gates."""
        place = (gate.against_run, gate.against_model)
        if self.baseline is not None and place == (self.baseline.run, self.baseline.model):
            known = {(metric, segment) for _, metric, segment, _ in self.main.sums} if self.main else set()
            if self.plan.models is None and (str(gate.value), gate.segment) in known:
                assert self.main is not None
                return self.main
        if place not in self.compared:
            self.compared[place] = self.compare(*place, self.plan_of(place))
        return self.compared[place]

    def plan_of(self, place: tuple[str | None, str | None]) -> ComparePlan:
        """Return the plan of what the gates of a baseline need."""
        gates = [gate for gate in self.plan.gates if place == (gate.against_run, gate.against_model)]
        paired = [gate for gate in gates if not gate.is_weighted and gate.pairing is Pairing.USER]
        models = None if any(gate.model is None for gate in paired) else [str(gate.model) for gate in paired]
        return replace(
            self.plan,
            models=models and list(dict.fromkeys(models)),
            metrics=list(dict.fromkeys(str(gate.value) for gate in paired)),
            segments=list(dict.fromkeys(gate.segment for gate in paired if gate.segment != ALL)),
            tests=("t",),
            equivalence=None,
        )
