"""Results in MLflow's own file store: names, values, parameters, the report, the run that is active."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from spark_eval import Evaluation, compare, evaluate, evaluate_predictions
from spark_eval.errors import ConfigError, EnvironmentFault
from spark_eval.evaluation.summary import MetricRow
from spark_eval.results.mlflow_runs import log_run, logged_metrics, logged_params
from spark_eval.results.report.data import RunFacts
from spark_eval.schema import VERSION, Table

pytestmark = pytest.mark.usefixtures("each_engine")

LISTS = pd.DataFrame(
    [("als", user, item, item + 1) for user in range(40) for item in range(4)]
    + [("a/b?", user, (item + user) % 9, item + 1) for user in range(40) for item in range(4)],
    columns=["model", "user", "item", "rank"],
)
TRUTH = pd.DataFrame([(user, user % 3) for user in range(40)], columns=["user", "item"])
USERS = pd.DataFrame({"user": range(40), "country": ["DE", "FR"] * 20})


@pytest.fixture(scope="module")
def measured(spark: SparkSession, each_engine: str) -> Evaluation:
    assert spark
    assert each_engine
    options: dict[str, Any] = {"users": USERS, "segments": "country", "k": [1, 4]}
    return evaluate(LISTS, TRUTH, metrics=["mrr", "ndcg(gain=exp2)"], **options)


@pytest.fixture
def mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """MLflow with a store of files, and nothing else."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    import mlflow as library

    library.set_tracking_uri((tmp_path / "runs").as_uri())
    yield library
    library.end_run()
    library.set_tracking_uri("")


def test_an_evaluation_becomes_a_run(measured: Evaluation, mlflow: Any) -> None:
    run = mlflow.get_run(measured.log_mlflow(run_id="2024-03-01"))
    values = {(row.model, row.metric, row.k, row.segment_value): row.value for row in measured.metric_rows}
    assert run.data.metrics["als/mrr_at_4"] == values["als", "mrr", 4, "all"]
    assert run.data.metrics["als/country.DE/mrr_at_1"] == values["als", "mrr", 1, "DE"]
    assert run.data.metrics["a_b_/ndcg_gain_exp2_at_4"] == values["a/b?", "ndcg(gain=exp2)", 4, "all"]
    assert len(run.data.metrics) == len(values) == 2 * 2 * 2 * 3
    assert run.data.params["evaluate.conventions"] == measured.plan.stamp
    assert run.data.params["evaluate.preset"] == "default"
    assert run.data.params["evaluate.no_hits"] == "zero"
    assert run.data.params["evaluate.relevance"] == ">0"
    assert run.data.tags["spark_eval.run_id"] == "2024-03-01"
    assert run.data.tags["spark_eval.truth_digest"] == measured.truth_digest
    assert run.data.tags["spark_eval.version"] == VERSION
    assert (run.info.status, run.info.run_name) == ("FINISHED", "2024-03-01")
    report = mlflow.artifacts.load_text(f"{run.info.artifact_uri}/spark_eval/evaluate.html")
    assert "<h1>Run 2024-03-01</h1>" in report
    assert "How users spread" in report


def test_all_results_go_to_the_run_that_is_active(measured: Evaluation, mlflow: Any) -> None:
    of_one = evaluate(LISTS[LISTS.model == "als"], TRUTH, metrics="mrr", k=4)
    gate = {"metric": "mrr", "k": 4, "max_drop": 0.9, "against": {"model": "als"}, "min_users": 9}
    comparison = compare(measured, baseline_model="als", metrics="mrr@4", tests=["t", "sign"], gates=[gate])
    scored = pd.DataFrame({"label": [0, 1, 1], "score": [0.2, 0.9, 0.1]})
    predictions = evaluate_predictions(scored, "binary", model="m", metrics=["auc", "precision"])
    with mlflow.start_run() as active:
        ids = {one.log_mlflow() for one in (of_one, comparison, predictions)}
        assert mlflow.active_run().info.run_id == active.info.run_id
    assert ids == {active.info.run_id}
    run = mlflow.get_run(active.info.run_id)
    t, sign = comparison.rows
    assert run.data.metrics == {
        "mrr_at_4": of_one.metric_rows[0].value,
        "mrr_at_4.difference": t.difference,
        "mrr_at_4.p_t": t.p_adjusted,
        "mrr_at_4.p_sign": sign.p_adjusted,
        "gates_failed": 0.0,
        "auc": 0.5,
        **{
            row.metric.replace("(", "_").replace(")", "").replace("=", "_"): row.value
            for row in predictions.metric_rows
        },
    }
    assert "spark_eval.run_id" not in run.data.tags
    assert run.data.params["compare.correction"] == t.correction
    assert run.data.params["compare.conventions"] == t.conventions
    assert run.data.params["predictions.task"] == "binary"
    client = mlflow.MlflowClient()
    pages = {Path(file.path).name for file in client.list_artifacts(run.info.run_id, "spark_eval")}
    assert pages == {"evaluate.html", "compare.html", "predictions.html"}


def rows(*whose: tuple[str, str]) -> RunFacts:
    """Facts of nDCG at 10 of models and values of a segment."""
    found = [
        MetricRow(model, "ndcg", 10, "city", city, 0.5, 0.1, 0.3, 0.7, 9, 0, "")._asdict()
        for model, city in whose
    ]
    return RunFacts("r", {}, {Table.METRICS: found})


@pytest.mark.slow
def test_thousands_of_values_are_logged(mlflow: Any) -> None:
    facts = rows(*((f"model {n}", "here") for n in range(1100)))
    assert len(mlflow.get_run(log_run(facts)).data.metrics) == 1100


def test_names_that_become_alike_or_too_long_are_refused() -> None:
    assert logged_metrics(rows(("..", "Köln"), ("b", ""))) == {
        "_/city.Köln/ndcg_at_10": 0.5,
        "b/city./ndcg_at_10": 0.5,
    }
    with pytest.raises(
        ConfigError, match=r"'a. city: x ndcg@10' would be 'a_/city.x/ndcg_at_10'.*'a\?"
    ) as error:
        logged_metrics(rows(("a?", "x"), ("a!", "x")))
    assert error.value.code == "MLFLOW_NAME"
    assert "my model/city.a b/ndcg_at_10" in logged_metrics(rows(("my model", "a b"), ("b", "")))
    n_free = 250 - len("city./ndcg_at_10")
    [longest] = logged_metrics(rows(("a", "x" * n_free)))
    assert len(longest) == 250
    with pytest.raises(ConfigError, match=r"MLFLOW_NAME.*longer than 250"):
        logged_metrics(rows(("a", "x" * (n_free + 1))))
    missing = rows(("a", "x")).tables[Table.METRICS][0]
    nothing = [{**missing, "value": value} for value in (None, float("nan"))]
    assert logged_metrics(RunFacts("r", {}, {Table.METRICS: nothing})) == {}


def test_pairs_stand_apart_with_what_is_adjusted_for_all_of_them() -> None:
    def compared(candidate: str, test: str, p: float, city: str | None = None) -> dict[str, Any]:
        part = {"segment": "city" if city else "all", "segment_value": city or "all"}
        measure = {"metric": "ndcg", "k": 10, "difference": 0.25, "test": test}
        return {
            "candidate": candidate,
            "baseline": "pop",
            **part,
            **measure,
            "p_value": p,
            "p_adjusted": 2 * p,
        }

    of_pairs = [compared("als", "t", 0.1), compared("als", "sign", 0.2), compared("knn", "t", 0.3, "Ulm")]
    gates = [{"passed": passed} for passed in (False, True, False)]
    assert logged_metrics(RunFacts("r", {}, {Table.COMPARISONS: of_pairs, Table.GATES: gates})) == {
        "als vs pop/ndcg_at_10.difference": 0.25,
        "als vs pop/ndcg_at_10.p_t": 0.2,
        "als vs pop/ndcg_at_10.p_sign": 0.4,
        "knn vs pop/city.Ulm/ndcg_at_10.difference": 0.25,
        "knn vs pop/city.Ulm/ndcg_at_10.p_t": 0.6,
        "gates_failed": 2.0,
    }


def test_conventions_are_parameters_one_by_one() -> None:
    records = {"evaluate": {"conventions": "ranx, gain=exp2; no_hits=zero; relevance>=1.0"}}
    assert logged_params(RunFacts("r", records, {})) == {
        "evaluate.conventions": "ranx, gain=exp2; no_hits=zero; relevance>=1.0",
        "evaluate.preset": "ranx",
        "evaluate.gain": "exp2",
        "evaluate.no_hits": "zero",
        "evaluate.relevance": ">=1.0",
    }


def test_without_mlflow_the_error_says_what_to_install(
    measured: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(EnvironmentFault, match=r"NO_MLFLOW.*spark-eval\[mlflow\]"):
        measured.log_mlflow()
