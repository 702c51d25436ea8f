"""Lists of items with all that is known of them, for examples and tests."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from spark_eval.metrics.beyond.catalog import About, Catalog, Entries, Sets
from spark_eval.metrics.lists import Lists
from spark_eval.stats.exact import Floats, Ints

ListsOfItems = Sequence[Sequence[int]]


def lists_of(
    lists: ListsOfItems,
    *,
    truth: ListsOfItems | None = None,
    train: ListsOfItems | None = None,
    listed: Sequence[int] | None = None,
    groups: Sequence[Sequence[str]] | None = None,
    features: Sequence[Sequence[str]] | None = None,
    vectors: Sequence[Sequence[float]] | None = None,
    base: Sequence[Sequence[int] | None] | None = None,
) -> Lists:
    """Make lists of items 0, 1, ..., best first; by default nothing is relevant and nobody has training.

    ``truth`` has the relevant items of each list's user, ``train`` the training interactions of each user,
    the lists' users first. ``listed`` are the items of the catalogue, by default those of training.
    ``groups``, ``features`` and ``vectors`` are those of the items 0, 1, ... . ``base`` are the baseline
    model's lists, None where there is none.
    """
    relevant = [set(row) for row in truth or [[]] * len(lists)]
    hits = [[float(item in wanted) for item in row] for row, wanted in zip(lists, relevant, strict=True)]
    training = train or []
    known = max([-1, *(len(facts) - 1 for facts in (groups, features, vectors) if facts)])
    n_items = 1 + max([known, *(item for row in training for item in row), *(listed or [])])
    catalog = Catalog(
        n_items,
        is_listed=np.isin(np.arange(n_items + 1), items_of_training(training) if listed is None else listed)[
            None
        ],
        n_takers=occurrences([set(row) for row in training], n_items)[None],
        n_rows=occurrences(training, n_items)[None],
        n_users=np.array([sum(map(bool, training))]),
        groups=sets_of_words(groups, n_items),
        features=sets_of_words(features, n_items),
        vectors=vector_table(vectors, n_items),
        takers=[takers_by_item(training, n_items)],
    )
    of_users = [sorted(set(training[row])) if row < len(training) else [] for row in range(len(lists))]
    of_hits = [item for row, wanted in zip(lists, relevant, strict=True) for item in row if item in wanted]
    of_base = [row or [] for row in base] if base is not None else [[]] * len(lists)
    about = About(
        catalog,
        fold=np.zeros(len(lists), dtype=np.int64),
        hits=known_places(of_hits, n_items),
        hit_items=np.array(of_hits, dtype=np.int64),
        listed=entries_of_items(lists, n_items),
        relevant=entries_of_items([sorted(row, reverse=True) for row in relevant], n_items),
        profile=entries_of_items(of_users, n_items),
        base=entries_of_items(of_base, n_items),
        has_base=np.array([row is not None for row in base or [None] * len(lists)], dtype=bool),
    )
    made = Lists.of(hits, truth=[[1.0] * len(row) for row in relevant])
    return Lists(**{**vars(made), "about": about})


def items_of_training(train: ListsOfItems) -> list[int]:
    """Return the items with training interactions."""
    return sorted({item for row in train for item in row})


def occurrences(rows: Sequence[Sequence[int] | set[int]], n_items: int) -> Ints:
    """Count how often each item occurs; (n + 1,)."""
    counts = Counter(item for row in rows for item in row)
    return np.array([counts[item] for item in range(n_items + 1)], dtype=np.int64)


def known_places(items: Sequence[int], n_items: int) -> Ints:
    """Return the place of each item in the catalogue, -1 where it has none."""
    return np.array([item if item < n_items else -1 for item in items], dtype=np.int64)


def entries_of_items(lists: ListsOfItems, n_items: int) -> Entries:
    """Return the items of lists, in their order."""
    entries = [(row, rank, item) for row, items in enumerate(lists) for rank, item in enumerate(items, 1)]
    row, rank, item = np.array(entries, dtype=np.int64).reshape(-1, 3).T
    return Entries(len(lists), row, rank, item, known_places(item.tolist(), n_items))


def takers_by_item(train: ListsOfItems, n_items: int) -> Sets:
    """Return the users of each item."""
    users = [[user for user, row in enumerate(train) if item in row] for item in range(n_items + 1)]
    starts = np.cumsum([0, *map(len, users)])
    return Sets(starts, np.array([user for row in users for user in row], dtype=np.int64))


def sets_of_words(words: Sequence[Sequence[str]] | None, n_items: int) -> Sets:
    """Return the sets of words of the items 0, 1, ..., empty for the others."""
    rows = [sorted(set(row)) for row in words or []]
    names = sorted({word for row in rows for word in row})
    starts = np.cumsum([0, *map(len, rows), *[0] * (n_items + 1 - len(rows))])
    return Sets(starts, np.array([names.index(word) for row in rows for word in row], dtype=np.int64), names)


def vector_table(vectors: Sequence[Sequence[float]] | None, n_items: int) -> Floats:
    """Return the vectors of the items 0, 1, ..., NaN for the others."""
    known = np.array(vectors, dtype=np.float64) if vectors else np.zeros((0, 1))
    return np.concatenate([known, np.full((n_items + 1 - len(known), known.shape[1]), np.nan)])
