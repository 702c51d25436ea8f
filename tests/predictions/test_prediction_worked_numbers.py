"""Numbers that a person can check: those of the sources, and one for each metric."""

import math
from typing import Any

import numpy as np
import pytest
from local import measure

from spark_eval.predictions.worker.rows import bins_of

TRUE = [0, 0, 1, 1, 0, 1, 0, 1, 1, 1]
PREDICTED = [0, 1, 0, 1, 0, 1, 1, 1, 1, 0]
NEW_LINES: dict[str, Any] = {
    "metrics": ["confusion", "precision", "recall", "f1", "accuracy", "mean_class_accuracy"]
}


def test_the_confusion_matrix_of_limitations() -> None:
    found = measure({"label": TRUE, "score": PREDICTED}, scores="class", **NEW_LINES).values
    assert found == {
        "confusion(label=0,predicted=0)": 2,
        "confusion(label=0,predicted=1)": 2,
        "confusion(label=1,predicted=0)": 2,
        "confusion(label=1,predicted=1)": 4,
        "precision": 2 / 3,
        "recall": 2 / 3,
        "f1": 2 / 3,
        "accuracy": 0.6,
        "mean_class_accuracy": pytest.approx(0.583333, abs=5e-7),
    }


def test_the_same_as_a_task_of_several_classes() -> None:
    rows = {"label": TRUE, "score": PREDICTED}
    found = measure(rows, "multiclass", scores="class", classes=["no", "yes"], **NEW_LINES).values
    assert found["confusion(label=yes,predicted=yes)"] == 4
    assert found["precision(class=yes)"] == found["recall(class=yes)"] == found["f1(class=yes)"] == 2 / 3
    assert found["recall(class=no)"] == 0.5
    assert found["accuracy"] == 0.6
    assert found["mean_class_accuracy"] == pytest.approx(7 / 12)


def test_all_predicted_negative_of_the_course() -> None:
    rows = {"label": [1] + [0] * 99, "score": [0.0] * 100}
    found = measure(rows, metrics=["accuracy", "mean_class_accuracy", "recall", "precision"]).values
    assert found["accuracy(threshold=0.5)"] == 0.99
    assert found["mean_class_accuracy(threshold=0.5)"] == 0.5
    assert found["recall(threshold=0.5)"] == 0.0
    assert found["precision(threshold=0.5)"] is None


def test_the_ten_patients_of_limitations() -> None:
    rows = {"label": [1, 1, 1] + [0] * 7, "score": [0.9, 0.9, 0.1, 0.9] + [0.1] * 6}
    first, last = (row for row in measure(rows, metrics=["auc"], curves=True).curves if row["curve"] == "roc")
    assert (first["x"], first["y"], first["threshold"]) == (1 / 7, 2 / 3, 0.9)
    assert (last["x"], last["y"]) == (1.0, 1.0)


def test_the_auc_of_limitations() -> None:
    assert measure({"label": [1, 1, 0], "score": [0.9, 0.8, 0.7]}, metrics=["auc"]).values == {"auc": 1.0}


def test_ties_count_one_half() -> None:
    rows = {"label": [1, 0, 1, 0], "score": [0.5, 0.5, 0.9, 0.1]}
    assert measure(rows, metrics=["auc"]).values == {"auc": 3.5 / 4}


def test_the_area_under_the_p_r_curve_steps_and_trapezoids() -> None:
    # Precision 1, 1/2, 2/3 at recall 1/2, 1/2, 1.
    rows = {"label": [1, 0, 1], "score": [0.9, 0.8, 0.7]}
    assert measure(rows, metrics=["auprc"]).values["auprc"] == pytest.approx(1 / 2 + 1 / 2 * 2 / 3)
    by_spark = measure(rows, metrics=["auprc"], conventions="spark").values["auprc"]
    assert by_spark == pytest.approx(1 / 2 + 1 / 2 * (1 / 2 + 2 / 3) / 2)


def test_log_loss_and_likelihood() -> None:
    found = measure({"label": [1, 0], "score": [0.8, 0.4]}, metrics=["log_loss", "log_likelihood"]).values
    assert found["log_loss"] == pytest.approx(-(math.log(0.8) + math.log(0.6)) / 2, rel=1e-15)
    assert found["log_likelihood"] == -(found["log_loss"] or 0)


def test_certain_and_wrong_costs_as_much_as_eps_says() -> None:
    assert measure({"label": [1], "score": [0.0]}, metrics=["log_loss"]).values == {
        "log_loss": 52 * math.log(2)
    }
    spark = measure({"label": [1], "score": [0.0]}, metrics=["log_loss"], conventions="spark").values
    assert spark == {"log_loss": pytest.approx(15 * math.log(10))}


def test_log_loss_of_several_classes() -> None:
    rows = {"label": [0, 2], "score_0": [0.7, 0.1], "score_1": [0.2, 0.5], "score_2": [0.1, 0.4]}
    found = measure(rows, "multiclass", classes=["a", "b", "c"]).values
    assert found["log_loss"] == pytest.approx(-(math.log(0.7) + math.log(0.4)) / 2, rel=1e-15)
    assert (found["accuracy"], found["mean_class_accuracy"]) == (0.5, 0.5)
    assert (found["precision(class=b)"], found["recall(class=b)"]) == (0.0, None)


def test_of_equal_probabilities_the_first_class_is_predicted() -> None:
    rows = {"label": [0, 1], "score_0": [0.4, 0.4], "score_1": [0.4, 0.4], "score_2": [0.2, 0.2]}
    assert measure(rows, "multiclass", classes=[0, 1, 2], metrics=["accuracy"]).values == {"accuracy": 0.5}


def test_classes_without_rows_are_left_out_of_the_mean() -> None:
    rows = {"label": [0, 0, 1], "score": [0, 2, 1]}
    [row] = measure(
        rows, "multiclass", scores="class", classes=[0, 1, 2], metrics=["mean_class_accuracy"]
    ).metrics
    assert (row["value"], row["n_undefined"]) == (0.75, 1)


def test_errors_of_a_regression() -> None:
    rows = {"label": [1.0, 2.0, 4.0, 0.0], "score": [1.5, 2.0, 3.0, 1.0]}
    found = measure(rows, "regression")
    assert found.values == {
        "mae": 2.5 / 4,
        "mse": 2.25 / 4,
        "rmse": 0.75,
        "mape": pytest.approx((0.5 + 0 + 0.25) / 3),
        "r2": pytest.approx(1 - 2.25 / 8.75),
    }
    assert {row["metric"]: row["n_undefined"] for row in found.metrics}["mape"] == 1


def test_r2_of_labels_far_from_zero_and_of_equal_labels() -> None:
    far = {"label": [1e9 + 1, 1e9 + 2, 1e9 + 4, 1e9], "score": [1e9 + 1.5, 1e9 + 2, 1e9 + 3, 1e9 + 1]}
    assert measure(far, "regression").values["r2"] == pytest.approx(1 - 2.25 / 8.75, rel=1e-14)
    weighted = {**far, "weight": [0.1, 0.2, 0.3, 0.4]}
    mean = (0.1 * 1 + 0.2 * 2 + 0.3 * 4) / 1.0
    spread = 0.1 * (1 - mean) ** 2 + 0.2 * (2 - mean) ** 2 + 0.3 * (4 - mean) ** 2 + 0.4 * mean**2
    r2 = 1 - (0.1 * 0.25 + 0.3 + 0.4) / spread
    assert measure(weighted, "regression").values["r2"] == pytest.approx(r2, rel=1e-13)
    equal = {"label": [0.1] * 3, "score": [0.1, 0.2, 0.3], "weight": [0.1, 0.7, 0.3]}
    assert measure(equal, "regression", metrics=["r2"]).values == {"r2": None}


def test_of_equal_precisions_the_lowest_threshold_is_chosen() -> None:
    rows = {"label": [1, 1, 0, 1], "score": [0.9, 0.8, 0.7, 0.6]}
    [row] = measure(rows, metrics=["auc"], choose={"recall": [0.3]}).thresholds
    assert (row["threshold"], row["precision"], row["flags"], row["cost"]) == (0.8, 1.0, 2.0, 1.0)


def test_of_equal_costs_the_highest_threshold_is_chosen() -> None:
    costs = [{"false_positive": 1.0, "false_negative": 1.0}]
    for labels, threshold in (([0, 1, 0], math.inf), ([1, 0, 1], 0.9)):
        for scores_per_range in (1, 9):
            rows = {"label": labels, "score": [0.9, 0.8, 0.7]}
            found = measure(rows, metrics=["auc"], choose={"cost": costs}, scores_per_range=scores_per_range)
            [row] = found.thresholds
            assert (row["threshold"], row["cost"]) == (threshold, 1.0)


def test_the_gap_of_each_bin_counts_by_its_weight() -> None:
    # Bins [0, .5) and [.5, 1]: means .3 and .75, rates 1/2 and 1.
    rows = {"label": [0, 1, 1], "score": [0.2, 0.4, 0.75]}
    assert measure(rows, metrics=["ece"], bins=2).values["ece"] == pytest.approx((0.2 * 2 + 0.25) / 3)


@pytest.mark.parametrize("n_bins", [1, 3, 10, 49, 1000])
def test_edges_of_bins_belong_to_the_bin_above(n_bins: int) -> None:
    edges = np.arange(n_bins + 1) / n_bins
    below, above = np.nextafter(edges[1:], 0), np.nextafter(edges[:-1], 1)
    assert bins_of(edges, n_bins).tolist() == [*range(n_bins), n_bins - 1]
    assert bins_of(below, n_bins).tolist() == bins_of(above, n_bins).tolist() == [*range(n_bins)]


def test_sampled_negatives_are_put_back() -> None:
    # A rate of 1/2 makes a third of what should be a fifth: the model says so, and is calibrated again.
    rows = {"label": [1, 0, 0, 0, 0], "score": [1 / 3] * 5}
    found = measure(rows, metrics=["ece", "log_loss"], sampling_rate=0.5).values
    assert found["ece"] == pytest.approx(1 / 3 - 1 / 5)
    assert found["ece(sampling_rate=0.5)"] == pytest.approx(0, abs=1e-16)
    assert (found["log_loss(sampling_rate=0.5)"] or 0) < (found["log_loss"] or 0)


def test_what_is_undefined_has_no_value() -> None:
    found = measure({"label": [1, 1], "score": [0.2, 0.9], "user": [1, 2]}, metrics=["auc", "auprc", "gauc"])
    assert found.values == {"auc": None, "auprc": 1.0, "gauc": None}
    negative = measure(
        {"label": [0, 0], "score": [0.2, 0.9]}, curves=True, choose={"recall": [0.5], "flags": [0]}
    )
    assert negative.values["auprc"] is None
    assert negative.values["recall(threshold=0.5)"] is None
    assert {row["curve"] for row in negative.curves} == {"calibration"}
    none, nothing = sorted(negative.thresholds, key=lambda row: row["rule"], reverse=True)
    assert none["threshold"] is None
    assert (nothing["threshold"], nothing["flags"], nothing["precision"]) == (math.inf, 0.0, None)


def test_a_minus_before_zero_makes_no_other_score() -> None:
    for scores in ([0.0, -0.0], [-0.0, 0.0]):
        found = measure({"label": [1, 0], "score": scores}, metrics=["auc"], curves=True)
        assert found.values == {"auc": 0.5}
        [threshold] = [row["threshold"] for row in found.curves if row["curve"] == "roc"]
        assert math.copysign(1.0, threshold) == 1.0


def test_users_are_distinguished_by_text() -> None:
    rows = {"label": [1, 0, 1, 0], "score": [0.9, 0.1, 0.1, 0.9], "user": ["a", "a", "b", "b"]}
    [row] = measure(rows, metrics=["gauc"]).metrics
    assert (row["value"], row["n_users"], row["std_error"]) == (0.5, 2, 0.5)


def test_users_of_the_same_auc_have_no_spread() -> None:
    """A positive between three negatives, one of them below it: an AUC of 1/3, whose square is rounded."""
    users = [user for user in range(7) for _ in range(4)]
    rows = {"label": [0, 0, 1, 0] * 7, "score": [0.9, 0.8, 0.5, 0.1] * 7, "user": users}
    [row] = measure(rows, metrics=["gauc"]).metrics
    assert (row["value"], row["std_error"]) == (1 / 3, 0.0)


def test_a_user_of_several_segments_is_one_in_each() -> None:
    rows = {
        "label": [1, 0, 1, 0],
        "score": [0.9, 0.1, 0.1, 0.9],
        "user": [7, 7, 7, 7],
        "segment_0": ["de", "de", "fr", "fr"],
    }
    found = measure(rows, metrics=["gauc"], segments=["country"]).metrics
    assert {row["segment_value"]: row["value"] for row in found} == {"all": 0.5, "de": 1.0, "fr": 0.0}


def test_a_reduced_curve_is_within_its_bound_and_keeps_the_areas() -> None:
    random = np.random.default_rng(5)
    score = random.random(40_000)
    rows = {"label": (random.random(40_000) < score**3).astype(int), "score": score}
    options: dict[str, Any] = {"metrics": ["auc", "auprc"], "curves": True}
    whole, reduced = (
        measure(rows, **options),
        measure(rows, curve_points=2_000, scores_per_range=999, **options),
    )
    assert whole.values == reduced.values
    for curve in ("roc", "pr"):
        every, kept = (
            np.array(
                [(row["x"], row["y"], row["threshold"]) for row in found.curves if row["curve"] == curve]
            )
            for found in (whole, reduced)
        )
        [bound] = {row["error_bound"] for row in reduced.curves if row["curve"] == curve}
        assert 0 < bound < 1 / 50
        assert len(every) == 40_000
        assert len(kept) <= 2_000
        assert set(map(tuple, kept)) <= set(map(tuple, every))
        assert tuple(kept[-1]) == tuple(every[-1])
        # The kept point before each, in falling thresholds.
        before = np.maximum(np.searchsorted(-kept[:, 2], -every[:, 2], side="right") - 1, 0)
        assert np.abs(every[:, :2] - kept[before, :2]).max() < bound
