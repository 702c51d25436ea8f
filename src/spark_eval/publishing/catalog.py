"""Publish in a schema of a catalog: rows first, then the commit that makes them count.

Each table takes the rows of an attempt in one commit; readers do not see them yet. The row of the verb and
run in ``commits`` is then replaced in one commit, and all tables of the run with it; among two attempts the
catalog refuses the second. Rows that no longer count are deleted after that.
"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

from spark_eval.errors import BusyError
from spark_eval.names import quote_column
from spark_eval.publishing.columns import kinds_in_spark
from spark_eval.publishing.commits import Moves, Record, Sealed, Staging, records_of
from spark_eval.publishing.verify import Expected
from spark_eval.runtime.spark_errors import is_of_spark
from spark_eval.tables.catalog_tables import RUNS, CatalogTables, Registered

# An attempt at a commit that is still free may be at work; one that began so long ago is dead.
MOST_HOURS: Final = 24


class CatalogStore:
    """Tables of a schema, Delta or Iceberg."""

    is_local = False
    manifest = True

    def __init__(self, files: CatalogTables) -> None:
        self.files = files
        # Attempts that may be committed.
        self.begun: set[str] = set()

    def home(self) -> str:
        """Return the path above the places of attempts."""
        return f"{self.files.root}/{RUNS}"

    @contextmanager
    def claimed(self, staging: Staging) -> Iterator[None]:
        """Allow concurrent attempts, because only one wins; at the end delete the rows of all others."""
        try:
            yield
        finally:
            if staging.name in self.files.registered and staging.name not in self.begun:
                self.files.remove(staging.folder)

    def of(self, one: Registered) -> Staging:
        """Return a registered attempt."""
        return Staging(f"{self.home()}/{one.attempt}", one.run_id, one.verb)

    def unfinished(self) -> list[Staging]:
        """Return the attempts that no commit names."""
        published = {row["attempt"] for row in self.files.commits()}
        return [self.of(one) for one in self.files.attempts() if one.attempt not in published]

    def hours_since_begin(self, staging: Staging) -> float:
        """Return the hours since an attempt wrote its first rows."""
        begun = [one.begun_at for one in self.files.attempts(staging.run_id) if one.attempt == staging.name]
        return (time.time() - max(begun, default=0)) / 3600

    @contextmanager
    def dead(self, staging: Staging) -> Iterator[bool]:
        """Yield True if an attempt can no longer be committed, or began long ago."""
        is_late = staging.name in {one.attempt for one in self.too_late(staging.run_id, staging.verb)}
        yield is_late or self.hours_since_begin(staging) > MOST_HOURS

    def too_late(self, run_id: str, verb: str) -> list[Registered]:
        """Return the attempts at a verb of a run whose commit, or a later one, another attempt has made."""
        newest = [row for row in self.files.commits(run_id) if row["verb"] == verb]
        return [
            one
            for one in self.files.attempts(run_id)
            for last in newest
            if one.verb == verb and one.number <= last["number"] and one.attempt != last["attempt"]
        ]

    def about(self, staging: Staging) -> dict[str, Any]:
        """Return the hours since an attempt began; whether it is alive is unknown."""
        return {"attempt": staging.name, "hours_out_of_use": round(self.hours_since_begin(staging), 1)}

    def check_swap(self, _staging: Staging) -> None:
        """Do nothing: a run is replaced in one commit."""

    def seal(self, place: str, expected: Expected | None) -> Sealed:
        """Check the rows of a place by reading them; return their description."""
        rows = self.files.rows(place).select(*map(quote_column, self.files.columns[place]))
        n_rows = (expected or Expected()).check_rows(rows)
        return Sealed([place], n_rows, kinds_in_spark(rows.schema))

    def commit(
        self, staging: Staging, job: Mapping[str, Any], moves: Moves, number: int
    ) -> Mapping[str, Any]:
        """Commit the record with its number, unless another attempt was faster; then delete what is replaced.

        Raises BusyError RUN_BUSY if another attempt was faster.
        """
        sizes = zip(job["tables"].items(), moves, strict=True)
        tables = {name: {**size, "path": str(path)} for (name, size), (_, path) in sizes}
        job = {**job, "run_id": staging.run_id, "attempt": staging.name, "tables": tables}
        self.begun.add(staging.name)
        run_id, verb = staging.run_id, staging.verb
        try:
            self.files.commit(run_id, verb, number, staging.name, json.dumps(job, sort_keys=True))
        except Exception as error:
            if not is_of_spark(error) or not self.is_committed(staging):
                raise
        if not self.is_committed(staging):
            self.begun.remove(staging.name)
            message = f"another attempt at {staging.work} was faster; see what it published"
            raise BusyError("RUN_BUSY", message)
        # The next attempt deletes what cannot be deleted now.
        with suppress(Exception):
            for other in self.too_late(run_id, verb):
                self.files.remove(self.of(other).folder)
        return job

    def is_committed(self, staging: Staging) -> bool:
        """Return True if an attempt is the published one."""
        record: Record | None = records_of(self.files, staging.run_id).get(staging.verb)
        return record is not None and record.job.get("attempt") == staging.name

    def carry_out(self, staging: Staging) -> None:
        """Do nothing: an attempt has no intent."""
