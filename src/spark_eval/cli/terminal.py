"""Output of the commands: main results as tables, then the paths of what was written."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from spark_eval.accounting import entries_of_rows, unmatched_lists, unusable
from spark_eval.cli import metric_tables
from spark_eval.cli.funnel import show_funnel
from spark_eval.cli.leaderboard import drawn, show
from spark_eval.conventions.presets import PRESETS, conventions_of
from spark_eval.errors import DataError, escape_control_characters
from spark_eval.names import counted, summarize_names
from spark_eval.publishing.commits import Record, published
from spark_eval.publishing.published import check_is_there, damage_of, open_table
from spark_eval.publishing.remote import MOST_HOURS
from spark_eval.publishing.stores import store_of
from spark_eval.results.leaderboard import Leaderboard
from spark_eval.runs.job import Run
from spark_eval.runs.sections import Config
from spark_eval.runs.verb import Verb
from spark_eval.schema import Row, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Maximum number of lines of a published table; several classes give many more.
MOST_LINES = 50
RUNS = ("run", "verb", "published", "seconds", "gates", "rows")


def console() -> Console:
    """Return a console on stdout; if that is not a terminal, it is wide enough for tables."""
    plain = Console(highlight=False)
    return plain if plain.is_terminal else Console(highlight=False, width=140)


class Terminal:
    """The screen of verbs: stdout."""

    def say(self, text: str) -> None:
        """Print a line, with control characters escaped."""
        print(escape_control_characters(text))

    def grid(
        self, header: Sequence[str], cells: Sequence[Sequence[str]], title: str = "", of: str | None = None
    ) -> None:
        """Print rows of text as a table."""
        grid(header, cells, title, of)

    def board(self, board: Leaderboard, title: str) -> None:
        """Print a leaderboard, with the metrics that fit."""
        show(board, title, console())

    def funnel(self, stages: Iterable[Row], funnel: Iterable[Row]) -> None:
        """Print the loss of users and relevant items along the stages of a pipeline."""
        show_funnel(stages, funnel, console())


def show_done(verb: Verb, run: Run) -> None:
    """Print the results of a run, the counts of rows that could not be used, and the paths of the tables."""
    screen = Terminal()
    verb.show(run, screen)
    if Table.ACCOUNTING in run.tables:
        entries = entries_of_rows(run.rows(Table.ACCOUNTING))
        for note in (*unusable(entries), *unmatched_lists(entries)):
            screen.say(note)
    outcome = "published" if run.is_new else "already published, nothing to do:"
    print(f"run {run.run_id} {outcome}")
    for table, path in run.tables.items():
        print(f"  {table:<11} {path}")


def show_report(path: str) -> None:
    """Print the path of the report."""
    print(f"  {'report':<11} {path}")


def show_verdict(path: Path) -> None:
    """Print the path of the verdict."""
    print(f"  {'verdict':<11} {path}")


def grid(
    header: Sequence[str], cells: Sequence[Sequence[str]], title: str = "", of: str | None = None
) -> None:
    """Print rows of text as a table; of a published table, at most MOST_LINES rows."""
    shown = cells if of is None else cells[:MOST_LINES]
    console().print(drawn(header, shown, title))
    if len(shown) < len(cells):
        print(f"and {len(cells) - len(shown)} more in the table {of}")


def show_metrics(name: str | None, preset: str | None, markdown: bool) -> None:
    """Print all metrics and conventions, or one metric in full, or the choices of a preset."""
    if markdown:
        print(metric_tables.document(), end="")
    elif name is not None:
        print(metric_tables.metric_text(name, preset))
    elif preset is not None:
        conventions_of(preset)
        grid(*metric_tables.preset_choice_table(preset), f"preset {preset}")
        details = PRESETS[preset]
        print(f"numbers of: {details.source}\nwhy they differ: {details.differs}")
        print(f"not reproduced: {details.leaves_out or 'nothing is left out'}")
    else:
        grid(*metric_tables.ranking_table())
        grid(*metric_tables.prediction_table())
        grid(*metric_tables.choice_table())
        grid(*metric_tables.preset_table(3))
        print("a variant: map(denominator=relevant)@5, options in brackets, after @ its own k or all")
        print("more: spark-eval metrics NAME (with examples), spark-eval metrics --preset NAME")


def show_checked(file: Path, sources: Sequence[str]) -> None:
    """Print that a config and its inputs are valid."""
    print(f"{file}: config is valid; inputs checked: {', '.join(sources) or 'none'}")


def show_status(
    config: Config, session: "Callable[[], SparkSession]", as_json: bool, failed_only: bool = False
) -> None:
    """Print published runs and unfinished attempts; with ``failed_only``, runs with a gate that fails."""
    from spark_eval.verbs.window import stale_parts

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
    from spark_eval.runs.verdict import GateResult

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
