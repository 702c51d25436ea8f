"""Means and standard errors of values of any size: those of fractions, rounded once."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import pytest
from arrow_rows import table

from spark_eval.errors import DataError
from spark_eval.evaluation.evaluate import evaluate
from spark_eval.evaluation.result import Evaluation

# The relevances of the first item of each user of a model: a list is one hit.
NEAR_ONE = [1.0, *(1.0 + number * 2.0**-52 for number in (1, 1, 2, 3))]
MODELS: Mapping[str, Sequence[float]] = {
    **{f"near 1e{power}": [n * 10.0**power for n in (1, 2, 3, 7)] for power in (-300, -19, -12, -9, 12, 300)},
    "nearly equal": NEAR_ONE,
    "nearly equal, small": [value * 0.1 * 2.0**-40 for value in NEAR_ONE],
    "equal": [0.1, 0.1, 0.1],
    "of every size": [1e-300, 3e-100, 1e-20, 0.7, 1e15, 1e200, 1e300],
    "least": [5e-324, 1e-323],
}


def evaluated(models: Mapping[str, Sequence[float]], metrics: Sequence[str] = ("cg",)) -> Evaluation:
    """Each model has users of its own, with a segment, and one relevant item in each list."""
    users = [
        (model, f"{model} {number}", relevance, f"s{number % 2}")
        for model, relevances in models.items()
        for number, relevance in enumerate(relevances)
    ]
    lists = [(model, user, item, item) for model, user, _, _ in users for item in (1, 2)]
    truth = [(user, item, relevance) for _, user, relevance, _ in users for item in (1, 2)]
    return evaluate(
        table(lists, "model string, user string, item int, rank int"),
        table(truth, "user string, item int, relevance double"),
        users=table([(user, name) for _, user, _, name in users], "user string, half string"),
        segments=["half"],
        metrics=metrics,
        k=[1, 2],
        no_recommendations="drop",
        engine="local",
    )


def root(number: Fraction) -> float:
    """The square root, rounded once."""
    scale = 1 << 2400
    return float(Fraction(math.isqrt(int(number * scale * scale)), scale))


def test_means_and_errors_are_those_of_fractions() -> None:
    rows = {
        (row.model, row.segment_value, row.k): (row.value, row.std_error)
        for row in evaluated(MODELS).metric_rows
    }
    expected: dict[tuple[str, str, int], Any] = {}
    for (model, relevances), k in ((one, k) for one in MODELS.items() for k in (1, 2)):
        for segment, chosen in (("all", relevances), ("s0", relevances[::2]), ("s1", relevances[1::2])):
            values = [Fraction(value) * k for value in chosen]
            mean = sum(values, Fraction()) / len(values)
            spread = sum(((value - mean) ** 2 for value in values), Fraction())
            n = len(values)
            error = None if n == 1 else root(spread / (n - 1) / n)
            expected[model, segment, k] = (float(mean), error)
    assert rows == expected
    assert rows["equal", "all", 1] == (0.1, 0.0)


@pytest.mark.parametrize(
    ("relevances", "metric"),
    [([1.7e308], "cg"), ([1.7e308], "ndcg"), ([1.7e308, 1.0], "cg@1")],
    ids=["a value", "a quotient", "an interval"],
)
def test_what_no_double_holds_is_refused(relevances: Sequence[float], metric: str) -> None:
    with pytest.raises(DataError) as raised:
        assert len(evaluated({"als": relevances}, [metric]).metrics)
    assert raised.value.code == "METRIC_OVERFLOW"
