"""Metrics of clusters of records are those of ER-Evaluation and bcubed-metrics."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_eval import evaluate_linkage

PYTHON = Path(__file__).parents[2] / ".venv-parity" / "bin" / "python"
SCRIPT = Path(__file__).parent / "libraries" / "ask_linkage.py"
pytestmark = [pytest.mark.parity, pytest.mark.timeout(900), pytest.mark.usefixtures("engine_of_users")]
TOLERANCE = 1e-9
# The cluster of each record, null for a record without one.
Clusters = Sequence[int | None]


def drawn(n: int, n_clusters: int, share: float, seed: int) -> tuple[Clusters, Clusters]:
    """True clusters, and predicted ones that differ for some records; both lack one record in ten."""
    random = np.random.default_rng(seed)
    true = random.integers(0, n_clusters, n)
    predicted = np.where(random.random(n) < share, random.integers(0, n_clusters, n), true)
    lacks = random.random((2, n)) < 0.1
    ours, theirs = (
        [None if lack else int(one) for one, lack in zip(clusters, missing, strict=True)]
        for clusters, missing in zip((predicted, true), lacks, strict=True)
    )
    return ours, theirs


CASES: list[tuple[Clusters, Clusters]] = [
    ([1, 1, 2, 3, 2, 4, 4, 4], [1, 1, 1, 2, 2, 3, 3, 4]),
    ([1] * 6, [1, 1, 2, 2, 3, 3]),
    ([1, 2, 3], [1, 1, 2]),
    ([1, 2, 3], [1, 2, 3]),
    *(drawn(n, n // 3 + 1, share, n) for n, share in ((12, 0.3), (60, 0.1), (400, 0.5), (3000, 0.05))),
]


def frame(clusters: Clusters) -> pa.Table:
    known = [(record, one) for record, one in enumerate(clusters) if one is not None]
    return pa.table({"record": [record for record, _ in known], "cluster": [one for _, one in known]})


def filled(case: tuple[Clusters, Clusters]) -> tuple[Clusters, Clusters]:
    """The same with a cluster of its own for each record that one side alone lacks."""
    ours, theirs = (
        [-1 - record if one is None and two is not None else one for record, (one, two) in enumerate(sides)]
        for sides in (zip(*case, strict=True), zip(*case[::-1], strict=True))
    )
    return ours, theirs


def test_metrics_are_those_of_er_evaluation_and_bcubed_metrics(compared: list[str]) -> None:
    if not PYTHON.exists():
        pytest.skip("the libraries are not installed; `make test-parity` installs them and runs this")
    asked = json.dumps([*CASES, *map(filled, CASES)])
    done = subprocess.run([PYTHON, SCRIPT], input=asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    n_numbers = 0
    settings: list[Any] = [{"conventions": "er_evaluation"}] * len(CASES)
    settings += [{"conventions": "er_evaluation", "missing": "singleton"}] * len(CASES)
    for case, options, numbers in zip(CASES * 2, settings, answer["numbers"], strict=True):
        found = evaluate_linkage(*map(frame, case), **options)
        for metric, expected in numbers.items():
            assert found.value(metric) == pytest.approx(expected, rel=TOLERANCE, abs=1e-12), metric
        n_numbers += len(numbers)
    names = ", ".join(f"{name} {version}" for name, version in answer["versions"].items())
    compared.append(f"{names}: clusters of records: {n_numbers} numbers")
