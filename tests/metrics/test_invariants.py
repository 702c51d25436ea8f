"""What holds for every metric of the registry, whatever the users."""

import itertools
import math
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import CONVENTIONS, ITEMS, batches, conventions_of_any_kind, cutoffs, gains, relevances, users
from users import User, batch

from spark_eval.conventions import Conventions, Gain
from spark_eval.metrics import RANKING, Lists, RankingMetric
from spark_eval.metrics.lists import Floats

orders = st.randoms(use_true_random=False)
every_metric = pytest.mark.parametrize("metric", RANKING.values(), ids=lambda metric: metric.name)


def values(metric: RankingMetric, people: list[User], k: int, conventions: Conventions) -> Floats:
    return metric.kernel(batch(people), k, conventions)


def value(metric: RankingMetric, one: User, k: int, conventions: Conventions) -> float:
    return float(values(metric, [one], k, conventions)[0])


@every_metric
@given(people=batches, k=cutoffs, conventions=conventions_of_any_kind)
def test_one_double_per_user_within_bounds(
    metric: RankingMetric, people: list[User], k: int, conventions: Conventions
) -> None:
    result = values(metric, people, k, conventions)
    assert result.dtype == np.float64
    assert result.shape == (len(people),)
    assert (result >= 0).all()
    assert np.isfinite(result).all()
    assert metric.upper is None or (result <= metric.upper).all()


def test_ndcg_of_nearly_equal_relevances_stays_within_one() -> None:
    # Added in another order than the ideal's, such sums differ by roundings alone.
    lower, upper = 3.0, math.nextafter(3.0, 4)
    lists = Lists.of(list(itertools.product([lower, upper], repeat=8)))
    for gain in Gain:
        assert (RANKING["ndcg"].kernel(lists, 8, Conventions(gain=gain)) <= 1).all()


@pytest.mark.parametrize("metric", [m for m in RANKING.values() if m.perfect], ids=lambda metric: metric.name)
@given(grades=st.lists(relevances, min_size=1, max_size=12), k=cutoffs, conventions=gains)
def test_perfect_list_scores_the_upper_bound(
    metric: RankingMetric, grades: list[float], k: int, conventions: Conventions
) -> None:
    # Fewer relevant items than places leave precision no way to fill them.
    assume(metric.name != "precision" or len(grades) >= k)
    truth = dict(enumerate(sorted(grades, reverse=True)))
    assert value(metric, User(list(truth), truth), k, conventions) == metric.upper


@given(n_relevant=st.integers(1, 12), k=cutoffs)
def test_perfect_list_scores_the_upper_bound_in_recall_if_it_fits(n_relevant: int, k: int) -> None:
    assume(k >= n_relevant)
    truth = dict.fromkeys(range(n_relevant), 1.0)
    assert value(RANKING["recall"], User(list(truth), truth), k, Conventions()) == 1.0


@every_metric
@given(one=users, k=cutoffs, conventions=conventions_of_any_kind)
def test_no_hit_gives_zero(metric: RankingMetric, one: User, k: int, conventions: Conventions) -> None:
    missed = replace(one, truth={item + len(ITEMS): relevance for item, relevance in one.truth.items()})
    assert value(metric, missed, k, conventions) == 0


@every_metric
@given(one=users, k=cutoffs, conventions=conventions_of_any_kind)
def test_no_truth_gives_zero(metric: RankingMetric, one: User, k: int, conventions: Conventions) -> None:
    assert value(metric, replace(one, truth={}), k, conventions) == 0


@every_metric
@given(
    people=batches, k=cutoffs, conventions=conventions_of_any_kind, order=st.randoms(use_true_random=False)
)
def test_a_user_does_not_depend_on_the_others(
    metric: RankingMetric, people: list[User], k: int, conventions: Conventions, order: Random
) -> None:
    alone = {index: value(metric, one, k, conventions) for index, one in enumerate(people)}
    shuffled = list(alone)
    order.shuffle(shuffled)
    together = values(metric, [people[index] for index in shuffled], k, conventions)
    assert together.tolist() == [alone[index] for index in shuffled]


@every_metric
def test_a_user_does_not_depend_on_the_others_of_a_large_batch(metric: RankingMetric) -> None:
    # Long arrays may go through other instructions than short ones.
    random = np.random.default_rng(0)
    people = [
        User(random.permutation(40)[:25].tolist(), dict(enumerate(random.uniform(0.1, 5, 20).tolist())))
        for _ in range(200)
    ]
    everybody, singles = batch(people), [batch([one]) for one in people]
    for conventions in CONVENTIONS:
        alone = [float(metric.kernel(single, 20, conventions)[0]) for single in singles]
        assert metric.kernel(everybody, 20, conventions).tolist() == alone


@every_metric
@given(one=users, k=cutoffs, conventions=conventions_of_any_kind)
def test_items_beyond_k_change_nothing(
    metric: RankingMetric, one: User, k: int, conventions: Conventions
) -> None:
    cut = replace(one, recommended=one.recommended[:k])
    assert value(metric, one, k, conventions) == value(metric, cut, k, conventions)


@every_metric
@given(one=users, k=cutoffs, conventions=conventions_of_any_kind)
def test_a_list_filled_up_with_misses_keeps_its_value(
    metric: RankingMetric, one: User, k: int, conventions: Conventions
) -> None:
    misses = range(len(ITEMS), len(ITEMS) + k)
    filled = replace(one, recommended=[*one.recommended, *misses])
    assert value(metric, filled, k, conventions) == value(metric, one, k, conventions)


@every_metric
@given(one=users, k=cutoffs, conventions=gains)
def test_a_better_item_moved_up_never_lowers(
    metric: RankingMetric, one: User, k: int, conventions: Conventions
) -> None:
    before = value(metric, one, k, conventions)
    for upper, lower in itertools.pairwise(range(len(one.recommended))):
        if one.relevances[lower] > one.relevances[upper]:
            items = list(one.recommended)
            items[upper], items[lower] = items[lower], items[upper]
            after = value(metric, replace(one, recommended=items), k, conventions)
            assert after >= before - 1e-12


@pytest.mark.parametrize("name", ["recall", "hit_rate", "rr", "rhr", "dcg"])
@given(one=users)
def test_a_larger_k_never_lowers(name: str, one: User) -> None:
    by_k = [value(RANKING[name], one, k, Conventions()) for k in range(1, len(ITEMS) + 2)]
    assert by_k == sorted(by_k)
