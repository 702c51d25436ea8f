"""The doors to the workers for predictions: batches go in, sums, sorted ranges and users' sums come back."""

import pickle
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import pyarrow as pa
from pyspark import RDD
from pyspark.sql import DataFrame

from spark_eval.batches.predictions import Part, Reading, UserRows, totals_of_users
from spark_eval.pointwise.cuts import Cut
from spark_eval.pointwise.ordered import Ordered, Range, Run, Standing, ordered
from spark_eval.pointwise.task import Rule
from spark_eval.pointwise.totals import Cell, Totals
from spark_eval.schema import ALL

Value = TypeVar("Value")
PART: Final = "part binary"
NUMBERS_PER_TASK: Final = 4


def parts_of(rows: DataFrame, reading: Reading) -> RDD[Part]:
    """What the workers make of conformed rows."""

    def made(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in reading.parts(batches):
            yield pa.RecordBatch.from_pydict(
                {"part": pa.array([pickle.dumps(part, protocol=5)], pa.binary())}
            )

    found: RDD[Part] = rows.mapInArrow(made, PART).rdd.map(lambda row: pickle.loads(row[0]))
    return found


def in_ranges(parts: RDD[Part], cuts: Mapping[Cell, Cut], n_limbs: int) -> RDD[Range]:
    """All runs of each range together: the one shuffle by score."""

    def cut(part: Part) -> Iterator[tuple[int, Run]]:
        return cuts[part.cell].parts(part) if isinstance(part, Run) else iter(())

    sent = parts.flatMap(cut)
    n_ranges = sum(cut.n_ranges for cut in cuts.values())
    return gathered(sent, n_ranges).map(lambda found: Range.of(found[1][0].cell, found[0], found[1], n_limbs))


def in_order(
    ranges: RDD[Range], standings: Mapping[int, Standing], rules: Sequence[Rule], with_curves: bool
) -> RDD[Ordered]:
    """What every range gives where it stands; curves are those of all rows of a model."""
    return ranges.map(
        lambda part: ordered(part, standings[part.number], rules, with_curves and part.cell[1] == ALL)
    )


def of_users(parts: RDD[Part], n_buckets: int) -> RDD[Totals]:
    """The sums over the users of each bucket: the one shuffle by user."""
    sent = parts.flatMap(lambda part: part.in_buckets(n_buckets) if isinstance(part, UserRows) else iter(()))
    return gathered(sent, n_buckets).map(lambda found: totals_of_users(found[1]))


def gathered(sent: RDD[tuple[int, Value]], n_numbers: int) -> RDD[tuple[int, list[Value]]]:
    """All values of a number in one task, which may have several numbers."""

    def together(arrived: Iterable[tuple[int, Value]]) -> Iterator[tuple[int, list[Value]]]:
        kept: dict[int, list[Value]] = defaultdict(list)
        for number, value in arrived:
            kept[number].append(value)
        while kept:
            yield kept.popitem()

    n_tasks = min(n_numbers, max(sent.context.defaultParallelism, n_numbers // NUMBERS_PER_TASK))
    return sent.partitionBy(n_tasks, partitionFunc=int).mapPartitions(together)
