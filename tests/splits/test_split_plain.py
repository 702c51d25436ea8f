"""A log of plain files, split by the workers: row for row what Spark makes of it."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_eval.arrow import files
from spark_eval.arrow.footers import READS_INT96
from spark_eval.errors import ConfigError, DataError
from spark_eval.runtime.any_session import TIMESTAMP_TYPE
from spark_eval.runtime.spark_errors import named_spark_error
from spark_eval.schema import SUBSET
from spark_eval.splits.labelled import LabelledLog
from spark_eval.splits.labelled_on_spark import LabelledBySpark
from spark_eval.splits.split import Split, split

START = datetime(1969, 12, 1, tzinfo=UTC)
INSTANT = pa.timestamp("us", "UTC")


def a_log(random: Random, n_rows: int, text: bool, when: pa.DataType, first_day: int = 0) -> pa.Table:
    """Rows within a month, some without an id or a time, in no order."""
    users = [random.choice([None, *range(40)] if n % 9 == 0 else range(40)) for n in range(n_rows)]
    items = [None if random.random() < 0.02 else random.randrange(30) for _ in users]
    times = [
        None
        if random.random() < 0.02
        else START + timedelta(days=first_day + random.randrange(30), seconds=random.randrange(3))
        for _ in users
    ]
    as_ids = (lambda ids: [None if i is None else f"id-{i}" * (i % 5) for i in ids]) if text else list
    return pa.table(
        {
            "who": pa.array(as_ids(users), pa.string() if text else pa.int32()),
            "item": pa.array(as_ids(items), pa.string() if text else pa.int64()),
            "at": seconds(times) if pa.types.is_integer(when) else pa.array(times, when),
            "stars": pa.array([random.choice([None, 1, 5]) for _ in users], pa.int8()),
            "shop": pa.array([random.choice(["a", "b"]) for _ in users]),
            "day": pa.array([time and time.date() for time in times]),
        }
    )


def by_spark(done: Split) -> LabelledLog:
    """The log of a split, labelled without its files."""
    assert isinstance(done.log, LabelledBySpark)
    return replace(done.log, rows=done.log.rows.as_typed)


def seconds(times: list[datetime | None]) -> pa.Array:
    """Whole seconds since 1970."""
    return pa.array([time and int(time.timestamp()) for time in times], pa.int32())


COLUMNS = {"user": "who", "timestamp": "at", "relevance": "stars"}
RULES: list[dict[str, Any]] = [
    {},
    {"local_cut": "1970-01-01", "global_cut": "10d", "boundary": "inclusive_train"},
    {
        "gap_days": 2,
        "test_days": 3,
        "local_cut": 0.5,
        "global_cut": 0.7,
        "seed": -9,
        "ranker_test_share": 0.3,
    },
    {"method": "expanding", "test_days": 4, "gap_days": 1, "step_days": 6},
    {
        "method": "rolling",
        "test_days": 2,
        "train_days": 20,
        "boundary": "inclusive_train",
        "end": "1970-02-03",
    },
    {"method": "time", "validation_cut": 0.6, "test_cut": "6d", "gap_days": 0.5, "test_days": 4},
    {"method": "time", "test_cut": "6d", "targets": "successive"},
]


# Ids of text or not, and how times are stored.
KINDS = [(False, INSTANT), (True, pa.timestamp("ms", "Europe/Berlin")), (False, pa.int32())]


def by_kind() -> Iterator[Any]:
    """Each kind of log by a rule of another form, one of them by default; the other pairs repeat them."""
    for place, options in enumerate(RULES):
        for number, (text, when) in enumerate(KINDS):
            slow = [pytest.mark.slow] if (place, number) in [(1, 1), (3, 0)] else [pytest.mark.exhaustive]
            marks = [] if (place, number) == (2, 2) else slow
            yield pytest.param(options, text, when, id=f"rule {place}, kind {number}", marks=marks)


@pytest.mark.parametrize(("options", "text", "when"), list(by_kind()))
def test_the_workers_split_as_spark_does(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    text: bool,
    when: pa.DataType,
) -> None:
    monkeypatch.setattr(files, "ROWS_PER_GROUP", 100)
    (tmp_path / "log").mkdir()
    for part in range(3):
        log = a_log(Random(part), 400, text, when, first_day=20 * part)
        pq.write_table(log, tmp_path / "log" / f"{part}.parquet", row_group_size=150)
    unit = "s" if pa.types.is_integer(when) else None
    frame = spark.read.parquet(str(tmp_path / "log"))
    done = split(frame, columns=COLUMNS, timestamp_unit=unit, **options)
    assert done.log.rows.read_by_workers
    of_rows = split(frame.where(F.lit(True)), columns=COLUMNS, timestamp_unit=unit, **options)
    assert not of_rows.log.rows.read_by_workers
    assert done.timeline == of_rows.timeline
    ours, others = str(tmp_path / "ours"), str(tmp_path / "spark")
    found, expected = done.write(ours), of_rows.write(others)
    assert found == expected == done.log.count()
    assert done.compared(found, ours) == of_rows.compared(expected, others)
    assert_same_tables(spark, tmp_path / "ours", tmp_path / "spark")


def assert_same_tables(spark: SparkSession, ours: Path, others: Path) -> None:
    found, expected = (spark.read.parquet(str(folder)).toArrow() for folder in (ours, others))
    assert found.num_rows > 500
    assert [(field.name, field.type) for field in found.schema] == [
        (field.name, field.type) for field in expected.schema
    ]
    order = [(name, "ascending") for name in expected.column_names]
    assert found.sort_by(order).to_pylist() == expected.sort_by(order).to_pylist()


def test_timestamps_as_spark_has_always_written_them(spark: SparkSession, tmp_path: Path) -> None:
    raw = a_log(Random(4), 900, False, INSTANT)
    pq.write_table(raw, tmp_path / "raw.parquet", use_deprecated_int96_timestamps=True)
    assert pq.read_metadata(tmp_path / "raw.parquet").schema.column(2).physical_type == "INT96"
    done = split(spark.read.parquet(str(tmp_path / "raw.parquet")), columns=COLUMNS)
    assert done.log.rows.read_by_workers == READS_INT96
    facts = done.write(str(tmp_path / "ours"))
    assert facts == done.log.count()
    before = spark.conf.get(TIMESTAMP_TYPE)
    by_spark(done).write(str(tmp_path / "spark"))
    assert_same_tables(spark, tmp_path / "ours", tmp_path / "spark")
    assert moments_in(tmp_path / "ours") == moments_in(tmp_path / "spark") == {"microseconds, in UTC"}
    assert spark.conf.get(TIMESTAMP_TYPE) == before


def moments_in(folder: Path) -> set[str]:
    """How the files of a split store their moments."""
    columns = [pq.read_metadata(file).schema.column(2) for file in folder.rglob("*.parquet")]
    modern = "Timestamp(isAdjustedToUTC=true, timeUnit=microseconds"
    kinds = [column.physical_type == "INT64" and str(column.logical_type) for column in columns]
    return {"microseconds, in UTC" if str(kind).startswith(modern) else str(kind) for kind in kinds}


def test_other_libraries_files_are_plain_too(spark: SparkSession, tmp_path: Path) -> None:
    log = a_log(Random(5), 900, True, INSTANT)
    large = log.set_column(0, "who", log["who"].cast(pa.large_string()))
    coded = large.set_column(1, "item", large["item"].dictionary_encode())
    pq.write_table(coded, tmp_path / "log.parquet")
    done = split(spark.read.parquet(str(tmp_path / "log.parquet")), columns=COLUMNS)
    assert done.log.rows.read_by_workers
    assert done.write(str(tmp_path / "ours")) == done.log.count()
    by_spark(done).write(str(tmp_path / "spark"))
    assert_same_tables(spark, tmp_path / "ours", tmp_path / "spark")


def test_what_is_not_plain_is_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(a_log(Random(6), 300, False, INSTANT), tmp_path / "log.parquet")
    log = spark.read.parquet(str(tmp_path / "log.parquet"))
    assert split(log, columns=COLUMNS).log.rows.read_by_workers
    assert not split(log.where("shop = 'a'"), columns=COLUMNS).log.rows.read_by_workers
    nested = log.withColumn("tags", F.array("shop"))
    nested.write.parquet(str(tmp_path / "nested"))
    assert not split(spark.read.parquet(str(tmp_path / "nested")), columns=COLUMNS).log.rows.read_by_workers
    local = log.withColumn("at", F.col("at").cast("timestamp_ntz"))
    local.write.parquet(str(tmp_path / "local"))
    local = spark.read.parquet(str(tmp_path / "local"))
    assert split(local, columns=COLUMNS).log.rows.read_by_workers
    assert not split(local, columns=COLUMNS, timezone="Europe/Berlin").log.rows.read_by_workers


def test_rows_that_others_decide_about_are_written_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(a_log(Random(7), 600, False, INSTANT), tmp_path / "log.parquet")
    done = split(
        spark.read.parquet(str(tmp_path / "log.parquet")), columns=COLUMNS, seen="drop", local_cut=0.3
    )
    assert not done.log.rows.read_by_workers
    facts = done.write(str(tmp_path / "split"))
    assert facts.counts["seen"] > 0
    assert spark.read.parquet(str(tmp_path / "split")).count() == facts.n_rows - sum(
        count
        for name, count in facts.counts.items()
        if name not in ("local_train", "ranker_train", "ranker_test", "global_test")
    )


def test_a_time_beyond_64_bits_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"user": [1, 2], "item": [1, 2], "timestamp": [1, 2**60]}), tmp_path / "log.parquet"
    )
    log = spark.read.parquet(str(tmp_path / "log.parquet"))
    for frame in (log, log.where("true or user = 3")):
        with pytest.raises(Exception, match=r"overflow|out of range") as refused:
            split(frame, timestamp_unit="s")
        error = named_spark_error(refused.value)
        assert isinstance(error, DataError)
        assert error.code == "VALUE_TOO_LARGE"


def test_files_of_attempts_that_failed_do_not_stay(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(a_log(Random(8), 300, False, INSTANT), tmp_path / "log.parquet")
    stray = tmp_path / "split" / f"{SUBSET}=local_train" / "part-of-a-dead-task.parquet"
    stray.parent.mkdir(parents=True)
    stray.write_bytes(b"half written")
    split(spark.read.parquet(str(tmp_path / "log.parquet")), columns=COLUMNS).write(str(tmp_path / "split"))
    assert not stray.exists()


def test_options_are_still_checked_first(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"user": [1], "item": [1], "timestamp": [1]}), tmp_path / "log.parquet")
    log = spark.read.parquet(str(tmp_path / "log.parquet"))
    with pytest.raises(DataError, match="TIMESTAMP_UNIT_MISSING"):
        split(log)
    with pytest.raises(ConfigError):
        split(log, timestamp_unit="s", local_cut="x")
