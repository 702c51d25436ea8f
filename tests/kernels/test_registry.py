"""What is known of every metric besides its numbers, written down a second time."""

import math
from dataclasses import replace
from typing import NamedTuple

import pytest
from choices import OF_HITS, OF_USERS, Case, every_convention
from hypothesis import given
from strategies import cases, finite_cutoffs, users
from textbook_lists import EVERYBODY, ONE_ITEM, OTHER

import spark_eval
from spark_eval import kernels
from spark_eval.conventions import CONVENTIONS, AverageDenominator, AverageVariant, Conventions, TieOrder
from spark_eval.conventions.beyond import SerendipityVariant
from spark_eval.conventions.choice import Need
from spark_eval.errors import SparkEvalError
from spark_eval.kernels.registry import OF_LISTS, RANKING
from spark_eval.kernels.values import MetricValue, metric_values
from spark_eval.predictions import PREDICTION_METRICS
from spark_eval.statistics.exact import Floats
from users import User, batch, for_metric, graded, user


class Facts(NamedTuple):
    run_name: str
    conventions: str = ""
    has_bound: bool = True
    needs: str = "hits"
    weights: str = ""
    direction: str = "higher"
    lower: float | None = 0.0
    upper: float = 1.0
    catalog_name: str | None = None
    over_repeats: str = ""


OF_ITEMS = Facts("", needs="items")
POPULAR = Facts("", needs="items popularity")
INTENTS = Facts("", needs="hits groups relevant")
OF_RUN = Facts("", needs="item_counts")
TABLE = {
    "precision": Facts("precision", "precision_denominator tie_order"),
    "recall": Facts("recall", "recall_denominator tie_order"),
    "recall_capped": Facts("recall_capped", "tie_order"),
    "f1": Facts("f1", "precision_denominator recall_denominator tie_order"),
    "hit_rate": Facts("hit_rate", "tie_order", over_repeats="pass_all pass_any"),
    "ap": Facts("map", "ap_denominator ap_variant tie_order"),
    "ar": Facts("mar", "ar_denominator ar_variant tie_order"),
    "rr": Facts("mrr", "tie_order"),
    "rhr": Facts("arhr", "tie_order", has_bound=False),
    "rhr_norm": Facts("arhr_norm", "tie_order"),
    "r_precision": Facts("r_precision", "tie_order", needs="hits whole_list"),
    "cg": Facts("cg", "tie_order", has_bound=False),
    "dcg": Facts("dcg", "gain discount tie_order", has_bound=False),
    "mdcg": Facts("mdcg", "gain discount tie_order", has_bound=False),
    "ndcg": Facts("ndcg", "gain discount ideal tie_order"),
    "auc": Facts(
        "gauc",
        "one_class auc_ties",
        needs="hits lengths_by_rank ties",
        weights="gauc_by_impressions gauc_by_positives",
    ),
    "fcp": Facts("fcp", needs="hits ties", weights="fcp_micro"),
    "user_coverage": Facts("user_coverage", "user_coverage_places", needs="lengths_by_rank"),
    "arp": POPULAR._replace(
        run_name="arp",
        conventions="popularity arp_scale arp_unseen",
        has_bound=False,
        direction="none",
    ),
    "novelty": POPULAR._replace(
        run_name="novelty",
        conventions="novelty_popularity novelty_unseen novelty_scale novelty_denominator",
        has_bound=False,
        weights="novelty_micro",
    ),
    "outside_catalog": OF_ITEMS._replace(
        run_name="outside_catalog", needs="items catalog", direction="lower"
    ),
    "violations": OF_ITEMS._replace(run_name="violations", needs="items flags", direction="lower"),
    "snips_recall": Facts(
        "snips_recall",
        "propensity propensity_power propensity_floor popularity",
        needs="hits relevant",
        weights="snips_recall_micro",
    ),
    "long_tail": POPULAR._replace(run_name="long_tail"),
    "epc": POPULAR._replace(run_name="epc", needs="hits lengths_by_rank popularity"),
    "efd": POPULAR._replace(run_name="efd", needs="hits lengths_by_rank popularity", has_bound=False),
    "pop_lift": POPULAR._replace(
        run_name="mean_pop_lift",
        conventions="popularity",
        has_bound=False,
        needs="history popularity",
        direction="none",
        lower=-1.0,
        weights="pop_lift",
    ),
    "ild": OF_ITEMS._replace(
        run_name="ild",
        conventions="ild_distance ild_average ild_short no_features",
        has_bound=False,
    ),
    "unexpectedness": OF_ITEMS._replace(
        run_name="unexpectedness",
        conventions="unexpectedness_denominator unexpectedness_no_base",
        needs="items base",
    ),
    "serendipity": OF_ITEMS._replace(
        run_name="serendipity",
        conventions="serendipity_variant popularity no_features",
        needs="hits lengths_by_rank",
        has_bound=False,
        lower=None,
    ),
    "calibration_kl": OF_ITEMS._replace(
        run_name="calibration_kl",
        conventions="calibration_kl_weights",
        needs="history groups",
        direction="lower",
        upper=math.log(100),
    ),
    "alpha_ndcg": INTENTS._replace(run_name="alpha_ndcg", conventions="ideal_ties", has_bound=False),
    "err_ia": INTENTS._replace(run_name="err_ia"),
    "nerr_ia": INTENTS._replace(run_name="nerr_ia", conventions="ideal_ties", has_bound=False),
    "p_ia": INTENTS._replace(run_name="p_ia"),
    "subtopic_recall": INTENTS._replace(run_name="subtopic_recall"),
    "ap_ia": INTENTS._replace(run_name="ap_ia"),
    "catalog_coverage": OF_RUN._replace(
        run_name="catalog_coverage",
        conventions="catalog_coverage_variant",
        has_bound=False,
        needs="item_counts catalog",
    ),
    "gini_catalog": OF_RUN._replace(
        direction="none", run_name="gini_catalog", conventions="gini_variant", needs="item_counts catalog"
    ),
    "gini_recommended": OF_RUN._replace(
        direction="none", run_name="gini_recommended", conventions="gini_variant"
    ),
    "entropy": OF_RUN._replace(
        direction="none", run_name="entropy", conventions="entropy_weights", has_bound=False
    ),
    "entropy_norm": OF_RUN._replace(
        direction="none",
        run_name="entropy_norm",
        conventions="entropy_weights",
        has_bound=False,
        needs="item_counts catalog",
    ),
    "personalization": OF_RUN._replace(
        run_name="personalization", conventions="personalization_variant", has_bound=False
    ),
    "exposure": OF_RUN._replace(
        direction="none",
        run_name="exposure",
        conventions="exposure_weights",
        needs="group_weights catalog groups",
        catalog_name="exposure_catalog",
    ),
}


def test_every_metric_is_written_down() -> None:
    assert TABLE.keys() == RANKING.keys()


@pytest.mark.parametrize("name", RANKING)
def test_facts(name: str) -> None:
    metric, facts = RANKING[name], TABLE[name]
    assert (metric.name, metric.run_name) == (name, facts.run_name)
    assert metric.conventions == tuple(facts.conventions.split())
    assert metric.upper == (pytest.approx(facts.upper) if facts.has_bound else None)
    assert (metric.lower, metric.direction) == (facts.lower, facts.direction)
    assert metric.needs == {Need[one.upper()] for one in facts.needs.split()}
    assert list(metric.weights) == facts.weights.split()
    assert metric.catalog_name == facts.catalog_name
    assert list(metric.over_repeats) == facts.over_repeats.split()
    assert metric.is_of_users is not bool(metric.needs & {Need.ITEM_COUNTS, Need.GROUP_WEIGHTS})
    hits_alone = not metric.needs - OF_LISTS and name != "serendipity"
    assert metric.knows_items is not hits_alone
    assert metric.is_of_hits is (hits_alone and name not in ("auc", "user_coverage"))
    assert set(metric.conventions) <= set(CONVENTIONS)


@pytest.mark.parametrize("name", RANKING)
def test_what_is_said_of_a_metric_comes_from_its_kernel(name: str) -> None:
    metric = RANKING[name]
    assert metric.notes == metric.kernel.__doc__
    assert metric.summary == metric.notes.splitlines()[0]
    assert metric.summary.endswith((".", "bounded by 1."))
    assert metric.formula


@pytest.mark.parametrize("name", OF_USERS)
def test_every_choice_that_is_declared_changes_some_number(name: str) -> None:
    people = batch(
        [
            graded([0, 1, 3, 2], missed=[5, 1], scores=[9, 9, 7, 7]),
            graded([1, 0, 3], missed=[2]),
            graded([1, 0]),
            graded([1, 2, 3, 2, 3], missed=[1]),
            graded([0, 0]),
            graded([1], missed=[1]),
            graded([0, 0, 1], scores=[7, 7, 7]),
            graded([1, 0, 0], scores=[7, 7, 7]),
            *EVERYBODY,
            OTHER,
            ONE_ITEM,
            user([9, 2], [2], history=[1, 9]),
            user([1, 3], [1, 2, 3], fold=1),
            # Which of the items with two groups each stands first in the greedy ideal decides what follows.
            user([9, 10, 11], [9, 10, 11, 12]),
        ]
    )
    value = MetricValue(RANKING[name], (), 2)
    for convention in RANKING[name].conventions:
        given = GIVEN.get((name, convention), {})
        choices = [one.changed(given) for one in every_convention(name) if is_default_but(convention, one)]
        seen = for_metric(people, value.metric)
        columns = {value.measure(seen, choice)[value.column].tobytes() for choice in choices}
        assert len(columns) == len(choices), convention


# What must be chosen for a choice to matter.
GIVEN = {("serendipity", "no_features"): {"serendipity_variant": SerendipityVariant.RECOMMENDERS_COSINE}}


def is_default_but(convention: str, conventions: Conventions) -> bool:
    """Whether no other convention was chosen otherwise than by default."""
    return conventions.changed({convention: getattr(Conventions(), convention)}) == Conventions()


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_conventions_that_are_not_declared_change_nothing(convention: str) -> None:
    people = batch(
        [
            graded([0, 1, 3, 2], missed=[5, 1], scores=[9, 9, 7, 7]),
            *(graded([1, 0]), graded([0]), *EVERYBODY, OTHER, ONE_ITEM),
        ]
    )
    for name in OF_USERS:
        value = MetricValue(RANKING[name], (), 3)
        if convention not in value.metric.conventions:
            seen = for_metric(people, value.metric)
            plain = value.measure(seen, Conventions())
            for choice in CONVENTIONS[convention]:
                chosen = value.measure(seen, Conventions().changed({convention: choice}))
                assert [column.tobytes() for column in chosen.values()] == [
                    column.tobytes() for column in plain.values()
                ], (name, choice)


def with_other_length(people: list[User], value: MetricValue, run: Conventions) -> tuple[Floats, Floats]:
    """A metric's column, and the same if every list had three more items that nobody wanted."""
    longer = [
        replace(one, recommended=[*one.recommended, 97, 98, 99], scores=[*one.falling, -100, -101, -102])
        for one in people
    ]
    seen = (for_metric(batch(some), value.metric) for some in (people, longer))
    first, second = (value.measure(lists, run)[value.column] for lists in seen)
    return first, second


@given(cases=cases, person=users, k=finite_cutoffs)
def test_the_length_of_the_list_changes_nothing_unless_it_says_so(
    cases: list[Case], person: User, k: int
) -> None:
    for name, conventions in cases:
        value = MetricValue(RANKING[name], (), k)
        if Need.LENGTHS not in value.needs(conventions):
            before, after = with_other_length([person], value, conventions)
            assert before.tobytes() == after.tobytes(), (name, conventions)


@pytest.mark.parametrize("name", OF_HITS)
def test_the_length_of_the_list_matters_where_it_says_so(name: str) -> None:
    people = [graded([1, 0, 1], missed=[1] * 9), graded([1, 0])]
    value = MetricValue(RANKING[name], (), 7)
    for conventions in every_convention(name):
        # The window has no denominator to choose, whatever the choice.
        variants = {"ap": conventions.ap_variant, "ar": conventions.ar_variant}
        is_idle = variants.get(name) is AverageVariant.WINDOW
        before, after = with_other_length(people, value, conventions)
        assert (before.tobytes() != after.tobytes()) is (
            Need.LENGTHS in value.needs(conventions) and not is_idle
        )


def test_without_a_cutoff_the_length_can_matter() -> None:
    assert Need.LENGTHS in MetricValue(RANKING["precision"], (), None).needs(Conventions())
    assert Need.LENGTHS not in MetricValue(RANKING["precision"], (), 5).needs(Conventions())
    run = Conventions(ap_denominator=AverageDenominator.MIN_RELEVANT_LENGTH, tie_order=TieOrder.BEST)
    seen = [Need.LENGTHS in MetricValue(RANKING[name], (), 5).needs(run) for name in ("ap", "ar")]
    assert seen == [True, False]


def test_all_metrics_are_listed() -> None:
    listed = spark_eval.metrics()
    assert list(listed["metric"]) == [*(one.run_name for one in RANKING.values()), *PREDICTION_METRICS]
    assert dict(zip(listed["metric"], listed["column"], strict=True))["map"] == "ap"
    assert set(listed["of"]) == {"lists", "predictions"}
    for name in listed.query("of == 'lists'")["metric"]:
        assert metric_values([name], [5], Conventions())
    assert spark_eval.SparkEvalError is SparkEvalError
    assert {"metrics", "SparkEvalError"} <= set(dir(spark_eval))


def test_the_package_offers_kernels_where_a_module_has_their_name() -> None:
    offered = {metric.kernel.__name__: metric.kernel for metric in RANKING.values()}
    assert {name: getattr(kernels, name) for name in offered} == offered
