"""The verbs end to end: which rows they read, what they print, and that they leave with the right code."""

import os
import subprocess
import sys
from collections import Counter
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import spark_eval
from spark_eval.cli.commands import main
from spark_eval.config.inputs import Source
from spark_eval.conventions import CONVENTIONS
from spark_eval.kernels.registry import RANKING
from spark_eval.publishing.attempt import Attempt
from spark_eval.publishing.local import LocalStore
from spark_eval.runtime import session
from spark_eval.schema import Table
from spark_eval.sources.read import read_source

if TYPE_CHECKING:
    from tests.cli.conftest import Desk

pytestmark = pytest.mark.usefixtures("each_engine")

MRR = {"best": 1.0, "late": 0.5, "half": 0.5}


def test_truth_is_the_split_of_the_same_run_id(desk: "Desk") -> None:
    desk.done("split", "--run-id", "2024-03-01")
    answer = desk.done("evaluate", "--run-id", "2024-03-01")
    assert desk.metric() == MRR
    assert desk.metric(k=1) == {"best": 1.0, "late": 0.0, "half": 0.5}
    last = [line.split() for line in answer.out.splitlines()[-5:]]
    assert last[0] == ["run", "2024-03-01", "published"]
    assert [line[0] for line in last[1:]] == ["per_user", "metrics", "sums", "accounting"]
    assert all(Path(line[1]).exists() for line in last[1:])


def test_without_a_run_id_the_split_of_the_same_config_is_found(
    desk: "Desk", monkeypatch: pytest.MonkeyPatch
) -> None:
    names, get_session = [], session.get_session

    def noted(name: str, *given: Any) -> SparkSession:
        names.append(name)
        return get_session(name, *given)

    monkeypatch.setattr(session, "get_session", noted)
    desk.done("split", "--engine", "spark")
    desk.done("evaluate", "--engine", "spark")
    assert names == ["spark-eval split", "spark-eval evaluate"]
    assert desk.metric() == MRR
    [split_id] = [path.name for path in (desk.out / "splits").iterdir()]
    [run_id] = [path.name for path in (desk.out / "metrics").iterdir()]
    assert split_id.startswith("run_id=s-")
    assert run_id.startswith("run_id=e-")


def test_the_split_of_another_config_is_not_found(desk: "Desk") -> None:
    desk.done("split")
    code, name, line = desk.refused("evaluate", "--set", "split.seed=1")
    assert (code, name) == (3, "MISSING_SPLIT")
    assert "spark-eval split" in line


def test_truth_by_subset_alone(split_desk: "Desk") -> None:
    split_desk.done("evaluate", "--run-id", "a", "--set", "truth={subset: local_train}")
    assert split_desk.metric() == {"best": 0.0, "late": 0.0, "half": 0.0}
    truth = split_desk.table("accounting").query("source == 'truth' and outcome == 'in'")
    assert list(truth["rows"]) == [32]


def test_truth_by_path_needs_no_split(desk: "Desk") -> None:
    desk.change("truth", path=str(desk.home / "log"), columns={"relevance": "stars"})
    desk.tree["interactions"] = None
    desk.done("evaluate", "--set", "truth.where=[{column: when, op: ==, value: 864000}]")
    assert desk.metric() == MRR


def test_one_model_named_by_the_config(split_desk: "Desk") -> None:
    lists = pd.DataFrame({"user": [1, 2], "item": [101, 7], "score": [1, 1]})
    split_desk.change("recommendations", path=str(split_desk.write("one", lists)), model="als")
    split_desk.done("evaluate", "--run-id", "a")
    assert split_desk.metric() == {"als": 0.25}


def test_csv_json_and_orc(desk: "Desk") -> None:
    log, lists = pd.read_parquet(desk.home / "log"), pd.read_parquet(desk.home / "lists")
    log.to_json(desk.home / "log.json", orient="records", lines=True)
    lists.to_csv(desk.home / "lists.csv", index=False)
    log[log["when"] == 864_000].reset_index(drop=True).to_orc(desk.home / "truth.orc", index=False)
    desk.change("interactions", path=str(desk.home / "log.json"), format="json")
    desk.change("recommendations", path=str(desk.home / "lists.csv"), format="csv", options={"header": True})
    desk.change("truth", path=str(desk.home / "truth.orc"), format="orc", columns={"relevance": "stars"})
    desk.done("split", "--run-id", "a")
    desk.done("evaluate", "--run-id", "a")
    assert desk.metric() == MRR
    assert desk.table("splits")["user"].dtype == desk.table("per_user")["user"].dtype == "int64"


def test_a_catalog_table(desk: "Desk", spark: SparkSession) -> None:
    spark.read.parquet(str(desk.home / "log")).write.saveAsTable("cli_log")
    try:
        desk.change("interactions", path=None, table="cli_log")
        desk.done("split", "--run-id", "a")
    finally:
        spark.sql("DROP TABLE cli_log")
    assert len(desk.table("splits")) == 40


def test_arrays_of_items_and_of_structs(split_desk: "Desk", spark: SparkSession) -> None:
    desk = split_desk
    ranked, scored = str(desk.home / "ranked"), str(desk.home / "scored")
    lists = [("best", 1, [101, 7]), ("late", 2, [7, 102])]
    spark.createDataFrame(lists, "model string, user long, item array<long>").write.parquet(ranked)
    als = [(1, [(101, 2.0), (7, 1.0)]), (2, [(7, 2.0), (102, 1.0)])]
    kind = "user int, recommendations array<struct<item: int, rating: float>>"
    spark.createDataFrame(als, kind).write.parquet(scored)
    desk.change("recommendations", path=ranked, layout="array")
    desk.done("evaluate", "--run-id", "a")
    assert desk.metric() == {"best": 0.25, "late": 0.125}
    desk.change("recommendations", path=scored, model="als")
    desk.done("evaluate", "--run-id", "a", "--replace")
    assert desk.metric() == {"als": 0.375}


# A filter of the log, and the number of its rows that pass.
FILTERS: list[tuple[dict[str, object], int]] = [
    ({"column": "stars", "op": "==", "value": 3}, 10),
    ({"column": "stars", "op": "!=", "value": 3}, 30),
    ({"column": "stars", "op": "<", "value": 3}, 20),
    ({"column": "stars", "op": "<=", "value": 3}, 30),
    ({"column": "stars", "op": ">", "value": 3}, 10),
    ({"column": "stars", "op": ">=", "value": 3}, 20),
    ({"column": "item", "op": "in", "value": [11, 12, 13, 5]}, 3),
    ({"column": "when", "op": "between", "value": [86_400, 172_800]}, 8),
    ({"column": "stars", "op": "is_null"}, 0),
    ({"column": "stars", "op": "is_not_null"}, 40),
]


def test_where(published: "Desk", spark: SparkSession) -> None:
    """All filters in one job."""

    def filtered(condition: dict[str, object]) -> DataFrame:
        log = str(published.home / "log")
        where = [condition, {"column": "user", "op": "is_not_null"}]
        source = Source.model_validate({"path": log, "where": where})
        return read_source(spark, source, "interactions", log, "UTC").select(
            F.lit(str(condition)).alias("by")
        )

    rows = reduce(DataFrame.unionAll, (filtered(condition) for condition, _ in FILTERS)).collect()
    found = Counter(row.by for row in rows)
    assert {str(condition): found[str(condition)] for condition, _ in FILTERS} == {
        str(condition): n_rows for condition, n_rows in FILTERS
    }


def test_where_is_applied_after_ids_of_text_files_are_numbers(desk: "Desk") -> None:
    pd.DataFrame({"user": [1, 2], "item": [101, 102]}).to_csv(desk.home / "t.csv", index=False)
    where = [{"column": "user", "op": "==", "value": 2}]
    options = {"header": True}
    desk.change("truth", path=str(desk.home / "t.csv"), format="csv", options=options, where=where)
    desk.done("evaluate")
    assert desk.metric() == {"best": 1.0, "late": 0.5, "half": 1.0}


def test_settings_on_the_command_line_win_over_the_file(split_desk: "Desk") -> None:
    split_desk.done(
        "evaluate", "--run-id", "a", "--set", "evaluate.k=[3]", "--set", "evaluate.conventions.ties=hash"
    )
    metrics = split_desk.table("metrics")
    assert set(metrics["k"]) == {3}
    assert "ties=hash" in metrics["conventions"].iloc[0]


def test_validate_checks_columns_and_writes_nothing(desk: "Desk") -> None:
    answer = desk.done("validate")
    assert answer.out.rstrip().endswith("inputs checked: interactions, recommendations")
    desk.change("recommendations", columns={"score": "scor"})
    code, name, line = desk.refused("validate")
    assert (code, name) == (3, "MISSING_COLUMN")
    assert "did you mean 'score'" in line
    assert not desk.out.exists()


def test_validate_checks_a_verb_before_the_inputs_of_others_exist(desk: "Desk") -> None:
    desk.change("recommendations", path=str(desk.home / "later"))
    answer = desk.done("validate", "--verb", "split")
    assert answer.out.rstrip().endswith("inputs checked: interactions")
    code, name, line = desk.refused("validate", "--verb", "evaluate")
    assert (code, name, "later" in line) == (3, "MISSING_INPUT", True)
    assert desk.refused("validate")[1] == "MISSING_INPUT"
    code, name, line = desk.refused("validate", "--verb", "predictions")
    assert (code, name, "'predictions'" in line) == (2, "MISSING_SECTION", True)
    desk.change("interactions", columns={"timestamp": "wen"})
    assert desk.refused("validate", "--verb", "split")[1] == "MISSING_COLUMN"


def test_metrics_prints_the_registry_and_the_conventions(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, check=lambda left: left.code == 0):
        main(["metrics"])
    printed = capsys.readouterr().out
    assert all(f" {metric.name} " in printed for metric in RANKING.values())
    assert all(f" {convention} " in printed for convention in CONVENTIONS)


def test_status_of_an_empty_root(desk: "Desk") -> None:
    nothing = [f"0 runs published under {desk.out}", "0 attempts unfinished"]
    assert desk.done("status").out.splitlines() == nothing
    assert not desk.out.exists()


def test_status_lists_runs_and_unfinished_attempts(published: "Desk") -> None:
    lines = published.done("status").out.splitlines()
    assert lines[0] == f"2 runs published under {published.out}"
    cells = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines if line.startswith("│")]
    first = [line for line in cells if line[0]]
    assert [line[:2] for line in first] == [["a", "evaluate"], ["a", "split"], ["b", "evaluate"]]
    sizes = " ".join(line[-1] for line in cells)
    assert "splits 40" in sizes
    assert "quarantine 1" in sizes
    assert lines[-1] == "0 attempts unfinished"


def test_status_names_attempts_without_an_end_and_the_next_run_clears_dead_ones_away(desk: "Desk") -> None:
    dead = desk.out / "_staging" / f"b-split-{32 * '1'}"
    with Attempt(LocalStore(desk.out), "c", "split") as alive:
        dead.mkdir()
        Path(alive.staged(Table.SPLITS)).mkdir(parents=True)
        lines = desk.done("status").out.splitlines()
        assert [line.partition("; last change")[0] for line in lines[-3:]] == [
            "2 attempts unfinished",
            f"  {dead.name} dead; the next run clears it away",
            f"  {alive.staging.name} at work",
        ]
        code, name, line = desk.refused("split", "--run-id", "c")
        assert (code, name) == (4, "RUN_BUSY")
        assert "another attempt at split of run 'c' is at work" in line
    lines = desk.done("split", "--run-id", "c").out.splitlines()
    assert lines[1].strip() == f"cleared away: attempt {dead.name}, which had died"
    assert not (desk.out / "_staging").exists()


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["evaluat"], "evaluat"),
        (["evaluate"], "--config"),
        (["evaluate", "--confg", "x"], "--confg"),
        (["demo", "--scale", "0"], "--scale"),
        ([], "Missing command"),
    ],
)
def test_usage_is_one_line_and_exit_2(
    arguments: list[str], names: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, check=lambda left: left.code == 2):
        main(arguments)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error[USAGE] ")
    assert said.err.count("\n") == 1
    assert names in said.err


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["evaluate", "-h"], ["--version"]):
        with pytest.raises(SystemExit, check=lambda left: left.code == 0):
            main(arguments)
    said = capsys.readouterr()
    assert said.err == ""
    assert "Exit codes: 0 done" in said.out
    assert spark_eval.__version__ in said.out


def spark_eval_process(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """The installed program as a process of its own, with a JVM of its own, in the poorest of locales."""
    program = Path(sys.executable).parent / "spark-eval"
    poor = {**os.environ, "LC_ALL": "POSIX"}
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False, env=poor)


@pytest.mark.slow
def test_a_process_of_its_own_is_quiet(desk: "Desk") -> None:
    local = (
        "--run-id",
        "a",
        "--set",
        "spark.master='local[2]'",
        "--set",
        "spark.conf={spark.driver.memory: 1g}",
    )
    # A name that POSIX's locale has no letters for.
    desk.change("interactions", path=str((desk.home / "log").rename(desk.home / "журнал")))
    split = spark_eval_process("split", "--config", desk.config(), *local)
    assert (split.returncode, split.stderr) == (0, "")
    assert split.stdout.splitlines()[-5] == "run a published"
    (desk.home / "lists" / "0.parquet").write_bytes(b"PAR1 and then nothing")
    broken = spark_eval_process("evaluate", "--config", desk.config(), *local)
    assert broken.returncode == 3
    assert broken.stderr.startswith("error[CORRUPT_FILE] ")
    assert broken.stderr.count("\n") == 1
    assert not (desk.out / "_staging").exists()


@pytest.mark.slow
def test_debug_shows_the_trace_and_ends_with_the_line(tmp_path: Path) -> None:
    result = spark_eval_process("evaluate", "--config", str(tmp_path / "none.yaml"), "--debug")
    assert result.returncode == 2
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("error[NO_CONFIG] ")


def test_metrics_at_cutoffs_of_their_own_and_without_one(desk: "Desk") -> None:
    desk.tree["truth"] = {"path": str(desk.home / "log"), "columns": {"relevance": "stars"}}
    desk.tree["evaluate"] = {"metrics": ["mrr@all", "map@5", "map(denominator=hits)@1"], "k": 1}
    answer = desk.done("evaluate", "--run-id", "own")
    lines = [line.split() for line in answer.out.splitlines() if "│ best" in line]
    assert [line[3] for line in lines] == ["1", "5", "all"], answer.out
    rows = desk.table("metrics")
    found = set(zip(rows["metric"], rows["k"].fillna(0).astype(int), strict=True))
    assert found == {("mrr", 0), ("map", 5), ("map(denominator=hits)", 1)}
