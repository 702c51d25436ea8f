"""Comparison of published runs: the models to compare, and the evidence for each gate."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql import SparkSession

from spark_eval.accounting import Entry
from spark_eval.comparison.compare import Comparison, compare_sides
from spark_eval.comparison.decisions import Evidence
from spark_eval.comparison.gates import Pairing
from spark_eval.comparison.gating import (
    GatedPair,
    decide_pairs,
    evidence_of_means,
    evidence_of_users,
    gated_pairs,
)
from spark_eval.comparison.matching import check_conventions, check_digests
from spark_eval.comparison.plan import ComparePlan
from spark_eval.comparison.rows import ComparisonRow, GateRow
from spark_eval.comparison.sides import Side
from spark_eval.config.sections import Baseline
from spark_eval.errors import DataError
from spark_eval.publishing.attempt import Store
from spark_eval.runs.measured import MeasuredRun, known_runs


@dataclass
class PublishedPair:
    """A candidate's run and the runs to compare it with.

    ``runs`` maps ids to runs, with None as the id of the candidate's; a missing run is None. ``baseline`` is
    used for all comparisons without one of their own; if None, only gates request comparisons.
    """

    spark: SparkSession
    runs: Mapping[str | None, MeasuredRun | None]
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
    ) -> "PublishedPair":
        """Read the records of these runs, the candidate's first.

        Raises DataError UNKNOWN_RUN if the candidate's is missing, MISSING_BASELINE if another one is missing
        and no gate handles it.
        """
        measured: dict[str | None, MeasuredRun | None] = {run: MeasuredRun.of(store, run) for run in runs}
        awaited = {gate.against_run for gate in plan.gates}
        for run in runs:
            if measured[run] is None and (run == runs[0] or run not in awaited):
                code = "UNKNOWN_RUN" if run == runs[0] else "MISSING_BASELINE"
                raise DataError(code, f"no run {run!r} of evaluate; {known_runs(store, run)}")
        return cls(spark, {**measured, None: measured[runs[0]]}, plan, baseline)

    def __post_init__(self) -> None:
        self.sides: dict[str | None, Side] = {}
        self.compared: dict[str | None, Comparison] = {}
        self.pairs = [
            pair
            for gate in self.plan.gates
            for pair in gated_pairs(
                gate, self.run(None).models, self.models(gate.against_run), self.hint(gate.against_run)
            )
        ]

    def hint(self, run: str | None) -> str:
        """Return a note with the known runs if a run is missing, else an empty text."""
        if self.runs[run] is not None:
            return ""
        own = self.run(None)
        known = known_runs(own.store, str(run), but=own.record.run_id)
        return f"that run is not there; {known}"

    def models(self, run: str | None) -> Sequence[str] | None:
        """Return the models of a run, None if it is missing."""
        measured = self.runs[run]
        return None if measured is None else measured.models

    def run(self, run: str | None) -> MeasuredRun:
        """Return a run that must not be missing."""
        measured = self.runs[run]
        assert measured is not None
        return measured

    @cached_property
    def main(self) -> Comparison | None:
        """The comparison that section ``compare`` requests; None if only gates request comparisons.

        It is also None if gates tolerate the missing baseline, if no gate on this baseline pairs users, or if
        gates are given and the candidate has no metric per user.
        """
        if self.baseline is None:
            return None
        run, model = self.baseline.run, self.baseline.model
        pairings = {pair.gate.pairing for pair in self.pairs if pair.gate.against_run == run}
        if pairings == {Pairing.NONE} or (self.pairs and not self.side(None).metrics):
            return None
        known = self.models(run) or []
        is_there = bool(set(known) & set(self.run(None).models)) if model is None else model in known
        if not is_there and any(not pair.is_there and pair.gate.against_run == run for pair in self.pairs):
            return None
        return self.compare(run, model, self.plan)

    @property
    def rows(self) -> Sequence[ComparisonRow]:
        """The rows of ``comparisons``."""
        return [] if self.main is None else self.main.rows

    @property
    def entries(self) -> list[Entry]:
        """The distinct rows of ``accounting`` of all comparisons."""
        comparisons = [self.main, *self.compared.values()]
        return list(dict.fromkeys(entry for one in comparisons if one is not None for entry in one.entries))

    def compare(self, run: str | None, model: str | None, plan: ComparePlan) -> Comparison:
        """Compare the candidate's models with those of a run, including the sums that its gates need."""
        gates = tuple(gate for gate in plan.gates if gate.against_run == run)
        baseline = None if run is None else self.side(run)
        return compare_sides(self.side(None), baseline, replace(plan, gates=gates), model)

    def side(self, run: str | None) -> Side:
        """Return the per-user table of a run with its attributes; each run is read once."""
        if run not in self.sides:
            self.sides[run] = self.run(run).side(self.spark)
        return self.sides[run]

    def gate_rows(self) -> list[GateRow]:
        """Return the rows of ``gates``, those without a baseline last."""
        return decide_pairs(self.pairs, self.evidence)

    def evidence(self, pair: GatedPair) -> Iterator[Evidence]:
        """Yield the evidence for the gate of a pair, from users of both models or from published means."""
        gate = pair.gate
        if gate.sees_users:
            comparison = self.comparison_for(pair)
            return evidence_of_users(pair, comparison.sums, comparison.common)
        candidate, baseline = self.run(None), self.run(gate.against_run)
        check_conventions(candidate.conventions, baseline.conventions, [gate.value])
        if gate.pairing is Pairing.USER:
            check_digests(candidate.truth_digest, baseline.truth_digest)
        return evidence_of_means(pair, baseline.means(), candidate.means())

    def comparison_for(self, pair: GatedPair) -> Comparison:
        """Return the comparison with the sums of a gate: the main one, or one for all gates of a run."""
        run = pair.gate.against_run
        if self.baseline is not None and self.baseline.run == run and self.main is not None:
            return self.main
        if run not in self.compared:
            only = replace(
                self.plan,
                models=(pair.model,),
                metrics=(str(pair.gate.value),),
                segments=(),
                tests=(),
                equivalence=None,
            )
            self.compared[run] = self.compare(run, pair.against, only)
        return self.compared[run]
