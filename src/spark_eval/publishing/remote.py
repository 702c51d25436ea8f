"""Publish whole tables on a store that Spark reaches through Hadoop, where no lock is the kernel's.

Nothing is ever overwritten: the commit records of a verb are numbered, ``_commits/<run>/<verb>.<n>.json``,
and the newest counts. Of several attempts that one has won which gave the next number to its record, or to
the intent that becomes it.

By *renames* (HDFS), tables appear at ``<root>/<table>/run_id=<id>``, as in ``publishing.local``. Whoever
starts next carries out what a dead attempt intended, and does no harm if that attempt lives. By *manifest*
(object stores), tables stay where they were written, ``<root>/_runs/<attempt>/<table>/run_id=<id>``, and the
record is the only switch: ``spark_eval.read_published`` follows it.
"""

import json
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Self

from pyspark.sql import functions as F

from spark_eval.errors import BusyError, ConfigError, EnvironmentFault, SparkEvalError
from spark_eval.names import check_run_id, literal, quoted
from spark_eval.publishing.commits import SHARED, check_verbs
from spark_eval.publishing.local import ATTEMPT, STAGING
from spark_eval.publishing.verify import Expected, check_bounds, sum_of_keys
from spark_eval.runtime import events
from spark_eval.runtime.hadoop_files import HadoopFiles
from spark_eval.runtime.signals import held
from spark_eval.schema import Table

RUNS: Final = "_runs"
# Whose rename of a folder is one step.
RENAMES_WHOLE: Final = ("hdfs", "viewfs")
RECORD: Final = re.compile(r"(?P<verb>[a-z]+)\.(?P<number>[0-9]+)\.json")
INTENT: Final = re.compile(r".+\.[a-z]+\.[0-9]+\.json")
# Nobody can tell a slow attempt from a dead one here: what has not been written to for so long is dead.
MOST_HOURS: Final = 24
NO_JOB: Final = {"attempt": None, "published_at": "1970-01-01T00:00:00+00:00"}


class RemoteAttempt:
    """One try at one verb of one run; others may try the same, and one wins."""

    def __init__(self, files: HadoopFiles, run_id: str, verb: str, *, manifest: bool) -> None:
        self.files = files
        self.run_id = check_run_id(run_id)
        self.verb = verb
        self.manifest = manifest
        self.name = f"{run_id}-{verb}-{uuid.uuid4().hex}"
        self.folder = f"{files.root}/{RUNS if manifest else STAGING}/{self.name}"
        self.newest: Record | None = None
        self.has_won = False
        self.recovered: list[str] = []

    def __enter__(self) -> Self:
        self.recovered = recover(self.files, self.run_id)
        self.newest = newest_record(self.files, self.run_id, self.verb)
        return self

    def __exit__(self, *_: object) -> None:
        if not self.has_won:
            self.files.remove(self.folder)

    def staged(self, table: Table) -> str:
        """Where to write a table of this attempt."""
        return f"{self.folder}/{table}" + (f"/run_id={self.run_id}" if self.manifest else "")

    def place(self, table: Table) -> str:
        """Where a table is read once it is published."""
        return (self.newest and self.newest.place(table)) or self.place_to_be(table)

    def place_to_be(self, table: Table) -> str:
        """Where this attempt publishes a table."""
        if self.manifest:
            return self.staged(table)
        folder = f"{self.files.root}/{table}/run_id={self.run_id}"
        return f"{folder}/{self.verb}.parquet" if table in SHARED else folder

    def is_published(self, fingerprint: str, tables: Iterable[Table], replace: bool) -> bool:
        """Whether this very content is published already.

        Raises ConfigError RUN_EXISTS where another content is, unless it may be replaced, and
        EnvironmentFault CANNOT_SWAP where that would take more than one step.
        """
        job = None if self.newest is None else self.newest.job
        if job is not None and job["fingerprint"] == fingerprint:
            return all(self.files.is_there(table["path"]) for table in job["tables"].values())
        check_verbs(self.run_id, self.verb, tables, jobs_of(self.files, self.run_id))
        there = [] if self.manifest else [t for t in tables if self.files.is_there(self.place_to_be(t))]
        if job is None and not there:
            return False
        if not replace:
            what = "other content" if job is not None else f"unknown origin ({', '.join(there)})"
            message = f"{self.verb} of run {self.run_id!r} is there already, of {what}"
            raise ConfigError("RUN_EXISTS", f"{message}; use --replace or another --run-id")
        if not self.manifest:
            message = f"{self.files.root}: this store cannot swap two folders in one step; "
            message += "publish under another --run-id, or choose output.manifest"
            raise EnvironmentFault("CANNOT_SWAP", message)
        return False

    def publish(
        self, tables: Mapping[Table, int], record: Mapping[str, Any], expected: Expected | None = None
    ) -> None:
        """Give the record the next number; by renames, first as an intent, which is carried out.

        ``tables`` have so many rows, and ``per_user`` is as ``expected``.
        Raises SparkEvalError STAGED_OTHERWISE if what was written is otherwise, and BusyError RUN_BUSY where
        another attempt was faster.
        """
        moves = []
        written = {}
        for table, n_rows in tables.items():
            parts = self.checked(table, n_rows, expected if table is Table.PER_USER else None)
            goal = self.place_to_be(table)
            written[table] = {"files": len(parts), "rows": n_rows, "path": goal}
            moves.append((parts[0] if table in SHARED else self.staged(table), goal))
        number = 1 if self.newest is None else self.newest.number + 1
        name = f"{self.verb}.{number}.json"
        job = {
            **record,
            "run_id": self.run_id,
            "attempt": self.name,
            "tables": written,
            "moves": [] if self.manifest else moves,
            "published_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        text = json.dumps(job, indent=2, sort_keys=True) + "\n"
        goal = record_path(self.files, self.run_id, name) if self.manifest else self.intent(name)
        with held():
            if self.files.write_new(goal, text, f"{self.folder}/_{name}") and not self.manifest:
                carry_out(self.files, goal)
            self.newest = newest_record(self.files, self.run_id, self.verb)
            self.has_won = self.newest is not None and self.newest.job["attempt"] == self.name
            if self.has_won:
                events.settle()
        if not self.has_won:
            message = (
                f"another attempt at {self.verb} of run {self.run_id!r} was faster; see what it published"
            )
            raise BusyError("RUN_BUSY", message)

    def intent(self, name: str) -> str:
        """Under which name this attempt writes down what it is about to do."""
        return f"{self.files.root}/{STAGING}/{self.run_id}.{name}"

    def checked(self, table: Table, n_rows: int, expected: Expected | None) -> list[str]:
        """The files of a written table, which has so many rows, as ``expected``."""
        expected = expected or Expected()
        folder = self.staged(table)
        parts = [path for path, *_ in self.files.files_below(folder) if path.endswith(".parquet")]
        found = 0
        if parts:
            most = expected.most
            facts = [F.count("*"), F.lit(None) if expected.keys is None else sum_of_keys()]
            ends = [end(quoted(name)) for name in most for end in (F.min, F.max)]
            rows = self.files.spark.read.parquet(literal(folder))
            found, keys, *values = rows.agg(*facts, *ends).collect()[0]
            for name, low, high in zip(most, values[::2], values[1::2], strict=True):
                check_bounds(name, low, high, most[name])
        if found != n_rows or (table in SHARED and len(parts) != 1):
            message = f"{table}: {n_rows} rows were to be published, "
            message += f"found are {found} in {len(parts)} files; try again"
            raise SparkEvalError("STAGED_OTHERWISE", message)
        if expected.keys is not None:
            expected.check_keys(int(keys or 0))
        return parts


@dataclass(frozen=True)
class Record:
    """What a verb of a run has published."""

    number: int
    job: dict[str, Any]

    def place(self, table: Table) -> str | None:
        """Where a table of it is."""
        found = self.job["tables"].get(table)
        return None if found is None else str(found["path"])


def record_path(files: HadoopFiles, run_id: str, name: str) -> str:
    """Where a commit record lies."""
    return f"{files.root}/_commits/{run_id}/{name}"


def newest_record(files: HadoopFiles, run_id: str, verb: str) -> Record | None:
    """The record that counts; None if nothing is published."""
    found = [RECORD.fullmatch(name) for name in files.names(f"{files.root}/_commits/{run_id}")]
    numbers = [int(match["number"]) for match in found if match and match["verb"] == verb]
    if not numbers:
        return None
    text = files.read(record_path(files, run_id, f"{verb}.{max(numbers)}.json"))
    return Record(max(numbers), json.loads(text or ""))


def jobs_of(files: HadoopFiles, run_id: str) -> dict[str, dict[str, Any]]:
    """The newest record of each verb of a run."""
    names = files.names(f"{files.root}/_commits/{run_id}")
    verbs = sorted({found["verb"] for name in names if (found := RECORD.fullmatch(name))})
    records = {verb: newest_record(files, run_id, verb) for verb in verbs}
    return {verb: record.job for verb, record in records.items() if record is not None}


def published_jobs(files: HadoopFiles) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Run, verb and newest record of everything that is published."""
    for run_id in files.names(f"{files.root}/_commits"):
        for verb, job in jobs_of(files, run_id).items():
            yield run_id, verb, job


def carry_out(files: HadoopFiles, intent: str) -> None:
    """Do what was intended, unless another attempt has published meanwhile; others may be doing the same."""
    text = files.read(intent)
    if text is None:
        return
    job = json.loads(text)
    record = record_path(files, job["run_id"], intent.rpartition("/")[2].removeprefix(f"{job['run_id']}."))
    if files.is_there(record):
        files.remove(intent)
        return
    for source, goal in job["moves"]:
        if not files.rename(source, goal) and (files.is_there(source) or not files.is_there(goal)):
            raise EnvironmentFault("FILE_SYSTEM", f"{source} cannot be renamed to {goal}")
    files.rename(intent, record)
    files.remove(f"{files.root}/{STAGING}/{job['attempt']}")


def recover(files: HadoopFiles, run_id: str) -> list[str]:
    """Carry out what was intended, remove attempts that are dead by now; their names.

    Of tables that are published by manifest, only those of this run are looked at.
    """
    ended = []
    for name in files.names(f"{files.root}/{STAGING}"):
        if INTENT.fullmatch(name):
            carry_out(files, f"{files.root}/{STAGING}/{name}")
            ended.append(name)
    for folder, hours in unpublished(files, run_id):
        if hours > MOST_HOURS:
            files.remove(folder)
            ended.append(folder.rpartition("/")[2])
    return ended


def unpublished(files: HadoopFiles, run_id: str | None = None) -> Iterator[tuple[str, float]]:
    """Folders of attempts that no newest record names, and for how many hours they have been out of use."""
    for place in (STAGING, RUNS):
        for name in files.names(f"{files.root}/{place}"):
            attempt = ATTEMPT.fullmatch(name)
            if attempt and (place == STAGING or run_id in (None, attempt["run_id"])):
                record = newest_record(files, attempt["run_id"], attempt["verb"])
                job: dict[str, Any] = record.job if record else NO_JOB
                folder = f"{files.root}/{place}/{name}"
                written = max((moment / 1000 for *_, moment in files.files_below(folder)), default=0)
                # Who reads a table that was replaced has begun before.
                used = max(written, datetime.fromisoformat(job["published_at"]).timestamp())
                if job["attempt"] != name:
                    yield folder, (time.time() - used) / 3600
