"""How often each item is recommended: counted by the workers, added by item, told by the driver as counts.

Every item has counts of lists in each cell: a model, everybody or a value of a segment. At each cutoff there
are three: the lists that hold it, and in two whole numbers the sum of 1 / length of these, rounded to 2^-52.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_eval.arrow.codes import counted, distinct_of
from spark_eval.arrow.hashes import Booleans
from spark_eval.engine.bucket import Bucket
from spark_eval.engine.items.facts import ItemFacts
from spark_eval.engine.lists import entries_within
from spark_eval.engine.means import NOBODY, ColumnSums, Group, SegmentCell
from spark_eval.engine.messages import buckets_of, divided, one_chunk, united
from spark_eval.engine.summary import MetricRow, everybody_first
from spark_eval.metrics.beyond.catalog import About, Entries, GroupWeights, ItemCounts
from spark_eval.metrics.options import Plan, filled_column
from spark_eval.schema import ALL, FOLD, GROUP, ITEM, MODEL, SEGMENT, SEGMENT_VALUE
from spark_eval.stats.exact import Floats, Ints

CELL: Final = (MODEL, SEGMENT, SEGMENT_VALUE)
# Whether an item is in the catalogue, and whether it has training interactions, in two bits.
KNOWN_BITS: Final = "known"
IS_LISTED: Final = 1
IS_TRAINED: Final = 2
COUNTED: Final = ("n_lists", "slots_high", "slots_low")
N_ITEMS: Final = "n_items"
CUT: Final = "cut"
SLOT_BITS: Final = 26


def count_items(
    bucket: Bucket, about: About | None, models: Group, segments: Mapping[str, Group]
) -> Iterator[pa.Table]:
    """Count the lists of a bucket by item, in all cells: a table for everybody and for each segment.

    A group has the code of each list's model or segment, and their names.
    """
    if about is None or about.listed is None:
        return
    listed = about.listed
    item, number = distinct_of(listed.item)
    place = np.empty(len(item), dtype=np.int64)
    place[number] = listed.place
    ids = bucket.items.ids_in_order(item)
    cuts = [list(counts_at(listed, k)) for k in bucket.question.plan.run_cuts]
    everybody = np.zeros(listed.n_rows, dtype=np.int64), [ALL]
    for segment, (code, values) in ({ALL: everybody} | dict(segments)).items():
        cell_of_list = models[0] * len(values) + code
        groups, group = distinct_of(cell_of_list[listed.row] * len(item) + number)
        cell, item_of_group = np.divmod(groups, max(len(item), 1))
        fold = None
        if segment == FOLD:
            fold = np.empty(len(groups), dtype=np.int64)
            fold[group] = about.fold[listed.row]
        names = [models[1], [segment], values]
        codes = [cell // max(len(values), 1), np.zeros_like(cell), cell % max(len(values), 1)]
        columns = {
            name: pa.DictionaryArray.from_arrays(pa.array(one.astype(np.int32)), pa.array(known, pa.string()))
            for name, one, known in zip(CELL, codes, names, strict=True)
        }
        columns[ITEM] = ids.take(pa.array(item_of_group))
        columns[KNOWN_BITS] = pa.array(known_bits(bucket.question.known_items, place[item_of_group], fold))
        for cut, weights in enumerate(cuts):
            for name, weight in zip(COUNTED, weights, strict=True):
                total = np.bincount(group, weight, minlength=len(groups))
                columns[f"{name}_{cut}"] = pa.array(total.astype(np.int64))
        yield pa.table(columns)


def counts_at(listed: Entries, k: int | None) -> Iterator[Floats]:
    """Yield what each listed item adds to the counts at a cutoff; all whole numbers below 2^27."""
    is_within = np.ones(len(listed.row)) if k is None else np.where(listed.rank <= k, 1.0, 0.0)
    length = counted(entries_within(listed, k).row, listed.n_rows)
    share = 2.0**SLOT_BITS / np.maximum(length, 1)
    high = np.floor(share)
    low = np.rint((share - high) * 2.0**SLOT_BITS)
    yield is_within
    yield from (is_within * part[listed.row] for part in (high, low))


def known_bits(facts: ItemFacts, place: Ints, fold: Ints | None) -> NDArray[np.int8]:
    """Return which items are in the catalogue, which in training: of their folds, None: of any."""
    bits = np.zeros(len(place), dtype=np.int8)
    for bit, table in ((IS_LISTED, facts.catalog.is_listed), (IS_TRAINED, facts.is_trained)):
        if table is not None:
            is_known = table[:, place].any(axis=0) if fold is None else table[fold, place]
            bits[np.asarray(is_known)] |= bit
    return bits


def merged_counts(tables: Sequence[pa.Table]) -> list[pa.Table]:
    """Return one table that adds the counts of the same items in the same cells; none of none."""
    if not tables:
        return []
    together = united(tables).unify_dictionaries().combine_chunks()
    amounts = [name for name in together.column_names if name.startswith(COUNTED)]
    keys = [name for name in together.column_names if name not in amounts]
    added = together.group_by(keys).aggregate([(name, "sum") for name in amounts])
    return [added.rename_columns([*keys, *amounts])]


def divided_by_item(tables: Sequence[pa.Table], n_parts: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Divide counts by item: yield the number and the rows of each part that has any."""
    for table in tables:
        parts = divided(table, buckets_of(one_chunk(table[ITEM]), n_parts), n_parts)
        yield from ((number, part) for number, part in enumerate(parts) if part.num_rows)


def histogram(merged: Sequence[pa.Table]) -> pa.Table:
    """Return how many items have each number of lists, by cell, cutoff, and what is known of the items."""
    [counts] = merged
    n_cuts = sum(name.startswith(COUNTED[0]) for name in counts.column_names)
    parts = []
    for cut in range(n_cuts):
        n_lists, high, low = (f"{name}_{cut}" for name in COUNTED)
        held = counts.filter(pc.greater(counts[n_lists], 0))
        of_cut = held.group_by([*CELL, KNOWN_BITS, n_lists]).aggregate(
            [(ITEM, "count"), (high, "sum"), (low, "sum")]
        )
        of_cut = of_cut.rename_columns([*CELL, KNOWN_BITS, COUNTED[0], N_ITEMS, *COUNTED[1:]])
        parts.append(of_cut.append_column(CUT, pa.repeat(pa.scalar(cut, pa.int32()), len(of_cut))))
    return pa.concat_tables(parts)


def run_rows(
    plan: Plan,
    histograms: Sequence[pa.Table],
    facts: ItemFacts,
    totals: Mapping[SegmentCell, Mapping[str, ColumnSums]],
    models: Sequence[str],
) -> list[MetricRow]:
    """Return the rows of METRICS of the metrics of a whole run, in each cell.

    ``totals`` are the sums that ``means.added`` returns: they tell who is there.
    """
    found = counts_by_cell(histograms)
    cells = {cell for cell in totals if cell[0] in models} | {(model, ALL, ALL) for model in models}
    rows = []
    for cell in sorted(cells, key=everybody_first):
        for value in plan.of_run:
            users = totals.get(cell, {}).get(filled_column(value.k), NOBODY)
            counts = item_counts(found.get((*cell, plan.run_cuts.index(value.k)), []), facts, cell, users)
            number = value.of_run(counts, plan.conventions)
            known = None if math.isnan(number) else number
            of_cell = (cell[0], value.name, value.k, *cell[1:])
            rows.append(MetricRow(*of_cell, known, None, None, None, users.n_users, 0, plan.stamp))
    return rows


def counts_by_cell(histograms: Sequence[pa.Table]) -> dict[tuple[Any, ...], list[tuple[int, ...]]]:
    """Return n_lists, known, n_items and the two parts of slots, ascending, by cell and cutoff."""
    found: dict[tuple[Any, ...], list[tuple[int, ...]]] = {}
    if not histograms:
        return found
    together = united(histograms).unify_dictionaries().combine_chunks()
    keys, sums = [*CELL, CUT, COUNTED[0], KNOWN_BITS], [N_ITEMS, *COUNTED[1:]]
    added = together.group_by(keys).aggregate([(name, "sum") for name in sums]).rename_columns([*keys, *sums])
    for *cell, n_lists, known, n_items, high, low in zip(*added.to_pydict().values(), strict=True):
        found.setdefault(tuple(cell), []).append((n_lists, known, n_items, high, low))
    return {cell: sorted(rows) for cell, rows in found.items()}


def item_counts(
    rows: Sequence[tuple[int, ...]], facts: ItemFacts, cell: SegmentCell, users: ColumnSums
) -> ItemCounts:
    """Return the counts of a cell as kernels take them."""
    n_lists, known, n_items, high, low = np.array(rows, dtype=np.int64).reshape(-1, 5).T
    parts = zip(high.tolist(), low.tolist(), strict=True)
    slots = [math.ldexp((one << SLOT_BITS) + other, -2 * SLOT_BITS) for one, other in parts]
    return ItemCounts(
        n_lists=n_lists,
        n_items=n_items,
        is_listed=known & IS_LISTED > 0,
        is_trained=known & IS_TRAINED > 0,
        slots=np.array(slots, dtype=np.float64),
        n_catalog=n_known(facts, facts.catalog.is_listed, cell),
        n_trained=n_known(facts, facts.is_trained, cell),
        n_population=users.n_users,
        n_filled=users.n_defined,
    )


def n_known(facts: ItemFacts, table: Booleans | None, cell: SegmentCell) -> int:
    """Count the items that a table of the catalogue has: in the fold of a cell, else in any."""
    if table is None:
        return 0
    _, segment, value = cell
    if segment == FOLD and facts.folds is not None:
        return int(np.count_nonzero(table[np.searchsorted(facts.folds, int(value))]))
    return int(np.count_nonzero(table.any(axis=0)))


def group_rows(
    plan: Plan,
    parts: Sequence[Mapping[tuple[int, str], GroupWeights]],
    facts: ItemFacts,
    totals: Mapping[SegmentCell, Mapping[str, ColumnSums]],
    models: Sequence[str],
) -> list[MetricRow]:
    """Return the rows of METRICS of metrics by group of items, beside each the same of the catalogue.

    ``parts`` are the weights of each bucket, ``totals`` the sums that ``means.added`` returns. The groups are
    values of the segment GROUP.
    """
    rows = []
    for place, value in enumerate(plan.of_groups):
        of_catalog = GroupWeights.of_catalog(facts.catalog)
        for model in models:
            weights = [part[place, model] for part in parts if (place, model) in part]
            if not weights:
                continue
            users = totals.get((model, ALL, ALL), {}).get(filled_column(value.k), NOBODY)
            both = {value.name: reduce(add, weights), value.catalog_name: of_catalog}
            for name, one in both.items():
                for group, share in value.of_groups(one, plan.conventions).items():
                    known = None if math.isnan(share) else share
                    cell = (model, name, value.k, GROUP, group)
                    rows.append(MetricRow(*cell, known, None, None, None, users.n_users, 0, plan.stamp))
    return rows
