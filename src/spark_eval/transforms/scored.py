"""The doors to the workers for predictions: rows go in, sums, sorted ranges and users' sums come back."""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame

from spark_eval.pointwise.batches import Counted, Part, Reading
from spark_eval.pointwise.cuts import Cut, Extent
from spark_eval.pointwise.ordered import Range, Run, Standing, ordered
from spark_eval.pointwise.task import Rule
from spark_eval.pointwise.totals import Cell
from spark_eval.pointwise.users import in_buckets
from spark_eval.schema import ALL
from spark_eval.transforms.objects import Batches, Made, each, made, made_of_files, together
from spark_eval.transforms.predictions import Predictions


def parts_of(predictions: Predictions) -> DataFrame:
    """Return the parts of all rows: read by the workers from plain files, or through Spark."""
    rows, files, reading = predictions.rows, predictions.files, predictions.reading

    def parts(batches: Batches) -> Iterator[Made]:
        return ((None, part) for part in reading.parts(batches))

    return made(rows, parts) if files is None else made_of_files(rows.sparkSession, files, parts)


def counts_of(parts: DataFrame) -> DataFrame:
    """Return what the tasks have counted."""
    return each(parts, lambda part: [(None, part)] if isinstance(part, Counted) else [])


def in_ranges(parts: DataFrame, cuts: Mapping[Cell, Cut]) -> DataFrame:
    """Put all runs of each range together: the one shuffle by score."""

    def cut(part: Part) -> Iterator[Made]:
        return cuts[part.cell].parts(part) if isinstance(part, Run) else iter(())

    return together(each(parts, cut), sum(cut.n_ranges for cut in cuts.values()), Range.of)


def extents_of(ranges: DataFrame) -> DataFrame:
    """Return how much there is in each range."""
    return each(ranges, lambda part: [(None, Extent.of(part))])


def in_order(
    ranges: DataFrame, standings: Mapping[int, Standing], rules: Sequence[Rule], with_curves: bool
) -> DataFrame:
    """Return what every range gives where it stands; curves are those of all rows of a model."""

    def order(part: Range) -> Iterator[Made]:
        is_drawn = with_curves and part.cell[1] == ALL
        yield None, ordered(part, standings[part.number], rules, is_drawn)

    return each(ranges, order)


def of_users(parts: DataFrame, n_buckets: int, reading: Reading) -> DataFrame:
    """Return the sums over the users of each bucket: the one shuffle by user."""

    def divide(part: Part) -> Iterator[Made]:
        return in_buckets(part, n_buckets) if isinstance(part, pa.Table) else iter(())

    return together(each(parts, divide), n_buckets, lambda _, rows: reading.totals_of_users(rows))
