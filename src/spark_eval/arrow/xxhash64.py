"""Spark's ``xxhash64`` of ids, without Spark: the source of seeded draws per user.

XXH64 as Yann Collet specifies it (https://github.com/Cyan4973/xxHash, doc/xxhash_spec.md). As in Spark, the
hash of each column is the seed for the next column; the first seed is 42.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_eval.arrow.codes import Hashes, to_numpy

SPARK_SEED: Final = 42
P1, P2, P3, P4, P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
Bytes = NDArray[np.uint8]


def id_hashes(ids: pa.Array, seed: np.int32 | np.int64) -> Hashes:
    """Return ``xxhash64(seed, string(id))`` of n ids, integers or text, without nulls; shape (n,).

    Spark hashes the bytes of the seed: 4 for an int, 8 for a bigint.
    """
    coded = ids.dictionary_encode()
    seed_hash = xxh64(np.frombuffer(seed.tobytes(), dtype=np.uint8)[None, :], np.uint64(SPARK_SEED))
    by_code = text_hashes(coded.dictionary.cast(pa.string()), seed_hash[0])
    hashes: Hashes = by_code[coded.indices.to_numpy()]
    return hashes


def chained_hashes(ids: pa.Array, moments: pa.Array, seeds: Hashes) -> Hashes:
    """Return the hashes of n rows, whose ``seeds`` are the hashes of their first columns; shape (n,).

    Ids have no nulls; a null moment leaves the hash as it is.
    """
    hashes = text_hashes(ids.cast(pa.string()), seeds)
    is_known = to_numpy(moments.is_valid())
    return np.where(is_known, word_hashes(to_numpy(moments.fill_null(0)), hashes), hashes)


def text_hashes(texts: pa.Array, seed: np.uint64 | Hashes) -> Hashes:
    """Return XXH64 of the UTF-8 bytes of n texts; ``seed`` is one for all or one for each; shape (n,)."""
    hashes, seeds = np.empty(len(texts), dtype=np.uint64), np.broadcast_to(seed, len(texts))
    lengths = to_numpy(pc.binary_length(texts))
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        _, _, data = texts.take(pa.array(rows)).buffers()
        content = np.frombuffer(data, dtype=np.uint8, count=length * len(rows)) if length else np.empty(0)
        texts_as_bytes = content.astype(np.uint8, copy=False).reshape(len(rows), length)
        hashes[rows] = xxh64(texts_as_bytes, seeds[rows])
    return hashes


def word_hashes(values: NDArray[np.int64] | NDArray[np.float64], seed: np.uint64 | Hashes) -> Hashes:
    """Return Spark's ``xxhash64`` of n bigints or doubles; ``seed`` is one for all or each; shape (n,)."""
    words = np.ascontiguousarray(values).view("<u8")
    if values.dtype.kind == "f":
        words = np.where(values == 0, np.uint64(0), words)  # to Spark -0.0 is 0.0
    return xxh64(words.view(np.uint8).reshape(-1, 8), seed)


def xxh64(data: Bytes, seed: np.uint64 | Hashes) -> Hashes:
    """Return the XXH64 of each row of bytes (n, length); ``seed`` is one for all or one for each."""
    n_rows, length = data.shape
    n_words, n_stripes = length // 8, length // 32
    words = np.ascontiguousarray(data[:, : 8 * n_words]).view("<u8")
    start = np.full(n_rows, seed, dtype=np.uint64)
    if n_stripes:
        lanes = [start + P1 + P2, start + P2, start, start - P1]
        for stripe in range(n_stripes):
            lanes = [mix_lane(lane, words[:, 4 * stripe + index]) for index, lane in enumerate(lanes)]
        hashes = np.zeros(n_rows, dtype=np.uint64)
        for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True):
            hashes += rotate_left(lane, bits)
        for lane in lanes:
            hashes = (hashes ^ mix_lane(np.zeros_like(lane), lane)) * P1 + P4
    else:
        hashes = start + P5
    hashes += np.uint64(length)
    for index in range(4 * n_stripes, n_words):
        word = mix_lane(np.zeros(n_rows, dtype=np.uint64), words[:, index])
        hashes = rotate_left(hashes ^ word, 27) * P1 + P4
    tail = data[:, 8 * n_words :]
    if tail.shape[1] >= 4:
        half = np.ascontiguousarray(tail[:, :4]).view("<u4")[:, 0].astype(np.uint64)
        hashes = rotate_left(hashes ^ half * P1, 23) * P2 + P3
        tail = tail[:, 4:]
    for byte in tail.T:
        hashes = rotate_left(hashes ^ byte.astype(np.uint64) * P5, 11) * P1
    for shift, prime in ((33, P2), (29, P3)):
        hashes = (hashes ^ hashes >> np.uint64(shift)) * prime
    return hashes ^ hashes >> np.uint64(32)


def mix_lane(lane: Hashes, word: Hashes) -> Hashes:
    """Mix a word into a lane."""
    return rotate_left(lane + word * P2, 31) * P1


def rotate_left(numbers: Hashes, bits: int) -> Hashes:
    """Rotate the bits of each integer to the left."""
    return numbers << np.uint64(bits) | numbers >> np.uint64(64 - bits)
