"""Assignment of units to arms by hash."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from spark_eval.arrow.xxhash64 import SPARK_SEED, text_hashes
from spark_eval.experiments.plan import Assignment
from spark_eval.experiments.worker.units import UNEXPOSED
from spark_eval.statistics.exact import Ints


def hashed_arms(users: pa.Array, assignment: Assignment, arms: Sequence[str]) -> Ints:
    """Return the code of each user's arm (n,) by hash; UNEXPOSED for buckets of no variant.

    >>> halves = Assignment("exp1", {"a": (0, 5000), "b": (5000, 10000)})
    >>> hashed_arms(pa.array(["1", "2", "user_42"]), halves, ["a", "b"]).tolist()
    [0, 0, 1]
    """
    buckets, codes = hashed_buckets(users, assignment), np.full(len(users), UNEXPOSED)
    for code, arm in enumerate(arms):
        low, high = assignment.ranges[arm]
        codes[(buckets >= low) & (buckets < high)] = code
    return codes


def hashed_buckets(users: pa.Array, assignment: Assignment) -> Ints:
    """Return pmod(xxhash64(salt, user as text), buckets) of n users, as Spark computes it; shape (n,).

    >>> hashed_buckets(pa.array([1, 2]), Assignment("exp1", {})).tolist()
    [1348, 573]
    """
    seed = text_hashes(pa.array([assignment.salt]), np.uint64(SPARK_SEED))[0]
    hashes = text_hashes(users.cast(pa.string()), seed).view(np.int64)
    return np.mod(hashes, assignment.buckets)
