"""The benchmarks themselves: what they measure with, and one small run from end to end."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from benchmarks.check import difference
from benchmarks.contenders import CONTENDERS
from benchmarks.data import LAYOUTS, SIZES, Dataset, ensure
from benchmarks.functions import LENGTH, main, programs, write_arrays
from benchmarks.processes import usage
from benchmarks.table import comparison
from benchmarks.workload import Task, workload
from pyspark.sql import DataFrame, SparkSession

REPOSITORY = Path(__file__).parents[2]
TINY = replace(SIZES["smoke"], users=200, length=8)


def read(dataset: Dataset, folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    place = ensure(dataset, folder)
    recommendations, truth = (pq.read_table(place / name) for name in ("recommendations", "truth"))
    return recommendations.to_pandas(), truth.to_pandas()


def test_data_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    first, again = read(TINY, tmp_path / "a"), read(TINY, tmp_path / "b")
    other = read(replace(TINY, seed=2), tmp_path / "a")
    for one, two in zip(first, again, strict=True):
        pd.testing.assert_frame_equal(one, two)
    assert not first[0].equals(other[0])


def test_lists_are_whole_and_nothing_repeats(tmp_path: Path) -> None:
    recommendations, truth = read(TINY, tmp_path)
    ranks = recommendations.groupby("user")["rank"].agg(list)
    assert len(ranks) == TINY.users
    assert all(rank == list(range(1, TINY.length + 1)) for rank in ranks)
    assert not recommendations.duplicated(["user", "item"]).any()
    assert not truth.duplicated().any()
    # Users without truth, and users without a list.
    assert set(recommendations["user"]) - set(truth["user"])
    assert set(truth["user"]) - set(recommendations["user"])
    assert len(recommendations.merge(truth)) > 0


def test_data_of_the_other_workloads(tmp_path: Path) -> None:
    dataset = replace(TINY, ids="string", scored=True, ties=True, graded=True, models=2, repeats=0.2)
    recommendations, truth = read(dataset, tmp_path)
    assert recommendations["user"].str.startswith("user-").all()
    assert set(recommendations["model"]) == {"model_0", "model_1"}
    assert recommendations.duplicated(["model", "user", "score"]).any()
    assert recommendations.duplicated(["model", "user", "item"]).any()
    assert truth.duplicated().any()
    assert set(truth["relevance"]) <= {1.0, 2.0, 3.0, 4.0, 5.0}


@pytest.mark.parametrize("scored", [False, True])
def test_layouts_hold_the_same_rows(tmp_path: Path, scored: bool) -> None:
    plain = replace(TINY, scored=scored, models=2)
    whole, truth = read(plain, tmp_path)
    order = ["model", "user", "item"]
    for layout in LAYOUTS[1:]:
        dataset = replace(plain, layout=layout)
        rows, same = read(dataset, tmp_path)
        assert layout in dataset.name
        pd.testing.assert_frame_equal(same, truth)
        assert not rows.equals(whole)
        found, expected = (frame.sort_values(order, ignore_index=True) for frame in (rows, whole))
        pd.testing.assert_frame_equal(found, expected)
        if layout == "by_item":
            assert rows["item"].is_monotonic_increasing
        elif layout == "by_rank":
            assert (-rows["score"] if scored else rows["rank"]).is_monotonic_increasing


def test_folds_of_both_tables(tmp_path: Path) -> None:
    recommendations, truth = read(replace(TINY, folds=3), tmp_path)
    assert set(recommendations["fold"]) == set(truth["fold"]) == {0, 1, 2}
    found = recommendations[["user", "fold"]].merge(truth[["user", "fold"]], on="user")
    assert (found["fold_x"] == found["fold_y"]).all()


def test_training_holds_nothing_that_is_recommended(tmp_path: Path) -> None:
    dataset = replace(TINY, holds="facts")
    lists, _ = read(dataset, tmp_path)
    place = ensure(dataset, tmp_path)
    train, items = (pq.read_table(place / name).to_pandas() for name in ("train", "items"))
    assert not train.duplicated().any()
    assert len(train) > 2 * TINY.users
    assert train.merge(lists, on=["user", "item"]).empty
    assert items["item"].tolist() == list(range(1, dataset.items + 1))
    assert {len(set(words)) for words in items["features"]} == {3}


def test_each_library_is_held_against_ours_under_its_preset() -> None:
    def row(name: str, cpu: float) -> dict[str, Any]:
        sample = {"cpu": cpu, "wall": cpu}
        shown = {"contender": name, "does": "", "against": CONTENDERS[name].against, "fault": None}
        return {**shown, "start": sample, "cold": sample, "warm": [sample], "peak": 0, "worker": 0, **sample}

    rows = [row("as-replay", 1), row("replay-beyond", 4), row("as-rectools", 2), row("rectools-beyond", 4)]
    lines = comparison(rows, {}, "S", "beyond").splitlines()[2:]
    assert [line.split(" | ")[8] for line in lines] == ["1.00", "0.250", "1.00", "0.500"]


def test_a_task_survives_the_way_to_its_process() -> None:
    task = Task(workload("graded", "smoke", partitions=3), Path("somewhere"))
    assert Task.from_json(task.to_json()) == task


def test_usage_counts_children_that_ended() -> None:
    busy = "['-c', 'sum(range(20_000_000))']"
    parent = f"import subprocess as s, sys; s.run([sys.executable, *{busy}]); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        used = usage(process.pid)
    assert used.cpu > 0.15
    assert used.resident > 1_000_000


def test_difference_finds_another_value_and_another_user(tmp_path: Path) -> None:
    work = replace(workload("ranked", "smoke"), ks=(1,), metrics=("ap",))
    ours = pd.DataFrame(
        {"user": [1, 2], "n_relevant": [1, 4], "n_recommended": [9, 9], "ap_at_1": [1.0, 1.0]}
    )

    def of(table: pd.DataFrame, name: str = "duckdb") -> float | None:
        table.to_parquet(tmp_path / "per_user.parquet")
        return difference(tmp_path, None, ours, CONTENDERS[name], work)

    assert of(ours) == 0
    assert of(ours.assign(ap_at_1=[1.0, 0.5])) == 0.5
    assert of(ours.assign(n_relevant=[1, 3])) == float("inf")
    assert of(ours.head(1)) == float("inf")
    # ranx divides by all 4 relevant items, not by min(4, 1).
    assert of(ours[["user", "ap_at_1"]].assign(ap_at_1=[1.0, 0.25]), "ranx") == 0


def test_arrays_hold_lists_by_rank_and_all_that_is_relevant(tmp_path: Path) -> None:
    write_arrays(40, tmp_path)
    rows = pq.read_table(tmp_path / "arrays").to_pandas().set_index("user")
    lists, truth = read(Dataset(users=40, length=LENGTH), tmp_path)
    by_rank = lists.sort_values("rank").groupby("user")["item"].agg(list)
    relevant = truth.sort_values("item").groupby("user")["item"].agg(list)
    both = sorted({*by_rank.index} & {*relevant.index})
    for names, of_users in ((("recommended", "prediction"), by_rank), (("relevant", "label"), relevant)):
        for name in names:
            assert rows[name].map(list).to_dict() == of_users[both].to_dict()


@pytest.mark.slow
def test_functions_take_turns_with_those_of_spark_and_give_its_means(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    session = SimpleNamespace(read=spark.read, stop=lambda: None)
    monkeypatch.setattr("benchmarks.functions.get_session", lambda *_: session)
    monkeypatch.setattr("benchmarks.functions.KS", (5, 10))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found: dict[str, list[Any]] = {}

    def noted(rows: DataFrame) -> dict[str, Any]:
        def noting(name: str, run: Any) -> Any:
            def noted_run() -> Any:
                found.setdefault(name, []).append(run())
                return found[name][-1]

            return noted_run

        return {name: noting(name, run) for name, run in programs(rows).items()}

    monkeypatch.setattr("benchmarks.functions.programs", noted)
    main(40, repetitions=1)
    assert all(first == again for first, again in found.values())
    ours, theirs = found["thirty"][0].asDict(), iter(found["spark thirty"][0])
    for name in ("precision", "recall", "ap", "ndcg"):
        assert [ours[f"avg({name}_at_{k})"] for k in (5, 10)] == pytest.approx([next(theirs), next(theirs)])
    assert found["one"][0][0] == pytest.approx(ours["avg(ndcg_at_10)"])
    assert found["spark one"][0] == pytest.approx([ours["avg(ndcg_at_10)"]])
    counted, _, header, _, *rows = capsys.readouterr().out.splitlines()
    n_lists = int(counted.split()[0])
    assert 0 < n_lists <= 40
    assert found["scan"][0][0] == n_lists * LENGTH
    assert header == "| program | CPU s | least | most | wall s | CPU s per million lists |"
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [row[0] for row in cells] == ["scan", "one", "thirty", "spark one", "spark thirty"]
    assert all(float(cell) >= 0 for row in cells for cell in row[1:])
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.timeout(900)  # two Spark sessions, on a machine that may be busy
def test_smoke_run_writes_a_table_of_equal_results(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "benchmarks.run",
        "--size",
        "smoke",
        "--workload",
        "folds",
        "--layout",
        "anywhere",
        "--read",
        "spark",
        "--contenders",
        "ours,hits-only,ranx",
    ]
    folders = ["--data", str(tmp_path / "data"), "--results", str(tmp_path / "results")]
    run = subprocess.run(
        [*command, "--repetitions", "1", *folders],
        cwd=REPOSITORY,
        # One small job: optimising its machine code costs more than it gives.
        env={**os.environ, "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    [page] = (tmp_path / "results").glob("*.md")
    facts = json.loads(page.with_suffix(".json").read_text())
    rows = {row["contender"]: row for row in facts["rows"]}
    assert rows["ours"]["fault"] is None
    assert rows["ours"]["cpu"] > 0
    assert rows["ours"]["peak"] > 100 * 1024**2
    assert facts["differences"]["hits-only"] <= 1e-9
    assert rows["ranx"]["fault"] == "not installed: ranx"
    assert "| hits-only: " in page.read_text()
    # Neither this machine's name nor its folders.
    assert str(tmp_path) not in page.read_text() + page.with_suffix(".json").read_text()
    assert not list((tmp_path / "data").glob("run-*"))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_start_is_measured(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.start", "1"]
    run = subprocess.run(
        command,
        cwd=REPOSITORY,
        env={**os.environ, "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    header, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in run.stdout.splitlines()
    ]
    assert header == ["program", "CPU s", "least", "most", "wall s", "CPU / bare", "wall / bare"]
    assert [row[0] for row in rows] == ["bare", "parquet", "csv"]
    assert all(float(cell) > 1 for row in rows for cell in row[1:5])
    assert rows[0][5:] == ["1.00", "1.00"]
    assert not list(tmp_path.iterdir())


def test_experiments_are_measured(tmp_path: Path) -> None:
    """Users in one of twenty experiments have the same events in use as all of them in one."""
    cases = ["one", "20 layers"]
    command = [sys.executable, "-m", "benchmarks.online", str(tmp_path), "--events", "20000", *cases]
    run = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    header, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in run.stdout.splitlines()
    ]
    assert header[:2] == ["case", "CPU s"]
    assert [row[0] for row in rows] == cases
    assert rows[0][-1] == rows[1][-1]
    assert int(rows[0][-1]) > 10_000


@pytest.mark.slow
def test_stores_are_measured(tmp_path: Path) -> None:
    """A folder of this machine serves as well."""
    command = [sys.executable, "-m", "benchmarks.stores", (tmp_path / "store").as_uri(), "smoke", "1"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    run = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    header, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in run.stdout.splitlines()
    ]
    assert header[:4] == ["program", "CPU s", "CPU s of servers", "s"]
    assert [row[0] for row in rows] == ["spark-eval evaluate, published", "floor ii"]
    assert all(float(row[1]) > 0 for row in rows)
