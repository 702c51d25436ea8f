"""Presets of experiments give the numbers of gbstats and tea-tasting, our own those of statsmodels."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pytest
from tests.experiments.data_d import CLICKS, CTR, HOME, IMPRESSIONS, PAST, PRE_WATCH, START, WATCH, WATCHED

from spark_eval import evaluate_experiments

PYTHON = Path(__file__).parents[2] / ".venv-parity" / "bin" / "python"
SCRIPT = Path(__file__).parent / "libraries" / "ask_experiments.py"
pytestmark = [pytest.mark.parity, pytest.mark.timeout(900)]
TOLERANCE = 1e-9
CTR_OF_VIEWS: Final = {**CTR, "denominator": {"kind": "view"}}
# Lists by user, of one arm.
Arm = Mapping[str, list[int]]


def drawn(n: int, effect: float, seed: int) -> Arm:
    """Users with a heavy-tailed watch time and a past; some have no views."""
    random = np.random.default_rng(seed)
    taste, rates = random.lognormal(3, 0.8, n), random.beta(2, 6, n)
    views = [random.poisson(6, n), 1 + random.poisson(6, n)]
    clicks = [random.binomial(views[0], np.minimum(1, rates * effect)), random.binomial(views[1], rates)]
    watch = [1 + np.rint(taste * factor * random.lognormal(0, 0.4, n)) for factor in (effect, 1.0)]
    names = ("view", "pre_view", "click", "pre_click", "watch", "pre_watch")
    columns = zip(names, (*views, *clicks, *watch), strict=True)
    return {name: [int(one) for one in values] for name, values in columns}


def worked(number: int) -> Arm:
    """An arm of the worked example; its past has the views and clicks of other users."""
    ctr = {"click": CLICKS[number], "view": IMPRESSIONS[number]}
    past = {"pre_click": CLICKS[number][::-1], "pre_view": IMPRESSIONS[number][::-1]}
    return {**ctr, **past, "watch": WATCH[number], "pre_watch": PRE_WATCH[number]}


CASES: Final = [
    [worked(0), worked(1)],
    *([drawn(n, 1.0, n), drawn(n + 7, effect, n + 1)] for n, effect in ((20, 1.4), (300, 1.1), (2000, 0.97))),
]


def tables(arms: list[Arm]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Exposures and events of the users: one event of each kind, with its number as the value."""
    exposures, events = [], []
    for variant, arm in zip("ct", arms, strict=True):
        users = [f"{variant}{number}" for number in range(len(arm["watch"]))]
        exposures.append(pd.DataFrame({"user": users, "variant": variant, "timestamp": START}))
        for name, values in arm.items():
            when = PAST if name.startswith("pre_") else START
            kind = name.removeprefix("pre_")
            events.append(pd.DataFrame({"user": users, "kind": kind, "timestamp": when, "value": values}))
    return pd.concat(exposures), pd.concat(events).astype({"value": float})


@pytest.fixture(scope="module")
def theirs() -> Mapping[str, Any]:
    """What the libraries find."""
    if not PYTHON.exists():
        pytest.skip("the libraries are not installed; `make test-parity` installs them and runs this")
    done = subprocess.run(
        [PYTHON, SCRIPT], input=json.dumps(CASES), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    answer: Mapping[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize("library", ["tea_tasting", "gbstats", "statsmodels"])
def test_numbers_are_those_of_the_libraries(
    library: str, theirs: Mapping[str, Any], compared: list[str]
) -> None:
    n_numbers = 0
    for arms, expected in zip(CASES, theirs["numbers"][library], strict=True):
        found = evaluate_experiments(
            *tables(arms),
            [CTR_OF_VIEWS, WATCHED],
            HOME,
            conventions="default" if library == "statsmodels" else library,
            sequential={"tightest_at": 50, "min_users": 1} if library == "gbstats" else None,
            engine="local",
        )
        rows = {f"{row.metric} {row.method}": row._asdict() for row in found.experiment_rows}
        for name, numbers in expected.items():
            ours = {key: rows[name][key] for key in numbers}
            # 1 - cdf loses digits in the tail.
            assert ours == pytest.approx(numbers, rel=TOLERANCE, abs=1e-12), name
            n_numbers += len(numbers)
    version = theirs["versions"][library.replace("_", "-")]
    compared.append(f"{library.replace('_', '-')} {version}: experiments: {n_numbers} numbers")
