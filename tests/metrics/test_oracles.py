"""Kernels against slow oracles, on whatever users hypothesis can think of."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from oracles import FORKED, ORACLES
from strategies import CONVENTIONS, batches, conventions_of_any_kind, cutoffs
from users import User, batch

from spark_eval.conventions import Conventions
from spark_eval.metrics import RANKING


def assert_kernel_gives(
    expected: Sequence[float], name: str, users: list[User], k: int, conventions: Conventions
) -> None:
    actual = RANKING[name].kernel(batch(users), k, conventions)
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12, err_msg=name)


def test_every_metric_has_an_oracle() -> None:
    assert {*ORACLES, *FORKED} == set(RANKING)


@pytest.mark.parametrize("name", ORACLES)
@given(users=batches, k=cutoffs, conventions=conventions_of_any_kind)
def test_kernels_of_one_definition(name: str, users: list[User], k: int, conventions: Conventions) -> None:
    expected = [ORACLES[name](one, k) for one in users]
    assert_kernel_gives(expected, name, users, k, conventions)


@pytest.mark.parametrize("conventions", CONVENTIONS, ids=lambda fork: f"{fork.gain}-{fork.ap_denominator}")
@given(users=batches, k=cutoffs)
def test_kernels_under_every_convention(users: list[User], k: int, conventions: Conventions) -> None:
    for name, oracle in FORKED.items():
        expected = [oracle(one, k, conventions) for one in users]
        assert_kernel_gives(expected, name, users, k, conventions)
