"""Exact sums of pairs of models over a bucket of users, and over many buckets: they add."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Final, Self

import numpy as np

from spark_eval.arrow.hashes import Booleans
from spark_eval.pairing.cells import Crossings, PairTotals, cells_of, crossings_of
from spark_eval.pairing.drawing import Amount, values_of
from spark_eval.pairing.population import PairCounts, PairQuestion, Population
from spark_eval.pairing.products import Products, pair_products
from spark_eval.stats.differences import PairSums, RatioSums
from spark_eval.stats.exact import POINT_BITS, ByPlace, Floats, Ints, add, exact_sums, two_product

# So many values of a bucket lie in memory at once, and so many sums of products of digits.
VALUES_AT_ONCE: Final = 1 << 22
MOST_PRODUCTS: Final = 1 << 23
# Weighted values and weights of the candidate, then of the baseline.
N_AMOUNTS: Final = 4
# Rows that both have a value for, users who have any; rows that both have.
PAIR_COUNTS: Final = ("n", "n_people", "greater", "less")
N_COMMON: Final = "n_common"
PAIR_TOTALS: Final = ("baseline", "candidate")
PAIR_SQUARES: Final = ("baseline_squares", "candidate_squares", "difference_squares")


def put_products(totals: PairTotals, products: Products, grouping: Crossings, columns: slice) -> None:
    """Add what is summed in the crossings of a grouping, of some columns."""
    where, own = (grouping.place, slice(None), columns), products.of_cells(grouping.of_cells)
    counts = (own.cross[..., 0, 0], own.baseline[..., 0, 0], own.greater, own.less)
    for name, amounts in zip(PAIR_COUNTS, counts, strict=True):
        totals.put_count(name, where, amounts)
    for name, sums in sums_by_place(own).items():
        totals.put_sums(name, where, sums)


def pair_sums(totals: PairTotals, place: tuple[int, int, int]) -> PairSums:
    """Return the sums of a cell, pair and column."""
    n, greater, less = (totals.count(name, place) for name in ("n", "greater", "less"))
    return PairSums(n, greater, less, *numbers_of_pair(totals, place))


def cluster_sums(totals: PairTotals, place: tuple[int, int, int], of_rows: PairSums) -> RatioSums:
    """Return the same over users: ratios of the sums of their rows by the numbers of these."""
    n, row_squares = (Fraction(totals.count(name, place)) for name in ("n_people", "n"))
    a, b, a_squares, b_squares, differences = numbers_of_pair(totals, place)
    both, n_rows = (a_squares + b_squares - differences) / 2, Fraction(of_rows.n)
    by_rows = [b, row_squares, a, row_squares]
    products = [[b_squares, b, both, b], by_rows, [both, a, a_squares, a], by_rows]
    return RatioSums(int(n), [of_rows.candidate, n_rows, of_rows.baseline, n_rows], products)


def numbers_of_pair(totals: PairTotals, place: tuple[int, int, int]) -> list[Fraction]:
    """Return totals and squares of a cell, pair and column."""
    return [
        *(totals.number(name, place) for name in PAIR_TOTALS),
        *(totals.number(name, place, 2 * POINT_BITS) for name in PAIR_SQUARES),
    ]


def sums_by_place(products: Products) -> dict[str, ByPlace]:
    """Return sums of each pair by place: arrays (crossings, pairs, columns).

    A total is that of digits times the rows that a user has: with one row each, that of the digits.
    """
    parts = (products.baseline, products.candidate, products.cross)
    sums: dict[str, ByPlace] = {name: {} for name in (*PAIR_TOTALS, *PAIR_SQUARES)}
    n_digits = products.cross.shape[-1] - 1
    for first in np.unique(products.first).tolist():
        own = products.first == first
        for high in range(n_digits):
            for name, of_model in zip(PAIR_TOTALS, parts[:2], strict=True):
                add(sums[name], first - high, of_model[..., high + 1, 0] * own)
            for low in range(n_digits):
                place = 2 * first - high - low
                square, other, product = (part[..., high + 1, low + 1] * own for part in parts)
                for name, amounts in zip(
                    PAIR_SQUARES, (square, other, square + other - 2 * product), strict=True
                ):
                    add(sums[name], place, amounts)
    return sums


@dataclass
class BucketTotals:
    """What is summed of some buckets.

    ``clusters`` are sums over users who have rows in several folds. ``largest`` (pairs, columns) are the
    largest sizes of differences. ``ratios`` are sums for weighted means, ``largest_parts`` (pairs, means, 4)
    the largest amounts of these.
    """

    totals: PairTotals
    clusters: PairTotals
    counts: PairCounts
    largest: Floats
    ratios: PairTotals
    largest_parts: Floats

    @property
    def shape(self) -> tuple[int, int, int]:
        """The numbers of cells, pairs and columns."""
        return len(self.totals.cells), *self.largest.shape

    def __iadd__(self, other: Self) -> Self:
        """Add what is summed of other buckets."""
        for name in ("totals", "clusters", "ratios"):
            getattr(self, name).add(getattr(other, name))
        self.counts = self.counts + other.counts
        for name in ("largest", "largest_parts"):
            setattr(self, name, np.maximum(getattr(self, name), getattr(other, name)))
        return self


def sum_bucket(population: Population) -> BucketTotals:
    """Sum the pairs of a bucket, in all cells."""
    question, n_columns = population.question, len(population.question.columns)
    n_pairs = len(question.ends[0])
    segments, n_users = population.segments, len(population)
    grouped = crossings_of(segments, n_users)
    single = crossings_of(segments, n_users, crossed=False) if question.by_fold else []
    totals, clusters = (PairTotals(list(cells_of(some)), (n_pairs, n_columns)) for some in (grouped, single))
    largest = np.zeros((n_pairs, n_columns))
    for columns in column_groups(population, max(one.n_crossings for one in [*grouped, *single])):
        values = population.values(question.columns[columns])
        if question.needs_largest:
            largest[:, columns] = largest_differences(values, question)
        for grouping in grouped:
            ordered = values if grouping.n_crossings == 1 else values[:, :, grouping.order]
            put_products(totals, pair_products(ordered, question.matches, grouping.ends), grouping, columns)
        for grouping in single:
            order, starts, ends = grouping.by_person(population.person, population.folds)
            products = pair_products(values[:, :, order], question.matches, ends, starts)
            put_products(clusters, products, grouping, columns)
    for (pair, both), grouping in product(enumerate(population.common()), grouped):
        n_common = grouping.of_cells(grouping.counted(both))
        totals.put_count(N_COMMON, (grouping.place, pair), n_common[:, np.newaxis])
    ratios = sum_ratios(population, single or grouped)
    return BucketTotals(totals, clusters, population.counts(), largest, *ratios)


def largest_differences(values: Floats, question: PairQuestion) -> Floats:
    """Return the largest size of any difference of each pair; shape (pairs, columns)."""
    return np.array(
        [
            np.fmax.reduce(abs(values[right] - values[left]), axis=-1, initial=0.0)
            for left, right in zip(*question.ends, strict=True)
        ]
    )


def column_groups(population: Population, n_crossings: int) -> Iterator[slice]:
    """Yield slices of the columns: as many as may lie in memory at once."""
    question = population.question
    n_models, n_columns = len(question.models), len(question.columns)
    n_values, n_products = n_models * len(population), 32 * n_crossings * (n_models + len(question.ends[0]))
    size = max(1, min(VALUES_AT_ONCE // max(n_values, 1), MOST_PRODUCTS // n_products))
    for start in range(0, n_columns, size):
        yield slice(start, min(start + size, n_columns))


def pair_parts(left: int, right: int, column: str, weight: str) -> tuple[Amount, ...]:
    """Return the amounts of a pair of models, of users whom both have."""
    return (*Amount.parts(right, column, weight, [left]), *Amount.parts(left, column, weight, [right]))


def sum_ratios(population: Population, grouped: Sequence[Crossings]) -> tuple[PairTotals, Floats]:
    """Return the sums of all pairs in each weighted mean, and the largest amounts (pairs, means, 4)."""
    question = population.question
    lefts, rights = question.ends
    totals = PairTotals(list(cells_of(grouped)), (len(lefts), len(question.weighted)))
    largest = np.zeros((len(lefts), len(question.weighted), N_AMOUNTS))
    for mean, (column, weight) in enumerate(question.weighted):
        values = values_of(population, (column, weight), slice(None))
        for pair, (left, right) in enumerate(zip(lefts.tolist(), rights.tolist(), strict=True)):
            parts = [one.amounts(values) for one in pair_parts(left, right, column, weight)]
            amounts, is_defined = np.stack([own for own, _ in parts]), parts[0][1]
            largest[pair, mean] = abs(amounts).max(axis=1, initial=0.0)
            for grouping in grouped:
                put_amounts(
                    totals, (pair, mean), grouping, *of_people(population, grouping, amounts, is_defined)
                )
    return totals, largest


def of_people(
    population: Population, grouping: Crossings, amounts: Floats, is_defined: Booleans
) -> tuple[Floats, Ints]:
    """Return the amounts (4, m) of users who have any, over their folds, and the crossing of each."""
    if population.folds is None:
        return amounts[:, is_defined], grouping.crossing[is_defined]
    order, starts, _ = grouping.by_person(population.person, population.folds)
    is_there = np.add.reduceat(is_defined[order], starts, dtype=np.int64) > 0
    together = np.add.reduceat(amounts[:, order], starts, axis=1)
    return together[:, is_there], grouping.crossing[order[starts]][is_there]


def put_amounts(
    totals: PairTotals, place: tuple[int, int], grouping: Crossings, amounts: Floats, crossing: Ints
) -> None:
    """Add the sums of the users (m,) of each crossing, of a pair and a weighted mean."""
    where, n_crossings = (grouping.place, *place), grouping.n_crossings
    n_users = np.bincount(crossing, minlength=n_crossings)
    totals.put_count(PAIR_COUNTS[0], where, grouping.of_cells(n_users))
    numbers: list[tuple[int, ...]] = [(one,) for one in range(N_AMOUNTS)]
    numbers += combinations_with_replacement(range(N_AMOUNTS), 2)
    for own in numbers:
        by_place = ByPlace()
        for part in two_product(*amounts[list(own)]) if own[1:] else amounts[list(own)]:
            for at, sums in exact_sums(part, crossing, n_crossings).items():
                add(by_place, at, grouping.of_cells(sums))
        totals.put_sums(name_of(*own), where, by_place)


def ratio_sums(totals: PairTotals, place: tuple[int, int, int]) -> RatioSums:
    """Return the sums of a cell, pair and weighted mean: the candidate's ratio, then the baseline's."""
    amounts = range(N_AMOUNTS)
    return RatioSums(
        totals.count(PAIR_COUNTS[0], place),
        [totals.number(name_of(one), place) for one in amounts],
        [[totals.number(name_of(*sorted((one, other))), place) for other in amounts] for one in amounts],
    )


def name_of(*amounts: int) -> str:
    """Return the name of the sum of an amount, or of the products of two."""
    return " * ".join(map(str, amounts))
