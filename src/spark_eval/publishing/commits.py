"""What publication leaves below a root: folders of attempts, tables, and commit records of what is published.

In a folder of this machine a run has one record, ``_commits/<run>.json``, with all its verbs. On a store
without locks each verb has numbered ones, ``_commits/<run>/<verb>.<n>.json``, of which the last counts.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from spark_eval.runtime.hadoop_files import HadoopFiles
from spark_eval.runtime.local_files import LocalFiles
from spark_eval.schema import Table

# Tables that several verbs of one run add to: each verb publishes one file of its own.
SHARED: Final = (Table.ACCOUNTING, Table.QUARANTINE)
# Each table's place among what is staged, and where it is published.
Moves = Sequence[tuple[str, str]]
STAGING: Final = "_staging"
ATTEMPT: Final = re.compile(r"(?P<run_id>.+)-(?P<verb>[a-z]+)-(?P<id>[0-9a-f]{32})")
COMMITS: Final = "_commits"
# Holds a page for each run that has a report.
REPORT: Final = "report"
NUMBERED: Final = re.compile(r"(?P<verb>[a-z]+)\.(?P<number>[0-9]+)\.json")


# The files below a root, of this machine or of a store.
Files = LocalFiles | HadoopFiles


@dataclass(frozen=True)
class Staging:
    """The folder of one attempt at one verb of one run; its intent where that is a file elsewhere."""

    folder: str
    run_id: str
    verb: str
    intent: str | None = None

    @classmethod
    def at(cls, folder: str, intent: str | None = None) -> Self | None:
        """Return the attempt of a folder; None if the folder's name is not that of an attempt."""
        match = ATTEMPT.fullmatch(folder.rpartition("/")[2])
        return match and cls(folder, match["run_id"], match["verb"], intent)

    @property
    def name(self) -> str:
        """The attempt's name."""
        return self.folder.rpartition("/")[2]

    @property
    def work(self) -> str:
        """What it is an attempt at, in words."""
        return f"{self.verb} of run {self.run_id!r}"


def commit_path(root: str, run_id: str) -> str:
    """Return where the one record of a run is."""
    return f"{root}/{COMMITS}/{run_id}.json"


def usual_place(root: str, run_id: str, verb: str, table: str) -> str:
    """Return where a table is read: a folder, or the verb's file of a shared table."""
    folder = f"{root}/{table}/run_id={run_id}"
    return f"{folder}/{verb}.parquet" if table in SHARED else folder


@dataclass(frozen=True)
class Record:
    """What a verb of a run has published below a root. The number is 0 where records are not numbered."""

    root: str
    run_id: str
    verb: str
    job: Mapping[str, Any]
    number: int = 0

    def place(self, table: str) -> str:
        """Return where a table is read: at the usual place, unless the record names another."""
        named = self.job["tables"].get(table, {})
        return str(named.get("path") or usual_place(self.root, self.run_id, self.verb, table))


def records_of(files: Files, run_id: str) -> dict[str, Record]:
    """Return the newest record of each verb of a run."""
    text = files.read(commit_path(files.root, run_id))
    jobs_of_verbs = json.loads(text)["jobs"] if text else {}
    newest = {verb: Record(files.root, run_id, verb, job) for verb, job in jobs_of_verbs.items()}
    folder = f"{files.root}/{COMMITS}/{run_id}"
    names = [match for name in files.names(folder) if (match := NUMBERED.fullmatch(name))]
    for verb in {match["verb"] for match in names}:
        number = max(int(match["number"]) for match in names if match["verb"] == verb)
        job = json.loads(files.read(f"{folder}/{verb}.{number}.json") or "")
        jobs = [job, newest[verb].job] if verb in newest else [job]
        job = max(jobs, key=lambda job: str(job["published_at"]))
        newest[verb] = Record(files.root, run_id, verb, job, number)
    return newest


def published(files: Files) -> Iterator[Record]:
    """Yield the newest record of everything that is published, by run and verb."""
    names = files.names(f"{files.root}/{COMMITS}")
    # A run's id may itself end like the name of a record.
    for run_id in sorted({*names, *(name.removesuffix(".json") for name in names)}):
        for _, record in sorted(records_of(files, run_id).items()):
            yield record
