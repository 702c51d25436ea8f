"""Exact sums of products over groups of units: integers of any size, without a loop over units."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from spark_eval.arrow.codes import stable_argsort
from spark_eval.experiments.moments import PAIRS, Moments
from spark_eval.statistics.exact import Ints

# Products of integers below 2^21 are below 2^42: sums of 2^20 of them fit 64 bits.
LIMB_BITS: Final = 21
MOST_ROWS: Final = 1 << 20
LARGEST: Final = 2**63


def moments_by_group(variables: Sequence[Ints | None], groups: Ints, n_groups: int) -> list[Moments]:
    """Return the moments of each group of units.

    ``variables`` are arrays (n,), None for a variable that is 0. ``groups`` (n,) are from 0 to n_groups - 1.

    >>> two = np.array([1, 1]), np.array([3, 4])
    >>> found = moments_by_group([*two, None, None, None, None], np.array([0, 1]), 2)
    >>> [moments.product(1, 1) for moments in found]
    [9, 16]
    """
    if (groups[1:] < groups[:-1]).any():
        order = stable_argsort(groups, n_groups)
        moved = {id(one): one[order] for one in variables if one is not None}
        variables = [None if one is None else moved[id(one)] for one in variables]
        groups = groups[order]
    sizes = np.bincount(groups, minlength=n_groups)
    present = np.flatnonzero(sizes)
    starts = (np.cumsum(sizes) - sizes)[present]
    # A variable may be there twice: a mean has y = 1.
    totals: dict[tuple[int, int], list[int]] = {}
    limits = {id(one): largest(one) for one in variables if one is not None}
    sums = [[0] * len(PAIRS) for _ in range(n_groups)]
    for index, (i, j) in enumerate(PAIRS):
        one, other = variables[i], variables[j]
        if one is None or other is None:
            continue
        pair = (id(one), id(other))
        if pair not in totals:
            most = limits[pair[0]] * limits[pair[1]]
            totals[pair] = totals[pair[::-1]] = products_by_run(one, other, starts, most)
        for group, total in zip(present.tolist(), totals[pair], strict=True):
            sums[group][index] = total
    return [Moments(tuple(products)) for products in sums]


def products_by_run(one: Ints, other: Ints, starts: Ints, most: int | None = None) -> list[int]:
    """Return the exact sum of products of two arrays (n,) in each run; a run begins at each of ``starts``.

    ``most`` is a limit of the absolute products, if it is known.
    """
    if not len(starts):
        return []
    if (largest(one) * largest(other) if most is None else most) * len(one) < LARGEST:
        totals: list[int] = np.add.reduceat(one * other, starts).tolist()
        return totals
    totals = [0] * len(starts)
    for shift, part in limbs(one):
        for more, factor in limbs(other):
            for start in range(0, len(one), MOST_ROWS):
                rows = slice(start, start + MOST_ROWS)
                first = int(np.searchsorted(starts, start, "right")) - 1
                last = int(np.searchsorted(starts, start + MOST_ROWS))
                inside = np.maximum(starts[first:last] - start, 0)
                sums = np.add.reduceat(part[rows] * factor[rows], inside)
                for number, total in enumerate(sums.tolist(), start=first):
                    totals[number] += total << (shift + more)
    return totals


def limbs(values: Ints) -> list[tuple[int, Ints]]:
    """Return three limbs of integers below 2^63, each with its shift; the last one has the sign."""
    mask = (1 << LIMB_BITS) - 1
    low, middle = values & mask, (values >> LIMB_BITS) & mask
    return [(0, low), (LIMB_BITS, middle), (2 * LIMB_BITS, values >> (2 * LIMB_BITS))]


def largest(values: Ints) -> int:
    """Return the largest absolute value."""
    return max(int(values.max(initial=0)), -int(values.min(initial=0)))
