"""Publish whole tables: written aside by one attempt, then renamed to their places, each in one step.

``<root>/_staging/<attempt>/`` holds what is being written; readers never look there. What is complete there,
checked and on the disk becomes an *intent*: from then on the tables appear at ``<root>/<table>/run_id=<id>``,
one by one, whole, and last the commit record ``<root>/_commits/<id>.json``. Whoever starts next carries out
the intent of an attempt that died on the way, and removes what is left of those that died before it.
"""

import json
import re
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

import pyarrow.parquet as pq

from spark_eval.errors import BusyError, ConfigError, EnvironmentFault, SparkEvalError
from spark_eval.names import check_run_id
from spark_eval.publishing.commits import SHARED, check_verbs, commit_path, read_commit
from spark_eval.publishing.verify import Expected
from spark_eval.runtime import events
from spark_eval.runtime.local_files import (
    Lock,
    is_there,
    make_folder,
    share_below,
    swap,
    sync,
    sync_below,
    write_whole,
)
from spark_eval.runtime.signals import held
from spark_eval.schema import Table

STAGING: Final = "_staging"
ATTEMPT: Final = re.compile(r"(?P<run_id>.+)-(?P<verb>[a-z]+)-(?P<id>[0-9a-f]{32})")
INTENT: Final = "intent.json"
# The one file of a shared table.
WHOLE: Final = "whole.parquet"
# Hidden in every published folder: which attempt wrote it, and what is in there.
MANIFEST: Final = "_manifest.json"
# Somebody who only looks whether an attempt lives holds its lock for a moment.
SECONDS_TO_WAIT: Final = 1.0


@dataclass(frozen=True)
class Staging:
    """The folder of one attempt: at one verb of one run."""

    folder: Path
    run_id: str
    verb: str

    @classmethod
    def new(cls, root: Path, run_id: str, verb: str) -> Self:
        """One that nobody else has; it does not exist yet."""
        return cls(root / STAGING / f"{check_run_id(run_id)}-{verb}-{uuid.uuid4().hex}", run_id, verb)

    @property
    def root(self) -> Path:
        """Below which its tables are published."""
        return self.folder.parent.parent

    @property
    def intent(self) -> Path:
        """What it has begun to publish, while this file exists."""
        return self.folder / INTENT

    def lock(self) -> Lock:
        """What a live attempt at this verb and run holds."""
        return Lock(self.folder.parent / f"{self.run_id}-{self.verb}.lock")

    def is_alive(self) -> bool:
        """Whether its process runs."""
        lock = self.lock()
        is_dead = lock.acquire()
        lock.release()
        return not is_dead

    def place(self, table: Table) -> Path:
        """Where a table is read: a folder, or the verb's file of a shared table."""
        folder = self.root / table / f"run_id={self.run_id}"
        return folder / f"{self.verb}.parquet" if table in SHARED else folder

    def carry_out(self) -> None:
        """Do what was intended; each step is whole, and nothing is done twice, however often it is begun."""
        # Verbs of one run share the commit record.
        lock = Lock(self.folder.parent / f"{self.run_id}.publishing.lock")
        lock.acquire(wait=True)
        try:
            job = json.loads(self.intent.read_text())
            commit = read_commit(self.root, self.run_id)
            before = commit["jobs"].get(self.verb, {"tables": {}})
            for name in job["tables"]:
                self.move(Table(name))
            for name in before["tables"].keys() - job["tables"].keys():
                self.remove(Table(name))
            commit["jobs"][self.verb] = job
            path = commit_path(self.root, self.run_id)
            make_folder(path.parent)
            text = json.dumps(commit, indent=2, sort_keys=True) + "\n"
            write_whole(path, text, self.folder / "_commit.json")
            self.intent.unlink()
            shutil.rmtree(self.folder, ignore_errors=True)
        finally:
            lock.release()

    def move(self, table: Table) -> None:
        """A table to its place; what stood there is in the staging then."""
        staged, goal = self.folder / table, self.place(table)
        make_folder(goal.parent)
        if table in SHARED:
            if is_there(staged / WHOLE):
                (staged / WHOLE).replace(goal)
        elif not is_there(goal):
            staged.rename(goal)
        elif not self.wrote(goal):
            swap(staged, goal)
        sync(goal.parent)

    def wrote(self, folder: Path) -> bool:
        """Whether a published folder is of this attempt."""
        with suppress(FileNotFoundError):
            return bool(json.loads((folder / MANIFEST).read_text())["attempt"] == self.folder.name)
        return False

    def remove(self, table: Table) -> None:
        """Take away a table that the content before had, and this has not."""
        goal = self.place(table)
        if goal.is_dir():
            goal.rename(self.folder / f"_old-{table}")
        else:
            goal.unlink(missing_ok=True)


class Attempt:
    """One try at one verb of one run: a context, in which nobody else tries the same.

    Raises BusyError RUN_BUSY where somebody does. ``recovered`` names the dead attempts it has cleared away.
    """

    def __init__(self, root: Path, run_id: str, verb: str) -> None:
        self.staging = Staging.new(root, run_id, verb)
        self.place = self.staging.place
        self.lock = self.staging.lock()
        self.has_root = is_there(root)
        self.recovered: list[str] = []

    def __enter__(self) -> Self:
        latest = time.monotonic() + SECONDS_TO_WAIT
        while not self.lock.acquire():
            if time.monotonic() > latest:
                what = f"{self.staging.verb} of run {self.staging.run_id!r}"
                raise BusyError("RUN_BUSY", f"another attempt at {what} is at work; retry later")
            time.sleep(SECONDS_TO_WAIT / 20)
        try:
            self.recovered = recover(self.staging.root, self.lock)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if not is_there(self.staging.intent):  # what was begun is carried out by the next start
            shutil.rmtree(self.staging.folder, ignore_errors=True)
        self.lock.release()
        with suppress(OSError):
            self.staging.folder.parent.rmdir()
            if not self.has_root:
                self.staging.root.rmdir()  # nothing was published

    def staged(self, table: Table) -> str:
        """Where to write a table of this attempt."""
        return str(self.staging.folder / table)

    def is_published(self, fingerprint: str, tables: Iterable[Table], replace: bool) -> bool:
        """Whether this very content is published already, as these tables.

        Raises ConfigError RUN_EXISTS where another content is, unless it may be replaced; that of another
        verb may not.
        """
        run_id, verb = self.staging.run_id, self.staging.verb
        jobs = read_commit(self.staging.root, run_id)["jobs"]
        job = jobs.get(verb)
        if job is not None and job["fingerprint"] == fingerprint:
            return all(self.place(Table(name)).exists() for name in job["tables"])
        check_verbs(run_id, verb, tables, jobs)
        there = [table for table in tables if self.place(table).exists()]
        if (job is not None or there) and not replace:
            what = "other content" if job is not None else f"unknown origin ({', '.join(there)})"
            message = f"{verb} of run {run_id!r} is there already, of {what}"
            raise ConfigError("RUN_EXISTS", f"{message}; use --replace or another --run-id")
        return False

    def publish(
        self, tables: Mapping[Table, int], record: Mapping[str, Any], expected: Expected | None = None
    ) -> None:
        """Rename every table to its place, then write the commit record.

        ``tables`` have so many rows, and ``per_user`` is as ``expected``.
        Raises SparkEvalError STAGED_OTHERWISE if it is otherwise in the staging, EnvironmentFault CANNOT_SWAP
        if something is to be replaced where that takes more than one step.
        """
        written = {table: self.checked(table, n_rows) for table, n_rows in tables.items()}
        if expected is not None:
            expected.check_files(self.staging.folder / Table.PER_USER)
        if any(is_there(self.place(table)) for table in set(tables) - set(SHARED)):
            self.try_to_swap()
        share_below(self.staging.folder)
        sync_below(self.staging.folder)
        job = {**record, "tables": written, "published_at": datetime.now(UTC).isoformat(timespec="seconds")}
        intent = self.staging.intent
        with held():
            write_whole(intent, json.dumps(job, sort_keys=True), intent.with_name(f"_{INTENT}"))
            self.staging.carry_out()
            events.settle()

    def checked(self, table: Table, n_rows: int) -> dict[str, int]:
        """Files and rows of a staged table, from its footers; ready to be moved."""
        folder = self.staging.folder / table
        files = sorted(folder.rglob("*.parquet"))
        rows = {str(file.relative_to(folder)): pq.read_metadata(file).num_rows for file in files}
        found = {"files": len(files), "rows": sum(rows.values())}
        if found["rows"] != n_rows or (table in SHARED and len(files) != 1):
            message = f"{table}: {n_rows} rows were to be published, found are {found}; try again"
            raise SparkEvalError("STAGED_OTHERWISE", message)
        if table in SHARED:
            files[0].replace(folder / WHOLE)
            return found
        manifest = {"attempt": self.staging.folder.name, "files": rows}
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n")
        return found

    def try_to_swap(self) -> None:
        """Find out whether two folders can be swapped here, before anything depends on it."""
        one, other = (self.staging.folder / name for name in ("_one", "_other"))
        try:
            for folder in (one, other):
                folder.mkdir()
            swap(one, other)
        except (OSError, AttributeError) as error:
            message = f"{self.staging.root}: this file system cannot swap two folders in one step ({error}); "
            message += "publish under another --run-id"
            raise EnvironmentFault("CANNOT_SWAP", message) from error


def unfinished(root: Path) -> list[Staging]:
    """The attempts below a root that have not ended, or not well."""
    folders = sorted(path for path in (root / STAGING).glob("*") if path.is_dir())
    named = ((folder, ATTEMPT.fullmatch(folder.name)) for folder in folders)
    return [Staging(folder, found["run_id"], found["verb"]) for folder, found in named if found]


def recover(root: Path, held: Lock) -> list[str]:
    """Carry out what dead attempts intended, remove what else they left; their names.

    ``held`` is the lock that the caller has.
    """
    dead = []
    for staging in unfinished(root):
        with ours(staging.lock(), held) as is_dead:
            if is_dead and staging.folder.exists():
                try:
                    if is_there(staging.intent):
                        staging.carry_out()
                except OSError:
                    # What hinders another run is no reason not to begin this one; it stays in ``status``.
                    if staging.lock().path == held.path:
                        raise
                    continue
                shutil.rmtree(staging.folder, ignore_errors=True)
                dead.append(staging.folder.name)
    for path in (root / STAGING).glob("*.lock"):  # of attempts that died with nothing else left
        with ours(Lock(path), held):
            pass
    return dead


@contextmanager
def ours(lock: Lock, held: Lock) -> Iterator[bool]:
    """Whether a lock is the one we hold, or was free and is ours meanwhile."""
    if lock.path == held.path:
        yield True
        return
    try:
        yield lock.acquire()
    finally:
        lock.release()
