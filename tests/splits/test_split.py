"""The verb ``split``: the table of rows, the ledger, MovieLens."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from split_logs import day, leaks, log_at, outcomes, ranker_parts

from spark_eval.accounting import ACCOUNTING
from spark_eval.errors import ConfigError, SparkEvalError
from spark_eval.runners.rows import SparkRows
from spark_eval.schema import FAULT, SUBSET, TIMESTAMP, USER
from spark_eval.splits.labelled_on_spark import LabelledBySpark
from spark_eval.splits.rules.global_local_ranker import GlobalLocalRanker
from spark_eval.splits.rules.methods import GLOBAL_LOCAL_RANKER, rule_of
from spark_eval.splits.split import Split, split

RATINGS = Path(__file__).parents[2].parent / "shared" / "data" / "ml-latest-small" / "ratings.csv"


def test_the_windows_of_validation_and_metrics(spark: SparkSession) -> None:
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


def test_equal_timestamps_stay_on_one_side_of_a_share(spark: SparkSession) -> None:
    log = log_at(spark, *[day(1)] * 3, *[day(2)] * 6, day(3))
    assert outcomes(split(log.drop(FAULT), local_cut=0.5, global_cut=0.95).labelled) == [
        *["local_train"] * 3,
        *["local_test"] * 6,
        "global_test",
    ]
    tied = log_at(spark, day(1), *[day(2)] * 6, day(3), day(4), day(5)).drop(FAULT)
    done = split(tied, local_cut=0.5, global_cut=0.8, boundary="inclusive_train")
    assert outcomes(done.labelled) == [*["local_train"] * 7, "local_test", *["global_test"] * 2]


def raw_log(spark: SparkSession) -> DataFrame:
    """A log as people have it: other names, epochs in seconds, nulls."""
    rows: list[tuple[Any, ...]] = [("u1", item, 86_400 * item, 3.5, f"note {item}") for item in range(1, 21)]
    rows += [("u2", item, 86_400 * item, 1.0, "") for item in range(15, 25)]
    rows += [(None, 1, 5, 1.0, ""), ("u1", None, 5, 1.0, ""), ("u1", 1, None, 1.0, "")]
    random.Random(5).shuffle(rows)
    return spark.createDataFrame(rows, "who string, what int, at long, stars double, note string")


COLUMNS = {"user": "who", "item": "what", "timestamp": "at", "relevance": "stars"}
RAW_OPTIONS: dict[str, Any] = {
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
    ledger = raw_split(spark).to_spark("accounting")
    assert_df_equality(ledger, spark.createDataFrame(expected, ACCOUNTING))


def test_the_rows_are_counted_while_they_are_written(spark: SparkSession, tmp_path: Path) -> None:
    done = raw_split(spark)
    written = done.write(str(tmp_path / "splits"))
    assert written == done.log.count()
    assert written.accounting() == [tuple(row.values()) for row in done.to_arrow("accounting").to_pylist()]
    used = sum(row[4] for row in written.accounting() if row[2] == "used")
    assert spark.read.parquet(str(tmp_path / "splits")).count() == used


def test_a_ledger_that_does_not_close_is_refused(spark: SparkSession) -> None:
    frame = raw_split(spark).log.rows.result()
    done = raw_split(spark).log
    assert isinstance(done, LabelledBySpark)
    rows = SparkRows(frame.withColumn(FAULT, F.regexp_replace(FAULT, "gap", "unheard of")))
    with pytest.raises(SparkEvalError, match="LEDGER_OPEN"):
        replace(done, rows=rows).count().accounting()


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
    whole = split(
        raw_log(spark), rule_of(GLOBAL_LOCAL_RANKER, RAW_OPTIONS), columns=COLUMNS, timestamp_unit="s"
    )
    assert_df_equality(whole.labelled, raw_split(spark).labelled, ignore_row_order=True)


@pytest.mark.skipif(not RATINGS.exists(), reason="MovieLens ml-latest-small is not beside the repository")
@pytest.mark.slow
def test_movielens_by_shares(spark: SparkSession) -> None:
    ratings = spark.read.csv(str(RATINGS), header=True, inferSchema=True)
    done = split(
        ratings,
        local_cut=0.8,
        global_cut=0.9,
        columns={"user": "userId", "item": "movieId", "relevance": "rating"},
        timestamp_unit="s",
    )
    lines = done.to_arrow("accounting").to_pylist()
    ledger = {(row["outcome"], row["reason"]): row["rows"] for row in lines}
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
    assert not any(leaked for _, _, leaked in leaks(done.to_spark("leakage")).values())
