"""Metrics are understood by every name that people have for them; the canonical one is what is published."""

import doctest

import pytest

from spark_eval.cli import metric_tables
from spark_eval.errors import ConfigError
from spark_eval.evaluation.plan import make_plan
from spark_eval.kernels.aliases import ALIASES, bare_name
from spark_eval.kernels.registry import RANKING
from spark_eval.kernels.values import metric_values, ranking_names
from spark_eval.predictions import PREDICTION_METRICS
from spark_eval.predictions.plan import make_prediction_plan
from spark_eval.runs.sections import parse_config

OUTPUT = {"output": {"path": "out"}}


@pytest.mark.parametrize(
    ("texts", "canonical"),
    [
        ("ndcg", ["ndcg@5"]),
        ("NDCG@10", ["ndcg@10"]),
        ("nDCG(gain=exp2)@10", ["ndcg(gain=exp2)@10"]),
        (
            ["HR", "Hit@10", "HitRate", "hit-ratio@10", "Success@1"],
            ["hit_rate@5", "hit_rate@10", "hit_rate@1"],
        ),
        (["MAP", "MRR", "recip_rank", "Mean_Average_Precision@all"], ["map@5", "mrr@5", "map@all"]),
        (
            ["recall@k", "P@K", "ndcgAtK", "R-Precision"],
            ["recall@5", "precision@5", "ndcg@5", "r_precision@5"],
        ),
        (["ROC_AUC", "F1-Score"], ["gauc@5", "f1@5"]),
    ],
)
def test_rankings(texts: str | list[str], canonical: list[str]) -> None:
    plan = make_plan(metrics=texts, k=5)
    assert list(map(str, plan.metrics)) == canonical
    config = parse_config({**OUTPUT, "evaluate": {"metrics": texts, "k": 5}})
    assert config.evaluate.checked() == plan
    # A run is called by its config, and the same work must have the same name.
    same = parse_config(
        {**OUTPUT, "evaluate": {"metrics": config.evaluate.model_dump()["metrics"], "k": [5]}}
    )
    assert same.evaluate.model_dump() == config.evaluate.model_dump()
    assert same.evaluate.checked() == plan


@pytest.mark.parametrize(
    ("texts", "canonical"),
    [
        ("auc", ["auc"]),
        (["LogLoss", "ROC-AUC", "Average_Precision"], ["log_loss", "auc", "auprc"]),
        (["Accuracy", "F1_score", "Brier"], ["accuracy", "f1", "mse"]),
    ],
)
def test_predictions(texts: str | list[str], canonical: list[str]) -> None:
    plan = make_prediction_plan(
        "binary", metrics=texts, thresholds=0.5, choose={"flags": 3}, segments="country"
    )
    assert list(plan.metrics) == canonical
    assert (list(plan.thresholds), plan.segments, len(plan.rules)) == ([0.5], ("country",), 1)
    section = {"path": "p", "task": "binary", "metrics": texts, "thresholds": 0.5, "choose": {"flags": 3}}
    config = parse_config({**OUTPUT, "predictions": {**section, "segments": "country"}})
    assert config.predictions is not None
    assert config.predictions.checked() == plan
    assert config.predictions.model_dump()["metrics"] == canonical


def test_a_single_name_becomes_a_list() -> None:
    plan = make_plan(metrics="map", k="3", segments="known")
    assert (list(map(str, plan.metrics)), plan.segments) == (["map@3"], ("known",))


@pytest.mark.parametrize("known", [ranking_names(), PREDICTION_METRICS], ids=["rankings", "predictions"])
def test_no_name_belongs_to_two_metrics(known: dict[str, object]) -> None:
    meant: dict[str, object] = {}
    for name in known:
        for alias in (name, *ALIASES.get(name, ())):
            assert meant.setdefault(bare_name(alias), known[name]) is known[name], alias


def test_every_alias_is_of_a_metric() -> None:
    assert set(ALIASES) <= {*ranking_names(), *PREDICTION_METRICS}


@pytest.mark.parametrize("name", [*RANKING, *(name for name in PREDICTION_METRICS if name not in RANKING)])
def test_the_example_that_metrics_prints_runs_unchanged(name: str) -> None:
    for written in (name, name.upper(), f"{name}@10"):
        text = metric_tables.metric_text(written)
        assert f"{name}, " in text
    [test] = [doctest.DocTestParser().get_doctest(text, {}, name, None, None)]
    assert doctest.DocTestRunner(verbose=False).run(test).failed == 0
    assert test.examples


def test_metrics_name_under_a_preset() -> None:
    ranx = metric_tables.metric_text("MAP", "ranx")
    assert "denominator=relevant: m, the user's relevant items (default: min_relevant_k)" in ranx
    assert "gain=" not in ranx.partition("under preset")[2]
    assert "trapezoid" in metric_tables.metric_text("auprc", "spark")
    assert "one of rankings only" in metric_tables.metric_text("auprc", "ranx")
    with pytest.raises(ConfigError, match="did you mean 'ranx'"):
        metric_tables.metric_text("map", "rank")


@pytest.mark.parametrize(
    ("name", "meant"), [("NDGC", "ndcg"), ("hitrat", "hit_rate"), ("log_los", "log_loss")]
)
def test_what_is_no_name_of_a_metric(name: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"UNKNOWN_METRIC.*did you mean '{meant}'"):
        metric_tables.metric_text(name)


def test_a_metric_by_two_names_is_measured_once() -> None:
    values = metric_values(["MAP", "ap", "mean_average_precision"], [5], make_plan().conventions)
    assert list(map(str, values)) == ["map@5"]
