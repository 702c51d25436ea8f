"""Meet recommendations and truth; keep one small row per list: where the hits are, and the ledger.

Every ranking metric is a function of where the hits are, how relevant they are and how many items are
relevant. Hits are few: rows that are no hit collapse into one per list before anything is shuffled.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_eval.schema import (
    FAULT,
    HELD_PLACE,
    HELD_PLACES,
    HELD_WITHIN,
    HIT_RANKS,
    HIT_RELEVANCES,
    HIT_TIE_FIRSTS,
    HIT_TIE_LASTS,
    IN_TRAIN,
    ITEM,
    MODEL,
    N_RECOMMENDED,
    N_ROWS,
    RANK,
    RELEVANCE,
    ROW_FAULTS,
    TIE_FIRST,
    TIE_LAST,
    TIED_NEXT,
    USER,
)

# The ledger of one list: n_rows = n_sound + the faults, and n_sound counts input rows.
N_BEYOND_K = "n_beyond_k"
N_COLD = "n_cold"
N_REPEATED = "n_repeated"
N_CLASHES = "n_clashes"
# The largest of the ranks that were given.
LAST_RANK = "last_rank"
# Cutoffs at which a list has a tie, as bits of longs.
BITS: Final = 60
HIT_COLUMNS: Final = {
    RANK: HIT_RANKS,
    RELEVANCE: HIT_RELEVANCES,
    TIE_FIRST: HIT_TIE_FIRSTS,
    TIE_LAST: HIT_TIE_LASTS,
    HELD_PLACE: HELD_PLACES,
}


def match(
    ranked: DataFrame,
    relevant: DataFrame,
    depth: int | None,
    cuts: Sequence[int] = (),
    trained: DataFrame | None = None,
    held_cuts: Sequence[int] = (),
) -> DataFrame:
    """One row per (model, user) in the recommendations, hits as far as rank ``depth`` sorted by rank.

    Columns: hit_ranks array<long>, hit_relevances array<double>, with ties known also hit_tie_firsts and
    hit_tie_lasts, with places known held_places and held_within, how many items lie up to each of
    ``held_cuts``; n_recommended (distinct items, as far as repeats were looked for), n_rows and its parts
    n_beyond_k, n_repeated and one count per fault; n_clashes counts hits that share their rank with
    another item's; tied_cuts_<i> has a bit for each of ``cuts`` (ascending) where equal scores straddle it.
    last_rank is the largest rank of the sound rows, where ranks were given.
    With ``trained``, the items that have training interactions, n_cold counts those of the distinct items up
    to ``depth`` that have none.
    """
    facts = [name for name in HIT_COLUMNS if name in (*ranked.columns, *relevant.columns)]
    is_sound = F.col(FAULT).isNull()
    within = F.lit(True) if depth is None else F.col(RANK) <= depth
    sees_places = HELD_PLACE in facts
    up_to = {f"{HELD_WITHIN}_{k}": F.col(RANK) <= k for k in held_cuts if sees_places}
    held = {name: F.when(is_sound & is_in, 1).otherwise(0) for name, is_in in up_to.items()}
    is_hit = is_sound & F.col(RELEVANCE).isNotNull() & within
    tied, last = (tied_cuts(cuts), {}) if TIED_NEXT in ranked.columns else ({}, {LAST_RANK: F.col(RANK)})
    joined = ranked.join(relevant, [USER, ITEM], "left")
    cold: dict[str, Column] = {}
    if trained is not None:
        joined = joined.join(trained.withColumn(IN_TRAIN, F.lit(True)), ITEM, "left")
        cold = {N_COLD: F.when(is_sound & within & F.col(IN_TRAIN).isNull(), 1).otherwise(0)}
    joined = joined.select(
        MODEL,
        USER,
        FAULT,
        *(F.when(is_hit, F.col(name)).alias(name) for name in (ITEM, *facts)),
        F.when(is_sound & ~within, 1).otherwise(0).alias(N_BEYOND_K),
        F.col(N_ROWS).cast("long").alias(N_ROWS),
        *(count.alias(name) for name, count in (tied | cold | held).items()),
        *(F.when(is_sound, rank).alias(name) for name, rank in last.items()),
    )
    compact = joined.groupBy(MODEL, USER, FAULT, ITEM, *facts).agg(
        F.sum(N_ROWS).alias(N_ROWS),
        F.count("*").alias(N_RECOMMENDED),
        F.sum(N_BEYOND_K).alias(N_BEYOND_K),
        *(F.sum(name).alias(name) for name in (*tied, *cold, *held)),
        *(F.max(name).alias(name) for name in last),
    )
    hit = F.col(RANK).isNotNull()
    others = [name for name in facts if name != RANK] + list(cold)
    lists = compact.groupBy(MODEL, USER).agg(
        F.array_sort(F.collect_list(F.when(hit, F.struct(RANK, ITEM, *others)))).alias("hits"),
        total(hit, F.col(N_RECOMMENDED)).alias("hit_rows"),
        total(is_sound, F.col(N_RECOMMENDED)).alias(N_RECOMMENDED),
        total(is_sound, F.col(N_ROWS) - F.col(N_RECOMMENDED)).alias(N_REPEATED),
        F.sum(N_BEYOND_K).alias(N_BEYOND_K),
        F.sum(N_ROWS).alias(N_ROWS),
        *(total(F.col(FAULT) == fault.value, F.col(N_ROWS)).alias(fault) for fault in ROW_FAULTS),
        *(F.sum(name).alias(name) for name in tied),
        F.array(*(F.sum(name) for name in held)).cast("array<long>").alias(HELD_WITHIN),
        *(F.max(name).alias(name) for name in last),
        *(total(~hit, F.col(name)).alias(name) for name in cold),
    )
    counts = [HELD_WITHIN] if sees_places else []
    return keep_first_hits(lists, facts, [*tied, *counts, *last])


def tied_cuts(cuts: Sequence[int]) -> dict[str, Column]:
    """Columns of bits: the rank of an item that ties with the next one, where it is one of the cutoffs.

    A list has one item at each rank, so that the sum over a list holds every bit at most once.
    """
    columns = {}
    for start in range(0, len(cuts), BITS):
        bits = [F.lit(number) for bit, k in enumerate(cuts[start : start + BITS]) for number in (k, 1 << bit)]
        bit = F.when(F.col(TIED_NEXT), F.element_at(F.create_map(*bits), F.col(RANK)))
        columns[f"tied_cuts_{start // BITS}"] = F.coalesce(bit.cast("long"), F.lit(0).cast("long"))
    return columns


def is_tied_at(cut: int) -> Column:
    """Whether equal scores straddle the cutoff of this place among the ``cuts``."""
    return F.col(f"tied_cuts_{cut // BITS}").bitwiseAND(1 << cut % BITS) != 0


def total(condition: Column, count: Column) -> Column:
    """The sum of a count over the rows where the condition holds."""
    return F.sum(F.when(condition, count).otherwise(0))


def keep_first_hits(lists: DataFrame, facts: Sequence[str], others: Sequence[str]) -> DataFrame:
    """A relevant item repeated in a list of given ranks counts once, at its best rank.

    Of cold items, if they are counted, n_cold holds those that are no hits.
    """
    hits = F.col("hits")
    first = F.filter(hits, lambda hit, index: F.array_position(F.col(f"hits.{ITEM}"), hit[ITEM]) == index + 1)
    repeated = F.col("hit_rows") - F.size("first")
    cold_hits = F.size(F.filter("first", lambda hit: hit[N_COLD] > 0))
    return lists.withColumn("first", first).select(
        MODEL,
        USER,
        *(F.col(f"first.{name}").alias(HIT_COLUMNS[name]) for name in facts),
        (F.size("first") - F.size(F.array_distinct(F.col(f"first.{RANK}")))).alias(N_CLASHES),
        (F.col(N_RECOMMENDED) - repeated).alias(N_RECOMMENDED),
        (F.col(N_REPEATED) + repeated).alias(N_REPEATED),
        N_BEYOND_K,
        N_ROWS,
        *ROW_FAULTS,
        *others,
        *((F.col(name) + cold_hits).alias(name) for name in lists.columns if name == N_COLD),
    )
