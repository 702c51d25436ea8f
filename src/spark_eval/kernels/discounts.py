"""Gains, discounts and harmonic numbers, by the C library's scalar functions.

The last bit of numpy's vector functions may differ between processors.
"""

import math
from functools import cache
from itertools import accumulate
from typing import Final

import numpy as np

from spark_eval.conventions import Discount, Gain
from spark_eval.statistics.exact import Floats, Ints

LN2: Final = math.log(2)
# From here on the power of 2 minus 1 loses at most a bit, and is exact for whole grades.
LEAST_POWER: Final = 0.5


def gains(relevance: Floats, gain: Gain) -> Floats:
    """Return the gain of each entry; same shape."""
    match gain:
        case Gain.LINEAR:
            return relevance
        case Gain.EXP2 | Gain.EXP2_PLUS_1:
            more = 1 if gain is Gain.EXP2_PLUS_1 else 0
            grades, of_entry = np.unique(relevance, return_inverse=True)
            return np.array([exp2_gain(grade + more) for grade in grades.tolist()])[of_entry]
        case Gain.BINARY:
            return np.ones(len(relevance))


def exp2_gain(grade: float) -> float:
    """Return 2^grade - 1, also of a small grade, whose power of 2 is rounded to 1.

    >>> exp2_gain(3.0), exp2_gain(1e-300)
    (7.0, 6.931471805599453e-301)
    """
    return math.expm1(grade * LN2) if abs(grade) < LEAST_POWER else math.exp2(grade) - 1


def discounts(rank: Ints, discount: Discount) -> Floats:
    """Return the discount of each rank; same shape."""
    return discount_table(bits_of(rank), discount)[rank]


def discount_sums(rank: Ints, discount: Discount) -> Floats:
    """Return the sum of the discounts of the ranks 1, ..., rank; 0 at rank 0; same shape."""
    return discount_sum_table(bits_of(rank), discount)[rank]


def harmonic(number: Ints) -> Floats:
    """Return 1 + 1/2 + ... + 1/number; 0 at 0; same shape."""
    return harmonic_table(bits_of(number))[number]


def bits_of(numbers: Ints) -> int:
    """Return the bit length of the largest number: tables grow by doubling, so few are computed."""
    return int(numbers.max(initial=0)).bit_length()


@cache
def discount_table(bits: int, discount: Discount) -> Floats:
    """Return the discounts of the ranks 0 to 2^bits - 1; 0 for rank 0."""
    ranks = range(1, 2**bits)
    match discount:
        case Discount.LOG2:
            return np.array([0.0] + [1 / math.log2(rank + 1) for rank in ranks])
        case Discount.LOG2_CLIPPED:
            return np.array([0.0] + [1 / math.log2(max(rank, 2)) for rank in ranks])


@cache
def discount_sum_table(bits: int, discount: Discount) -> Floats:
    """Return the running sums of the discounts; shape (2^bits,)."""
    return np.array(list(accumulate(discount_table(bits, discount).tolist())))


@cache
def harmonic_table(bits: int) -> Floats:
    """Return the harmonic numbers 0 to 2^bits - 1."""
    return np.array(list(accumulate([0.0] + [1 / number for number in range(1, 2**bits)])))
