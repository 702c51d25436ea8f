"""Publish whole tables: written aside by one attempt, then renamed to their place in one step.

``<root>/_staging/<attempt>/`` holds what is being written; readers never look there. A finished table
becomes ``<root>/<table>/run_id=<id>`` by a rename, which is atomic; the commit record comes last.
"""

import json
import shutil
import uuid
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from spark_eval.errors import BusyError, ConfigError
from spark_eval.names import check_run_id
from spark_eval.schema import Table

# Tables that several verbs of one run add to: each verb publishes one file of its own.
SHARED: Final = (Table.ACCOUNTING, Table.QUARANTINE)


def commit_path(root: Path, run_id: str) -> Path:
    """Where a run's commit record lies."""
    return root / "_commits" / f"{run_id}.json"


def read_commit(root: Path, run_id: str) -> dict[str, Any]:
    """A run's commit record, empty if nothing is published."""
    path = commit_path(root, run_id)
    record: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"run_id": run_id, "jobs": {}}
    return record


class Attempt:
    """One try at one verb of one run."""

    def __init__(self, root: Path, run_id: str, verb: str) -> None:
        self.root = root
        self.run_id = check_run_id(run_id)
        self.verb = verb
        self.staging = root / "_staging" / f"{run_id}-{verb}-{uuid.uuid4().hex}"

    def staged(self, table: Table) -> str:
        """Where to write a table of this attempt."""
        return str(self.staging / table)

    def place(self, table: Table) -> Path:
        """Where a table of this run is read: a folder, or this verb's file of a shared table."""
        folder = self.root / table / f"run_id={self.run_id}"
        return folder / f"{self.verb}.parquet" if table in SHARED else folder

    def is_published(self, fingerprint: str, replace: bool) -> bool:
        """Whether this very content is published already.

        Raises ConfigError RUN_EXISTS where another content is, unless it may be replaced.
        """
        job = read_commit(self.root, self.run_id)["jobs"].get(self.verb)
        if job is None:
            return False
        if job["fingerprint"] == fingerprint and all(
            self.place(Table(name)).exists() for name in job["tables"]
        ):
            return True
        if not replace:
            message = (
                f"run {self.run_id!r} holds a {self.verb} of other content; use --replace or another --run-id"
            )
            raise ConfigError("RUN_EXISTS", message)
        return False

    def publish(self, tables: list[Table], record: Mapping[str, Any]) -> None:
        """Rename every table to its place, then write the commit record.

        Raises BusyError RUN_BUSY where another attempt has put a table there meanwhile.
        """
        written = {table: self.inventory(table) for table in tables}
        for table in tables:
            self.move(table)
        for table in set(SHARED) - set(tables):
            self.place(table).unlink(missing_ok=True)  # of the content that this one replaces
        job = {**record, "tables": written, "published_at": datetime.now(UTC).isoformat(timespec="seconds")}
        commit = read_commit(self.root, self.run_id)
        commit["jobs"][self.verb] = job
        path = commit_path(self.root, self.run_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.staging / "commit.json"
        draft.write_text(json.dumps(commit, indent=2, sort_keys=True) + "\n")
        draft.replace(path)
        self.discard()

    def inventory(self, table: Table) -> dict[str, int]:
        """Files and rows of a staged table, from the Parquet footers."""
        files = sorted((self.staging / table).rglob("*.parquet"))
        return {"files": len(files), "rows": sum(pq.read_metadata(file).num_rows for file in files)}

    def move(self, table: Table) -> None:
        """One table from the staging to its place; what stood there goes aside first."""
        place = self.place(table)
        place.parent.mkdir(parents=True, exist_ok=True)
        staged = self.staging / table
        if table in SHARED:
            [file] = staged.glob("*.parquet")
            file.replace(place)
            return
        if place.exists():
            place.rename(self.staging / f"old-{table}")
        try:
            staged.rename(place)
        except OSError as error:
            raise BusyError(
                "RUN_BUSY", f"another attempt is publishing run {self.run_id!r}: {error}"
            ) from error

    def discard(self) -> None:
        """Remove what is left of the staging."""
        shutil.rmtree(self.staging, ignore_errors=True)
        with suppress(OSError):
            self.staging.parent.rmdir()
