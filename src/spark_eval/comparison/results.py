"""Tests from the sums of pairs, with adjusted p-values: the rows of ``comparisons``."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby, product
from statistics import mean
from typing import Any, Final

from spark_eval.comparison.decisions import ModelPair, PairCell
from spark_eval.comparison.matching import Requested
from spark_eval.comparison.plan import ComparePlan
from spark_eval.comparison.rows import ComparedValue, ComparisonRow, finite_row
from spark_eval.comparison.worker.slices import SliceTotals
from spark_eval.comparison.worker.sums import (
    N_COMMON,
    N_DIFFERING,
    BucketTotals,
    cluster_sums,
    pair_sums,
    ratio_sums,
)
from spark_eval.conventions.comparison import Interval, PairTest, Question
from spark_eval.kernels.means import WeightedMean
from spark_eval.kernels.values import MetricValue
from spark_eval.predictions.values import PredictionValue
from spark_eval.results.sentences import OF_REPEATS
from spark_eval.schema import ALL, FOLD, FOLDS, Direction
from spark_eval.statistics.differences import (
    UNTESTED,
    ComparedSums,
    Estimate,
    PairSums,
    TestResult,
    over_folds,
)
from spark_eval.statistics.intervals import nearest_double
from spark_eval.statistics.ranked import RankSums, wilcoxon
from spark_eval.statistics.resampling import Replicates, bca_interval, percentile_interval
from spark_eval.statistics.significance import (
    adjusted,
    effect_size,
    minimal_detectable_effect,
    relative_change,
    sign_test,
    t_test,
    tost,
    users_and_repeats_needed,
)
from spark_eval.users.cells import EVERYBODY, SegmentValue
from spark_eval.users.population import ComparisonTask, PairCounts

TOST: Final = "tost"
# Counts of users and requests, which are added up over folds.
COUNTS: Final = (
    *("n_users", "n_undefined", "wins", "ties", "losses"),
    *("n_requests", "user_wins", "user_ties", "user_losses"),
)


@dataclass(frozen=True)
class ComparedCell:
    """Results of one pair of models in one metric, over the users of a segment value.

    ``n_common`` is the number of rows of both models, ``n_users_differing`` that of users whose rows differ
    in sum, if a test needs it. ``index`` is (cell, pair, column) in the totals, ``mean`` the index of a
    weighted mean. ``sums`` are over rows.

    Estimates use ``of_users``: the same sums, or sums by user if users have rows in several folds, or the
    sums of weighted means. With lists by request, ``of_requests`` are sums over these, and ``of_means`` over
    the users' means, which sign test and Wilcoxon's take. ``ranks``, ``flipped`` (a p-value), ``replicates``
    and ``acceleration`` are set if a test needs them. ``n_repeats`` are those of baseline and candidate, None
    without repeats.
    """

    models: ModelPair
    value: ComparedValue
    segment: str
    segment_value: str
    sums: PairSums
    n_common: int
    index: tuple[int, int, int]
    of_users: ComparedSums
    n_users_differing: int
    mean: int | None = None
    of_requests: PairSums | None = None
    of_means: PairSums | None = None
    ranks: RankSums | None = None
    flipped: float | None = None
    replicates: Replicates | None = None
    acceleration: float = 0.0
    question: Question = Question.ARTEFACT
    n_repeats: tuple[int, int] | None = None

    @property
    def key(self) -> PairCell:
        """Pair, metric, segment and segment value."""
        return self.models, str(self.value), self.segment, self.segment_value

    @property
    def n_differing(self) -> int:
        """Number of rows with a nonzero difference."""
        return self.sums.greater + self.sums.less

    @cached_property
    def estimate(self) -> Estimate:
        """Mean difference, with its standard error by user."""
        return self.of_users.estimate

    @property
    def has_effect_size(self) -> bool:
        """True if the value is a mean of users' values."""
        return not isinstance(self.value, WeightedMean | PredictionValue)

    @property
    def means(self) -> tuple[float, float] | None:
        """Means of the baseline and of the candidate; None if undefined."""
        means = self.of_users.means
        return None if means is None else (nearest_double(means[0]), nearest_double(means[1]))

    def tested(self, test: str, plan: ComparePlan) -> TestResult:
        """Return the result of a test."""
        sums = self.of_means or self.sums
        match test:
            case PairTest.T:
                return t_test(self.estimate, plan.confidence, plan.alternative)
            case PairTest.SIGN:
                return sign_test(sums.greater, sums.less, plan.alternative) if sums.n else UNTESTED
            case PairTest.WILCOXON if self.ranks is not None:
                zeros = sums.n - sums.greater - sums.less
                return wilcoxon(zeros, self.ranks, plan.zeros, plan.alternative)
            case PairTest.RANDOMIZATION:
                value = self.estimate.value
                statistic = None if value is None else nearest_double(value)
                return TestResult(statistic, self.flipped, None, None)
            case PairTest.BOOTSTRAP:
                return TestResult(None, None, *percentile_interval(self.replicates, plan.confidence))
            case PairTest.BCA:
                ends = bca_interval(self.replicates, self.acceleration, plan.confidence)
                return TestResult(None, None, *ends)
            case _ if plan.equivalence is not None:
                return tost(self.estimate, plan.equivalence, plan.confidence)
        return UNTESTED

    def rows(self, plan: ComparePlan) -> Iterator[ComparisonRow]:
        """Yield a row per test, with p-values that are not adjusted yet."""
        tests = (*plan.tests, *([TOST] if plan.equivalence is not None else []))
        results = {test: self.tested(test, plan) for test in dict.fromkeys((*tests, plan.interval))}
        untested = self.untested(plan)
        for test in tests:
            has_own = test in set(Interval) or test == TOST
            interval = results[test if has_own else plan.interval]
            result = results[test]._replace(ci_low=interval.ci_low, ci_high=interval.ci_high)
            yield finite_row(untested._replace(test=str(test), **result._asdict()))

    def untested(self, plan: ComparePlan) -> ComparisonRow:
        """Return a row with the values that all tests share."""
        sums, estimate = self.sums, self.estimate
        relative, relative_error = relative_change(self.of_users)
        baseline, candidate = self.means or (None, None)
        is_lower = self.value.metric.direction is Direction.LOWER
        rows, means = self.of_requests or sums, self.of_means
        wins, losses = (rows.less, rows.greater) if is_lower else (rows.greater, rows.less)
        of_users: dict[str, Any] = {}
        if self.of_requests is not None:
            of_users = {"n_requests": rows.n}
        if means is not None:
            better, worse = (means.less, means.greater) if is_lower else (means.greater, means.less)
            of_users |= {"n_requests": rows.n, "user_wins": better, "user_losses": worse}
            of_users["user_ties"] = means.n - better - worse
        row = ComparisonRow(
            baseline=self.models[0],
            candidate=self.models[1],
            metric=self.value.name,
            k=self.value.k,
            segment=self.segment,
            segment_value=self.segment_value,
            n_users=sums.n if self.of_requests is None else self.of_users.n,
            n_undefined=self.n_common - sums.n,
            baseline_value=baseline,
            candidate_value=candidate,
            difference=None if estimate.value is None else nearest_double(estimate.value),
            std_error=estimate.std_error,
            wins=wins,
            ties=rows.n - wins - losses,
            losses=losses,
            relative=relative,
            relative_std_error=relative_error,
            effect_size=effect_size(sums) if self.has_effect_size else None,
            mde=minimal_detectable_effect(estimate, plan.confidence),
            question=str(self.question),
            **self.of_repeats(plan),
            **of_users,
        )
        return finite_row(row)

    def of_repeats(self, plan: ComparePlan) -> dict[str, Any]:
        """Return the columns of a row that are about repeats; none without repeats."""
        if self.n_repeats is None:
            return {}
        columns: dict[str, Any] = dict(zip(OF_REPEATS, self.n_repeats, strict=True))
        estimate = self.estimate
        if estimate.parts is not None and estimate.value is not None:
            effect, level = abs(float(estimate.value)), (1 + plan.confidence) / 2
            needed = users_and_repeats_needed(estimate.parts, effect, level)
            columns |= dict(zip(("users_needed", "repeats_needed"), needed, strict=True))
        return columns


@dataclass(frozen=True)
class ComparedCells:
    """Cells of all pairs, those of the rows of ``comparisons``, users of each pair, and moved segments.

    ``slices`` are the sums of slices of a ``task`` that asks for them. ``of_items`` are the cells found for
    each segment of items.
    """

    cells: dict[PairCell, ComparedCell]
    of_rows: list[ComparedCell]
    counts: PairCounts
    moved: Sequence[str] = ()
    slices: SliceTotals | None = None
    task: ComparisonTask | None = None
    of_items: Mapping[str, "ComparedCells"] = field(default_factory=dict)

    def with_items(self, of_items: Mapping[str, "ComparedCells"]) -> "ComparedCells":
        """Return the cells, and those by segment of items; rows stay in the order of pairs and metrics."""
        cells, of_rows = dict(self.cells), list(self.of_rows)
        for name, of_name in of_items.items():
            cells |= {key: cell for key, cell in of_name.cells.items() if cell.segment == name}
            of_rows += [cell for cell in of_name.of_rows if cell.segment == name]
        order = {(cell.models, str(cell.value)): index for index, cell in reversed([*enumerate(of_rows)])}
        of_rows.sort(key=lambda cell: order[cell.models, str(cell.value)])
        return replace(self, cells=cells, of_rows=of_rows, of_items=of_items)


def cells_of_rows(cells: dict[PairCell, ComparedCell], shown: Requested) -> list[ComparedCell]:
    """Return the cells that have rows of ``comparisons``; others are of gates alone."""
    pairs, segments, names = set(shown.pairs), {ALL, FOLD, *shown.segments}, set(map(str, shown.metrics))
    return [
        cell
        for cell in cells.values()
        if cell.models in pairs and cell.segment in segments and str(cell.value) in names
    ]


def cells_of_pairs(
    totals: BucketTotals,
    pairs: Sequence[ModelPair],
    values: Sequence[MetricValue],
    task: ComparisonTask,
) -> dict[PairCell, ComparedCell]:
    """Return all cells of the pairs, by pair, metric, segment and segment value.

    For each pair and metric all users come first, then the segment values.
    """
    parts = (totals.totals, totals.clusters, totals.ratios)
    rows, clusters, ratios = ({cell: n for n, cell in enumerate(part.cells)} for part in parts)
    segment_values = [cell for cell in rows if cell[0] in (ALL, *task.segments)]
    cells = {}
    in_order = product(enumerate(pairs), values, sorted(segment_values, key=cell_order))
    for (pair, models), value, cell in in_order:
        column = task.columns.index(value.column)
        index = (rows[cell], pair, column)
        of_users: ComparedSums
        of_users, mean = (sums := pair_sums(totals.totals, index)), None
        n_differing = sums.greater + sums.less
        if clusters:
            n_differing = totals.clusters.count(N_DIFFERING, (clusters[cell], pair, column))
        if isinstance(value, WeightedMean):
            mean = task.weighted.index((value.column, value.weight))
            of_users = ratio_sums(totals.ratios, (ratios[cell], pair, mean))
        elif clusters:
            of_users = cluster_sums(totals.clusters, (clusters[cell], pair, column), sums)
        n_common = totals.totals.count(N_COMMON, index)
        found = ComparedCell(models, value, *cell, sums, n_common, index, of_users, n_differing, mean)
        cells[found.key] = found
    return cells


def cell_order(cell: SegmentValue) -> tuple[bool, str, int, str]:
    """Return the sort key of a cell: all users first, then segment values, folds by number."""
    segment, value = cell
    return (cell != EVERYBODY, segment, int(value) if segment == FOLD else 0, value)


def comparison_rows(
    cells: Sequence[ComparedCell], plan: ComparePlan, run: str | None, conventions: str
) -> list[ComparisonRow]:
    """Return the rows of all cells and of the means over folds, with p-values adjusted per test."""
    rows: list[ComparisonRow] = []
    for _, of_pair_and_value in groupby(cells, lambda cell: (cell.models, cell.value)):
        of_value = list(of_pair_and_value)
        for cell in of_value:
            if cell.segment != FOLD or FOLD in plan.segments:
                rows += cell.rows(plan)
        folds = [cell for cell in of_value if cell.segment == FOLD]
        if folds and PairTest.T in plan.tests and (over := row_over_folds(folds, plan)) is not None:
            rows.append(over)
    shared: dict[str, Any] = {
        "correction": str(plan.correction),
        "baseline_run": run,
        "conventions": conventions,
    }
    return [row._replace(**shared) for row in corrected_rows(rows, plan.correction)]


def row_over_folds(folds: Sequence[ComparedCell], plan: ComparePlan) -> ComparisonRow | None:
    """Return the row of the mean over folds with equal weights, by the test of Nadeau and Bengio.

    None if the overlap of the folds' training sets is unknown.
    """
    rows = [cell.untested(plan) for cell in folds]
    measured = [cell for cell in folds if cell.estimate.value is not None]
    if plan.test_train_ratio is None and len(measured) > 1:
        return None
    estimate = over_folds([float(cell.estimate.value or 0) for cell in measured], plan.test_train_ratio)
    result = t_test(estimate, plan.confidence, plan.alternative)
    means = [cell.means for cell in measured if cell.means is not None]
    counts = {name: [getattr(row, name) for row in rows] for name in COUNTS}
    row = rows[0]._replace(
        segment=FOLDS,
        segment_value="mean",
        test=str(PairTest.T),
        **{name: sum(of_folds) for name, of_folds in counts.items() if None not in of_folds},
        baseline_value=mean(baseline for baseline, _ in means) if means else None,
        candidate_value=mean(candidate for _, candidate in means) if means else None,
        difference=None if estimate.value is None else nearest_double(estimate.value),
        std_error=estimate.std_error,
        relative=None,
        relative_std_error=None,
        effect_size=None,
        mde=minimal_detectable_effect(estimate, plan.confidence),
        **result._asdict(),
    )
    return finite_row(row)


def corrected_rows(rows: Sequence[ComparisonRow], method: str) -> list[ComparisonRow]:
    """Return the rows with adjusted p-values; a family is all rows of one test that have a p-value."""
    sizes = Counter(row.test for row in rows if row.p_value is not None)
    corrected = {}
    for test in sizes:
        p_values = [row.p_value for row in rows if row.test == test]
        corrected[test] = iter(adjusted(p_values, method))
    return [
        row._replace(
            p_adjusted=next(corrected[row.test]) if row.test in corrected else None,
            family_size=sizes[row.test],
        )
        for row in rows
    ]
