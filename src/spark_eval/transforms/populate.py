"""Who is in the mean: one population for all metrics of a model, chosen by name."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_eval.conventions import NoRecommendations, NoTruth
from spark_eval.schema import (
    GRADE_COUNTS,
    GRADES,
    HIT_RANKS,
    HIT_RELEVANCES,
    MODEL,
    N_RECOMMENDED,
    N_RELEVANT,
    USER,
)

# Truth stands left: a user with truth is lost only where the rules say so.
JOIN = {
    (NoRecommendations.ZERO, NoTruth.DROP): "left",
    (NoRecommendations.DROP, NoTruth.DROP): "inner",
    (NoRecommendations.ZERO, NoTruth.ZERO): "full",
    (NoRecommendations.DROP, NoTruth.ZERO): "right",
}


def populate(
    lists: DataFrame,
    truth: DataFrame,
    models: Sequence[str],
    no_recommendations: NoRecommendations,
    no_truth: NoTruth,
) -> DataFrame:
    """model, user, n_relevant, n_recommended, grades, grade_counts, hit_ranks, hit_relevances.

    One row per model and user of the population; counts are 0 and arrays empty where a side is missing.
    """
    every = F.explode(F.array(*(F.lit(model) for model in models)))
    users = truth.select(every.alias(MODEL), USER, N_RELEVANT, GRADES, GRADE_COUNTS)
    found = lists.where(F.col(N_RECOMMENDED) > 0).select(
        MODEL, USER, N_RECOMMENDED, HIT_RANKS, HIT_RELEVANCES
    )
    population = users.join(found, [MODEL, USER], JOIN[no_recommendations, no_truth])
    longs = F.array().cast("array<long>")
    doubles = F.array().cast("array<double>")
    return population.select(
        MODEL,
        USER,
        F.coalesce(N_RELEVANT, F.lit(0).cast("long")).alias(N_RELEVANT),
        F.coalesce(N_RECOMMENDED, F.lit(0).cast("long")).alias(N_RECOMMENDED),
        F.coalesce(GRADES, doubles).alias(GRADES),
        F.coalesce(GRADE_COUNTS, longs).alias(GRADE_COUNTS),
        F.coalesce(HIT_RANKS, longs).alias(HIT_RANKS),
        F.coalesce(HIT_RELEVANCES, doubles).alias(HIT_RELEVANCES),
    )
