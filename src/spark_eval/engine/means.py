"""Exact sums of metric values over users and segments, the same in any order: limbs, as rows of a table."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import prod
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from spark_eval.arrow.hashes import in_one_piece
from spark_eval.schema import ALL, MODEL, SEGMENT, SEGMENT_VALUE
from spark_eval.stats.exact import (
    MOST_SUMMED,
    POINT_BITS,
    ExactSums,
    Floats,
    Groups,
    Ints,
    add,
    limbs,
    number_of,
    two_product,
)

COLUMN: Final = "column"
# What is summed, and the limb of the sum; counts have limb 0 only.
KIND: Final = "kind"
LIMB: Final = "limb"
AMOUNT: Final = "amount"
# Users, those with a value, and those of whose value is too large for a double.
COUNTS: Final = ("n_users", "n_defined", "n_infinite")
TOTAL: Final = "total"
SQUARES: Final = "squares"
# Of a value times its weight: times the weight again.
PRODUCTS: Final = "products"
KINDS: Final = (*COUNTS, TOTAL, SQUARES, PRODUCTS)


class ColumnSums(NamedTuple):
    """What is summed of one column over the users of a segment."""

    n_users: int
    n_defined: int
    n_infinite: int
    total: Fraction
    squares: Fraction
    products: Fraction


NOBODY: Final = ColumnSums(0, 0, 0, Fraction(), Fraction(), Fraction())
# model, segment, value of the segment
SegmentCell = tuple[str, str, str]
# The code of each user's value, and the values.
Group = tuple[Ints, Sequence[str]]
# A row is the amount of one limb of one sum; limbs that are 0 have none.
LIMBS: Final = pa.schema(
    {
        MODEL: pa.dictionary(pa.int32(), pa.string()),
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
    models: Group,
    segments: Mapping[str, Group],
) -> pa.Table:
    """Return the sums of values of each model, over everybody and over each value of each segment: LIMBS.

    ``measured`` are the values of the users, NaN where undefined; ``summed`` names values and products of a
    value and a weight. A group has the code of each user's model or segment, and their names.
    """
    n_users = len(next(iter(measured.values())))
    parts = []
    for start in range(0, max(n_users, 1), MOST_SUMMED):
        part = slice(start, start + MOST_SUMMED)
        codes = {name: (code[part], values) for name, (code, values) in segments.items()}
        values = {name: values[part] for name, values in measured.items()}
        parts.append(sums_of_part(values, summed, (models[0][part], models[1]), codes))
    return merged_sums(parts)


def sums_of_part(
    measured: Mapping[str, Floats],
    summed: Mapping[str, Sequence[str]],
    models: Group,
    segments: Mapping[str, Group],
) -> pa.Table:
    """Return the same, of up to MOST_SUMMED users."""
    model, names = models
    codes = [] if len(names) == 1 else [(model, len(names))]
    cells = [(name, ALL, ALL) for name in names]
    for segment, (code, values) in segments.items():
        codes.append((model * len(values) + code, len(names) * len(values)))
        cells += [(name, segment, value) for name, value in product(names, values)]
    # The first sum is that of all models together: of a single model it is the model's.
    groups, skipped = Groups(codes), 0 if len(names) == 1 else 1
    n_users = groups.sums(np.ones(len(next(iter(measured.values()))), dtype=bool))
    rows: list[tuple[int, str, int, Ints]] = []
    for column, factors in enumerate(summed.values()):
        value = prod((measured[factor] for factor in factors[1:]), start=measured[factors[0]])
        counts = {"n_users": n_users, "n_defined": n_users}
        if not (is_finite := np.isfinite(value)).all():
            counts |= {"n_defined": groups.sums(~np.isnan(value)), "n_infinite": groups.sums(np.isinf(value))}
            value = np.where(is_finite, value, 0.0)
        exact, products = ExactSums.of(value, groups), dict[int, Ints]()
        for part in two_product(value, np.nan_to_num(measured[factors[-1]])) if factors[1:] else ():
            for place, amounts in ExactSums.of(part, groups, has_squares=False).total.items():
                add(products, place, amounts)
        rows += ((column, kind, 0, amounts[skipped:]) for kind, amounts in counts.items())
        for kind, places in ((TOTAL, exact.total), (SQUARES, exact.squares), (PRODUCTS, products)):
            rows += ((column, kind, limb, amounts[skipped:]) for limb, amounts in limbs(places).items())
    return rows_of(rows, cells)


def rows_of(rows: Sequence[tuple[int, str, int, Ints]], cells: Sequence[SegmentCell]) -> pa.Table:
    """Rows of LIMBS that are not 0, of the column, kind, limb and amounts (cells,) of each sum."""
    amounts = np.array([amounts for *_, amounts in rows], dtype=np.int64).reshape(len(rows), len(cells))
    row, cell = np.nonzero(amounts)
    names = {
        name: pa.DictionaryArray.from_arrays(
            pa.array(cell.astype(np.int32)), pa.array([one[place] for one in cells], pa.string())
        )
        for place, name in enumerate((MODEL, SEGMENT, SEGMENT_VALUE))
    }
    keys = {
        COLUMN: np.array([column for column, *_ in rows], dtype=np.int32)[row],
        KIND: np.array([KINDS.index(kind) for _, kind, *_ in rows], dtype=np.int8)[row],
        LIMB: np.array([limb for _, _, limb, _ in rows], dtype=np.int16)[row],
    }
    return pa.table({**names, **keys, AMOUNT: amounts[row, cell]}, schema=LIMBS)


def merged_sums(parts: Sequence[pa.Table]) -> pa.Table:
    """Return one table of the sums of all parts."""
    if len(parts) < 2:
        return parts[0] if parts else LIMBS.empty_table()
    by = [name for name in parts[0].column_names if name != AMOUNT]
    total = in_one_piece(parts).group_by(by).aggregate([(AMOUNT, "sum")])
    return total.rename_columns([*by, AMOUNT]).cast(parts[0].schema)


def added(parts: Sequence[pa.Table], names: Sequence[str]) -> dict[SegmentCell, dict[str, ColumnSums]]:
    """Return the sums of all parts by model and segment, and by the name of what is summed."""
    amounts: dict[tuple[SegmentCell, str], dict[str, dict[int, int]]] = defaultdict(
        lambda: {kind: defaultdict(int) for kind in KINDS}
    )
    for *cell, column, kind, limb, amount in zip(*merged_sums(parts).to_pydict().values(), strict=True):
        model, segment, value = cell
        amounts[(model, segment, value), names[column]][KINDS[kind]][limb] += amount
    totals: dict[SegmentCell, dict[str, ColumnSums]] = defaultdict(dict)
    for (place, name), of_kind in amounts.items():
        totals[place][name] = ColumnSums(
            **{count: of_kind[count][0] for count in COUNTS},
            total=number_of(of_kind[TOTAL], POINT_BITS),
            squares=number_of(of_kind[SQUARES], 2 * POINT_BITS),
            products=number_of(of_kind[PRODUCTS], POINT_BITS),
        )
    return totals
