"""Gates of every slice: the evidence of the worst one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from spark_eval.comparison.decisions import Evidence, GatedPair, ModelPair, UserCounts
from spark_eval.comparison.rows import GateRow
from spark_eval.comparison.slices.sums import FEWEST, estimate_of
from spark_eval.comparison.slices.tested import PairValue, TestedSums, slice_text
from spark_eval.comparison.worker.slices import (
    Slice,
)
from spark_eval.conventions.comparison import Decision
from spark_eval.statistics.differences import (
    UNMEASURED,
)
from spark_eval.statistics.intervals import nearest_double
from spark_eval.statistics.significance import adjusted


@dataclass(frozen=True)
class SliceEvidence(Evidence):
    """Evidence for a gate of every slice: its worst slice, and how many slices fail.

    ``p_of_slices`` is the p-value of the worst slice, by Holm over all tested slices.
    """

    p_of_slices: float | None
    difference: float | None
    n_tested: int
    n_failing: int

    @property
    def p_worse(self) -> float | None:
        """One-sided p-value of a fall in any slice."""
        return self.p_of_slices

    def row(self, p_adjusted: float | None) -> GateRow:
        """Return the row of the table ``gates``: its segment value is the worst slice."""
        return super().row(p_adjusted)._replace(segment="slices", difference=self.difference)

    def reason(self, decision: Decision) -> str:
        """Return the number of slices that fail."""
        of = f"of {self.n_tested:,} tested slices"
        if decision is Decision.WORSE:
            return f"{self.n_failing:,} {of} certainly fall by more than max_drop; the worst is named"
        return f"none {of} certainly falls by more than max_drop; the worst is named"


def evidence_of_slices(
    pair: GatedPair, sums: Mapping[PairValue, TestedSums], common: Mapping[ModelPair, UserCounts]
) -> Iterator[SliceEvidence]:
    """Yield the evidence for a gate of every slice."""
    n_baseline, n_candidate, n_both = common[pair.names]
    tested, share = sums[pair.names, str(pair.gate.value)], n_both / max(n_baseline + n_candidate - n_both, 1)
    of_cells = [evidence_of_slice(pair, tested, cell, share) for cell in tested.cells]
    p_values = adjusted([one.p_of_slices for one in of_cells], "holm")
    failing = [
        one.decision(p_value) is Decision.WORSE for one, p_value in zip(of_cells, p_values, strict=True)
    ]
    if not of_cells:
        nothing = UNMEASURED
        yield SliceEvidence(
            pair.gate, pair.candidate, "slices", None, None, nothing, 0, share, None, None, 0, 0
        )
        return

    def order(number: int) -> tuple[bool, float, float]:
        p_value, value = p_values[number], of_cells[number].estimate.value
        return not failing[number], 1.0 if p_value is None else p_value, float(value or 0)

    worst = min(range(len(of_cells)), key=order)
    yield replace(
        of_cells[worst], p_of_slices=p_values[worst], n_tested=len(of_cells), n_failing=sum(failing)
    )


def evidence_of_slice(pair: GatedPair, tested: TestedSums, cell: Slice, share: float) -> SliceEvidence:
    """Return the evidence for the gate in one slice; its p-value is not adjusted yet."""
    sums, (of_baseline, of_candidate) = tested.sums, pair.gate.factors(None)
    own = sums.of(cell)
    amount = pair.gate.amount
    margin = (
        own.combination(of_baseline, of_candidate, amount=amount)
        if sums.of_users.n_amounts > FEWEST
        else own.combination(of_candidate, amount=amount)
    )
    value = estimate_of(own).value
    evidence = SliceEvidence(
        gate=replace(pair.gate, min_users=min(tested.min_users, own.n)),
        model=pair.candidate,
        segment_value=slice_text(cell),
        baseline=None,
        candidate=None,
        estimate=margin,
        n_users=own.n,
        common=share,
        p_of_slices=None,
        difference=None if value is None else nearest_double(value),
        n_tested=0,
        n_failing=0,
    )
    return replace(evidence, p_of_slices=evidence.p_of_margin)
