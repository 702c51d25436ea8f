"""Item attributes in the executors: the catalogue, and the index of each item in it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_eval.arrow.codes import (
    Booleans,
    Codes,
    count_by_code,
    index_of,
    to_numpy,
    unique_in_order_of_appearance,
)
from spark_eval.errors import DataError
from spark_eval.evaluation.worker.items.segments import (
    ItemSegment,
    built_in_segment,
    check_number_of_values,
)
from spark_eval.kernels.beyond.catalog import UNKNOWN, Catalog, Sets
from spark_eval.schema import (
    FEATURES,
    FLAG,
    FOLD,
    GROUPS,
    ITEM,
    N_ROWS,
    N_TAKERS,
    PROPENSITY,
    SEGMENT_COLUMN,
    USER,
    VECTOR,
    ItemBuiltIn,
)
from spark_eval.statistics.exact import Floats, Ints

# Maximum number of table entries per id for looking ids up in a table.
SPARSEST: Final = 16
IndexFinder = Callable[[Ints], Ints]


@dataclass(frozen=True)
class ItemAttributes:
    """Items with attributes, by ascending id (``ids`` are int64 or text).

    ``folds`` are those of the catalogue's tables, ascending; None without folds. ``segments`` are the
    values that truth is divided by, by attribute.
    """

    ids: pa.Array
    catalog: Catalog
    folds: Ints | None = None
    segments: Mapping[str, ItemSegment] = field(default_factory=dict)

    def tables_of(self, folds: Ints | None, n: int) -> Ints:
        """Return the row of each of n users in the catalogue's tables, -1 if training lacks their fold."""
        if self.folds is None or folds is None:
            return np.zeros(n, dtype=np.int64)
        return index_of(pa.array(folds), pa.array(self.folds))

    def index_finder(self, items: Codes) -> "IndexFinder":
        """Return a function from item codes to catalogue indices, UNKNOWN for items without attributes."""
        if items.texts is None:
            return self.indices_of_integers
        of_text = index_of(items.texts, self.ids)
        return lambda numbered: of_text[numbered]

    def indices_of_integers(self, items: Ints) -> Ints:
        """Return the index of each id, UNKNOWN for items without attributes."""
        table, ids = self.table, to_numpy(self.ids)
        if table is not None:
            # Unsigned differences wrap around: ids out of range become large.
            offset = (items - (ids[0] if len(ids) else 0)).view(np.uint64)
            return table[np.minimum(offset, np.uint64(len(table) - 1))].astype(np.int64)
        distinct, row = unique_in_order_of_appearance(items)
        index = np.minimum(np.searchsorted(ids, distinct), len(ids) - 1)
        return np.where(ids[index] == distinct, index, UNKNOWN)[row]

    def cells_of_rows(self, rows: pa.Table) -> tuple[Ints, Ints]:
        """Return the row in the catalogue's tables (by fold) and the item index of each row."""
        folds = rows[FOLD].to_numpy().astype(np.int64) if self.folds is not None else None
        return self.tables_of(folds, len(rows)), self.indices_of_rows(rows)

    def indices_of_rows(self, rows: pa.Table) -> Ints:
        """Return the index of each row's item."""
        return index_of(rows[ITEM].cast(self.ids.type).combine_chunks(), self.ids)

    @cached_property
    def table(self) -> NDArray[np.int32] | None:
        """Index of each integer from the smallest id on; the last entry is for all others.

        None if the ids are too far apart.
        """
        if not len(self.ids):
            return np.array([UNKNOWN], dtype=np.int32)
        ids = to_numpy(self.ids)
        span = int(ids[-1]) - int(ids[0]) + 1
        if span > SPARSEST * (len(ids) + 1024):
            return None
        table = np.full(span + 1, UNKNOWN, dtype=np.int32)
        table[ids - ids[0]] = np.arange(len(ids))
        return table

    @property
    def with_text_order(self) -> "ItemAttributes":
        """Copy with the rank of each id in the order of ids as text."""
        by_text = to_numpy(pc.sort_indices(self.ids.cast(pa.string())))
        order = np.full(len(by_text) + 1, -1, dtype=np.int64)
        order[by_text] = np.arange(len(by_text))
        return replace(self, catalog=replace(self.catalog, text_order=order))

    def with_segments(self, names: Sequence[str], items: pa.Table | None) -> "ItemAttributes":
        """Copy with these segments of items; columns are numbered in this order, without built-in ones.

        Raises DataError TOO_MANY_SEGMENTS.
        """
        n, built_in = self.catalog.n_items + 1, set(ItemBuiltIn)
        columns = [name for name in names if name not in built_in]
        segments = {}
        for name in names:
            if name in built_in:
                n_rows = self.catalog.n_rows
                segments[name] = built_in_segment(
                    name, np.zeros((1, n), np.int64) if n_rows is None else n_rows
                )
            elif items is not None:
                column = items[SEGMENT_COLUMN.format(columns.index(name))]
                sets = sets_from_lists(column, self.indices_of_rows(items), n)
                check_number_of_values(name, len(sets.names))
                segments[name] = ItemSegment(sets.names, [sets])
        return replace(self, segments=segments)

    @cached_property
    def is_trained(self) -> Booleans:
        """True for items with training interactions, by fold; shape (f, n + 1)."""
        n_rows = self.catalog.n_rows
        return np.zeros((1, self.catalog.n_items + 1), dtype=bool) if n_rows is None else n_rows > 0


def item_attributes(
    kind: pa.DataType,
    items: pa.Table | None,
    trained: pa.Table | None,
    n_users: Mapping[int | None, int],
    train_pairs: pa.Table | None = None,
) -> ItemAttributes:
    """Build the item attributes; ids are cast to ``kind``.

    ``items`` has a row per item with the required columns: groups and features (lists of text), vector.
    ``trained`` has a row per item (and fold) with n_rows, and n_takers if required; ``n_users`` are the
    training users by fold, if required; ``train_pairs`` has a row per item and user (and fold).

    Raises DataError DUPLICATE_ITEM, VECTOR_LENGTHS or VECTOR_NOT_FINITE.
    """
    given = [table[ITEM].cast(kind) for table in (items, trained) if table is not None]
    ids = pa.chunked_array([chunk for column in given for chunk in column.chunks], kind).unique()
    ids = ids.take(pc.sort_indices(ids))
    folds = None
    if trained is not None and FOLD in trained.column_names:
        folds = np.unique(trained[FOLD].to_numpy().astype(np.int64))
    attributes = ItemAttributes(ids, Catalog(len(ids)), folds)
    catalog = Catalog(len(ids)) if trained is None else add_training_counts(attributes, trained, n_users)
    if train_pairs is not None:
        catalog = replace(catalog, takers=training_users_by_item(attributes, train_pairs))
    if items is not None:
        catalog = add_item_table(attributes, catalog, items)
    return replace(attributes, catalog=catalog)


def add_training_counts(
    attributes: ItemAttributes, trained: pa.Table, n_users: Mapping[int | None, int]
) -> Catalog:
    """Return the catalogue of training items, with their numbers of interactions."""
    folds = [None] if attributes.folds is None else attributes.folds.tolist()
    shape = len(folds), len(attributes.ids) + 1
    at = attributes.cells_of_rows(trained)
    n_rows = np.zeros(shape, dtype=np.int64)
    n_rows[at] = trained[N_ROWS].to_numpy()
    n_takers = None
    if N_TAKERS in trained.column_names:
        n_takers = np.zeros(shape, dtype=np.int64)
        n_takers[at] = trained[N_TAKERS].to_numpy()
    of_folds = np.array([n_users[fold] for fold in folds], dtype=np.int64) if n_users else None
    return Catalog(len(attributes.ids), n_rows > 0, n_takers, n_rows, of_folds)


def add_item_table(attributes: ItemAttributes, catalog: Catalog, items: pa.Table) -> Catalog:
    """Add the attributes of the table of items; its items become the catalogue."""
    n = len(attributes.ids) + 1
    index = attributes.indices_of_rows(items)
    rows = count_by_code(index, n)
    if rows.max(initial=0) > 1:
        message = f"items: {np.count_nonzero(rows > 1)} items have several rows"
        shown = attributes.ids[int(rows.argmax())].as_py()
        raise DataError("DUPLICATE_ITEM", f"{message}, such as {shown!r}; keep one row per item")
    is_listed = np.broadcast_to(rows > 0, (1 if attributes.folds is None else len(attributes.folds), n))
    sets = {
        name: sets_from_lists(items[name], index, n)
        for name in (GROUPS, FEATURES)
        if name in items.column_names
    }
    vectors = vectors_from_lists(items[VECTOR], index, n) if VECTOR in items.column_names else None
    return replace(
        catalog,
        is_listed=is_listed,
        groups=sets.get(GROUPS),
        features=sets.get(FEATURES),
        vectors=vectors,
        flags=flags_from_columns(items, index, n),
        propensities=propensities_from_column(items[PROPENSITY], index, n)
        if PROPENSITY in items.column_names
        else None,
    )


def propensities_from_column(column: pa.ChunkedArray, index: Ints, n: int) -> Floats:
    """Return propensities by index (n,), NaN for null and for items without a row.

    Raises DataError INVALID_PROPENSITY for numbers that are not above 0 and at most 1.
    """
    values = column.cast(pa.float64())
    is_given = to_numpy(pc.is_valid(values))
    numbers = to_numpy(pc.fill_null(values, 1.0))
    n_bad = int(np.count_nonzero(~((numbers > 0) & (numbers <= 1))))
    if n_bad:
        message = f"items: {n_bad} values of column {PROPENSITY!r} are not above 0 and at most 1"
        raise DataError("INVALID_PROPENSITY", f"{message}; give probabilities, or null for unknown ones")
    propensities = np.full(n, np.nan)
    propensities[index] = np.where(is_given, numbers, np.nan)
    return propensities


def flags_from_columns(items: pa.Table, index: Ints, n: int) -> dict[str, Ints]:
    """Return the boolean columns by name: 1, 0, or -1 for null and for items without a row; each (n,)."""
    flags = {}
    for name in items.column_names:
        if name.startswith(FLAG.format("")):
            flags[name.removeprefix(FLAG.format(""))] = table = np.full(n, -1, dtype=np.int64)
            table[index] = to_numpy(pc.fill_null(items[name].cast(pa.int64()), -1))
    return flags


def training_users_by_item(attributes: ItemAttributes, train_pairs: pa.Table) -> list[Sets]:
    """Return the sets of training users of each item, by fold."""
    row, index = attributes.cells_of_rows(train_pairs)
    user = train_pairs[USER].combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    n_folds = 1 if attributes.folds is None else len(attributes.folds)
    return [
        sets_of_pairs(index[row == fold], user[row == fold], len(attributes.ids) + 1)
        for fold in range(n_folds)
    ]


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
    ends = maps.offsets.to_numpy()
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
