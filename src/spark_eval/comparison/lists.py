"""Comparison of lists: sums over the users of all pairs, and the extra passes over them that some tests need.

With lists by request, users are clusters of their requests, or count once with their means.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import reduce
from operator import add, iadd
from typing import Any, Final

from spark_eval.comparison.extra_passes import ExtraPasses
from spark_eval.comparison.matching import Requested, check_counts, check_over_folds
from spark_eval.comparison.plan import COMPARE, ComparePlan
from spark_eval.comparison.repeats import ComparedRepeats
from spark_eval.comparison.results import ComparedCell, ComparedCells, cells_of_pairs, cells_of_rows
from spark_eval.comparison.rows import ComparedValue
from spark_eval.comparison.sides import Side, comparison_task, item_tables, item_task, user_tables
from spark_eval.comparison.worker.ranking import DifferenceCounter, Ranked, merge_slices
from spark_eval.comparison.worker.sums import BucketTotals, sum_bucket
from spark_eval.conventions.comparison import Interval, PairTest, Question
from spark_eval.conventions.presets import request_rules
from spark_eval.errors import ConfigError, DataError
from spark_eval.evaluation.plan import ListWeight
from spark_eval.kernels.means import WeightedMean
from spark_eval.runners.spread import NumberedObject, collect_or_raise, group_by_key
from spark_eval.runners.user_buckets import Buckets, UserTable, buckets_of_users
from spark_eval.runtime import events
from spark_eval.schema import FOLD
from spark_eval.users.population import AlignedUsers, ComparisonTask

# Tests without weights: they are on the users' mean differences, whatever the weight of lists.
UNWEIGHTED: Final = (PairTest.SIGN, PairTest.WILCOXON)
# Number of shuffle partitions of counted differences, per concurrent task.
PARTS_PER_TASK: Final = 4


def weight_of(conventions: str) -> ListWeight:
    """Return the weight of lists in a stamp of conventions; requests if it has none.

    >>> weight_of("default; no_hits=zero; requests: weight=users, truth=users; relevance>0").value
    'users'
    """
    is_users = f"weight={ListWeight.USERS}" in request_rules(conventions)
    return ListWeight.USERS if is_users else ListWeight.REQUESTS


def check_by_request(plan: ComparePlan) -> None:
    """Raise ConfigError NOT_BY_REQUEST for bca over requests, whose acceleration is of independent rows."""
    if plan.weight is ListWeight.REQUESTS and PairTest.BCA in (*plan.tests, plan.interval):
        message = "bca is not defined over requests; take bootstrap, or compare.weight: users"
        raise ConfigError("NOT_BY_REQUEST", message)


def split_tests(plan: ComparePlan) -> tuple[ComparePlan, ComparePlan]:
    """Return the plan with the tests over requests, and that with the tests over users' means.

    Weighted means are tested over requests, whatever the weight.
    """
    alone, weighted = [test for test in plan.tests if test in UNWEIGHTED], plan.weight is ListWeight.USERS
    over_rows = [test for test in plan.tests if test not in UNWEIGHTED]
    if weighted:
        both = (PairTest.T, PairTest.BOOTSTRAP)
        interval = plan.interval if plan.interval in both else Interval.T
        return replace(plan, tests=[test for test in over_rows if test in both], interval=interval), plan
    return replace(plan, tests=over_rows), replace(plan, tests=alone, interval=Interval.T)


def tasks_of_means(task: ComparisonTask) -> list[ComparisonTask]:
    """Return the task of users' means over all requests, and one for each segment.

    A segment may be of requests: a user then has a mean for each of its values. The truth of requests is
    checked request by request, not here.
    """
    task = replace(task, has_truth=False, slices=None)
    of_all = [name for name in task.segments if name == FOLD]
    apart = [name for name in task.segments if name != FOLD]
    tasks = [replace(task, segments=[name], moved=(), apart=name) for name in apart]
    return [replace(task, segments=of_all, moved=()), *tasks]


def with_cells(cells: ComparedCells, found: ComparedCells, task: ComparisonTask) -> ComparedCells:
    """Return the cells with those found by a task of ``tasks_of_means``: of its segment alone, or all."""
    of_task = {key: cell for key, cell in found.cells.items() if task.apart in (None, cell.segment)}
    of_rows = [cell for cell in found.of_rows if task.apart in (None, cell.segment)]
    return replace(cells, cells=cells.cells | of_task, of_rows=[*cells.of_rows, *of_rows])


def merge_cells(by_row: ComparedCells, by_mean: ComparedCells, plan: ComparePlan) -> ComparedCells:
    """Return the cells of the plan's weight, each with the sums over requests and over users' means."""

    def merged(row: ComparedCell, mean: ComparedCell) -> ComparedCell:
        is_of_means = plan.weight is ListWeight.USERS and not isinstance(row.value, WeightedMean)
        chosen = mean if is_of_means else replace(row, ranks=mean.ranks)
        return replace(chosen, of_requests=row.sums, of_means=mean.sums)

    cells = {key: merged(cell, by_mean.cells[key]) for key, cell in by_row.cells.items()}
    means = {cell.key: cell for cell in by_mean.of_rows}
    of_rows = [merged(row, means[row.key]) for row in by_row.of_rows]
    return replace(by_row, cells=cells, of_rows=of_rows)


def compare_lists(
    baseline: Side, candidate: Side, plan: ComparePlan, shown: Requested, requested: Requested
) -> ComparedCells:
    """Return the cells of lists: sums of their users' values, and the extra passes of tests.

    With a list per request there are two: over requests, with users as clusters, and over users' means.
    """
    if candidate.users.by_fold:
        check_over_folds(plan)
    task = comparison_task(baseline, candidate, requested, plan.slices)
    tables = user_tables(baseline, candidate)
    repeats = ComparedRepeats.of(baseline, candidate, requested, plan)
    if repeats.has_any:
        return compare_repeats(tables, task, plan, shown, requested, repeats)
    if task.request is not None:
        plan = replace(plan, weight=plan.weight or weight_of(candidate.conventions))
        check_by_request(plan)
        if task.slices is not None:
            by_means = plan.weight is ListWeight.USERS
            task = replace(task, slices=replace(task.slices, by_means=by_means))
    cells = compare_rows(tables, task, plan, shown, requested)
    return with_items(cells, baseline, candidate, plan, shown, requested)


def with_items(
    cells: ComparedCells,
    baseline: Side,
    candidate: Side,
    plan: ComparePlan,
    shown: Requested,
    requested: Requested,
) -> ComparedCells:
    """Return the cells, and those by requested segment of items, whose tables are compared one by one.

    Only metrics of hits have values there; raise ConfigError METRIC_NOT_MEASURED if none is compared.
    """
    of_items = [name for name in (*requested.segments, *plan.sliced) if name in candidate.item_segments]
    if not of_items or cells.task is None:
        return cells
    tables, by_segment = item_tables(baseline, candidate), dict[str, ComparedCells]()
    known = names_of(baseline.item_metrics) & names_of(candidate.item_metrics)
    own, own_shown = (
        replace(one, metrics=[value for value in one.metrics if str(value) in known])
        for one in (requested, shown)
    )
    if not own.metrics:
        names = ", ".join(map(str, requested.metrics))
        message = f"{of_items[0]}: no metric of hits is compared ({names}); name one in {COMPARE}.metrics"
        raise ConfigError("METRIC_NOT_MEASURED", message)
    say_what_is_not_crossed(plan, candidate)
    for name in dict.fromkeys(of_items):
        others = set(candidate.item_segments) - {name}
        attributes = [one for one in plan.sliced if one not in others] if name in plan.sliced else []
        is_within = baseline is candidate
        task = item_task(cells.task, name, own.list_metrics, attributes, is_within=is_within)
        segments = [name] if name in shown.segments else []
        by_segment[name] = compare_rows(tables, task, plan, replace(own_shown, segments=segments), own)
    return cells.with_items(by_segment)


def say_what_is_not_crossed(plan: ComparePlan, candidate: Side) -> None:
    """Warn that attributes of items are not crossed with each other: no truth is restricted to two."""
    names = [name for name in plan.sliced if name in candidate.item_segments]
    if plan.slices is not None and plan.slices.cross > 1 and len(names) > 1:
        message = (
            f"slices: {' and '.join(names)} are not crossed with each other, only with attributes of users"
        )
        events.say("not_crossed", message, logging.WARNING, attributes=names)


def names_of(values: Sequence[ComparedValue]) -> set[str]:
    """Return the names of metrics at their cutoffs."""
    return set(map(str, values))


def compare_rows(
    tables: Mapping[str, UserTable],
    task: ComparisonTask,
    plan: ComparePlan,
    shown: Requested,
    requested: Requested,
) -> ComparedCells:
    """Return the cells of a row per user, or of rows per request: over these, and over users' means."""
    if task.request is None:
        return measure_cells(tables, task, ExtraPasses.of(plan), shown, requested)
    of_means = replace(task, of_means=True)
    on_rows, on_means = split_tests(plan)
    by_row = measure_cells(tables, task, ExtraPasses.of(on_rows), shown, requested)
    by_mean = ComparedCells({}, [], by_row.counts)
    for one in tasks_of_means(of_means):
        found = measure_cells(tables, one, ExtraPasses.of(on_means), shown, requested)
        by_mean = with_cells(by_mean, found, one)
    return merge_cells(by_row, by_mean, plan)


def compare_repeats(
    tables: Mapping[str, UserTable],
    task: ComparisonTask,
    plan: ComparePlan,
    shown: Requested,
    requested: Requested,
    repeats: ComparedRepeats,
) -> ComparedCells:
    """Return the cells of models with repeats: of the users' means, and of pairs of repeats for recipes."""
    task = repeats.task(task, requested)
    passes = ExtraPasses.of(plan)
    if repeats.question is Question.RECIPE:
        no_tests = ExtraPasses.of(replace(plan, tests=(), interval=Interval.T))
        cells = measure_cells(tables, task, no_tests, shown, requested)
        of_pairs = repeats.task_of_pairs(task, requested)
        alone = replace(requested, models=of_pairs.models, matches=of_pairs.matches)
        pairs = measure_cells(tables, of_pairs, passes, alone, alone)
        cells = repeats.with_recipes(cells, pairs, task, requested, plan)
    else:
        cells = measure_cells(tables, task, passes, shown, requested)
    numbers = repeats.numbers(requested)
    of_rows = [
        replace(
            cell,
            question=repeats.question,
            n_repeats=numbers[cell.models],
            of_requests=None if task.request is None else cell.sums,
        )
        for cell in cells.of_rows
    ]
    return replace(cells, of_rows=of_rows)


def measure_cells(
    tables: Mapping[str, UserTable],
    task: ComparisonTask,
    passes: ExtraPasses,
    shown: Requested,
    requested: Requested,
) -> ComparedCells:
    """Return the cells of a task, completed by the extra passes."""
    task, pairs = passes.completed_task(task), requested.pairs
    with ExitStack() as stack:
        buckets = buckets_of_users(tables, task)
        if passes.needs and buckets.is_sent:
            buckets = replace(buckets, frame=buckets.frame.persist(stack))
        totals = sum_pairs(buckets)
        check_counts(pairs, totals.counts, task.of_items)
        cells = cells_of_pairs(totals, pairs, requested.list_metrics, task)
        of_rows = cells_of_rows(cells, shown)
        of_rows = run_extra_passes(passes, of_rows, task, buckets, totals)
    return ComparedCells(cells, of_rows, totals.counts, task.moved, totals.slices, task)


def run_extra_passes(
    passes: ExtraPasses,
    cells: Sequence[ComparedCell],
    task: ComparisonTask,
    buckets: Buckets,
    totals: BucketTotals,
) -> list[ComparedCell]:
    """Return the cells, completed by a pass for ranks and one for replicates if their tests need them."""
    at_once = buckets.frame.at_once
    ranked, sampled = dict[int, Ranked](), None
    if (counter := passes.counter(totals, cells, PARTS_PER_TASK * at_once)) is not None:
        ranked = merge_slices(collect_or_raise(ranked_pairs(buckets, counter)))
    if (resampler := passes.resampler(totals, cells, task)) is not None:
        sampled = reduce(add, collect_or_raise(buckets.added(resampler.sums)))
    return [passes.completed(cell, totals, ranked, sampled) for cell in cells]


def sum_pairs(buckets: Buckets) -> BucketTotals:
    """Return the sums of all pairs; raise DataError NO_COMMON_USERS if there are no users."""
    parts = collect_or_raise(buckets.added(sum_bucket))
    if not parts:
        raise DataError("NO_COMMON_USERS", "no side has any user")
    totals: BucketTotals = reduce(iadd, parts)
    return totals


def ranked_pairs(buckets: Buckets, counter: DifferenceCounter) -> Any:
    """Return rank statistics of slices of cells, from differences counted by size: one shuffle of counts."""

    def count(populations: Iterator[AlignedUsers]) -> Iterator[NumberedObject]:
        for population in populations:
            yield from counter.counts(population)

    def rank(_: int, parts: Sequence[Any]) -> Any:
        errors = [part for part in parts if isinstance(part, DataError)]
        return errors[0] if errors else counter.ranked(parts)

    return group_by_key(buckets.map(count), counter.n_parts, rank)
