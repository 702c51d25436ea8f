"""Columns of exposures and events: found, typed, and with a code for each invalid row."""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_eval.errors import DataError
from spark_eval.experiments.plan import ExperimentPlan
from spark_eval.experiments.worker.bucket import EVENTS, EXPOSURES
from spark_eval.schema import (
    EVENT_ID,
    EXPERIMENT,
    FAULT,
    KIND,
    TIMESTAMP,
    USER,
    VALUE,
    VARIANT,
    Fault,
)
from spark_eval.tables.inputs import Input, first_fault_column, instant, is_any_null, open_input

# Shares of invalid rows above these are refused: they are rarely single cases.
MOST_QUARANTINED: Final = 0.01


def conform_exposures(
    frame: DataFrame, names: Mapping[str, str] | None, unit: str | None, plan: ExperimentPlan
) -> DataFrame:
    """Return user, timestamp (microseconds), variant, experiment, and ``fault``.

    ``variant`` may be missing if all experiments have an assignment, ``experiment`` if there is only one
    experiment, or no variant.
    """
    table = open_input(frame, EXPOSURES, names)
    columns = {USER: table.id(USER), TIMESTAMP: micros(table, unit, plan.timezone)}
    faults = common_faults(columns)
    is_hashed = all(one.assignment is not None for one in plan.experiments)
    has_variant = table.has(VARIANT) or not is_hashed
    if has_variant:
        columns[VARIANT] = table.text(VARIANT)
        faults[Fault.NULL_VARIANT] = columns[VARIANT].isNull()
    if table.has(EXPERIMENT) or (has_variant and len(plan.experiments) > 1):
        columns[EXPERIMENT] = table.text(EXPERIMENT)
        faults[Fault.NULL_EXPERIMENT] = columns[EXPERIMENT].isNull()
    return table.conformed(columns | {FAULT: first_fault_column(faults)})


def conform_events(
    frame: DataFrame, names: Mapping[str, str] | None, unit: str | None, plan: ExperimentPlan
) -> DataFrame:
    """Return user, timestamp (microseconds), kind, value (default 1), id if there is one, and ``fault``."""
    table = open_input(frame, EVENTS, names)
    columns = {
        USER: table.id(USER),
        TIMESTAMP: micros(table, unit, plan.timezone),
        KIND: table.text(KIND),
        VALUE: table.number(VALUE, "VALUE_NOT_NUMERIC") if table.has(VALUE) else F.lit(1.0),
    }
    value, kind = columns[VALUE], columns[KIND]
    is_used = kind.isin(list(plan.kinds))
    faults = common_faults(columns) | {
        Fault.NULL_KIND: kind.isNull(),
        # NaN is greater than any number.
        Fault.VALUE_OUT_OF_RANGE: is_used & (value.isNull() | (F.abs(value) > plan.largest_value)),
        Fault.NEGATIVE_VALUE: is_used & ~kind.isin(list(plan.signed_kinds)) & (value < 0),
    }
    if table.has(EVENT_ID):
        columns[EVENT_ID] = table.text(EVENT_ID)
    return table.conformed(columns | {FAULT: first_fault_column(faults)})


def micros(table: Input, unit: str | None, timezone: str) -> Column:
    """Return the timestamp in microseconds since 1970."""
    return F.unix_micros(instant(table, unit, timezone))


def common_faults(columns: Mapping[str, Column]) -> dict[Fault, Column]:
    """Return the faults of users and timestamps."""
    return {
        Fault.NULL_ID: is_any_null(columns[USER]),
        Fault.NULL_TIMESTAMP: columns[TIMESTAMP].isNull(),
    }


def input_faults(n_exposures: int, n_events: int, n_used: int, n_outside: int) -> list[DataError]:
    """Return errors for tables without any usable row.

    ``n_used`` counts used exposures; all ``n_events`` of ``n_outside`` are outside every period.
    """
    hint = "check period, timezone and timestamp_unit"
    if not n_exposures:
        return [DataError("EMPTY_EXPOSURES", f"{EXPOSURES}: not a single valid row of an experiment")]
    faults = []
    if not n_used:
        message = f"{EXPOSURES}: none of {n_exposures} rows is used; {hint}"
        faults.append(DataError("EMPTY_EXPOSURES", message))
    if n_events and n_events == n_outside:
        message = f"{EVENTS}: all {n_events} rows are outside the periods; {hint}"
        faults.append(DataError("EVENTS_OUTSIDE_PERIOD", message))
    return faults
