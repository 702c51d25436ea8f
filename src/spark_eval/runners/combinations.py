"""Combinations of labels: the number of keys, such as users, whose rows have exactly these labels."""

from collections.abc import Iterator, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.codes import to_numpy
from spark_eval.arrow.files import Batches
from spark_eval.runners.rows import Rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Columns to aggregate, and the function.
Aggregate = tuple[list[str], str]
COUNTED: Final[Aggregate] = ([], "count_all")
# Bits of the labels of a key: 1 for the first label, 2 for the second one, 4, ...
BITS: Final = "spark_eval_bits"
# Key, group, bits, and the number of keys with them in the group, or of rows for the key None.
Combination = tuple[str | None, int, int, int]


def combinations(
    rows: Rows, keys: Sequence[str], group: str, label: str, labels: Sequence[str]
) -> list[Combination]:
    """Count the keys by the combination of labels that their rows have, and the rows, in each group."""
    if rows.session is None:
        return list(combinations_here(rows, keys, group, label, labels))
    from pyspark.sql import functions as F

    bits = [F.when(F.col(label) == name, 1 << index) for index, name in enumerate(labels)]
    frame = rows.result().select(*keys, group, F.coalesce(*bits, F.lit(0)).alias(BITS))
    tables: dict[str | None, DataFrame] = {None: frame}
    for key in keys:
        tables[key] = frame.groupBy(group, key).agg(F.bit_or(BITS).alias(BITS))
    grouped = [
        table.groupBy(F.lit(key).alias("key"), group, BITS).agg(F.count("*").alias("n"))
        for key, table in tables.items()
    ]
    return [tuple(row) for row in reduce(type(frame).unionAll, grouped).collect()]


def combinations_here(
    rows: Rows, keys: Sequence[str], group: str, label: str, labels: Sequence[str]
) -> Iterator[Combination]:
    """Yield the same of batches in this process; distinct keys are in memory."""
    for key in (None, *keys):
        names, counted = [group, label], [COUNTED]
        fields = [*((name, rows.kind(name)) for name in names), ("count_all", pa.int64())]
        if key is not None:
            names, counted = [group, key, label], []
            fields = [(name, rows.kind(name)) for name in names]
        table = rows.map(partial(grouped, names, counted), pa.schema(fields)).table()
        if key is not None:
            table = table.group_by(names, use_threads=False).aggregate([])
        indices = to_numpy(pc.index_in(table[label], pa.array(labels)))
        table = table.append_column(BITS, pa.array(np.int64(1) << indices.astype(np.int64)))
        if key is None:
            table = table.group_by([group, BITS], use_threads=False).aggregate([("count_all", "sum")])
        else:  # each label of a key is here once, so that the sum of bits is their union
            table = table.group_by([group, key], use_threads=False).aggregate([(BITS, "sum")])
            table = table.group_by([group, f"{BITS}_sum"], use_threads=False).aggregate([([], "count_all")])
        for one in zip(*table.to_pydict().values(), strict=True):
            yield key, *one


def grouped(names: list[str], aggregates: list[Aggregate], batches: Batches) -> Iterator[pa.RecordBatch]:
    """Yield each batch, grouped by these columns."""
    for batch in batches:
        yield from pa.table(batch).group_by(names, use_threads=False).aggregate(aggregates).to_batches()
