"""Convert columns of lists, maps and vectors to arrays by item index."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.codes import index_of, to_numpy
from spark_eval.errors import DataError
from spark_eval.metrics.beyond.catalog import Sets
from spark_eval.schema import VECTOR
from spark_eval.statistics.exact import Floats, Ints


def sets_from_lists(column: pa.ChunkedArray, index: Ints, n: int) -> Sets:
    """Convert lists of text to n sets; row i of the column is set ``index[i]``.

    Nulls and empty texts are left out.
    """
    lists = column.cast(pa.list_(pa.string())).combine_chunks()
    size = to_numpy(pc.list_value_length(lists).fill_null(0))
    texts = lists.flatten()
    is_member = pc.fill_null(pc.not_equal(texts, ""), False)
    row, texts = np.repeat(index, size)[to_numpy(is_member)], texts.filter(is_member)
    names = texts.unique()
    names = names.take(pc.sort_indices(names))
    return sets_of_pairs(row, index_of(texts, names), n, names.to_pylist())


def sets_of_pairs(row: Ints, member: Ints, n: int, names: list[str] | None = None) -> Sets:
    """Return n sets from pairs of a set's index and a member, in any order and with duplicates."""
    n_members = int(member.max(initial=-1)) + 1
    pairs = np.unique(row * n_members + member)
    sizes = np.bincount(pairs // max(n_members, 1), minlength=n)
    return Sets(np.append(0, np.cumsum(sizes)), pairs % max(n_members, 1), names or ())


def vectors_from_lists(column: pa.ChunkedArray, index: Ints, n: int) -> Floats | Sets:
    """Return vectors by index: dense ones as an array (n, dimensions), sparse ones as sets with values.

    Raises DataError VECTOR_LENGTHS for dense vectors of several lengths, VECTOR_NOT_FINITE for components
    that are null, NaN or infinite.
    """
    if pa.types.is_map(column.type):
        return sparse_vectors(column.combine_chunks(), index, n)
    lengths = to_numpy(pc.list_value_length(column).fill_null(0))
    distinct = np.unique(lengths[lengths > 0])
    if len(distinct) > 1:
        some = f"vectors have {distinct[0]} to {distinct[-1]} components"
        raise DataError("VECTOR_LENGTHS", f"items: {some}; give all the same number of them, or null")
    dtype = np.float32 if pa.types.is_float32(column.type.value_type) else np.float64
    vectors = np.full((n, distinct.max(initial=1)), np.nan, dtype=dtype)
    start = 0
    for chunk in column.chunks:
        part = slice(start, start + len(chunk))
        values, start = chunk.flatten(), part.stop
        check_finite(values)
        is_given = lengths[part] > 0
        vectors[index[part][is_given]] = to_numpy(values).reshape(-1, vectors.shape[1])
    return vectors


def sparse_vectors(maps: pa.MapArray, index: Ints, n: int) -> Sets:
    """Convert maps from integers to components to sets with values."""
    ends = to_numpy(maps.offsets)
    part = slice(int(ends[0]), int(ends[-1]))
    check_finite(maps.items[part])
    row, member = np.repeat(index, np.diff(ends)), to_numpy(maps.keys[part]).astype(np.int64)
    order = np.lexsort((member, row))
    starts = np.append(0, np.cumsum(np.bincount(row, minlength=n)))
    return Sets(starts, member[order], values=to_numpy(maps.items[part]).astype(np.float64)[order])


def check_finite(values: pa.Array) -> None:
    """Raise DataError VECTOR_NOT_FINITE for components that are null, NaN or infinite."""
    n_bad = values.null_count or int(np.count_nonzero(~np.isfinite(to_numpy(values))))
    if n_bad:
        message = f"items: {n_bad} components of column {VECTOR!r} are null, NaN or infinite; fix them"
        raise DataError("VECTOR_NOT_FINITE", message)
