"""Columns of exposures and events, found and typed; workers find invalid rows."""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_eval.experiments.plan import INTERLEAVING, USER_DAYS, ExperimentPlan
from spark_eval.experiments.wanted import has_ranks
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
from spark_eval.tables.inputs import Input, instant, open_input


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


def conform_impressions(frame: DataFrame, names: Mapping[str, str] | None) -> DataFrame:
    """Return user, experiment if there is one, impression, item, teams, position, click, and ranks if any."""
    table = open_input(frame, INTERLEAVING, names)
    columns = {USER: table.id(USER)}
    if table.has(EXPERIMENT):
        columns[EXPERIMENT] = table.text(EXPERIMENT)
    columns |= {name: table.id(name) for name in (IMPRESSION, ITEM)}
    columns |= {name: table.text(name) for name in (TEAM, FIRST_PICK)}
    ranks = ITEM_RANKS if has_ranks(names or {}, frame.columns) else ()
    columns |= {name: table.number(name, "UNSUPPORTED_TYPE") for name in (POSITION, CLICKED, *ranks)}
    return table.conformed(columns)


def keys_of(table: Input, unit: str | None, plan: ExperimentPlan) -> dict[str, Column]:
    """Return the user, the time in microseconds since 1970, and the unit if it is another one."""
    columns = {USER: table.id(USER), TIMESTAMP: F.unix_micros(instant(table, unit, plan.timezone))}
    return columns | ({UNIT: table.id(UNIT)} if plan.by_unit else {})


def scalar(table: Input, name: str) -> Column:
    """Return a column as text, a boolean, a long or a double."""
    kind = table.kind(name)
    if isinstance(kind, T.BooleanType):
        return table.column(name)
    if isinstance(kind, T.NumericType):
        return table.column(name).cast("long" if isinstance(kind, T.IntegralType) else "double")
    return table.text(name)
