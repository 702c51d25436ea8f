"""The spec of an input table: its columns, each with its kind. Both engines read it; no Spark here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from spark_eval.errors import DataError
from spark_eval.schema import MODEL
from spark_eval.tables.columns import NO_MODEL, check_mapping, missing_column


class Kind(StrEnum):
    """Kind of a column: its content."""

    ID = "an integer or text"
    TEXT = "anything, as text"
    WHOLE = "an integer"
    NUMBER = "a number"
    SCORE = "a number; the workers find where a double rounds it"
    ORDERED = "a number that orders rows, as exact as it is"
    RANK = "a whole number, of any type of numbers"
    SET = "a list of text or integers, or text divided by |"
    FLAG = "a boolean"
    LABELS = "a list of text or integers, or anything else as text divided by |"
    EMBEDDING = "a vector of an item: a list of numbers, or a map of integers to numbers"
    EXACT = "a number that a double holds"
    INSTANT = "a point in time"
    MICROSECONDS = "a point in time, which Spark gives in microseconds since 1970"
    SCALAR = "text, a boolean or a number"
    VALUE = "anything that files hold"
    STRATUM = "anything; rows are dealt out by its text"
    VECTOR = "a list of numbers"
    CLASS_NAME = "a class that is text"
    CLASS_NUMBER = "a class that is a number"
    ORIGINAL = "a column as it was given, for the quarantine"


# What a column of a kind needs, in the message on another type.
NEEDED: Final = {
    Kind.ID: "ids are integers or strings (in pandas: astype('Int64'))",
    Kind.TEXT: "text is needed",
    Kind.WHOLE: "a whole number is needed",
    Kind.NUMBER: "a number is needed",
    Kind.SCORE: "a number is needed",
    Kind.EXACT: "a number is needed",
    Kind.ORDERED: "a number is needed",
    Kind.RANK: "ranks are whole numbers from 1; cast them, in pandas by .astype(int)",
    Kind.SET: "give an array of text or integers, or text divided by |",
    Kind.FLAG: "a boolean is needed: true for items that keep the constraint",
    Kind.LABELS: "give an array of text or integers, or one value",
    Kind.EMBEDDING: "give an array of numbers, or a map of int to double",
    Kind.VECTOR: "a list of numbers is needed",
}


TOO_LONG: Final = "has an integer of more than 64 bits; write ids as text"


class NotPlain(Exception):
    """Only Spark can take this table; the text says why."""


@dataclass(frozen=True)
class Column:
    """Column of an input table, by our name.

    Attributes:
        name: Its name in our rows.
        kind: What it holds.
        is_needed: False if the table may lack it.
        code: Code of the error for another type than its kind.
        named: Its name in the table and in mappings; by default that in our rows.
        needs: End of the message on another type; by default that of the kind.
        purpose: What it is needed for, in the message on a table that lacks it.
        is_mapped: False if it has that name in the table whatever mappings say.
        unit: Unit of a point in time that is a number: s, ms or us.
        timezone: Zone of a point in time without one.
    """

    name: str
    kind: Kind
    is_needed: bool = True
    code: str = "UNSUPPORTED_TYPE"
    named: str = ""
    needs: str = ""
    purpose: str = ""
    is_mapped: bool = True
    unit: str | None = None
    timezone: str = "UTC"

    @property
    def key(self) -> str:
        """The name that mappings have for it."""
        return self.named or self.name

    def theirs(self, names: Mapping[str, str]) -> str:
        """Return its name in the table; ``names`` map our columns to theirs."""
        return names.get(self.key, self.key) if self.is_mapped else self.key

    def fault(self, source: str, theirs: str, in_words: str, *, is_fraction: bool = False) -> DataError:
        """Return the error for a table whose column has another type; ``in_words`` is Spark's name of it."""
        code = self.code
        if self.kind is Kind.ID:
            code = "ID_IS_FLOAT" if is_fraction else "ID_TYPE_UNSUPPORTED"
        needs = self.needs or NEEDED[self.kind]
        return DataError(code, f"{source}: column {theirs!r} is {in_words}; {needs}")


@dataclass(frozen=True)
class TableSpec:
    """An input table.

    Attributes:
        name: Its name in messages.
        columns: Its columns, in the order that they get.
        is_judged_by_workers: True if the workers may read its files themselves: they find invalid rows.
        faults: Errors of its columns that are known from their names.
        lacking: Of columns with an error of their own where they are missing: its maker, from their columns.
        only_spark: Why only Spark can read it; None if this process can, too.
        unfold: Function of a Spark frame that returns a row for each element of its lists, by our names.

    Examples:
        >>> pairs = TableSpec("pairs", (Column("a", Kind.ID), Column("score", Kind.NUMBER, is_needed=False)))
        >>> [one.name for one in pairs.there(["a", "b"], {})]
        ['a']
    """

    name: str
    columns: Sequence[Column]
    is_judged_by_workers: bool = False
    faults: Sequence[DataError] = ()
    lacking: Mapping[str, Callable[[Sequence[str]], DataError]] = field(default_factory=dict)
    only_spark: str | None = None
    unfold: Callable[[Any], Any] | None = None

    def there(self, theirs: Sequence[str], names: Mapping[str, str]) -> list[Column]:
        """Return the columns to read of a table with ``theirs``: all but optional ones that it lacks."""
        return [
            one
            for one in self.columns
            if one.is_needed
            or one.theirs(names) in theirs
            or one.theirs(names).split(".")[0] in theirs
            or (one.key in names and one.kind is not Kind.ORIGINAL)
        ]

    def missing(self, column: Column, theirs: Sequence[str], names: Mapping[str, str]) -> DataError:
        """Return the error for a table that lacks a needed column; ``names`` map our columns to theirs."""
        if column.name == MODEL and MODEL not in names:
            return DataError("MISSING_MODEL", f"{self.name}: {NO_MODEL}")
        if column.name in self.lacking and column.key not in names:
            return self.lacking[column.name](theirs)
        return missing_column(self.name, column.key, names, theirs, column.purpose)


USERS: Final = "users"
ITEMS: Final = "items"
# Kinds of points in time.
TIMES: Final = (Kind.INSTANT, Kind.MICROSECONDS)
# The spec of a table, from its name and its columns, by our names where they are mapped.
SpecOf = Callable[[str, Sequence[str]], TableSpec]


def spec_for(spec_of: SpecOf, name: str, theirs: Sequence[str], names: Mapping[str, str]) -> TableSpec:
    """Return the spec of a table with these columns; ``names`` map our columns to theirs.

    Raises ConfigError UNKNOWN_CONFIG_KEY for names that are not ours.
    """
    if names and name != USERS:  # its segments may be mapped, too
        check_mapping(name, names)
    ours = {their: our for our, their in names.items()}
    return spec_of(name, [ours.get(column, column) for column in theirs])
