"""Coverage of the intervals of rho in programmes of a known truth."""

import numpy as np
import pytest

from spark_eval.calibration.fit import Points, fit


def share_covered(n: int, rho: float, n_programmes: int, seed: int) -> float:
    """Return the share of programmes whose interval holds the truth; noise is as large as signal."""
    rng = np.random.default_rng(seed)
    covered = 0
    for _ in range(n_programmes):
        truth = rng.multivariate_normal([0.2, 0.1], [[1, rho], [rho, 1]], n)
        errors = rng.uniform(0.7, 1.3, (n, 2))
        seen = truth + errors * rng.normal(size=(n, 2))
        found = fit(Points(seen[:, 0], errors[:, 0], seen[:, 1], errors[:, 1], np.zeros(n)))
        covered += found is None or found.rho_low <= rho <= found.rho_high
    return covered / n_programmes


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("n", [30, 100])
@pytest.mark.parametrize("rho", [0.0, 0.6, 0.9])
def test_intervals_hold_the_truth_in_93_of_100_programmes(n: int, rho: float) -> None:
    assert share_covered(n, rho, 1_000, seed=n) >= 0.93
