"""Predictions as they are stored, while every row is sound: then there is nothing to tell of faults."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.hashes import numbers
from spark_eval.arrow.row_faults import beyond_doubles
from spark_eval.pointwise.amounts import LARGEST_WEIGHT
from spark_eval.pointwise.batches import SCORE_COLUMN, Counted, Part, Reading
from spark_eval.pointwise.task import Plan, Scores, Task
from spark_eval.schema import FAULT, FOLD, LABEL, MISSING, MODEL, SCORE, SEGMENT_COLUMN, USER, WEIGHT
from spark_eval.stats.exact import Floats


class Unsound(Exception):
    """A row may have a fault; Spark can tell which."""


@dataclass(frozen=True)
class SoundReading:
    """How rows of plain files become parts."""

    reading: Reading

    def parts(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Part]:
        """The parts; where a row may have a fault, in the end ``Counted`` that says so."""
        try:
            yield from self.reading.parts(map(self.conformed, batches))
        except Unsound:
            yield Counted(is_sound=False)

    def conformed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns that ``conform_predictions`` makes of sound rows. Raises Unsound."""
        plan = self.reading.plan
        columns: dict[str, pa.Array | Floats] = {
            LABEL: label_of(batch[LABEL], plan),
            SCORE_COLUMN.format(0): score_of(batch[SCORE], plan),
        }
        if self.reading.has_weight:
            columns[WEIGHT] = within(whole(batch[WEIGHT]), 0.0, LARGEST_WEIGHT)
        if self.reading.model is None:
            columns[MODEL] = complete(batch[MODEL]).cast(pa.string())
        if plan.by_user:
            columns[USER] = complete(batch[USER])
        if FOLD in plan.segments:
            complete(batch[FOLD])
        for place in range(len(plan.segments)):
            name = SEGMENT_COLUMN.format(place)
            columns[name] = batch[name].cast(pa.string()).fill_null(MISSING)
        columns[FAULT] = pa.nulls(batch.num_rows, pa.string())
        return pa.RecordBatch.from_pydict(columns)


def label_of(column: pa.Array, plan: Plan) -> Floats:
    """The label as a number, or the place of its class."""
    if plan.task is Task.REGRESSION:
        return finite(whole(column))
    negative, positive = plan.classes
    if isinstance(positive, str):
        classes = [numbers(pc.equal(complete(column), one)) for one in (negative, positive)]
    else:
        label = whole(column)
        classes = [label == float(one) for one in (negative, positive)]
    if not (classes[0] | classes[1]).all():
        raise Unsound
    return classes[1].astype(np.float64)


def score_of(column: pa.Array, plan: Plan) -> Floats:
    """The score as a number."""
    score = whole(column)
    if (plan.by_score or plan.by_user) and pc.any(beyond_doubles(column)).as_py():
        raise Unsound
    return within(score, 0.0, 1.0) if plan.scores is Scores.PROBABILITY else finite(score)


def complete(column: pa.Array) -> pa.Array:
    """The column, unless it has a null."""
    if column.null_count:
        raise Unsound
    return column


def whole(column: pa.Array) -> Floats:
    """A column of numbers without a null, as doubles."""
    return numbers(complete(column)).astype(np.float64, copy=False)


def within(values: Floats, least: float, most: float) -> Floats:
    """The values, if none lies outside or is no number."""
    if not ((values >= least) & (values <= most)).all():
        raise Unsound
    return values


def finite(values: Floats) -> Floats:
    """The values, if each is a finite number."""
    if not np.isfinite(values).all():
        raise Unsound
    return values
