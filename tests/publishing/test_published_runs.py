"""Damaged published runs: every reader names the file and ends with exit 3, and other runs go on."""

import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml
from tests.cli.damaging import PAGES, RECORDS, TABLES, Damage, files, place_of
from tests.results.report import made_runs

from spark_eval.arrow.user_files import read_files
from spark_eval.cli.commands import main
from spark_eval.errors import DataError
from spark_eval.publishing.attempt import Attempt
from spark_eval.publishing.local import LocalStore
from spark_eval.publishing.published import read_published
from spark_eval.schema import Table
from spark_eval.verbs.measured import MeasuredRun
from spark_eval.verbs.report import facts_of, write_report

pytestmark = pytest.mark.usefixtures("engine_of_users")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEASURED: Final = {"metrics": ["ndcg", "recall"], "k": [10]}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs a and b of two models."""
    root = tmp_path_factory.mktemp("whole")
    for run_id in ("a", "b"):
        made_runs.lists(root, run_id, ("als", "popular"), n_users=20)
        record = root / "_commits" / f"{run_id}.json"
        content = json.loads(record.read_text())
        content["jobs"]["evaluate"]["config"]["evaluate"] = MEASURED
        record.write_text(json.dumps(content))
    return root


@pytest.fixture
def root(whole: Path, tmp_path: Path) -> Path:
    """A copy, of which run b may be damaged."""
    return Path(shutil.copytree(whole, tmp_path / "out"))


def open_run(root: Path) -> MeasuredRun:
    run = MeasuredRun.of(LocalStore(root), "b")
    assert run is not None
    return run


def read_users(root: Path) -> None:
    """As the workers of ``compare`` do."""
    folder = open_run(root).open(Table.PER_USER).folder
    assert folder is not None
    read_files(list(map(str, files(folder))), ["ndcg_at_10"])


# Each with the tables that it reads; status reads footers alone.
READERS: Final[Mapping[str, tuple[Callable[[Path], object], tuple[Table, ...]]]] = {
    "report": (
        lambda root: facts_of(LocalStore(root), "b"),
        (Table.METRICS, Table.PER_USER, Table.ACCOUNTING),
    ),
    "report beside it": (
        lambda root: facts_of(LocalStore(root), "a", "b"),
        (Table.METRICS, Table.PER_USER, Table.ACCOUNTING),
    ),
    "compare by means": (lambda root: open_run(root).means(), (Table.METRICS,)),
    "compare by users": (read_users, (Table.PER_USER,)),
}
TABLE_CASES: Final = [
    pytest.param(read, table, damage, id=f"{reader}, {table}: {kind}")
    for reader, (read, tables) in READERS.items()
    for table in tables
    for kind, damage in TABLES.items()
    if not (damage.needs_numbers and table is Table.ACCOUNTING)
]


@pytest.mark.parametrize(("read", "table", "damage"), TABLE_CASES)
def test_who_reads_a_damaged_table_names_it(
    root: Path, read: Callable[[Path], object], table: Table, damage: Damage
) -> None:
    damage.spoil(place_of(root, "b", table))
    with pytest.raises(DataError, match=rf"{table}.*run_id=b") as raised:
        read(root)
    assert (raised.value.code, raised.value.exit_code) == (damage.code, 3)
    assert damage.code == "INCOMPLETE_RUN" or ".parquet" in raised.value.message


@pytest.mark.parametrize(("read", "tables"), READERS.values(), ids=READERS)
def test_a_reader_demands_the_tables_that_it_reads_and_no_other(
    root: Path, read: Callable[[Path], object], tables: tuple[Table, ...]
) -> None:
    for table in {Table.METRICS, Table.PER_USER, Table.ACCOUNTING} - {*tables}:
        TABLES["a table removed"].spoil(place_of(root, "b", table))
    read(root)


@pytest.mark.parametrize(("read", "_"), READERS.values(), ids=READERS)
@pytest.mark.parametrize(("spoil", "code"), RECORDS.values(), ids=RECORDS)
def test_who_reads_a_damaged_record_names_it(
    root: Path, read: Callable[[Path], object], _: object, spoil: Callable[[Path], object], code: str
) -> None:
    spoil(root / "_commits" / "b.json")
    with pytest.raises(DataError, match=r"_commits/b\.json") as raised:
        read(root)
    assert (raised.value.code, raised.value.exit_code) == (code, 3)


@pytest.mark.parametrize("key", ["config", "versions", "summary", "models", "conventions", "truth_digest"])
@pytest.mark.parametrize(("read", "_"), READERS.values(), ids=READERS)
def test_a_record_without_a_fact_is_read_or_refused(
    root: Path, read: Callable[[Path], object], _: object, key: str
) -> None:
    record = root / "_commits" / "b.json"
    content = json.loads(record.read_text())
    del content["jobs"]["evaluate"][key]
    record.write_text(json.dumps(content))
    with suppress(DataError):
        read(root)  # any other error fails the test


def status(root: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    config = root.parent / "config.yaml"
    config.write_text(yaml.safe_dump({"output": {"path": str(root)}}))
    with pytest.raises(SystemExit) as left:
        main(["status", "--config", str(config), *options])
    found = capsys.readouterr()
    assert (left.value.code, found.err) == (0, "")
    return found.out


@pytest.mark.parametrize(("spoil", "code"), RECORDS.values(), ids=RECORDS)
def test_a_damaged_record_takes_no_other_run_down(
    root: Path, spoil: Callable[[Path], object], code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    record = root / "_commits" / "b.json"
    spoil(record)
    lines = status(root, capsys).splitlines()
    assert lines[0] == f"1 run published under {root}"
    assert any(line.split()[1:4:2] == ["a", "evaluate"] for line in lines if line.startswith("│"))
    assert any(line.startswith(f"  b is damaged: {str(record)!r}") for line in lines)
    listed = json.loads(status(root, capsys, "--json"))
    assert [run["run_id"] for run in listed["runs"]] == ["a"]
    assert [(run["run_id"], run["code"]) for run in listed["damaged"]] == [("b", code)]
    facts_of(LocalStore(root), "a")
    with pytest.raises(DataError, match=r"UNKNOWN_RUN.*did you mean 'a'"):
        facts_of(LocalStore(root), "aa")
    with Attempt(LocalStore(root), "c", "evaluate") as attempt:
        assert not attempt.is_published("f", [Table.METRICS], replace=False)
    with pytest.raises(DataError, match=code), Attempt(LocalStore(root), "b", "evaluate"):
        pass
    record.unlink()
    with Attempt(LocalStore(root), "b", "evaluate") as attempt:  # as the message says
        assert not attempt.is_published("f", [Table.METRICS], replace=True)


@pytest.mark.parametrize("kind", sorted(TABLES.keys() - {*PAGES}))
def test_status_names_damaged_tables(root: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "not whole" not in status(root, capsys)
    TABLES[kind].spoil(place_of(root, "b", Table.PER_USER))
    lines = status(root, capsys).splitlines()
    [damage] = [line for line in lines if line.startswith("  b evaluate: ")]
    assert "run_id=b" in damage
    assert lines[0] == f"2 runs published under {root}"


@pytest.mark.parametrize("kind", sorted(TABLES.keys() - {*PAGES}))
def test_a_run_that_is_not_whole_is_made_again(root: Path, kind: str) -> None:
    with Attempt(LocalStore(root), "b", "evaluate") as attempt:
        assert attempt.is_published("f" * 64, [Table.METRICS], replace=False)
        TABLES[kind].spoil(place_of(root, "b", Table.METRICS))
        assert not attempt.is_published("f" * 64, [Table.METRICS], replace=False)


def test_a_report_needs_no_splits(root: Path) -> None:
    made_runs.publish(root, "b", "split", {Table.ACCOUNTING: []})
    record = root / "_commits" / "b.json"
    content = json.loads(record.read_text())
    content["jobs"]["split"]["tables"]["splits"] = {"files": 4, "rows": 100}
    record.write_text(json.dumps(content))
    page = write_report(LocalStore(root), "b")
    assert Path(page).is_file()


def test_a_damaged_intent_hinders_no_other_run(root: Path) -> None:
    left = root / "_staging" / f"b-evaluate-{'0' * 32}"
    left.mkdir(parents=True)
    (left / "intent.json").write_text('{"tables": ')
    with Attempt(LocalStore(root), "c", "evaluate"):
        pass
    with (
        pytest.raises(DataError, match=r"CORRUPT_FILE.*intent\.json"),
        Attempt(LocalStore(root), "b", "evaluate"),
    ):
        pass


@pytest.mark.parametrize("kind", TABLES)
def test_published_tables_are_read_whole_or_left_out(
    spark: "SparkSession", root: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    def read(run_ids: list[str] | None) -> Any:
        rows = read_published(spark, str(root), "per_user", run_ids)
        return sorted({row["run_id"] for row in rows.collect()})

    damage = TABLES[kind]
    damage.spoil(place_of(root, "b", Table.PER_USER))
    assert read(["a"]) == ["a"]
    if kind in PAGES:
        with pytest.raises(Exception, match=damage.code if kind == "a value NaN" else r"run_id=b"):
            read(["b"])
        return
    with pytest.raises(DataError, match=f"{damage.code}.*run_id=b"):
        read(["b"])
    with caplog.at_level("WARNING"):
        assert read(None) == ["a"]
    assert "run 'b' is left out: " in caplog.text


@pytest.mark.parametrize(("spoil", "code"), RECORDS.values(), ids=RECORDS)
def test_published_tables_are_read_beside_a_damaged_record(
    spark: "SparkSession", root: Path, spoil: Callable[[Path], object], code: str
) -> None:
    spoil(root / "_commits" / "b.json")
    rows = read_published(spark, str(root), "metrics").select("run_id").collect()
    assert len({row["run_id"] for row in rows}) == 1
    with pytest.raises(DataError, match=rf"{code}.*_commits/b\.json"):
        read_published(spark, str(root), "metrics", ["a", "b"])
