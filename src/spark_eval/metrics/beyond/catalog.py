"""Item attributes and item context: popularity, groups, features, vectors.

Arrays over the n items of a catalogue have n + 1 entries: the last one, also reached as -1, is for all items
without attributes.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, Final, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from spark_eval.arrow.hashes import Booleans, run_starts
from spark_eval.metrics.beyond.arrays import cached_on_first_argument, expand_ranges, index_in_run
from spark_eval.statistics.exact import Floats, Ints

# Index of an item without attributes.
UNKNOWN: Final = -1
# Lists are laid out as a table by rank if it has at most this many cells per item.
SPARSEST_LISTS: Final = 4
Given = TypeVar("Given")


def require_fact(fact: Given | None) -> Given:
    """Return an input that a metric has declared; raise ValueError if it is None."""
    if fact is None:
        raise ValueError("a metric needs an input that these lists do not have")
    return fact


@dataclass(frozen=True)
class Sets:
    """n sets, concatenated: set i is ``members[starts[i]:starts[i + 1]]``.

    ``starts`` has shape (n + 1,); members are integers, ascending and distinct within a set. ``names`` are
    the members' names, sorted by UTF-8 bytes. ``values`` (members,) are the components of sparse vectors,
    None for sets.
    """

    starts: Ints
    members: Ints
    names: Sequence[str] = ()
    values: Floats | None = None

    @property
    def sizes(self) -> Ints:
        """Number of members of each set; shape (n,)."""
        return self.starts[1:] - self.starts[:-1]

    @cached_property
    def n_members(self) -> int:
        """Largest member plus one."""
        return int(self.members.max(initial=0)) + 1

    @property
    def owner(self) -> Ints:
        """Index of the set of each member; shape (members,)."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def places_of_members(self, things: Ints) -> tuple[Ints, Ints]:
        """Return all members of these sets: the position of the set in ``things``, and the member's index.

        Both have shape (members of these sets,); the index is that in ``members`` and ``values``.
        """
        return expand_ranges(self.starts[:-1][things], self.sizes[things])

    def cells(self, row: Ints, things: Ints) -> tuple[Ints, Ints]:
        """Return the members of sets in rows: the position of the set, and row * n_members + member."""
        owner, place = self.places_of_members(things)
        return owner, row[owner] * self.n_members + self.members[place]


@dataclass(frozen=True)
class Catalog:
    """Attributes of n items, sorted by id; None if no metric needs them.

    Attributes from training have a row per fold, or one row without folds. ``is_listed`` (f, n + 1) is True
    for items of the catalogue: the table ``items``, or else the training items. ``n_takers`` (f, n + 1)
    counts the distinct training users of each item, ``n_rows`` (f, n + 1) its training interactions,
    ``n_users`` (f,) all training users.

    ``groups`` and ``features`` are sets of n + 1 items; ``vectors`` is an array (n + 1, dimensions), or
    sparse vectors as Sets. An empty set, a vector of NaN or a sparse vector without members means unknown.
    ``takers`` (one per fold) are the training users of each item as integers. ``text_order`` (n + 1,) ranks
    items by their ids as text.
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
    text_order: Ints | None = None


@dataclass(frozen=True)
class RankedEntries:
    """Entries of n lists at their ranks, concatenated; arrays have the shape (entries,).

    Entry i is in list ``row[i]`` (ascending) at rank ``rank[i]``, from 1 (ascending within a list).
    """

    n_rows: int
    row: Ints
    rank: Ints

    def total(self, weight: Floats, k: int | None) -> Floats:
        """Sum the weights (entries,) at ranks up to k in each list; shape (n_rows,).

        Entries are added in rank order, one after the other, so a list's value does not depend on the other
        lists of its batch.
        """
        top = self.top(k)
        totals = np.bincount(self.row[top], weights=weight[top], minlength=self.n_rows)
        return totals.astype(np.float64, copy=False)

    def totals(self, weight: Floats) -> Callable[[int | None], Floats]:
        """Return a function of k with the results of ``total``; sums are computed once for all cutoffs."""
        width, size = self.width, len(self.row)
        if self.n_rows * width > SPARSEST_LISTS * size:
            return partial(self.total, weight)
        # Running sums in rank order from 0 have the same bits as those of ``total``.
        table = np.zeros((self.n_rows, width + 1))
        if size == self.n_rows * width:
            table[:, 1:] = weight.reshape(self.n_rows, width)
        else:
            table[self.row, self.rank] = weight
        np.cumsum(table, axis=1, out=table)
        return lambda k: table[:, width if k is None else min(k, width)]

    @cached_property
    def width(self) -> int:
        """Largest rank."""
        return int(self.rank.max(initial=0))

    @cached_property
    def number(self) -> Ints:
        """1 for the first entry of a list, 2 for its second, ...; shape (entries,)."""
        return index_in_run(run_starts(self.row)) + 1

    @cached_property
    def has_no_gaps(self) -> bool:
        """True if every list has an entry at each rank up to its largest."""
        size = self.count(None)
        last = np.cumsum(size)[size > 0] - 1
        return np.array_equal(self.rank[last], size[size > 0])

    @cached_on_first_argument
    def count(self, k: int | None) -> Ints:
        """Return the number of entries of each list at ranks up to k; shape (n_rows,)."""
        if k is not None and self.has_no_gaps:
            return np.asarray(np.minimum(self.count(None), k))
        return np.bincount(self.row[self.top(k)], minlength=self.n_rows)

    @cached_on_first_argument
    def top(self, k: int | None) -> "Ints | slice":
        """Return an index that selects the entries at ranks up to k."""
        if k is None or self.width <= k:
            return slice(None)
        return np.flatnonzero(self.rank <= k)

    def of_rows(self, rows: Ints) -> Self:
        """Return the entries of these lists, in this order; lists may be repeated."""
        if np.array_equal(rows, np.arange(self.n_rows)):
            return self
        ends, sizes = np.cumsum(self.count(None)), self.count(None)[rows]
        row, chosen = expand_ranges(ends[rows] - sizes, sizes)
        of_entries = {field.name: getattr(self, field.name)[chosen] for field in fields(self)[2:]}
        return replace(self, n_rows=len(rows), row=row, **of_entries)


@dataclass(frozen=True)
class Entries(RankedEntries):
    """Items of n lists (or histories, or truths), each once per list; unordered items rank by item.

    ``item`` is an integer that is equal for equal items and ascends with the ids; ``place`` is the item's
    index in the catalogue, or UNKNOWN.
    """

    item: Ints
    place: Ints


@dataclass(frozen=True)
class ItemContext:
    """Item context of n lists: inputs of metrics beyond accuracy; None if no metric needs them.

    ``fold`` (n,) is the row of each list in the catalogue's tables by fold. ``hits`` (hits,) are the
    catalogue indices of the hits, and ``hit_items`` their integers as in Entries, both in the order of
    ``Lists.hits``. ``listed`` are the items of the lists up to the largest k; ``relevant`` the items of the
    truth, best first, equal relevances by descending id; ``profile`` the training items; ``base`` the items
    of the baseline model's list for the same user up to the largest k. ``has_base`` (n,) is True if there is
    such a list.
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

    def of_entries(self, table: NDArray[Any], entries: Entries) -> NDArray[Any]:
        """Look up entries of these lists in a table by fold and item (f, n + 1); shape (entries,)."""
        return self.of_places(table, entries.row, entries.place)

    def of_places(self, table: NDArray[Any], row: Ints, place: Ints) -> NDArray[Any]:
        """Look up items of lists in a table by fold and item (f, n + 1); shape of ``place``."""
        values: NDArray[Any] = table[0][place] if len(table) == 1 else table[self.fold[row], place]
        return values


@dataclass(frozen=True)
class ItemCounts:
    """Number of lists with each item up to a rank, for one model (and fold).

    An entry stands for ``n_items`` items with equal properties, each in ``n_lists`` lists. ``is_listed`` is
    True for items of the catalogue, ``is_trained`` for items with training interactions; ``slots`` sums 1 /
    length over these lists and items, 0 if not requested; all of shape (entries,). The catalogue has
    ``n_catalog`` items, training ``n_trained``. ``n_population`` users are in the mean; ``n_filled`` of them
    have a list that is not empty.
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

    @classmethod
    def of(
        cls, lists: Sequence[Sequence[int]], catalog: Collection[int] = (), trained: Collection[int] = ()
    ) -> "ItemCounts":
        """Count each item of lists, for examples and tests; an empty list means a user without one."""
        n_lists = Counter(item for items in lists for item in items)
        slots = [sum(Fraction(items.count(item), len(items) or 1) for items in lists) for item in n_lists]
        return cls(
            n_lists=np.array(list(n_lists.values()), dtype=np.int64),
            n_items=np.ones(len(n_lists), dtype=np.int64),
            is_listed=np.array([item in catalog for item in n_lists], dtype=bool),
            is_trained=np.array([item in trained for item in n_lists], dtype=bool),
            slots=np.array(slots, dtype=np.float64),
            n_catalog=len(set(catalog)),
            n_trained=len(set(trained)),
            n_population=len(lists),
            n_filled=sum(len(items) > 0 for items in lists),
        )
