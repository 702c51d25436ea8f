"""Columns that are read of predictions, and predictions of this process with them. No Spark here."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from spark_eval.errors import DataError
from spark_eval.predictions.measure import PREDICTIONS, PredictionTable
from spark_eval.predictions.task import PredictionPlan, Scores, Task
from spark_eval.predictions.worker.batches import RowReader
from spark_eval.predictions.worker.rows import SCORE_COLUMN
from spark_eval.runners.local_rows import normal
from spark_eval.runners.local_tables import (
    NUMBERS,
    NotPlain,
    OpenedTable,
    Takes,
    Wanted,
    is_id,
    is_number,
    is_whole,
    local_table,
)
from spark_eval.schema import FOLD, INPUT_COLUMNS, LABEL, MODEL, SCORE, SEGMENT_COLUMN, USER, WEIGHT
from spark_eval.tables.columns import NO_MODEL, check_mapping, missing_column


def local_predictions(
    found: OpenedTable, columns: Mapping[str, str] | None, model: str | None, plan: PredictionPlan
) -> PredictionTable:
    """Return an opened table as predictions of this process.

    Raises NotPlain if only Spark can judge it, and one DataError for columns that are missing.
    """
    names, there = columns or {}, found[2].names
    check_mapping(PREDICTIONS, names)
    if FOLD in names or FOLD in there:
        plan = replace(plan, segments=(*plan.segments, FOLD))
    theirs = {SEGMENT_COLUMN.format(index): name for index, name in enumerate(plan.segments)}
    theirs |= {SCORE_COLUMN.format(index): name for index, name in enumerate(plan.probabilities)}
    mapped = dict(names) | {ours: names.get(name, name) for ours, name in theirs.items()}

    def missing(ours: str, _: Sequence[str]) -> DataError:
        if ours == MODEL and MODEL not in names:
            return DataError("MISSING_MODEL", f"{PREDICTIONS}: {NO_MODEL}")
        return missing_column(PREDICTIONS, theirs.get(ours, ours), names, there)

    needed = needed_columns(plan, model)
    given = [name for name in INPUT_COLUMNS[PREDICTIONS] if is_readable(found[2], names.get(name, name))]
    optional: dict[str, Takes] = {name: is_any for name in given if name not in needed}
    wanted = Wanted(needed, {**optional, WEIGHT: is_number}, missing)
    table = local_table(PREDICTIONS, found, mapped, wanted)
    rows = [name for name in table.columns if name in needed or name == WEIGHT]
    scores = {name: SCORE_COLUMN.format(index) for index, name in enumerate(plan.probabilities)}
    original_names = {name: name for name in given} | scores
    return PredictionTable(table.select(*rows), RowReader(plan, model), table, original_names=original_names)


def is_readable(schema: pa.Schema, name: str) -> bool:
    """Return True for a column with a type that this process reads."""
    return name in schema.names and normal(schema.field(name).type) in (*NUMBERS, pa.string(), pa.bool_())


def is_any(_: pa.DataType) -> bool:
    """Return True: the column is only original_names."""
    return True


def needed_columns(plan: PredictionPlan, model: str | None) -> dict[str, Takes]:
    """Return the columns that are read, each with a test of its type; NotPlain if only Spark reads them."""
    if plan.task is Task.MULTICLASS and plan.scores is not Scores.CLASS and not plan.probabilities:
        raise NotPlain(f"{PREDICTIONS} have arrays of probabilities")
    label: Takes = is_number if plan.task is Task.REGRESSION else classes_like(plan)
    scores: dict[str, Takes] = {
        SCORE_COLUMN.format(index): is_number for index in range(len(plan.probabilities))
    }
    segments = {
        SEGMENT_COLUMN.format(index): is_whole if name == FOLD else is_id
        for index, name in enumerate(plan.segments)
    }
    return {
        **({MODEL: is_id} if model is None else {}),
        **({USER: is_id} if plan.reads_users else {}),
        LABEL: label,
        **(scores or {SCORE: label if plan.scores is Scores.CLASS else is_number}),
        **segments,
    }


def classes_like(plan: PredictionPlan) -> Takes:
    """Return the test of types of classes like those of the plan: text, or numbers and booleans."""
    kinds = [pa.string()] if isinstance(plan.classes[0], str) else [*NUMBERS, pa.bool_()]
    return lambda kind: kind in kinds
