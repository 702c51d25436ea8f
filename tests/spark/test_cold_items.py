"""Cold items, which nobody has met in training: counted, and the ledger closes."""

import io
import itertools
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_eval.conventions import Checks, Ties
from spark_eval.ledger import check, list_entries
from spark_eval.presets import parse_conventions
from spark_eval.transforms.account import count_lists
from spark_eval.transforms.conform import conform_recommendations
from spark_eval.transforms.match import match
from spark_eval.transforms.rank import rank

Rows = Sequence[tuple[Any, ...]]
N_USERS, DEPTH = 60, 4
RANKED = "model string, user int, item int, rank long, fault string, n_rows int"


def cold_counts(spark: SparkSession, rows: Rows, relevant: Rows, depth: int | None) -> dict[int, int]:
    """n_cold by user, where items 10 to 19 have training interactions; rows of user, item, rank, fault."""
    full = [("als", *row, *(None,) * (4 - len(row)), 1) for row in rows]
    truth = spark.createDataFrame(relevant, "user int, item int, relevance double")
    trained = spark.range(10, 20).select(F.col("id").alias("item"))
    lists = match(spark.createDataFrame(full, RANKED).repartition(2), truth, depth, trained=trained)
    return {row["user"]: row["n_cold"] for row in lists.collect()}


def test_cold_rows_are_distinct_sound_and_within_reach(spark: SparkSession) -> None:
    rows = [
        *[(1, 20, 1), (1, 20, 3), (1, 10, 2), (1, 21, 4)],  # the hit 20 twice, beside a miss
        *[(2, 20, 1, "SCORE_NOT_FINITE"), (2, None, 2, "NULL_ID"), (2, 21, 3)],
        *[(3, 10, 1), (3, 22, 5), (3, 22, 6)],  # beyond rank 4
    ]
    relevant = [(1, 20, 1.0), (1, 10, 1.0), (2, 20, 1.0), (3, 22, 1.0)]
    assert cold_counts(spark, rows, relevant, 4) == {1: 2, 2: 1, 3: 0}
    assert cold_counts(spark, rows, relevant, None) == {1: 2, 2: 1, 3: 1}


def exchanges(frame: DataFrame) -> int:
    """How many shuffles it takes."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        frame.explain()
    return printed.getvalue().count("Exchange hashpartitioning")


def test_recommendations_are_not_shuffled_once_more_for_cold_items(spark: SparkSession) -> None:
    ranked = spark.range(100).selectExpr(
        "'als' AS model", "id % 9 AS user", "id AS item", "id AS rank", "string(null) AS fault", "1 AS n_rows"
    )
    truth = F.broadcast(ranked.select("user", "item", F.lit(1.0).alias("relevance")))
    trained = F.broadcast(spark.range(50).select(F.col("id").alias("item")))
    assert exchanges(match(ranked, truth, 5)) == exchanges(match(ranked, truth, 5, trained=trained)) == 2


RULES = [
    dict(zip(("no_recommendations", "no_truth", "no_hits"), choices, strict=True))
    for choices in itertools.product(("zero", "drop"), repeat=3)
]


def test_the_ledger_closes_with_cold_items_under_every_population(spark: SparkSession) -> None:
    source = random.Random(3)
    rows = [
        (user, item, place)
        for user in range(N_USERS)
        for place in range(1, 8)
        if (item := source.choice([None, *range(12)])) != 11
    ]
    truth = {(user, source.randrange(12)) for user in range(0, N_USERS + 9, 2) for _ in range(3)}
    trained = {0, 2, 3, 5, 7, 10}
    cold: Counter[str] = Counter()
    seen = set()
    for user, item, place in rows:
        is_repeated_hit = (user, item) in seen and (user, item) in truth
        if item is None or place > DEPTH or is_repeated_hit or user % 2:
            continue
        seen.add((user, item))
        cold["used.cold_item" if item not in trained else "used."] += 1
    frame = spark.createDataFrame(rows, "user int, item int, rank int").repartition(3)
    ranked = rank(conform_recommendations(frame, None, "als"), Ties.ITEM_DESC, Checks.HITS)
    judged = spark.createDataFrame([(*pair, 1.0) for pair in truth], "user int, item int, relevance double")
    items = spark.createDataFrame([(item,) for item in trained], "item int")
    [counts] = count_lists(
        match(ranked, judged, DEPTH, trained=items), judged.select("user").distinct()
    ).collect()
    assert {name: counts[f"{name}.rows"] for name in cold} == cold
    for rules in RULES:
        entries = list_entries([counts.asDict()], len({user for user, _ in truth}), parse_conventions(rules))
        check(entries)
        assert [entry.rows for entry in entries if entry.reason == "cold_item"] == [cold["used.cold_item"]]
