"""Codes of records: the same for integers far apart, of 64 bits, and text, however rows fall into blocks."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from spark_eval.linkage import record_codes
from spark_eval.linkage.coded import CodedRelations
from spark_eval.linkage.record_codes import IdColumn, code_together
from spark_eval.runners.local_rows import LocalTable

DENSE = st.integers(-5, 20)
FAR_APART = st.sampled_from([-(2**63), -(2**31) - 1, -7, 0, 5, 2**31 - 1, 2**31, 2**63 - 1])
TEXT = st.text("abcé", max_size=3)


@pytest.fixture(autouse=True)
def few_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_codes, "BLOCK", 3)
    monkeypatch.setattr(record_codes, "BLOCK_OF_TEXT", 5)


def column_of(ids: Sequence[Any], kind: pa.DataType) -> IdColumn:
    """The ids, added in batches of four rows."""
    column = IdColumn(len(ids) + 2, is_text=kind == pa.string())
    for start in range(0, len(ids), 4):
        column.add(pa.array(ids[start : start + 4], kind))
    return column


def in_ids_order(one: Any) -> Any:
    return one.encode() if isinstance(one, str) else one


@pytest.mark.parametrize(
    ("ids", "kind"), [(DENSE, pa.int64()), (DENSE | FAR_APART, pa.int64()), (TEXT, pa.string())]
)
def test_different_ids_have_different_codes(ids: Any, kind: pa.DataType) -> None:
    @settings(max_examples=60, deadline=None)
    @given(columns=st.lists(st.lists(ids, max_size=17), min_size=1, max_size=3))
    def check(columns: list[list[Any]]) -> None:
        distinct = sorted({one for column in columns for one in column}, key=in_ids_order)
        for in_order in (True, False):
            codes, found = code_together([column_of(one, kind) for one in columns], in_order=in_order)
            listed = found.to_pylist()
            assert [[listed[code] for code in own] for own in codes] == columns
            assert (listed if in_order else sorted(listed, key=distinct.index)) == distinct
            assert all(own.dtype == np.int32 for own in codes)

    check()


@settings(max_examples=40, deadline=None)
@given(
    one=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40),
    other=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40),
)
def test_pairs_are_found_among_pairs(one: Any, other: Any) -> None:
    def table(rows: list[tuple[int, int]]) -> LocalTable:
        columns = {name: pa.array([row[at] for row in rows], pa.int64()) for at, name in enumerate("ab")}
        return LocalTable.of(pa.table(columns))

    assume(all(any(a != b for a, b in rows) for rows in (one, other)))  # a table without a pair is refused
    found: Any = CodedRelations.of({"one": table(one), "other": table(other)}).tables
    ours, theirs = ({frozenset(row) for row in rows if row[0] != row[1]} for rows in (one, other))
    assert (found["one"].n_pairs, found["other"].n_pairs) == (len(ours), len(theirs))
    assert found["one"].agreement(found["other"]).n_held == len(ours & theirs)
