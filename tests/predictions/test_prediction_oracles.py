"""The numbers against slow second ones, and the same bits however the rows come."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import slow
from local import crowd, measure

from spark_eval.predictions.worker.rows import correct_for_sampling

EVERYTHING: dict[str, Any] = {
    "metrics": [
        "auc",
        "auprc",
        "gauc",
        "gauc_by_impressions",
        "gauc_by_positives",
        "log_loss",
        "ece",
        "f1",
        "precision",
        "recall",
        "accuracy",
        "mean_class_accuracy",
        "confusion",
        "log_likelihood",
    ],
    "thresholds": [0.25, 0.5],
    "segments": ["country"],
    "curves": True,
    "sampling_rate": 0.25,
    "choose": {
        "flags": [40, 0],
        "recall": [0.5, 1.0],
        "cost": [{"false_positive": 1, "false_negative": 2.5}],
    },
}
SEEDS = range(6)


def near(fraction: Fraction | None) -> Any:
    return None if fraction is None else pytest.approx(float(fraction), rel=1e-14, abs=0)


@pytest.fixture(params=[(seed, weighted) for seed in SEEDS for weighted in (False, True)], ids=str)
def rows(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Rows by chance; without weights, or with weights some of which are 0."""
    seed, is_weighted = request.param
    found = crowd(seed, n=150, n_scores=15)
    if not is_weighted:
        del found["weight"]
    return found


def test_metrics_of_binary_predictions(rows: dict[str, Any]) -> None:
    found = measure(rows, **EVERYTHING)
    for segment_value in ("all", "de", "fr", "ch"):
        values = {
            row["metric"]: row["value"] for row in found.metrics if row["segment_value"] == segment_value
        }
        chosen = (
            np.ones(len(rows["label"]), dtype=bool)
            if segment_value == "all"
            else (rows["segment_0"] == segment_value)
        )
        mine = {name: column[chosen] for name, column in rows.items()}
        known = slow.rows_of(mine["label"], mine["score"], mine.get("weight"))
        assert values["auc"] == near(slow.auc(known))
        assert values["auprc"] == near(slow.average_precision(known))
        assert values["log_loss"] == near(slow.log_loss(known, 2.0**-52))
        assert values["log_likelihood"] == -(values["log_loss"] or 0)
        assert values["ece"] == near(slow.ece(known, 10))
        better = slow.rows_of(mine["label"], correct_for_sampling(mine["score"], 0.25), mine.get("weight"))
        assert values["log_loss(sampling_rate=0.25)"] == near(slow.log_loss(better, 2.0**-52))
        assert values["ece(sampling_rate=0.25)"] == near(slow.ece(better, 10))
        for marks, scored in (("", known), (",sampling_rate=0.25", better)):
            for threshold in (0.25, 0.5):
                tp, fp, fn, tn = slow.matrix(scored, threshold)
                at = f"threshold={threshold}{marks}"
                assert values[f"precision({at})"] == near(slow.quotient(tp, tp + fp))
                assert values[f"recall({at})"] == near(slow.quotient(tp, tp + fn))
                assert values[f"f1({at})"] == near(slow.quotient(2 * tp, 2 * tp + fp + fn))
                assert values[f"accuracy({at})"] == near((tp + tn) / (tp + tn + fp + fn))
                recalls = (tp / (tp + fn), tn / (tn + fp))
                assert values[f"mean_class_accuracy({at})"] == near((recalls[0] + recalls[1]) / 2)
                pairs = {(1, 1): tp, (0, 1): fp, (1, 0): fn, (0, 0): tn}
                for (label, predicted), weight in pairs.items():
                    assert values[f"confusion(label={label},predicted={predicted},{at})"] == near(weight)


def test_mean_auc_of_users(rows: dict[str, Any]) -> None:
    found = [row for row in measure(rows, **EVERYTHING).metrics if row["segment"] == "all"]
    sums = {"gauc": [Fraction(0), Fraction(0)], "gauc_by_impressions": [Fraction(0), Fraction(0)]}
    sums["gauc_by_positives"] = [Fraction(0), Fraction(0)]
    n_users = n_one_class = 0
    for user in np.unique(rows["user"]):
        mine = {name: column[rows["user"] == user] for name, column in rows.items()}
        known = slow.rows_of(mine["label"], mine["score"], mine.get("weight"))
        value = slow.auc(known)
        if value is None:
            n_one_class += 1
            continue
        n_users += 1
        positives = slow.weight_of(row for row in known if row[0] == 1)
        weights = {
            "gauc": Fraction(1),
            "gauc_by_impressions": slow.weight_of(known),
            "gauc_by_positives": positives,
        }
        for name, weight in weights.items():
            sums[name][0] += value * weight
            sums[name][1] += weight
    assert n_one_class >= 4
    for row in found:
        if row["metric"] in sums:
            total, weight = sums[row["metric"]]
            assert row["value"] == near(total / weight)
            assert (row["n_users"], row["n_undefined"]) == (n_users, n_one_class)
    assert next(row["std_error"] for row in found if row["metric"] == "gauc") > 0


def test_the_area_by_trapezoids_is_that_of_spark(rows: dict[str, Any]) -> None:
    known = slow.rows_of(rows["label"], rows["score"], rows.get("weight"))
    found = measure(rows, metrics=["auprc", "auc"], conventions="spark")
    assert found.values["auprc"] == near(slow.trapezoids(known))
    assert "auprc=trapezoid" in found.plan.stamp


def test_thresholds_are_the_best_of_all(rows: dict[str, Any]) -> None:
    known = slow.rows_of(rows["label"], rows["score"], rows.get("weight"))
    found = {row["rule"]: row for row in measure(rows, **EVERYTHING).thresholds if row["segment"] == "all"}
    matrices = {float("inf"): slow.matrix(known, float("inf"))}
    matrices |= {threshold: slow.matrix(known, threshold) for threshold in slow.thresholds(known)}
    few = [threshold for threshold, (tp, fp, *_) in matrices.items() if tp + fp <= 40]
    assert found["flags<=40"]["threshold"] == min(few)
    costs = {threshold: fp + Fraction(5, 2) * fn for threshold, (_, fp, fn, _) in matrices.items()}
    cheapest = found["cost(false_positive=1, false_negative=2.5)"]
    assert cheapest["threshold"] == max(t for t, cost in costs.items() if cost == min(costs.values()))
    for limit in (0.5, 1.0):
        fitting = {
            threshold: tp / (tp + fp)
            for threshold, (tp, fp, fn, _) in matrices.items()
            if tp + fp and tp / (tp + fn) >= limit
        }
        best = max(fitting.values())
        row = found[f"recall>={limit}".removesuffix(".0")]
        assert row["threshold"] == min(t for t, precision in fitting.items() if precision == best)
    for row in found.values():
        tp, fp, fn, tn = matrices[row["threshold"]]
        assert (row["tp"], row["fp"], row["fn"], row["tn"]) == tuple(map(near, (tp, fp, fn, tn)))
        assert row["flags"] == near(tp + fp)
        assert row["cost"] == near(costs[row["threshold"]])
        assert row["precision"] == near(slow.quotient(tp, tp + fp))
        assert row["recall"] == near(tp / (tp + fn))


def test_curves_have_a_point_at_every_distinct_score(rows: dict[str, Any]) -> None:
    known = slow.rows_of(rows["label"], rows["score"], rows.get("weight"))
    found = measure(rows, **EVERYTHING).curves
    for curve in ("roc", "pr"):
        mine = [row for row in found if row["curve"] == curve]
        assert [row["threshold"] for row in mine] == slow.thresholds(known)
        assert {row["error_bound"] for row in mine} == {0.0}
        for row in mine:
            tp, fp, fn, tn = slow.matrix(known, row["threshold"])
            recall, precision = tp / (tp + fn), slow.quotient(tp, tp + fp)
            expected = (fp / (fp + tn), recall) if curve == "roc" else (recall, precision or Fraction(0))
            assert (row["x"], row["y"]) == tuple(map(near, expected))
    bins = [row for row in found if row["curve"] == "calibration"]
    for row in bins:
        number = round(row["threshold"] * 10)
        inside = [one for one in known if slow.in_bin(one[1], number, 10)]
        assert row["weight"] == near(slow.weight_of(inside))
        rate = slow.weight_of(one for one in inside if one[0] == 1) / slow.weight_of(inside)
        assert row["y"] == near(rate)
    assert sum(row["weight"] for row in bins) == pytest.approx(float(slow.weight_of(known)))
    assert any(row["curve"] == "calibration(sampling_rate=0.25)" for row in found)


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize(
    "layout",
    [
        {"rows_per_batch": 7, "n_tasks": 3},
        {"n_tasks": 13, "scores_per_range": 5},
        {"rows_per_batch": 50, "scores_per_range": 1},
    ],
    ids=["batches", "ranges", "a score each"],
)
def test_the_same_bits_however_the_rows_come(
    layout: dict[str, Any], is_weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = crowd(11)
    if not is_weighted:
        del rows["weight"]
    whole = measure(rows, **EVERYTHING)
    monkeypatch.setattr("spark_eval.predictions.worker.batches.ROWS_TOGETHER", 20)
    monkeypatch.setattr("spark_eval.predictions.worker.score_ranges.STEP", 2)
    parted = measure(rows, order=np.random.default_rng(1).permutation(400), **layout, **EVERYTHING)
    assert parted.metrics == whole.metrics
    assert parted.thresholds == whole.thresholds
    assert parted.curves == whole.curves
