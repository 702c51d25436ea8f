"""Rules without a JVM: options as people write them, timelines and their limits."""

from datetime import datetime
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest

from spark_eval.errors import ConfigError, DataError, SparkEvalError
from spark_eval.splits.rules.fold_rule import Policy
from spark_eval.splits.rules.global_local_ranker import GlobalLocalRanker, Timeline
from spark_eval.splits.rules.methods import GLOBAL_LOCAL_RANKER, rule_of
from spark_eval.splits.rules.moments import (
    MICROSECONDS_PER_DAY,
    Boundary,
    DaysBack,
    Instant,
    Share,
    to_microseconds,
)

BERLIN = ZoneInfo("Europe/Berlin")
HOUR = 3_600_000_000
DAY = MICROSECONDS_PER_DAY


def micros(text: str, clock: ZoneInfo = BERLIN) -> int:
    return to_microseconds(datetime.fromisoformat(text).replace(tzinfo=clock))


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "../UTC", "America", "CET+1", 3])
def test_an_unknown_timezone_is_refused(name: object) -> None:
    with pytest.raises(ConfigError, match="INVALID_TIMEZONE"):
        rule_of(GLOBAL_LOCAL_RANKER, {"timezone": name})


def test_the_defaults_need_no_options() -> None:
    assert rule_of(GLOBAL_LOCAL_RANKER, {}) == GlobalLocalRanker()
    assert GlobalLocalRanker().local_cut == Share(Fraction(4, 5))
    assert GlobalLocalRanker().global_cut == Share(Fraction(9, 10))


def test_a_rule_is_read_from_plain_values() -> None:
    rule = rule_of(
        GLOBAL_LOCAL_RANKER,
        {
            "local_cut": "28d",
            "global_cut": "2023-02-14",
            "test_days": 14,
            "gap_days": 1,
            "boundary": "inclusive_train",
            "timezone": "Europe/Berlin",
            "ranker_test_share": 0.25,
            "seed": 7,
            "cold_users": "drop",
            "cold_items": "keep",
            "seen": Policy.DROP,
        },
    )
    assert rule == GlobalLocalRanker(
        local_cut=DaysBack(28),
        global_cut=Instant(datetime(2023, 2, 14, tzinfo=BERLIN)),
        test_days=14,
        gap_days=1,
        boundary=Boundary.INCLUSIVE_TRAIN,
        timezone="Europe/Berlin",
        ranker_test_share=0.25,
        seed=7,
        cold_users=Policy.DROP,
        cold_items=Policy.KEEP,
        seen=Policy.DROP,
    )
    assert isinstance(rule.boundary, Boundary)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ({"local_cutt": 0.8}, "UNKNOWN_CONFIG_KEY", "did you mean 'local_cut'"),
        ({"local_cut": 8}, "INVALID_CUT", "allowed"),
        ({"test_days": 0}, "INVALID_SPLIT", "test_days 0 is not above 0"),
        ({"test_days": "14"}, "INVALID_SPLIT", "test_days '14' is not a number"),
        ({"test_days": float("nan")}, "INVALID_SPLIT", "test_days nan"),
        ({"test_days": float("inf")}, "INVALID_SPLIT", "test_days inf"),
        ({"gap_days": -1}, "INVALID_SPLIT", "gap_days -1"),
        ({"gap_days": True}, "INVALID_SPLIT", "gap_days True is not a number"),
        ({"ranker_test_share": 0}, "INVALID_SPLIT", "ranker_test_share 0"),
        ({"ranker_test_share": 1}, "INVALID_SPLIT", "ranker_test_share 1"),
        ({"seed": 1.5}, "INVALID_SPLIT", "seed 1.5 is not a whole number"),
        ({"seed": True}, "INVALID_SPLIT", "seed True is not a whole number"),
        ({"seed": 2**63}, "INVALID_SPLIT", "64 bits"),
        ({"boundary": "inclusive_trian"}, "INVALID_SPLIT", "did you mean 'inclusive_train'"),
        ({"seen": None}, "INVALID_SPLIT", "allowed: drop, keep"),
        ({"cold_users": ["drop"]}, "INVALID_SPLIT", "did you mean 'drop'"),
        ({"local_cut": 0.9}, "INVALID_SPLIT", "share 0.9 is not before share 0.9"),
        ({"local_cut": "7d", "global_cut": "14d"}, "INVALID_SPLIT", "7.0 days back is not before 14.0"),
        ({"local_cut": "2023-02-14", "global_cut": "2023-02-13"}, "INVALID_SPLIT", "is not before"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, object], code: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        rule_of(GLOBAL_LOCAL_RANKER, options)
    assert refused.value.code == code
    assert message in refused.value.message
    assert refused.value.exit_code == 2


def test_a_timeline_without_a_gap_has_no_gaps() -> None:
    assert Timeline.of(GlobalLocalRanker(), 10 * DAY, 20 * DAY, 0, 30 * DAY) == Timeline(
        local_train_end=10 * DAY,
        local_cut=10 * DAY,
        local_test_end=20 * DAY,
        global_cut=20 * DAY,
        end=None,
        oldest=0,
        newest=30 * DAY,
    )


def test_gap_and_end_are_calendar_days_of_the_timezone() -> None:
    local_cut, global_cut = micros("2023-03-27 00:00"), micros("2023-10-29 00:00")
    rule = GlobalLocalRanker(timezone="Europe/Berlin", gap_days=1, test_days=1)
    timeline = Timeline.of(rule, local_cut, global_cut, micros("2023-01-01"), micros("2023-12-31"))
    assert local_cut - timeline.local_train_end == 23 * HOUR
    assert global_cut - timeline.local_test_end == 24 * HOUR
    assert timeline.end == global_cut + 25 * HOUR


@pytest.mark.parametrize(
    ("rule", "local_cut", "global_cut", "fault"),
    [
        (GlobalLocalRanker(), 20, 20, "is not before global_cut (share 0.9) at 1970-01-21 00:00:00+00:00"),
        (GlobalLocalRanker(), 21, 20, "is not before"),
        (GlobalLocalRanker(), 0, 20, "no event is left for local_train"),
        (GlobalLocalRanker(), -5, 20, "no event is left for local_train"),
        (GlobalLocalRanker(gap_days=10), 10, 25, "no event is left for local_train"),
        (GlobalLocalRanker(), 10, 31, "no event is left for global_test"),
        (GlobalLocalRanker(boundary=Boundary.INCLUSIVE_TRAIN), 10, 30, "no event is left for global_test"),
        (GlobalLocalRanker(boundary=Boundary.INCLUSIVE_TRAIN), -1, 20, "no event is left for local_train"),
        (GlobalLocalRanker(gap_days=5), 15, 20, "gap_days 5 leave no time for local_test"),
    ],
)
def test_an_empty_part_is_refused_with_the_span_of_the_log(
    rule: GlobalLocalRanker, local_cut: int, global_cut: int, fault: str
) -> None:
    with pytest.raises(DataError) as refused:
        Timeline.of(rule, local_cut * DAY, global_cut * DAY, 0, 30 * DAY)
    assert refused.value.code == "SPLIT_OUT_OF_RANGE"
    assert fault in refused.value.message
    assert "the log runs from 1970-01-01 00:00:00+00:00 to 1970-01-31 00:00:00+00:00" in refused.value.message


@pytest.mark.parametrize(
    ("boundary", "local_cut", "global_cut"), [(Boundary.EXCLUSIVE, 1, 30), (Boundary.INCLUSIVE_TRAIN, 0, 29)]
)
def test_cuts_may_touch_the_ends_of_the_log(boundary: Boundary, local_cut: int, global_cut: int) -> None:
    assert (
        Timeline.of(GlobalLocalRanker(boundary=boundary), local_cut, global_cut, 0, 30).global_cut
        == global_cut
    )


def test_all_that_is_wrong_with_a_timeline_is_said_at_once() -> None:
    with pytest.raises(SparkEvalError, match=r"is not before .* no event is left for global_test"):
        Timeline.of(GlobalLocalRanker(), 50 * DAY, 40 * DAY, 0, 30 * DAY)
