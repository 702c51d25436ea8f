"""The command ``status``: published runs, their gates, and unfinished attempts."""

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from spark_eval.cli.options import CONFIG
from spark_eval.cli.runner import open_config, open_session
from spark_eval.cli.terminal import grid
from spark_eval.errors import DataError
from spark_eval.names import counted, summarize_names
from spark_eval.publishing.commits import Record, published
from spark_eval.publishing.published import check_is_there, damage_of, open_table
from spark_eval.publishing.remote import MOST_HOURS
from spark_eval.publishing.stores import store_of
from spark_eval.runs.sections import Config
from spark_eval.runs.verdict import GateResult
from spark_eval.runtime import events
from spark_eval.verbs.window import stale_parts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUNS: Final = ("run", "verb", "published", "seconds", "gates", "rows")


@click.command("status")
@CONFIG
@click.option("--json", "as_json", is_flag=True, help="Print it as one JSON object.")
@click.option(
    "--failed",
    "failed_only",
    is_flag=True,
    help="Only runs with gates that failed, alarms or undecided gates.",
)
def command(file: Path, as_json: bool, failed_only: bool) -> None:
    """List published runs with the results of their gates, and unfinished attempts, running or dead."""
    if as_json:
        events.listen(as_json=True)  # on stderr
    events.log.setLevel(logging.WARNING)  # stdout is the list
    config = open_config(file, (), None)
    show_status(config, lambda: open_session(config, "status"), as_json, failed_only)


def show_status(
    config: Config, session: "Callable[[], SparkSession]", as_json: bool, failed_only: bool = False
) -> None:
    """Print published runs and unfinished attempts; with ``failed_only``, runs with a gate that fails."""
    store = store_of(config.output, session)
    root = store.files.root
    damaged: dict[str, DataError] = {}
    # In a remote store, counting rows takes Spark jobs: a list of all runs only checks that the tables exist.
    check = open_table if store.is_local else check_is_there
    records = list(published(store.files, damaged.__setitem__))
    current = {(record.verb, record.run_id): record.job["fingerprint"] for record in records}
    runs = [
        summary(record, damage_of(store.files, record, check)) | {"stale": stale_parts(record, current)}
        for record in records
        if not failed_only or is_failed(record)
    ]
    attempts = [store.about(attempt) for attempt in store.unfinished()]
    if as_json:
        unread = [
            {"run_id": run_id, "code": one.code, "message": one.message} for run_id, one in damaged.items()
        ]
        print(json.dumps({"root": root, "runs": runs, "damaged": unread, "attempts": attempts}, indent=2))
        return
    chosen = " with gates that failed or are undecided" if failed_only else ""
    print(f"{counted(len({run['run_id'] for run in runs}), 'run')}{chosen} published under {root}")
    if runs:
        grid(RUNS, [line_of_run(run) for run in runs])
    for run in runs:
        name = f"  {run['run_id']} {run['verb']}"
        if run["damage"] is not None:
            print(f"{name}: {run['damage']}")
        if run["stale"]:
            days = summarize_names(run["stale"])
            print(f"{name} is stale: {days} changed since; make it again with --replace")
    for run_id, fault in damaged.items():
        print(f"  {run_id} is damaged: {fault.message}")
    print(f"{counted(len(attempts), 'attempt')} unfinished")
    for attempt in attempts:
        print(f"  {attempt['attempt']} {state(attempt)}")


def summary(record: Record, damage: DataError | None) -> dict[str, Any]:
    """Return the attributes of a verb's commit record, and the damage to its tables."""
    rows = {table: size["rows"] for table, size in record.job["tables"].items()}
    columns = {"run_id": record.run_id, "verb": record.verb, "published_at": record.job["published_at"]}
    return {
        "seconds": None,
        **record.job.get("summary", {}),
        **columns,
        "rows": rows,
        "damage": damage and damage.message,
        "gates": record.job.get("gates"),
    }


def is_failed(record: Record) -> bool:
    """Return True if a run has gates that failed, alarms, or gates that are undecided."""
    return not {*(record.job.get("gates") or ())} <= {str(GateResult.PASSED)}


def line_of_run(run: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the line of a verb of a run in the list of runs: RUNS."""
    seconds = "" if run["seconds"] is None else f"{run['seconds']:.1f}"
    gates = ", ".join(f"{n:,} {result}" for result, n in (run["gates"] or {}).items())
    sizes = ", ".join(f"{table} {n_rows:,}" for table, n_rows in run["rows"].items())
    return run["run_id"], run["verb"], run["published_at"], seconds, gates, sizes


def state(attempt: Mapping[str, Any]) -> str:
    """Return the state of an attempt: alive or dead; without locks, the hours since its last use."""
    if "hours_out_of_use" in attempt:
        return f"not used for {attempt['hours_out_of_use']} hours; cleared away after {MOST_HOURS}"
    alive = "at work" if attempt["is_alive"] else "dead; the next run clears it away"
    return f"{alive}; last change {attempt['changed_at']}"
