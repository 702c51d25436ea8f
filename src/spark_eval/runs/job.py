"""Which run a verb of a config is, where it publishes, and what is told of it."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession

from spark_eval.accounting import Entry, totals
from spark_eval.config.sections import Config, Output, Source
from spark_eval.errors import DataError, without_secrets
from spark_eval.publishing.commits import commit_path
from spark_eval.publishing.local import STAGING, Attempt
from spark_eval.publishing.places import check_folder, check_inside, local_root, store_of
from spark_eval.publishing.remote import RemoteAttempt, newest_record
from spark_eval.publishing.verify import Expected
from spark_eval.runtime import events
from spark_eval.runtime.hadoop_files import HadoopFiles
from spark_eval.runtime.spark_errors import may_be_of_inputs, renamed
from spark_eval.runtime.versions import code_version, versions
from spark_eval.schema import Subset, Table
from spark_eval.sources.listing import fingerprint
from spark_eval.splits.methods import GLOBAL_LOCAL_RANKER, METHODS

# What each verb reads of the config, that without which it cannot work first.
SECTIONS: Final[Mapping[str, Sequence[str]]] = {
    "split": ("interactions", "split"),
    "evaluate": ("recommendations", "truth", "train", "users", "items", "evaluate"),
    "predictions": ("predictions",),
}
# They decide whether numbers are published, and not which.
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


@dataclass(frozen=True)
class Job:
    """One verb of one config: what it reads, and so which run it is."""

    verb: str
    run_id: str
    fingerprint: str
    config: Mapping[str, Any]
    sources: Mapping[str, Source]
    inputs: Sequence[Sequence[tuple[Any, ...]]]
    output: Output
    files: HadoopFiles | None
    splits: str
    timezone: str

    @classmethod
    def of(cls, verb: str, config: Config, run_id: str | None, session: Callable[[], SparkSession]) -> "Job":
        """The job; without a given id, the run's is that of its content: same work, same id.

        A split that other verbs read lies under the same given id, or under the split's own one.
        """
        files = store_of(config.output, session)
        splits = ""
        if verb != "split":
            splits_id = run_id or cls.of("split", config, None, session).run_id
            splits = place_of_split(config.output, files, splits_id)
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
        return cls(verb, run_id, digest, settings, sources, inputs, config.output, files, splits, timezone)

    @contextmanager
    def attempt(self, session: Callable[[], SparkSession]) -> Iterator[Attempt | RemoteAttempt]:
        """A fresh try at it, which says when it begins and what it finds.

        Raises DataError INPUT_CHANGED_DURING_RUN in the place of an error that a changed input explains.
        """
        events.begin(self.verb, self.run_id)
        with self.new_attempt() as attempt:
            for dead in attempt.recovered:
                events.say("recovered", f"cleared away: attempt {dead}, which had died", attempt=dead)
            try:
                yield attempt
            except Exception as error:
                if may_be_of_inputs(renamed(error)):
                    self.check_rest(session)
                raise

    def new_attempt(self) -> Attempt | RemoteAttempt:
        """The try itself, not begun."""
        if self.files is not None:
            return RemoteAttempt(self.files, self.run_id, self.verb, manifest=self.output.manifest)
        root = local_root(self.output)
        check_folder(root)
        folders = [root / table / f"run_id={self.run_id}" for table in Table]
        check_inside(root, [*folders, root / STAGING, commit_path(root, self.run_id)])
        return Attempt(root, self.run_id, self.verb)

    def check_rest(self, session: Callable[[], SparkSession]) -> None:
        """Raise DataError INPUT_CHANGED_DURING_RUN for files that are not what they were; more may come."""
        faults = []
        for (name, source), before in zip(self.sources.items(), self.inputs, strict=True):
            gone = set(before) - set(fingerprint(source, self.splits, session))
            if gone:
                what = f"{name}: {len(gone)} files changed, such as {min(gone)[0]!r}"
                faults.append(DataError("INPUT_CHANGED_DURING_RUN", f"{what}; start again once they rest"))
        DataError.raise_all(faults)

    def names_before(self, name: str) -> list[str]:
        """Return the names of a source's files when the run began."""
        inputs = dict(zip(self.sources, self.inputs, strict=True))
        return [state[0] for state in inputs[name]]

    @property
    def most_quarantined(self) -> dict[str, float]:
        """The share of each source that may be quarantined."""
        return {name: source.max_quarantined for name, source in self.sources.items()}

    def publish(
        self,
        attempt: Attempt | RemoteAttempt,
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

    def already(self, attempt: Attempt | RemoteAttempt, tables: Iterable[Table]) -> Run:
        """What is told of it where nothing is to be done."""
        events.settle()
        events.end("already_published")
        return self.run(attempt, tables, is_new=False)

    def run(self, attempt: Attempt | RemoteAttempt, tables: Iterable[Table], is_new: bool) -> Run:
        """Where its tables are."""
        return Run(self.run_id, {table: str(attempt.place(table)) for table in tables}, is_new, self.files)


def place_of_split(output: Output, files: HadoopFiles | None, run_id: str) -> str:
    """Where a run's split is read."""
    root = local_root(output) if files is None else files.root
    record = None if files is None else newest_record(files, run_id, "split")
    return (record and record.place(Table.SPLITS)) or f"{root}/{Table.SPLITS}/run_id={run_id}"


def content_of(section: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """A section of the config less the keys under all values of which the numbers are the same."""
    return section and {key: value for key, value in section.items() if key not in NEUTRAL_KEYS}
