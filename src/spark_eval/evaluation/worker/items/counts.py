"""Metrics of a whole run: tallies of recommended items from all buckets, added up by item."""

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.hashes import Booleans
from spark_eval.arrow.messages import sum_equal_keys
from spark_eval.evaluation.plan import Plan, filled_column
from spark_eval.evaluation.summary import MetricRow, cells_of_models
from spark_eval.evaluation.worker.items.attributes import ItemAttributes
from spark_eval.evaluation.worker.items.tally import (
    CELL,
    COUNTED,
    IS_LISTED,
    IS_TRAINED,
    KNOWN_BITS,
    SLOT_BITS,
)
from spark_eval.evaluation.worker.means import NOBODY, ColumnSums, SegmentCell
from spark_eval.metrics.beyond.catalog import ItemCounts
from spark_eval.metrics.beyond.group_weights import GroupWeights
from spark_eval.schema import ALL, FOLD, GROUP, ITEM

N_ITEMS: Final = "n_items"
CUT: Final = "cut"


def histogram(tallies: Sequence[pa.Table]) -> pa.Table:
    """Count the items with each number of lists, by cell, cutoff and known bits.

    ``tallies`` are counts of the same items in different buckets; they are summed first.
    """
    counts = sum_equal_keys(tallies, [*CELL, ITEM, KNOWN_BITS])
    n_cuts = sum(name.startswith(COUNTED[0]) for name in counts.column_names)
    slots = [name for name in COUNTED[1:] if f"{name}_0" in counts.column_names]
    parts = []
    for cut in range(n_cuts):
        n_lists, sums = f"{COUNTED[0]}_{cut}", [(f"{name}_{cut}", "sum") for name in slots]
        listed = counts.filter(pc.greater(counts[n_lists], 0))
        of_cut = listed.group_by([*CELL, KNOWN_BITS, n_lists]).aggregate([(ITEM, "count"), *sums])
        of_cut = of_cut.rename_columns([*CELL, KNOWN_BITS, COUNTED[0], N_ITEMS, *slots])
        parts.append(of_cut.append_column(CUT, pa.repeat(pa.scalar(cut, pa.int32()), len(of_cut))))
    return pa.concat_tables(parts)


def run_rows(
    plan: Plan,
    histograms: Sequence[pa.Table],
    facts: ItemAttributes,
    totals: Mapping[SegmentCell, Mapping[str, ColumnSums]],
    models: Sequence[str],
) -> list[MetricRow]:
    """Return the rows of METRICS of the metrics of a whole run, in each cell.

    ``totals`` are the sums of ``means.added``; they have the numbers of users.
    """
    of_cells = counts_by_cell(histograms)
    rows = []
    for cell in cells_of_models(totals, models):
        for value in plan.of_run:
            users = totals.get(cell, {}).get(filled_column(value.k), NOBODY)
            counts = item_counts(of_cells.get((*cell, plan.run_cuts.index(value.k)), []), facts, cell, users)
            key = (cell[0], value.name, value.k, *cell[1:], plan.stamp)
            rows.append(MetricRow.of_run(key, value.of_run(counts, plan.conventions), users.n_users))
    return rows


def counts_by_cell(histograms: Sequence[pa.Table]) -> dict[tuple[Any, ...], list[tuple[int, ...]]]:
    """Return sorted tuples of n_lists, known bits, n_items and slots (if counted), by cell and cutoff."""
    by_cell: dict[tuple[Any, ...], list[tuple[int, ...]]] = {}
    if not histograms:
        return by_cell
    added = sum_equal_keys(histograms, [*CELL, CUT, COUNTED[0], KNOWN_BITS])
    for model, segment, value, cut, *counts in zip(*added.to_pydict().values(), strict=True):
        by_cell.setdefault((model, segment, value, cut), []).append(tuple(counts))
    return {cell: sorted(rows) for cell, rows in by_cell.items()}


def item_counts(
    rows: Sequence[tuple[int, ...]], facts: ItemAttributes, cell: SegmentCell, users: ColumnSums
) -> ItemCounts:
    """Return the counts of a cell as input of the kernels."""
    width = len(rows[0]) if rows else 3
    n_lists, known, n_items, *parts = np.array(rows, dtype=np.int64).reshape(-1, width).T
    high, low = (part.tolist() for part in parts or [np.zeros_like(n_lists)] * 2)
    both = zip(high, low, strict=True)
    slots = [math.ldexp((one << SLOT_BITS) + other, -2 * SLOT_BITS) for one, other in both]
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


def n_known(facts: ItemAttributes, table: Booleans | None, cell: SegmentCell) -> int:
    """Count the items in a table of the catalogue: of the cell's fold, or of any fold."""
    if table is None:
        return 0
    _, segment, value = cell
    if segment == FOLD and facts.folds is not None:
        return int(np.count_nonzero(table[np.searchsorted(facts.folds, int(value))]))
    return int(np.count_nonzero(table.any(axis=0)))


def group_rows(
    plan: Plan,
    parts: Sequence[Mapping[tuple[int, str], GroupWeights]],
    facts: ItemAttributes,
    totals: Mapping[SegmentCell, Mapping[str, ColumnSums]],
    models: Sequence[str],
) -> list[MetricRow]:
    """Return the rows of METRICS of metrics by item group, with the catalogue's value in each.

    ``parts`` are the weights of each bucket, ``totals`` the sums of ``means.added``. Groups are values of the
    segment GROUP.
    """
    rows = []
    for index, value in enumerate(plan.of_groups):
        of_catalog = GroupWeights.of_catalog(facts.catalog)
        for model in models:
            weights = [part[index, model] for part in parts if (index, model) in part]
            if not weights:
                continue
            users = totals.get((model, ALL, ALL), {}).get(filled_column(value.k), NOBODY)
            both = {value.name: reduce(add, weights), value.catalog_name: of_catalog}
            for name, one in both.items():
                for group, share in value.of_groups(one, plan.conventions).items():
                    key = (model, name, value.k, GROUP, group, plan.stamp)
                    rows.append(MetricRow.of_run(key, share, users.n_users))
    return rows
