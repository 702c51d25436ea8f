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
    """A row per segment, value and column: n_users, n_defined, max, limbs of the total and of the squares.

    ``measured`` are the values of up to a million users, NaN where undefined; ``summed`` names products of
    them. ``segments`` have the code of each user's value, and the values.
    """
    n_users = len(next(iter(measured.values())))
    cells: dict[str, tuple[Ints | None, Sequence[str]]] = {ALL: (None, [ALL])} | dict(segments)
    parts = []
    for place, factors in enumerate(summed.values()):
        value = prod((measured[factor] for factor in factors[1:]), start=measured[factors[0]])
        is_defined = ~np.isnan(value)
        known = np.where(is_defined, value, 0.0)
        largest = float(known.max(initial=0.0))
        weights = [np.ones(n_users), is_defined, *limbs(known), *limbs(known * known)]
        for segment, (codes, values) in cells.items():
            totals = [of_groups(weight, codes, len(values)) for weight in weights]
            columns = dict(zip((*COUNTS, *LIMBS["total"], *LIMBS["squares"]), totals, strict=True))
            parts.append(
                pa.table(
                    {
                        SEGMENT: pa.DictionaryArray.from_arrays(np.zeros(len(values), np.int32), [segment]),
                        SEGMENT_VALUE: pa.array(values, pa.string()).dictionary_encode(),
                        COLUMN: np.full(len(values), place, dtype=np.int32),
                        "max": np.full(len(values), largest),
                        **columns,
                    }
                )
            )
    return in_one_piece(parts)


def of_groups(weights: Floats, codes: Ints | None, n_groups: int) -> Ints:
    """The sum of whole numbers in each group, or in all; exact, as no sum reaches 2^53."""
    sums: Ints = (
        weights.sum(keepdims=True) if codes is None else np.bincount(codes, weights, minlength=n_groups)
    ).astype(np.int64)
    return sums


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
