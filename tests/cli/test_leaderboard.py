"""What a terminal shows of a run: the metrics asked for, what is left out, and what a method promises."""

from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console
from tests.cli.conftest import published_run

from spark_eval.cli import terminal
from spark_eval.cli.leaderboard import show
from spark_eval.comparing.leaderboard import Leaderboard
from spark_eval.metrics import RANKING
from spark_eval.metrics.options import DEFAULT_METRICS
from spark_eval.schema import Direction, Table
from spark_eval.splits.folds import Holdout, KFold
from spark_eval.splits.leave_out import LastFraction
from spark_eval.splits.rules import GlobalLocalRanker


def row(metric: str, k: int | None = 10, segment: str = "all", value: str = "all") -> dict[str, object]:
    return {
        "model": "m",
        "metric": metric,
        "k": k,
        "segment": segment,
        "segment_value": value,
        "value": 0.25,
        "n_users": 82,
    }


def shown(rows: list[dict[str, object]], width: int, capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    show(Leaderboard.of(rows), "metrics of run a", Console(width=width, highlight=False))
    return [line.replace("┃", " ").replace("│", " ").split() for line in capsys.readouterr().out.splitlines()]


def test_all_that_is_asked_for_is_shown_in_its_order(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row(metric, k) for metric in DEFAULT_METRICS for k in (5, None)]
    lines = shown(rows, 140, capsys)
    assert lines[2] == ["model", "k", *DEFAULT_METRICS, "users"]
    assert lines[4] == ["m", "5", *["0.2500"] * 9, "82"]
    assert lines[5][:2] == ["m", "all"]
    assert len(lines) == 7


def test_what_does_not_fit_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row(metric) for metric in DEFAULT_METRICS]
    lines = shown(rows, 60, capsys)
    assert lines[2] == ["model", "k", "precision", "recall", "f1", "users"]
    told = "3 of 9 metrics fit here; in the table metrics also: hit_rate, map, mar, mrr, arhr, ndcg"
    assert " ".join(lines[-1]) == told
    # One is shown however narrow it is.
    assert "precision," not in shown(rows, 10, capsys)[-1]


def test_segments_and_folds_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row("map"), row("map", segment="shop", value="x"), row("map", segment="folds", value="mean")]
    rows.append(row("map", segment="folds", value="sd"))
    lines = shown(rows, 80, capsys)
    assert ["m", "10", "0.2500", "±", "0.2500", "82"] in lines
    assert " ".join(lines[-1]) == "means by shop stand in the table metrics"


def mean(
    model: str, value: float | None, error: float | None = 0.01, metric: str = "ndcg"
) -> dict[str, object]:
    return {**row(metric), "model": model, "value": value, "std_error": error, "n_users": 1000}


def marked(*rows: dict[str, object]) -> dict[str, str]:
    board = Leaderboard.of(rows)
    [cells] = board.metrics.values()
    return {
        model: cell.lstrip("0123456789.-") for model, cell in zip(board.lines["model"], cells, strict=True)
    }


def test_the_best_model_is_marked_and_those_that_are_not_certainly_worse(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [mean("a", 0.30), mean("b", 0.32), mean("c", 0.25), mean("d", None)]
    # From b to c it is 0.07 / 0.0141: 4.9 standard errors; to a 1.4.
    assert marked(*rows) == {"a": "~", "b": "*", "c": "", "d": ""}
    lines = shown(rows, 120, capsys)
    assert lines[-1][:6] == ["*", "the", "best", "of", "its", "k,"]


def test_what_is_certain_is_corrected_for_the_number_of_models() -> None:
    # Alone p is 0.038; of three such models the least p counts three times.
    alone = [mean("a", 0.30), mean("b", 0.275)]
    assert marked(*alone) == {"a": "*", "b": ""}
    assert marked(*alone, mean("c", 0.275), mean("d", 0.275)) == {"a": "*", "b": "~", "c": "~", "d": "~"}


def test_marks_need_several_models_and_errors_of_their_means() -> None:
    assert marked(mean("a", 0.3)) == {"a": ""}
    assert marked(mean("a", 0.3, None), mean("b", 0.2, None)) == {"a": "*", "b": ""}
    assert marked(mean("a", 0.3), mean("b", 0.3)) == {"a": "*", "b": "*"}
    folds = [
        {**mean(model, 0.3), "segment": "folds", "segment_value": value}
        for model in "ab"
        for value in ("mean", "sd")
    ]
    assert set(marked(mean("a", 0.3), mean("b", 0.3), *folds).values()) == {" ± 0.3000"}


def test_lower_values_are_better_where_the_metric_says_so() -> None:
    object.__setattr__(RANKING["ndcg"], "direction", Direction.LOWER)
    try:
        assert marked(mean("a", 0.30), mean("b", 0.32), mean("c", 0.25)) == {"a": "", "b": "", "c": "*"}
    finally:
        object.__setattr__(RANKING["ndcg"], "direction", Direction.HIGHER)


def test_repeated_pairs_of_a_split_are_told_to_be_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = [
        (0, "global_test_at_or_before_global_train", 0, 0, False),
        (0, "users_in_both_ranker_parts", 3, 1, True),
        (0, "pairs_in_train_and_global_test", 1355, 80, False),
    ]
    names = ["fold", "check", "rows", "users", "leaked"]
    entry = {
        "source": "interactions",
        "model": None,
        "outcome": "in",
        "reason": None,
        "rows": 9,
        "users": None,
    }
    tables = {
        Table.LEAKAGE: pa.Table.from_pylist([dict(zip(names, check, strict=True)) for check in checks]),
        Table.ACCOUNTING: pa.Table.from_pylist([{**entry, "users": None}]),
    }
    terminal.show_split(published_run("split", tables, tmp_path))
    out = capsys.readouterr().out
    verdicts = [
        line.replace("│", " ").split()[-1] for line in out.splitlines() if "│" in line and "_" in line
    ]
    assert verdicts == ["no", "LEAK", "allowed"]
    assert (
        "leaked rows: 3\n1,355 test rows repeat a train pair; allowed here, `seen: drop` removes them\n"
        in out
    )


def test_every_check_that_may_be_allowed_says_why() -> None:
    rules = [kind() for kind in (GlobalLocalRanker, Holdout, KFold, LastFraction)]
    checks = [check for rule in rules for check in rule.checks.items()]
    assert {name for name, check in checks if not check.is_leak} == set(terminal.ALLOWED)
