"""Item attributes and item context: popularity, groups, features, vectors.

Arrays over the n items of a catalogue have n + 1 entries: the last one, also reached as -1, is for all items
without attributes.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property, partial, wraps
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

import numpy as np

from spark_eval.arrow.codes import Array, Booleans, run_starts
from spark_eval.conventions import Conventions, Discount, ExposureWeights
from spark_eval.kernels.discounts import discounts
from spark_eval.schema import MISSING
from spark_eval.statistics.exact import DigitSums, Floats, Ints, add, exact_sums

Bearer = TypeVar("Bearer")
Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


def cached_on_first_argument(
    function: Callable[Concatenate[Bearer, Arguments], Returned],
) -> Callable[Concatenate[Bearer, Arguments], Returned]:
    """Cache a function's results on its first argument, so that all cutoffs share them."""
    name = f"{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def cached(facts: Bearer, /, *choices: Arguments.args, **named: Arguments.kwargs) -> Returned:
        results: dict[Any, Returned] = vars(facts).setdefault("_once", {})
        key = (name, *choices)
        if key not in results:
            results[key] = function(facts, *choices, **named)
        return results[key]

    return cached


def index_in_run(is_first: Booleans) -> Ints:
    """Return 0 for the first entry of each run, 1 for the second, ...; runs begin where ``is_first``."""
    starts = np.flatnonzero(is_first)
    return np.arange(len(is_first)) - np.repeat(starts, np.diff(starts, append=len(is_first)))


def expand_ranges(starts: Ints, sizes: Ints) -> tuple[Ints, Ints]:
    """Return the concatenated spans: the span's number of each index, and the indices."""
    owner = np.repeat(np.arange(len(sizes)), sizes)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes - starts, sizes)


def slices_by_cost(cost: Ints, most: int) -> Iterator[slice]:
    """Yield slices whose total cost is at most ``most``, or of a single element."""
    until, first = np.cumsum(cost), 0
    while first < len(cost):
        reach = until[first] - cost[first] + most
        last = max(int(np.searchsorted(until, reach, side="right")), first + 1)
        yield slice(first, last)
        first = last


def index_in_sorted(keys: Ints, wanted: Ints) -> Ints:
    """Return the index of numbers (from 0) in ascending keys, -1 if missing."""
    indices = np.searchsorted(keys, wanted)
    return np.where(np.append(keys, -1)[indices] == wanted, indices, -1)


def divide(numerator: Floats | Ints, denominator: Floats | Ints, otherwise: float = 0.0) -> Floats:
    """Divide, with ``otherwise`` where the denominator is 0; shape of the numerator."""
    quotient = np.full(numerator.shape, otherwise)
    np.divide(numerator, denominator, out=quotient, where=denominator > 0)
    return quotient


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

    def member_indices(self, things: Ints) -> tuple[Ints, Ints]:
        """Return all members of these sets: the position of the set in ``things``, and the member's index.

        Both have shape (members of these sets,); the index is that in ``members`` and ``values``.
        """
        return expand_ranges(self.starts[:-1][things], self.sizes[things])

    def cells(self, row: Ints, things: Ints) -> tuple[Ints, Ints]:
        """Return the members of sets in rows: the position of the set, and row * n_members + member."""
        owner, index = self.member_indices(things)
        return owner, row[owner] * self.n_members + self.members[index]


@dataclass(frozen=True)
class Catalog:
    """Attributes of n items, sorted by id; None if no metric needs them.

    Attributes from training have a row per fold, or one row without folds. ``is_listed`` (f, n + 1) is True
    for items of the catalogue: the table ``items``, or else the training items. ``n_takers`` (f, n + 1)
    counts the distinct training users of each item, ``n_rows`` (f, n + 1) its training interactions,
    ``n_users`` (f,) all training users.

    ``groups`` and ``features`` are sets of n + 1 items; ``vectors`` is an array (n + 1, dimensions), or
    sparse vectors as Sets. An empty set, a vector of NaN or a sparse vector without members means unknown.
    ``flags`` (n + 1,) are boolean columns of items by name: 1 for true, 0 for false, -1 for unknown.
    ``propensities`` (n + 1,) are probabilities that an item was seen, NaN if unknown.
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
    flags: Mapping[str, Ints] | None = None
    propensities: Floats | None = None
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

    @cached_property
    def width(self) -> int:
        """Largest rank."""
        return int(self.rank.max(initial=0))

    @cached_property
    def filled(self) -> Ints:
        """Lists with an entry, ascending."""
        return self.row[run_starts(self.row)]

    @cached_property
    def is_even(self) -> bool:
        """True if every list is empty, or has an entry at each rank up to the largest of all lists."""
        if len(self.row) != len(self.filled) * self.width:
            return False
        return bool((self.rank.reshape(-1, max(self.width, 1)) == np.arange(1, self.width + 1)).all())

    def between(self, values: Array, above: int, last: int | None) -> Array:
        """Return the values (entries,) at ranks from ``above + 1`` to ``last``."""
        if self.is_even:
            return values.reshape(len(self.filled), self.width)[:, above:last].ravel()
        return values[(self.rank > above) & (True if last is None else self.rank <= last)]

    @cached_property
    def number(self) -> Ints:
        """1 for the first entry of a list, 2 for its second, ...; shape (entries,)."""
        return index_in_run(run_starts(self.row)) + 1

    @cached_property
    def has_no_gaps(self) -> bool:
        """True if every list has an entry at each rank up to its largest."""
        if self.is_even:
            return True
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

    def up_to(self, k: int) -> Self:
        """Return the entries at ranks up to k."""
        top = self.top(k)
        return replace(self, **{field.name: getattr(self, field.name)[top] for field in fields(self)[1:]})

    def of_rows(self, rows: Ints) -> Self:
        """Return the entries of these lists, in this order; lists may be repeated."""
        if np.array_equal(rows, np.arange(self.n_rows)):
            return self
        names = [field.name for field in fields(self)[2:]]
        if self.is_even:
            number = np.full(self.n_rows, -1)
            number[self.filled] = np.arange(len(self.filled))
            chosen = number[rows]
            filled = np.flatnonzero(chosen >= 0)
            shape, chosen = (len(self.filled), self.width), chosen[filled]
            of_entries = {name: getattr(self, name).reshape(shape)[chosen].ravel() for name in names}
            return replace(self, n_rows=len(rows), row=np.repeat(filled, self.width), **of_entries)
        ends, sizes = np.cumsum(self.count(None)), self.count(None)[rows]
        row, chosen = expand_ranges(ends[rows] - sizes, sizes)
        of_entries = {name: getattr(self, name)[chosen] for name in names}
        return replace(self, n_rows=len(rows), row=row, **of_entries)


@dataclass(frozen=True)
class Entries(RankedEntries):
    """Items of n lists (or histories, or truths), each once per list; unordered items rank by item.

    ``item`` is an integer that is equal for equal items and ascends with the ids; ``index`` is the item's
    index in the catalogue, or UNKNOWN.
    """

    item: Ints
    index: Ints


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

    @cached_property
    def listed_by_rank(self) -> tuple[Ints, Ints] | None:
        """Lists, and the cells of their items in a flat table by fold and item: (largest rank, lists).

        A rank without an item has -1. None if this holds for most ranks.
        """
        listed, n_items = require_fact(self.listed), self.catalog.n_items + 1
        if listed.n_rows * listed.width > SPARSEST_LISTS * len(listed.row):
            return None
        cell = listed.index
        if self.fold.any() or not listed.is_even:
            cell = self.fold[listed.row] * n_items + np.where(cell < 0, n_items - 1, cell)
        if listed.is_even:
            return listed.filled, np.ascontiguousarray(cell.reshape(-1, max(listed.width, 1)).T)
        by_rank = np.full((listed.width, listed.n_rows), -1, dtype=np.int64)
        by_rank[listed.rank - 1, listed.row] = cell
        return np.arange(listed.n_rows), by_rank

    def totals(self, table: Floats) -> Callable[[int | None], Floats]:
        """Return a function of k: the sum over each list's items up to rank k of their values in a table.

        The table is by fold and item (f, n + 1). Values are added in rank order, one after the other, as by
        ``RankedEntries.total``: once for all cutoffs, and rank by rank for all lists.
        """
        listed, found = require_fact(self.listed), self.listed_by_rank
        if found is None:
            return partial(listed.total, self.of_entries(table, listed))
        lists, by_rank = found
        values = table.ravel() if self.fold.any() else table[0]
        if not listed.is_even:
            values = np.append(values, 0.0)  # of ranks without an item
        known = {0: np.zeros(len(lists))}

        def total(k: int | None) -> Floats:
            last = len(by_rank) if k is None else min(k, len(by_rank))
            first = max(rank for rank in known if rank <= last)
            sums = known[first].copy()
            for cells in by_rank[first:last]:
                sums += values.take(cells)
            known[last] = sums
            totals = np.zeros(listed.n_rows)
            totals[lists] = sums
            return totals

        return total

    def of_entries(self, table: Array, entries: Entries) -> Array:
        """Look up entries of these lists in a table by fold and item (f, n + 1); shape (entries,)."""
        return self.of_indices(table, entries.row, entries.index)

    def of_indices(self, table: Array, row: Ints, index: Ints) -> Array:
        """Look up items of lists in a table by fold and item (f, n + 1); shape of ``index``."""
        values: Array = table[0][index] if len(table) == 1 else table[self.fold[row], index]
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


@dataclass(frozen=True)
class GroupWeights:
    """Weights of item groups in the recommended ranks, as exact sums that do not depend on order.

    An item of s groups gives 1/s of its weight to each. ``names`` are the n groups, including MISSING for
    items without a group; ``sums`` are arrays (n,) by digit (``statistics.exact``).
    """

    names: Sequence[str]
    sums: DigitSums

    def __add__(self, other: "GroupWeights") -> "GroupWeights":
        """Add weights of the same groups."""
        sums = dict(self.sums)
        for position, amounts in other.sums.items():
            add(sums, position, amounts)
        return GroupWeights(self.names, sums)

    @classmethod
    def of_lists(
        cls, context: ItemContext, k: int | None, conventions: Conventions, part: Ints, n_parts: int
    ) -> list["GroupWeights"]:
        """Weigh ``context.listed`` up to rank k for each part, such as a model; ``part`` (n,) is by list.

        Parts without lists also get weights.
        """
        listed, groups = require_fact(context.listed), require_fact(context.catalog.groups)
        top = listed.top(k)
        is_equal = conventions.exposure_weights is ExposureWeights.EQUAL
        weights = np.ones(len(listed.rank)) if is_equal else discounts(listed.rank, Discount.LOG2)
        return cls.of_items(groups, listed.index[top], weights[top], part[listed.row[top]], n_parts)

    @classmethod
    def of_catalog(cls, catalog: Catalog) -> "GroupWeights":
        """Weight every item of the catalogue equally, over all folds together."""
        _, items = np.nonzero(require_fact(catalog.is_listed))
        [weights] = cls.of_items(
            require_fact(catalog.groups), items, np.ones(len(items)), np.zeros_like(items), 1
        )
        return weights

    @classmethod
    def of_items(
        cls, groups: Sets, items: Ints, weights: Floats, part: Ints, n_parts: int
    ) -> list["GroupWeights"]:
        """Divide the weights of items among their groups; arrays of shape (entries,)."""
        names = (*groups.names, *({MISSING} - set(groups.names)))
        sizes = groups.sizes[items]
        which, of_item = groups.member_indices(items)
        group = groups.members[of_item]
        which = np.concatenate([which, np.flatnonzero(sizes == 0)])
        missing = np.full(len(which) - len(group), names.index(MISSING))
        cells = part[which] * len(names) + np.concatenate([group, missing])
        values = weights[which] / np.maximum(sizes, 1)[which]
        sums = exact_sums(values, cells, n_parts * len(names))
        return [
            cls(names, {position: amounts.reshape(n_parts, -1)[number] for position, amounts in sums.items()})
            for number in range(n_parts)
        ]
