"""A server that persists no frame, as serverless compute of Databricks: the same bits, and a warning."""

import logging
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pandas as pd
import pytest
from pyspark.errors import UnsupportedOperationException
from pyspark.sql import SparkSession

from spark_eval import compare, evaluate, evaluate_predictions
from spark_eval.runners.rows import persist_frame

SERVERLESS = (
    "[NOT_SUPPORTED_WITH_SERVERLESS] PERSIST TABLE is not supported on serverless compute. SQLSTATE: 0A000"
)
LISTS = pd.DataFrame(
    [
        (model, user, (user * step + n) % 11, n)
        for model, step in (("a", 1), ("b", 3))
        for user in range(30)
        for n in range(1, 5)
    ],
    columns=["model", "user", "item", "rank"],
)
TRUTH = pd.DataFrame({"user": range(30), "item": [user % 7 for user in range(30)]})
USERS = pd.DataFrame({"user": range(30), "shop": ["x", "y", "z"] * 10})
CLICKS = pd.DataFrame({"label": [0, 1, 1, 0], "score": [0.1, 0.9, 0.4, 0.4]})


@pytest.fixture
def refusing(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[Any]]:
    """From now on whatever is to be persisted is refused in these words; nothing is there to be freed."""

    def refuse(words: str) -> list[Any]:
        refused: list[Any] = []

        def persist(rows: Any, *_: Any) -> Any:
            refused.append(rows)
            raise UnsupportedOperationException(words)

        def unpersist(*_: Any) -> Any:
            pytest.fail("freed what was never kept")

        monkeypatch.setattr(type(spark.range(1)), "persist", persist)
        monkeypatch.setattr(type(spark.range(1)), "unpersist", unpersist)
        return refused

    return refuse


def tables(engine: str) -> list[Any]:
    """All rows of all verbs that keep something."""
    options: dict[str, Any] = {"users": USERS, "segments": "shop", "k": [2, 4], "interval": "bootstrap"}
    metrics = ["mrr", "ndcg", "gini_recommended"]
    measured = evaluate(LISTS, TRUTH, metrics=metrics, engine=engine, **options)
    compared = compare(measured, baseline_model="a", metrics="ndcg@4", tests=["wilcoxon", "bootstrap"])
    asked: dict[str, Any] = {"model": "m", "metrics": ["auc", "log_loss"], "engine": engine}
    scored = evaluate_predictions(CLICKS, "binary", **asked)
    users = measured.to_arrow("per_user")
    found = [users.select(sorted(users.column_names)).to_pylist()]
    measured.unpersist()
    found += [measured.metric_rows, measured.entries, compared.rows, scored.metric_rows]
    return [sorted(map(str, rows)) for rows in found]


def test_what_cannot_be_persisted_is_computed_anew(
    refusing: Callable[[str], list[Any]],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = refusing(SERVERLESS)
    for name, value in {"handlers": [], "propagate": True}.items():
        monkeypatch.setattr(f"spark_eval.runtime.events.log.{name}", value)
    with caplog.at_level(logging.WARNING, "spark_eval"):
        assert tables("spark") == tables("local")
    # Users; measured rows; draws, pairs and ranges of scores by bucket; rows of predictions and their sums.
    assert Counter(rows.columns[0] for rows in refused) == {"user": 1, "model": 1, "bucket": 3, "number": 2}
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert {record.facts["event"] for record in warnings} == {"not_persisted"}  # type: ignore[attr-defined]


def test_another_refusal_is_no_reason_to_go_on(
    spark: SparkSession, refusing: Callable[[str], list[Any]]
) -> None:
    refusing("[CACHE_REQUIRES_NEWER_CLIENT_ON_SERVERLESS_GC] Upgrade the client.")
    with ExitStack() as held:
        assert persist_frame(spark.range(1), held).count() == 1
    refusing("[UNSUPPORTED_CALL] PERSIST TABLE is not supported.")
    with ExitStack() as held, pytest.raises(UnsupportedOperationException, match="UNSUPPORTED_CALL"):
        persist_frame(spark.range(1), held)
