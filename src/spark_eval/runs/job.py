"""Which run a verb of a config is, where it publishes, and what its record says."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession

from spark_eval.accounting import Entry, totals
from spark_eval.config.inputs import Source
from spark_eval.config.sections import Config
from spark_eval.errors import DataError, without_secrets
from spark_eval.publishing.attempt import Attempt, Store
from spark_eval.publishing.commits import place_of, records_of
from spark_eval.publishing.places import check_places, store_of
from spark_eval.publishing.published import RUN_ID_COLUMN, read_places
from spark_eval.publishing.verify import Expected
from spark_eval.runtime import events
from spark_eval.runtime.hadoop_files import HadoopFiles
from spark_eval.runtime.spark_errors import may_be_of_inputs, renamed
from spark_eval.runtime.versions import code_version, versions
from spark_eval.schema import MODEL, Subset, Table
from spark_eval.sources.listing import fingerprint
from spark_eval.sources.read import read_source
from spark_eval.splits.methods import GLOBAL_LOCAL_RANKER, METHODS

# What each verb reads of the config, that without which it cannot work first.
SECTIONS: Final[Mapping[str, Sequence[str]]] = {
    "split": ("interactions", "split"),
    "evaluate": ("recommendations", "truth", "train", "users", "items", "evaluate", "stages"),
    "predictions": ("predictions",),
    "compare": ("compare", "gates"),
}
# Keys that decide whether numbers are published, and not which.
NEUTRAL_KEYS: Final = ("max_quarantined",)
# What is relevant, unless the config says otherwise: the test part of this run's own split.
DEFAULT_TRUTH: Final = {
    method: Source(subset=Subset.GLOBAL_TEST if method == GLOBAL_LOCAL_RANKER else Subset.TEST)
    for method in METHODS
}


@dataclass(frozen=True)
class Run:
    """Where a verb's tables are, and whether this very call wrote them.

    ``files`` is the store that they are in, None for this machine.
    """

    run_id: str
    tables: Mapping[Table, str]
    is_new: bool
    files: HadoopFiles | None

    def rows(self, table: Table) -> list[dict[str, Any]]:
        """Return a small table, with its model as text."""
        place = self.tables[table]
        if self.files is not None:
            return [
                row.asDict() for row in read_places(self.files.spark, [place]).drop(RUN_ID_COLUMN).collect()
            ]
        by_model = ds.partitioning(pa.schema([(MODEL, pa.string())]), flavor="hive")
        read: list[dict[str, Any]] = (
            ds.dataset(place, partitioning=by_model, format="parquet").to_table().to_pylist()
        )
        return read


@dataclass(frozen=True)
class Job:
    """One verb of one config: what it reads, and so which run it is."""

    verb: str
    run_id: str
    fingerprint: str
    config: Mapping[str, Any]
    sources: Mapping[str, Source]
    inputs: Sequence[Sequence[tuple[Any, ...]]]
    store: Store
    splits: str
    timezone: str

    @classmethod
    def of(cls, verb: str, config: Config, run_id: str | None, session: Callable[[], SparkSession]) -> "Job":
        """Make the job of a verb; without a given id, the run's follows from its content: same work, same id.

        A split that other verbs read lies under the same given id, or under the split's own one.
        """
        store = store_of(config.output, session)
        splits = ""
        if verb != "split":
            splits = place_of_split(store, run_id or cls.of("split", config, None, session).run_id)
        sections = SECTIONS[verb]
        settings = {name: config.model_dump(mode="json")[name] for name in sections}
        sources = {name: source for name in sections if isinstance(source := getattr(config, name), Source)}
        if verb == "evaluate":
            sources.setdefault("truth", DEFAULT_TRUTH[config.split.method])
        inputs = [fingerprint(source, splits, session) for source in sources.values()]
        content = {
            "config": {name: content_of(section) for name, section in settings.items()},
            "inputs": inputs,
            "code": code_version(),
        }
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        run_id = run_id or f"{verb[0]}-{digest[:16]}"
        timezone = config.split.rule().timezone
        return cls(verb, run_id, digest, settings, sources, inputs, store, splits, timezone)

    @contextmanager
    def attempt(self, session: Callable[[], SparkSession]) -> Iterator[Attempt]:
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
                if may_be_of_inputs(renamed(error)):
                    self.check_rest(session)
                raise

    def check_rest(self, session: Callable[[], SparkSession]) -> None:
        """Raise DataError INPUT_CHANGED_DURING_RUN for files that are not what they were; more may come."""
        faults = []
        for (name, source), before in zip(self.sources.items(), self.inputs, strict=True):
            gone = set(before) - set(fingerprint(source, self.splits, session))
            if gone:
                what = f"{name}: {len(gone)} files changed, such as {min(gone)[0]!r}"
                faults.append(DataError("INPUT_CHANGED_DURING_RUN", f"{what}; start again once they rest"))
        DataError.raise_all(faults)

    @property
    def before(self) -> dict[str, list[str]]:
        """The names of each source's files when the run began."""
        inputs = zip(self.sources, self.inputs, strict=True)
        return {name: [state[0] for state in states] for name, states in inputs}

    def read(self, spark: SparkSession, name: str, segments: Sequence[str] = ()) -> DataFrame:
        """Return the rows of a source; the columns ``segments`` are text."""
        source, before = self.sources[name], self.before[name]
        return read_source(spark, source, name, self.splits, self.timezone, segments, before)

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
        summary = totals(entries)
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
        files = self.store.files
        places = {table: attempt.place(table) for table in tables}
        return Run(self.run_id, places, is_new, files if isinstance(files, HadoopFiles) else None)


def place_of_split(store: Store, run_id: str) -> str:
    """Return where a run's split is read."""
    record = records_of(store.files, run_id).get("split")
    return place_of(store.files.root, run_id, "split", Table.SPLITS, record)


def content_of(section: Any) -> Any:
    """Return a section of the config without the keys that change no number."""
    if not isinstance(section, Mapping):
        return section
    return {key: value for key, value in section.items() if key not in NEUTRAL_KEYS}
