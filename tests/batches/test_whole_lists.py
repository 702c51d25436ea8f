"""Lists come whole, whatever batches their rows came in; those that are too long in pieces."""

from itertools import groupby

import pyarrow as pa
import pytest

from spark_eval.batches import meet
from spark_eval.batches.meet import whole_lists

# The user of each row; three batches of these are cut in the midst of lists.
USERS = [1] * 3 + [2] + [3] * 9 + [4] * 2 + [5] * 5


def in_batches(n_rows: int) -> list[pa.RecordBatch]:
    batches: list[pa.RecordBatch] = pa.table({"user": USERS, "item": range(len(USERS))}).to_batches(n_rows)
    return batches


@pytest.mark.parametrize("n_rows", [1, 2, 3, 4, 7, 100])
def test_lists_come_whole_and_in_order_the_first_and_last_marked(n_rows: int) -> None:
    found = list(whole_lists(in_batches(n_rows)))
    assert [item for batch, _ in found for item in batch["item"].to_pylist()] == list(range(len(USERS)))
    users = [list(dict.fromkeys(batch["user"].to_pylist())) for batch, _ in found]
    assert [user for part in users for user in part] == [1, 2, 3, 4, 5]
    assert [part for part, (_, is_edge) in zip(users, found, strict=True) if is_edge] == [[1], [5]]


@pytest.mark.parametrize("n_rows", [1, 2, 3, 4])
def test_a_list_that_is_too_long_comes_in_pieces(monkeypatch: pytest.MonkeyPatch, n_rows: int) -> None:
    monkeypatch.setattr(meet, "MOST_LIST_ROWS", 5)
    found = list(whole_lists(in_batches(n_rows)))
    assert [item for batch, _ in found for item in batch["item"].to_pylist()] == list(range(len(USERS)))
    pieces = [user for batch, _ in found for user, _ in groupby(batch["user"].to_pylist())]
    assert pieces.count(3) > 1
    assert [user for user in pieces if user != 3] == [1, 2, 4, 5]


def test_nothing_of_nothing() -> None:
    assert list(whole_lists([])) == []
