"""Comparison of lists by request: users are clusters of their requests, or count once with their means."""

from dataclasses import replace
from typing import Final

from spark_eval.comparison.plan import ComparePlan
from spark_eval.comparison.results import ComparedCell, ComparedCells
from spark_eval.conventions.comparison import Interval, PairTest
from spark_eval.conventions.presets import request_rules
from spark_eval.errors import ConfigError
from spark_eval.evaluation.plan import ListWeight
from spark_eval.kernels.means import WeightedMean
from spark_eval.schema import FOLD
from spark_eval.users.population import ComparisonTask

# Tests without weights: they are on the users' mean differences, whatever the weight of lists.
UNWEIGHTED: Final = (PairTest.SIGN, PairTest.WILCOXON)


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
