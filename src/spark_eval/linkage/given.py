"""Relations of tables that are given in Python, on the engine that opens them."""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import pyarrow as pa

from spark_eval.linkage.coded import CodedRelations
from spark_eval.linkage.plan import Sources
from spark_eval.linkage.relations import Relations
from spark_eval.results.driver_tables import is_of_spark
from spark_eval.runners.local_rows import LocalTable
from spark_eval.runners.rows import Rows
from spark_eval.runners.spread import shuffle_by_size
from spark_eval.tables.arrow_frames import read_arrow


def relations_of(
    tables: Mapping[str, Rows], resources: ExitStack, sources: Sources, scored: str | None = None
) -> Relations:
    """Return the relations of conformed tables, where their rows are.

    The scores of the table ``scored`` are kept. What Spark persists is released with ``resources``.
    """
    here = {name: table for name, table in tables.items() if isinstance(table, LocalTable)}
    if len(here) == len(tables):
        return CodedRelations.of(here, scored, sources)
    from spark_eval.linkage.frames import FrameRelations

    frames = {name: table.result() for name, table in tables.items()}
    shuffle_by_size(list(frames.values()), resources)
    return FrameRelations.of(frames, resources, sources)


def small_table(name: str, given: Any) -> pa.Table:
    """Return a small table of this process: a sample, or reviews; a Spark frame is collected."""
    return given.toArrow() if is_of_spark(given) else read_arrow(name, given)
