"""Sums of predictions of users over several days, and the users' influences on each value."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.codes import to_numpy, unique_sorted
from spark_eval.arrow.messages import partition_rows
from spark_eval.monitoring.worker.user_rows import UserRows
from spark_eval.predictions.worker.clusters import (
    CellSlopes,
    InfluenceSums,
    UserSums,
    column_of,
    influence_sums,
)
from spark_eval.predictions.worker.totals import Cell
from spark_eval.schema import ALL, SEGMENT, SEGMENT_VALUE, USER
from spark_eval.statistics.exact import sums_by_group
from spark_eval.statistics.slopes import SumKey


class CellInfluences(NamedTuple):
    """Numbers of users of a cell and of their rows, and the sums of their influences."""

    cell: Cell
    n_users: int
    n_rows: int
    influences: InfluenceSums


def influences_of(
    rows: UserRows,
    model: str,
    columns: Sequence[str],
    keys: Sequence[SumKey],
    slopes: CellSlopes,
    *,
    by_user: bool,
) -> list[CellInfluences]:
    """Return the influences of some users on the values of each cell; ``rows`` are all of theirs.

    With ``by_user`` a user's sums are exact sums over all days, rounded once; otherwise each user of each day
    is one of its own.
    """
    influences = []
    for cell, of_cell in by_cell(model, rows.whole(columns)):
        values = {key: to_numpy(of_cell[column_of(key)]) for key in keys}
        users = of_cell[USER]
        if by_user:
            encoded = pc.dictionary_encode(users)
            groups, users = to_numpy(encoded.indices).astype("int64"), encoded.dictionary
            values = {key: sums_by_group(own, groups, len(users)) for key, own in values.items()}
        own = UserSums(cell, users, values)
        n_rows = int(own.sums["rows", 0].sum())
        influences.append(CellInfluences(cell, len(own), n_rows, influence_sums(own, slopes)))
    return influences


def by_cell(model: str, rows: pa.Table) -> Iterator[tuple[Cell, pa.RecordBatch]]:
    """Yield the rows of each value of each segment; without segments all rows, if any, are one cell."""
    if not len(rows):
        return
    if SEGMENT not in rows.column_names:
        yield (model, ALL, ALL), rows.combine_chunks().to_batches()[0]
        return
    segments, values = (rows[name].combine_chunks().dictionary_encode() for name in (SEGMENT, SEGMENT_VALUE))
    pairs = to_numpy(segments.indices).astype("int64") * len(values.dictionary) + to_numpy(values.indices)
    distinct, groups = unique_sorted(pairs)
    names, texts = segments.dictionary.to_pylist(), values.dictionary.to_pylist()
    for pair, part in zip(distinct.tolist(), partition_rows(rows, groups, len(distinct)), strict=True):
        yield (model, names[pair // len(texts)], texts[pair % len(texts)]), part
