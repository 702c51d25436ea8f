"""Exact sums of pairs of models over a bucket of users; the sums of buckets are added up."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, product
from math import comb
from typing import Final

import numpy as np

from spark_eval.arrow.codes import Booleans
from spark_eval.comparison.worker.ranking import quanta_of_users
from spark_eval.comparison.worker.slices import SliceAdder, SliceTotals
from spark_eval.statistics.additive import Accumulator, added_by
from spark_eval.statistics.differences import PairSums, RatioSums
from spark_eval.statistics.exact import DIGIT_BITS, POINT_BITS, DigitSums, Floats, Ints, add
from spark_eval.users.cells import PairTotals, SegmentCombinations, cells_of, combine_segments
from spark_eval.users.population import AlignedUsers, ComparisonTask, PairCounts
from spark_eval.users.products import DIGIT_BITS as PRODUCT_BITS
from spark_eval.users.products import ProductAccumulator, Products, pair_products, parts_of_users
from spark_eval.users.resampling import Amount

# Limits of memory: values of a bucket, and sums of products of digits.
VALUES_AT_ONCE: Final = 1 << 21
MOST_PRODUCTS: Final = 1 << 23
# Weighted value and weight of the baseline, then of the candidate; each is multiplied with later ones.
N_AMOUNTS: Final = 4
AMOUNT_MATCHES: Final = [(slice(n, n + 1), slice(n + 1, N_AMOUNTS)) for n in range(N_AMOUNTS - 1)]
# Counts over rows with a value of both models; "n_people" counts their users. N_COMMON: rows of both models.
PAIR_COUNTS: Final = ("n", "n_people", "greater", "less")
N_COMMON: Final = "n_common"
# Users whose rows differ in sum.
N_DIFFERING: Final = "n_differing"
PAIR_TOTALS: Final = ("baseline", "candidate")
PAIR_PRODUCTS: Final = ("baseline_squares", "candidate_squares", "products")


def add_products(
    totals: PairTotals, products: Products, grouping: SegmentCombinations, *columns: int | slice
) -> None:
    """Add the sums of all pairs in a grouping to the totals of its cells, for some columns."""
    index, own = (grouping.cell_slice, slice(None), *columns), products.of_cells(grouping.of_cells)
    counts = (own.cross[..., 0, 0], own.baseline[..., 0, 0], own.greater, own.less)
    for name, amounts in zip(PAIR_COUNTS, counts, strict=True):
        totals.put_count(name, index, amounts)
    for name, sums in sums_by_position(own).items():
        totals.put_sums(name, index, sums)


def pair_sums(totals: PairTotals, index: tuple[int, int, int]) -> PairSums:
    """Return the sums of one (cell, pair, column)."""
    n, greater, less = (totals.count(name, index) for name in ("n", "greater", "less"))
    a, b, a_squares, b_squares, both = numbers_of_pair(totals, index)
    return PairSums(n, greater, less, a, b, a_squares, b_squares, a_squares + b_squares - 2 * both)


def cluster_sums(totals: PairTotals, index: tuple[int, int, int], of_rows: PairSums) -> RatioSums:
    """Return the sums for the mean per row with users as clusters: a ratio of user sums and row counts."""
    n, row_squares = (Fraction(totals.count(name, index)) for name in ("n_people", "n"))
    a, b, a_squares, b_squares, both = numbers_of_pair(totals, index)
    n_rows = Fraction(of_rows.n)
    by_rows = [a, row_squares, b, row_squares]
    products = [[a_squares, a, both, a], by_rows, [both, b, b_squares, b], by_rows]
    return RatioSums(int(n), [of_rows.baseline, n_rows, of_rows.candidate, n_rows], products)


def numbers_of_pair(totals: PairTotals, index: tuple[int, ...]) -> list[Fraction]:
    """Return the sums of values, of squares and of products of one (cell, pair, column)."""
    return [
        *(totals.number(name, index) for name in PAIR_TOTALS),
        *(totals.number(name, index, 2 * POINT_BITS) for name in PAIR_PRODUCTS),
    ]


def sums_by_position(products: Products) -> dict[str, DigitSums]:
    """Return the sums of each pair by exponent of their digits: arrays (cells, pairs, columns).

    A total sums digits times the user's number of rows; with one row per user, it is the sum of the digits.
    """
    parts = (products.baseline, products.candidate, products.cross)
    sums: dict[str, DigitSums] = {name: {} for name in (*PAIR_TOTALS, *PAIR_PRODUCTS)}
    n_digits = products.cross.shape[-1] - 1
    for unit in np.unique(products.unit).tolist():
        own = products.unit == unit
        for high in range(n_digits):
            for name, of_model in zip(PAIR_TOTALS, parts[:2], strict=True):
                add_multiple(
                    sums[name], unit - PRODUCT_BITS * high + POINT_BITS, of_model[..., high + 1, 0] * own
                )
            for low in range(n_digits):
                exponent = 2 * (unit + POINT_BITS) - PRODUCT_BITS * (high + low)
                for name, part in zip(PAIR_PRODUCTS, parts, strict=True):
                    add_multiple(sums[name], exponent, part[..., high + 1, low + 1] * own)
    return sums


def add_multiple(totals: DigitSums, exponent: int, amounts: Ints) -> None:
    """Add amounts times 2^exponent, where position 0 counts ones."""
    position, bits = divmod(exponent, DIGIT_BITS)
    add(totals, position, (amounts & ((1 << DIGIT_BITS) - 1)) << bits)
    add(totals, position + 1, amounts >> DIGIT_BITS << bits)


@dataclass
class BucketTotals(Accumulator):
    """Sums over some buckets.

    ``clusters`` are sums over users with rows in several folds. ``largest`` (pairs, columns) are the largest
    absolute differences. ``ratios`` (cells, 6, pairs, means) are sums for weighted means, one per pair of
    the four amounts. ``largest_parts`` (pairs, means, 4) are the largest absolute amounts. ``slices`` (pairs,
    columns and means) are empty unless they are asked for.
    """

    totals: PairTotals
    clusters: PairTotals
    counts: PairCounts
    largest: Floats = field(metadata=added_by(np.maximum))
    ratios: PairTotals
    largest_parts: Floats = field(metadata=added_by(np.maximum))
    slices: SliceTotals

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of cells, pairs and columns."""
        return len(self.totals.cells), *self.largest.shape


def sum_bucket(population: AlignedUsers) -> BucketTotals:
    """Sum all pairs of a bucket, in all cells."""
    task, n_columns = population.task, len(population.task.columns)
    segments, n_users = population.segments, len(population)
    grouped = combine_segments(segments, n_users)
    single = combine_segments(segments, n_users, crossed=False) if task.has_clusters else []
    totals, clusters = (
        PairTotals(list(cells_of(groupings)), (task.n_pairs, n_columns)) for groupings in (grouped, single)
    )
    largest = np.zeros((task.n_pairs, n_columns))
    slices = list(column_groups(population, max(grouping.n_crossings for grouping in [*grouped, *single])))
    widest = max((columns.stop - columns.start for columns in slices), default=0)
    memory = np.empty(len(task.value_models) * widest * population.n_read)
    adder = None if task.slices is None else SliceAdder(population, task.slices)
    for columns in slices:
        values = population.values(task.columns[columns], memory)
        if adder is not None:
            adder.add(values, columns)
        if task.needs_largest:
            largest[:, columns] = largest_differences(values, task)
        for grouping in grouped:
            ordered = values if grouping.n_crossings == 1 else values[:, :, grouping.order]
            for part in parts_of_users(ordered, grouping.ends):
                add_products(totals, pair_products(part[0], task.value_matches, *part[1:]), grouping, columns)
        for grouping in single:
            order, starts, ends = grouping.by_person(population.person, population.folds)
            for part in parts_of_users(values[:, :, order], ends, starts):
                add_products(
                    clusters, pair_products(part[0], task.value_matches, *part[1:]), grouping, columns
                )
            if task.needs_differing:
                differing = count_differing(values, population, grouping)
                clusters.put_count(N_DIFFERING, (grouping.cell_slice, slice(None), columns), differing)
    for (pair, both), grouping in product(enumerate(population.common()), grouped):
        n_common = grouping.of_cells(grouping.counted(both))
        totals.put_count(N_COMMON, (grouping.cell_slice, pair), n_common[:, np.newaxis])
    ratios = sum_ratios(population, single or grouped, adder)
    of_slices = SliceTotals([], (task.n_pairs, n_columns)) if adder is None else adder.totals
    return BucketTotals(totals, clusters, population.counts(), largest, *ratios, of_slices)


def largest_differences(values: Floats, task: ComparisonTask) -> Floats:
    """Return the largest absolute difference of each pair; shape (pairs, columns)."""
    return np.array(
        [
            np.fmax.reduce(abs(values[candidate] - values[baseline]), axis=-1, initial=0.0)
            for baseline, candidate in task.value_pairs
        ]
    )


def count_differing(values: Floats, population: AlignedUsers, grouping: SegmentCombinations) -> Ints:
    """Count the users whose rows differ in sum, by cell; shape (cells, pairs, columns)."""
    counted = np.zeros((grouping.n_crossings, population.task.n_pairs, values.shape[1]), dtype=np.int64)
    for pair, (baseline, candidate) in enumerate(population.task.value_pairs):
        for column in range(values.shape[1]):
            differences = values[candidate, column] - values[baseline, column]
            quanta, crossing = quanta_of_users(differences, population, grouping)
            counted[:, pair, column] = np.bincount(crossing[quanta != 0], minlength=grouping.n_crossings)
    return grouping.of_cells(counted)


def column_groups(population: AlignedUsers, n_crossings: int) -> Iterator[slice]:
    """Yield slices of the columns: as many as fit in memory at once; a bucket may have no users."""
    task = population.task
    n_models, n_columns = len(task.value_models), len(task.columns)
    n_values = max(1, n_models * len(population))
    n_products = 32 * max(1, n_crossings) * (n_models + task.n_pairs)
    size = max(1, min(VALUES_AT_ONCE // n_values, MOST_PRODUCTS // n_products))
    for start in range(0, n_columns, size):
        yield slice(start, min(start + size, n_columns))


def pair_parts(baseline: int, candidate: int, column: str, weight: str) -> tuple[Amount, ...]:
    """Return the four amounts of a pair of models, for the users that both have."""
    return (
        *Amount.parts(baseline, column, weight, [candidate]),
        *Amount.parts(candidate, column, weight, [baseline]),
    )


def sum_ratios(
    population: AlignedUsers, grouped: Sequence[SegmentCombinations], adder: SliceAdder | None
) -> tuple[PairTotals, Floats]:
    """Return the sums of all pairs for each weighted mean, and the largest amounts (pairs, means, 4).

    The amounts are added to the slices of ``adder``, if there are any.
    """
    task = population.task
    shape = task.n_pairs, len(task.weighted)
    totals = PairTotals(list(cells_of(grouped)), (comb(N_AMOUNTS, 2), *shape))
    largest = np.zeros((*shape, N_AMOUNTS))
    for mean, (column, weight) in enumerate(task.weighted):
        weighted = population.weighted(column, weight)
        for pair, (baseline, candidate) in enumerate(task.value_pairs):
            amounts = np.concatenate([weighted[baseline], weighted[candidate]])
            is_defined = ~np.isnan(amounts).any(axis=0)
            amounts = np.where(is_defined, amounts, 0.0)
            largest[pair, mean] = abs(amounts).max(axis=1, initial=0.0)
            if adder is not None:
                adder.add_amounts(list(amounts), is_defined, pair, len(task.columns) + mean)
            for grouping in grouped:
                of_users, ends = sum_over_folds(population, grouping, amounts, is_defined)
                for part in parts_of_users(of_users[:, np.newaxis], ends):
                    products = ProductAccumulator(part[0], AMOUNT_MATCHES, *part[1:]).products()
                    add_products(totals, products, grouping, pair, slice(mean, mean + 1))
    return totals, largest


def sum_over_folds(
    population: AlignedUsers, grouping: SegmentCombinations, amounts: Floats, is_defined: Booleans
) -> tuple[Floats, Ints]:
    """Sum each user's amounts (4, rows), NaN if all are undefined; also return the offsets of cells."""
    if not population.task.has_clusters:
        order, ends, is_there = grouping.order, grouping.ends, is_defined[grouping.order]
        return np.where(is_there, amounts[:, order], np.nan), ends
    order, starts, ends = grouping.by_person(population.person, population.folds)
    is_there = np.add.reduceat(is_defined[order], starts, dtype=np.int64) > 0
    return np.where(is_there, np.add.reduceat(amounts[:, order], starts, axis=1), np.nan), ends


def ratio_sums(totals: PairTotals, index: tuple[int, int, int]) -> RatioSums:
    """Return the sums of one (cell, pair, weighted mean): the baseline's ratio, then the candidate's."""
    cell, *of_mean = index
    sums = [Fraction()] * N_AMOUNTS
    products = [sums.copy() for _ in sums]
    for pair, (i, j) in enumerate(combinations(range(N_AMOUNTS), 2)):
        numbers = numbers_of_pair(totals, (cell, pair, *of_mean))
        sums[i], sums[j], products[i][i], products[j][j], products[i][j] = numbers
        products[j][i] = products[i][j]
    return RatioSums(totals.count(PAIR_COUNTS[0], (cell, 0, *of_mean)), sums, products)
