"""``add_sums`` of tables that are not sums: every column broken in every way is refused by name."""

from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pytest

from spark_eval import add_sums, evaluate
from spark_eval.errors import DataError

LISTS: Final = pd.DataFrame({"user": [1, 1, 2, 2], "item": [1, 2, 3, 1], "rank": [1, 2, 1, 2]})
TRUTH: Final = pd.DataFrame({"user": [1, 2, 2], "item": [2, 3, 4]})
KEY: Final = {"model": "m", "metric": "map", "k": 5, "segment": "all", "segment_value": "all"}
NULLS: Final = dict.fromkeys(
    ("weight", "products", "weight_squares", "n_requests", "n_requests_defined", "repeat")
)
OF_MEAN: Final = {"n_users": 3, "n_defined": 2, "unit": -2, "total": "7", "squares": "25"}
ROW: Final[dict[str, Any]] = {**KEY, "conventions": "", **OF_MEAN, **NULLS}
OF_RATIO: Final = {**ROW, "weight": "4", "products": "6", "weight_squares": "8"}
OF_REQUESTS: Final = {**OF_RATIO, "n_requests": 7, "n_requests_defined": 6}
TEXTS: Final = ("model", "metric", "segment", "segment_value", "conventions")
COUNTS: Final = ("n_users", "n_defined")
WRONG: Final = [
    *((ROW, name, value) for name in TEXTS for value in (None, [1])),
    *((ROW, name, value) for name in COUNTS for value in ("x", -1, 1.5, [1], 2**62, float("nan"))),
    *((ROW, "n_defined", value) for value in (None, 4)),
    *((ROW, "k", value) for value in ("x", 0, -1, 1.5, 2**40)),
    *((ROW, "unit", value) for value in ("x", None, 1.5, 10**6, -(10**6), 2**40)),
    *((ROW, "total", value) for value in ("x", "", "1.5", None, 1.5, "9" * 5000, "1_0", "8")),
    *((ROW, "squares", value) for value in ("x", "-1", None, 1.5, "9" * 5000, "24")),
    *((OF_RATIO, name, "x") for name in ("weight", "products", "weight_squares", "squares", "total")),
    *((OF_RATIO, name, "-1") for name in ("weight", "weight_squares", "squares")),
    *((OF_RATIO, "products", value) for value in ("15", "-15")),
    *(
        (OF_REQUESTS, name, value)
        for name in ("n_requests", "n_requests_defined")
        for value in ("x", -1, 1.5)
    ),
    (OF_REQUESTS, "n_requests_defined", 8),
]


@pytest.mark.parametrize("row", [ROW, OF_RATIO, OF_REQUESTS])
def test_these_rows_are_right_but_for_what_a_test_breaks(row: dict[str, Any]) -> None:
    assert add_sums(pa.Table.from_pylist([row, row]))["n_users"].to_pylist() == [4]


@pytest.mark.parametrize(("row", "name", "value"), WRONG)
def test_a_broken_column_is_refused_by_name(row: dict[str, Any], name: str, value: Any) -> None:
    with pytest.raises(DataError) as raised:
        add_sums(pa.Table.from_pylist([{**row, name: value}]))
    assert raised.value.code == "INVALID_SUMS"
    assert name in raised.value.message


def test_one_error_lists_all_broken_columns() -> None:
    with pytest.raises(DataError, match=r"INVALID_SUMS.*n_users.*total"):
        add_sums(pd.DataFrame([ROW, {**ROW, "n_users": -1, "total": "x"}]))


@pytest.mark.parametrize("name", ROW)
def test_a_column_that_is_missing_or_there_twice_is_refused_by_name(name: str) -> None:
    table = pa.Table.from_pylist([ROW])
    with pytest.raises(DataError, match=f"MISSING_COLUMN.*{name}"):
        add_sums(table.drop_columns(name))
    with pytest.raises(DataError, match=f"AMBIGUOUS_COLUMN.*{name}"):
        add_sums(table.append_column(name, table[name]))


def test_sums_of_evaluations_are_added() -> None:
    weights = evaluate(LISTS, TRUTH, model="m", metrics=["map", "auc"], k=[2], engine="local").sums
    assert add_sums(weights).num_rows == len(weights)
    assert add_sums(weights.head(0)).num_rows == 0
