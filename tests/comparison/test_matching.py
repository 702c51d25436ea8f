"""Which models and metrics are compared, and the names of what is refused."""

from typing import Any

import pytest

from spark_eval.comparison.matching import check_conventions, check_digests, match_metrics, match_models
from spark_eval.comparison.plan import make_compare_plan
from spark_eval.conventions.presets import parse_conventions, stamp
from spark_eval.errors import ConfigError, DataError
from spark_eval.kernels.aliases import ALIASES
from spark_eval.kernels.columns import looks_like_metric, value_of_column, value_of_foreign_column
from spark_eval.kernels.registry import RANKING
from spark_eval.kernels.values import MetricValue, metric_values
from spark_eval.users.population import BASELINE, CANDIDATE

ANY: Any = None
PLAN = make_compare_plan()


def test_all_pairs_have_the_first_name_as_the_baseline() -> None:
    assert match_models(None, ["c", "a", "b"], None, PLAN).pairs == [("a", "b"), ("a", "c"), ("b", "c")]
    assert match_models(None, ["é", "z", "B"], None, PLAN).pairs == [("B", "z"), ("B", "é"), ("z", "é")]


def test_one_baseline_meets_all_others() -> None:
    assert match_models(None, ["c", "a", "b"], "b", PLAN).pairs == [("b", "a"), ("b", "c")]
    plan = make_compare_plan(models=["a", "b"])
    assert match_models(None, ["c", "a", "b"], "b", plan).pairs == [("b", "a")]


def test_runs_meet_by_name_or_by_one_baseline() -> None:
    matched = match_models(["b", "a", "old"], ["a", "b", "new"], None, PLAN)
    assert matched.pairs == [("a", "a"), ("b", "b")]
    assert set(matched.unpaired) == {(CANDIDATE, "new"), (BASELINE, "old")}
    assert match_models(["a", "old"], ["a", "b"], "old", PLAN).pairs == [("old", "a"), ("old", "b")]
    assert match_models(["a", "old"], ["a", "b"], "a", PLAN).pairs == [("a", "a"), ("a", "b")]


@pytest.mark.parametrize(
    ("arguments", "code", "hint"),
    [
        ((None, ["als", "knn"], "asl", PLAN), "UNKNOWN_MODEL", "'als'"),
        ((["pop"], ["als", "knn"], "popp", PLAN), "UNKNOWN_MODEL", "'pop'"),
        ((None, ["als", "knn"], None, make_compare_plan(models=["kn"])), "UNKNOWN_MODEL", "'knn'"),
        ((None, ["als"], None, PLAN), "NOTHING_TO_COMPARE", "als"),
        ((["pop"], ["als"], None, PLAN), "NOTHING_TO_COMPARE", "pop"),
        ((None, ["als", "knn", "pop"], None, make_compare_plan(max_pairs=2)), "TOO_MANY_PAIRS", "3 pairs"),
        ((None, [f"m{n:03}" for n in range(300)], None, PLAN), "TOO_MANY_PAIRS", "44,850"),
    ],
)
def test_models_that_are_refused(arguments: Any, code: str, hint: str) -> None:
    with pytest.raises(ConfigError) as refused:
        match_models(*arguments)
    assert refused.value.code == code
    assert hint in refused.value.message


def test_as_many_pairs_as_are_asked_for() -> None:
    names = [f"m{n:03}" for n in range(300)]
    assert len(match_models(None, names, None, make_compare_plan(max_pairs=44_850)).pairs) == 44_850


def values(*texts: str) -> list[MetricValue]:
    return metric_values(texts, [5, 10], parse_conventions("default"))


def test_metrics_are_chosen_by_name_and_by_cutoff() -> None:
    measured = values("map", "ndcg(gain=exp2)", "mrr@5")
    assert list(map(str, match_metrics(measured, measured, PLAN))) == list(map(str, measured))
    plan = make_compare_plan(metrics=["mrr", "AP@10"])
    assert list(map(str, match_metrics(None, measured, plan))) == ["mrr@5", "map@10"]
    plan = make_compare_plan(metrics=["ndcg(gain=exp2)"])
    assert list(map(str, match_metrics(None, measured, plan))) == ["ndcg(gain=exp2)@5", "ndcg(gain=exp2)@10"]


@pytest.mark.parametrize(
    ("baseline", "candidate", "metrics", "hint"),
    [
        (None, values("map"), ["mar@5"], "'map@5'"),
        (values("map"), values("map", "ndcg"), None, "baseline"),
        (values("map", "ndcg"), values("map"), None, "candidate"),
        (None, [], None, "ndcg_at_10"),
    ],
)
def test_a_metric_that_a_side_lacks_is_refused(
    baseline: Any, candidate: Any, metrics: Any, hint: str
) -> None:
    with pytest.raises(ConfigError, match="METRIC_NOT_MEASURED") as refused:
        match_metrics(baseline, candidate, make_compare_plan(metrics=metrics))
    assert hint in refused.value.message


def stamped(**choices: Any) -> str:
    return stamp(parse_conventions(choices))


def test_conventions_must_agree_where_they_touch_a_metric_or_who_is_in_it() -> None:
    check_conventions(stamped(), stamped(gain="exp2"), values("map"))
    check_conventions(stamped(), stamped(preset="seed003"), values("precision"))
    check_conventions(stamped(), stamped(gain="exp2"), values("ndcg(gain=binary)"))
    with pytest.raises(DataError, match="CONVENTIONS_DIFFER") as refused:
        check_conventions(stamped(gain="exp2"), stamped(gain="linear"), values("map", "ndcg"))
    assert "gain: linear of the candidate, exp2 of the baseline" in refused.value.message
    assert "map" not in refused.value.message


@pytest.mark.parametrize("choices", [{"no_hits": "drop"}, {"threshold": 4}, {"ties": "item_asc"}])
def test_who_is_in_the_mean_touches_every_metric(choices: Any) -> None:
    with pytest.raises(DataError, match=f"CONVENTIONS_DIFFER.*{next(iter(choices))}"):
        check_conventions(stamped(**choices), stamped(), values("precision"))


def test_a_stamp_of_another_version_is_taken_as_text() -> None:
    check_conventions("tomorrow, x=y", "tomorrow, x=y", values("map"))
    with pytest.raises(DataError, match=r"CONVENTIONS_DIFFER.*tomorrow"):
        check_conventions("tomorrow, x=y", stamped(), values("map"))


def test_truth_must_agree() -> None:
    check_digests("7", "7")
    check_digests("7", None)
    with pytest.raises(DataError, match="TRUTH_DIFFERS"):
        check_digests("7", "8")


@pytest.mark.parametrize("name", RANKING)
def test_columns_name_their_metrics(name: str) -> None:
    conventions = RANKING[name].conventions
    for value in metric_values([name], [5, None], parse_conventions("default")):
        assert value_of_column(value.column) == (value if RANKING[name].is_of_users else None)
    if {"gain", "discount"} <= set(conventions):
        for text in ("gain=exp2, tie_order=best", "discount=log2_clipped"):
            [value] = metric_values([f"{name}({text})@7"], [], parse_conventions("default"))
            assert value_of_column(value.column) == value
    for column in ("n_relevant", f"{name}_at_x", f"{name}_no_such_at_5", f"x{name}_at_5", "_at_5"):
        assert value_of_column(column) is None


def test_columns_of_other_tables_are_taken_by_every_name_of_a_metric() -> None:
    for metric in (one for one in RANKING.values() if one.is_of_users):
        value = MetricValue(metric, (), 5)
        names = {
            metric.name,
            metric.run_name,
            *ALIASES.get(metric.name, ()),
            *ALIASES.get(metric.run_name, ()),
        }
        for name in names:
            for column in (f"{name}_at_5", f"{name}@5", f"{name.upper()}@5", str(value)):
                assert value_of_foreign_column(column) == value, column
    for value in metric_values(["map(denominator=relevant)@5"], [], parse_conventions("default")):
        for column in (value.column, "map_denominator_relevant_at_5", "map(denominator=relevant)@5"):
            assert value_of_foreign_column(column) == value


@pytest.mark.parametrize(
    ("column", "is_like"),
    [
        *[(name, True) for name in ("ndgc_at_5", "my_metric_at_10", "mine@all", "catalog_coverage_at_5")],
        *[(name, True) for name in ("ndcg_at_0", "gauc_by_positives_at_5", "ndcg_gain_exp3_at_5")],
        *[(name, False) for name in ("country", "ndcg", "at_5", "n_at_noon", "born_at", "mail@home")],
    ],
)
def test_columns_that_are_no_metric_are_not_taken(column: str, is_like: bool) -> None:
    assert value_of_foreign_column(column) is None
    assert looks_like_metric(column) == is_like
