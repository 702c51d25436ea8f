"""Thirty past experiments from the made-up log: offline lists and online events, with a known correlation."""

from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from spark_eval.demo.online import CLICK_RATE, DAY, DAYS, VIEWS_PER_ROW
from spark_eval.schema import ITEM, RANK, USER

N_EXPERIMENTS: Final = 30
NUMBERS: Final = range(1, N_EXPERIMENTS + 1)
LIST_LENGTH: Final = 10
# Correlation of the true offline and online effects.
RHO: Final = 0.8
# Mean and standard deviation of the strength of a candidate, and of its effect on the CTR.
STRENGTH: Final = (0.1, 0.2)
LIFT: Final = (0.02, 0.1)
MOST_LIFT: Final = 2.0
# Users of an experiment have numbers from a multiple of this.
APART: Final = 10_000_000
# Runs of the lists that were served before each experiment, of those that it tested, and of its week.
BEFORE: Final = "before"
AFTER: Final = "after"
LIVE: Final = "live"


class PastProgramme(NamedTuple):
    """Tables of past experiments, as the verbs read them, and the programme that names their runs.

    ``lists`` has the lists of each experiment's baseline, by ``BEFORE``, and of its candidate, by ``AFTER``.
    """

    lists: dict[str, pd.DataFrame]
    truth: pd.DataFrame
    exposures: pd.DataFrame
    events: pd.DataFrame
    programme: pd.DataFrame


def past_programme(log: pd.DataFrame, seed: int) -> PastProgramme:
    """Return past experiments on a log of userId, movieId and timestamp (seconds).

    The truth is the last film of each user. In every experiment the baseline has it at a random rank among
    popular films, a strong candidate at a better one. Strengths, and the effects on the CTR, are drawn with
    the correlation ``RHO``. Online users are other people, with the activity of users of the log.
    """
    random = np.random.default_rng(seed)
    last = log.sort_values("timestamp", kind="stable").drop_duplicates("userId", keep="last")
    users, films = last["userId"].to_numpy(), last["movieId"].to_numpy()
    popular = log["movieId"].value_counts().index.to_numpy()[: LIST_LENGTH + 1]
    activity = log.groupby("userId").size().reindex(users).to_numpy() / len(log) * len(users)
    end = (int(log["timestamp"].max()) // DAY + 1) * DAY
    scores = random.multivariate_normal([0.0, 0.0], [[1.0, RHO], [RHO, 1.0]], N_EXPERIMENTS)
    lists: dict[str, list[pd.DataFrame]] = {BEFORE: [], AFTER: []}
    exposures, events = [], []
    for number, (offline, online) in enumerate(scores, start=1):
        strength, lift = STRENGTH[0] + STRENGTH[1] * offline, LIFT[0] + LIFT[1] * online
        for run, power in ((BEFORE, 1.0), (AFTER, np.exp(strength))):
            ranks = 1 + np.floor(2 * LIST_LENGTH * random.random(len(users)) ** power).astype(np.int64)
            lists[run].append(lists_with(users, films, ranks, popular).assign(model=name_of(number)))
        shown, happened = online_week(number, activity, end - DAYS * DAY, lift, random)
        exposures.append(shown)
        events.append(happened)
    return PastProgramme(
        lists={run: pd.concat(of_run, ignore_index=True) for run, of_run in lists.items()},
        truth=pd.DataFrame({USER: users, ITEM: films}),
        exposures=pd.concat(exposures, ignore_index=True),
        events=pd.concat(events, ignore_index=True),
        programme=pd.DataFrame(
            {"experiment": [*map(name_of, NUMBERS)], "online_run": LIVE, "offline_run": AFTER}
        ).assign(candidate=lambda rows: rows["experiment"]),
    )


def name_of(number: int) -> str:
    """Return the name of an experiment, and of its model."""
    return f"e{number:02}"


def lists_with(users: Any, films: Any, ranks: Any, popular: Any) -> pd.DataFrame:
    """Return lists of popular films with each user's film at its rank, if the list is long enough."""
    others = np.tile(popular, (len(users), 1))
    # Without the film itself, or else without the least popular one.
    is_other = others != films[:, None]
    is_other[is_other.all(axis=1), -1] = False
    items = others[is_other].reshape(len(users), LIST_LENGTH)
    at = np.arange(1, LIST_LENGTH + 1)
    before = np.where(at[None, :] > ranks[:, None], np.roll(items, 1, axis=1), items)
    items = np.where(at[None, :] == ranks[:, None], films[:, None], before)
    return pd.DataFrame(
        {USER: np.repeat(users, LIST_LENGTH), ITEM: items.ravel(), RANK: np.tile(at, len(users))}
    )


def online_week(
    number: int, activity: Any, start: int, lift: float, random: np.random.Generator
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return exposures and events of an experiment, whose treatment has a CTR that is higher by ``lift``."""
    users = number * APART + np.arange(len(activity))
    times = random.integers(start, start + DAY, len(users))
    is_treated = random.random(len(users)) < 0.5
    views = random.poisson(activity * VIEWS_PER_ROW * DAYS / 4)
    clicks = random.binomial(views, CLICK_RATE * np.where(is_treated, min(1 + lift, MOST_LIFT), 1.0))
    exposures = pd.DataFrame(
        {
            "user": users,
            "timestamp": times,
            "experiment": name_of(number),
            "variant": np.where(is_treated, "treatment", "control"),
        }
    )
    parts = [
        pd.DataFrame({"user": users, "timestamp": times + 1, "kind": kind, "value": values.astype(float)})
        for kind, values in (("view", views), ("click", clicks))
    ]
    happened = pd.concat(parts, ignore_index=True)
    return exposures, happened[happened["value"] > 0]


def programme_settings(log: pd.DataFrame, output: str) -> dict[str, Any]:
    """Return the config of all past experiments, and of their calibration."""
    end = pd.to_datetime((int(log["timestamp"].max()) // DAY + 1) * DAY, unit="s")
    week = {
        "control": "control",
        "variants": {"control": 1, "treatment": 1},
        "period": [str(day.date()) for day in (end - pd.Timedelta(days=DAYS), end)],
    }
    ratio = {
        part: {"kind": kind, "value": "sum"}
        for part, kind in (("numerator", "click"), ("denominator", "view"))
    }
    return {
        "output": {"path": output},
        "recommendations": {"path": f"{output}/{AFTER}.parquet"},
        "truth": {"path": f"{output}/truth.parquet"},
        "evaluate": {"metrics": ["ndcg", "recall"], "k": LIST_LENGTH},
        "compare": {"baseline": {"run": BEFORE}},
        "exposures": {"path": f"{output}/exposures.parquet", "timestamp_unit": "s"},
        "events": {"path": f"{output}/events.parquet", "timestamp_unit": "s"},
        "online": {
            "metrics": [{"name": "ctr", "kind": "ratio", **ratio}],
            "experiments": [{"name": name_of(number), **week} for number in NUMBERS],
        },
        "calibrate": {"programme": f"{output}/programme.csv"},
    }
