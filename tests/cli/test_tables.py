"""The published tables as their readers see them: columns, types, partitions, and a ledger that closes."""

import json
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from tests.cli.conftest import Desk

ACCOUNTING = {
    "source": "string",
    "model": "string",
    "outcome": "string",
    "reason": "string",
    "rows": "bigint",
    "users": "bigint",
}
METRICS = {
    "metric": "string",
    "k": "int",
    "segment": "string",
    "segment_value": "string",
    **dict.fromkeys(("value", "std_error", "ci_low", "ci_high"), "double"),
    **dict.fromkeys(("n_users", "n_undefined"), "bigint"),
    "conventions": "string",
}
PER_USER = {
    "user": "bigint",
    "n_relevant": "bigint",
    "n_recommended": "bigint",
    **dict.fromkeys(("rr_at_1", "rr_at_5", "recall_at_1", "recall_at_5"), "double"),
}
SPLITS = {
    "user": "bigint",
    "item": "bigint",
    "timestamp": "timestamp",
    "relevance": "double",
    "fold": "int",
}
TABLES = [
    ("splits", SPLITS, ["run_id", "subset"]),
    ("leakage", {"check": "string", "rows": "bigint", "users": "bigint", "leaked": "boolean"}, ["run_id"]),
    ("per_user", PER_USER, ["run_id", "model"]),
    ("metrics", METRICS, ["run_id", "model"]),
    ("accounting", ACCOUNTING, ["run_id"]),
    ("quarantine", {"source": "string", "code": "string", "row": "string"}, ["run_id"]),
]


@pytest.mark.parametrize(("table", "columns", "partitions"), TABLES)
def test_columns_types_and_partitions(
    published: "Desk", spark: SparkSession, table: str, columns: dict[str, str], partitions: list[str]
) -> None:
    run = spark.read.option("basePath", str(published.out / table)).parquet(
        str(published.out / table / "run_id=a")
    )
    found = {field.name: field.dataType.simpleString() for field in run.schema}
    assert found == columns | dict.fromkeys(partitions, "string")
    assert list(found) == [*columns, *partitions]


@pytest.mark.parametrize("table", ["per_user", "metrics", "accounting"])
def test_runs_lie_side_by_side_for_every_reader(published: "Desk", spark: SparkSession, table: str) -> None:
    path = str(published.out / table)
    by_spark = {row["run_id"] for row in spark.read.parquet(path).select("run_id").distinct().collect()}
    by_arrow = set(ds.dataset(path, partitioning="hive").to_table()["run_id"].to_pylist())
    by_pandas = set(pd.read_parquet(path)["run_id"].astype(str))
    assert by_spark == by_arrow == by_pandas == {"a", "b"}


def test_values_of_the_last_run_do_not_touch_the_first(published: "Desk") -> None:
    metrics = published.table("metrics")
    assert set(metrics[metrics["run_id"] == "a"]["k"]) == {1, 5}
    assert set(metrics[metrics["run_id"] == "b"]["k"]) == {1}
    assert set(metrics["segment"]) == set(metrics["segment_value"]) == {"all"}


def test_metrics_of_one_user_each(published: "Desk") -> None:
    per_user = published.table("per_user")
    late = per_user[(per_user["model"] == "late") & (per_user["run_id"] == "a")].sort_values("user")
    assert list(late["user"]) == [1, 2, 3, 4]
    assert list(late["rr_at_5"]) == [0.5] * 4
    assert list(late["n_relevant"]) == [1] * 4
    half = per_user[(per_user["model"] == "half") & (per_user["run_id"] == "a")].sort_values("user")
    assert list(half["n_recommended"]) == [1, 1, 0, 0]
    assert list(half["recall_at_1"]) == [1.0, 1.0, 0.0, 0.0]


def test_the_ledger_closes_for_every_source_and_model(published: "Desk") -> None:
    ledger = published.table("accounting").astype({"run_id": str}).fillna({"model": ""})
    keys = ["run_id", "source", "model"]
    is_total = ledger["outcome"] == "in"
    totals = ledger[is_total].set_index(keys)["rows"]
    others = ledger[~is_total].groupby(keys)["rows"].sum()
    assert totals.to_dict() == others.to_dict()
    assert totals["a"].to_dict() == {
        ("interactions", ""): 41,
        ("truth", ""): 4,
        ("recommendations", "best"): 10,
        ("recommendations", "half"): 2,
        ("recommendations", "late"): 8,
    }


def test_every_row_of_the_best_model_is_accounted_for(published: "Desk") -> None:
    ledger = published.table("accounting").query("run_id == 'a' and model == 'best'")
    lines = {(row.outcome, row.reason): row.rows for row in ledger.itertuples()}
    assert lines == {
        ("in", None): 10,
        ("used", None): 8,
        ("deduplicated", "repeated_item"): 1,
        ("quarantined", "NULL_ID"): 1,
        ("no_recommendations", "zero"): 0,
    }


def test_quarantine_keeps_the_rows(published: "Desk") -> None:
    rows = published.table("quarantine").query("run_id == 'a'")
    found = {row.source: (row.code, json.loads(str(row.row))) for row in rows.itertuples()}
    assert set(found) == {"interactions", "recommendations"}
    code, row = found["interactions"]
    assert code == "NULL_ID"
    assert "user" not in row
    assert (row["item"], row["relevance"]) == (1, 1.0)
    assert found["recommendations"][1]["model"] == "best"


def test_text_ids_and_other_columns_of_the_log_stay_as_they_are(desk: "Desk") -> None:
    log = pd.read_parquet(desk.home / "log").assign(device="tv", run=7)
    log["user"] = "00" + log["user"].astype(str)
    desk.write("log", log)
    lists = pd.read_parquet(desk.home / "lists").astype({"item": "int32"})
    lists["user"] = "00" + lists["user"].astype(str)
    desk.write("lists", lists)
    desk.done("split", "--run-id", "a")
    desk.done("evaluate", "--run-id", "a")
    splits = ds.dataset(desk.out / "splits", partitioning="hive").schema
    assert splits.names == [
        "user",
        "item",
        "timestamp",
        "relevance",
        "fold",
        "device",
        "run",
        "run_id",
        "subset",
    ]
    assert splits.field("user").type == pa.string()
    per_user = desk.table("per_user")
    assert set(per_user["user"]) == {"001", "002", "003", "004"}
    assert desk.metric()["best"] == 1.0


def test_models_of_any_name_stay_apart(desk: "Desk", spark: SparkSession) -> None:
    names = [
        "1",
        "01",
        "1.0",
        "a/b",
        "a=b",
        " c d ",
        "../up",
        "é",
        "e\u0301",
        "модель 🙂",
        "100%",
        "null",
        "2024-01-01",
    ]
    lists = pd.DataFrame({"model": names, "user": 1, "item": 101, "score": range(len(names))})
    desk.change("recommendations", path=str(desk.write("named", lists)))
    desk.change("truth", path=str(desk.home / "log"), columns={"relevance": "stars"})
    desk.change("evaluate", k=[1], metrics=["mrr"])
    answer = desk.done("evaluate", "--run-id", "a")
    assert all(name.strip() in answer.out for name in names)
    metrics = spark.read.parquet(str(desk.out / "metrics"))
    assert sorted(row["model"] for row in metrics.collect()) == sorted(names)
    assert sorted(desk.metric(k=1)) == sorted(names)
    assert sorted(
        json.loads((desk.out / "_commits" / "a.json").read_text())["jobs"]["evaluate"]["models"]
    ) == sorted(names)
    assert {path.name for path in desk.out.iterdir()} == {"_commits", "accounting", "metrics", "per_user"}
