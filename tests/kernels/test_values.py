"""A metric as a value: printed in one way, parsed back, and named in columns that SQL takes as they are."""

import re
from itertools import product
from random import Random

import pytest
from choices import every_convention
from hypothesis import given
from hypothesis import strategies as st
from strategies import orders

from spark_eval.conventions import (
    CONVENTIONS,
    AverageDenominator,
    Conventions,
    Gain,
    Ideal,
    RecallDenominator,
    TieOrder,
)
from spark_eval.conventions.choice import Choice, Need
from spark_eval.kernels.aliases import metric_named
from spark_eval.kernels.registry import OF_LISTS, RANKING
from spark_eval.kernels.values import (
    MAX_K,
    METRICS_KEY,
    MetricValue,
    metric_values,
    parse_k,
    parse_metric,
    ranking_names,
)
from users import batch, graded

KS = (1, 10, MAX_K, None)
DEFAULT = Conventions()


def every_option(name: str) -> list[tuple[tuple[str, Choice], ...]]:
    """All that can stand in the brackets of a metric, from nothing to a choice at every convention."""
    chosen = [[None, *CONVENTIONS[convention]] for convention in RANKING[name].conventions]
    return [
        tuple(
            (convention, choice)
            for convention, choice in zip(RANKING[name].conventions, choices, strict=True)
            if choice
        )
        for choices in product(*chosen)
    ]


EVERY_VALUE = [
    MetricValue(metric, options, k)
    for metric in RANKING.values()
    for options in every_option(metric.name)
    for k in KS
]
any_value = st.builds(
    lambda value, k: MetricValue(value.metric, value.options, k),
    st.sampled_from(EVERY_VALUE),
    st.one_of(st.none(), st.integers(1, MAX_K)),
)


def parsed(text: str) -> MetricValue:
    [value] = parse_metric(text)
    return value


@given(value=any_value)
def test_what_is_printed_is_parsed_back(value: MetricValue) -> None:
    assert parsed(str(value)) == value
    assert parse_metric(value.name, [value.k]) == [value]


def test_whatever_can_be_chosen_is_parsed_back() -> None:
    assert all(parsed(str(value)) == value for value in EVERY_VALUE)
    assert len({str(value) for value in EVERY_VALUE}) == len(EVERY_VALUE)


@given(value=any_value, order=orders, spaces=st.sampled_from(["", " ", "  "]))
def test_order_spaces_and_long_names_do_not_matter(value: MetricValue, order: Random, spaces: str) -> None:
    options = list(value.options)
    order.shuffle(options)
    inner = f"{spaces},{spaces}".join(
        f"{convention}{spaces}={spaces}{choice}" for convention, choice in options
    )
    text = f"{spaces}{value.metric.name}({spaces}{inner}{spaces})@{value.cutoff}{spaces}"
    assert str(parsed(text)) == str(value)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("ap@5", "map@5"),
        ("map@5", "map@5"),
        ("map()@5", "map@5"),
        ("ap(ap_denominator=relevant)@5", "map(denominator=relevant)@5"),
        ("map(denominator=relevant)@5", "map(denominator=relevant)@5"),
        ("ap(tie_order=best, variant=gated)@05", "map(variant=gated, tie_order=best)@5"),
        ("f1(recall_denominator=retrieved)@1", "f1(recall_denominator=retrieved)@1"),
        ("ndcg(ideal=list,gain=exp2)@all", "ndcg(gain=exp2, ideal=list)@all"),
        ("rr@10", "mrr@10"),
        ("rhr_norm@10", "arhr_norm@10"),
        ("ar@10", "mar@10"),
        ("auc(one_class=extremes)@10", "gauc(one_class=extremes)@10"),
        ("gauc_by_impressions@10", "gauc@10"),
        ("gauc_by_positives@10", "gauc@10"),
        ("fcp_micro@10", "fcp@10"),
    ],
)
def test_canonical_form(text: str, canonical: str) -> None:
    assert str(parsed(text)) == canonical


def test_without_a_cutoff_of_its_own_it_takes_all_of_the_run() -> None:
    assert [str(value) for value in parse_metric("ap", [1, 5, None])] == ["map@1", "map@5", "map@all"]
    assert [str(value) for value in parse_metric("ap@3", [1, 5])] == ["map@3"]
    assert parse_metric("ap") == []


def test_a_value_asked_for_twice_is_measured_once_where_it_first_stood() -> None:
    values = metric_values(["ndcg@5", "map", "ap@5", "fcp_micro", "fcp"], [5, 1], DEFAULT)
    assert [str(value) for value in values] == ["ndcg@5", "map@5", "map@1", "fcp@5", "fcp@1"]


def test_columns_are_unique_and_need_no_quotes() -> None:
    columns = [column for value in EVERY_VALUE for column in value.columns or [value.column]]
    assert len(columns) == len(set(columns)) == len({column.lower() for column in columns})
    assert all(re.fullmatch("[a-z][a-z0-9_]*", column) for column in columns)
    assert max(map(len, columns)) <= 128


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("map@5", ["ap_at_5"]),
        ("map@all", ["ap_at_all"]),
        ("map(denominator=relevant)@5", ["ap_denominator_relevant_at_5"]),
        ("ndcg(gain=exp2, ideal=list)@10", ["ndcg_gain_exp2_ideal_list_at_10"]),
        ("fcp@3", ["fcp_at_3", "fcp_pairs_at_3"]),
        ("gauc@3", ["auc_at_3", "auc_impressions_at_3", "auc_positives_at_3"]),
        (
            "gauc(one_class=extremes)@3",
            [f"{name}_one_class_extremes_at_3" for name in ("auc", "auc_impressions", "auc_positives")],
        ),
    ],
)
def test_columns(text: str, columns: list[str]) -> None:
    value = parsed(text)
    assert (value.column, value.columns) == (columns[0], columns)
    assert list(value.measure(batch([graded([1, 0])]), DEFAULT)) == columns


def test_weighted_means_have_names_with_the_options() -> None:
    assert list(parsed("fcp@3").weights) == ["fcp_micro"]
    assert list(parsed("auc(one_class=extremes)@3").weights) == [
        "gauc_by_impressions(one_class=extremes)",
        "gauc_by_positives(one_class=extremes)",
    ]
    assert parsed("ndcg@3").weights == {}


def test_every_name_of_a_metric_finds_it() -> None:
    for metric in RANKING.values():
        for name in (metric.name, metric.run_name, *metric.weights):
            assert metric_named(name, ranking_names(), METRICS_KEY) is metric


def test_its_own_choices_go_before_those_of_the_run() -> None:
    run = Conventions(gain=Gain.EXP2, ap_denominator=AverageDenominator.HITS, preset="seed002")
    own = parsed("ndcg(gain=binary, ideal=list)@5").conventions(run)
    assert own == run.changed({"gain": Gain.BINARY, "ideal": Ideal.LIST})
    person = graded([0, 3], missed=[3])
    [value] = parsed("dcg(gain=binary)@2").measure(batch([person]), run).values()
    assert value[0] == pytest.approx(0.63093, abs=5e-6)


@pytest.mark.parametrize(
    ("text", "run", "sees"),
    [
        ("map@5", DEFAULT, False),
        ("map@all", DEFAULT, True),
        ("r_precision@5", DEFAULT, True),
        ("map(denominator=retrieved)@5", DEFAULT, True),
        ("map@5", Conventions(ap_denominator=AverageDenominator.RETRIEVED), True),
        ("map(denominator=hits)@5", Conventions(ap_denominator=AverageDenominator.RETRIEVED), False),
        ("ndcg@5", Conventions(ap_denominator=AverageDenominator.RETRIEVED), False),
        ("f1@5", Conventions(recall_denominator=RecallDenominator.RETRIEVED), True),
        ("recall_capped@5", Conventions(recall_denominator=RecallDenominator.RETRIEVED), False),
        ("ndcg(ideal=list)@5", DEFAULT, True),
        ("ndcg(tie_order=worst)@5", DEFAULT, True),
        ("ndcg@5", Conventions(tie_order=TieOrder.BEST), True),
        ("gauc@5", Conventions(tie_order=TieOrder.BEST), False),
    ],
)
def test_what_sees_hits_beyond_k(text: str, run: Conventions, sees: bool) -> None:
    assert (Need.WHOLE_LIST in parsed(text).needs(run)) is sees


@pytest.mark.parametrize("name", RANKING)
def test_what_sees_ties(name: str) -> None:
    for conventions in every_convention(name):
        has_order = conventions.tie_order is not TieOrder.AS_RANKED
        assert (Need.TIES in MetricValue(RANKING[name], (), 5).needs(conventions)) is (
            has_order or name in ("fcp", "auc")
        )


def test_a_cutoff_is_a_whole_number_or_all() -> None:
    assert [parse_k(k) for k in (1, "7", MAX_K, str(MAX_K), "all")] == [1, 7, MAX_K, MAX_K, None]


@pytest.mark.parametrize(
    ("text", "facts", "sees_items", "sees_history"),
    [
        ("map", "", False, False),
        ("user_coverage", "", False, False),
        ("arp", "popularity", True, False),
        ("epc", "popularity", False, False),
        ("ild", "vectors", True, False),
        ("ild(distance=euclid)", "vectors", True, False),
        ("ild(distance=jaccard)", "features", True, False),
        ("ild(distance=hamming)", "features", True, False),
        ("unexpectedness", "base", True, False),
        ("serendipity", "catalog popularity", False, False),
        ("serendipity(variant=recommenders)", "takers", True, True),
        ("serendipity(variant=recommenders_cosine)", "vectors", True, True),
        ("serendipity(variant=evidently)", "vectors", True, True),
        ("pop_lift", "popularity", True, True),
        ("calibration_kl", "groups", True, True),
    ],
)
def test_what_it_needs_to_know_of_items(text: str, facts: str, sees_items: bool, sees_history: bool) -> None:
    value = parsed(f"{text}@5")
    needs = value.needs(DEFAULT)
    assert needs - OF_LISTS - {Need.ITEMS, Need.HISTORY} == {Need[name.upper()] for name in facts.split()}
    assert (Need.ITEMS in needs, Need.HISTORY in needs) == (sees_items, sees_history)
    # Wherever a list is seen beyond its hits, repeated items must be found.
    assert (Need.LENGTHS in needs) is (text != "map")


def test_each_need_is_declared_by_a_metric_or_a_choice() -> None:
    of_choices = [choice.needs for choices in CONVENTIONS.values() for choice in choices]
    assert set().union(*of_choices, *(metric.needs for metric in RANKING.values())) == set(Need)
