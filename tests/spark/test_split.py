"""The split on Spark: every edge of the rule on literal logs, exact cuts, the ledger, the leakage report."""

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest
from chispa import assert_df_equality
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from spark_eval.errors import ConfigError, DataError, SparkEvalError
from spark_eval.schema import FAULT, FOLD, SUBSET, TIMESTAMP, USER
from spark_eval.splits import cuts
from spark_eval.splits.cuts import Bucket, resolve, times_of_rows
from spark_eval.splits.label import label
from spark_eval.splits.leakage import leakage
from spark_eval.splits.moments import Boundary, DaysBack, Share, to_microseconds
from spark_eval.splits.rules import GlobalLocalRanker, Policy, Timeline
from spark_eval.verbs.split import LEDGER_SCHEMA, Split, ledger_counts, ledger_rows, split

RATINGS = Path(__file__).parents[2].parent / "shared" / "data" / "ml-latest-small" / "ratings.csv"
LOG = "user int, item int, timestamp timestamp, fault string"
DAY = 86_400_000_000

LogRow = tuple[int | None, int | None, str | None, str | None]
# Cuts at days 10 and 20 of a log of a month.
PLAIN = Timeline(
    local_train_end=10 * DAY, local_cut=10 * DAY, local_test_end=20 * DAY, global_cut=20 * DAY, end=None
)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def micros(text: str) -> int:
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


def outcomes(labelled: DataFrame) -> list[str]:
    """Of each row, ordered by item and user, the subset or the fault; both parts of local_test are one."""
    rows = labelled.orderBy("item", "user", TIMESTAMP).select(SUBSET, FAULT).collect()
    assert all((row[SUBSET] is None) != (row[FAULT] is None) for row in rows)
    found = [row[SUBSET] or row[FAULT] for row in rows]
    return ["local_test" if name.startswith("ranker_") else name for name in found]


@pytest.mark.parametrize(
    ("boundary", "expected"),
    [
        (
            Boundary.EXCLUSIVE,
            [
                "local_train",
                "local_train",
                "local_test",
                "local_test",
                "local_test",
                "global_test",
                "global_test",
            ],
        ),
        (
            Boundary.INCLUSIVE_TRAIN,
            [
                "local_train",
                "local_train",
                "local_train",
                "local_test",
                "local_test",
                "local_test",
                "global_test",
            ],
        ),
    ],
)
def test_the_instant_of_a_cut_is_on_the_side_of_the_boundary(
    spark: SparkSession, boundary: Boundary, expected: list[str]
) -> None:
    log = log_at(
        spark,
        day(0),
        "1970-01-10 23:59:59",
        day(10),
        "1970-01-11 00:00:01",
        "1970-01-20 23:59:59",
        day(20),
        "1970-01-21 00:00:01",
    )
    assert outcomes(label(log, GlobalLocalRanker(boundary=boundary), PLAIN)) == expected


def test_the_windows_of_seed_002(spark: SparkSession) -> None:
    log = log_at(
        spark,
        "2023-01-01 00:00:00",
        "2023-02-01 00:00:00",
        "2023-02-14 00:00:00",
        "2023-02-14 00:00:01",
        "2023-02-28 00:00:00",
        "2023-02-28 00:00:01",
    ).drop(FAULT)
    done = split(
        log,
        local_cut="2023-01-31",
        global_cut={"instant": "2023-02-14 00:00:00"},
        test_days=14,
        boundary="inclusive_train",
    )
    assert outcomes(done.labelled) == [
        "local_train",
        "local_test",
        "local_test",
        "global_test",
        "global_test",
        "after_end",
    ]
    assert [row.item for row in done.subset("global_train").orderBy("item").collect()] == [0, 1, 2]


@pytest.mark.parametrize(
    ("boundary", "expected"),
    [
        (
            Boundary.EXCLUSIVE,
            ["local_train", "gap", "gap", "local_test", "local_test", "gap", "global_test", "after_end"],
        ),
        (
            Boundary.INCLUSIVE_TRAIN,
            ["local_train", "local_train", "gap", "gap", "local_test", "local_test", "gap", "global_test"],
        ),
    ],
)
def test_gaps_before_both_tests_and_rows_after_the_end_are_dropped(
    spark: SparkSession, boundary: Boundary, expected: list[str]
) -> None:
    log = log_at(spark, day(0), day(8), day(9), day(10), day(17), day(18), day(20), day(25))
    rule = GlobalLocalRanker(boundary=boundary, gap_days=2, test_days=5)
    timeline = Timeline.of(rule, 10 * DAY, 20 * DAY, 0, 25 * DAY)
    assert outcomes(label(log, rule, timeline)) == expected


def test_days_back_count_from_the_newest_event(spark: SparkSession) -> None:
    log = log_at(spark, "2023-01-01 00:00:00", "2023-03-01 12:00:00", "2023-03-31 12:00:00")
    rule = GlobalLocalRanker(local_cut=DaysBack(30), global_cut=DaysBack(0.5))
    timeline = resolve(log, rule)
    assert (timeline.local_cut, timeline.global_cut) == (
        micros("2023-03-01 12:00:00"),
        micros("2023-03-31 00:00:00"),
    )
    berlin = resolve(log, replace(rule, timezone="Europe/Berlin"))
    assert berlin.local_cut == micros("2023-03-01 13:00:00"), "clocks went forward between"


def test_instants_are_local_to_the_timezone_unless_they_name_an_offset(spark: SparkSession) -> None:
    log = log_at(spark, "2023-01-01 00:00:00", "2023-12-31 00:00:00")
    rule = GlobalLocalRanker.of(
        {"local_cut": "2023-07-01", "global_cut": "2023-08-01T00:00:00-05:00", "timezone": "Europe/Berlin"}
    )
    timeline = resolve(log, rule)
    assert timeline.local_cut == micros("2023-06-30 22:00:00")
    assert timeline.global_cut == micros("2023-08-01 05:00:00")


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
    found = {resolve(spread_log(spark, n_rows, n, n), rule) for n in (1, 2, 7)}
    assert [(timeline.local_cut, timeline.global_cut) for timeline in found] == [
        (ordered[index[0]], ordered[index[1]])
    ]


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
    frame = frame.select(F.timestamp_micros("at").alias(TIMESTAMP))
    indexes = [Share(share).index(len(times), boundary) for share in shares]
    with pytest.MonkeyPatch.context() as narrow:
        # Few rows need the many passes of a large log once a pass tells only four buckets apart.
        narrow.setattr(cuts, "FANOUT_BITS", 2)
        found = times_of_rows(frame, Bucket(min(times), max(times), 0, len(times)), indexes)
    assert found == {index: sorted(times)[index] for index in indexes}


def test_rows_with_a_fault_or_no_timestamp_do_not_move_a_share(spark: SparkSession) -> None:
    sound: list[LogRow] = [(1, item, day(item), None) for item in range(10)]
    unsound: list[LogRow] = [(None, 1, day(50), "NULL_ID")] * 5 + [
        (1, 1, None, "NULL_TIMESTAMP"),
        (1, 1, None, None),
    ]
    rule = GlobalLocalRanker()
    assert resolve(log_of(spark, sound + unsound), rule) == resolve(log_of(spark, sound), rule)
    assert resolve(log_of(spark, sound), rule).local_cut == 8 * DAY


def test_equal_timestamps_stay_on_one_side_of_a_share(spark: SparkSession) -> None:
    log = log_at(spark, *[day(1)] * 3, *[day(2)] * 6, day(3))
    options = {"local_cut": 0.5, "global_cut": 0.95}
    assert outcomes(split(log.drop(FAULT), **options).labelled) == [
        *["local_train"] * 3,
        *["local_test"] * 6,
        "global_test",
    ]
    tied = log_at(spark, day(1), *[day(2)] * 6, day(3), day(4), day(5)).drop(FAULT)
    done = split(tied, local_cut=0.5, global_cut=0.8, boundary="inclusive_train")
    assert outcomes(done.labelled) == [*["local_train"] * 7, "local_test", *["global_test"] * 2]


@pytest.mark.parametrize("boundary", list(Boundary))
def test_a_log_of_one_instant_cannot_be_split(spark: SparkSession, boundary: Boundary) -> None:
    log = log_at(spark, *[day(3)] * 10)
    with pytest.raises(DataError, match=r"is not before .*the log runs from 1970-01-04 00:00:00") as refused:
        resolve(log, GlobalLocalRanker(boundary=boundary))
    assert refused.value.code == "SPLIT_OUT_OF_RANGE"


def test_a_cut_outside_the_log_is_refused(spark: SparkSession) -> None:
    with pytest.raises(DataError, match="no event is left for global_test") as refused:
        split(log_at(spark, day(1), day(2), day(3)).drop(FAULT), local_cut=0.5, global_cut="2050-01-01")
    assert refused.value.code == "SPLIT_OUT_OF_RANGE"


def test_a_log_without_sound_rows_is_refused(spark: SparkSession) -> None:
    for rows in ([], [(None, 1, day(1), "NULL_ID")]):
        with pytest.raises(DataError, match="EMPTY_INPUT"):
            resolve(log_of(spark, rows), GlobalLocalRanker())


def test_a_log_that_changes_between_readings_is_refused(spark: SparkSession) -> None:
    log = log_at(spark, day(1), day(2))
    with pytest.raises(DataError, match="INPUT_CHANGED_DURING_RUN"):
        times_of_rows(log, Bucket(DAY, 2 * DAY, 0, 9), [8])


def test_faults_stay_and_null_timestamps_get_one(spark: SparkSession) -> None:
    log = log_of(
        spark,
        [
            (1, 0, day(1), None),
            (None, 1, day(1), "NULL_ID"),
            (1, 2, None, "NULL_TIMESTAMP"),
            (1, 3, None, None),
        ],
    )
    assert outcomes(label(log, GlobalLocalRanker(), PLAIN)) == [
        "local_train",
        "NULL_ID",
        "NULL_TIMESTAMP",
        "NULL_TIMESTAMP",
    ]


def test_other_columns_pass_unchanged(spark: SparkSession) -> None:
    log = (
        log_at(spark, day(1), day(15)).withColumn("a.b `c`", F.array("item")).withColumn("place", F.lit("x"))
    )
    labelled = label(log, GlobalLocalRanker(cold_users=Policy.DROP), PLAIN)
    assert labelled.columns == [*log.columns, FOLD, SUBSET]
    assert_df_equality(labelled.drop(FOLD, SUBSET).orderBy("item"), log.orderBy("item"))
    assert labelled.schema[FOLD].dataType.simpleString() == "int"


# user 1 and item 1 are known; user 2 comes in local_test, user 3 in global_test; so do items 2 and 3.
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


@pytest.mark.parametrize(
    ("policies", "dropped"),
    [
        ({}, {}),
        (
            {"cold_users": Policy.DROP},
            {(2, 1, day(11)): "cold_user", (2, 4, day(21)): "cold_user", (3, 1, day(21)): "cold_user"},
        ),
        (
            {"cold_items": Policy.DROP},
            {
                (1, 2, day(11)): "cold_item",
                (1, 2, day(12)): "cold_item",
                (1, 2, day(21)): "cold_item",
                (1, 3, day(21)): "cold_item",
                (1, 3, day(22)): "cold_item",
            },
        ),
        ({"seen": Policy.DROP}, {(1, 1, day(11)): "seen", (1, 2, day(21)): "seen"}),
        (
            {"cold_users": Policy.DROP, "cold_items": Policy.DROP, "seen": Policy.DROP},
            {
                (1, 1, day(11)): "seen",
                (1, 2, day(11)): "cold_item",
                (1, 2, day(12)): "cold_item",
                (2, 1, day(11)): "cold_user",
                (1, 2, day(21)): "cold_item",
                (1, 3, day(21)): "cold_item",
                (1, 3, day(22)): "cold_item",
                (2, 4, day(21)): "cold_user",
                (3, 1, day(21)): "cold_user",
            },
        ),
    ],
)
def test_cold_and_seen_rows_are_dropped_from_the_test_parts_on_request(
    spark: SparkSession, policies: dict[str, Policy], dropped: dict[tuple[int, int, str], str]
) -> None:
    labelled = label(log_of(spark, KNOWN_AND_COLD), GlobalLocalRanker(**policies), PLAIN)
    rows = labelled.withColumn("when", F.date_format(TIMESTAMP, "yyyy-MM-dd HH:mm:ss")).collect()
    assert len(rows) == len(KNOWN_AND_COLD)
    faults = {(row.user, row.item, row.when): row.fault for row in rows if row.fault is not None}
    assert faults == {(None, 1, day(21)): "NULL_ID", **dropped}


def ranker_parts(labelled: DataFrame) -> dict[str, str]:
    rows = labelled.select(F.col(USER).cast("string"), SUBSET).distinct().collect()
    assert len({row[0] for row in rows}) == len(rows), "a user in two parts"
    return {row[0]: row[1] for row in rows}


def users_log(spark: SparkSession, n_users: int, kind: str = "int") -> DataFrame:
    """Every user three times in local_test."""
    rows = spark.range(n_users).crossJoin(spark.range(3).withColumnRenamed("id", "item"))
    return rows.select(
        F.col("id").cast(kind).alias(USER),
        "item",
        F.timestamp_seconds(F.lit(15 * 86_400)).alias(TIMESTAMP),
        F.lit(None).cast("string").alias(FAULT),
    )


def test_ranker_parts_share_no_user_and_depend_on_the_written_id_only(spark: SparkSession) -> None:
    parts = [
        ranker_parts(label(users_log(spark, 200, kind), GlobalLocalRanker(), PLAIN))
        for kind in ("int", "bigint", "string")
    ]
    assert parts[0] == parts[1] == parts[2]
    assert set(parts[0].values()) == {"ranker_train", "ranker_test"}
    # Written down once: the draw must stay what it is from one version to the next.
    assert [user for user in map(str, range(12)) if parts[0][user] == "ranker_test"] == [
        *("0", "4", "8", "9", "11")
    ]


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_ranker_test_has_its_share_of_users(spark: SparkSession, share: float) -> None:
    parts = ranker_parts(label(users_log(spark, 4_000), GlobalLocalRanker(ranker_test_share=share), PLAIN))
    assert list(parts.values()).count("ranker_test") / 4_000 == pytest.approx(share, abs=0.03)


def test_another_seed_divides_the_users_anew(spark: SparkSession) -> None:
    parts = [
        ranker_parts(label(users_log(spark, 200), GlobalLocalRanker(seed=seed), PLAIN))
        for seed in (0, 1, -(2**63))
    ]
    assert parts[0] != parts[1] != parts[2]


def plan_of(frame: DataFrame, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    frame.explain()
    return capsys.readouterr().out


def test_labels_are_a_projection_of_one_scan(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log_of(spark, KNOWN_AND_COLD).write.parquet(str(tmp_path / "log"))
    log = spark.read.parquet(str(tmp_path / "log"))
    kept = plan_of(label(log, GlobalLocalRanker(), PLAIN), capsys)
    assert "Exchange" not in kept
    assert kept.count("FileScan") == 1
    assert "Exchange" in plan_of(label(log, GlobalLocalRanker(seen=Policy.DROP), PLAIN), capsys)


def test_a_pass_of_the_descent_reads_its_times_only(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log_of(spark, KNOWN_AND_COLD).write.parquet(str(tmp_path / "log"))
    asked: list[DataFrame] = []
    divide = cuts.divide

    def noted(times: DataFrame, key: object) -> list[Bucket]:
        asked.append(times)
        return divide(times, key)

    monkeypatch.setattr(cuts, "divide", noted)
    resolve(spark.read.parquet(str(tmp_path / "log")), GlobalLocalRanker(global_cut=Share(Fraction(99, 100))))
    assert len(asked) == 2
    assert "GreaterThanOrEqual(timestamp" in plan_of(asked[1], capsys)


SPLIT_ROWS = "user int, item int, timestamp timestamp, subset string"


def leaks(frame: DataFrame) -> dict[str, tuple[int, int, bool]]:
    assert frame.dtypes == [
        ("check", "string"),
        ("rows", "bigint"),
        ("users", "bigint"),
        ("leaked", "boolean"),
    ]
    return {row.check: (row.rows, row.users, row.leaked) for row in frame.collect()}


def test_the_leakage_report_finds_what_was_planted(spark: SparkSession) -> None:
    rows = [
        (1, 1, at(day(10)), "local_train"),
        (2, 2, at(day(5)), "local_train"),
        # at and before the end of local_train
        (1, 3, at(day(10)), "ranker_train"),
        (2, 3, at(day(9)), "ranker_test"),
        (2, 4, at(day(9)), "ranker_test"),
        # user 5 in both parts, with three rows
        (5, 1, at(day(11)), "ranker_train"),
        (5, 2, at(day(11)), "ranker_test"),
        (5, 3, at(day(12)), "ranker_test"),
        # met in local_train before, twice
        (1, 1, at(day(11)), "ranker_train"),
        (1, 1, at(day(12)), "ranker_train"),
        # at the end of global_train; met in local_test
        (5, 3, at(day(12)), "global_test"),
        # met in local_train
        (2, 2, at(day(13)), "global_test"),
        (9, 9, at(day(13)), "global_test"),
    ]
    assert leaks(leakage(spark.createDataFrame(rows, SPLIT_ROWS))) == {
        "ranker_at_or_before_local_train": (3, 2, True),
        "global_test_at_or_before_global_train": (1, 1, True),
        "users_in_both_ranker_parts": (3, 1, True),
        "pairs_in_train_and_local_test": (2, 1, False),
        "pairs_in_train_and_global_test": (2, 2, False),
    }


def test_an_empty_split_leaks_nothing(spark: SparkSession) -> None:
    found = leaks(leakage(spark.createDataFrame([], SPLIT_ROWS)))
    assert len(found) == 5
    assert set(found.values()) == {(0, 0, False)}


def test_the_leakage_report_moves_the_log_once(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = plan_of(leakage(spark.createDataFrame([], SPLIT_ROWS)), capsys)
    assert plan.count("Exchange hashpartitioning") == 1


def raw_log(spark: SparkSession) -> DataFrame:
    """A log as people have it: other names, epochs in seconds, nulls."""
    rows = [("u1", item, 86_400 * item, 3.5, f"note {item}") for item in range(1, 21)]
    rows += [("u2", item, 86_400 * item, 1.0, "") for item in range(15, 25)]
    rows += [(None, 1, 5, 1.0, ""), ("u1", None, 5, 1.0, ""), ("u1", 1, None, 1.0, "")]
    random.Random(5).shuffle(rows)
    return spark.createDataFrame(rows, "who string, what int, at long, stars double, note string")


COLUMNS = {"user": "who", "item": "what", "timestamp": "at", "relevance": "stars"}
RAW_OPTIONS: dict[str, object] = {
    "local_cut": 0.5,
    "global_cut": 0.8,
    "gap_days": 1,
    "test_days": 3,
    "cold_users": "drop",
}


def raw_split(spark: SparkSession) -> Split:
    return split(raw_log(spark), columns=COLUMNS, timestamp_unit="s", **RAW_OPTIONS)


def test_the_ledger_closes_and_names_every_reason(spark: SparkSession) -> None:
    # Of 30 sound rows, the one at place 15 is of day 15, the one at place 24 of day 20, less a day of
    # gap before either; the end is day 23. u2 comes on day 15, and so is cold.
    expected = [
        ("interactions", None, "in", None, 33, None),
        ("interactions", None, "used", "local_train", 13, None),
        ("interactions", None, "used", "ranker_train", 4, None),
        ("interactions", None, "used", "global_test", 1, None),
        ("interactions", None, "dropped", "gap", 3, None),
        ("interactions", None, "dropped", "after_end", 2, None),
        ("interactions", None, "dropped", "cold_user", 7, None),
        ("interactions", None, "quarantined", "NULL_ID", 2, None),
        ("interactions", None, "quarantined", "NULL_TIMESTAMP", 1, None),
    ]
    ledger = raw_split(spark).accounting()
    assert_df_equality(ledger, spark.createDataFrame(expected, LEDGER_SCHEMA))


def test_the_ledger_can_be_observed_while_the_rows_are_written(spark: SparkSession, tmp_path: Path) -> None:
    done, observation = raw_split(spark), Observation("ledger")
    watched = replace(done, labelled=done.labelled.observe(observation, *ledger_counts()))
    watched.rows.write.partitionBy(SUBSET).parquet(str(tmp_path / "splits"))
    observed = ledger_rows(observation.get)
    assert observed == [tuple(row) for row in done.accounting().collect()]
    used = sum(row[4] for row in observed if row[2] == "used")
    assert spark.read.parquet(str(tmp_path / "splits")).count() == used


def test_a_ledger_that_does_not_close_is_refused(spark: SparkSession) -> None:
    labelled = raw_split(spark).labelled.withColumn(FAULT, F.regexp_replace(FAULT, "gap", "unheard of"))
    with pytest.raises(SparkEvalError, match="LEDGER_NOT_CLOSED"):
        ledger_rows(labelled.agg(*ledger_counts()).collect()[0].asDict())


def test_rows_have_the_columns_of_the_table_splits(spark: SparkSession) -> None:
    done = raw_split(spark)
    assert done.rows.dtypes == [
        ("user", "string"),
        ("item", "int"),
        ("timestamp", "timestamp"),
        ("relevance", "double"),
        ("fold", "int"),
        ("note", "string"),
        ("subset", "string"),
    ]
    assert done.labelled.count() == 33
    assert done.rows.where(F.col(SUBSET).isNull() | F.col(USER).isNull()).count() == 0


def test_a_subset_is_taken_by_any_of_its_names(spark: SparkSession) -> None:
    done = raw_split(spark)
    names = ("local_train", "ranker_train", "ranker_test", "local_test", "global_train", "global_test")
    assert [done.subset(name).count() for name in names] == [13, 4, 0, 4, 17, 1]
    with pytest.raises(ConfigError, match="did you mean 'local_test'") as refused:
        done.subset("localtest")
    assert refused.value.code == "UNKNOWN_SUBSET"


def test_a_rule_and_its_options_are_not_mixed(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match="not both: seed"):
        split(raw_log(spark), GlobalLocalRanker(), columns=COLUMNS, timestamp_unit="s", seed=3)


def test_a_rule_given_whole_is_the_same_as_its_options(spark: SparkSession) -> None:
    whole = split(raw_log(spark), GlobalLocalRanker.of(RAW_OPTIONS), columns=COLUMNS, timestamp_unit="s")
    assert_df_equality(whole.labelled, raw_split(spark).labelled, ignore_row_order=True)


@pytest.mark.skipif(not RATINGS.exists(), reason="MovieLens ml-latest-small is not beside the repository")
def test_movielens_by_shares(spark: SparkSession) -> None:
    ratings = spark.read.csv(str(RATINGS), header=True, inferSchema=True)
    done = split(
        ratings,
        local_cut=0.8,
        global_cut=0.9,
        columns={"user": "userId", "item": "movieId", "relevance": "rating"},
        timestamp_unit="s",
    )
    ledger = {(row.outcome, row.reason): row.rows for row in done.accounting().collect()}
    assert ledger.pop(("in", None)) == 100_004
    assert sum(ledger.values()) == 100_004
    assert {outcome for outcome, _ in ledger} == {"used"}
    assert ledger["used", "local_train"] == pytest.approx(80_003, abs=60)
    times = F.unix_micros(TIMESTAMP)
    spans = {
        name: done.subset(name).agg(F.min(times), F.max(times)).collect()[0]
        for name in ("local_train", "local_test", "global_test")
    }
    assert spans["local_train"][1] < spans["local_test"][0]
    assert spans["local_test"][1] < spans["global_test"][0]
    ranker_parts(done.subset("local_test"))
    assert not any(leaked for _, _, leaked in leaks(done.leakage()).values())
