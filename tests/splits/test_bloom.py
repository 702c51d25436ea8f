"""The filter of tested pairs: all of them pass, and hardly any other."""

import numpy as np
import pyarrow as pa
import pytest

from spark_eval.arrow.codes import bucket_of, hashes_of, pair_hash
from spark_eval.splits.worker.bloom import MOST_FILTER_BYTES, BloomFilter, slice_bits_for, slice_of

RANDOM = np.random.default_rng(20231)
LARGEST = 2**63 - 1


@pytest.mark.parametrize("n_buckets", [1, 7])
def test_every_relevant_pair_passes_the_bloom_filter_and_hardly_any_other(n_buckets: int) -> None:
    users, items = (hashes_of(pa.array(RANDOM.integers(0, LARGEST, 4000))) for _ in range(2))
    slice_bits = slice_bits_for(4000, n_buckets)
    of_user = bucket_of(users, n_buckets)
    pairs_ = pair_hash(users, items)
    slices = {bucket: slice_of(pairs_[of_user == bucket], slice_bits) for bucket in range(n_buckets)}
    bloom_filter = BloomFilter.of(slices, n_buckets, slice_bits)
    assert bloom_filter.passing(users, items).tolist() == list(range(4000))
    assert len(bloom_filter.passing(users, np.roll(items, 1))) < 4000 / 64 * 1.5


def test_a_bloom_filter_has_room_for_its_pairs_within_bounds() -> None:
    assert 2 ** slice_bits_for(10**6, 8) >= 16 * 10**6 / 8
    assert 2 ** slice_bits_for(10**12, 2000) * 2000 <= 8 * MOST_FILTER_BYTES
    assert 2 ** slice_bits_for(1, 1) == 1024
