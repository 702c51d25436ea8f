"""Every fold's numbers are those of its rows alone, to the last bit; their means and deviations follow."""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from arrow_rows import table
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_eval.errors import DataError
from spark_eval.evaluation.evaluate import evaluate
from spark_eval.evaluation.result import Evaluation
from spark_eval.evaluation.summary import SumRow, merge_sum_rows, metric_rows
from spark_eval.predictions.evaluate import evaluate_predictions
from spark_eval.results.rows import fold_rows

FOLDS = (0, 3, 11)
LISTS = "model string, user int, item int, score double, fold int"
TRUTH = "user int, item int, relevance double, fold bigint"
MEASURE: dict[str, Any] = {
    "k": [3, 20],
    "metrics": ["ap", "ndcg", "recall"],
    "segments": ["country", "known"],
    "engine": "local",
}


@dataclass(frozen=True, eq=False)
class World:
    lists: pa.Table
    truth: pa.Table
    train: pa.Table
    users: pa.Table
    evaluation: Evaluation

    def alone(self, fold: int, ties: str = "item_desc") -> Evaluation:
        """The evaluation of one fold's rows without a word of folds."""
        lists, truth, train = (
            rows.filter(pc.equal(rows["fold"], fold)).drop_columns("fold")
            for rows in (self.lists, self.truth, self.train)
        )
        chosen: dict[str, Any] = MEASURE | {"conventions": {"ties": ties}}
        return evaluate(lists, truth, train=train, users=self.users, **chosen)


@pytest.fixture(scope="module")
def world() -> World:
    source = random.Random(7)
    pairs = [(user, item) for user in range(12) for item in range(15)]
    lists, truth, train = [], [], []
    for fold in FOLDS:
        users = set(source.sample(range(12), 10))
        for user, item in pairs:
            for model in ("als", "pop"):
                if user in users and source.random() < 0.5:
                    lists.append((model, user, item, source.randrange(4) / 3, fold))
            if source.random() < 0.2:
                truth.append((user, item, float(source.randrange(1, 4)), fold))
            elif source.random() < 0.1:
                train.append((user, item, fold))
    frames = (
        table(lists, LISTS),
        table(truth, TRUTH),
        table(train, "user int, item int, fold int"),
        table([(user, "NP"[user % 2]) for user in range(12)], "user bigint, country string"),
    )
    lists_, truth_, train_, users_ = frames
    return World(*frames, evaluate(lists_, truth_, train=train_, users=users_, **MEASURE))


def numbers(rows: Iterable[Any], segment: str, value: str) -> list[tuple[Any, ...]]:
    chosen = [row for row in rows if (row.segment, row.segment_value) == (segment, value)]
    return sorted(
        tuple(one for name, one in row._asdict().items() if not name.startswith("segment")) for row in chosen
    )


@pytest.mark.parametrize(
    "fold", [FOLDS[0], *(pytest.param(fold, marks=pytest.mark.exhaustive) for fold in FOLDS[1:])]
)
def test_a_fold_has_the_numbers_of_its_rows_alone(world: World, fold: int) -> None:
    alone = world.alone(fold)

    assert numbers(world.evaluation.metric_rows, "fold", str(fold)) == numbers(
        alone.metric_rows, "all", "all"
    )
    mine, theirs = (one.to_arrow("per_user") for one in (world.evaluation, alone))
    mine = mine.filter(pc.equal(mine["fold"], fold)).select(theirs.column_names)
    assert sorted(map(str, mine.to_pylist())) == sorted(map(str, theirs.to_pylist()))


def test_mean_and_deviation_are_those_of_the_folds(world: World) -> None:
    by_fold = [numbers(world.evaluation.metric_rows, "fold", str(fold)) for fold in FOLDS]
    means = numbers(world.evaluation.metric_rows, "folds", "mean")
    deviations = numbers(world.evaluation.metric_rows, "folds", "sd")

    assert len(means) == len(deviations) == 2 * 3 * 2
    for middle, spread, *rows in zip(means, deviations, *by_fold, strict=True):
        assert middle[:3] == spread[:3] == rows[0][:3]
        values = [row[3] for row in rows]
        assert (middle[3], spread[3]) == (mean(values), stdev(values))
        assert middle[7:9] == spread[7:9] == (sum(row[7] for row in rows), sum(row[8] for row in rows))


def test_sums_of_two_halves_of_the_users_give_the_metrics_of_the_whole(world: World) -> None:
    """To the last bit, of every fold and segment."""
    halves: list[SumRow] = []
    for part in (0, 1):
        lists, truth = (
            rows.filter(pc.equal(pc.bit_wise_and(rows["user"], 1), part))
            for rows in (world.lists, world.truth)
        )
        evaluation = evaluate(lists, truth, train=world.train, users=world.users, **MEASURE)
        halves += evaluation.sum_rows
    whole = world.evaluation.sum_rows

    assert sorted(merge_sum_rows(halves), key=str) == sorted(whole, key=str)
    assert {row.segment for row in whole} == {"all", "fold", "country", "known"}
    rows = metric_rows(merge_sum_rows(halves))
    assert sorted(rows + fold_rows(rows), key=str) == sorted(
        map(tuple, world.evaluation.metric_rows), key=str
    )


def test_users_keep_their_ids_and_have_a_fold(world: World) -> None:
    schema = world.evaluation.to_arrow("per_user").schema

    assert (schema.field("user").type, schema.field("fold").type) == (pa.int32(), pa.int32())
    assert schema.names[:6] == [*("model", "user", "n_relevant", "n_recommended", "fold", "country")]


@pytest.mark.slow
def test_cold_items_are_those_of_their_fold(world: World) -> None:
    entries = [entry for entry in world.evaluation.entries if entry.reason == "cold_item"]
    alone = [entry for fold in FOLDS for entry in world.alone(fold).entries if entry.reason == "cold_item"]

    for source, model in {(entry.source, entry.model) for entry in entries}:
        mine, theirs = (
            sum(one.rows for one in all_ if (one.source, one.model) == (source, model))
            for all_ in (entries, alone)
        )
        assert mine == theirs > 0


@pytest.mark.slow
def test_ties_are_broken_in_a_fold_as_without(world: World) -> None:
    chosen = {"conventions": {"ties": "hash"}}
    evaluation = evaluate(
        world.lists, world.truth, train=world.train, users=world.users, **(MEASURE | chosen)
    )

    fold = numbers(evaluation.metric_rows, "fold", "3")

    assert fold == numbers(world.alone(3, "hash").metric_rows, "all", "all")
    assert [row[3] for row in fold] != [row[3] for row in numbers(world.evaluation.metric_rows, "fold", "3")]


def test_rows_without_a_fold_are_quarantined() -> None:
    lists = table([("m", 1, 2, 0.5, 0), ("m", 1, 3, 0.4, None)], LISTS)
    truth = table([(1, 2, 1.0, 0), (1, 3, 1.0, None)], TRUTH)

    evaluation = evaluate(lists, truth, k=5, metrics=["recall"], engine="local")

    found = {(entry.source, entry.rows) for entry in evaluation.entries if entry.reason == "NULL_ID"}
    assert found == {("recommendations", 1), ("truth", 1)}
    assert [row[3] for row in numbers(evaluation.metric_rows, "folds", "mean")] == [1.0]
    assert [row[3] for row in numbers(evaluation.metric_rows, "folds", "sd")] == [None]


def test_tables_of_other_folds_are_refused(spark: SparkSession) -> None:
    lists = spark.createDataFrame([("m", 1, 2, 0.5, 0), ("m", 1, 3, 0.4, 1), ("n", 1, 3, 0.4, 1)], LISTS)
    truth = spark.createDataFrame([(1, 2, 1.0, 0), (1, 3, 1.0, 1)], TRUTH)

    for theirs, mine, what in (
        (lists, truth.drop("fold"), "truth has none"),
        (lists.drop("fold"), truth, "truth has several folds, such as"),
        (lists, truth, "'n': no list in 1 of 2 folds of the truth, such as 0"),
    ):
        with pytest.raises(DataError, match=f"FOLDS_DIFFER.*{what}"):
            evaluate(theirs, mine, k=5)
    with pytest.raises(DataError, match="FOLD_NOT_INTEGER"):
        evaluate(lists.withColumn("fold", F.col("fold") / 2), truth, k=5)


def test_one_fold_in_the_truth_needs_none_in_the_lists() -> None:
    lists = table([("m", 1, 2, 0.5)], "model string, user int, item int, score double")
    truth = table([(1, 2, 1.0, 0), (1, 3, 1.0, 0)], TRUTH)

    evaluation = evaluate(lists, truth, k=5, metrics=["recall"], engine="local")

    assert [row.value for row in evaluation.metric_rows] == [0.5]
    assert "fold" not in evaluation.per_user.columns


def test_predictions_are_measured_by_fold(spark: SparkSession) -> None:
    rows = [(fold, place % 2, ((place * 7 + fold) % 10) / 10) for fold in FOLDS for place in range(20)]
    frame = spark.createDataFrame(rows, "cv int, label int, score double").repartition(4)
    asked: dict[str, Any] = {"model": "m", "metrics": ["auc", "log_loss", "accuracy"]}

    found = evaluate_predictions(frame, "binary", columns={"fold": "cv"}, **asked)

    by_fold = {fold: numbers(found.metric_rows, "fold", str(fold)) for fold in FOLDS}
    for fold in FOLDS[1:]:
        alone = evaluate_predictions(frame.where(F.col("cv") == fold), "binary", **asked)
        assert by_fold[fold] == numbers(alone.metric_rows, "all", "all")
    middles, spreads = (numbers(found.metric_rows, "folds", name) for name in ("mean", "sd"))
    for place, (middle, spread) in enumerate(zip(middles, spreads, strict=True)):
        values = [by_fold[fold][place][3] for fold in FOLDS]
        assert (middle[3], spread[3]) == (mean(values), stdev(values))
        assert middle[-1] == 60
