"""The door: tables that are given in Python become rows with the columns of their specs, on one engine."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from spark_eval.errors import collect_errors
from spark_eval.runners.engine import parse_engine, reason_for_spark, refuse_or_explain, say_local, say_spark
from spark_eval.runners.local_rows import LocalRows, LocalTable
from spark_eval.runners.local_tables import conformed_here
from spark_eval.runners.rows import Rows, SparkRows
from spark_eval.tables.opened import OpenedTable, open_table
from spark_eval.tables.spec import NotPlain, SpecOf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Names = Mapping[str, str]


def open_given(
    given: Mapping[str, Any],
    spec_of: SpecOf,
    engine: str | None,
    names: Mapping[str, Names] | None = None,
) -> dict[str, Rows]:
    """Return frames and paths, by name, as rows of one engine; log which one, and why.

    Args:
        given: A pandas, polars or Spark frame, an Arrow table, or the path of Parquet files, of each table;
            or rows that are conformed.
        spec_of: Returns the spec of a table from its name and columns.
        engine: ``local``, ``spark``, ``auto``, or None for that of the environment.
        names: Names of columns, ours to theirs, of each table that has others than ours.

    Raises:
        ConfigError: INVALID_ENGINE, NOT_A_FRAME, UNKNOWN_CONFIG_KEY, or NEEDS_SPARK if ``local`` is asked for
            and only Spark can take a table.
        DataError: All errors of columns: missing ones, and types that are not of their kind.
    """
    names = names or {}
    chosen = parse_engine(engine)
    reason = reason_for_spark(chosen, given.items())
    if reason is None:
        try:
            tables: dict[str, Rows] = {name: one for name, one in given.items() if isinstance(one, LocalRows)}
            opened = {name: partial(open_table, name, given[name]) for name in given if name not in tables}
            tables |= tables_here(opened, spec_of, names)
        except NotPlain as fault:
            reason = refuse_or_explain(chosen, str(fault))
        else:
            say_local(sum(table.count() for table in tables.values()))
            return tables
    say_spark(reason)
    return given_on_spark(given, spec_of, names)


def given_on_spark(given: Mapping[str, Any], spec_of: SpecOf, names: Mapping[str, Names]) -> dict[str, Rows]:
    """Return frames, paths and conformed rows as rows on Spark; see ``open_given``."""
    from spark_eval.tables.frames import to_spark_frames

    on_spark = {name: one for name, one in given.items() if isinstance(one, SparkRows)}
    here = {name: one.table() for name, one in given.items() if isinstance(one, LocalRows)}
    others = {name: one for name, one in given.items() if name not in {*on_spark, *here}}
    moved = {name: SparkRows(frame) for name, frame in to_spark_frames(here).items()}
    return on_spark | moved | tables_on_spark(to_spark_frames(others), spec_of, names)


def tables_here(
    opened: Mapping[str, Callable[[], OpenedTable]],
    spec_of: SpecOf,
    names: Mapping[str, Names],
) -> dict[str, LocalTable]:
    """Return tables, given by functions that open them, as conformed tables of this process.

    Raises NotPlain if only Spark can judge one of them, and one DataError for columns that are missing.
    """

    def conformed(name: str) -> LocalTable:
        return conformed_here(spec_of, name, opened[name](), names.get(name, {}))

    return collect_errors({name: partial(conformed, name) for name in opened})


def tables_on_spark(
    frames: Mapping[str, "DataFrame"], spec_of: SpecOf, names: Mapping[str, Names]
) -> dict[str, Rows]:
    """Return Spark frames as conformed rows; raise one DataError with all errors of their columns."""
    from spark_eval.tables.inputs import conformed_on_spark

    def conformed(name: str) -> Rows:
        return SparkRows(*conformed_on_spark(spec_of, name, frames[name], names.get(name, {})))

    return collect_errors({name: partial(conformed, name) for name in frames})
