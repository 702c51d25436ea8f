"""Jobs: the run id of a verb with its config, the paths of its tables, and its commit record."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from spark_eval.accounting import Entry, headline_counts
from spark_eval.config.inputs import Source
from spark_eval.errors import DataError, without_secrets
from spark_eval.publishing.attempt import Attempt, Store
from spark_eval.publishing.commits import Files, Record, records_of, usual_place
from spark_eval.publishing.published import open_table
from spark_eval.publishing.stores import check_output_paths, store_of
from spark_eval.publishing.verify import Expected
from spark_eval.runs.sections import Config
from spark_eval.runtime import events
from spark_eval.runtime.any_session import OpenSession
from spark_eval.runtime.local_files import check_makes_files
from spark_eval.runtime.spark_errors import may_be_of_inputs, named_spark_error
from spark_eval.runtime.versions import code_version, versions
from spark_eval.schema import Table
from spark_eval.sources.listing import fingerprint
from spark_eval.sources.snapshots import pinned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Keys that decide whether values are published, or how they are read, but do not change them.
NEUTRAL_KEYS: Final = ("max_quarantined", "read")


@dataclass(frozen=True)
class Run:
    """Published tables of a verb: their paths, and True in ``is_new`` if this call wrote them."""

    run_id: str
    tables: Mapping[str, str]
    is_new: bool
    files: Files
    record: Record

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of a small table, with model names as text."""
        return open_table(self.files, self.record, table).rows()


@dataclass(frozen=True, kw_only=True)
class JobKind:
    """Part of a verb that decides its run ids, with inputs and code.

    Attributes:
        name: The name of the verb.
        sections: The sections of the config that it reads.
        sources: Sources that the config may leave out, given the path of this run's split.
    """

    name: str
    sections: tuple[str, ...]
    sources: Callable[[Config, str], Mapping[str, Source]] = lambda _config, _splits: {}


# Other verbs read the subsets of its run, so they must know its id.
SPLIT: Final = JobKind(name="split", sections=("interactions", "split"))


@dataclass(frozen=True)
class Job:
    """One verb with its config and inputs, which determine the run id.

    ``runs`` maps the ids of the published runs that it reads, of one of the verbs ``reads``, to their
    fingerprints.
    """

    verb: str
    run_id: str
    fingerprint: str
    config: Mapping[str, Any]
    sources: Mapping[str, Source]
    inputs: Mapping[str, Sequence[tuple[Any, ...]]]
    store: Store
    splits: str
    timezone: str
    runs: Mapping[str, str | None] = field(default_factory=dict)
    reads: Sequence[str] = ()

    @classmethod
    def of(cls, verb: JobKind, config: Config, run_id: str | None, session: OpenSession) -> "Job":
        """Return the job of a verb; without an id, the run id is a hash of config, inputs and code.

        The split that other verbs read is that of the same given id, or else of the split's own hash.
        """
        store = store_of(config.output, session)
        splits, record = "", None
        if verb.name != SPLIT.name:
            of_split = run_id or cls.of(SPLIT, config, None, session).run_id
            record = records_of(store.files, of_split).get(SPLIT.name)
            usual = usual_place(store.files.root, of_split, SPLIT.name, Table.SPLITS)
            splits = usual if record is None else record.path_of(Table.SPLITS)
        settings = settings_of(verb, config)
        given = sources_in(config, verb.sections, splits)
        sources = given | {
            name: one for name, one in verb.sources(config, splits).items() if name not in given
        }
        sources = {name: pinned(source, session) for name, source in sources.items()}
        inputs = {name: fingerprint(source, session) for name, source in sources.items()}
        if splits and record is not None and splits in [source.path for source in sources.values()]:
            open_table(store.files, record, Table.SPLITS)
        deciding = {
            name: {key: value for key, value in section.items() if key not in NEUTRAL_KEYS}
            for name, section in settings.items()
            if isinstance(section, Mapping)
        }
        for name, source in sources.items():
            # The snapshot decides, however it is named.
            if name in deciding and source.snapshot is not None:
                deciding[name]["options"] = source.untravelled
        digest = digest_of(config=settings | deciding, inputs=list(inputs.values()))
        run_id = run_id or usual_id(verb, digest)
        timezone = config.split.rule().timezone
        return cls(verb.name, run_id, digest, settings, sources, inputs, store, splits, timezone)

    @classmethod
    def of_runs(
        cls,
        verb: JobKind,
        config: Config,
        run_id: str,
        store: Store,
        runs: Mapping[str, str | None],
        reads: Sequence[str],
        **content: Any,
    ) -> "Job":
        """Return the job of a verb that reads published runs, with their fingerprints, instead of sources.

        ``content`` is what else it reads.
        """
        settings, timezone = settings_of(verb, config), config.split.rule().timezone
        digest = digest_of(config=settings, runs=runs, **content)
        return cls(verb.name, run_id, digest, settings, {}, {}, store, "", timezone, runs, reads)

    @contextmanager
    def attempt(self, session: OpenSession) -> Iterator[Attempt]:
        """Start one attempt of the job, and log its start and the removal of dead attempts.

        Raises DataError INPUT_CHANGED_DURING_RUN instead of an error that a changed input explains.
        """
        with events.run(self.verb, self.run_id):
            yield from self.attempted(session)

    def attempted(self, session: OpenSession) -> Iterator[Attempt]:
        """Yield the attempt of the run that has begun; see ``attempt``."""
        if self.store.is_local:
            root = Path(self.store.files.root)
            check_output_paths(root, self.run_id, Table)
            check_makes_files(root)
        with Attempt(self.store, self.run_id, self.verb) as attempt:
            for dead in attempt.recovered:
                events.say("recovered", f"cleared away: attempt {dead}, which had died", attempt=dead)
            try:
                yield attempt
            except Exception as error:
                if may_be_of_inputs(named_spark_error(error)):
                    self.check_rest(session)
                raise

    def check_rest(self, session: OpenSession) -> None:
        """Raise DataError INPUT_CHANGED_DURING_RUN if an input changed; new files are allowed.

        Inputs are the files of sources, and published runs.
        """
        now = fingerprints_of(self.store, list(self.runs), self.reads)
        faults = [
            DataError("INPUT_CHANGED_DURING_RUN", f"run {run!r} was published while it was read; start again")
            for run in now
            if now[run] != self.runs[run]
        ][:1]
        for name, before in self.inputs.items():
            gone = set(before) - set(fingerprint(self.sources[name], session))
            if gone:
                what = f"{name}: {len(gone)} files changed, such as {min(gone)[0]!r}"
                faults.append(DataError("INPUT_CHANGED_DURING_RUN", f"{what}; start again once they rest"))
        DataError.raise_all(faults)

    @property
    def before(self) -> dict[str, list[str]]:
        """The paths of each source's files when the run began."""
        return {name: [state[0] for state in states] for name, states in self.inputs.items()}

    def read(
        self, spark: "SparkSession", name: str, segments: Sequence[str] = (), timezone: str | None = None
    ) -> "DataFrame":
        """Return the rows of a source; the columns ``segments`` are text.

        ``timezone`` is that of timestamps without one; by default that of the job.
        """
        from spark_eval.sources.read import read_source

        zone = timezone or self.timezone
        return read_source(spark, self.sources[name], name, zone, segments, self.before[name])

    @property
    def most_quarantined(self) -> dict[str, float]:
        """The largest share of each source's rows that may be quarantined."""
        return {name: source.max_quarantined for name, source in self.sources.items()}

    @property
    def snapshots(self) -> dict[str, dict[str, Any]]:
        """The snapshot of each source that is a Delta or Iceberg table, for the commit record."""
        snapshots = {name: source.snapshot for name, source in self.sources.items()}
        return {name: snapshot._asdict() for name, snapshot in snapshots.items() if snapshot is not None}

    def publish(
        self,
        attempt: Attempt,
        tables: Mapping[str, int],
        entries: Sequence[Entry],
        expected: Expected | None = None,
        **facts: Any,
    ) -> Run:
        """Publish the staged tables, given their numbers of rows, with a commit record that has ``facts``."""
        summary = headline_counts(entries)
        record = {"config": without_secrets(self.config), "fingerprint": self.fingerprint, **facts}
        if self.snapshots:
            record["snapshots"] = self.snapshots
        record |= {"versions": versions(), "summary": {**summary, "seconds": events.seconds()}}
        attempt.publish(tables, record, expected)
        events.stage("publish")
        events.end("published", **summary)
        return self.run(attempt, tables, is_new=True)

    def already(self, attempt: Attempt, tables: Iterable[str]) -> Run:
        """Return the run that is already published."""
        events.settle()
        events.end("already_published")
        return self.run(attempt, tables, is_new=False)

    def run(self, attempt: Attempt, tables: Iterable[str], is_new: bool) -> Run:
        """Return the run with the paths of its tables."""
        paths = {table: attempt.path_of(table) for table in tables}
        return Run(self.run_id, paths, is_new, self.store.files, attempt.records[self.verb])


def settings_of(verb: JobKind, config: Config) -> dict[str, Any]:
    """Return the sections of a verb as plain values."""
    whole = config.model_dump(mode="json")
    return {name: whole[name] for name in verb.sections}


def fingerprints_of(store: Store, runs: Sequence[str], verbs: Sequence[str]) -> dict[str, str | None]:
    """Return the fingerprint of what each run has published of the first of these verbs; None without any."""
    fingerprints = dict[str, str | None]()
    for run in runs:
        records = records_of(store.files, run)
        fingerprints[run] = next(
            (records[verb].job["fingerprint"] for verb in verbs if verb in records), None
        )
    return fingerprints


def sources_in(config: Config, sections: Iterable[str], splits: str) -> dict[str, Source]:
    """Return the sources among these sections, with their paths; this run's split is at ``splits``."""
    given = {name: getattr(config, name) for name in sections}
    return {name: one.at(splits) for name, one in given.items() if isinstance(one, Source)}


def usual_id(verb: JobKind, digest: str) -> str:
    """Return the run id of a job that is given none."""
    return f"{verb.name[0]}-{digest[:16]}"


def digest_of(**content: Any) -> str:
    """Return a hash of this content and of the code version."""
    text = json.dumps({**content, "code": code_version()}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
