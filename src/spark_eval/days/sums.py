"""Exact sums of several runs, added."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from spark_eval.errors import ConfigError, DataError
from spark_eval.evaluation.summary import METRICS, SUMS, SumRow, merge_sum_rows, metric_rows
from spark_eval.names import summarize_names
from spark_eval.options import checked_call
from spark_eval.results.driver_tables import arrow_schema, arrow_table, is_of_spark
from spark_eval.tables.arrow_frames import as_arrow


def sum_row(row: Mapping[str, Any]) -> SumRow:
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
        DataError: MISSING_COLUMN for a frame without a column of ``sums``.

    Examples:
        With the ``result`` of the example of ``evaluate``, as if its users had come on two days:

        >>> import pandas as pd
        >>> from spark_eval import add_sums
        >>> week, day = add_sums(pd.concat([result.sums, result.sums])), result.to_arrow("metrics")
        >>> week["value"] == day["value"], week["n_users"][0].as_py() / day["n_users"][0].as_py()
        (True, 2.0)
    """
    rows = sums.toArrow() if is_of_spark(sums) else as_arrow("sums", sums)
    if "n_users" in rows.column_names and rows["n_users"].null_count:
        message = "sums of predictions are not of users; spark_eval.window merges days of predictions"
        raise ConfigError("NOT_OF_PREDICTIONS", message)
    lacking = [name for name in SumRow._fields if name not in rows.column_names]
    if lacking:
        message = f"sums has no column {summarize_names(lacking)}; give the table sums of published runs"
        raise DataError("MISSING_COLUMN", message)
    merged = merge_sum_rows(map(sum_row, rows.select(SumRow._fields).cast(arrow_schema(SUMS)).to_pylist()))
    return arrow_table(metric_rows(merged), METRICS)
