"""Ids found by hash, also where hashes collide."""

import numpy as np
import pyarrow as pa
import pytest

from spark_eval.batches.ids import Ids
from spark_eval.batches.lookup import Lookup


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()], ids=str)
def test_codes_are_those_of_a_dictionary(kind: pa.DataType) -> None:
    known = pa.array(range(0, 300, 3)).cast(kind)
    lookup = Lookup.of(known, np.arange(100) * 2)
    asked = pa.array([*range(20), 297, 299]).cast(kind)
    expected = [number // 3 * 2 if number % 3 == 0 else -1 for number in (*range(20), 297, 299)]
    assert lookup.codes(Ids.of(asked)).tolist() == expected


def test_ids_of_the_same_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_eval.batches.ids.mixed", lambda numbers: numbers // 10)
    lookup = Lookup.of(pa.array([11, 35, 13, 12]), np.array([1, 5, 3, 2]))
    assert lookup.codes(Ids.of(pa.array([12, 13, 14, 35, 36, 99]))).tolist() == [2, 3, -1, 5, -1, -1]


def test_nothing_is_known() -> None:
    lookup = Lookup.of(pa.array([], pa.int64()), np.array([], dtype=np.int64))
    assert lookup.codes(Ids.of(pa.array([1]))).tolist() == [-1]
