"""Predictions: find and type their columns, and measure them on the workers, which also find invalid rows.

Rows are sent to the workers; sums, sorted ranges and users' sums are returned.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from spark_eval.arrow.files import Batches
from spark_eval.predictions.task import Class, Clusters, PredictionPlan, Scores, Task, ThresholdRule
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
from spark_eval.predictions.worker.rows import INEXACT, SCORE_COLUMN, SIZE
from spark_eval.predictions.worker.score_ranges import RangeSize, ScoreRanges
from spark_eval.predictions.worker.totals import Cell
from spark_eval.runners.objects import (
    NUMBER,
    NumberedObject,
    group_by_key,
    map_batches,
    map_files,
    map_objects,
    unpickle_objects,
)
from spark_eval.schema import (
    ALL,
    FAULT,
    FOLD,
    INPUT_COLUMNS,
    LABEL,
    MODEL,
    SCORE,
    SEGMENT_COLUMN,
    USER,
    WEIGHT,
)
from spark_eval.tables.columns import NO_MODEL
from spark_eval.tables.file_parts import PlainFiles
from spark_eval.tables.inputs import Input, fold_of, open_input
from spark_eval.tables.plain_files import plain_files, source_columns

PREDICTIONS: Final = "predictions"
# Number of the counts among the parts of tasks.
COUNTS: Final = -1
GIVEN: Final = "given"


@dataclass(frozen=True)
class PredictionTable:
    """Conformed predictions.

    ``rows`` are the input of the workers (``predictions.worker.batches.Part``). ``with_given`` also has the
    original rows. A column ``fold`` is also a segment in ``plan``. ``files`` hold the rows if these are plain
    Parquet.
    """

    rows: DataFrame
    with_given: DataFrame
    reading: RowReader
    files: PlainFiles | None = None

    @property
    def user_type(self) -> T.DataType | None:
        """Type of the ids of users; None if they are not read."""
        return self.rows.schema[USER].dataType if USER in self.rows.columns else None

    @property
    def plan(self) -> PredictionPlan:
        """Plan of the measurement."""
        return self.reading.plan

    @property
    def given(self) -> DataFrame:
        """Original rows, with an error code for each invalid row."""
        reading = self.reading

        def judge(batches: Batches) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                codes = reading.with_codes(pa.Table.from_batches([batch]))
                given = pa.RecordBatch.from_struct_array(batch[GIVEN])
                yield given.append_column(FAULT, codes)

        schema = self.with_given.select(f"{GIVEN}.*").schema.add(FAULT, T.StringType())
        return self.with_given.mapInArrow(judge, schema)


def conform_predictions(
    frame: DataFrame, names: Mapping[str, str] | None, model: str | None, plan: PredictionPlan
) -> PredictionTable:
    """Return the predictions; raise DataError with all errors of the table's columns."""
    table = open_input(frame, PREDICTIONS, names)
    fold = fold_of(table)
    plan = replace(plan, segments=(*plan.segments, *fold))
    columns: dict[str, Column] = {}
    if model is None:
        if not table.has(MODEL):
            table.fault("MISSING_MODEL", NO_MODEL)
        columns[MODEL] = table.text(MODEL)
    if plan.reads_users:
        columns[USER] = table.id(USER)
    columns[LABEL] = label_of(table, plan)
    columns |= scores_of(table, plan)
    if table.has(WEIGHT):
        columns[WEIGHT] = table.number(WEIGHT, "WEIGHT_NOT_NUMERIC")
    for place, segment in enumerate(plan.segments):
        columns[SEGMENT_COLUMN.format(place)] = table.text(segment)
    table.check()
    shown = [name for name in INPUT_COLUMNS[PREDICTIONS] if table.has(name)] + list(plan.probabilities)
    given = [given_column(table, name).alias(name) for name in shown]
    rows = [column.alias(name) for name, column in columns.items()]
    with_given = frame.select(F.struct(*given).alias(GIVEN), *rows)
    return PredictionTable(frame.select(*rows), with_given, RowReader(plan, model))


def given_column(table: Input, name: str) -> Column:
    """Return an original column; as text if the workers lack its type."""
    try:
        to_arrow_schema(T.StructType([T.StructField(name, table.kind(name))]))
    except PySparkTypeError:
        return table.column(name).cast("string")
    return table.column(name)


def label_of(table: Input, plan: PredictionPlan) -> Column:
    """Return the label as a number, or as its class."""
    if plan.task is Task.REGRESSION:
        return table.number(LABEL, "LABEL_NOT_NUMERIC")
    return class_of(table, LABEL, plan.classes)


def scores_of(table: Input, plan: PredictionPlan) -> dict[str, Column]:
    """Return the columns of the scores: numbers or classes."""
    if plan.scores is Scores.CLASS:
        return {SCORE: class_of(table, SCORE, plan.classes)}
    if plan.task is not Task.MULTICLASS:
        score = table.number(SCORE, "SCORE_NOT_NUMERIC")
        if isinstance(table.kind(SCORE), T.DecimalType):
            return {SCORE: score, INEXACT: table.is_inexact(SCORE)}
        # The workers find the longs that a double cannot represent.
        return {SCORE: table.column(SCORE) if isinstance(table.kind(SCORE), T.LongType) else score}
    if not plan.probabilities:
        return elements(table, len(plan.classes))
    scores = [table.number(name, "SCORE_NOT_NUMERIC") for name in plan.probabilities]
    return {SCORE_COLUMN.format(place): score for place, score in enumerate(scores)}


def elements(table: Input, n_classes: int) -> dict[str, Column]:
    """Return one column per class from an array of probabilities, and the length of the array."""
    array, kind = table.column(SCORE), table.kind(SCORE)
    if not isinstance(kind, T.ArrayType | T.NullType):
        table.fault(
            "NOT_AN_ARRAY", f"scores of several classes are an array, or columns: {kind.simpleString()}"
        )
        return {}
    scores = [F.get(array, F.lit(place)).cast("double") for place in range(n_classes)]
    return {SIZE: F.size(array)} | {SCORE_COLUMN.format(place): score for place, score in enumerate(scores)}


def class_of(table: Input, name: str, classes: Sequence[Class]) -> Column:
    """Return a column of classes: text or numbers."""
    kind = table.kind(name)
    is_text = isinstance(kind, T.StringType)
    known = ", ".join(map(repr, classes[:3]))
    if not isinstance(kind, T.StringType | T.NumericType | T.BooleanType | T.NullType):
        table.fault("CLASS_TYPE_MISMATCH", f"column {name!r} is {kind.simpleString()}; no class is")
    elif is_text != isinstance(classes[0], str) and not isinstance(kind, T.NullType):
        message = f"column {name!r} is {kind.simpleString()}, the classes are {known}; write both alike"
        table.fault("CLASS_TYPE_MISMATCH", message)
    return table.column(name) if is_text else table.column(name).cast("double")


def parts_of_predictions(predictions: PredictionTable) -> DataFrame:
    """Return the parts of all rows; the workers read them from plain files, or Spark does."""
    rows, files, reading = predictions.rows, predictions.files, predictions.reading

    def parts(batches: Batches) -> Iterator[NumberedObject]:
        return ((COUNTS if isinstance(part, TaskCounts) else None, part) for part in reading.parts(batches))

    return map_batches(rows, parts) if files is None else map_files(rows.sparkSession, files, parts)


def counted_parts(parts: DataFrame) -> DataFrame:
    """Return the counts of the tasks; the other parts stay in the JVM."""
    return parts.where(F.col(NUMBER) == COUNTS)


def group_by_range(parts: DataFrame, cuts: Mapping[Cell, ScoreRanges]) -> DataFrame:
    """Group all sorted runs of each range, and its rows if errors are computed: the only shuffle by score."""

    def cut(part: Part) -> Iterator[NumberedObject]:
        match part:
            case ScoreRun():
                return cuts[part.cell].parts(part)
            case CellRows():
                return cuts[part.cell].parts_of_rows(part)
        return iter(())

    return group_by_key(map_objects(parts, cut), sum(cut.n_ranges for cut in cuts.values()), range_of)


def extents_of(ranges: DataFrame) -> DataFrame:
    """Return the number of rows in each range."""
    return map_objects(ranges, lambda part: [(None, RangeSize.of(part.scored))])


def measure_ranges(
    ranges: DataFrame, standings: Mapping[int, RangeOffset], rules: Sequence[ThresholdRule], with_curves: bool
) -> DataFrame:
    """Measure every range at its offset; curves are those of all rows of a model."""

    def order(part: Range | RowRange) -> Iterator[NumberedObject]:
        scored = part.scored
        is_drawn = with_curves and scored.cell[1] == ALL
        yield None, measured_range(scored, standings[part.number], rules, is_drawn)

    return map_objects(ranges, order)


def of_users(parts: DataFrame, n_buckets: int, reading: RowReader) -> DataFrame:
    """Return the sums over the users of each bucket: the only shuffle by user."""

    def divide(part: Part) -> Iterator[NumberedObject]:
        return in_buckets(part, n_buckets) if isinstance(part, pa.Table) else iter(())

    return group_by_key(map_objects(parts, divide), n_buckets, lambda _, rows: reading.totals_of_users(rows))


def placed_in_ranges(ranges: DataFrame, standings: Mapping[int, RangeOffset]) -> DataFrame:
    """Return the rows of all ranges with their placements."""
    return map_objects(ranges, lambda part: [(None, placed_rows(part, standings[part.number]))])


def sums_of_users(rows: DataFrame, n_buckets: int, plan: PredictionPlan) -> DataFrame:
    """Return the sums of each user in each cell: one shuffle by user; without users, the sums of each row."""

    def divide(part: Part) -> Iterator[NumberedObject]:
        return part.by_bucket(n_buckets) if isinstance(part, CellRows) else iter(())

    def sums_of_rows(part: Part) -> Iterator[NumberedObject]:
        for sums in add_rows_of_users([part], plan) if isinstance(part, CellRows) else ():
            yield None, [sums]

    if plan.intervals is Clusters.ROW:
        return map_objects(rows, sums_of_rows)
    return group_by_key(map_objects(rows, divide), n_buckets, lambda _, parts: add_rows_of_users(parts, plan))


def shares_of_users(sums: DataFrame, slopes: CellSlopes) -> DataFrame:
    """Return the sums of the users' shares in each value."""

    def measure(parts: Sequence[UserSums]) -> Iterator[NumberedObject]:
        return ((None, shares_of(users, slopes)) for users in parts)

    return map_objects(sums, measure)


def rows_of_users(sums: DataFrame, user_type: T.DataType, plan: PredictionPlan) -> DataFrame:
    """Return the rows of ``per_user`` from the sums of users: those of all rows of a model."""
    is_text = isinstance(user_type, T.StringType)
    known = empty_sums(pa.string() if is_text else pa.int64(), plan).rows().column_names[1:]
    numbers = [T.StructField(name, T.DoubleType()) for name in known]
    ids = T.StructField(USER, T.StringType() if is_text else T.LongType())
    schema = T.StructType([T.StructField(MODEL, T.StringType()), ids, *numbers])

    def rows(batches: Batches) -> Iterator[pa.RecordBatch]:
        for _, parts in unpickle_objects(batches):
            for users in parts:
                model, segment, _ = users.cell
                if segment == ALL:
                    table = users.rows().select([USER, *known])
                    named = table.add_column(0, MODEL, pa.repeat(model, len(table)))
                    yield from named.combine_chunks().to_batches()

    return sums.mapInArrow(rows, schema).withColumn(USER, F.col(USER).cast(user_type))


def plain_predictions(
    frame: DataFrame, names: Mapping[str, str], model: str | None, plan: PredictionPlan
) -> PlainFiles | None:
    """Return the files of predictions if they are plain and each row has one score, otherwise None.

    Segments are the columns ``segment_0``, ``segment_1`` and so on.
    """
    if plan.task is Task.MULTICLASS or plan.scores is Scores.CLASS:
        return None
    ours = [LABEL, SCORE, *([MODEL] if model is None else []), *([USER] if plan.reads_users else [])]
    as_text = {
        SEGMENT_COLUMN.format(place): names.get(name, name) for place, name in enumerate(plan.segments)
    }
    columns = source_columns(frame, names, ours, [WEIGHT, FOLD]) | as_text
    files = plain_files(frame, columns)
    if files is None:
        return None
    # Arrow formats these types as Spark does.
    kinds = [frame.schema[columns[name]].dataType for name in columns if name in (MODEL, *as_text)]
    return files if all(isinstance(kind, T.StringType | T.IntegralType) for kind in kinds) else None
