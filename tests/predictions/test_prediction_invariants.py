"""What holds of every metric of predictions, as its record says: bounds, the best value, weights, copies."""

from typing import Any

import numpy as np
import pytest
from local import crowd, measure

from spark_eval.predictions import PREDICTION_METRICS, PredictionMetric
from spark_eval.predictions.task import REPLICATES, Scores, Task
from spark_eval.schema import Direction

TASKS = [
    pytest.param(metric, task, id=f"{metric.name} {task}")
    for metric in PREDICTION_METRICS.values()
    for task in metric.tasks
]
SEEDS = range(5)


def rows_of(task: Task, seed: int) -> dict[str, Any]:
    """Rows by chance with weights."""
    random = np.random.default_rng(seed)
    rows = crowd(seed, n=120, n_scores=30)
    del rows["segment_0"]
    if task is Task.REGRESSION:
        rows["label"] = random.standard_normal(120) * 3
        rows["score"] = random.standard_normal(120) * 3
    if task is Task.MULTICLASS:
        shares = random.dirichlet([1.0, 1.0, 1.0], 120)
        del rows["score"]
        rows |= {"label": random.integers(0, 3, 120)}
        rows |= {f"score_{place}": shares[:, place] for place in range(3)}
    return rows


def values(rows: dict[str, Any], task: Task, metric: PredictionMetric) -> dict[str, float | None]:
    options: dict[str, Any] = {"classes": ["a", "b", "c"]} if task is Task.MULTICLASS else {}
    if REPLICATES in metric.needs:
        options |= {"intervals": "user", "resamples": 64}
    found = measure(rows, task, metrics=[metric.name], **options).values
    if REPLICATES in metric.needs:  # whose sums are rounded to 2^-30
        return {name: None if value is None else round(value, 6) for name, value in found.items()}
    return found


@pytest.mark.parametrize(("metric", "task"), TASKS)
def test_values_lie_within_the_bounds(metric: PredictionMetric, task: Task) -> None:
    least, most = metric.bounds
    for seed in SEEDS:
        for value in values(rows_of(task, seed), task, metric).values():
            assert value is not None
            assert least is None or value >= least
            assert most is None or value <= most


@pytest.mark.parametrize(("metric", "task"), TASKS)
def test_perfect_predictions_score_best(metric: PredictionMetric, task: Task) -> None:
    if metric.best is None:
        return
    assert metric.best in metric.bounds
    for seed in SEEDS:
        rows = rows_of(task, seed)
        if task is Task.MULTICLASS:
            rows |= {f"score_{place}": (rows["label"] == place) * 1.0 for place in range(3)}
        else:
            rows["score"] = rows["label"] * 1.0
        for value in values(rows, task, metric).values():
            assert value == pytest.approx(metric.best, abs=1e-15)


@pytest.mark.parametrize(("metric", "task"), TASKS)
def test_perfect_predictions_are_best_in_the_direction(metric: PredictionMetric, task: Task) -> None:
    if metric.direction is Direction.NONE:
        assert metric.name == "confusion"
        return
    for value in values(rows_of(task, SEEDS[0]), task, metric).values():
        assert value is not None
        assert metric.best is not None
        assert (value < metric.best) == (metric.direction is Direction.HIGHER)


@pytest.mark.parametrize(("metric", "task"), TASKS)
def test_a_weight_of_two_is_two_rows(metric: PredictionMetric, task: Task) -> None:
    for seed in SEEDS:
        rows = rows_of(task, seed) | {"weight": np.ones(120)}
        twice = {name: np.concatenate([column, column]) for name, column in rows.items()}
        heavy = rows | {"weight": np.full(120, 2.0)}
        assert values(twice, task, metric) == values(heavy, task, metric)
        if metric.best is not None:
            assert values(twice, task, metric) == values(rows, task, metric)


def test_every_metric_fits_a_kind_of_scores_of_each_of_its_tasks() -> None:
    for metric in PREDICTION_METRICS.values():
        for task in metric.tasks:
            assert any(metric.fits(task, scores) for scores in Scores)
            assert not any(metric.fits(other, one) for other in set(Task) - {*metric.tasks} for one in Scores)
