"""What a comparison says in plain words, and what gates show."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.cli.conftest import published_run

from spark_eval.cli import terminal
from spark_eval.kernels.registry import RANKING
from spark_eval.results.sentences import compared_lines, gated_lines, sentence, sentences, short
from spark_eval.schema import Direction, Table
from spark_eval.verbs import VERBS

PAIR: dict[str, Any] = {
    "candidate": "als",
    "baseline": "popular",
    "baseline_run": None,
    "metric": "ndcg",
    "k": 10,
    "segment": "all",
    "segment_value": "all",
    "test": "t",
    "wins": 1234,
    "ties": 0,
    "losses": 56,
    "difference": 0.021,
    "ci_low": 0.015,
    "ci_high": 0.027,
    "p_value": 0.004,
    "p_adjusted": 0.004,
    "family_size": 15,
}
GATE: dict[str, Any] = {
    "metric": "ndcg",
    "k": None,
    "segment": "country",
    "segment_value": "DE",
    "model": "als",
    "against_run": "2024-02-29",
    "against_model": "als",
    "difference": -0.01234,
    "bound_low": -0.02,
    "bound_high": 0.001,
    "decision": "undecided",
    "passed": False,
    "reason": "neither is certain",
}


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (
            {"difference": -0.021, "ci_low": -0.027, "ci_high": -0.015},
            "als falls behind popular in ndcg@10 by .021 ± .006; p = .004, adjusted for 15",
        ),
        ({"p_adjusted": 0.0001}, "als beats popular in ndcg@10 by .021 ± .006; p < .001, adjusted for 15"),
        (
            {"difference": -0.003, "ci_low": -0.009, "ci_high": 0.003, "p_adjusted": 0.325},
            "als and popular do not certainly differ in ndcg@10: -.003 ± .006; p = .325, adjusted for 15",
        ),
        # The interval of one pair, and a p that is corrected for many.
        (
            {"p_adjusted": 0.06},
            "ndcg@10: .021 ± .006; p = .060, adjusted for 15 comparisons "
            "(the interval of this pair alone, which is not adjusted, leaves out 0)",
        ),
        (
            {"p_adjusted": 0.06, "p_value": 0.06, "test": "sign"},
            "comparisons (the interval leaves out 0; its confidence, or what it assumes, is another)",
        ),
        ({"ci_low": None, "ci_high": None}, "als beats popular in ndcg@10 by .021; p = .004"),
        (
            {"ci_low": 0.021, "ci_high": 0.021, "p_adjusted": None},
            "als differs from popular in ndcg@10 by .021, for every user the same",
        ),
        (
            {"difference": 0.0, "ci_low": 0.0, "ci_high": 0.0, "p_adjusted": 1.0},
            "als differs from popular in ndcg@10 by .000, for every user the same",
        ),
        (
            {"ci_low": None, "ci_high": None, "p_adjusted": None},
            "als differs from popular in ndcg@10 by .021; how surely, one user cannot tell",
        ),
        ({"family_size": 1}, "als beats popular in ndcg@10 by .021 ± .006; p = .004"),
        ({"correction": "none"}, "by .021 ± .006; p = .004, not adjusted for 15 comparisons"),
        ({"p_adjusted": 1.0, "ci_low": -1.0}, "p = 1.000, adjusted for 15 comparisons"),
        ({"difference": None}, "als and popular have no user in common with a value of ndcg@10"),
        ({"baseline_run": "b", "k": None}, "als beats popular of b in ndcg@all by .021"),
        ({"difference": 0.00042, "ci_low": 0.0004, "ci_high": 0.00044}, "by .00042 ± .00002; "),
        ({"metric": "dcg", "difference": 2.5, "ci_low": 2.0, "ci_high": 3.0}, "in dcg@10 by 2.500 ± .500"),
    ],
)
def test_a_row_in_a_sentence(found: dict[str, Any], says: str) -> None:
    assert says in sentence(PAIR | found)
    assert "chance" not in sentence(PAIR | found)


@pytest.mark.parametrize(
    ("direction", "verb"), [(Direction.LOWER, "falls behind"), (Direction.NONE, "is above")]
)
def test_the_metric_says_who_is_better(direction: Direction, verb: str) -> None:
    object.__setattr__(RANKING["ndcg"], "direction", direction)
    try:
        assert sentence(PAIR).startswith(f"als {verb} popular in ndcg@10")
    finally:
        object.__setattr__(RANKING["ndcg"], "direction", Direction.HIGHER)


def test_there_is_one_sentence_for_a_pair_and_metric_over_everybody() -> None:
    rows = [PAIR, PAIR | {"test": "sign"}, PAIR | {"segment": "country", "segment_value": "DE"}]
    rows += [PAIR | {"k": 5, "test": "tost"}, PAIR | {"candidate": "other"}]
    assert [text.split()[0] for text in sentences(rows)] == ["als", "other"]


def test_lines_have_the_numbers() -> None:
    [line] = compared_lines([PAIR])
    assert line == ["als", "popular", "ndcg@10", "t", ".021", ".015 to .027", "1,234/0/56", "0.004"]
    [line] = compared_lines([PAIR | {"ci_low": None, "ci_high": None, "p_adjusted": None}])
    assert line[5:] == ["-", "1,234/0/56", "-"]
    [line] = gated_lines([GATE])
    assert line[:3] == ["ndcg@all (country DE)", "als", "als of 2024-02-29"]
    assert line[3:] == ["-.0123", "-.0200 to .0010", "undecided", "NO"]
    assert [short(value) for value in (None, 0.5, -0.25, 12.0)] == ["-", ".5000", "-.2500", "12.0000"]


def test_hostile_names_move_no_cursor_and_mark_nothing_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "[red]a\x1b[2J[/]"
    tables: dict[str, pa.Table] = {
        Table.COMPARISONS: pa.Table.from_pylist([PAIR | {"candidate": evil}]),
        Table.GATES: pa.Table.from_pylist([GATE | {"segment_value": evil}]),
    }
    terminal.show_done(VERBS["compare"], published_run("compare", tables, tmp_path))
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert out.count("[red]a") >= 3
    assert "gate ndcg@all (country [red]a\\x1b[2J[/]) of als: undecided: neither is certain" in out
    assert "run a published" in out
