"""Pipeline stages on a terminal: users at each step, fates of relevant items, and efficiencies."""

from collections.abc import Iterable, Sequence
from typing import Final

from rich.bar import Bar
from rich.console import Console

from spark_eval.cli.leaderboard import drawn
from spark_eval.kernels.stages import ADDED_RECALL, OVERLAP, PROMOTION, REPLACED, STAGE_RECALL
from spark_eval.results.leaderboard import four_digits
from spark_eval.results.report.funnel import HEADINGS, counts_of, reached_rows, said_of, with_share
from spark_eval.results.sentences import TextLines
from spark_eval.schema import ALL, Row, Table

MOST_METRICS: Final = 20
BAR_WIDTH: Final = 40
EXPLAINED_STAGES: Final = (
    "oracle: the candidates in perfect order; efficiency: the share of it that a stage reaches (- if it has "
    "hits that are no candidates); conditional: as if only candidates were relevant"
)


def show_funnel(stages: Iterable[Row], funnel: Iterable[Row], screen: Console) -> None:
    """Print the tables ``stages`` and ``funnel`` for all users."""
    stages = [row for row in stages if row["segment"] == ALL]
    funnel = [row for row in funnel if row["segment"] == ALL]
    for column in (counts_of(funnel)[0], "n_pairs"):
        lines = [
            (said_of(row["step"]), f"{row[column]:,}", f"{share or 0:.1%}", bar(share or 0, screen))
            for row, share in with_share(funnel, column, is_of_fates=column == "n_pairs")
        ]
        screen.print(drawn((HEADINGS[column], "number", "share", ""), lines))
    screen.print(drawn(("stage", "model", "k", "recall", "only here"), recall_lines(stages)))
    if changes := change_lines(stages):
        screen.print(drawn(("stage", "k", "overlap", "replaced", "largest promotion"), changes))
    header, lines_of_metrics = metric_lines(stages)
    screen.print(drawn(header, lines_of_metrics[:MOST_METRICS]))
    if len(lines_of_metrics) > MOST_METRICS:
        print(f"and {len(lines_of_metrics) - MOST_METRICS} more in the table {Table.STAGES}")
    print(EXPLAINED_STAGES)


def bar(share: float, screen: Console) -> Bar | str:
    """Return a bar filled to this share, in characters that the screen supports."""
    is_ascii = screen.options.ascii_only
    return "#" * round(share * BAR_WIDTH) if is_ascii else Bar(1.0, 0.0, share, width=BAR_WIDTH)


def recall_lines(stages: Iterable[Row]) -> TextLines:
    """Return a line per stage, and per model of a union: its recall, and the recall that only it adds."""
    found: dict[tuple[str, str | None, int], dict[str, str]] = {}
    for row in stages:
        if row["metric"] in (STAGE_RECALL, ADDED_RECALL):
            line = found.setdefault((row["stage"], row["model"], row["k"]), {})
            line[row["metric"]] = four_digits(row["value"])
    return [
        [stage, model or "(all of them)", str(k), line[STAGE_RECALL], line.get(ADDED_RECALL, "")]
        for (stage, model, k), line in found.items()
    ]


def change_lines(stages: Iterable[Row]) -> TextLines:
    """Return a line per stage that reranks another one: what it changes of that list."""
    lines: dict[tuple[str, int], list[str]] = {}
    for row in stages:
        if row["metric"] in (OVERLAP, REPLACED, PROMOTION):
            lines.setdefault((row["stage"], row["k"]), []).append(four_digits(row["value"]))
    return [[stage, str(k), *values] for (stage, k), values in lines.items()]


def metric_lines(stages: Sequence[Row]) -> tuple[list[str], TextLines]:
    """Return a header, and a line per metric and cutoff: the oracle, then the values of each later stage."""
    lines: dict[str, list[str]] = {}
    for row in reached_rows(stages):
        of_stage = ("value",) if row["is oracle"] else ("value", "efficiency", "conditional")
        cells = [four_digits(row[name]) for name in of_stage]
        lines.setdefault(row["measure"], [row["measure"]]).extend(cells)
    _, *later = dict.fromkeys(row["stage"] for row in stages)
    of_later = [name for stage in later for name in (stage, "efficiency", "conditional")]
    return ["metric", "oracle", *of_later], list(lines.values())
