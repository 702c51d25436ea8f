"""Labels: every edge of the rule on literal logs, cold and seen rows, the draw of ranker parts."""

from pathlib import Path
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from split_logs import (
    DAY,
    KNOWN_AND_COLD,
    PLAIN,
    day,
    labelled,
    log_at,
    log_of,
    outcomes,
    plan_of,
    ranker_parts,
)

from spark_eval.schema import FAULT, FOLD, SUBSET, TIMESTAMP, USER
from spark_eval.splits.rules.fold_rule import Policy
from spark_eval.splits.rules.global_local_ranker import GlobalLocalRanker, Timeline
from spark_eval.splits.rules.moments import Boundary


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
    assert outcomes(labelled(log, GlobalLocalRanker(boundary=boundary), PLAIN)) == expected


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
    assert outcomes(labelled(log, rule, timeline)) == expected


def test_faults_stay_and_null_timestamps_get_one(spark: SparkSession) -> None:
    log = log_of(
        spark,
        [
            (1, 0, day(1), None),
            (None, 1, day(1), "NULL_ID"),
            (1, 2, None, "NULL_TIMESTAMP"),
        ],
    )
    assert outcomes(labelled(log, GlobalLocalRanker(), PLAIN)) == [
        "local_train",
        "NULL_ID",
        "NULL_TIMESTAMP",
    ]


def test_other_columns_pass_unchanged(spark: SparkSession) -> None:
    log = (
        log_at(spark, day(1), day(15)).withColumn("a.b `c`", F.array("item")).withColumn("place", F.lit("x"))
    )
    done = labelled(log, GlobalLocalRanker(cold_users=Policy.DROP), PLAIN)
    assert done.columns == [*log.columns, FOLD, SUBSET]
    assert_df_equality(done.drop(FOLD, SUBSET).orderBy("item"), log.orderBy("item"))
    assert done.schema[FOLD].dataType.simpleString() == "int"


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
    spark: SparkSession, policies: dict[str, Any], dropped: dict[tuple[int, int, str], str]
) -> None:
    done = labelled(log_of(spark, KNOWN_AND_COLD), GlobalLocalRanker(**policies), PLAIN)
    rows = done.withColumn("when", F.date_format(TIMESTAMP, "yyyy-MM-dd HH:mm:ss")).collect()
    assert len(rows) == len(KNOWN_AND_COLD)
    faults = {(row.user, row.item, row.when): row.fault for row in rows if row.fault is not None}
    null_id: dict[Any, str] = {(None, 1, day(21)): "NULL_ID"}
    assert faults == null_id | dropped


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
        ranker_parts(labelled(users_log(spark, 200, kind), GlobalLocalRanker(), PLAIN))
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
    parts = ranker_parts(labelled(users_log(spark, 4_000), GlobalLocalRanker(ranker_test_share=share), PLAIN))
    assert list(parts.values()).count("ranker_test") / 4_000 == pytest.approx(share, abs=0.03)


def test_another_seed_divides_the_users_anew(spark: SparkSession) -> None:
    parts = [
        ranker_parts(labelled(users_log(spark, 200), GlobalLocalRanker(seed=seed), PLAIN))
        for seed in (0, 1, -(2**63))
    ]
    assert parts[0] != parts[1] != parts[2]


def test_labels_are_a_projection_of_one_scan(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log_of(spark, KNOWN_AND_COLD).write.parquet(str(tmp_path / "log"))
    log = spark.read.parquet(str(tmp_path / "log"))
    kept = plan_of(labelled(log, GlobalLocalRanker(), PLAIN), capsys)
    assert "Exchange" not in kept
    assert kept.count("FileScan") == 1
    assert "Exchange" in plan_of(labelled(log, GlobalLocalRanker(seen=Policy.DROP), PLAIN), capsys)
