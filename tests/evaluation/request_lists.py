"""Lists by request, by hand and by chance."""

from typing import Final

import numpy as np
import pandas as pd

# Precision at 10 of models a and b, by user and request: the worked example of docs/requests.md.
WORKED: Final = {
    "a": {"ann": [0.5, 0.2, 0.0], "bob": [1.0], "cid": [0.3, 0.7], "dan": [0.0, 0.4, 0.1, 0.6]},
    "b": {"ann": [0.6, 0.4, 0.1], "bob": [0.8], "cid": [0.3, 0.9], "dan": [0.0, 0.2, 0.3, 0.6]},
}


def worked() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Lists with these precisions, and their truth."""
    lists, truth = [], []
    for model, users in WORKED.items():
        for user, values in users.items():
            for request, value in enumerate(values):
                ranks = range(1, 11)
                lists += [(model, user, request, r if r <= round(10 * value) else 100 + r, r) for r in ranks]
                truth += [(user, request, item) for item in ranks]
    names = ["model", "user", "request", "item", "rank"]
    return pd.DataFrame(lists, columns=names), pd.DataFrame(truth, columns=names[1:4]).drop_duplicates()


def drawn(*, by_fold: bool = False) -> dict[str, pd.DataFrame]:
    """Lists of two models with ties, users with one to five requests, some without a list or truth."""
    draw = np.random.default_rng(5)
    lists, truth = [], []
    for user in range(30):
        for request in range(draw.integers(1, 6)):
            key = (user, f"{request}{'é' * (user % 3)}", int(draw.integers(0, 2)) if by_fold else 0)
            for model in ("als", "pop"):
                if draw.random() < 0.9:
                    items = draw.choice(40, 8, replace=False)
                    lists += [(model, *key, int(item), draw.integers(0, 5) / 2) for item in items]
            if draw.random() < 0.85:
                items = draw.choice(40, draw.integers(1, 12), replace=False)
                truth += [(*key, int(item), float(draw.integers(1, 4))) for item in items]
    keys = ["user", "request", "fold"]
    frames = {
        "recommendations": pd.DataFrame(lists, columns=["model", *keys, "item", "score"]),
        "truth": pd.DataFrame(truth, columns=[*keys, "item", "relevance"]),
    }
    return frames if by_fold else {name: frame.drop(columns="fold") for name, frame in frames.items()}
