"""Exact sums of metric values over users and segments, the same in any order: as ``transforms.aggregate``."""

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_eval.batches.ids import Ints, in_one_piece
from spark_eval.metrics.lists import Floats
from spark_eval.schema import ALL, SEGMENT, SEGMENT_VALUE
from spark_eval.stats.intervals import LARGEST, LIMB_BITS, UNIT_BITS

# Values are cut into limbs of 32 bits, the last rounded: sums of up to a million are exact as doubles.
N_LIMBS: Final = 4
MOST_USERS: Final = 1 << 20
COLUMN: Final = "column"
COUNTS: Final = ("n_users", "n_defined")
LIMBS: Final = {kind: [f"{kind}_{place}" for place in range(N_LIMBS)] for kind in ("total", "squares")}


def sums(
    measured: Mapping[str, Floats],
    summed: Mapping[str, Sequence[str]],
    segments: Mapping[str, tuple[Ints, Sequence[str]]],
) -> pa.Table:
    """The same as ``sums_of_part``, of any number of users: their parts, for ``added`` to add up."""
    n_users = len(next(iter(measured.values())))
    parts = []
    for start in range(0, max(n_users, 1), MOST_USERS):
        part = slice(start, start + MOST_USERS)
        codes = {name: (code[part], values) for name, (code, values) in segments.items()}
        parts.append(sums_of_part({name: values[part] for name, values in measured.items()}, summed, codes))
    return in_one_piece(parts)


def sums_of_part(
    measured: Mapping[str, Floats],
    summed: Mapping[str, Sequence[str]],
    segments: Mapping[str, tuple[Ints, Sequence[str]]],
) -> pa.Table:
    """A row per column, segment and value: n_users, n_defined, max, limbs of the total and of the squares.

    ``measured`` are the values of up to a million users, NaN where undefined; ``summed`` names products of
    them. ``segments`` have the code of each user's value, and the values.
    """
    n_users = len(next(iter(measured.values())))
    groups = [(codes, len(values)) for codes, values in segments.values()]
    cells = [(ALL, ALL), *((name, value) for name, (_, values) in segments.items() for value in values)]
    totals, largest = [], []
    for factors in summed.values():
        value = prod((measured[factor] for factor in factors[1:]), start=measured[factors[0]])
        is_defined = ~np.isnan(value)
        known = np.where(is_defined, value, 0.0)
        largest.append(float(known.max(initial=0.0)))
        weights = [np.ones(n_users), is_defined, *limbs(known), *limbs(known * known)]
        totals.append([of_cells(weight, groups) for weight in weights])
    names = (*COUNTS, *LIMBS["total"], *LIMBS["squares"])
    by_name = np.array(totals).astype(np.int64).transpose(1, 0, 2).reshape(len(names), -1)
    return pa.table(
        {
            SEGMENT: pa.array([name for name, _ in cells] * len(summed)).dictionary_encode(),
            SEGMENT_VALUE: pa.array([value for _, value in cells] * len(summed)).dictionary_encode(),
            COLUMN: np.repeat(np.arange(len(summed), dtype=np.int32), len(cells)),
            "max": np.repeat(largest, len(cells)),
            **dict(zip(names, by_name, strict=True)),
        }
    )


def of_cells(weights: Floats, groups: Sequence[tuple[Ints, int]]) -> Floats:
    """The sum of whole numbers over all users, then in each group; exact, as no sum reaches 2^53."""
    sums = (np.bincount(codes, weights, minlength=n_groups) for codes, n_groups in groups)
    return np.concatenate([weights.sum(keepdims=True, dtype=np.float64), *sums])


def limbs(values: Floats) -> list[Floats]:
    """Whole numbers with value = sum of limb_i * 2^(32 i - 60), the smallest limb rounded half to even."""
    found, rest = [], np.minimum(values, LARGEST)
    largest = rest.max(initial=0.0)
    for place in range(N_LIMBS - 1, 0, -1):
        unit = 2.0 ** (LIMB_BITS * place - UNIT_BITS)
        limb = np.floor(rest / unit) if largest >= unit else np.zeros_like(rest)
        found.append(limb)
        rest = rest - limb * unit
    found.append(np.rint(rest * 2.0**UNIT_BITS))
    return found[::-1]


def added(parts: Sequence[pa.Table], names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The sums of all parts: rows as ``transforms.aggregate.limb_sums`` gives them."""
    table = pa.concat_tables(parts).unify_dictionaries()
    by = [SEGMENT, SEGMENT_VALUE, COLUMN]
    summed = [*COUNTS, *LIMBS["total"], *LIMBS["squares"]]
    total = table.group_by(by).aggregate([*((name, "sum") for name in summed), ("max", "max")])
    for row in total.to_pylist():
        if row["n_users_sum"]:
            yield {
                **{name: row[name] for name in (SEGMENT, SEGMENT_VALUE)},
                COLUMN: names[row[COLUMN]],
                **{name: row[f"{name}_sum"] for name in COUNTS},
                "max": row["max_max"],
                **{kind: [row[f"{name}_sum"] for name in LIMBS[kind]] for kind in LIMBS},
            }
