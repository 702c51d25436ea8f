"""Every row of the log gets its subset, or the reason why it has none."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_eval.names import quoted
from spark_eval.schema import FAULT, FOLD, ITEM, SUBSET, TIMESTAMP, USER, Fault, Reason, Subset
from spark_eval.splits.moments import Boundary
from spark_eval.splits.rules import HASH_STEPS, GlobalLocalRanker, Policy, Timeline
from spark_eval.splits.windows import Windows

# When a part lies: rows of an earlier stage are known to whoever predicts a later one.
STAGES: Final = {
    Subset.LOCAL_TRAIN: 0,
    Subset.RANKER_TRAIN: 1,
    Subset.RANKER_TEST: 1,
    Subset.GLOBAL_TEST: 2,
}
# Columns of our own, between the first and the last select.
PLACE: Final = "spark_eval_place"
FIRST_STAGE: Final = "spark_eval_first_stage_"


def label(interactions: DataFrame, rule: GlobalLocalRanker, timeline: Timeline) -> DataFrame:
    """The log with ``fold`` (0) and ``subset`` (a value of Subset, or null) after its own columns.

    ``interactions`` has user, item, timestamp (TIMESTAMP), any other columns, and ``fault``. A row
    without a subset has in ``fault`` the code it came with, NULL_TIMESTAMP, or the Reason it is dropped
    for: gap, after_end, cold_user, cold_item, seen, the first of these that holds.

    Cold means absent from local_train, the part that the first-level model learns from; so who is cold
    does not depend on what else is dropped. With all policies at ``keep`` this is a projection of one
    scan; each policy at ``drop`` adds a scan, an aggregation and a join.
    """
    log = placed = interactions.withColumn(PLACE, F.coalesce(FAULT, place(rule, timeline)))
    drops: list[Column] = []
    for reason, keys, policy in (
        (Reason.COLD_USER, [USER], rule.cold_users),
        (Reason.COLD_ITEM, [ITEM], rule.cold_items),
        (Reason.SEEN, [USER, ITEM], rule.seen),
    ):
        if policy is Policy.DROP:
            first = FIRST_STAGE + reason
            placed = placed.join(first_stages(log, keys, first), keys, "left")
            cold, seen = (F.col(first) > 0) & (stage() > 0), F.col(first) < stage()
            drops.append(F.when(seen if reason is Reason.SEEN else cold, reason.value))
    outcome = F.coalesce(*drops, PLACE)
    used = outcome.isin([subset.value for subset in rule.subsets])
    fault, subset = F.when(~used, outcome).alias(FAULT), F.when(used, outcome).alias(SUBSET)
    own = (fault if name == FAULT else F.col(quoted(name)) for name in interactions.columns)
    return placed.select(*own, F.lit(0).alias(FOLD), subset)


def place(rule: GlobalLocalRanker, timeline: Timeline) -> Column:
    """Where a row's timestamp and user put it: a Subset, or the Reason it is in none."""
    local_test = F.when(is_ranker_test(rule), Subset.RANKER_TEST.value).otherwise(Subset.RANKER_TRAIN.value)
    latest = F.lit(Subset.GLOBAL_TEST.value)
    if timeline.end is not None:
        latest = F.when(before(rule, timeline.end), latest).otherwise(Reason.AFTER_END.value)
    return (
        F.when(F.col(TIMESTAMP).isNull(), Fault.NULL_TIMESTAMP.value)
        .when(before(rule, timeline.local_train_end), Subset.LOCAL_TRAIN.value)
        .when(before(rule, timeline.local_cut), Reason.GAP.value)
        .when(before(rule, timeline.local_test_end), local_test)
        .when(before(rule, timeline.global_cut), Reason.GAP.value)
        .otherwise(latest)
    )


def before(rule: GlobalLocalRanker | Windows, cut: int) -> Column:
    """Whether a row is on the train side of a cut."""
    at, instant = F.col(TIMESTAMP), F.timestamp_micros(F.lit(cut))
    return at < instant if rule.boundary is Boundary.EXCLUSIVE else at <= instant


def is_ranker_test(rule: GlobalLocalRanker) -> Column:
    """A seeded draw per user, the same in every log and for every type that writes his id alike."""
    draw = F.pmod(F.xxhash64(F.lit(rule.seed).cast("long"), F.col(USER).cast("string")), F.lit(HASH_STEPS))
    return draw < rule.ranker_test_steps


def stage() -> Column:
    """The stage of a row's place; null for a row in no subset."""
    return F.coalesce(*(F.when(F.col(PLACE) == subset.value, number) for subset, number in STAGES.items()))


def first_stages(placed: DataFrame, keys: list[str], name: str) -> DataFrame:
    """Each key's earliest stage in the log, as column ``name``."""
    return placed.where(stage().isNotNull()).groupBy(*keys).agg(F.min(stage()).alias(name))
