"""Users' means are over the requests where both models have a value; few users' signs are all enumerated."""

from fractions import Fraction
from itertools import combinations, product
from typing import Any, Final

import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spark_eval import compare
from spark_eval.comparison.rows import ComparisonRow
from spark_eval.statistics.differences import PairSums
from spark_eval.statistics.significance import sign_test, t_test

COLUMN: Final = "auc_at_5"
VALUES: Final = st.sampled_from([None, 0.0, 0.25, 0.5, 0.7, 0.3])
# The values of three models in a request; a missing row is no list.
REQUEST: Final = st.tuples(st.sampled_from(["x", "y"]), *[st.one_of(st.just("no row"), VALUES)] * 3)
# Requests by user.
USERS: Final = st.lists(st.lists(REQUEST, min_size=1, max_size=4), min_size=2, max_size=6)
# Of three common requests the second model wins all, by .1, .1 and .2.
UNLIKE: Final[list[list[tuple[Any, ...]]]] = [
    [("x", 0.9, None, "no row"), ("x", 0.1, 0.2, "no row")],
    [("x", 0.5, None, "no row"), ("x", None, 0.9, "no row")],
    [("x", 0.4, 0.5, "no row")],
    [("x", 0.4, 0.6, 0.3)],
]


def table_of(users: list[list[tuple[Any, ...]]], key: str = "request") -> pd.DataFrame:
    """The table ``per_user`` of the models a, b and c, with a segment of requests."""
    rows = [
        (user, number, device, model, value, number)
        for user, requests in enumerate(users)
        for number, (device, *values) in enumerate(requests)
        for model, value in zip("abc", values, strict=True)
        if value != "no row"
    ]
    columns = ["user", key, "device", "model", COLUMN, "n_relevant"]
    return pd.DataFrame(rows, columns=columns).astype({COLUMN: float})


def common_values(
    users: list[list[tuple[Any, ...]]], pair: tuple[int, int], device: str | None
) -> list[list[tuple[float, float]]]:
    """The values of both models in the requests where both have one, of each user who has such a request."""
    chosen = [
        [
            (request[1 + pair[0]], request[1 + pair[1]])
            for request in requests
            if device in (None, request[0]) and isinstance(request[1 + pair[0]], float)
            if isinstance(request[1 + pair[1]], float)
        ]
        for requests in users
    ]
    return [values for values in chosen if values]


def compared(table: pd.DataFrame, **options: Any) -> list[ComparisonRow]:
    return list(compare(table, segments=["device"], engine="local", **options).rows)


def pair_of(row: ComparisonRow) -> tuple[int, int]:
    return "abc".index(row.baseline), "abc".index(row.candidate)


def device_of(row: ComparisonRow) -> str | None:
    return None if row.segment == "all" else row.segment_value


def mean_of(values: list[float]) -> float:
    return float(sum(map(Fraction, values))) / len(values)


@settings(max_examples=4)
@example(UNLIKE, "users")
@example(UNLIKE, "requests")
@given(USERS, st.sampled_from(["users", "requests"]))
def test_users_means_are_over_the_requests_of_both_models(
    users: list[list[tuple[Any, ...]]], weight: str
) -> None:
    table = table_of(users)
    names = sorted(set(table["model"]))
    if len(names) < 2 or not any(
        requests[1 + "abc".index(one)] != "no row" != requests[1 + "abc".index(other)]
        for one, other in combinations(names, 2)
        for user in users
        for requests in user
    ):
        return
    rows = compared(table, weight=weight, tests=["t", "sign"])
    assert rows
    for row in rows:
        values = common_values(users, pair_of(row), device_of(row))
        sums = PairSums.of(*([mean_of([one[side] for one in own]) for own in values] for side in (0, 1)))
        assert (row.user_wins, row.user_losses) == (sums.greater, sums.less)
        assert row.user_ties == sums.n - sums.greater - sums.less
        if row.test == "sign" and sums.n:
            assert row.p_value == sign_test(sums.greater, sums.less).p_value
        if weight == "users":
            assert row.n_users == sums.n
            assert row.difference == (None if not sums.n else float(sums.estimate.value or 0))
            assert row.std_error == sums.estimate.std_error
            if row.test == "t":
                assert row.p_value == t_test(sums.estimate, 0.95, "two_sided").p_value


def test_truth_of_other_requests_is_not_that_of_common_ones() -> None:
    """The second model lacks the request with two relevant items: both have one truth all the same."""
    rows = [("u", 1, "a", 0.5, 1), ("u", 2, "a", 0.25, 2), ("u", 1, "b", 0.75, 1)]
    table = pd.DataFrame(rows, columns=["user", "request", "model", COLUMN, "n_relevant"])
    [row] = compare(table, weight="users", engine="local").rows
    assert (row.difference, row.n_users, row.n_requests) == (0.25, 1, 1)


FEW: Final[list[list[tuple[Any, ...]]]] = [
    [("x", 0.25, 0.5, 0.1), ("y", 0.125, 0.125, 0.1)],
    [("x", 0.0, 0.75, 0.2), ("y", 0.5, 0.5, 0.3), ("x", 0.625, 0.25, 0.3)],
    [("x", 1.0, 1.0, 0.5)],
    [("y", 0.375, 0.5, 0.4), ("x", 0.0, 0.0, 0.1), ("x", 0.25, 0.625, 0.3), ("y", 0.125, 0.375, 0.4)],
    [("x", 0.75, 0.5, 0.6), ("y", 0.5, 0.875, 0.9)],
]


@settings(max_examples=4)
@example(FEW, "request", "two_sided")
@example(FEW, "fold", "greater")
@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(["x", "y"]), *[VALUES] * 3), min_size=2, max_size=4),
        min_size=2,
        max_size=6,
    ),
    st.sampled_from(["request", "fold"]),
    st.sampled_from(["two_sided", "greater", "less"]),
)
def test_signs_of_few_users_are_enumerated(
    users: list[list[tuple[Any, ...]]], key: str, alternative: str
) -> None:
    options = {"weight": "requests"} if key == "request" else {"test_train_ratio": 0.5}
    rows = compared(table_of(users, key), tests=["randomization"], alternative=alternative, **options)
    for row in (row for row in rows if row.segment in ("all", "device")):
        values = common_values(users, pair_of(row), device_of(row))
        sums = [sum(round((b - a) * 10_000) for a, b in own) for own in values]
        assert row.p_value == (enumerated_share(sums, alternative) if values else None)


def enumerated_share(sums: list[int], alternative: str) -> float:
    """The share of all signs of users' sums that give a sum as extreme as observed, sign by sign."""
    flipped = [sum(map(int.__mul__, sums, signs)) for signs in product((1, -1), repeat=len(sums))]
    extreme = {
        "two_sided": [abs(one) >= abs(sum(sums)) for one in flipped],
        "greater": [one >= sum(sums) for one in flipped],
        "less": [one <= sum(sums) for one in flipped],
    }[alternative]
    return sum(extreme) / len(extreme)


def test_the_worked_signs_of_five_users() -> None:
    by_weight = [
        next(row.p_value for row in compared(table_of(FEW), tests=["randomization"], weight=weight))
        for weight in ("requests", "users")
    ]
    # Of four users that differ the sums, and the means, are above 0: 2 of 16.
    assert by_weight == [0.125, 0.125]


def test_signs_of_many_users_are_drawn() -> None:
    users: list[list[tuple[Any, ...]]] = [
        [("x", 0.0, 0.25 if user % 2 else 0.5, 0.0)] * 2 for user in range(21)
    ]
    rows = compared(table_of(users), tests=["randomization"], weight="requests", resamples=99)
    assert {row.p_value for row in rows if {row.baseline, row.candidate} == {"a", "b"}} == {0.01}


@pytest.mark.slow
@pytest.mark.parametrize("key", ["request", "fold"])
def test_spark_gives_the_same_rows(key: str) -> None:
    table = table_of(UNLIKE + FEW, key)
    options: dict[str, Any] = {"tests": ["t", "randomization", "bootstrap"], "segments": ["device"]}
    options |= {"weight": "users"} if key == "request" else {"test_train_ratio": 0.5}
    local, spark = (compare(table, engine=engine, **options).rows for engine in ("local", "spark"))
    assert local == spark
