"""Output of the commands: main results as tables, then the paths of what was written."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console

from spark_eval.accounting import entries_of_rows, unusable
from spark_eval.cli import metric_tables
from spark_eval.cli.funnel import show_funnel
from spark_eval.cli.leaderboard import drawn, show
from spark_eval.config.sections import Config
from spark_eval.conventions.presets import PRESETS, conventions_of
from spark_eval.errors import DataError, escape_control_characters
from spark_eval.predictions.tables import metrics_by_model, six_digits
from spark_eval.publishing.commits import Record, published
from spark_eval.publishing.places import store_of
from spark_eval.publishing.published import check_is_there, damage_of, open_table
from spark_eval.publishing.remote import MOST_HOURS
from spark_eval.results.leaderboard import Leaderboard
from spark_eval.results.report.origins import leak_verdict
from spark_eval.results.sentences import (
    COMPARED,
    GATED,
    MOST_SENTENCES,
    compared_lines,
    gated_lines,
    sentences,
    shortened,
    where,
)
from spark_eval.results.subsets import cold_warnings, counted_ways_to_train
from spark_eval.runs.job import Run
from spark_eval.schema import ALL, FOLDS, Outcome, Table
from spark_eval.splits.rules.fold_rule import Leak

# Maximum number of lines of a published table; several classes give many more.
MOST_LINES = 50
# Explanations of the rows that a leakage check counts although the rule allows them.
REPEATED = "repeat a train pair; allowed here, `seen: drop` removes them"
ALLOWED: dict[str, str] = {
    Leak.RETURNED_TO_LOCAL_TEST: f"rows of local_test {REPEATED}",
    Leak.RETURNED_TO_GLOBAL_TEST: f"test rows {REPEATED}",
    Leak.PAIRS_IN_BOTH: f"test rows {REPEATED}",
    Leak.USERS_IN_BOTH: "test rows have a user with train rows; allowed here, `by: user` keeps users apart",
    Leak.USERS_EARLY: "test rows are not after their user's train; allowed here, "
    "`ties: together` rules it out",
    Leak.TEST_EARLY: "test rows are not after the last train row; allowed here, windows of time rule it out",
}


def console() -> Console:
    """Return a console on stdout; if that is not a terminal, it is wide enough for tables."""
    plain = Console(highlight=False)
    return plain if plain.is_terminal else Console(highlight=False, width=140)


def show_done(verb: str, run: Run) -> None:
    """Print the results of a run of a verb."""
    {
        "split": show_split,
        "evaluate": show_evaluation,
        "predictions": show_predictions,
        "compare": show_comparison,
    }[verb](run)


def show_run(run: Run) -> None:
    """Print the counts of rows that could not be used, and the paths of the tables."""
    if Table.ACCOUNTING in run.tables:
        for note in unusable(entries_of_rows(run.rows(Table.ACCOUNTING))):
            print(escape_control_characters(note))
    outcome = "published" if run.is_new else "already published, nothing to do:"
    print(f"run {run.run_id} {outcome}")
    for table, path in run.tables.items():
        print(f"  {table:<11} {path}")


def show_report(place: str) -> None:
    """Print the path of the report."""
    print(f"  {'report':<11} {place}")


def show_split(run: Run) -> None:
    """Print the subsets and the leakage report of a split, the training subsets, and cold users and items."""
    lines, leaks = run.rows(Table.ACCOUNTING), run.rows(Table.LEAKAGE)
    subsets = run.rows(Table.SUBSETS)
    parts = [
        (row["outcome"], row["reason"] or "", f"{row['rows']:,}") for row in lines if row["source"] != FOLDS
    ]
    grid(("outcome", "reason", "rows"), parts, f"split of run {run.run_id}")
    of_folds = [row for row in lines if row["source"] == FOLDS]
    counted = [
        (
            f"fold {row['fold']} {row['subset']}" if of_folds else row["subset"],
            *(f"{row[name]:,}" for name in ("rows", "users", "items")),
            row["trained_on"] or "",
            *(with_share(row[f"cold_{kind}"], row[kind]) for kind in ("users", "items")),
        )
        for row in subsets
    ]
    grid(
        ("subset", "rows", "users", "items", "trained on", "cold users", "cold items"),
        counted,
        of=Table.SUBSETS,
    )
    if dropped := [row for row in of_folds if row["outcome"] == Outcome.DROPPED]:
        grid(("dropped in folds", "rows"), [(row["reason"], f"{row['rows']:,}") for row in dropped])
    checks = [
        (
            f"fold {row['fold']} {row['check']}" if of_folds else row["check"],
            f"{row['rows']:,}",
            f"{row['users']:,}",
            leak_verdict(row),
        )
        for row in leaks
    ]
    grid(("leakage check", "rows", "users", "leaked"), checks, of=Table.LEAKAGE)
    print(f"leaked rows: {sum(row['rows'] for row in leaks if row['leaked'])}")
    allowed = Counter[str]()
    for row in leaks:
        allowed[row["check"]] += 0 if row["leaked"] else row["rows"]
    for check, n_rows in (+allowed).items():
        print(f"{n_rows:,} {ALLOWED[check]}")
    for way in counted_ways_to_train(subsets):
        print(way)
    for text in cold_warnings(subsets):
        print(f"warning: {text}")
    show_run(run)


def with_share(count: int | None, of: int) -> str:
    """Return a count with its share of ``of`` in percent; an empty text for None."""
    if count is None:
        return ""
    return f"{count:,} ({count / of:.0%})" if of else f"{count:,}"


def show_evaluation(run: Run) -> None:
    """Print the leaderboard of an evaluation and, for a pipeline, the loss of users along its stages."""
    board = Leaderboard.of(run.rows(Table.METRICS), entries=run.rows(Table.ACCOUNTING))
    show(board, f"metrics of run {run.run_id}", console())
    if Table.FUNNEL in run.tables:
        show_funnel(run.rows(Table.STAGES), run.rows(Table.FUNNEL), console())
    show_run(run)


def show_predictions(run: Run) -> None:
    """Print one line per metric over all rows, with one column per model; then the chosen thresholds."""
    header, lines = metrics_by_model(run.rows(Table.METRICS))
    grid(header, lines, f"metrics of run {run.run_id}", of=Table.METRICS)
    if Table.THRESHOLDS in run.tables:
        shown = ("threshold", "precision", "recall", "flags", "cost")
        chosen = [row for row in run.rows(Table.THRESHOLDS) if row["segment"] == ALL]
        thresholds = [
            (row["model"], row["rule"], *(six_digits(row[name]) for name in shown)) for row in chosen
        ]
        grid(("model", "chosen for", *shown), thresholds)
    show_run(run)


def show_comparison(run: Run) -> None:
    """Print differences with intervals, a sentence for each pair and metric, and the decisions of gates."""
    compared = run.rows(Table.COMPARISONS)
    if compared:
        lines = compared_lines(compared)
        grid(COMPARED, lines, f"comparisons of run {run.run_id}", of=Table.COMPARISONS)
        for text in shortened(sentences(compared), MOST_SENTENCES):
            print(escape_control_characters(text))
    if Table.GATES in run.tables:
        gates = run.rows(Table.GATES)
        grid(GATED, gated_lines(gates), f"gates of run {run.run_id}", of=Table.GATES)
        for row in gates:
            if row["decision"] != "not_worse":
                print(
                    escape_control_characters(
                        f"gate {where(row)} of {row['model']}: {row['decision']}: {row['reason']}"
                    )
                )
    show_run(run)


def grid(
    header: Sequence[str], cells: Sequence[Sequence[str]], title: str = "", of: Table | None = None
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
        about = PRESETS[preset]
        print(f"numbers of: {about.source}\nwhy they differ: {about.differs}")
        print(f"not reproduced: {about.leaves_out or 'nothing is left out'}")
    else:
        grid(*metric_tables.ranking_table())
        grid(*metric_tables.pointwise_table())
        grid(*metric_tables.choice_table())
        grid(*metric_tables.preset_table(3))
        print("a variant: map(denominator=relevant)@5, options in brackets, after @ its own k or all")
        print("more: spark-eval metrics NAME (with examples), spark-eval metrics --preset NAME")


def show_checked(file: Path, sources: Sequence[str]) -> None:
    """Print that a config and its inputs are valid."""
    print(f"{file}: config is valid; inputs checked: {', '.join(sources) or 'none'}")


def show_status(config: Config, session: Callable[[], SparkSession], as_json: bool) -> None:
    """Print published runs and unfinished attempts."""
    store = store_of(config.output, session)
    root = store.files.root
    damaged: dict[str, DataError] = {}
    # In a remote store, counting rows takes Spark jobs: a list of all runs only checks that the tables exist.
    check = open_table if store.is_local else check_is_there
    runs = [
        summary(record, damage_of(store.files, record, check))
        for record in published(store.files, damaged.__setitem__)
    ]
    attempts = [store.about(attempt) for attempt in store.unfinished()]
    if as_json:
        unread = [
            {"run_id": run_id, "code": one.code, "message": one.message} for run_id, one in damaged.items()
        ]
        print(json.dumps({"root": root, "runs": runs, "damaged": unread, "attempts": attempts}, indent=2))
        return
    print(f"{len({run['run_id'] for run in runs})} runs published under {root}")
    for run in runs:
        sizes = ", ".join(f"{table} {n_rows:,}" for table, n_rows in run["rows"].items())
        took = "" if run["seconds"] is None else f" in {run['seconds']:.1f} s"
        print(f"  {run['run_id']} {run['verb']} {run['published_at']}{took} rows: {sizes}")
        if run["damage"] is not None:
            print(f"    {run['damage']}")
    for run_id, fault in damaged.items():
        print(f"  {run_id} is damaged: {fault.message}")
    print(f"{len(attempts)} attempts unfinished")
    for attempt in attempts:
        print(f"  {attempt['attempt']} {state(attempt)}")


def summary(record: Record, damage: DataError | None) -> dict[str, Any]:
    """Return the attributes of a verb's commit record, and the damage to its tables."""
    rows = {table: size["rows"] for table, size in record.job["tables"].items()}
    known = {"run_id": record.run_id, "verb": record.verb, "published_at": record.job["published_at"]}
    return {
        "seconds": None,
        **record.job.get("summary", {}),
        **known,
        "rows": rows,
        "damage": damage and damage.message,
    }


def state(attempt: Mapping[str, Any]) -> str:
    """Return the state of an attempt: alive or dead; without locks, the hours since its last use."""
    if "hours_out_of_use" in attempt:
        return f"not used for {attempt['hours_out_of_use']} hours; cleared away after {MOST_HOURS}"
    alive = "at work" if attempt["is_alive"] else "dead; the next run clears it away"
    return f"{alive}; last change {attempt['changed_at']}"
