"""Literal logs and what is read off their splits, for all tests of the split."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_eval.schema import FAULT, SUBSET, TIMESTAMP, USER
from spark_eval.splits.label import ASSIGNMENT, explode_folds, label
from spark_eval.splits.rules.global_local_ranker import GlobalLocalRanker, Timeline
from spark_eval.splits.rules.moments import to_microseconds

LOG = "user int, item int, timestamp timestamp, fault string"
DAY = 86_400_000_000

LogRow = tuple[int | None, int | None, str | None, str | None]
# Cuts at days 10 and 20 of a log of a month.
PLAIN = Timeline(
    local_train_end=10 * DAY, local_cut=10 * DAY, local_test_end=20 * DAY, global_cut=20 * DAY, end=None
)


def at(text: str) -> datetime:
    """The moment of this date and time in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def micros(text: str) -> int:
    """The same in microseconds since the epoch."""
    return to_microseconds(at(text))


def day(number: float) -> str:
    """The moment so many days after 1970-01-01."""
    return datetime.fromtimestamp(number * 86_400, UTC).strftime("%Y-%m-%d %H:%M:%S")


def log_of(spark: SparkSession, rows: Sequence[LogRow]) -> DataFrame:
    """A conformed log."""
    return spark.createDataFrame(
        [(user, item, None if when is None else at(when), fault) for user, item, when, fault in rows], LOG
    )


def log_at(spark: SparkSession, *times: str) -> DataFrame:
    """A log of user 1 with item i at the i-th time, from 0."""
    return log_of(spark, [(1, item, when, None) for item, when in enumerate(times)])


def labelled(log: DataFrame, rule: GlobalLocalRanker, timeline: Timeline) -> DataFrame:
    """The log with fold and subset."""
    return explode_folds(label(log, rule, rule.layout(timeline)), rule).drop(ASSIGNMENT)


def outcomes(labelled: DataFrame) -> list[str]:
    """Of each row, ordered by item and user, the subset or the fault; both parts of local_test are one."""
    rows = labelled.orderBy("item", "user", TIMESTAMP).select(SUBSET, FAULT).collect()
    assert all((row[SUBSET] is None) != (row[FAULT] is None) for row in rows)
    found = [row[SUBSET] or row[FAULT] for row in rows]
    return ["local_test" if name.startswith("ranker_") else name for name in found]


# User 1, items 1 and 4 are known; user 2 and item 2 come in local_test, user 3 and item 3 in global_test.
KNOWN_AND_COLD: list[LogRow] = [
    (1, 1, day(1), None),
    (1, 4, day(1), None),
    (1, 1, day(11), None),
    (1, 2, day(11), None),
    (1, 2, day(12), None),
    (2, 1, day(11), None),
    (1, 2, day(21), None),
    (1, 3, day(21), None),
    (1, 3, day(22), None),
    (2, 4, day(21), None),
    (3, 1, day(21), None),
    (None, 1, day(21), "NULL_ID"),
]


def ranker_parts(labelled: DataFrame) -> dict[str, str]:
    """The one part of each user."""
    rows = labelled.select(F.col(USER).cast("string"), SUBSET).distinct().collect()
    assert len({row[0] for row in rows}) == len(rows), "a user in two parts"
    return {row[0]: row[1] for row in rows}


def plan_of(frame: DataFrame, capsys: pytest.CaptureFixture[str]) -> str:
    """The physical plan, as text."""
    capsys.readouterr()
    frame.explain()
    return capsys.readouterr().out


def leaks(frame: DataFrame) -> dict[str, tuple[int, int, bool]]:
    """Of each check: rows, users, leaked."""
    assert frame.dtypes == [
        ("fold", "int"),
        ("check", "string"),
        ("rows", "bigint"),
        ("users", "bigint"),
        ("leaked", "boolean"),
    ]
    return {row.check: (row.rows, row.users, row.leaked) for row in frame.collect()}
