"""What is relevant: all sound rows of a user and an item are combined first, then judged."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest
from oracle import Recommendation, Relevance, Rules
from pyspark.sql import DataFrame, SparkSession

from spark_eval.errors import ConfigError, DataError
from spark_eval.plan import make_plan
from spark_eval.verbs.evaluate import evaluate
from spark_eval.verbs.evaluation import Evaluation

METRICS = ("cg", "ndcg", "ndcg(gain=binary)", "precision", "fcp", "map(tie_order=worst)")
# The rows of one user and item, and which rules make the item relevant: the worked rows of the documents.
RATED_THEN_ZERO, TWICE_TWO, TENTHS, ZERO, DISLIKED = range(100, 105)
WORKED = [
    *((RATED_THEN_ZERO, 5.0, 1), (RATED_THEN_ZERO, 0.0, 2)),
    *((TWICE_TWO, 2.0, 1), (TWICE_TWO, 2.0, 2)),
    *((TENTHS, 0.1, time) for time in range(10)),
    (ZERO, 0.0, 1),
    *((DISLIKED, 3.0, 1), (DISLIKED, -4.0, 2)),
]
# Conventions, threshold, and the worked items that are relevant with their relevance.
CASES: Mapping[str, tuple[dict[str, str], float | None, dict[int, float]]] = {
    "max": (
        {},
        None,
        {RATED_THEN_ZERO: 5, TWICE_TWO: 2, TENTHS: 0.1, DISLIKED: 3},
    ),
    "max from 0": (
        {},
        0.0,
        {RATED_THEN_ZERO: 5, TWICE_TWO: 2, TENTHS: 0.1, ZERO: 0, DISLIKED: 3},
    ),
    "last": ({"truth_duplicates": "last"}, None, {TWICE_TWO: 2, TENTHS: 0.1}),
    "last from 4": ({"truth_duplicates": "last"}, 4.0, {}),
    "sum from 1": ({"truth_duplicates": "sum"}, 1.0, {RATED_THEN_ZERO: 5, TWICE_TWO: 4, TENTHS: 1}),
    "count from 2": (
        {"truth_duplicates": "count"},
        2.0,
        {RATED_THEN_ZERO: 2, TWICE_TWO: 2, TENTHS: 10, DISLIKED: 2},
    ),
}
WORKED_USER = -1


@pytest.fixture(scope="module")
def rows() -> tuple[list[Recommendation], list[Relevance]]:
    """Forty users with repeated rows of all signs, with faults; one with the worked rows alone."""
    random = np.random.default_rng(11)
    truth = [Relevance(WORKED_USER, item, relevance, time) for item, relevance, time in WORKED]
    lists = [Recommendation("als", WORKED_USER, item, -float(item)) for item in range(100, 105)]
    for user in range(40):
        for _ in range(random.integers(0, 14)):
            relevance = random.choice([-2.0, 0.0, 0.5, 2.0, 4.0, 5.0, float("nan")])
            item = None if random.random() < 0.05 else int(random.integers(5))
            truth.append(Relevance(user, item, float(relevance), int(random.integers(4))))
        lists += [Recommendation("als", user, item, float(random.integers(3))) for item in range(5)]
    return lists, truth


@pytest.fixture(scope="module")
def tables(
    spark: SparkSession, rows: tuple[list[Recommendation], list[Relevance]], tmp_path_factory: Any
) -> Mapping[str, tuple[DataFrame, DataFrame]]:
    """The same rows as plain Parquet, and as Spark reads them."""
    lists, truth = rows
    read = (
        spark.createDataFrame(lists, "model string, user bigint, item bigint, score double"),
        spark.createDataFrame(truth, "user bigint, item bigint, relevance double, timestamp bigint"),
    )
    folder: Path = tmp_path_factory.mktemp("truth")
    for name, frame in zip(("lists", "truth"), read, strict=True):
        frame.coalesce(1).write.parquet(str(folder / name))
    plain = (spark.read.parquet(str(folder / "lists")), spark.read.parquet(str(folder / "truth")))
    return {"plain": plain, "read": (plain[0].repartition(2, "user").sortWithinPartitions("user"), read[1])}


def evaluated(
    frames: tuple[DataFrame, DataFrame], conventions: Mapping[str, str], threshold: float | None, plan: str
) -> Evaluation:
    return evaluate(
        *frames,
        timestamp_unit="s",
        metrics=METRICS,
        k=3,
        conventions={"negative_relevance": "irrelevant", **conventions},
        threshold=threshold,
        plan=plan,
    )


def accounted(truth: Sequence[Relevance], rules: Rules) -> dict[tuple[str, str | None], int]:
    """How many rows of the truth have each outcome, by the definition."""
    threshold, is_max = rules.conventions.threshold, rules.conventions.truth_duplicates == "max"
    reason = "not_relevant" if threshold is None else "below_threshold"
    pairs: dict[tuple[Any, Any], list[tuple[int, float]]] = defaultdict(list)
    found: Counter[tuple[str, str | None]] = Counter()
    for user, item, relevance, time in truth:
        if item is None:
            found["quarantined", "NULL_ID"] += 1
        elif relevance is None or relevance != relevance:
            found["quarantined", "RELEVANCE_NOT_FINITE"] += 1
        elif is_max and not oracle.is_relevant(relevance, threshold):
            found["filtered", reason] += 1
        else:
            pairs[user, item].append((time, relevance))
    for seen in pairs.values():
        if oracle.is_relevant(oracle.combined(seen, rules.conventions.truth_duplicates), threshold):
            found["used", None] += 1
            found["deduplicated", "repeated_item"] += len(seen) - 1
        else:
            found["filtered", reason] += len(seen)
    return {key: n for key, n in (found | Counter({("in", None): len(truth)})).items() if n}


@pytest.mark.parametrize("name", CASES)
def test_rows_are_combined_and_then_judged_in_every_plan(
    name: str,
    rows: tuple[list[Recommendation], list[Relevance]],
    tables: Mapping[str, tuple[DataFrame, DataFrame]],
) -> None:
    conventions, threshold, worked = CASES[name]
    plan = make_plan(METRICS, 3, {"negative_relevance": "irrelevant", **conventions}, threshold)
    rules = Rules(plan.conventions, plan.metrics, are_scores=True)
    expected = oracle.evaluate(*rows, rules)
    judged = oracle.truth_by_user(rows[1], rules).get(WORKED_USER, {})
    assert judged == pytest.approx(worked)
    seen = []
    for form, physical in (("plain", "workers"), ("plain", "shuffle"), ("read", "workers")):
        evaluation = evaluated(tables[form], conventions, threshold, physical)
        per_user = {("als", row["user"]): row.asDict() for row in evaluation.per_user.collect()}
        assert per_user.keys() == expected.keys()
        wrong = {
            (*key, column): (per_user[key][column], value[column])
            for key, value in expected.items()
            for column in ("n_relevant", *plan.columns)
            if (float("nan") if per_user[key][column] is None else per_user[key][column])
            != pytest.approx(value[column], rel=1e-12, abs=1e-12, nan_ok=True)
        }
        assert wrong == {}
        of_truth = [entry for entry in evaluation.entries if entry.source == "truth"]
        outcomes = {(entry.outcome, entry.reason): entry.rows for entry in of_truth if entry.rows}
        assert outcomes == accounted(rows[1], rules)
        seen.append((per_user, sorted(map(tuple, evaluation.metrics.collect()), key=str), of_truth))
        evaluation.unpersist()
    assert seen[0][:2] == seen[1][:2] == seen[2][:2]
    assert all(sorted(one[2], key=str) == sorted(seen[0][2], key=str) for one in seen[1:])


@pytest.mark.parametrize("threshold", [-1.0, -0.5, float("nan"), float("inf")])
def test_a_threshold_that_judges_nothing_is_refused(
    tables: Mapping[str, tuple[DataFrame, DataFrame]], threshold: float
) -> None:
    with pytest.raises(ConfigError, match="smallest relevance that counts, 0 or more") as raised:
        evaluated(tables["plain"], {}, threshold, "auto")
    assert raised.value.code == "INVALID_CHOICE"


@pytest.mark.parametrize("plan", ["workers", "shuffle"])
def test_a_sum_that_no_double_holds_is_refused(spark: SparkSession, plan: str) -> None:
    truth = spark.createDataFrame([(1, 1, 1.5e308), (1, 1, 1.5e308)], "user int, item int, relevance double")
    lists = spark.createDataFrame([("als", 1, 1, 1)], "model string, user int, item int, rank int")
    with pytest.raises(DataError) as raised:
        evaluate(lists, truth, metrics=["precision"], conventions={"truth_duplicates": "sum"}, plan=plan)
    assert raised.value.code == "RELEVANCE_TOO_LARGE"
