"""Moments without a JVM: cuts as people write them, exact shares, calendar days."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest

from spark_eval.errors import ConfigError, DataError
from spark_eval.splits.rules.moments import (
    MICROSECONDS_PER_DAY,
    UNITS,
    Boundary,
    DaysBack,
    Instant,
    Share,
    check_unit,
    parse_cut,
    plus_days,
    readable,
    to_microseconds,
    zone,
)

BERLIN = ZoneInfo("Europe/Berlin")
HOUR = 3_600_000_000
DAY = MICROSECONDS_PER_DAY


def micros(text: str, clock: ZoneInfo = BERLIN) -> int:
    return to_microseconds(datetime.fromisoformat(text).replace(tzinfo=clock))


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


@pytest.mark.parametrize(
    ("value", "unit", "other"),
    [
        (1_700_000_000, "ms", "s"),
        (1_700_000_000, "us", "s"),
        (1_700_000_000_000, "s", "ms"),
        (1_700_000_000_000, "us", "ms"),
        (1_700_000_000_000_000, "ms", "us"),
        (631_152_000, "ms", "s"),
    ],
)
def test_a_unit_that_puts_the_log_out_of_our_days(value: int, unit: str, other: str) -> None:
    with pytest.raises(DataError, match=f"TIMESTAMP_UNIT_SUSPECT.*{value}.*set timestamp_unit: {other},"):
        check_unit(value * UNITS[unit], unit)
    check_unit(value * UNITS[other], other)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("value", [0, 1, 100, 86_400 * 30, -5])
def test_small_numbers_are_counted_from_1970_in_any_unit(value: int, unit: str) -> None:
    check_unit(value * UNITS[unit], unit)
