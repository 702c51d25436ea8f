"""Logs for the splits in folds, and what is read off them."""

from collections import defaultdict
from collections.abc import Mapping
from random import Random
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from spark_eval.results.driver_tables import arrow_schema, to_arrow
from spark_eval.splits.split import Split, split

LOG = "user string, item int, timestamp long, genre string, row int"
SCHEMA = arrow_schema(LOG)
SECONDS_PER_DAY = 86_400
# Of each row of the log its subset in each fold.
Places = Mapping[int, Mapping[int, str]]


def random_rows(n_rows: int, n_users: int = 7, n_days: int = 40, seed: int = 3) -> list[tuple[Any, ...]]:
    """user, item, moment (many are shared), genre (or null), number of the row."""
    random = Random(seed)
    return [
        (
            f"u{random.randrange(n_users)}",
            random.randrange(12),
            random.randrange(n_days) * SECONDS_PER_DAY,
            random.choice(("a", "a", "b", None)),
            row,
        )
        for row in range(n_rows)
    ]


def log_of(spark: SparkSession | None, rows: list[tuple[Any, ...]], n_parts: int = 1) -> Any:
    """A log whose rows lie in so many partitions; without a session, a table of as many chunks."""
    if spark is None:
        table = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)
        size = -(-len(rows) // n_parts)
        return pa.concat_tables([table.slice(start, size) for start in range(0, len(rows), size)])
    frame = spark.createDataFrame(rows, LOG)
    return frame.repartition(n_parts) if n_parts > 1 else frame.coalesce(1)


def split_log(log: Any, method: str, **options: Any) -> Split:
    """This log split: a table by this process, a frame of Spark by Spark."""
    engine = "local" if isinstance(log, pa.Table) else "spark"
    return split(log, method=method, timestamp_unit="s", engine=engine, **options)


def split_rows(spark: SparkSession | None, rows: list[tuple[Any, ...]], method: str, **options: Any) -> Split:
    """These rows split, by this process without a session."""
    return split_log(log_of(spark, rows), method, **options)


def rows_of(table: Any) -> list[dict[str, Any]]:
    """The rows of a table of either engine."""
    rows: list[dict[str, Any]] = to_arrow(table).to_pylist()
    return rows


def places(done: Split) -> Places:
    """Where every row is; it is nowhere twice."""
    found: dict[int, dict[int, str]] = defaultdict(dict)
    for row in rows_of(done.rows):
        assert row["fold"] not in found[row["row"]], f"row {row['row']} is twice in fold {row['fold']}"
        found[row["row"]][row["fold"]] = row["subset"]
    return dict(found)


def in_part(found: Places, fold: int, subset: str) -> set[int]:
    """The rows of a part."""
    return {row for row, parts in found.items() if parts.get(fold) == subset}


def ledger(done: Split) -> dict[tuple[str, str, str | None], tuple[int, int | None]]:
    """Of each source, outcome and reason the rows and users; every source closes."""
    lines = {
        (row["source"], row["outcome"], row["reason"]): (row["rows"], row["users"])
        for row in done.to_arrow("accounting").to_pylist()
    }
    for source in {source for source, _, _ in lines}:
        others = sum(rows for key, (rows, _) in lines.items() if key[0] == source and key[1] != "in")
        assert lines[source, "in", None][0] == others
    return lines


def leaks(done: Split) -> dict[tuple[int, str], tuple[int, int, bool]]:
    """Of each fold and check: rows, users, leaked."""
    rows = done.to_arrow("leakage").to_pylist()
    return {(row["fold"], row["check"]): (row["rows"], row["users"], row["leaked"]) for row in rows}
