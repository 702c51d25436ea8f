"""The doors to the workers for predictions: rows go in, sums, sorted ranges and users' sums come back."""

from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql import DataFrame

from spark_eval.pointwise.batches import Counted, Part
from spark_eval.pointwise.cuts import Cut, Extent
from spark_eval.pointwise.ordered import Range, Run, Standing, ordered
from spark_eval.pointwise.task import Rule
from spark_eval.pointwise.totals import Cell
from spark_eval.pointwise.users import UserRows, totals_of_users
from spark_eval.schema import ALL
from spark_eval.transforms.objects import each, made, made_of_files, numbered, together
from spark_eval.transforms.predictions import Predictions


def parts_of(predictions: Predictions) -> DataFrame:
    """Return the parts of all rows: read by the workers from plain files, or through Spark."""
    rows, files, parts = predictions.rows, predictions.files, predictions.reading.parts
    return made(rows, parts) if files is None else made_of_files(rows.sparkSession, files, parts)


def counts_of(parts: DataFrame) -> DataFrame:
    """Return what the tasks have counted."""
    return each(parts, lambda part: [part] if isinstance(part, Counted) else [])


def in_ranges(parts: DataFrame, cuts: Mapping[Cell, Cut], n_limbs: int) -> DataFrame:
    """Put all runs of each range together: the one shuffle by score."""

    def cut(part: Part) -> Iterator[tuple[int, Run]]:
        return cuts[part.cell].parts(part) if isinstance(part, Run) else iter(())

    return together(
        numbered(parts, cut),
        sum(cut.n_ranges for cut in cuts.values()),
        lambda number, runs: Range.of(number, runs, n_limbs),
    )


def extents_of(ranges: DataFrame) -> DataFrame:
    """Return how much there is in each range."""
    return each(ranges, lambda part: [Extent.of(part)])


def in_order(
    ranges: DataFrame, standings: Mapping[int, Standing], rules: Sequence[Rule], with_curves: bool
) -> DataFrame:
    """Return what every range gives where it stands; curves are those of all rows of a model."""
    return each(
        ranges,
        lambda part: [ordered(part, standings[part.number], rules, with_curves and part.cell[1] == ALL)],
    )


def of_users(parts: DataFrame, n_buckets: int) -> DataFrame:
    """Return the sums over the users of each bucket: the one shuffle by user."""

    def divided(part: Part) -> Iterator[tuple[int, UserRows]]:
        return part.in_buckets(n_buckets) if isinstance(part, UserRows) else iter(())

    return together(numbered(parts, divided), n_buckets, lambda _, rows: totals_of_users(rows))
