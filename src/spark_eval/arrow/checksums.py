"""The rows of a table as one number, whatever their order: the keys of ``per_user``, and the truth."""

from typing import Final

import numpy as np
import pyarrow as pa

from spark_eval.arrow.codes import Codes
from spark_eval.arrow.hashes import Hashes, numbers
from spark_eval.arrow.xxhash64 import SPARK_SEED, text_hashes, word_hashes
from spark_eval.schema import N_RECOMMENDED, N_RELEVANT, USER
from spark_eval.stats.exact import Floats, Ints

# What of a row is looked at, beside its model.
KEYS: Final = (USER, N_RELEVANT, N_RECOMMENDED)
# So many rows of the truth are hashed at once: they stay in the processor's cache.
HASHED_AT_ONCE: Final = 1 << 16


def key_sum(model: str, rows: pa.Table) -> int:
    """Return the exact sum of Spark's ``xxhash64(model, string(user), n_relevant, n_recommended)`` over rows.

    A row that is lost, twice there, of another model or of another run changes it, whatever the order.
    """
    if not rows.num_rows:
        return 0
    [of_model] = text_hashes(pa.array([model]), np.uint64(SPARK_SEED))
    hashes = text_hashes(rows[USER].combine_chunks().cast(pa.string()), of_model)
    for name in (N_RELEVANT, N_RECOMMENDED):
        hashes = word_hashes(numbers(rows[name]).astype(np.int64, copy=False), hashes)
    signed = hashes.view(np.int64)
    # In halves, which cannot outgrow 64 bits.
    return (int((signed >> 32).sum()) << 32) + int((signed & 0xFFFFFFFF).sum())


def truth_digest(users: pa.Array, user: Ints, items: Codes, item: Ints, relevance: Floats) -> int:
    """Return the sum modulo 2^64 of Spark's ``xxhash64(user, item, relevance)`` over n relevant pairs.

    ``user`` (n,) are places in ``users``, ``item`` (n,) are codes of ``items``. Ids are bigints or text.
    Equal digests stand for the same pairs, in whatever order.
    """
    of_user, total = spark_hashes(users, np.uint64(SPARK_SEED)), 0
    for start in range(0, len(user), HASHED_AT_ONCE):
        part = slice(start, start + HASHED_AT_ONCE)
        hashes = spark_hashes(items.ids(item[part]), of_user[user[part]])
        total += int(word_hashes(relevance[part], hashes).sum())
    return total % 2**64


def spark_hashes(ids: pa.Array, seed: np.uint64 | Hashes) -> Hashes:
    """Return Spark's ``xxhash64`` of n ids as they are, bigints or text; ``seed`` of all, or of each."""
    return word_hashes(numbers(ids), seed) if pa.types.is_integer(ids.type) else text_hashes(ids, seed)
