"""Draws and counts of differences in the workers, against one loop over users."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.comparison.plain_pairs import population_of, table_of

from spark_eval.arrow.xxhash64 import id_hashes
from spark_eval.comparison.worker.ranking import DifferenceCounter, SizeCounts, merge_slices
from spark_eval.statistics.differences import to_quanta
from spark_eval.statistics.draws import flips, poisson_weights
from spark_eval.statistics.ranked import RankSums
from spark_eval.statistics.resampling import scale_of, scaled
from spark_eval.users import resampling
from spark_eval.users.cells import EVERYBODY, SegmentValue
from spark_eval.users.population import CANDIDATE, AlignedUsers, ComparisonTask
from spark_eval.users.resampling import Amount, ResampledSums, Resampler

COLUMNS = ("ap_at_5", "ndcg_at_5")
TASK = ComparisonTask(
    [(CANDIDATE, name) for name in "abc"],
    [(slice(0, 1), slice(1, 3)), (slice(1, 2), slice(2, 3))],
    COLUMNS,
    ("country",),
)
PAIRS = ((0, 1), (0, 2), (1, 2))
CELLS: Sequence[SegmentValue] = [EVERYBODY, ("country", "at"), ("country", "be")]
LARGEST = np.array([[1.0, 0.5], [1.0, 0.75], [1.0, 1.0]])
N_USERS = 90


@pytest.fixture
def models() -> list[pd.DataFrame]:
    generator = np.random.default_rng(4)
    found = []
    for _ in range(3):
        rows = pd.DataFrame({"user": np.arange(N_USERS), "country": ["at", "be"] * (N_USERS // 2)})
        rows["ap_at_5"] = generator.choice([0.0, 0.2, 0.4, 0.6], N_USERS)
        rows["ndcg_at_5"] = generator.random(N_USERS) / 2
        rows.loc[generator.random(N_USERS) < 0.2, "ndcg_at_5"] = np.nan
        found.append(rows)
    return found


def populations(models: Sequence[pd.DataFrame]) -> list[AlignedUsers]:
    """Two buckets."""
    return [
        population_of(TASK, [table_of(rows[rows["user"] % 2 == part]) for rows in models]) for part in (0, 1)
    ]


@pytest.mark.parametrize("at_once", [1, 256])
@pytest.mark.parametrize("most", [1, 10_000_000])
def test_draws(
    models: Sequence[pd.DataFrame], at_once: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resampling, "AMOUNTS_AT_ONCE", at_once)
    monkeypatch.setattr(resampling, "MOST_SUMS", most)
    chosen = [Amount.difference(*pair, column) for pair in PAIRS for column in COLUMNS]
    made = Resampler(CELLS, chosen, LARGEST.ravel(), seed=5, replicates=7, flips=9, has_cubes=True)
    first, second = (made.sums(population) for population in populations(models))
    found: ResampledSums = first + second
    ids = pa.array(range(N_USERS))
    weights = np.insert(poisson_weights(id_hashes(ids, np.int64(5)), 7).astype(np.int64), 0, 1, axis=1)
    signs = np.insert(flips(id_hashes(ids, np.int64(6)), 9).astype(np.int64), 0, 1, axis=1)
    for number, (cell, pair, column) in enumerate(np.ndindex(len(CELLS), *LARGEST.shape)):
        left, right = (models[place][COLUMNS[column]].to_numpy() for place in PAIRS[pair])
        chosen = np.isfinite(right - left)
        if cell:
            chosen &= (models[0]["country"] == CELLS[cell][1]).to_numpy()
        scale = scale_of(float(LARGEST[pair, column]))
        whole = scaled((right - left)[chosen], scale).astype(np.int64)
        assert found.totals[number].tolist() == (whole @ weights[chosen]).tolist()
        assert found.weights[number].tolist() == weights[chosen].sum(axis=0).tolist()
        assert found.flipped[number].tolist() == (whole @ signs[chosen]).tolist()
        cubes = sum(Fraction(int(one)) ** 3 for one in whole) * (Fraction(scale) / 2**31) ** 3
        assert found.cube(number, scale) == cubes


def test_ranks(models: Sequence[pd.DataFrame]) -> None:
    chosen = np.ones((len(CELLS), *LARGEST.shape), dtype=bool)
    chosen[1, 2, 0] = False
    counting = DifferenceCounter(CELLS, chosen, LARGEST, n_slices=4, n_parts=3)
    arrived: dict[int, list[SizeCounts]] = {}
    for population in populations(models):
        for part, counts in counting.counts(population):
            arrived.setdefault(part, []).append(counts)
    found = merge_slices([counting.ranked(parts) for parts in arrived.values()])
    for number, (cell, pair, column) in enumerate(np.ndindex(chosen.shape)):
        left, right = (models[place][COLUMNS[column]] for place in PAIRS[pair])
        own = (right - left)[models[0]["country"] == CELLS[cell][1]] if cell else right - left
        q = to_quanta(own.dropna().to_numpy())
        sizes = np.unique(abs(q[q != 0]))
        if not chosen[cell, pair, column]:
            assert number not in found
            continue
        up, down = ([int((q == sign * size).sum()) for size in sizes] for sign in (1, -1))
        assert found[number].ranks == RankSums.of(up, down)
        assert found[number].quanta is None


def test_few_differences_are_kept() -> None:
    a = pd.DataFrame({"user": range(12), "ap_at_5": 0.5, "ndcg_at_5": 0.5, "country": "at"})
    b = a.assign(ap_at_5=[0.75, 0.25, 0.5, 0.5, 1.0, 0.25, *[0.5] * 6])
    task = ComparisonTask([(CANDIDATE, "a"), (CANDIDATE, "b")], [(slice(0, 1), slice(1, 2))], COLUMNS)
    counting = DifferenceCounter([EVERYBODY], np.ones((1, 1, 2), dtype=bool), np.array([[0.5, 0.0]]), 4, 1)
    [(_, counts)] = counting.counts(population_of(task, [table_of(a), table_of(b)]))
    [found] = merge_slices([counting.ranked([counts])]).values()
    quarter = 2**38
    assert sorted(found.quanta or ()) == [-quarter, -quarter, quarter, 2 * quarter]
