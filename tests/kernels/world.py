"""Items of which something is known, for users written down by hand, and their form for the kernels.

The items 1 to 8 and the first fold are those of a worked example; items 9 and up have corners of their own,
and nothing is known of item 0 and of those from 14 on.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from spark_eval.kernels.beyond.catalog import Catalog, Entries, ItemContext
from spark_eval.kernels.beyond.examples import (
    entries_of_items,
    flag_table,
    item_indices,
    occurrences,
    sets_of_words,
    users_of_items,
    vector_table,
)
from spark_eval.kernels.lists import Ragged

N_ITEMS: Final = 14
# Training interactions of each training user, by fold; those of the second repeat some.
TRAINING: Final = (
    ((1, 2, 3), (1, 2), (1, 4), (1, 2, 5), (4, 6)),
    ((1, 1, 2), (3,), (2, 2, 2, 5), (7, 6, 1), (6, 10, 11), (12, 1)),
)
LISTED: Final = range(1, 9)
LETTERS: Final = ("", "a", "ab", "b", "bc", "c", "ac", "a", "c", "", "abc", "d", "", "bd")
NAN: Final = float("nan")
VECTORS: Final = (
    *((NAN, NAN), (1, 0), (1, 1), (0, 1), (0, 2), (2, 1), (-1, 1), (1, 2), (3, 4)),
    *((NAN, NAN), (0, 0), (-1, 0), (NAN, NAN), (0.1, 0.3)),
)
# Items that may be had; of some it is not known.
AVAILABLE: Final = (None, True, False, True, False, True, True, False, None, True, False, None, True, True)
# Propensities of items, of some unknown.
PROPENSITIES: Final = (NAN, 1.0, 0.5, 0.25, 0.05, 0.8, 0.002, 0.0005, 1.0, NAN, 0.3, 0.7, NAN, 0.02)
CATALOG: Final = Catalog(
    N_ITEMS,
    is_listed=np.array([[item in LISTED for item in range(N_ITEMS + 1)]] * 2),
    n_takers=np.array([occurrences([set(row) for row in fold], N_ITEMS) for fold in TRAINING]),
    n_rows=np.array([occurrences(fold, N_ITEMS) for fold in TRAINING]),
    n_users=np.array([len(fold) for fold in TRAINING]),
    groups=sets_of_words(LETTERS, N_ITEMS),
    features=sets_of_words(LETTERS, N_ITEMS),
    vectors=vector_table(VECTORS, N_ITEMS),
    flags={"available": flag_table(AVAILABLE, N_ITEMS)},
    propensities=np.array([*PROPENSITIES, NAN]),
    takers=[users_of_items(fold, N_ITEMS) for fold in TRAINING],
)


def entries_with_gaps(lists: Sequence[Sequence[int]]) -> Entries:
    """The items of lists at their ranks, but for those that nothing holds."""
    every = entries_of_items(lists, N_ITEMS)
    held = every.item >= 0
    return Entries(every.n_rows, every.row[held], every.rank[held], every.item[held], every.index[held])


def about(
    lists: Sequence[Sequence[int]],
    histories: Sequence[Sequence[int]],
    bases: Sequence[Sequence[int] | None],
    relevant: Sequence[Sequence[int]],
    folds: Sequence[int],
    hits: Ragged,
) -> ItemContext:
    """What is known of these users' items."""
    hit_items = [lists[row][rank - 1] for row, rank in zip(hits.row, hits.rank, strict=True)]
    return ItemContext(
        CATALOG,
        fold=np.array(folds, dtype=np.int64),
        hits=item_indices(hit_items, N_ITEMS),
        hit_items=np.array(hit_items, dtype=np.int64),
        listed=entries_with_gaps(lists),
        relevant=entries_of_items(relevant, N_ITEMS),
        profile=entries_of_items([sorted(set(history)) for history in histories], N_ITEMS),
        base=entries_of_items([base or [] for base in bases], N_ITEMS),
        has_base=np.array([base is not None for base in bases], dtype=bool),
    )
