"""What an input table is: its columns, and what each of them holds. Both engines read it; no Spark here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from spark_eval.errors import DataError
from spark_eval.tables.columns import check_mapping, missing_column


class Kind(StrEnum):
    """What a column holds."""

    ID = "an integer or text"
    TEXT = "text"
    NUMBER = "a number"


# What a column of a kind needs, in the message on another type.
NEEDED: Final = {
    Kind.ID: "ids are integers or strings (in pandas: astype('Int64'))",
    Kind.TEXT: "text is needed",
    Kind.NUMBER: "a number is needed",
}


@dataclass(frozen=True)
class Column:
    """Column of an input table, by our name; ``code`` is that of the error for another type than its kind."""

    name: str
    kind: Kind
    is_needed: bool = True
    code: str = "UNSUPPORTED_TYPE"

    def fault(self, source: str, theirs: str, in_words: str, *, is_fraction: bool) -> DataError:
        """Return the error for a table whose column has another type; ``in_words`` is Spark's name of it."""
        code = self.code
        if self.kind is Kind.ID:
            code = "ID_IS_FLOAT" if is_fraction else "ID_TYPE_UNSUPPORTED"
        return DataError(code, f"{source}: column {theirs!r} is {in_words}; {NEEDED[self.kind]}")


@dataclass(frozen=True)
class TableSpec:
    """An input table: its name in messages, and its columns in the order that they get.

    Examples:
        >>> pairs = TableSpec("pairs", (Column("a", Kind.ID), Column("score", Kind.NUMBER, is_needed=False)))
        >>> [one.name for one in pairs.there(["a", "b"], {})]
        ['a']
    """

    name: str
    columns: Sequence[Column]

    def there(self, theirs: Sequence[str], names: Mapping[str, str]) -> list[Column]:
        """Return the columns to read of a table with ``theirs``: all but optional ones that it lacks."""
        return [one for one in self.columns if one.is_needed or one.name in names or one.name in theirs]

    def missing(self, ours: str, theirs: Sequence[str], names: Mapping[str, str]) -> DataError:
        """Return the error for a table that lacks a needed column; ``names`` map our columns to theirs."""
        return missing_column(self.name, ours, names, theirs)


# The spec of a table, from its name and its columns, by our names where they are mapped.
SpecOf = Callable[[str, Sequence[str]], TableSpec]


def spec_for(spec_of: SpecOf, name: str, theirs: Sequence[str], names: Mapping[str, str]) -> TableSpec:
    """Return the spec of a table with these columns; ``names`` map our columns to theirs.

    Raises ConfigError UNKNOWN_CONFIG_KEY for names that are not ours.
    """
    check_mapping(name, names)
    ours = {their: our for our, their in names.items()}
    return spec_of(name, [ours.get(column, column) for column in theirs])
