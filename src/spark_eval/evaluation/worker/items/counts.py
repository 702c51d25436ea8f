"""Count items: in how many lists each item is, per worker, and the number of items with each count."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_eval.arrow.codes import (
    count_by_code,
    index_of,
    run_starts,
    unique_in_order_of_appearance,
)
from spark_eval.arrow.messages import buckets_of, one_chunk, partition_rows, sum_equal_keys
from spark_eval.conventions.choice import Need
from spark_eval.evaluation.worker.bucket import Bucket
from spark_eval.evaluation.worker.items.attributes import ItemAttributes
from spark_eval.evaluation.worker.lists import Group, SegmentCell
from spark_eval.evaluation.worker.task import EvaluationTask
from spark_eval.kernels.beyond.catalog import Entries, ItemContext
from spark_eval.schema import ALL, FOLD, ITEM, MODEL, SEGMENT, SEGMENT_VALUE
from spark_eval.statistics.exact import Floats, Ints

CELL: Final = (MODEL, SEGMENT, SEGMENT_VALUE)
# Two bits per item: in the catalogue, and with training interactions.
ITEM_BITS: Final = "bits"
IS_LISTED: Final = 1
IS_TRAINED: Final = 2
COUNTED: Final = ("n_lists", "slots_high", "slots_low")
SLOT_BITS: Final = 26
# Groups are counted in a dense table if it has at most this many cells per entry.
SPARSEST_COUNTS: Final = 4
# Sum counts if there are more than this, and more than twice those left after the last time.
MOST_AMOUNTS: Final = 4_000_000


class ItemTally:
    """Counts of lists by item and cell.

    Items of the catalogue are numbered by their index, all others (``unknown``) in order of arrival.
    """

    def __init__(self, task: EvaluationTask) -> None:
        self.attributes = task.item_attributes
        self.order = task.plan.run_cuts
        self.cuts = sorted(self.order, key=lambda k: (k is None, k))
        self.unknown = pa.array([], task.item)
        self.cells: dict[SegmentCell, int] = {}
        self.names = COUNTED if Need.SLOTS in task.plan.needs else COUNTED[:1]
        # Amounts (names * cuts, cells * items) of all items, in some cells.
        self.dense: dict[tuple[int, ...], Ints] = {}
        # Cell and item, both (rows,), and amounts (names * cuts, rows).
        self.parts: list[tuple[Ints, Ints, Ints]] = []
        self.n_added = 0

    def add(
        self, bucket: Bucket, context: ItemContext | None, models: Group, segments: Mapping[str, Group]
    ) -> None:
        """Count the lists of a bucket for all users and for each segment value.

        A group has the code of each list's model or segment value, and the names of the codes.
        """
        if context is None or context.listed is None:
            return
        listed = context.listed
        number, row, n_cuts = self.numbers(bucket, listed), listed.row, len(self.cuts)
        n_numbers = self.n_numbers
        lengths = [listed.count(k) for k in self.cuts] if len(self.names) > 1 else []
        everybody = np.zeros(listed.n_rows, dtype=np.int64), [ALL]
        for segment, (code, values) in ({ALL: everybody} | dict(segments)).items():
            names = [(model, segment, value) for model in models[1] for value in values]
            cells = np.array([self.cells.setdefault(name, len(self.cells)) for name in names], dtype=np.int64)
            of_list = models[0] * len(values) + code
            group = number if len(cells) == 1 else of_list[row] * n_numbers + number
            n_groups, distinct = len(cells) * n_numbers, None
            if n_groups > SPARSEST_COUNTS * len(group):
                distinct, group = unique_in_order_of_appearance(group)
                n_groups = len(distinct)
            n_lists = np.zeros((n_cuts, n_groups), dtype=np.int64)
            for cut, (above, last) in enumerate(pairwise([0, *self.cuts])):
                n_lists[cut] = count_by_code(listed.between(group, above or 0, last), n_groups)
            np.cumsum(n_lists, axis=0, out=n_lists)
            slots = slots_of(group, n_lists, listed, self.cuts, lengths)
            amounts = np.concatenate([n_lists, *slots]) if slots else n_lists
            if distinct is None:
                self.add_dense(tuple(cells.tolist()), amounts)
            else:
                self.add_part(cells, n_numbers, distinct, amounts)
        if sum(amounts.size for *_, amounts in self.parts) > max(MOST_AMOUNTS, 2 * self.n_added):
            self.add_up()

    def add_dense(self, cells: tuple[int, ...], amounts: Ints) -> None:
        """Add amounts (names * cuts, cells * items) of all items in these cells."""
        if cells in self.dense and self.dense[cells].shape == amounts.shape:
            self.dense[cells] += amounts
            return
        self.move_dense(cells)  # new items have been numbered
        if sum(one.size for one in self.dense.values()) + amounts.size > MOST_AMOUNTS:
            for others in list(self.dense):
                self.move_dense(others)
        self.dense[cells] = amounts

    def move_dense(self, cells: tuple[int, ...]) -> None:
        """Move the dense amounts of these cells to ``parts``."""
        amounts = self.dense.pop(cells, None)
        if amounts is not None and cells:
            self.add_part(
                np.array(cells), amounts.shape[1] // len(cells), np.arange(amounts.shape[1]), amounts
            )

    def add_part(self, cells: Ints, n_numbers: int, groups: Ints, amounts: Ints) -> None:
        """Add a part, without groups that are in no list; a group is index of a cell * n_numbers + item."""
        used = np.flatnonzero(amounts[len(self.cuts) - 1])
        cell, item = np.divmod(groups[used], max(n_numbers, 1))
        self.parts.append((cells[cell], item, amounts[:, used]))

    @property
    def n_numbers(self) -> int:
        """Number of numbered items."""
        return self.attributes.catalog.n_items + len(self.unknown)

    def numbers(self, bucket: Bucket, listed: Entries) -> Ints:
        """Return the numbers of recommended items; shape (entries,)."""
        unknown = np.flatnonzero(listed.index < 0)
        if not len(unknown):
            return listed.index
        distinct, which = unique_in_order_of_appearance(listed.item[unknown])
        ids = bucket.items.ids_in_order(distinct).cast(self.unknown.type)
        is_new = index_of(ids, self.unknown) < 0
        self.unknown = pa.concat_arrays([self.unknown, ids.filter(pa.array(is_new))])
        number = listed.index.copy()
        number[unknown] = self.attributes.catalog.n_items + index_of(ids, self.unknown)[which]
        return number

    def add_up(self) -> None:
        """Sum the amounts of equal items and cells."""
        for cells in list(self.dense):
            self.move_dense(cells)
        if len(self.parts) < 2:
            return
        keys = [cell * self.n_numbers + item for cell, item, _ in self.parts]
        distinct = np.sort(np.concatenate(keys))
        distinct = distinct[run_starts(distinct)]
        total = np.zeros((len(self.parts[0][2]), len(distinct)), dtype=np.int64)
        for key, (*_, amounts) in zip(keys, self.parts, strict=True):
            total[:, np.searchsorted(distinct, key)] += amounts  # keys of a part are distinct
        self.parts = [(*np.divmod(distinct, max(self.n_numbers, 1)), total)]
        self.n_added = total.size

    def table(self) -> pa.Table | None:
        """Return a row per cell and item with their names, bits, and counts by cutoff."""
        self.add_up()
        if not self.parts:
            return None
        [(cell, item, amounts)] = self.parts
        columns = {
            name: pa.array(names, pa.string()).dictionary_encode().take(pa.array(cell))
            for name, names in zip(CELL, zip(*self.cells, strict=True), strict=True)
        }
        columns[ITEM] = pa.concat_arrays([self.attributes.ids, self.unknown]).take(pa.array(item))
        columns[ITEM_BITS] = pa.array(self.item_bits(cell, item))
        names = [f"{name}_{self.order.index(k)}" for name in self.names for k in self.cuts]
        return pa.table(columns | dict(zip(names, amounts, strict=True)))

    def item_bits(self, cell: Ints, item: Ints) -> NDArray[np.int8]:
        """Return the bits IS_LISTED and IS_TRAINED of items, in the fold of each cell or in any fold."""
        attributes, bits = self.attributes, np.zeros(len(item), dtype=np.int8)
        index = np.minimum(item, attributes.catalog.n_items)
        fold = np.array([fold_of_cell(attributes, name) for name in self.cells])[cell]
        for bit, table in ((IS_LISTED, attributes.catalog.is_listed), (IS_TRAINED, attributes.is_trained)):
            if table is not None:
                has_bit = np.concatenate([table, table.any(axis=0, keepdims=True)])[fold, index]
                bits[has_bit] |= bit
        return bits


def fold_of_cell(attributes: ItemAttributes, cell: SegmentCell) -> int:
    """Return the row of a fold's cell in the catalogue's tables, -1 for other cells."""
    _, segment, value = cell
    if segment != FOLD or attributes.folds is None:
        return -1
    # A fold that is missing in training raises an error after all buckets are measured.
    return max(int(attributes.tables_of(np.array([int(value)]), 1)[0]), 0)


def slots_of(
    group: Ints, n_lists: Ints, listed: Entries, cuts: Sequence[int | None], lengths: Sequence[Ints]
) -> list[Ints]:
    """Return the high and low parts of the slots by group and cutoff, each of the shape of ``n_lists``.

    ``group`` is each entry's group; ``lengths`` has the lengths of the lists at each cutoff. Empty without
    lengths.
    """
    slots = [np.zeros_like(n_lists) for _ in COUNTED[1:] if len(lengths)]
    for index, length in enumerate(lengths):
        k, parts = cuts[index], slot_parts(int(length.max(initial=0)))
        # Most lists have the maximum length: only the difference of shorter ones is added one by one.
        is_shorter = (length < length.max(initial=0))[listed.row]
        shorter = np.flatnonzero(is_shorter if k is None else is_shorter & (listed.rank <= k))
        for sums, of_length in zip(slots, parts, strict=True):
            more = (of_length[length] - of_length[-1])[listed.row[shorter]]
            added = np.bincount(group[shorter], more, minlength=n_lists.shape[1])
            sums[index] = n_lists[index] * int(of_length[-1]) + added.astype(np.int64)
    return slots


def slot_parts(longest: int) -> tuple[Floats, Floats]:
    """Return 1 / length as two integers below 2^27, by length up to ``longest``; 0 counts as 1."""
    share = 2.0**SLOT_BITS / np.maximum(np.arange(longest + 1), 1)
    high = np.floor(share)
    return high, np.rint((share - high) * 2.0**SLOT_BITS)


def partition_by_item(table: pa.Table, n_parts: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Divide counts by item; yield the number and the rows of each part that is not empty."""
    parts = partition_rows(table, buckets_of(one_chunk(table[ITEM]), n_parts), n_parts)
    yield from ((number, part) for number, part in enumerate(parts) if part.num_rows)


N_ITEMS: Final = "n_items"
CUT: Final = "cut"


def histogram(tallies: Sequence[pa.Table]) -> pa.Table:
    """Count the items with each number of lists, by cell, cutoff and bits.

    ``tallies`` are counts of the same items in different buckets; they are summed first.
    """
    counts = sum_equal_keys(tallies, [*CELL, ITEM, ITEM_BITS])
    n_cuts = sum(name.startswith(COUNTED[0]) for name in counts.column_names)
    slots = [name for name in COUNTED[1:] if f"{name}_0" in counts.column_names]
    parts = []
    for cut in range(n_cuts):
        n_lists, sums = f"{COUNTED[0]}_{cut}", [(f"{name}_{cut}", "sum") for name in slots]
        listed = counts.filter(pc.greater(counts[n_lists], 0))
        of_cut = listed.group_by([*CELL, ITEM_BITS, n_lists], use_threads=False).aggregate(
            [(ITEM, "count"), *sums]
        )
        of_cut = of_cut.rename_columns([*CELL, ITEM_BITS, COUNTED[0], N_ITEMS, *slots])
        parts.append(of_cut.append_column(CUT, pa.repeat(pa.scalar(cut, pa.int32()), len(of_cut))))
    return pa.concat_tables(parts)
