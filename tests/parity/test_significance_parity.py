"""Adjusted p-values, clustered errors, equivalence and parts of variance are those of statsmodels."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from request_lists import drawn, worked
from tests.statistics.samples import by_chance, clusters_of, pair_sums

from spark_eval import evaluate
from spark_eval.evaluation.result import Evaluation
from spark_eval.statistics.repeats import CrossedSums
from spark_eval.statistics.significance import adjusted, t_test, tost

PYTHON = Path(__file__).parents[2] / ".venv-parity" / "bin" / "python"
SCRIPT = Path(__file__).parent / "libraries" / "ask_statsmodels.py"
pytestmark = [pytest.mark.parity, pytest.mark.timeout(900)]
TOLERANCE = 1e-9
RANDOM = np.random.default_rng(20_261_127)
FAMILIES = [np.round(RANDOM.random(n) ** 3, 3).tolist() for n in (1, 2, 7, 40, 300)]
CLUSTERS = [(RANDOM.integers(0, n // 3, n).tolist(), RANDOM.normal(0.1, 1, n).tolist()) for n in (9, 30, 500)]
PAIRS = [(by_chance(n, seed=n), delta) for n, delta in ((5, 0.1), (40, 0.05), (1000, 0.02))]
# Values of users under the repeats of a model, with parts that are positive.
CROSSED = [
    RANDOM.normal(0, 1, n_users) + np.linspace(-1, 1, n)[:, None] + RANDOM.normal(0, 0.6, (n, n_users))
    for n, n_users in ((3, 10), (5, 20), (8, 30))
]


@pytest.fixture(scope="module")
def theirs() -> Mapping[str, Any]:
    """What statsmodels finds."""
    if not PYTHON.exists():
        pytest.skip("the libraries are not installed; `make test-parity` installs them and runs this")
    pairs = [(*(side.tolist() for side in pair), delta) for pair, delta in PAIRS]
    requests = [case for result in by_request() for case in requests_of(result)]
    asked = {"families": FAMILIES, "clusters": CLUSTERS, "pairs": pairs, "requests": requests}
    cases = json.dumps(asked | {"crossed": [values.tolist() for values in CROSSED]})
    done = subprocess.run([PYTHON, SCRIPT], input=cases, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: Mapping[str, Any] = json.loads(done.stdout)
    return answer


def by_request() -> list[Evaluation]:
    """Evaluations of lists by request: the worked example, and lists by chance."""
    lists, truth = worked()
    options: dict[str, Any] = {"metrics": ["precision", "ndcg"], "k": 10, "engine": "local"}
    frames: dict[str, Any] = drawn()
    return [evaluate(lists, truth, **options), evaluate(**frames, **options)]


def requests_of(result: Evaluation) -> list[tuple[list[int], list[float]]]:
    """The users and values of the lists of each model and metric, without those that are undefined."""
    rows = result.per_user
    users = rows["user"].astype("category").cat.codes
    cases = []
    for row in result.metric_rows:
        values = rows[f"{row.metric}_at_{row.k}"].where(rows["model"] == row.model).dropna()
        cases.append((users[values.index].tolist(), values.tolist()))
    return cases


def ours() -> dict[str, list[float]]:
    """The same numbers, in the order of the cases."""
    estimates = [clusters_of(*case).estimate for case in CLUSTERS]
    equivalences = [tost(pair_sums(pair).estimate, delta, 0.95) for pair, delta in PAIRS]
    return {
        "adjusted": [
            p or 0.0
            for family in FAMILIES
            for method in ("holm", "bonferroni", "bh")
            for p in adjusted(family, method)
        ],
        "clustered": [
            float(number or 0)
            for estimate in estimates
            for number in (estimate.value, estimate.std_error, *t_test(estimate, 0.95)[:2])
        ],
        # The factor of statsmodels, U / (U - 1) * (N - 1) / (N - K), is ours for a mean: K is 1.
        "requests": [
            float(number or 0)
            for result in by_request()
            for row in result.metric_rows
            for number in (row.value, row.std_error)
        ],
        "equivalence": [result.p_value or 0.0 for result in equivalences],
    }


def flat(found: Any) -> list[float]:
    """All numbers of a tree, in order."""
    match found:
        case dict():
            return flat(list(found.values()))
        case list():
            return [number for part in found for number in flat(part)]
    return [found]


def test_numbers_are_those_of_statsmodels(theirs: Mapping[str, Any], compared: list[str]) -> None:
    for kind, numbers in ours().items():
        expected = flat(theirs["numbers"][kind])
        assert numbers == pytest.approx(expected, rel=TOLERANCE, abs=1e-12), kind
        compared.append(f"statsmodels {theirs['version']}: {kind}: {len(expected)} numbers")


def test_parts_of_the_variance_are_those_of_crossed_random_effects(
    theirs: Mapping[str, Any], compared: list[str]
) -> None:
    for values, expected in zip(CROSSED, theirs["numbers"]["crossed"], strict=True):
        n_repeats, n_users = values.shape
        parts = CrossedSums.of(values).parts
        assert parts is not None
        rest = float(parts.residual)
        ours = [(float(parts.users) - rest) * n_users, (float(parts.of_repeats) - rest) * n_repeats]
        ours.append(rest * values.size)
        assert ours == pytest.approx(expected["moments"], rel=TOLERANCE)
        # REML has the same maximum in complete layouts; its iteration stops before.
        assert ours == pytest.approx(expected["reml"], rel=1e-4)
    compared.append(f"statsmodels {theirs['version']}: parts of variance: {3 * len(CROSSED)} numbers")
