"""Comparison of predictions: worked numbers, a second computation, gates, and what is refused."""

from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import SparkSession

from spark_eval import compare, evaluate_predictions
from spark_eval.comparison.compare import Comparison
from spark_eval.errors import ConfigError, DataError
from spark_eval.predictions.evaluate import Predictions
from spark_eval.results.driver_tables import to_arrow

pytestmark = pytest.mark.usefixtures("each_engine")

# User, label, score of model A and of model B.
WORKED: Final = [
    *[("a", 1, 0.9, 0.7), ("a", 0, 0.4, 0.5), ("a", 1, 0.6, 0.8), ("b", 0, 0.3, 0.2), ("b", 0, 0.7, 0.6)],
    *[("c", 1, 0.5, 0.9), ("c", 0, 0.5, 0.1), ("c", 0, 0.2, 0.4)],
    *[("d", 1, 0.8, 0.6), ("d", 0, 0.6, 0.3), ("d", 1, 0.3, 0.5)],
]
METRICS: Final = ("auc", "log_loss", "precision", "rmse")


def worked() -> pd.DataFrame:
    rows = pd.DataFrame(WORKED, columns=["user", "label", "A", "B"])
    return rows.melt(["user", "label"], ["A", "B"], "model", "score")


def scored(rows: Any, **options: Any) -> Predictions:
    return evaluate_predictions(rows, "binary", **{"metrics": METRICS, "intervals": "user"} | options)


def row_of(comparison: Comparison, metric: str) -> Any:
    [row] = [row for row in comparison.rows if row.metric == metric]
    return row


def test_worked_difference_of_auc(spark: SparkSession) -> None:
    assert spark
    row = row_of(compare(scored(worked()), correction="none"), "auc")
    assert (row.baseline, row.candidate, row.k, row.n_users) == ("A", "B", None, 4)
    assert (row.baseline_value, row.candidate_value) == pytest.approx((0.7166666667, 0.9333333333))
    assert (row.difference, row.std_error) == pytest.approx((0.2166666667, 0.0878714924), abs=5e-11)
    assert (row.statistic, row.p_value) == pytest.approx((2.46572194, 0.0136737436), rel=1e-8)
    assert row.wins + row.ties + row.losses == 4


def test_worked_difference_of_rows_is_that_of_delong(spark: SparkSession) -> None:
    assert spark
    rows = worked().assign(user=[*range(len(WORKED))] * 2)
    row = row_of(compare(scored(rows), correction="none"), "auc")
    assert (row.difference, row.std_error) == pytest.approx((0.2166666667, 0.1361167799), abs=5e-11)
    assert (row.statistic, row.p_value) == pytest.approx((1.59177044, 0.1114362944), rel=1e-8)


def test_results_are_shown_and_drawn(spark: SparkSession, tmp_path: Path) -> None:
    assert spark
    found = compare(scored(worked()), metrics=["auc"])
    assert "B beats A in auc by .217 ± .172; p = .014" in repr(found.summary())
    found.plot().write(tmp_path / "page.html")
    assert "auc" in (tmp_path / "page.html").read_text(encoding="utf-8")


def crowd(seed: int, n_users: int = 120) -> pd.DataFrame:
    """Rows of users who resemble each other, scored by two models."""
    random = np.random.default_rng(seed)
    user = np.repeat(np.arange(n_users), 6)
    taste = random.standard_normal(n_users)[user]
    label = (random.random(len(user)) < 1 / (1 + np.exp(1 - taste))).astype(int)
    models = [
        pd.DataFrame({"model": model, "user": user, "label": label, "score": 1 / (1 + np.exp(-logit))})
        for model, logit in (
            ("A", taste + random.standard_normal(len(user)) - 1),
            ("B", taste + random.standard_normal(len(user)) / 2 - 1),
        )
    ]
    return pd.concat(models, ignore_index=True)


def test_differences_of_ratios_are_those_of_sums_by_user(spark: SparkSession) -> None:
    assert spark
    rows = crowd(1)
    found = compare(scored(rows), correction="none", tests=["t", "sign"])
    label, score = rows["label"], rows["score"]
    rows["loss"] = -np.log(np.where(label == 1, score, 1 - score))
    losses = rows.pivot_table("loss", "user", "model", "sum")
    sizes = rows[rows["model"] == "A"].groupby("user").size()
    difference = (losses["B"] - losses["A"]).to_numpy()
    mean = difference.sum() / sizes.sum()
    rest = difference - mean * sizes.to_numpy()
    error = np.sqrt(120 / 119 * (rest**2).sum()) / sizes.sum()
    by_test = {row.test: row for row in found.rows if row.metric == "log_loss"}
    row = by_test["t"]
    assert (row.difference, row.std_error) == pytest.approx((mean, error), rel=1e-10)
    assert row.statistic == pytest.approx(mean / error, rel=1e-10)
    assert (row.wins, row.losses) == ((difference < 0).sum(), (difference > 0).sum())
    assert by_test["sign"].p_value is not None


def test_one_result_against_another_and_gates(spark: SparkSession) -> None:
    assert spark
    rows = crowd(2)
    old, new = (scored(rows[rows["model"] == name].assign(model="ctr")) for name in ("A", "B"))
    gates = [
        {"metric": "auc", "max_drop": 0.01},
        {"metric": "log_loss", "max_drop": 0.05, "drop": "relative"},
    ]
    found = compare(new, old, gates=gates)
    assert [(row.metric, row.k, row.decision, row.passed) for row in found.gate_rows] == [
        ("auc", None, "not_worse", True),
        ("log_loss", None, "not_worse", True),
    ]
    back = compare(old, new, gates=gates)
    assert [row.decision for row in back.gate_rows] == ["worse", "worse"]
    assert row_of(back, "auc").difference == -row_of(found, "auc").difference
    assert row_of(back, "auc").std_error == row_of(found, "auc").std_error


def test_gates_of_values_without_errors_are_observed(spark: SparkSession) -> None:
    assert spark
    rows = crowd(6)
    old, new = (
        scored(rows[rows["model"] == name].assign(model="ctr"), metrics=["ece", "auc"]) for name in ("A", "B")
    )
    gate = {"metric": "ece", "max_drop": 1.0, "mode": "observed"}
    [row] = compare(new, old, gates=[gate]).gate_rows
    assert (row.metric, row.decision, row.bound_low) == ("ece", "not_worse", None)
    assert row.difference == pytest.approx((row.candidate_value or 0) - (row.baseline_value or 0))
    assert [row.metric for row in compare(new, old).rows] == ["auc"]


def test_a_model_equals_itself(spark: SparkSession) -> None:
    assert spark
    rows = crowd(3)
    one = scored(rows[rows["model"] == "A"])
    shuffled = rows[rows["model"] == "A"].sample(frac=1, random_state=1)
    found = compare(scored(shuffled), one)
    assert {(row.difference, row.std_error, row.ties) for row in found.rows} == {(0.0, 0.0, 120)}


def test_what_is_refused(spark: SparkSession) -> None:
    assert spark
    rows = crowd(4)
    both, first = scored(rows), scored(rows[rows["model"] == "A"])
    other = rows[rows["model"] == "A"].copy()
    other["label"] = np.where(other["user"] == 0, 1 - other["label"], other["label"])
    with pytest.raises(DataError, match=r"ROWS_DIFFER.*A against A"):
        compare(scored(other), first)
    with pytest.raises(DataError, match="ROWS_DIFFER"):
        compare(scored(rows[(rows["model"] == "A") & (rows["user"] > 0)]), first)
    with pytest.raises(ConfigError, match=r"NOT_OF_PREDICTIONS.*wilcoxon"):
        compare(both, tests=["wilcoxon"])
    with pytest.raises(ConfigError, match="UNKNOWN_SEGMENT"):
        compare(both, segments=["country"])
    with pytest.raises(ConfigError, match=r"METRIC_NOT_MEASURED.*mae"):
        compare(both, metrics=["mae"])
    with pytest.raises(ConfigError, match=r"NO_INTERVAL.*ece"):
        compare(both, gates=[{"metric": "ece", "max_drop": 0.1}])
    with pytest.raises(ConfigError, match="NO_USERS"):
        compare(scored(rows, intervals="none"))
    with pytest.raises(DataError, match="CONVENTIONS_DIFFER"):
        compare(first, scored(rows[rows["model"] == "A"], conventions="spark"))


def test_sums_of_users_add_up_whatever_the_partitioning(spark: SparkSession) -> None:
    rows = crowd(5)
    first = to_arrow(scored(rows).per_user).to_pandas().set_index(["model", "user"]).sort_index()
    frame = spark.createDataFrame(rows.sample(frac=1, random_state=2)).repartition(5)
    other = to_arrow(scored(frame).per_user).to_pandas().set_index(["model", "user"]).sort_index()
    pd.testing.assert_frame_equal(first, other, check_exact=True)
    assert first["rows"].sum() == len(rows)
    halves = [to_arrow(scored(part).per_user).to_pandas() for part in (rows[::2], rows[1::2])]
    added = pd.concat(halves).groupby(["model", "user"])[["rows", "loss", "labels_1"]].sum()
    pd.testing.assert_frame_equal(added, first[["rows", "loss", "labels_1"]], rtol=1e-14)
