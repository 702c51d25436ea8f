"""Text and times of pandas in all of its types, of pandas 2 and 3: the values of plain Arrow tables."""

import warnings
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import cache, partial
from typing import Any, Final

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_eval import (
    compare,
    evaluate,
    evaluate_experiments,
    evaluate_interleaving,
    evaluate_linkage,
    evaluate_predictions,
    sample_pairs,
    split,
)
from spark_eval.errors import DataError
from spark_eval.runners.rows import map_in_arrow
from spark_eval.runtime.any_session import PANDAS_WARNING
from spark_eval.tables.arrow_frames import as_arrow

Values = Sequence[Any]
ToSeries = Callable[[Values], "pd.Series[Any]"]


def of_arrow(kind: pa.DataType) -> ToSeries:
    """Series that pandas keeps in Arrow's own type."""
    return lambda values: pd.Series(pd.arrays.ArrowExtensionArray(pa.array(values, kind)))


def dictionary_of(kind: pa.DataType) -> ToSeries:
    """Series of codes of distinct texts of an Arrow type."""

    def coded(values: Values) -> "pd.Series[Any]":
        plain = pa.array(values, pa.string()).dictionary_encode()
        array = pa.DictionaryArray.from_arrays(plain.indices, plain.dictionary.cast(kind))
        return pd.Series(pd.arrays.ArrowExtensionArray(array))

    return coded


TEXT: Final[dict[str, ToSeries]] = {
    "default": pd.Series,  # object in pandas 2; in pandas 3 ``str``, where NaN is missing
    "object": lambda values: pd.Series(values, dtype=object),
    "string": lambda values: pd.Series(values, dtype="string"),
    "string[python]": lambda values: pd.Series(values, dtype="string[python]"),
    "string[pyarrow]": lambda values: pd.Series(values, dtype="string[pyarrow]"),
    "category": lambda values: pd.Series(values).astype("category"),
    "arrow": of_arrow(pa.string()),
    "large": of_arrow(pa.large_string()),
    "view": of_arrow(pa.string_view()),
    "dictionary": dictionary_of(pa.string()),
    "dictionary of large": dictionary_of(pa.large_string()),
    "dictionary of views": dictionary_of(pa.string_view()),
}
# Types that columns of one frame have by turns.
MIXES: Final = [list(TEXT)[first::3] for first in range(3)]


def in_pandas(table: pa.Table, *texts: str) -> pd.DataFrame:
    """A table in pandas; its columns of text are in these types by turns."""
    columns, n_texts = {}, 0
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.type == pa.string():
            columns[name] = TEXT[texts[n_texts % len(texts)]](column.to_pylist())
            n_texts += 1
        else:
            columns[name] = column.to_pandas()
    return pd.DataFrame(columns)


LISTS: Final = pa.table(
    {"user": ["ann", "ann", "bob", "bob", None], "item": ["a", "b", "é", "a", "a"], "rank": [1, 2, 1, 2, 1]}
)
TRUTH: Final = pa.table({"user": ["ann", "bob", "cy"], "item": ["b", "é", "a"]})
USERS: Final = pa.table({"user": ["ann", "bob"], "shop": ["north", None]})
PER_USER: Final = pa.table(
    {"user": ["ann", "bob"] * 2, "model": ["als"] * 2 + ["bpr"] * 2, "mrr_at_5": [0.5, 1.0, 1.0, 1.0]}
)
START: Final = datetime(2024, 5, 1)
LOG: Final = pa.table(
    {
        "user": ["ann", "ann", "bob", "bob"],
        "item": ["a", "b", "b", None],
        "timestamp": pa.array([START + timedelta(days=n) for n in range(4)], pa.timestamp("us")),
        "shop": [None, "x", "y", None],
    }
)
SCORED: Final = pa.table(
    {"label": [0, 1, 1, 0], "score": [0.1, 0.9, 0.4, 0.5], "user": ["ann", "ann", "bob", "bob"]}
)
NOON: Final = pa.timestamp("us", "UTC")
EXPOSURES: Final = pa.table(
    {
        "user": ["1", "2", "3", "4"],
        "variant": list("aabb"),
        "timestamp": pa.array([START + timedelta(hours=12)] * 4, NOON),
    }
)
EVENTS: Final = pa.table(
    {
        "user": ["1", "1", "3", "4"],
        "kind": ["click", "click", "click", "view"],
        "id": ["e", "e", "f", None],
        "timestamp": pa.array([START + timedelta(hours=12)] * 4, NOON),
    }
)
CLICKS: Final = [{"name": "clicks", "kind": "mean", "of": {"kind": "click", "value": "count"}}]
HOME: Final = {
    "name": "home",
    "control": "a",
    "variants": {"a": 1, "b": 1},
    "period": ["2024-05-01", "2024-05-08"],
}
DRAFT: Final = pa.table(
    {
        "item": ["x", "y"],
        "team": ["a", "b"],
        "clicked": [1, 0],
        "impression": ["i", "i"],
        "user": ["ann", "ann"],
        "position": [1, 2],
        "first_pick": ["a", "a"],
    }
)
PREDICTED: Final = pa.table({"record": list("12345678"), "cluster": list("11232444")})
TRUE: Final = pa.table({"record": list("12345678"), "cluster": list("11122334")})
PAIRS: Final = pa.table({"a": list("1124"), "b": list("2333"), "score": [0.9, 0.8, 0.2, 0.1]})

Frames = Callable[[pa.Table], Any]


def rows(table: pa.Table) -> list[str]:
    """The rows, in no order."""
    return sorted(map(str, table.to_pylist()))


def of_evaluate(frames: Frames, engine: str) -> list[pa.Table]:
    found = evaluate(
        frames(LISTS),
        frames(TRUTH),
        model="m",
        metrics="mrr",
        k=5,
        users=frames(USERS),
        segments="shop",
        engine=engine,
    )
    return [found.to_arrow(name) for name in ("metrics", "per_user", "accounting")]


def of_compare(frames: Frames, engine: str) -> list[pa.Table]:
    return [compare(frames(PER_USER), engine=engine).to_arrow()]


def of_split(frames: Frames, engine: str) -> list[pa.Table]:
    done = split(frames(LOG), method="time", test_cut="2024-05-03", engine=engine)
    return [done.to_arrow(name) for name in ("subsets", "accounting", "rows")]


def of_predictions(frames: Frames, engine: str) -> list[pa.Table]:
    found = evaluate_predictions(
        frames(SCORED), "binary", model="ctr", metrics=["auc", "gauc"], engine=engine
    )
    return [found.to_arrow(name) for name in ("metrics", "accounting")]


def of_experiments(frames: Frames, engine: str) -> list[pa.Table]:
    found = evaluate_experiments(frames(EXPOSURES), frames(EVENTS), CLICKS, HOME, engine=engine)
    return [found.to_arrow(name) for name in ("experiments", "accounting")]


def of_interleaving(frames: Frames, engine: str) -> list[pa.Table]:
    return [evaluate_interleaving(frames(DRAFT), engine=engine).to_arrow()]


def of_linkage(frames: Frames, engine: str) -> list[pa.Table]:
    drawn = sample_pairs(frames(PAIRS), frames(PAIRS.slice(0, 2)), strata=[0.5], per_stratum=1, engine=engine)
    return [evaluate_linkage(frames(PREDICTED), frames(TRUE), engine=engine).to_arrow(), drawn]


VERBS: Final = {
    "evaluate": of_evaluate,
    "compare": of_compare,
    "split": of_split,
    "predictions": of_predictions,
    "experiments": of_experiments,
    "interleaving": of_interleaving,
    "linkage": of_linkage,
}
each_verb = pytest.mark.parametrize("verb", VERBS)


@pytest.mark.parametrize("text", TEXT)
def test_missing_text_is_null_and_the_rest_stays(text: str) -> None:
    values = ["a", None, "", "nan", "None", "é\U0001f600", "007"]
    [found] = as_arrow("log", TEXT[text](values).to_frame("x")).columns
    assert found.to_pylist() == values
    assert found.type in (pa.string(), pa.large_string())


@cache
def of_plain_arrow(verb: str) -> list[list[str]]:
    return list(map(rows, VERBS[verb](lambda table: table, "local")))


@each_verb
@pytest.mark.parametrize("mix", MIXES, ids=", ".join)
def test_text_of_each_type_has_the_values_of_arrow_in_this_process(verb: str, mix: list[str]) -> None:
    found = VERBS[verb](lambda table: in_pandas(table, *mix), "local")
    assert list(map(rows, found)) == of_plain_arrow(verb)


@pytest.mark.parametrize(
    "verb", [verb if verb == "evaluate" else pytest.param(verb, marks=pytest.mark.slow) for verb in VERBS]
)
def test_text_of_several_types_has_the_values_of_arrow_on_spark(verb: str, spark: SparkSession) -> None:
    assert spark.range(1).count() == 1
    found = VERBS[verb](lambda table: in_pandas(table, "default", "view", "dictionary of views"), "spark")
    assert list(map(rows, found)) == of_plain_arrow(verb)


def test_values_of_text_by_hand() -> None:
    def frames(table: pa.Table) -> Any:
        return in_pandas(table, "default")

    metrics, per_user, accounting = of_evaluate(frames, "local")
    of_all = [row["value"] for row in metrics.to_pylist() if row["segment"] == "all"]
    assert of_all == [0.5]  # ann 1/2, bob 1, cy without a list 0
    assert {row["user"]: row["rr_at_5"] for row in per_user.to_pylist()} == {"ann": 0.5, "bob": 1, "cy": 0}
    assert {row["shop"] for row in per_user.to_pylist()} >= {"north"}
    quarantined = [row["rows"] for row in accounting.to_pylist() if row["outcome"] == "quarantined"]
    assert quarantined == [1]
    [compared] = of_compare(frames, "local")
    assert compared["difference"].to_pylist() == [0.25]
    assert of_predictions(frames, "local")[0]["value"].to_pylist()[0] == 0.75
    values = of_experiments(frames, "local")[0].to_pylist()[0]
    assert (values["control_value"], values["treatment_value"]) == (0.5, 0.5)  # one of two clicks repeats


def test_tables_of_text_are_plain_in_arrow() -> None:
    """Also a table with a row per user, which is of the kind that was given."""
    for verb in (of_evaluate, of_split):
        for table in verb(lambda table: in_pandas(table, "default"), "local"):
            assert not [name for name in table.column_names if pa.types.is_large_string(table[name].type)]


def test_text_of_results_has_the_type_that_pandas_gives_text() -> None:
    lists = in_pandas(LISTS.slice(0, 4), "default")
    found = evaluate(lists, TRUTH, model="m", metrics="mrr", k=5, engine="local")
    assert found.metrics["metric"].dtype == found.per_user["user"].dtype == pd.Series(["a"]).dtype
    assert found.to_pandas("per_user")["user"].dtype == pd.Series(["a"]).dtype


UNITS: Final = ("s", "ms", "us", "ns")


def of_unit(unit: str, zone: str | None) -> ToSeries:
    """Times of numpy's unit, at the clock of a zone if there is one."""

    def times(values: Values) -> "pd.Series[Any]":
        found = pd.Series(np.array(values, dtype=f"datetime64[{unit}]"))
        return found.dt.tz_localize("UTC").dt.tz_convert(zone) if zone else found

    return times


TIMES: Final[dict[str, ToSeries]] = {
    "default": lambda values: pd.Series(pd.to_datetime(list(map(str, values)))),
    "object": lambda values: pd.Series(values, dtype=object),
    **{f"{unit}": of_unit(unit, None) for unit in UNITS},
    **{f"{unit}, UTC": of_unit(unit, "UTC") for unit in UNITS},
    **{f"{unit}, Tokyo": of_unit(unit, "Asia/Tokyo") for unit in UNITS},
    **{f"arrow {unit}": of_arrow(pa.timestamp(unit)) for unit in UNITS},
    **{f"arrow {unit}, Tokyo": of_arrow(pa.timestamp(unit, "Asia/Tokyo")) for unit in UNITS},
}


def log_with(times: ToSeries) -> pd.DataFrame:
    """A log whose last row is a second before midnight in UTC, and the next day in Tokyo."""
    when = [START, START + timedelta(days=1), START + timedelta(days=2, seconds=-1)]
    return pd.DataFrame({"user": ["ann", "bob", "cy"], "item": ["a", "a", "a"], "timestamp": times(when)})


@pytest.mark.parametrize("times", TIMES)
def test_times_of_each_unit_are_split_at_the_same_moment(times: str) -> None:
    done = split(
        log_with(TIMES[times]),
        method="time",
        test_cut="2024-05-02T23:59:59",
        timezone="UTC",
        engine="local",
    )
    assert done.test["user"].tolist() == ["cy"]
    assert done.train["user"].tolist() == ["ann", "bob"]


def test_times_of_each_unit_are_split_at_the_same_moment_on_spark(spark: SparkSession) -> None:
    assert spark.range(1).count() == 1
    for times in ("s, Tokyo", "arrow ms"):
        done = split(
            log_with(TIMES[times]),
            method="time",
            test_cut="2024-05-02T23:59:59",
            timezone="UTC",
            engine="spark",
        )
        assert [row.user for row in done.test.collect()] == ["cy"]


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_times_that_nanoseconds_lack_stay(unit: str) -> None:
    times = pd.Series(np.array(["0001-01-01", "NaT", "9999-12-31"], dtype=f"datetime64[{unit}]"))
    [found] = as_arrow("log", times.to_frame("x")).columns
    assert found.to_pylist() == [datetime(1, 1, 1), None, datetime(9999, 12, 31)]


@pytest.mark.parametrize("times", [of_unit("ns", None), of_arrow(pa.timestamp("ns"))])
def test_nanoseconds_that_are_no_microseconds_are_refused(times: ToSeries) -> None:
    with pytest.raises(DataError, match=r"UNSUPPORTED_TYPE.*'timestamp'.*\.dt\.floor\('us'\)"):
        split(log_with(lambda values: times(values) + pd.Timedelta(1, "ns")), engine="local")


def table_of_kind(kind: pa.DataType, values: Any) -> pa.Table:
    return pa.table({"x": pa.array(values, kind)})


VIEWS: Final[dict[str, Callable[[Any], Any]]] = {
    "polars": lambda values: pl.DataFrame({"x": values}),
    **{
        str(kind): partial(table_of_kind, kind)
        for kind in (pa.list_(pa.string_view()), pa.large_list(pa.string_view()), pa.list_(pa.large_string()))
    },
}


@pytest.mark.parametrize("kind", VIEWS)
def test_lists_of_text_of_each_type_keep_their_values(kind: str) -> None:
    values = [["a", None, "b"], None, [], ["é"]]
    [found] = as_arrow("lists", VIEWS[kind](values)).columns
    assert found.to_pylist() == values
    assert found.type.value_type in (pa.string(), pa.large_string())


def test_lists_of_views_are_evaluated(spark: SparkSession) -> None:
    assert spark.range(1).count() == 1
    lists = pa.table({"user": ["ann"], "item": pa.array([["a", "b"]], pa.large_list(pa.string_view()))})
    found = evaluate(lists, TRUTH, model="m", metrics="mrr", k=5, layout="array")
    assert found.metrics["value"].tolist() == [0.5 / 3]


class Warning3:
    """A Spark frame whose PySpark warns."""

    def __init__(self, text: str) -> None:
        self.text = text

    def mapInArrow(self, *_: object) -> str:  # noqa: N802
        warnings.warn(self.text, FutureWarning, stacklevel=2)
        return "rows"


def test_only_the_warning_of_pandas_3_is_hidden() -> None:
    of_pandas = f"{PANDAS_WARNING} >= 3.0.0. Some features may not work correctly."
    warning: Any = Warning3(of_pandas)
    nothing: Any = None
    rows: Any = map_in_arrow(warning, iter, nothing)
    assert rows == "rows"
    warning = Warning3("another")
    with pytest.raises(FutureWarning, match="another"):
        map_in_arrow(warning, iter, nothing)
