"""Better lists score higher: perfect lists, items moved up, larger cutoffs, luck with ties; misses do not."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from choices import OF_HITS, OF_ITEMS, PERFECT, SHARING, UNDEFINED, Case, every_convention, measured, one
from expected import as_ranked, orders
from hypothesis import given
from hypothesis import strategies as st
from strategies import ITEMS, cases, cutoffs, finite_cutoffs, relevances, small_users, users

from spark_eval.conventions import (
    AverageDenominator,
    AverageVariant,
    Conventions,
    Gain,
    Ideal,
    OneClass,
    PrecisionDenominator,
    RecallDenominator,
    TieOrder,
)
from spark_eval.kernels.registry import RANKING
from spark_eval.schema import Direction
from users import User, batch, graded

FROM_LENGTH = (AverageDenominator.K, AverageDenominator.MIN_RELEVANT_LENGTH)
OVER_M = (AverageDenominator.RELEVANT, AverageDenominator.RETRIEVED)


def is_of_items(name: str) -> bool:
    """Whether a metric sees more than where the relevant items are, and how relevant."""
    return name in OF_ITEMS or RANKING[name].knows_items


def is_monotone(case: Case, k: int | None, has_ties: bool = True) -> bool:
    """Whether a better item moved up can never lower the metric.

    It can where the denominator grows with the hits in the top k: the mean precision over the hits falls
    with a late one. It can in AP of shared places: a hit that leaves a group of many hits for a larger
    group of few takes precision from both. It can in what compares items of the top k only, AUC and FCP:
    who enters at rank k enters below all others; and in FCP where a tie parts, and becomes a pair. What sees
    more than hits has other things in mind; metrics of intents see groups, not how relevant hits are.
    """
    name, conventions = case
    if is_of_items(name):
        return False
    if name == "ap" and conventions.ap_variant is AverageVariant.GATED:
        is_over_hits = conventions.ap_denominator is AverageDenominator.HITS and k is not None
        return not is_over_hits and conventions.tie_order is not TieOrder.SHARED
    return name not in UNDEFINED or (k is None and not (name == "fcp" and has_ties))


def reaches_its_bound(case: Case, m: int, k: int | None) -> bool:
    """Whether the user's m relevant items in the best order, and nothing else, score the upper bound."""
    name, conventions = case
    fills = k is None or m >= k  # every place has a hit
    fits = k is None or k >= m  # every relevant item has a place
    match name:
        case "precision":
            return fills or conventions.precision_denominator is PrecisionDenominator.MIN_K_LENGTH
        case "recall":
            return fits or conventions.recall_denominator is RecallDenominator.MIN_RELEVANT_K
        case "f1":
            precise, found = Case("precision", conventions), Case("recall", conventions)
            return reaches_its_bound(precise, m, k) and reaches_its_bound(found, m, k)
        case "ap" if conventions.ap_variant is AverageVariant.WINDOW:
            return fills
        case "ap" if conventions.ap_denominator is AverageDenominator.K:
            return fills
        case "ap":
            return fits or conventions.ap_denominator not in OVER_M
        case "ndcg":
            # All positions filled with the best gain: of equal items there must be enough.
            return fills or conventions.ideal is not Ideal.POSITIONS
        case "auc":
            return conventions.one_class is OneClass.EXTREMES
    return name in PERFECT


@given(cases=cases, grades=st.lists(relevances, min_size=1, max_size=12), k=cutoffs)
def test_a_perfect_list_scores_the_upper_bound(cases: list[Case], grades: list[float], k: int | None) -> None:
    for case in cases:
        is_equal = case.name == "ndcg" and case.conventions.ideal is Ideal.POSITIONS
        best_first = [1.0] * len(grades) if is_equal else sorted(grades, reverse=True)
        perfect = User(range(len(grades)), dict(enumerate(best_first)))
        # With distinct scores no order of ties can change it.
        if case.name != "fcp" and reaches_its_bound(case, len(grades), k):
            value = one(case.name, perfect, k, case.conventions)
            assert value == pytest.approx(RANKING[case.name].upper, abs=1e-15), case


@pytest.mark.parametrize("k", [1, 3, 7, None])
def test_the_default_bound_of_a_perfect_list_is_exact(k: int | None) -> None:
    perfect = [User(range(m), {item: float(m - item) for item in range(m)}) for m in range(1, 12)]
    for name in ("recall_capped", "hit_rate", "ap", "rr", "rhr_norm", "ndcg", "r_precision"):
        assert name in PERFECT
        assert measured(name, perfect, k, Conventions()).tolist() == [1.0] * len(perfect), name


def test_perfect_order_of_unequal_relevances_is_all_concordant() -> None:
    perfect = User(range(6), {item: float(9 - item) for item in range(6)})
    assert one("fcp", perfect, None) == 1
    assert one("auc", replace(perfect, recommended=range(9)), None) == 1


@pytest.mark.parametrize("name", OF_HITS)
def test_the_best_order_beats_the_worst_in_the_direction(name: str) -> None:
    best_first = graded([3, 2, 1, 0, 0, 0])
    pairs = [
        (one(name, best_first, k), one(name, graded(best_first.relevances[::-1]), k)) for k in (3, 5, None)
    ]
    signs = {float(np.sign(best - worst)) for best, worst in pairs if not np.isnan(worst)}
    assert signs - {0.0} == {1.0}
    assert RANKING[name].direction is Direction.HIGHER


@given(cases=cases, person=users, k=cutoffs)
def test_a_better_item_moved_up_never_lowers(cases: list[Case], person: User, k: int | None) -> None:
    moved = []
    for upper, lower in itertools.pairwise(range(len(person.recommended))):
        if person.relevances[lower] > person.relevances[upper]:
            items = list(person.recommended)
            items[upper], items[lower] = items[lower], items[upper]
            moved.append(replace(person, recommended=items))
    lists = batch([person, *moved])
    for case in cases:
        if is_monotone(case, k, person.scores is not None):
            before, *after = measured(case.name, lists, k, case.conventions)
            assert not (np.array(after) < before - 1e-12).any(), case


OVER_HITS = Case("ap", Conventions(ap_denominator=AverageDenominator.HITS))
SHARED = Case("ap", Conventions(tie_order=TieOrder.SHARED))
OF_INTENTS = ("alpha_ndcg", "err_ia", "nerr_ia", "p_ia", "subtopic_recall", "ap_ia")
AUC, FCP = Case("auc", Conventions()), Case("fcp", Conventions())
LOWERED = [
    (OVER_HITS, graded([1, 0, 0, 1]), 3),
    (SHARED, graded([0] * 10 + [1] * 4, scores=[9] * 10 + [8] * 4), 14),
    (AUC, graded([1, 0, 0, 1]), 3),
    (FCP, graded([2, 1, 0, 3]), 3),
    (FCP, graded([1, 2, 0, 1], scores=[9, 8, 8, 7]), None),
    # The less relevant item belongs to two groups.
    *((Case(name, Conventions()), User([2, 1], {2: 1, 1: 2}), 1) for name in OF_INTENTS),
]


@pytest.mark.parametrize(("case", "before", "k"), LOWERED)
def test_what_is_not_monotone_can_fall(case: Case, before: User, k: int | None) -> None:
    assert not is_monotone(case, k)
    grades, items = before.relevances, list(before.recommended)
    upper = max(rank for rank in range(len(grades) - 1) if grades[rank] < grades[rank + 1])
    items[upper], items[upper + 1] = items[upper + 1], items[upper]
    after = replace(before, recommended=items)
    assert one(case.name, after, k, case.conventions) < one(case.name, before, k, case.conventions)


def depends_on_length(case: Case, k: int | None) -> bool:
    """Whether misses at the end of the list can change the metric: its denominator uses the list's length."""
    name, conventions = case
    is_uncut = k is None
    match name:
        case "precision" | "f1":
            return is_uncut or conventions.precision_denominator is PrecisionDenominator.MIN_K_LENGTH
        case "ap" | "ar":
            is_window = getattr(conventions, f"{name}_variant") is AverageVariant.WINDOW
            denominator = getattr(conventions, f"{name}_denominator")
            is_short = denominator is AverageDenominator.MIN_RELEVANT_LENGTH
            return is_short or (is_uncut and (is_window or denominator in FROM_LENGTH))
        case "mdcg" | "err_ia" | "p_ia":
            return is_uncut
        case "ndcg":
            return is_uncut and conventions.ideal is Ideal.POSITIONS
    return name == "auc" or is_of_items(name)


@given(cases=cases, person=users, k=cutoffs, n_misses=st.integers(1, 14))
def test_a_list_filled_up_with_misses_keeps_its_value(
    cases: list[Case], person: User, k: int | None, n_misses: int
) -> None:
    misses = range(len(ITEMS), len(ITEMS) + n_misses)
    lowest = min(person.falling, default=0) - 1
    scores = [*person.falling, *(lowest for _ in range(n_misses))]
    filled = replace(person, recommended=[*person.recommended, *misses], scores=scores)
    lists = batch([person, filled])
    for case in cases:
        if not depends_on_length(case, k):
            before, after = measured(case.name, lists, k, case.conventions)
            np.testing.assert_array_equal(after, before, err_msg=str(case))


@pytest.mark.parametrize("name", ["recall", "hit_rate", "rr", "rhr", "cg", "dcg"])
@given(person=users)
def test_a_larger_k_never_lowers(name: str, person: User) -> None:
    lists = batch([person])
    for conventions in every_convention(name):
        if conventions.recall_denominator is not RecallDenominator.MIN_RELEVANT_K:
            by_k = [measured(name, lists, k, conventions)[0] for k in (1, 2, 3, 5, 8, len(ITEMS), None)]
            assert by_k == sorted(by_k), conventions


@given(cases=cases, person=small_users, k=cutoffs)
def test_best_and_worst_are_the_extremes_over_all_orders_of_ties(
    cases: list[Case], person: User, k: int | None
) -> None:
    every_order, lists = orders(person), batch([person])
    for name, conventions in cases:
        if name not in UNDEFINED and is_monotone(Case(name, conventions), k):
            by_luck = [as_ranked(name, order, k, conventions) for order in every_order]
            [best] = measured(name, lists, k, conventions.changed({"tie_order": TieOrder.BEST}))
            [worst] = measured(name, lists, k, conventions.changed({"tie_order": TieOrder.WORST}))
            assert best == pytest.approx(max(by_luck), abs=1e-12), (name, conventions)
            assert worst == pytest.approx(min(by_luck), abs=1e-12), (name, conventions)


@given(cases=cases, person=users, k=cutoffs)
def test_best_is_at_least_as_ranked_and_as_ranked_at_least_worst(
    cases: list[Case], person: User, k: int | None
) -> None:
    lists = batch([person])
    for name, conventions in cases:
        plain = Case(name, conventions.changed({"tie_order": TieOrder.AS_RANKED}))
        if name not in UNDEFINED and is_monotone(plain, k):
            between = [TieOrder.SHARED] if name in SHARING and name != "ap" else []
            by_order = [
                measured(name, lists, k, conventions.changed({"tie_order": order}))[0]
                for order in (TieOrder.WORST, TieOrder.AS_RANKED, *between, TieOrder.BEST)
            ]
            assert min(by_order) >= by_order[0] - 1e-12, (name, conventions)
            assert max(by_order) <= by_order[-1] + 1e-12, (name, conventions)


@given(person=users, k=finite_cutoffs, power=st.integers(-20, 20))
def test_relevances_times_a_power_of_two_do_not_change_linear_ndcg(person: User, k: int, power: int) -> None:
    scaled = {item: math.ldexp(relevance, power) for item, relevance in person.truth.items()}
    lists = batch([person, replace(person, truth=scaled)])
    for conventions in every_convention("ndcg"):
        if conventions.gain is Gain.LINEAR:
            before, after = measured("ndcg", lists, k, conventions)
            assert after == before
