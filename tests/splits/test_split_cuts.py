"""Where a log is cut: instants, days back, and shares that are exact under any partitions."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from split_logs import DAY, KNOWN_AND_COLD, LogRow, day, log_at, log_of, micros, plan_of

from spark_eval.errors import DataError
from spark_eval.runners.rows import SparkRows
from spark_eval.schema import FAULT, TIMESTAMP
from spark_eval.splits import cuts
from spark_eval.splits.cuts import TimeBucket, Times, times_counted, times_of_rows
from spark_eval.splits.rules.global_local_ranker import GlobalLocalRanker
from spark_eval.splits.rules.methods import GLOBAL_LOCAL_RANKER, rule_of
from spark_eval.splits.rules.moments import Boundary, DaysBack, Share
from spark_eval.splits.split import split


def test_days_back_count_from_the_newest_event(spark: SparkSession) -> None:
    log = log_at(spark, "2023-01-01 00:00:00", "2023-03-01 12:00:00", "2023-03-31 12:00:00")
    rule = GlobalLocalRanker(local_cut=DaysBack(30), global_cut=DaysBack(0.5))
    found = rule.find(Times(SparkRows(log)))
    assert (found.local_cut, found.global_cut) == (
        micros("2023-03-01 12:00:00"),
        micros("2023-03-31 00:00:00"),
    )
    berlin = replace(rule, timezone="Europe/Berlin").find(Times(SparkRows(log)))
    assert berlin.local_cut == micros("2023-03-01 13:00:00"), "clocks went forward between"


def test_instants_are_local_to_the_timezone_unless_they_name_an_offset(spark: SparkSession) -> None:
    log = log_at(spark, "2023-01-01 00:00:00", "2023-12-31 00:00:00")
    rule = rule_of(
        GLOBAL_LOCAL_RANKER,
        {"local_cut": "2023-07-01", "global_cut": "2023-08-01T00:00:00-05:00", "timezone": "Europe/Berlin"},
    )
    assert isinstance(rule, GlobalLocalRanker)
    found = rule.find(Times(SparkRows(log)))
    assert found.local_cut == micros("2023-06-30 22:00:00")
    assert found.global_cut == micros("2023-08-01 05:00:00")


def spread_log(spark: SparkSession, n_rows: int, partitions: int, order: int) -> DataFrame:
    """Rows at times drawn by hash within two years, in whole seconds so that some are equal."""
    seconds = F.pmod(F.xxhash64("id"), F.lit(60_000_000))
    times = spark.range(0, n_rows, 1, partitions).select("id", F.timestamp_seconds(seconds).alias(TIMESTAMP))
    shuffled = times.repartition(partitions, F.xxhash64("id", F.lit(order))).sortWithinPartitions(
        F.xxhash64("id", F.lit(order))
    )
    return shuffled.select(F.lit(None).cast("string").alias(FAULT), TIMESTAMP)


@pytest.mark.parametrize("boundary", list(Boundary))
def test_shares_are_exact_and_the_same_under_any_partitions_and_order(
    spark: SparkSession, boundary: Boundary
) -> None:
    n_rows = 6_000
    rule = GlobalLocalRanker(
        local_cut=Share(Fraction(1, 3)), global_cut=Share(Fraction(7, 11)), boundary=boundary
    )
    ordered = sorted(
        row[0] for row in spread_log(spark, n_rows, 1, 0).select(F.unix_micros(TIMESTAMP)).collect()
    )
    # 7/11 of 6000 rows is 3818.2
    index = (2_000, 3_818) if boundary is Boundary.EXCLUSIVE else (1_999, 3_818)
    lines = {rule.find(Times(SparkRows(spread_log(spark, n_rows, n, n)))) for n in (1, 2, 7)}
    assert [(line.local_cut, line.global_cut) for line in lines] == [(ordered[index[0]], ordered[index[1]])]


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    times=st.lists(
        st.one_of(st.integers(0, 9), st.integers(-(10**6), 10**6), st.integers(-(10**17), 10**17)),
        min_size=2,
        max_size=60,
    ),
    shares=st.lists(st.fractions(Fraction(1, 50), Fraction(49, 50)), min_size=1, max_size=3),
    boundary=st.sampled_from(Boundary),
    partitions=st.integers(1, 5),
)
def test_the_descent_finds_the_row_that_sorting_finds(
    spark: SparkSession, times: list[int], shares: list[Fraction], boundary: Boundary, partitions: int
) -> None:
    frame = spark.createDataFrame([(time,) for time in times], "at long").repartition(partitions)
    frame = frame.select(F.lit(None).cast("string").alias(FAULT), F.timestamp_micros("at").alias(TIMESTAMP))
    indexes = [Share(share).index(len(times), boundary) for share in shares]
    with pytest.MonkeyPatch.context() as narrow:
        # Few rows need the many passes of a large log once a pass tells only four buckets apart.
        narrow.setattr(cuts, "FANOUT_BITS", 2)
        found = times_of_rows(
            Times(SparkRows(frame)), TimeBucket(min(times), max(times), len(times)), indexes
        )
    assert found == {index: sorted(times)[index] for index in indexes}


def test_rows_with_a_fault_or_no_timestamp_do_not_move_a_share(spark: SparkSession) -> None:
    sound: list[LogRow] = [(1, item, day(item), None) for item in range(10)]
    unsound: list[LogRow] = [(None, 1, day(50), "NULL_ID")] * 5 + [
        (1, 1, None, "NULL_TIMESTAMP"),
        (1, 1, None, None),
    ]
    rule = GlobalLocalRanker()
    assert rule.find(Times(SparkRows(log_of(spark, sound + unsound)))) == rule.find(
        Times(SparkRows(log_of(spark, sound)))
    )
    assert rule.find(Times(SparkRows(log_of(spark, sound)))).local_cut == 8 * DAY


@pytest.mark.parametrize("boundary", list(Boundary))
def test_a_log_of_one_instant_cannot_be_split(spark: SparkSession, boundary: Boundary) -> None:
    log = log_at(spark, *[day(3)] * 10)
    with pytest.raises(DataError, match=r"is not before .*the log runs from 1970-01-04 00:00:00") as refused:
        GlobalLocalRanker(boundary=boundary).find(Times(SparkRows(log)))
    assert refused.value.code == "SPLIT_OUT_OF_RANGE"


def test_a_cut_outside_the_log_is_refused(spark: SparkSession) -> None:
    with pytest.raises(DataError, match="no event is left for global_test") as refused:
        split(log_at(spark, day(1), day(2), day(3)).drop(FAULT), local_cut=0.5, global_cut="2050-01-01")
    assert refused.value.code == "SPLIT_OUT_OF_RANGE"


def test_a_log_without_sound_rows_is_refused(spark: SparkSession) -> None:
    for rows in ([], [(None, 1, day(1), "NULL_ID")]):
        with pytest.raises(DataError, match="EMPTY_INPUT"):
            GlobalLocalRanker().find(Times(SparkRows(log_of(spark, rows))))


def test_a_log_that_changes_between_readings_is_refused(spark: SparkSession) -> None:
    log = log_at(spark, day(1), day(2))
    with pytest.raises(DataError, match="INPUT_CHANGED_DURING_RUN"):
        times_of_rows(Times(SparkRows(log)), TimeBucket(DAY, 2 * DAY, 9), [8])


def test_a_pass_of_the_descent_reads_its_times_only(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log_of(spark, KNOWN_AND_COLD).write.parquet(str(tmp_path / "log"))
    asked: list[DataFrame] = []

    def noted(*asking: Any) -> DataFrame:
        asked.append(times_counted(*asking))
        return asked[-1]

    monkeypatch.setattr(cuts, "times_counted", noted)
    rule = GlobalLocalRanker(global_cut=Share(Fraction(99, 100)))
    rule.find(Times(SparkRows(spark.read.parquet(str(tmp_path / "log")))))
    assert len(asked) == 2
    assert "GreaterThanOrEqual(timestamp" in plan_of(asked[1], capsys)
