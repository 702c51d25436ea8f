"""Unsigned integers and nanoseconds of Parquet files: as in frames, on both engines."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spark_eval
from spark_eval.errors import DataError

UNSIGNED: Final = {pa.uint8(): 2**8, pa.uint16(): 2**16, pa.uint32(): 2**32, pa.uint64(): 2**63}
Case = tuple[dict[str, pa.Table], Callable[..., list[Any]], list[Any]]
NOON: Final = datetime(2024, 5, 1, 12, tzinfo=UTC)
ENGINES: Final = ("local", pytest.param("spark", marks=pytest.mark.slow))


def ids(kind: pa.DataType) -> pa.Array:
    """Two ids, the second the largest that this process and Spark both have."""
    return pa.array([5, UNSIGNED[kind] - 1], kind)


def tables(kind: pa.DataType, users: pa.Array) -> Iterator[Case]:
    """Yield tables, the call that takes them, and the values that it returns by hand."""
    lists = pa.table({"user": users, "item": users, "rank": [1, 1]})
    yield {"recommendations": lists, "truth": lists.drop_columns("rank")}, mrr, [1.0]
    yield {"predictions": pa.table({"user": users, "label": [0, 1], "score": [0.25, 0.75]})}, error, [0.25]
    per_user = pa.table({"user": pa.concat_arrays([users, users]), "model": list("aabb")})
    per_user = per_user.append_column("ndcg_at_10", pa.array([0.0, 1, 1, 1]))
    yield {"candidate": per_user}, difference, [0.5]
    exposures = pa.table({"user": users, "variant": ["c", "t"], "timestamp": [NOON, NOON]})
    events = pa.table({"user": users, "timestamp": [NOON, NOON], "kind": ["buy", "buy"]})
    yield {"exposures": exposures, "events": events}, mean, [(1.0, 1.0)]
    pairs = pa.table({"a": users, "b": pa.array([7, 8], kind)})
    yield {"predicted": pairs, "true": pairs.slice(0, 1)}, precision, [0.5]


def mrr(engine: str, **given: Any) -> list[Any]:
    found = spark_eval.evaluate(**given, model="m", metrics=["mrr"], k=1, engine=engine)
    return [row.value for row in found.metric_rows]


def error(engine: str, predictions: Any) -> list[Any]:
    options: Any = {"metrics": ["mae"], "intervals": "user", "engine": engine}
    found = spark_eval.evaluate_predictions(predictions, "binary", model="m", **options)
    return [*found.to_arrow("metrics")["value"].to_pylist()]


def difference(engine: str, candidate: Any) -> list[Any]:
    return [row.difference for row in spark_eval.compare(candidate, engine=engine).rows]


def mean(engine: str, exposures: Any, events: Any) -> list[Any]:
    metric = {"name": "m", "kind": "mean", "of": {"kind": "buy"}, "cuped": False}
    home = {"name": "e", "control": "c", "variants": {"c": 1, "t": 1}, "period": ["2024-05-01", "2024-05-08"]}
    found = spark_eval.evaluate_experiments(exposures, events, [metric], home, engine=engine)
    return [(row.control_value, row.treatment_value) for row in found.experiment_rows]


def precision(engine: str, predicted: Any, true: Any) -> list[Any]:
    return [spark_eval.evaluate_linkage(predicted, true, engine=engine).value("pairwise_precision")]


def written(folder: Path, name: str, table: pa.Table) -> str:
    """Write a table; return its path."""
    folder.mkdir(exist_ok=True)
    pq.write_table(table, folder / f"{name}.parquet")
    return str(folder / f"{name}.parquet")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", UNSIGNED, ids=str)
def test_unsigned_ids_of_files_are_those_of_frames(engine: str, kind: pa.DataType, tmp_path: Path) -> None:
    for given, call, right in tables(kind, ids(kind)):
        assert call(engine, **given) == right
        assert call(engine, **{name: written(tmp_path, name, one) for name, one in given.items()}) == right


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("largest", [2**63, 2**64 - 1])
def test_wider_unsigned_ids_are_refused_in_files_as_in_frames(
    engine: str, largest: int, tmp_path: Path
) -> None:
    for given, call, _ in tables(pa.uint64(), pa.array([5, largest], pa.uint64())):
        files = {name: written(tmp_path, name, one) for name, one in given.items()}
        for form in (given, files):
            with pytest.raises(DataError, match=r"UNSUPPORTED_TYPE.*unsigned") as raised:
                call(engine, **form)
            assert "as text" in raised.value.message


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_timestamps_of_files_are_those_of_frames(
    engine: str, zone: str | None, unit: str, tmp_path: Path
) -> None:
    moments = [NOON, NOON + timedelta(microseconds=1_000), NOON + timedelta(days=2)]
    when = pa.array(moments, pa.timestamp(unit, "UTC")).cast(pa.timestamp(unit, zone))
    log = pa.table({"user": [1, 2, 3], "item": [1, 1, 1], "timestamp": when})
    for given in (log, written(tmp_path, "log", log)):
        parts = spark_eval.split(given, method="time", test_cut="2024-05-02", engine=engine)
        found = parts.train.toArrow() if engine == "spark" else pa.table(parts.train)
        assert found["timestamp"].cast(pa.timestamp("us", "UTC")).to_pylist() == moments[:2]


@pytest.mark.parametrize("engine", ENGINES)
def test_parts_of_a_microsecond_are_refused_in_files(engine: str, tmp_path: Path) -> None:
    when = pa.array([1, 2_000], pa.timestamp("ns", "UTC"))
    log = pa.table({"user": [1, 2], "item": [1, 1], "timestamp": when})
    path = written(tmp_path, "log", log)
    with pytest.raises(DataError, match=r"TIMESTAMP_TOO_FINE.*'?timestamp'? holds parts of a microsecond"):
        spark_eval.split(path, method="time", test_cut="1970-01-02", engine=engine).to_arrow("subsets")
    with pytest.raises(DataError, match=r"UNSUPPORTED_TYPE.*timestamp"):
        spark_eval.split(log, method="time", test_cut="1970-01-02", engine=engine)


def test_frames_of_pandas_are_read_as_pandas_writes_them(tmp_path: Path) -> None:
    log = pd.DataFrame({"user": [1, 2, 3], "item": 1})
    log["timestamp"] = pd.to_datetime(["2024-01-01", "2024-01-03", "2024-01-05"], utc=True).as_unit("ns")
    log.to_parquet(tmp_path / "log.parquet")
    for given in (log, str(tmp_path / "log.parquet")):
        parts = spark_eval.split(given, method="time", test_cut="2024-01-03", engine="local")
        assert (len(parts.train), len(parts.test)) == (1, 2)
