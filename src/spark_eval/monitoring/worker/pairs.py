"""Differences between two means over users, of two days or of two models; users may be in both."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.codes import to_numpy
from spark_eval.monitoring.worker.user_rows import Tables, check_ids, of_segment
from spark_eval.monitoring.worker.user_sums import MeanColumns, as_floats
from spark_eval.schema import ALL, MISSING, USER
from spark_eval.statistics.additive import Accumulator, added_by, by_element
from spark_eval.statistics.differences import Estimate, RatioSums
from spark_eval.statistics.exact import GroupSums, Term, sum_of_term_products, sum_of_terms, terms_of


@dataclass
class PairTotals(Accumulator):
    """Exact sums over the users of two tables: values and weights of each table, and their products.

    ``n`` counts the users who have a value in either table.
    """

    n: int = 0
    totals: list[Fraction] = field(metadata=added_by(by_element), default_factory=lambda: [Fraction()] * 4)
    products: list[list[Fraction]] = field(
        metadata=added_by(by_element), default_factory=lambda: [[Fraction()] * 4 for _ in range(4)]
    )

    def add(self, n: int, amounts: Sequence[Sequence[Term]]) -> None:
        """Add other users: those with a value, and the terms of the amounts of all."""
        self.n += n
        for i, one in enumerate(amounts):
            self.totals[i] += sum_of_terms(one)
            for j, other in enumerate(amounts[: i + 1]):
                product = sum_of_term_products(one, other)
                self.products[i][j] += product
                if i != j:
                    self.products[j][i] += product

    @property
    def difference(self) -> Estimate:
        """The mean of the second table minus that of the first, with the error of users who are in both."""
        return RatioSums(self.n, self.totals, self.products).combination(Fraction(-1), Fraction(1))


def pair_totals(
    sides: Sequence[Tables],
    means: Sequence[MeanColumns],
    cell: tuple[str, str] = (ALL, ALL),
    *,
    of_users: bool = False,
) -> PairTotals:
    """Sum users of two tables of ``per_user``, within a segment value; each side has all rows of these users.

    With ``of_users`` a user's rows, such as those of requests, count once, with their mean; not those of
    weighted means.

    Users a, b on one day, a, c on the next:

    >>> days = [{"user": ["a", "b"], "ap": [0.5, 1.0]}, {"user": ["a", "c"], "ap": [0.0, 0.25]}]
    >>> totals = pair_totals([[pa.table(day)] for day in days], [MeanColumns("ap")] * 2)
    >>> float(totals.difference.value), round(totals.difference.std_error, 6)
    (-0.625, 0.1875)

    Raises DataError MIXED_CONVENTIONS if users are of different types.
    """
    tables = [[in_cell(table, *cell) for table in side] for side in sides]
    check_ids(table.schema for side in tables for table in side)
    totals, users = PairTotals(), [chunk for side in tables for table in side for chunk in table[USER].chunks]
    if not users:
        return totals
    codes = to_numpy(pa.chunked_array(users).combine_chunks().dictionary_encode().indices).astype(np.int64)
    n_users = int(codes.max(initial=-1)) + 1
    has_value, amounts, start = np.zeros(n_users, dtype=np.bool_), list[list[Term]](), 0
    for side, mean in zip(tables, means, strict=True):
        groups = codes[start : start + sum(table.num_rows for table in side)]
        start += len(groups)
        columns = [[as_floats(table, name) for table in side] for name in mean if name is not None]
        values, *given = (np.concatenate([np.empty(0), *parts]) for parts in columns)
        weights = given[0] if given else np.ones_like(values)
        is_defined = np.isfinite(values) & np.isfinite(weights)
        has_value[groups[is_defined]] = True
        sums = [GroupSums(n_users), GroupSums(n_users)]
        for of_part, part in zip(sums, (values * weights, weights), strict=True):
            of_part.add(np.where(is_defined, part, 0.0), groups)
        if of_users and not given:
            totals_of_users, n_rows = (of_part.rounded for of_part in sums)
            amounts += [terms_of(totals_of_users / np.maximum(n_rows, 1)), terms_of(np.sign(n_rows))]
        else:
            amounts += [of_part.terms(slice(None)) for of_part in sums]
    totals.add(int(np.count_nonzero(has_value)), amounts)
    return totals


def in_cell(table: pa.Table, segment: str, value: str) -> pa.Table:
    """Return the rows of a segment value."""
    if segment == ALL:
        return table
    texts = table[segment].cast(pa.string()).fill_null(MISSING)
    return table.filter(pc.equal(texts, value))


def item_pair_totals(
    sides: Sequence[Tables], means: Sequence[MeanColumns], cell: tuple[str, str], *, of_users: bool = False
) -> PairTotals:
    """Sum users of two tables of ``item_segments``, within a value of a segment of items; see above."""
    own = [[of_segment(table, cell[0]) for table in side] for side in sides]
    return pair_totals(own, means, cell, of_users=of_users)
