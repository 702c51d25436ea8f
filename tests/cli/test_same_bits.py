"""One evaluation, one hash: whatever the order of rows, the files, the partitions and the optimiser do."""

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from tests.cli.conftest import Desk

N_USERS, LIST_LENGTH = 60, 12
ADAPTIVE, FEW, MANY = (
    {"spark.sql.adaptive.enabled": "true"},
    {"spark.sql.shuffle.partitions": "1", "spark.sql.adaptive.enabled": "false"},
    {
        "spark.sql.shuffle.partitions": "7",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
    },
)


def make_lists(generator: np.random.Generator) -> pd.DataFrame:
    """Three models' lists, with scores of few values, so that most are tied."""
    n_rows = 3 * N_USERS * LIST_LENGTH
    return pd.DataFrame(
        {
            "model": generator.choice(["als", "knn", "popular"], n_rows),
            "user": generator.integers(0, N_USERS, n_rows),
            "item": generator.integers(0, 60, n_rows),
            "score": generator.integers(0, 4, n_rows) / 3,
        }
    )


def make_truth(generator: np.random.Generator) -> pd.DataFrame:
    """Graded truth with repeats, whose relevances add up differently in each order."""
    n_rows = 5 * N_USERS
    return pd.DataFrame(
        {
            "user": generator.integers(0, N_USERS, n_rows),
            "item": generator.integers(0, 60, n_rows),
            "relevance": generator.random(n_rows) * 5,
        }
    )


def digest(desk: "Desk", table: str) -> str:
    """A hash over the rows of a table in a fixed order, doubles by their bits."""
    rows = desk.table(table)
    lines = [
        "|".join(value.hex() if isinstance(value, float) else str(value) for value in row)
        for row in rows[sorted(rows.columns)].itertuples(index=False)
    ]
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def test_one_evaluation_one_hash(
    desk: "Desk",
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    lists, truth = make_lists(np.random.default_rng(1)), make_truth(np.random.default_rng(2))
    desk.change(
        "evaluate", metrics=["map", "ndcg", "dcg", "f1", "arhr"], conventions={"truth_duplicates": "sum"}
    )
    seen = set()
    for number, (conf, files) in enumerate([(ADAPTIVE, 1), (FEW, 3), (MANY, 8)]):
        order = np.random.default_rng(number)
        other = desk.twin(tmp_path_factory.mktemp("twin"))
        for name, rows in (("recommendations", lists), ("truth", truth)):
            shuffled = rows.sample(frac=1.0, random_state=order)
            other.change(name, path=str(other.write(name, shuffled, files)))
        before = {key: str(spark.conf.get(key)) for key in conf}
        try:
            for key, value in conf.items():
                spark.conf.set(key, value)
            other.done("evaluate", "--run-id", "a")
        finally:
            for key, value in before.items():
                spark.conf.set(key, value)
        seen.add((digest(other, "metrics"), digest(other, "per_user")))
    assert len(seen) == 1
