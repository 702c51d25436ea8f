"""Checksums of tables, independent of row order: the keys of ``per_user``, and the truth."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from spark_eval.arrow.codes import Codes, Hashes, to_numpy
from spark_eval.arrow.xxhash64 import SPARK_SEED, text_hashes, word_hashes
from spark_eval.schema import N_RECOMMENDED, N_RELEVANT, USER
from spark_eval.statistics.exact import Floats, Ints

# Columns in a row's checksum, in addition to its model.
KEYS: Final = (USER, N_RELEVANT, N_RECOMMENDED)
# Rows of the truth hashed at once: few enough for the processor's cache.
HASHED_AT_ONCE: Final = 1 << 16


def key_sum(model: str, rows: pa.Table) -> int:
    """Return the exact sum of Spark's ``xxhash64(model, string(user), n_relevant, n_recommended)`` over rows.

    It detects rows that are missing, duplicated, or from another model or run, in any order of rows.
    """
    if not rows.num_rows:
        return 0
    [of_model] = text_hashes(pa.array([model]), np.uint64(SPARK_SEED))
    hashes = text_hashes(rows[USER].combine_chunks().cast(pa.string()), of_model)
    for name in (N_RELEVANT, N_RECOMMENDED):
        hashes = word_hashes(to_numpy(rows[name]).astype(np.int64, copy=False), hashes)
    signed = hashes.view(np.int64)
    # Summed in halves, which cannot overflow 64 bits.
    return (int((signed >> 32).sum()) << 32) + int((signed & 0xFFFFFFFF).sum())


def truth_digest(users: Sequence[pa.Array], user: Ints, items: Codes, item: Ints, relevance: Floats) -> int:
    """Return the sum modulo 2^64 of Spark's ``xxhash64(user, item, relevance)`` over n relevant pairs.

    ``user`` (n,) are indices in ``users``: ids, and ids of requests if the truth has them; these are hashed
    after the user. ``item`` (n,) are codes of ``items``. Ids are bigints or text.
    Equal digests mean the same pairs, in any order.
    """
    of_user, total = spark_hashes(users[0], np.uint64(SPARK_SEED)), 0
    for ids in users[1:]:
        of_user = spark_hashes(ids, of_user)
    for start in range(0, len(user), HASHED_AT_ONCE):
        part = slice(start, start + HASHED_AT_ONCE)
        hashes = spark_hashes(items.ids(item[part]), of_user[user[part]])
        total += int(word_hashes(relevance[part], hashes).sum())
    return total % 2**64


def spark_hashes(ids: pa.Array, seed: np.uint64 | Hashes) -> Hashes:
    """Return Spark's ``xxhash64`` of n ids, bigints or text; ``seed`` is one for all or one for each."""
    return word_hashes(to_numpy(ids), seed) if pa.types.is_integer(ids.type) else text_hashes(ids, seed)
