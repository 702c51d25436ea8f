"""The table of metrics on a terminal: a line per model and cutoff, a column per metric."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, Self

from rich.bar import Bar
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from spark_eval.comparing.marks import EXPLAINED, Line, marks_of
from spark_eval.errors import printable
from spark_eval.metrics.values import UNCUT
from spark_eval.schema import ALL, FOLDS

# What a column takes beside its text.
MARGIN: Final = 3
Columns = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Leaderboard:
    """Texts of all cells, by column and line; metrics in the order asked for; the names of segments."""

    lines: Columns
    metrics: Columns
    users: Columns
    segments: Sequence[str]
    is_marked: bool = False

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> Self:
        """Read rows of the table ``metrics``; over folds, show the mean of their values and the deviation."""
        rows = list(rows)
        cells: dict[tuple[str, Line], str] = {}
        over_folds: dict[tuple[str, Line], dict[str, str]] = {}
        n_users: dict[Line, int] = {}
        segments = dict[str, None]()
        for row in rows:
            line = (row["model"], row["k"])
            if row["segment"] == ALL:
                cells[row["metric"], line] = four_digits(row["value"])
                n_users[line] = max(n_users.get(line, 0), row["n_users"])
            elif row["segment"] == FOLDS:
                over_folds.setdefault((row["metric"], line), {})[row["segment_value"]] = four_digits(
                    row["value"]
                )
            else:
                segments[row["segment"]] = None
        marks = marks_of(rows)
        cells |= {key: cells[key] + mark for key, mark in marks.items()}
        cells |= {key: f"{numbers['mean']} ± {numbers['sd']}" for key, numbers in over_folds.items()}
        lines = sorted(n_users, key=smaller_k_first)
        metrics = dict.fromkeys(metric for metric, _ in cells)
        return cls(
            {"model": [model for model, _ in lines], "k": [UNCUT if k is None else str(k) for _, k in lines]},
            # A metric may be measured at a cutoff of its own.
            {metric: [cells.get((metric, line), four_digits(None)) for line in lines] for metric in metrics},
            {"users": [f"{n_users[line]:,}" for line in lines]},
            list(segments),
            bool(marks),
        )

    def fitting(self, width: int) -> Columns:
        """Return the first of the metrics that have room beside the other columns; one at least."""
        room = width - 1 - sum(widths(self.lines)) - sum(widths(self.users))
        n_fitting = max(1, bisect_right(list(accumulate(widths(self.metrics))), room))
        return dict(list(self.metrics.items())[:n_fitting])


def widths(columns: Columns) -> list[int]:
    """Return what each column takes of a line."""
    return [max(map(len, (name, *cells))) + MARGIN for name, cells in columns.items()]


def show(board: Leaderboard, title: str, screen: Console) -> None:
    """Print as many metrics as the screen is wide, and say what else there is."""
    shown = board.fitting(screen.width)
    columns = {**board.lines, **shown, **board.users}
    screen.print(drawn(columns, zip(*columns.values(), strict=True), title))
    if others := [name for name in board.metrics if name not in shown]:
        fit = f"{len(shown)} of {len(board.metrics)} metrics fit here"
        print(f"{fit}; in the table metrics also: {', '.join(others)}")
    if board.is_marked:
        print(EXPLAINED)
    if board.segments:
        print(f"means by {', '.join(board.segments)} stand in the table metrics")


def drawn(header: Iterable[str], rows: Iterable[Sequence[str | Bar]], title: str = "") -> Grid:
    """Return rows of text and bars as a table with a title; whatever stands in texts is shown, not done."""
    grid = Grid(*map(shown_as_is, header), title=shown_as_is(title), title_justify="left")
    for row in rows:
        grid.add_row(*(shown_as_is(cell) if isinstance(cell, str) else cell for cell in row))
    return grid


def shown_as_is(text: str) -> str:
    """Return text in which nothing moves a cursor or is markup."""
    return escape(printable(text))


def four_digits(value: float | None) -> str:
    """Return a value with four digits; a dash where there is none."""
    return "-" if value is None else f"{value:.4f}"


def smaller_k_first(line: Line) -> tuple[bool, int, str]:
    """Return the order of the lines: by k, no cutoff last, then by model."""
    model, k = line
    return (k is None, k or 0, model)
