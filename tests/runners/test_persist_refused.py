"""A server that persists no frame, as serverless compute of Databricks: the same bits, and a warning."""

import logging
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pandas as pd
import pytest
from pyspark.errors import UnsupportedOperationException
from pyspark.sql import SparkSession

from spark_eval import compare, evaluate, evaluate_predictions
from spark_eval.runners.spread import persist

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
def refusing(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """From now on whatever is to be persisted is refused in these words; nothing is there to be freed."""

    def refuse(words: str) -> None:
        def persist(*_: Any) -> Any:
            raise UnsupportedOperationException(words)

        def unpersist(*_: Any) -> Any:
            pytest.fail("freed what was never kept")

        monkeypatch.setattr(type(spark.range(1)), "persist", persist)
        monkeypatch.setattr(type(spark.range(1)), "unpersist", unpersist)

    return refuse


def tables() -> list[Any]:
    """All rows of all verbs that keep something."""
    options: dict[str, Any] = {"users": USERS, "segments": "shop", "k": [2, 4], "interval": "bootstrap"}
    measured = evaluate(LISTS, TRUTH, metrics=["mrr", "ndcg", "gini_recommended"], **options)
    compared = compare(measured, baseline_model="a", metrics="ndcg@4", tests=["wilcoxon", "bootstrap"])
    scored = evaluate_predictions(CLICKS, "binary", model="m", metrics=["auc", "log_loss"])
    users = sorted(measured.per_user.collect())
    measured.unpersist()
    return [measured.metric_rows, users, measured.entries, compared.rows, scored.metric_rows]


def test_what_cannot_be_persisted_is_computed_anew(
    refusing: Callable[[str], None],
    persisted: list[Any],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = tables()
    assert len(persisted) == 6  # users, measured rows, draws, pairs, rows and ranges of scores
    refusing(SERVERLESS)
    for name, value in {"handlers": [], "propagate": True}.items():
        monkeypatch.setattr(f"spark_eval.runtime.events.log.{name}", value)
    with caplog.at_level(logging.WARNING, "spark_eval"):
        assert tables() == expected
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert {record.facts["event"] for record in warnings} == {"not_persisted"}  # type: ignore[attr-defined]


def test_another_refusal_is_no_reason_to_go_on(spark: SparkSession, refusing: Callable[[str], None]) -> None:
    refusing("[CACHE_REQUIRES_NEWER_CLIENT_ON_SERVERLESS_GC] Upgrade the client.")
    with ExitStack() as held:
        assert persist(spark.range(1), held).count() == 1
    refusing("[UNSUPPORTED_CALL] PERSIST TABLE is not supported.")
    with ExitStack() as held, pytest.raises(UnsupportedOperationException, match="UNSUPPORTED_CALL"):
        persist(spark.range(1), held)
