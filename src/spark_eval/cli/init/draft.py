"""Sections of a first config: the columns of a table, and the keys derived from its rows."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.cli.init.guesses import (
    EPOCH_KINDS,
    FirstRows,
    Guess,
    ValueKind,
    column_values,
    kind_of,
    unit_of,
)
from spark_eval.cli.init.samples import TableSample
from spark_eval.config.strict_yaml import line, scalar
from spark_eval.errors import ConfigError, DataError, escape_control_characters
from spark_eval.names import model_faults
from spark_eval.schema import ITEM, LABEL, MODEL, RANK, SCORE, TIMESTAMP

# Labels of the positive class, as lower-case text.
POSITIVE: Final = frozenset({"1", "yes", "y", "true", "positive", "click", "clicked", "bought", "liked"})
# A key, its value, and the reason for that value.
KeyLine = tuple[str, Any, str]


@dataclass(frozen=True)
class DraftSection:
    """Draft of a config section: its table, its columns, further keys with comments, and notes."""

    name: str
    sample: TableSample
    columns: Mapping[str, Guess]
    keys: Sequence[KeyLine]
    notes: Sequence[str] = ()

    def lines(self) -> Iterable[str]:
        """Yield the section as YAML."""
        yield f"{self.name}:"
        yield line("  path", self.sample.path, f"{len(self.sample.rows):,} rows of it were looked at")
        if self.sample.format != "parquet":
            yield line("  format", self.sample.format)
        if self.sample.options:
            yield line("  options", dict(self.sample.options))
        yield line("  columns", None, "ours: theirs")
        for ours, guess in self.columns.items():
            yield line(f"    {ours}", guess.column, comment_of(guess))
        for key, value, comment in self.keys:
            yield line(f"  {key}", value, comment)
        yield from (f"  # {escape_control_characters(note)}" for note in self.notes)
        yield ""


def draft(
    name: str, sample: TableSample, columns: dict[str, Guess], unit: str | None, model: str | None
) -> DraftSection:
    """Return a section, with the keys derived from its columns."""
    keys: list[KeyLine] = []
    if TIMESTAMP in columns:
        keys += unit_keys(sample, columns[TIMESTAMP], unit)
    if name == "recommendations":
        keys += order_keys(sample, columns)
    if name in ("recommendations", "predictions"):
        if model is not None:
            columns.pop(MODEL, None)
        if MODEL not in columns:
            why = "given" if model else "no column names the model; from the path, confirm"
            keys.append(("model", model or model_of(sample.path), why))
    if name == "predictions":
        keys += task_keys(sample, columns)
    return DraftSection(name, sample, columns, keys, FirstRows(name, sample.rows, {}, unit).notes(columns))


def unit_keys(sample: TableSample, when: Guess, unit: str | None) -> list[KeyLine]:
    """Return the unit of a numeric timestamp; raise ConfigError CANNOT_GUESS if no unit fits."""
    values = column_values(sample.rows, when.column)
    if kind_of(values.type) not in EPOCH_KINDS:
        return []
    if unit is not None:
        return [("timestamp_unit", unit, "given")]
    found = unit_of(values)
    if found is None:
        message = f"column {when.column!r} lies between 1990 and 2099 in none of s, ms and us"
        raise ConfigError("CANNOT_GUESS", f"{message}; tell its unit: --timestamp-unit s")
    return [("timestamp_unit", found, "guessed: in it all rows seen lie between 1990 and 2099; confirm")]


def order_keys(sample: TableSample, columns: dict[str, Guess]) -> list[KeyLine]:
    """Keep either rank or score in ``columns``, whichever orders the lists; return the layout of array lists.

    Raises DataError MISSING_COLUMN if there is neither, RANK_BASE for ranks that begin at 0.
    """
    if kind_of(column_values(sample.rows, columns[ITEM].column).type) is ValueKind.LIST:
        for ours in (RANK, SCORE):
            if ours in columns and not columns[ours].is_given:
                del columns[ours]
        return [("layout", "array", "a row per user; the order of the array is the rank")]
    rank, score = columns.get(RANK), columns.get(SCORE)
    if rank is None and score is None:
        message = FirstRows("recommendations", sample.rows, {}).without(SCORE)
        raise DataError("MISSING_COLUMN", f"{message}, or --column recommendations.rank=NAME")
    from_one = rank is not None and pc.min(column_values(sample.rows, rank.column)).as_py() in (None, 1)
    if rank and score and (score.is_given or not from_one):
        del columns[RANK]
    elif rank and score:
        columns[RANK] = replace(rank, others=[*rank.others, score.column])
        del columns[SCORE]
    elif rank and not from_one:
        message = f"ranks of {rank.column!r} do not begin at 1, and nothing looks like a score"
        raise DataError("RANK_BASE", f"recommendations: {message}; write ranks from 1, each once")
    return []


def task_keys(sample: TableSample, columns: Mapping[str, Guess]) -> list[KeyLine]:
    """Return the task, the kind of scores, and the two classes, guessed from labels and scores.

    Raises ConfigError CANNOT_GUESS for text labels other than a yes and a no.
    """
    labels = pc.unique(column_values(sample.rows, columns[LABEL].column).drop_null()).sort().to_pylist()
    is_text = any(isinstance(label, str) for label in labels)
    positive = [label for label in labels if label.casefold() in POSITIVE] if is_text else labels[-1:]
    if is_text and (len(labels), len(positive)) != (2, 1):
        shown = ", ".join(map(repr, labels[:5]))
        message = f"predictions: labels of text that are not a yes and a no: {shown}"
        raise ConfigError("CANNOT_GUESS", f"{message}; conf/predictions.yaml shows task and classes")
    if len(labels) > 2:
        return [("task", "regression", "guessed: more than two labels; confirm")]
    classes = []
    if not {*labels} <= {0, 1}:
        [negative] = {*labels} - {*positive} or {0}
        classes = [("positive", positive[0], "guessed; confirm"), ("negative", negative, "guessed; confirm")]
    ends = pc.min_max(
        column_values(sample.rows, columns[SCORE].column).cast(pa.float64(), safe=False)
    ).as_py()
    is_share = ends["min"] is not None and 0 <= ends["min"] <= ends["max"] <= 1
    scores = "probability" if is_share else "raw"
    where = "lie in [0, 1]" if is_share else "go beyond [0, 1]"
    return [
        ("task", "binary", "guessed: two labels; confirm"),
        ("scores", scores, f"guessed: scores {where}; confirm"),
        *classes,
    ]


def model_of(path: str) -> str:
    """Return a model name derived from a path; ``model`` if the path has no valid name."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", Path(path).name.split(".")[0]) or MODEL
    return MODEL if model_faults([name]) else name


def comment_of(guess: Guess) -> str:
    """Return the reason for the choice of a column."""
    others = ", ".join(map(scalar, guess.others))
    also = f"; {others} would fit, too" if others else ""
    return guess.reason if guess.is_given else f"guessed: {guess.reason}; confirm{also}"
