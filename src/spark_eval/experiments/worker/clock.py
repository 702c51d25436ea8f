"""Days and hours of a time zone."""

import numpy as np
import pandas as pd

from spark_eval.arrow.codes import Booleans
from spark_eval.statistics.exact import Ints


def day_starts(times: Ints, is_known: Booleans, timezone: str, days: int) -> tuple[Ints, Ints]:
    """Return the start of the day ``days`` before that of each time, and of its own day; both shape (n,).

    Days follow the clock of the time zone. Times that are not known stay as they are.
    """
    midnight = local_times(times[is_known], timezone).normalize()
    start, own = times.copy(), times.copy()
    own[is_known] = instants(midnight, timezone)
    start[is_known] = instants(midnight - pd.Timedelta(days=days), timezone)
    return start, own


def local_times(times: Ints, timezone: str) -> pd.DatetimeIndex:
    """Return the wall clock at each time, without a time zone."""
    return pd.to_datetime(times, unit="us", utc=True).tz_convert(timezone).tz_localize(None)


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
