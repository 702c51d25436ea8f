"""Adjusted p-values, against the definitions put down as they read."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.statistics.samples import filled

from spark_eval.statistics.significance import CORRECTIONS, adjusted

p_values = st.lists(st.one_of(st.none(), st.floats(0, 1), st.sampled_from([0.01, 0.02, 1.0])), max_size=12)


def holm_one(p: float, family: list[float]) -> float:
    """The worst of the steps down to p: a smaller p has more others to be better than."""
    return max(one * sum(other >= one for other in family) for one in family if one <= p)


def bh_one(p: float, family: list[float]) -> float:
    """The best of the shares at p and above."""
    return min(one * len(family) / sum(other <= one for other in family) for one in family if one >= p)


SLOW: dict[str, Callable[[float, list[float]], float]] = {
    "holm": holm_one,
    "bh": bh_one,
    "bonferroni": lambda p, family: p * len(family),
    "none": lambda p, _: p,
}


@pytest.mark.parametrize("method", SLOW)
@given(asked=p_values)
def test_each_p_is_adjusted_within_those_that_are_defined(method: str, asked: list[float | None]) -> None:
    family = [p for p in asked if p is not None]
    expected = [None if p is None else min(1.0, SLOW[method](p, family)) for p in asked]
    assert filled(adjusted(asked, method)) == pytest.approx(filled(expected), rel=1e-12)


def test_every_correction_is_known_here() -> None:
    assert set(CORRECTIONS) == set(SLOW)
    assert adjusted([], "holm") == []
    assert adjusted([None], "bh") == [None]
