"""The demo of an experiment: its effect is found, and the command ends with the decision."""

from pathlib import Path
from typing import Any

import pytest
from tests.results.report.test_report_page import data_of

from spark_eval import evaluate_experiments
from spark_eval.cli.commands import main
from spark_eval.demo.online import EFFECT, online_settings, week_of_events
from spark_eval.demo.simulation import simulate
from spark_eval.experiments.evaluate import Experiments
from spark_eval.results.report.page import report_page


@pytest.fixture(scope="module")
def found() -> Experiments:
    """The experiment of the demo, on a log of half the size."""
    log = simulate(0.5, 7)
    given = online_settings(log, "out")
    options = given["online"]
    return evaluate_experiments(
        *week_of_events(log, 7),
        options["metrics"],
        options["experiments"],
        by=options["by"],
        gates=given["gates"],
        timestamp_unit="s",
        engine="local",
    )


def test_the_effect_that_was_made_is_found(found: Experiments) -> None:
    [row] = [
        row for row in found.experiment_rows if (row.metric, row.method, row.segment) == ("ctr", "raw", "all")
    ]
    assert row.lift_low is not None
    assert row.lift_high is not None
    assert 0 < row.lift_low < EFFECT - 1 < row.lift_high
    assert [(row.decision, row.trusted) for row in found.decision_rows] == [("win", True)]


def test_the_report_has_a_chapter(found: Experiments) -> None:
    page = report_page(found.facts_of_run())
    chapter = data_of(page)["chapters"]["experiments"]
    assert chapter["picks"] == ["experiment", "metric"]
    titles = [view["title"] for view in chapter["views"]]
    assert titles == [
        "Differences with their intervals",
        "Differences by hour",
        "Differences by day",
        "Does the effect depend on it?",
        "Power",
        "Checks of trust",
    ]
    assert "<b>WIN</b> ctr won: +" in page
    assert "all checks pass: sample ratio (srm)" in page


def test_a_chapter_names_what_failed(found: Experiments) -> None:
    facts = found.facts_of_run()
    [decision] = facts.tables["decisions"]
    checks = [{**row, "passed": row["check"] != "srm"} for row in facts.tables["checks"]]
    rows = [
        {**row, "p_value": 0.001} if row["method"] == "gail_simon" else row
        for row in facts.tables["experiments"]
    ]
    checks.append({**checks[0], "check": "uniformity", "subject": "ctr", "p_value": 1e-5, "passed": None})
    broken = {**decision, "decision": "blocked", "reason": "not trusted: srm"}
    tables: dict[str, Any] = {"decisions": [broken], "checks": checks, "experiments": rows}
    page = report_page(type(facts)(facts.run_id, facts.records, tables))
    assert "failed: sample ratio (srm) of all." in page
    assert "ranking: p-values of ctr are not uniform in A/A experiments (p = 1e-05)" in page
    assert "ctr is better in some values of hour, worse in others (p = 0.001)." in page


def test_the_command_ends_with_the_decision(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, check=lambda left: not left.code):
        main(["demo", "--online", "--scale", "0.2", "--output", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("treatment: win: ctr won: +")
    assert (tmp_path / "report" / "online.html").is_file()
