"""Meet recommendations and truth; keep one small row per list: where the hits are, and the ledger.

Every ranking metric is a function of where the hits are, how relevant they are and how many items are
relevant. Hits are few: rows that are no hit collapse into one per list before anything is shuffled.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_eval.schema import (
    FAULT,
    HIT_RANKS,
    HIT_RELEVANCES,
    ITEM,
    MODEL,
    N_RECOMMENDED,
    N_ROWS,
    RANK,
    RELEVANCE,
    USER,
    Fault,
)

# The ledger of one list: n_rows = n_sound + the faults, and n_sound counts input rows.
N_BEYOND_K = "n_beyond_k"
N_REPEATED = "n_repeated"
N_CLASHES = "n_clashes"
ROW_FAULTS = (
    Fault.NULL_ID,
    Fault.NULL_SCORE,
    Fault.SCORE_NOT_FINITE,
    Fault.NULL_RANK,
    Fault.NULL_MODEL,
    Fault.RANK_BASE,
    Fault.DUPLICATE_RANK,
)


def match(ranked: DataFrame, relevant: DataFrame, max_k: int) -> DataFrame:
    """One row per (model, user) in the recommendations, hits sorted by rank.

    Columns: hit_ranks array<long>, hit_relevances array<double>, n_recommended (distinct items, as far
    as repeats were looked for), n_rows and its parts n_beyond_k, n_repeated and one count per fault;
    n_clashes counts hits that share their rank with another item's.
    """
    is_hit = F.col(FAULT).isNull() & F.col(RELEVANCE).isNotNull() & (F.col(RANK) <= max_k)
    beyond_k = F.col(FAULT).isNull() & (F.col(RANK) > max_k)
    joined = ranked.join(relevant, [USER, ITEM], "left").select(
        MODEL,
        USER,
        FAULT,
        *(F.when(is_hit, F.col(name)).alias(name) for name in (ITEM, RANK, RELEVANCE)),
        F.when(beyond_k, 1).otherwise(0).alias(N_BEYOND_K),
        F.col(N_ROWS).cast("long").alias(N_ROWS),
    )
    compact = joined.groupBy(MODEL, USER, FAULT, ITEM, RANK, RELEVANCE).agg(
        F.sum(N_ROWS).alias(N_ROWS), F.count("*").alias(N_RECOMMENDED), F.sum(N_BEYOND_K).alias(N_BEYOND_K)
    )
    sound, hit = F.col(FAULT).isNull(), F.col(RANK).isNotNull()
    lists = compact.groupBy(MODEL, USER).agg(
        F.array_sort(F.collect_list(F.when(hit, F.struct(RANK, ITEM, RELEVANCE)))).alias("hits"),
        total(hit, F.col(N_RECOMMENDED)).alias("hit_rows"),
        total(sound, F.col(N_RECOMMENDED)).alias(N_RECOMMENDED),
        total(sound, F.col(N_ROWS) - F.col(N_RECOMMENDED)).alias(N_REPEATED),
        F.sum(N_BEYOND_K).alias(N_BEYOND_K),
        F.sum(N_ROWS).alias(N_ROWS),
        *(total(F.col(FAULT) == fault.value, F.col(N_ROWS)).alias(fault) for fault in ROW_FAULTS),
    )
    return keep_first_hits(lists)


def total(condition: Column, count: Column) -> Column:
    """The sum of a count over the rows where the condition holds."""
    return F.sum(F.when(condition, count).otherwise(0))


def keep_first_hits(lists: DataFrame) -> DataFrame:
    """A relevant item repeated in a list of given ranks counts once, at its best rank."""
    hits = F.col("hits")
    first = F.filter(hits, lambda hit, index: F.array_position(F.col(f"hits.{ITEM}"), hit[ITEM]) == index + 1)
    repeated = F.col("hit_rows") - F.size("first")
    return lists.withColumn("first", first).select(
        MODEL,
        USER,
        F.col(f"first.{RANK}").alias(HIT_RANKS),
        F.col(f"first.{RELEVANCE}").alias(HIT_RELEVANCES),
        (F.size("first") - F.size(F.array_distinct(F.col(f"first.{RANK}")))).alias(N_CLASHES),
        (F.col(N_RECOMMENDED) - repeated).alias(N_RECOMMENDED),
        (F.col(N_REPEATED) + repeated).alias(N_REPEATED),
        N_BEYOND_K,
        N_ROWS,
        *ROW_FAULTS,
    )
