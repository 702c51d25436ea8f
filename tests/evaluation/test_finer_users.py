"""Ids of users that are those of requests: a warning where the tables show it, silence where they do not."""

import logging
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_eval import evaluate
from spark_eval.evaluation.tables import is_finer

LISTS = pd.DataFrame(
    {
        "customer": ["ann", "ann", "ann", "bob"],
        "search": ["s1", "s1", "s2", "s3"],
        "item": [1, 2, 1, 3],
        "rank": 1,
    }
)
LISTS["rank"] = [1, 2, 1, 1]
CLICKS = pd.DataFrame({"search": ["s1", "s3"], "item": [1, 3]})
TRAIN = pd.DataFrame({"customer": ["ann", "bob"], "item": [1, 3]})
OPTIONS: dict[str, Any] = {
    "model": "bm25",
    "metrics": ["mrr"],
    "k": [2],
    "columns": {"user": "search"},
    "truth_columns": {"user": "search"},
    "train": TRAIN,
    "train_columns": {"user": "customer"},
}


def warnings(caplog: pytest.LogCaptureFixture, lists: Any, **options: Any) -> list[str]:
    """The warnings of an evaluation."""
    caplog.clear()
    with caplog.at_level(logging.WARNING, "spark_eval"):
        evaluate(lists, **{"engine": "local", "truth": CLICKS, **OPTIONS, **options})
    return [record.getMessage() for record in caplog.records if record.name == "spark_eval"]


def test_searches_of_a_customer_are_not_users(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    [text] = warnings(caplog, LISTS)
    assert text.startswith("LOOKS_LIKE_REQUESTS: recommendations: several 'search' belong to one 'customer'")
    assert "the user of train; map user to 'customer' and request to 'search'" in text
    LISTS.to_parquet(tmp_path / "lists.parquet", index=False)
    assert warnings(caplog, str(tmp_path / "lists.parquet")) == [text]
    [named] = warnings(caplog, LISTS.rename(columns={"customer": "user"}), train=None)
    assert "belong to one 'user', our name of users" in named


@pytest.mark.slow
def test_spark_warns_alike(caplog: pytest.LogCaptureFixture, spark: SparkSession) -> None:
    assert warnings(caplog, spark.createDataFrame(LISTS), engine="spark") == warnings(caplog, LISTS)


def test_nothing_is_said_where_the_tables_do_not_show_it(caplog: pytest.LogCaptureFixture) -> None:
    # No table names the customer as its user.
    assert not warnings(caplog, LISTS, train=None, train_columns=None)
    # Customers are finer than what is measured, or as fine.
    assert not warnings(caplog, LISTS.assign(customer=["ann", "cid", "ann", "bob"]))
    assert not warnings(caplog, LISTS.assign(customer=LISTS["search"]))
    # Requests are told.
    clicks = CLICKS.assign(customer=["ann", "bob"])
    requests = {"user": "customer", "request": "search"}
    assert not warnings(caplog, LISTS, columns=requests, truth_columns=requests, truth=clicks)


def test_ids_are_finer_if_each_has_one_coarser_id() -> None:
    assert is_finer(pa.table({"x": [1, 2, 3, None], "y": ["a", "a", "b", "b"]}))
    assert not is_finer(pa.table({"x": [1, 1, 2, 3], "y": ["a", "b", "a", "a"]}))
    assert not is_finer(pa.table({"x": [1, 2], "y": ["a", "b"]}))
