"""The verb ``split``: label the rows of a log by a rule."""

from collections import Counter
from dataclasses import asdict

from spark_eval.accounting import ACCOUNTING as ACCOUNTING_COLUMNS
from spark_eval.errors import DataError
from spark_eval.results.report.origins import leak_verdict
from spark_eval.results.subsets import (
    SUBSET_HEADER,
    SUBSET_TABLE,
    cold_warnings,
    counted_ways_to_train,
    subset_lines,
)
from spark_eval.runners.quarantine import share_faults
from spark_eval.runs.job import SPLIT, Run
from spark_eval.runs.tables import rows_of, sources_here
from spark_eval.runs.verb import ACCOUNTING, Computed, LocalInput, Published, Screen, Verb, Work
from spark_eval.runtime import events
from spark_eval.schema import FOLDS, SUBSET, Outcome, Table
from spark_eval.splits.leakage import LEAKAGE
from spark_eval.splits.rules.fold_rule import Leak
from spark_eval.splits.rules.methods import options_in_words
from spark_eval.splits.specs import LOG, specs_of_rule
from spark_eval.splits.split import split_rows

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


def compute(work: Work) -> Computed:
    """Label the log in one write, then count its subsets and its leaks."""
    source, name, rule = work.job.sources[LOG], LOG, work.config.split.rule()
    log = rows_of(specs_of_rule(rule, source.timestamp_unit), work)[name]
    events.stage("read", then="cuts")
    parts = split_rows(log, rule, source.timestamp_unit)
    events.stage("cuts", then="splits")
    folder = work.attempt.staged(Table.SPLITS)
    facts = parts.write(folder)
    entries = facts.accounting()
    events.stage("splits", facts.n_rows, then="leakage")
    DataError.raise_all(share_faults(entries, {name: parts.log.labelled}, work.job.most_quarantined))
    leaks, of_folds = parts.compared(facts, folder)
    entries += of_folds
    return Computed(
        rows={
            Table.SUBSETS: (parts.counted_subsets(folder), SUBSET_TABLE),
            Table.LEAKAGE: (leaks, LEAKAGE),
            Table.ACCOUNTING: (entries, ACCOUNTING_COLUMNS),
        },
        entries=entries,
        written={Table.SPLITS: facts.n_written},
        judged={name: parts.log.labelled},
        facts={"timeline": parts.timeline and asdict(parts.timeline)},
    )


def open_locally(work: Work) -> LocalInput:
    """Return the log as a table of this process."""
    rule = work.config.split.rule()
    return sources_here(specs_of_rule(rule, work.job.sources[LOG].timestamp_unit), work)


def show(run: Run, screen: Screen) -> None:
    """Print the subsets and the leakage report, the training subsets, and cold users and items."""
    lines, leaks = run.rows(Table.ACCOUNTING), run.rows(Table.LEAKAGE)
    subsets = run.rows(Table.SUBSETS)
    parts = [
        (row["outcome"], row["reason"] or "", f"{row['rows']:,}") for row in lines if row["source"] != FOLDS
    ]
    screen.grid(("outcome", "reason", "rows"), parts, f"split of run {run.run_id}")
    of_folds = [row for row in lines if row["source"] == FOLDS]
    screen.grid(SUBSET_HEADER, subset_lines(subsets, bool(of_folds)), of=Table.SUBSETS)
    if dropped := [row for row in of_folds if row["outcome"] == Outcome.DROPPED]:
        screen.grid(("dropped in folds", "rows"), [(row["reason"], f"{row['rows']:,}") for row in dropped])
    checks = [
        (
            f"fold {row['fold']} {row['check']}" if of_folds else row["check"],
            f"{row['rows']:,}",
            f"{row['users']:,}",
            leak_verdict(row),
        )
        for row in leaks
    ]
    screen.grid(("leakage check", "rows", "users", "leaked"), checks, of=Table.LEAKAGE)
    screen.say(f"leaked rows: {sum(row['rows'] for row in leaks if row['leaked'])}")
    allowed = Counter[str]()
    for row in leaks:
        allowed[row["check"]] += 0 if row["leaked"] else row["rows"]
    for check, n_rows in (+allowed).items():
        screen.say(f"{n_rows:,} {ALLOWED[check]}")
    for way in counted_ways_to_train(subsets):
        screen.say(way)
    for text in cold_warnings(subsets):
        screen.say(f"warning: {text}")


def options() -> list[tuple[str, str]]:
    """Return the options of all rules, with their methods and defaults, as the rules declare them."""
    return [(f"{name} ({of}; {default})", meaning) for name, of, default, meaning in options_in_words()]


VERB = Verb(
    name=SPLIT.name,
    sections=SPLIT.sections,
    tables=(
        Published(Table.SPLITS, by=(SUBSET,), is_reported=False),
        Published(Table.SUBSETS),
        Published(Table.LEAKAGE),
        ACCOUNTING,
    ),
    phases=("read", "cuts", "splits", "leakage"),
    compute=compute,
    open_locally=open_locally,
    show=show,
    options=options,
)
