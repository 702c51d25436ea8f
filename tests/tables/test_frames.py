"""pandas frames and Arrow tables where Spark frames are taken: the same numbers and the same ids."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_eval import evaluate, evaluate_predictions, get_session, split
from spark_eval.errors import ConfigError, DataError
from spark_eval.tables.arrow_frames import as_arrow

MILLIONS = 2**53 + 1  # a double would make another id of it


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=str)


def test_evaluate_takes_pandas_and_arrow_and_keeps_ids(spark: SparkSession) -> None:
    lists = pd.DataFrame(
        {
            "user": pd.array([MILLIONS, MILLIONS, 2, None], dtype="Int64"),
            "item": pd.Categorical(["007", "b", "b", "NaN"]),
            "score": np.array([2, 1, 1, 1], dtype="uint8"),
        }
    )
    truth = pd.DataFrame({"user": [MILLIONS, 2, 3], "item": ["007", "NaN", None]})
    users = pa.table({"user": [MILLIONS, 2], "shop": ["x", "y"]})
    found = evaluate(lists, truth, model="m", metrics="mrr", k=5, users=users, segments="shop")
    same = evaluate(
        spark.createDataFrame(
            [(MILLIONS, "007", 2), (MILLIONS, "b", 1), (2, "b", 1), (None, "NaN", 1)], LISTS
        ),
        spark.createDataFrame([(MILLIONS, "007"), (2, "NaN"), (3, None)], "user long, item string"),
        model="m",
        metrics=["mrr"],
        k=[5],
        users=spark.createDataFrame([(MILLIONS, "x"), (2, "y")], "user long, shop string"),
        segments=["shop"],
    )
    for name in ("metrics", "accounting"):
        assert rows(found.to_spark(name)) == rows(same.to_spark(name))
    assert {row.user: row.rr_at_5 for row in found.per_user.collect()} == {MILLIONS: 1.0, 2: 0.0}


LISTS = "user long, item string, score int"


def test_split_takes_pandas_and_its_times(spark: SparkSession) -> None:
    when = pd.date_range("2024-01-01", periods=10, freq="D")
    log = pd.DataFrame({"user": range(10), "item": range(10), "timestamp": when, "shop": None})
    done = split(log, local_cut=0.6, global_cut="2024-01-09", timezone="Europe/Berlin")
    assert [row.user for row in done.subset("global_test").orderBy("user").collect()] == [8, 9]
    of_text = split(
        log.astype({"timestamp": str}), local_cut=0.6, global_cut="2024-01-09", timezone="Europe/Berlin"
    )
    assert rows(done.rows) == rows(of_text.rows)
    assert done.labelled.sparkSession is spark


def test_predictions_take_pandas_with_a_named_index(spark: SparkSession) -> None:
    assert spark is get_session()
    scored = pd.DataFrame({"label": [0, 1], "score": [0.2, 0.9]}, index=pd.Index(["a", "b"], name="user"))
    done = evaluate_predictions(scored, "binary", model="m", metrics="ROC-AUC")
    assert [(row.metric, row.value) for row in done.metrics.itertuples()] == [("auc", 1.0)]


@pytest.mark.parametrize(
    ("column", "values", "kind"),
    [
        (pd.Series([1, None], dtype="Int64"), [1, None], pa.int64()),
        (pd.Series(["1", None, np.nan]), ["1", None, None], pa.string()),
        (pd.Series(["a", None], dtype="category"), ["a", None], pa.string()),
        (pd.Series([2**40], dtype="uint64"), [2**40], pa.int64()),
        (pd.Series([1.5, np.nan], dtype="float16"), [1.5, None], pa.float32()),
        (pd.Series([None, None]), [None, None], pa.string()),
        (pd.Series([[1, 2], None]), [[1, 2], None], pa.list_(pa.int64())),
        (pd.Series([True, None], dtype="boolean"), [True, None], pa.bool_()),
        (pd.Series([], dtype=object), [], pa.string()),
    ],
    ids=lambda value: str(getattr(value, "dtype", "")),
)
def test_columns_keep_their_values(column: pd.Series, values: list[object], kind: pa.DataType) -> None:
    [found] = as_arrow("log", column.to_frame("x")).columns
    assert found.to_pylist() == values
    assert found.type == kind or (found.type, kind) == (pa.large_string(), pa.string())  # of pandas 3


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pd.Series([1, "a"]), "column 'x' cannot be taken"),
        (pd.Series([object()]), "one type that Spark has"),
        (pd.Series([2**64 - 1], dtype="uint64"), "it is unsigned, with values of 2^63 or more"),
        (pd.Series(pd.to_datetime(["2024-01-01T00:00:00.000000001"])), ".dt.floor('us')"),
    ],
)
def test_unsupported_types_are_reported_by_column(column: pd.Series, words: str) -> None:
    with pytest.raises(DataError, match="UNSUPPORTED_TYPE") as raised:
        as_arrow("log", column.to_frame("x"))
    assert words in raised.value.message


@pytest.mark.parametrize("frame", [[(1, 2)], {"user": [1]}, pa.chunked_array([[1]]), pd.Series([1])])
@pytest.mark.parametrize(
    "verb",
    [lambda it: evaluate(it, it, model="m"), split, lambda it: evaluate_predictions(it, "binary")],
)
def test_an_object_that_is_not_a_frame_is_refused_in_one_line(
    verb: Callable[[Any], object], frame: object
) -> None:
    with pytest.raises(ConfigError, match="NOT_A_FRAME"):
        verb(frame)


@pytest.mark.parametrize("name", ["recommendations", "truth"])
def test_the_error_of_a_lazy_frame_names_collect(name: str) -> None:
    frame = pd.DataFrame({"user": [1], "item": [1], "score": [1.0]})
    given: dict[str, Any] = {"recommendations": frame, "truth": frame}
    with pytest.raises(ConfigError, match=rf"NOT_A_FRAME.* {name} .*LazyFrame; give {name}\.collect\(\)"):
        evaluate(**given | {name: pl.from_pandas(frame).lazy()}, model="m")


def test_ids_that_pandas_made_floats_are_refused_with_the_mend(spark: SparkSession) -> None:
    assert spark is get_session()
    with pytest.raises(DataError, match=r"ID_IS_FLOAT.*'user' is double.*astype\('Int64'\)"):
        evaluate(
            pd.DataFrame({"user": [1, None], "item": 1, "score": 1}),
            pd.DataFrame({"user": [1], "item": 1}),
            model="m",
        )


def test_a_session_has_the_name_that_it_is_started_with(spark: SparkSession) -> None:
    assert spark.sparkContext.appName == spark.conf.get("spark.app.name") == "spark-eval tests"


def test_an_existing_session_is_returned_and_ignored_settings_are_reported(
    spark: SparkSession, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = dict(os.environ)
    for name, value in {"handlers": [], "propagate": True}.items():
        monkeypatch.setattr(f"spark_eval.runtime.events.log.{name}", value)
    found = get_session(conf={"spark.executor.memory": "9g", "spark.sql.shuffle.partitions": "2"})
    assert found is spark
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == ["spark.executor.memory"]
    assert dict(os.environ) == before


def test_a_session_of_spark_connect_is_returned(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    before = dict(os.environ)
    assert get_session() is spark
    remote = object()
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: remote)
    assert get_session() is remote
    assert dict(os.environ) == before
