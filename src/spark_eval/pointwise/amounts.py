"""Weights as integers that add up in any order: how much of each label there is at each score.

An amount is a row of limbs, 1 for counts; of weights 3, in units of 1, 2^-30 and 2^-60, the last rounded.
"""

from typing import Final

import numpy as np

from spark_eval.arrow.hashes import changes
from spark_eval.stats.exact import Floats, Ints

AMOUNT_BITS: Final = 30
N_LIMBS: Final = 3
# Beyond it 2^33 rows could outgrow their sums.
LARGEST_WEIGHT: Final = 2.0**30


def amounts_of(weights: Floats) -> Ints:
    """Return the limbs of weights; shape (n, 3)."""
    amounts = np.empty((len(weights), N_LIMBS), dtype=np.int64)
    rest = weights
    for place in range(N_LIMBS - 1):
        limb = np.floor(rest)
        amounts[:, place] = limb
        rest = (rest - limb) * 2.0**AMOUNT_BITS
    amounts[:, -1] = np.rint(rest)
    return amounts


def in_doubles(amounts: Ints) -> Floats:
    """Return amounts (..., limbs) as doubles, which are equal where amounts are, whatever their summands."""
    carried = amounts.copy()
    for place in range(carried.shape[-1] - 1, 0, -1):
        carried[..., place - 1] += carried[..., place] >> AMOUNT_BITS
        carried[..., place] &= (1 << AMOUNT_BITS) - 1
    total = np.zeros(carried.shape[:-1])
    for place in range(carried.shape[-1] - 1, -1, -1):
        total = total * 2.0**-AMOUNT_BITS + carried[..., place]
    return total


def at_distinct(scores: Floats, amounts: Ints | None) -> tuple[Floats, Ints]:
    """Return ascending distinct scores, and the amounts (n, ...) there; None: 1 each.

    >>> scores, amounts = at_distinct(np.array([0.5, 0.1, 0.5]), None)
    >>> scores.tolist(), amounts.tolist()
    ([0.1, 0.5], [[1], [2]])
    """
    if amounts is None:
        ascending = np.sort(scores)
        starts = np.flatnonzero(changes(ascending))
        return ascending[starts], np.diff(starts, append=len(ascending))[:, np.newaxis]
    order = np.argsort(scores, kind="stable")
    ascending = scores[order]
    starts = np.flatnonzero(changes(ascending))
    return ascending[starts], np.add.reduceat(amounts[order], starts, axis=0)
