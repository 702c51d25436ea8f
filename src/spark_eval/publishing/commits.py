"""Files below an output root: folders of attempts, tables, and commit records of published tables.

In a local folder a run has one record, ``_commits/<run>.json``, with all its verbs. On a store without locks
each verb has numbered records, ``_commits/<run>/<verb>.<n>.json``; the last one counts. In a catalog, records
are rows of a table.
"""

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from spark_eval.errors import DataError
from spark_eval.runtime import events
from spark_eval.runtime.hadoop_files import HadoopFiles
from spark_eval.runtime.local_files import LocalFiles
from spark_eval.schema import COMMITS, Table
from spark_eval.tables.catalog_tables import COMMITS_TABLE, CatalogTables

if TYPE_CHECKING:
    from pyspark.sql import Row

# Tables that several verbs of a run write to: each verb publishes its own file.
SHARED: Final = (Table.ACCOUNTING, Table.QUARANTINE)
# Pairs of the path of a staged table and the path to publish it at.
Moves = Sequence[tuple[str, str]]
STAGING: Final = "_staging"
ATTEMPT: Final = re.compile(r"(?P<run_id>.+)-(?P<verb>[a-z]+)-(?P<id>[0-9a-f]{32})")
NUMBERED: Final = re.compile(r"(?P<verb>[a-z]+)\.(?P<number>[0-9]+)\.json")


# Access to what is below a root: files, local or of a store, or tables of a catalog.
Files = LocalFiles | HadoopFiles | CatalogTables
# Called with the id of a damaged run, and its error.
OnDamage = Callable[[str, DataError], None]


@dataclass(frozen=True)
class Staging:
    """Folder of one attempt at one verb of one run; ``intent`` is its path if that is a file elsewhere."""

    folder: str
    run_id: str
    verb: str
    intent: str | None = None

    @classmethod
    def at(cls, folder: str, intent: str | None = None) -> Self | None:
        """Return the attempt with this folder; None if the folder's name is not that of an attempt."""
        match = ATTEMPT.fullmatch(folder.rpartition("/")[2])
        return match and cls(folder, match["run_id"], match["verb"], intent)

    @property
    def name(self) -> str:
        """Name of the attempt."""
        return self.folder.rpartition("/")[2]

    @property
    def work(self) -> str:
        """Verb and run of the attempt, in words."""
        return f"{self.verb} of run {self.run_id!r}"


class Sealed(NamedTuple):
    """A checked staged table: its files, its number of rows, the kind of each column."""

    files: Sequence[str]
    rows: int
    columns: Mapping[str, str]


def commit_path(root: str, run_id: str) -> str:
    """Return the path of the only record of a run."""
    return f"{root}/{COMMITS}/{run_id}.json"


def usual_place(root: str, run_id: str, verb: str, table: str) -> str:
    """Return the path to read a table from: a folder, or the verb's file of a shared table."""
    folder = f"{root}/{table}/run_id={run_id}"
    return f"{folder}/{verb}.parquet" if table in SHARED else folder


@dataclass(frozen=True)
class Record:
    """Published output of a verb of a run below a root. The number is 0 if records are not numbered."""

    root: str
    run_id: str
    verb: str
    job: Mapping[str, Any]
    number: int = 0

    def path_of(self, table: str) -> str:
        """Return the path to read a table from: the usual one, unless the record has another."""
        named = self.job["tables"].get(table, {})
        return str(named.get("path") or usual_place(self.root, self.run_id, self.verb, table))


class TableForm(BaseModel):
    """Attributes of a table in a commit record; ``columns`` are the kinds of its files' columns."""

    files: int
    rows: int
    columns: Mapping[str, str] = {}
    path: str | None = None


class JobForm(BaseModel):
    """Attributes of a verb of a run in a commit record or an intent; other keys are allowed."""

    model_config = ConfigDict(extra="allow")

    tables: Mapping[Table, TableForm]
    fingerprint: str
    published_at: datetime
    config: Mapping[str, Any] = {}
    versions: Mapping[str, str] = {}
    summary: Mapping[str, Any] = {}
    models: Sequence[str] = ()


class CommitForm(BaseModel):
    """The only commit record of a run, with its verbs."""

    jobs: Mapping[str, JobForm]


def parse_record(files: LocalFiles | HadoopFiles, path: str, form: type[BaseModel]) -> Any:
    """Return the content of a commit record or an intent; None if there is no such file.

    Raises DataError as ``parsed`` does.
    """
    return parsed(lambda: files.read(path), path, form)


def parsed(read: Callable[[], str | None], path: str, form: type[BaseModel]) -> Any:
    """Return the content of a text, None if there is none; ``path`` names it.

    Raises DataError CORRUPT_FILE for a truncated text or one that is not JSON, INCOMPLETE_RUN for one without
    the fields of ``form``.
    """
    hint = "remove it, and make the run again, with --replace"
    try:
        text = read()
        if text is None:
            return None
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError("CORRUPT_FILE", f"{path!r} is damaged, not JSON: {error}; {hint}") from error
    try:
        form.model_validate(content)
    except ValidationError as error:
        [first, *_] = error.errors(include_url=False)
        where = ".".join(map(str, first["loc"]))
        raise DataError("INCOMPLETE_RUN", f"{path!r} is damaged: {where}: {first['msg']}; {hint}") from error
    return content


def records_of(files: Files, run_id: str) -> dict[str, Record]:
    """Return the newest record of each verb of a run; raises DataError as ``parsed`` does."""
    if isinstance(files, CatalogTables):
        return records_in(files, files.commits(run_id))
    run = parse_record(files, commit_path(files.root, run_id), CommitForm) or {"jobs": {}}
    newest = {verb: Record(files.root, run_id, verb, job) for verb, job in run["jobs"].items()}
    folder = f"{files.root}/{COMMITS}/{run_id}"
    names = [match for name in files.names(folder) if (match := NUMBERED.fullmatch(name))]
    for verb in {match["verb"] for match in names}:
        number = max(int(match["number"]) for match in names if match["verb"] == verb)
        job = parse_record(files, f"{folder}/{verb}.{number}.json", JobForm)
        jobs = [job, newest[verb].job] if verb in newest else [job]
        job = max(jobs, key=lambda job: str(job["published_at"]))
        newest[verb] = Record(files.root, run_id, verb, job, number)
    return newest


def records_in(files: CatalogTables, rows: Sequence["Row"]) -> dict[str, Record]:
    """Return the records of one run in rows of ``commits``, by verb; raises DataError as ``parsed`` does."""
    found = {}
    for row in rows:
        where = f"{files.root}/{COMMITS_TABLE}, {row['verb']} of run {row['run_id']!r}"
        job = parsed(partial(row.__getitem__, "record"), where, JobForm)
        found[row["verb"]] = Record(files.root, row["run_id"], row["verb"], job, row["number"])
    return found


def warn_of_damage(run_id: str, fault: DataError) -> None:
    """Log a warning about a damaged run, which is skipped."""
    message = f"run {run_id!r} is left out: {fault.message}"
    events.say("damaged_run", message, logging.WARNING, damaged=run_id, code=fault.code)


def published(files: Files, on_damage: OnDamage = warn_of_damage) -> Iterator[Record]:
    """Yield the newest record of each published verb, sorted by run and verb.

    A run with a damaged record is skipped; ``on_damage`` is called with its id and error.
    """
    if isinstance(files, CatalogTables):
        rows = sorted(files.commits(), key=itemgetter("run_id"))
        of_runs = groupby(rows, itemgetter("run_id"))
        readers = [(run_id, partial(records_in, files, list(of_run))) for run_id, of_run in of_runs]
    else:
        names = files.names(f"{files.root}/{COMMITS}")
        # A run id may itself end with ".json".
        run_ids = sorted({*names, *(name.removesuffix(".json") for name in names)})
        readers = [(run_id, partial(records_of, files, run_id)) for run_id in run_ids]
    for run_id, read in readers:
        try:
            records = read()
        except DataError as fault:
            on_damage(run_id, fault)
            continue
        for _, record in sorted(records.items()):
            yield record
