"""``compare`` of values of any magnitude: finite numbers, or METRIC_OVERFLOW."""

import math
import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any, Final

import numpy as np
import pandas as pd
import pytest

from spark_eval.comparison.compare import Comparison, compare
from spark_eval.errors import DataError

MAGNITUDES: Final = (0.0, 5e-324, 1e-300, 1e-155, 1.0, 1e155, 1e300, 1.7e308)
EVERY_TEST: Final = ["t", "sign", "wilcoxon", "randomization", "bootstrap", "bca"]
MAX_DROPS: Final = product(("absolute", "relative"), ("observed", "non_inferior", "certain_drop"))
GATES: Final = [
    {
        "metric": "dcg@5",
        "against": {"model": "a"},
        "max_drop": 0.1,
        "drop": drop,
        "mode": mode,
        "min_users": 2,
    }
    for drop, mode in MAX_DROPS
]
# With one size of all values, quotients are those of values of size 1.
FREE_OF_UNITS: Final = ("relative", "relative_std_error", "effect_size", "statistic", "p_value")


def table(baseline: float, candidate: float, n: int = 30, **columns: Any) -> pd.DataFrame:
    """Two models of the same users, whose values have these magnitudes."""
    draw = np.random.default_rng(n)
    sides = {"a": draw.random(n) * baseline, "b": draw.random(n) * candidate}
    return pd.concat(
        pd.DataFrame({"model": model, "user": np.arange(n), "dcg_at_5": values, **columns})
        for model, values in sides.items()
    )


@pytest.fixture(autouse=True)
def warnings_are_errors() -> Iterator[None]:
    """Numbers that NumPy warns of are wrong without a word."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


def compared(table: pd.DataFrame, **options: Any) -> Comparison | None:
    """The comparison, whose numbers are finite or null; None if it is refused by name."""
    try:
        found = compare(table, **options)
    except DataError as error:
        if error.code != "METRIC_OVERFLOW":
            raise
        return None
    for row in [one._asdict() for one in found.rows] + [one._asdict() for one in found.gate_rows]:
        numbers = {name: value for name, value in row.items() if isinstance(value, float)}
        assert not {name: value for name, value in numbers.items() if not math.isfinite(value)}
    return found


@pytest.mark.parametrize("baseline", MAGNITUDES)
@pytest.mark.parametrize(
    ("n", "options"), [(2, {}), (30, {"tests": EVERY_TEST}), (2, {"gates": GATES})], ids=["t", "all", "gates"]
)
def test_values_of_any_magnitude_are_compared_or_refused_by_name(
    baseline: float, n: int, options: dict[str, Any]
) -> None:
    for candidate in MAGNITUDES:
        found = compared(table(baseline, candidate, n), equivalence=0.1, resamples=20, **options)
        assert found is not None or max(baseline, candidate) > 1e154
        assert found is None or bool(found.gate_rows) == ("gates" in options)


@pytest.mark.parametrize("magnitude", [2.0**-900, 2.0**-500, 2.0**515, 2.0**950])
def test_the_unit_of_values_changes_no_quotient(magnitude: float) -> None:
    # Quanta are absolute: tests by them see other differences, or none.
    tests = ["t", "bootstrap", "bca"]
    [ours, plain] = (
        [row._asdict() for row in compare(table(size, size), tests=tests).rows] for size in (magnitude, 1.0)
    )
    for row, own in zip(ours, plain, strict=True):
        assert [row[name] for name in FREE_OF_UNITS] == [own[name] for name in FREE_OF_UNITS]
        assert [row[name] for name in ("difference", "std_error", "ci_low", "ci_high")] == [
            pytest.approx(own[name] * magnitude, rel=1e-12)
            for name in ("difference", "std_error", "ci_low", "ci_high")
        ]


def test_a_quotient_that_no_double_holds_is_null() -> None:
    row = compare(table(1e-323, 1.0)).rows[0]
    assert (row.relative, row.relative_std_error) == (None, None)
    assert row.difference == pytest.approx(0.5, rel=0.5)


def test_folds_of_any_magnitude() -> None:
    for size in MAGNITUDES:
        folds = table(size, size, fold=np.arange(30) % 3)
        found = compared(folds, test_train_ratio=0.5, segments=["fold"])
        assert found is not None or size > 1e154
