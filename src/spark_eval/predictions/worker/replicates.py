"""Bootstrap of metrics that are no smooth functions of sums: calibration error and average precision.

Users are drawn with Poisson weights from their hashes (``statistics.draws``), or rows if each is its own
cluster. Sums of replicates are integers, so that they do not depend on the partitioning.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spark_eval.arrow.codes import Hashes, decode_ids, run_starts, to_numpy
from spark_eval.arrow.xxhash64 import id_hashes, word_hashes
from spark_eval.predictions.task import AUPRC, BLOCK, CORRECTED, DRAW, ECE, ECE_DEBIASED, PredictionPlan
from spark_eval.predictions.worker.calibration import debiased_error
from spark_eval.predictions.worker.clusters import CellRows, concat_rows
from spark_eval.predictions.worker.rows import bins_of, correct_for_sampling
from spark_eval.predictions.worker.totals import AMOUNT_BITS, Cell
from spark_eval.schema import USER
from spark_eval.statistics.additive import Additive, added_by, the_same
from spark_eval.statistics.draws import USERS_AT_ONCE, poisson_weights, resampled_sums
from spark_eval.statistics.exact import Floats, Ints, sums_by_group

# Blocks of a P-R curve: one more at each of these shares of the positives, and steps of flagged weight.
SHARES: Final = 128
STEPS_PER_OCTAVE: Final = 8
OCTAVES: Final = 32
N_BLOCKS: Final = SHARES + STEPS_PER_OCTAVE * (OCTAVES + 1) + 1
# Users whose weights are kept at once.
USERS_DRAWN: Final = 8 * USERS_AT_ONCE
# Weights up to 8 whose sum fits a byte.
MOST_IN_BYTE: Final = 31
# Rows that are added at once: sums of 2^19 * 8 * 2^30 are exact as doubles.
ROWS_ADDED: Final = 1 << 19


def both_or_none(one: Ints | None, other: Ints | None) -> Ints | None:
    """Return the sum of both; None if one is not known."""
    return None if one is None or other is None else one + other


@dataclass(frozen=True)
class ReplicateSums(Additive):
    """Sums of one cell; index 0 of the second axis is the sample itself, the others are its replicates.

    ``n_units`` are the users, or rows, that are drawn.
    ``blocks`` (2 * N_BLOCKS, 1 + n, limbs) are amounts of labels in the blocks of the P-R curve. ``gaps`` has
    for each variant of the scores the sums (bins + 1, 1 + n, limbs) of score less label, and of weights.
    """

    cell: Cell = field(metadata=added_by(the_same))
    blocks: Ints | None = field(metadata=added_by(both_or_none))
    gaps: Mapping[str, Ints]
    n_units: int

    def values(self) -> dict[str, Floats]:
        """Return the values (1 + n,) of each metric by its name and variant; NaN where undefined.

        Of ``ece_debiased`` these are the number of units, the value, its standard error and its limits.
        """
        found = {} if self.blocks is None else {AUPRC: average_precision(doubles_of(self.blocks))}
        for mark, gaps in self.gaps.items():
            *of_bins, weight = doubles_of(gaps)
            found[ECE + mark] = quotient(np.abs(of_bins).sum(axis=0), weight)
            own = quotient(np.array(of_bins), np.broadcast_to(weight, (len(of_bins), len(weight))))
            found[ECE_DEBIASED + mark] = np.array([self.n_units, *debiased_error(own, self.n_units)])
        return found


def average_precision(blocks: Floats) -> Floats:
    """Return the area (n,) of P-R curves with a step per block; ``blocks`` (2 * blocks, n), label first.

    Of a positive in the first block, and a positive beside a negative in the second:

    >>> average_precision(np.array([[0.0], [1.0], [1.0], [1.0]])).round(6).tolist()
    [0.833333]
    """
    negatives, positives = blocks.reshape(2, -1, blocks.shape[1])
    tp = np.cumsum(positives, axis=0)
    flags = tp + np.cumsum(negatives, axis=0)
    return quotient((positives * quotient(tp, flags, 0.0)).sum(axis=0), tp[-1])


def quotient(part: Floats, whole: Floats, undefined: float = np.nan) -> Floats:
    """Return ``part / whole``, or ``undefined`` where ``whole`` is 0."""
    found: Floats = np.divide(part, whole, out=np.full(part.shape, undefined), where=whole != 0)
    return found


def limbs_of(values: Floats, n_limbs: int) -> list[Floats]:
    """Split values into integers in units of 2^30 (the first of three), 1 and 2^-30; the last is rounded.

    >>> [limb.tolist() for limb in limbs_of(np.array([-0.25, 3.0]), 2)]
    [[-1.0, 3.0], [805306368.0, 0.0]]
    """
    limbs, rest = [], values * 2.0 ** (-AMOUNT_BITS * (n_limbs - 2))
    for _ in range(n_limbs - 1):
        limbs.append(np.floor(rest))
        rest = (rest - limbs[-1]) * 2.0**AMOUNT_BITS
    return [*limbs, np.rint(rest)]


def doubles_of(sums: Ints) -> Floats:
    """Return sums of limbs (..., limbs) as doubles."""
    n_limbs = sums.shape[-1]
    total = np.zeros(sums.shape[:-1])
    for index in range(n_limbs):
        total += sums[..., index] * 2.0 ** (AMOUNT_BITS * (n_limbs - 2 - index))
    return total


def blocks_of(tp: Floats, fp: Floats, positives: float, weight: float) -> Ints:
    """Return the block of each score, best first, from the weights that it flags.

    Blocks end where the share of positives or the logarithm of the flagged weight reaches a grid: precision
    cannot change faster than the flagged weight grows.
    """
    share = np.floor(tp / positives * SHARES) if positives else np.zeros(len(tp))
    mantissa, exponent = np.frexp((tp + fp) / weight if weight else np.zeros(len(tp)))
    octave = np.maximum(exponent + OCTAVES, 0)
    growth = octave * STEPS_PER_OCTAVE + np.floor(mantissa * 2 * STEPS_PER_OCTAVE) - STEPS_PER_OCTAVE
    blocks: Ints = np.minimum(share + np.maximum(growth, 0), N_BLOCKS - 1).astype(np.int64)
    return blocks


def row_hashes(rows: CellRows) -> Hashes:
    """Return a hash of score, label, weight and number among equal rows, for each row of a range."""
    weight = np.ones(len(rows.rows)) if rows.weight is None else rows.weight
    keys = [rows.score, rows.label.astype(np.float64), weight]
    order = np.lexsort(keys)
    starts = np.logical_or.reduce([run_starts(key[order]) for key in keys])
    first = np.maximum.accumulate(np.where(starts, np.arange(len(order)), 0))
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.arange(len(order)) - first
    hashes = np.zeros(len(order), dtype=np.uint64)
    for words in (*(key.view(np.int64) for key in keys), number):
        hashes = word_hashes(words, hashes)
    return hashes


def replicate_sums(parts: Iterable[CellRows], plan: PredictionPlan) -> Iterator[ReplicateSums]:
    """Yield the sums of each cell over its replicates; ``parts`` have all rows of their users."""
    by_cell: dict[Cell, list[CellRows]] = defaultdict(list)
    for part in parts if plan.bootstrapped else ():
        by_cell[part.cell].append(part)
    for cell, own in by_cell.items():
        yield sums_of_cell(cell, concat_rows(own), plan)


def sums_of_cell(cell: Cell, rows: CellRows, plan: PredictionPlan) -> ReplicateSums:
    """Return the sums of a cell over its replicates."""
    table, seed = rows.rows, np.int64(plan.seed + plan.resamples)
    if USER in table.column_names:
        encoded = table[USER].combine_chunks().dictionary_encode()
        hashes, user = id_hashes(decode_ids(encoded.dictionary), seed), to_numpy(encoded.indices)
    else:
        hashes, user = word_hashes(np.full(len(table), seed), to_numpy(table[DRAW])), np.arange(len(table))
    user = user.astype(np.int64)
    blocks = None
    if AUPRC in plan.bootstrapped:
        group = to_numpy(table[BLOCK]).astype(np.int64) + N_BLOCKS * rows.label
        amounts = [np.ones(len(table))] if rows.weight is None else limbs_of(rows.weight, 2)
        blocks = resampled_groups(hashes, user, group, amounts, 2 * N_BLOCKS, plan.resamples)
        if rows.weight is None:
            blocks = np.concatenate([blocks, np.zeros_like(blocks)], axis=-1)
    return ReplicateSums(cell, blocks, dict(gap_sums(rows, hashes, user, plan)), len(hashes))


def gap_sums(rows: CellRows, hashes: Hashes, user: Ints, plan: PredictionPlan) -> Iterator[tuple[str, Ints]]:
    """Yield for each variant of the scores the resampled sums of score less label by bin, and of weights."""
    weight = np.ones(len(user)) if rows.weight is None else rows.weight
    n_limbs = 2 if rows.weight is None else 3
    for rate in plan.variants if {ECE, ECE_DEBIASED} & plan.bootstrapped else ():
        score = rows.score if rate is None else correct_for_sampling(rows.score, rate)
        group, n_groups = user * plan.bins + bins_of(score, plan.bins), len(hashes) * plan.bins
        gaps = sums_by_group((score - rows.label) * weight, group, n_groups).reshape(len(hashes), -1)
        of_users = np.concatenate([gaps, sums_by_group(weight, user, len(hashes))[:, np.newaxis]], axis=1)
        columns = np.concatenate(limbs_of(of_users, n_limbs), axis=1)
        sums = resampled_sums(poisson_weights, hashes, columns, plan.resamples)
        yield "" if rate is None else CORRECTED, np.stack(np.split(sums.T, n_limbs), axis=-1)


def resampled_groups(
    hashes: Hashes, user: Ints, group: Ints, amounts: Sequence[Floats], n_groups: int, n_replicates: int
) -> Ints:
    """Return sums of integer amounts of rows by group: plain, and weighted by the draws of their users.

    The shape is (n_groups, 1 + n_replicates, amounts). ``user`` and ``group`` are numbers of each row.
    """
    sums = np.zeros((n_groups, 1 + n_replicates, len(amounts)), dtype=np.int64)
    order = np.lexsort((group, user // USERS_DRAWN))
    user, group, columns = user[order], group[order], np.stack(amounts)[:, order]
    is_new = np.arange(len(order)) % ROWS_ADDED == 0
    starts = np.flatnonzero(is_new | run_starts(group) | run_starts(user // USERS_DRAWN))
    ends, drawn = [*starts[1:].tolist(), len(order)], -1
    for start, end in zip(starts.tolist(), ends, strict=True):
        if (number := int(user[start]) // USERS_DRAWN) != drawn:
            drawn, weights = number, weights_of(hashes, number, n_replicates)
        part, mine = slice(start, end), weights[user[start:end] - number * USERS_DRAWN]
        for index, column in enumerate(columns):
            sums[group[start], 0, index] += int(column[part].sum())
            of_draws = sum_of_weights(mine) if is_ones(column[part]) else column[part] @ mine
            sums[group[start], 1:, index] += of_draws[:n_replicates].astype(np.int64)
    return sums


def sum_of_weights(weights: NDArray[np.int8]) -> Ints:
    """Return the sums over n users of Poisson weights (n, replicates); replicates are a multiple of 8.

    Eight weights are added at a time, as the bytes of one integer.

    >>> sum_of_weights(np.full((40, 8), 8, dtype=np.int8)).tolist()
    [320, 320, 320, 320, 320, 320, 320, 320]
    """
    words, sums = weights.view(np.uint64), np.zeros(weights.shape[1], dtype=np.int64)
    for start in range(0, len(words), MOST_IN_BYTE):
        sums += np.add.reduce(words[start : start + MOST_IN_BYTE], axis=0).view(np.uint8)
    return sums


def weights_of(hashes: Hashes, number: int, n_replicates: int) -> NDArray[np.int8]:
    """Return the weights (users, replicates) of a part of the users, of a multiple of 8 replicates."""
    first = number * USERS_DRAWN
    part = hashes[first : first + USERS_DRAWN]
    return np.concatenate(
        [
            poisson_weights(part[start : start + USERS_AT_ONCE], -(-n_replicates // 8) * 8)
            for start in range(0, len(part), USERS_AT_ONCE)
        ]
    )


def is_ones(amounts: Floats) -> bool:
    """Return True if all amounts are 1: their weights are added as small integers."""
    return bool((amounts == 1).all())


def merge_replicates(parts: Sequence[ReplicateSums]) -> tuple[Cell, dict[str, Floats]]:
    """Return the cell, and the values of its sample and replicates, from the sums of all users."""
    whole, *others = parts
    for other in others:
        whole += other
    return whole.cell, whole.values()
