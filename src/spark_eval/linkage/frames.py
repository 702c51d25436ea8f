"""Relations on Spark: the same numbers by joins and group-bys; what is collected are counts by size."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from spark_eval.accounting import Entry
from spark_eval.arrow.codes import to_numpy
from spark_eval.linkage.clusters import Best, Contingency
from spark_eval.linkage.plan import SamplePlan
from spark_eval.linkage.relations import (
    Clusters,
    Drawn,
    Pairs,
    Relation,
    Relations,
    Unused,
    check_columns,
    check_each_once,
    entries_of,
    form_of,
    is_form_of_pairs,
)
from spark_eval.runners.spread import persist
from spark_eval.schema import CLUSTER, RECORD, SCORE, A, B, Outcome, Reason
from spark_eval.tables.frames import arrow_to_spark

LEAST: Final = "least"
GREATEST: Final = "greatest"
TRUE_CLUSTER: Final = "true_cluster"
STRATUM: Final = "stratum"
RANK: Final = "rank"
KEY: Final = [LEAST, GREATEST]


@dataclass(frozen=True)
class FramePairs(Pairs):
    """Distinct pairs: the columns least and greatest, and score if they have it."""

    frame: DataFrame
    has_scores: bool
    resources: ExitStack

    @cached_property
    def n_pairs(self) -> int:
        """Number of pairs."""
        return self.frame.count()

    def held_by(self, other: "FramePairs | FrameClusters") -> DataFrame:
        """Return the pairs whose records belong together in the other relation."""
        if isinstance(other, FramePairs):
            return self.frame.join(other.frame.select(*KEY), KEY, "left_semi")
        of_each = [
            other.frame.select(F.col(RECORD).alias(key), F.col(CLUSTER).alias(f"of_{key}")) for key in KEY
        ]
        joined = self.frame.join(of_each[0], LEAST).join(of_each[1], GREATEST)
        return joined.where(F.col(f"of_{LEAST}") == F.col(f"of_{GREATEST}")).select(*self.frame.columns)

    def n_held_by(self, other: "FramePairs | FrameClusters") -> int:
        """Return the number of these pairs whose records belong together in the other relation."""
        return self.held_by(other).count()

    def known_to(self, clusters: "FrameClusters") -> "FramePairs":
        """Return the pairs whose records both have a cluster."""
        known = self.frame
        for key in KEY:
            known = known.join(clusters.frame.select(F.col(RECORD).alias(key)), key, "left_semi")
        return FramePairs(persist(known, self.resources), self.has_scores, self.resources)

    def draw(self, predicted: "FramePairs | FrameClusters", plan: SamplePlan) -> Drawn:
        """Draw pairs of each stratum: those with the lowest hashes."""
        is_above = [F.when(F.col(SCORE) >= edge, 1).otherwise(0) for edge in plan.strata]
        band = reduce(Column.__add__, is_above, F.lit(0))
        linked = self.held_by(predicted).select(*KEY, F.lit(1).alias(STRATUM))
        joined = self.frame.join(linked, KEY, "left")
        strata = joined.withColumn(STRATUM, 2 * band + F.coalesce(STRATUM, F.lit(0)))
        strata = persist(strata, self.resources)
        sizes = dict.fromkeys(range(plan.n_strata), 0)
        sizes |= {row[STRATUM]: row["count"] for row in strata.groupBy(STRATUM).count().collect()}
        texts = [F.col(key).cast("string") for key in KEY]
        lowest = F.xxhash64(F.lit(plan.seed).cast("bigint"), *texts)
        rank = F.expr("row_number() OVER (PARTITION BY stratum ORDER BY hash, least, greatest)")
        ranked = strata.withColumn("hash", lowest).withColumn(RANK, rank)
        chosen = ranked.where(F.col(RANK) <= plan.per_stratum).select(*KEY, STRATUM, RANK).toArrow()
        chosen = chosen.sort_by([(STRATUM, "ascending"), (RANK, "ascending")]).combine_chunks()
        numbers = to_numpy(chosen[STRATUM]).astype("int64")
        kinds = [pa.string() if is_text(self.frame, key) else pa.int64() for key in KEY]
        least, greatest = (chosen[key].cast(kind) for key, kind in zip(KEY, kinds, strict=True))
        of_each = pa.array([sizes[number] for number in numbers.tolist()], pa.int64())
        return Drawn(least, greatest, numbers, to_numpy(of_each))


@dataclass(frozen=True)
class FrameClusters(Clusters):
    """The cluster of each record: the columns record and cluster."""

    frame: DataFrame
    resources: ExitStack

    @cached_property
    def n_records(self) -> int:
        """Number of records."""
        return self.frame.count()

    @cached_property
    def n_pairs(self) -> int:
        """Number of pairs within clusters."""
        sizes = self.frame.groupBy(CLUSTER).agg(F.count("*").alias("n"))
        return total(sizes, F.expr("n * (n - 1) div 2"))

    def contingency(self, true: "FrameClusters") -> Contingency:
        """Return the cells of these clusters and true ones, of the records in both."""
        others = true.frame.select(RECORD, F.col(CLUSTER).alias(TRUE_CLUSTER))
        by_cell = self.frame.join(others, RECORD).groupBy(CLUSTER, TRUE_CLUSTER).agg(F.count("*").alias("n"))
        by_cell = persist(by_cell, self.resources)
        for cluster, size in ((CLUSTER, "a"), (TRUE_CLUSTER, "b")):
            by_cell = by_cell.join(by_cell.groupBy(cluster).agg(F.sum("n").alias(size)), cluster)
        by_cell = persist(by_cell, self.resources)
        sizes = by_cell.groupBy("n", "a", "b").agg(F.count("*").alias("times")).toArrow()
        jaccard = F.max(F.col("n") / (F.col("a") + F.col("b") - F.col("n"))).alias("jaccard")
        best = list[Best]()
        for cluster in (CLUSTER, TRUE_CLUSTER):
            of_each = by_cell.groupBy(cluster).agg(jaccard)
            of_index = of_each.groupBy("jaccard").agg(F.count("*").alias("times")).toArrow()
            best.append(Best(to_numpy(of_index["jaccard"]), to_numpy(of_index["times"])))
        counts, predicted, expected, times = (to_numpy(sizes[name]) for name in ("n", "a", "b", "times"))
        return Contingency(counts, predicted, expected, times, *best)


@dataclass(frozen=True)
class FrameRelations(Relations):
    """Relations of conformed Spark frames; ``records`` are those of each table, with some repetitions."""

    records: list[DataFrame]
    resources: ExitStack

    @classmethod
    def of(cls, frames: Mapping[str, DataFrame], resources: ExitStack) -> "FrameRelations":
        """Check and count the rows of all tables; distinct pairs and records are persisted in ``resources``.

        Raises DataError ID_TYPE_MISMATCH or RECORD_IN_TWO_CLUSTERS.
        """
        kinds = {name: to_arrow_schema(frame.schema) for name, frame in frames.items()}
        check_columns(kinds)
        relations: dict[str, Relation] = {}
        entries: list[Entry] = []
        records: list[DataFrame] = []
        for name, frame in frames.items():
            valid = valid_rows(name, frame)
            is_pairs = is_form_of_pairs(name, frame.columns)
            relation_of = pairs_of if is_pairs else clusters_of
            relations[name], grouped, n_valid, counted = relation_of(name, valid, resources)
            keys = KEY if is_pairs else (RECORD,)
            records += [grouped.select(F.col(key).alias(RECORD)) for key in keys]
            entries += entries_of(name, frame.count(), n_valid, counted)
        return cls(relations, kinds, entries, records, resources)

    @cached_property
    def n_records(self) -> int:
        """Number of records in all tables."""
        return reduce(DataFrame.unionAll, self.records).distinct().count()

    def listed(self, pairs: pa.Table) -> FramePairs:
        """Return the distinct pairs of a small table."""
        frame = arrow_to_spark(self.records[0].sparkSession, "sample", pairs)
        return FramePairs(frame.select(*ordered()).distinct(), False, self.resources)


def valid_rows(name: str, frame: DataFrame) -> DataFrame:
    """Return the rows without a null in ids, clusters and scores, with integers of one type."""
    ids = [
        F.col(column) if is_text(frame, column) else F.col(column).cast("bigint").alias(column)
        for column in form_of(name, frame.columns)
    ]
    if SCORE not in frame.columns:
        return frame.select(*ids).dropna()
    valid = frame.select(*ids, SCORE).dropna()
    return valid.where(~F.isnan(SCORE) & (F.abs(SCORE) < float("inf")))


def ordered() -> list[Column]:
    """Return the columns least and greatest of pairs of a and b."""
    return [F.least(A, B).alias(LEAST), F.greatest(A, B).alias(GREATEST)]


def pairs_of(_name: str, valid: DataFrame, resources: ExitStack) -> tuple[FramePairs, DataFrame, int, Unused]:
    """Return distinct pairs, the rows by pair, also of one record, their number, and what is not used."""
    more = [SCORE] if SCORE in valid.columns else []
    counts = [F.count("*").alias("n"), *(F.max(column).alias(column) for column in more)]
    grouped = persist(valid.select(*ordered(), *more).groupBy(*KEY).agg(*counts), resources)
    of_two = grouped.where(F.col(LEAST) != F.col(GREATEST))
    pairs = FramePairs(of_two.select(*KEY, *more), bool(more), resources)
    n_valid, n_kept = total(grouped, F.col("n")), total(of_two, F.col("n"))
    counted: Unused = {
        (Outcome.DROPPED, Reason.SELF_PAIR): n_valid - n_kept,
        (Outcome.DEDUPLICATED, Reason.REPEATED_PAIR): n_kept - pairs.n_pairs,
    }
    return pairs, grouped, n_valid, counted


def clusters_of(
    name: str, valid: DataFrame, resources: ExitStack
) -> tuple[FrameClusters, DataFrame, int, Unused]:
    """Return the cluster of each record, the rows by record, their number, and what is not used."""
    least, last = F.min(CLUSTER).alias(CLUSTER), F.max(CLUSTER).alias("last")
    grouped = persist(valid.groupBy(RECORD).agg(least, last, F.count("*").alias("n")), resources)
    check_each_once(name, grouped.where(F.col(CLUSTER) != F.col("last")).count())
    clusters = FrameClusters(grouped.select(RECORD, CLUSTER), resources)
    n_valid = total(grouped, F.col("n"))
    n_repeated = n_valid - clusters.n_records
    return clusters, grouped, n_valid, {(Outcome.DEDUPLICATED, Reason.REPEATED_RECORD): n_repeated}


def total(frame: DataFrame, column: Column) -> int:
    """Return the sum of integers, 0 of nothing."""
    [row] = frame.agg(F.sum(column)).collect()
    return int(row[0] or 0)


def is_text(frame: DataFrame, column: str) -> bool:
    """Return True for a column of text."""
    return isinstance(frame.schema[column].dataType, T.StringType)
