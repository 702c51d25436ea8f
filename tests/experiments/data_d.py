"""The worked example of experiments: eight users in each arm, as tables and as lists."""

from typing import Any, Final

import pandas as pd

START: Final = pd.Timestamp("2024-05-01T00:00:00Z")
PAST: Final = START - pd.Timedelta(days=3)
IMPRESSIONS: Final = ([10, 20, 5, 8, 40, 0, 12, 15], [10, 25, 6, 9, 30, 7, 0, 18])
CLICKS: Final = ([1, 3, 0, 2, 2, 0, 3, 1], [2, 5, 1, 1, 4, 2, 0, 3])
WATCH: Final = ([120, 300, 30, 90, 500, 0, 160, 200], [150, 380, 20, 140, 450, 60, 10, 260])
PRE_WATCH: Final = ([100, 260, 40, 110, 420, 10, 150, 230], [90, 300, 30, 120, 380, 0, 5, 240])
CTR: Final[dict[str, Any]] = {
    "name": "ctr",
    "kind": "ratio",
    "numerator": {"kind": "click"},
    "denominator": {"kind": "impression"},
}
WATCHED: Final[dict[str, Any]] = {"name": "watch", "kind": "mean", "of": {"kind": "watch"}}
HOME: Final[dict[str, Any]] = {
    "name": "home",
    "control": "c",
    "variants": {"c": 0.5, "t": 0.5},
    "period": ["2024-05-01", "2024-05-08"],
}


def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Exposures and events: an event of each kind, with its number as the value; all users have a past."""
    exposures, events = [], []
    for arm, name in enumerate("ct"):
        for number in range(8):
            user = f"{name}{number}"
            exposures.append((user, name, START))
            events += [
                (user, kind, when, values[arm][number])
                for kind, values, when in (
                    ("impression", IMPRESSIONS, START),
                    ("click", CLICKS, START),
                    ("watch", WATCH, START),
                    ("watch", PRE_WATCH, PAST),
                )
            ]
    return (
        pd.DataFrame(exposures, columns=["user", "variant", "timestamp"]),
        pd.DataFrame(events, columns=["user", "kind", "timestamp", "value"]),
    )
