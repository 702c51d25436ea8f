"""Publish on a store that Spark reaches through Hadoop, without locks that end with their holder.

No file is ever overwritten: records of a verb are numbered, and the last one counts. If attempts race, the
first to create the next-numbered record (or the intent that becomes it) wins.

By *renames* (HDFS), tables appear at the same paths as in a local folder. An intent is
``<root>/_staging/<run>.<verb>.<n>.json``; carrying it out is harmless if its attempt is alive. By *manifest*
(object stores), tables stay in ``<root>/_runs/<attempt>/<table>/run_id=<id>``, and only the record makes them
visible: ``spark_eval.read_published`` follows it.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from spark_eval.errors import BusyError, DataError, EnvironmentFault, SetupError
from spark_eval.names import literal_path
from spark_eval.publishing.columns import kinds_in_spark
from spark_eval.publishing.commits import (
    STAGING,
    JobForm,
    Moves,
    Record,
    Sealed,
    Staging,
    parse_record,
    records_of,
    warn_of_damage,
)
from spark_eval.publishing.verify import Expected
from spark_eval.runtime.any_session import setting
from spark_eval.runtime.hadoop_files import HadoopFiles
from spark_eval.schema import COMMITS

RUNS: Final = "_runs"
# Schemes of stores that rename a folder atomically.
RENAMES_WHOLE: Final = ("hdfs", "viewfs")
INTENT_NAME: Final = re.compile(r".+\.[a-z]+\.[0-9]+\.json")
# Folder of a partition in a path.
PARTITION: Final = re.compile(r"/(\w+)=")
# Slow and dead attempts cannot be told apart here: one that has not written for this long is dead.
MOST_HOURS: Final = 24


class HadoopStore:
    """A store that Spark reaches; ``manifest`` is true if it does not rename a folder atomically."""

    is_local = False

    def __init__(self, files: HadoopFiles, *, manifest: bool) -> None:
        self.files = files
        self.manifest = manifest
        self.runs: set[str] = set()
        # Attempts that may have an intent or record.
        self.begun: set[str] = set()

    def home(self) -> str:
        """Return the folder of attempts."""
        return f"{self.files.root}/{RUNS if self.manifest else STAGING}"

    @contextmanager
    def claimed(self, staging: Staging) -> Iterator[None]:
        """Allow concurrent attempts, because only one wins; at the end remove the folder if not begun."""
        self.runs.add(staging.run_id)
        try:
            yield
        finally:
            if staging.name not in self.begun:
                self.files.remove(staging.folder)

    def unfinished(self) -> list[Staging]:
        """Return the attempts that no newest record names; below ``_runs``, only those at claimed runs.

        Attempts known only from a damaged record or intent are left out.
        """
        attempts = {}
        for home in (STAGING, RUNS):
            for name in self.files.names(f"{self.files.root}/{home}"):
                staging = Staging.at(f"{self.files.root}/{home}/{name}")
                if staging is not None and (home == STAGING or not self.runs or staging.run_id in self.runs):
                    with suppress(DataError):
                        record = self.record(staging)
                        if record is None or record.job.get("attempt") != name:
                            attempts[name] = staging
        for name in self.files.names(f"{self.files.root}/{STAGING}"):
            intent = f"{self.files.root}/{STAGING}/{name}"
            try:
                job = parse_record(self.files, intent, JobForm) if INTENT_NAME.fullmatch(name) else None
            except DataError as fault:
                warn_of_damage(name, fault)
                continue
            staging = job and Staging.at(f"{self.files.root}/{STAGING}/{job.get('attempt')}", intent)
            if staging is not None:
                attempts[staging.name] = staging
        return list(attempts.values())

    def record(self, staging: Staging) -> Record | None:
        """Return the newest record of an attempt's verb and run."""
        return records_of(self.files, staging.run_id).get(staging.verb)

    def hours_out_of_use(self, staging: Staging) -> float:
        """Return the hours since an attempt last wrote, or since another one was published instead."""
        record = self.record(staging)
        moments = [moment / 1000 for *_, moment in self.files.files_below(staging.folder)]
        if record is not None:  # readers of a replaced table started before
            moments.append(datetime.fromisoformat(record.job["published_at"]).timestamp())
        return (time.time() - max(moments, default=0)) / 3600

    @contextmanager
    def dead(self, staging: Staging) -> Iterator[bool]:
        """Yield True if an attempt has an intent, which anyone may carry out, or has long been out of use."""
        yield staging.intent is not None or self.hours_out_of_use(staging) > MOST_HOURS

    def about(self, staging: Staging) -> dict[str, Any]:
        """Return the hours that an attempt has been out of use; whether it is alive is unknown."""
        return {"attempt": staging.name, "hours_out_of_use": round(self.hours_out_of_use(staging), 1)}

    def check_swap(self, staging: Staging) -> None:
        """Raise SetupError CANNOT_SWAP: no store can swap folders atomically."""
        message = f"{self.files.root}: this store cannot swap two folders in one step; "
        message += f"publish run {staging.run_id!r} under another --run-id, or choose output.manifest"
        raise SetupError("CANNOT_SWAP", message)

    def seal(self, folder: str, expected: Expected | None) -> Sealed:
        """Check a table by reading all of its pages; return its description."""
        from spark_eval.tables.frames import INFERENCE
        from spark_eval.tables.plain_files import CHECKSUMS
        from spark_eval.tables.stored_files import AS_BYTES, READ

        files = [path for path, *_ in self.files.files_below(folder) if path.endswith(".parquet")]
        if not files:
            return Sealed([], 0, {})
        spark = self.files.spark
        with setting(spark, INFERENCE, "false"):
            rows = spark.read.options(**{CHECKSUMS: "true", READ: AS_BYTES}).parquet(literal_path(folder))
        n_rows = (expected or Expected()).check_rows(rows)
        partitions = PARTITION.findall(" ".join(files))
        return Sealed(files, n_rows, kinds_in_spark(rows.schema, partitions))

    def commit(
        self, staging: Staging, job: Mapping[str, Any], moves: Moves, number: int
    ) -> Mapping[str, Any]:
        """Write the record with its number; with renames, write it first as an intent and carry that out."""
        sizes = zip(job["tables"].items(), moves, strict=True)
        tables = {name: {**size, "path": path} for (name, size), (_, path) in sizes}
        of_attempt = {"run_id": staging.run_id, "attempt": staging.name, "tables": tables}
        job = {**job, **of_attempt, "moves": [] if self.manifest else moves}
        text = json.dumps(job, indent=2, sort_keys=True) + "\n"
        name = f"{staging.verb}.{number}.json"
        intent = f"{self.files.root}/{STAGING}/{staging.run_id}.{name}"
        goal = f"{self.files.root}/{COMMITS}/{staging.run_id}/{name}" if self.manifest else intent
        self.begun.add(staging.name)
        if self.files.write_new(goal, text, f"{staging.folder}/_{name}") and not self.manifest:
            self.carry_out(replace(staging, intent=intent))
        record = self.record(staging)
        if record is None or record.job.get("attempt") != staging.name:
            self.begun.remove(staging.name)
            message = f"another attempt at {staging.work} was faster; see what it published"
            raise BusyError("RUN_BUSY", message)
        return job

    def carry_out(self, staging: Staging) -> None:
        """Carry out an intent unless another attempt has published; other processes may do so, too."""
        intent = staging.intent
        job = None if intent is None else parse_record(self.files, intent, JobForm)
        if intent is None or job is None:
            return
        name = intent.rpartition("/")[2].removeprefix(f"{job['run_id']}.")
        record = f"{self.files.root}/{COMMITS}/{job['run_id']}/{name}"
        if self.files.is_there(record):
            self.files.remove(intent)
            return
        for source, goal in job["moves"]:
            is_moved = self.files.rename(source, goal)
            if not is_moved and (self.files.is_there(source) or not self.files.is_there(goal)):
                raise EnvironmentFault("FILE_SYSTEM", f"{source} cannot be renamed to {goal}")
        self.files.rename(intent, record)
        self.files.remove(staging.folder)
