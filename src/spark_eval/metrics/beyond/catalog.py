"""What is known of items beside who finds them relevant: popularity, groups, features, vectors.

Arrays over the n items of a catalogue have n + 1 places: the last one, reached as -1 too, stands for all
items of which nothing is known.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, Final, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from spark_eval.arrow.hashes import Booleans, changes
from spark_eval.metrics.beyond.arrays import once, positions, spans
from spark_eval.stats.exact import Floats, Ints

# The place of an item of which nothing is known.
UNKNOWN: Final = -1
# Lists are laid out as a table by rank unless it has more than so many places for each item.
SPARSEST_LISTS: Final = 4
Given = TypeVar("Given")


def filled_in(fact: Given | None) -> Given:
    """Return a fact that a metric declares to need; raise ValueError where nobody filled it in."""
    if fact is None:
        raise ValueError("a metric needs a fact that these lists do not carry")
    return fact


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

    @cached_property
    def n_members(self) -> int:
        """One more than the largest member."""
        return int(self.members.max(initial=0)) + 1

    @property
    def owner(self) -> Ints:
        """Which set each member belongs to; shape (members,)."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def places_of_members(self, things: Ints) -> tuple[Ints, Ints]:
        """Return which of these things (their index) each of their members belongs to, and its place.

        Both have shape (members of these things,); the place is that in ``members`` and ``values``.
        """
        return spans(self.starts[:-1][things], self.sizes[things])

    def cells(self, row: Ints, things: Ints) -> tuple[Ints, Ints]:
        """Return the members of things in rows: the index of the thing, and row * n_members + member."""
        owner, place = self.places_of_members(things)
        return owner, row[owner] * self.n_members + self.members[place]


@dataclass(frozen=True)
class Catalog:
    """Facts of n items, as far as a chosen metric needs them, else None; places ascend as the items' ids do.

    What follows from training interactions stands once for each of f folds, once alone where there are none.
    ``is_listed`` (f, n + 1) tells the items of the catalogue: those of the table ``items``, without one those
    of training. ``n_takers`` (f, n + 1) counts the distinct training users of each item, ``n_rows`` of the
    same shape its training interactions, ``n_users`` (f,) all training users.

    ``groups`` and ``features`` are sets of n + 1 items, ``vectors`` an array (n + 1, dimensions) or sparse
    vectors as Sets; an empty set, a vector of NaN, a sparse one without members: nothing is known.
    ``takers`` (one for each fold) are the training users of each item as numbers. ``text_order`` (n + 1,)
    ascends as the ids of the items do as text.
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
    """Entries of n lists at their ranks, laid end to end; arrays have the shape (entries,).

    Entry i is in list ``row[i]`` (ascending) at rank ``rank[i]``, from 1 (ascending within a list).
    """

    n_rows: int
    row: Ints
    rank: Ints

    def total(self, weight: Floats, k: int | None) -> Floats:
        """Return per list the sum of weights (entries,) at ranks <= k; shape (n_rows,).

        The sum runs in rank order, one entry after the other, so a list's value does not depend on which
        other lists share its batch.
        """
        top = self.top(k)
        totals = np.bincount(self.row[top], weights=weight[top], minlength=self.n_rows)
        return totals.astype(np.float64, copy=False)

    def totals(self, weight: Floats) -> Callable[[int | None], Floats]:
        """Return what ``total`` returns of these weights, by k: added once for all cutoffs."""
        width, size = self.width, len(self.row)
        if self.n_rows * width > SPARSEST_LISTS * size:
            return partial(self.total, weight)
        # Sums run in rank order from 0, as those of ``total``: they have the same bits.
        table = np.zeros((self.n_rows, width + 1))
        if size == self.n_rows * width:
            table[:, 1:] = weight.reshape(self.n_rows, width)
        else:
            table[self.row, self.rank] = weight
        np.cumsum(table, axis=1, out=table)
        return lambda k: table[:, width if k is None else min(k, width)]

    @cached_property
    def width(self) -> int:
        """The largest rank."""
        return int(self.rank.max(initial=0))

    @cached_property
    def number(self) -> Ints:
        """1 for the first entry of a list, 2 for its second, ...; shape (entries,)."""
        return positions(changes(self.row)) + 1

    @cached_property
    def has_no_gaps(self) -> bool:
        """Whether every list holds an entry at each rank up to its own largest."""
        size = self.count(None)
        last = np.cumsum(size)[size > 0] - 1
        return np.array_equal(self.rank[last], size[size > 0])

    @once
    def count(self, k: int | None) -> Ints:
        """Return how many entries each list holds at ranks <= k; shape (n_rows,)."""
        if k is not None and self.has_no_gaps:
            return np.asarray(np.minimum(self.count(None), k))
        return np.bincount(self.row[self.top(k)], minlength=self.n_rows)

    @once
    def top(self, k: int | None) -> "Ints | slice":
        """Return what selects the entries at ranks <= k."""
        if k is None or self.width <= k:
            return slice(None)
        return np.flatnonzero(self.rank <= k)

    def of_rows(self, rows: Ints) -> Self:
        """Return the entries of these lists, in this order; a list may come several times."""
        if np.array_equal(rows, np.arange(self.n_rows)):
            return self
        ends, sizes = np.cumsum(self.count(None)), self.count(None)[rows]
        row, chosen = spans(ends[rows] - sizes, sizes)
        of_entries = {field.name: getattr(self, field.name)[chosen] for field in fields(self)[2:]}
        return replace(self, n_rows=len(rows), row=row, **of_entries)


@dataclass(frozen=True)
class Entries(RankedEntries):
    """Items of n lists (or histories, or truths), each once in a list; unordered items rank by item.

    ``item`` is a number that is equal where items are, and ascends as their ids do; ``place`` is the item's
    place in the catalogue, or UNKNOWN.
    """

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

    def of_entries(self, table: NDArray[Any], entries: Entries) -> NDArray[Any]:
        """Return what a table by fold and item (f, n + 1) has for entries of these lists; (entries,)."""
        return self.of_places(table, entries.row, entries.place)

    def of_places(self, table: NDArray[Any], row: Ints, place: Ints) -> NDArray[Any]:
        """Return what a table by fold and item (f, n + 1) has for places of lists; shape of ``place``."""
        values: NDArray[Any] = table[0][place] if len(table) == 1 else table[self.fold[row], place]
        return values


@dataclass(frozen=True)
class ItemCounts:
    """How often items were recommended up to a rank, by a model, in a fold if there are folds.

    An entry stands for ``n_items`` items of one kind, each in ``n_lists`` lists. ``is_listed`` tells whether
    they are in the catalogue, ``is_trained`` whether they have training interactions; ``slots`` sums
    1 / length of the list over these lists and items, 0 where no chosen metric asks; all of shape (entries,).
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

    @classmethod
    def of(
        cls, lists: Sequence[Sequence[int]], catalog: Collection[int] = (), trained: Collection[int] = ()
    ) -> "ItemCounts":
        """Count each item of lists, for examples and tests; an empty list is that of a user without one."""
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
