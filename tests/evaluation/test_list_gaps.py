"""In-list AUC of given ranks: what a list holds counts, in its order; ranks that hold nothing do not."""

import pyarrow as pa
import pytest
from drive import Tables, drive, table_of

from spark_eval.evaluation.plan import make_plan

HIT = 0
# By user: the rank of each row and its item.
LISTS = {
    "a miss, nothing, a hit, nothing, a miss": [(1, 1), (10, HIT), (20, 2)],
    "nothing before the hit": [(5, HIT), (6, 1)],
    "a miss twice": [(1, 1), (2, 1), (3, HIT), (4, 2)],
    "a hit again": [(2, 1), (4, HIT), (6, 2), (9, HIT), (11, 3)],
    "neither gap nor repeat": [(1, 1), (2, HIT), (3, 2), (4, 3)],
    "no list": [],
}
METRICS = ("auc@20", "auc@5", "auc@all", "auc(one_class=extremes)@1")
Value = tuple[float, int] | None
# AUC and items that count: in the top 20, the top 5 and the whole list.
EXPECTED: dict[str, list[Value]] = {
    "a miss, nothing, a hit, nothing, a miss": [(0.5, 3), None, (0.5, 3)],
    "nothing before the hit": [(1.0, 2), None, (1.0, 2)],
    "a miss twice": [(0.5, 3), (0.5, 3), (0.5, 3)],
    "a hit again": [(1 - 1 / 3, 4), (0.0, 2), (1 - 1 / 3, 4)],
    "neither gap nor repeat": [(1 - 1 / 3, 4), (1 - 1 / 3, 4), (1 - 1 / 3, 4)],
    "no list": [None, None, None],
}
ROWS = [(user, item, rank) for user, rows in LISTS.items() for rank, item in rows]


def test_places_that_hold_nothing_do_not_count() -> None:
    tables = Tables(
        table_of(ROWS, user=pa.string(), item=pa.int64(), rank=pa.int64()),
        table_of([(user, HIT) for user in LISTS], user=pa.string(), item=pa.int64()),
        model="m",
    )
    evaluation = drive(make_plan(metrics=METRICS), tables)
    users = {row["user"]: row for row in evaluation.per_user.values()}
    found = {
        user: [
            None if row[f"auc_at_{k}"] is None else (row[f"auc_at_{k}"], row[f"auc_impressions_at_{k}"])
            for k in (20, 5, "all")
        ]
        for user, row in users.items()
    }
    assert found == EXPECTED
    assert {user: row["auc_one_class_extremes_at_1"] for user, row in users.items()} == dict.fromkeys(
        LISTS, 0.0
    )
    means = {row[1:3]: (row[5], row[10]) for row in evaluation.metrics}
    of_users = [mean for mean in (row[0] for row in EXPECTED.values()) if mean is not None]
    auc, impressions = zip(*of_users, strict=True)
    assert means["gauc", 20] == (pytest.approx(sum(auc) / 5), 1)
    weighted = sum(one * weight for one, weight in of_users) / sum(impressions)
    assert means["gauc_by_impressions", 20] == (pytest.approx(weighted), 1)
    assert means["gauc_by_positives", 20] == (pytest.approx(sum(auc) / 5), 1)
