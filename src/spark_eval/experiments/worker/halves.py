"""A/A experiments: sums over random halves of the units. For workers, and for the driver that merges."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations_with_replacement
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_eval.arrow.xxhash64 import SPARK_SEED, text_hashes
from spark_eval.experiments.moments import ONE, Moments, X, Y
from spark_eval.experiments.worker.sums import limbs
from spark_eval.statistics.exact import Ints

# Variables of a unit that an A/A experiment compares, and their pairs.
PAIRS: Final = tuple(combinations_with_replacement((ONE, X, Y), 2))
# Each bit of a hash is a half.
BITS: Final = 64
# Products of limbs are below 2^42: sums of 2^10 of them are exact as doubles, sums of 2^20 fit 64 bits.
ROWS: Final = 1 << 10
MOST_ROWS: Final = 1 << 20
# Sums of products over the first half of the units, for each pair of variables: (n_salts, n_pairs) integers.
Halves = np.ndarray[tuple[int, int], np.dtype[np.object_]]


def sums_of_halves(ids: pa.Array, variables: Sequence[Ints], n_salts: int) -> Halves:
    """Return the sums of the products of variables (n,) over ``n_salts`` random halves of n units.

    >>> ids, ones, x = pa.array(["a", "b", "c"]), np.ones(3, dtype=np.int64), np.array([1, 2, 3])
    >>> sums_of_halves(ids, [ones, x, ones], 4)[:, :2].tolist()
    [[1, 3], [3, 6], [2, 3], [2, 4]]
    """
    result = np.zeros((n_salts, len(PAIRS)), dtype=object)
    columns = list(products(variables))
    if not columns:
        return result
    values = np.stack([column for _, _, column in columns], axis=1).astype(np.float64)
    texts = ids.cast(pa.string())
    for first in range(0, n_salts, BITS):
        [seed] = text_hashes(pa.array([f"a/a {first // BITS}"]), np.uint64(SPARK_SEED))
        hashes = text_hashes(texts, seed)
        for begin in range(0, len(hashes), MOST_ROWS):
            sums = np.zeros((BITS, len(columns)), dtype=np.int64)
            for start in range(begin, min(begin + MOST_ROWS, len(hashes)), ROWS):
                rows = slice(start, start + ROWS)
                octets = np.ascontiguousarray(hashes[rows]).astype("<u8").view(np.uint8).reshape(-1, 8)
                halves = np.unpackbits(octets, axis=1, bitorder="little").astype(np.float64)
                sums += (halves.T @ values[rows]).astype(np.int64)
            for (pair, shift, _), column in zip(columns, sums.T, strict=True):
                result[first : first + BITS, pair] += column[: n_salts - first].astype(object) << shift
    return result


def products(variables: Sequence[Ints]) -> Iterator[tuple[int, int, Ints]]:
    """Yield products of pairs of variables (n,) in parts: the pair's index, a shift, numbers below 2^42."""
    parts = [[(shift, part) for shift, part in limbs(one) if part.any()] for one in variables]
    for index, (i, j) in enumerate(PAIRS):
        for shift, one in parts[i]:
            for more, other in parts[j]:
                yield index, shift + more, one * other


def arms_of(half: Iterable[Any], total: Moments) -> tuple[Moments, Moments]:
    """Return the moments of both halves of the units, whose sums over all are ``total``."""
    one = dict(zip(PAIRS, half, strict=True))
    other = {pair: total.product(*pair) - amount for pair, amount in one.items()}
    return Moments.of_products(other), Moments.of_products(one)
