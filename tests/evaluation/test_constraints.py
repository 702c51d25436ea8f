"""Constraints as verdicts: items outside the catalogue, and items that break a boolean column of items."""

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_eval import Evaluation, compare, evaluate
from spark_eval.errors import ConfigError, DataError
from spark_eval.kernels.columns import value_of_column
from spark_eval.kernels.values import parse_metric

LISTS = {1: [4, 5, 6], 2: [3, 4, 9], 3: [2, 5], 4: [8, 9]}
# Of item 8 it is not known whether it is available; item 9 is not in the catalogue.
AVAILABLE = {1: True, 2: True, 3: True, 4: False, 5: True, 6: False, 7: True, 8: None}
LOCAL = {2: False, 3: False, 5: False}
METRICS = ["outside_catalog", "violations", "violations(column=is_local)"]


def tables(lists: dict[int, list[int]] | None = None, model: str = "m") -> tuple[pd.DataFrame, pd.DataFrame]:
    chosen = LISTS if lists is None else lists
    rows = [(model, user, item, rank) for user, items in chosen.items() for rank, item in enumerate(items, 1)]
    truth = pd.DataFrame({"user": [1, 2, 3, 4, 5], "item": [5, 7, 2, 3, 1]})
    return pd.DataFrame(rows, columns=["model", "user", "item", "rank"]), truth


def items() -> pa.Table:
    columns = {"item": list(AVAILABLE), "available": list(AVAILABLE.values())}
    return pa.table(columns | {"is_local": [LOCAL.get(item, True) for item in AVAILABLE]})


def measured(**options: Any) -> Evaluation:
    lists, truth = tables()
    return evaluate(lists, truth, items=items(), **{"metrics": METRICS, "k": 3, "engine": "local", **options})


def test_worked_shares() -> None:
    found = measured()
    per_user = found.to_pandas("per_user").set_index("user").sort_index()
    nan = float("nan")
    expected = {
        "outside_catalog_at_3": [0, 1 / 3, 0, 1 / 2, nan],
        # Item 9 is left out for user 2; of user 4's items nothing is known.
        "violations_at_3": [2 / 3, 1 / 2, 0, nan, nan],
        "violations_column_is_local_at_3": [1 / 3, 1 / 2, 1, 0, nan],
    }
    for column, values in expected.items():
        assert per_user[column].tolist() == pytest.approx(values, nan_ok=True), column
    rows = {row.metric: row for row in found.metric_rows}
    row = rows["violations"]
    assert row.value == pytest.approx((2 / 3 + 1 / 2) / 3)
    assert (row.n_users, row.n_undefined) == (3, 2)
    assert row.ci_low is not None
    assert row.std_error is not None
    assert rows["violations(column=is_local)"].value == pytest.approx((1 / 3 + 1 / 2 + 1) / 4)
    counts = {entry.outcome: entry.users for entry in found.entries if entry.model == "m"}
    assert counts["outside_catalog"] == counts["without_flags"] == 2


def test_both_engines_give_the_same_bits(spark: SparkSession) -> None:
    lists, truth = tables()
    asked: Any = {"metrics": METRICS, "k": [1, "all"], "segments": ["known"]}
    train = pd.DataFrame({"user": [1, 2], "item": [1, 2]})
    here = evaluate(lists, truth, items=items(), train=train, engine="local", **asked)
    frames = [spark.createDataFrame(one).repartition(3, F.rand(2)) for one in (lists, truth, train)]
    known = spark.createDataFrame(items().to_pandas())
    there = evaluate(*frames[:2], items=known, train=frames[2], engine="spark", **asked)
    assert here.metric_rows == there.metric_rows
    assert list(here.entries) == list(there.entries)
    there.unpersist()


def test_a_gate_refuses_a_model_that_breaks_the_constraint() -> None:
    lists = {user: [2, 3, 5] for user in range(200)}
    broken = {user: [2, 3, 6] if user % 2 else items for user, items in lists.items()}
    truth = pd.DataFrame({"user": range(200), "item": 2})
    both = pd.concat([tables(lists, "old")[0], tables(broken, "new")[0]])
    found = evaluate(
        both, truth, items=items(), metrics=["violations(column=available)"], k=3, engine="local"
    )
    gate = {"metric": "violations(column=available)", "k": 3, "model": "new", "max_drop": 0.05}
    verdict = compare(found, gates=[{**gate, "against": {"model": "old"}}], engine="local")
    [row] = verdict.to_pandas("gates").to_dict("records")
    assert (row["decision"], row["passed"]) == ("worse", False)


def test_names_of_columns_are_names_in_texts_and_columns() -> None:
    [value] = parse_metric("violations(column=in_stock)@5")
    assert str(value) == "violations(column=in_stock)@5"
    assert value.column == "violations_column_in_stock_at_5"
    assert value_of_column(value.column) == value
    assert value_of_column("violations_column_in stock_at_5") is None
    [plain] = parse_metric("violations@5")
    assert value_of_column("violations_at_5") == plain


@pytest.mark.parametrize("column", ["", "1st", "in stock", "a.b", "a=b", "in-stock", "`a`", "x'y"])
def test_a_column_that_is_no_name_is_refused(column: str) -> None:
    with pytest.raises(ConfigError) as error:
        measured(metrics=[f"violations(column={column})"])
    assert error.value.code == "INVALID_METRIC"


def test_columns_that_are_missing_or_no_booleans_are_refused() -> None:
    with pytest.raises(DataError, match=r"in_stock.*for violations") as error:
        measured(metrics=["violations(column=in_stock)"])
    assert error.value.code == "MISSING_COLUMN"
    with pytest.raises(DataError, match=r"item.*a boolean is needed") as error:
        measured(metrics=["violations(column=item)"])
    assert error.value.code == "NOT_A_FLAG"
    lists, truth = tables()
    with pytest.raises(ConfigError, match="available for violations") as missing:
        evaluate(lists, truth, metrics=["violations(column=available)"], k=3, engine="local")
    assert missing.value.code == "MISSING_ITEMS"
    with pytest.raises(ConfigError) as missing:
        evaluate(lists, truth, metrics=["outside_catalog"], k=3, engine="local")
    assert missing.value.code == "MISSING_CATALOG"
    with pytest.raises(ConfigError) as missing:
        measured(conventions={"violations_column": "is_local"})
    assert missing.value.code == "UNKNOWN_CONVENTION"
    with pytest.raises(ConfigError) as missing:
        measured(metrics=["violations(colum=available)"])
    assert missing.value.code == "UNKNOWN_OPTION"
