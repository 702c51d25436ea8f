"""Which run a verb of a config is, where it publishes, and what is told of it."""

import hashlib
import json
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final

from pyspark.sql import SparkSession

import spark_eval
from spark_eval.config import Config, Output, Source
from spark_eval.hadoop import HadoopFiles
from spark_eval.io import fingerprint, local_root, store_of
from spark_eval.publish import Attempt
from spark_eval.remote import RemoteAttempt, newest_record
from spark_eval.schema import Subset, Table

LIBRARIES: Final = ("pyspark", "pandas", "pyarrow", "numpy")
# What is relevant, unless the config says otherwise: the test part of this run's own split.
DEFAULT_TRUTH: Final = Source(subset=Subset.GLOBAL_TEST)


@dataclass(frozen=True)
class Run:
    """Where a verb's tables are, whether this very call wrote them, which dead attempts it cleared away.

    ``files`` is the store that they are in, None for this machine.
    """

    run_id: str
    tables: Mapping[Table, str]
    is_new: bool
    recovered: Sequence[str]
    files: HadoopFiles | None


@dataclass(frozen=True)
class Job:
    """One verb of one config: what it reads, and so which run it is."""

    verb: str
    run_id: str
    fingerprint: str
    config: Mapping[str, Any]
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
        sections = {
            "split": ("interactions", "split"),
            "evaluate": ("recommendations", "truth", "train", "users", "items", "evaluate"),
            "predictions": ("predictions",),
        }[verb]
        settings = {name: config.model_dump(mode="json")[name] for name in sections}
        sources = [source for name in sections if isinstance(source := getattr(config, name), Source)]
        if verb == "evaluate" and config.truth is None:
            sources.append(DEFAULT_TRUTH)
        content = {
            "config": {name: without_plan(section) for name, section in settings.items()},
            "inputs": [fingerprint(source, splits, session) for source in sources],
            "code": code_version(),
        }
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        run_id = run_id or f"{verb[0]}-{digest[:16]}"
        timezone = config.split.rule().timezone
        return cls(verb, run_id, digest, settings, config.output, files, splits, timezone)

    def attempt(self) -> Attempt | RemoteAttempt:
        """A fresh try at it."""
        if self.files is None:
            return Attempt(local_root(self.output), self.run_id, self.verb)
        return RemoteAttempt(self.files, self.run_id, self.verb, manifest=self.output.manifest)

    def run(self, attempt: Attempt | RemoteAttempt, tables: Iterable[Table], is_new: bool) -> Run:
        """What is told of it in the end."""
        places = {table: str(attempt.place(table)) for table in tables}
        return Run(self.run_id, places, is_new, attempt.recovered, self.files)

    def record(self, **facts: Any) -> dict[str, Any]:
        """The commit record: config, fingerprint, versions and what else is to be known."""
        versions = {name: import_module(name).__version__ for name in LIBRARIES}
        versions |= {"python": platform.python_version(), "spark_eval": spark_eval.__version__}
        return {"config": self.config, "fingerprint": self.fingerprint, "versions": versions, **facts}


def place_of_split(output: Output, files: HadoopFiles | None, run_id: str) -> str:
    """Where a run's split is read."""
    root = local_root(output) if files is None else files.root
    record = None if files is None else newest_record(files, run_id, "split")
    return (record and record.place(Table.SPLITS)) or f"{root}/{Table.SPLITS}/run_id={run_id}"


def without_plan(section: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """A section of the config less the physical plan, under all of which the numbers are the same."""
    return section and {key: value for key, value in section.items() if key != "plan"}


def code_version() -> str:
    """A hash of the package's code, the same from a folder and from a zip of it."""
    digest = hashlib.sha256()
    for source in sources_below(files(spark_eval)):
        digest.update(source)
    return digest.hexdigest()


def sources_below(folder: Traversable) -> Iterator[bytes]:
    """The Python files of a package, in one order everywhere."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from sources_below(entry)
        elif entry.name.endswith(".py"):
            yield entry.read_bytes()
