"""Random tables of lists and truth, whose items have genres."""

import random
from typing import Any

import pandas as pd


def tables_of(seed: int, *, by_request: bool = False, by_fold: bool = False) -> dict[str, pd.DataFrame]:
    """Return random tables: two models, repeated and unknown items, several genres or none."""
    source, n_users, n_items = random.Random(seed), 40, 30
    owners = [
        {"user": user}
        | ({"request": f"{user}-{number}"} if by_request else {})
        | ({"fold": user % 2} if by_fold else {})
        for user in range(n_users)
        for number in range(1 + (user % 3 if by_request else 0))
    ]
    lists = [
        {"model": model, **owner, "item": item, "score": source.randrange(4) / 4}
        for model in ("als", "bpr")
        for owner in owners
        if owner["user"] % 9
        for item in source.sample(range(n_items), source.randrange(1, 9))
    ]
    keys = {tuple((name, owner[name]) for name in owner if name != "request") for owner in owners}
    truth = [
        {**dict(key), "item": item, "relevance": source.randrange(4)}
        for key in sorted(keys)
        for item in source.sample(range(n_items), source.randrange(1, 8))
    ]
    genres = ["action", "drama", "horror"]
    items = [
        {"item": item, "genre": "|".join(sorted(source.sample(genres, source.randrange(3)))) or None}
        for item in range(n_items - 3)
    ]
    train = [
        {"user": source.randrange(n_users), "item": min(source.randrange(30), source.randrange(29))}
        for _ in range(300)
    ]
    tables: dict[str, Any] = {"lists": lists, "truth": truth, "items": items, "train": train}
    return {name: pd.DataFrame(rows) for name, rows in tables.items()}
