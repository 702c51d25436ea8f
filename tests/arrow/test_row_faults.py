"""Why a row of recommendations or truth cannot be used, one row for each reason."""

from typing import Any

import pyarrow as pa
import pytest

from spark_eval.arrow.row_faults import judge_lists, judge_truth
from spark_eval.conventions import Conventions, NegativeRelevance

KEYS = pa.schema([("model", pa.string()), ("user", pa.int64()), ("item", pa.int64()), ("fold", pa.int32())])
NAN = float("nan")


def of_rows(schema: pa.Schema, rows: dict[str, tuple[Any, ...]]) -> pa.Table:
    """A table of these rows, in order."""
    arrays = [
        pa.chunked_array([pa.array(cells, kind)])
        for cells, kind in zip(zip(*rows.values(), strict=True), schema.types, strict=True)
    ]
    return pa.table(arrays, schema)


def told(faults: pa.Array | None) -> list[str]:
    return [] if faults is None else [fault or "" for fault in faults.to_pylist()]


@pytest.mark.parametrize(
    ("column", "good", "bad"),
    [
        (
            pa.field("rank", pa.int32()),
            1,
            {"NULL_RANK": None, "RANK_BASE": 0, "RANK_BASE, too": -1},
        ),
        *[
            (
                pa.field("rank", kind),
                1.0,
                {
                    "NULL_RANK": None,
                    "NULL_RANK, of pandas": NAN,
                    "RANK_BASE": -0.0,
                    "RANK_BASE, too": -1.0,
                    "RANK_NOT_INTEGER": 1.5,
                    "RANK_NOT_INTEGER, too": -0.5,
                    "RANK_NOT_INTEGER, endless": float("inf"),
                    "RANK_NOT_INTEGER, beyond doubles": 1e18,
                },
            )
            for kind in (pa.float32(), pa.float64())
        ],
        (
            pa.field("score", pa.float64()),
            -0.5,
            {"NULL_SCORE": None, "SCORE_NOT_FINITE": NAN, "SCORE_NOT_FINITE, too": float("-inf")},
        ),
    ],
)
def test_the_first_fault_of_each_recommendation_is_reported(
    column: pa.Field, good: float, bad: dict[str, float | None]
) -> None:
    key = ("m", 1, 2, 0)
    rows = {
        "": (*key, good),
        "NULL_MODEL": (None, None, 2, 0, None),
        "NULL_ID": ("m", None, 2, 0, None),
        "NULL_ID, of an item": ("m", 1, None, 0, good),
        "NULL_ID, of a fold": ("m", 1, 2, None, good),
        **{fault: (*key, value) for fault, value in bad.items()},
    }
    table = of_rows(KEYS.append(column), rows)
    judged, faults = judge_lists(table)
    if pa.types.is_floating(column.type) and column.name == "rank":
        assert judged["rank"].type == pa.int64()
        assert judged["rank"].to_pylist()[:1] == [1]
    else:
        assert judged is table
    assert told(faults) == [name.partition(",")[0] for name in rows]
    assert judge_lists(table.slice(0, 1))[1] is None


WITH_RELEVANCE = {"": 1.0, "NULL_RELEVANCE": None, "RELEVANCE_NOT_FINITE": NAN}


@pytest.mark.parametrize(
    ("kind", "conventions", "relevances"),
    [
        (
            pa.float64(),
            Conventions(),
            WITH_RELEVANCE | {"NEGATIVE_RELEVANCE": -1.0, "not_relevant": 0.0},
        ),
        (
            pa.float64(),
            Conventions(threshold=1.0),
            WITH_RELEVANCE | {"NEGATIVE_RELEVANCE": -1.0, "below_threshold": 0.5},
        ),
        (
            pa.float64(),
            Conventions(negative_relevance=NegativeRelevance.IRRELEVANT),
            WITH_RELEVANCE | {"not_relevant": 0.0, "not_relevant, too": -1.0},
        ),
        (
            pa.int64(),
            Conventions(),
            {"": 2**53, "RELEVANCE_NOT_EXACT": 2**53 + 1, "RELEVANCE_NOT_EXACT, too": -(2**53) - 1},
        ),
    ],
)
def test_the_first_fault_of_each_row_of_the_truth_is_reported(
    kind: pa.DataType, conventions: Conventions, relevances: dict[str, float | None]
) -> None:
    rows = {
        **{fault: (1, 2, 0, relevance) for fault, relevance in relevances.items()},
        "NULL_ID": (None, 2, 0, None),
        "NULL_ID, of an item": (1, None, 0, 1),
        "NULL_ID, of a fold": (1, 2, None, 1),
    }
    judged, faults = judge_truth(
        of_rows(KEYS.remove(0).append(pa.field("relevance", kind)), rows), conventions
    )
    assert judged.schema.field("relevance").type == pa.float64()
    assert told(faults) == [name.partition(",")[0] for name in rows]
