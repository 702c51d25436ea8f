"""Exact sums of pairs of models over a bucket of users, and over many buckets: they add."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

import numpy as np

from spark_eval.pairing.cells import Crossings, SegmentValue, cells_of, crossings_of
from spark_eval.pairing.population import CANDIDATE, PairCounts, PairQuestion, Population
from spark_eval.pairing.products import Products, pair_products
from spark_eval.stats.differences import ClusterSums, PairSums
from spark_eval.stats.exact import POINT_BITS, ByPlace, Floats, Ints, add, limbs, number_of

# So many values of a bucket lie in memory at once, and so many sums of products of digits.
VALUES_AT_ONCE: Final = 1 << 22
MOST_PRODUCTS: Final = 1 << 23
PAIR_COUNTS: Final = ("n", "n_people", "greater", "less")
PAIR_TOTALS: Final = ("baseline", "candidate")
PAIR_SQUARES: Final = ("baseline_squares", "candidate_squares", "difference_squares")
# What is summed, and which limb of it; counts have limb 0.
SumKey = tuple[str, int]


@dataclass
class PairTotals:
    """Sums of c cells: arrays (c, pairs, columns) of integers, by what they sum; limbs of 0 have none."""

    cells: list[SegmentValue]
    n_pairs: int
    n_columns: int
    sums: dict[SumKey, Ints] = field(default_factory=dict)

    def of(self, key: SumKey) -> Ints:
        """Return the sums of one kind, for as many cells as there are."""
        known = self.sums.get(key, np.zeros((0, self.n_pairs, self.n_columns), dtype=np.int64))
        if len(known) < len(self.cells):
            more = np.zeros((len(self.cells) - len(known), *known.shape[1:]), dtype=np.int64)
            known = self.sums[key] = np.concatenate([known, more])
        return known

    def add(self, other: "PairTotals") -> None:
        """Add the sums of other users; they may be in other cells."""
        place_of = {cell: place for place, cell in enumerate(self.cells)}
        places = [place_of.setdefault(cell, len(place_of)) for cell in other.cells]
        self.cells = list(place_of)
        for key in other.sums:
            self.of(key)[places] += other.of(key)

    def put(self, products: Products, grouping: Crossings, columns: slice) -> None:
        """Add what is summed in the crossings of a grouping, of some columns."""
        places = [self.cells.index(cell) for cell in grouping.cells[:1]]
        cells = slice(places[0], places[0] + len(grouping.cells)) if places else slice(0)
        for name, amounts in pair_counts(products).items():
            self.of((name, 0))[cells, :, columns] += grouping.of_cells(amounts)
        for name, by_place in sums_by_place(products).items():
            of_cells = {place: grouping.of_cells(amounts) for place, amounts in by_place.items()}
            shape = next(iter(of_cells.values())).shape
            flat = {place: amounts.ravel() for place, amounts in of_cells.items()}
            for limb, amounts in limbs(flat).items():
                self.of((name, limb))[cells, :, columns] += amounts.reshape(shape)

    def number(self, name: str, place: tuple[int, int, int]) -> Fraction:
        """Return one sum, of a cell, pair and column, as a number."""
        bits = 2 * POINT_BITS if name in PAIR_SQUARES else POINT_BITS
        amounts = {limb: int(self.sums[kind, limb][place]) for kind, limb in self.sums if kind == name}
        return number_of(amounts, bits)

    def count(self, name: str, place: tuple[int, int, int]) -> int:
        """Return one count, of a cell, pair and column."""
        return int(self.sums[name, 0][place])

    def pair_sums(self, place: tuple[int, int, int]) -> PairSums:
        """Return the sums of a cell, pair and column."""
        n, greater, less = (self.count(name, place) for name in ("n", "greater", "less"))
        return PairSums(
            n, greater, less, *(self.number(name, place) for name in (*PAIR_TOTALS, *PAIR_SQUARES))
        )

    def cluster_sums(self, place: tuple[int, int, int], of_rows: PairSums) -> ClusterSums:
        """Return the same as sums over users; these of rows are known, and here are sums of users."""
        products = self.number("candidate", place) - self.number("baseline", place)
        return ClusterSums(
            n_users=self.count("n_people", place),
            n_rows=of_rows.n,
            total=of_rows.candidate - of_rows.baseline,
            squares=self.number("difference_squares", place),
            products=products,
            row_squares=self.count("n", place),
            value_squares=of_rows.baseline_squares + of_rows.candidate_squares,
        )


def pair_counts(products: Products) -> dict[str, Ints]:
    """Return counts of users of each pair; shape (crossings, pairs, columns)."""
    people = products.baseline[..., 0, 0]
    counts = (products.cross[..., 0, 0], people, products.greater, products.less)
    return dict(zip(PAIR_COUNTS, counts, strict=True))


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

    ``clusters`` are sums over users who have rows in several folds. ``used`` are common rows, counts of the
    kind n and of no column. ``largest`` (pairs, columns) are the largest sizes of differences.
    """

    totals: PairTotals
    clusters: PairTotals
    used: PairTotals
    counts: PairCounts
    largest: Floats

    @property
    def shape(self) -> tuple[int, int, int]:
        """The numbers of cells, pairs and columns."""
        return len(self.totals.cells), self.totals.n_pairs, self.totals.n_columns

    def add(self, other: "BucketTotals") -> None:
        """Add what is summed of other buckets."""
        for name in ("totals", "clusters", "used"):
            getattr(self, name).add(getattr(other, name))
        self.counts = self.counts + other.counts
        self.largest = np.maximum(self.largest, other.largest)


def sum_bucket(population: Population) -> BucketTotals:
    """Sum the pairs of a bucket, in all cells."""
    question, n_columns = population.question, len(population.question.columns)
    n_pairs = len(question.ends[0])
    texts = {name: population.texts(CANDIDATE, name) for name in question.segments}
    grouped = crossings_of(texts, len(population))
    single = crossings_of(texts, len(population), crossed=False) if question.by_fold else []
    totals, clusters = (PairTotals(list(cells_of(some)), n_pairs, n_columns) for some in (grouped, single))
    largest = np.zeros((n_pairs, n_columns))
    for columns in column_groups(population, max(one.n_crossings for one in [*grouped, *single])):
        values = population.values(question.columns[columns])
        if question.needs_largest:
            largest[:, columns] = largest_differences(values, question)
        for grouping in grouped:
            ordered = values if grouping.n_crossings == 1 else values[:, :, grouping.order]
            totals.put(pair_products(ordered, question.matches, grouping.ends), grouping, columns)
        for grouping in single:
            order, starts, ends = grouping.by_person(population.person)
            products = pair_products(values[:, :, order], question.matches, ends, starts)
            clusters.put(products, grouping, columns)
    return BucketTotals(totals, clusters, used_of(population, grouped), population.counts(texts), largest)


def largest_differences(values: Floats, question: PairQuestion) -> Floats:
    """Return the largest size of any difference of each pair; shape (pairs, columns)."""
    return np.array(
        [
            np.fmax.reduce(abs(values[right] - values[left]), axis=-1, initial=0.0)
            for left, right in zip(*question.ends, strict=True)
        ]
    )


def used_of(population: Population, grouped: Sequence[Crossings]) -> PairTotals:
    """Count the common rows of each pair in all cells."""
    pairs = list(population.common())
    used = PairTotals(list(cells_of(grouped)), len(pairs), 1)
    for pair, both in enumerate(pairs):
        counts = np.concatenate([one.of_cells(one.counted(both)) for one in grouped])
        used.of(("n", 0))[:, pair, 0] = counts
    return used


def column_groups(population: Population, n_crossings: int) -> Iterator[slice]:
    """Yield slices of the columns: as many as may lie in memory at once."""
    question = population.question
    n_models, n_columns = len(question.models), len(question.columns)
    n_values, n_products = n_models * len(population), 32 * n_crossings * (n_models + len(question.ends[0]))
    size = max(1, min(VALUES_AT_ONCE // max(n_values, 1), MOST_PRODUCTS // n_products))
    for start in range(0, n_columns, size):
        yield slice(start, min(start + size, n_columns))
