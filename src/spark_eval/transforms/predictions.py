"""Predictions as they come: columns found and typed, every unusable row with the code of its fault."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add, or_
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_eval.pointwise.amounts import LARGEST_WEIGHT
from spark_eval.pointwise.batches import SCORE_COLUMN
from spark_eval.pointwise.task import Class, Plan, Scores, Task
from spark_eval.schema import (
    FAULT,
    FOLD,
    ITEM,
    LABEL,
    MISSING,
    MODEL,
    SCORE,
    SEGMENT_COLUMN,
    USER,
    WEIGHT,
    Fault,
)
from spark_eval.transforms.conform import any_null, first_fault, is_finite
from spark_eval.transforms.inputs import NO_MODEL, Input, fold_of, open_input
from spark_eval.transforms.plain_files import PlainFiles

SOURCE: Final = "predictions"
COLUMNS: Final = (LABEL, SCORE, USER, ITEM, MODEL, WEIGHT, FOLD)
# How far from 1 the probabilities of a row may add up: those of 32 bits do.
DISTRIBUTION_TOLERANCE: Final = 1e-3


@dataclass(frozen=True)
class Predictions:
    """Conformed predictions.

    ``rows`` are what is measured: label as a number or the place of its class, a score column each,
    model, user, weight and segments where there are any, fault. ``given`` are the same rows as they came,
    with their faults. ``model`` names the only model, if no column does. ``plan`` is theirs: where there is a
    column ``fold``, that is a segment, too. ``files`` hold the rows, where these are plain Parquet.
    """

    rows: DataFrame
    given: DataFrame
    model: str | None
    n_scores: int
    plan: Plan
    files: PlainFiles | None = None

    @property
    def has_weight(self) -> bool:
        """Whether rows have weights."""
        return WEIGHT in self.rows.columns


def conform_predictions(
    frame: DataFrame, names: Mapping[str, str] | None, model: str | None, plan: Plan
) -> Predictions:
    """The predictions; DataError with all that is wrong with the table's columns."""
    table = open_input(frame, SOURCE, names, COLUMNS)
    fold = fold_of(table)
    plan = replace(plan, segments=(*plan.segments, *fold))
    faults: dict[Fault, Column] = {}
    columns: dict[str, Column] = {}
    if model is None:
        if not table.has(MODEL):
            table.fault("MISSING_MODEL", NO_MODEL)
        columns[MODEL] = table.text(MODEL)
        faults[Fault.NULL_MODEL] = columns[MODEL].isNull()
    if plan.by_user:
        columns[USER] = table.id(USER)
    keys = [*fold.values(), *(columns[name] for name in columns if name == USER)]
    if keys:
        faults[Fault.NULL_ID] = any_null(*keys)
    columns[LABEL] = label_of(table, plan, faults)
    scores = scores_of(table, plan, faults)
    columns |= {SCORE_COLUMN.format(place): score for place, score in enumerate(scores)}
    if table.has(WEIGHT):
        weight = columns[WEIGHT] = table.number(WEIGHT, "WEIGHT_NOT_NUMERIC")
        faults[Fault.NULL_WEIGHT] = weight.isNull()
        faults[Fault.WEIGHT_OUT_OF_RANGE] = ~weight.between(0.0, LARGEST_WEIGHT)
    for place, segment in enumerate(plan.segments):
        value = F.coalesce(table.text(segment), F.lit(MISSING))
        columns[SEGMENT_COLUMN.format(place)] = value
    table.check()
    fault = first_fault(faults).alias(FAULT)
    given = [table.column(name).alias(name) for name in COLUMNS if table.has(name)]
    given += [table.column(name).alias(name) for name in plan.probabilities]
    return Predictions(
        frame.select(*(column.alias(name) for name, column in columns.items()), fault),
        frame.select(*given, fault),
        model,
        len(scores),
        plan,
    )


def label_of(table: Input, plan: Plan, faults: dict[Fault, Column]) -> Column:
    """The label as a number, or as the place of its class."""
    label = table.column(LABEL)
    faults[Fault.NULL_LABEL] = label.isNull()
    if plan.task is Task.REGRESSION:
        number = table.number(LABEL, "LABEL_NOT_NUMERIC")
        faults[Fault.LABEL_NOT_FINITE] = ~is_finite(number)
        return number
    place = place_of(table, LABEL, plan.classes)
    faults[Fault.UNKNOWN_CLASS] = place.isNull()
    return place


def scores_of(table: Input, plan: Plan, faults: dict[Fault, Column]) -> list[Column]:
    """A column per score: numbers, or the place of a class."""
    if plan.scores is Scores.CLASS:
        score, place = table.column(SCORE), place_of(table, SCORE, plan.classes)
        faults[Fault.NULL_SCORE] = score.isNull()
        faults[Fault.UNKNOWN_CLASS] = faults.pop(Fault.UNKNOWN_CLASS) | place.isNull()
        return [place]
    if plan.task is not Task.MULTICLASS:
        scores = [table.number(SCORE, "SCORE_NOT_NUMERIC")]
    elif plan.probabilities:
        scores = [table.number(name, "SCORE_NOT_NUMERIC") for name in plan.probabilities]
    else:
        scores = elements(table, len(plan.classes), faults)
    faults[Fault.NULL_SCORE] = any_of(score.isNull() for score in scores)
    faults[Fault.SCORE_NOT_FINITE] = any_of(~is_finite(score) for score in scores)
    if plan.by_score or plan.by_user:
        faults[Fault.SCORE_NOT_EXACT] = table.is_inexact(SCORE)
    if plan.scores is Scores.PROBABILITY:
        faults[Fault.NOT_A_PROBABILITY] = any_of(~score.between(0.0, 1.0) for score in scores)
    if plan.task is Task.MULTICLASS:
        gap = F.abs(reduce(add, scores) - 1)
        others = [faults[Fault.NO_DISTRIBUTION]] if Fault.NO_DISTRIBUTION in faults else []
        faults[Fault.NO_DISTRIBUTION] = any_of([*others, gap > DISTRIBUTION_TOLERANCE])
    return scores


def elements(table: Input, n_classes: int, faults: dict[Fault, Column]) -> list[Column]:
    """The probabilities in an array, which has one per class."""
    array, kind = table.column(SCORE), table.kind(SCORE)
    if not isinstance(kind, T.ArrayType | T.NullType):
        table.fault(
            "NOT_AN_ARRAY", f"scores of several classes are an array, or columns: {kind.simpleString()}"
        )
        return [F.lit(None).cast("double")] * n_classes
    faults[Fault.NO_DISTRIBUTION] = F.size(array) != n_classes
    return [F.get(array, F.lit(place)).cast("double") for place in range(n_classes)]


def place_of(table: Input, name: str, classes: Sequence[Class]) -> Column:
    """The place of a column's class among the classes, as a double; null for any other."""
    column, kind = table.column(name), table.kind(name)
    if not isinstance(kind, T.StringType | T.NumericType | T.BooleanType | T.NullType):
        table.fault("CLASS_TYPE_MISMATCH", f"column {name!r} is {kind.simpleString()}; no class is")
        return F.lit(None).cast("double")
    is_text = isinstance(kind, T.StringType)
    if is_text != isinstance(classes[0], str) and not isinstance(kind, T.NullType):
        known = ", ".join(map(repr, classes[:3]))
        message = f"column {name!r} is {kind.simpleString()}, the classes are {known}; write both alike"
        table.fault("CLASS_TYPE_MISMATCH", message)
        return F.lit(None).cast("double")
    value = column if is_text else column.cast("double")
    wanted = classes if is_text else [float(one) for one in classes]
    return F.coalesce(*(F.when(value == one, float(place)) for place, one in enumerate(wanted)))


def any_of(conditions: Iterable[Column]) -> Column:
    """Whether one of the conditions holds."""
    return reduce(or_, conditions)
