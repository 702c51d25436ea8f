"""The leaderboard on a terminal, with the metrics that fit its width."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

from rich.bar import Bar
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from spark_eval.errors import escape_control_characters
from spark_eval.results.leaderboard import Columns, Leaderboard

# Width of a column in addition to its text.
MARGIN: Final = 3


def fitting(board: Leaderboard, width: int) -> Columns:
    """Return the first metrics that fit next to the other columns; at least one."""
    room = width - 1 - sum(widths(board.lines)) - sum(widths(board.users))
    n_fitting = max(1, bisect_right(list(accumulate(widths(board.metrics))), room))
    return dict(list(board.metrics.items())[:n_fitting])


def widths(columns: Columns) -> list[int]:
    """Return the width of each column in characters."""
    return [max(map(len, (name, *cells))) + MARGIN for name, cells in columns.items()]


def show(board: Leaderboard, title: str, screen: Console) -> None:
    """Print the metrics that fit the screen, and name the others."""
    shown = fitting(board, screen.width)
    columns = {**board.lines, **shown, **board.users}
    screen.print(drawn(columns, zip(*columns.values(), strict=True), title))
    if others := [name for name in board.metrics if name not in shown]:
        fit = f"{len(shown)} of {len(board.metrics)} metrics fit here"
        print(f"{fit}; in the table metrics also: {', '.join(others)}")
    for note in board.notes:
        print(note)


def drawn(header: Iterable[str], rows: Iterable[Sequence[str | Bar]], title: str = "") -> Grid:
    """Return rows of text and bars as a table with a title; markup in texts is escaped."""
    grid = Grid(*map(shown_as_is, header), title=shown_as_is(title), title_justify="left")
    for row in rows:
        grid.add_row(*(shown_as_is(cell) if isinstance(cell, str) else cell for cell in row))
    return grid


def shown_as_is(text: str) -> str:
    """Return text with control characters and markup escaped."""
    return escape(escape_control_characters(text))
