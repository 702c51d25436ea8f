"""Values of events: one table has one answer, on every way in; what reads no value is not judged by it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_eval import evaluate_experiments, sum_user_days
from spark_eval.errors import DataError
from spark_eval.experiments.evaluate import Experiments

NOON: Final = pd.Timestamp("2024-05-02T12:00:00Z")
HOME: Final[dict[str, Any]] = {
    "name": "home",
    "control": "a",
    "variants": {"a": 1, "b": 1},
    "period": ["2024-05-01", "2024-05-08"],
}
USERS: Final = [1, 1, 2, 3, 4, 4]
NULLS: Final = [10.0, None, 20.0, None, 40.0, 2.0]
NANS: Final = [np.nan if value is None else value for value in NULLS]
# Means over two users in each arm, without the two events that have no value.
SUMMED: Final = (15.0, 21.0)


def exposures() -> pd.DataFrame:
    return pd.DataFrame({"user": [1, 2, 3, 4], "variant": list("aabb"), "timestamp": NOON})


def events(values: Any, kind: str = "buy") -> pd.DataFrame:
    return pd.DataFrame({"user": USERS, "kind": kind, "timestamp": NOON, "value": values})


def arrow(values: pa.Array) -> pa.Table:
    table = pa.Table.from_pandas(events(1.0), preserve_index=False)
    return table.set_column(table.column_names.index("value"), "value", values)


def in_file(values: pa.Array) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        pq.write_table(arrow(values), folder / "events.parquet")
        return folder / "events.parquet"

    return write


WAYS: Final[dict[str, Callable[[Path], Any]]] = {
    "pandas": lambda _: events(NANS),
    "pandas, objects": lambda _: events(pd.Series(NULLS, dtype=object)),
    "pandas, nullable": lambda _: events(pd.array(NULLS, dtype="Float64")),
    "pandas, integers": lambda _: events(pd.array(NULLS, dtype="Int64")),
    "pandas, of Arrow": lambda _: events(pd.Series(NULLS, dtype="double[pyarrow]")),
    "Arrow, null": lambda _: arrow(pa.array(NULLS)),
    "Arrow, NaN": lambda _: arrow(pa.array(NANS)),
    "Arrow, float": lambda _: arrow(pa.array(NULLS, pa.float32())),
    "Arrow, integers": lambda _: arrow(pa.array(NULLS, pa.int32())),
    "polars, null": lambda _: pl.from_arrow(arrow(pa.array(NULLS))),
    "polars, NaN": lambda _: pl.from_arrow(arrow(pa.array(NANS))),
    "file, null": in_file(pa.array(NULLS)),
    "file, NaN": in_file(pa.array(NANS)),
    "file, integers": in_file(pa.array(NULLS, pa.int64())),
}
OF_BUY: Final[dict[str, dict[str, Any]]] = {
    name: {"name": name, "kind": "mean", "of": {"kind": "buy", "value": name}}
    for name in ("sum", "count", "any")
}


def run(given: Any, names: tuple[str, ...], engine: str = "local", **options: Any) -> Experiments:
    metrics = [OF_BUY[name] for name in names]
    return evaluate_experiments(
        exposures(), given, metrics, HOME, engine=engine, max_quarantined=0.5, cuped=False, **options
    )


def values_of(found: Experiments) -> dict[str, tuple[float | None, float | None]]:
    return {row.metric: (row.control_value, row.treatment_value) for row in found.experiment_rows}


def quarantined(found: Experiments) -> dict[str | None, int]:
    return {one.reason: one.rows for one in found.entries if one.outcome == "quarantined"}


def check_way(given: Any, engine: str = "local") -> None:
    found = run(given, ("sum",), engine)
    assert values_of(found) == {"sum": SUMMED}
    assert quarantined(found) == {"VALUE_OUT_OF_RANGE": 2}
    # A row that one metric cannot use is used by none.
    found = run(given, ("sum", "count", "any"), engine)
    assert values_of(found) == {"sum": SUMMED, "count": (1.0, 1.0), "any": (1.0, 0.5)}
    assert quarantined(found) == {"VALUE_OUT_OF_RANGE": 2}
    found = run(given, ("count", "any"), engine)
    assert values_of(found) == {"count": (1.5, 1.5), "any": (1.0, 1.0)}
    assert quarantined(found) == {}


@pytest.mark.parametrize("way", WAYS)
def test_an_event_without_a_value_is_not_summed(way: str, tmp_path: Path) -> None:
    check_way(WAYS[way](tmp_path))


@pytest.mark.spark
@pytest.mark.parametrize("way", ["pandas", "Arrow, NaN", "Arrow, integers", "file, null", "file, NaN"])
def test_an_event_without_a_value_is_not_summed_on_spark(way: str, tmp_path: Path) -> None:
    check_way(WAYS[way](tmp_path), "spark")


@pytest.mark.parametrize("value", [-1.0, np.inf, -np.inf, 1e300, np.nan])
@pytest.mark.parametrize("terms", [{"value": "count"}, {"value": "any"}, {"value": "count", "cap": 3}])
def test_numbers_of_events_read_no_value(value: float, terms: dict[str, Any]) -> None:
    """Also beside a metric that sums the values of other events, with decimals, of days as of one run."""
    bought: dict[str, Any] = {"name": "bought", "kind": "mean", "of": {"kind": "buy", **terms}}
    paid: dict[str, Any] = {"name": "paid", "kind": "mean", "of": {"kind": "pay"}, "decimals": 2}
    both = pd.concat([events(value), events(NULLS, "pay").dropna()])
    metrics = [bought, paid]
    found = evaluate_experiments(exposures(), both, metrics, HOME, engine="local", cuped=False)
    expected = {"count": (1.5, 1.5), "any": (1.0, 1.0)}[terms["value"]]
    assert values_of(found) == {"bought": expected, "paid": SUMMED}
    assert quarantined(found) == {}
    days = sum_user_days(exposures(), both, metrics, HOME, engine="local").rows
    again = evaluate_experiments(exposures(), days, metrics, HOME, engine="local", cuped=False)
    assert again.experiment_rows == found.experiment_rows


def test_without_a_column_each_event_counts_1() -> None:
    found = run(events(1.0).drop(columns="value"), ("sum", "count", "any"))
    assert values_of(found) == {"sum": (1.5, 1.5), "count": (1.5, 1.5), "any": (1.0, 1.0)}
    renamed = events(NANS).rename(columns={"value": "amount"})
    assert values_of(run(renamed, ("sum",))) == {"sum": (1.5, 1.5)}
    mapped = run(renamed, ("sum",), event_columns={"value": "amount"})
    assert values_of(mapped) == {"sum": SUMMED}


def test_too_many_events_without_a_value_are_an_error_that_says_how_to_count_them() -> None:
    with pytest.raises(DataError, match=r"QUARANTINE_SHARE.*2 VALUE_OUT_OF_RANGE.*value: count"):
        evaluate_experiments(exposures(), events(NANS), [OF_BUY["sum"]], HOME, engine="local")
    # Days are summed whole; their quarantined rows are counted.
    found = sum_user_days(exposures(), events(NANS), [OF_BUY["sum"]], HOME, engine="local")
    counts = {one.reason: one.rows for one in found.entries if one.outcome == "quarantined"}
    assert counts == {"VALUE_OUT_OF_RANGE": 2}
