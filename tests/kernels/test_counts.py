"""Values of a run against slow oracles: from counts of items, and from what places of groups weigh."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from choices import OF_RUNS, every_convention
from hypothesis import given
from hypothesis import strategies as st
from oracles_beyond import OF_COUNTS, Run, exposure
from strategies import orders
from test_intents import GROUPS, LISTS

from spark_eval.conventions import Conventions, ExposureWeights
from spark_eval.conventions.choice import Need
from spark_eval.conventions.presets import conventions_of
from spark_eval.errors import ConfigError
from spark_eval.evaluation.plan import make_plan
from spark_eval.kernels.beyond.catalog import GroupWeights, ItemCounts
from spark_eval.kernels.beyond.examples import sets_of_words
from spark_eval.kernels.columns import sum_of_columns, value_of_column
from spark_eval.kernels.lists import Lists
from spark_eval.kernels.registry import OF_LISTS, RANKING
from spark_eval.kernels.values import MetricValue, parse_metric, published_name
from spark_eval.schema import Direction
from users import about_of, grouped_lists

CATALOG, TRAINED = range(1, 9), range(1, 7)
# By preset and metric: the numbers that the libraries give.
WORKED = [
    ("default", "catalog_coverage", 0.625),
    ("rectools", "catalog_coverage", 0.75),
    ("recommenders", "catalog_coverage", 1.0),
    ("replay", "catalog_coverage", 0.833333),
    ("evidently", "catalog_coverage", 0.833333),
    ("default", "gini_catalog", 0.475),
    ("lenskit", "gini_catalog", 0.475),
    ("default", "gini_recommended", 0.196970),
    ("evidently", "gini_recommended", 0.236364),
    ("elliot", "gini_catalog", 1 - 38 / 70),
    ("default", "entropy", 2.481715),
    ("recommenders", "entropy", 2.481715),
    ("elliot", "entropy", 2.521524),
    ("default", "entropy_norm", 2.481715 / 3),
    ("elliot", "entropy_norm", 2.521524 / 3),
    ("default", "personalization", 0.666667),
    ("evidently", "personalization", 0.694444),
    ("default", "catalog_coverage(variant=trained)", 0.833333),
    ("default", "gini_recommended(gini_variant=n_minus_1)", 0.236364),
    ("evidently", "personalization(variant=exact)", 0.666667),
]
items = st.lists(st.integers(0, 7), max_size=4, unique=True)
runs = st.builds(
    Run,
    st.lists(items, max_size=7),
    st.sets(st.integers(0, 9)),
    st.sets(st.integers(0, 9)),
    st.one_of(st.none(), st.integers(4, 6)),
)
every_choice = [(name, conventions) for name in OF_COUNTS for conventions in every_convention(name)]


def value(name: str, k: int | None) -> MetricValue:
    [found] = parse_metric(name, [k])
    return found


def counted(run: Run) -> ItemCounts:
    return ItemCounts.of(run.lists, run.catalog, run.trained)


def shuffled(counts: ItemCounts, order: Sequence[int]) -> ItemCounts:
    """The same entries in another order."""
    columns = ("n_lists", "n_items", "is_listed", "is_trained", "slots")
    taken: dict[str, Any] = {name: getattr(counts, name)[list(order)] for name in columns}
    return replace(counts, **taken)


@pytest.mark.parametrize(("preset", "name", "expected"), WORKED)
def test_worked_numbers(preset: str, name: str, expected: float) -> None:
    counts = ItemCounts.of(LISTS, CATALOG, TRAINED)
    assert value(name, 3).of_run(counts, conventions_of(preset)) == pytest.approx(expected, abs=5e-7)


def test_every_value_of_a_run_has_an_oracle() -> None:
    assert {*OF_COUNTS, "exposure"} == set(OF_RUNS)


@given(run=runs, order=orders)
def test_any_run_in_any_order_of_its_entries(run: Run, order: Random) -> None:
    counts = counted(run)
    entries = list(range(len(counts.n_items)))
    order.shuffle(entries)
    for name, conventions in every_choice:
        found = value(name, run.k).of_run(counts, conventions)
        expected = OF_COUNTS[name](run, conventions)
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-12, nan_ok=True), (name, conventions)
        again = value(name, run.k).of_run(shuffled(counts, entries), conventions)
        np.testing.assert_array_equal(again, found, err_msg=name)


@given(run=runs)
def test_they_are_bounded_where_they_say_so(run: Run) -> None:
    for name, conventions in every_choice:
        found = value(name, run.k).of_run(counted(run), conventions)
        upper = RANKING[name].upper
        assert isinstance(found, float)
        assert math.isnan(found) or (found >= 0 and (upper is None or found <= upper)), (name, conventions)


@pytest.mark.parametrize("name", OF_COUNTS)
def test_every_choice_changes_some_number_and_no_other_convention_does(name: str) -> None:
    counts = ItemCounts.of(LISTS, CATALOG, range(6))
    measured = [value(name, 3).of_run(counts, one) for one in every_convention(name)]
    assert len(set(measured)) == len(measured)
    for conventions in (conventions_of("elliot"), conventions_of("evidently"), conventions_of("rectools")):
        own = {one: getattr(Conventions(), one) for one in RANKING[name].conventions}
        assert value(name, 3).of_run(counts, conventions.changed(own)) == measured[0]


@pytest.mark.parametrize("name", OF_COUNTS)
def test_nothing_recommended_is_undefined_but_covers_nothing(name: str) -> None:
    counts = ItemCounts.of([[], []], CATALOG, TRAINED)
    for conventions in every_convention(name):
        expected = 0 if name == "catalog_coverage" else math.nan
        np.testing.assert_array_equal(value(name, 3).of_run(counts, conventions), expected)


def test_counts_of_more_lists_than_64_bits_can_square() -> None:
    counts = ItemCounts.of([[1], [1], [2]], catalog=[1, 2])
    many = replace(counts, n_lists=counts.n_lists * 10**10, n_filled=3 * 10**10, n_population=3 * 10**10)
    assert value("personalization", 1).of_run(many, Conventions()) == pytest.approx(4 / 9)
    assert value("gini_catalog", 1).of_run(many, Conventions()) == pytest.approx(1 / 6)
    assert value("entropy", 1).of_run(many, Conventions()) == pytest.approx(math.log2(3) - 2 / 3)


def test_an_item_that_all_lists_hold_has_an_entropy_of_zero() -> None:
    found = value("entropy", 1).of_run(ItemCounts.of([[1], [1]]), Conventions())
    assert (found, math.copysign(1, found)) == (0, 1)


# Exposure.

EVERYBODY = np.zeros(len(LISTS), dtype=np.int64)
ABOUT = about_of(grouped_lists(LISTS, [[]] * len(LISTS), GROUPS))


def shares(name: str, weights: GroupWeights) -> dict[str, float]:
    return value(name, 3).of_groups(weights, Conventions())


def test_worked_exposure() -> None:
    [weights] = GroupWeights.of_lists(ABOUT, 3, Conventions(), EVERYBODY, 1)
    expected = {"a": 0.136364, "b": 0.363636, "c": 0.409091, "(missing)": 0.090909}
    assert shares("exposure", weights) == pytest.approx(expected, abs=5e-7)
    catalog = {"a": 3 / 8, "b": 2 / 8, "c": 3 / 8, "(missing)": 0}
    assert shares("exposure", GroupWeights.of_catalog(ABOUT.catalog)) == pytest.approx(catalog)


WEIGHTS: dict[ExposureWeights, Callable[[int], float]] = {
    ExposureWeights.EQUAL: lambda _rank: 1.0,
    ExposureWeights.DISC: lambda rank: 1 / math.log2(rank + 1),
}
parts = st.integers(0, 2)
groups = st.dictionaries(st.integers(0, 7), st.sets(st.sampled_from("abc")).map("".join))


@given(
    lists=st.lists(st.tuples(items, parts), min_size=1, max_size=7),
    groups=groups,
    k=st.one_of(st.none(), st.integers(1, 4)),
    order=orders,
)
def test_exposure_of_any_lists_however_they_are_divided(
    lists: list[tuple[list[int], int]], groups: dict[int, str], k: int | None, order: Random
) -> None:
    for choice, weigh in zip(
        ExposureWeights, (lambda _: 1.0, lambda rank: 1 / math.log2(rank + 1)), strict=True
    ):
        conventions = Conventions(exposure_weights=choice)
        whole = weights_of(lists, groups, k, conventions)
        mixed = list(lists)
        order.shuffle(mixed)
        # Batches know the same groups: those of the catalogue.
        batches = [weights_of([one], groups, k, conventions) for one in mixed]
        for part, weights in enumerate(whole):
            run = Run([one[:k] for one, own in lists if own == part], (), (), k)
            found = value("exposure", k).of_groups(weights, conventions)
            if any(run.lists):
                expected = dict.fromkeys(found, 0.0) | exposure(run, lambda item: groups.get(item, ""), weigh)
                assert found == pytest.approx(expected, rel=1e-12, abs=1e-15)
                assert math.fsum(found.values()) == pytest.approx(1)
            else:
                assert all(math.isnan(share) for share in found.values())
            added = sum((batch[part] for batch in batches[1:]), start=batches[0][part])
            again = value("exposure", k).of_groups(added, conventions)
            np.testing.assert_array_equal(list(again.values()), list(found.values()))


def weights_of(
    lists: Sequence[tuple[Sequence[int], int]], groups: dict[int, str], k: int | None, run: Conventions
) -> list[GroupWeights]:
    """What the groups of these lists weigh by part; the catalogue is the same whatever the lists."""
    everything = {item: groups.get(item, "") for item in range(8)}
    about = about_of(grouped_lists([one for one, _ in lists], [[] for _ in lists], everything))
    part = np.array([own for _, own in lists], dtype=np.int64)
    return GroupWeights.of_lists(about, k, run, part, 3)


def test_a_group_that_is_called_missing_is_that_of_items_without_a_group() -> None:
    groups = replace(sets_of_words(["a", "", "b"], 3), names=["(missing)", "b"])
    weights = GroupWeights.of_items(groups, np.array([0, 1, 2]), np.ones(3), np.zeros(3, dtype=np.int64), 1)
    assert shares("exposure", weights[0]) == pytest.approx({"(missing)": 2 / 3, "b": 1 / 3})


def test_exposure_without_facts_of_items_is_an_error() -> None:
    about = about_of(grouped_lists([[1]], [[]], {1: "a"}))
    without_groups = replace(about, catalog=replace(about.catalog, groups=None))
    for part in (replace(about, listed=None), without_groups):
        with pytest.raises(ValueError, match="needs an input"):
            GroupWeights.of_lists(part, 1, Conventions(), np.array([0]), 1)


# How they are asked for, and where they do not stand.


@pytest.mark.parametrize("name", OF_RUNS)
def test_they_have_no_column_and_no_sums(name: str) -> None:
    found = value(name, 3)
    assert found.columns == []
    assert sum_of_columns([found, value("ndcg", 3)]) == {"ndcg_at_3": ("ndcg_at_3",)}
    assert value_of_column(found.column) is None
    plan = make_plan(metrics=[name, "ndcg"], k=3)
    assert plan.columns == ["ndcg_at_3"]
    assert [str(one) for one in (*plan.of_run, *plan.of_groups)] == [f"{name}@3"]
    assert [str(one) for one in plan.metrics] == ["ndcg@3"]


def test_names_of_shares_beside_the_catalogue() -> None:
    assert value("exposure", 3).catalog_name == "exposure_catalog"
    assert value("exposure(weights=disc)", 3).catalog_name == "exposure_catalog(weights=disc)"
    assert published_name("exposure_catalog@3") == "exposure_catalog"
    assert value("exposure_catalog", 3) == value("exposure", 3)


@pytest.mark.parametrize(
    ("metrics", "facts"),
    [
        ("ndcg", ""),
        ("alpha_ndcg", "groups relevant"),
        ("alpha_ndcg(ideal_ties=text)", "groups relevant text_order"),
        ("catalog_coverage", "catalog"),
        ("catalog_coverage(variant=trained)", "catalog popularity"),
        ("exposure", "catalog groups"),
        ("entropy", ""),
    ],
)
def test_options_can_need_further_facts(metrics: str, facts: str) -> None:
    needs = make_plan(metrics=[metrics, "map"], k=5).needs - OF_LISTS
    assert needs - {Need.ITEMS, Need.ITEM_COUNTS, Need.GROUP_WEIGHTS} == {
        Need[one.upper()] for one in facts.split()
    }


def test_presets_can_need_further_facts() -> None:
    plan = make_plan(metrics="catalog_coverage", conventions="replay")
    assert plan.needs - OF_LISTS == {Need.ITEM_COUNTS, Need.ITEMS, Need.CATALOG, Need.POPULARITY}


def test_what_is_recommended_more_often_is_not_better_in_itself() -> None:
    direction = {name: RANKING[name].direction for name in OF_RUNS}
    better = {name for name, one in direction.items() if one is Direction.HIGHER}
    assert better == {"catalog_coverage", "personalization"}
    assert Direction.LOWER not in direction.values()


@pytest.mark.parametrize(("name", "k"), list(product(OF_RUNS, [1, None])))
def test_they_ask_for_whole_lists_without_repeats(name: str, k: int | None) -> None:
    assert Need.LENGTHS in value(name, k).needs(Conventions())
    assert make_plan(metrics=name, k="all" if k is None else k).checks == "full"


def test_they_are_not_measured_of_lists() -> None:
    with pytest.raises(AttributeError):
        value("entropy", 3).measure(Lists.of([[1, 0]]), Conventions())
    with pytest.raises(ConfigError):
        parse_metric("exposure(weights=rank)", [3])
