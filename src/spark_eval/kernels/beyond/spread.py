"""Sums of the distances of each item to the earlier items of its list.

Items are given by list, ascending, in rank order, and by their index in the catalogue. A few lists are
processed at a time, so temporary arrays stay small; no sum spans several lists, so lists do not affect each
other.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from spark_eval.arrow.codes import Booleans, run_starts
from spark_eval.conventions.beyond import Distance
from spark_eval.kernels.beyond.catalog import Sets, index_in_run, require_fact, slices_by_cost
from spark_eval.kernels.distances import euclid, squares
from spark_eval.statistics.exact import Floats, Ints

# Maximum length of a temporary array: it fits the processor's cache.
MOST_IN_CACHE: Final = 1 << 17


def distance_sums(
    row: Ints, index: Ints, facts: Floats | Sets, distance: Distance, length: Floats | None
) -> Floats:
    """Sum the distances of each item to the earlier ones of its list; shape (entries,).

    ``facts`` are vectors (items, d), sparse vectors or sets of features. ``length`` (items,) has the lengths
    of the vectors; for the cosine, none is 0.
    """
    sums, longest = np.zeros(len(row)), np.bincount(row).max(initial=0)
    sums_of: Callable[[Ints, Ints], Floats]
    if not isinstance(facts, Sets):
        cost = np.full(len(row), facts.shape[1])
        if distance is Distance.COSINE:
            sums_of = partial(cosine_sums, vectors=facts, length=require_fact(length))
        else:
            sums_of = partial(euclid_sums, vectors=facts)
    elif facts.values is None:
        cost = facts.sizes[index] + longest
        sums_of = partial(sums_by_position, sets=facts, distance=distance)
    else:
        cost = (facts.sizes[index] + 1) * longest
        sums_of = partial(sparse_sums, vectors=facts, distance=distance, length=require_fact(length))
    for part in list_parts(row, cost):
        sums[part] = sums_of(index_in_run(run_starts(row[part])), index[part])
    return sums


def cosine_sums(number: Ints, index: Ints, vectors: Floats, length: Floats) -> Floats:
    """Return sums of 1 - cosine, without comparing pairs.

    1 - cosine is half the squared distance of the unit vectors. Let w be a unit vector minus the first one of
    its list. Over the j earlier ones, sum |w - w_i|^2 = j |w|^2 - 2 w * sum w_i + sum |w_i|^2. For equal
    vectors every w is 0, and so is the sum, exactly.
    """
    sums = np.zeros(len(index))
    start = np.flatnonzero(number == 0)
    size = np.diff(np.append(start, len(index)))
    scale = 1 / length[index]
    first = vectors[index[start]] * scale[start, None]
    total, squared = np.zeros(first.shape), np.zeros(len(start))
    for position in range(1, int(size.max(initial=0))):
        if (size <= position).any():
            longer = size > position
            start, size, first = start[longer], size[longer], first[longer]
            total, squared = total[longer], squared[longer]
        here = start + position
        apart = vectors[index[here]]
        apart *= scale[here, None]
        apart -= first
        own, crossed = squares(apart), (apart * total).sum(axis=1)
        sums[here] = np.maximum(position * own - 2 * crossed + squared, 0.0) / 2
        total += apart
        squared += own
    return sums


def euclid_sums(number: Ints, index: Ints, vectors: Floats) -> Floats:
    """Return sums of Euclidean distances, one pass for each difference of positions in a list."""
    sums, own = np.zeros(len(number)), vectors[index]
    for back in range(1, int(number.max(initial=0)) + 1):
        later = np.flatnonzero(number >= back)
        sums[later] += euclid(own[later], own[later - back])
    return sums


def sums_by_position(number: Ints, index: Ints, sets: Sets, distance: Distance) -> Floats:
    """Return the sums of distances; all items at one position are compared with the later ones at once.

    ``number`` and ``index`` (entries,) are the position and catalogue index of each item.
    """
    of_list, width = np.cumsum(number == 0) - 1, int(number.max(initial=0)) + 1
    size = np.zeros((int(of_list.max(initial=-1)) + 1, width), dtype=np.int64)
    size[of_list, number] = sets.sizes[index]
    shared, sums = shared_members(of_list, number, index, sets, size.shape), np.zeros(size.shape)
    for position in range(width - 1):
        both, common = size[:, position, None] + size[:, position + 1 :], shared[:, position, position + 1 :]
        if distance is Distance.JACCARD:
            # Values beyond the end of a list are never read.
            apart = 1 - common / np.maximum(both - common, 1)
        else:
            apart = both - 2.0 * common
        sums[:, position + 1 :] += apart
    return np.asarray(sums[of_list, number])


def shared_members(of_list: Ints, number: Ints, index: Ints, sets: Sets, shape: tuple[int, ...]) -> Ints:
    """Count the members that two items of a list share, by list, earlier and later position.

    Members are sorted by list, then by member, then by position: items with the same member are adjacent.
    """
    owner, where = sets.member_indices(index)
    member, (n_lists, width) = sets.members[where], shape
    bits = (width - 1).bit_length(), int(member.max(initial=0)).bit_length(), n_lists.bit_length()
    if sum(bits) > 63:
        member = np.unique(member, return_inverse=True)[1]
        bits = bits[0], len(member).bit_length(), bits[2]
    key = ((of_list[owner] << bits[1] | member) << bits[0]) | number[owner]
    key.sort()
    position, of_member = key & ((1 << bits[0]) - 1), key >> bits[0]
    item = (of_member >> bits[1]) * width + position
    shared = np.zeros(n_lists * width * width, dtype=np.int64)
    first, back = np.flatnonzero(of_member[1:] == of_member[:-1]), 1
    while len(first):
        np.add.at(shared, item[first] * width + position[first + back], 1)
        back += 1
        first = first[: np.searchsorted(first, len(key) - back)]
        first = first[of_member[first + back] == of_member[first]]
    return shared.reshape(n_lists, width, width)


@dataclass(frozen=True)
class Crossing:
    """Members of the sparse vectors of some lists, sorted by list, then by member, then by position.

    ``entry`` (members,) is the item of each member, ``value`` its component. ``among`` (members,) is an
    integer for each distinct member of a list: ``values`` (integers, positions) are the components of the
    item at each position of the list, 0 where ``has`` is False.
    """

    entry: Ints
    value: Floats
    among: Ints
    values: Floats
    has: Booleans

    @classmethod
    def of(cls, number: Ints, index: Ints, sets: Sets, scale: Floats | None) -> "Crossing":
        """Return the members of items at these positions of lists, divided by ``scale`` (items,)."""
        owner, where = sets.member_indices(index)
        value = require_fact(sets.values)[where]
        if scale is not None:
            value = value / scale[index[owner]]
        start = np.arange(len(number)) - number
        order = np.lexsort((sets.members[where], start[owner]))
        entry, member, value = owner[order], sets.members[where][order], value[order]
        is_new = run_starts(member) | run_starts(start[entry])
        among = np.cumsum(is_new) - 1
        shape = (int(is_new.sum()), int(number.max(initial=0)) + 1)
        values, has = np.zeros(shape), np.zeros(shape, dtype=bool)
        values[among, number[entry]], has[among, number[entry]] = value, True
        return cls(entry, value, among, values, has)

    def summed(self, weight: Floats, n_entries: int) -> Floats:
        """Sum weights over the members of each item, in order; shape (entries,)."""
        sums = np.bincount(self.entry, weights=weight, minlength=n_entries)
        return sums.astype(np.float64, copy=False)

    def lacked(self, number: Ints, position: int) -> Floats:
        """Sum the squared components that the item at a position has and each later item lacks."""
        at = np.flatnonzero(number[self.entry] == position)
        later = np.arange(position + 1, self.values.shape[1])
        item = (self.entry[at] - position)[:, None] + later
        ends = np.append(np.flatnonzero(number == 0), len(number))
        end = ends[np.searchsorted(ends, self.entry[at], side="right")]
        is_lacked = ~self.has[self.among[at]][:, later] & (item < end[:, None])
        member, _ = np.nonzero(is_lacked)
        squared = np.bincount(item[is_lacked], weights=self.value[at][member] ** 2, minlength=len(number))
        return squared.astype(np.float64, copy=False)


def sparse_sums(number: Ints, index: Ints, vectors: Sets, distance: Distance, length: Floats) -> Floats:
    """Return sums of distances to earlier items, one pass for each position of lists.

    Products of equal vectors are summed in the same order, so their cosine is exactly 1.
    """
    crossing = Crossing.of(number, index, vectors, length if distance is Distance.COSINE else None)
    n_entries = len(number)
    sums, square = np.zeros(n_entries), crossing.summed(crossing.value**2, n_entries)
    for position in range(crossing.values.shape[1]):
        later = np.flatnonzero(number > position)
        other = later - number[later] + position
        there = crossing.values[crossing.among, position]
        if distance is Distance.COSINE:
            shared = crossing.summed(crossing.value * there, n_entries)[later]
            apart = np.maximum(1 - shared / np.sqrt(square[later] * square[other]), 0.0)
        else:
            differing = crossing.summed((crossing.value - there) ** 2, n_entries)
            apart = np.sqrt(differing + crossing.lacked(number, position))[later]
        sums[later] += apart
    return sums


def list_parts(row: Ints, cost: Ints) -> Iterator[slice]:
    """Yield slices of whole lists with a total cost of at most MOST_IN_CACHE, or of a single list."""
    starts = np.flatnonzero(run_starts(row))
    ends = np.append(starts[1:], len(row))
    for part in slices_by_cost(np.add.reduceat(cost, starts), MOST_IN_CACHE):
        yield slice(int(starts[part.start]), int(ends[part.stop - 1]))
