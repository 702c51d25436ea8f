"""What a report begins with, by which metric, and what it says of models of other users."""

import doctest
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.results.report import made_runs
from tests.results.report.test_report_page import call, column, statements

from spark_eval.accounting import Entry
from spark_eval.errors import ConfigError
from spark_eval.evaluation.summary import MetricRow
from spark_eval.kernels.registry import RANKING
from spark_eval.predictions import PREDICTION_METRICS
from spark_eval.publishing.local import LocalStore
from spark_eval.results.mlflow_runs import logged_metrics
from spark_eval.results.report import beyond, models, page, verdict
from spark_eval.results.report.data import RunFacts
from spark_eval.runs.sections import parse_config
from spark_eval.schema import Table
from spark_eval.verbs.report import facts_of


def mean(
    model: str, metric: str, value: float, n: int = 81, part: str = "all", k: int = 10
) -> dict[str, Any]:
    segment = "all" if part == "all" else "country"
    return made_runs.mean(model, metric, k, segment, part, value, n)._asdict()


def facts_on(*rows: dict[str, Any], **more: Any) -> RunFacts:
    return RunFacts("run", {}, {Table.METRICS: rows}, prediction_metrics=PREDICTION_METRICS, **more)


def card_of(facts: RunFacts) -> dict[str, str]:
    found = verdict.verdict(facts)
    assert found is not None
    lines = {**found.card} | ({} if found.headline is None else {"Decision": found.headline})
    return {name: f"{said.word} {said.text}".strip() for name, said in lines.items()}


def test_the_card_says_the_decision_the_difference_the_gates_and_what_loses(output: Path) -> None:
    facts = facts_of(LocalStore(output), "lists")
    card = card_of(facts)
    assert card["Decision"] == f"PASSED {made_runs.HOSTILE} may ship: it passed all of its gates."
    assert card["Metric"].startswith("ndcg@10 .4700 (.4406 to .4994), 400 users. DCG as a share of the best")
    assert card["Difference"] == ".0100 (-.0100 to .0300) from als; adjusted p = .020".replace(
        ".01", "+.01", 1
    )
    assert card["Gates"] == "FAILED 1 of 2 failed: ndcg@10 of popularity"
    assert card["Segments that lose"] == "none of 3 for certain"
    assert doctest.testmod(verdict).failed == 0


def test_segments_that_lose_are_named_the_worst_first(output: Path) -> None:
    facts = facts_of(LocalStore(output), "lists")
    worse = [
        {**row, "difference": -0.1 - place / 10, "ci_low": -0.9, "ci_high": -0.05}
        for place, row in enumerate(facts.rows(Table.COMPARISONS))
        if (row["candidate"], row["metric"], row["k"]) == (made_runs.HOSTILE, "ndcg", 10)
        if row["segment"] != "all"
    ]
    lost = card_of(replace(facts, tables={**facts.tables, Table.COMPARISONS: worse}))["Segments that lose"]
    assert lost.startswith("LOSES 3 of 3: country: ")
    assert [float(one) for one in re.findall(r"(-\d*\.\d+) \(", lost)] == pytest.approx(
        sorted(row["difference"] for row in worse)
    )
    undecided = [{**row, "p_adjusted": 0.2} for row in worse]
    told = card_of(replace(facts, tables={**facts.tables, Table.COMPARISONS: undecided}))
    assert told["Segments that lose"] == "none of 3 for certain"


@pytest.mark.parametrize(
    ("ends", "shown", "is_certain"),
    [
        ((0.1, 0.2, 0.3), ("+40.0 %", "+20.0 to +60.0 % from als"), True),
        ((-0.1, 0.1, 0.3), ("+20.0 %", "-20.0 to +60.0 % from als"), False),
        ((-0.3, -0.2, -0.1), ("-40.0 %", "-60.0 to -20.0 % from als"), True),
        ((None, 0.1, None), ("+20.0 %", "from als"), None),
    ],
)
def test_a_change_is_in_percent_of_the_other_model_and_drawn_with_zero_in_sight(
    ends: tuple[float | None, float, float | None], shown: tuple[str, str], is_certain: bool | None
) -> None:
    low, middle, high = ends
    tile = verdict.change_tile(verdict.Difference("all", middle, low, high), "als", 0.5)
    assert (tile.value, tile.detail) == shown
    assert (tile.span and tile.span.is_certain) == is_certain
    if tile.span is not None:
        assert 0 < tile.span.low < tile.span.middle < tile.span.high < 200
        assert 0 < tile.span.zero < 200
    absolute = verdict.change_tile(verdict.Difference("all", middle, low, high), "als", 0.0)
    assert absolute.value == f"{middle:+.4f}"


def test_the_head_of_a_report_has_three_tiles_and_no_gate_says_passed_again(output: Path) -> None:
    facts = facts_of(LocalStore(output), "lists")
    found = verdict.verdict(facts)
    assert found is not None
    assert [tile.name for tile in found.tiles] == ["ndcg@10", "change", "users"]
    assert found.tiles[2].value == "400"
    assert found.tiles[2].detail == "the change is not certain, p = .020"
    said = models.gates(facts)
    assert said is not None
    assert "PASSED" not in {one.word for one in said.statements}
    passed = [{**row, "passed": True} for row in facts.rows(Table.GATES)]
    found = verdict.verdict(replace(facts, tables={**facts.tables, Table.GATES: passed}))
    assert found is not None
    assert "Gates" not in found.card


def test_lower_is_better_where_the_metric_says_so() -> None:
    """Of predictions by log loss: the model with less of it is above, and more of it is a loss."""
    rows = [
        made_runs.mean(model, "log_loss", None, segment, value, at, 400)._asdict() | {"n_rows": 400}
        for model, at in (("a", 0.9), ("b", 0.2))
        for segment, value in (("all", "all"), ("country", "DE"))
    ]
    facts = facts_on(*rows)
    assert facts.models == ["b", "a"]
    assert card_of(facts)["Difference"].startswith("-.7000")
    assert card_of(facts)["Segments that lose"] == "none of 1 for certain"
    gates = [{"model": "a", "passed": True, "metric": "log_loss", "k": None, "segment": "all"}]
    gated = replace(facts, tables={**facts.tables, Table.GATES: gates})
    assert card_of(gated)["Segments that lose"].startswith("LOSES 1 of 1: country: DE +.7000")


@pytest.mark.parametrize(
    ("metrics", "asked", "primary"),
    [
        (["precision", "map", "ndcg"], None, "ndcg@10"),
        (["precision", "map"], None, "map@10"),
        (["novelty", "recall", "precision"], None, "recall@10"),
        (["gini_catalog", "novelty"], None, "novelty@10"),
        (["precision", "ndcg"], "precision", "precision@10"),
        (["precision", "ndcg"], "precision@5", "precision@5"),
        (["pop_lift", "mean_pop_lift"], None, None),
    ],
)
def test_the_page_begins_with_ndcg_or_what_was_asked_for(
    metrics: Sequence[str], asked: str | None, primary: str | None
) -> None:
    facts = facts_on(*(mean("a", one, 0.5, k=k) for one in metrics for k in (5, 10)), asked_primary=asked)
    assert facts.primary == primary


def test_a_primary_metric_that_is_not_measured_is_named(
    output: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match="did you mean 'ndcg@10'"):
        page.report_page(facts_on(mean("a", "ndcg", 0.5), asked_primary="ndcg@11"))
    run = ("--path", str(output), "--run-id", "lists", "--to", str(tmp_path / "page.html"))
    code, _, err = call(capsys, *run, "--primary", "map@10")
    assert (code, err.partition("]")[0]) == (2, "error[METRIC_NOT_MEASURED")
    assert call(capsys, *run, "--primary", "mrr")[0] == 0
    assert '<dd class="plain">mrr@all .5000' in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("given", "primary"),
    [
        (True, None),
        (False, None),
        ({}, None),
        ({"primary": "NDCG@10"}, "NDCG@10"),
        ({"primary": "auc"}, "auc"),
    ],
)
def test_a_config_asks_for_a_report_by_a_word_or_a_mapping(given: object, primary: str | None) -> None:
    config = parse_config({"output": {"path": "out"}, "report": given})
    assert (config.report is not False, config.primary) == (given is not False, primary)


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ("yes", "INVALID_CONFIG", "report: is 'yes'; give true, false or {primary: ndcg@10}"),
        (5, "INVALID_CONFIG", "report: is 5; give"),
        ({"primry": "ndcg"}, "UNKNOWN_CONFIG_KEY", "did you mean 'primary'?"),
        ({"primary": "ndgc@10"}, "UNKNOWN_METRIC", "'ndgc' in report.primary; did you mean 'ndcg'?"),
        ({"primary": "ndcg@0"}, "INVALID_K", "whole numbers"),
    ],
)
def test_a_wrong_report_section_is_refused_in_one_line(given: object, code: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_config({"output": {"path": "out"}, "report": given})
    assert (refused.value.code, said in refused.value.message) == (code, True)
    assert "\n" not in refused.value.message


def test_means_of_other_users_have_no_mark_and_are_never_called_best() -> None:
    """The model with lists for 19 of 81 users has the highest novelty, of these 19."""
    few = [mean("few", "ndcg", 0.1), mean("few", "novelty", 9.0, n=19)]
    facts = facts_on(*few, *(mean(model, "novelty", at) for model, at in (("a", 5.0), ("b", 3.0))))
    assert {row["mark"] for row in facts.everybody} == {""}
    [row] = models.best_rows(facts.everybody)
    assert (row["metric"], row["best"], row["value"]) == ("novelty@10", "nobody", None)
    assert row["certain"] == "means of different users do not compare; fewer than 81 users: few (19)"
    same = facts_on(*(mean(model, "novelty", at, n=19) for model, at in (("few", 9.0), ("a", 5.0))))
    assert [row["mark"] for row in same.everybody] == ["*", ""]
    assert facts_on(mean("few", "ndcg", 0.9, n=19), mean("a", "ndcg", 0.1)).models == ["a", "few"]


@pytest.mark.parametrize(("rule", "said"), [("zero", "They count as 0"), ("drop", "They are left out")])
def test_models_without_lists_for_some_users_are_named_with_what_these_count_as(rule: str, said: str) -> None:
    entries = [
        Entry("recommendations", "few", "no_recommendations", rule, 0, 62),
        Entry("recommendations", "a", "no_recommendations", rule, 0, 0),
        Entry("users", "few", "in", None, 90, 90),
        Entry("users", "few", "used", None, 19, 19),
        Entry("users", "few", "used", "no_recommendations", 62, 62),
        Entry("users", "few", "dropped", "no_truth", 9, 9),
    ]
    tables: Mapping[str, Any] = {
        Table.METRICS: [mean("few", "ndcg", 0.1), mean("a", "ndcg", 0.2)],
        Table.ACCOUNTING: [entry._asdict() for entry in entries],
    }
    told = [one for one in statements(page.report_page(RunFacts("run", {}, tables))) if "No list" in one]
    assert len(told) == 1
    assert told[0].startswith(f"warning | No list | few for 62 of 81 users. {said}")


@pytest.mark.parametrize(
    "metric", [one for one in RANKING.values() if one.extra_names], ids=lambda one: one.name
)
def test_means_that_nobody_asked_for_stay_out_of_pages_and_mlflow(metric: Any) -> None:
    rows = [mean("a", name, 0.5) for name in [metric.run_name, *metric.weights]]
    asked = metric.name if metric.name in metric.weights else metric.run_name
    facts = facts_on(*rows)
    assert {row["metric"] for row in facts.measured} == {asked}
    assert set(logged_metrics(facts)) == {f"{asked}_at_10"}
    for extra in sorted(metric.extra_names):
        gated = replace(facts, tables={**facts.tables, Table.GATES: [{"metric": extra}]})
        for named in (gated, replace(facts, asked_primary=f"{extra}@10")):
            assert {row["metric"] for row in named.measured} == {asked, extra}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "at most .01 worse: certain (95 %)"),
        ({"decision": "worse"}, "more than .01 worse: certain (95 %)"),
        ({"decision": "undecided"}, "at most .01 worse: not enough users to tell: 400 (95 %)"),
        (
            {"decision": "undecided", "users_needed": 5120},
            "users to tell: 400; about 5,120 would do (95 %)",
        ),
        ({"drop": "relative", "max_drop": 0.025}, "at most 2.5 % worse: certain"),
        ({"mode": "observed"}, "at most .01 worse: by the values alone, whatever chance does"),
        ({"max_drop": 0.0}, "at most 0 worse: certain (95 %)"),
        ({"decision": "no_baseline", "reason": "nothing yet"}, "ndcg@10 of a against b: nothing yet."),
    ],
)
def test_gates_are_said_in_plain_words(output: Path, changed: Mapping[str, Any], said: str) -> None:
    gate = facts_of(LocalStore(output), "lists").rows(Table.GATES)[0]
    known = {"model": "a", "against_model": "b", "decision": "not_worse"}
    assert said in models.gate_sentence({**gate, **known, **changed})


def test_parts_in_time_end_where_the_log_does(pages: dict[str, Path]) -> None:
    text = pages["lists"].read_text()
    day = made_runs.DAY / 1000
    assert set(column(text, "spans", "start")) == {n * day for n in (19_300, 19_700, 19_707, 19_714)}
    assert max(column(text, "spans", "end")) == 19_721 * day
    assert column(text, "spans", "from")[0] == "2022-11-04 00:00:00"
    cuts = {"global_cut": 3, "local_cut": 2, "local_train_end": 2, "local_test_end": 3, "end": None}
    log = {name: n and n * made_runs.DAY for name, n in {**cuts, "oldest": 1, "newest": 900}.items()}
    chapter = page.CHAPTERS["split"](RunFacts("run", {"split": {"timeline": log}}, {}))
    assert chapter is not None
    assert chapter.views[0].kind == "spans"
    assert [end / day for end in chapter.views[0].dataset.columns["end"]] == [2, 3, 900]
    old = {name: moment for name, moment in log.items() if name not in ("oldest", "newest")}
    chapter = page.CHAPTERS["split"](RunFacts("run", {"split": {"timeline": old}}, {}))
    assert chapter is not None
    # A record that does not say where the log ends has no axis on which it would be made up.
    assert (chapter.views[0].kind, chapter.views[0].dataset.columns["to"][-1]) == (
        "table",
        "the end of the log",
    )


def test_what_a_run_measures_is_asked_once_however_many_models_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def accuracy_of(rows: Sequence[Mapping[str, Any]]) -> str | None:
        asked.append(len(rows))
        return known(rows)

    known = beyond.accuracy_of
    monkeypatch.setattr(beyond, "accuracy_of", accuracy_of)
    metrics = ("ndcg", "recall", "novelty", "ild")
    rows = [mean(f"m{n}", metric, n / 100) for n in range(30) for metric in metrics]
    assert beyond.trade_offs(facts_on(*rows)) is not None
    assert asked == [120]


def test_rows_are_those_of_metrics() -> None:
    assert set(mean("a", "ndcg", 0.5)) == set(MetricRow._fields)


def test_a_published_comparison_decides_how_surely_a_model_is_best() -> None:
    """Unpaired, b is certainly worse in ndcg, and may be as good in recall; compared, it is reversed."""
    rows = [
        mean("a", "ndcg", 0.50),
        mean("b", "ndcg", 0.30),
        mean("a", "recall", 0.50),
        mean("b", "recall", 0.49),
    ]
    before = facts_on(*rows)
    marks = {(row["metric"], row["model"]): row["mark"] for row in before.everybody}
    assert marks == {("ndcg", "a"): "*", ("ndcg", "b"): "", ("recall", "a"): "*", ("recall", "b"): "~"}
    pair = {
        "k": 10,
        "segment": "all",
        "segment_value": "all",
        "test": "t",
        "baseline_run": None,
        "n_users": 81,
    }
    for sides, sign in ((("a", "b"), 1), (("b", "a"), -1)):
        names = dict(zip(("candidate", "baseline"), sides, strict=True))
        compared = [
            pair
            | names
            | {
                "metric": metric,
                "difference": sign * middle,
                "ci_low": sign * middle - 0.005,
                "ci_high": sign * middle + 0.005,
                "p_adjusted": p,
            }
            for metric, middle, p in (("ndcg", 0.2, 0.6), ("recall", 0.01, 0.001))
        ]
        facts = replace(before, tables={**before.tables, Table.COMPARISONS: compared})
        marks = {(row["metric"], row["model"]): row["mark"] for row in facts.everybody}
        assert marks == {("ndcg", "a"): "*", ("ndcg", "b"): "~", ("recall", "a"): "*", ("recall", "b"): ""}
        certain = {row["metric"]: row["certain"] for row in models.best_rows(facts.everybody)}
        assert certain == {"ndcg@10": "no: b may be as good", "recall@10": "yes, at 95 %"}
