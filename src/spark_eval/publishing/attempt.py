"""Publish whole tables with one protocol: an attempt stages and checks them, then makes them visible.

An attempt writes below ``<root>/_staging/<attempt>/``, where readers never look. Its complete tables are
listed in an *intent*. From then on the tables appear at ``<root>/<table>/run_id=<id>``, and the commit record
is written last. The next attempt carries out the intents of dead attempts and removes their other files.

Stores differ in four steps: detect a dead attempt, check tables, move tables to their final paths, and write
a record. ``local`` is a folder of this machine, ``remote`` a Hadoop store, ``catalog`` a schema of tables.
"""

import uuid
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any, Self, TypeVar

from spark_eval.errors import ConfigError, DataError, EnvironmentFault, SparkEvalError
from spark_eval.names import check_run_id
from spark_eval.publishing.catalog import CatalogStore
from spark_eval.publishing.commits import SHARED, Record, Staging, records_of, usual_place
from spark_eval.publishing.local import LocalStore
from spark_eval.publishing.published import damage_of
from spark_eval.publishing.remote import HadoopStore
from spark_eval.publishing.verify import Expected
from spark_eval.runtime import events
from spark_eval.runtime.signals import defer_signals
from spark_eval.schema import Table

# A mapping of names is also one of the names that an enumeration spells.
Name = TypeVar("Name", bound=str)
# All classes have the same methods.
Store = LocalStore | HadoopStore | CatalogStore


class Attempt:
    """One attempt at one verb of one run: a context manager.

    Raises BusyError RUN_BUSY if another attempt is at work. ``recovered`` has the names of the dead
    attempts that were cleaned up.
    """

    def __init__(self, store: Store, run_id: str, verb: str) -> None:
        self.store = store
        name = f"{check_run_id(run_id)}-{verb}-{uuid.uuid4().hex}"
        self.staging = Staging(f"{store.home()}/{name}", run_id, verb)
        self.records: dict[str, Record] = {}
        self.recovered: list[str] = []
        self.claim = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as claim:
            claim.enter_context(self.store.claimed(self.staging))
            self.recovered = self.recover()
            self.records = records_of(self.store.files, self.staging.run_id)
            self.claim = claim.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.claim.close()

    @property
    def record(self) -> Record | None:
        """Published record of this verb; None if there is none."""
        return self.records.get(self.staging.verb)

    @property
    def number(self) -> int:
        """Number of the commit that this attempt makes, if commits are numbered."""
        return 1 if self.record is None else self.record.number + 1

    def staged(self, table: str) -> str:
        """Return the path to write a table of this attempt to."""
        folder = f"{self.staging.folder}/{table}"
        path = f"{folder}/run_id={self.staging.run_id}" if self.store.manifest else folder
        return self.store.files.place(path, self.number) if isinstance(self.store, CatalogStore) else path

    def goal(self, table: str) -> str:
        """Return the path that this attempt publishes a table at."""
        if self.store.manifest:
            return self.staged(table)
        return usual_place(self.store.files.root, self.staging.run_id, self.staging.verb, table)

    def path_of(self, table: str) -> str:
        """Return the path to read a table from once it is published."""
        return self.goal(table) if self.record is None else self.record.path_of(table)

    def recover(self) -> list[str]:
        """Carry out the intents of dead attempts and remove their other files; return their names."""
        ended = []
        for other in self.store.unfinished():
            with self.store.dead(other) as is_dead:
                if not is_dead:
                    continue
                try:
                    self.store.carry_out(other)
                except (OSError, EnvironmentFault, DataError):
                    # An obstacle to other work must not stop this one; ``status`` still shows it.
                    if other.work == self.staging.work:
                        raise
                    continue
                self.store.files.remove(other.folder)
                ended.append(other.name)
        return ended

    def is_published(self, fingerprint: str, tables: Iterable[str], replace: bool) -> bool:
        """Return True if exactly this content is published and undamaged.

        Raises ConfigError RUN_EXISTS if other content is published, unless ``replace`` allows
        replacing it (only that of the same verb), and SetupError CANNOT_SWAP if
        that would take more than one step.
        """
        is_there, staging = self.store.files.is_there, self.staging
        job = self.record.job if self.record is not None else None
        is_same = job is not None and job["fingerprint"] == fingerprint
        if self.record is not None and is_same and damage_of(self.store.files, self.record) is None:
            return True
        existing = [table for table in tables if not self.store.manifest and is_there(self.goal(table))]
        if not is_same:
            for verb in self.records.keys() - {staging.verb}:
                others = set(tables) & set(self.records[verb].job["tables"]) - set(SHARED)
                if others:
                    message = f"run {staging.run_id!r} has {', '.join(sorted(others))} of its verb {verb}"
                    raise ConfigError("RUN_EXISTS", f"{message}; use another --run-id")
            if (job is not None or existing) and not replace:
                what = "other content" if job is not None else f"unknown origin ({', '.join(existing)})"
                message = f"{staging.work} is there already, of {what}; use --replace or another --run-id"
                raise ConfigError("RUN_EXISTS", message)
        if existing:
            self.store.check_swap(staging)
        return False

    def publish(
        self, tables: Mapping[Name, int], record: Mapping[str, Any], expected: Expected | None = None
    ) -> None:
        """Move every table to its final path, then write the commit record.

        ``tables`` maps each table to its number of rows; ``expected`` describes ``per_user``.
        Raises SparkEvalError STAGED_OTHERWISE if the staged tables differ, and BusyError RUN_BUSY if
        another attempt was faster.
        """
        written, moves = {}, []
        for table, n_rows in tables.items():
            facts = expected if table == Table.PER_USER else None
            files, n_found, columns = self.store.seal(self.staged(table), facts)
            if n_found != n_rows or (table in SHARED and len(files) != 1):
                message = f"{table}: {n_rows} rows were to be published, "
                message += f"found are {n_found} in {len(files)} files; try again"
                raise SparkEvalError("STAGED_OTHERWISE", message)
            written[table] = {"files": len(files), "rows": n_rows, "columns": columns}
            moves.append((files[0] if table in SHARED else self.staged(table), self.goal(table)))
        job = {**record, "tables": written, "published_at": datetime.now(UTC).isoformat(timespec="seconds")}
        number = self.number
        with defer_signals():
            root, run_id, verb = self.store.files.root, self.staging.run_id, self.staging.verb
            committed = self.store.commit(self.staging, job, moves, number)
            self.records[verb] = Record(root, run_id, verb, committed, number)
            events.settle()
