"""Segments of items: a value's numbers are those of the truth restricted by hand, to the last bit."""

from typing import Any

import pandas as pd
import pytest
from choices import ACCURACY
from item_tables import tables_of
from pyspark.sql import SparkSession

from spark_eval import evaluate
from spark_eval.errors import ConfigError, DataError
from spark_eval.evaluation.result import Evaluation

LISTS = pd.DataFrame({"user": "u", "item": list("abc"), "rank": [1, 2, 3]})
TRUTH = pd.DataFrame({"user": "u", "item": list("acd")})
ITEMS = pd.DataFrame({"item": list("abcd"), "genre": list("xyyx"), "is_new": [True, False, None, True]})
TRAIN = pd.DataFrame({"user": range(12), "item": list("aaaaabbbccde")}).astype({"user": str})
KEYS = ["model", "segment", "segment_value", "metric", "k", "user", "request"]


def values_of(result: Evaluation, segment: str) -> dict[str, dict[str, float]]:
    values: dict[str, dict[str, float]] = {}
    for row in result.to_arrow("metrics").to_pylist():
        if row["segment"] == segment:
            values.setdefault(row["segment_value"], {})[row["metric"]] = round(row["value"], 6)
    return values


def test_truth_is_restricted_and_lists_stay_whole() -> None:
    metrics = ["recall", "precision", "map", "mrr", "ndcg"]
    result = evaluate(
        LISTS, TRUTH, model="m", items=ITEMS, metrics=metrics, k=3, item_segments=["genre", "is_new"]
    )
    numbers = {
        "x": dict(zip(metrics, (0.5, 0.333333, 0.5, 1.0, 0.613147), strict=True)),
        "y": dict(zip(metrics, (1.0, 0.333333, 0.333333, 0.333333, 0.5), strict=True)),
    }
    assert values_of(result, "item:genre") == numbers
    assert values_of(result, "item:is_new") == {"true": numbers["x"], "(missing)": numbers["y"]}
    assert set(result.to_pandas("sums")["segment"]) == {"all", "item:genre", "item:is_new"}
    rows = result.to_pandas("item_segments")
    assert rows[["segment", "segment_value", "n_relevant"]].values.tolist() == [
        ["item:genre", "x", 2],
        ["item:genre", "y", 1],
        ["item:is_new", "true", 2],
        ["item:is_new", "(missing)", 1],
    ]
    [line] = result.to_pandas("accounting").query("outcome == 'without_value'").to_dict("records")
    assert (line["source"], line["reason"], line["rows"], line["users"]) == ("truth", "item:is_new", 0, 1)


def test_popularity_is_of_training_interactions() -> None:
    truth = pd.DataFrame({"user": list("abcdef"), "item": list("abcdef")})
    lists = pd.DataFrame({"user": list("abcdef"), "item": "a", "rank": 1})
    result = evaluate(
        lists, truth, model="m", train=TRAIN, metrics="ndcg", k=1, item_segments=["popularity", "cold"]
    )
    users = result.to_pandas("item_segments").groupby(["segment", "segment_value"])["user"].agg("".join)
    assert users.to_dict() == {
        ("item:popularity", "head"): "a",
        ("item:popularity", "torso"): "b",
        ("item:popularity", "tail"): "cde",
        ("item:popularity", "cold"): "f",
        ("item:cold", "warm"): "abcde",
        ("item:cold", "cold"): "f",
    }


def values_by_item(tables: dict[str, pd.DataFrame], segment: str) -> dict[Any, list[str]]:
    """Return the values of each item of the truth, in plain Python."""
    items = sorted(set(tables["truth"]["item"]))
    if segment == "item:genre":
        known = {row["item"]: row["genre"] for row in tables["items"].to_dict("records")}
        return {
            item: known[item].split("|") if isinstance(known.get(item), str) else ["(missing)"]
            for item in items
        }
    n_rows = tables["train"]["item"].value_counts().to_dict()
    before, values = 0, dict[Any, list[str]]()
    for item in sorted(n_rows, key=lambda one: (-n_rows[one], one)):
        values[item] = ["head" if 3 * before < 300 else "torso" if 3 * before < 600 else "tail"]
        before += n_rows[item]
    return {item: values.get(item, ["cold"]) for item in items}


OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "bootstrap": {"interval": "bootstrap", "resamples": 60, "seed": 3},
    "no hits": {"conventions": {"no_hits": "drop"}, "threshold": 2},
    "no lists": {"no_recommendations": "drop", "no_truth": "zero"},
    "requests": {},
    "users": {"weight": "users"},
}


@pytest.mark.parametrize("case", OPTIONS)
def test_numbers_of_a_value_are_those_of_its_truth_alone(case: str) -> None:
    tables = tables_of(5, by_request=case in ("requests", "users"))
    options: dict[str, Any] = {"metrics": [*ACCURACY, "ndcg(gain=exp2)", "dcg"], "k": [1, 3, "all"]}
    options |= OPTIONS[case]
    asked: dict[str, Any] = {
        "items": tables["items"],
        "train": tables["train"],
        "item_segments": ["genre", "popularity"],
    }
    whole = evaluate(tables["lists"], tables["truth"], **asked, **options)
    metrics, rows = whole.to_pandas("metrics"), whole.to_pandas("item_segments")
    truth = tables["truth"][tables["truth"]["relevance"] >= options.get("threshold", 1)]
    n_cells = 0
    for segment in ("item:genre", "item:popularity"):
        values = values_by_item(tables, segment)
        for value in sorted({value for of_item in values.values() for value in of_item}):
            own = truth[truth["item"].map(lambda item, value=value, values=values: value in values[item])]
            lists = tables["lists"][tables["lists"]["user"].isin(own["user"])]
            alone = evaluate(lists, own, **options).to_pandas("metrics")
            alone = alone[alone["n_users"] + alone["n_undefined"] > 0]  # a model without users has no rows
            found = metrics.query("segment == @segment and segment_value == @value")
            is_same = ["segment", "segment_value"]
            pd.testing.assert_frame_equal(
                found.drop(columns=is_same).reset_index(drop=True),
                alone.drop(columns=is_same).reset_index(drop=True),
                check_exact=True,
            )
            n_rows = len(rows.query("segment == @segment and segment_value == @value"))
            counts = found.groupby("model")[["n_requests" if "request" in rows else "n_users"]].max()
            assert n_rows >= counts.sum().item()
            n_cells += n_rows > 0
    assert n_cells >= 7


@pytest.mark.parametrize("case", ["folds", "requests", "bootstrap"])
def test_both_engines_have_the_same_bits(spark: SparkSession, case: str) -> None:
    tables = tables_of(8, by_request=case == "requests", by_fold=case == "folds")
    train = tables["train"]
    if case == "folds":
        train = train.assign(fold=[row % 2 for row in range(len(train))])
    options: dict[str, Any] = {"metrics": ["ndcg", "recall", "rr", "auc"], "k": [2, 5]}
    options |= {"item_segments": ["genre", "popularity", "cold"]}
    options |= OPTIONS["bootstrap"] if case == "bootstrap" else {}
    genres = tables["items"].to_dict("records")
    rows = [(row["item"], row["genre"] and row["genre"].split("|")) for row in genres]
    here = evaluate(tables["lists"], tables["truth"], items=tables["items"], train=train, **options)
    schema = "item long, genre array<string>"
    there = evaluate(
        spark.createDataFrame(tables["lists"]).repartition(5),
        spark.createDataFrame(tables["truth"]).repartition(3),
        items=spark.createDataFrame(rows, schema),
        train=spark.createDataFrame(train),
        **options,
    )
    for name in ("metrics", "sums", "accounting", "item_segments", "per_user"):
        one, other = (result.to_pandas(name) for result in (here, there))
        keys = [key for key in KEYS if key in one.columns]
        if keys and name != "accounting":
            one, other = (table.sort_values(keys, ignore_index=True) for table in (one, other))
        pd.testing.assert_frame_equal(one, other, check_exact=True)


def test_a_result_without_segments_of_items_says_so() -> None:
    result = evaluate(LISTS, TRUTH, model="m", metrics="ndcg", k=3)
    with pytest.raises(ConfigError, match="no table item_segments"):
        result.to_pandas("item_segments")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"item_segments": ["genre"]}, "MISSING_ITEMS"),
        ({"item_segments": ["popularity"], "items": ITEMS}, "MISSING_TRAIN"),
        ({"item_segments": ["cold"], "items": ITEMS}, "MISSING_TRAIN"),
        ({"item_segments": ["genre", "Genre"], "items": ITEMS}, "INVALID_SEGMENT"),
        ({"item_segments": [""], "items": ITEMS}, "INVALID_SEGMENT"),
        ({"item_segments": ["genre"], "items": ITEMS, "metrics": "catalog_coverage"}, "INVALID_SEGMENT"),
    ],
)
def test_a_segment_that_cannot_be_measured_is_refused(options: dict[str, Any], code: str) -> None:
    asked: dict[str, Any] = {"metrics": "ndcg", "k": 3} | options
    with pytest.raises(ConfigError) as error:
        evaluate(LISTS, TRUTH, model="m", **asked)
    assert error.value.code == code


@pytest.mark.parametrize(
    ("column", "code"),
    [("genres", "MISSING_COLUMN"), ("many", "TOO_MANY_SEGMENTS"), ("vector", "NOT_A_SET")],
)
def test_an_attribute_that_cannot_be_used_is_refused(column: str, code: str) -> None:
    n = 100_000
    items = pd.DataFrame({"item": map(str, range(n)), "many": map(str, range(n))})
    items["vector"] = [[0.5]] * n
    with pytest.raises(DataError) as error:
        evaluate(LISTS, TRUTH, model="m", metrics="ndcg", k=3, items=items, item_segments=[column])
    assert error.value.code == code


def test_a_column_named_like_a_built_in_segment_is_refused() -> None:
    items = ITEMS.rename(columns={"genre": "popularity"})
    with pytest.raises(DataError, match="RESERVED_COLUMN"):
        evaluate(
            LISTS, TRUTH, model="m", metrics="ndcg", k=3, items=items, train=TRAIN, item_segments="popularity"
        )


def test_items_without_any_attribute_are_one_value() -> None:
    items = ITEMS.assign(genre=pd.Series([""] * 4))
    result = evaluate(LISTS, TRUTH, model="m", metrics="recall", k=3, items=items, item_segments="genre")
    assert values_of(result, "item:genre") == {"(missing)": {"recall": 0.666667}}
    [line] = result.to_pandas("accounting").query("outcome == 'without_value'").to_dict("records")
    assert line["users"] == 1


def test_metrics_beyond_accuracy_are_not_restricted() -> None:
    result = evaluate(
        *(LISTS, TRUTH),
        model="m",
        metrics=["ndcg", "catalog_coverage"],
        k=3,
        items=ITEMS,
        item_segments="genre",
    )
    rows = result.to_pandas("metrics")
    assert set(rows.query("metric == 'catalog_coverage'")["segment"]) == {"all"}
    assert set(rows.query("segment == 'item:genre'")["metric"]) == {"ndcg"}
