"""The table of metrics on a terminal: a line per model and cutoff, a column per metric."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, Self

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from spark_eval.metrics.values import UNCUT
from spark_eval.schema import ALL, FOLDS

# What a column takes beside its text.
MARGIN: Final = 3
# A model at a cutoff; None is no cutoff.
Line = tuple[str, int | None]


@dataclass(frozen=True)
class Leaderboard:
    """Texts of all cells, by column and line; ``metrics`` in the order asked for; the names of segments."""

    lines: Sequence[Line]
    metrics: Mapping[str, Sequence[str]]
    users: Sequence[str]
    segments: Sequence[str]

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> Self:
        """From rows of the table ``metrics``; over folds, the mean of their values and the deviation."""
        values: dict[str, dict[Line, Any]] = {}
        folds: dict[tuple[str, Line, str], Any] = {}
        n_users: dict[Line, int] = {}
        segments = dict[str, None]()
        for row in rows:
            line = (row["model"], row["k"])
            if row["segment"] == ALL:
                values.setdefault(row["metric"], {})[line] = row["value"]
                n_users[line] = max(n_users.get(line, 0), row["n_users"])
            elif row["segment"] == FOLDS:
                folds[row["metric"], line, row["segment_value"]] = row["value"]
            else:
                segments[row["segment"]] = None
        lines = sorted(n_users, key=smaller_k_first)
        metrics = {
            # A metric may be measured at a cutoff of its own.
            metric: [
                f"{short(folds[metric, line, 'mean'])} ± {short(folds[metric, line, 'sd'])}"
                if (metric, line, "mean") in folds
                else short(found.get(line))
                for line in lines
            ]
            for metric, found in values.items()
        }
        return cls(lines, metrics, [f"{n_users[line]:,}" for line in lines], list(segments))

    def columns(self) -> dict[str, Sequence[str]]:
        """The columns beside those of metrics."""
        cutoffs = [UNCUT if k is None else str(k) for _, k in self.lines]
        return {"model": [model for model, _ in self.lines], "k": cutoffs, "users": self.users}

    def fitting(self, width: int) -> list[str]:
        """The first of the metrics that have room beside the other columns; one at least."""
        room = width - 1 - sum(widths(self.columns()))
        taken = list(accumulate(widths(self.metrics)))
        return list(self.metrics)[: max(1, bisect_right(taken, room))]


def widths(columns: Mapping[str, Sequence[str]]) -> list[int]:
    """What each column takes of a line."""
    return [max(map(len, (name, *cells))) + MARGIN for name, cells in columns.items()]


def show(board: Leaderboard, title: str, screen: Console) -> None:
    """Print as many metrics as the screen is wide, and say what else there is."""
    shown = board.fitting(screen.width)
    model, cutoff, users = board.columns().items()
    columns = dict([model, cutoff, *((name, board.metrics[name]) for name in shown), users])
    grid = Grid(*map(escape, columns), title=escape(title), title_justify="left")
    for cells in zip(*columns.values(), strict=True):
        grid.add_row(*map(escape, cells))
    screen.print(grid)
    if others := [name for name in board.metrics if name not in shown]:
        told = f"{len(shown)} of {len(board.metrics)} metrics fit here"
        print(f"{told}; in the table metrics also: {', '.join(others)}")
    if board.segments:
        print(f"means by {', '.join(board.segments)} stand in the table metrics")


def short(value: float | None) -> str:
    """A value with four digits; a dash where there is none."""
    return "-" if value is None else f"{value:.4f}"


def smaller_k_first(line: Line) -> tuple[bool, int, str]:
    """Order of the lines: by k, no cutoff last, then by model."""
    model, k = line
    return (k is None, k or 0, model)
