"""The debiased calibration error: a slow second computation, coverage, engines, needs and warnings."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from spark_eval import evaluate_predictions
from spark_eval.errors import ConfigError
from spark_eval.predictions.worker.calibration import debiased_error, few_units

pytestmark = pytest.mark.usefixtures("engine_of_users")
BINS = 10
PAGE = Path(__file__).parents[2] / "docs" / "predictions.md"
Array = Any


def chance_of(score: Array, shift: float, slope: float, bump: float) -> Array:
    """Log odds are ``slope`` times those of scores, ``shift`` more; of scores of .3 to .4 ``bump`` more."""
    odds = slope * np.log(score / (1 - score)) + shift + bump * ((score >= 0.3) & (score < 0.4))
    return 1 / (1 + np.exp(-odds))


def drawn(n_users: int, shift: float, seed: int, slope: float = 1.0, bump: float = 0.0) -> pd.DataFrame:
    """Ten rows of each user, with scores of Beta(1, 3) and labels by ``chance_of``."""
    random = np.random.default_rng(seed)
    score = np.clip(random.beta(1, 3, n_users * 10), 1e-4, 1 - 1e-4)
    label = (random.random(len(score)) < chance_of(score, shift, slope, bump)).astype(int)
    return pd.DataFrame({"user": np.repeat(np.arange(n_users), 10), "label": label, "score": score})


def gaps_of_users(rows: pd.DataFrame) -> Array:
    """Score less label of each user (users, bins), over the number of all rows."""
    gaps = np.zeros((rows.user.nunique(), BINS))
    bins = np.minimum((rows.score * BINS).astype(int), BINS - 1)
    np.add.at(gaps, (rows.user, bins), rows.score - rows.label)
    return gaps / len(rows)


def true_error(shift: float, slope: float = 1.0, bump: float = 0.0) -> float:
    """The calibration error of all possible rows, by integration over the scores."""
    score = (np.arange(2_000_000) + 0.5) / 2_000_000
    density = 3 * (1 - score) ** 2 / len(score)  # Beta(1, 3)
    by_bin = (density * (score - chance_of(score, shift, slope, bump))).reshape(BINS, -1).sum(axis=1)
    return float(np.abs(by_bin).sum())


def replicates(rows: pd.DataFrame, seed: int, n: int) -> Array:
    """The gaps of the sample and of its replicates (bins, 1 + n); users have Poisson weights."""
    gaps = gaps_of_users(rows)
    weights = np.random.default_rng(seed).poisson(1, (n, len(gaps)))
    sizes = weights.mean(axis=1)  # all users have as many rows
    return np.hstack([gaps.sum(axis=0)[:, np.newaxis], (weights @ gaps / sizes[:, np.newaxis]).T])


@pytest.mark.parametrize(("n_users", "shift"), [(20, 0.0), (60, 0.3), (200, 1.0)])
def test_value_and_limits_are_those_of_a_search_by_hand(n_users: int, shift: float) -> None:
    """Totals of a grid: with the value half of the sums are below the observed one; at the limits 2.5 %."""
    gaps = replicates(drawn(n_users, shift, seed=1), seed=2, n=400)
    found = debiased_error(gaps, n_users)
    own, noise = gaps[:, 0].tolist(), ((gaps[:, 1:].T - gaps[:, 0]) * few_units(n_users)).tolist()
    spread = [float(np.std([one[at] for one in noise])) for at in range(BINS)]
    observed = sum(map(abs, own))
    clear = [gap if abs(gap) >= 1.5 * error else 0.0 for gap, error in zip(own, spread, strict=True)]
    equally = [error if gap > 0 else -error for gap, error in zip(own, spread, strict=True)]

    def share_below(total: float, direction: list[float]) -> float:
        size = sum(map(abs, direction))
        moved = [total * gap / size if size else 0.0 for gap in direction]
        sums = [sum(abs(gap + one) for gap, one in zip(moved, chance, strict=True)) for chance in noise]
        return float(np.mean([one < observed for one in sums]))

    step = 0.002
    grid = np.arange(0, 0.5, step).tolist()

    def last_above(share: float, direction: list[float]) -> float:
        """The largest total with which more than this share of the sums is below the observed one."""
        return max((total for total in grid if share_below(total, direction) > share), default=0.0)

    directions = [one for one in (own, clear) if any(one)]
    assert found.value == pytest.approx(last_above(0.5, own), abs=2 * step)
    assert found.ci_low == pytest.approx(min(last_above(0.975, one) for one in directions), abs=2 * step)
    assert found.ci_high == pytest.approx(max(last_above(0.025, one) for one in (own, equally)), abs=2 * step)
    sums = [sum(abs(gap) for gap in gaps[:, at]) for at in range(1, gaps.shape[1])]
    assert found.std_error == pytest.approx(np.std(sums, ddof=1), rel=1e-9)


MANY_SAMPLES = pytest.param(1000, marks=[pytest.mark.exhaustive, pytest.mark.slow])


# Log odds of labels: (shift, slope, bump), by the words of docs/predictions.md.
LABELS = {
    "those of the scores": (0.0, 1.0, 0.0),
    ".3 more": (0.3, 1.0, 0.0),
    ".5 less": (-0.5, 1.0, 0.0),
    ".6 times these": (0.0, 0.6, 0.0),
    "1.2 times these, and .1 more": (0.1, 1.2, 0.0),
    ".5 more for scores of .3 to .4 alone": (0.0, 1.0, 0.5),
    "1 more for scores of .3 to .4 alone": (0.0, 1.0, 1.0),
}
HEADING = "| users | log odds of labels | truth | `ece` | its interval | `ece_debiased` | its interval |"


def rows_of_page() -> list[list[str]]:
    """The cells of the table of the page."""
    lines = (
        PAGE.read_text(encoding="utf-8").partition(f"{HEADING}\n")[2].partition("\n\n")[0].splitlines()[1:]
    )
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("n_samples", [40, MANY_SAMPLES])
@pytest.mark.parametrize("cells", rows_of_page(), ids=lambda cells: " ".join(cells[:2]))
def test_the_interval_covers_as_the_page_says(cells: list[str], n_samples: int) -> None:
    """It covers a calibrated model, too, of which percentiles of ``ece`` cover nothing."""
    n_users, (shift, slope, bump) = int(cells[0]), LABELS[cells[1]]
    truth = true_error(shift, slope, bump)
    inside, values, plain, percentiles = [], [], [], []
    for seed in range(n_samples):
        gaps = replicates(drawn(n_users, shift, seed, slope, bump), seed=10_000 + seed, n=100)
        found = debiased_error(gaps, n_users)
        inside.append(found.ci_low <= truth + 1e-6 and truth - 1e-6 <= found.ci_high)
        values.append(found.value)
        plain.append(float(np.abs(gaps[:, 0]).sum()))
        low, high = np.quantile(np.abs(gaps[:, 1:]).sum(axis=0), (0.025, 0.975))
        percentiles.append(low <= truth <= high)
    assert np.mean(inside) >= 0.93 - 3 * (0.93 * 0.07 / n_samples) ** 0.5
    # Standard errors of a share and of a mean: a single value varies by less than .02.
    of_share, of_mean = (spread / n_samples**0.5 for spread in (0.5, 0.02))
    found_here = (truth, np.mean(plain), np.mean(percentiles), np.mean(values), np.mean(inside))
    for cell, number in zip(cells[2:], found_here, strict=True):
        if cell.endswith("%"):
            assert abs(float(cell[:-1]) / 100 - number) <= 3 * of_share + 0.005, (cell, number)
        else:
            assert abs(float(cell) - number) <= 3 * of_mean + 0.0005, (cell, number)


@pytest.mark.parametrize("options", [{}, {"intervals": "row"}, {"sampling_rate": 0.5}, {"bins": 4}])
def test_rows_have_the_debiased_error_and_its_interval(options: dict[str, Any]) -> None:
    rows = drawn(80, 0.5, seed=3)
    settings: dict[str, Any] = {"model": "m", "metrics": ["ece", "ece_debiased"], "resamples": 100}
    found = evaluate_predictions(rows, "binary", **{**settings, "intervals": "user", **options}).metrics
    for name in ("ece", "ece(sampling_rate=0.5)")[: 2 if "sampling_rate" in options else 1]:
        plain, better = (
            found[found.metric == one].iloc[0] for one in (name, name.replace("ece", "ece_debiased"))
        )
        assert 0 <= better.ci_low <= better.value <= better.ci_high <= 1
        assert better.value <= plain.value * 1.05
        assert better.std_error == pytest.approx(plain.std_error, rel=1e-9)
        assert (better.n_users == 80) if "intervals" not in options else pd.isna(better.n_users)


def test_a_single_user_has_no_debiased_error() -> None:
    rows = drawn(1, 0.5, seed=3)
    found = evaluate_predictions(
        rows, "binary", model="m", metrics=["ece_debiased"], intervals="user"
    ).metrics
    assert found[["value", "std_error", "ci_low", "ci_high"]].isna().all(axis=None)


@pytest.mark.parametrize(
    ("options", "message"),
    [({}, "needs intervals"), ({"intervals": "user", "bins": 65}, "at most 64 bins")],
)
def test_what_the_debiased_error_needs(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        evaluate_predictions(drawn(9, 0.0, 1), "binary", model="m", metrics=["ece_debiased"], **options)
    every = evaluate_predictions(drawn(9, 0.0, 1), "binary", model="m").metrics
    assert "ece_debiased" not in set(every.metric)


def test_few_rows_in_a_bin_are_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    def warnings(n_users: int, **options: Any) -> list[str]:
        caplog.clear()
        rows = drawn(n_users, 0.0, seed=1)
        evaluate_predictions(rows, "binary", **{"model": "ctr", "metrics": ["ece"], **options})
        texts = [one.getMessage() for one in caplog.records]
        return [text for text in texts if "FEW_ROWS_PER_BIN" in text]

    [text] = warnings(300)
    assert "ctr" in text
    assert "ece_debiased" in text
    assert not warnings(600, bins=10)
    assert not warnings(300, bins=5)
    assert not warnings(300, metrics=["log_loss"])


def test_both_engines_have_the_same_bits(spark: Any) -> None:
    rows = drawn(60, 0.3, seed=4)
    options: Any = {"model": "m", "metrics": ["ece", "ece_debiased"], "intervals": "user", "resamples": 64}
    here = evaluate_predictions(rows, "binary", engine="local", **options).metrics
    there = evaluate_predictions(spark.createDataFrame(rows), "binary", engine="spark", **options).metrics
    pd.testing.assert_frame_equal(here, there, check_exact=True)
