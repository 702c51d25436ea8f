"""The program on a log of a few rows, in this process: it finds the tests' session active, and uses it."""

import copy
import io
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from spark_eval.cli.commands import main
from spark_eval.publishing.commits import Record
from spark_eval.runs.job import Run
from spark_eval.runtime.local_files import LocalFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = 86_400
# Users 1 to 4 meet item 10 * day + user on each of days 1 to 10; the last day is global_test.
LOG = pd.DataFrame(
    [(user, 10 * day + user, day * DAY, float(user)) for user in range(1, 5) for day in range(1, 11)],
    columns=["user", "item", "when", "stars"],
)
# The item of the last day comes first, second, and first for users 1 and 2, who alone have a list.
# Those of a list together, or the workers would leave them to Spark.
LISTS = pd.DataFrame(
    [
        *(("best", user, 100 + user, 2.0) for user in range(1, 5)),
        *(("best", user, 7, 1.0) for user in range(1, 5)),
        *(("late", user, 100 + user, 1.0) for user in range(1, 5)),
        *(("late", user, 7, 2.0) for user in range(1, 5)),
        *(("half", user, 100 + user, 0.5) for user in range(1, 3)),
    ],
    columns=["model", "user", "item", "score"],
).sort_values(["model", "user"], ignore_index=True)


@dataclass(frozen=True)
class Answer:
    """What a call of the program left: exit code, stdout, stderr."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The named code of the one line on stderr; nothing else may stand there."""
        found = re.fullmatch(r"error\[([A-Z_]+)\] [^\n]+\n", self.err)
        assert found, self.err
        return found[1]


def or_none(text: "pd.Series[Any]") -> "pd.Series[Any]":
    """Return text with None where it is missing, which pandas 3 reads as NaN."""
    return pd.Series([None if pd.isna(one) else one for one in text], text.index, dtype=object)


class Desk:
    """A folder with a log, recommendations and a config that fits both."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.out = home / "out"
        self.write("log", LOG)
        self.write("lists", LISTS)
        self.tree: dict[str, Any] = {
            "output": {"path": str(self.out)},
            "interactions": {
                "path": str(home / "log"),
                "columns": {"timestamp": "when", "relevance": "stars"},
                "timestamp_unit": "s",
            },
            "split": {"local_cut": {"instant": "1970-01-10"}, "global_cut": {"instant": "1970-01-11"}},
            "recommendations": {"path": str(home / "lists")},
            "evaluate": {"k": [1, 5], "metrics": ["mrr", "recall"]},
        }

    def write(self, name: str, rows: pd.DataFrame, files: int = 1) -> Path:
        """Rows as a folder of Parquet files."""
        folder = self.home / name
        folder.mkdir(exist_ok=True)
        for number in range(files):
            rows.iloc[number::files].to_parquet(folder / f"{number}.parquet", index=False)
        return folder

    def change(self, section: str, **keys: Any) -> None:
        """Set keys of a section; None removes one."""
        self.tree[section] = {
            key: value for key, value in {**self.tree.get(section, {}), **keys}.items() if value is not None
        }

    def config(self, text: str | None = None) -> str:
        """The config as a file."""
        path = self.home / "config.yaml"
        path.write_text(yaml.safe_dump(self.tree) if text is None else text, encoding="utf-8")
        return str(path)

    def run(self, verb: str, *arguments: str) -> Answer:
        """A verb on this config."""
        return call(verb, "--config", self.config(), *arguments)

    def done(self, verb: str, *arguments: str) -> Answer:
        """A verb that must succeed, and must say nothing on stderr."""
        answer = self.run(verb, *arguments)
        assert (answer.code, answer.err) == (0, ""), answer.err
        return answer

    def refused(self, verb: str, *arguments: str) -> tuple[int, str, str]:
        """Exit code, named code and line of a verb that must fail and must publish nothing new."""
        before = self.files()
        answer = self.run(verb, *arguments)
        assert self.files() == before
        return answer.code, answer.error, answer.err

    def table(self, name: str) -> pd.DataFrame:
        """A published table of every run, as pandas reads it, where missing text is None in any release."""
        rows = pd.read_parquet(self.out / name)
        text = [name for name in rows if isinstance(rows[name].dtype, pd.StringDtype)]
        return rows.assign(**{str(name): or_none(rows[name]) for name in text})

    def metric(self, metric: str = "mrr", k: int = 5) -> dict[str, float]:
        """A metric's value of every model."""
        rows = self.table("metrics")
        rows = rows[(rows["metric"] == metric) & (rows["k"] == k)]
        return dict(zip(rows["model"].astype(str), rows["value"], strict=True))

    def files(self) -> dict[str, tuple[int, bytes]]:
        """Every file under the output root with its time and content."""
        found = sorted(path for path in self.out.rglob("*") if path.is_file())
        return {
            str(path.relative_to(self.out)): (path.stat().st_mtime_ns, path.read_bytes()) for path in found
        }

    def twin(self, home: Path) -> "Desk":
        """The same config over the same inputs with another output root."""
        other = copy.copy(self)
        other.home, other.out = home, home / "out"
        other.tree = copy.deepcopy(self.tree)
        other.change("output", path=str(other.out))
        return other


def published_run(verb: str, tables: Mapping[str, pa.Table], home: Path) -> Run:
    """A run that has published these tables, each in a file."""
    paths = {table: str(home / f"{table}.parquet") for table in tables}
    for table, rows in tables.items():
        pq.write_table(rows, paths[table])
    sizes = {table: {"files": 1, "rows": len(rows), "path": paths[table]} for table, rows in tables.items()}
    return Run("a", paths, True, LocalFiles(""), Record("", "a", verb, {"tables": sizes}))


def call(*arguments: str) -> Answer:
    """The program in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as left:
        main(arguments)
    assert isinstance(left.value.code, int)
    return Answer(left.value.code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="session")
def program(spark: "SparkSession") -> Callable[..., Answer]:
    """The program, with a session active."""
    assert spark.getActiveSession() is not None
    return call


@pytest.fixture(scope="session")
def new_desk(program: Callable[..., Answer]) -> type[Desk]:
    """To make a desk that several tests share."""
    assert program is call
    return Desk


@pytest.fixture
def desk(tmp_path: Path, program: Callable[..., Answer]) -> Desk:
    """A desk of one's own."""
    assert program is call
    return Desk(tmp_path)


@pytest.fixture(scope="session")
def split_once(tmp_path_factory: pytest.TempPathFactory, program: Callable[..., Answer]) -> Path:
    """The output of a split by the config of every desk, run a; only to be copied."""
    assert program is call
    shared = Desk(tmp_path_factory.mktemp("split"))
    shared.done("split", "--run-id", "a")
    return shared.out


@pytest.fixture
def split_desk(desk: Desk, split_once: Path) -> Desk:
    """A desk of one's own, on which the split of run a is done."""
    shutil.copytree(split_once, desk.out)
    return desk


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory, program: Callable[..., Answer]) -> Desk:
    """A desk on which runs a (split, evaluate) and b (evaluate, other metrics) are done; only to be read.

    One row of the log and one of the lists has no user, and one item is recommended twice.
    """
    assert program is call
    shared = Desk(tmp_path_factory.mktemp("published"))
    bad = pd.DataFrame({"user": [None], "item": [1], "when": [DAY], "stars": [1.0]})
    shared.write("log", pd.concat([LOG, bad]).astype({"user": "Int64"}))
    more = pd.DataFrame({"model": ["best", "best"], "user": [None, 1], "item": [1, 7], "score": [1.0, 0.5]})
    lists = pd.concat([LISTS, more]).astype({"user": "Int64"})
    shared.write("lists", lists.sort_values(["model", "user"], ignore_index=True))
    shared.done("split", "--run-id", "a")
    shared.done("evaluate", "--run-id", "a")
    shared.change("truth", path=str(shared.out / "splits" / "run_id=a"), subset="global_test")
    shared.done("evaluate", "--run-id", "b", "--set", "evaluate.k=1")
    return shared
