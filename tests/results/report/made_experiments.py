"""Two experiments: one that wins and depends on a segment, and one that a guardrail stops."""

from typing import Any, Final

import numpy as np
import pandas as pd

from spark_eval import evaluate_experiments
from spark_eval.experiments.evaluate import Experiments

NOON: Final = pd.Timestamp("2024-05-02T12:00:00Z")
METRICS: Final[list[dict[str, Any]]] = [
    {"name": "watch", "kind": "mean", "of": {"kind": "watch"}, "cuped": True},
    {
        "name": "buys",
        "kind": "mean",
        "of": {"kind": "buy", "value": "any"},
        "role": "guardrail",
        "margin": 0.02,
        "margin_kind": "relative",
    },
]
# Factors on what the treatment watches in the morning and in the evening, and its share of buyers.
WORLDS: Final = {"home": ((0.9, 1.3), 0.5), "search": ((1.1, 1.1), 0.3)}
N_USERS: Final = 2_000


def experiments(lost: float = 0.0) -> Experiments:
    """Return the result; ``lost`` is the share of the treatment's users of ``home`` that is not logged."""
    exposures, events = [], []
    for at, (name, (watched, bought)) in enumerate(WORLDS.items()):
        random = np.random.default_rng(at)
        users = np.arange(N_USERS) + at * N_USERS
        treated, hour = users % 2 == 1, users // 2 % 2
        is_logged = ~treated | (name != "home") | (random.random(N_USERS) >= lost)
        minutes = random.gamma(8, 6, N_USERS) * np.where(treated, np.array(watched)[hour], 1.0)
        buys = random.random(N_USERS) < np.where(treated, bought, 0.4)
        frame = pd.DataFrame(
            {
                "experiment": name,
                "user": users,
                "variant": np.where(treated, "new", "old"),
                "timestamp": NOON,
                "age": np.where(hour == 1, "10", "9"),
            }
        )
        exposures.append(frame[is_logged])
        watches = pd.DataFrame({"user": users, "kind": "watch", "value": minutes.round(), "timestamp": NOON})
        bought_ones = pd.DataFrame({"user": users[buys], "kind": "buy", "value": 1.0, "timestamp": NOON})
        events += [watches, bought_ones]
    made = [
        {
            "name": name,
            "control": "old",
            "variants": {"old": 1, "new": 1},
            "period": ["2024-05-01", "2024-05-08"],
            "by": ["age"],
        }
        for name in WORLDS
    ]
    return evaluate_experiments(pd.concat(exposures), pd.concat(events), METRICS, made)
