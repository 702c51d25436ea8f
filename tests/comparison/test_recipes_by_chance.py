"""Equal recipes in simulated trainings: few are told apart, and an effect as large as `mde` is found."""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from spark_eval import compare
from spark_eval.comparison.rows import ComparisonRow

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(3600)]
N_TRAININGS: Final = 200
# Numbers of users and repeats, and the standard deviation by which repeats move the mean.
LAYOUTS: Final = [(2000, 3, 0.004), (2000, 5, 0.004), (20_000, 3, 0.004), (20_000, 5, 0.002), (2000, 3, 0.0)]


def trained(
    draw: np.random.Generator, layout: tuple[int, int, float], *, gain: float = 0.0, **options: Any
) -> ComparisonRow:
    """Compare two recipes with zero-inflated values; the mean of one is larger by a gain."""
    n_users, n_repeats, spread = layout
    shape = (2, n_repeats, n_users)
    users = draw.uniform(0.05, 0.95, n_users)
    values = (draw.random(shape) < users) * draw.uniform(0.2, 1.0, shape)
    gains = np.array([0.0, gain])[:, None, None]
    values *= 1 + (draw.normal(0, spread, (2, n_repeats, 1)) + gains) / 0.3
    model, repeat, user = np.indices(shape)
    table = {
        "model": pa.array(model.ravel()).cast(pa.string()),
        "repeat": repeat.ravel(),
        "user": user.ravel(),
        "ndcg_at_10": values.ravel(),
    }
    [row] = compare(pa.table(table), engine="local", **options).rows
    return row


def rejected(rows: list[ComparisonRow]) -> float:
    """Share of the comparisons with p below .05."""
    return float(np.mean([row.p_value is not None and row.p_value < 0.05 for row in rows]))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_equal_recipes_are_seldom_told_apart(layout: tuple[int, int, float]) -> None:
    draw = np.random.default_rng(52)
    rows = [trained(draw, layout) for _ in range(N_TRAININGS)]
    # Three standard errors above 5 % of the trainings.
    assert rejected(rows) <= 0.055 + 3 * (0.05 * 0.95 / N_TRAININGS) ** 0.5


def test_artefacts_of_equal_recipes_are_often_told_apart() -> None:
    draw = np.random.default_rng(52)
    rows = [trained(draw, LAYOUTS[2], question="artefact") for _ in range(N_TRAININGS)]
    assert rejected(rows) > 0.2


def test_an_effect_as_large_as_mde_is_found_in_four_of_five_cases() -> None:
    layout = (2000, 8, 0.006)
    draw = np.random.default_rng(53)
    detectable = np.mean([trained(draw, layout).mde for _ in range(N_TRAININGS)])
    rows = [trained(draw, layout, gain=float(detectable)) for _ in range(2 * N_TRAININGS)]
    assert rejected(rows) == pytest.approx(0.8, abs=0.05)
