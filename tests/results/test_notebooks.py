"""What results show of themselves, give to pandas and write; errors as a notebook shows them."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_eval import Evaluation, compare, evaluate, evaluate_predictions, split
from spark_eval.errors import ConfigError, DataError

LISTS = pd.DataFrame(
    [("<b>als</b>", user, item, item + 1) for user in range(40) for item in range(4)]
    + [("pop", user, (item + user) % 9, item + 1) for user in range(40) for item in range(4)],
    columns=["model", "user", "item", "rank"],
)
TRUTH = pd.DataFrame([(user, user % 3) for user in range(40)], columns=["user", "item"])
CELL = re.compile(r"<td>(.*?)</td>")


@pytest.fixture(scope="module")
def measured(spark: SparkSession) -> Evaluation:
    assert spark
    bad = pd.DataFrame([("pop", 1, None, 9)], columns=LISTS.columns)
    lists = pd.concat([LISTS, bad]).astype({"item": "Int64"})
    return evaluate(lists, TRUTH, metrics=["mrr", "ndcg(gain=exp2)"], k=[1, 4])


def test_an_evaluation_shows_its_leaderboard_without_a_job(measured: Evaluation) -> None:
    jobs = measured.spark.sparkContext.statusTracker().getJobIdsForGroup()
    html = measured._repr_html_()
    assert measured.spark.sparkContext.statusTracker().getJobIdsForGroup() == jobs
    assert CELL.findall(html)[:5] == ["&lt;b&gt;als&lt;/b&gt;", "1", "0.3500~", "0.3500~", "40"]
    assert "* the best of its k" in html
    assert "1 rows could not be used" in html
    assert "<b>als" not in html


def test_a_leaderboard_of_one_metric_has_the_best_model_first(measured: Evaluation) -> None:
    everything = measured.leaderboard().to_pandas()
    assert list(everything) == ["model", "k", "mrr", "ndcg(gain=exp2)", "users"]
    best = measured.leaderboard("MRR@4")
    assert list(best.to_pandas()) == ["model", "k", "mrr", "users"]
    assert best.to_pandas()["model"].tolist() == ["<b>als</b>", "pop"]
    assert repr(best).splitlines()[1].split() == ["model", "k", "mrr", "users"]
    assert measured.leaderboard("ndcg(gain=exp2)").to_pandas()["k"].tolist() == ["1", "1", "4", "4"]
    with pytest.raises(ConfigError, match=r"METRIC_NOT_MEASURED.*did you mean 'mrr@4'") as error:
        measured.leaderboard("mrr@5")
    assert error.value.code == "METRIC_NOT_MEASURED"


def test_whole_numbers_stay_whole_in_pandas(measured: Evaluation) -> None:
    metrics = measured.to_pandas()
    assert len(metrics) == 8
    assert metrics["k"].dtype == "Int32"
    assert measured.to_pandas("per_user")["user"].dtype == "Int64"
    with pytest.raises(ConfigError, match=r"UNKNOWN_TABLE.*did you mean 'metrics'"):
        measured.to_pandas("metric")


def test_tables_are_written_below_a_new_folder(measured: Evaluation, tmp_path: Path) -> None:
    measured.write(tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        name for name in measured.tables if len(measured.to_pandas(name))
    }
    assert not (tmp_path / "out" / "stages").exists()
    per_user = measured.to_pandas("per_user").sort_values(["model", "user"], ignore_index=True)
    read = measured.spark.read.parquet(str(tmp_path / "out" / "per_user")).toArrow().to_pandas()
    assert (read.sort_values(["model", "user"])["rr_at_4"].to_numpy() == per_user["rr_at_4"]).all()
    with pytest.raises(ConfigError) as error:
        measured.write(tmp_path / "out")
    assert error.value.code == "FOLDER_EXISTS"


def test_a_comparison_says_it_in_sentences(measured: Evaluation) -> None:
    done = compare(measured, baseline_model="pop", metrics=["mrr@4"])
    html = done._repr_html_()
    assert CELL.findall(html)[:3] == ["&lt;b&gt;als&lt;/b&gt;", "pop", "mrr@4"]
    assert "&lt;b&gt;als&lt;/b&gt; and pop do not certainly differ in mrr@4: .171" in html
    assert done.to_pandas()["candidate"].tolist() == ["<b>als</b>"]


def test_predictions_and_a_split_show_themselves(spark: SparkSession) -> None:
    scored = pd.DataFrame({"label": [0, 1, 1], "score": [0.2, 0.9, 0.1], "model": ["metric", "metric", "b"]})
    done = evaluate_predictions(scored, "binary", metrics=["auc", "mse"], engine="local")
    assert CELL.findall(done._repr_html_()) == ["auc", "-", "1", "mse", "0.81", "0.025"]
    log = pd.DataFrame({"user": range(10), "item": range(10), "timestamp": range(10)})
    parts = split(log, local_cut=0.6, global_cut=0.8, timestamp_unit="s")
    assert "subset(NAME) of local_train, ranker_train, ranker_test, global_test" in parts._repr_html_()
    cells = CELL.findall(parts._repr_html_())
    shown = dict(zip(cells[::2], cells[1::2], strict=True))
    assert [shown[option] for option in ("local_cut", "global_cut", "targets", "seen")] == [
        *("share 0.6", "share 0.8", "all", "keep")
    ]
    assert parts.to_pandas("rows")["user"].dtype == "Int64"
    assert spark is parts.spark


def test_results_draw_charts_of_their_report(measured: Evaluation, tmp_path: Path) -> None:
    jobs = measured.spark.sparkContext.statusTracker().getJobIdsForGroup()
    assert [measured.plot().chart, measured.plot("cutoffs", metric="ndcg(gain=exp2)").chart] == [
        *("models", "cutoffs")
    ]
    assert measured.spark.sparkContext.statusTracker().getJobIdsForGroup() == jobs
    with pytest.raises(ConfigError, match=r"UNKNOWN_CHART.*'folds'.*models, cutoffs, spread, accounting"):
        measured.plot("folds")
    with pytest.raises(ConfigError, match=r"METRIC_NOT_MEASURED.*did you mean 'mrr@4'"):
        measured.plot(metric="mrr@5")
    of_one = measured.plot("spread", metric="mrr@1").page
    assert '"names":["mrr@1"]' in of_one
    assert "mrr@4" not in of_one
    done = compare(measured, baseline_model="pop")
    assert done.plot().title == "Differences from the baseline"
    assert "mrr" not in done.plot(metric=["ndcg(gain=exp2)@4"]).page.partition("page-data")[2][:2000]
    scored = pd.DataFrame({"label": [0, 1, 1], "score": [0.2, 0.9, 0.1]})
    options: dict[str, Any] = {"metrics": ["auc"], "curves": True, "engine": "local"}
    predictions = evaluate_predictions(scored, "binary", model="m", **options)
    assert "ROC" in predictions.plot("curves").page
    log = pd.DataFrame({"user": range(10), "item": range(10), "timestamp": range(10)})
    parts = split(log, local_cut=0.6, global_cut=0.8, timestamp_unit="s", engine="local")
    parts.plot("split").write(tmp_path / "split.html")
    assert "Parts in time" in (tmp_path / "split.html").read_text()
    with pytest.raises(ConfigError, match="METRIC_NOT_MEASURED"):
        parts.plot(metric="ndcg")


def test_paths_and_frames_of_polars_are_taken(spark: SparkSession, tmp_path: Path) -> None:
    with_model = LISTS.replace({"<b>als</b>": "1"})
    spark.createDataFrame(with_model).write.partitionBy("model").parquet(str(tmp_path / "lists"))
    TRUTH.to_parquet(tmp_path / "truth.parquet")
    text = pl.DataFrame({"user": ["a", None], "item": pl.Series(["x", "y"], dtype=pl.Categorical)})
    of_paths = evaluate(tmp_path / "lists", str(tmp_path / "truth.parquet"), metrics="mrr", k=4)
    frames = [pl.from_pandas(frame) for frame in (with_model, TRUTH)]
    of_polars = evaluate(*frames, metrics="mrr", k=4, engine="local")
    assert of_paths.models == of_polars.models == ["1", "pop"]
    assert [row.value for row in of_paths.metric_rows] == [row.value for row in of_polars.metric_rows]
    lists = pl.DataFrame({"user": ["a"], "item": ["x"], "rank": [1]})
    of_text = evaluate(lists, text, model="m", metrics="mrr", k=1)
    assert [row.value for row in of_text.metric_rows] == [1.0]


def test_a_path_that_is_not_there_is_named(spark: SparkSession, tmp_path: Path) -> None:
    assert spark
    with pytest.raises(DataError) as error:
        evaluate(str(tmp_path / "none"), TRUTH, model="m")
    assert error.value.code == "MISSING_INPUT"
    assert "recommendations" in str(error.value)
    with pytest.raises(ConfigError, match="NOT_A_FRAME"):
        evaluate([1, 2], TRUTH, model="m")  # type: ignore[arg-type]


def test_what_spark_raises_in_a_verb_is_one_named_line_with_its_error_behind(spark: SparkSession) -> None:
    lists = spark.createDataFrame(LISTS).selectExpr("model", "user", "cast(model as int) item", "rank")
    with pytest.raises(DataError) as raised:
        evaluate(lists, TRUTH, metrics="mrr", k=1)
    assert raised.value.code == "TYPE_MISMATCH"
    assert isinstance(raised.value.__cause__, PySparkException)
    line = str(raised.value)
    assert "cannot be cast to" in line
    assert len(line) < 500
    assert not {"--debug", "SQLSTATE", "JVM"} & set(re.findall(r"[\w-]+", line))
    assert "SQLSTATE" in raised.value.trace


SHELL = """
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
shell.run_cell(
    "from spark_eval.errors import ConfigError\\n"
    "try: 1 / 0\\n"
    "except ZeroDivisionError as cause: raise ConfigError('INVALID_K', 'k is 0') from cause"
)
print("---")
shell.run_cell("import sys; print(sys.last_value.trace)")
"""


def test_a_notebook_shows_an_error_as_a_line_with_its_trace_behind(tmp_path: Path) -> None:
    env = os.environ | {"IPYTHONDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", SHELL], env=env, capture_output=True, text=True, check=True)
    shown, trace = done.stdout.split("---")
    assert shown.splitlines()[0] == "error[INVALID_K] k is 0"
    assert "Traceback" not in shown
    assert "ZeroDivisionError: division by zero" in trace
    assert "direct cause" in trace


def test_few_names_are_offered_and_all_of_them_are_there(measured: Evaluation) -> None:
    offered = dir(measured)
    assert {*measured.tables, "leaderboard", "summary", "plot", "to_pandas", "write", "models"} <= {*offered}
    assert len(offered) < 20
    assert all(getattr(measured, name) is not None for name in offered)
    assert repr(measured.summary()) == repr(measured.shown()[0])


def test_a_leaderboard_of_each_value_of_a_segment() -> None:
    lists = pd.DataFrame({"model": ["a", "a", "b", "b"], "user": [1, 2] * 2, "item": [1, 9, 9, 1], "rank": 1})
    truth = pd.DataFrame({"user": [1, 2], "item": [1, 1]})
    users = pd.DataFrame({"user": [1, 2], "country": ["de", "fr"]})
    options: dict[str, Any] = {"segments": ["country"], "metrics": ["mrr"], "k": 1, "engine": "local"}
    result = evaluate(lists, truth, users=users, **options)
    board = result.leaderboard("mrr", segment="country").to_pandas()
    best = {row["country"]: row["model"] for _, row in board.iterrows() if "1.0000" in "".join(map(str, row))}
    assert {country: model[0] for country, model in best.items()} == {"de": "a", "fr": "b"}
    assert set(board["users"]) == {"1 (few)"}
    ages = evaluate(
        lists, truth, users=users.assign(age=["10", "9"]), **options | {"segments": ["age"]}
    ).leaderboard(segment="age")
    assert list(dict.fromkeys(ages.to_pandas()["age"])) == ["9", "10"]
    assert ages.notes[-1] == "(few): fewer than 30 users"
    train = pd.DataFrame({"user": [1, 2, 2], "item": [5, 5, 6]})
    active = evaluate(lists, truth, train=train, **options | {"segments": ["activity"]})
    assert "activity: the higher the decile" in active.leaderboard(segment="activity").notes[-1]
    with pytest.raises(ConfigError, match=r"UNKNOWN_SEGMENT.*did you mean 'country'"):
        result.leaderboard(segment="county")
