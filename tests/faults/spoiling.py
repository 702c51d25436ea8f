"""Small sound inputs for all verbs, and what can be done to them: one thing at a time."""

import io
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
import yaml

from spark_eval.cli.commands import main

DAY = 86_400
START = 1_704_067_200  # 2024-01-01
# Four users meet another item on each of ten days.
LOG = pa.Table.from_pylist(
    [
        {"user": user, "item": 10 * day + user, "timestamp": START + day * DAY, "relevance": 1.0}
        for user in range(1, 5)
        for day in range(10)
    ]
)
# Two lists of model a, two of b; the first item of each is relevant.
LISTS = pa.Table.from_pylist(
    [
        {"model": model, "user": user, "item": 100 * rank + user, "score": 1.0 / rank}
        for model in "ab"
        for user in (1, 2)
        for rank in (1, 2)
    ]
)
RANKED = LISTS.drop_columns("score").append_column("rank", pa.array([1, 2] * 4))
TRUTH = pa.table({"user": [1, 2, 3], "item": [101, 102, 103], "relevance": [2.0, 1.0, 1.0]})
TRAIN = pa.table({"user": [1, 1, 2], "item": [101, 7, 102]})
USERS = pa.table({"user": [1, 2, 3], "country": ["NL", "BE", "NL"]})


class Inputs:
    """Tables in memory, files once they are written, and the config."""

    def __init__(self, home: Path) -> None:
        self.home, self.out = home, home / "out"
        self.frames = {"interactions": LOG, "truth": TRUTH, "recommendations": LISTS}
        self.tree: dict[str, Any] = {
            "output": {"path": str(self.out)},
            "interactions": {"timestamp_unit": "s"},
            "split": {"local_cut": {"instant": "2024-01-06"}, "global_cut": {"instant": "2024-01-09"}},
            "recommendations": {},
            "truth": {},
            "evaluate": {"k": [1, 5], "metrics": ["mrr", "recall"]},
        }

    def path(self, table: str) -> Path:
        """The folder of a table."""
        return self.home / table

    def spoil(self, *spoilers: "Spoiler") -> None:
        """Do these things, then write the tables that nothing has written, and note their places."""
        then(*spoilers)(self)
        for table, frame in self.frames.items():
            folder = self.path(table)
            if not folder.exists():
                folder.mkdir()
                pq.write_table(frame, folder / "0.parquet")
            section = self.tree.setdefault(table, {})
            if "table" not in section:
                section.setdefault("path", str(folder))

    def config(self) -> str:
        """The config as a file."""
        file = self.home / "config.yaml"
        if not file.exists():
            file.write_text(yaml.safe_dump(self.tree), encoding="utf-8")
        return str(file)


@dataclass(frozen=True)
class Answer:
    """What a call of the program left: exit code and stderr."""

    code: int
    err: str


Spoiler = Callable[[Inputs], None]


def call(*arguments: str) -> Answer:
    """The program in this process."""
    err = io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(err), pytest.raises(SystemExit) as left:
        main(arguments)
    assert isinstance(left.value.code, int)
    return Answer(left.value.code, err.getvalue())


def then(*spoilers: Spoiler) -> Spoiler:
    """All of these, one after the other."""

    def spoil(inputs: Inputs) -> None:
        for spoiler in spoilers:
            spoiler(inputs)

    return spoil


def column(table: str, **values: Any) -> Spoiler:
    """Columns with other values, one for all rows, or made of those that were there; or new columns."""

    def spoil(inputs: Inputs) -> None:
        rows = inputs.frames[table]
        for name, value in values.items():
            new = value(rows[name]) if callable(value) else value
            if not isinstance(new, list | pa.Array | pa.ChunkedArray):
                new = [new] * len(rows)
            new = pa.array(new) if isinstance(new, list) else new
            known = rows.column_names
            if name in known:
                rows = rows.set_column(known.index(name), name, new)
            else:
                rows = rows.append_column(name, new)
        inputs.frames[table] = rows

    return spoil


def row(table: str, n: int = 1, **values: Any) -> Spoiler:
    """As many rows more, like the first but for these values."""

    def spoil(inputs: Inputs) -> None:
        rows = inputs.frames[table]
        more = [{**rows.slice(0, 1).to_pylist()[0], **values}] * n
        inputs.frames[table] = pa.concat_tables([rows, pa.Table.from_pylist(more, schema=rows.schema)])

    return spoil


def without(table: str, *columns: str) -> Spoiler:
    """A table that lacks columns."""

    def spoil(inputs: Inputs) -> None:
        inputs.frames[table] = inputs.frames[table].drop_columns(list(columns))

    return spoil


def given(table: str, frame: pa.Table) -> Spoiler:
    """A whole table."""

    def spoil(inputs: Inputs) -> None:
        inputs.frames[table] = frame

    return spoil


def keys(section: str, **values: Any) -> Spoiler:
    """Keys of a section of the config."""

    def spoil(inputs: Inputs) -> None:
        inputs.tree[section] = {**inputs.tree.get(section, {}), **values}

    return spoil


def in_this_process(inputs: Inputs) -> None:
    """Let the program choose the engine: this process, for what it takes."""
    inputs.tree["engine"] = "auto"


def config(text: str) -> Spoiler:
    """A config as it is written."""

    def spoil(inputs: Inputs) -> None:
        (inputs.home / "config.yaml").write_text(text, encoding="utf-8")

    return spoil


def files(table: str, write: Callable[[Path], object], **section: Any) -> Spoiler:
    """Files that are written beside the table's own, which lies there as 0.parquet, or over it."""

    def spoil(inputs: Inputs) -> None:
        folder = inputs.path(table)
        if not folder.exists():
            folder.mkdir()
            pq.write_table(inputs.frames[table], folder / "0.parquet")
        write(folder)
        keys(table, **section)(inputs)

    return spoil


def text(table: str, kind: str, *contents: str, **options: Any) -> Spoiler:
    """A table as files of text."""

    def spoil(inputs: Inputs) -> None:
        folder = inputs.path(table)
        folder.mkdir()
        for number, content in enumerate(contents):
            (folder / f"{number}.{kind}").write_text(content, encoding="utf-8")
        options_of = {"header": True, **options} if kind == "csv" else options
        keys(table, format=kind, options=options_of)(inputs)

    return spoil


def through_spark(*tables: str) -> Spoiler:
    """Read the Parquet of these tables through Spark: the workers read no table with an option of Spark's."""

    def spoil(inputs: Inputs) -> None:
        for table in tables:
            if {"format", "table"}.isdisjoint(inputs.tree.get(table, {})):
                given = inputs.tree.get(table, {}).get("options", {})
                keys(table, options={**given, "datetimeRebaseModeInRead": "CORRECTED"})(inputs)

    return spoil


def orc(table: str, *frames: pa.Table) -> Spoiler:
    """A table as ORC."""

    def spoil(inputs: Inputs) -> None:
        folder = inputs.path(table)
        folder.mkdir()
        for number, frame in enumerate(frames):
            pyarrow.orc.write_table(frame, folder / f"{number}.orc")
        keys(table, format="orc")(inputs)

    return spoil
