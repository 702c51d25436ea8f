"""Ids are names: integers of any size and sign, and text, give the numbers of small ids."""

from typing import Any, Final

import numpy as np
import pandas as pd
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.comparison.plain_pairs import plain_clusters

from spark_eval import compare, evaluate

COLUMN: Final = "ndcg_at_5"
N_USERS: Final = 7
LEAST, MOST = -(2**63), 2**63 - 1
# Ids of 63-bit hashes, of clocks, below zero, in a row, and at the ends.
INTEGERS: Final = st.one_of(
    st.integers(LEAST, MOST),
    st.integers(MOST - 40, MOST),
    st.integers(LEAST, LEAST + 40),
    st.integers(-20, 20),
    st.integers(4611686018427387904, 4611686018427387944),
)
IDS: Final = st.lists(INTEGERS, min_size=N_USERS, max_size=N_USERS, unique=True)
LARGE: Final = [4611686018427387912 + 12 * number for number in range(N_USERS)]
NEGATIVE: Final = list(range(-N_USERS, 0))


def draw_rows(key: str, n_values: int, seed: int) -> pd.DataFrame:
    """Rows of users 0 to 6, several each, with a device and the values a and b of two models."""
    generator = np.random.default_rng(seed)
    rows = [(user, number) for user in range(N_USERS) for number in range(1 + user % 4)]
    table = pd.DataFrame(rows, columns=["user", key])
    table["device"] = [f"d{number}" for number in generator.integers(0, n_values, len(table))]
    return table.assign(a=generator.random(len(table)), b=generator.random(len(table)))


def per_user(rows: pd.DataFrame, ids: list[Any]) -> pd.DataFrame:
    """The table ``per_user`` of both models, with these ids of users."""
    named = rows.assign(user=[ids[user] for user in rows["user"]])
    models = [named.assign(model=model, **{COLUMN: named[model]}) for model in "ab"]
    return pd.concat(models).drop(columns=["a", "b"])


@settings(max_examples=5)
@example(ids=LARGE, key="request", n_values=3, seed=1)
@example(ids=NEGATIVE, key="fold", n_values=3, seed=1)
@given(ids=IDS, key=st.sampled_from(["request", "fold"]), n_values=st.integers(1, 9), seed=st.integers(0, 99))
def test_errors_of_segments_are_those_of_users_as_clusters(
    ids: list[int], key: str, n_values: int, seed: int
) -> None:
    rows = draw_rows(key, n_values, seed)
    options: dict[str, Any] = {"segments": ["device"], "engine": "local"}
    options |= {"weight": "requests"} if key == "request" else {"test_train_ratio": 0.25}
    found = compare(per_user(rows, ids), baseline_model="a", **options)
    assert {row.segment_value for row in found.rows} >= set(rows["device"])
    for row in found.rows:
        if row.segment in ("all", "device"):
            own = rows if row.segment == "all" else rows[rows["device"] == row.segment_value]
            expected = plain_clusters(own).estimate
            assert row.difference == float(expected.value or 0)
            assert row.std_error == expected.std_error


@settings(max_examples=3)
@example(ids=LARGE, weight="requests", as_text=False)
@given(ids=IDS, weight=st.sampled_from(["requests", "users"]), as_text=st.booleans())
def test_comparison_by_request_takes_ids_as_names(ids: list[int], weight: str, as_text: bool) -> None:
    rows = draw_rows("request", 3, 5)
    options: dict[str, Any] = {"segments": ["device"], "weight": weight, "engine": "local"}
    tests = ["t", "sign", "wilcoxon"]
    plain, found = (
        compare(per_user(rows, own), baseline_model="a", tests=tests, **options).rows
        for own in (list(range(N_USERS)), list(map(str, ids)) if as_text else ids)
    )
    assert found == plain


@settings(max_examples=3)
@given(ids=IDS, items=st.lists(INTEGERS, min_size=6, max_size=6, unique=True))
def test_evaluation_takes_ids_of_users_items_and_requests_as_names(ids: list[int], items: list[int]) -> None:
    assert measured(sorted(ids), sorted(items)) == measured(list(range(N_USERS)), list(range(6)))


def measured(users: list[int], items: list[int]) -> list[tuple[Any, ...]]:
    """Values of lists by request, with metrics of hits, of features and of training users."""
    lists = pd.DataFrame(
        [
            (users[user], users[-1 - number], items[(2 * user + number + rank) % 6], rank)
            for user in range(N_USERS)
            for number in range(1 + user % 3)
            for rank in (1, 2, 3)
        ],
        columns=["user", "request", "item", "rank"],
    )
    pairs = [(users[user], items[item]) for user in range(N_USERS) for item in (user % 6, (user + 2) % 6)]
    truth, train = (pd.DataFrame(pairs[start:], columns=["user", "item"]) for start in (0, 3))
    features = pd.DataFrame({"item": items, "features": [["x"], ["y"], ["x", "y"], ["z"], ["x", "z"], ["u"]]})
    metrics = ["ndcg", "ild(distance=jaccard)", "novelty", "serendipity(variant=recommenders)"]
    found = evaluate(
        lists, truth, model="m", metrics=metrics, k=[3], train=train, items=features, engine="local"
    )
    return [(row.metric, row.value, row.std_error) for row in found.metric_rows]
