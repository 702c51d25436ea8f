"""Gains of 2^relevance - 1 at every scale, against decimals of many digits."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_eval.conventions import Conventions, Gain
from spark_eval.kernels.discounts import gains
from spark_eval.kernels.lists import Lists
from spark_eval.kernels.registry import RANKING


def exact_gain(grade: float) -> float:
    """2^grade - 1 by decimals; of small grades the first terms of its series."""
    with localcontext(prec=60):
        power = Decimal(grade) * Decimal(2).ln()
        if grade < 1e-12:
            return float(power + power**2 / 2 + power**3 / 6)
        return float(power.exp() - 1)


@example(1e-300)
@example(1e-16)
@example(1e-12)
@example(0.5)
@given(st.floats(1e-300, 60) | st.floats(0, 1).map(lambda x: 10 ** (-300 * x)))
def test_gains_have_the_digits_of_a_double_at_every_scale(grade: float) -> None:
    assert gains(np.array([grade]), Gain.EXP2)[0] == pytest.approx(exact_gain(grade), rel=1e-15)


@pytest.mark.parametrize("grade", range(64))
def test_gains_of_whole_grades_are_exact(grade: int) -> None:
    assert gains(np.array([float(grade)]), Gain.EXP2)[0] == float(2**grade - 1)


@pytest.mark.parametrize("scale", [1e-6, 1e-9, 1e-12, 1e-15, 1e-16, 1e-100, 1e-300])
def test_ndcg_of_small_relevances_is_that_of_their_proportions(scale: float) -> None:
    lists = Lists.of([[0.3 * scale, 0.7 * scale, scale]], truth=[[0.3 * scale, 0.7 * scale, scale]])
    found = RANKING["ndcg"].kernel(lists, 3, Conventions().changed({"gain": "exp2"}))
    assert found[0] == pytest.approx(0.780102523774, rel=2 * scale + 1e-11)
