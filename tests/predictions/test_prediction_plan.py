"""Options of predictions are checked before Spark starts."""

from pathlib import Path
from typing import Any

import pytest

from spark_eval.errors import ConfigError
from spark_eval.predictions import PREDICTION_METRICS
from spark_eval.predictions.plan import make_prediction_plan
from spark_eval.predictions.task import Scores, Task
from spark_eval.runs.sections import read_config

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        ({"task": "binry"}, "INVALID_CHOICE", "did you mean 'binary'?"),
        ({"scores": "prob"}, "INVALID_CHOICE", "predictions.scores"),
        ({"task": "multiclass", "scores": "raw", "classes": [0, 1]}, "INVALID_CONFIG", "does not fit"),
        ({"metrics": ["acuracy"]}, "UNKNOWN_METRIC", "did you mean 'accuracy'?"),
        ({"metrics": ["r2"]}, "INVALID_CONFIG", "r2 is not defined for task: binary"),
        ({"metrics": ["log_loss"], "scores": "raw"}, "INVALID_CONFIG", "log_loss is not defined"),
        ({"metrics": []}, "NO_METRICS", "is empty"),
        ({"conventions": "sprak"}, "UNKNOWN_PRESET", "did you mean 'spark'?"),
        ({"task": "multiclass"}, "INVALID_CONFIG", "classes: task: multiclass needs a list"),
        ({"task": "multiclass", "classes": [1, 1]}, "INVALID_CONFIG", "distinct"),
        ({"task": "multiclass", "classes": [1, "a"]}, "INVALID_CONFIG", "all text or all numbers"),
        ({"positive": 0}, "INVALID_CONFIG", "distinct"),
        (
            {"task": "multiclass", "classes": [0, 1], "probabilities": ["a"]},
            "INVALID_CONFIG",
            "1 probabilities for 2",
        ),
        ({"probabilities": ["a", "b"]}, "INVALID_CONFIG", "task: multiclass"),
        ({"scores": "raw", "metrics": ["f1"]}, "INVALID_CONFIG", "need thresholds"),
        ({"scores": "class", "thresholds": [0.1]}, "INVALID_CONFIG", "thresholds need"),
        ({"thresholds": [float("nan")]}, "INVALID_CONFIG", "finite"),
        ({"task": "regression", "curves": True}, "INVALID_CONFIG", "curves and choose need"),
        ({"scores": "class", "choose": {"flags": [3]}}, "INVALID_CONFIG", "curves and choose need"),
        ({"choose": {"flag": [3]}}, "UNKNOWN_CONFIG_KEY", "did you mean 'flags'?"),
        ({"choose": {"recall": [1.5]}}, "INVALID_CONFIG", "recall in [0, 1]"),
        ({"choose": {"flags": [-1]}}, "INVALID_CONFIG", "flags must be at least 0"),
        ({"choose": {"cost": [{"false_positive": -1.0}]}}, "INVALID_CONFIG", "costs must be at least 0"),
        ({"sampling_rate": 0.0}, "INVALID_CONFIG", "not in (0, 1]"),
        (
            {"sampling_rate": 0.5, "scores": "raw", "metrics": ["auc"]},
            "INVALID_CONFIG",
            "sampling_rate corrects",
        ),
        ({"bins": 0}, "INVALID_CONFIG", "bins: 0"),
        ({"curve_points": 10}, "INVALID_CONFIG", "curve_points: 10"),
        ({"segments": ["a", "A"]}, "INVALID_SEGMENT", "repeated"),
        ({"segments": ["all"]}, "INVALID_SEGMENT", "all"),
    ],
)
def test_refused(options: dict[str, Any], code: str, says: str) -> None:
    with pytest.raises(ConfigError) as raised:
        make_prediction_plan(**{"task": "binary", **options})
    assert raised.value.code == code
    assert says in raised.value.message


def test_by_default_all_is_measured_that_needs_no_users() -> None:
    assert "gauc" not in make_prediction_plan("binary").metrics
    assert set(make_prediction_plan("regression").metrics) == {"mae", "mse", "rmse", "mape", "r2"}
    assert make_prediction_plan("binary", scores="raw").metrics == ("auc", "auprc")
    assert set(make_prediction_plan("binary", scores="raw", thresholds=[1.0]).metrics).isdisjoint(
        {"log_loss", "ece"}
    )
    assert (
        make_prediction_plan("binary", scores="class").metrics
        == make_prediction_plan("multiclass", scores="class", classes=[0, 1]).metrics
    )


def test_only_what_is_asked_for_costs_a_shuffle() -> None:
    cheap = make_prediction_plan("binary", metrics=["log_loss", "f1", "ece"])
    assert (cheap.by_score, cheap.by_user) == (False, False)
    assert make_prediction_plan("binary", metrics=["log_loss"], choose={"flags": [3]}).by_score
    assert make_prediction_plan("binary", metrics=["gauc"]).by_user


@pytest.mark.parametrize("task", Task)
def test_every_metric_fits_some_task_and_has_a_meaning(task: Task) -> None:
    fitting = [
        metric
        for metric in PREDICTION_METRICS.values()
        if any(metric.fits(task, scores) for scores in Scores)
    ]
    assert fitting
    for metric in fitting:
        assert metric.summary.endswith(".") or ";" in metric.summary
        assert metric.formula


def test_the_example_config_shows_every_key() -> None:
    path = REPOSITORY / "conf" / "predictions.yaml"
    section = read_config(path).predictions
    assert section is not None
    text = path.read_text(encoding="utf-8")
    source = {"path", "table", "format", "options", "where", "columns", "timestamp_unit", "subset", "read"}
    for key in set(type(section).model_fields) - source:
        assert f"{key}:" in text, key
    assert section.checked().by_user
