"""Stages end to end on tiny frames: the worked example, equal bits, models that are not there."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from spark_eval import evaluate
from spark_eval.errors import ConfigError
from spark_eval.schema import Table

TRUTH = {1: [1, 2, 3], 2: [4], 3: [5, 6], 4: [2], 5: [3, 8]}
LISTS = {
    "cg": {1: [9, 1, 8, 2, 7, 5], 2: [5, 6, 7, 8, 9, 1], 3: [5, 6, 1, 2, 3, 4], 5: [8, 1, 4, 6, 7, 9]},
    "ranker": {1: [1, 7], 2: [5, 6], 3: [5, 6], 5: [1, 4]},
    "reranked": {1: [7, 2], 2: [5, 6], 3: [5, 1], 4: [2, 3], 5: [1, 4]},
}
STAGES = [
    {"name": "candidates", "model": "cg", "k": 6},
    {"name": "ranking", "model": "ranker", "k": 2, "reranks": "candidates"},
    {"name": "final", "model": "reranked", "k": 2, "reranks": "ranking"},
]


def truth() -> pd.DataFrame:
    return pd.DataFrame(
        [(user, item) for user, items in TRUTH.items() for item in items], columns=["user", "item"]
    )


def lists(order: str) -> pd.DataFrame:
    rows = [
        (model, user, item, rank if order == "rank" else -float(rank))
        for model, of_users in LISTS.items()
        for user, items in of_users.items()
        for rank, item in enumerate(items, 1)
    ]
    return pd.DataFrame(rows, columns=["model", "user", "item", order])


def two_tables(found: Any) -> tuple[list[Any], list[Any]]:
    tables = [sorted(found.to_arrow(name).to_pylist(), key=str) for name in ("stages", "funnel")]
    found.unpersist()
    return tables[0], tables[1]


def test_the_worked_example_has_equal_bits_however_it_lies(spark: SparkSession) -> None:
    options: dict[str, Any] = {"metrics": ["recall", "ndcg"], "k": 2, "stages": STAGES}
    stages, funnel = two_tables(evaluate(lists("score"), truth(), engine="local", **options))
    values = {(row["stage"], row["metric"]): row["value"] for row in stages}
    assert values["ranking", "efficiency_ndcg"] == pytest.approx(0.617320, abs=1e-6)
    assert values["final", "efficiency_ndcg"] is None
    assert values["final", "share_replaced"] == pytest.approx(0.4)
    assert values["candidates", "stage_recall"] == pytest.approx(0.433333, abs=1e-6)
    assert {row["step"]: row["n_users"] for row in funnel}["with_candidates"] == 4
    assert sum(row["n_pairs"] for row in funnel if not row["step"].startswith("with_")) == 9
    frame = spark.createDataFrame(lists("rank")).repartition(5)
    assert two_tables(evaluate(frame, spark.createDataFrame(truth()).repartition(3), **options)) == (
        stages,
        funnel,
    )


@pytest.mark.usefixtures("spark")
def test_one_model_at_two_depths_and_no_stages(tmp_path: Path) -> None:
    mine = lists("rank").query("model == 'cg'").drop(columns="model")
    stages = [{"name": "deep", "model": "cg", "k": 6}, {"name": "shown", "model": "cg", "k": 1}]
    found = evaluate(mine, truth(), model="cg", metrics="recall", k=1, stages=stages)
    assert "recall at k 1; metrics, stages, funnel, per_user" in repr(found)
    assert found.stage_sums is not None
    rows = {(row.stage, row.metric): row.value for row in found.stage_sums.stage_rows()}
    assert rows["deep", "recall"] == rows["shown", "recall"] == rows["shown", "stage_recall"]
    assert rows["shown", "stage_recall"] == pytest.approx((1 / 2 + 1 / 2) / 5)
    for of_table in (Table.STAGES, Table.FUNNEL):
        rows_of_table, _ = found.small_tables[of_table]
        table = found.to_spark(of_table)
        given = [[getattr(row, name) for name in table.columns] for row in rows_of_table]
        assert list(map(list, table.collect())) == given
    first, *_ = found.stage_sums.funnel_rows()
    assert (first.step, first.n_users) == ("with_truth", 5)
    found.write(tmp_path)
    for name in ("stages", "funnel"):
        assert len(getattr(found, name)) > 0
        assert found.spark.read.parquet(str(tmp_path / name)).count() == len(found.to_pandas(name))
    assert found.plot("stages").title == "Where the pipeline loses"
    found.unpersist()
    plain = evaluate(mine, truth(), model="cg", metrics="recall", k=1)
    assert (len(plain.stages), len(plain.funnel)) == (0, 0)
    assert list(plain.stages)[:3] == ["stage", "model", "metric"]
    plain.unpersist()


def test_a_model_without_rows_is_refused_with_the_nearest() -> None:
    stages = [STAGES[0], {"name": "ranking", "model": "rankr", "k": 2}]
    with pytest.raises(ConfigError, match=r"'ranking'.*did you mean 'ranker'") as error:
        evaluate(lists("score"), truth(), metrics="recall", k=2, stages=stages, engine="local")
    assert error.value.code == "UNKNOWN_MODEL"
    with pytest.raises(ConfigError) as error:
        evaluate(lists("score").drop(columns="model"), truth(), model="cg", stages=STAGES, engine="local")
    assert error.value.code == "UNKNOWN_MODEL"
