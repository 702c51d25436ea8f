"""Rows of exposures and events in the engine's form, with the fault of each: for workers and quarantine."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.codes import Booleans
from spark_eval.arrow.row_faults import Judged, fill_null_with_false, first_fault_code, is_any_null
from spark_eval.errors import ConfigError
from spark_eval.experiments.plan import USER_DAYS, Condition, ExperimentPlan
from spark_eval.schema import (
    EVENT_ID,
    EXPERIMENT,
    KIND,
    TIMESTAMP,
    UNIT,
    USER,
    VALUE,
    VARIANT,
    Fault,
    Reason,
)

# Prefixes of columns for segments, slices and conditions, with plain and with other names.
OWN: Final = "own_"
ODD: Final = "odd_"
PLAIN: Final = re.compile(r"\w+", re.ASCII)
# Microseconds of a timestamp that is a number, by its unit.
FACTORS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}
COMPARISONS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def judge_exposures(rows: pa.Table, plan: ExperimentPlan, unit: str | None = None) -> Judged:
    """Validate exposures; timestamps become microseconds, variants and segments text."""
    texts = [VARIANT, EXPERIMENT, *(own_column(name) for name in plan.segments)]
    rows = with_text(with_micros(rows, unit), texts)
    faults: dict[Fault | Reason, Booleans] = {
        Fault.NULL_ID: is_any_null(rows, USER, UNIT),
        Fault.NULL_TIMESTAMP: is_any_null(rows, TIMESTAMP),
        Fault.NULL_VARIANT: is_any_null(rows, VARIANT),
        Fault.NULL_EXPERIMENT: is_any_null(rows, EXPERIMENT),
    }
    return rows, first_fault_code(list(faults.items()))


def judge_events(rows: pa.Table, plan: ExperimentPlan, unit: str | None = None) -> Judged:
    """Validate events; timestamps become microseconds, values doubles. Values that none sums are valid."""
    rows = with_text(with_micros(rows, unit), [KIND, EVENT_ID])
    numbers = np.ones(len(rows))
    if VALUE in rows.column_names:
        values = rows[VALUE].cast(pa.float64(), safe=False)
        rows = rows.set_column(rows.column_names.index(VALUE), VALUE, values)
        numbers = values.fill_null(np.nan).to_numpy()
    is_read, is_signed = is_of(rows, plan.summed_kinds), is_of(rows, plan.signed_kinds)
    if USER_DAYS in rows.column_names:
        is_read = is_of(rows, plan.kinds)
        numbers = np.where(is_any_null(rows, *plan.day_columns), np.nan, 1.0)
    faults: dict[Fault | Reason, Booleans] = {
        Fault.NULL_ID: is_any_null(rows, USER, UNIT),
        Fault.NULL_TIMESTAMP: is_any_null(rows, TIMESTAMP),
        Fault.NULL_KIND: is_any_null(rows, KIND),
        # NaN is not below any number.
        Fault.VALUE_OUT_OF_RANGE: is_read & ~(np.abs(numbers) <= plan.largest_value),
        Fault.NEGATIVE_VALUE: is_read & ~is_signed & (numbers < 0),
    }
    return rows, first_fault_code(list(faults.items()))


def is_of(events: pa.Table, kinds: Iterable[str]) -> Booleans:
    """Return True for events (n,) of one of these kinds."""
    return fill_null_with_false(pc.is_in(events[KIND], pa.array(sorted(kinds), pa.string())))


def with_micros(rows: pa.Table, unit: str | None) -> pa.Table:
    """Return the rows with timestamps in microseconds since 1970, without a type of time."""
    column = rows[TIMESTAMP]
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    elif pa.types.is_integer(column.type):
        column = pc.multiply_checked(column.cast(pa.int64()), FACTORS[unit or "us"])
    return rows.set_column(rows.column_names.index(TIMESTAMP), TIMESTAMP, column)


def with_text(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return the rows with these columns as text, if the table has them."""
    for name in names:
        if name in rows.column_names and rows[name].type != pa.string():
            rows = rows.set_column(rows.column_names.index(name), name, rows[name].cast(pa.string()))
    return rows


def own_column(name: str) -> str:
    """Return our name of a column that has the name of the user: any text, but a plain name for Spark.

    Different names stay different: in an odd one the underscore is written as a number, too.

    >>> own_column("page_kind"), own_column("page.kind")
    ('own_page_kind', 'odd_page_2e_kind')
    """
    if PLAIN.fullmatch(name):
        return OWN + name
    return ODD + re.sub(r"[\W_]", lambda match: f"_{ord(match[0]):x}_", name, flags=re.ASCII)


def holds(rows: pa.Table, conditions: Sequence[Condition]) -> Booleans:
    """Return True for rows (n,) that meet all conditions; a null meets is_null alone.

    Raises ConfigError INVALID_EXPERIMENT if a value has another type than the column.
    """
    mask = np.ones(len(rows), dtype=bool)
    for condition in conditions:
        mask &= fill_null_with_false(tested(rows[own_column(condition.column)], condition))
    return mask


def tested(column: pa.ChunkedArray, condition: Condition) -> pa.ChunkedArray:
    """Return the truth of a condition in each row, null where the column is null."""
    if condition.op == "is_null":
        return column.is_null()
    if condition.op == "is_not_null":
        return column.is_valid()
    given = condition.value if isinstance(condition.value, tuple) else (condition.value,)
    for value in given:
        if kind_of(value) != kind_of_type(column.type):
            message = f"where: column {condition.column!r} is {column.type}, {value!r} is not"
            raise ConfigError("INVALID_EXPERIMENT", message)
    if condition.op == "in":
        matches = (pc.equal(column, value) for value in given)
        mask = next(matches)
        for one in matches:
            mask = pc.or_(mask, one)
        return mask
    if condition.op == "between":
        return pc.and_(pc.greater_equal(column, given[0]), pc.less_equal(column, given[1]))
    return COMPARISONS[condition.op](column, given[0])


def kind_of(value: Any) -> str:
    """Return the kind of a value of a condition."""
    return "boolean" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"


def kind_of_type(kind: pa.DataType) -> str:
    """Return the kind of a column."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return "boolean" if pa.types.is_boolean(kind) else "text" if pa.types.is_string(kind) else "number"
