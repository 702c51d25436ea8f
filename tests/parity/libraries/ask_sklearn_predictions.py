"""scikit-learn: metrics and curves of predictions, without and with weights.

Cases come as JSON on stdin, numbers go as JSON to stdout: by case, without (``plain``) and with weights.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from sklearn import metrics
from sklearn.calibration import calibration_curve

THRESHOLD = 0.5
Case = Mapping[str, Sequence[Any]]


def binary(case: Case, weight: Any) -> dict[str, Any]:
    """Under our names."""
    label, score = np.array(case["label"]), np.array(case["score"])
    flagged = score >= THRESHOLD
    fpr, tpr, cuts = metrics.roc_curve(label, score, sample_weight=weight, drop_intermediate=False)
    precision, recall, thresholds = metrics.precision_recall_curve(label, score, sample_weight=weight)
    found: dict[str, Any] = {
        "auc": metrics.roc_auc_score(label, score, sample_weight=weight),
        "auprc": metrics.average_precision_score(label, score, sample_weight=weight),
        "log_loss": metrics.log_loss(label, score, sample_weight=weight),
        "accuracy(threshold=0.5)": metrics.accuracy_score(label, flagged, sample_weight=weight),
        "mean_class_accuracy(threshold=0.5)": metrics.balanced_accuracy_score(
            label, flagged, sample_weight=weight
        ),
        "precision(threshold=0.5)": metrics.precision_score(label, flagged, sample_weight=weight),
        "recall(threshold=0.5)": metrics.recall_score(label, flagged, sample_weight=weight),
        "f1(threshold=0.5)": metrics.f1_score(label, flagged, sample_weight=weight),
        "gauc": mean_auc(case, weight),
        # Both curves in the order of falling thresholds, less the point that no score is at.
        "roc": np.stack([fpr, tpr, cuts])[:, 1:].tolist(),
        "pr": np.stack([recall[:-1], precision[:-1], thresholds])[:, ::-1].tolist(),
    }
    matrix = metrics.confusion_matrix(label, flagged, sample_weight=weight)
    for one, other in np.ndindex(2, 2):
        found[f"confusion(label={one},predicted={other},threshold=0.5)"] = matrix[one, other]
    if weight is None:
        rate, mean = calibration_curve(label, score, n_bins=10)
        found["calibration"] = np.stack([mean, rate]).tolist()
    return found


def mean_auc(case: Case, weight: Any) -> float:
    """Mean of the AUC of users of two classes."""
    label, score, user = (np.array(case[name]) for name in ("label", "score", "user"))
    values = []
    for one in np.unique(user):
        mine = user == one
        if len(np.unique(label[mine])) == 2:
            of_mine = None if weight is None else weight[mine]
            values.append(metrics.roc_auc_score(label[mine], score[mine], sample_weight=of_mine))
    return float(np.mean(values))


def multiclass(case: Case, weight: Any) -> dict[str, Any]:
    """Under our names; classes are 0 to 3."""
    label, scores = np.array(case["label"]), np.array(case["score"])
    predicted = scores.argmax(axis=1)
    found: dict[str, Any] = {
        "log_loss": metrics.log_loss(label, scores, sample_weight=weight, labels=range(4)),
        "accuracy": metrics.accuracy_score(label, predicted, sample_weight=weight),
        "mean_class_accuracy": metrics.balanced_accuracy_score(label, predicted, sample_weight=weight),
    }
    each = metrics.precision_recall_fscore_support(
        label, predicted, labels=range(4), sample_weight=weight, zero_division=np.nan
    )
    for name, values in zip(("precision", "recall", "f1"), each, strict=False):
        found |= {f"{name}(class={one})": value for one, value in enumerate(values)}
    matrix = metrics.confusion_matrix(label, predicted, labels=range(4), sample_weight=weight)
    for one, other in np.ndindex(4, 4):
        found[f"confusion(label={one},predicted={other})"] = matrix[one, other]
    return found


def regression(case: Case, weight: Any) -> dict[str, Any]:
    """Under our names."""
    label, score = np.array(case["label"]), np.array(case["score"])
    known = {
        "mae": metrics.mean_absolute_error,
        "mse": metrics.mean_squared_error,
        "rmse": metrics.root_mean_squared_error,
        "mape": metrics.mean_absolute_percentage_error,
        "r2": metrics.r2_score,
    }
    return {name: measure(label, score, sample_weight=weight) for name, measure in known.items()}


def in_json(value: Any) -> Any:
    """Numbers as JSON takes them; what is undefined is null."""
    return value if isinstance(value, list) else None if np.isnan(value) else float(value)


if __name__ == "__main__":
    tasks = {"binary": binary, "multiclass": multiclass, "regression": regression}
    numbers: dict[str, Any] = {}
    for task, cases in json.load(sys.stdin).items():
        for name, columns in cases.items():
            for kind, weights in (("plain", None), ("weighted", np.array(columns["weight"]))):
                values = tasks[task](columns, weights)
                key = f"{task} {kind}"
                numbers.setdefault(key, {})[name] = {one: in_json(value) for one, value in values.items()}
    json.dump({"version": version("scikit-learn"), "numbers": numbers}, sys.stdout)
