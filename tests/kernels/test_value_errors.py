"""What cannot be measured is refused by code, with what is allowed."""

from collections.abc import Sequence

import pytest
from choices import OF_ITEMS, SHARING, UNDEFINED

from spark_eval.conventions import AverageVariant, Conventions, TieOrder
from spark_eval.conventions.choice import Need
from spark_eval.conventions.presets import conventions_of
from spark_eval.errors import ConfigError
from spark_eval.kernels.registry import RANKING
from spark_eval.kernels.values import MAX_K, metric_values, parse_k, parse_metric

# Neither do tied items share places in these, nor do they see ties themselves.
SHARED = Conventions(tie_order=TieOrder.SHARED)
SEES_TIES = [name for name, metric in RANKING.items() if Need.TIES in metric.needs]
# These, too, take lists as they are ranked.
AS_RANKED = [name for name, metric in RANKING.items() if "tie_order" not in metric.conventions]
REFUSED = sorted({*RANKING} - {*SHARING} - {*AS_RANKED})


def refusal(
    text: str, conventions: Conventions | None = None, ks: Sequence[int | None] = (5,)
) -> ConfigError:
    """How a metric is refused."""
    with pytest.raises(ConfigError) as raised:
        metric_values([text], ks, conventions or Conventions())
    assert "evaluate.metrics" in raised.value.message or raised.value.code in ("INVALID_K", "TIE_ORDER")
    return raised.value


NO_FORM = "|@5|map@|map@@5|map@5@5|map(|map)|map(gain=exp2|map@5(gain=exp2)|m ap@5|map-5|map@-1|map@1.5"


@pytest.mark.parametrize("text", [*NO_FORM.split("|"), "map(a(b))@5", "(gain=exp2)@5", "map@5\n; drop"])
def test_what_is_not_the_form_of_a_metric(text: str) -> None:
    assert refusal(text).code == "INVALID_METRIC"


def test_an_option_given_twice() -> None:
    error = refusal("ndcg(gain=exp2, gain=linear)@5")
    assert (error.code, "'gain' is given twice" in error.message) == ("INVALID_METRIC", True)
    assert refusal("map(denominator=k, ap_denominator=hits)").code == "INVALID_METRIC"


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("ndgc@5", "UNKNOWN_METRIC", "did you mean 'ndcg'?"),
        ("NDGC@5", "UNKNOWN_METRIC", "did you mean 'ndcg'?"),
        ("map_at_5", "UNKNOWN_METRIC", "unknown metric 'map_at_5'"),
        ("zzz", "UNKNOWN_METRIC", "allowed: alpha_ndcg, ap, ap_ia, ar, arhr"),
        ("ndcg(gian=exp2)", "UNKNOWN_OPTION", "did you mean 'gain'?"),
        ("ndcg(denominator=k)", "UNKNOWN_OPTION", "unknown option 'denominator' in evaluate.metrics: ndcg"),
        ("recall(ap_denominator=k)", "UNKNOWN_OPTION", "unknown option 'ap_denominator'"),
        ("fcp(tie_order=best)", "UNKNOWN_OPTION", "unknown option 'tie_order'"),
        ("map(no_truth=zero)", "UNKNOWN_OPTION", "unknown option 'no_truth'"),
        ("map(=k)", "UNKNOWN_OPTION", "unknown option ''"),
        ("ndcg(gain=exp)", "INVALID_CHOICE", "did you mean 'exp2'?"),
        ("ndcg(gain=)", "INVALID_CHOICE", "allowed: binary, exp2, exp2_plus_1, linear"),
        ("ndcg(gain)", "INVALID_CHOICE", "unknown choice ''"),
        ("ndcg(gain=LINEAR)", "INVALID_CHOICE", "evaluate.metrics: ndcg(gain)"),
        ("map(denominator=min_k_length)", "INVALID_CHOICE", "evaluate.metrics: map(denominator)"),
        ("map@0", "INVALID_K", "whole numbers from 1 to"),
        (f"map@{MAX_K + 1}", "INVALID_K", "100000, or 'all'"),
        ("map@five", "INVALID_K", "'five'"),
        ("map@ALL", "INVALID_K", "'ALL'"),
    ],
)
def test_unknown_words(text: str, code: str, words: str) -> None:
    error = refusal(text)
    assert (error.code, words in error.message) == (code, True), error


@pytest.mark.parametrize("k", [0, -1, 1.0, True, None, "", "1.0", "-1", MAX_K + 1, [1]])
def test_cutoffs_of_a_run(k: object) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_k(k)
    assert raised.value.code == "INVALID_K"
    assert repr(k) in raised.value.message


@pytest.mark.parametrize("name", REFUSED)
def test_shared_places_are_refused_where_they_have_no_meaning(name: str) -> None:
    error = refusal(name, SHARED)
    assert error.code == "TIE_ORDER"
    for word in (RANKING[name].run_name, "dcg, ndcg, ap", "best and worst"):
        assert word in error.message
    assert refusal(f"{name}(tie_order=shared)").code == "TIE_ORDER"
    assert metric_values([f"{name}(tie_order=best)"], [5], SHARED)


def test_a_window_cannot_share_places() -> None:
    for text in ("ap(variant=window, tie_order=shared)", "ap(variant=window)"):
        assert refusal(text, SHARED).code == "TIE_ORDER"
    assert refusal("ap", SHARED.changed({"ap_variant": AverageVariant.WINDOW})).code == "TIE_ORDER"
    # The window of AP is nothing to nDCG.
    assert metric_values(["ndcg"], [5], SHARED.changed({"ap_variant": AverageVariant.WINDOW}))


@pytest.mark.parametrize("name", AS_RANKED)
def test_metrics_that_take_ranked_lists_pass(name: str) -> None:
    assert [value.metric.name for value in metric_values([name], [5], SHARED)] == [name]
    assert refusal(f"{name}(tie_order=best)").code == "UNKNOWN_OPTION"


@pytest.mark.parametrize("name", OF_ITEMS)
def test_metrics_of_items_take_ranked_lists(name: str) -> None:
    assert metric_values([name], [5], SHARED)
    assert refusal(f"{name}(tie_order=best)").code == "UNKNOWN_OPTION"


@pytest.mark.parametrize("name", UNDEFINED)
def test_metrics_that_see_ties_themselves_are_no_matter_of_tie_order(name: str) -> None:
    assert metric_values([name], [5], SHARED)


@pytest.mark.parametrize("name", SHARING)
def test_shared_places_where_they_have_a_meaning(name: str) -> None:
    assert len(metric_values([name, f"{name}(tie_order=shared)"], [1, None], SHARED)) == 4


@pytest.mark.parametrize("name", REFUSED)
def test_the_preset_of_scikit_learn_refuses_other_metrics_by_name(name: str) -> None:
    error = refusal(f"{name}@5", conventions_of("sklearn"))
    assert error.code == "TIE_ORDER"
    assert f"{RANKING[name].run_name}@5" in error.message


def test_what_is_refused_stops_all() -> None:
    with pytest.raises(ConfigError):
        metric_values(["ndcg", "precision"], [5], SHARED)
    with pytest.raises(ConfigError):
        parse_metric("nothing", [])
