"""``--verdict FILE``: gates of a run as JSON and Markdown, with the exit code; none of a run that failed."""

import html
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from tests.monitoring.test_watch import days_of
from tests.monitoring.test_window_verb import no_spark

from spark_eval.cli.commands import main
from spark_eval.comparison.rows import GateRow
from spark_eval.errors import ConfigError, escape_control_characters
from spark_eval.experiments.tables import DecisionRow
from spark_eval.results.mlflow_runs import log_run
from spark_eval.results.report.data import RunFacts
from spark_eval.runs.verdict import Verdict, check_verdict, decision_line, gate_results, plain_text

GATE = GateRow(
    *("mrr", 4, "als", None, "pop", 0.0, "absolute", "observed", 0.95, "all", "all", 1, 0.9, "user"),
    *(0.2, 0.1, -0.1, None, None, 2, "worse", False, "fell", None, None, None),
)._asdict()


def run(file: Path, *words: str) -> int:
    with pytest.raises(SystemExit) as end:
        main([words[0], "--config", str(file), *words[1:]])
    return int(str(end.value.code))


def test_gates_of_a_watch_are_written_before_exit_5(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_eval.cli.runner.open_session", lambda *_: no_spark())
    names = days_of(tmp_path / "out", 10, fallen="model")
    config = tmp_path / "config.yaml"
    tree: dict[str, Any] = {"output": {"path": str(tmp_path / "out")}, "watch": {"metrics": ["map@2"]}}
    config.write_text(json.dumps(tree))
    verdict = tmp_path / "verdict.json"
    assert run(config, "watch", "--run-id", names[-1], "--verdict", str(verdict)) == 5
    found = json.loads(verdict.read_text())
    assert (found["run_id"], found["verb"], found["passed"]) == (f"{names[-1]}_watch", "watch", False)
    assert {gate["model"]: gate["passed"] for gate in found["gates"]} == {"als": False, "frozen": True}
    # A run that is published already has its verdict again; other days pass.
    page = tmp_path / "verdict.md"
    assert run(config, "watch", "--run-id", names[-1], "--verdict", str(page)) == 5
    lines = page.read_text().splitlines()
    assert lines[0].startswith("**FAILED**: 1 of 2 gates failed, watch of run ")
    assert lines[4].startswith("| watch of map@2 of 'als' | **NO** | worse | ")
    assert lines[5].startswith("| watch of map@2 of 'frozen' | yes | not\\_worse | ")
    assert run(config, "watch", "--run-id", names[-2], "--verdict", str(page)) == 0
    assert page.read_text().startswith("**PASSED**: 2 gates passed")
    # A run that fails leaves no verdict of an earlier one.
    assert run(config, "watch", "--run-id", "2023-01-01", "--verdict", str(page)) == 3
    assert not page.exists()
    assert run(config, "watch", "--run-id", names[-1], "--verdict", str(tmp_path / "verdict.txt")) == 2


def test_a_file_among_published_runs_is_refused(tmp_path: Path) -> None:
    days_of(tmp_path / "out", 1, fallen="none")
    with pytest.raises(ConfigError, match="below the output") as refused:
        check_verdict(tmp_path / "out" / "metrics" / "verdict.md", None)
    assert refused.value.code == "INVALID_PATH"


def test_decisions_on_experiments_are_gates_and_names_are_text() -> None:
    lost = DecisionRow("a|<b>", "t", "loss", "ctr fell", trusted=True, gate=True)
    lines = [decision_line(one._asdict()) for one in (lost, lost._replace(gate=False))]
    assert [passed for _, passed, *_ in lines] == [False, True]
    verdict = Verdict("r", "online", [lost._asdict()], lines)
    assert "a\\|&lt;b&gt;" in verdict.as_markdown()
    assert not verdict.passed


def test_results_of_gates_are_counted_the_worst_first() -> None:
    row = {"passed": False, "decision": "worse", "mode": "non_inferior"}
    gates = [row, {**row, "decision": "undecided"}, {**row, "mode": "watch"}, {**row, "passed": True}, row]
    decisions = [
        DecisionRow("home", "b", decision, "why", trusted, gate=True)._asdict()
        for decision, trusted in (("win", True), ("blocked", True), ("win", False), ("undecided", True))
    ]
    assert gate_results({"gates": gates}) == {"failed": 2, "alarm": 1, "undecided": 1, "passed": 1}
    assert gate_results({"decisions": decisions}) == {"failed": 2, "undecided": 1, "passed": 1}
    assert list(gate_results({"gates": gates[::-1]})) == ["failed", "alarm", "undecided", "passed"]
    assert gate_results({}) == {}


def test_a_verdict_tells_undecided_gates_from_failed_ones() -> None:
    numbers = ("-.0100", "-.0200 to .0100", "1 %", "656")
    few = "not enough users to tell: 656; about 2,400 would do"
    line = ("a gate", False, "undecided", few, numbers)
    page = Verdict("r", "compare", [], [line]).as_markdown()
    assert page.startswith("**UNDECIDED**: 1 of 1 gates undecided, compare of run r")
    assert "| difference | room left | limit | n |" in page
    assert "1 %" in page
    failed = Verdict("r", "compare", [], [line, (*line[:2], "worse", *line[3:])]).as_markdown()
    assert failed.startswith("**FAILED**: 1 of 2 gates failed, 1 undecided, compare")


# What GitHub and GitLab make a link, an email or a notice of, in text that Markdown has left as it is.
LIVE: Final = re.compile(
    r"\w://|\bwww\.|(?:^|\W)@\w|[\w.+-]+@[\w-]+\.\w|(?:^|\W)#\d|@[a-z]", re.IGNORECASE | re.ASCII
)
PIECES: Final = (
    *(
        "https://evil.example/a?b=c",
        "http:",
        "//",
        "ftp://x",
        "www.evil.example",
        "WWW",
        ".",
        "@team/all",
        "@",
        "#",
    ),
    *(
        "me@evil.example",
        "#12",
        "org/repo#1",
        "12",
        "a",
        "_",
        "-",
        " ",
        "|",
        "`",
        "*",
        "<b>",
        "[x](y)",
        "![z]",
    ),
    *("&#64;team", "&commat;", "\\", "\u200b", "\n", "~", "é", "map@10"),
)


def rendered(markdown: str) -> list[str]:
    """The texts of the cells and paragraphs that a reader sees; nothing may be but text and emphasis."""
    page = MarkdownIt("commonmark").enable("table").render(markdown)
    tags = set(re.findall(r"</?(\w+)", page))
    assert tags <= {"p", "strong", "table", "thead", "tbody", "tr", "th", "td"}, page
    return [html.unescape(re.sub(r"<[^>]*>", "", line)) for line in page.splitlines() if ">" in line]


@given(text=st.lists(st.sampled_from(PIECES), min_size=1, max_size=8).map("".join))
def test_nothing_in_a_verdict_is_a_link_or_tells_anybody(text: str) -> None:
    verdict = Verdict(text, "evaluate", [], [(text, True, text, text, ["-"] * 4)])
    seen = rendered(verdict.as_markdown())
    assert not [one for one in seen if LIVE.search(one)]
    # What is seen is the text, with characters that nobody sees written out.
    shown = escape_control_characters(text).strip()
    cells = [one.replace("\u200b", "") for one in seen]
    assert [cells.count(shown), cells[0].endswith(f"of run {shown}".rstrip())] == [3, True]


@pytest.mark.parametrize("text", ["map@10", "ndcg@5 of als", "a: b", "1@2", "www", "x#y", "a.b"])
def test_other_text_is_left_as_it_is(text: str) -> None:
    assert "&#8203;" not in plain_text(text)


def test_without_gates_a_run_passes() -> None:
    verdict = Verdict("r", "evaluate", [], [])
    assert json.loads(verdict.as_json()) == {"run_id": "r", "verb": "evaluate", "passed": True, "gates": []}
    assert verdict.as_markdown() == "**PASSED**: no gates, evaluate of run r\n"


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """MLflow's client of a registry of files, with three versions of the model ctr."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    import mlflow

    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    client = mlflow.MlflowClient()
    client.create_registered_model("ctr")
    for _ in range(3):
        client.create_model_version("ctr", (tmp_path / "model").as_uri())
    yield client
    mlflow.end_run()
    mlflow.set_tracking_uri("")


def test_an_alias_moves_where_all_gates_passed_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry: Any
) -> None:
    monkeypatch.setattr("spark_eval.cli.runner.open_session", lambda *_: no_spark())
    names = days_of(tmp_path / "out", 10, fallen="model")
    tree: dict[str, Any] = {"output": {"path": str(tmp_path / "out")}, "watch": {"metrics": ["map@2"]}}
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps({**tree, "mlflow": {"model_version": "ctr/1", "alias": "champion"}}))
    assert run(config, "watch", "--run-id", names[-2]) == 0
    assert str(registry.get_model_version_by_alias("ctr", "champion").version) == "1"
    assert registry.get_model_version("ctr", "1").tags["spark_eval.gates"] == "passed"
    assert run(config, "watch", "--run-id", names[-1], "--set", "mlflow.model_version=ctr/2") == 5
    assert str(registry.get_model_version_by_alias("ctr", "champion").version) == "1"
    tags = registry.get_model_version("ctr", "2").tags
    assert (tags["spark_eval.gates"], tags["spark_eval.run_id"]) == ("failed", f"{names[-1]}_watch")
    # A version that is not there hides no failed gate, and fails no run that passed.
    missing = ("--set", "mlflow.model_version=ctr/9")
    assert run(config, "watch", "--run-id", names[-1], *missing) == 5
    assert run(config, "watch", "--run-id", names[-2], *missing) == 0
    assert run(config, "watch", "--run-id", names[-2], "--set", "mlflow.model_version=ctr") == 2


def test_results_mark_a_version_by_their_gates(registry: Any) -> None:
    gate = {"model": "als", "metric": "mrr", "k": 4, "segment": "all", "passed": True}

    def log(*gates: Mapping[str, Any], version: str) -> None:
        facts = RunFacts("unpublished", {"compare": {}}, {"gates": [{**GATE, **one} for one in gates]})
        log_run(facts, "r", f"ctr/{version}", "champion")

    log(gate, version="1")
    log(gate, {**gate, "passed": False}, version="2")
    log(version="3")
    assert str(registry.get_model_version_by_alias("ctr", "champion").version) == "1"
    tags = [registry.get_model_version("ctr", version).tags for version in "123"]
    assert [one["spark_eval.gates"] for one in tags] == ["passed", "failed", "none"]
    with pytest.raises(ConfigError, match="give both"):
        log_run(RunFacts("unpublished", {}, {}), alias="champion")
