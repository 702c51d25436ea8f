"""Days of lists by request, merged: a list belongs to a user, a request and a day; users are clusters."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from spark_eval.conventions.presets import request_rules
from spark_eval.errors import DataError
from spark_eval.evaluation.plan import ListWeight, Plan
from spark_eval.evaluation.summary import SumRow, request_sum_rows
from spark_eval.evaluation.worker.lists import SegmentTotals, merge_sums
from spark_eval.evaluation.worker.requests import means_of
from spark_eval.kernels.columns import sum_of_columns
from spark_eval.monitoring.plan import Errors, Unit, WindowPlan
from spark_eval.monitoring.published import Day, item_segments_of, map_ranges, segments_of
from spark_eval.monitoring.worker.request_sums import item_sums_of_requests, sums_of_requests
from spark_eval.schema import ALL, FOLD, REQUEST, SEGMENT, SEGMENT_VALUE, USER, Table


class EvaluatedRun(Protocol):
    """Run of ``evaluate``, with its plan and the stamp of its conventions."""

    @property
    def plan(self) -> Plan:
        """The plan."""

    @property
    def conventions(self) -> str:
        """The stamp."""


def is_of_users(day: EvaluatedRun) -> bool:
    """Return True if each user counts once, with the mean of the user's lists by request."""
    return bool(request_rules(day.conventions)) and day.plan.weight is ListWeight.USERS


def check_requests(day: Day, plan: WindowPlan) -> None:
    """Raise DataError NOT_BY_REQUEST for options of a window that lists by request do not have."""
    if not request_rules(day.conventions):
        return
    if plan.unit is Unit.USERS and not is_of_users(day):
        message = (
            "each request counts once in the days; evaluate them with weight: users for window.unit users"
        )
        raise DataError("NOT_BY_REQUEST", f"{day.run_id}: {message}")
    if plan.errors is Errors.INDEPENDENT and is_of_users(day):
        message = (
            "means of a user's lists on all days are from per_user; leave out window.errors: independent"
        )
        raise DataError("NOT_BY_REQUEST", f"{day.run_id}: {message}")


def request_sums(days: Sequence[Day], model: str) -> tuple[list[SumRow], int]:
    """Return the rows of ``sums`` of one job over all days for a model, and its number of distinct users."""
    plan, segments, n_users = days[0].plan, segments_of(days), 0
    of_lists, of_users = list[SegmentTotals](), list[SegmentTotals]()
    columns = list(dict.fromkeys([USER, REQUEST, *segments, *plan.columns]))
    make = partial(sums_of_requests, model=model, columns=columns, segments=segments, plan=plan)
    for own_lists, own_users, n_of_range in map_ranges(days, model, columns, make):
        of_lists.append(own_lists)
        of_users.append(own_users)
        n_users += n_of_range
    lists = merge_sums(of_lists, list(sum_of_columns(plan.metrics)))
    rows = request_sum_rows(
        lists, merge_sums(of_users, list(means_of(plan.metrics))), [model], plan, plan.metrics
    )
    rows += item_request_sums(days, model)
    # The plan of a published run does not know whose the truth was; the stamp of the run does.
    return [row._replace(conventions=days[0].conventions) for row in rows], n_users


def item_request_sums(days: Sequence[Day], model: str) -> list[SumRow]:
    """Return the rows of ``sums`` of segments of items, over the lists by request of all days."""
    if not (segments := item_segments_of(days)):
        return []
    plan = replace(days[0].plan, requested=days[0].plan.item_metrics)
    of_lists, of_users = list[SegmentTotals](), list[SegmentTotals]()
    columns = list(dict.fromkeys([USER, REQUEST, FOLD, SEGMENT, SEGMENT_VALUE, *plan.columns]))
    make = partial(item_sums_of_requests, model=model, segments=segments, plan=plan)
    for own_lists, own_users in map_ranges(days, model, columns, make, Table.ITEM_SEGMENTS):
        of_lists += own_lists
        of_users += own_users
    lists, users = (
        merge_sums(parts, list(names(plan.metrics)))
        for parts, names in ((of_lists, sum_of_columns), (of_users, means_of))
    )
    rows = request_sum_rows(lists, users, [model], plan, plan.metrics)
    return [row for row in rows if row.segment != ALL]


def check_same_lists(merged: Sequence[SumRow], one_job: Sequence[SumRow]) -> None:
    """Raise DataError INCOMPLETE_RUN if the sums of the days, added, are not those of their ``per_user``."""
    added, of_users = ({row.key: additive_part(row) for row in rows} for rows in (merged, one_job))
    for key in (*added, *of_users):
        if added.get(key) != of_users.get(key):
            message = f"{key[1]} of {key[0]!r}: sums and per_user of the days differ"
            raise DataError("INCOMPLETE_RUN", f"{message}; make them again, with --replace")


def additive_part(row: SumRow) -> tuple[object, ...]:
    """Return the sums over lists and their numbers; those over users do not add up over days."""
    counts = (row.n_requests, row.n_requests_defined)
    return counts if row.weight is None else (*counts, row.sums[0], row.sums[2])
