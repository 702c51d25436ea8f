"""Stages by request: each list has the values of loops over its items, and users are clusters."""

from collections import defaultdict
from math import isnan, sqrt
from typing import Any, Final

import numpy as np
import pandas as pd
import pytest
from plain_stages import Person, funnel, values_of
from request_lists import drawn

from spark_eval import evaluate
from spark_eval.evaluation.plan import make_plan
from spark_eval.evaluation.result import Evaluation

STAGES: Final[list[dict[str, Any]]] = [
    {"name": "candidates", "models": ["als", "pop"], "k": 6},
    {"name": "ranking", "model": "als", "k": 4},
    {"name": "final", "model": "pop", "k": 2},
]
OPTIONS: Final[dict[str, Any]] = {"metrics": ["ndcg", "recall"], "k": [2, 5], "stages": STAGES}
DEVICES: Final = ("phone", "desk")
Request = tuple[int, str]


def tables() -> dict[str, pd.DataFrame]:
    """Ranked lists by request, their truth, and the device of each request."""
    found = drawn()
    lists = found["recommendations"].sort_values(["model", "user", "request", "score", "item"])
    lists["rank"] = lists.groupby(["model", "user", "request"]).cumcount() + 1
    frames = {"recommendations": lists.drop(columns="score"), "truth": found["truth"]}
    ids = [frame[["user", "request"]] for frame in frames.values()]
    requests = pd.concat(ids).drop_duplicates().sort_values(["user", "request"], ignore_index=True)
    return frames | {"users": requests.assign(device=[DEVICES[index % 2] for index in requests.index])}


def measured(frames: dict[str, Any], **options: Any) -> Evaluation:
    return evaluate(**frames, **OPTIONS, segments=["device"], engine="local", **options)


def people(frames: dict[str, pd.DataFrame]) -> dict[Request, Person]:
    """Each request as a person of its own."""
    truth: dict[Request, dict[int, float]] = defaultdict(dict)
    lists: dict[Request, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for user, request, item, relevance in frames["truth"].itertuples(index=False):
        truth[user, request][item] = relevance
    columns = ["model", "user", "request", "item"]
    for model, user, request, item in frames["recommendations"][columns].itertuples(index=False):
        lists[user, request][model].append(item)
    return {
        (user, request): Person(truth[user, request], lists[user, request], {})
        for user, request in frames["users"][["user", "request"]].itertuples(index=False)
    }


def clustered(values: dict[Request, float], weight: str) -> tuple[float, float, int, int]:
    """Mean over requests or users, its standard error, users and requests, by loops over users."""
    by_user: dict[int, list[float]] = defaultdict(list)
    for (user, _), value in values.items():
        if not isnan(value):
            by_user[user].append(value)
    n, n_users = sum(map(len, by_user.values())), len(by_user)
    if weight == "users":
        means = [np.mean(one) for one in by_user.values()]
        return float(np.mean(means)), float(np.std(means, ddof=1)) / sqrt(n_users), n_users, n
    mean = sum(map(sum, by_user.values())) / n
    parts = [(sum(one) - mean * len(one)) ** 2 for one in by_user.values()]
    return mean, sqrt(sum(parts) * n_users / (n_users - 1)) / n, n_users, n


@pytest.mark.parametrize("weight", ["requests", "users"])
def test_means_of_stages_are_those_of_loops_with_users_as_clusters(weight: str) -> None:
    frames = tables()
    result, plan = measured(frames, weight=weight), make_plan(**OPTIONS)
    found = {key: values_of(one, plan) for key, one in people(frames).items() if one.truth}
    device = frames["users"].set_index(["user", "request"])["device"].to_dict()
    n_seen = 0
    for row in result.to_pandas("stages").itertuples():
        key = (row.stage, row.model, row.metric, row.k)
        chosen = {
            request: values[key]
            for request, values in found.items()
            if key in values and row.segment_value in ("all", device[request])
        }
        if chosen:
            mean, error, n_users, n_requests = clustered(chosen, weight)
            assert (row.value, row.std_error) == pytest.approx((mean, error), rel=1e-9), key
            assert (row.n_users, row.n_requests) == (n_users, n_requests)
            assert row.n_undefined == len(chosen) - n_requests
            n_seen += 1
    assert n_seen == 3 * 27


def test_efficiencies_are_quotients_of_the_chosen_means() -> None:
    for weight in ("requests", "users"):
        rows = measured(tables(), weight=weight).to_pandas("stages").query("segment == 'all'")
        values = rows.set_index(["stage", "metric", "k"])["value"].to_dict()
        for k in (2, 5):
            quotient = values["ranking", "ndcg", k] / values["candidates", "oracle_ndcg", k]
            assert values["ranking", "efficiency_ndcg", k] == pytest.approx(quotient, rel=1e-12)
        assert all(f"requests: weight={weight}, truth=requests" in text for text in rows["conventions"])


def test_the_funnel_counts_requests_and_their_users() -> None:
    frames = tables()
    rows = measured(frames).to_pandas("funnel").query("segment == 'all'")
    with_truth = {key: one for key, one in people(frames).items() if one.truth}
    plan, users = make_plan(**OPTIONS), defaultdict(set)
    for (user, _), one in with_truth.items():
        for step in funnel([one], plan):
            users[step].add(user)
    expected = {
        step: (len(users[step]), n_requests, n_pairs)
        for step, (n_requests, n_pairs) in funnel(list(with_truth.values()), plan).items()
    }
    columns = rows[["n_users", "n_requests", "n_pairs"]].itertuples(index=False)
    found = {step: tuple(row) for step, row in zip(rows["step"], columns, strict=True)}
    assert {step: row for step, row in found.items() if row != (0, 0, 0)} == expected
    assert found["with_truth"][0] < found["with_truth"][1]


def test_requests_of_one_list_each_have_the_stages_of_users() -> None:
    frames = tables()
    alone = {name: frame[frame["request"] == "0"].drop(columns="request") for name, frame in frames.items()}
    first = {name: frame[frame["request"] == "0"] for name, frame in frames.items()}
    for name in ("stages", "funnel"):
        by_user, by_request = (measured(one).to_pandas(name) for one in (alone, first))
        assert by_user["n_requests"].isna().all()
        assert by_request["n_requests"].tolist() == by_request["n_users"].tolist()
        left = ["conventions", "n_requests"]
        pd.testing.assert_frame_equal(by_user.drop(columns=left), by_request.drop(columns=left))
