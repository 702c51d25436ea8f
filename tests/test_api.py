"""What somebody sees who looks around in Python."""

import logging
import subprocess
import sys
from importlib.resources import files

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession

import spark_eval
from spark_eval import evaluate, evaluate_predictions, split
from spark_eval.runtime import events

ROWS = [(user, item, 86_400 * item, 1.0) for user in range(3) for item in range(1, 11)]


def test_the_package_shows_its_names_and_has_types() -> None:
    assert set(spark_eval.__all__) <= set(dir(spark_eval))
    assert all(getattr(spark_eval, name) is not None for name in dir(spark_eval))
    assert files(spark_eval).joinpath("py.typed").is_file()


def test_to_look_at_the_names_loads_no_spark() -> None:
    look = "import spark_eval, sys; dir(spark_eval); print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_results_print_what_they_are_in_one_line(spark: SparkSession) -> None:
    log = spark.createDataFrame(ROWS, "user long, item long, timestamp long, score double")
    parts = split(log, local_cut=0.6, global_cut=0.8, timestamp_unit="s")
    assert repr(parts) == (
        "Split by global_local_ranker: train on global_train for global_test; "
        "train on local_train for ranker_train and ranker_test; "
        "subset(NAME) of local_train, ranker_train, ranker_test, global_test, local_test, global_train; "
        "rows, accounting, leakage, subsets are DataFrames"
    )
    # TaskCounts once, and then kept.
    assert isinstance(parts.accounting, pd.DataFrame)
    assert parts.accounting is parts.accounting
    folds = split(log, method="k_fold", k=2, timestamp_unit="s")
    assert repr(folds).startswith("Split by k_fold: train on train for test; subset(NAME) of train, test; ")
    done = evaluate(log, log, model="m", metrics=["MAP", "mrr@all"], k=[1, 5])
    tables = "metrics, per_user, accounting are DataFrames"
    assert repr(done) == f"Evaluation of 1 model (m): map, mrr at k 1, 5, all; {tables}"
    scored = spark.createDataFrame(
        [(n % 2, n / 10, str(n)) for n in range(7)], "label int, score double, model string"
    )
    several = repr(evaluate_predictions(scored, "binary", metrics="auc"))
    assert several.startswith("Predictions of 7 models (0, 1, 2, 3, 4 and 2 more): auc; metrics, ")


@pytest.mark.parametrize("is_typed", [True, False])
def test_an_interactive_session_prints_progress(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    is_typed: bool,
) -> None:
    caplog.set_level(logging.WARNING)  # what Python starts with, whatever other tests have set
    for name, value in {"handlers": [], "level": logging.NOTSET, "propagate": True}.items():
        monkeypatch.setattr(events.log, name, value)
    if is_typed:
        monkeypatch.setattr(sys, "ps1", "In : ", raising=False)
    log = spark.createDataFrame(ROWS, "user long, item long, timestamp long, score double")
    split(log, method="holdout", timestamp_unit="s")
    evaluate(log, log, model="m", metrics="map")
    lines = [line.partition("] ")[2] or line.strip() for line in capsys.readouterr().out.splitlines()]
    told = [
        "split ...",
        "engine: spark (as asked)",
        "split",
        "evaluate ...",
        "engine: spark (as asked)",
        "evaluate",
    ]
    assert lines == (told if is_typed else [])


@pytest.mark.parametrize("name", ["leakage", "accounting", "subsets", "train", "test"])
def test_tables_of_a_split_are_properties_as_those_of_an_evaluation(spark: SparkSession, name: str) -> None:
    log = spark.createDataFrame(ROWS, "user long, item long, timestamp long, score double")
    kind = DataFrame if name in ("train", "test") else pd.DataFrame
    assert isinstance(getattr(split(log, method="holdout", timestamp_unit="s"), name), kind)
