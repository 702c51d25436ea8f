"""The door to Python: the worked numbers of the sources, through Spark."""

from collections.abc import Mapping, Sequence

import pytest
from frames import assert_rows
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from users import User, graded, hits, user

from spark_eval.conventions import AverageDenominator, Conventions, Gain
from spark_eval.metrics import RANKING, MetricValue, metric_values
from spark_eval.transforms.measure import measure

POPULATION = (
    "model string, user {}, n_relevant long, n_recommended long, grades array<double>, "
    "grade_counts array<long>, hit_ranks array<long>, hit_relevances array<double>"
)
DEFAULT = Conventions()


def values(*names: str, ks: Sequence[int]) -> list[MetricValue]:
    """Metrics at cutoffs, as a plan has them."""
    return metric_values(names, ks, DEFAULT)


MEASURED = values(
    "precision", "recall", "recall_capped", "ap", "rr", "rhr", "dcg", "ndcg", ks=(1, 3, 5, 6, 10)
)
# Choices that differ from the default only where relevance is graded, or where m > h.
EXP2_HITS = Conventions(gain=Gain.EXP2, ap_denominator=AverageDenominator.HITS)

# Each case is a model, so that all of them are measured in one go.
CASES: Mapping[str, Sequence[User]] = {
    "seed 000": [graded([0, 5, 1, 4, 2])],
    "seed 001": [hits([1, 4, 5, 6], length=6, n_relevant=4)],
    "seed 002": [hits([1, 4], length=6, n_relevant=2)],
    "seed 002, first hits": [hits(ranks, length=3, n_relevant=1) for ranks in ([1], [3], [])],
    "seed 002, graded": [graded([3, 2, 3, 0, 1, 2])],
    "seed 004": [
        user([11, 1, 17, 7, 21, 8, 0, 28, 9, 20], [11, 1, 7, 17, 21]),
        user([16, 1, 6, 18, 3, 4, 25, 19, 8, 14], [4, 16, 1]),
        user([24, 10, 26, 2, 8, 28, 4, 23, 13, 21], [26, 10, 22, 8]),
    ],
    "Spark": [
        user([1, 6, 2, 7, 8, 3, 9, 10, 4, 5], [1, 2, 3, 4, 5]),
        user([4, 1, 5, 6, 2, 7, 3, 8, 9, 10], [1, 2, 3]),
        user([1, 2, 3, 4, 5], []),
    ],
    "A": [hits([1, 3], length=5, n_relevant=8)],
    "C, a short list": [hits([1, 3], length=3, n_relevant=8)],
    "no list": [hits([], length=0, n_relevant=3)],
}


def population_of(spark: SparkSession, cases: Mapping[str, Sequence[User]], kind: str = "int") -> DataFrame:
    """The users of each case as the transforms before would give them."""
    rows = []
    for model, users in cases.items():
        for number, one in enumerate(users):
            grades = sorted(set(one.truth.values()), reverse=True)
            found = [(rank, grade) for rank, grade in enumerate(one.relevances, 1) if grade > 0]
            rows.append(
                (
                    model,
                    number if kind == "int" else f"user {number}",
                    len(one.truth),
                    len(one.recommended),
                    [float(grade) for grade in grades],
                    [list(one.truth.values()).count(grade) for grade in grades],
                    [rank for rank, _ in found],
                    [float(grade) for _, grade in found],
                )
            )
    return spark.createDataFrame(rows, POPULATION.format(kind))


@pytest.fixture(scope="module")
def means(spark: SparkSession) -> dict[tuple[Conventions, str, str], float]:
    """Mean over the users of each case, per conventions, case and column."""
    population = population_of(spark, CASES)
    found: dict[tuple[Conventions, str, str], float] = {}
    for conventions in (DEFAULT, EXP2_HITS):
        per_user = measure(population, MEASURED, conventions, 10)
        columns = [value.column for value in MEASURED]
        for row in per_user.groupBy("model").avg(*columns).collect():
            found |= {(conventions, row["model"], name): row[f"avg({name})"] for name in columns}
    return found


@pytest.mark.parametrize(
    ("case", "column", "value"),
    [
        ("seed 000", "dcg_at_5", 6.151061),
        ("seed 000", "ndcg_at_5", 0.686932),
        ("seed 001", "ap_at_6", 0.691667),
        ("seed 002, first hits", "rr_at_3", 0.444444),
        ("seed 002", "ap_at_6", 0.75),
        ("seed 002", "ap_at_3", 0.5),
        ("seed 002", "precision_at_6", 0.333333),
        ("seed 002, graded", "ndcg_at_6", 0.960808),
        ("seed 002, graded", "ndcg_at_3", 0.977781),
        ("seed 004", "recall_capped_at_1", 0.666667),
        ("seed 004", "recall_capped_at_5", 0.805556),
        ("seed 004", "recall_capped_at_10", 0.916667),
        ("seed 004", "rr_at_1", 0.666667),
        ("seed 004", "rr_at_5", 0.833333),
        ("seed 004", "rr_at_10", 0.833333),
        ("seed 004", "precision_at_1", 0.666667),
        ("seed 004", "precision_at_5", 0.666667),
        ("seed 004", "precision_at_10", 0.366667),
        ("seed 004", "ap_at_1", 0.666667),
        ("seed 004", "ap_at_5", 0.702778),
        ("seed 004", "ap_at_10", 0.758333),
        ("seed 004", "ndcg_at_1", 0.666667),
        ("seed 004", "ndcg_at_5", 0.785958),
        ("seed 004", "ndcg_at_10", 0.841678),
        ("Spark", "precision_at_1", 1 / 3),
        ("Spark", "precision_at_5", 0.8 / 3),
        ("Spark", "recall_at_5", 16 / 45),
        ("Spark", "ap_at_10", 0.355026),
        ("Spark", "ndcg_at_5", 0.328788),
        ("Spark", "ndcg_at_10", 0.487913),
        ("Spark", "rr_at_10", 0.5),
        ("A", "rhr_at_5", 4 / 3),
        ("C, a short list", "precision_at_5", 2 / 5),
        ("C, a short list", "precision_at_10", 2 / 10),
        ("no list", "ndcg_at_10", 0.0),
    ],
)
def test_default_numbers(
    means: dict[tuple[Conventions, str, str], float], case: str, column: str, value: float
) -> None:
    assert means[DEFAULT, case, column] == pytest.approx(value, abs=5e-7)


@pytest.mark.parametrize(
    ("case", "column", "value"),
    [
        ("seed 002, graded", "dcg_at_6", 13.848264),
        ("seed 002, graded", "ndcg_at_6", 0.9488107485678985),
        ("seed 002, graded", "ndcg_at_3", 0.959454),
        ("seed 004", "ap_at_1", 0.666667),
        ("seed 004", "ap_at_5", 0.862963),
        ("seed 004", "ap_at_10", 0.807407),
        ("A", "ap_at_5", 5 / 6),
    ],
)
def test_numbers_of_other_conventions(
    means: dict[tuple[Conventions, str, str], float], case: str, column: str, value: float
) -> None:
    assert means[EXP2_HITS, case, column] == pytest.approx(value, abs=5e-7)


def test_only_metrics_of_pairs_are_undefined_for_a_list_or_a_truth_that_is_empty(spark: SparkSession) -> None:
    nobody = {"als": [hits([], length=0, n_relevant=3), user([1, 2, 3], [])]}
    every = values(*RANKING, ks=(3,))
    rows = measure(population_of(spark, nobody), every, DEFAULT, 3).collect()
    undefined = {value.metric.name for row in rows for value in every if row[value.column] is None}
    assert undefined == {"auc", "fcp"}


def test_columns_are_named_by_metric_and_k_in_the_order_asked_for(spark: SparkSession) -> None:
    metrics = values("rr", "map(denominator=hits)@2", "auc@5", ks=(1, 5))
    per_user = measure(population_of(spark, {"als": CASES["seed 004"]}), metrics, DEFAULT, 5)
    assert per_user.columns == [
        *("model", "user", "n_relevant", "n_recommended"),
        *("rr_at_1", "rr_at_5", "ap_denominator_hits_at_2"),
        *("auc_at_5", "auc_impressions_at_5", "auc_positives_at_5"),
    ]


def test_a_value_measures_under_its_own_conventions_and_beyond_any_cutoff(spark: SparkSession) -> None:
    metrics = values("map(denominator=hits)@5", "map@5", "map@all", "ndcg(gain=exp2, ideal=list)@3", ks=())
    population = population_of(spark, {"als": [hits([1, 3, 9], length=12, n_relevant=8)]})
    per_user = measure(population, metrics, DEFAULT, None).drop(
        "model", "user", "n_relevant", "n_recommended"
    )
    at_5 = 1 + 2 / 3
    ndcg = (1 + 1 / 2) / (1 + 0.6309297535714575 + 1 / 2)
    assert per_user.collect()[0] == pytest.approx((at_5 / 2, at_5 / 5, (at_5 + 3 / 9) / 8, ndcg))


def test_ties_reach_the_kernels(spark: SparkSession) -> None:
    population = population_of(spark, {"als": [hits([2], length=3, n_relevant=1)]})
    tied = population.withColumn("hit_tie_firsts", F.array(F.lit(1).cast("long")))
    tied = tied.withColumn("hit_tie_lasts", F.array(F.lit(3).cast("long")))
    metrics = values("mrr", "mrr(tie_order=best)", "mrr(tie_order=worst)", "gauc", ks=(3,))
    per_user = measure(tied, metrics, DEFAULT, 3).select(*(value.column for value in metrics))
    assert per_user.collect()[0] == pytest.approx((1 / 2, 1.0, 1 / 3, 0.5))


def test_columns_asked_for_are_kept(spark: SparkSession) -> None:
    population = population_of(spark, {"als": CASES["A"]}).withColumn("country", F.lit("NL"))
    per_user = measure(population, values("rr", ks=(1,)), DEFAULT, 1, kept=["country"])
    assert per_user.columns == ["model", "user", "n_relevant", "n_recommended", "country", "rr_at_1"]
    assert per_user.collect()[0]["country"] == "NL"


@pytest.mark.parametrize("kind", ["bigint", "string"])
def test_ids_pass_by_unchanged(spark: SparkSession, kind: str) -> None:
    largest = 2**63 - 1
    ids = [largest, largest - 1, -largest - 1] if kind == "bigint" else ["007", " 7", "é"]
    empty = population_of(spark, {}).drop("user").schema
    rows = [("als", 1, 1, [1.0], [1], [rank], [1.0]) for rank in (1, 2, 3)]
    population = spark.createDataFrame(
        [(*row, user) for row, user in zip(rows, ids, strict=True)], f"{empty.toDDL()}, user {kind}"
    )
    per_user = measure(population, values("rr", ks=(3,)), DEFAULT, 3).select("user", "rr_at_3")
    assert_rows(per_user, f"user {kind}, rr_at_3 double", [(ids[0], 1.0), (ids[1], 0.5), (ids[2], 1 / 3)])


def test_partitions_without_a_user_do_no_harm(spark: SparkSession) -> None:
    population = population_of(spark, {"als": CASES["seed 002"]}).repartition(4)
    metrics = values("ap", ks=(6,))
    per_user = measure(population, metrics, DEFAULT, 6).select("ap_at_6")
    nobody = measure(population.where("user < 0"), metrics, DEFAULT, 6).select("ap_at_6")
    assert_rows(per_user.unionAll(nobody), "ap_at_6 double", [(0.75,)])


def test_a_metric_that_is_no_number_is_null_and_one_beyond_doubles_infinite(spark: SparkSession) -> None:
    # Two equal hits are no pair. The means refuse what is infinite.
    population = population_of(spark, {"als": [graded([1.7e308, 1.7e308])]})
    per_user = measure(population, values("fcp", "ndcg", ks=(2,)), DEFAULT, 2).select("fcp_at_2", "ndcg_at_2")
    assert_rows(per_user, "fcp_at_2 double, ndcg_at_2 double", [(None, float("inf"))])
