"""Slices of users: where the candidate loses, for how many, and which slice is only part of another."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Final, NamedTuple

from spark_eval.accounting import Entry
from spark_eval.comparison.decisions import Evidence, GatedPair, ModelPair, UserCounts
from spark_eval.comparison.matching import Requested, pair_text
from spark_eval.comparison.plan import ComparePlan, SlicePlan
from spark_eval.comparison.results import ComparedCells
from spark_eval.comparison.rows import GateRow, SliceRow, finite_row
from spark_eval.comparison.worker.slices import (
    EVERYBODY,
    N_COMMON,
    N_RARE,
    N_USERS,
    OWN,
    Slice,
    SliceTotals,
    check_values,
    removed_from,
)
from spark_eval.conventions.comparison import Decision, Role, SliceVerdict
from spark_eval.kernels.means import WeightedMean
from spark_eval.kernels.values import MetricValue
from spark_eval.schema import Direction, Outcome, Reason
from spark_eval.statistics.differences import (
    UNMEASURED,
    Estimate,
    MeanSums,
    RatioSums,
    TestResult,
    unpaired,
)
from spark_eval.statistics.exact import POINT_BITS
from spark_eval.statistics.intervals import nearest_double
from spark_eval.statistics.significance import adjusted, t_of_mean, t_test

# A slice without another one is tested at this level, and not adjusted.
LEVEL: Final = 0.05
# Number of users that a standard error needs.
FEWEST: Final = 2
SIGNS: Final = {Direction.HIGHER: 1, Direction.LOWER: -1, Direction.NONE: 0}


@dataclass(frozen=True)
class SliceSums:
    """Sums of the slices of one pair of models (by index) and one metric.

    ``n_amounts`` is the number of amounts of a user: the difference; the difference and the number of rows,
    if users have several; or the four of a weighted mean. ``is_clustered`` if users have several rows.
    ``known`` are the sums that were read, and ``means`` those of all slices, if a user has one amount.
    """

    totals: SliceTotals
    index_of: Mapping[Slice, int]
    pair: int
    metric: int
    n_amounts: int
    is_clustered: bool
    known: dict[Slice, "OneSlice"] = field(default_factory=dict)
    means: dict[str, list[MeanSums]] = field(default_factory=dict)

    def of(self, cell: Slice) -> "OneSlice":
        """Return the sums of a slice."""
        if cell not in self.known:
            self.known[cell] = self.sums(cell, OWN, N_USERS)
        return self.known[cell]

    def without(self, wider: Slice, cell: Slice) -> "OneSlice":
        """Return the sums of a slice without another one that is within it."""
        attributes = [name for name, _ in wider]
        removed: Any = (
            self.sums(cell, removed_from(attributes, ""), removed_from(attributes, N_USERS))
            if self.is_clustered
            else self.of(cell)
        )
        left: OneSlice = self.of(wider) - removed
        return left

    def sums(self, cell: Slice, prefix: str, n_users: str) -> "OneSlice":
        """Return sums by their names."""
        if self.n_amounts == 1:
            if prefix not in self.means:
                self.means[prefix] = self.means_of(prefix, n_users)
            return self.means[prefix][self.index_of[cell]]
        where, indices = (self.index_of[cell], self.pair, self.metric), range(self.n_amounts)
        totals = [self.totals.number(f"{prefix}{one}", where) for one in indices]
        products = [
            [
                self.totals.number(
                    f"{prefix}{min(one, other)}{max(one, other)}",
                    where,
                    2 * POINT_BITS if one == other else POINT_BITS,
                )
                for other in indices
            ]
            for one in indices
        ]
        return RatioSums(self.totals.count(n_users, where), totals, products)

    def means_of(self, prefix: str, n_users: str) -> list[MeanSums]:
        """Return the sums of all slices, where a user has one amount."""
        totals, where, bits = self.totals, (self.pair, self.metric), self.totals.most_bits
        sums = totals.integers(f"{prefix}0", where, POINT_BITS, bits)
        squares = totals.integers(f"{prefix}00", where, 2 * POINT_BITS, 2 * bits)
        n = totals.of((n_users, 0))[:, self.pair, self.metric].tolist()
        return [MeanSums(*of_slice, bits) for of_slice in zip(n, sums, squares, strict=True)]

    def estimate(self, sums: "OneSlice") -> Estimate:
        """Return the mean difference of users."""
        is_ratio = isinstance(sums, RatioSums) and len(sums.totals) == FEWEST
        return sums.combination(Fraction(1)) if is_ratio else sums.estimate


# Sums of one slice.
OneSlice = MeanSums | RatioSums


@dataclass
class TestedSlice:
    """A slice with its sums and tests; ``rest`` is its difference from all other users.

    ``sign`` is 1 if higher values are better, -1 if lower ones are, 0 if neither.
    """

    cell: Slice
    sums: OneSlice
    estimate: Estimate
    test: TestResult
    rest: Estimate
    p_rest: float | None
    contribution: float | None
    sign: int
    p_adjusted: float | None = None
    p_rest_adjusted: float | None = None
    verdict: SliceVerdict = SliceVerdict.OPEN
    role: Role | None = None
    by: Slice | None = None

    @property
    def is_losing(self) -> bool:
        """True if the candidate certainly loses there."""
        return self.verdict is SliceVerdict.LOSES

    def is_within(self, wider: "TestedSlice") -> bool:
        """Return True if this slice has the values of a wider one, and one more."""
        return len(self.cell) == len(wider.cell) + 1 and set(wider.cell).issubset(self.cell)

    def set_role(self, role: Role, other: "TestedSlice") -> None:
        """Make the slice part of another one, or explained by it, unless it is already."""
        if self.role is Role.OWN:
            self.role, self.by = role, other.cell


def slice_text(cell: Slice) -> str:
    """Return a slice as text.

    >>> slice_text((("country", "SE"), ("device", "tv")))
    'country=SE, device=tv'
    """
    return ", ".join(f"{name}={value}" for name, value in cell)


def tested_slices(
    sums: SliceSums, cells: Sequence[Slice], plan: SlicePlan, confidence: float, sign: int
) -> list[TestedSlice]:
    """Return the tested slices of a pair and a metric, with their verdicts and roles."""
    whole = sums.of(EVERYBODY)
    slices = [tested_slice(sums, cell, whole, confidence, sign) for cell in cells]
    p_values = adjusted([one.test.p_value for one in slices], plan.correction)
    of_rest = adjusted([one.p_rest for one in slices], plan.correction)
    for one, p_adjusted, p_rest in zip(slices, p_values, of_rest, strict=True):
        one.p_adjusted, one.p_rest_adjusted = p_adjusted, p_rest
        value = sign * (one.estimate.value or 0)
        if p_adjusted is not None and p_adjusted < 1 - confidence and value:
            one.verdict = SliceVerdict.LOSES if value < 0 else SliceVerdict.WINS
            one.role = Role.OWN if one.is_losing else None
    tell_apart([one for one in slices if one.is_losing], sums)
    return slices


def tested_slice(sums: SliceSums, cell: Slice, whole: OneSlice, confidence: float, sign: int) -> TestedSlice:
    """Return a slice with its tests; p-values are not adjusted yet."""
    own, others = sums.of(cell), sums.without(EVERYBODY, cell)
    estimate = sums.estimate(own)
    rest = welch(sums.estimate(others), others.n, estimate, own.n)
    contribution = None
    if estimate.value is not None:
        contribution = nearest_double(estimate.value * (own.weight / whole.weight))
    _, p_rest = t_of_mean(rest)
    return TestedSlice(cell, own, estimate, t_test(estimate, confidence), rest, p_rest, contribution, sign)


def welch(baseline: Estimate, n_baseline: int, candidate: Estimate, n_candidate: int) -> Estimate:
    """Return the difference of the means of different users; it has no variance with a single one."""
    of_baseline, of_candidate = (
        (None if one.value is None else nearest_double(one.value), one.std_error)
        for one in (baseline, candidate)
    )
    return unpaired(*of_baseline, n_baseline, *of_candidate, n_candidate)


def p_of_loss(estimate: Estimate, sign: int) -> float:
    """Return the one-sided p-value of a loss; without any spread the mean decides, without a mean it is 1."""
    if estimate.value is None or estimate.variance is None:
        return 1.0
    if not estimate.variance:
        return 0.0 if sign * estimate.value < 0 else 1.0
    _, p_value = t_of_mean(estimate, "less" if sign > 0 else "greater")
    return 1.0 if p_value is None else p_value


def tell_apart(losing: Sequence[TestedSlice], sums: SliceSums) -> None:
    """Set the roles of slices that lose: parts of a wider one, and those that a narrower one explains.

    The deepest come first.
    """

    def size(one: TestedSlice) -> float:
        return -abs(one.contribution or 0.0)

    in_order = sorted(losing, key=lambda one: (-len(one.cell), size(one), one.cell))
    for wider in in_order:
        within = [one for one in in_order if one.is_within(wider)]
        for number, one in enumerate(within):
            rest = sums.without(wider.cell, one.cell)
            estimate = sums.estimate(rest)
            if number == 0 and (rest.n < FEWEST or p_of_loss(estimate, one.sign) >= LEVEL):
                wider.set_role(Role.EXPLAINED_BY, one)
                break
            worse = welch(estimate, rest.n, one.estimate, one.sums.n)
            if rest.n < FEWEST or p_of_loss(worse, one.sign) >= LEVEL:
                one.set_role(Role.PART_OF, wider)


class TestedSums(NamedTuple):
    """Sums of the slices of a pair and a metric, and the slices that are tested."""

    sums: SliceSums
    cells: Sequence[Slice]
    min_users: int


# Names of the models, and the metric at its cutoff as text.
PairValue = tuple[ModelPair, str]


@dataclass(frozen=True)
class FoundSlices:
    """Rows of the table ``slices``, the accounting of slices and of their users, and all sums for gates."""

    rows: Sequence[SliceRow]
    entries: Sequence[Entry]
    sums: Mapping[PairValue, TestedSums] = field(default_factory=dict)


def found_slices(
    compared: ComparedCells,
    plan: ComparePlan,
    shown: Requested,
    requested: Requested,
    run: str | None,
    conventions: str,
) -> FoundSlices:
    """Return the slices of the shown pairs and metrics; none unless the plan asks for them.

    Raises:
        DataError: TOO_MANY_SEGMENTS for an attribute with too many values.
    """
    if plan.slices is None or compared.slices is None or compared.task is None:
        return FoundSlices([], [])
    chosen, task = plan.slices, compared.task
    totals = SliceTotals.together([compared.slices], compared.slices.shape)
    index_of = {cell: index for index, cell in enumerate(totals.cells)}
    for name in chosen.of:
        check_values(name, sum(len(cell) == 1 and cell[0][0] == name for cell in index_of))
    order = {name: index for index, name in enumerate(chosen.of)}
    in_order = sorted(index_of, key=lambda cell: (len(cell), [order[name] for name, _ in cell], cell))
    by_rows = task.has_clusters and task.slices is not None and not task.slices.by_means
    rows: list[SliceRow] = []
    entries: list[Entry] = []
    of_gates: dict[PairValue, TestedSums] = {}
    shown_values = set(map(str, shown.list_metrics))
    for number, pair in enumerate(requested.pairs):
        n_common = {cell: totals.count(N_COMMON, (index_of[cell], number, 0)) for cell in in_order}
        cells = [cell for cell, n in n_common.items() if cell and n >= chosen.min_users]
        left = rows_in_no_slice(totals, number, set(cells))
        n_rows, is_shown = int(compared.counts.rows[number, 2]), pair in shown.pairs
        entries += slice_entries(pair, n_common, len(cells), n_rows, left) if is_shown else ()
        for value in requested.list_metrics:
            metric, n_amounts = task.columns.index(value.column), 2 if by_rows else 1
            if isinstance(value, WeightedMean):
                metric = len(task.columns) + task.weighted.index((value.column, value.weight))
                n_amounts = 4
            sums = SliceSums(totals, index_of, number, metric, n_amounts, task.has_clusters)
            of_gates[pair, str(value)] = TestedSums(sums, cells, chosen.min_users)
            if not is_shown or str(value) not in shown_values:
                continue
            tested = tested_slices(sums, cells, chosen, plan.confidence, SIGNS[value.metric.direction])
            for row in slice_rows(tested, pair, value, chosen):
                stamped = row._replace(confidence=plan.confidence, baseline_run=run, conventions=conventions)
                rows.append(finite_row(stamped))
    return FoundSlices(rows, entries, of_gates)


@dataclass(frozen=True)
class SliceEvidence(Evidence):
    """Evidence for a gate of every slice: that of the worst one, and how many slices fail.

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
        if sums.n_amounts > FEWEST
        else own.combination(of_candidate, amount=amount)
    )
    value = sums.estimate(own).value
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


def slice_rows(
    slices: Sequence[TestedSlice], pair: ModelPair, value: MetricValue, plan: SlicePlan
) -> Iterator[SliceRow]:
    """Yield the rows of the tested slices of a pair and a metric."""
    family_size = sum(one.test.p_value is not None for one in slices)
    for one in slices:
        difference, rest = (
            None if of.value is None else nearest_double(of.value) for of in (one.estimate, one.rest)
        )
        yield SliceRow(
            baseline=pair[0],
            candidate=pair[1],
            metric=value.name,
            k=value.k,
            attributes=[name for name, _ in one.cell],
            values=[text for _, text in one.cell],
            n_users=one.sums.n,
            difference=difference,
            std_error=one.estimate.std_error,
            **one.test._asdict(),
            p_adjusted=one.p_adjusted,
            family_size=family_size,
            contribution=one.contribution,
            rest_difference=rest,
            p_rest=one.p_rest,
            p_rest_adjusted=one.p_rest_adjusted,
            verdict=str(one.verdict),
            role=None if one.role is None else str(one.role),
            by=None if one.by is None else slice_text(one.by),
            min_users=plan.min_users,
            correction=str(plan.correction),
        )


def rows_in_no_slice(totals: SliceTotals, pair: int, tested: set[Slice]) -> int:
    """Return the number of a pair's rows whose users are in no tested slice."""
    left = [index for index, cell in enumerate(totals.cells) if not any((one,) in tested for one in cell)]
    return int(totals.of((N_RARE, 0))[left, pair, 0].sum())


def slice_entries(
    pair: ModelPair, n_common: Mapping[Slice, int], n_tested: int, n_rows: int, n_left: int
) -> Iterator[Entry]:
    """Yield the accounting of a pair: slices below the minimum, and rows of users in no tested slice."""
    name, n_slices = pair_text(pair), sum(n > 0 for cell, n in n_common.items() if cell)
    sources = (("slices", n_slices, n_slices - n_tested), ("rows in slices", n_rows, n_left))
    for source, n_in, n_dropped in sources:
        yield Entry(source, name, Outcome.IN, None, n_in, None)
        yield Entry(source, name, Outcome.USED, None, n_in - n_dropped, None)
        if n_dropped:
            yield Entry(source, name, Outcome.DROPPED, Reason.BELOW_MIN_USERS, n_dropped, None)
