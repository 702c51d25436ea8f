"""What the commands print: headline numbers as a table, then what was written and where."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import SparkSession
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from spark_eval.cli import metric_tables
from spark_eval.cli.leaderboard import Leaderboard, show
from spark_eval.config.sections import Config
from spark_eval.presets import PRESETS, conventions_of
from spark_eval.publishing import commits, local, remote
from spark_eval.publishing.places import local_root, store_of
from spark_eval.publishing.published import read_places
from spark_eval.publishing.remote import MOST_HOURS
from spark_eval.runs.job import Run
from spark_eval.schema import ALL, FOLDS, MODEL, Outcome, Table
from spark_eval.splits.fold_rule import (
    PAIRS_IN_BOTH,
    RETURNED_TO_GLOBAL_TEST,
    RETURNED_TO_LOCAL_TEST,
    TEST_EARLY,
    USERS_EARLY,
    USERS_IN_BOTH,
)

# Of several classes there are many more numbers than a terminal shows.
MOST_LINES = 50
# Of rows that a check of the leakage report finds where nothing promises that there are none.
ALLOWED = {
    RETURNED_TO_LOCAL_TEST: "rows of local_test repeat a train pair; allowed here, `seen: drop` removes them",
    RETURNED_TO_GLOBAL_TEST: "test rows repeat a train pair; allowed here, `seen: drop` removes them",
    PAIRS_IN_BOTH: "test rows repeat a train pair; allowed here, `seen: drop` removes them",
    USERS_IN_BOTH: "test rows have a user with train rows; allowed here, `by: user` keeps users apart",
    USERS_EARLY: "test rows are not after their user's train; allowed here, `ties: together` rules it out",
    TEST_EARLY: "test rows are not after the last train row; allowed here, windows of time rule it out",
}


def console() -> Console:
    """Stdout, never narrower than a table of numbers."""
    plain = Console(highlight=False)
    return plain if plain.is_terminal else Console(highlight=False, width=140)


def rows(run: Run, table: Table) -> list[dict[str, object]]:
    """A small table of a run, with its model as text."""
    place = run.tables[table]
    if run.files is not None:
        return [row.asDict() for row in read_places(run.files.spark, [place]).collect()]
    by_model = ds.partitioning(pa.schema([(MODEL, pa.string())]), flavor="hive")
    found: list[dict[str, object]] = (
        ds.dataset(place, partitioning=by_model, format="parquet").to_table().to_pylist()
    )
    return found


def written(run: Run) -> None:
    """Where the tables are."""
    state = "published" if run.is_new else "already published, nothing to do:"
    print(f"run {run.run_id} {state}")
    for table, path in run.tables.items():
        print(f"  {table:<11} {path}")


def split(run: Run) -> None:
    """The parts and the leakage report of a split."""
    grid = Grid("outcome", "reason", "rows", title=f"split of run {escape(run.run_id)}", title_justify="left")
    lines = rows(run, Table.ACCOUNTING)
    for row in (line for line in lines if line["source"] != FOLDS):
        grid.add_row(str(row["outcome"]), str(row["reason"] or ""), f"{row['rows']:,}")
    console().print(grid)
    several = [
        (str(row["reason"]), f"{row['rows']:,}", number(row["users"]))
        for row in lines
        if row["source"] == FOLDS and row["outcome"] != Outcome.IN
    ]
    if several:
        first_lines(("in folds", "rows", "users"), several, Table.ACCOUNTING)
    leaks = rows(run, Table.LEAKAGE)
    checks = [
        (
            f"fold {row['fold']} {row['check']}" if several else str(row["check"]),
            f"{row['rows']:,}",
            f"{row['users']:,}",
            "LEAK" if row["leaked"] else "allowed" if row["rows"] else "no",
        )
        for row in leaks
    ]
    first_lines(("leakage check", "rows", "users", "leaked"), checks, Table.LEAKAGE)
    print(f"leaked rows: {sum(int(str(row['rows'])) for row in leaks if row['leaked'])}")
    allowed = Counter[str]()
    for row in leaks:
        allowed[str(row["check"])] += 0 if row["leaked"] else int(str(row["rows"]))
    for check, n_rows in (+allowed).items():
        print(f"{n_rows:,} {ALLOWED[check]}")
    written(run)


def first_lines(header: Sequence[str], cells: Sequence[Sequence[str]], name: Table) -> None:
    """Rows of text as a table, as many as a terminal shows."""
    table(header, cells[:MOST_LINES])
    if cells[MOST_LINES:]:
        print(f"and {len(cells) - MOST_LINES} more in the table {name}")


def evaluation(run: Run) -> None:
    """The leaderboard of an evaluation."""
    show(Leaderboard.of(rows(run, Table.METRICS)), f"metrics of run {run.run_id}", console())
    written(run)


def predictions(run: Run) -> None:
    """One line per metric of all rows, one column per model; then what was chosen as thresholds."""
    values = [row for row in rows(run, Table.METRICS) if row["segment"] == ALL]
    models = list(dict.fromkeys(str(row["model"]) for row in values))
    cells = {(row["metric"], str(row["model"])): row["value"] for row in values}
    grid = Grid(
        "metric", *map(escape, models), title=escape(f"metrics of run {run.run_id}"), title_justify="left"
    )
    found = list(dict.fromkeys(str(row["metric"]) for row in values))
    for metric in found[:MOST_LINES]:
        grid.add_row(escape(metric), *(number(cells.get((metric, model))) for model in models))
    console().print(grid)
    if found[MOST_LINES:]:
        print(f"and {len(found) - MOST_LINES} more in the table metrics")
    if Table.THRESHOLDS in run.tables:
        shown = ("threshold", "precision", "recall", "flags", "cost")
        grid = Grid("model", "chosen for", *shown)
        for row in rows(run, Table.THRESHOLDS):
            if row["segment"] == ALL:
                told = (escape(str(row["model"])), escape(str(row["rule"])))
                grid.add_row(*told, *(number(row[name]) for name in shown))
        console().print(grid)
    written(run)


def number(value: object) -> str:
    """A number of a metric, short; a dash where there is none."""
    return "-" if value is None else f"{float(str(value)):.6g}"


def table(header: Sequence[str], cells: Sequence[Sequence[str]], title: str = "") -> None:
    """Rows of text as a table."""
    grid = Grid(*header, title=title, title_justify="left")
    for row in cells:
        grid.add_row(*map(escape, row))
    console().print(grid)


def metrics(name: str | None, preset: str | None, markdown: bool) -> None:
    """All metrics and conventions; one metric in full, also under a preset; or what a preset chooses."""
    if markdown:
        print(metric_tables.document(), end="")
    elif name is not None:
        print(metric_tables.metric_text(name, preset))
    elif preset is not None:
        conventions_of(preset)
        table(metric_tables.PRESET_FORKS, metric_tables.preset_fork_rows(preset), f"preset {preset}")
        about = PRESETS[preset]
        print(f"numbers of: {about.source}\nwhy they differ: {about.differs}")
        print(f"not reproduced: {about.leaves_out or 'nothing is left out'}")
    else:
        table(metric_tables.METRICS, metric_tables.metric_rows())
        table(metric_tables.POINTWISE_METRICS, metric_tables.pointwise_rows())
        table(metric_tables.CHOICES, metric_tables.choice_rows())
        table(metric_tables.PRESET_TABLE, metric_tables.short_preset_rows())
        print("a variant: map(denominator=relevant)@5, options in brackets, after @ its own k or all")
        print("more: spark-eval metrics NAME (with examples), spark-eval metrics --preset NAME")


def checked(file: Path, sources: Sequence[str]) -> None:
    """That a config and its inputs fit."""
    print(f"{file}: config is valid; inputs checked: {', '.join(sources) or 'none'}")


def status(config: Config, session: Callable[[], SparkSession], as_json: bool) -> None:
    """Published runs and attempts without an end."""
    files = store_of(config.output, session)
    if files is None:
        root: Path | str = local_root(config.output)
        jobs = list(commits.published_jobs(Path(root)))
        attempts = [about(attempt) for attempt in local.unfinished(Path(root))]
    else:
        root, jobs = files.root, list(remote.published_jobs(files))
        attempts = [
            {"attempt": folder.rpartition("/")[2], "hours_out_of_use": round(hours, 1)}
            for folder, hours in remote.unpublished(files)
        ]
    runs = [published(*job) for job in jobs]
    if as_json:
        print(json.dumps({"root": str(root), "runs": runs, "attempts": attempts}, indent=2))
        return
    print(f"{len({run['run_id'] for run in runs})} runs published under {root}")
    for run in runs:
        sizes = ", ".join(f"{table} {n_rows:,}" for table, n_rows in run["rows"].items())
        took = "" if run["seconds"] is None else f" in {run['seconds']:.1f} s"
        print(f"  {run['run_id']} {run['verb']} {run['published_at']}{took} rows: {sizes}")
    print(f"{len(attempts)} attempts unfinished")
    for attempt in attempts:
        print(f"  {attempt['attempt']} {state(attempt)}")


def published(run_id: str, verb: str, job: Mapping[str, Any]) -> dict[str, Any]:
    """What a commit record says of a verb of a run."""
    rows = {table: size["rows"] for table, size in job["tables"].items()}
    known = {"run_id": run_id, "verb": verb, "published_at": job["published_at"], "rows": rows}
    return {"seconds": None, **job.get("summary", {}), **known}


def about(attempt: local.Staging) -> dict[str, Any]:
    """An attempt that has not ended, and when anything last happened to its folder."""
    known = {"attempt": attempt.folder.name, "run_id": attempt.run_id, "verb": attempt.verb}
    moment = datetime.fromtimestamp(attempt.folder.stat().st_mtime, UTC)
    return {**known, "is_alive": attempt.is_alive(), "changed_at": moment.isoformat(timespec="seconds")}


def state(attempt: Mapping[str, Any]) -> str:
    """Whether it lives; on a store without locks nobody knows."""
    if "hours_out_of_use" in attempt:
        return f"not used for {attempt['hours_out_of_use']} hours; cleared away after {MOST_HOURS}"
    alive = "at work" if attempt["is_alive"] else "dead; the next run clears it away"
    return f"{alive}; last change {attempt['changed_at']}"
