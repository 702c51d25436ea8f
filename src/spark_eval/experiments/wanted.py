"""Columns that experiments read of each table, and tables of this process with them. No Spark here."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from spark_eval.errors import collect_errors
from spark_eval.experiments.plan import INTERLEAVING, USER_DAYS, ExperimentPlan
from spark_eval.experiments.worker.bucket import EVENTS, EXPOSURES
from spark_eval.experiments.worker.judge import own_column
from spark_eval.schema import (
    CLICKED,
    EVENT_ID,
    EXPERIMENT,
    FIRST_PICK,
    IMPRESSION,
    ITEM,
    ITEM_RANKS,
    KIND,
    POSITION,
    TEAM,
    TIMESTAMP,
    UNIT,
    USER,
    VALUE,
    VARIANT,
)
from spark_eval.tables.columns import check_mapping, missing_column
from spark_eval.tables.local_tables import (
    LocalTable,
    OpenedTable,
    Wanted,
    is_id,
    is_number,
    is_whole,
    local_table,
)


def local_tables(
    opened: Mapping[str, Callable[[], OpenedTable]],
    names: Mapping[str, Mapping[str, str]],
    units: Mapping[str, str | None],
    plan: ExperimentPlan,
) -> dict[str, LocalTable]:
    """Return tables, given by functions that open them, as conformed tables of this process.

    ``names`` map our columns to theirs, ``units`` are those of numeric timestamps, by table. Raises NotPlain
    if only Spark can judge a table, and one DataError for columns that are missing.
    """
    for name in opened:
        check_mapping(name, names[name])

    def conformed(name: str) -> LocalTable:
        found = opened[name]()
        columns = {**names[name], **{own_column(own): own for own in own_columns(name, plan)}}
        return local_table(name, found, columns, wanted_columns(name, columns, found[2], units[name], plan))

    return collect_errors({name: partial(conformed, name) for name in opened})


def own_columns(name: str, plan: ExperimentPlan) -> Sequence[str]:
    """Return the columns of a table that have the names of the user."""
    return plan.segments if name == EXPOSURES else plan.event_columns


def wanted_columns(
    name: str, names: Mapping[str, str], schema: pa.Schema, unit: str | None, plan: ExperimentPlan
) -> Wanted:
    """Return the columns to read of a table with this schema."""

    def is_time(kind: pa.DataType) -> bool:
        if pa.types.is_timestamp(kind):
            # Spark knows which wall clocks a change of clock skips or repeats.
            return kind.tz is not None or plan.timezone == "UTC"
        return is_whole(kind) and unit is not None

    theirs_of = {own_column(own): own for own in own_columns(name, plan)}

    def missing(ours: str, theirs: Sequence[str]) -> Any:
        return missing_column(name, theirs_of.get(ours, ours), names, theirs)

    needed: dict[str, Any] = {USER: is_id, TIMESTAMP: is_time}
    needed |= dict.fromkeys((own_column(own) for own in own_columns(name, plan)), is_scalar)
    if plan.by_unit:
        needed[UNIT] = is_id
    if name == EVENTS:
        if USER_DAYS in schema.names:
            needed |= {USER_DAYS: is_id, **dict.fromkeys(plan.day_columns, is_whole)}
            return Wanted({**needed, KIND: is_id}, {}, missing)
        return Wanted({**needed, KIND: is_id}, {VALUE: is_number, EVENT_ID: is_id}, missing)
    is_hashed = all(one.assignment is not None for one in plan.experiments)
    has_variant = VARIANT in names or VARIANT in schema.names or not is_hashed
    variant = {VARIANT: is_id} if has_variant else {}
    has_several = len(plan.experiments) > 1 and has_variant
    experiment = {EXPERIMENT: is_id}
    if has_several:
        return Wanted({**needed, **variant, **experiment}, {}, missing)
    return Wanted({**needed, **variant}, experiment, missing)


def local_impressions(opened: OpenedTable, names: Mapping[str, str]) -> LocalTable:
    """Return interleaved lists as a conformed table of this process; raises what ``local_tables`` raises."""
    check_mapping(INTERLEAVING, names)

    def missing(ours: str, theirs: Sequence[str]) -> Any:
        return missing_column(INTERLEAVING, ours, names, theirs)

    needed: dict[str, Any] = dict.fromkeys((USER, IMPRESSION, ITEM, TEAM, FIRST_PICK), is_id)
    needed |= {POSITION: is_number, CLICKED: is_number_or_boolean}
    if has_ranks(names, opened[2].names):
        needed |= dict.fromkeys(ITEM_RANKS, is_number)
    return local_table(INTERLEAVING, opened, names, Wanted(needed, {EXPERIMENT: is_id}, missing))


def has_ranks(names: Mapping[str, str], theirs: Sequence[str]) -> bool:
    """Return True if a table of interleaved lists has the ranks of a list: it then needs those of both."""
    return any(rank in names or rank in theirs for rank in ITEM_RANKS)


def is_number_or_boolean(kind: pa.DataType) -> bool:
    """Return True for types of clicks."""
    return is_number(kind) or pa.types.is_boolean(kind)


def is_scalar(kind: pa.DataType) -> bool:
    """Return True for types of columns of segments, slices and conditions."""
    return is_id(kind) or is_number_or_boolean(kind)
