"""The filter of tested pairs: all of them pass, and hardly any other."""

import numpy as np
import pyarrow as pa
import pytest

from spark_eval.arrow.bloom import MOST_BYTES, Sieve, slice_bits_for, slice_of
from spark_eval.arrow.hashes import Ids, bucket_of, pair_hash

RANDOM = np.random.default_rng(20231)
LARGEST = 2**63 - 1


@pytest.mark.parametrize("n_buckets", [1, 7])
def test_every_relevant_pair_passes_the_sieve_and_hardly_any_other(n_buckets: int) -> None:
    users, items = (Ids.of(pa.array(RANDOM.integers(0, LARGEST, 4000))) for _ in range(2))
    slice_bits = slice_bits_for(4000, n_buckets)
    of_user = bucket_of(users.hash, n_buckets)
    pairs_ = pair_hash(users.hash, items.hash)
    slices = {bucket: slice_of(pairs_[of_user == bucket], slice_bits) for bucket in range(n_buckets)}
    sieve = Sieve.of(slices, n_buckets, slice_bits)
    once = np.ones(4000, dtype=np.int64)
    assert sieve.passing(users.hash, items.hash, once).tolist() == list(range(4000))
    assert len(sieve.passing(users.hash, np.roll(items.hash, 1), once)) < 4000 / 64 * 1.5
    # A user of three rows.
    assert len(sieve.passing(users.hash[:1], items.hash[:3], np.array([3]))) < 3


def test_a_sieve_has_room_for_its_pairs_within_bounds() -> None:
    assert 2 ** slice_bits_for(10**6, 8) >= 16 * 10**6 / 8
    assert 2 ** slice_bits_for(10**12, 2000) * 2000 <= 8 * MOST_BYTES
    assert 2 ** slice_bits_for(1, 1) == 1024
