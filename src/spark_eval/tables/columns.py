"""Names of input columns: errors for unknown and missing ones. No Spark here."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from spark_eval.errors import ConfigError, DataError, nearest
from spark_eval.schema import INPUT_COLUMNS, RANK, SCORE, BuiltIn

# Separator of groups in text columns, as in MovieLens.
DIVIDER: Final = "|"
NO_TIMESTAMP_UNIT: Final = "the timestamp is a number; set timestamp_unit to s, ms or us"
NO_MODEL: Final = "no column holds the model's name; pass model=\"als\" or columns={'model': 'yours'}"


def missing_column(
    source: str, name: str, mapped: Mapping[str, str], columns: Sequence[str], needed: str = ""
) -> DataError:
    """Return the error for a table without a column for ours; ``needed`` is the purpose, if it has one."""
    what = " ".join(filter(None, (f"no column {mapped.get(name, name)!r}", needed)))
    return DataError("MISSING_COLUMN", f"{source}: {what}; {instead_of(name, mapped, columns)}")


def instead_of(name: str, mapped: Mapping[str, str], columns: Sequence[str]) -> str:
    """Return the part of a message that lists the table's columns and how to map one to ``name``."""
    known = nearest(mapped.get(name, name), columns)
    close = re.fullmatch(r"did you mean '(.*)'\?", known)
    hint = known if close else f"found: {', '.join(sorted(columns))}."
    return f"{hint} Map with columns={{{name!r}: {close[1] if close else 'yours'!r}}}"


def check_mapping(source: str, mapped: Mapping[str, str]) -> None:
    """Raise ConfigError UNKNOWN_CONFIG_KEY for a name that is not ours."""
    known = INPUT_COLUMNS[source]
    for name in mapped:
        if name not in known:
            raise ConfigError.unknown("UNKNOWN_CONFIG_KEY", "column", name, known, f"{source}.columns")


def missing_order(columns: Sequence[str]) -> DataError:
    """Return the error for recommendations without rank and score."""
    fix = f"Map with columns={{{SCORE!r}: 'yours'}}"
    message = f"recommendations need `{SCORE}` or `{RANK}`; found: {', '.join(sorted(columns))}. {fix}"
    return DataError("MISSING_COLUMN", message)


def missing_segment(name: str, columns: Sequence[str]) -> DataError:
    """Return the error for users without the column of a segment."""
    known = nearest(name, [*columns, *BuiltIn])
    return DataError("MISSING_COLUMN", f"users: no column {name!r} for the segment; {known}")
