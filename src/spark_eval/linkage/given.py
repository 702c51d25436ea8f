"""Relations of tables that are given in Python: in this process, or on Spark."""

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_eval.errors import collect_errors
from spark_eval.linkage.coded import CodedRelations
from spark_eval.linkage.plan import Sources
from spark_eval.linkage.relations import Relations
from spark_eval.linkage.wanted import table_here
from spark_eval.results.driver_tables import is_of_spark
from spark_eval.runners.engine import parse_engine, reason_for_spark, refuse_or_explain, say_local, say_spark
from spark_eval.runtime.local_files import local_path
from spark_eval.tables.arrow_frames import read_arrow


def relations_of_tables(
    given: Mapping[str, Any],
    engine: str | None,
    resources: ExitStack,
    sources: Sources,
    scored: str | None = None,
) -> Relations:
    """Return the relations of frames and paths; on Spark for its frames, and for paths of other machines.

    The scores of the table ``scored`` are kept. What Spark persists is released with ``resources``.
    """
    chosen = parse_engine(engine)
    reason = reason_for_spark(chosen, given.items())
    elsewhere = [
        one for one in given.values() if isinstance(one, str | Path) and local_path(str(one)) is None
    ]
    if reason is None and elsewhere:
        reason = refuse_or_explain(chosen, f"{elsewhere[0]} is not on this machine")
    if reason is None:
        tables = collect_errors({name: partial(table_here, name, one) for name, one in given.items()})
        say_local(sum(table.n_rows for table in tables.values()))
        return CodedRelations.of(tables, scored, sources)
    say_spark(reason)
    from spark_eval.linkage.conform import conform_links
    from spark_eval.linkage.frames import FrameRelations
    from spark_eval.tables.frames import to_spark_frames

    frames = to_spark_frames(given)
    conformed = {name: partial(conform_links, frame, name, {}) for name, frame in frames.items()}
    return FrameRelations.of(collect_errors(conformed), resources, sources)


def small_table(name: str, given: Any) -> pa.Table:
    """Return a small table of this process: a sample, or reviews; a Spark frame is collected."""
    return given.toArrow() if is_of_spark(given) else read_arrow(name, given)
