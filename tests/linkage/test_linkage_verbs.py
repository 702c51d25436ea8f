"""``spark-eval linkage`` and ``sample``: published numbers are those of Python, without a session."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.monitoring.test_window_verb import no_spark

from spark_eval import evaluate_linkage, sample_pairs
from spark_eval.cli.commands import main
from spark_eval.runs.run import run_verb
from spark_eval.runs.sections import parse_config
from spark_eval.verbs import VERBS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("engine_of_users")
PREDICTED = pa.table({"id": range(1, 9), "cluster": list("11232444")})
TRUE = pa.table({"record": range(1, 9), "cluster": list("11122334")})
CANDIDATES = pa.table(
    {
        "left": [1, 1, 3, 4, 6, 7, 2, 5],
        "b": [2, 3, 5, 5, 7, 8, 1, 8],
        "score": [0.9, 0.4, 0.8, 0.3, 0.7, 0.6, 0.9, 0.1],
    }
)
SAMPLE: Any = {"strata": [0.5], "per_stratum": 3, "seed": 3}
LABELS = {(1, 2): "match", (3, 5): "non_match", (6, 7): "match"}
Run = Callable[..., int]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name, table in (("predicted", PREDICTED), ("true", TRUE), ("candidates", CANDIDATES)):
        (tmp_path / name).mkdir()
        pq.write_table(table, tmp_path / name / "part-0.parquet")
    (tmp_path / "config.yaml").write_text(
        f"output: {{path: {tmp_path / 'out'}}}\n"
        f"predicted: {{path: {tmp_path / 'predicted'}, columns: {{record: id}}}}\n"
        f"true: {{path: {tmp_path / 'true'}}}\n"
        f"candidates: {{path: {tmp_path / 'candidates'}, columns: {{a: left}}}}\n"
        f"sample: {json.dumps(SAMPLE)}\n"
    )
    return tmp_path


@pytest.fixture
def run(home: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr("spark_eval.cli.runner.open_session", lambda *_: no_spark())

    def command(verb: str, *more: str) -> int:
        with pytest.raises(SystemExit) as end:
            main([verb, "--config", str(home / "config.yaml"), *more])
        return int(str(end.value.code))

    return command


def ours() -> tuple[pa.Table, pa.Table]:
    return PREDICTED.rename_columns(["record", "cluster"]), CANDIDATES.rename_columns(["a", "b", "score"])


def published(home: Path, table: str, run_id: str) -> pa.Table:
    return pq.read_table(home / "out" / table / f"run_id={run_id}", partitioning=None)


def test_links_are_published_as_python_measures_them(
    run: Run, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("validate", "--verb", "linkage") == 0
    assert "inputs checked: predicted, true, candidates" in capsys.readouterr().out
    assert run("linkage", "--run-id", "march") == 0
    out = capsys.readouterr().out
    assert "engine: local (files, 24 rows)" in out
    assert "run march published" in out
    predicted, candidates = ours()
    expected = evaluate_linkage(predicted, TRUE, candidates=candidates)
    assert published(home, "linkage", "march").equals(expected.to_arrow("linkage"))
    assert run("report", "--run-id", "march") == 0
    page = (home / "out" / "report" / "march.html").read_text(encoding="utf-8")
    assert "Other tables" in page
    assert "pairwise_precision" in page
    accounting = pq.read_table(home / "out" / "accounting" / "run_id=march" / "linkage.parquet")
    assert accounting.equals(expected.to_arrow("accounting"))
    assert run("linkage", "--run-id", "march") == 0
    assert "already published, nothing to do" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("missing", "shown"),
    [("singleton", "each is a cluster of its own there"), ("leave_out", "they are left out")],
)
def test_records_that_one_table_lacks_are_shown(
    run: Run, home: Path, capsys: pytest.CaptureFixture[str], missing: str, shown: str
) -> None:
    fewer = TRUE.slice(0, 6)
    pq.write_table(fewer, home / "true" / "part-0.parquet")
    assert run("linkage", "--run-id", missing, "--set", f"linkage.missing={missing}") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert f"predicted: 2 rows are of records that true lacks; {shown} (linkage.missing)" in out
    predicted, candidates = ours()
    expected = evaluate_linkage(predicted, fewer, candidates=candidates, missing=missing)
    assert published(home, "linkage", missing).equals(expected.to_arrow("linkage"))


def write_labels(home: Path, run_id: str) -> pa.Table:
    """Write the labels of the drawn pairs; those that LABELS lacks are no matches."""
    pairs = published(home, "sample", run_id).select(["a", "b"]).to_pylist()
    labels = [LABELS.get((pair["a"], pair["b"]), "non_match") for pair in pairs]
    table = pa.table(
        {
            "a": [pair["b"] for pair in pairs],
            "b": [pair["a"] for pair in pairs],
            "who": ["ann"] * len(pairs),
            "label": labels,
        }
    )
    pq.write_table(table, home / "labels.parquet")
    return table.rename_columns(["a", "b", "reviewer", "label"])


def test_labels_of_a_sample_come_back_as_estimates(
    run: Run, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    predicted, candidates = ours()
    drawn = sample_pairs(candidates, predicted, **SAMPLE)
    assert run("sample") == 0
    assert "not predicted, score below 0.5" in capsys.readouterr().out
    [run_id] = [one.name.removeprefix("run_id=") for one in (home / "out" / "sample").iterdir()]
    assert published(home, "sample", run_id).equals(drawn)
    reviews = write_labels(home, run_id)
    with (home / "config.yaml").open("a") as file:
        file.write(f"reviews: {{path: {home / 'labels.parquet'}, columns: {{reviewer: who}}}}\n")
    assert run("linkage", "--run-id", "other") == 3
    assert "error[UNKNOWN_RUN] no run 'other' is published" in capsys.readouterr().err
    for given in ((), ("--run-id", "named", "--set", f"reviews.run={run_id}")):
        assert run("linkage", *given) == 0
    expected = evaluate_linkage(predicted, TRUE, candidates=candidates, sample=drawn, reviews=reviews)
    assert expected.value("estimated_precision") is not None
    for folder in (home / "out" / "linkage").iterdir():
        assert pq.read_table(folder, partitioning=None).equals(expected.to_arrow("linkage"))
    capsys.readouterr()
    pq.write_table(pq.read_table(home / "labels.parquet").slice(2), home / "labels.parquet")
    assert run("linkage", "--run-id", "few", "--set", f"reviews.run={run_id}") == 3
    assert "error[TOO_FEW_REVIEWS]" in capsys.readouterr().err
    assert run("sample", "--run-id", run_id, "--set", "sample.seed=4", "--replace") == 0
    assert run("linkage", "--run-id", "named", "--set", f"reviews.run={run_id}") == 2
    assert "error[RUN_EXISTS]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verb", "settings", "code", "exit_code"),
    [
        ("linkage", ["predicted=null"], "MISSING_SECTION", 2),
        ("sample", ["predicted=null"], "MISSING_SECTION", 2),
        ("linkage", ["true=null"], "NOTHING_TO_COMPARE", 2),
        ("linkage", ["predicted.columns={user: id}"], "UNKNOWN_CONFIG_KEY", 2),
        ("linkage", ["predicted.columns={}"], "MISSING_COLUMN", 3),
        ("linkage", ["linkage.n_records=3"], "OUT_OF_RANGE", 2),
        ("sample", ["sample.strata=[2, 1]"], "OUT_OF_RANGE", 2),
        ("linkage", ["engine=local", "true.format=json"], "NEEDS_SPARK", 2),
    ],
)
def test_what_is_wrong_has_a_name(
    run: Run, capsys: pytest.CaptureFixture[str], verb: str, settings: list[str], code: str, exit_code: int
) -> None:
    assert run(verb, *(word for one in settings for word in ("--set", one))) == exit_code
    assert f"error[{code}]" in capsys.readouterr().err


def test_tables_that_only_spark_reads_give_the_same_numbers(spark: "SparkSession", home: Path) -> None:
    predicted, candidates = ours()
    pa.csv.write_csv(TRUE, home / "true.csv")
    options: Any = {"format": "csv", "options": {"header": True, "inferSchema": True}}
    above = {"column": "score", "op": ">", "value": 0.2}
    tree = {
        "output": {"path": str(home / "out")},
        "predicted": {"path": str(home / "predicted"), "columns": {"record": "id"}},
        "true": {"path": str(home / "true.csv"), **options},
        "candidates": {"path": str(home / "candidates"), "columns": {"a": "left"}, "where": [above]},
        "sample": SAMPLE,
    }
    config = parse_config(tree)
    run_verb(VERBS["linkage"], lambda: spark, config, "march", False)
    some = candidates.filter(pa.array([score > 0.2 for score in CANDIDATES["score"].to_pylist()]))
    expected = evaluate_linkage(predicted, TRUE, candidates=some)
    assert published(home, "linkage", "march").equals(expected.to_arrow("linkage"))
    run_verb(VERBS["sample"], lambda: spark, config, "march", False)
    drawn = published(home, "sample", "march")
    assert drawn.equals(sample_pairs(some, predicted, **SAMPLE))
    reviews = write_labels(home, "march")
    labels = {"path": str(home / "labels.parquet"), "columns": {"reviewer": "who"}, "run": "march"}
    run_verb(VERBS["linkage"], lambda: spark, parse_config({**tree, "reviews": labels}), "april", False)
    expected = evaluate_linkage(predicted, TRUE, candidates=some, sample=drawn, reviews=reviews)
    assert published(home, "linkage", "april").equals(expected.to_arrow("linkage"))
    accounting = pq.read_table(home / "out" / "accounting" / "run_id=april" / "linkage.parquet")
    assert accounting.equals(expected.to_arrow("accounting"))
