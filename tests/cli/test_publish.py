"""Whole or not at all: what is published, what repeating and replacing touch, what a failure leaves."""

import errno
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import spark_eval.publishing.local
from spark_eval.errors import BusyError, ConfigError, SetupError, SparkEvalError
from spark_eval.publishing.attempt import Attempt
from spark_eval.publishing.local import LocalStore
from spark_eval.publishing.verify import Expected
from spark_eval.runs import run
from spark_eval.schema import Table

pytestmark = pytest.mark.usefixtures("engine_of_users")

if TYPE_CHECKING:
    from tests.cli.conftest import Desk


@contextmanager
def staged(root: Path, tables: Mapping[Table, int], run_id: str = "a") -> Iterator[Attempt]:
    """An attempt that has written these tables, each with so many rows."""
    with Attempt(LocalStore(root), run_id, "evaluate") as attempt:
        for table, n_rows in tables.items():
            Path(attempt.staged(table)).mkdir(parents=True)
            rows = pa.table({"row": list(range(n_rows))})
            pq.write_table(rows, Path(attempt.staged(table)) / "part-0.parquet")
        yield attempt


def publish(root: Path, tables: Mapping[Table, int], fingerprint: str = "f", run_id: str = "a") -> None:
    """All of it."""
    with staged(root, tables, run_id) as attempt:
        assert not attempt.is_published(fingerprint, tables, replace=True)
        attempt.publish(tables, {"fingerprint": fingerprint})


def test_published_tables_are_recorded_and_nothing_is_left(tmp_path: Path) -> None:
    publish(tmp_path, {Table.METRICS: 3, Table.ACCOUNTING: 3})
    job = json.loads((tmp_path / "_commits" / "a.json").read_text())["jobs"]["evaluate"]
    assert job["fingerprint"] == "f"
    written = {"files": 1, "rows": 3, "columns": {"row": "integer"}}
    assert job["tables"] == {"metrics": written, "accounting": written}
    assert pq.read_table(tmp_path / "metrics").num_rows == 3
    assert (tmp_path / "accounting" / "run_id=a" / "evaluate.parquet").is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_commits", "accounting", "metrics"]
    manifest = json.loads((tmp_path / "metrics" / "run_id=a" / "_manifest.json").read_text())
    assert manifest["files"] == {"part-0.parquet": 3}


def test_all_that_is_published_has_the_permissions_of_this_process(desk: "Desk") -> None:
    desk.change("truth", path=str(desk.home / "log"), columns={"relevance": "stars"})
    umask = os.umask(0o077)
    try:
        desk.done("split", "--run-id", "a", "--set", "split.seen=drop")  # by Spark
        desk.done("evaluate", "--run-id", "a")  # by Spark and by workers
    finally:
        os.umask(umask)
    modes = {(path.is_dir(), path.stat().st_mode & 0o777) for path in desk.out.rglob("*")}
    assert modes == {(True, 0o700), (False, 0o600)}


def test_the_same_content_is_published_already_and_another_needs_replace(tmp_path: Path) -> None:
    publish(tmp_path, {Table.METRICS: 1})
    with Attempt(LocalStore(tmp_path), "a", "evaluate") as again:
        assert again.is_published("f", [Table.METRICS], replace=False)
        assert again.is_published("f", [Table.METRICS], replace=True)
        assert not again.is_published("g", [Table.METRICS], replace=True)
        with pytest.raises(ConfigError, match=r"RUN_EXISTS.*of other content"):
            again.is_published("g", [Table.METRICS], replace=False)
        # A table that somebody has removed is made again.
        (tmp_path / "metrics" / "run_id=a").rename(tmp_path / "gone")
        assert not again.is_published("f", [Table.METRICS], replace=False)
    with Attempt(LocalStore(tmp_path), "a", "split") as other:
        assert not other.is_published("g", [Table.SPLITS], replace=False)


def test_a_table_of_unknown_origin_is_replaced_only_where_asked_for(tmp_path: Path) -> None:
    (tmp_path / "metrics" / "run_id=a").mkdir(parents=True)
    with staged(tmp_path, {Table.METRICS: 1}) as attempt:
        with pytest.raises(ConfigError, match=r"RUN_EXISTS.*of unknown origin \(metrics\)"):
            attempt.is_published("f", [Table.METRICS], replace=False)
        assert not attempt.is_published("f", [Table.METRICS], replace=True)
        attempt.publish({Table.METRICS: 1}, {"fingerprint": "f"})
    assert pq.read_table(tmp_path / "metrics").num_rows == 1


def test_two_attempts_at_one_run_do_not_go_on_at_once(tmp_path: Path) -> None:
    with Attempt(LocalStore(tmp_path), "a", "evaluate"):
        with (
            pytest.raises(BusyError, match="RUN_BUSY") as raised,
            Attempt(LocalStore(tmp_path), "a", "evaluate"),
        ):
            pass
        assert raised.value.exit_code == 4
        with Attempt(LocalStore(tmp_path), "a", "split"), Attempt(LocalStore(tmp_path), "b", "evaluate"):
            pass
    assert list(tmp_path.iterdir()) == []
    with Attempt(LocalStore(tmp_path / "new"), "a", "split"):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("table", [Table.METRICS, Table.ACCOUNTING])
def test_what_is_not_what_was_counted_is_not_published(tmp_path: Path, table: Table) -> None:
    with (
        pytest.raises(SparkEvalError, match="STAGED_OTHERWISE"),
        staged(tmp_path, {table: 2}) as attempt,
    ):
        attempt.publish({table: 3}, {"fingerprint": "f"})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("row", [-1.0, 1.5])
def test_values_out_of_bounds_are_not_published(tmp_path: Path, row: float) -> None:
    with staged(tmp_path, {Table.PER_USER: 1}) as attempt:
        values = pa.table({"ap_at_1": [0.0, row, None], "undefined": [None, None, None]})
        pq.write_table(values, Path(attempt.staged(Table.PER_USER)) / "part-0.parquet")
        expected = Expected({"ap_at_1": (0, 1.0), "undefined": (0, 1.0)})
        with pytest.raises(SparkEvalError, match=r"STAGED_OTHERWISE.*ap_at_1 goes from .*0 to 1.0"):
            attempt.publish({Table.PER_USER: 3}, {"fingerprint": "f"}, expected)


def test_a_shared_table_is_one_file(tmp_path: Path) -> None:
    with staged(tmp_path, {Table.ACCOUNTING: 2}) as attempt:
        pq.write_table(pa.table({"row": [1]}), Path(attempt.staged(Table.ACCOUNTING)) / "part-1.parquet")
        with pytest.raises(SparkEvalError, match="STAGED_OTHERWISE"):
            attempt.publish({Table.ACCOUNTING: 3}, {"fingerprint": "f"})


def test_replaced_content_takes_its_quarantine_along(tmp_path: Path) -> None:
    publish(tmp_path, {Table.ACCOUNTING: 1, Table.QUARANTINE: 1})
    publish(tmp_path, {Table.ACCOUNTING: 1}, "g")
    assert list((tmp_path / "quarantine").rglob("*.parquet")) == []


def test_nothing_is_replaced_where_that_takes_more_than_one_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(tmp_path, {Table.METRICS: 1})

    def refuse(*_: Path) -> None:
        raise OSError(errno.EINVAL, "invalid argument")

    monkeypatch.setattr(spark_eval.publishing.local, "swap", refuse)
    with pytest.raises(SetupError, match="CANNOT_SWAP"):
        publish(tmp_path, {Table.METRICS: 2}, "g")
    assert pq.read_table(tmp_path / "metrics").num_rows == 1
    publish(tmp_path, {Table.METRICS: 2}, "g", run_id="b")


def test_a_full_disk_is_not_a_file_system_that_cannot_swap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(tmp_path, {Table.METRICS: 1})

    def refuse(*_: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(spark_eval.publishing.local, "swap", refuse)
    with pytest.raises(OSError, match="No space left"):
        publish(tmp_path, {Table.METRICS: 2}, "g")


def test_readers_see_published_runs_only(tmp_path: Path, spark: SparkSession) -> None:
    publish(tmp_path, {Table.METRICS: 2})
    with staged(tmp_path, {Table.METRICS: 40}, run_id="b") as attempt:
        assert spark.read.parquet(str(tmp_path / "metrics")).count() == 2
        [unfinished] = LocalStore(tmp_path).unfinished()
        assert unfinished.folder == attempt.staging.folder
        assert LocalStore(tmp_path).about(unfinished)["is_alive"]


def test_the_commit_record(published: "Desk") -> None:
    record = json.loads((published.out / "_commits" / "a.json").read_text())
    assert record["run_id"] == "a"
    split, evaluate = record["jobs"]["split"], record["jobs"]["evaluate"]
    assert split["tables"]["splits"]["rows"] == 40
    assert split["timeline"]["global_cut"] == 10 * 86_400 * 1_000_000
    assert split["config"]["split"]["global_cut"] == "1970-01-11 00:00:00+00:00"
    assert split["config"]["split"]["boundary"] == "exclusive"
    assert evaluate["tables"]["per_user"]["rows"] == 12
    columns = {"source": "text", "code": "text", "row": "text"}
    assert evaluate["tables"]["quarantine"] == {"files": 1, "rows": 1, "columns": columns}
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
    monkeypatch.setattr(run, "stage_quarantine", fail)
    code, name, line = desk.refused(verb)
    assert (code, name) == (1, "FILE_SYSTEM")
    assert "no space left" in line
    assert not desk.out.exists()
