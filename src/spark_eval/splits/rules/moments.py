"""Cuts and calendar days.

Resolved times are integer microseconds since the epoch (UTC).
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Final
from zoneinfo import ZoneInfo

from spark_eval.errors import ConfigError, DataError

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
MICROSECONDS_PER_DAY: Final = 86_400_000_000
YEAR: Final = 3_652_425 * MICROSECONDS_PER_DAY // 10_000
# Microseconds per unit of integer timestamps.
UNITS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}
# Plausible range of a log's newest timestamp.
FIRST_YEAR: Final = datetime(1990, 1, 1, tzinfo=UTC)
LAST_YEAR: Final = datetime(2100, 1, 1, tzinfo=UTC)
MAX_DAYS: Final = date.max.toordinal()
DAYS_BACK: Final = re.compile(r"\d+(\.\d+)?d")
ALLOWED_CUTS: Final = (
    "allowed: a share of the log between 0 and 1 (0.8 or {share: 0.8}), an instant ('2023-02-14T00:00:00' or "
    "{instant: '2023-02-14 00:00:00'}), days back from the newest event ('14d' or {days: 14})"
)


class Boundary(StrEnum):
    """Side of the rows at the instant of the cut: train < cut <= test, or train <= cut < test."""

    EXCLUSIVE = "exclusive"
    INCLUSIVE_TRAIN = "inclusive_train"

    def before(self, at: int, cut: int) -> bool:
        """Return True if ``at`` is on the train side of ``cut``."""
        return at < cut if self is Boundary.EXCLUSIVE else at <= cut


@dataclass(frozen=True)
class Instant:
    """Cut at a given instant; ``at`` has a timezone."""

    at: datetime

    def __post_init__(self) -> None:
        if self.at.utcoffset() is None:
            raise ConfigError("INVALID_CUT", f"the instant {self.at} has no timezone; {ALLOWED_CUTS}")

    def __str__(self) -> str:
        return self.at.isoformat(sep=" ")


@dataclass(frozen=True)
class DaysBack:
    """Cut this many days before the newest event: calendar days if whole, otherwise days of 24 hours."""

    days: float

    def __post_init__(self) -> None:
        if not 0 < self.days <= MAX_DAYS:
            raise ConfigError("INVALID_CUT", f"{self} is not above 0; {ALLOWED_CUTS}")

    def __str__(self) -> str:
        return f"{self.days} days back"


@dataclass(frozen=True)
class Share:
    """Cut with this share of the log's rows, oldest first, on its train side.

    Rows with equal timestamps stay together: those at the cut are test rows (``exclusive``) or train rows
    (``inclusive_train``), so the actual share may be slightly smaller or larger.
    """

    share: Fraction

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ConfigError("INVALID_CUT", f"{self} is not in (0, 1); {ALLOWED_CUTS}")

    def __str__(self) -> str:
        return f"share {float(self.share)}"

    def index(self, n_rows: int, boundary: Boundary) -> int:
        """Return the index, among all rows sorted by time, of the row with the timestamp of the cut.

        >>> Share(Fraction(1, 2)).index(5, Boundary.EXCLUSIVE)  # two rows before it
        2
        >>> Share(Fraction(1, 2)).index(5, Boundary.INCLUSIVE_TRAIN)  # the third is still train
        2
        >>> Share(Fraction(1, 2)).index(4, Boundary.INCLUSIVE_TRAIN)
        1
        """
        rows = self.share * n_rows
        return math.floor(rows) if boundary is Boundary.EXCLUSIVE else math.ceil(rows) - 1


Cut = Instant | DaysBack | Share


def parse_cut(value: object, timezone: str) -> Cut:
    """Parse a cut in any form that configs and callers may use; ``timezone`` applies if it has no offset.

    Raises ConfigError INVALID_CUT, naming the forms, or INVALID_TIMEZONE.
    """
    try:
        match _form(value):
            case _, (Instant() | DaysBack() | Share()) as cut:
                return cut
            case "share", (int() | float() | Decimal() | Fraction()) as share if share is not True:
                return Share(Fraction(str(share)))
            case "days", (int() | float()) as days if days is not True:
                return DaysBack(days)
            case "instant", (str() | date()) as at:
                return Instant(_aware(at, zone(timezone)))
    except ValueError:
        pass  # neither a number nor a date: the error below covers it
    raise ConfigError("INVALID_CUT", f"cannot read the cut {value!r}; {ALLOWED_CUTS}")


def _form(value: object) -> tuple[object, object]:
    """Return form and content of a written cut; the form is None if unknown."""
    match value:
        case float() | Decimal() | Fraction():
            return "share", value
        case str() if DAYS_BACK.fullmatch(value):
            return "days", float(value.removesuffix("d"))
        case str() | date():
            return "instant", value
        case Mapping() if len(value) == 1:
            return next(iter(value.items()))
    return None, value


def _aware(at: str | date, zone: ZoneInfo) -> datetime:
    moment = datetime.fromisoformat(at) if isinstance(at, str) else at
    if not isinstance(moment, datetime):
        moment = datetime.combine(moment, time.min)
    return moment if moment.utcoffset() is not None else moment.replace(tzinfo=zone)


def zone(timezone: str) -> ZoneInfo:
    """Return the timezone with this IANA name; raise ConfigError INVALID_TIMEZONE."""
    try:
        return ZoneInfo(timezone)
    except (KeyError, ValueError, OSError, TypeError, AttributeError):
        raise ConfigError(
            "INVALID_TIMEZONE",
            f"unknown timezone {timezone!r}; give an IANA name such as UTC or Europe/Berlin",
        ) from None


def to_microseconds(at: datetime) -> int:
    """Convert an aware datetime to exact microseconds since the epoch."""
    return (at - EPOCH) // MICROSECOND


def check_unit(newest: int, unit: str) -> None:
    """Raise DataError TIMESTAMP_UNIT_SUSPECT if the newest timestamp is plausible in another unit only.

    Plausible are the years 1990 to 2099; ``unit`` is s, ms or us. Timestamps that are plausible in no unit,
    such as counters from 1, are accepted.
    """
    if is_likely(newest):
        return
    for other, size in UNITS.items():
        elsewhere = newest // UNITS[unit] * size
        if is_likely(elsewhere):
            raise DataError(
                "TIMESTAMP_UNIT_SUSPECT",
                f"interactions: the newest timestamp, {newest // UNITS[unit]}, is in the year "
                f"{1970 + newest // YEAR} in {unit}, and in {1970 + elsewhere // YEAR} in {other}; "
                f"set timestamp_unit: {other}, or fix the row",
            )


def is_likely(at: int) -> bool:
    """Return True if a timestamp in microseconds is in the plausible range."""
    return to_microseconds(FIRST_YEAR) <= at < to_microseconds(LAST_YEAR)


def plus_days(at: int, days: float, zone: ZoneInfo) -> int:
    """Move ``at`` by days; whole days preserve the wall time in ``zone``.

    A wall time that the clocks skip there is moved forward by the skipped hour. Fractional days are days of
    24 hours. Raises DataError SPLIT_OUT_OF_RANGE beyond the years 1 to 9999.
    """
    if days == 0 or days != int(days):
        return at + round(days * MICROSECONDS_PER_DAY)
    try:
        wall = (EPOCH + at * MICROSECOND).astimezone(zone)
        return to_microseconds(wall + timedelta(days=int(days)))
    except OverflowError:
        raise DataError(
            "SPLIT_OUT_OF_RANGE",
            f"{days:+g} days from {readable(at, zone)} leave the years 1 to 9999; is timestamp_unit right?",
        ) from None


def readable(at: int, zone: ZoneInfo) -> str:
    """Format ``at`` as date and time in ``zone``, for messages."""
    try:
        return (EPOCH + at * MICROSECOND).astimezone(zone).isoformat(sep=" ")
    except OverflowError:
        return f"{at} microseconds since 1970"


def refuse_span(faults: Sequence[str], oldest: int, newest: int, zone: ZoneInfo, hint: str = "") -> None:
    """Raise DataError SPLIT_OUT_OF_RANGE with all ``faults``, if any, and the time span of the log."""
    if faults:
        span = f"the log runs from {readable(oldest, zone)} to {readable(newest, zone)}"
        raise DataError("SPLIT_OUT_OF_RANGE", "; ".join([*faults, span, *([hint] if hint else [])]))
