"""The doors to the workers for predictions: rows go in, sums, sorted ranges and users' sums come back."""

from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql import DataFrame

from spark_eval.pointwise.batches import Part, UserRows, totals_of_users
from spark_eval.pointwise.cuts import Cut
from spark_eval.pointwise.ordered import Range, Run, Standing, ordered
from spark_eval.pointwise.task import Rule
from spark_eval.pointwise.totals import Cell
from spark_eval.schema import ALL
from spark_eval.transforms.objects import each, numbered, together


def in_ranges(parts: DataFrame, cuts: Mapping[Cell, Cut], n_limbs: int) -> DataFrame:
    """Put all runs of each range together: the one shuffle by score."""

    def cut(part: Part) -> Iterator[tuple[int, Run]]:
        return cuts[part.cell].parts(part) if isinstance(part, Run) else iter(())

    def range_of(number: int, runs: list[Run]) -> Range:
        return Range.of(runs[0].cell, number, runs, n_limbs)

    return together(numbered(parts, cut), sum(cut.n_ranges for cut in cuts.values()), range_of)


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
