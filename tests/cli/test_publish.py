"""Whole or not at all: what is published, what repeating and replacing touch, what a failure leaves."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from spark_eval import runs
from spark_eval.errors import BusyError, ConfigError
from spark_eval.publish import Attempt, read_commit
from spark_eval.schema import Table

if TYPE_CHECKING:
    from tests.cli.conftest import Desk


def staged(root: Path, *tables: Table, run_id: str = "a", rows: int = 1) -> Attempt:
    """An attempt that has written these tables."""
    attempt = Attempt(root, run_id, "evaluate")
    for table in tables:
        Path(attempt.staged(table)).mkdir(parents=True)
        pq.write_table(pa.table({"row": list(range(rows))}), Path(attempt.staged(table)) / "part-0.parquet")
    return attempt


def test_published_tables_are_recorded_and_nothing_is_left(tmp_path: Path) -> None:
    attempt = staged(tmp_path, Table.METRICS, Table.ACCOUNTING, rows=3)
    attempt.publish([Table.METRICS, Table.ACCOUNTING], {"fingerprint": "f"})
    job = read_commit(tmp_path, "a")["jobs"]["evaluate"]
    assert job["fingerprint"] == "f"
    assert job["tables"] == {"metrics": {"files": 1, "rows": 3}, "accounting": {"files": 1, "rows": 3}}
    assert pq.read_table(tmp_path / "metrics").num_rows == 3
    assert (tmp_path / "accounting" / "run_id=a" / "evaluate.parquet").is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_commits", "accounting", "metrics"]


def test_the_same_content_is_published_already_and_another_needs_replace(tmp_path: Path) -> None:
    staged(tmp_path, Table.METRICS).publish([Table.METRICS], {"fingerprint": "f"})
    again = Attempt(tmp_path, "a", "evaluate")
    assert again.is_published("f", replace=False)
    assert again.is_published("f", replace=True)
    assert not again.is_published("g", replace=True)
    assert not Attempt(tmp_path, "a", "split").is_published("g", replace=False)
    with pytest.raises(ConfigError, match="RUN_EXISTS"):
        again.is_published("g", replace=False)


def test_a_table_that_appears_meanwhile_is_anothers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = staged(tmp_path, Table.METRICS)
    other = tmp_path / "metrics" / "run_id=a"
    other.mkdir(parents=True)
    (other / "theirs.parquet").touch()
    # The other attempt comes between the look at the place and the rename to it.
    monkeypatch.setattr(Path, "exists", lambda path: path != other and path.is_dir())
    with pytest.raises(BusyError, match="RUN_BUSY") as raised:
        attempt.publish([Table.METRICS], {"fingerprint": "f"})
    assert raised.value.exit_code == 4
    assert [path.name for path in other.iterdir()] == ["theirs.parquet"]


def test_replaced_content_takes_its_quarantine_along(tmp_path: Path) -> None:
    both = [Table.ACCOUNTING, Table.QUARANTINE]
    staged(tmp_path, *both).publish(both, {"fingerprint": "f"})
    staged(tmp_path, Table.ACCOUNTING).publish([Table.ACCOUNTING], {"fingerprint": "g"})
    assert list((tmp_path / "quarantine").rglob("*.parquet")) == []


def test_readers_see_published_runs_only(tmp_path: Path, spark: SparkSession) -> None:
    staged(tmp_path, Table.METRICS, rows=2).publish([Table.METRICS], {"fingerprint": "f"})
    staged(tmp_path, Table.METRICS, run_id="b", rows=40)
    assert spark.read.parquet(str(tmp_path / "metrics")).count() == 2
    assert [path.name[:11] for path in (tmp_path / "_staging").iterdir()] == ["b-evaluate-"]


def test_the_commit_record(published: "Desk") -> None:
    record = json.loads((published.out / "_commits" / "a.json").read_text())
    assert record["run_id"] == "a"
    split, evaluate = record["jobs"]["split"], record["jobs"]["evaluate"]
    assert split["tables"]["splits"]["rows"] == 40
    assert split["timeline"]["global_cut"] == 10 * 86_400 * 1_000_000
    assert split["config"]["split"]["global_cut"] == "1970-01-11 00:00:00+00:00"
    assert split["config"]["split"]["boundary"] == "exclusive"
    assert evaluate["tables"]["per_user"]["rows"] == 12
    assert evaluate["tables"]["quarantine"] == {"files": 1, "rows": 1}
    assert evaluate["models"] == ["best", "half", "late"]
    stamp = "default; no_recommendations=zero; no_truth=drop; no_hits=zero; relevance>0"
    assert evaluate["conventions"] == stamp
    assert evaluate["config"]["evaluate"]["checks"] == "hits"
    assert set(evaluate["versions"]) == {"pyspark", "pandas", "pyarrow", "numpy", "python", "spark_eval"}
    assert len(evaluate["fingerprint"]) == 64


def test_a_run_again_replaced_and_beside_others(desk: "Desk") -> None:
    desk.change("truth", path=str(desk.home / "log"), columns={"relevance": "stars"})
    desk.change("evaluate", k=[1], metrics=["mrr"])
    desk.done("evaluate", "--run-id", "a")
    desk.done("evaluate", "--run-id", "b")
    before = desk.files()
    assert "already published, nothing to do" in desk.done("evaluate", "--run-id", "a").out
    assert "already published" in desk.done("evaluate", "--run-id", "a", "--replace").out
    assert desk.files() == before

    code, name, line = desk.refused("evaluate", "--run-id", "a", "--set", "evaluate.k=2")
    assert (code, name) == (2, "RUN_EXISTS")
    assert "--replace" in line

    desk.done("evaluate", "--run-id", "a", "--set", "evaluate.k=2", "--replace")
    after = desk.files()
    others = {name for name in before if "run_id=a" not in name and name != "_commits/a.json"}
    assert {name: after[name] for name in others} == {name: before[name] for name in others}
    assert set(desk.table("metrics").query("run_id == 'a'")["k"]) == {2}
    assert not (desk.out / "_staging").exists()


@pytest.mark.parametrize("verb", ["split", "evaluate"])
def test_a_failed_write_publishes_nothing(desk: "Desk", monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    def fail(*_: object) -> None:
        raise OSError("no space left on device")

    desk.change("truth", path=str(desk.home / "log"))
    monkeypatch.setattr(runs, "write_accounting", fail)
    code, name, line = desk.refused(verb)
    assert (code, name) == (1, "FILE_SYSTEM")
    assert "no space left" in line
    assert list(desk.out.iterdir()) == []
