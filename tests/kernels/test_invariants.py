"""What holds for every metric of the registry under every convention that it declares, whatever the users."""

import itertools
import math
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from choices import DEFINED, OF_HITS, OF_ITEMS, OF_USERS, UNDEFINED, Case, every_convention, measured, one
from hypothesis import given
from hypothesis import strategies as st
from strategies import ITEMS, batches, cases, cutoffs, finite_cutoffs, orders, users, users_with_gaps

from spark_eval.conventions import AverageVariant, Conventions, Gain, OneClass, TieOrder
from spark_eval.conventions.beyond import SerendipityVariant
from spark_eval.conventions.choice import Need
from spark_eval.kernels.lists import Lists
from spark_eval.kernels.registry import RANKING
from spark_eval.kernels.values import MetricValue
from users import User, batch

crowds = st.lists(st.one_of(users, users_with_gaps()), min_size=1, max_size=6)
every_metric = pytest.mark.parametrize("name", OF_USERS)


@given(cases=cases, people=crowds, k=cutoffs)
def test_one_double_per_user_within_bounds(cases: list[Case], people: list[User], k: int | None) -> None:
    lists = batch(people)
    for name, conventions in cases:
        result = measured(name, lists, k, conventions)
        assert result.dtype == np.float64, name
        assert result.shape == (len(people),), name
        assert (
            name in (UNDEFINED if name in OF_HITS else set(OF_ITEMS) - set(DEFINED))
            or not np.isnan(result).any()
        ), name
        defined = result[~np.isnan(result)]
        lower, upper = RANKING[name].lower, RANKING[name].upper
        assert np.isfinite(defined).all(), name
        assert lower is None or (defined >= lower).all(), name
        assert upper is None or (defined <= upper).all(), name


@pytest.mark.parametrize("name", ["rhr", "cg", "dcg", "mdcg"])
def test_metrics_said_to_be_unbounded_exceed_one(name: str) -> None:
    assert RANKING[name].upper is None
    assert one(name, User([1, 2], {1: 3, 2: 3}), 2) > 1


def test_ndcg_of_nearly_equal_relevances_stays_within_one() -> None:
    # Added in another order than the ideal's, such sums differ by roundings alone.
    lower, upper = 3.0, math.nextafter(3.0, 4)
    lists = Lists.of(list(itertools.product([lower, upper], repeat=8)))
    for gain in Gain:
        assert (RANKING["ndcg"].kernel(lists, 8, Conventions(gain=gain)) <= 1).all()


@pytest.mark.parametrize("name", ["ap", "ar", "ndcg", "rhr_norm"])
def test_perfect_lists_of_any_length_do_not_round_above_one(name: str) -> None:
    # The ideal sum and the list's own add the same numbers in two ways.
    perfect = batch([User(range(length), dict.fromkeys(range(length), 1.0)) for length in range(1, 60)])
    for conventions in every_convention(name):
        assert (measured(name, perfect, None, conventions) <= 1).all()


@given(cases=cases, person=users, k=cutoffs)
def test_without_a_hit_or_without_truth_it_is_zero(cases: list[Case], person: User, k: int | None) -> None:
    elsewhere = {item + len(ITEMS): relevance for item, relevance in person.truth.items()}
    lists = batch([replace(person, truth=elsewhere), replace(person, truth={})])
    for name, conventions in cases:
        if name in OF_ITEMS:
            continue
        is_undefined = name == "fcp" or (name == "auc" and conventions.one_class is OneClass.UNDEFINED)
        values = measured(name, lists, k, conventions)
        np.testing.assert_array_equal(values, math.nan if is_undefined else 0, err_msg=name)


@given(cases=cases, person=users, k=cutoffs)
def test_what_sees_items_alone_does_not_see_the_truth(cases: list[Case], person: User, k: int | None) -> None:
    relevant = dict.fromkeys(person.recommended, 1.0)
    lists = batch([person, replace(person, truth={}), replace(person, truth=relevant)])
    for name, conventions in cases:
        if name in OF_ITEMS[:-4]:
            given, *others = measured(name, lists, k, conventions)
            np.testing.assert_array_equal(others, [given, given], err_msg=name)


@given(cases=cases, person=users, k=cutoffs)
def test_an_empty_list_scores_zero_in_relevant_items_and_has_no_value_in_others(
    cases: list[Case], person: User, k: int | None
) -> None:
    empty = replace(person, recommended=[], scores=None)
    for name, conventions in cases:
        is_zero = name in DEFINED or conventions.serendipity_variant is not SerendipityVariant.EVIDENTLY
        is_zero = is_zero and name in ("user_coverage", *OF_ITEMS[-4:])
        # Where propensities are given, those of all relevant items may be unknown.
        if name in OF_ITEMS and conventions.propensity == "popularity":
            value = one(name, empty, k, conventions)
            np.testing.assert_equal(value, 0 if is_zero else math.nan, err_msg=name)


@given(cases=cases, people=batches, k=cutoffs, order=orders)
def test_a_user_does_not_depend_on_the_others(
    cases: list[Case], people: list[User], k: int | None, order: Random
) -> None:
    shuffled = list(people)
    order.shuffle(shuffled)
    everybody, singles = batch(shuffled), [batch([person]) for person in shuffled]
    for name, conventions in cases:
        alone = [measured(name, single, k, conventions)[0] for single in singles]
        np.testing.assert_array_equal(measured(name, everybody, k, conventions), alone, err_msg=name)


@every_metric
def test_a_user_does_not_depend_on_the_others_of_a_large_batch(name: str) -> None:
    # Long arrays may go through other instructions than short ones.
    random = np.random.default_rng(0)
    people = [
        User(
            random.permutation(40)[:25].tolist(),
            dict(enumerate(random.uniform(0.1, 5, 20).tolist())),
            np.sort(random.integers(0, 12, 25))[::-1].tolist(),
            random.permutation(14)[: number % 9].tolist(),
            random.permutation(40)[:30].tolist() if number % 5 else None,
            number % 2,
        )
        for number in range(40)
    ]
    everybody, singles = batch(people), [batch([person]) for person in people]
    for conventions in every_convention(name):
        alone = [measured(name, single, 20, conventions)[0] for single in singles]
        np.testing.assert_array_equal(measured(name, everybody, 20, conventions), alone)


@every_metric
@pytest.mark.parametrize("k", [1, 5, None])
def test_an_empty_batch_gives_no_values(name: str, k: int | None) -> None:
    for conventions in every_convention(name):
        assert measured(name, [], k, conventions).shape == (0,)


@given(cases=cases, person=users, k=finite_cutoffs)
def test_items_beyond_k_change_nothing_unless_it_sees_the_whole_list(
    cases: list[Case], person: User, k: int
) -> None:
    lists = batch([person, person.cut(k)])
    for name, conventions in cases:
        if Need.WHOLE_LIST not in MetricValue(RANKING[name], (), k).needs(conventions):
            whole, cut = measured(name, lists, k, conventions)
            np.testing.assert_array_equal(whole, cut, err_msg=name)


@pytest.mark.parametrize("tie_order", [TieOrder.BEST, TieOrder.WORST])
@given(person=users, k=finite_cutoffs)
def test_metrics_that_see_ties_themselves_follow_no_tie_order_of_the_run(
    tie_order: TieOrder, person: User, k: int
) -> None:
    for name in UNDEFINED:
        np.testing.assert_array_equal(
            one(name, person, k, Conventions(tie_order=tie_order)), one(name, person, k, Conventions())
        )


NEAR_THE_CUTOFF = [
    User(range(4), {9: 1.0} | {item: 1.0 for item in range(4) if is_hit[item]}, scores, [1, 2], [3])
    for is_hit in itertools.product([False, True], repeat=4)
    for scores in [(9, 8, 7, 6), (9, 8, 8, 7), (9, 8, 8, 8)]
]
WHOLE, CUT = batch(NEAR_THE_CUTOFF), batch([person.cut(2) for person in NEAR_THE_CUTOFF])


@every_metric
def test_it_sees_the_whole_list_where_it_says_so(name: str) -> None:
    value = MetricValue(RANKING[name], (), 2)
    for conventions in every_convention(name):
        # The window of AP has no denominator to choose, whatever the choice.
        is_idle = name == "ap" and conventions.ap_variant is AverageVariant.WINDOW
        chosen = (
            conventions.changed({"ap_denominator": Conventions().ap_denominator}) if is_idle else conventions
        )
        whole, cut = measured(name, WHOLE, 2, conventions), measured(name, CUT, 2, conventions)
        assert np.array_equal(whole, cut, equal_nan=True) is not (Need.WHOLE_LIST in value.needs(chosen)), (
            conventions
        )


@every_metric
def test_without_a_cutoff_it_sees_the_whole_list(name: str) -> None:
    assert Need.WHOLE_LIST in MetricValue(RANKING[name], (), None).needs(Conventions())
