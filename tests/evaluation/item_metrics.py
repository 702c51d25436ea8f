"""Small metrics that see all there is to see of items: the engine carries it, whatever is measured."""

# ruff: noqa: ARG001 - every metric takes the cutoff and the conventions

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import numpy as np

from spark_eval.conventions import Conventions
from spark_eval.conventions.choice import Need
from spark_eval.kernels.beyond.catalog import Entries, ItemContext, ItemCounts, Sets
from spark_eval.kernels.lists import Lists
from spark_eval.kernels.registry import RANKING, ranking_metric
from spark_eval.schema import Direction
from spark_eval.statistics.exact import Floats

Known = TypeVar("Known")


def needed(value: Known | None) -> Known:
    assert value is not None
    return value


def up_to(entries: Entries, k: int | None) -> Entries:
    near = slice(None) if k is None else entries.rank <= k
    values = (entries.row[near], entries.rank[near], entries.item[near], entries.index[near])
    return Entries(entries.n_rows, *values)


def mean_of(entries: Entries, values: Any) -> Floats:
    """Return the mean of values of entries, NaN of none."""
    size = np.bincount(entries.row, minlength=entries.n_rows)
    total = np.bincount(entries.row, values, minlength=entries.n_rows)
    return np.where(size > 0, total / np.maximum(size, 1), np.nan)


def takers_of_items(context: ItemContext, rows: Any, places: Any) -> Floats:
    """Return the training users of items of these lists."""
    return np.asarray(needed(context.catalog.n_takers)[context.fold[rows], places], dtype=np.float64)


def popularity_of(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Mean number of training users of the items."""
    context = needed(lists.context)
    listed = up_to(needed(context.listed), k)
    return mean_of(listed, takers_of_items(context, listed.row, listed.index))


def groups_of(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Mean number of groups of the items, and a tenth of the number of features."""
    context = needed(lists.context)
    listed, catalog = up_to(needed(context.listed), k), context.catalog
    sizes = needed(catalog.groups).sizes + 0.1 * needed(catalog.features).sizes
    return mean_of(listed, sizes[listed.index])


def vectors_of_lists(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Mean of the sum of components of the items of the list."""
    context = needed(lists.context)
    listed, vectors = up_to(needed(context.listed), k), context.catalog.vectors
    if isinstance(vectors, Sets):
        rows = np.repeat(np.arange(len(vectors.sizes)), vectors.sizes)
        total = np.bincount(rows, needed(vectors.values), minlength=len(vectors.sizes))
    else:
        total = np.nansum(np.asarray(vectors, dtype=np.float64), axis=1)
    return mean_of(listed, total[listed.index])


def seen_before(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Share of the list that the user had in training, NaN without a list."""
    context = needed(lists.context)
    listed = up_to(needed(context.listed), k)
    return mean_of(listed, is_in(listed, needed(context.profile)))


def shared_with_base(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Share of the list that the base model recommends as well; NaN without a list of that."""
    context = needed(lists.context)
    listed, base = up_to(needed(context.listed), k), up_to(needed(context.base), k)
    return np.where(needed(context.has_base), mean_of(listed, is_in(listed, base)), np.nan)


def first_relevant(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Training users of the most relevant item plus those of all hits; 0 of nothing."""
    context = needed(lists.context)
    relevant, hits = needed(context.relevant), lists.hits
    first = relevant.rank == 1
    values = np.zeros(len(lists.n_relevant))
    values[relevant.row[first]] = takers_of_items(context, relevant.row[first], relevant.index[first])
    return values + hits.total(takers_of_items(context, hits.row, context.hits), k)


def is_in(entries: Entries, others: Entries) -> Floats:
    known = set(zip(others.row.tolist(), others.item.tolist(), strict=True))
    pairs = zip(entries.row.tolist(), entries.item.tolist(), strict=True)
    return np.array([pair in known for pair in pairs], dtype=np.float64)


def coverage_of(counts: ItemCounts, k: int | None, conventions: Conventions) -> float:
    """Share of the catalogue that anybody is recommended."""
    return float(counts.n_items[counts.is_listed].sum() / counts.n_catalog)


def trained_coverage(counts: ItemCounts, k: int | None, conventions: Conventions) -> float:
    """Recommended trained items plus 100 times the lists, plus 10^4 times the slots, plus 10^-3 n_trained."""
    n_lists = float((counts.n_items * counts.n_lists).sum())
    n_trained = float(counts.n_items[counts.is_trained].sum())
    return n_trained + 100 * n_lists + 10_000 * float(counts.slots.sum()) + counts.n_trained / 1000


def filled_lists(counts: ItemCounts, k: int | None, conventions: Conventions) -> float:
    """Share of users with a list."""
    return counts.n_filled / max(counts.n_population, 1)


METRICS: Final[dict[str, tuple[Any, set[Need]]]] = {
    "t_popularity": (popularity_of, {Need.ITEMS, Need.POPULARITY}),
    "t_groups": (groups_of, {Need.ITEMS, Need.GROUPS, Need.FEATURES}),
    "t_vectors": (vectors_of_lists, {Need.ITEMS, Need.VECTORS}),
    "t_seen": (seen_before, {Need.HISTORY}),
    "t_base": (shared_with_base, {Need.ITEMS, Need.BASE}),
    "t_first": (first_relevant, {Need.HITS, Need.POPULARITY, Need.RELEVANT}),
    "t_coverage": (coverage_of, {Need.ITEM_COUNTS, Need.CATALOG}),
    "t_trained": (trained_coverage, {Need.ITEM_COUNTS, Need.CATALOG}),
    "t_filled": (filled_lists, {Need.ITEM_COUNTS}),
}


@contextmanager
def registered() -> Iterator[None]:
    """Register the metrics; afterwards they are gone."""
    for name, (kernel, needs) in METRICS.items():
        ranking_metric(
            name,
            formula="",
            conventions=("entropy_weights",) if Need.ITEM_COUNTS in needs else (),
            direction=Direction.NONE,
            upper=None,
            needs=needs,
        )(kernel)
    try:
        yield
    finally:
        for name in METRICS:
            del RANKING[name]
