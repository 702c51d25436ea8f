"""Kernels against slow oracles: whatever users hypothesis thinks of, and a fixed crowd under everything."""

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from choices import OF_USERS, SHARING, Case, every_convention, measured, weighed
from expected import expected
from hypothesis import given
from hypothesis import strategies as st
from oracles import CONVENTIONAL, ORACLES, Cutoff
from strategies import ITEMS, batches, cases, cutoffs, small_users, users_with_gaps

from spark_eval.conventions import AverageVariant, Conventions, TieOrder
from spark_eval.kernels.lists import Lists
from spark_eval.kernels.registry import RANKING
from spark_eval.statistics.exact import Floats
from users import User, batch

WEIGHTS = {weight.name for metric in RANKING.values() for weight in metric.weights.values()}
every_metric = pytest.mark.parametrize("name", OF_USERS)


def crowd(size: int) -> list[User]:
    """Users of all kinds, the same on every run: short lists with ties, some of them without a hit."""
    random = Random(5)
    users = []
    for number in range(size):
        items = random.sample(ITEMS, random.randint(0, 7))
        truth = {
            item: random.choice([0, 0.5, 1, 2, 3]) for item in random.sample(ITEMS, random.randint(0, 9))
        }
        scores = sorted((random.randint(1, 4) for _ in items), reverse=True)
        history = random.sample(ITEMS, random.randint(0, 3))
        base = random.sample(ITEMS, random.randint(0, 7)) if number % 4 else None
        users.append(User(items, truth, scores if number % 3 else None, history, base, number % 2))
    return users


CROWD = crowd(30)
LISTS = batch(CROWD)


def assert_same(actual: Floats, oracles: Sequence[float], case: object) -> None:
    np.testing.assert_allclose(actual, oracles, rtol=1e-12, atol=1e-12, err_msg=str(case))


def assert_kernel_gives_what_the_oracle_says(
    name: str, users: Sequence[User], k: Cutoff, conventions: Conventions, lists: Lists | None = None
) -> None:
    oracles = [expected(name, one, k, conventions) for one in users]
    assert_same(measured(name, lists or users, k, conventions), oracles, (name, k, conventions))


def test_every_metric_and_every_weight_has_an_oracle() -> None:
    assert {*ORACLES, *CONVENTIONAL} == {*OF_USERS, *WEIGHTS}


@every_metric
@pytest.mark.parametrize("k", [1, 2, 3, 6, 12, None])
def test_a_fixed_crowd_under_every_convention(name: str, k: Cutoff) -> None:
    for conventions in every_convention(name):
        assert_kernel_gives_what_the_oracle_says(name, CROWD, k, conventions, LISTS)


@given(cases=cases, users=batches, k=cutoffs)
def test_any_users(cases: list[Case], users: list[User], k: Cutoff) -> None:
    lists = batch(users)
    for name, conventions in cases:
        if conventions.tie_order is not TieOrder.SHARED:
            assert_kernel_gives_what_the_oracle_says(name, users, k, conventions, lists)


@given(cases=cases, users=st.lists(small_users, min_size=1, max_size=3), k=cutoffs)
def test_shared_places(cases: list[Case], users: list[User], k: Cutoff) -> None:
    for name, conventions in cases:
        if name in SHARING:
            shared = conventions.changed({"tie_order": TieOrder.SHARED, "ap_variant": AverageVariant.GATED})
            assert_kernel_gives_what_the_oracle_says(name, users, k, shared)


@given(cases=cases, users=st.lists(users_with_gaps(), min_size=1, max_size=6), k=cutoffs)
def test_given_ranks_with_gaps(cases: list[Case], users: list[User], k: Cutoff) -> None:
    lists = batch(users)
    for name, conventions in cases:
        assert_kernel_gives_what_the_oracle_says(name, users, k, conventions, lists)


@given(cases=cases, users=batches, k=cutoffs)
def test_what_weighs_in_weighted_means(cases: list[Case], users: list[User], k: Cutoff) -> None:
    for name, conventions in cases:
        for weight, values in weighed(name, users, k, conventions).items():
            oracles = [expected(weight, one, k, conventions) for one in users]
            assert_same(values, oracles, (weight, k, conventions))
