"""Segments of requests: each value has the numbers of its requests alone."""

from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from request_lists import drawn

from spark_eval import compare, evaluate
from spark_eval.errors import DataError
from spark_eval.evaluation.result import Evaluation

pytestmark = pytest.mark.usefixtures("each_engine")

OPTIONS: dict[str, Any] = {"metrics": ["ndcg", "fcp"], "k": [5, 10], "engine": "local"}
NUMBERS = ["model", "metric", "k", "value", "std_error", "ci_low", "n_users", "n_requests", "n_undefined"]
DEVICES = ("phone", "desk")


def frames() -> tuple[dict[str, pd.DataFrame], pd.DataFrame]:
    """Lists and truth, and the device of each request; the last ones have none."""
    tables = drawn()
    ids = [tables[name][["user", "request"]] for name in ("recommendations", "truth")]
    requests = pd.concat(ids).drop_duplicates().sort_values(["user", "request"], ignore_index=True)
    requests["device"] = [DEVICES[index % 3 % 2] for index in requests.index]
    requests["country"] = requests["user"].map(lambda user: "at" if user % 2 else "de")
    return tables, requests.iloc[:-5]


def of_device(
    tables: dict[str, pd.DataFrame], requests: pd.DataFrame, device: str
) -> dict[str, pd.DataFrame]:
    """The rows of the requests of one device."""
    chosen = requests.loc[requests["device"] == device, ["user", "request"]]
    return {name: frame.merge(chosen, on=["user", "request"]) for name, frame in tables.items()}


def evaluated(tables: dict[str, pd.DataFrame], **options: Any) -> Evaluation:
    return evaluate(**{**tables, **OPTIONS, **options})


def assert_same_numbers(one: Evaluation, value: str, other: Evaluation, of_other: str = "all") -> None:
    """The rows of ``metrics`` of these values of segments are equal, to the bit."""
    rows, expected = (result.to_pandas("metrics") for result in (one, other))
    rows = rows[rows["segment_value"] == value][NUMBERS].reset_index(drop=True)
    expected = expected[expected["segment_value"] == of_other][NUMBERS].reset_index(drop=True)
    pd.testing.assert_frame_equal(rows, expected, check_exact=True)
    assert len(rows) == 12


@pytest.mark.parametrize("options", [{}, {"weight": "users"}, {"interval": "bootstrap", "resamples": 100}])
def test_a_device_has_the_numbers_of_its_requests_alone(options: dict[str, Any]) -> None:
    tables, requests = frames()
    result = evaluated(tables, users=requests, segments=["device"], **options)
    for device in DEVICES:
        alone = evaluated(of_device(tables, requests, device), **options)
        assert_same_numbers(result, device, alone)
    missing = result.to_pandas("metrics").query("segment_value == '(missing)' and metric == 'ndcg'")
    assert set(missing["n_requests"]) <= set(range(1, 6))


def test_segments_of_users_and_of_requests_are_in_one_run() -> None:
    tables, requests = frames()
    both = evaluated(tables, users=requests, segments=["country", "device"])
    users = pd.DataFrame({"user": range(30), "country": ["at" if user % 2 else "de" for user in range(30)]})
    known = {name: frame.merge(requests[["user", "request"]]) for name, frame in tables.items()}
    of_users = evaluated(known, users=users, segments=["country"])
    for country in ("at", "de"):
        assert_same_numbers(both, country, of_users, country)


def test_models_are_compared_by_the_segments_of_requests() -> None:
    tables, requests = frames()
    chosen: dict[str, Any] = {"baseline_model": "pop", "metrics": ["ndcg@10"], "tests": ["t", "wilcoxon"]}
    result = evaluated(tables, users=requests, segments=["device"])
    rows = compare(result, segments=["device"], **chosen).to_pandas("comparisons")
    for device in DEVICES:
        alone = compare(evaluated(of_device(tables, requests, device)), **chosen)
        columns = ["test", "difference", "p_value", "ci_low", "n_users", "wins", "user_wins", "user_ties"]
        found = rows.loc[rows["segment_value"] == device, columns]
        expected = alone.to_pandas("comparisons")[columns]
        pd.testing.assert_frame_equal(found.reset_index(drop=True), expected)


def test_a_request_twice_or_null_is_refused_and_requests_without_lists_of_them_are_users() -> None:
    tables, requests = frames()
    twice = pd.concat([requests, requests.iloc[:1], requests.iloc[:1].assign(request=None)])
    with pytest.raises(DataError) as refused:
        evaluated(tables, users=twice, segments=["device"])
    assert "1 rows are not the first of their user (and request)" in str(refused.value)
    assert "1 rows without a user (or request)" in str(refused.value)
    plain = {
        name: frame.drop(columns="request").drop_duplicates(["user", "item"])
        for name, frame in tables.items()
    }
    with pytest.raises(DataError, match="not the first of their user") as refused:
        evaluated(plain, users=requests, segments=["device"])
    assert refused.value.code == "DUPLICATE_USER"
    with pytest.raises(DataError, match="request is") as refused:
        evaluated(tables, users=requests.assign(request=1), segments=["device"])
    assert refused.value.code == "ID_TYPE_MISMATCH"


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["long", "array"])
def test_spark_finds_the_same_in_both_layouts(spark: SparkSession, layout: str) -> None:
    tables, requests = frames()
    lists = tables["recommendations"]
    chosen: dict[str, Any] = {"users": requests, "segments": ["device"], **OPTIONS}
    lists = lists.sort_values("score", ascending=False, kind="stable")
    lists["rank"] = lists.groupby(["model", "user", "request"]).cumcount() + 1
    lists = lists.drop(columns="score")
    local = evaluate(lists, tables["truth"], **chosen)
    given = spark.createDataFrame(lists)
    if layout == "array":
        arrays = lists.groupby(["model", "user", "request"])["item"].apply(list).reset_index()
        given = spark.createDataFrame(arrays)
    found = evaluate(given, tables["truth"], **{**chosen, "engine": "spark"}, layout=layout)
    for table in ("metrics", "sums"):
        columns = ["model", "metric", "k", "segment", "segment_value"]
        one, other = (
            each.to_pandas(table).sort_values(columns, ignore_index=True) for each in (local, found)
        )
        pd.testing.assert_frame_equal(one, other, check_exact=True, check_dtype=False)
