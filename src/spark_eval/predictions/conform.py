"""Predictions on Spark: find and type their columns."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.errors import PySparkTypeError
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from spark_eval.predictions.measure import GIVEN, PREDICTIONS, PredictionTable
from spark_eval.predictions.task import Class, PredictionPlan, Scores, Task
from spark_eval.predictions.worker.batches import RowReader
from spark_eval.predictions.worker.rows import INEXACT, SCORE_COLUMN, SIZE
from spark_eval.runners.rows import SparkRows
from spark_eval.schema import FOLD, INPUT_COLUMNS, LABEL, MODEL, SCORE, SEGMENT_COLUMN, USER, WEIGHT
from spark_eval.tables.columns import NO_MODEL
from spark_eval.tables.file_parts import PlainFiles
from spark_eval.tables.inputs import Input, fold_of, open_input
from spark_eval.tables.plain_files import plain_files, source_columns


def read_predictions(
    frame: DataFrame, columns: Mapping[str, str] | None, model: str | None, plan: PredictionPlan
) -> PredictionTable:
    """Return the conformed predictions, with their files if the executors can read these."""
    predictions = conform_predictions(frame, columns, model, plan)
    files = plain_predictions(frame, columns or {}, model, predictions.plan)
    return predictions if files is None else replace(predictions, rows=predictions.rows.of_files(files))


def conform_predictions(
    frame: DataFrame, names: Mapping[str, str] | None, model: str | None, plan: PredictionPlan
) -> PredictionTable:
    """Return the predictions; raise DataError with all errors of the table's columns."""
    table = open_input(frame, PREDICTIONS, names)
    fold = fold_of(table)
    plan = replace(plan, segments=(*plan.segments, *fold))
    columns: dict[str, Column] = {}
    if model is None:
        if table.has(MODEL):
            columns[MODEL] = table.text(MODEL)
        else:
            table.fault("MISSING_MODEL", NO_MODEL)
    if plan.reads_users:
        columns[USER] = table.id(USER)
    columns[LABEL] = label_of(table, plan)
    columns |= scores_of(table, plan)
    if table.has(WEIGHT):
        columns[WEIGHT] = table.number(WEIGHT, "WEIGHT_NOT_NUMERIC")
    for index, segment in enumerate(plan.segments):
        columns[SEGMENT_COLUMN.format(index)] = table.text(segment)
    table.check()
    names_given = [name for name in INPUT_COLUMNS[PREDICTIONS] if table.has(name)] + list(plan.probabilities)
    given = [given_column(table, name).alias(name) for name in names_given]
    rows = [column.alias(name) for name, column in columns.items()]
    original_rows = frame.select(F.struct(*given).alias(GIVEN), *rows)
    conformed = SparkRows(frame.select(*rows))
    return PredictionTable(conformed, RowReader(plan, model), SparkRows(original_rows))


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
    return {SCORE_COLUMN.format(index): score for index, score in enumerate(scores)}


def elements(table: Input, n_classes: int) -> dict[str, Column]:
    """Return one column per class from an array of probabilities, and the length of the array."""
    array, kind = table.column(SCORE), table.kind(SCORE)
    if not isinstance(kind, T.ArrayType | T.NullType):
        table.fault(
            "NOT_AN_ARRAY", f"scores of several classes are an array, or columns: {kind.simpleString()}"
        )
        return {}
    scores = [F.get(array, F.lit(index)).cast("double") for index in range(n_classes)]
    return {SIZE: F.size(array)} | {SCORE_COLUMN.format(index): score for index, score in enumerate(scores)}


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
        SEGMENT_COLUMN.format(index): names.get(name, name) for index, name in enumerate(plan.segments)
    }
    columns = source_columns(frame, names, ours, [WEIGHT, FOLD]) | as_text
    files = plain_files(frame, columns)
    if files is None:
        return None
    # Arrow formats these types as Spark does.
    kinds = [frame.schema[columns[name]].dataType for name in columns if name in (MODEL, *as_text)]
    return files if all(isinstance(kind, T.StringType | T.IntegralType) for kind in kinds) else None
