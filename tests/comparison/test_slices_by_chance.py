"""Slices in simulated experiments: no alarm without a difference, and a planted loss is found and named."""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from spark_eval import compare
from spark_eval.comparison.rows import SliceRow

pytestmark = [pytest.mark.exhaustive, pytest.mark.usefixtures("engine_of_users"), pytest.mark.timeout(3600)]
# Numbers of values of the attributes.
SIZES: Final = (2, 5, 10, 20, 30)
# Numbers of experiments: without a difference, and with a planted loss.
N_NULL: Final = 200
N_LOSS: Final = 50
# Share of the users who differ at all.
DIFFERING: Final = 0.2


def experiment(n: int, seed: int, *, loss: float = 0.0, min_users: int) -> list[SliceRow]:
    """Slices of n users; in a crossing with 2 % of them the candidate loses so much."""
    draw = np.random.default_rng(seed)
    codes = [draw.integers(0, size, n) for size in SIZES]
    is_hit = (codes[1] == 0) & (codes[2] == 0)
    values = draw.beta(1, 3, (2, n))
    differences = np.where(draw.random(n) < DIFFERING, values[1] - values[0], 0.0) - loss * is_hit
    table: dict[str, Any] = {
        f"a{index}": pa.array(code).cast(pa.string()) for index, code in enumerate(codes)
    }
    table["user"] = np.arange(n)
    old = pa.table(table | {"ndcg_at_10": np.full(n, 0.5)})
    new = pa.table(table | {"ndcg_at_10": 0.5 + differences})
    slices = {"of": [f"a{index}" for index in range(len(SIZES))], "min_users": min_users}
    return list(compare(new, old, model="b", baseline_model="a", slices=slices).slice_rows)


def test_without_a_difference_few_experiments_have_a_slice_that_loses() -> None:
    n_false = 0
    for seed in range(N_NULL):
        rows = experiment(20_000, seed, min_users=50)
        assert len(rows) >= 500
        n_false += any(row.verdict == "loses" for row in rows)
    assert n_false <= 0.05 * N_NULL


def test_a_loss_in_a_crossing_is_found_and_named() -> None:
    n_found = 0
    by_parents = []
    for seed in range(N_LOSS):
        by_name = {
            tuple(zip(row.attributes, row.values, strict=True)): row
            for row in experiment(200_000, seed, loss=0.02, min_users=200)
        }
        row = by_name[("a1", "0"), ("a2", "0")]
        n_found += row.verdict == "loses" and row.role == "own"
        parents = (by_name[("a1", "0"),], by_name[("a2", "0"),])
        by_parents += [one.by for one in parents if one.verdict == "loses"]
    assert n_found >= 0.8 * N_LOSS
    # A wider slice that loses has, more often than others, users outside the crossing who lose by chance.
    assert by_parents.count("a1=0, a2=0") > 0.5 * len(by_parents)
