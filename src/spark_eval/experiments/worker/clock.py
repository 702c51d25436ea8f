"""Days and hours of a time zone."""

from functools import lru_cache

import numpy as np
import pandas as pd

from spark_eval.statistics.exact import Ints


def day_starts(own: Ints, timezone: str, days: int) -> tuple[Ints, Ints]:
    """Return the start of the day ``days`` before each day, and of the day itself; both shape (n,).

    Days are numbers since 1970, and follow the clock of the time zone.

    >>> [starts.tolist() for starts in day_starts(np.array([19844]), "UTC", 1)]
    [[1714435200000000], [1714521600000000]]
    """
    if not len(own):
        return own, own
    first = int(own.min()) - days
    midnights = starts_of_days(timezone, first, int(own.max()) + 1)
    return midnights[own - days - first], midnights[own - first]


@lru_cache(maxsize=1024)
def day_start_before(time: int, timezone: str, days: int) -> int:
    """Return the start of the day that is ``days`` before the day of a time."""
    return int(day_starts(local_days(np.array([time]), timezone), timezone, days)[0][0])


@lru_cache(maxsize=64)
def starts_of_days(timezone: str, first: int, end: int) -> Ints:
    """Return the instants at which the days from ``first`` to ``end`` begin, in days since 1970."""
    return instants(
        pd.DatetimeIndex(np.arange(first, end).astype("datetime64[D]").astype("datetime64[us]")), timezone
    )


def local_times(times: Ints, timezone: str) -> pd.DatetimeIndex:
    """Return the wall clock at each time, without a time zone."""
    instants = pd.DatetimeIndex(times.view("datetime64[us]"))
    return instants.tz_localize("UTC").tz_convert(timezone).tz_localize(None)


def instants(midnights: pd.DatetimeIndex, timezone: str) -> Ints:
    """Return the instants of midnights, in microseconds; the next hour if the clock skips one."""
    first = np.ones(len(midnights), dtype=bool)
    zoned = midnights.tz_localize(timezone, ambiguous=first, nonexistent="shift_forward")
    utc = zoned.tz_convert("UTC").tz_localize(None)
    return utc.to_numpy().astype("datetime64[us]").astype(np.int64)


def local_days(times: Ints, timezone: str) -> Ints:
    """Return the number of days since 1970 on the wall clock at each time (n,)."""
    days = local_times(times, timezone).to_numpy().astype("datetime64[D]")
    return days.astype(np.int64)


def local_hours(times: Ints, timezone: str) -> Ints:
    """Return the hour on the wall clock at each time (n,)."""
    return np.asarray(local_times(times, timezone).hour, dtype=np.int64)


def day_name(day: int) -> str:
    """Return the date of a number of days since 1970.

    >>> day_name(19844)
    '2024-05-01'
    """
    return str(np.datetime64(day, "D"))
