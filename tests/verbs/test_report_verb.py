"""The report of runs that verbs make: with the run, from Python, and from a store that only Spark reaches."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.cli.conftest import LISTS, Desk

import spark_eval
from spark_eval.arrow.user_files import open_dataset
from spark_eval.errors import ConfigError, DataError
from spark_eval.evaluation.result import spread_in_spark
from spark_eval.results.report.spread import spread_of

pytestmark = pytest.mark.usefixtures("engine_of_users")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def data_of(path: Path) -> dict[str, Any]:
    found = re.search(r'id="page-data">(.*?)</script>', path.read_text(), re.DOTALL)
    assert found
    tree: dict[str, Any] = json.loads(found[1])
    return tree


def test_a_report_is_made_with_the_run_and_grows_with_its_verbs(desk: Desk) -> None:
    desk.tree["report"] = True
    page = desk.out / "report" / "a.html"
    answer = desk.done("split", "--run-id", "a")
    assert f"  report      {page}\n" in answer.out
    assert list(data_of(page)["chapters"]) == ["split", "accounting", "provenance"]
    desk.done("evaluate", "--run-id", "a")
    assert list(data_of(page)["chapters"]) == [
        "verdict",
        "models",
        "cutoffs",
        "spread",
        "split",
        "accounting",
        "provenance",
    ]
    # A run that is published already has its page again, and the very same.
    before = page.read_bytes()
    page.unlink()
    desk.done("evaluate", "--run-id", "a")
    assert page.read_bytes() == before


def test_a_gate_that_fails_has_its_page_before_the_exit_code(split_desk: Desk) -> None:
    desk = split_desk
    desk.tree["report"] = True
    desk.done("evaluate", "--run-id", "a")
    gate = {"metric": "mrr", "k": 5, "model": "late", "against": {"model": "best"}, "max_drop": 0.01}
    desk.tree["gates"] = [{**gate, "mode": "observed", "min_users": 2}]
    answer = desk.run("compare", "--run-id", "a")
    assert (answer.code, answer.error) == (5, "GATE_FAILED")
    text = (desk.out / "report" / "a.html").read_text()
    assert "<b>FAILED</b> late should not ship: 1 of its gates failed." in text
    assert list(data_of(desk.out / "report" / "a.html")["chapters"])[:4] == [
        "verdict",
        "gates",
        "models",
        "differences",
    ]


def test_no_page_is_made_unasked(published: Desk) -> None:
    assert not (published.out / "report").exists()


@pytest.mark.slow
def test_a_store_that_only_spark_reads_has_the_same_numbers(desk: Desk) -> None:
    desk.change("output", manifest=True)
    desk.done("split", "--run-id", "a")
    desk.done("evaluate", "--run-id", "a")
    answer = desk.done("report", "--run-id", "a")
    place = Path(answer.out.strip().removeprefix("file:"))
    assert place.name == "a.html"
    remote = data_of(place)["datasets"]
    local = desk.twin(desk.home / "other")
    local.home.mkdir()
    local.change("output", manifest=None)
    local.done("split", "--run-id", "a")
    local.done("evaluate", "--run-id", "a")
    local.done("report", "--run-id", "a")
    known = data_of(local.out / "report" / "a.html")["datasets"]
    for name in ("spread", "zeros"):
        assert remote[name] == known[name]
    frames = [pd.DataFrame(rows_of(one["metrics"])) for one in (remote, known)]
    frames = [frame.sort_values(["model", "measure"]).reset_index(drop=True) for frame in frames]
    pd.testing.assert_frame_equal(frames[0], frames[1])
    # Once more over the page that is there.
    assert desk.done("report", "--run-id", "a").out == answer.out


def rows_of(dataset: dict[str, Any]) -> dict[str, Any]:
    return {
        name: np.repeat(
            [values["names"][place] for place in values["places"]], values.get("runs", 1)
        ).tolist()
        if isinstance(values, dict)
        else values
        for name, values in dataset["columns"].items()
    }


def test_spark_counts_users_as_the_files_are_counted(published: Desk, spark: "SparkSession") -> None:
    folder = str(published.out / "per_user" / "run_id=a")
    counts, _ = spread_of(open_dataset(folder))
    assert counts
    assert spread_in_spark(spark.read.parquet(folder)) == counts


def test_python_makes_pages_of_results_and_of_runs(published: Desk, tmp_path: Path) -> None:
    truth = pd.DataFrame({"user": range(1, 5), "item": range(101, 105)})
    evaluation = spark_eval.evaluate(LISTS, truth, metrics=["mrr", "recall"], k=[1, 5])
    comparison = spark_eval.compare(evaluation, baseline_model="best")
    assert spark_eval.report([evaluation, comparison], tmp_path / "both.html") == str(tmp_path / "both.html")
    chapters = data_of(tmp_path / "both.html")["chapters"]
    assert list(chapters) == [
        "verdict",
        "models",
        "differences",
        "cutoffs",
        "spread",
        "accounting",
        "provenance",
    ]
    spark_eval.report(evaluation, tmp_path / "one.html")
    assert "differences" not in data_of(tmp_path / "one.html")["chapters"]
    spark_eval.report(published.out, tmp_path / "run.html", run_id="a")
    found = rows_of(data_of(tmp_path / "run.html")["datasets"]["metrics"])
    given = rows_of(data_of(tmp_path / "one.html")["datasets"]["metrics"])
    assert sorted(zip(found["model"], found["measure"], found["value"], strict=True)) == sorted(
        zip(given["model"], given["measure"], given["value"], strict=True)
    )
    refused: tuple[tuple[Any, dict[str, str], type[Exception]], ...] = (
        (published.out, {}, ConfigError),
        (evaluation, {"run_id": "a"}, ConfigError),
        ([evaluation, evaluation], {}, ConfigError),
        (published.out, {"run_id": "zz"}, DataError),
    )
    for result, given_too, kind in refused:
        with pytest.raises(kind, match=r"INVALID_REPORT|UNKNOWN_RUN"):
            spark_eval.report(result, tmp_path / "no.html", **given_too)
    evaluation.unpersist()
    assert not (tmp_path / "no.html").exists()
