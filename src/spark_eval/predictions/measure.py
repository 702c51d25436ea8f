"""Predictions on the workers, which also find invalid rows.

Rows are sent to the workers; sums, sorted ranges and users' sums are returned.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from spark_eval.arrow.files import Batches
from spark_eval.predictions.task import Clusters, PredictionPlan, ThresholdRule
from spark_eval.predictions.worker.batches import Part, RowReader, TaskCounts, in_buckets
from spark_eval.predictions.worker.clusters import (
    CellRows,
    CellSlopes,
    UserSums,
    add_rows_of_users,
    empty_sums,
    shares_of,
)
from spark_eval.predictions.worker.ordered import (
    Range,
    RangeOffset,
    RowRange,
    ScoreRun,
    measured_range,
    placed_rows,
    range_of,
)
from spark_eval.predictions.worker.score_ranges import RangeSize, ScoreRanges
from spark_eval.predictions.worker.totals import Cell
from spark_eval.runners.objects import (
    NUMBER,
    OBJECTS,
    NumberedObject,
    group_by_key,
    map_objects,
    map_table,
    unpickle_objects,
)
from spark_eval.runners.spread import Spread, map_parts, rows_with
from spark_eval.runners.spread import map_table as map_rows
from spark_eval.schema import ALL, FAULT, MODEL, USER
from spark_eval.tables.conformed import Rows, arrow_type, session_of
from spark_eval.tables.file_parts import PlainFiles
from spark_eval.tables.local_tables import LocalTable

PREDICTIONS: Final = "predictions"
# Number of the counts among the parts of tasks.
COUNTS: Final = -1
GIVEN: Final = "given"


@dataclass(frozen=True)
class PredictionTable:
    """Conformed predictions.

    ``rows`` are the input of the workers (``predictions.worker.batches.Part``). ``with_given`` also has the
    original rows: on Spark in a column, in this process in the columns ``shown``, ours by their names. A
    column ``fold`` is also a segment in ``plan``. ``files`` hold the rows if these are plain Parquet.
    """

    rows: Rows
    reading: RowReader
    with_given: Rows = None
    files: PlainFiles | None = None
    shown: Mapping[str, str] = field(default_factory=dict)

    @property
    def user_type(self) -> pa.DataType | None:
        """Type of the ids of users; None if they are not read."""
        return arrow_type(self.rows, USER) if USER in self.rows.columns else None

    @property
    def plan(self) -> PredictionPlan:
        """Plan of the measurement."""
        return self.reading.plan

    @property
    def session(self) -> Any:
        """Spark session of the rows; None in this process."""
        return session_of(self.rows)

    @property
    def named(self) -> Any:
        """Original rows with error codes, and with the name of their model."""
        model = self.reading.model
        if model is None:
            return self.given
        if isinstance(self.rows, LocalTable):
            given = self.given
            schema = pa.schema({**{one.name: one.type for one in given.schema}, MODEL: pa.string()})
            return given.map(lambda batches: (with_model(batch, model, schema) for batch in batches), schema)
        from pyspark.sql import functions as F

        return self.given.withColumn(MODEL, F.lit(model))

    @property
    def given(self) -> Any:
        """Original rows, with an error code for each invalid row."""
        reading, shown = self.reading, self.shown
        if isinstance(self.rows, LocalTable):
            kinds = {name: self.with_given.schema.field(ours).type for name, ours in shown.items()}

            read = self.rows.columns

            def judge_shown(batches: Batches) -> Iterator[pa.RecordBatch]:
                for batch in batches:
                    codes = reading.with_codes(pa.Table.from_batches([batch.select(read)]))
                    yield pa.record_batch([*(batch[ours] for ours in shown.values()), codes], [*shown, FAULT])

            return map_rows(self.with_given, judge_shown, pa.schema({**kinds, FAULT: pa.string()}))
        from pyspark.sql import types as T

        def judge(batches: Batches) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                codes = reading.with_codes(pa.Table.from_batches([batch]))
                given = pa.RecordBatch.from_struct_array(batch[GIVEN])
                yield given.append_column(FAULT, codes)

        schema = self.with_given.select(f"{GIVEN}.*").schema.add(FAULT, T.StringType())
        return self.with_given.mapInArrow(judge, schema)


def with_model(batch: pa.RecordBatch, model: str, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the name of its model, in the columns of a schema."""
    names = pa.repeat(model, batch.num_rows)
    columns = [names if name == MODEL else batch[name] for name in schema.names]
    return pa.record_batch(columns, schema.names)


def parts_of_predictions(predictions: PredictionTable) -> Any:
    """Return the parts of all rows; the workers read them from plain files, or Spark does."""
    rows, reading = predictions.rows, predictions.reading

    def parts(batches: Batches) -> Iterator[NumberedObject]:
        return ((COUNTS if isinstance(part, TaskCounts) else None, part) for part in reading.parts(batches))

    return map_table(rows, parts, predictions.files)


def counted_parts(parts: Spread) -> Spread:
    """Return the counts of the tasks; the other parts have no number, and stay where they are."""
    return rows_with(parts, NUMBER, OBJECTS.names)


def group_by_range(parts: Spread, cuts: Mapping[Cell, ScoreRanges]) -> Spread:
    """Group all sorted runs of each range, and its rows if errors are computed: the only shuffle by score."""

    def cut(part: Part) -> Iterator[NumberedObject]:
        match part:
            case ScoreRun():
                return cuts[part.cell].parts(part)
            case CellRows():
                return cuts[part.cell].parts_of_rows(part)
        return iter(())

    return group_by_key(map_objects(parts, cut), sum(cut.n_ranges for cut in cuts.values()), range_of)


def extents_of(ranges: Spread) -> Spread:
    """Return the number of rows in each range."""
    return map_objects(ranges, lambda part: [(None, RangeSize.of(part.scored))])


def measure_ranges(
    ranges: Spread, standings: Mapping[int, RangeOffset], rules: Sequence[ThresholdRule], with_curves: bool
) -> Spread:
    """Measure every range at its offset; curves are those of all rows of a model."""

    def order(part: Range | RowRange) -> Iterator[NumberedObject]:
        scored = part.scored
        is_drawn = with_curves and scored.cell[1] == ALL
        yield None, measured_range(scored, standings[part.number], rules, is_drawn)

    return map_objects(ranges, order)


def of_users(parts: Spread, n_buckets: int, reading: RowReader) -> Spread:
    """Return the sums over the users of each bucket: the only shuffle by user."""

    def divide(part: Part) -> Iterator[NumberedObject]:
        return in_buckets(part, n_buckets) if isinstance(part, pa.Table) else iter(())

    return group_by_key(map_objects(parts, divide), n_buckets, lambda _, rows: reading.totals_of_users(rows))


def placed_in_ranges(ranges: Spread, standings: Mapping[int, RangeOffset]) -> Spread:
    """Return the rows of all ranges with their placements."""
    return map_objects(ranges, lambda part: [(None, placed_rows(part, standings[part.number]))])


def sums_of_users(rows: Spread, n_buckets: int, plan: PredictionPlan) -> Spread:
    """Return the sums of each user in each cell: one shuffle by user; without users, the sums of each row."""

    def divide(part: Part) -> Iterator[NumberedObject]:
        return part.by_bucket(n_buckets) if isinstance(part, CellRows) else iter(())

    def sums_of_rows(part: Part) -> Iterator[NumberedObject]:
        for sums in add_rows_of_users([part], plan) if isinstance(part, CellRows) else ():
            yield None, [sums]

    if plan.intervals is Clusters.ROW:
        return map_objects(rows, sums_of_rows)
    return group_by_key(map_objects(rows, divide), n_buckets, lambda _, parts: add_rows_of_users(parts, plan))


def shares_of_users(sums: Spread, slopes: CellSlopes) -> Spread:
    """Return the sums of the users' shares in each value."""

    def measure(parts: Sequence[UserSums]) -> Iterator[NumberedObject]:
        return ((None, shares_of(users, slopes)) for users in parts)

    return map_objects(sums, measure)


def rows_of_users(sums: Spread, user_type: pa.DataType, plan: PredictionPlan) -> Spread:
    """Return the rows of ``per_user`` from the sums of users: those of all rows of a model."""
    known = empty_sums(user_type, plan).rows().column_names[1:]
    schema = pa.schema({MODEL: pa.string(), USER: user_type} | dict.fromkeys(known, pa.float64()))

    def rows(batches: Batches) -> Iterator[pa.RecordBatch]:
        for _, parts in unpickle_objects(batches):
            for users in parts:
                model, segment, _ = users.cell
                if segment == ALL:
                    table = users.rows().select([USER, *known])
                    named = table.add_column(0, MODEL, pa.repeat(model, len(table)))
                    yield from named.cast(schema).combine_chunks().to_batches()

    return map_parts(sums, rows, schema)
