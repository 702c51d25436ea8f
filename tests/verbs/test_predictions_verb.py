"""The verb predictions: what it publishes, what it quarantines, what it refuses."""

import json
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from tests.cli.conftest import Answer, Desk

pytestmark = pytest.mark.usefixtures("each_engine")

# One positive above two of three negatives; of model b one sound row of each class, and four bad ones.
SCORED = pd.DataFrame(
    [
        ("a", 1, 1, 0.8, "de"),
        ("a", 1, 0, 0.4, "de"),
        ("a", 2, 0, 0.9, "fr"),
        ("a", 2, 0, 0.1, "fr"),
        ("b", 1, 1, 0.7, "de"),
        ("b", 1, 0, 0.7, None),
        ("b", 1, None, 0.5, "de"),
        ("b", 1, 7, 0.5, "de"),
        ("b", 1, 1, None, "de"),
        ("b", 1, 1, 1.5, "de"),
    ],
    columns=["model", "who", "clicked", "p", "country"],
).astype({"clicked": "Int64"})
OPTIONS: dict[str, Any] = {
    "columns": {"label": "clicked", "score": "p", "user": "who"},
    "task": "binary",
    "max_quarantined": 1.0,
    "metrics": ["auc", "gauc", "log_loss", "precision"],
    "segments": ["country"],
    "curves": True,
    "choose": {"flags": [2], "cost": [{"false_positive": 1.0, "false_negative": 5.0}]},
}


def with_predictions(desk: "Desk", rows: pd.DataFrame = SCORED, **options: Any) -> "Desk":
    desk.change("predictions", path=str(desk.write("scored", rows)), **{**OPTIONS, **options})
    return desk


def records(desk: "Desk", table: str, *keys: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The rows of a published table, by the values of these columns."""
    rows: list[dict[str, Any]] = pq.read_table(desk.out / table).to_pylist()
    return {tuple(row[key] for key in keys): row for row in rows}


@pytest.fixture(scope="module")
def told(
    each_engine: str, new_desk: type["Desk"], tmp_path_factory: pytest.TempPathFactory
) -> tuple["Desk", "Answer"]:
    """A desk with one run, only to be read, and what the verb said."""
    desk = with_predictions(new_desk(tmp_path_factory.mktemp(f"scored-{each_engine}")))
    return desk, desk.done("predictions", "--run-id", "p")


@pytest.fixture(scope="module")
def desk_done(told: tuple["Desk", "Answer"]) -> "Desk":
    return told[0]


def test_it_says_the_numbers_and_where_the_tables_are(told: tuple["Desk", "Answer"]) -> None:
    desk, answer = told
    lines = [line.split() for line in answer.out.replace("│", " ").splitlines()]
    assert ["auc", "0.666667", "0.5"] in lines
    assert ["a", "flags<=2", "0.8", "0.5", "1", "2", "1"] in lines
    for table in ("metrics", "curves", "thresholds", "accounting", "quarantine"):
        assert str(desk.out / table) in answer.out
    codes = "1 NOT_A_PROBABILITY, 1 NULL_LABEL, 1 NULL_SCORE, 1 UNKNOWN_CLASS"
    bad = f"4 rows could not be used (66.7 % of predictions of model 'b': {codes})"
    assert bad in answer.out
    page = desk.out.parent / "page.html"
    desk.done("report", "--run-id", "p", "--to", str(page))
    assert bad in unescape(page.read_text(encoding="utf-8"))


def test_metrics_have_the_columns_of_an_evaluation_and_the_rows(
    desk_done: "Desk", spark: SparkSession
) -> None:
    folder = str(desk_done.out / "metrics")
    schema = spark.read.option("basePath", folder).parquet(f"{folder}/run_id=p").schema
    assert {field.name: field.dataType.simpleString() for field in schema} == {
        **dict.fromkeys(("metric", "segment", "segment_value", "conventions", "run_id", "model"), "string"),
        **dict.fromkeys(("value", "std_error", "ci_low", "ci_high"), "double"),
        **dict.fromkeys(("n_users", "n_undefined", "n_rows"), "bigint"),
        "k": "int",
    }
    rows = records(desk_done, "metrics", "model", "segment_value", "metric")
    auc, gauc = rows["a", "all", "auc"], rows["a", "all", "gauc"]
    assert (auc["value"], auc["n_rows"]) == (2 / 3, 4)
    assert (gauc["value"], gauc["n_users"], gauc["n_undefined"]) == (1.0, 1, 1)
    assert rows["a", "de", "auc"]["value"] == 1.0
    assert rows["b", "all", "auc"]["value"] == 0.5
    unknown = rows["b", "(missing)", "auc"]
    assert unknown["n_rows"] == 1
    assert pd.isna(unknown["value"])
    assert all("positive=1; flagged=score>=threshold" in row["conventions"] for row in rows.values())


def test_the_ledger_closes_and_names_the_codes(desk_done: "Desk") -> None:
    ledger = records(desk_done, "accounting", "model", "outcome", "reason")
    codes = ("NULL_LABEL", "UNKNOWN_CLASS", "NULL_SCORE", "NOT_A_PROBABILITY")
    expected = {("in", None): 6, ("used", None): 2}
    assert {key[1:]: row["rows"] for key, row in ledger.items() if key[0] == "b"} == expected | {
        ("quarantined", code): 1 for code in codes
    }
    bad = {code: json.loads(row["row"]) for (code,), row in records(desk_done, "quarantine", "code").items()}
    assert bad["UNKNOWN_CLASS"]["label"] == 7
    assert bad["NOT_A_PROBABILITY"]["score"] == 1.5


def test_curves_and_thresholds_of_each_model(desk_done: "Desk") -> None:
    curves = desk_done.table("curves").query("model == 'a' and curve == 'roc'")
    assert list(curves["threshold"]) == [0.9, 0.8, 0.4, 0.1]
    assert list(curves["y"]) == [0.0, 1.0, 1.0, 1.0]
    chosen = records(desk_done, "thresholds", "model", "segment", "rule")
    cheapest = chosen["a", "all", "cost(false_positive=1, false_negative=5)"]
    assert (cheapest["threshold"], cheapest["cost"], cheapest["flags"]) == (0.8, 1.0, 2.0)
    assert chosen["a", "all", "flags<=2"]["precision"] == 0.5


def test_the_commit_record_and_a_second_run(desk_done: "Desk") -> None:
    record = json.loads((desk_done.out / "_commits" / "p.json").read_text())["jobs"]["predictions"]
    assert record["models"] == ["a", "b"]
    assert record["config"]["predictions"]["bins"] == 10
    before = desk_done.files()
    assert "nothing to do" in desk_done.done("predictions", "--run-id", "p").out
    assert desk_done.files() == before
    assert desk_done.refused("predictions", "--run-id", "p", "--set", "predictions.bins=5")[:2] == (
        2,
        "RUN_EXISTS",
    )


def test_more_files_and_another_order_give_the_same_bits(desk_done: "Desk", tmp_path: Path) -> None:
    twin = desk_done.twin(tmp_path)
    twin.change("predictions", path=str(twin.write("scored", SCORED.iloc[::-1], files=4)))
    twin.done("predictions", "--run-id", "p")
    for table in ("metrics", "curves", "thresholds"):
        pd.testing.assert_frame_equal(twin.table(table), desk_done.table(table), check_exact=True)


def test_a_regression_without_models_users_or_curves(desk: "Desk") -> None:
    rows = pd.DataFrame({"stars": [1, 2, 4, 0], "guess": [1.5, 2.0, 3.0, 1.0]})
    desk.change(
        "predictions",
        path=str(desk.write("rated", rows)),
        columns={"label": "stars", "score": "guess"},
        task="regression",
        model="als",
    )
    desk.done("predictions")
    found = {name: row["value"] for (name,), row in records(desk, "metrics", "metric").items()}
    assert (found["mae"], found["mse"], found["rmse"]) == (2.5 / 4, 2.25 / 4, 0.75)
    assert not (desk.out / "curves").exists()


def test_of_many_classes_only_the_first_numbers_are_told(desk: "Desk") -> None:
    rows = pd.DataFrame({"label": [0, 1, 7], "score": [0, 7, 7]})
    options = {"task": "multiclass", "scores": "class", "classes": list(range(8)), "model": "m"}
    desk.change("predictions", path=str(desk.write("classes", rows)), **options)
    answer = desk.done("predictions")
    assert "and 40 more in the table metrics" in answer.out
    assert len(desk.table("metrics")) == 2 + 3 * 8 + 64


def test_validate_checks_the_predictions(desk: "Desk") -> None:
    with_predictions(desk)
    assert "predictions" in desk.done("validate").out
    desk.change("predictions", segments=["contry"])
    assert "did you mean 'country'?" in desk.refused("validate")[2]


@pytest.mark.parametrize(
    ("options", "code", "error"),
    [
        ({"columns": {**OPTIONS["columns"], "score": "country"}}, 3, "SCORE_NOT_NUMERIC"),
        ({"columns": {"label": "country", "score": "p", "user": "who"}}, 3, "CLASS_TYPE_MISMATCH"),
        ({"columns": {"lable": "clicked"}}, 2, "UNKNOWN_CONFIG_KEY"),
        ({"columns": {**OPTIONS["columns"], "weight": "country"}}, 3, "WEIGHT_NOT_NUMERIC"),
        ({"columns": {**OPTIONS["columns"], "model": "country"}}, 3, "NULL_MODEL"),
        ({"positive": 2, "negative": 9}, 3, "EMPTY_PREDICTIONS"),
        ({"where": [{"column": "p", "op": ">", "value": 7}]}, 3, "EMPTY_PREDICTIONS"),
    ],
)
def test_refusals_publish_nothing(desk: "Desk", options: dict[str, Any], code: int, error: str) -> None:
    assert with_predictions(desk, **options).refused("predictions")[:2] == (code, error)


def test_a_column_of_models_that_is_not_there_is_named(desk: "Desk") -> None:
    with_predictions(desk, columns={**OPTIONS["columns"], "model": "modle"})
    assert desk.refused("predictions")[1] == "MISSING_COLUMN"


def test_a_model_has_to_be_named(desk: "Desk") -> None:
    with_predictions(desk, SCORED.drop(columns="model"))
    assert desk.refused("predictions")[1] == "MISSING_MODEL"


def test_the_section_has_to_be_there(desk: "Desk") -> None:
    assert desk.refused("predictions")[:2] == (2, "MISSING_SECTION")


def test_a_run_of_another_verb_keeps_its_metrics(desk: "Desk") -> None:
    desk.change("truth", path=str(desk.home / "log"))
    desk.done("evaluate", "--run-id", "r")
    with_predictions(desk)
    code, error, line = desk.refused("predictions", "--run-id", "r", "--replace")
    assert (code, error) == (2, "RUN_EXISTS")
    assert "metrics, sums of its verb evaluate" in line
