"""Interleaving: the worked number, a slow loop, accounting, checks of the draft, and what is refused."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from spark_eval import Interleaving, evaluate_interleaving
from spark_eval.errors import ConfigError, DataError
from spark_eval.experiments.interleaving import InterleavingRow, OfExperiment
from spark_eval.experiments.plan import make_interleaving_plan
from spark_eval.experiments.worker.drafts import DraftSums, user_numbers

pytestmark = pytest.mark.usefixtures("each_engine")

Row = dict[str, Any]
SCHEMA = pa.schema(
    [(name, pa.int64()) for name in ("impression", "user", "item", "position", "rank_a", "rank_b")]
    + [(name, pa.string()) for name in ("team", "first_pick")]
    + [("clicked", pa.bool_())]
)
RANKS = st.none() | st.integers(1, 4)


def two_items(impression: int, user: int, clicked: str, first: str = "a") -> list[Row]:
    second = "b" if first == "a" else "a"
    shared = {"impression": impression, "user": user, "first_pick": first}
    return [
        {**shared, "item": team, "team": team, "position": position, "clicked": team in clicked}
        for position, team in enumerate((first, second), start=1)
    ]


def outcomes(found: Interleaving) -> dict[tuple[str, str | None], int]:
    return {(entry.outcome, entry.reason): entry.rows for entry in found.entries}


def by_analysis(found: Interleaving) -> dict[str, InterleavingRow]:
    return {row.analysis: row for row in found.rows}


def test_the_worked_number() -> None:
    clicks = ["a"] * 60 + ["b"] * 40 + ["ab"] * 20
    rows = [row for number, clicked in enumerate(clicks) for row in two_items(number, number, clicked)]
    of_users, of_impressions = evaluate_interleaving(pd.DataFrame(rows)).rows
    votes = [0.5] * 60 + [-0.5] * 40 + [0] * 20
    for row in (of_users, of_impressions):
        assert (row.wins, row.ties, row.losses, row.n_users, row.n_impressions) == (60, 20, 40, 120, 120)
        assert row.difference == pytest.approx(0.083333, abs=5e-7)
        assert row.std_error == pytest.approx(np.std(votes, ddof=1) / 120**0.5)
    assert of_users.p_value == pytest.approx(0.056888, abs=5e-7)
    assert of_impressions.p_value == pytest.approx(stats.ttest_1samp(votes, 0).pvalue)


@pytest.mark.parametrize("n_heavy", [0, 1, 6, 50, 1000])
def test_a_heavy_user_counts_once_in_the_row_that_decides(n_heavy: int) -> None:
    clicks = [(user, "a") for user in range(10)] + [(99, "b")] * n_heavy + [(98, "")]
    rows = [
        row
        for number, (user, clicked) in enumerate(clicks)
        for row in two_items(number, user, clicked, "ab"[number % 2])
    ]
    found = evaluate_interleaving(pd.DataFrame(rows))
    row, other = by_analysis(found)["preference"], by_analysis(found)["impressions"]
    n_users = 10 + (n_heavy > 0)
    assert (row.wins, row.ties, row.losses, row.n_users) == (10, 0, n_users - 10, n_users)
    assert (other.wins, other.ties, other.losses, other.n_impressions) == (10, 0, n_heavy, 10 + n_heavy)
    assert row.difference == pytest.approx(10 / n_users - 0.5)
    assert other.difference == pytest.approx(10 / (10 + n_heavy) - 0.5)
    assert row.p_value == pytest.approx(stats.binomtest(10, n_users).pvalue)
    [decision] = found.decision_rows
    assert (decision.decision, decision.reason) == ("win", f"10 of {n_users} users prefer it")


@st.composite
def drafts(draw: Callable[..., Any]) -> list[Row]:
    rows = []
    for impression in range(draw(st.integers(1, 12))):
        user, first = draw(st.integers(0, 3)), draw(st.sampled_from("ab"))
        for position in range(1, draw(st.integers(1, 5)) + 1):
            shared = {"impression": impression, "user": user, "first_pick": first, "position": position}
            own = {"item": position, "team": draw(st.sampled_from("ab")), "clicked": draw(st.booleans())}
            rows.append({**shared, **own, "rank_a": draw(RANKS), "rank_b": draw(RANKS)})
    return rows


def slow_preference(rows: Sequence[Row]) -> dict[int, list[int]]:
    votes: dict[tuple[int, int], list[int]] = defaultdict(list)
    for row in rows:
        if row["clicked"]:
            votes[row["user"], row["impression"]].append(1 if row["team"] == "a" else -1)
    found = defaultdict(list)
    for (user, _), own in votes.items():
        found[user].append((sum(own) > 0) - (sum(own) < 0))
    return found


def slow_paired(rows: Sequence[Row]) -> dict[int, list[int]]:
    def above(one: Row, other: Row, rank: str) -> bool:
        return one[rank] is not None and (other[rank] is None or one[rank] < other[rank])

    credit: dict[tuple[int, int], list[int]] = defaultdict(list)
    for a in rows:
        for b in rows:
            is_round = a["impression"] == b["impression"] and {a["position"], b["position"]} in (
                {1, 2},
                {3, 4},
            )
            is_draft = is_round and (a["team"], b["team"]) == ("a", "b")
            if is_draft and above(a, b, "rank_a") and above(b, a, "rank_b"):
                credit[a["user"], a["impression"]].append(a["clicked"] - b["clicked"])
    found = defaultdict(list)
    for (user, _), own in credit.items():
        found[user].append(sum(own))
    return found


@settings(max_examples=25)
@given(drafts(), st.randoms(use_true_random=False))
def test_both_analyses_are_those_of_a_slow_loop_in_any_order(rows: list[Row], shuffle: Any) -> None:
    mixed = list(rows)
    shuffle.shuffle(mixed)
    found, again = (evaluate_interleaving(pa.Table.from_pylist(one, SCHEMA)) for one in (rows, mixed))
    assert found == again
    check_preference(slow_preference(rows), by_analysis(found)["preference"])
    for analysis, slow in (("impressions", slow_preference), ("paired", slow_paired)):
        users, row = slow(rows), by_analysis(found)[analysis]
        signs = [sign for own in users.values() for sign in own]
        counts = [sum(np.sign(sign) == side for sign in signs) for side in (1, 0, -1)]
        assert [row.wins, row.ties, row.losses] == counts
        assert (row.n_users, row.n_impressions) == (len(users), len(signs))
        n = len(users)
        totals = np.array([sum(own) for own in users.values()])
        weights = np.array([len(own) if analysis == "impressions" else 1 for own in users.values()])
        scale = 0.5 if analysis == "impressions" else 1.0
        if n:
            ratio = totals.sum() / weights.sum()
            assert row.difference == pytest.approx(scale * ratio)
        if n > 1:
            # Users of unequal weight are worth fewer of equal weight.
            worth = weights.sum() ** 2 / (weights**2).sum()
            spread = np.sum((totals - ratio * weights) ** 2) / weights.sum() ** 2 * worth / (worth - 1)
            assert row.std_error == pytest.approx(scale * spread**0.5, abs=1e-12)
            if spread > 1e-12:
                expected = 2 * stats.t.sf(abs(ratio) / spread**0.5, worth - 1)
                assert row.p_value == pytest.approx(expected)
                assert row.p_value is not None
                assert leaves_out_0(row) == (row.p_value < 0.05)


def leaves_out_0(row: InterleavingRow) -> bool:
    return row.ci_low is not None and row.ci_high is not None and row.ci_low * row.ci_high > 0


def check_preference(users: dict[int, list[int]], row: InterleavingRow) -> None:
    """Each user counts once: by the sign of wins - losses."""
    signs = np.array([np.sign(sum(own)) for own in users.values()])
    counts = [int((signs == side).sum()) for side in (1, 0, -1)]
    assert [row.wins, row.ties, row.losses] == counts
    assert (row.n_users, row.n_impressions) == (len(users), sum(map(len, users.values())))
    if len(users):
        assert row.difference == pytest.approx(signs.mean() / 2)
        n_voters = counts[0] + counts[2]
        assert row.p_value == pytest.approx(stats.binomtest(counts[0], n_voters).pvalue if n_voters else 1.0)
    if len(users) > 1:
        assert row.std_error == pytest.approx(np.std(signs / 2, ddof=1) / len(users) ** 0.5)


def left_out(n_users: int, n_experiments: int, seed: int) -> dict[str, float]:
    """Shares of A/A experiments whose interval leaves out 0; users have 10 impressions on average."""
    random, plan = np.random.default_rng(seed), make_interleaving_plan()
    found = {"preference": 0, "impressions": 0}
    for _ in range(n_experiments):
        n = random.geometric(0.1, n_users)
        wins = random.binomial(n, random.beta(2, 2, n_users))
        sums = {"total": 2 * wins - n, "n": n, "wins": wins, "ties": 0 * n, "losses": n - wins}
        numbers = Counter({("x", "preference", name): k for name, k in user_numbers(sums).items()})
        own = OfExperiment("x", plan, DraftSums(numbers=numbers))
        for row in (own.preference, own.impressions):
            found[row.analysis] += leaves_out_0(row)
    return {name: count / n_experiments for name, count in found.items()}


def test_intervals_of_thirty_users_leave_out_0_about_once_in_twenty() -> None:
    shares = left_out(30, 400, 5)
    assert shares["preference"] <= 0.075
    assert shares["impressions"] <= 0.085


@pytest.mark.exhaustive
@pytest.mark.parametrize("n_users", [10, 20, 30, 60, 200])
def test_intervals_of_few_users_leave_out_0_once_in_twenty(n_users: int) -> None:
    shares = left_out(n_users, 10_000, 6)
    assert shares["preference"] <= 0.06
    assert shares["impressions"] <= 0.075


def test_every_row_is_accounted_for() -> None:
    good = two_items(1, 1, "a")
    bad = [
        {**good[0], "impression": None},
        {**good[0], "impression": 2, "clicked": None},
        {**good[0], "impression": 2, "position": 0},
        {**good[0], "impression": 2, "team": None},
        {**good[0], "impression": 3, "position": None, "team": None},
        {**good[0], "clicked": False},
        *two_items(4, 4, "b"),
        {**two_items(4, 5, "b")[0], "item": "c", "position": 3},
    ]
    found = evaluate_interleaving(pa.Table.from_pylist(good + bad), max_quarantined=0.5)
    assert outcomes(found) == {
        ("in", None): 11,
        ("quarantined", "NULL_ID"): 1,
        ("quarantined", "VALUE_OUT_OF_RANGE"): 2,
        ("dropped", "not_exposed"): 1,
        ("quarantined", "NULL_VARIANT"): 1,
        ("dropped", "inconsistent"): 3,
        ("deduplicated", "repeated_item"): 1,
        ("used", None): 2,
    }
    assert found.rows[0].wins == 1


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("name", ["position", "clicked", "rank_a", "rank_b"])
@pytest.mark.parametrize("value", [math.inf, -math.inf, 1e300, 5e-324, -1.0, 1.5])
def test_numbers_that_are_no_ranks_or_clicks_are_quarantined(name: str, value: float) -> None:
    good = [
        {**row, "clicked": 1.0, "position": float(row["position"]), "rank_a": 1.0, "rank_b": 2.0}
        for row in two_items(1, 1, "a")
    ]
    bad = {**good[0], "impression": 2, name: value}
    found = evaluate_interleaving(pd.DataFrame([*good, bad]), max_quarantined=0.5)
    assert outcomes(found)["quarantined", "VALUE_OUT_OF_RANGE"] == 1


@pytest.mark.parametrize("change", [{"position": 1}, {"first_pick": "b"}, {"user": 2}, {"item": "a"}])
def test_contradictory_impressions_are_left_out_whole(change: Row) -> None:
    odd = two_items(1, 1, "a")
    rows = [odd[0], {**odd[1], **change}, *two_items(2, 1, "b")]
    found = evaluate_interleaving(pd.DataFrame(rows))
    assert outcomes(found)["dropped", "inconsistent"] == 2
    assert (found.rows[0].wins, found.rows[0].losses) == (0, 1)


def test_an_unfair_draft_fails_its_checks() -> None:
    def checks(firsts: str) -> list[bool | None]:
        rows = [row for user in range(40) for row in two_items(user, user, "a", firsts[user % 2])]
        return [check.passed for check in evaluate_interleaving(pd.DataFrame(rows)).check_rows]

    assert checks("ab") == [True, True]
    mostly = [row for user in range(40) for row in two_items(user, user, "a", "b" if user == 7 else "a")]
    assert [check.passed for check in evaluate_interleaving(pd.DataFrame(mostly)).check_rows] == [
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("clicked", "first", "decision"),
    [
        ("a", "ab", "win"),
        ("b", "ab", "loss"),
        ("ab", "ab", "flat"),
        ("", "ab", "undecided"),
        ("a", "aa", "blocked"),
    ],
)
def test_the_sign_test_of_users_decides_on_a_fair_draft(clicked: str, first: str, decision: str) -> None:
    rows = [row for user in range(40) for row in two_items(user, user, clicked, first[user % 2])]
    [row] = evaluate_interleaving(pd.DataFrame(rows)).decision_rows
    assert (row.decision, row.treatment, row.trusted) == (decision, "a", decision != "blocked")


def test_many_buckets_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {**row, "item": f"item {row['item']}", "user": f"user {row['user']}"}
        for number in range(60)
        for row in two_items(number, number % 7, ["a", "b", "ab", ""][number % 4], "ab"[number % 3 == 0])
    ]
    shown = pd.DataFrame(rows).assign(rank_a=1, rank_b=2)
    whole = evaluate_interleaving(shown)
    monkeypatch.setattr("spark_eval.runners.spread.ROWS_PER_BUCKET", 9)
    assert evaluate_interleaving(shown.sample(frac=1, random_state=1)) == whole


def test_experiments_stand_apart_and_teams_have_names(tmp_path: Path) -> None:
    rows = [
        {**row, "experiment": name, "team": {"a": "new", "b": "old"}[row["team"]], "first_pick": "new"}
        for name, clicked in (("y", "b"), ("x", "a"))
        for row in two_items(1, 1, clicked)
    ]
    path = tmp_path / "shown.parquet"
    pd.DataFrame(rows).to_parquet(path)
    found = evaluate_interleaving(path, teams=("new", "old"))
    differences = [(row.experiment, row.difference) for row in found.rows]
    assert differences == [("x", 0.5), ("x", 0.5), ("y", -0.5), ("y", -0.5)]
    assert outcomes(found) == {("in", None): 4, ("used", None): 4}
    assert len(found.table("interleavings")) == 4
    theirs = {"impression": "list", "user": "reader"}
    named = pd.DataFrame(rows).rename(columns=theirs)
    assert evaluate_interleaving(named, teams=("new", "old"), columns=theirs) == found
    with pytest.raises(ConfigError, match="interleavings"):
        found.table("interleaving")


def test_bad_input_is_refused() -> None:
    shown = pd.DataFrame(two_items(1, 1, "a"))
    for table, code in (
        (shown.drop(columns="team"), "MISSING_COLUMN"),
        (shown.assign(rank_a=1), "MISSING_COLUMN"),
        (shown.assign(team=["a", "c"]), "UNKNOWN_VARIANT"),
        (shown.assign(clicked=2), "QUARANTINE_SHARE"),
        (shown[:0].astype({"clicked": bool}), "EMPTY_INPUT"),
        (shown.assign(position="first"), "UNSUPPORTED_TYPE"),
    ):
        with pytest.raises(DataError) as caught:
            evaluate_interleaving(table, engine="local")
        assert caught.value.code == code
    for options in ({"teams": ("a",)}, {"teams": "ab"}, {"confidence": 1.0}, {"max_quarantined": 2.0}):
        with pytest.raises(ConfigError) as refused:
            evaluate_interleaving(shown, **options)
        assert refused.value.code == "OUT_OF_RANGE"
