"""The leakage report finds what is planted, and only that."""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from split_logs import at, day

from spark_eval.runners.rows import SparkRows
from spark_eval.splits.facts import SplitCounts
from spark_eval.splits.leakage import compare_times, leakage_rows
from spark_eval.splits.rules.global_local_ranker import GlobalLocalRanker

Row = tuple[Any, Any, Any, str]
Found = dict[str, tuple[int, int, bool]]
SPLIT_ROWS = "user int, item int, timestamp timestamp, subset string"


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
    assert found(spark.createDataFrame(rows, SPLIT_ROWS)) == {
        "ranker_at_or_before_local_train": (3, 2, True),
        "global_test_at_or_before_global_train": (1, 1, True),
        "users_in_both_ranker_parts": (3, 1, True),
        "pairs_in_train_and_local_test": (2, 1, False),
        "pairs_in_train_and_global_test": (2, 2, False),
    }


def test_an_empty_split_leaks_nothing(spark: SparkSession) -> None:
    nothing = found(spark.createDataFrame([], SPLIT_ROWS))
    assert len(nothing) == 5
    assert set(nothing.values()) == {(0, 0, False)}


@pytest.mark.parametrize("kind", ["int", pytest.param("string", marks=pytest.mark.slow)])
def test_what_is_found_is_found_one_by_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    random, as_id = Random(5), str if kind == "string" else int
    rows: list[Row] = [
        (
            as_id(random.randrange(40)),
            as_id(random.randrange(25)),
            at(day(random.randrange(30))),
            random.choice(("local_train", "local_train", "ranker_train", "ranker_test", "global_test")),
        )
        for _ in range(600)
    ]
    monkeypatch.setattr("spark_eval.splits.leakage.PART_ROWS_PER_BUCKET", 50)
    split_rows = spark.createDataFrame(
        rows, f"user {kind}, item {kind}, timestamp timestamp, subset string"
    ).repartition(3)
    expected = one_by_one(rows)
    assert all(n_rows for n_rows, _, _ in expected.values())
    assert found(split_rows) == expected
    split_rows.withColumn("fold", F.lit(0)).write.partitionBy("subset").parquet(str(tmp_path / "split"))
    # The frame has no rows: what is found comes from the folder.
    nothing = split_rows.limit(0).withColumn("fold", F.lit(0))
    assert found(nothing, facts_of(split_rows), str(tmp_path / "split")) == expected


def found(split_rows: DataFrame, facts: SplitCounts | None = None, folder: str | None = None) -> Found:
    rows = split_rows.withColumn("fold", F.lit(0))
    counts = compare_times(SparkRows(rows), facts or facts_of(split_rows), 1, folder)
    report = leakage_rows(counts, GlobalLocalRanker())
    return {check: (n_rows, users, leaked) for _, check, n_rows, users, leaked in report}


def facts_of(split_rows: DataFrame) -> SplitCounts:
    parts = split_rows.groupBy("subset").count().collect()
    return SplitCounts(GlobalLocalRanker(), assigned=Counter({row["subset"]: row["count"] for row in parts}))


def one_by_one(rows: list[Row]) -> Found:
    """The checks, each as it is defined."""
    local_train = [row for row in rows if row[3] == "local_train"]
    local_test = [row for row in rows if row[3].startswith("ranker")]
    global_test = [row for row in rows if row[3] == "global_test"]
    local_end = max(row[2] for row in local_train)
    global_end = max(row[2] for row in local_train + local_test)
    learnt = {row[:2] for row in local_train}
    known = learnt | {row[:2] for row in local_test}
    both = {row[0] for row in rows if row[3] == "ranker_train"} & {
        row[0] for row in rows if row[3] == "ranker_test"
    }
    chosen = {
        "ranker_at_or_before_local_train": [row for row in local_test if row[2] <= local_end],
        "global_test_at_or_before_global_train": [row for row in global_test if row[2] <= global_end],
        "users_in_both_ranker_parts": [row for row in local_test if row[0] in both],
        "pairs_in_train_and_local_test": [row for row in local_test if row[:2] in learnt],
        "pairs_in_train_and_global_test": [row for row in global_test if row[:2] in known],
    }
    return {
        check: (len(leaks), len({row[0] for row in leaks}), not check.startswith("pairs"))
        for check, leaks in chosen.items()
    }
