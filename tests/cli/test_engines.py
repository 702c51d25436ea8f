"""The command line in this process and on Spark: the same tables, records, codes and lines."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import LOG, Desk
from tests.freeze.published import bits_of, columns_of, commits_of

ENGINES = ("local", "spark")
# Runs commands in a process of its own, and says after each whether it has loaded pyspark.
PROGRAM = """
import json, sys
from spark_eval.cli.commands import main
for command in json.loads(sys.argv[1]):
    try:
        main(command)
    except SystemExit as end:
        print(end.code, "with pyspark" if "pyspark" in sys.modules else "without pyspark", flush=True)
"""


def odd_inputs(desk: Desk) -> None:
    """Tables of all kinds with rows that cannot be used, and a pipeline of two stages."""
    draw = np.random.default_rng(5)
    n_rows, names = 240, np.array(["ann", 'b"ob', "東", "d\\i\tr"])

    def pairs(n: int) -> dict[str, object]:
        items = pd.array(draw.integers(0, 30, n), dtype="Int64")
        items[0] = None
        users = pd.Series(draw.choice(names, n)).mask(draw.random(n) < 0.02)
        return {"user": users, "item": items}

    scores = draw.integers(0, 9, n_rows) / 3
    scores[:4] = np.nan, np.inf, -np.inf, 1e-9
    lists = pd.DataFrame({"model": draw.choice(["als", "knn"], n_rows), **pairs(n_rows), "points": scores})
    truth = pd.DataFrame({**pairs(80), "relevance": draw.integers(0, 9, 80) / 7})
    truth.loc[:1, "relevance"] = np.nan, np.inf
    items = pd.DataFrame({"item": pd.array([*range(30), None], dtype="Int64"), "groups": "red|green"})
    tables = {"lists": lists, "truth": truth, "train": pd.DataFrame(pairs(90)), "items": items}
    tables["users"] = pd.DataFrame({"user": names, "country": ["at", "be", None, "at"]})
    paths = {name: str(desk.write(name, rows, files=2)) for name, rows in tables.items()}
    desk.tree = {"output": {"path": str(desk.out)}}
    desk.change("recommendations", path=paths["lists"], columns={"score": "points"})
    for name in ("truth", "train", "items", "users"):
        desk.change(name, path=paths[name])
    desk.change("evaluate", metrics=["map", "novelty", "ild(distance=jaccard)", "catalog_coverage"], k=[2, 5])
    desk.change("evaluate", segments=["country", "known"], interval="bootstrap", resamples=30)
    desk.tree["stages"] = [
        {"name": "candidates", "model": "knn", "k": 5},
        {"name": "final", "model": "als", "k": 3},
    ]


def broken_ranks(desk: Desk) -> None:
    """Ranks that are floats, some not whole, for one model whose name no column has."""
    ranks = [1.0, 2.5, np.nan, 0.0, 1.0, 3.0]  # three kinds of faults
    lists = pd.DataFrame({"user": [1, 1, 1, 2, 2, 2], "item": range(6), "rank": ranks})
    desk.change("recommendations", path=str(desk.write("ranks", lists)), model="als")
    truth = pd.DataFrame({"user": [1, 2], "item": [0, 5], "relevance": np.array([4, 1 << 60])})
    desk.change("truth", path=str(desk.write("truth", truth)))


def float_ranks(desk: Desk) -> None:
    """Ranks that are floats, one of them null, and folds."""
    broken_ranks(desk)
    ranks = [1.0, 2.0, np.nan, 1.0, 2.0, 3.0]
    lists = pd.DataFrame({"user": [1, 1, 1, 2, 2, 2], "item": range(6), "rank": ranks, "fold": 1})
    desk.write("ranks", lists)
    desk.write("truth", pd.DataFrame({"user": [1, 2, 1], "item": pd.array([0, 5, None], "Int64"), "fold": 1}))


def by_request(desk: Desk) -> None:
    """Lists by request, one row without a request."""
    requests = ["a", "a", None, "b", "b", "c"]
    lists = pd.DataFrame({"user": [1, 1, 1, 1, 1, 2], "request": requests, "item": range(6), "score": 0.5})
    desk.change("recommendations", path=str(desk.write("requests", lists)), model="als")
    truth = pd.DataFrame({"user": [1, 1, 2], "request": ["a", "b", "c"], "item": [0, 4, 6]})
    desk.change("truth", path=str(desk.write("truth", truth)))


def plain(desk: Desk) -> None:
    """Truth as a file of integers, beside lists of scores."""
    truth = pa.table({"user": [1, 2, 9], "item": [101, 7, 109], "relevance": [1, 3, 2]})
    pq.write_table(truth, desk.home / "truth.parquet")
    desk.change("truth", path=str(desk.home / "truth.parquet"))


def gated(desk: Desk) -> None:
    """Two models, compared and gated by segment of users and of items."""
    odd_inputs(desk)
    desk.change("evaluate", item_segments=["groups", "popularity"])
    desk.tree["compare"] = {"baseline": {"model": "als"}, "tests": ["t", "wilcoxon"]}
    desk.change("compare", metrics=["map"], segments=["country", "item:groups"])
    desk.change("compare", slices={"of": ["country", "item:popularity"], "min_users": 2})
    gate = {"metric": "map", "k": 5, "max_drop": 1.0, "min_users": 1, "mode": "observed"}
    desk.tree["gates"] = [gate, *(gate | {"segment": name} for name in ("country", "item:popularity"))]


def clicks(desk: Desk) -> None:
    """Predictions of two models by user, with rows that cannot be used, compared and gated."""
    draw = np.random.default_rng(6)
    rows = pd.DataFrame({"model": ["a"] * 50 + ["b"] * 50, "user": [*range(10)] * 10, "label": [0, 1] * 50})
    rows = rows.assign(score=draw.integers(0, 9, 100) / 9, item="i", weight=2.0)
    rows.loc[[3, 53], "score"] = np.nan
    rows.loc[[7, 57], "label"] = 4
    desk.tree = {"output": {"path": str(desk.out)}, "compare": {"baseline": {"model": "a"}}}
    desk.change("predictions", path=str(desk.write("clicks", rows, files=2)), task="binary", curves=True)
    desk.change("predictions", intervals="user", max_quarantined=0.5, metrics=["auc", "log_loss", "gauc"])
    desk.change("predictions", choose={"recall": [0.5]})
    desk.tree["gates"] = [{"metric": "log_loss", "max_drop": 9.0, "min_users": 1, "mode": "observed"}]


def log_alone(desk: Desk) -> None:
    """A log with rows that cannot be used, and columns of its own, some with the time of day."""
    rows = pd.concat([LOG, LOG.iloc[:3].assign(user=None), LOG.iloc[:2].assign(when=None)], ignore_index=True)
    rows = rows.astype({"user": "Int64", "when": "Int64"})
    rows["at"] = pd.to_datetime(rows["when"].astype(float) + 0.5, unit="s", utc=True).astype(
        "datetime64[us, UTC]"
    )
    rows["shop"] = 'b"'
    desk.write("log", rows, files=2)
    desk.tree.pop("recommendations")


@pytest.mark.parametrize("change", [plain, float_ranks, by_request, gated, clicks, log_alone])
def test_engines_publish_the_same(desk: Desk, tmp_path: Path, change: Callable[[Desk], None]) -> None:
    change(desk)
    of_sections = {"predictions": "predictions", "recommendations": "evaluate", "interactions": "split"}
    verb = next(verb for section, verb in of_sections.items() if section in desk.tree)
    found, told = [], []
    for engine in ENGINES:
        other = desk.twin(tmp_path / engine)
        other.home.mkdir()
        answer = other.done(verb, "--engine", engine)
        told.append({*re.findall("engine: (local|spark)", answer.out)})
        bits = bits_of(other.out)
        run = next(iter(bits)).split()[0]
        tables = {name.removeprefix(run): value for name, value in bits.items()}
        commits = commits_of(other.out, other.home)
        found.append((run, tables, columns_of(other.out), commits))
    assert told == [{"local"}, {"spark"}]
    assert found[0] == found[1]


@pytest.mark.parametrize("splitter", [ENGINES[0], pytest.param(ENGINES[1], marks=pytest.mark.slow)])
def test_engines_read_the_same_subsets(desk: Desk, tmp_path: Path, splitter: str) -> None:
    desk.change("train", subset="global_train")
    desk.change("evaluate", segments=["known"])
    desk.done("split", "--run-id", "a", "--engine", splitter)
    found = []
    for engine in ENGINES:
        other = desk.twin(tmp_path / engine)
        shutil.copytree(desk.out, other.out)
        assert f"engine: {engine}" in other.done("evaluate", "--run-id", "a", "--engine", engine).out
        found.append(bits_of(other.out))
    assert found[0] == found[1]


def test_the_same_run_is_done_by_either_engine(desk: Desk) -> None:
    plain(desk)
    desk.done("evaluate", "--engine", "local")
    before = desk.files()
    answer = desk.done("evaluate", "--engine", "spark")
    assert "already published" in answer.out
    assert desk.files() == before


def lose_a_folder(desk: Desk) -> None:
    plain(desk)
    desk.change("recommendations", path=str(desk.home / "lost"))


def lose_a_column(desk: Desk) -> None:
    plain(desk)
    desk.change("truth", columns={"item": "article"})


def allow_no_row(desk: Desk) -> None:
    odd_inputs(desk)
    desk.change("recommendations", max_quarantined=0.001)


@pytest.mark.parametrize("change", [lose_a_folder, lose_a_column, broken_ranks, allow_no_row])
def test_errors_are_the_same(desk: Desk, change: Callable[[Desk], None]) -> None:
    change(desk)
    local, on_spark = (desk.refused("evaluate", "--engine", engine) for engine in ENGINES)
    assert local[:2] == on_spark[:2]
    rows = re.compile(r"such as .*?; fix")  # rows come in any order
    assert rows.sub("", local[2]) == rows.sub("", on_spark[2])
    assert len(rows.findall(local[2])) == len(rows.findall(on_spark[2]))


@pytest.mark.parametrize(
    ("section", "keys", "reason"),
    [
        ("truth", {"format": "json"}, "truth is JSON"),
        ("truth", {"format": "csv", "options": {"nullValue": "-"}}, "truth is CSV with other options"),
        ("truth", {"options": {"mergeSchema": True}}, "truth has the option mergeSchema"),
        (
            "truth",
            {"where": [{"column": "item", "op": ">", "value": "1"}]},
            "column item is compared with '1'",
        ),
        ("spark", {"master": "yarn"}, "spark.master is yarn"),
        ("spark", {"conf": {"spark.sql.files.ignoreCorruptFiles": True}}, "spark.conf has spark.sql.files"),
    ],
)
def test_what_only_spark_takes_is_refused_by_name(
    desk: Desk, section: str, keys: dict[str, object], reason: str
) -> None:
    plain(desk)
    desk.change(section, **keys)
    code, error, line = desk.refused("evaluate", "--engine", "local")
    assert (code, error) == (2, "NEEDS_SPARK")
    assert reason in line


def test_auto_says_why_it_takes_spark(desk: Desk) -> None:
    plain(desk)
    desk.change("truth", options={"mergeSchema": True})
    assert "engine: spark (truth has the option mergeSchema)" in desk.done("evaluate", "--engine", "auto").out


def test_the_config_chooses_and_the_option_overrides(desk: Desk) -> None:
    plain(desk)
    desk.tree["engine"] = "local"
    assert "engine: local (files, " in desk.done("evaluate", "--run-id", "a").out
    assert "engine: spark (as asked)" in desk.done("evaluate", "--run-id", "b", "--engine", "spark").out
    desk.tree["engine"] = "duckdb"
    assert desk.refused("evaluate")[:2] == (2, "INVALID_CONFIG")


def without_pyspark(*commands: list[str]) -> list[str]:
    """What each command prints; all succeed, one after the other, in a process that loads no pyspark."""
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(commands)], capture_output=True, text=True, check=False
    )
    *told, rest = process.stdout.split("0 without pyspark\n")
    assert (rest, process.stderr, len(told)) == ("", "", len(commands)), process.stdout
    return told


def test_programs_of_plain_files_load_no_pyspark(tmp_path: Path) -> None:
    """One process does all; it stops being without pyspark at the command that loads it."""
    desk = Desk(tmp_path)
    desk.tree["engine"] = "auto"
    split, evaluated = without_pyspark(*([verb, "--config", desk.config()] for verb in ("split", "evaluate")))
    assert "engine: local (files, 40 rows)" in split
    assert "leaked rows: 0" in split
    assert "engine: local (files, 22 rows)" in evaluated  # 18 of lists, 4 of global_test
    assert {path.name for path in next((desk.out / "splits").iterdir()).iterdir()} >= {"subset=global_test"}
    gated(desk)
    desk.tree["engine"] = "auto"
    verbs = (["validate"], ["evaluate", "--run-id", "a"], ["status"], ["report", "--run-id", "a"])
    validated, evaluated, status, report = without_pyspark(
        *([*verb, "--config", desk.config()] for verb in verbs)
    )
    assert "recommendations" in validated
    assert "engine: local (files, " in evaluated
    assert "gates of run" in evaluated
    assert "evaluate" in status
    assert "a.html" in report


def test_a_first_csv_comes_to_a_report_without_pyspark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_EVAL_ENGINE", "auto")
    monkeypatch.chdir(tmp_path)
    rows = [
        f"{user},{item},{3.5 + user % 2},{964982703 + 10 * item + user}"
        for user in range(9)
        for item in range(9)
    ]
    ratings = "\n".join(["userId,movieId,rating,timestamp", *rows])
    Path("ratings.csv").write_text(f"{ratings}\n", encoding="utf-8")
    lists = ["model,user,item,rank"]
    lists += [f"{model},{user},{8 - rank},{rank}" for model in "ab" for user in range(9) for rank in (1, 2)]
    Path("lists.csv").write_text("\n".join(lists) + "\n", encoding="utf-8")
    config = ["--config", "first.yaml"]
    run = [*config, "--run-id", "first", "--set", "output.path=out"]
    lists_of_models = ["--set", "recommendations={path: lists.csv, format: csv, options: {header: true}}"]
    _, validated, split, evaluated, compared, page = without_pyspark(
        ["init", "--interactions", "ratings.csv", *config],
        ["validate", *config],
        ["split", *run],
        ["evaluate", *run, *lists_of_models],
        ["compare", *run, *lists_of_models, "--set", "compare={baseline: {model: a}}"],
        ["report", "--path", "out", "--run-id", "first"],
    )
    assert "inputs checked: interactions" in validated
    assert "engine: local (files, 81 rows)" in split
    assert "metrics of run first" in evaluated
    assert "comparisons of run first" in compared
    assert Path(page.strip()).read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_validate_finds_the_same(desk: Desk) -> None:
    plain(desk)
    desk.tree.pop("interactions")
    desk.tree["engine"] = "local"
    valid = desk.done("validate")
    desk.write("truth", pd.DataFrame({"user": ["1"], "item": [1]}))
    desk.change("truth", path=str(desk.home / "truth"))
    lost = desk.refused("validate")
    desk.tree["engine"] = "spark"
    assert desk.refused("validate") == lost
    plain(desk)
    assert [desk.done("validate").out.splitlines()[-1]] == valid.out.splitlines()[-1:]
    assert lost[:2] == (3, "ID_TYPE_MISMATCH")
