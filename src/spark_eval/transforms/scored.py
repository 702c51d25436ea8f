"""The doors to the workers for predictions: rows go in, sums, sorted ranges and users' sums come back."""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame

from spark_eval.arrow.files import Batches
from spark_eval.pointwise.batches import Counted, Part, Reading, in_buckets
from spark_eval.pointwise.cuts import Extent, ScoreCut
from spark_eval.pointwise.ordered import Range, ScoreRun, Standing, measured_range
from spark_eval.pointwise.task import ThresholdRule
from spark_eval.pointwise.totals import Cell
from spark_eval.schema import ALL
from spark_eval.transforms.objects import NumberedObject, made, made_of_each, made_of_files, met_by_number
from spark_eval.transforms.predictions import Predictions


def parts_of_predictions(predictions: Predictions) -> DataFrame:
    """Return the parts of all rows: read by the workers from plain files, or through Spark."""
    rows, files, reading = predictions.rows, predictions.files, predictions.reading

    def parts(batches: Batches) -> Iterator[NumberedObject]:
        return ((None, part) for part in reading.parts(batches))

    return made(rows, parts) if files is None else made_of_files(rows.sparkSession, files, parts)


def counted_parts(parts: DataFrame) -> DataFrame:
    """Return what the tasks have counted."""
    return made_of_each(parts, lambda part: [(None, part)] if isinstance(part, Counted) else [])


def in_ranges(parts: DataFrame, cuts: Mapping[Cell, ScoreCut]) -> DataFrame:
    """Put all runs of each range together: the one shuffle by score."""

    def cut(part: Part) -> Iterator[NumberedObject]:
        return cuts[part.cell].parts(part) if isinstance(part, ScoreRun) else iter(())

    return met_by_number(made_of_each(parts, cut), sum(cut.n_ranges for cut in cuts.values()), Range.of)


def extents_of(ranges: DataFrame) -> DataFrame:
    """Return how much there is in each range."""
    return made_of_each(ranges, lambda part: [(None, Extent.of(part))])


def in_order(
    ranges: DataFrame, standings: Mapping[int, Standing], rules: Sequence[ThresholdRule], with_curves: bool
) -> DataFrame:
    """Return what every range gives where it stands; curves are those of all rows of a model."""

    def order(part: Range) -> Iterator[NumberedObject]:
        is_drawn = with_curves and part.cell[1] == ALL
        yield None, measured_range(part, standings[part.number], rules, is_drawn)

    return made_of_each(ranges, order)


def of_users(parts: DataFrame, n_buckets: int, reading: Reading) -> DataFrame:
    """Return the sums over the users of each bucket: the one shuffle by user."""

    def divide(part: Part) -> Iterator[NumberedObject]:
        return in_buckets(part, n_buckets) if isinstance(part, pa.Table) else iter(())

    return met_by_number(
        made_of_each(parts, divide), n_buckets, lambda _, rows: reading.totals_of_users(rows)
    )
