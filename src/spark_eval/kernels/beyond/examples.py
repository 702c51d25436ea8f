"""Item context of lists, built from plain Python values, for examples and tests."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import zip_longest

import numpy as np

from spark_eval.kernels.beyond.catalog import Catalog, Entries, ItemContext, Sets
from spark_eval.statistics.exact import Floats, Ints

ListsOfItems = Sequence[Sequence[int]]


def example_context(
    lists: ListsOfItems,
    relevant: Sequence[Collection[int]],
    *,
    train: ListsOfItems = (),
    listed: Sequence[int] | None = None,
    groups: Sequence[Sequence[str]] = (),
    features: Sequence[Sequence[str]] = (),
    vectors: Sequence[Sequence[float]] = (),
    propensities: Sequence[float] = (),
    flags: Mapping[str, Sequence[bool | None]] | None = None,
    base: Sequence[Sequence[int] | None] | None = None,
) -> ItemContext:
    """Build the item context of lists of items 0, 1, ..., best first; by default there is no training.

    ``relevant`` has the relevant items of each list's user, ``train`` the training items of each user, the
    lists' users first. ``listed`` are the items of the catalogue, by default the training items. ``groups``,
    ``features``, ``vectors``, ``propensities`` and each of ``flags`` are by item 0, 1, ... . ``base`` has the
    baseline model's lists, None for a user without one.
    """
    trained = {item for row in train for item in row}
    flags = flags or {}
    most = max(map(len, (groups, features, vectors, propensities, *flags.values())))
    n_items = max([most, *(item + 1 for item in (*trained, *(listed or ())))])
    in_catalog = trained if listed is None else listed
    catalog = Catalog(
        n_items,
        is_listed=np.array([[item in in_catalog for item in range(n_items + 1)]]),
        n_takers=occurrences([set(row) for row in train], n_items)[None],
        n_rows=occurrences(train, n_items)[None],
        n_users=np.array([sum(map(bool, train))]),
        groups=sets_of_words(groups, n_items),
        features=sets_of_words(features, n_items),
        vectors=vector_table(vectors, n_items),
        flags={name: flag_table(values, n_items) for name, values in flags.items()},
        propensities=np.array([*propensities, *[np.nan] * (n_items + 1 - len(propensities))]),
        takers=[users_of_items(train, n_items)],
    )
    histories = [sorted(set(row)) for row, _ in zip_longest(train[: len(lists)], lists, fillvalue=())]
    bases = [None] * len(lists) if base is None else base
    of_hits = [item for row, wanted in zip(lists, relevant, strict=True) for item in row if item in wanted]
    return ItemContext(
        catalog,
        fold=np.zeros(len(lists), dtype=np.int64),
        hits=item_indices(of_hits, n_items),
        hit_items=np.array(of_hits, dtype=np.int64),
        listed=entries_of_items(lists, n_items),
        relevant=entries_of_items([sorted(row, reverse=True) for row in relevant], n_items),
        profile=entries_of_items(histories, n_items),
        base=entries_of_items([row or [] for row in bases], n_items),
        has_base=np.array([row is not None for row in bases], dtype=bool),
    )


def occurrences(rows: Sequence[Collection[int]], n_items: int) -> Ints:
    """Count the occurrences of each item; shape (n + 1,)."""
    counts = Counter(item for row in rows for item in row)
    return np.array([counts[item] for item in range(n_items + 1)], dtype=np.int64)


def item_indices(items: Sequence[int], n_items: int) -> Ints:
    """Return the index of each item in the catalogue, -1 if missing."""
    return np.array([item if item < n_items else -1 for item in items], dtype=np.int64)


def entries_of_items(lists: ListsOfItems, n_items: int) -> Entries:
    """Return the items of lists, in order."""
    entries = [(row, rank, item) for row, items in enumerate(lists) for rank, item in enumerate(items, 1)]
    row, rank, item = np.array(entries, dtype=np.int64).reshape(-1, 3).T
    return Entries(len(lists), row, rank, item, item_indices(item.tolist(), n_items))


def users_of_items(train: ListsOfItems, n_items: int) -> Sets:
    """Return the training users of each item."""
    users = [[user for user, row in enumerate(train) if item in row] for item in range(n_items + 1)]
    starts = np.cumsum([0, *map(len, users)])
    return Sets(starts, np.array([user for row in users for user in row], dtype=np.int64))


def sets_of_words(words: Sequence[Sequence[str]], n_items: int) -> Sets:
    """Return the sets of words of the items 0, 1, ..., empty for the others."""
    rows = [sorted(set(row)) for row in words]
    names = sorted({word for row in rows for word in row})
    starts = np.cumsum([0, *map(len, rows), *[0] * (n_items + 1 - len(rows))])
    return Sets(starts, np.array([names.index(word) for row in rows for word in row], dtype=np.int64), names)


def flag_table(values: Sequence[bool | None], n_items: int) -> Ints:
    """Return the flags of the items 0, 1, ...: 1, 0, or -1 for unknown ones and for the others."""
    known = [-1 if value is None else int(value) for value in values]
    return np.array([*known, *[-1] * (n_items + 1 - len(known))], dtype=np.int64)


def vector_table(vectors: Sequence[Sequence[float]], n_items: int) -> Floats:
    """Return the vectors of the items 0, 1, ..., NaN for the others."""
    given = np.array(vectors, dtype=np.float64) if vectors else np.zeros((0, 1))
    return np.concatenate([given, np.full((n_items + 1 - len(given), given.shape[1]), np.nan)])
