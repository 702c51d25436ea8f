"""Exact sums of metric values over users and segments, the same in any order: limbs, as rows of a table."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from spark_eval.arrow.hashes import Ints, in_one_piece
from spark_eval.metrics.lists import Floats
from spark_eval.schema import ALL, SEGMENT, SEGMENT_VALUE
from spark_eval.stats.digits import MOST_SUMMED, POINT_BITS, ExactSums, Groups, limbs, number_of

COLUMN: Final = "column"
# What is summed, and the limb of the sum; counts have limb 0 only.
KIND: Final = "kind"
LIMB: Final = "limb"
AMOUNT: Final = "amount"
# Users, those with a value, and those of whose value is too large for a double.
COUNTS: Final = ("n_users", "n_defined", "n_infinite")
TOTAL: Final = "total"
SQUARES: Final = "squares"
KINDS: Final = (*COUNTS, TOTAL, SQUARES)


class ColumnSums(NamedTuple):
    """What is summed of one column over the users of a segment."""

    n_users: int
    n_defined: int
    n_infinite: int
    total: Fraction
    squares: Fraction


NOBODY: Final = ColumnSums(0, 0, 0, Fraction(), Fraction())
# A row is the amount of one limb of one sum; limbs that are 0 have none.
LIMBS: Final = pa.schema(
    {
        SEGMENT: pa.dictionary(pa.int32(), pa.string()),
        SEGMENT_VALUE: pa.dictionary(pa.int32(), pa.string()),
        COLUMN: pa.int32(),
        KIND: pa.int8(),
        LIMB: pa.int16(),
        AMOUNT: pa.int64(),
    }
)


def sums(
    measured: Mapping[str, Floats],
    summed: Mapping[str, Sequence[str]],
    segments: Mapping[str, tuple[Ints, Sequence[str]]],
) -> pa.Table:
    """The sums of values over everybody and over each value of each segment: rows of LIMBS.

    ``measured`` are the values of the users, NaN where undefined; ``summed`` names products of them, of which
    only values alone are squared. ``segments`` have the code of each user's value, and the values.
    """
    n_users = len(next(iter(measured.values())))
    parts = []
    for start in range(0, max(n_users, 1), MOST_SUMMED):
        part = slice(start, start + MOST_SUMMED)
        codes = {name: (code[part], values) for name, (code, values) in segments.items()}
        parts.append(sums_of_part({name: values[part] for name, values in measured.items()}, summed, codes))
    return merged_sums(parts)


def sums_of_part(
    measured: Mapping[str, Floats],
    summed: Mapping[str, Sequence[str]],
    segments: Mapping[str, tuple[Ints, Sequence[str]]],
) -> pa.Table:
    """The same, of up to MOST_SUMMED users."""
    groups = Groups([(codes, len(values)) for codes, values in segments.values()])
    cells = [(ALL, ALL), *((name, value) for name, (_, values) in segments.items() for value in values)]
    n_users = groups.sums(np.ones(len(next(iter(measured.values()))), dtype=bool))
    rows: list[tuple[int, str, int, Ints]] = []
    for column, factors in enumerate(summed.values()):
        value = prod((measured[factor] for factor in factors[1:]), start=measured[factors[0]])
        counts = {"n_users": n_users, "n_defined": n_users}
        if not (is_finite := np.isfinite(value)).all():
            counts |= {"n_defined": groups.sums(~np.isnan(value)), "n_infinite": groups.sums(np.isinf(value))}
            value = np.where(is_finite, value, 0.0)
        found = ExactSums.of(value, groups, has_squares=len(factors) == 1)
        rows += ((column, kind, 0, amounts) for kind, amounts in counts.items())
        for kind, places in ((TOTAL, found.total), (SQUARES, found.squares)):
            rows += ((column, kind, limb, amounts) for limb, amounts in limbs(places).items())
    return rows_of(rows, cells)


def rows_of(rows: Sequence[tuple[int, str, int, Ints]], cells: Sequence[tuple[str, str]]) -> pa.Table:
    """Rows of LIMBS that are not 0, of the column, kind, limb and amounts (cells,) of each sum."""
    amounts = np.array([amounts for *_, amounts in rows], dtype=np.int64).reshape(len(rows), len(cells))
    row, cell = np.nonzero(amounts)
    names = {
        name: pa.DictionaryArray.from_arrays(
            pa.array(cell.astype(np.int32)), pa.array([one[place] for one in cells], pa.string())
        )
        for place, name in enumerate((SEGMENT, SEGMENT_VALUE))
    }
    keys = {
        COLUMN: np.array([column for column, *_ in rows], dtype=np.int32)[row],
        KIND: np.array([KINDS.index(kind) for _, kind, *_ in rows], dtype=np.int8)[row],
        LIMB: np.array([limb for _, _, limb, _ in rows], dtype=np.int16)[row],
    }
    return pa.table({**names, **keys, AMOUNT: amounts[row, cell]}, schema=LIMBS)


def merged_sums(parts: Sequence[pa.Table]) -> pa.Table:
    """One table of the sums of all parts."""
    if len(parts) == 1:
        return parts[0]
    by = [name for name in parts[0].column_names if name != AMOUNT]
    total = in_one_piece(parts).group_by(by).aggregate([(AMOUNT, "sum")])
    return total.rename_columns([*by, AMOUNT]).cast(parts[0].schema)


def added(parts: Sequence[pa.Table], names: Sequence[str]) -> dict[tuple[str, str, str], ColumnSums]:
    """Return the sums of all parts by segment, its value, and the name of what is summed."""
    amounts: dict[tuple[str, str, str], dict[str, dict[int, int]]] = defaultdict(
        lambda: {kind: defaultdict(int) for kind in KINDS}
    )
    for *cell, kind, limb, amount in zip(*merged_sums(parts).to_pydict().values(), strict=True):
        segment, value, column = cell
        amounts[segment, value, names[column]][KINDS[kind]][limb] += amount
    return {
        cell: ColumnSums(
            **{name: of_kind[name][0] for name in COUNTS},
            total=number_of(of_kind[TOTAL], POINT_BITS),
            squares=number_of(of_kind[SQUARES], 2 * POINT_BITS),
        )
        for cell, of_kind in amounts.items()
    }
