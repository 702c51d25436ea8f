"""Orders of rows by several whole numbers, as fast as they fit 64 bits."""

import numpy as np

from spark_eval.arrow.hashes import Hashes, Ints


def ordered(*keys: Ints | Hashes) -> Ints:
    """Return the order that sorts rows by the first key, then by the next, and so on; shape (n,).

    Rows that are equal in all keys come in no particular order.
    """
    if not len(keys[0]):
        return np.empty(0, dtype=np.int64)
    packed = np.zeros(len(keys[0]), dtype=np.uint64)
    n_bits = 0
    for key in reversed(keys):
        least = int(key.min())
        bits = (int(key.max()) - least).bit_length()
        if n_bits + bits > 64:
            return np.lexsort(keys[::-1])
        packed |= (key - least).astype(np.uint64) << np.uint64(min(n_bits, 63))
        n_bits += bits
    return np.argsort(packed)
