"""Sums of all cells, read together, are those of each cell."""

from fractions import Fraction

import numpy as np

from spark_eval.statistics.exact import POINT_BITS, exact_sums
from spark_eval.statistics.totals import CellTotals


def test_numbers_of_all_cells_are_those_of_each_cell() -> None:
    values, cells = np.array([0.1, -0.7, 2.0**70, 1e-30, -3.0]), np.array([0, 1, 2, 0, 1])
    totals = CellTotals(["a", "b", "c", "d"], (1, 2))
    totals.put_sums("0", (slice(None), 0, 1), exact_sums(values, cells, 4))
    together = totals.numbers("0", (0, 1))
    assert together == [totals.number("0", (cell, 0, 1)) for cell in range(4)]
    assert together[1:] == [Fraction(-0.7) - 3, Fraction(2**70), 0]
    assert totals.numbers("0", (0, 1), 2 * POINT_BITS)[2] == Fraction(2**70, 2**POINT_BITS)


def test_sums_that_are_missing_are_zero() -> None:
    assert CellTotals(["a", "b"], (1,)).numbers("0", (0,)) == [0, 0]
