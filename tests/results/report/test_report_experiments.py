"""The chapter on experiments: a verdict card per experiment, and what its tables and charts explain."""

import doctest

import pytest
from tests.results.report import made_experiments

from spark_eval.experiments.evaluate import Experiments
from spark_eval.results import sentences
from spark_eval.results.report import page
from spark_eval.results.report.chapters import WIDTH, Chapter, Form, Span, Tone, VerdictCard, View
from spark_eval.results.report.data import RunFacts
from spark_eval.results.report.experiments import SEGMENT_NOTE, experiments


@pytest.fixture(scope="module")
def result() -> Experiments:
    return made_experiments.experiments()


@pytest.fixture(scope="module")
def chapter(result: Experiments) -> Chapter:
    found = experiments(result.facts_of_run())
    assert found is not None
    return found


def lines_of(card: VerdictCard) -> dict[str, tuple[str, str, Tone]]:
    return {line.name: (line.role, line.result.text, line.result.tone) for line in card.lines}


def views_of(chapter: Chapter) -> dict[str, View]:
    return {view.title: view for view in chapter.views}


def test_each_experiment_has_a_card_with_all_goals_and_guardrails(chapter: Chapter) -> None:
    home, search = chapter.verdicts
    assert (home.title, search.title) == ("home: new against old", "search: new against old")
    assert (home.decision.word, search.decision.word) == ("WIN", "BLOCKED")
    assert lines_of(home) == {
        "watch": ("goal", "wins", Tone.GOOD),
        "buys": ("guardrail", "margin -2 %: holds", Tone.GOOD),
    }
    assert lines_of(search)["buys"] == ("guardrail", "margin -2 %: falls by more than 2 %", Tone.BAD)
    assert "watch depends on age: +" in home.decision.text


def test_no_table_of_the_chapter_is_empty_for_the_first_choices(chapter: Chapter) -> None:
    chosen = {"experiment": "home", "metric": "watch"}
    for view in chapter.views:
        columns = view.dataset.columns
        wanted = {**view.where, **{name: [value] for name, value in chosen.items() if name in columns}}
        assert any(
            all(columns[name][row] in values for name, values in wanted.items())
            for row in range(len(columns["experiment"]))
        ), view.title


def test_a_dot_is_full_where_the_result_is_certain_and_the_margin_is_drawn(chapter: Chapter) -> None:
    home, search = chapter.verdicts
    spans = {line.name: line.span for line in search.lines}
    watch, buys = spans["watch"], spans["buys"]
    assert watch is not None
    assert buys is not None
    assert watch.is_certain
    assert watch.limit is None
    # The guardrail's whole interval is below its margin, which is below 0.
    assert buys.limit is not None
    assert buys.low < buys.high < buys.limit < buys.zero
    assert watch.zero == buys.zero
    assert all(line.span is None or 0 <= line.span.low <= line.span.high <= WIDTH for line in home.lines)


def test_a_limit_outside_of_the_scale_is_not_drawn() -> None:
    span = Span.within((-0.1, 0.1), 0.0, 0.05, 0.1, is_certain=True, limit=-0.5)
    assert span.limit is None


def test_checks_are_one_line_if_all_pass_and_open_with_their_names_if_not(chapter: Chapter) -> None:
    assert [card.trust.word for card in chapter.verdicts] == ["Trusted:", "Trusted:"]
    assert views_of(chapter)["Checks of trust"].is_folded
    found = experiments(made_experiments.experiments(lost=0.5).facts_of_run())
    assert found is not None
    home, search = found.verdicts
    assert home.trust.word == "NOT TRUSTED"
    assert "failed: sample ratio (srm) of all" in home.trust.text
    assert {line.result.text for line in home.lines} == {"not trusted"}
    assert not any(line.span and line.span.is_certain for line in home.lines)
    assert search.trust.word == "Trusted:"
    assert not views_of(found)["Checks of trust"].is_folded


def test_methods_are_explained_where_they_stand(chapter: Chapter) -> None:
    views = views_of(chapter)
    assert "raw is the difference as it was measured" in views["Differences with their intervals"].note
    assert "cuped is" in views["Differences with their intervals"].note
    depends = views["Does the effect depend on it?"]
    assert "cochran_q is Cochran's test" in depends.note
    assert "gail_simon is Gail and Simon's test" in depends.note


def test_values_of_a_segment_stand_in_the_order_of_their_numbers(chapter: Chapter) -> None:
    view = views_of(chapter)["Differences by age"]
    columns = view.dataset.columns
    rows = zip(columns["segment"], columns["segment_value"], columns["method"], strict=True)
    values = [value for segment, value, method in rows if segment == "age" and method == "raw"]
    assert values[:2] == ["9", "10"]
    assert view.drawn["is_ordered"]
    assert doctest.testmod(sentences).failed == 0


def test_an_interval_that_leaves_out_0_beside_a_large_p_is_explained(result: Experiments) -> None:
    facts = result.facts_of_run()
    rows = [
        {**row, "p_adjusted": 0.08} if row["segment"] == "age" else row for row in facts.rows("experiments")
    ]
    found = experiments(RunFacts("run", {}, {**facts.tables, "experiments": rows}))
    assert found is not None
    assert views_of(found)["Differences by age"].note == SEGMENT_NOTE


def test_the_head_counts_experiments_not_models(result: Experiments) -> None:
    summary = {"models": 2, "users": 1, "rows_in": 8_000}
    facts = RunFacts("run", {"online": {"summary": summary}}, result.facts_of_run().tables)
    assert page.headings_of(facts) == ["2 experiments", "1 user", "8,000 rows in"]
    assert page.headings_of(RunFacts("run", {"evaluate": {"summary": {"models": 1}}}, {})) == ["1 model"]


def test_the_page_draws_the_cards_without_script(result: Experiments) -> None:
    text = page.report_page(result.facts_of_run())
    assert text.count('<article class="verdict') == 2
    assert text.count('class="limit"') == 2
    assert "2 models" not in text
    kinds = {view.kind for view in (experiments(result.facts_of_run()) or Chapter("")).views}
    assert kinds == {Form.TABLE, Form.INTERVALS}
