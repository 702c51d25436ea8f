"""Relations on Spark: the same numbers by joins and group-bys; what is collected are counts by size."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_, or_
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from spark_eval.accounting import Entry
from spark_eval.arrow.codes import to_numpy
from spark_eval.linkage.clusters import Best, Contingency
from spark_eval.linkage.plan import Missing, SamplePlan, Sources
from spark_eval.linkage.relations import (
    Agreement,
    Clusters,
    Drawn,
    Pairs,
    Relation,
    Relations,
    Unused,
    check_columns,
    check_each_once,
    check_used,
    entries_of,
    form_of,
    is_form_of_pairs,
)
from spark_eval.runners.rows import persist_frame
from spark_eval.schema import CLUSTER, RECORD, SCORE, A, B, Outcome, Reason
from spark_eval.tables.frames import arrow_to_spark

LEAST: Final = "least"
GREATEST: Final = "greatest"
KEY: Final = [LEAST, GREATEST]
STRATUM: Final = "stratum"
RANK: Final = "rank"
N: Final = "n"
# The number of the table that a row is from.
SOURCE: Final = "source"
IS_KNOWN: Final = "is_known"
IS_HELD: Final = "is_held"


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

    def marked(self, other: "FramePairs | FrameClusters") -> DataFrame:
        """Add whether the other relation knows both records of a pair, and whether it holds the pair."""
        if isinstance(other, FramePairs):
            others = other.frame.select(*KEY, F.lit(True).alias(IS_HELD))
            is_held = F.coalesce(IS_HELD, F.lit(False)).alias(IS_HELD)
            return self.frame.join(others, KEY, "left").select(
                *self.frame.columns, F.lit(True).alias(IS_KNOWN), is_held
            )
        joined = self.frame
        for key in KEY:
            joined = joined.join(other.of_records(key, f"of_{key}"), key, "left")
        one, two = (F.col(f"of_{key}") for key in KEY)
        is_known, is_held = one.isNotNull() & two.isNotNull(), F.coalesce(one == two, F.lit(False))
        return joined.select(*self.frame.columns, is_known.alias(IS_KNOWN), is_held.alias(IS_HELD))

    def agreement(self, other: "FramePairs | FrameClusters") -> Agreement:
        """Return the numbers of these pairs that the other relation knows, and that it holds."""
        [row] = self.marked(other).agg(F.count_if(IS_KNOWN), F.count_if(IS_HELD)).collect()
        return Agreement(*row)

    def draw(self, predicted: "FramePairs | FrameClusters", plan: SamplePlan) -> Drawn:
        """Draw pairs of each stratum: those with the lowest hashes."""
        edges = F.array(*map(F.lit, plan.strata)).cast("array<double>")
        # An expression per edge would overflow Spark's stack where edges are hundreds.
        band = F.size(F.filter(edges, lambda edge: F.col(SCORE) >= edge)) if plan.strata else F.lit(0)
        stratum = 2 * band + F.col(IS_HELD).cast("int")
        strata = persist_frame(self.marked(predicted).withColumn(STRATUM, stratum), self.resources)
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
    """Clusters of the table ``name``, of all clusterings by record and by cell; see ``by_record``."""

    name: str
    records: DataFrame
    cells: DataFrame
    resources: ExitStack

    @cached_property
    def n_records(self) -> int:
        """Number of records."""
        return totals(self.cells.where(F.col(self.name).isNotNull()), F.col(N))[0]

    @cached_property
    def n_pairs(self) -> int:
        """Number of pairs within clusters."""
        sizes = self.cells.where(F.col(self.name).isNotNull()).groupBy(self.name).agg(F.sum(N).alias(N))
        return totals(sizes, F.expr("n * (n - 1) div 2"))[0]

    def of_records(self, record: str, cluster: str) -> DataFrame:
        """Return records and their clusters, in columns of these names."""
        own = self.records.where(F.col(self.name).isNotNull())
        return own.select(F.col(RECORD).alias(record), F.col(self.name).alias(cluster))

    def contingency(self, true: "FrameClusters", missing: Missing) -> Contingency:
        """Return the cells of these clusters and true ones; see ``Clusters``.

        A cell with a null has N records without a cluster on that side: as many cells of one record.
        """
        names = (self.name, true.name)
        how = "any" if missing is Missing.LEAVE_OUT else "all"
        cells = self.cells.select(*names, N).dropna(how=how, subset=list(names))
        for name, other, size in zip(names, names[::-1], ("a", "b"), strict=True):
            in_cluster = F.sum(N).over(Window.partitionBy(*cluster_key(name, other)))
            cells = cells.withColumn(size, F.when(F.col(name).isNull(), 1).otherwise(in_cluster))
        is_single = reduce(or_, (F.col(name).isNull() for name in names))
        count = F.when(is_single, 1).otherwise(F.col(N))
        jaccard = (count / (F.col("a") + F.col("b") - count)).alias("jaccard")
        n_cells = F.when(is_single, F.col(N)).otherwise(1).alias("times")
        cells = persist_frame(
            cells.select(*names, count.alias(N), "a", "b", n_cells, jaccard), self.resources
        )
        sizes = cells.groupBy(N, "a", "b").agg(F.sum("times").alias("times")).toArrow()
        best = list[Best]()
        for name, other in (names, names[::-1]):
            n_clusters = F.when(F.col(name).isNull(), F.max("times")).otherwise(1).alias("times")
            of_each = cells.groupBy(*cluster_key(name, other)).agg(
                F.max("jaccard").alias("jaccard"), n_clusters
            )
            of_index = of_each.groupBy("jaccard").agg(F.sum("times").alias("times")).toArrow()
            best.append(Best(to_numpy(of_index["jaccard"]), to_numpy(of_index["times"])))
        counts, predicted, expected, times = (to_numpy(sizes[name]) for name in (N, "a", "b", "times"))
        return Contingency(counts, predicted, expected, times, *best)


@dataclass(frozen=True)
class FrameRelations(Relations):
    """Relations of conformed Spark frames.

    ``records`` are those of each table, by source, with some repetitions.
    """

    records: Sequence[Sequence[DataFrame]]
    resources: ExitStack
    sources: Sources

    @classmethod
    def of(
        cls, frames: Mapping[str, DataFrame], resources: ExitStack, sources: Sources = Sources.ONE
    ) -> "FrameRelations":
        """Check and count the rows of all tables, each read once; what is used again is persisted.

        Raises DataError ID_TYPE_MISMATCH, RECORD_IN_TWO_CLUSTERS or EMPTY_INPUT.
        """
        kinds = {name: to_arrow_schema(frame.schema) for name, frame in frames.items()}
        check_columns(kinds, sources)
        valid = {name: blank_if_invalid(name, frame) for name, frame in frames.items()}
        listed = [name for name, frame in frames.items() if is_form_of_pairs(name, frame.columns)]
        clusters = clusters_of({name: valid[name] for name in frames if name not in listed}, resources)
        sides: tuple[list[DataFrame], list[DataFrame]] = ([], [])
        sides[0].extend([one.records.select(RECORD) for one, _ in clusters.values()][:1])  # of all of them
        counted: dict[str, tuple[Relation, list[Entry]]] = {**clusters}
        for name in listed:
            grouped = pairs_by_key(valid[name], resources, sources)
            counted[name] = pairs_of(name, grouped, resources, sources)
            for side, key in zip(sides, KEY, strict=True):
                side.append(grouped.select(F.col(key).alias(RECORD)))
        relations = {name: counted[name][0] for name in frames}
        entries = [entry for name in frames for entry in counted[name][1]]
        check_used(entries)
        records = [[*sides[0], *sides[1]]] if sources is Sources.ONE else sides
        return cls(relations, kinds, entries, records, resources, sources)

    @cached_property
    def sizes(self) -> Sequence[int]:
        """Number of records in all tables, of each source."""
        return [reduce(DataFrame.unionAll, side).dropna().distinct().count() for side in self.records]

    def listed(self, pairs: pa.Table) -> FramePairs:
        """Return the distinct pairs of a small table."""
        frame = arrow_to_spark(self.records[0][0].sparkSession, "sample", pairs)
        return FramePairs(frame.select(*keys_of(self.sources)).distinct(), False, self.resources)


def cluster_key(name: str, other: str) -> list[Column]:
    """Return the columns that tell clusters of a side apart, singletons by their cluster of the other side.

    Singletons are not one group of nulls, which would come to one task.
    """
    return [F.col(name), F.when(F.col(name).isNull(), F.col(other)).alias("single")]


def blank_if_invalid(name: str, frame: DataFrame) -> DataFrame:
    """Return ids, integers as longs, clusters and scores; all null in a row that cannot be used.

    That is a row with a null, or with a score that is not finite.
    """
    form = form_of(name, frame.columns)
    columns = [*form, *([SCORE] if SCORE in frame.columns else [])]
    is_valid = reduce(and_, (F.col(column).isNotNull() for column in columns))
    if SCORE in columns:
        is_valid &= ~F.isnan(SCORE) & (F.abs(SCORE) < float("inf"))
    values = {
        column: F.col(column) if column == SCORE or is_text(frame, column) else F.col(column).cast("bigint")
        for column in columns
    }
    return frame.select(*(F.when(is_valid, value).alias(column) for column, value in values.items()))


def keys_of(sources: Sources) -> list[Column]:
    """Return the columns least and greatest of pairs; with two sources these are a and b."""
    if sources is Sources.BIPARTITE:
        return [F.col(A).alias(LEAST), F.col(B).alias(GREATEST)]
    return [F.least(A, B).alias(LEAST), F.greatest(A, B).alias(GREATEST)]


def pairs_by_key(valid: DataFrame, resources: ExitStack, sources: Sources) -> DataFrame:
    """Return distinct pairs, also those of one record, with their numbers of rows; invalid rows are one null.

    Most pairs are there once. So rows are sent by pair before they are counted, not counted by sender first.
    """
    more = [SCORE] if SCORE in valid.columns else []
    rows = valid.select(*keys_of(sources), *more).repartition(*KEY)
    best = [F.max(column).alias(column) for column in more]
    return persist_frame(rows.groupBy(*KEY).agg(F.count("*").alias(N), *best), resources)


def pairs_of(
    name: str, grouped: DataFrame, resources: ExitStack, sources: Sources
) -> tuple[FramePairs, list[Entry]]:
    """Return the distinct pairs of a table, and its accounting."""
    is_valid = F.col(LEAST).isNotNull()
    is_two = is_valid if sources is Sources.BIPARTITE else F.col(LEAST) != F.col(GREATEST)
    of_two = grouped.where(is_two)
    columns = [column for column in grouped.columns if column != N]
    pairs = FramePairs(of_two.select(*columns), SCORE in columns, resources)
    n_in, n_valid, n_kept, n_pairs = totals(
        grouped, F.col(N), F.when(is_valid, F.col(N)), F.when(is_two, F.col(N)), F.when(is_two, 1)
    )
    counted: Unused = {
        (Outcome.DROPPED, Reason.SELF_PAIR): n_valid - n_kept,
        (Outcome.DEDUPLICATED, Reason.REPEATED_PAIR): n_kept - n_pairs,
    }
    return pairs, entries_of(name, n_in, n_valid, counted)


def by_record(valid: Mapping[str, DataFrame]) -> DataFrame:
    """Return a row per record: its cluster in each table, in a column of that name, and numbers of rows.

    All tables are read at once and meet in one shuffle. ``last_NAME`` differs from NAME if the record is in
    several clusters of the table. Invalid rows are those of the record null.
    """
    sides = []
    for number, (name, frame) in enumerate(valid.items()):
        clusters = [
            F.col(CLUSTER).alias(one) if one == name else F.lit(None).cast(kind).alias(one)
            for one, kind in ((one, other.schema[CLUSTER].dataType) for one, other in valid.items())
        ]
        sides.append(frame.select(RECORD, *clusters, F.lit(number).alias(SOURCE)))
    rows = reduce(DataFrame.unionAll, sides).repartition(RECORD)
    # Spark sorts to compare texts, and texts that begin alike are slow to sort; their hashes are not.
    first = [F.xxhash64(RECORD).alias("hash")] if is_text(rows, RECORD) else []
    counts = [
        one
        for number, name in enumerate(valid)
        for one in (
            F.min(name).alias(name),
            F.max(name).alias(f"last_{name}"),
            F.count_if(F.col(SOURCE) == number).alias(f"rows_{name}"),
        )
    ]
    return rows.groupBy(*first, RECORD).agg(*counts)


def clusters_of(
    valid: Mapping[str, DataFrame], resources: ExitStack
) -> dict[str, tuple[FrameClusters, list[Entry]]]:
    """Return the clusters of each table, and its accounting."""
    if not valid:
        return {}
    records = persist_frame(by_record(valid), resources)
    counts = [F.count(RECORD).alias(N)]
    for name in valid:
        differs = F.count_if(F.col(name) != F.col(f"last_{name}"))
        counts += [F.sum(f"rows_{name}").alias(f"rows_{name}"), differs.alias(f"differs_{name}")]
    cells = persist_frame(records.groupBy(*valid).agg(*counts), resources)
    counted = {}
    for name in valid:
        n_rows, is_valid = F.col(f"rows_{name}"), F.col(name).isNotNull()
        n_in, n_valid, n_records, n_differ = totals(
            cells, n_rows, F.when(is_valid, n_rows), F.when(is_valid, F.col(N)), F.col(f"differs_{name}")
        )
        check_each_once(name, n_differ)
        repeated: Unused = {(Outcome.DEDUPLICATED, Reason.REPEATED_RECORD): n_valid - n_records}
        counted[name] = (
            FrameClusters(name, records, cells, resources),
            entries_of(name, n_in, n_valid, repeated),
        )
    return counted


def totals(frame: DataFrame, *columns: Column) -> list[int]:
    """Return the sums of integers, 0 of nothing."""
    sums = [F.sum(column).alias(str(number)) for number, column in enumerate(columns)]
    [row] = frame.agg(*sums).collect()
    return [int(one or 0) for one in row]


def is_text(frame: DataFrame, column: str) -> bool:
    """Return True for a column of text."""
    return isinstance(frame.schema[column].dataType, T.StringType)
