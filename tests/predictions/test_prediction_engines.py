"""Predictions in this process and on Spark: the same bits, accounting, comparisons and errors."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_eval import compare, evaluate_predictions
from spark_eval.errors import SparkEvalError
from spark_eval.predictions.evaluate import Predictions
from spark_eval.results.driver_tables import to_arrow

N_ROWS: Final = 400


def clicks(seed: int = 3) -> pd.DataFrame:
    """Rows of two models with ties, weights, segments, folds and a few invalid rows."""
    draw = np.random.default_rng(seed)
    rows = pd.DataFrame({"model": np.repeat(["als", "популярное"], N_ROWS // 2)})
    rows["user"] = np.tile(draw.integers(0, 40, N_ROWS // 2), 2)
    rows["label"] = np.tile(draw.integers(0, 2, N_ROWS // 2), 2)
    rows["score"] = draw.integers(0, 50, N_ROWS) / 50
    rows["weight"] = np.tile(draw.random(N_ROWS // 2) * 10.0 ** draw.integers(-6, 3, N_ROWS // 2), 2)
    rows["country"] = np.where(rows["user"] % 3, "at", "be")
    rows["p_b"] = draw.random(N_ROWS)
    rows["p_a"] = 1 - rows["p_b"]
    rows["guess"] = np.where(rows["p_b"] > 0.4, "b", "a")
    rows["truth"] = np.where(rows["label"] == 1, "b", "a")
    rows.loc[rows.index % 97 == 5, "score"] = np.nan
    return rows


def bits(table: pa.Table) -> list[str]:
    """The rows in one order, doubles by their bits."""
    rows = (row.values() for row in table.to_pylist())
    return sorted(str([one.hex() if isinstance(one, float) else one for one in row]) for row in rows)


def tables_of(result: Any) -> dict[str, list[str]]:
    return {name: bits(result.to_arrow(name)) for name in result.tables}


def measured(engine: str, rows: Any, task: str, **options: Any) -> Predictions:
    options = {"max_quarantined": 0.05, **options}
    return evaluate_predictions(rows, task, engine=engine, **options)


def found(engine: str, rows: Any, task: str, **options: Any) -> dict[str, Any] | str:
    """All tables of the predictions, or the error."""
    try:
        result = measured(engine, rows, task, **options)
        tables: dict[str, Any] = tables_of(result)
        if options.get("intervals") == "user":
            tables["per_user"] = bits(to_arrow(result.per_user))
            tables["scored"] = {name: one.to_record() for name, one in result.values_by_model.items()}
    except SparkEvalError as error:
        return str(error)
    assert (result.spark is not None) is (engine == "spark")
    assert isinstance(result.metrics, pd.DataFrame)
    return tables


ASKED: Final[Mapping[str, dict[str, Any]]] = {
    "all metrics": {
        "task": "binary",
        "metrics": ["auc", "auprc", "gauc", "log_loss", "precision", "ece", "confusion"],
        "segments": ["country"],
        "curves": True,
        "choose": {"flags": [30], "recall": [0.8], "cost": [{"false_negative": 20}]},
        "sampling_rate": 0.5,
    },
    "by user": {"task": "binary", "intervals": "user", "segments": ["country"]},
    "by row": {"task": "binary", "metrics": ["auc", "log_loss", "auprc", "ece"], "intervals": "row"},
    "by logit": {"task": "binary", "metrics": ["auc"], "intervals": "user", "auc_interval": "logit"},
    "regression": {"task": "regression", "intervals": "user"},
    "raw": {"task": "binary", "scores": "raw", "thresholds": [0.3, 0.5], "metrics": ["auc", "f1"]},
    "several classes": {
        "task": "multiclass",
        "classes": ["a", "b"],
        "probabilities": ["p_a", "p_b"],
        "columns": {"label": "truth"},
    },
    "classes": {
        "task": "multiclass",
        "scores": "class",
        "classes": ["a", "b"],
        "columns": {"label": "truth", "score": "guess"},
    },
}


# What differs is found by the others too.
SLOW: Final = {"by row", "regression", "classes"}


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "asked", [pytest.param(asked, marks=pytest.mark.slow if asked in SLOW else []) for asked in ASKED]
)
def test_predictions_have_the_same_bits(asked: str) -> None:
    rows = clicks().assign(fold=clicks().index % 2) if asked == "raw" else clicks()
    local = found("local", rows, **ASKED[asked])
    assert isinstance(local, dict), local
    assert local == found("spark", rows, **ASKED[asked])


KINDS: Final[Mapping[str, Callable[[pd.DataFrame], Any]]] = {
    "polars": pl.from_pandas,
    "arrow": pa.Table.from_pandas,
    "texts": lambda rows: rows.assign(user="u" + rows["user"].astype(str)),
    "booleans": lambda rows: rows.assign(label=rows["label"] == 1),
    "floats": lambda rows: rows.assign(
        score=rows["score"].astype("float32"), user=rows["user"].astype("int8")
    ),
}


BY_USER: Final[dict[str, Any]] = {"task": "binary", "metrics": ["auc", "log_loss"], "intervals": "user"}


@pytest.mark.parametrize("kind", KINDS)
def test_frames_of_all_libraries_have_the_same_bits_in_this_process(kind: str) -> None:
    given = KINDS[kind](clicks())
    found = measured("local", given, **BY_USER)
    assert type(found.per_user) is type(given)
    if kind in ("polars", "arrow", "booleans"):
        of_pandas = measured("local", clicks(), **BY_USER)
        assert tables_of(found) == tables_of(of_pandas)
        assert bits(to_arrow(found.per_user)) == bits(to_arrow(of_pandas.per_user))


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind == "texts" else pytest.mark.slow) for kind in KINDS]
)
def test_frames_of_all_libraries_have_the_same_bits(kind: str) -> None:
    given = KINDS[kind](clicks())
    local, of_spark = (measured(engine, given, **BY_USER) for engine in ("local", "spark"))
    assert tables_of(local) == tables_of(of_spark)
    assert bits(to_arrow(local.per_user)) == bits(to_arrow(of_spark.per_user))


@pytest.mark.usefixtures("spark")
def test_plain_files_have_the_same_bits(tmp_path: Path) -> None:
    rows = clicks()
    for part in range(2):
        pq.write_table(pa.Table.from_pandas(rows[part::2]), tmp_path / f"part-{part}.parquet")
    options: dict[str, Any] = {"task": "binary", "intervals": "user", "segments": ["country"]}
    local = found("local", str(tmp_path), **options)
    assert isinstance(local, dict), local
    assert local == found("spark", str(tmp_path), **options)


@pytest.mark.usefixtures("spark")
def test_comparisons_of_predictions_have_the_same_bits() -> None:
    one, other = clicks().fillna({"score": 0.5}), clicks().fillna({"score": 0.5})
    other["score"] = other["score"] ** 2
    gate = {"metric": "auc", "max_drop": 0.2, "min_users": 2, "min_common": 0.1}
    tables = []
    for engines in (("local", "local"), ("spark", "spark"), ("local", "spark")):
        sides = [
            measured(engine, rows, "binary", metrics=["auc", "log_loss"], intervals="user")
            for engine, rows in zip(engines, (one, other), strict=True)
        ]
        result = compare(*sides, gates=[gate], engine="auto")
        assert (result.spark is None) is (engines == ("local", "local"))
        tables.append(tables_of(result))
    assert tables[0]["gates"]
    assert all(table == tables[0] for table in tables)


Rows = pd.DataFrame
# Rows and options of predictions that are refused.
REFUSED: Final[Mapping[str, Callable[[Rows], tuple[Any, dict[str, Any]]]]] = {
    "no label": lambda rows: (rows.drop(columns=["label", "score"]), {}),
    "no model": lambda rows: (rows.drop(columns="model"), {}),
    "no segment": lambda rows: (rows, {"segments": ["contry"]}),
    "no user": lambda rows: (rows.drop(columns="user"), {"intervals": "user"}),
    "no rows": lambda rows: (rows[:0], {}),
    "no valid row": lambda rows: (rows.assign(label=7), {}),
    "too many invalid": lambda rows: (rows, {"max_quarantined": 0.0001}),
    "invalid of a named model": lambda rows: (rows.assign(score=rows["score"] * 1e9), {"model": "m"}),
    "repeats": lambda rows: (rows.assign(repeat=rows["label"]), {}),
    "unknown column": lambda rows: (rows, {"columns": {"lable": "label"}}),
}


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_the_same_error(name: str) -> None:
    rows, options = REFUSED[name](clicks())
    refused = found("local", rows, "binary", **options)
    assert isinstance(refused, str)
    assert "NEEDS_SPARK" not in refused
    assert refused == found("spark", rows, "binary", **options)


@pytest.mark.usefixtures("spark")
def test_arrays_and_labels_of_other_types_are_judged_alike() -> None:
    rows = clicks()
    arrays = rows.assign(score=pd.Series([[0.5, 0.5]] * len(rows)))
    for given, options in (
        (arrays, {"task": "multiclass", "classes": [0, 1]}),
        (rows.assign(label=rows["truth"]), {"task": "binary"}),
        (rows.assign(score=rows["truth"]), {"task": "binary"}),
    ):
        assert found("local", given, **options) == found("spark", given, **options)


WITHOUT_JAVA: Final = """
import sys
import pandas as pd
from spark_eval import evaluate_predictions
clicks = pd.DataFrame({"user": [1, 1, 2, 2], "label": [0, 1, 1, 0], "score": [0.1, 0.9, 0.4, 0.5]})
found = evaluate_predictions(clicks, "binary", model="ctr", metrics=["auc"], intervals="user")
print(found.to_pandas()["value"].tolist(), len(found.per_user), "pyspark" in sys.modules)
"""


def test_frames_need_neither_java_nor_pyspark(without_java: Callable[[str], list[str]]) -> None:
    assert without_java(WITHOUT_JAVA) == ["[0.75]", "2", "False"]
