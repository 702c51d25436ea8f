"""The demo: an older one of another log is not replaced unasked, steps are told, a verdict comes last."""

from pathlib import Path

import pytest
import yaml

from spark_eval.cli.commands import main
from spark_eval.cli.demo import check_older, movielens, settings, step, verdict
from spark_eval.runs.sections import parse_config


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """The config of a demo of ratings.csv."""
    file = tmp_path / "demo.yaml"
    file.write_text(yaml.safe_dump(settings(movielens(tmp_path / "ratings.csv"), tmp_path)))
    return file


def test_the_demo_of_another_log_is_not_replaced_unasked(
    older: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.csv"
    other.touch()
    before = older.read_bytes()
    arguments: tuple[list[str], ...] = ([], ["--ratings", str(other)])
    for given in arguments:
        with pytest.raises(SystemExit, check=lambda left: left.code == 2):
            main(["demo", *given, "--output", str(tmp_path)])
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("error[RUN_EXISTS] ")
        assert "ratings.csv'; use --replace or another --output" in said.err
    assert older.read_bytes() == before
    assert not (tmp_path / "log.parquet").exists()


def test_what_is_replaced_is_said(older: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check_older(tmp_path / "none.yaml", tmp_path / "ratings.csv", replace=False)
    assert capsys.readouterr().out == ""
    for log, replace in (("ratings.csv", False), ("other.csv", True)):
        check_older(older, tmp_path / log, replace=replace)
        assert capsys.readouterr().out.startswith("replaces the demo of ")


COMPARED = {
    "candidate": "als",
    "baseline": "popularity",
    "metric": "ndcg",
    "k": 10,
    "segment": "all",
    "candidate_value": 0.1598,
    "baseline_value": 0.1352,
    "difference": 0.0246,
    "ci_low": 0.0161,
    "ci_high": 0.0331,
}
GATE = {"metric": "ndcg", "k": 10, "segment": "all", "passed": True, "decision": "not_worse", "reason": "so"}


def test_a_model_whose_gates_pass_ships_and_the_difference_is_printed() -> None:
    others = [{**COMPARED, "candidate": "recent_popularity"}, {**COMPARED, "metric": "recall"}]
    assert verdict([GATE], [*others, COMPARED]) == (
        "als ships: its ndcg@10 is .160, that of popularity .135; difference .025 (95 %: .016 to .033)"
    )


@pytest.mark.parametrize("decision", ["worse", "undecided"])
def test_a_model_whose_gate_fails_does_not(decision: str) -> None:
    gate = {**GATE, "passed": False, "decision": decision, "reason": "the reason"}
    assert verdict([GATE, gate], [COMPARED]) == f"als does not ship: ndcg@10 {decision}: the reason"


def test_the_gate_of_the_demo_decides_what_its_comparison_holds(tmp_path: Path) -> None:
    config = parse_config(settings(movielens(tmp_path / "ratings.csv"), tmp_path))
    [gate] = config.compare.checked(config.gates).gates
    assert (gate.metric, gate.model) == ("ndcg", "als")
    assert "ndcg@10" in settings(movielens(tmp_path / "ratings.csv"), tmp_path)["compare"]["metrics"]


def test_a_step_is_printed_before_it_begins(capsys: pytest.CaptureFixture[str]) -> None:
    with step("think"):
        assert capsys.readouterr().out.strip() == "think ..."
    assert capsys.readouterr().out.endswith(" s] think\n")
