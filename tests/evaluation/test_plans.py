"""How Spark runs it: what is shuffled, what is read, how often Python is called."""

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from frames import explained
from pyspark.sql import DataFrame, SparkSession

from spark_eval.evaluation.evaluate import evaluate
from spark_eval.evaluation.exchange import measure
from spark_eval.evaluation.result import Evaluation
from spark_eval.runners.rows import Rows

SOURCES = {
    "ranked": "SELECT id % 10 AS user, id AS item, int(id div 10) + 1 AS rank, 'als' AS model, 'x' AS note "
    "FROM range(100)",
    "scored": "SELECT id % 10 AS user, id AS item, double(id) AS score, 'als' AS model, 'x' AS note "
    "FROM range(100)",
    "truth": "SELECT id % 10 AS user, id AS item, 1.0D AS relevance, 'x' AS note FROM range(0, 100, 3)",
}
ORDERS = {"ranked": "rank:int", "scored": "score:double"}


@pytest.fixture(scope="module", autouse=True)
def adaptive(spark: SparkSession) -> Iterator[None]:
    """Plans are those of users: Spark plans again after each shuffle."""
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    yield
    spark.conf.set("spark.sql.adaptive.enabled", "false")


@pytest.fixture(scope="module")
def read(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], DataFrame]:
    """Reads a source as Parquet."""
    folder = tmp_path_factory.mktemp("plans")
    for name, query in SOURCES.items():
        spark.sql(query).coalesce(1).write.parquet(str(folder / name))
    return lambda name: spark.read.parquet(str(folder / name))


@contextmanager
def evaluated(*frames: DataFrame, **rules: Any) -> Iterator[tuple[Evaluation, str]]:
    """An evaluation and the physical plan of its one pass over the data."""
    passes: list[DataFrame] = []

    def noted(*arguments: Any) -> Rows:
        rows = measure(*arguments)
        passes.append(rows.result())
        return rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spark_eval.evaluation.evaluate.measure", noted)
        evaluation = evaluate(*frames, **rules)
    [rows] = passes
    # What has run; below it Spark tells what it meant to run at first.
    yield evaluation, explained(rows).partition("== Initial Plan ==")[0]
    evaluation.unpersist()


def operators(plan: str) -> dict[str, int]:
    """How often each of the dear operators is there."""
    names = ("Exchange hashpartitioning", "Exchange SinglePartition", "Exchange", "MapInArrow", "FileScan")
    found = {name: len(re.findall(rf"{name}\b", plan)) for name in (*names, "Window", "Join")}
    return {name: number for name, number in found.items() if number}


@pytest.mark.parametrize(
    ("source", "checks"),
    [
        ("ranked", "hits"),
        ("scored", "full"),
        pytest.param("ranked", "full", marks=pytest.mark.exhaustive),
        pytest.param("scored", "hits", marks=pytest.mark.exhaustive),
    ],
)
def test_rows_meet_once_and_are_sent_and_measured_by_one_call_of_python_each(
    read: Callable[[str], DataFrame], source: str, checks: str
) -> None:
    lists, truth = read(source).where("item >= 0"), read("truth").where("item >= 0")
    with evaluated(lists, truth, checks=checks) as (evaluation, plan):
        found = operators(plan)
        assert found == {"Exchange hashpartitioning": 1, "Exchange": 1, "MapInArrow": 3, "FileScan": 2}
        assert re.search(r"Exchange hashpartitioning\(bucket#\d+, \d+\), REPARTITION_BY_NUM", plan)
        # Columns that nobody asks for are not read; filters reach the files.
        schemas = re.findall(r"ReadSchema: (struct<.*>)", plan)
        assert f"struct<user:bigint,item:bigint,{ORDERS[source]},model:string>" in schemas
        assert "struct<user:bigint,item:bigint,relevance:double>" in schemas
        assert plan.count("PushedFilters: [IsNotNull(item), GreaterThanOrEqual(item,0)]") == 2
        assert evaluation.per_user.count() == 10


def test_the_workers_read_plain_files_themselves(
    read: Callable[[str], DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_eval.evaluation.exchange.LEAST_ROWS", 10)  # worth more than one task
    with evaluated(read("ranked"), read("truth")) as (_, plan):
        assert operators(plan) == {"Exchange hashpartitioning": 1, "Exchange": 1, "MapInArrow": 3}
        assert len(re.findall(r"Range \(0, 1", plan)) == 2


def test_inputs_are_read_once(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("scored", "truth"):
        spark.sql(SOURCES[name]).coalesce(1).orderBy("user").write.parquet(str(tmp_path / name))
    for where in ("item >= 0", None):
        frames = [spark.read.parquet(str(tmp_path / name)) for name in ("scored", "truth")]
        evaluation = evaluate(*(frame.where(where) if where else frame for frame in frames), k=5)
        if where is None:
            shutil.rmtree(tmp_path)
        assert (evaluation.per_user.count(), len(evaluation.metric_rows)) == (10, 9)
        evaluation.unpersist()
