"""Contents of a report page: chapters of statements, tables, and charts drawn from the tables.

Every number is embedded once, in a ``Dataset``. Tables and charts are views of a dataset. The page's own
script draws them.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby
from typing import Any, Final

from spark_eval.schema import MODEL, SEGMENT_VALUE, Row

# Significant digits of embedded numbers.
DIGITS: Final = 9
# Width of a drawn interval, and the room left at its ends.
WIDTH: Final = 200.0
MARGIN: Final = 6.0
# Words for the result of a gate.
PASSED: Final = "PASSED"
FAILED: Final = "FAILED"
UNDECIDED: Final = "UNDECIDED"


class Form(StrEnum):
    """Form of a view; ``page.js`` has a function for each."""

    TABLE = "table"
    BOARD = "board"
    HEAT = "heat"
    LINES = "lines"
    INTERVALS = "intervals"
    STACK = "stack"
    SPANS = "spans"
    BARS = "bars"
    SCATTER = "scatter"
    CROSSES = "crosses"


# Usual roles of columns, by form; a view can override them.
USUAL: Final[Mapping[Form, Row]] = {
    Form.BOARD: {"columns": "metric", "value": "value", "mark": "mark", "n": "n"},
    Form.HEAT: {"rows": SEGMENT_VALUE, "columns": MODEL, "value": "value", "n": "n"},
    Form.LINES: {"x": "x", "y": "value", "series": MODEL},
    Form.INTERVALS: {"label": MODEL, "value": "value", "low": "ci_low", "high": "ci_high"},
    Form.STACK: {"label": MODEL},
    Form.SPANS: {"lane": "fold", "part": "part", "start": "start", "end": "end"},
    Form.SCATTER: {"label": MODEL, "x": "value", "front": "front"},
}


class Tone(StrEnum):
    """Tone of a statement; the page shows it as a colour and a word."""

    PLAIN = "plain"
    GOOD = "good"
    BAD = "bad"
    WARNING = "warning"


@dataclass(frozen=True)
class Statement:
    """A sentence of the report; ``word`` precedes it unless the tone is plain."""

    text: str
    tone: Tone = Tone.PLAIN
    word: str = ""


@dataclass(frozen=True)
class Span:
    """Interval with its middle, 0 and the allowed limit, drawn from 0 to WIDTH; full if it is certain."""

    low: float
    middle: float
    high: float
    zero: float
    is_certain: bool
    limit: float | None = None

    @classmethod
    def of(cls, low: float, middle: float, high: float) -> "Span":
        """Return an interval with 0 in sight; it is certain if it excludes 0."""
        return cls.within((low, high), low, middle, high, is_certain=not low <= 0 <= high)

    @classmethod
    def within(
        cls,
        ends: tuple[float, float],
        low: float,
        middle: float,
        high: float,
        *,
        is_certain: bool,
        limit: float | None = None,
    ) -> "Span":
        """Return an interval on a scale that shows ``ends`` and 0; a limit outside of it is not drawn."""
        first, last = min(*ends, 0.0), max(*ends, 0.0)
        scale = (WIDTH - 2 * MARGIN) / ((last - first) or 1.0)

        def place(value: float) -> float:
            return round(MARGIN + (value - first) * scale, 2)

        drawn = None if limit is None or not first <= limit <= last else place(limit)
        return cls(place(low), place(middle), place(high), place(0.0), is_certain, drawn)


@dataclass(frozen=True)
class Tile:
    """A number in large type with its name, a line below, and an interval if there is one."""

    name: str
    value: str
    detail: str
    span: Span | None = None


@dataclass(frozen=True)
class CardLine:
    """Line of a verdict card: a goal or guardrail, its change with the interval, and its result."""

    name: str
    role: str
    change: str
    p: str
    result: Statement
    span: Span | None


@dataclass(frozen=True)
class VerdictCard:
    """Decision on one treatment, what it follows from, and whether the experiment can be trusted."""

    title: str
    decision: Statement
    lines: Sequence[CardLine]
    trust: Statement


def warning(word: str, text: str) -> Statement:
    """Return a statement that warns."""
    return Statement(text, Tone.WARNING, word)


@dataclass(frozen=True)
class Dataset:
    """Data of views by column; ``headings`` has the headings that differ from the column's name."""

    name: str
    columns: Mapping[str, Sequence[Any]]
    headings: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        name: str,
        rows: Iterable[Row],
        columns: Sequence[str],
        headings: Mapping[str, str] | None = None,
    ) -> "Dataset":
        """Build a dataset from the given columns of rows."""
        rows = list(rows)
        return cls(name, {column: [row[column] for row in rows] for column in columns}, headings or {})

    def embedded(self) -> dict[str, Any]:
        """Return the columns as values for JSON."""
        columns = {name: packed_column(values) for name, values in self.columns.items()}
        headings = {name: heading for name, heading in self.headings.items() if name in columns}
        return {"columns": columns, "headings": headings}


@dataclass(frozen=True)
class View:
    """A table of a dataset, or a chart of it with that table.

    ``shown`` names the columns of the table, by default all. ``where`` keeps the rows with one of the given
    values in a column. ``drawn`` maps roles (x, y, series, label, low, high) to columns. A folded table is
    one line until readers open it.
    """

    kind: Form
    title: str
    dataset: Dataset
    alt: str = ""
    shown: Sequence[str] | None = None
    where: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    drawn: Row = field(default_factory=dict)
    is_small: bool = False
    note: str = ""
    is_folded: bool = False

    def embedded(self) -> dict[str, Any]:
        """Return the view as values for JSON."""
        shown = list(self.dataset.columns) if self.shown is None else self.shown
        return {**vars(self), "dataset": self.dataset.name, "shown": shown}


@dataclass(frozen=True)
class Chapter:
    """A section of the page.

    ``picks`` are columns: readers choose a value of each for all views of the chapter. ``texts`` maps titles
    to preformatted text. ``terms`` maps names to their meanings. ``headline`` and ``tiles`` are what is read
    first, ``card`` maps names to lines below them. ``verdicts`` are cards on experiments.
    """

    title: str
    statements: Sequence[Statement] = ()
    views: Sequence[View] = ()
    picks: Sequence[str] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    terms: Mapping[str, str] = field(default_factory=dict)
    card: Mapping[str, Statement] = field(default_factory=dict)
    headline: Statement | None = None
    tiles: Sequence[Tile] = ()
    verdicts: Sequence[VerdictCard] = ()


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
    """Return a chart; ``alt`` describes it, ``drawn`` adds roles of columns to the usual ones of its form."""
    return View(
        kind, title, dataset, alt, shown, where or {}, {**USUAL.get(kind, {}), **drawn}, is_small, note
    )


def packed_column(values: Sequence[Any]) -> Any:
    """Return a column packed for JSON.

    Numbers have DIGITS significant digits. Texts become distinct values (``names``) and an index per row
    (``places``). ``runs`` are the lengths of runs of equal values, if they make the column shorter.

    >>> packed_column(["a", "b", "a"])
    {'names': ['a', 'b'], 'places': [0, 1, 0]}
    >>> packed_column(["a", "a", "a", "a", "b", "b"])
    {'names': ['a', 'b'], 'places': [0, 1], 'runs': [4, 2]}
    >>> packed_column([0.1 + 0.2, 7, None, float("nan")])
    [0.3, 7, None, None]
    """
    if not any(isinstance(value, str) for value in values):
        return [rounded(value) for value in values]
    names = {name: index for index, name in enumerate(dict.fromkeys(values))}
    runs = [(names[value], len(list(group))) for value, group in groupby(values)]
    if 2 * len(runs) < len(values):
        return {
            "names": list(names),
            "places": [index for index, _ in runs],
            "runs": [length for _, length in runs],
        }
    return {"names": list(names), "places": [names[value] for value in values]}


def rounded(value: Any) -> Any:
    """Return a float with DIGITS significant digits, None if it is not finite; other values unchanged."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value
