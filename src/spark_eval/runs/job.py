"""Which run a verb of a config is, where it publishes, and what its record says."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from spark_eval.accounting import Entry, headline_counts
from spark_eval.config.inputs import Source
from spark_eval.config.sections import Config
from spark_eval.errors import DataError, without_secrets
from spark_eval.publishing.attempt import Attempt, Store
from spark_eval.publishing.commits import Files, Record, records_of, usual_place
from spark_eval.publishing.places import check_places, store_of
from spark_eval.publishing.published import open_table
from spark_eval.publishing.verify import Expected
from spark_eval.runtime import events
from spark_eval.runtime.any_session import OpenSession
from spark_eval.runtime.spark_errors import may_be_of_inputs, named_spark_error
from spark_eval.runtime.versions import code_version, versions
from spark_eval.schema import Table
from spark_eval.sources.listing import fingerprint
from spark_eval.sources.read import read_source

# What each verb reads of the config, that without which it cannot work first.
SECTIONS: Final[Mapping[str, Sequence[str]]] = {
    "split": ("interactions", "split"),
    "evaluate": ("recommendations", "truth", "train", "users", "items", "evaluate", "stages"),
    "predictions": ("predictions",),
    "compare": ("compare", "gates"),
}
# Keys that decide whether numbers are published, and not which.
NEUTRAL_KEYS: Final = ("max_quarantined",)


@dataclass(frozen=True)
class Run:
    """Where a verb's tables are, and whether this very call wrote them."""

    run_id: str
    tables: Mapping[Table, str]
    is_new: bool
    files: Files
    record: Record

    def rows(self, table: Table) -> list[dict[str, Any]]:
        """Return a small table, with its model as text."""
        return open_table(self.files, self.record, table).rows()


@dataclass(frozen=True)
class Job:
    """One verb of one config: what it reads, and so which run it is."""

    verb: str
    run_id: str
    fingerprint: str
    config: Mapping[str, Any]
    sources: Mapping[str, Source]
    inputs: Mapping[str, Sequence[tuple[Any, ...]]]
    store: Store
    splits: str
    timezone: str

    @classmethod
    def of(cls, verb: str, config: Config, run_id: str | None, session: OpenSession) -> "Job":
        """Make the job of a verb; without a given id, the run's follows from its content: same work, same id.

        A split that other verbs read lies under the same given id, or under the split's own one.
        """
        store = store_of(config.output, session)
        splits, record = "", None
        if verb != "split":
            of_split = run_id or cls.of("split", config, None, session).run_id
            record = records_of(store.files, of_split).get("split")
            usual = usual_place(store.files.root, of_split, "split", Table.SPLITS)
            splits = usual if record is None else record.place(Table.SPLITS)
        settings, sources = settings_of(verb, config), sources_in(config, SECTIONS[verb], splits)
        if verb == "evaluate":
            # Relevant is, unless the config says otherwise, the test part of this run's own split.
            sources.setdefault("truth", Source(subset=config.split.rule().final_test).at(splits))
        inputs = {name: fingerprint(source, session) for name, source in sources.items()}
        if splits and record is not None and splits in [source.path for source in sources.values()]:
            open_table(store.files, record, Table.SPLITS)
        deciding = {
            name: {key: value for key, value in section.items() if key not in NEUTRAL_KEYS}
            for name, section in settings.items()
            if isinstance(section, Mapping)
        }
        digest = digest_of(config=settings | deciding, inputs=list(inputs.values()))
        run_id = run_id or f"{verb[0]}-{digest[:16]}"
        timezone = config.split.rule().timezone
        return cls(verb, run_id, digest, settings, sources, inputs, store, splits, timezone)

    @contextmanager
    def attempt(self, session: OpenSession) -> Iterator[Attempt]:
        """Try the job once, and say when that begins and what it clears away.

        Raises DataError INPUT_CHANGED_DURING_RUN in the place of an error that a changed input explains.
        """
        events.begin(self.verb, self.run_id)
        if self.store.is_local:
            check_places(Path(self.store.files.root), self.run_id)
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
        """Raise DataError INPUT_CHANGED_DURING_RUN for files that are not what they were; more may come."""
        faults = []
        for name, before in self.inputs.items():
            gone = set(before) - set(fingerprint(self.sources[name], session))
            if gone:
                what = f"{name}: {len(gone)} files changed, such as {min(gone)[0]!r}"
                faults.append(DataError("INPUT_CHANGED_DURING_RUN", f"{what}; start again once they rest"))
        DataError.raise_all(faults)

    @property
    def before(self) -> dict[str, list[str]]:
        """The names of each source's files when the run began."""
        return {name: [state[0] for state in states] for name, states in self.inputs.items()}

    def read(self, spark: SparkSession, name: str, segments: Sequence[str] = ()) -> DataFrame:
        """Return the rows of a source; the columns ``segments`` are text."""
        return read_source(spark, self.sources[name], name, self.timezone, segments, self.before[name])

    @property
    def most_quarantined(self) -> dict[str, float]:
        """The share of each source that may be quarantined."""
        return {name: source.max_quarantined for name, source in self.sources.items()}

    def publish(
        self,
        attempt: Attempt,
        tables: Mapping[Table, int],
        entries: Sequence[Entry],
        expected: Expected | None = None,
        **facts: Any,
    ) -> Run:
        """Publish what is staged, of so many rows, with the commit record: what is to be known of the run."""
        summary = headline_counts(entries)
        record = {"config": without_secrets(self.config), "fingerprint": self.fingerprint, **facts}
        record |= {"versions": versions(), "summary": {**summary, "seconds": events.seconds()}}
        attempt.publish(tables, record, expected)
        events.stage("publish")
        events.end("published", **summary)
        return self.run(attempt, tables, is_new=True)

    def already(self, attempt: Attempt, tables: Iterable[Table]) -> Run:
        """Return the run where nothing is to be done."""
        events.settle()
        events.end("already_published")
        return self.run(attempt, tables, is_new=False)

    def run(self, attempt: Attempt, tables: Iterable[Table], is_new: bool) -> Run:
        """Return where the tables are."""
        places = {table: attempt.place(table) for table in tables}
        return Run(self.run_id, places, is_new, self.store.files, attempt.records[self.verb])


def settings_of(verb: str, config: Config) -> dict[str, Any]:
    """Return the sections that a verb reads, as plain values."""
    whole = config.model_dump(mode="json")
    return {name: whole[name] for name in SECTIONS[verb]}


def sources_in(config: Config, sections: Iterable[str], splits: str) -> dict[str, Source]:
    """Return the sources among some sections, with their paths; this run's split is at ``splits``."""
    found = {name: getattr(config, name) for name in sections}
    return {name: one.at(splits) for name, one in found.items() if isinstance(one, Source)}


def digest_of(**content: Any) -> str:
    """Return what tells one content from another, together with the code."""
    text = json.dumps({**content, "code": code_version()}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
