"""Passes over predictions: check and sum rows, sort them by score, sum them by user.

Each function is one step for the executors; it takes and returns rows or objects spread over tasks.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from spark_eval.arrow.files import Batches
from spark_eval.predictions.task import Clusters, PredictionPlan, ThresholdRule
from spark_eval.predictions.worker.batches import RowReader, TaskCounts, TaskOutput, in_buckets
from spark_eval.predictions.worker.clusters import (
    CellRows,
    CellSlopes,
    UserSums,
    add_rows_of_users,
    empty_sums,
    influence_sums,
)
from spark_eval.predictions.worker.ordered import (
    Range,
    RangeOffset,
    RowRange,
    ScoreRun,
    add_placements,
    measure_range,
    merge_range,
)
from spark_eval.predictions.worker.replicates import ReplicateSums, merge_replicates, replicate_sums
from spark_eval.predictions.worker.score_ranges import RangeSize, ScoreRanges
from spark_eval.predictions.worker.totals import Cell
from spark_eval.runners.in_process import LocalBatches
from spark_eval.runners.spread import (
    NUMBER,
    OBJECTS,
    NumberedObject,
    Spread,
    group_by_key,
    map_in_arrow,
    map_objects,
    map_parts,
    map_table,
    objects_of_table,
    unpickle_objects,
    where_not_null,
)
from spark_eval.schema import ALL, FAULT, MODEL, SEGMENT, SEGMENT_VALUE, USER
from spark_eval.tables.conformed import Rows, arrow_type, session_of
from spark_eval.tables.file_parts import PlainFiles
from spark_eval.tables.local_tables import LocalTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PREDICTIONS: Final = "predictions"
# Number of the counts among the outputs of tasks.
COUNTS: Final = -1
GIVEN: Final = "given"


@dataclass(frozen=True)
class PredictionTable:
    """Conformed predictions.

    ``rows`` are read by ``reader``. ``original`` also has the columns as they were given, to quarantine
    invalid rows: on Spark as a struct; in this process ``original_names`` maps their names to its columns. A
    column ``fold`` is also a segment in ``plan``. ``files`` hold the rows if these are plain Parquet.
    """

    rows: Rows
    reader: RowReader
    original: Rows = None
    files: PlainFiles | None = None
    original_names: Mapping[str, str] = field(default_factory=dict)

    @property
    def user_type(self) -> pa.DataType | None:
        """Type of the ids of users; None if they are not read."""
        return arrow_type(self.rows, USER) if USER in self.rows.columns else None

    @property
    def plan(self) -> PredictionPlan:
        """Plan of the measurement."""
        return self.reader.plan

    @property
    def session(self) -> Any:
        """Spark session of the rows; None in this process."""
        return session_of(self.rows)

    @property
    def judged(self) -> Any:
        """Original rows, with an error code for each invalid row."""
        return self.judged_locally() if isinstance(self.rows, LocalTable) else self.judged_on_spark()

    def judged_locally(self) -> LocalBatches:
        """Original rows with error codes, in this process."""
        reader, read, names = self.reader, self.rows.columns, self.original_names
        kinds = {name: self.original.schema.field(column).type for name, column in names.items()}

        def judge(batches: Batches) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                codes = reader.error_codes(pa.Table.from_batches([batch.select(read)]))
                yield pa.record_batch([*(batch[column] for column in names.values()), codes], [*names, FAULT])

        rows: LocalBatches = map_table(self.original, judge, pa.schema({**kinds, FAULT: pa.string()}))
        return rows

    def judged_on_spark(self) -> "DataFrame":
        """Original rows with error codes, as a Spark frame."""
        from pyspark.sql import types as T

        reader = self.reader

        def judge(batches: Batches) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                codes = reader.error_codes(pa.Table.from_batches([batch]))
                yield pa.RecordBatch.from_struct_array(batch[GIVEN]).append_column(FAULT, codes)

        schema = self.original.select(f"{GIVEN}.*").schema.add(FAULT, T.StringType())
        rows: DataFrame = map_in_arrow(self.original, judge, schema)
        return rows

    @property
    def judged_by_model(self) -> Any:
        """The judged rows, with the name of their model."""
        rows, model = self.judged, self.reader.model
        if model is None:
            return rows
        if isinstance(rows, LocalBatches):
            schema = pa.schema({**{one.name: one.type for one in rows.schema}, MODEL: pa.string()})
            return rows.map(lambda batches: (with_model(batch, model, schema) for batch in batches), schema)
        from pyspark.sql import functions as F

        return rows.withColumn(MODEL, F.lit(model))


def with_model(batch: pa.RecordBatch, model: str, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the name of its model, in the columns of a schema."""
    names = pa.repeat(model, batch.num_rows)
    columns = [names if name == MODEL else batch[name] for name in schema.names]
    return pa.record_batch(columns, schema.names)


def task_outputs(predictions: PredictionTable) -> Any:
    """Check and sum all rows; return what each task found, its counts last."""
    reader = predictions.reader

    def outputs(batches: Batches) -> Iterator[NumberedObject]:
        return ((COUNTS if isinstance(one, TaskCounts) else None, one) for one in reader.outputs(batches))

    return objects_of_table(predictions.rows, outputs, predictions.files)


def counts_of_tasks(outputs: Spread) -> Spread:
    """Return the counts of all tasks; they alone have a number."""
    return where_not_null(outputs, NUMBER, OBJECTS.names)


def group_by_range(outputs: Spread, ranges: Mapping[Cell, ScoreRanges]) -> Spread:
    """Merge the sorted runs, or the rows, of each score range: the only shuffle by score."""

    def split(output: TaskOutput) -> Iterator[NumberedObject]:
        match output:
            case ScoreRun():
                return ranges[output.cell].parts(output)
            case CellRows():
                return ranges[output.cell].parts_of_rows(output)
        return iter(())

    n_ranges = sum(of_cell.n_ranges for of_cell in ranges.values())
    return group_by_key(map_objects(outputs, split), n_ranges, merge_range)


def range_sizes(ranges: Spread) -> Spread:
    """Return the number of rows in each range."""
    return map_objects(ranges, lambda part: [(None, RangeSize.of(part.distinct))])


def measure_ranges(
    ranges: Spread, offsets: Mapping[int, RangeOffset], rules: Sequence[ThresholdRule], with_curves: bool
) -> Spread:
    """Measure every range at its offset; only cells of all rows of a model have curves."""

    def measure(part: Range | RowRange) -> Iterator[NumberedObject]:
        scores = part.distinct
        has_curves = with_curves and scores.cell[1] == ALL
        yield None, measure_range(scores, offsets[part.number], rules, has_curves)

    return map_objects(ranges, measure)


def sums_over_users(outputs: Spread, n_buckets: int, reader: RowReader) -> Spread:
    """Return the sums over the users of each bucket, such as of their AUC: the only shuffle by user."""

    def split(output: TaskOutput) -> Iterator[NumberedObject]:
        return in_buckets(output, n_buckets) if isinstance(output, pa.Table) else iter(())

    return group_by_key(
        map_objects(outputs, split), n_buckets, lambda _, rows: reader.totals_over_users(rows)
    )


def with_placements(ranges: Spread, offsets: Mapping[int, RangeOffset], plan: PredictionPlan) -> Spread:
    """Return the rows of all ranges with their placements."""
    return map_objects(ranges, lambda part: [(None, add_placements(part, offsets[part.number], plan))])


def sums_per_user(rows: Spread, n_buckets: int, plan: PredictionPlan) -> Spread:
    """Return the sums of each user in each cell: one shuffle by user; without users, the sums of each row.

    Sums over bootstrap replicates are among them, if metrics need these.
    """

    def sums_of(parts: Sequence[CellRows]) -> list[UserSums | ReplicateSums]:
        return [*add_rows_of_users(parts, plan), *replicate_sums(parts, plan)]

    def split(output: TaskOutput) -> Iterator[NumberedObject]:
        return output.by_bucket(n_buckets) if isinstance(output, CellRows) else iter(())

    def sums_of_rows(output: TaskOutput) -> Iterator[NumberedObject]:
        if isinstance(output, CellRows):
            yield None, sums_of([output])

    if plan.intervals is Clusters.ROW:
        return map_objects(rows, sums_of_rows)
    return group_by_key(map_objects(rows, split), n_buckets, lambda _, parts: sums_of(parts))


def sum_influences(sums: Spread, slopes: CellSlopes) -> Spread:
    """Return the sums of the users' influences on each value."""

    def measure(parts: Sequence[UserSums | ReplicateSums]) -> Iterator[NumberedObject]:
        return ((None, influence_sums(users, slopes)) for users in parts if isinstance(users, UserSums))

    return map_objects(sums, measure)


def replicate_values(sums: Spread, cells: Sequence[Cell]) -> Spread:
    """Return each cell with the values of its replicates: one shuffle of their sums by cell."""
    numbers = {cell: number for number, cell in enumerate(cells)}

    def split(parts: Sequence[UserSums | ReplicateSums]) -> Iterator[NumberedObject]:
        return ((numbers[one.cell], one) for one in parts if isinstance(one, ReplicateSums))

    return group_by_key(map_objects(sums, split), len(cells), lambda _, parts: merge_replicates(parts))


def per_user_rows(sums: Spread, user_type: pa.DataType, plan: PredictionPlan) -> Spread:
    """Return the rows of ``per_user`` from the sums of users; without segments it has no columns of them."""
    columns = empty_sums(user_type, plan).rows().column_names[1:]
    keys = [MODEL, *([SEGMENT, SEGMENT_VALUE] if plan.segments else [])]
    schema = pa.schema(
        dict.fromkeys(keys, pa.string()) | {USER: user_type} | dict.fromkeys(columns, pa.float64())
    )

    def rows(batches: Batches) -> Iterator[pa.RecordBatch]:
        for _, parts in unpickle_objects(batches):
            for users in (one for one in parts if isinstance(one, UserSums)):
                table = users.rows().select([USER, *columns])
                named = {
                    name: pa.repeat(text, len(table)) for name, text in zip(keys, users.cell, strict=False)
                }
                whole = pa.table(named | dict(zip(table.column_names, table.columns, strict=True)))
                yield from whole.cast(schema).combine_chunks().to_batches()

    return map_parts(sums, rows, schema)
