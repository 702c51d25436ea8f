"""What a comparison says in plain words, and what gates show."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.cli.conftest import published_run

from spark_eval import compare
from spark_eval.cli import terminal
from spark_eval.kernels.registry import RANKING
from spark_eval.results.sentences import (
    COMPARED,
    FEW_EXPLAINED,
    compared_lines,
    compared_table,
    gated_lines,
    lost_sentences,
    segment_notes,
    sentence,
    sentences,
    short,
)
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


def by_age(value: str, difference: float, n_users: int = 100, **more: Any) -> dict[str, Any]:
    ends = {"ci_low": difference - 0.005, "ci_high": difference + 0.005}
    row = PAIR | {"segment": "age", "segment_value": value, "n_users": n_users, "difference": difference}
    return row | ends | more


MANY: list[dict[str, Any]] = [
    PAIR | {"n_users": 1000},
    *(by_age(str(age), 0.0 if age % 5 else 0.01, 12 if age == 5 else 100) for age in range(40, 0, -1)),
    by_age("100", -0.02),
    by_age("9.5", -0.03, p_adjusted=0.5),
    by_age("41", -0.04, 20),
]


def test_a_table_has_the_segments_that_matter_in_the_order_of_their_numbers() -> None:
    """Of 43 segment values the two that lose and the eight that win are shown, beside all users."""
    header, lines = compared_table(MANY)
    assert list(header) == [*COMPARED[:-1], "users", "p"]
    names = [line[2] for line in lines]
    wins = [f"ndcg@10 (age {age})" for age in range(5, 41, 5)]
    assert names == ["ndcg@10", *wins, "ndcg@10 (age 41)", "ndcg@10 (age 100)"]
    assert [line[-2] for line in lines][:3] == ["1,000", "12 (few)", "100"]
    assert compared_table([PAIR]) == (COMPARED, compared_lines([PAIR]))


def test_segments_that_lose_are_one_sentence_the_largest_difference_first() -> None:
    lost = "ndcg@10 (age 41), als against popular: -.04 (20 (few) users)"
    second = "ndcg@10 (age 100), als against popular: -.02 (100 users)"
    assert lost_sentences(MANY) == [f"2 of 43 by segment certainly lost: {lost}; {second}"]
    assert lost_sentences(MANY[:41]) == ["none of 40 by segment certainly lost"]
    assert lost_sentences([PAIR]) == []
    many = lost_sentences([by_age(str(age), -0.1) for age in range(20)])[0]
    assert many.startswith("20 of 20 by segment certainly lost: ")
    assert many.endswith("; and 17 more")
    # A second test of the same pair is not another loss, and more of a metric that is to be low is.
    assert lost_sentences([MANY[-1], MANY[-1] | {"test": "sign"}])[0].startswith("1 of 1 ")
    assert lost_sentences([MANY[-1]], lambda _: Direction.LOWER) == ["none of 1 by segment certainly lost"]


def test_notes_say_what_seems_to_disagree_what_is_few_and_which_end_is_active() -> None:
    assert segment_notes(MANY) == ["33 more lines of segments are in the table comparisons", FEW_EXPLAINED]
    active = by_age("10", -0.03, p_adjusted=0.5) | {"segment": "activity"}
    assert segment_notes([active]) == [
        "an interval that leaves out 0 beside a p of .05 or more: the interval is of one comparison alone, p "
        "is adjusted for all of them",
        "activity: the higher the decile, the more rows in train; 10 are the most active users",
    ]
    assert segment_notes([PAIR | {"n_users": 5}]) == []


def test_a_comparison_says_first_which_segments_lose() -> None:
    users = range(80)
    per_user = pa.table(
        {
            "model": ["old"] * 80 + ["new"] * 80,
            "user": [*users, *users],
            "ndcg_at_10": [0.5 + user / 800 for user in users]
            + [0.5 + user / 800 - (0.2 if user % 4 == 0 else -0.1) - user / 8000 for user in users],
            "group": [str(9 + user % 4) for user in users] * 2,
        }
    )
    result = compare(per_user, baseline_model="old", segments=["group"], engine="local")
    lost = "1 of 4 by segment certainly lost: ndcg@10 (group 9), new against old: -.20 (20 (few) users)"
    assert lost in repr(result).splitlines()
    shown = result.summary()
    assert list(shown.lead) == [lost]
    assert shown.to_pandas()["users"].tolist() == ["80", *["20 (few)"] * 4]
    assert shown.to_pandas()["metric"].tolist()[1:] == [f"ndcg@10 (group {n})" for n in (9, 10, 11, 12)]
    assert repr(shown).splitlines()[1] == lost
    html = shown._repr_html_()
    assert html.index(lost) < html.index("<table")
