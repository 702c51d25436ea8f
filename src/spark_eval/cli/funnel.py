"""Stages of a pipeline on a terminal: users at each step, what became of relevant items, efficiencies."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rich.bar import Bar
from rich.console import Console
from rich.table import Table as Grid

from spark_eval.cli.leaderboard import drawn
from spark_eval.comparing.leaderboard import four_digits
from spark_eval.comparing.sentences import Row, TextLines
from spark_eval.metrics.values import UNCUT
from spark_eval.pipeline.quantities import (
    ADDED_RECALL,
    CONDITIONAL,
    EFFICIENCY,
    ORACLE,
    STAGE_RECALL,
    STEP_TRUTH,
    Fate,
)
from spark_eval.schema import ALL, Table

MOST_METRICS: Final = 20
BAR_WIDTH: Final = 40
EXPLAINED_STAGES: Final = (
    "oracle: the candidates in perfect order; efficiency: the share of it that a stage reaches (- if it has "
    "hits that are no candidates); conditional: as if only candidates were relevant"
)


def show_funnel(stages: Iterable[Row], funnel: Iterable[Row], screen: Console) -> None:
    """Print what the tables ``stages`` and ``funnel`` say of all users."""
    stages = [row for row in stages if row["segment"] == ALL]
    funnel = [row for row in funnel if row["segment"] == ALL]
    fates = [row for row in funnel if row["step"] in set(Fate)]
    for what, column, rows in (
        ("users", "n_users", [row for row in funnel if row not in fates]),
        ("relevant items", "n_pairs", fates),
    ):
        screen.print(barred(what, {row["step"]: row[column] for row in rows}, screen.options.ascii_only))
    screen.print(drawn(("stage", "model", "k", "recall", "only here"), recall_lines(stages)))
    header, lines = metric_lines(stages)
    screen.print(drawn(header, lines[:MOST_METRICS]))
    if len(lines) > MOST_METRICS:
        print(f"and {len(lines) - MOST_METRICS} more in the table {Table.STAGES}")
    print(EXPLAINED_STAGES)


def barred(what: str, numbers: Mapping[str, int], is_ascii: bool) -> Grid:
    """Return numbers by the step of the funnel, shares of the whole, and these as bars.

    The whole is those with truth, or where these are not among the steps the sum of all.
    """
    whole = max(numbers.get(STEP_TRUTH, sum(numbers.values())), 1)
    lines = [
        (step.replace("_", " "), f"{number:,}", f"{number / whole:.1%}", bar(number / whole, is_ascii))
        for step, number in numbers.items()
    ]
    return drawn((what, "number", "share", ""), lines)


def bar(share: float, is_ascii: bool) -> Bar | str:
    """Return a bar of which this share is full, of such letters as the screen has."""
    return "#" * round(share * BAR_WIDTH) if is_ascii else Bar(1.0, 0.0, share, width=BAR_WIDTH)


def recall_lines(stages: Iterable[Row]) -> TextLines:
    """Return a line per stage, and per model of a union: its recall, and what no other generator finds."""
    found: dict[tuple[str, str | None, int], dict[str, str]] = {}
    for row in stages:
        if row["metric"] in (STAGE_RECALL, ADDED_RECALL):
            line = found.setdefault((row["stage"], row["model"], row["k"]), {})
            line[row["metric"]] = four_digits(row["value"])
    return [
        [stage, model or "(all of them)", str(k), line[STAGE_RECALL], line.get(ADDED_RECALL, "")]
        for (stage, model, k), line in found.items()
    ]


def metric_lines(stages: Sequence[Row]) -> tuple[list[str], TextLines]:
    """Return a line per metric and cutoff, under a header: the oracle, then what each later stage reaches."""
    cells = {(row["stage"], row["metric"], row["k"]): four_digits(row["value"]) for row in stages}
    first, *later = dict.fromkeys(row["stage"] for row in stages)
    best = [(metric, k) for stage, metric, k in cells if stage == first and metric.startswith(ORACLE)]
    header = ["metric", "oracle"]
    for stage in later:
        header += [stage, "efficiency", "conditional"]
    lines = []
    for oracle, k in best:
        metric = oracle.removeprefix(ORACLE)
        line = [f"{metric}@{UNCUT if k is None else k}", cells[first, oracle, k]]
        for stage in later:
            line += [cells[stage, before + metric, k] for before in ("", EFFICIENCY, CONDITIONAL)]
        lines.append(line)
    return header, lines
