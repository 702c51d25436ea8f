"""Columns of predictions: what is read of them, as the plan asks for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from spark_eval.errors import ConfigError
from spark_eval.predictions.measure import ORIGINAL_COLUMN, PREDICTIONS, PredictionTable
from spark_eval.predictions.task import PredictionPlan, Scores, Task
from spark_eval.predictions.worker.batches import RowReader
from spark_eval.predictions.worker.rows import SCORE_COLUMN
from spark_eval.runners.rows import Rows
from spark_eval.schema import FOLD, INPUT_COLUMNS, LABEL, MODEL, REPEAT, SCORE, SEGMENT_COLUMN, USER, WEIGHT
from spark_eval.tables.spec import Column, Kind, SpecOf, TableSpec

NO_FOLD = "FOLD_NOT_INTEGER"


def specs_of(plan: PredictionPlan, model: str | None) -> SpecOf:
    """Return the specs of predictions of a model, or of those that a column names."""
    return partial(spec_of, plan, model)


def spec_of(plan: PredictionPlan, model: str | None, name: str, columns: Sequence[str]) -> TableSpec:
    """Return the spec of predictions with these columns.

    Raises ConfigError NOT_BY_REPEAT for a column ``repeat`` that is no segment: the repeats would be pooled.
    """
    if REPEAT in columns and REPEAT not in plan.segments:
        message = f"{name} have a column {REPEAT}, and are not measured by repeat; evaluate one repeat"
        raise ConfigError("NOT_BY_REPEAT", f"{message}, or leave the column out")
    read = [
        *([Column(MODEL, Kind.TEXT)] if model is None else []),
        *([Column(USER, Kind.ID)] if plan.reads_users else []),
        label_column(plan),
        *score_columns(plan),
        Column(WEIGHT, Kind.NUMBER, is_needed=False, code="WEIGHT_NOT_NUMERIC"),
        *segment_columns(plan, columns),
    ]
    originals = [
        Column(ORIGINAL_COLUMN.format(one), Kind.ORIGINAL, is_needed=False, named=one)
        for one in (*INPUT_COLUMNS[name], *plan.probabilities)
    ]
    return TableSpec(name, [*read, *originals], is_judged_by_workers=True)


def label_column(plan: PredictionPlan) -> Column:
    """Return the column of labels: numbers, or classes."""
    if plan.task is Task.REGRESSION:
        return Column(LABEL, Kind.NUMBER, code="LABEL_NOT_NUMERIC")
    return class_column(LABEL, plan)


def score_columns(plan: PredictionPlan) -> list[Column]:
    """Return the columns of scores: one, one of predicted classes, an array, or one for each class."""
    if plan.scores is Scores.CLASS:
        return [class_column(SCORE, plan)]
    if plan.task is not Task.MULTICLASS:
        return [Column(SCORE, Kind.SCORE, code="SCORE_NOT_NUMERIC")]
    if not plan.probabilities:
        needs = "scores of several classes are an array, or columns"
        return [Column(SCORE, Kind.VECTOR, code="NOT_AN_ARRAY", needs=needs)]
    return [
        Column(SCORE_COLUMN.format(number), Kind.NUMBER, code="SCORE_NOT_NUMERIC", named=one)
        for number, one in enumerate(plan.probabilities)
    ]


def class_column(name: str, plan: PredictionPlan) -> Column:
    """Return a column of classes, which are text or numbers as those of the plan."""
    known = ", ".join(map(repr, plan.classes[:3]))
    kind = Kind.CLASS_NAME if isinstance(plan.classes[0], str) else Kind.CLASS_NUMBER
    return Column(name, kind, code="CLASS_TYPE_MISMATCH", needs=f"the classes are {known}; write both alike")


def segment_columns(plan: PredictionPlan, columns: Sequence[str]) -> Iterator[Column]:
    """Yield the columns of segments, and last the fold, if the table has one: it is a segment, too."""
    for number, one in enumerate(plan.segments):
        yield Column(SEGMENT_COLUMN.format(number), Kind.TEXT, named=one)
    if FOLD in columns:
        last, needs = SEGMENT_COLUMN.format(len(plan.segments)), "folds are whole numbers"
        yield Column(last, Kind.WHOLE, code=NO_FOLD, named=FOLD, needs=needs)


def table_of(rows: Mapping[str, Rows], plan: PredictionPlan, model: str | None) -> PredictionTable:
    """Return opened predictions with the reader of their rows."""
    table = rows[PREDICTIONS]
    if SEGMENT_COLUMN.format(len(plan.segments)) in table.columns:
        plan = replace(plan, segments=(*plan.segments, FOLD))
    return PredictionTable(table, RowReader(plan, model))
