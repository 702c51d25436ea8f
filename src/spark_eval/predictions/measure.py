"""Passes over predictions: check and sum rows, sort them by score, sum them by user.

Each function is one step for the executors; it takes and returns rows or objects spread over tasks.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

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
from spark_eval.runners.rows import Rows
from spark_eval.runners.spread import (
    NUMBER,
    OBJECTS,
    NumberedObject,
    group_by_key,
    map_batches,
    map_objects,
    unpickle_objects,
)
from spark_eval.schema import ALL, FAULT, MODEL, SEGMENT, SEGMENT_VALUE, USER

PREDICTIONS: Final = "predictions"
# Number of the counts among the outputs of tasks.
COUNTS: Final = -1
# Columns as they were given, for the quarantine.
ORIGINAL_COLUMN: Final = "original_{}"


@dataclass(frozen=True)
class PredictionTable:
    """Conformed predictions: the columns that ``reader`` reads, and those as given, to quarantine rows.

    A column ``fold`` is also a segment in ``plan``.
    """

    table: Rows
    reader: RowReader

    @property
    def read(self) -> list[str]:
        """The names of the columns that are read."""
        return [name for name in self.table.columns if not name.startswith(ORIGINAL_COLUMN.format(""))]

    @property
    def rows(self) -> Rows:
        """The columns that are read."""
        return self.table.select(*self.read)

    @property
    def user_type(self) -> pa.DataType | None:
        """Type of the ids of users; None if they are not read."""
        return self.table.kind(USER) if USER in self.table.columns else None

    @property
    def plan(self) -> PredictionPlan:
        """Plan of the measurement."""
        return self.reader.plan

    @property
    def session(self) -> Any:
        """Spark session of the rows; None in this process."""
        return self.table.session

    @property
    def judged(self) -> Rows:
        """Original rows, with an error code for each invalid row."""
        return self.judged_with(None)

    @property
    def judged_by_model(self) -> Rows:
        """The judged rows, with the name of their model."""
        return self.judged_with(self.reader.model)

    def judged_with(self, model: str | None) -> Rows:
        """Return the judged rows; all of this model, if it is given."""
        reader, read, rows = self.reader, self.read, self.table.as_typed
        kept = [name for name in self.table.columns if name not in read]
        names = [name.removeprefix(ORIGINAL_COLUMN.format("")) for name in kept]
        kinds = {name: rows.kind(column) for name, column in zip(names, kept, strict=True)}
        kinds |= {FAULT: pa.string()} | ({} if model is None else {MODEL: pa.string()})

        def judge(batches: Batches) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                columns = {name: batch[column] for name, column in zip(names, kept, strict=True)}
                columns[FAULT] = reader.error_codes(pa.Table.from_batches([batch.select(read)]))
                if model is not None:
                    columns[MODEL] = pa.repeat(model, batch.num_rows)
                yield pa.record_batch(list(columns.values()), list(columns))

        return rows.map(judge, pa.schema(kinds))


def task_outputs(predictions: PredictionTable) -> Rows:
    """Check and sum all rows; return what each task found, its counts last."""
    reader = predictions.reader

    def outputs(batches: Batches) -> Iterator[NumberedObject]:
        return ((COUNTS if isinstance(one, TaskCounts) else None, one) for one in reader.outputs(batches))

    return map_batches(predictions.rows, outputs)


def counts_of_tasks(outputs: Rows) -> Rows:
    """Return the counts of all tasks; they alone have a number."""
    return outputs.where_not_null(NUMBER, OBJECTS.names)


def group_by_range(outputs: Rows, ranges: Mapping[Cell, ScoreRanges]) -> Rows:
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


def range_sizes(ranges: Rows) -> Rows:
    """Return the number of rows in each range."""
    return map_objects(ranges, lambda part: [(None, RangeSize.of(part.distinct))])


def measure_ranges(
    ranges: Rows, offsets: Mapping[int, RangeOffset], rules: Sequence[ThresholdRule], with_curves: bool
) -> Rows:
    """Measure every range at its offset; only cells of all rows of a model have curves."""

    def measure(part: Range | RowRange) -> Iterator[NumberedObject]:
        scores = part.distinct
        has_curves = with_curves and scores.cell[1] == ALL
        yield None, measure_range(scores, offsets[part.number], rules, has_curves)

    return map_objects(ranges, measure)


def sums_over_users(outputs: Rows, n_buckets: int, reader: RowReader) -> Rows:
    """Return the sums over the users of each bucket, such as of their AUC: the only shuffle by user."""

    def split(output: TaskOutput) -> Iterator[NumberedObject]:
        return in_buckets(output, n_buckets) if isinstance(output, pa.Table) else iter(())

    return group_by_key(
        map_objects(outputs, split), n_buckets, lambda _, rows: reader.totals_over_users(rows)
    )


def with_placements(ranges: Rows, offsets: Mapping[int, RangeOffset], plan: PredictionPlan) -> Rows:
    """Return the rows of all ranges with their placements."""
    return map_objects(ranges, lambda part: [(None, add_placements(part, offsets[part.number], plan))])


def sums_per_user(rows: Rows, n_buckets: int, plan: PredictionPlan) -> Rows:
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


def sum_influences(sums: Rows, slopes: CellSlopes) -> Rows:
    """Return the sums of the users' influences on each value."""

    def measure(parts: Sequence[UserSums | ReplicateSums]) -> Iterator[NumberedObject]:
        return ((None, influence_sums(users, slopes)) for users in parts if isinstance(users, UserSums))

    return map_objects(sums, measure)


def replicate_values(sums: Rows, cells: Sequence[Cell]) -> Rows:
    """Return each cell with the values of its replicates: one shuffle of their sums by cell."""
    numbers = {cell: number for number, cell in enumerate(cells)}

    def split(parts: Sequence[UserSums | ReplicateSums]) -> Iterator[NumberedObject]:
        return ((numbers[one.cell], one) for one in parts if isinstance(one, ReplicateSums))

    return group_by_key(map_objects(sums, split), len(cells), lambda _, parts: merge_replicates(parts))


def per_user_rows(sums: Rows, user_type: pa.DataType, plan: PredictionPlan) -> Rows:
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

    return sums.map(rows, schema)
