"""Exact sums of metric values over users and segments, the same in any order."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import prod
from typing import Final, NamedTuple

import numpy as np

from spark_eval.schema import ALL
from spark_eval.statistics.exact import (
    MOST_SUMMED,
    POINT_BITS,
    ByPlace,
    ExactSums,
    Floats,
    Groups,
    Ints,
    add,
    two_product,
)
from spark_eval.statistics.totals import CellTotals

# Numbers of users, of users with a value, and of users whose value overflows a double.
N_USERS: Final = "n_users"
N_DEFINED: Final = "n_defined"
N_INFINITE: Final = "n_infinite"
TOTAL: Final = "total"
SQUARES: Final = "squares"
# Of value * weight: sums of value * weight * weight.
PRODUCTS: Final = "products"
EACH: Final = slice(None)


class ColumnSums(NamedTuple):
    """Sums of one column over the users of a segment."""

    n_users: int
    n_defined: int
    n_infinite: int
    total: Fraction
    squares: Fraction
    products: Fraction


NOBODY: Final = ColumnSums(0, 0, 0, Fraction(), Fraction(), Fraction())
# model, segment, value of the segment
SegmentCell = tuple[str, str, str]
# Code of each user's model or segment value, and the names of the codes.
Group = tuple[Ints, Sequence[str]]
# Sums of columns; shape (cells, columns).
SegmentTotals = CellTotals[SegmentCell]


def sums(
    measured: Mapping[str, Floats],
    summed: Mapping[str, Sequence[str]],
    models: Group,
    segments: Mapping[str, Group],
) -> SegmentTotals:
    """Sum the values of each model over all users and over each segment value.

    ``measured`` has the values of the users, NaN where undefined; ``summed`` maps each column to its one or
    two factors (value, or value and weight).
    """
    model, names = models
    codes = [] if len(names) == 1 else [(model, len(names))]
    cells = [(name, ALL, ALL) for name in names]
    for segment, (code, values) in segments.items():
        codes.append((model * len(values) + code, len(names) * len(values)))
        cells += [(name, segment, value) for name, value in product(names, values)]
    totals = SegmentTotals(cells, (len(summed),))
    for start in range(0, len(model), MOST_SUMMED):
        part = slice(start, start + MOST_SUMMED)
        # With a single model, the sums over all users are the sums of the model.
        groups = Groups([(code[part], n_groups) for code, n_groups in codes], groups_only=len(names) > 1)
        n_users = groups.sums(np.ones(len(model[part]), dtype=bool))
        totals.put_count(N_USERS, (EACH, EACH), n_users[:, np.newaxis])
        for column, factors in enumerate(summed.values()):
            add_column_sums(totals, column, [measured[factor][part] for factor in factors], groups, n_users)
    return totals


def add_column_sums(
    totals: SegmentTotals, column: int, factors: Sequence[Floats], groups: Groups, n_users: Ints
) -> None:
    """Add the products of the factors of up to MOST_SUMMED users to the sums of a column."""
    value, n_defined, where = prod(factors[1:], start=factors[0]), n_users, (EACH, column)
    if not (is_finite := np.isfinite(value)).all():
        n_defined = groups.sums(~np.isnan(value))
        totals.put_count(N_INFINITE, where, groups.sums(np.isinf(value)))
        value = np.where(is_finite, value, 0.0)
    totals.put_count(N_DEFINED, where, n_defined)
    exact, products = ExactSums.of(value, groups), ByPlace()
    for part in two_product(value, np.nan_to_num(factors[-1])) if factors[1:] else ():
        for place, amounts in ExactSums.of(part, groups, has_squares=False).total.items():
            add(products, place, amounts)
    for name, places in ((TOTAL, exact.total), (SQUARES, exact.squares), (PRODUCTS, products)):
        totals.put_sums(name, where, places)


def merge_sums(
    parts: Iterable[SegmentTotals], names: Sequence[str]
) -> dict[SegmentCell, dict[str, ColumnSums]]:
    """Return the total sums by cell and column name, for cells with at least one user."""
    whole = SegmentTotals.together(parts, (len(names),))
    totals: dict[SegmentCell, dict[str, ColumnSums]] = defaultdict(dict)
    for (row, cell), (column, name) in product(enumerate(whole.cells), enumerate(names)):
        at = (row, column)
        if n_users := whole.count(N_USERS, at):
            totals[cell][name] = ColumnSums(
                n_users,
                n_defined=whole.count(N_DEFINED, at),
                n_infinite=whole.count(N_INFINITE, at),
                total=whole.number(TOTAL, at),
                squares=whole.number(SQUARES, at, 2 * POINT_BITS),
                products=whole.number(PRODUCTS, at),
            )
    return totals
