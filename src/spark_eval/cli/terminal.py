"""Output of the commands: main results as tables, then the paths of what was written."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from spark_eval.accounting import entries_of_rows, unmatched_lists, unusable
from spark_eval.cli.funnel import show_funnel
from spark_eval.cli.leaderboard import drawn, show
from spark_eval.errors import escape_control_characters
from spark_eval.results.leaderboard import Leaderboard
from spark_eval.runs.job import Run
from spark_eval.runs.verb import Verb
from spark_eval.schema import Row, Table

if TYPE_CHECKING:
    pass

# Maximum number of lines of a published table; several classes give many more.
MOST_LINES = 50


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
