"""Metrics of intents against slow oracles, whatever the groups; and what holds for all of them."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles_beyond import OF_INTENTS, OVER_IDEALS
from strategies import cutoffs

from spark_eval.conventions import Conventions, IdealTies, TieOrder
from spark_eval.conventions.presets import PRESETS, conventions_of
from spark_eval.kernels.beyond.intents import greedy_ideal
from spark_eval.kernels.lists import Lists
from spark_eval.kernels.registry import RANKING
from spark_eval.kernels.values import parse_metric
from spark_eval.statistics.exact import Floats
from users import User, about_of, batch, for_metric, grouped_lists, user

# Data of which every metric has a worked number: the means over five users, one of them without a list.
GROUPS = {1: "a", 2: "ab", 3: "b", 4: "bc", 5: "c", 6: "ac", 7: "a", 8: "c"}
LISTS = [[4, 5, 6], [3, 4, 9], [2, 5], [3, 6, 4], []]
TRUTH = [[5], [4, 7], [2, 3], [3, 4, 8], [1]]
MEANS = [
    ("alpha_ndcg", 0.531290),
    ("err_ia", 0.387500),
    ("nerr_ia", 0.481916),
    ("p_ia", 0.277778),
    ("subtopic_recall", 0.733333),
    ("ap_ia", 0.416667),
]
NAMES = [name for name, _ in MEANS]
ITEMS = range(12)

items = st.lists(st.sampled_from(ITEMS), max_size=8, unique=True)
people = st.lists(st.tuples(items, items), min_size=1, max_size=5)
# Few letters, so that gains are often equal; many items have no group.
some_groups = st.dictionaries(st.sampled_from(ITEMS), st.sets(st.sampled_from("abcd")).map("".join))
ties = st.sampled_from(IdealTies)


def measured(name: str, lists: Lists, k: int | None, conventions: Conventions | None = None) -> Floats:
    [value] = parse_metric(name, [k])
    [column] = value.measure(lists, conventions or Conventions()).values()
    return column


def of(
    users: Sequence[tuple[Sequence[int], Sequence[int]]], groups: Mapping[int, str], k: int | None
) -> Lists:
    """The lists of users given by what is recommended to them, and by what is relevant."""
    lists = grouped_lists([one for one, _ in users], [wanted for _, wanted in users], groups)
    within = np.full(len(lists.ideal.rank), True) if k is None else lists.ideal.rank <= k
    ideal = lists.ideal
    # As the engine has it: an ideal list goes no further than the largest k.
    cut = replace(ideal, row=ideal.row[within], rank=ideal.rank[within], relevance=ideal.relevance[within])
    return replace(lists, ideal=cut)


@pytest.mark.parametrize(("name", "mean"), MEANS)
@pytest.mark.parametrize("preset", [name for name in PRESETS if name != "sklearn"])
def test_worked_numbers(name: str, mean: float, preset: str) -> None:
    values = measured(name, grouped_lists(LISTS, TRUTH, GROUPS), 3, conventions_of(preset))
    assert values.mean() == pytest.approx(mean, abs=5e-7)
    assert values[-1] == 0


def test_a_list_can_be_better_than_its_greedy_ideal() -> None:
    lists = grouped_lists([[1, 2, 3, 4]], [[1, 2, 3, 4]], {1: "ac", 2: "bd", 3: "bc", 4: "b"})
    assert measured("alpha_ndcg", lists, 3) == pytest.approx([1.017710], abs=5e-7)
    assert measured("nerr_ia", lists, 3) == pytest.approx([40 / 39])
    assert RANKING["alpha_ndcg"].upper is RANKING["nerr_ia"].upper is None


@given(users=people, groups=some_groups, k=cutoffs, ties=ties)
def test_any_users_and_any_groups(
    users: list[tuple[list[int], list[int]]], groups: dict[int, str], k: int | None, ties: IdealTies
) -> None:
    lists, conventions = of(users, groups, k), Conventions(ideal_ties=ties)
    written = [user(recommended, wanted) for recommended, wanted in users]

    def of_item(item: int) -> str:
        return groups.get(item, "")

    oracles = {
        **{name: [oracle(one, k, of_item) for one in written] for name, oracle in OF_INTENTS.items()},
        **{
            name: [oracle(one, k, conventions, of_item) for one in written]
            for name, oracle in OVER_IDEALS.items()
        },
    }
    assert oracles.keys() == set(NAMES)
    for name, values in oracles.items():
        np.testing.assert_allclose(
            measured(name, lists, k, conventions), values, rtol=1e-12, atol=1e-12, err_msg=name
        )


@given(users=people, groups=some_groups, k=cutoffs)
def test_values_are_bounded_where_they_say_so(
    users: list[tuple[list[int], list[int]]], groups: dict[int, str], k: int | None
) -> None:
    lists = of(users, groups, k)
    for name in NAMES:
        values, upper = measured(name, lists, k), RANKING[name].upper
        known = values[~np.isnan(values)]
        assert (known >= 0).all(), name
        assert upper is None or (known <= upper).all(), name


@given(users=people, groups=some_groups, k=cutoffs)
def test_a_hit_moved_above_a_miss_never_lowers(
    users: list[tuple[list[int], list[int]]], groups: dict[int, str], k: int | None
) -> None:
    [(recommended, wanted), *_] = users
    moved = [(recommended, wanted)]
    for upper, lower in itertools.pairwise(range(len(recommended))):
        if recommended[lower] in wanted and recommended[upper] not in wanted:
            better = list(recommended)
            better[upper], better[lower] = better[lower], better[upper]
            moved.append((better, wanted))
    lists = of(moved, groups, k)
    for name in NAMES:
        before, *after = measured(name, lists, k)
        assert not (np.array(after) < before - 1e-12).any(), name


@pytest.mark.parametrize("name", NAMES)
def test_without_a_known_group_it_is_undefined_but_without_truth_it_is_zero(name: str) -> None:
    lists = grouped_lists([[1, 2], [1, 2], [2], []], truth=[[1, 3], [], [2], [3]], groups={2: "a"})
    np.testing.assert_array_equal(measured(name, lists, 1), [np.nan, 0, 1, np.nan])


@pytest.mark.parametrize("name", NAMES)
def test_an_item_without_a_group_holds_its_place_and_nothing_else(name: str) -> None:
    without = grouped_lists([[9, 2], [2]], truth=[[2, 9], [2, 9]], groups={2: "a"})
    missed = grouped_lists([[9, 2], [2]], truth=[[2], [2]], groups={2: "a"})
    np.testing.assert_array_equal(measured(name, without, 2), measured(name, missed, 2))


def test_ideals_take_the_larger_id_of_equal_gains_as_a_number_or_as_text() -> None:
    lists = grouped_lists([[1]], truth=[[9, 10, 11, 12]], groups={9: "bd", 10: "ac", 11: "bc", 12: "b"})
    assert greedy_ideal(lists, IdealTies.ITEM_DESC).relevance.tolist() == [2, 1.5, 1.5, 0.25]
    assert greedy_ideal(lists, IdealTies.TEXT).relevance.tolist() == [2, 2, 1, 0.25]


def test_an_ideal_list_ends_where_gains_vanish() -> None:
    # All relevant items serve one intent: each is worth half of the one before.
    lists = grouped_lists([[0]], truth=[list(range(200))], groups=dict.fromkeys(range(200), "a"))
    ideal = greedy_ideal(lists, IdealTies.ITEM_DESC)
    assert 54 < len(ideal.rank) < 70
    everything = User(range(200), dict.fromkeys(range(200), 1.0))
    expected = OVER_IDEALS["alpha_ndcg"](User([0], everything.truth), None, Conventions(), lambda _item: "a")
    assert measured("alpha_ndcg", lists, None) == pytest.approx([expected], rel=1e-15)


def test_facts_of_hits_move_with_the_hits() -> None:
    lists = batch([User([1, 2, 3], {1: 1, 2: 5, 3: 1}, scores=[7, 7, 7])])
    assert about_of(lists).hits.tolist() == [1, 2, 3]
    best = about_of(lists.arranged(TieOrder.BEST))
    assert best.hits.tolist() == best.hit_items.tolist() == [2, 1, 3]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("order", TieOrder)
def test_lists_are_seen_in_rank_order(name: str, order: TieOrder) -> None:
    lists = for_metric(batch([User([3, 4, 2], {4: 1, 2: 5}, scores=[7, 7, 7])]), RANKING[name])
    ranked = measured(name, lists, 2)
    assert measured(name, lists, 2, Conventions(tie_order=order)).tolist() == ranked.tolist()


@pytest.mark.parametrize("name", NAMES)
def test_without_facts_of_items_it_is_an_error_not_a_number(name: str) -> None:
    with pytest.raises(ValueError, match="needs an input"):
        measured(name, Lists.of([[1, 0]]), 2)
