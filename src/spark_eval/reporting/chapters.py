"""What a page holds: chapters of statements, tables, and charts that are drawn from the tables.

Every number is embedded once, in a ``Dataset``. Tables and charts are views of it, which the page's own
script draws.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby
from typing import Any, Final

from spark_eval.schema import MODEL, SEGMENT_VALUE

# Numbers are embedded with so many digits.
DIGITS: Final = 9
# The words of a gate.
PASSED: Final = "PASSED"
FAILED: Final = "FAILED"


class Form(StrEnum):
    """How a view shows its rows; ``page.js`` has a function for each."""

    TABLE = "table"
    BOARD = "board"
    HEAT = "heat"
    LINES = "lines"
    INTERVALS = "intervals"
    STACK = "stack"
    SPANS = "spans"
    BARS = "bars"
    SCATTER = "scatter"


# Which column is what in every view of a form, or in all but some.
USUAL: Final[Mapping[Form, Mapping[str, Any]]] = {
    Form.BOARD: {"columns": "metric", "value": "value", "mark": "mark", "n": "n"},
    Form.HEAT: {"rows": SEGMENT_VALUE, "columns": MODEL, "value": "value", "n": "n"},
    Form.LINES: {"x": "x", "y": "value", "series": MODEL},
    Form.INTERVALS: {"label": MODEL, "value": "value", "low": "ci_low", "high": "ci_high"},
    Form.STACK: {"label": MODEL},
    Form.SPANS: {"lane": "fold", "part": "part", "start": "start", "end": "end"},
    Form.SCATTER: {"label": MODEL, "x": "value", "front": "front"},
}


class Tone(StrEnum):
    """How a statement is meant. The page says it in colour and in a word."""

    PLAIN = "plain"
    GOOD = "good"
    BAD = "bad"
    WARNING = "warning"


@dataclass(frozen=True)
class Statement:
    """A sentence; ``word`` stands before it where its tone is not plain."""

    text: str
    tone: Tone = Tone.PLAIN
    word: str = ""


def warning(word: str, text: str) -> Statement:
    """Return a sentence that warns."""
    return Statement(text, Tone.WARNING, word)


@dataclass(frozen=True)
class Dataset:
    """Rows that views are drawn from, column by column; ``headings`` of columns not called by their name."""

    name: str
    columns: Mapping[str, Sequence[Any]]
    headings: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        name: str,
        rows: Iterable[Mapping[str, Any]],
        columns: Sequence[str],
        headings: Mapping[str, str] | None = None,
    ) -> "Dataset":
        """Take these columns of rows."""
        rows = list(rows)
        return cls(name, {column: [row[column] for row in rows] for column in columns}, headings or {})

    def embedded(self) -> dict[str, Any]:
        """Return the columns as JSON takes them."""
        columns = {name: packed_column(values) for name, values in self.columns.items()}
        headings = {name: heading for name, heading in self.headings.items() if name in columns}
        return {"columns": columns, "headings": headings}


@dataclass(frozen=True)
class View:
    """Rows of a dataset as a table, or as a chart with that table behind it.

    ``shown`` names the columns of the table, by default all. ``where`` keeps rows whose column has one of
    these values. ``drawn`` says which column is what (x, y, series, label, low, high).
    """

    kind: Form
    title: str
    dataset: Dataset
    alt: str = ""
    shown: Sequence[str] | None = None
    where: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    drawn: Mapping[str, Any] = field(default_factory=dict)
    is_small: bool = False
    note: str = ""

    def embedded(self) -> dict[str, Any]:
        """Return the view as JSON takes it."""
        shown = list(self.dataset.columns) if self.shown is None else self.shown
        return {**vars(self), "dataset": self.dataset.name, "shown": shown}


@dataclass(frozen=True)
class Chapter:
    """A part of the page. Readers choose a value of each column of ``picks``, for all views at once.

    ``texts`` are titles with text that is shown as it is, ``terms`` names with what they mean; ``card`` has a
    line for each of its names.
    """

    title: str
    statements: Sequence[Statement] = ()
    views: Sequence[View] = ()
    picks: Sequence[str] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    terms: Mapping[str, str] = field(default_factory=dict)
    card: Mapping[str, Statement] = field(default_factory=dict)


def chart(
    kind: Form,
    title: str,
    dataset: Dataset,
    alt: str,
    *,
    shown: Sequence[str] | None = None,
    where: Mapping[str, Sequence[Any]] | None = None,
    is_small: bool = False,
    note: str = "",
    **drawn: Any,
) -> View:
    """Return a chart; ``alt`` says what it shows, ``drawn`` which column is what beside the usual ones."""
    return View(
        kind, title, dataset, alt, shown, where or {}, {**USUAL.get(kind, {}), **drawn}, is_small, note
    )


def packed_column(values: Sequence[Any]) -> Any:
    """Return a column for JSON: numbers of DIGITS digits, or distinct values and the place of each row's.

    ``runs`` are lengths of runs of equal values, where these make it shorter.

    >>> packed_column(["a", "b", "a"])
    {'names': ['a', 'b'], 'places': [0, 1, 0]}
    >>> packed_column(["a", "a", "a", "a", "b", "b"])
    {'names': ['a', 'b'], 'places': [0, 1], 'runs': [4, 2]}
    >>> packed_column([0.1 + 0.2, 7, None, float("nan")])
    [0.3, 7, None, None]
    """
    if not any(isinstance(value, str) for value in values):
        return [rounded(value) for value in values]
    names = {name: place for place, name in enumerate(dict.fromkeys(values))}
    runs = [(names[value], len(list(group))) for value, group in groupby(values)]
    if 2 * len(runs) < len(values):
        return {
            "names": list(names),
            "places": [place for place, _ in runs],
            "runs": [length for _, length in runs],
        }
    return {"names": list(names), "places": [names[value] for value in values]}


def rounded(value: Any) -> Any:
    """Return a number with DIGITS digits; None for what is none."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value
