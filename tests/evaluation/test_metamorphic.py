"""What must not change, or must change in a known way, when the input does: on random lists through Spark."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from choices import ACCURACY, PERFECT
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_eval.evaluation.evaluate import evaluate
from spark_eval.evaluation.result import Evaluation
from spark_eval.metrics import RANKING

N_USERS, N_ITEMS, LENGTH = 50, 30, 8
KS = (1, 3, LENGTH)
RECOMMENDATIONS = "model string, user long, item long, score double"
# Without a table of items nothing is known of them but who finds them relevant.
OF_RELEVANCE = [name for name, metric in RANKING.items() if not metric.knows_items]
# Of a whole list, and of its length, nothing is said when items are appended.
METRICS = [*ACCURACY, "ndcg(gain=exp2)", "map(denominator=relevant)", "ndcg(tie_order=best)"]
UNCUT = ("r_precision", "ndcg(tie_order=best)")


@pytest.fixture(scope="module")
def truth(spark: SparkSession) -> DataFrame:
    random = np.random.default_rng(3)
    rows = [
        (user, int(item), float(random.integers(1, 5)))
        for user in range(N_USERS)
        for item in random.choice(N_ITEMS, random.integers(1, 12), replace=False)
    ]
    return spark.createDataFrame(rows, "user long, item long, relevance double").repartition(3).cache()


@pytest.fixture(scope="module")
def base(spark: SparkSession) -> DataFrame:
    """Lists with many ties; every tenth user has none."""
    random = np.random.default_rng(4)
    rows = [
        ("base", user, int(item), float(random.integers(-8, 9)) / 4)
        for user in range(N_USERS)
        if user % 10
        for item in random.choice(N_ITEMS, LENGTH, replace=False)
    ]
    return spark.createDataFrame(rows, RECOMMENDATIONS).cache()


def as_model(name: str, lists: DataFrame) -> DataFrame:
    return lists.withColumn("model", F.lit(name))


def relevance_of(truth: DataFrame, score: Column) -> DataFrame:
    """The truth as a list of recommendations."""
    return truth.select(F.lit("").alias("model"), "user", "item", score.alias("score"))


Values = Mapping[tuple[str, str, int], float | None]


def values_of(evaluation: Evaluation) -> Values:
    rows = evaluation.metrics.collect()
    return {(row["model"], row["metric"], row["k"]): row["value"] for row in rows}


@pytest.fixture(scope="module")
def evaluation(truth: DataFrame, base: DataFrame) -> Iterator[Evaluation]:
    """Variants of the same lists, each as a model of its own."""
    extra = base.groupBy("model", "user").agg(F.max("item").alias("item"), F.lit(-100.0).alias("score"))
    appended = base.unionAll(extra.withColumn("item", F.col("item") + 1000))
    models = {
        "base": base,
        "permuted": base.orderBy("score", "item").repartition(7),
        "scaled": base.withColumn("score", F.col("score") * 2.0**40),
        "appended": appended,
        "perfect": relevance_of(truth, F.col("relevance")),
        "disjoint": base.withColumn("item", F.col("item") + 1000),
        "worse": base.withColumn("score", -F.col("score")),
    }
    frames = [as_model(name, lists) for name, lists in models.items()]
    together = frames[0]
    for frame in frames[1:]:
        together = together.unionAll(frame)
    done = evaluate(together, truth, metrics=METRICS, k=KS)
    yield done
    done.unpersist()


@pytest.fixture(scope="module")
def values(evaluation: Evaluation) -> Values:
    return values_of(evaluation)


def of_model(values: Values, model: str, names: list[str] | None = None) -> dict[tuple[str, int], Any]:
    return {
        (name, k): value
        for (other, name, k), value in values.items()
        if other == model and (names is None or name in names)
    }


@pytest.mark.parametrize("variant", ["permuted", "scaled"])
def test_the_order_of_rows_and_the_scale_of_scores_change_nothing(values: Values, variant: str) -> None:
    assert of_model(values, variant) == of_model(values, "base")


def test_items_appended_below_change_nothing_at_k(values: Values) -> None:
    kept = [name for _, name, _ in values if name not in UNCUT]
    assert of_model(values, "appended", kept) == of_model(values, "base", kept)


def test_lists_that_are_the_truth_are_perfect(values: Values) -> None:
    perfect = {RANKING[name].run_name for name in PERFECT - {"precision"}}
    found = of_model(values, "perfect", [*perfect, "ndcg(gain=exp2)"])
    assert len(found) == len(KS) * (len(perfect) + 1)
    assert {key[0] for key, value in found.items() if value is None} <= {"gauc", "fcp"}  # no miss, no pair
    assert set(found.values()) - {None} == {1.0}


def test_lists_without_anything_of_the_truth_have_nothing(values: Values) -> None:
    assert set(of_model(values, "disjoint").values()) == {0.0, None}  # pairs of hits there are none


@pytest.mark.parametrize("name", ["recall", "hit_rate", "mrr", "arhr", "dcg", "cg"])
def test_a_larger_k_never_lowers(values: Values, name: str) -> None:
    for model in ("base", "worse", "perfect"):
        by_k = [value for (_, k), value in sorted(of_model(values, model, [name]).items())]
        assert by_k == sorted(by_k)
        assert len(by_k) == len(KS)


def test_best_ties_are_no_worse(values: Values) -> None:
    for k in KS:
        lowest, highest = values["base", "ndcg", k], values["base", "ndcg(tie_order=best)", k]
        assert lowest is not None
        assert highest is not None
        assert 0 < lowest < highest < 1


def test_renamed_users_and_items_change_nothing(truth: DataFrame, base: DataFrame, values: Values) -> None:
    # Shifted item ids keep their order, by which ties fall; users may go anywhere.
    names = {"user": F.concat(F.lit("u"), 7 * F.col("user") % N_USERS), "item": F.col("item") * 3 - 50}
    renamed = evaluate(base.withColumns(names), truth.withColumns(names), metrics=METRICS, k=KS)
    assert of_model(values_of(renamed), "base") == of_model(values, "base")
    renamed.unpersist()


def test_a_user_with_nothing_scales_the_means(
    spark: SparkSession, truth: DataFrame, base: DataFrame, values: Values
) -> None:
    more = spark.createDataFrame([(N_USERS, 0, 1.0)], truth.schema)
    nothing = spark.createDataFrame([("base", N_USERS, 999, 1.0)], base.schema)
    larger = evaluate(base.unionAll(nothing), truth.unionAll(more), metrics=["map", "ndcg", "cg"], k=KS)
    for (_, name, k), value in values_of(larger).items():
        before = values["base", name, k]
        assert before is not None
        assert value == pytest.approx(before * N_USERS / (N_USERS + 1), rel=1e-14)
    larger.unpersist()


def test_a_model_split_over_files_is_one_model(
    spark: SparkSession, truth: DataFrame, base: DataFrame, values: Values, tmp_path_factory: Any
) -> None:
    folder = str(tmp_path_factory.mktemp("split") / "files")
    base.repartition(5, "item").write.parquet(folder)
    split = evaluate(spark.read.parquet(folder), truth, metrics=METRICS, k=KS)
    assert of_model(values_of(split), "base") == of_model(values, "base")
    split.unpersist()
