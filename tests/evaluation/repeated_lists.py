"""Lists of several repeats of a model: the worked example of docs/repeats.md, and drawn ones."""

from typing import Final

import numpy as np
import pandas as pd

# Precision at 10 of six users, by model and repeat.
WORKED: Final = {
    "A": {
        "1": [0.2, 0.4, 0.0, 0.6, 0.8, 0.1],
        "2": [0.3, 0.5, 0.1, 0.6, 0.7, 0.2],
        "3": [0.2, 0.6, 0.0, 0.8, 0.8, 0.3],
    },
    "B": {"1": [0.1, 0.3, 0.0, 0.5, 0.9, 0.0], "2": [0.2, 0.4, 0.1, 0.5, 0.8, 0.1]},
}
LIST_COLUMNS: Final = ["model", "repeat", "user", "item", "rank"]


def lists_of(values: dict[str, dict[str, list[float]]]) -> pd.DataFrame:
    """Lists of ten items with these precisions, if the truth of each user is the items 1 to 10."""
    rows = []
    for model, repeats in values.items():
        for repeat, of_users in repeats.items():
            for user, value in enumerate(of_users):
                n_hits = round(10 * value)
                rows += [(model, repeat, user, r if r <= n_hits else 100 + r, r) for r in range(1, 11)]
    return pd.DataFrame(rows, columns=LIST_COLUMNS)


def truth_of(n_users: int) -> pd.DataFrame:
    """The items 1 to 10 of each user."""
    return pd.DataFrame(
        [(user, item) for user in range(n_users) for item in range(1, 11)], columns=["user", "item"]
    )


def worked() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Lists with the worked precisions, and their truth."""
    return lists_of(WORKED), truth_of(6)


def drawn(*, by_request: bool = False) -> dict[str, pd.DataFrame]:
    """Lists of three models with 4, 2 and 1 repeats; some users lack a list or truth."""
    draw = np.random.default_rng(8)
    lists, truth = [], []
    repeats = {"als": ["s1", "s10", "s2", "s3"], "bpr": ["x", "y"], "pop": ["only"]}
    for user in range(40):
        for request in range(draw.integers(1, 4) if by_request else 1):
            if draw.random() < 0.9:
                items = draw.choice(30, draw.integers(1, 9), replace=False)
                truth += [(user, request, int(item), float(draw.integers(1, 4))) for item in items]
            for model, names in repeats.items():
                for repeat in names:
                    if draw.random() < 0.9:
                        items = draw.choice(30, 8, replace=False)
                        lists += [
                            (model, repeat, user, request, int(item), rank)
                            for rank, item in enumerate(items, 1)
                        ]
    names = ["model", "repeat", "user", "request", "item", "rank"]
    frames = {
        "recommendations": pd.DataFrame(lists, columns=names),
        "truth": pd.DataFrame(truth, columns=["user", "request", "item", "relevance"]),
    }
    return frames if by_request else {name: frame.drop(columns="request") for name, frame in frames.items()}
