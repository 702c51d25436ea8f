"""A week of an online experiment from the made-up log, with a known effect."""

from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa

from spark_eval.experiments.plan import Assignment
from spark_eval.experiments.worker.assignment import hashed_buckets

DAYS: Final = 7
PAST_DAYS: Final = 14
DAY: Final = 86_400
SALT: Final = "demo-ranking"
# Views that a user is shown for each film of the log, and the share of views that are clicked.
VIEWS_PER_ROW: Final = 20
CLICK_RATE: Final = 0.1
# The treatment has this many times as many clicks; what is watched of each click stays the same.
EFFECT: Final = 1.3


def week_of_events(log: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return exposures and events of the last weeks of a log of userId, movieId and timestamp (seconds).

    Users are assigned by the hash of their id. Each row of the log becomes views; a share of them is clicked.
    A click is watched for minutes. In the treatment ``EFFECT`` times as many views are clicked.
    """
    random = np.random.default_rng(seed)
    end = (int(log["timestamp"].max()) // DAY + 1) * DAY
    start = end - DAYS * DAY
    users = np.unique(log["userId"])
    times = random.integers(start, start + DAY, len(users))
    exposures = pd.DataFrame({"user": users, "timestamp": times})
    is_treated = hashed_buckets(pa.array(users), Assignment(SALT, {})) >= Assignment(SALT, {}).buckets // 2
    activity = log.groupby("userId").size().reindex(users, fill_value=0).to_numpy() / len(log) * len(users)
    parts = []
    for day in range(-PAST_DAYS, DAYS):
        views = random.poisson(activity * VIEWS_PER_ROW / 4)
        lift = np.where(is_treated & (day >= 0), EFFECT, 1.0)
        clicks = random.binomial(views, CLICK_RATE * lift)
        for kind, numbers in (("view", views), ("click", clicks), ("watch", clicks)):
            owners = np.repeat(users, numbers)
            since = np.repeat(np.where(day == 0, times - start, 0), numbers)
            seconds = since + (random.random(len(owners)) * (DAY - since)).astype(np.int64)
            minutes = random.gamma(2, 20, len(owners)).round(1) if kind == "watch" else np.ones(len(owners))
            when = start + day * DAY + seconds
            parts.append(pd.DataFrame({"user": owners, "timestamp": when, "kind": kind, "value": minutes}))
    return exposures, pd.concat(parts, ignore_index=True)


def online_settings(log: pd.DataFrame, output: str) -> dict[str, Any]:
    """Return the config of the demo's experiment: its period is the last week of the log."""
    end = pd.to_datetime((int(log["timestamp"].max()) // DAY + 1) * DAY, unit="s")
    period = [str(day.date()) for day in (end - pd.Timedelta(days=DAYS), end)]
    halves = {"control": [0, 5_000], "treatment": [5_000, 10_000]}
    return {
        "output": {"path": output},
        "exposures": {"path": f"{output}/exposures.parquet", "timestamp_unit": "s"},
        "events": {"path": f"{output}/events.parquet", "timestamp_unit": "s"},
        "online": {
            "metrics": [
                {
                    "name": "ctr",
                    "kind": "ratio",
                    "numerator": {"kind": "click"},
                    "denominator": {"kind": "view"},
                },
                {
                    "name": "watched",
                    "kind": "mean",
                    "of": {"kind": "watch", "value": "sum"},
                    "decimals": 1,
                    "role": "guardrail",
                    "margin": 0.1,
                    "margin_kind": "relative",
                },
            ],
            "by": ["hour", "day"],
            "experiments": {
                "name": "ranking",
                "control": "control",
                "variants": {"control": 1, "treatment": 1},
                "period": period,
                "assignment": {"salt": SALT, "ranges": halves},
            },
        },
        "gates": [{"experiment": "ranking", "metric": "ctr", "max_drop": 0}],
    }
