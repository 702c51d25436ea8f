"""Rules of a split without a JVM: cuts as people write them, calendar days, timelines and their limits."""

import doctest
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest

from spark_eval.errors import ConfigError, DataError, SparkEvalError
from spark_eval.splits import moments
from spark_eval.splits.moments import (
    MICROSECONDS_PER_DAY,
    Boundary,
    DaysBack,
    Instant,
    Share,
    parse_cut,
    plus_days,
    readable,
    to_microseconds,
    zone,
)
from spark_eval.splits.rules import GlobalLocalRanker, Policy, Timeline

BERLIN = ZoneInfo("Europe/Berlin")
HOUR = 3_600_000_000
DAY = MICROSECONDS_PER_DAY


def micros(text: str, clock: ZoneInfo = BERLIN) -> int:
    return to_microseconds(datetime.fromisoformat(text).replace(tzinfo=clock))


def test_examples_in_docstrings_hold() -> None:
    assert doctest.testmod(moments).failed == 0
    assert doctest.testmod(moments).attempted > 0


@pytest.mark.parametrize(
    ("written", "cut"),
    [
        (0.8, Share(Fraction(4, 5))),
        (Decimal("0.8"), Share(Fraction(4, 5))),
        (Fraction(1, 3), Share(Fraction(1, 3))),
        ({"share": 0.8}, Share(Fraction(4, 5))),
        (Share(Fraction(1, 7)), Share(Fraction(1, 7))),
        ("14d", DaysBack(14)),
        ("0.5d", DaysBack(0.5)),
        ({"days": 14}, DaysBack(14)),
        ({"days": 1.5}, DaysBack(1.5)),
        ("2023-02-14T00:00:00", Instant(datetime(2023, 2, 14, tzinfo=BERLIN))),
        ({"instant": "2023-02-14 00:00:00"}, Instant(datetime(2023, 2, 14, tzinfo=BERLIN))),
        ("2023-02-14T00:00:00Z", Instant(datetime(2023, 2, 14, tzinfo=UTC))),
        ("2023-02-14T00:00:00-08:00", Instant(datetime(2023, 2, 14, 8, tzinfo=UTC))),
        (datetime(2023, 2, 14), Instant(datetime(2023, 2, 14, tzinfo=BERLIN))),
        (
            datetime(2023, 2, 14, tzinfo=timezone(timedelta(hours=3))),
            Instant(datetime(2023, 2, 13, 21, tzinfo=UTC)),
        ),
        (date(2023, 2, 14), Instant(datetime(2023, 2, 14, tzinfo=BERLIN))),
        ({"instant": date(2023, 2, 14)}, Instant(datetime(2023, 2, 14, tzinfo=BERLIN))),
    ],
)
def test_a_cut_is_read_in_every_form(written: object, cut: object) -> None:
    assert parse_cut(written, "Europe/Berlin") == cut


@pytest.mark.parametrize(
    "written",
    [
        14,
        True,
        None,
        [0.8],
        "",
        "0.8",
        "14 days",
        "-3d",
        "0d",
        "14/02/2023",
        "tomorrow",
        {},
        {"share": "0.8"},
        {"share": True},
        {"days": True},
        {"days": "14"},
        {"day": 14},
        {"instant": 1676332800},
        {"share": 0.8, "days": 14},
        0.0,
        1.0,
        1.5,
        -0.1,
        float("nan"),
        float("inf"),
        {"share": 1},
        {"days": 0},
        {"days": -1},
        {"days": float("nan")},
        {"days": 1e12},
    ],
)
def test_what_is_no_cut_is_refused_with_what_is_allowed(written: object) -> None:
    with pytest.raises(ConfigError, match="allowed: a share") as refused:
        parse_cut(written, "UTC")
    assert refused.value.code == "INVALID_CUT"


def test_an_instant_needs_a_zone() -> None:
    with pytest.raises(ConfigError, match="INVALID_CUT"):
        Instant(datetime(2023, 2, 14))


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "../UTC", "America", "CET+1", 3])
def test_an_unknown_timezone_is_refused(name: object) -> None:
    with pytest.raises(ConfigError, match="INVALID_TIMEZONE"):
        GlobalLocalRanker.of({"timezone": name})


@pytest.mark.parametrize(
    ("share", "n_rows", "exclusive", "inclusive"),
    [
        ("0.8", 10, 8, 7),
        ("0.8", 9, 7, 7),
        ("0.9", 10, 9, 8),
        ("0.1", 1, 0, 0),
        ("0.999", 3, 2, 2),
        # 0.29 * 100 is 28.999... in floating point
        ("0.29", 100, 29, 28),
        # 0.7 * 10**17 has more digits than a double
        ("0.7", 100_000_000_000_000_001, 70_000_000_000_000_000, 70_000_000_000_000_000),
    ],
)
def test_a_share_is_counted_exactly(share: str, n_rows: int, exclusive: int, inclusive: int) -> None:
    cut = parse_cut(float(share), "UTC")
    assert isinstance(cut, Share)
    assert cut.index(n_rows, Boundary.EXCLUSIVE) == exclusive
    assert cut.index(n_rows, Boundary.INCLUSIVE_TRAIN) == inclusive


@pytest.mark.parametrize(
    ("start", "days", "end"),
    [
        ("2023-03-25 12:00", 1, "2023-03-26 12:00"),
        ("2023-03-26 12:00", -1, "2023-03-25 12:00"),
        ("2023-10-28 12:00", 1, "2023-10-29 12:00"),
        ("2023-03-20 00:00", 14, "2023-04-03 00:00"),
        ("2023-03-26 12:00", 0, "2023-03-26 12:00"),
    ],
)
def test_whole_days_keep_the_wall_time(start: str, days: float, end: str) -> None:
    assert plus_days(micros(start), days, BERLIN) == micros(end)


def test_the_day_when_clocks_go_forward_has_23_hours() -> None:
    noon = micros("2023-03-26 12:00")
    assert noon - plus_days(noon, -1, BERLIN) == 23 * HOUR
    assert noon - plus_days(noon, -1, zone("UTC")) == 24 * HOUR
    assert noon - plus_days(noon, -0.5, BERLIN) == 12 * HOUR


def test_a_wall_time_that_clocks_skip_moves_on_by_the_hour_skipped() -> None:
    assert plus_days(micros("2023-03-25 02:30"), 1, BERLIN) == micros("2023-03-26 03:30")


def test_no_days_leave_the_second_of_two_equal_wall_times() -> None:
    second = to_microseconds(datetime(2023, 10, 29, 2, 30, fold=1, tzinfo=BERLIN))
    assert plus_days(second, 0, BERLIN) == second


@pytest.mark.parametrize("at", [2**62, -(2**62), to_microseconds(datetime(9999, 12, 31, tzinfo=UTC))])
def test_days_beyond_the_calendar_are_refused(at: int) -> None:
    with pytest.raises(DataError, match=r"SPLIT_OUT_OF_RANGE.*is timestamp_unit right"):
        plus_days(at, 5, zone("UTC"))


def test_times_are_readable_even_beyond_the_calendar() -> None:
    assert readable(micros("2023-02-14 00:00"), BERLIN) == "2023-02-14 00:00:00+01:00"
    assert readable(2**62, BERLIN) == f"{2**62} microseconds since 1970"


def test_the_defaults_need_no_options() -> None:
    assert GlobalLocalRanker.of({}) == GlobalLocalRanker()
    assert GlobalLocalRanker().local_cut == Share(Fraction(4, 5))
    assert GlobalLocalRanker().global_cut == Share(Fraction(9, 10))


def test_a_rule_is_read_from_plain_values() -> None:
    rule = GlobalLocalRanker.of(
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
        }
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
        GlobalLocalRanker.of(options)
    assert refused.value.code == code
    assert message in refused.value.message
    assert refused.value.exit_code == 2


def test_a_timeline_without_a_gap_has_no_gaps() -> None:
    assert Timeline.of(GlobalLocalRanker(), 10 * DAY, 20 * DAY, 0, 30 * DAY) == Timeline(
        local_train_end=10 * DAY, local_cut=10 * DAY, local_test_end=20 * DAY, global_cut=20 * DAY, end=None
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
