"""Columns of exposures and events, found and typed; workers find invalid rows."""

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_eval.experiments.inputs import Tables, has_ranks, names_with_unit, own_columns, wanted_columns
from spark_eval.experiments.plan import INTERLEAVING, USER_DAYS, ExperimentPlan
from spark_eval.experiments.worker.bucket import EVENTS, EXPOSURES
from spark_eval.experiments.worker.judge import own_column
from spark_eval.runners.rows import SparkRows
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
from spark_eval.tables.file_parts import PlainFiles
from spark_eval.tables.inputs import Input, instant, open_input
from spark_eval.tables.plain_files import PLAIN_TYPES, arrow_type, plain_files, source_columns


def conform_exposures(
    frame: DataFrame, names: Mapping[str, str] | None, unit: str | None, plan: ExperimentPlan
) -> DataFrame:
    """Return user, timestamp (microseconds), variant, experiment, unit and segments.

    ``variant`` may be missing if all experiments have an assignment, ``experiment`` if there is only one
    experiment, or no variant.
    """
    table = open_input(frame, EXPOSURES, names)
    columns = keys_of(table, unit, plan)
    is_hashed = all(one.assignment is not None for one in plan.experiments)
    has_variant = table.has(VARIANT) or not is_hashed
    if has_variant:
        columns[VARIANT] = table.text(VARIANT)
    if table.has(EXPERIMENT) or (has_variant and len(plan.experiments) > 1):
        columns[EXPERIMENT] = table.text(EXPERIMENT)
    columns |= {own_column(name): table.text(name) for name in plan.segments}
    return table.conformed(columns)


def conform_events(
    frame: DataFrame, names: Mapping[str, str] | None, unit: str | None, plan: ExperimentPlan
) -> DataFrame:
    """Return user, timestamp (microseconds), kind, value and id if there are any, unit and own columns."""
    table = open_input(frame, EVENTS, names)
    columns = keys_of(table, unit, plan) | {KIND: table.text(KIND)}
    if USER_DAYS in frame.columns:
        for name in plan.day_columns:
            columns[name] = table.typed(name, (T.LongType,), "UNSUPPORTED_TYPE", "it is a long")
        columns[USER_DAYS] = table.text(USER_DAYS)
    elif table.has(VALUE):
        columns[VALUE] = table.number(VALUE, "VALUE_NOT_NUMERIC")
    if table.has(EVENT_ID) and USER_DAYS not in columns:
        columns[EVENT_ID] = table.text(EVENT_ID)
    return table.conformed(columns | {own_column(name): scalar(table, name) for name in plan.event_columns})


def conformed_tables(
    frames: Mapping[str, DataFrame],
    names: Mapping[str, Mapping[str, str]],
    units: Mapping[str, str | None],
    plan: ExperimentPlan,
) -> Tables:
    """Return conformed exposures and events, with the files of those that workers read themselves."""
    conform = {EXPOSURES: conform_exposures, EVENTS: conform_events}
    names = {name: names_with_unit(name, names[name], frame.columns, plan) for name, frame in frames.items()}
    rows = {name: conform[name](frame, names[name], units[name], plan) for name, frame in frames.items()}
    files = {name: plain_table(name, frame, names[name], units[name], plan) for name, frame in frames.items()}
    tables = {name: SparkRows(frame, files[name]) for name, frame in rows.items()}
    return Tables(tables, {name: units[name] for name, one in files.items() if one is not None})


def conform_impressions(frame: DataFrame, names: Mapping[str, str] | None) -> SparkRows:
    """Return user, experiment if there is one, impression, item, teams, position, click, and ranks if any."""
    table = open_input(frame, INTERLEAVING, names)
    columns = {USER: table.id(USER)}
    if table.has(EXPERIMENT):
        columns[EXPERIMENT] = table.text(EXPERIMENT)
    columns |= {name: table.id(name) for name in (IMPRESSION, ITEM)}
    columns |= {name: table.text(name) for name in (TEAM, FIRST_PICK)}
    ranks = ITEM_RANKS if has_ranks(names or {}, frame.columns) else ()
    columns |= {name: table.number(name, "UNSUPPORTED_TYPE") for name in (POSITION, CLICKED, *ranks)}
    return SparkRows(table.conformed(columns))


def plain_table(
    name: str, frame: DataFrame, names: Mapping[str, str] | None, unit: str | None, plan: ExperimentPlan
) -> PlainFiles | None:
    """Return the files of a table if they are plain, so that workers read them; None otherwise."""
    own = {own_column(one): one for one in own_columns(name, plan)}
    columns = {**(names or {}), **own}
    given = pa.schema([(one, pa.null()) for one in frame.columns])
    wanted = wanted_columns(name, columns, given, unit, plan)
    theirs = source_columns(frame, columns, list(wanted.needed), list(wanted.optional))
    if any(frame.columns.count(one) != 1 for one in theirs.values()):
        return None
    takes, kinds = {**wanted.needed, **wanted.optional}, {ours: frame.schema[theirs[ours]] for ours in theirs}
    # A float has another text than the double that Spark makes of it.
    has_floats = any(isinstance(kinds[ours].dataType, T.FloatType) for ours in own)
    types = (*PLAIN_TYPES, T.TimestampType)
    if has_floats or not all(isinstance(kind.dataType, types) for kind in kinds.values()):
        return None
    if not all(takes[ours](arrow_type(kind.dataType)) for ours, kind in kinds.items()):
        return None
    return plain_files(frame, theirs, types)


def keys_of(table: Input, unit: str | None, plan: ExperimentPlan) -> dict[str, Column]:
    """Return the user, the time in microseconds since 1970, and the unit if it is another one.

    Rows of ``user_days`` have the unit alone.
    """
    is_days = USER_DAYS in table.frame.columns
    ids = [UNIT] if plan.by_unit and (is_days or UNIT in table.names) else []
    ids += [] if plan.by_unit and is_days else [USER]
    return {name: table.id(name) for name in ids} | {
        TIMESTAMP: F.unix_micros(instant(table, unit, plan.timezone))
    }


def scalar(table: Input, name: str) -> Column:
    """Return a column as text, a boolean, a long or a double."""
    kind = table.kind(name)
    if isinstance(kind, T.BooleanType):
        return table.column(name)
    if isinstance(kind, T.NumericType):
        return table.column(name).cast("long" if isinstance(kind, T.IntegralType) else "double")
    return table.text(name)
