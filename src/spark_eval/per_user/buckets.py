"""Run pairwise comparisons on the executors, bucketed by user.

If the file names of ``per_user`` contain the buckets, each worker reads the files of a bucket. Otherwise the
rows are shuffled by user. The workers see the same populations in both cases.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import iadd
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_eval.arrow.files import Batches
from spark_eval.arrow.messages import Content, group_by_bucket, partition_bucket
from spark_eval.arrow.send import Sender
from spark_eval.arrow.user_files import read_files
from spark_eval.comparison.worker.ranking import DifferenceCounter
from spark_eval.errors import DataError
from spark_eval.per_user.population import BASELINE, CANDIDATE, AlignedUsers, ComparisonTask
from spark_eval.runners.exchange import exchange, send
from spark_eval.runners.objects import NumberedObject, group_by_key, map_batches
from spark_eval.schema import FOLD, MODEL, N_RELEVANT

# Maximum number of ``per_user`` values of a shuffled bucket in a worker's memory.
MOST_SENT: Final = 16_000_000
CONTENT: Final = {BASELINE: Content.BASELINES, CANDIDATE: Content.CANDIDATES}


@dataclass(frozen=True)
class Buckets:
    """Buckets of users with the rows of all models; ``populations`` builds them from the rows of a task.

    ``is_sent`` is true if the rows come from a shuffle.
    """

    frame: DataFrame
    populations: Callable[[Batches], Iterator[AlignedUsers]]
    is_sent: bool

    def made(self, make: Callable[[Iterator[AlignedUsers]], Iterable[NumberedObject]]) -> DataFrame:
        """Apply ``make`` to the populations of each task; a DataError is returned as an object, too."""
        populations = self.populations

        def make_all(batches: Batches) -> Iterator[NumberedObject]:
            try:
                yield from make(populations(batches))
            except DataError as fault:
                yield 0, fault  # raised by the driver, because Spark would wrap it

        return map_batches(self.frame, make_all)

    def each(self, measure: Callable[[AlignedUsers], Any]) -> DataFrame:
        """Apply ``measure`` to each population; return one object per population."""
        return self.made(lambda populations: ((None, measure(one)) for one in populations))

    def added(self, measure: Callable[[AlignedUsers], Any]) -> DataFrame:
        """Apply ``measure`` to the populations of each task; return one sum per task."""

        def add_up(populations: Iterator[AlignedUsers]) -> Iterator[NumberedObject]:
            parts = map(measure, populations)
            first = next(parts, None)
            if first is not None:
                yield None, reduce(iadd, parts, first)

        return self.made(add_up)


def buckets_of_files(
    spark: SparkSession, groups: Sequence[Mapping[int, Sequence[str]]], n_tasks: int, question: ComparisonTask
) -> Buckets:
    """Return buckets that workers read from groups of files; the paths are given per model index."""
    tasks = [groups[start::n_tasks] for start in range(n_tasks)]

    def populations(batches: Batches) -> Iterator[AlignedUsers]:
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            for paths in tasks[number]:
                yield AlignedUsers(question, partial(rows_of_files, question, paths))

    return Buckets(spark.range(0, n_tasks, 1, n_tasks), populations, is_sent=False)


def rows_of_files(
    question: ComparisonTask, paths: Mapping[int, Sequence[str]], model: int, columns: Sequence[str]
) -> pa.Table:
    """Return columns of a model's rows in a bucket, read from its files."""
    return question.rows(read_files(paths.get(model, ()), columns), columns)


def buckets_of_frames(
    frames: Mapping[str, DataFrame], n_buckets: int, n_tasks: int, question: ComparisonTask
) -> Buckets:
    """Return buckets of the rows of baseline and candidate, after one shuffle by user."""

    def populations(batches: Batches) -> Iterator[AlignedUsers]:
        for _, rows in group_by_bucket(batches):
            sides = {content: table for content, table in rows.items() if content in CONTENT.values()}
            n_values = sum(table.num_rows * table.num_columns for table in sides.values())
            n_parts = 1 + n_values // MOST_SENT
            parts = iter([sides]) if n_parts == 1 else partition_bucket(sides, n_buckets, n_parts)
            for part in parts:
                tables = tables_of_models(question, part)
                yield AlignedUsers(question, partial(rows_of_tables, question, tables))

    sent = [
        send(chosen_rows(frame, side, question), None, Sender(n_buckets, CONTENT[side]), n_tasks)
        for side, frame in frames.items()
    ]
    return Buckets(exchange(sent, n_tasks), populations, is_sent=True)


def chosen_rows(frame: DataFrame, side: str, question: ComparisonTask) -> DataFrame:
    """Return the rows and columns of a table that are compared."""
    models = [question.models[place][1] for place in question.side(side)]
    segments = question.segments if side == CANDIDATE else question.moved
    truth = [N_RELEVANT] if question.has_truth else []
    names = [MODEL, *question.keys, *(name for name in segments if name != FOLD), *truth, *question.values]
    return frame.where(F.col(MODEL).isin(models)).select(*map(F.col, names))


def tables_of_models(question: ComparisonTask, sides: Mapping[Content, pa.Table]) -> dict[int, pa.Table]:
    """Split the rows of both tables by model index."""
    tables = {}
    for side, content in CONTENT.items():
        if content in sides:
            names = sides[content][MODEL].cast(pa.string())
            for place in question.side(side):
                tables[place] = sides[content].filter(pc.equal(names, question.models[place][1]))
    return tables


def rows_of_tables(
    question: ComparisonTask, tables: Mapping[int, pa.Table], model: int, columns: Sequence[str]
) -> pa.Table:
    """Return columns of a model's rows in a bucket, from the tables of all models."""
    own = [tables[model].select(list(columns))] if model in tables else []
    return question.rows(own, columns)


def ranked_pairs(buckets: Buckets, counting: DifferenceCounter) -> DataFrame:
    """Return rank statistics of slices of cells, from differences counted by size: one shuffle of counts."""

    def count(populations: Iterator[AlignedUsers]) -> Iterator[NumberedObject]:
        for population in populations:
            yield from counting.counts(population)

    def rank(_: int, parts: Sequence[Any]) -> Any:
        faults = [part for part in parts if isinstance(part, DataError)]
        return faults[0] if faults else counting.ranked(parts)

    return group_by_key(buckets.made(count), counting.n_parts, rank)
