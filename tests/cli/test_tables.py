"""The published tables as their readers see them: columns, types, partitions, and a ledger that closes."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from spark_eval import read_published
from spark_eval.errors import SparkEvalError
from spark_eval.evaluation.summary import MetricRow, SumRow, metric_rows

pytestmark = pytest.mark.usefixtures("engine_of_users")

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
    **dict.fromkeys(("n_requests", "n_repeats"), "bigint"),
    **dict.fromkeys(("std_repeat", "repeat_share"), "double"),
}
SUMS = {
    "metric": "string",
    "k": "int",
    "segment": "string",
    "segment_value": "string",
    **dict.fromkeys(("n_users", "n_defined"), "bigint"),
    **dict.fromkeys(("total", "squares", "weight"), "string"),
    "unit": "int",
    "conventions": "string",
    **dict.fromkeys(("products", "weight_squares"), "string"),
    **dict.fromkeys(("n_requests", "n_requests_defined"), "bigint"),
    "repeat": "string",
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
    (
        "leakage",
        {"fold": "int", "check": "string", "rows": "bigint", "users": "bigint", "leaked": "boolean"},
        ["run_id"],
    ),
    ("per_user", PER_USER, ["run_id", "model"]),
    ("metrics", METRICS, ["run_id", "model"]),
    ("sums", SUMS, ["run_id", "model"]),
    ("accounting", ACCOUNTING, ["run_id"]),
    ("quarantine", {"source": "string", "code": "string", "row": "string"}, ["run_id"]),
]


def test_tables_of_some_rows_are_written_by_the_driver(published: "Desk") -> None:
    """Spark's first write of a run costs seconds; a table of it has one file, or one per model."""
    files = [
        path for name in ("metrics", "leakage") for path in (published.out / name / "run_id=a").rglob("*")
    ]
    names = sorted(str(path.relative_to(published.out)) for path in files if path.is_file())
    models = [f"metrics/run_id=a/model={model}/part-0.parquet" for model in ("best", "half", "late")]
    assert [name for name in names if not name.endswith(".json")] == [
        "leakage/run_id=a/part-0.parquet",
        *models,
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


def test_metrics_follow_from_the_published_sums(published: "Desk", spark: SparkSession) -> None:
    for run_id in ("a", "b"):
        tables = {
            name: read_published(spark, str(published.out), name, [run_id]).drop("run_id").collect()
            for name in ("sums", "metrics")
        }
        sums = [SumRow(**row.asDict()) for row in tables["sums"]]
        metrics = [MetricRow(**row.asDict()) for row in tables["metrics"]]
        assert sorted(metric_rows(sums), key=str) == sorted(metrics, key=str)
        assert {(row.model, row.n_users) for row in sums} == {("best", 4), ("half", 4), ("late", 4)}


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
        **{("users", model): 4 for model in ("best", "half", "late")},
    }


def test_every_row_of_the_best_model_is_accounted_for(published: "Desk") -> None:
    ledger = published.table("accounting").query("run_id == 'a' and model == 'best'")
    lines = {(row.source, row.outcome, row.reason): row.rows for row in ledger.itertuples()}
    assert lines == {
        ("recommendations", "in", None): 10,
        ("recommendations", "used", None): 8,
        ("recommendations", "deduplicated", "repeated_item"): 1,
        ("recommendations", "quarantined", "NULL_ID"): 1,
        ("recommendations", "no_recommendations", "zero"): 0,
        ("recommendations", "largest", "rows=3"): 0,
        ("users", "in", None): 4,
        ("users", "used", None): 4,
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


USERS = pd.DataFrame({"who": [1, 2, 3, 9], "age band": ["18-29", "30-39", "18-29", "18-29"]})
# User 4 is new, and so are all items of the last day; item 7 is known.
TRAIN = pd.DataFrame({"user": [1, 2, 2, 3, 3, 3, None], "item": 7}).astype({"user": "Int64"})


@pytest.fixture(scope="module")
def segmented(new_desk: type["Desk"], tmp_path_factory: pytest.TempPathFactory) -> "Desk":
    """A desk with a run by segments of users; only to be read."""
    desk = new_desk(tmp_path_factory.mktemp("segmented"))
    last_day = [{"column": "when", "op": ">=", "value": 10 * 86_400}]
    desk.change("truth", path=str(desk.home / "log"), where=last_day)
    desk.change("users", path=str(desk.write("users", USERS)), columns={"user": "who"})
    desk.change("train", path=str(desk.write("train", TRAIN)))
    desk.change("evaluate", k=[5], metrics=["mrr"], segments=["age band", "known", "activity"])
    assert "recommendations, truth, train, users" in desk.done("validate").out
    desk.done("evaluate", "--run-id", "a")
    return desk


def test_segments_are_shown_with_all_users(segmented: "Desk") -> None:
    per_user = segmented.table("per_user")
    columns = ["user", "n_relevant", "n_recommended", "age band", "known", "activity", "rr_at_5"]
    assert [name for name in per_user.columns if name not in ("run_id", "model")] == columns
    half = per_user[per_user["model"] == "half"].sort_values("user")
    assert list(half[columns[3:]].itertuples(index=False, name=None)) == [
        ("18-29", "known", "4", 1.0),
        ("30-39", "known", "7", 1.0),
        ("18-29", "known", "10", 0.0),
        (None, "no_train", "no_train", 0.0),
    ]
    metrics = segmented.table("metrics").query("model == 'half'")
    found = {(row.segment, row.segment_value): (row.value, row.n_users) for row in metrics.itertuples()}
    assert found == {
        ("all", "all"): (0.5, 4),
        ("age band", "18-29"): (0.5, 2),
        ("age band", "30-39"): (1.0, 1),
        ("age band", "(missing)"): (0.0, 1),
        ("known", "known"): (2 / 3, 3),
        ("known", "no_train"): (0.0, 1),
        ("activity", "4"): (1.0, 1),
        ("activity", "7"): (1.0, 1),
        ("activity", "10"): (0.0, 1),
        ("activity", "no_train"): (0.0, 1),
    }


def test_cold_items_and_training_rows_are_published(segmented: "Desk") -> None:
    ledger = segmented.table("accounting").query("outcome in ('used', 'quarantined') and source != 'users'")
    lines = {(row.source, row.model, row.reason): (row.rows, row.users) for row in ledger.itertuples()}
    assert lines == {
        ("train", None, None): (6, 3),
        ("train", None, "NULL_ID"): (1, 0),
        ("truth", None, "cold_item"): (4, 4),
        ("recommendations", "best", None): (4, 4),
        ("recommendations", "best", "cold_item"): (4, 4),
        ("recommendations", "late", None): (4, 4),
        ("recommendations", "late", "cold_item"): (4, 4),
        ("recommendations", "half", "cold_item"): (2, 2),
    }
    quarantine = segmented.table("quarantine")
    assert [(row.source, row.code) for row in quarantine.itertuples()] == [("train", "NULL_ID")]


@pytest.mark.parametrize("name", ["users", "train"])
def test_other_users_or_training_rows_are_another_run(segmented: "Desk", tmp_path: Path, name: str) -> None:
    other = segmented.twin(segmented.home)
    assert "already published" in other.done("evaluate", "--run-id", "a").out
    rows = pd.concat([USERS if name == "users" else TRAIN] * 2)
    other.home = tmp_path
    other.change(name, path=str(other.write(name, rows)))
    code, error, line = other.refused("evaluate", "--run-id", "a")
    assert (code, error) == (2, "RUN_EXISTS")
    assert "evaluate of run 'a' is there already, of other content; use --replace" in line
    if name == "users":
        assert other.refused("evaluate", "--run-id", "b")[:2] == (3, "DUPLICATE_USER")


def test_text_ids_and_other_columns_of_the_log_are_unchanged(desk: "Desk") -> None:
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
        "v1.0",
        "a/b",
        "a=b",
        " c d ",
        "../up",
        "é",
        "e\u0302",
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
    assert {path.name for path in desk.out.iterdir()} == {
        "_commits",
        "accounting",
        "metrics",
        "per_user",
        "sums",
    }


@pytest.mark.parametrize(
    ("table", "run_ids", "code", "words"),
    [
        ("metrics", ["nope"], "UNKNOWN_RUN", ["no run 'nope' is published below", "allowed: a, b"]),
        (
            "metrics",
            ["a", "bb", "cc"],
            "UNKNOWN_RUN",
            ["'bb'", "did you mean 'b'?", "also [UNKNOWN_RUN]", "'cc'"],
        ),
        ("splits", "b", "MISSING_TABLE", ["run 'b' has no table 'splits'", "accounting, metrics, per_user"]),
        ("curves", None, "MISSING_INPUT", ["no run published below"]),
        ("metric", None, "UNKNOWN_TABLE", ["did you mean 'metrics'?"]),
    ],
)
def test_what_is_not_published_is_refused_by_name(
    published: "Desk", spark: SparkSession, table: str, run_ids: list[str] | None, code: str, words: list[str]
) -> None:
    with pytest.raises(SparkEvalError) as raised:
        read_published(spark, str(published.out), table, run_ids)
    assert raised.value.code == code
    assert [word for word in words if word not in raised.value.message] == []


def test_runs_that_are_published_are_read_by_name(published: "Desk", spark: SparkSession) -> None:
    for run_ids in ("b", ["b"], ["b", "b"]):
        rows = read_published(spark, str(published.out), "metrics", run_ids).collect()
        assert {row["run_id"] for row in rows} == {"b"}
        assert len(rows) == 6


def test_an_output_folder_may_have_the_name_of_a_pattern(desk: "Desk", spark: SparkSession) -> None:
    desk.out = desk.home / "out[1]{a,b}*"
    desk.change("output", path=str(desk.out))
    desk.done("split", "--run-id", "a")
    desk.done("evaluate", "--run-id", "a")
    assert desk.metric() == {"best": 1.0, "late": 0.5, "half": 0.5}
    assert read_published(spark, str(desk.out), "per_user").count() == 12


@pytest.mark.slow
def test_so_it_may_where_spark_does_all(desk: "Desk") -> None:
    desk.out = desk.home / "out[1]{a,b}*"
    desk.change("output", path=str(desk.out))
    desk.done("split", "--run-id", "a")
    desk.done("evaluate", "--run-id", "a", "--set", "recommendations.options.mergeSchema=true")
    assert desk.metric() == {"best": 1.0, "late": 0.5, "half": 0.5}
    desk.tree["split"] = {"method": "k_fold", "k": 2}
    desk.done("split", "--run-id", "b")
