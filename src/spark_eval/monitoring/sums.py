"""Exact sums of several runs, added."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from spark_eval.errors import ConfigError, DataError, lacks_memory
from spark_eval.evaluation.summary import METRICS, SUMS, SumRow, merge_sum_rows, metric_rows
from spark_eval.names import summarize_names
from spark_eval.options import checked_call
from spark_eval.results.driver_tables import arrow_schema, arrow_table, is_of_spark
from spark_eval.schema import REPEAT, Row
from spark_eval.tables.arrow_frames import as_arrow

COUNTS: Final = ("n_users", "n_defined", "n_requests", "n_requests_defined")
INTEGERS: Final = ("total", "squares", "weight", "products", "weight_squares")
NULLABLE: Final = {"k", *INTEGERS[1:], *COUNTS[2:], REPEAT}
# Products of any two doubles have exponents above the lowest unit, and fewer digits than the pattern takes.
LOWEST_UNIT: Final = -4096
INTEGER: Final = re.compile(r"-?[0-9]{1,4000}", re.ASCII)
MOST_COUNTED: Final = 1 << 40


def sum_row(row: Row) -> SumRow:
    """Return a row of the table ``sums``; columns that an older run lacks are null."""
    values: dict[str, Any] = {name: row.get(name) for name in SumRow._fields}
    return SumRow(**values)


@checked_call
def add_sums(sums: Any) -> pa.Table:
    """Add the exact sums of several runs, such as days, and compute the means of all their users.

    Every user counts once in each run. Standard errors are those of independent users; ``window`` clusters
    users who recur.

    Args:
        sums: Rows of the table ``sums`` of the runs: a Spark, pandas or polars frame, or an Arrow table.

    Returns:
        An Arrow table with the columns of ``metrics``, a row per model, metric, k, segment and conventions;
        it equals ``metrics`` of one run over all users, to the last bit.

    Raises:
        ConfigError: NOT_A_FRAME for another object; NOT_OF_PREDICTIONS for sums of predictions.
        DataError: MISSING_COLUMN or AMBIGUOUS_COLUMN for a frame without a column of ``sums``, or with two;
            INVALID_SUMS for values that no run publishes, such as negative counts; NOT_BY_REPEAT for sums of
            models with repeats.

    Examples:
        With the ``result`` of the example of ``evaluate``, as if its users had come on two days:

        >>> import pandas as pd
        >>> from spark_eval import add_sums
        >>> week, day = add_sums(pd.concat([result.sums, result.sums])), result.to_arrow("metrics")
        >>> week["value"] == day["value"], week["n_users"][0].as_py() / day["n_users"][0].as_py()
        (True, 2.0)
    """
    return arrow_table(metric_rows(merge_sum_rows(read_sums(sums))), METRICS)


def read_sums(sums: Any) -> list[SumRow]:
    """Return the rows of a frame of sums, checked; raise the errors of ``add_sums``."""
    rows = sums.toArrow() if is_of_spark(sums) else as_arrow("sums", sums)
    if rows.column_names.count("n_users") == 1 and 0 < len(rows) == rows["n_users"].null_count:
        message = "sums of predictions are not of users; spark_eval.window merges days of predictions"
        raise ConfigError("NOT_OF_PREDICTIONS", message)
    lacking = [name for name in SumRow._fields if name not in rows.column_names]
    if lacking:
        message = f"sums has no column {summarize_names(lacking)}; give the table sums of published runs"
        raise DataError("MISSING_COLUMN", message)
    own = checked_rows(typed(rows))
    refuse_repeats(own, "sums")
    return own


def refuse_repeats(rows: Iterable[SumRow], where: str) -> None:
    """Raise DataError NOT_BY_REPEAT for sums of repeats, which are the same on no two days."""
    if any(row.repeat is not None for row in rows):
        message = f"{where}: models have repeats, whose errors cannot be merged; evaluate all days in one run"
        raise DataError("NOT_BY_REPEAT", message)


def typed(rows: pa.Table) -> pa.Table:
    """Return the columns of ``sums`` with their types; raise DataError with all that have another one."""
    columns, faults = [], list[DataError]()
    for field in arrow_schema(SUMS):
        found = [rows.columns[at] for at, name in enumerate(rows.column_names) if name == field.name]
        if len(found) > 1:
            faults.append(DataError("AMBIGUOUS_COLUMN", f"sums has several columns {field.name!r}"))
            continue
        try:
            columns.append(found[0].cast(field.type))
        except pa.ArrowException as error:
            if lacks_memory(error):
                raise
            faults.append(invalid(f"column {field.name!r} is not {field.type}: {error}"))
        else:
            if columns[-1].null_count and field.name not in NULLABLE:
                faults.append(invalid(f"column {field.name!r} has nulls"))
    DataError.raise_all(faults)
    return pa.table(columns, names=arrow_schema(SUMS).names)


def checked_rows(table: pa.Table) -> list[SumRow]:
    """Return the rows; raise DataError INVALID_SUMS with the faults of the first row that has any."""
    rows = [sum_row(row) for row in table.to_pylist()]
    for row in rows:
        DataError.raise_all([invalid(f"{fault}, in {row.key}") for fault in faults_of(row)])
    return rows


def faults_of(row: SumRow) -> Iterator[str]:
    """Yield what makes a row none of ``sums``, in words."""
    faults = [
        *(name for name in COUNTS if not 0 <= (getattr(row, name) or 0) <= MOST_COUNTED),
        *(["k"] if row.k is not None and row.k < 1 else []),
        *(["unit"] if not LOWEST_UNIT <= row.unit <= 0 else []),
        *(name for name in INTEGERS if not is_integer(getattr(row, name))),
    ]
    yield from (f"{name} is {str(getattr(row, name))[:40]!r}" for name in faults)
    if row.n_defined > row.n_users:
        yield "n_defined is more than n_users"
    if (row.n_requests_defined or 0) > (row.n_requests or 0):
        yield "n_requests_defined is more than n_requests"
    if not faults:
        yield from contradictions(row)


def is_integer(text: str | None) -> bool:
    """Return True for the text of an integer, and for null."""
    return text is None or INTEGER.fullmatch(text) is not None


def contradictions(row: SumRow) -> Iterator[str]:
    """Yield sums that no values have: negative squares and weights, or squares below those of the means."""
    total, squares, weight, products, weight_squares = row.sums
    sizes = {"squares": squares, "weight": weight, "weight_squares": weight_squares}
    yield from (f"{name} is negative" for name, size in sizes.items() if size is not None and size < 0)
    if weight is None and (squares is None or total is None or total**2 > squares * row.n_defined):
        yield "squares is less than total^2 / n_defined"
    if products is not None and products**2 > (squares or 0) * (weight_squares or 0):
        yield "products^2 is more than squares * weight_squares"


def invalid(fault: str) -> DataError:
    """Return the error for a table that is not ``sums``."""
    return DataError("INVALID_SUMS", f"sums: {fault}; give the table sums of published runs as it is")
