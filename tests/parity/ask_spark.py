"""Spark: RankingMetrics, which gives means only, so that groups of users stand for single ones."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pyspark
from cases import KS, SEED, User
from pyspark.mllib.evaluation import RankingMetrics
from pyspark.sql import SparkSession

GROUP_SIZE = 125
HEAVIEST = 5


def ask_spark(spark: SparkSession, users: Sequence[User]) -> Mapping[str, Any]:
    """Means of groups by chance, and of all.

    A call takes a tenth of a second, which is too long for each user, metric and k. In a group every
    user counts as often as a random weight says: if any value were wrong, the mean would be, unless
    errors of several users cancelled out under weights that they know nothing of.
    """
    generator = random.Random(SEED)
    names = generator.sample([user.name for user in users], len(users))
    groups = [names[start : start + GROUP_SIZE] for start in range(0, len(names), GROUP_SIZE)]
    weighted = [{name: generator.randint(1, HEAVIEST) for name in group} for group in groups]
    by_name = {user.name: user for user in users}
    return {
        "library": "pyspark",
        "version": pyspark.__version__,
        "per_user": {},
        "groups": [{"members": group, "means": means(spark, by_name, group)} for group in weighted],
        "means": means(spark, by_name, dict.fromkeys(by_name, 1)),
    }


def means(spark: SparkSession, users: Mapping[str, User], members: Mapping[str, int]) -> dict[str, float]:
    """Spark's means over these users; the rows of the truth may repeat an item."""
    pairs = [
        (user.ranking, [item for item, relevance in user.truth if relevance > 0])
        for user in (users[name] for name, weight in members.items() for _ in range(weight))
    ]
    metrics = RankingMetrics(spark.sparkContext.parallelize(pairs, 1))
    found = {"ap@all": metrics.meanAveragePrecision}
    for k in KS:
        found[f"precision@{k}"] = metrics.precisionAt(k)
        found[f"recall@{k}"] = metrics.recallAt(k)
        found[f"ap@{k}"] = metrics.meanAveragePrecisionAt(k)
        found[f"ndcg@{k}"] = metrics.ndcgAt(k)
    return found
