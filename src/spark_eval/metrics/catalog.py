"""What is known of items beside who finds them relevant: popularity, groups, features, vectors.

Arrays over the n items of a catalogue have n + 1 places: the last one, reached as -1 too, stands for all
items of which nothing is known.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from spark_eval.arrow.hashes import Booleans
from spark_eval.stats.exact import Floats, Ints

# The place of an item of which nothing is known.
UNKNOWN: Final = -1


@dataclass(frozen=True)
class Sets:
    """A set for each of n things, laid end to end: that of thing i is ``members[starts[i]:starts[i + 1]]``.

    ``starts`` has shape (n + 1,); members are numbers, ascending within a set, each once. ``names`` are those
    of the members, in the order of their UTF-8 bytes. ``values`` (members,) are the components of sparse
    vectors, None of sets.
    """

    starts: Ints
    members: Ints
    names: Sequence[str] = ()
    values: Floats | None = None

    @property
    def sizes(self) -> Ints:
        """How many members each set has; shape (n,)."""
        return self.starts[1:] - self.starts[:-1]


@dataclass(frozen=True)
class Catalog:
    """Facts of n items, as far as a chosen metric needs them, else None.

    What follows from training interactions stands once for each of f folds, once alone where there are none.
    ``is_listed`` (f, n + 1) tells the items of the catalogue: those of the table ``items``, without one those
    of training. ``n_takers`` (f, n + 1) counts the distinct training users of each item, ``n_rows`` of the
    same shape its training interactions, ``n_users`` (f,) all training users.

    ``groups`` and ``features`` are sets of n + 1 items, ``vectors`` an array (n + 1, dimensions) or sparse
    vectors as Sets; an empty set, a vector of NaN, a sparse one without members: nothing is known.
    ``takers`` (one for each fold) are the training users of each item as numbers.
    """

    n_items: int
    is_listed: Booleans | None = None
    n_takers: Ints | None = None
    n_rows: Ints | None = None
    n_users: Ints | None = None
    groups: Sets | None = None
    features: Sets | None = None
    vectors: "Floats | Sets | None" = None
    takers: Sequence[Sets] | None = None


@dataclass(frozen=True)
class Entries:
    """Items of n lists (or histories, or truths), laid end to end; all of shape (entries,).

    Entry i is an item of list ``row[i]`` at rank ``rank[i]`` (from 1; of unordered items 1, 2, ... by item).
    They are sorted by row, then by rank, each item once in a row. ``item`` is a number that is equal where
    items are, and ascends as their ids do; ``place`` is the item's place in the catalogue, or UNKNOWN.
    """

    n_rows: int
    row: Ints
    rank: Ints
    item: Ints
    place: Ints


@dataclass(frozen=True)
class About:
    """What metrics beyond accuracy see of n lists, as far as a chosen one needs it, else None.

    ``fold`` (n,) is the row of each list in the catalogue's tables by fold. ``hits`` (hits,) are the places
    of the hits in the catalogue, and ``hit_items`` their numbers as in Entries, both in the order of
    ``Lists.hits``. ``listed`` are the items of the lists, as far as the largest k; ``relevant`` those of the
    truth, best first and among equal ones by falling id; ``profile`` those of training; ``base`` the items of
    the baseline model's list of the same user, as far as the largest k, and ``has_base`` (n,) whether there
    is such a list.
    """

    catalog: Catalog
    fold: Ints
    hits: Ints
    hit_items: Ints
    listed: Entries | None = None
    relevant: Entries | None = None
    profile: Entries | None = None
    base: Entries | None = None
    has_base: Booleans | None = None


@dataclass(frozen=True)
class ItemCounts:
    """How often items were recommended up to a rank, by a model, in a fold if there are folds.

    Of every number c of lists and every kind of item one entry: ``n_items`` items are each in ``n_lists``
    lists. ``is_listed`` tells whether they are in the catalogue, ``is_trained`` whether they have training
    interactions; ``slots`` sums 1 / length of the list over these lists and items; all of shape (entries,).
    The catalogue has ``n_catalog`` items, training ``n_trained``. ``n_population`` users are in the
    population, ``n_filled`` of them have a list that is not empty.
    """

    n_lists: Ints
    n_items: Ints
    is_listed: Booleans
    is_trained: Booleans
    slots: Floats
    n_catalog: int
    n_trained: int
    n_population: int
    n_filled: int
