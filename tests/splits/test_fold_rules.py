"""The rules of splits in folds, without Spark."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_eval.errors import ConfigError, DataError
from spark_eval.schema import Subset
from spark_eval.splits.rules.fold_rule import HASH_STEPS, Numbering, Policy
from spark_eval.splits.rules.folds import Holdout, KFold, StratifiedKFold, Unit
from spark_eval.splits.rules.leave_out import Choices, Choose, LastFraction, LeaveOneOut, LeavePOut, TiesAtCut
from spark_eval.splits.rules.methods import METHODS, rule_of
from spark_eval.splits.rules.moments import MICROSECONDS_PER_DAY as DAY
from spark_eval.splits.rules.moments import Boundary, Instant, to_microseconds
from spark_eval.splits.rules.windows import Backtest, Expanding, Rolling


@pytest.mark.parametrize(
    ("method", "options", "rule"),
    [
        ("holdout", {"by": "user", "seen": "drop"}, Holdout(by=Unit.USER, seen=Policy.DROP)),
        ("k_fold", {"k": 3, "exact": True, "seed": 4}, KFold(k=3, exact=True, seed=4)),
        ("stratified_k_fold", {"by": ["a", "b"]}, StratifiedKFold(by=("a", "b"))),
        ("stratified_k_fold", {"by": "a", "exact": False}, StratifiedKFold(by=("a",), exact=False)),
        ("leave_p_out", {"p": 2, "choose": "hash"}, LeavePOut(p=2, choose=Choose.HASH)),
        ("leave_one_out", {"ties": "together"}, LeaveOneOut(ties=TiesAtCut.TOGETHER)),
        ("last_fraction", {"test_share": 0.1}, LastFraction(test_share=0.1)),
        (
            "rolling",
            {"train_days": 10, "timezone": "Europe/Berlin"},
            Rolling(train_days=10, timezone="Europe/Berlin"),
        ),
        ("expanding", {"step_days": None, "gap_days": 1.5}, Expanding(gap_days=1.5)),
    ],
)
def test_options_become_a_rule(method: str, options: dict[str, object], rule: object) -> None:
    assert rule_of(method, options) == rule


@pytest.mark.parametrize(
    ("method", "options", "code", "message"),
    [
        ("k_folds", {}, "INVALID_SPLIT", "did you mean 'k_fold'"),
        ("k_fold", {"kk": 5}, "UNKNOWN_CONFIG_KEY", "did you mean 'k'"),
        ("leave_one_out", {"p": 2}, "UNKNOWN_CONFIG_KEY", "unknown option 'p'"),
        ("holdout", {"test_share": 0}, "INVALID_SPLIT", "test_share 0 is not in (0, 1)"),
        ("holdout", {"validation_share": -0.1}, "INVALID_SPLIT", "validation_share -0.1"),
        ("holdout", {"test_share": 0.5, "validation_share": 0.5}, "INVALID_SPLIT", "leave no train"),
        ("holdout", {"by": "item"}, "INVALID_SPLIT", "allowed: row, user"),
        ("holdout", {"seed": 2**63}, "INVALID_SPLIT", "64 bits"),
        ("k_fold", {"k": 1}, "INVALID_SPLIT", "k 1 is not from 2 to 1000"),
        ("k_fold", {"exact": "yes"}, "INVALID_SPLIT", "exact 'yes' is neither true nor false"),
        ("stratified_k_fold", {}, "INVALID_SPLIT", "by names no column"),
        ("stratified_k_fold", {"by": [1]}, "INVALID_SPLIT", "by [1] is not a list of names"),
        ("stratified_k_fold", {"by": ["a", "a"]}, "INVALID_SPLIT", "by names a column twice"),
        ("leave_p_out", {"p": 0}, "INVALID_SPLIT", "p 0 is below 1"),
        ("last_fraction", {"test_share": 1}, "INVALID_SPLIT", "test_share 1"),
        ("rolling", {"step_days": 3, "test_days": 4}, "INVALID_SPLIT", "test windows overlap"),
        ("rolling", {"train_days": 0}, "INVALID_SPLIT", "train_days 0"),
        ("expanding", {"train_days": 7}, "UNKNOWN_CONFIG_KEY", "unknown option 'train_days'"),
        ("expanding", {"n_folds": 0}, "INVALID_SPLIT", "n_folds 0"),
        ("expanding", {"end": 0.9}, "INVALID_SPLIT", "end share 0.9 is not an instant"),
        ("expanding", {"timezone": "Mars"}, "INVALID_TIMEZONE", "IANA"),
    ],
)
def test_a_wrong_option_of_folds_is_named(
    method: str, options: dict[str, object], code: str, message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        rule_of(method, options)
    assert refused.value.code == code
    assert message in refused.value.message


@pytest.mark.parametrize("rule", [Holdout, KFold])
@pytest.mark.parametrize("by", Unit)
def test_rows_or_users_are_drawn_by_the_seed(rule: type[Holdout | KFold], by: Unit) -> None:
    numbering = rule(by=by, seed=7).layout().numbering
    assert isinstance(numbering, Numbering)
    assert (numbering.by_row, numbering.seed) == (by is Unit.ROW, 7)


def test_every_rule_has_its_picture_and_its_parts() -> None:
    for kind in METHODS.values():
        assert "::" in str(kind.__doc__) or issubclass(kind, LeaveOneOut)
    assert Holdout().subsets == (Subset.TRAIN, Subset.TEST)
    assert Holdout(validation_share=0.1).subsets == (Subset.TRAIN, Subset.VALIDATION, Subset.TEST)
    numbering = Holdout(test_share=0.25, validation_share=0.5).layout().numbering
    assert isinstance(numbering, Numbering)
    assert numbering.steps == [HASH_STEPS // 4, 3 * HASH_STEPS // 4]


@given(st.data())
def test_windows_follow_each_other_and_nothing_is_in_two(data: st.DataObject) -> None:
    number = st.sampled_from([0.1, 0.5, 1, 2, 7])
    test, more, gap, train = (data.draw(number) for _ in range(4))
    options: dict[str, Any] = {
        "n_folds": data.draw(st.integers(1, 5)),
        "test_days": test,
        "step_days": data.draw(st.sampled_from([None, test, test + more])),
        "gap_days": data.draw(st.sampled_from([0, gap])),
        "boundary": data.draw(st.sampled_from(list(Boundary))),
        "timezone": data.draw(st.sampled_from(["UTC", "Europe/Berlin"])),
    }
    newest = data.draw(st.integers(19_000 * DAY, 20_000 * DAY))
    # The longest of these takes 77 days.
    oldest = newest - 80 * DAY
    rolling = Backtest.of(Rolling(train_days=train, **options), oldest, newest)
    expanding = Backtest.of(Expanding(**options), oldest, newest)
    assert len(rolling.windows) == options["n_folds"]
    for window, other in zip(rolling.windows, expanding.windows, strict=True):
        assert window.train_start is not None
        assert window.train_start < window.train_end <= window.test_start < window.test_end
        assert other.train_start is None
        assert other.test_start == window.test_start
        assert (window.train_end == window.test_start) == (options["gap_days"] == 0)
    for earlier, later in pairwise(rolling.windows):
        assert earlier.test_end <= later.test_start
        touch = options["step_days"] in (None, test)
        assert touch == (earlier.test_end == later.test_start)
    before = options["boundary"].before
    last = rolling.windows[-1]
    assert before(newest, last.test_end)
    assert not before(newest, last.test_start)


@pytest.mark.parametrize("boundary", Boundary)
@pytest.mark.parametrize(
    "rule", [Rolling(test_days=2, train_days=3, gap_days=1), Expanding(test_days=1, step_days=2)]
)
def test_a_stretch_of_time_has_the_parts_of_its_windows(
    rule: Rolling | Expanding, boundary: Boundary
) -> None:
    rule = replace(rule, boundary=boundary)
    found = Backtest.of(rule, 0, 12 * DAY)
    layout, before = rule.layout(found), boundary.before
    assert isinstance(layout.numbering, Numbering)
    for moment in (edge + step for edge in layout.numbering.edges for step in (-1, 0, 1)):
        expected = []
        for window in found.windows:
            is_started = window.train_start is None or not before(moment, window.train_start)
            if is_started and before(moment, window.train_end):
                expected.append("train")
            elif not before(moment, window.test_start) and before(moment, window.test_end):
                expected.append("test")
            else:
                expected.append("")
        number = sum(not before(moment, edge) for edge in layout.numbering.edges)
        if not any(expected):
            start = found.windows[0].train_start
            is_early = start is not None and before(moment, start)
            is_late = not before(moment, found.windows[-1].test_end)
            expected = ["after_end" if is_late else "before_start" if is_early else "gap"] * 3
        assert layout.outcomes[number] == expected


def test_windows_are_calendar_days_before_the_end() -> None:
    rule = rule_of(
        "expanding", {"n_folds": 2, "test_days": 1, "end": "2023-03-27", "timezone": "Europe/Berlin"}
    )
    assert isinstance(rule, Expanding)
    assert isinstance(rule.end, Instant)
    end = to_microseconds(rule.end.at)
    first, last = Backtest.of(rule, end - 10 * DAY, end + DAY).windows
    # The clocks went forward on the 26th.
    assert (last.test_start, last.test_end) == (end - 23 * DAY // 24, end)
    assert first.test_start == last.test_start - DAY


def test_all_faults_of_windows_are_said_at_once() -> None:
    with pytest.raises(DataError) as refused:
        Backtest.of(Rolling(), 0, 10 * DAY)
    for part in ("train of fold 0 before", "should begin at", "the log runs from 1970-01-01"):
        assert part in refused.value.message
    # Less than a day may lack, where the log begins after midnight.
    assert Backtest.of(Rolling(), DAY - 1, 49 * DAY).windows
    with pytest.raises(DataError, match="should begin at"):
        Backtest.of(Rolling(), DAY, 49 * DAY)


@pytest.mark.parametrize(
    ("n_rows", "p", "found"),
    [
        (45, 2, 990),
        (1000, 1, 1000),
        (46, 2, "1,035 folds"),
        (10**9, 10**8, "about 10^"),
        (3, 3, "leaves no train"),
    ],
)
def test_all_choices_are_counted_before_they_are_made(n_rows: int, p: int, found: object) -> None:
    rule = LeavePOut(p=p, exhaustive=True)
    if isinstance(found, int):
        assert rule.layout(Choices.of(rule, n_rows)).n_folds == found
    else:
        with pytest.raises(DataError, match=str(found).replace("^", r"\^")) as refused:
            Choices.of(rule, n_rows)
        assert refused.value.code == ("SPLIT_OUT_OF_RANGE" if n_rows == 3 else "TOO_MANY_FOLDS")
