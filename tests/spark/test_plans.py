"""How Spark runs it: what is shuffled, what is read, how often Python is called."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from frames import explained
from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_eval.plan import make_plan
from spark_eval.transforms.conform import align_ids, conform_recommendations, conform_truth
from spark_eval.transforms.match import match
from spark_eval.transforms.rank import rank
from spark_eval.transforms.truth import distinct_truth, relevant
from spark_eval.transforms.workers import Sent, in_buckets, send
from spark_eval.verbs import by_workers
from spark_eval.verbs.evaluate import evaluate

INDENT = re.compile(r"^((?: {3}|: {2})*(?:[:+]- )?)(?:\*\(\d+\) )?(.*)$")
SOURCES = {
    "ranked": "SELECT id % 10 AS user, id AS item, int(id div 10) + 1 AS rank, 'als' AS model, 'x' AS note "
    "FROM range(100)",
    "scored": "SELECT id % 10 AS user, id AS item, double(id) AS score, 'als' AS model, 'x' AS note "
    "FROM range(100)",
    "truth": "SELECT id % 10 AS user, id AS item, 1.0D AS relevance, 'x' AS note FROM range(0, 100, 3)",
}


@pytest.fixture(scope="module")
def read(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], DataFrame]:
    """Reads a source as Parquet."""
    folder = tmp_path_factory.mktemp("plans")
    for name, query in SOURCES.items():
        spark.sql(query).coalesce(1).write.parquet(str(folder / name))
    return lambda name: spark.read.parquet(str(folder / name))


def above_scan_of(column: str, plan: str) -> list[str]:
    """The operators from the one scan that reads a column up to the root, scan first."""
    lines = [match_.groups() for match_ in map(INDENT.match, plan.splitlines()) if match_]
    operators = [(len(indent), text) for indent, text in lines if text]
    (scan,) = [
        place
        for place, (_, text) in enumerate(operators)
        if text.startswith("FileScan") and f"{column}#" in text
    ]
    depth, text = operators[scan]
    path = [text]
    for above, text in reversed(operators[:scan]):
        if above < depth:
            path.append(text)
            depth = above
    return path


def lists(recommendations: DataFrame, truth: DataFrame) -> DataFrame:
    """The step of the path that reads both inputs, not persisted."""
    plan = make_plan()
    rows, judged = align_ids(
        conform_recommendations(recommendations, None, None),
        conform_truth(truth, None, None, "UTC", plan.conventions),
    )
    items = relevant(distinct_truth(judged, plan.conventions))
    return match(rank(rows, plan.conventions.ties, plan.checks), F.broadcast(items), plan.depth, plan.cuts)


def test_given_ranks_are_shuffled_only_once_they_are_few(read: Callable[[str], DataFrame]) -> None:
    path = above_scan_of("rank", explained(lists(read("ranked"), read("truth"))))
    exchanges = [place for place, operator in enumerate(path) if operator.startswith("Exchange")]
    is_partial = ["functions=[partial_" in path[place - 1] for place in exchanges]
    assert is_partial == [True, True], path


def test_scores_are_shuffled_once_by_list(read: Callable[[str], DataFrame]) -> None:
    path = above_scan_of("score", explained(lists(read("scored"), read("truth"))))
    exchanges = [operator for operator in path if operator.startswith("Exchange")]
    assert [re.sub(r"#\d+L?", "", exchange)[:43] for exchange in exchanges] == [
        "Exchange hashpartitioning(model, user, 2), "
    ]


@pytest.mark.parametrize(("source", "order"), [("ranked", "rank:int"), ("scored", "score:double")])
def test_only_needed_columns_are_read(read: Callable[[str], DataFrame], source: str, order: str) -> None:
    scan = above_scan_of(order.split(":")[0], explained(lists(read(source), read("truth"))))[0]
    schema = scan.partition("ReadSchema: ")[2]
    assert schema == f"struct<user:bigint,item:bigint,{order},model:string>"


@pytest.mark.parametrize("source", ["ranked", "scored"])
def test_python_is_called_once_for_all_metrics(read: Callable[[str], DataFrame], source: str) -> None:
    evaluation = evaluate(read(source), read("truth"), plan="shuffle")
    plan = explained(evaluation.per_user, mode="formatted")
    calls = re.findall(
        r"\(\d+\) ArrowEvalPython\n.*\nArguments: \[(.*)\], \[(pythonUDF\d+#\d+)\], \d+\n", plan
    )
    assert [arguments.count("measure_batch(") for arguments, _ in calls] == [1]
    assert not re.search(r"BatchEvalPython|MapInPandas|FlatMapGroups", plan)
    evaluation.unpersist()


@pytest.mark.parametrize("source", ["ranked", "scored"])
def test_nothing_is_gathered_in_one_partition(read: Callable[[str], DataFrame], source: str) -> None:
    evaluation = evaluate(read(source), read("truth"), checks="full", plan="shuffle")
    plan = explained(evaluation.per_user, mode="formatted")
    assert ("InMemoryRelation" in plan, "SinglePartition" in plan) == (True, False)
    assert not re.search(r"windowspecdefinition\((specified|[^,]* (ASC|DESC))", plan)
    evaluation.unpersist()


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> list[DataFrame]:
    """What the plan ``workers`` reads: the truth, then the recommendations."""
    found: list[DataFrame] = []

    def recorded(frame: DataFrame, *others: Any) -> RDD[Sent]:
        found.append(frame)
        return send(frame, *others)

    monkeypatch.setattr(by_workers, "send", recorded)
    return found


@pytest.fixture
def buckets(monkeypatch: pytest.MonkeyPatch) -> list[RDD[Sent]]:
    """What it puts into buckets: the truth, then everything."""
    found: list[RDD[Sent]] = []

    def recorded(*arguments: Any) -> RDD[Sent]:
        found.append(in_buckets(*arguments))
        return found[-1]

    monkeypatch.setattr(by_workers, "in_buckets", recorded)
    return found


def work_of(parcels: RDD[Sent]) -> list[str]:
    """What Spark does for parcels, from the last step to the first of each input."""
    told = parcels.toDebugString()
    assert told is not None
    return re.findall(r"(Python|Shuffled|Union|FileScan|ParallelCollection)RDD\[", told.decode())


# The truth in its buckets; numbers of files stand for what is in these.
TRUTH = ["Shuffled", "Python", "ParallelCollection"]


def test_the_workers_read_plain_files_themselves(
    read: Callable[[str], DataFrame], buckets: list[RDD[Sent]]
) -> None:
    evaluation = evaluate(read("ranked"), read("truth"), plan="workers")
    assert evaluation.reason == "workers: recommendations are read as plain Parquet files"
    truth, everything = map(work_of, buckets)
    assert truth == TRUTH
    gathered = ["Shuffled", "Python", "Union"]
    assert everything == [*gathered, "Python", "Python", *TRUTH, "Python", "ParallelCollection"]
    evaluation.unpersist()


def test_what_goes_through_spark_to_the_workers_is_not_shuffled(
    read: Callable[[str], DataFrame], frames: list[DataFrame], buckets: list[RDD[Sent]]
) -> None:
    evaluation = evaluate(read("ranked").where("rank > 0"), read("truth"), plan="workers")
    assert evaluation.reason == "workers: recommendations are read through Spark"
    gathered = ["Shuffled", "Python", "Union"]
    assert work_of(buckets[-1]) == [*gathered, "Python", "Python", *TRUTH, "Python", "FileScan"]
    [scan] = [line for line in explained(frames[-1]).splitlines() if "FileScan" in line]
    assert scan.endswith("ReadSchema: struct<user:bigint,item:bigint,rank:int,model:string>")
    assert "PushedFilters: [IsNotNull(rank), GreaterThan(rank,0)]" in scan
    evaluation.unpersist()


@pytest.mark.parametrize("plan", ["workers", "shuffle"])
def test_inputs_are_read_once(spark: SparkSession, tmp_path: Path, plan: str) -> None:
    for name in ("scored", "truth"):
        spark.sql(SOURCES[name]).coalesce(1).orderBy("user").write.parquet(str(tmp_path / name))
    frames = (spark.read.parquet(str(tmp_path / name)) for name in ("scored", "truth"))
    evaluation = evaluate(*frames, k=5, plan=plan)
    shutil.rmtree(tmp_path)
    assert (evaluation.per_user.count(), evaluation.metrics.count()) == (10, 9)
    evaluation.unpersist()
