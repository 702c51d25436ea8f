"""Tables of results as frames of pandas, polars, Arrow and Spark, whichever engine ran."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.monitoring.days import FIRST, SECOND, publish_day

from spark_eval import (
    compare,
    evaluate,
    evaluate_experiments,
    evaluate_interleaving,
    evaluate_linkage,
    evaluate_predictions,
    history,
    split,
    sum_user_days,
    window,
)
from spark_eval.errors import ConfigError, SetupError
from spark_eval.results.exported import Exported

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("each_engine")

NOON: Final = pd.Timestamp("2024-05-01T12:00:00Z")
LISTS: Final = pd.DataFrame(
    {"user": [1, 1, 2, 1, 2], "item": [7, 8, 9, 8, 9], "rank": [1, 2, 1, 1, 1], "model": list("aaabb")}
)
ITEMS: Final = pd.DataFrame({"item": [7, 8, 9], "genre": ["jazz", "folk", "jazz"]})
TRUTH: Final = pd.DataFrame({"user": [1, 2], "item": [8, 9]})
LOG: Final = pd.DataFrame({"user": range(10), "item": range(10), "timestamp": range(10)})
SCORED: Final = pd.DataFrame({"user": [1, 1, 2], "label": [0, 1, 1], "score": [0.2, 0.9, 0.1]})
SHOWN: Final = pd.DataFrame({"item": ["x", "y"], "team": ["a", "b"], "clicked": [1, 0], "position": [1, 2]})
EXPOSURES: Final = pd.DataFrame({"user": [1, 2, 3, 4], "variant": list("aabb"), "timestamp": NOON})
EVENTS: Final = pd.DataFrame({"user": [1, 1, 3], "kind": "click", "timestamp": NOON})
CLICKS: Final = {"name": "clicks", "kind": "mean", "of": {"kind": "click"}}
HOME: Final = {
    "name": "home",
    "control": "a",
    "variants": {"a": 1, "b": 1},
    "period": ["2024-05-01", "2024-05-08"],
}
# Results of either engine, by name.
OF_AN_ENGINE: Final[dict[str, Callable[[str], Exported]]] = {
    "evaluate": lambda engine: evaluate(
        LISTS, TRUTH, metrics="mrr", k=2, items=ITEMS, item_segments=["genre"], engine=engine
    ),
    "split": lambda engine: split(LOG, method="time", test_cut=0.8, timestamp_unit="s", engine=engine),
    "predictions": lambda engine: evaluate_predictions(
        SCORED, "binary", model="m", metrics="auc", intervals="user", engine=engine
    ),
    "experiments": lambda engine: evaluate_experiments(EXPOSURES, EVENTS, [CLICKS], HOME, engine=engine),
    "interleaving": lambda engine: evaluate_interleaving(
        SHOWN.assign(impression=1, user=7, first_pick="a"), engine=engine
    ),
    "user days": lambda engine: sum_user_days(EXPOSURES, EVENTS, [CLICKS], HOME, engine=engine),
}
# Tables that Spark keeps.
LARGE: Final = {"per_user", "item_segments", "rows"}


@pytest.fixture(scope="module")
def results(each_engine: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Exported]:
    """One result of each kind, of this process."""
    daily = tmp_path_factory.mktemp(f"daily-{each_engine}")
    for run_id, rows in (("2024-03-01", FIRST), ("2024-03-02", SECOND)):
        publish_day(daily, run_id, {"als": rows})
    pairs = pd.DataFrame({"a": [1, 2], "b": [2, 3]})
    found = {name: measured("local") for name, measured in OF_AN_ENGINE.items()}
    return found | {
        "compare": compare(found["evaluate"].to_pandas("per_user"), baseline_model="a", metrics=["mrr@2"]),
        "history": history(str(daily), metrics=["map@2"]),
        "linkage": evaluate_linkage(pairs, pairs[:1]),
        "window": window(str(daily), first="2024-03-01", last="2024-03-02"),
    }


def cells(rows: pa.Table) -> list[str]:
    """The rows, in one order."""
    return sorted(map(str, rows.to_pylist()))


def check_kinds(result: Exported, spark: "SparkSession | None") -> None:
    """Every table has the same types and rows as a frame of each library."""
    for name in (*result.tables, *result.on_request):
        rows = result.to_arrow(name)
        assert isinstance(result.to_pandas(name), pd.DataFrame)
        assert result.to_pandas(name).columns.tolist() == rows.column_names
        of_polars = result.to_polars(name)
        assert isinstance(of_polars, pl.DataFrame)
        assert of_polars.rows() == [tuple(row.values()) for row in rows.to_pylist()]
        if name not in LARGE:
            assert isinstance(result.table(name), pd.DataFrame)
            pd.testing.assert_frame_equal(result.table(name), result.to_pandas(name))
        if spark is not None:
            of_spark = result.to_spark(name)
            assert of_spark.sparkSession is spark
            assert cells(of_spark.toArrow().cast(rows.schema)) == cells(rows)
    assert result.table() is result.table(result.tables[0])
    with pytest.raises(ConfigError, match="UNKNOWN_TABLE"):
        result.to_polars("nothing")


KINDS: Final = (*OF_AN_ENGINE, "compare", "history", "linkage", "window")


@pytest.mark.parametrize("name", KINDS)
def test_tables_of_this_process_are_of_every_library(results: dict[str, Exported], name: str) -> None:
    check_kinds(results[name], None)


@pytest.mark.parametrize("name", KINDS)
def test_tables_of_this_process_go_to_spark(
    spark: "SparkSession", results: dict[str, Exported], name: str
) -> None:
    check_kinds(results[name], spark)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in ("evaluate", "split") else pytest.mark.slow)
        for name in OF_AN_ENGINE
    ],
)
def test_small_tables_are_pandas_frames_on_spark_too(
    spark: "SparkSession", results: dict[str, Exported], name: str
) -> None:
    result = OF_AN_ENGINE[name]("spark")
    check_kinds(result, spark)
    for table in result.tables:
        assert cells(result.to_arrow(table)) == cells(results[name].to_arrow(table))
        if table not in LARGE:
            pd.testing.assert_frame_equal(result.table(table), results[name].table(table))
        else:
            assert result.to_spark(table).columns == result.table(table).columns


def test_a_column_without_values_keeps_its_type(results: dict[str, Exported]) -> None:
    reason = results["linkage"].to_arrow("accounting")["reason"]
    assert (reason.type, reason.null_count) == (pa.string(), len(reason))


def test_polars_may_be_missing(results: dict[str, Exported], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(SetupError, match="pip install polars") as missing:
        results["evaluate"].to_polars()
    assert missing.value.code == "NO_POLARS"
