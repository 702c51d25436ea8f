"""Sums of pairs in the workers, against rational arithmetic user by user."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from tests.comparison.plain_pairs import plain_clusters, plain_sums, population_of, table_of

from spark_eval.comparison.worker.sums import N_COMMON, BucketTotals, cluster_sums, pair_sums, sum_bucket
from spark_eval.users import products
from spark_eval.users.cells import EVERYBODY
from spark_eval.users.population import BASELINE, CANDIDATE, ComparisonTask

COLUMNS = ("ap_at_5", "dcg_at_5")


def made_up(generator: np.random.Generator, n: int, *, folds: int = 0, gaps: bool = False) -> pd.DataFrame:
    """Users with tied values, long fractions, tiny and large values, and two segments."""
    users = pd.DataFrame({"user": np.sort(generator.choice(4 * n, n, replace=False))})
    if folds:
        users = users.loc[np.repeat(users.index, folds)].reset_index(drop=True)
        users["fold"] = np.tile(np.arange(folds), n).astype(np.int32)
        users = users[generator.random(len(users)) < 0.8]
    size = len(users)
    users["ap_at_5"] = generator.choice([0.0, 0.2, 0.4, 0.6, 1.0, 1 / 3, -1e-20], size)
    users["dcg_at_5"] = generator.random(size) * generator.choice([1.0, 1e-12, 700.0], size)
    if gaps:
        users.loc[generator.random(size) < 0.2, "ap_at_5"] = np.nan
    users["country"] = users["user"].map(lambda user: ["at", "be", None][user % 3])
    users["age"] = users["user"].map(lambda user: str(user % 7))
    return users.reset_index(drop=True)


def joined(one: pd.DataFrame, other: pd.DataFrame, column: str, keys: Sequence[str]) -> pd.DataFrame:
    """Rows that both have, with the values of both and the segments of the second."""
    both = one[[*keys, column]].merge(other, on=list(keys), suffixes=("_a", ""))
    both = both.rename(columns={f"{column}_a": "a", column: "b"})
    return both.fillna({"country": "(missing)"})


def check(found: BucketTotals, models: Sequence[pd.DataFrame], task: ComparisonTask) -> None:
    """Compare every cell with plain sums."""
    for pair, (left, right) in enumerate(zip(*task.ends, strict=True)):
        for column, name in enumerate(task.columns):
            rows = joined(models[left], models[right], name, task.keys)
            for cell, (segment, value) in enumerate(found.totals.cells):
                own = rows if segment == "all" else rows[rows[segment].astype(str) == value]
                sums = pair_sums(found.totals, (cell, pair, column))
                assert sums == plain_sums(own)
                assert found.totals.count(N_COMMON, (cell, pair, column)) == len(own)
                if task.by_fold:
                    of_users = found.clusters.cells.index((segment, value))
                    assert cluster_sums(found.clusters, (of_users, pair, column), sums) == plain_clusters(own)


MATCHES = {
    "one pair": (2, [(slice(0, 1), slice(1, 2))]),
    "one baseline": (3, [(slice(0, 1), slice(1, 3))]),
    "all pairs": (3, [(slice(0, 1), slice(1, 3)), (slice(1, 2), slice(2, 3))]),
    "equal names": (4, [(slice(0, 2), slice(2, 4))]),
}


@pytest.mark.parametrize("matches", MATCHES)
@pytest.mark.parametrize("folds", [0, 3])
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("same_users", [False, True])
def test_sums_of_pairs_are_those_of_rational_arithmetic(
    matches: str, folds: int, gaps: bool, same_users: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "AT_ONCE", 256)
    monkeypatch.setattr(products, "MOST_USERS", 37)
    generator = np.random.default_rng(len(matches) + folds)
    n_models, pairs = MATCHES[matches]
    models = [made_up(generator, 60, folds=folds, gaps=gaps) for _ in range(n_models)]
    if same_users:
        keys = [name for name in ("user", "fold") if name in models[0]]
        values = models[0][[*keys, "country", "age"]]
        models = [
            values.assign(**{name: generator.permutation(models[0][name]) for name in COLUMNS})
            for _ in models
        ]
    sides = [(BASELINE if place == 0 else CANDIDATE, str(place)) for place in range(n_models)]
    segments = ("country", "age", "fold") if folds else ("country", "age")
    task = ComparisonTask(sides, pairs, COLUMNS, segments, by_fold=folds > 0, moved=("country", "age"))
    shuffled = [one.sample(frac=1, random_state=7) if not same_users else one for one in models]
    found = sum_bucket(population_of(task, [table_of(one) for one in shuffled]))
    check(found, models, task)
    assert found.totals.cells[0] == EVERYBODY


def test_sums_of_buckets_add() -> None:
    generator = np.random.default_rng(3)
    models = [made_up(generator, 90), made_up(generator, 90)]
    task = ComparisonTask(
        [(BASELINE, "a"), (CANDIDATE, "b")], [(slice(0, 1), slice(1, 2))], COLUMNS, ("age",)
    )
    parts = [
        sum_bucket(population_of(task, [table_of(one[one["user"] % 5 == part]) for one in models]))
        for part in range(5)
    ]
    whole, *others = parts
    for part in others:
        whole += part
    check(whole, models, task)
