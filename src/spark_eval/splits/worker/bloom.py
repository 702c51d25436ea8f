"""Bloom filter of pairs of user and item, with a slice for each bucket of users."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spark_eval.arrow.codes import Booleans, Hashes, bucket_of, pair_hash
from spark_eval.statistics.exact import Ints

# Minimum number of bits per pair: at most one in sixty-four other pairs passes.
BITS_PER_PAIR: Final = 16
LEAST_SLICE_BITS: Final = 10
# Larger sets have fewer bits per pair; then more pairs pass and are shuffled needlessly.
MOST_FILTER_BYTES: Final = 64 << 20


@dataclass(frozen=True)
class BloomFilter:
    """``n_buckets`` slices of 2^``slice_bits`` bits each; a pair sets two bits in the slice of its bucket."""

    n_buckets: int
    slice_bits: int
    bits: NDArray[np.uint8]

    @classmethod
    def of(cls, slices: Mapping[int, bytes], n_buckets: int, slice_bits: int) -> "BloomFilter":
        """Return the filter of these slices; buckets without a slice are empty."""
        bits = np.zeros((n_buckets, 1 << slice_bits >> 3), dtype=np.uint8)
        for bucket, marks in slices.items():
            bits[bucket] = np.frombuffer(marks, dtype=np.uint8)
        return cls(n_buckets, slice_bits, bits.ravel())

    def passing(self, users: Hashes, items: Hashes) -> Ints:
        """Return the indices of pairs that may be in the set."""
        first = bucket_of(users, self.n_buckets).astype(np.uint64) << np.uint64(self.slice_bits)
        high, low = filter_bits(pair_hash(users, items), self.slice_bits)
        candidates = np.flatnonzero(self.has(first + high))
        return candidates[self.has(first[candidates] + low[candidates])]

    def has(self, bits: Hashes) -> Booleans:
        """Return True for bits that are set."""
        bytes_: NDArray[np.uint8] = self.bits[bits >> np.uint64(3)]
        is_set: Booleans = (bytes_ >> (bits & np.uint64(7)).astype(np.uint8) & np.uint8(1)).view(np.bool_)
        return is_set


def slice_of(pairs: Hashes, slice_bits: int) -> bytes:
    """Return the slice with the bits of these pairs."""
    marks = np.zeros(1 << slice_bits, dtype=bool)
    for bits in filter_bits(pairs, slice_bits):
        marks[bits] = True
    return np.packbits(marks, bitorder="little").tobytes()


def filter_bits(pairs: Hashes, slice_bits: int) -> tuple[Hashes, Hashes]:
    """Return the two bits of each pair."""
    return pairs >> np.uint64(64 - slice_bits), pairs & np.uint64((1 << slice_bits) - 1)


def slice_bits_for(n_pairs: int, n_buckets: int) -> int:
    """Return log2 of the number of bits in a slice, for ``n_pairs`` in all."""
    most = (8 * MOST_FILTER_BYTES // n_buckets).bit_length() - 1
    wanted = (BITS_PER_PAIR * n_pairs // n_buckets).bit_length()
    return min(max(LEAST_SLICE_BITS, wanted), most)
