"""Who is in the mean: one population for all metrics of a model, chosen by name."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_eval.conventions import Conventions, NoHits, NoRecommendations, NoTruth
from spark_eval.schema import (
    GRADE_COUNTS,
    GRADES,
    HELD_PLACES,
    HELD_WITHIN,
    HIT_RANKS,
    HIT_RELEVANCES,
    HIT_TIE_FIRSTS,
    HIT_TIE_LASTS,
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
KEYS = (MODEL, USER, N_RELEVANT, N_RECOMMENDED)
LONGS = (GRADE_COUNTS, HIT_RANKS, HIT_TIE_FIRSTS, HIT_TIE_LASTS, HELD_PLACES, HELD_WITHIN)
DOUBLES = (GRADES, HIT_RELEVANCES)


def populate(
    lists: DataFrame, truth: DataFrame, models: Sequence[str], conventions: Conventions
) -> DataFrame:
    """model, user, n_relevant, n_recommended, the truth's own columns and the arrays of grades and hits.

    One row per model and user of the population; counts are 0 and arrays empty where a side is missing.
    """
    every = F.explode(F.array(*(F.lit(model) for model in models)))
    users = truth.select(every.alias(MODEL), *truth.columns)
    arrays = [name for name in lists.columns if name in (*LONGS, *DOUBLES)]
    found = lists.where(F.col(N_RECOMMENDED) > 0).select(MODEL, USER, N_RECOMMENDED, *arrays)
    population = users.join(found, [MODEL, USER], JOIN[conventions.no_recommendations, conventions.no_truth])
    if conventions.no_hits is NoHits.DROP:
        is_in_vain = F.col(N_RELEVANT).isNotNull() & (F.size(HIT_RANKS) == 0)
        population = population.where(~F.coalesce(is_in_vain, F.lit(False)))
    defaults = dict.fromkeys((N_RELEVANT, N_RECOMMENDED), F.lit(0).cast("long"))
    defaults |= dict.fromkeys(LONGS, F.array().cast("array<long>"))
    defaults |= dict.fromkeys(DOUBLES, F.array().cast("array<double>"))
    return population.select(
        *(
            F.coalesce(name, defaults[name]).alias(name) if name in defaults else F.col(name)
            for name in (*KEYS, *(name for name in population.columns if name not in KEYS))
        )
    )
