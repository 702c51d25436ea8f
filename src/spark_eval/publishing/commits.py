"""Commit records of runs on this machine: what each verb has published."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from spark_eval.errors import ConfigError
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


def published_jobs(root: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Run, verb and record of everything that is published."""
    for path in sorted((root / "_commits").glob("*.json")):
        for verb, job in read_commit(root, path.stem)["jobs"].items():
            yield path.stem, verb, job


def check_verbs(
    run_id: str, verb: str, tables: Iterable[Table], jobs: Mapping[str, Mapping[str, Any]]
) -> None:
    """Raise ConfigError RUN_EXISTS where another verb of the run has published one of these tables."""
    for other in jobs.keys() - {verb}:
        taken = set(tables) & set(jobs[other]["tables"]) - set(SHARED)
        if taken:
            names = ", ".join(sorted(taken))
            message = f"run {run_id!r} has {names} of its verb {other}; use another --run-id"
            raise ConfigError("RUN_EXISTS", message)
