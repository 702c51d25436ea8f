"""Equal recipes in simulated trainings: few are told apart, and an effect as large as `mde` is found."""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from spark_eval import compare
from spark_eval.comparison.rows import ComparisonRow

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(3600)]
# Number of trainings of each layout, and of those that one table has: each is a column of its own.
N_TRAININGS: Final = 1_500
AT_ONCE: Final = 50
# Numbers of users and repeats, and the standard deviation by which repeats move the mean.
LAYOUTS: Final = [(2000, 3, 0.004), (2000, 5, 0.004), (20_000, 3, 0.004), (20_000, 5, 0.002), (2000, 3, 0.0)]


def trained(
    draw: np.random.Generator, layout: tuple[int, int, float], n: int, *, gain: float = 0.0, **options: Any
) -> list[ComparisonRow]:
    """Compare n pairs of recipes with zero-inflated values; the mean of one is larger by a gain."""
    n_users, n_repeats, spread = layout
    shape = (2, n_repeats, n_users)
    gains = np.array([0.0, gain])[:, None, None]
    model, repeat, user = np.indices(shape)
    keys = {
        "model": pa.array(model.ravel()).cast(pa.string()),
        "repeat": repeat.ravel(),
        "user": user.ravel(),
    }
    rows: list[ComparisonRow] = []
    while len(rows) < n:
        columns = {}
        for k in range(1, 1 + min(AT_ONCE, n - len(rows))):
            users = draw.uniform(0.05, 0.95, n_users)
            values = (draw.random(shape) < users) * draw.uniform(0.2, 1.0, shape)
            values *= 1 + (draw.normal(0, spread, (2, n_repeats, 1)) + gains) / 0.3
            columns[f"ndcg_at_{k}"] = values.ravel()
        rows += compare(pa.table(keys | columns), engine="local", **options).rows
    return rows


def rejected(rows: list[ComparisonRow]) -> float:
    """Share of the comparisons with p below .05."""
    return float(np.mean([row.p_value is not None and row.p_value < 0.05 for row in rows]))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_equal_recipes_are_seldom_told_apart(layout: tuple[int, int, float]) -> None:
    share = rejected(trained(np.random.default_rng(52), layout, N_TRAININGS))
    # The upper end of a one-sided interval of 95 %.
    assert share + 1.645 * (share * (1 - share) / N_TRAININGS) ** 0.5 <= 0.055


def test_artefacts_of_equal_recipes_are_often_told_apart() -> None:
    assert rejected(trained(np.random.default_rng(52), LAYOUTS[2], 400, question="artefact")) > 0.2


def test_an_effect_as_large_as_mde_is_found_in_four_of_five_cases() -> None:
    layout = (2000, 8, 0.006)
    draw = np.random.default_rng(53)
    detectable = float(np.mean([row.mde for row in trained(draw, layout, 400)]))
    rows = trained(draw, layout, 1000, gain=detectable)
    assert rejected(rows) == pytest.approx(0.8, abs=0.05)
