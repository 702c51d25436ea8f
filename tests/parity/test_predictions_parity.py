"""Metrics of predictions are those of scikit-learn, and under preset spark those of Spark's evaluators."""

import json
import subprocess
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from prediction_cases import binary_cases, multiclass_cases, regression_cases, rows_of
from pyspark.ml.evaluation import BinaryClassificationEvaluator, RegressionEvaluator
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_eval import evaluate_predictions

PYTHON = Path(__file__).parents[2] / ".venv-parity" / "bin" / "python"
SCRIPT = Path(__file__).parent / "libraries" / "ask_sklearn_predictions.py"
pytestmark = [pytest.mark.parity, pytest.mark.timeout(900)]
TOLERANCE = 1e-12
CASES = {"binary": binary_cases(), "multiclass": multiclass_cases(), "regression": regression_cases()}
SCHEMAS = {
    "binary": "model string, label int, score double, user int, weight double",
    "multiclass": "model string, label int, score array<double>, weight double",
    "regression": "model string, label double, score double, weight double",
}
BINARY = ("auc", "auprc", "gauc", "log_loss", "accuracy", "mean_class_accuracy", "precision", "recall", "f1")
OPTIONS: dict[str, dict[str, Any]] = {
    "binary": {"metrics": [*BINARY, "confusion"], "curves": True},
    "multiclass": {"classes": [0, 1, 2, 3]},
    "regression": {},
}
N_BY_SPARK = 4


@pytest.fixture(scope="module")
def theirs() -> Mapping[str, Any]:
    """The numbers of scikit-learn, by task and kind, then by case."""
    if not PYTHON.exists():
        pytest.skip("the libraries are not installed; `make test-parity` installs them and runs this")
    done = subprocess.run(
        [PYTHON, SCRIPT], input=json.dumps(CASES), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    answer: Mapping[str, Any] = json.loads(done.stdout)
    return answer


def table_of(spark: SparkSession, task: str, is_weighted: bool) -> DataFrame:
    """All cases of a task, each as a model."""
    frame = spark.createDataFrame(list(rows_of(CASES[task])), SCHEMAS[task])
    return frame if is_weighted else frame.drop("weight")


@pytest.mark.parametrize("kind", ["plain", "weighted"])
@pytest.mark.parametrize("task", CASES)
def test_every_number_is_that_of_scikit_learn(
    spark: SparkSession, theirs: Mapping[str, Any], compared: list[str], task: str, kind: str
) -> None:
    found = evaluate_predictions(table_of(spark, task, kind == "weighted"), task, **OPTIONS[task])
    ours: dict[str, dict[str, Any]] = defaultdict(dict)
    for row in found.to_arrow("metrics").to_pylist():
        ours[row["model"]][row["metric"]] = row["value"]
    for row in found.to_arrow("curves").to_pylist():
        ours[row["model"]].setdefault(row["curve"], []).append((row["x"], row["y"], row["threshold"]))
    differences = []
    for case, values in theirs["numbers"][f"{task} {kind}"].items():
        for name, value in values.items():
            mine = ours[case][name]
            if isinstance(value, list):
                points = [point[: len(value)] for point in mine]
                assert len(points) == len(value[0]), f"{name} of {case}"
                pairs = [pair for one, other in zip(points, zip(*value, strict=True), strict=True)
                         for pair in zip(one, other, strict=True)]  # fmt: skip
            else:
                pairs = [(mine, value)]
            for one, other in pairs:
                assert (one is None) == (other is None), f"{name} of {case}: {one}, not {other}"
                if one is not None:
                    differences.append((abs(one - other) / max(1.0, abs(other)), name, case))
    worst, name, case = max(differences)
    compared.append(
        f"scikit-learn {theirs['version']}: {task}, {kind}: {len(differences)} numbers, worst {worst:.1e}"
    )
    assert worst <= TOLERANCE, f"{name} of {case}"


@pytest.mark.parametrize("is_weighted", [False, True])
def test_areas_are_those_of_spark_under_its_preset(spark: SparkSession, is_weighted: bool) -> None:
    frame = table_of(spark, "binary", is_weighted)
    found = evaluate_predictions(frame, "binary", metrics=["auc", "auprc"], conventions="spark")
    ours = {(row["model"], row["metric"]): row["value"] for row in found.to_arrow("metrics").to_pylist()}
    evaluator = BinaryClassificationEvaluator(rawPredictionCol="score", labelCol="label", numBins=0)
    if is_weighted:
        evaluator.setWeightCol("weight")
    for case in list(CASES["binary"])[:N_BY_SPARK]:
        rows = frame.where(F.col("model") == case).cache()
        for name, theirs in (("auc", "areaUnderROC"), ("auprc", "areaUnderPR")):
            value = evaluator.evaluate(rows, {evaluator.metricName: theirs})
            assert ours[case, name] == pytest.approx(value, rel=TOLERANCE)
        rows.unpersist()


@pytest.mark.parametrize(("is_weighted", "metrics"), [(True, ["mae", "mse", "rmse"]), (False, ["mae", "r2"])])
def test_errors_are_those_of_spark(spark: SparkSession, is_weighted: bool, metrics: list[str]) -> None:
    """Its R² with weights takes a variance of another divisor."""
    frame = table_of(spark, "regression", is_weighted)
    found = evaluate_predictions(frame, "regression", metrics=metrics).to_arrow().to_pylist()
    ours = {(row["model"], row["metric"]): row["value"] for row in found}
    evaluator = RegressionEvaluator(predictionCol="score", labelCol="label")
    if is_weighted:
        evaluator.setWeightCol("weight")
    for case in list(CASES["regression"])[:N_BY_SPARK]:
        rows = frame.where(F.col("model") == case).cache()
        for name in metrics:
            value = evaluator.evaluate(rows, {evaluator.metricName: name})
            assert ours[case, name] == pytest.approx(value, rel=1e-9)
        rows.unpersist()
