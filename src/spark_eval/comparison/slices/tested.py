"""Slices of users: where the candidate loses, for how many, and which slice is only part of another."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from spark_eval.accounting import Entry
from spark_eval.comparison.decisions import ModelPair
from spark_eval.comparison.matching import Requested, pair_text
from spark_eval.comparison.plan import ComparePlan, SlicePlan
from spark_eval.comparison.results import ComparedCells
from spark_eval.comparison.rows import SliceRow, finite_row
from spark_eval.comparison.slices.sums import (
    OneSlice,
    PairSlices,
    SlicedTable,
    dropped_entries,
    estimate_of,
)
from spark_eval.comparison.worker.slices import (
    EVERYBODY,
    Slice,
)
from spark_eval.conventions.comparison import Role, SliceVerdict
from spark_eval.kernels.values import MetricValue
from spark_eval.schema import Direction
from spark_eval.statistics.differences import (
    Estimate,
    TestResult,
    unpaired,
)
from spark_eval.statistics.intervals import nearest_double
from spark_eval.statistics.significance import adjusted, t_of_mean, t_test

# A slice without another one is tested at this level, and not adjusted.
LEVEL: Final = 0.05

SIGNS: Final = {Direction.HIGHER: 1, Direction.LOWER: -1, Direction.NONE: 0}


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
    sums: PairSlices, cells: Sequence[Slice], plan: SlicePlan, confidence: float, sign: int
) -> list[TestedSlice]:
    """Return the tested slices of a pair and a metric, with their verdicts and roles."""
    whole = sums.of(EVERYBODY)
    slices = [tested_slice(sums, cell, whole, confidence, sign) for cell in cells]
    p_values = adjusted([one.test.p_value for one in slices], plan.correction)
    p_of_rest = adjusted([one.p_rest for one in slices], plan.correction)
    for one, p_adjusted, p_rest in zip(slices, p_values, p_of_rest, strict=True):
        one.p_adjusted, one.p_rest_adjusted = p_adjusted, p_rest
        value = sign * (one.estimate.value or 0)
        if p_adjusted is not None and p_adjusted < 1 - confidence and value:
            one.verdict = SliceVerdict.LOSES if value < 0 else SliceVerdict.WINS
            one.role = Role.OWN if one.is_losing else None
    tell_apart([one for one in slices if one.is_losing], sums)
    return slices


def tested_slice(sums: PairSlices, cell: Slice, whole: OneSlice, confidence: float, sign: int) -> TestedSlice:
    """Return a slice with its tests; p-values are not adjusted yet."""
    inside, outside = sums.of(cell), sums.without(EVERYBODY, cell)
    estimate = estimate_of(inside)
    rest = welch(estimate_of(outside), outside.n, estimate, inside.n)
    contribution = None
    if estimate.value is not None:
        contribution = nearest_double(estimate.value * (inside.weight / whole.weight))
    _, p_rest = t_of_mean(rest)
    return TestedSlice(cell, inside, estimate, t_test(estimate, confidence), rest, p_rest, contribution, sign)


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


def tell_apart(losing: Sequence[TestedSlice], sums: PairSlices) -> None:
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
            estimate = estimate_of(rest)
            if number == 0 and p_of_loss(estimate, one.sign) >= LEVEL:
                wider.set_role(Role.EXPLAINED_BY, one)
                break
            worse = welch(estimate, rest.n, one.estimate, one.sums.n)
            if p_of_loss(worse, one.sign) >= LEVEL:
                one.set_role(Role.PART_OF, wider)


class TestedSums(NamedTuple):
    """Sums of the slices of a pair and a metric, and the slices that are tested."""

    sums: PairSlices
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
    tables = SlicedTable.tables_of(compared)
    if plan.slices is None or None not in tables:
        return FoundSlices([], [])
    for table in tables.values():
        table.check_values()
    rows: list[SliceRow] = []
    entries: list[Entry] = []
    gated: dict[PairValue, TestedSums] = {}
    shown_values = set(map(str, shown.list_metrics))
    item_segments = [segment for segment in tables if segment is not None]
    for number, pair in enumerate(requested.pairs):
        cells, entries_of_pair = cells_of_pair(tables, number, pair, plan.slices)
        entries += entries_of_pair if pair in shown.pairs else ()
        for value in requested.list_metrics:
            by_table = {of: sums for of, table in tables.items() if (sums := table.sums(number, value))}
            sums_of_pair = PairSlices(by_table, item_segments)
            tested = TestedSums(sums_of_pair, list(filter(sums_of_pair.has, cells)), plan.slices.min_users)
            gated[pair, str(value)] = tested
            if pair in shown.pairs and str(value) in shown_values:
                for row in slice_rows(tested, pair, value, plan):
                    rows.append(finite_row(row._replace(baseline_run=run, conventions=conventions)))
    return FoundSlices(rows, entries, gated)


def cells_of_pair(
    tables: Mapping[str | None, SlicedTable], number: int, pair: ModelPair, plan: SlicePlan
) -> tuple[list[Slice], list[Entry]]:
    """Return the slices of a pair with users enough, single attributes first, and the accounting of all."""
    order = {name: index for index, name in enumerate(plan.of)}
    n_common = {cell: n for table in tables.values() for cell, n in table.n_common(number).items() if n}
    in_order = sorted(n_common, key=lambda cell: (len(cell), [order[name] for name, _ in cell], cell))
    tested = [cell for cell in in_order if cell and n_common[cell] >= plan.min_users]
    name, n_slices = pair_text(pair), sum(map(bool, in_order))
    entries = [*dropped_entries("slices", name, n_slices, n_slices - len(tested))]
    for table in tables.values():
        entries += table.entries(number, name, set(tested))
    return tested, entries


def slice_rows(
    tested: TestedSums, pair: ModelPair, value: MetricValue, plan: ComparePlan
) -> Iterator[SliceRow]:
    """Yield the rows of the tested slices of a pair and a metric."""
    if plan.slices is None:
        return
    chosen, sign = plan.slices, SIGNS[value.metric.direction]
    slices = tested_slices(tested.sums, tested.cells, chosen, plan.confidence, sign)
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
            min_users=chosen.min_users,
            correction=str(chosen.correction),
            confidence=plan.confidence,
        )
