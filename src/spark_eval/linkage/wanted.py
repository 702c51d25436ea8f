"""Columns that linkage reads of each table, and tables of this process with them. No Spark here."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from spark_eval.errors import collect_errors
from spark_eval.linkage.relations import PAIR, form_of
from spark_eval.runners.local_rows import LocalTable
from spark_eval.runners.local_tables import (
    NotPlain,
    OpenedTable,
    Takes,
    Wanted,
    columns_of,
    is_id,
    is_number,
    local_table,
)
from spark_eval.schema import INPUT_COLUMNS, LABEL, REVIEWER, SCORE
from spark_eval.tables.arrow_frames import read_arrow
from spark_eval.tables.columns import check_mapping, missing_column

REVIEWS: Final = "reviews"
REVIEW_COLUMNS: Final = INPUT_COLUMNS[REVIEWS]


def wanted_names(
    name: str, names: Mapping[str, str], theirs: Sequence[str]
) -> tuple[Sequence[str], Sequence[str]]:
    """Return our columns that are read of a table with these columns: needed ones, and optional ones.

    ``names`` maps our columns to theirs. Raises DataError MISSING_COLUMN for a table that has neither pairs
    nor clusters.
    """
    if name == REVIEWS:
        return REVIEW_COLUMNS, ()
    ours = {their: our for our, their in names.items()}
    form = form_of(name, [ours.get(column, column) for column in theirs])
    return form, (SCORE,) if form == PAIR else ()


def local_tables(
    opened: Mapping[str, Callable[[], OpenedTable]], names: Mapping[str, Mapping[str, str]]
) -> dict[str, LocalTable]:
    """Return tables, given by functions that open them, as tables of this process with our columns.

    ``names`` map our columns to theirs, by table. Raises NotPlain if only Spark can take a table, and one
    DataError for columns that are missing.
    """
    for name in opened:
        check_mapping(name, names[name])

    def conformed(name: str) -> LocalTable:
        return conformed_table(name, opened[name](), names[name])

    return collect_errors({name: partial(conformed, name) for name in opened})


def conformed_table(name: str, opened: OpenedTable, names: Mapping[str, str]) -> LocalTable:
    """Return an opened table with our columns; raise NotPlain if only Spark can take it."""
    needed, optional = wanted_names(name, names, opened[2].names)
    wanted = Wanted(
        {one: test_of(one) for one in needed},
        {one: test_of(one) for one in optional},
        lambda ours, theirs: missing_column(name, ours, names, theirs),
    )
    return local_table(name, opened, names, wanted)


def table_here(name: str, given: Any) -> LocalTable:
    """Return a frame, or the Parquet files at a path: plain ones are read batch by batch."""
    if isinstance(given, str | Path):
        with suppress(NotPlain):
            return conformed_table(name, columns_of(name, given), {})
    return LocalTable.of(with_plain_scores(read_arrow(name, given)))


def with_plain_scores(rows: pa.Table) -> pa.Table:
    """Return rows with doubles for scores that are decimals or booleans, as Spark casts them.

    Decimals pass through text: it is rounded once, as by Spark, which Arrow's own cast does not promise.

    >>> with_plain_scores(pa.table({"score": [True, None]})).to_pydict()
    {'score': [1.0, None]}
    """
    if SCORE not in rows.column_names:
        return rows
    score = rows[SCORE]
    if pa.types.is_decimal(score.type):
        score = score.cast(pa.string())
    elif not pa.types.is_boolean(score.type):
        return rows
    return rows.set_column(rows.schema.get_field_index(SCORE), SCORE, score.cast(pa.float64()))


def test_of(column: str) -> Takes:
    """Return the test of a column's type."""
    if column == SCORE:
        return is_number
    return (lambda kind: kind == pa.string()) if column in (REVIEWER, LABEL) else is_id
