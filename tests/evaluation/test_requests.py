"""Lists by request: each list has the numbers it would have as a user of its own; users are clusters."""

from collections import defaultdict
from fractions import Fraction
from math import sqrt
from typing import Any, Final

import numpy as np
import pandas as pd
import pytest
from request_lists import drawn, worked

from spark_eval import evaluate
from spark_eval.errors import ConfigError, DataError
from spark_eval.evaluation.result import Evaluation

METRICS: Final = ["ndcg", "map", "gauc", "fcp", "recall"]


def as_users(frame: pd.DataFrame) -> pd.DataFrame:
    """Every request as a user of its own."""
    user = frame["user"].astype(str) + "/" + frame["request"]
    return frame.assign(user=user).drop(columns="request")


def measured(frames: dict[str, Any], **options: Any) -> Evaluation:
    return evaluate(**frames, engine="local", **options)


def means(result: Evaluation, *columns: str) -> dict[Any, tuple[Any, ...]]:
    """Columns of the means over everybody, by model, metric and k."""
    rows = result.metrics[result.metrics["segment"] == "all"]
    return {(row["model"], row["metric"], row["k"]): tuple(row[list(columns)]) for _, row in rows.iterrows()}


@pytest.mark.parametrize("truth_of", ["requests", "users"])
@pytest.mark.parametrize(
    ("weight", "expected"),
    [
        ("requests", {"a": (0.38, 0.1040512694), "b": (0.42, 0.0920869155)}),
        ("users", {"a": (0.5020833333, 0.1760015980), "b": (0.5104166667, 0.1183105905)}),
    ],
)
def test_worked_means_and_clustered_errors(weight: str, expected: Any, truth_of: str) -> None:
    lists, truth = worked()
    if truth_of == "users":
        truth = truth.drop(columns="request").drop_duplicates()
    result = evaluate(lists, truth, metrics=["precision"], k=10, weight=weight, engine="local")
    found = means(result, "value", "std_error", "n_users", "n_requests")
    for model, (value, error) in expected.items():
        assert found[model, "precision", 10] == pytest.approx((value, error, 4, 10), abs=1e-10)
    rule = f"requests: weight={weight}, truth={truth_of}"
    assert all(rule in text for text in result.metrics["conventions"])
    assert list(result.per_user.columns[:3]) == ["model", "user", "request"]


def test_worked_error_of_lists_as_if_they_were_independent() -> None:
    lists, truth = (as_users(frame.astype({"request": str})) for frame in worked())
    found = means(
        evaluate(lists, truth, metrics=["precision"], k=10, engine="local"), "value", "std_error", "n_users"
    )
    assert found["a", "precision", 10] == pytest.approx((0.38, 0.1030641656, 10), abs=1e-10)


@pytest.mark.parametrize("by_fold", [False, True])
@pytest.mark.parametrize("rules", [{}, {"no_truth": "zero", "no_recommendations": "drop"}])
def test_a_request_has_the_values_of_a_user_of_its_own(rules: dict[str, str], by_fold: bool) -> None:
    frames = drawn(by_fold=by_fold)
    options: dict[str, Any] = {"metrics": METRICS, "k": [3, 10], **rules}
    found = measured(frames, **options).per_user
    alone = measured({name: as_users(frame) for name, frame in frames.items()}, **options).per_user
    order = ["model", "user", *(["fold"] if by_fold else [])]
    found, alone = (
        one.sort_values(order).reset_index(drop=True)[alone.columns] for one in (as_users(found), alone)
    )
    pd.testing.assert_frame_equal(found, alone, check_exact=True)


def plain_mean(rows: pd.DataFrame, column: str, weight: str) -> tuple[float, float, int, int]:
    """Mean, clustered standard error, users and lists, by loops over fractions."""
    users: dict[Any, list[Fraction]] = defaultdict(list)
    for user, value in zip(rows["user"], rows[column], strict=True):
        if not np.isnan(value):
            users[user].append(Fraction(value))
    n, n_users = sum(map(len, users.values())), len(users)
    if weight == "users":
        of_users = [sum(values) / len(values) for values in users.values()]
        mean = sum(of_users, Fraction()) / n_users
        parts = [value - mean for value in of_users]
    else:
        mean = sum(map(sum, users.values()), Fraction()) / n
        parts = [(sum(values) - mean * len(values)) * n_users / n for values in users.values()]
    variance = sum((part**2 for part in parts), Fraction()) / (n_users - 1) / n_users
    return float(mean), sqrt(variance), n_users, n


@pytest.mark.parametrize("weight", ["requests", "users"])
def test_means_and_errors_are_those_of_loops_over_users(weight: str) -> None:
    frames = drawn()
    users = pd.DataFrame({"user": range(30), "country": ["at", None] * 15})
    result = measured(
        {**frames, "users": users}, metrics=METRICS, k=[5, 10], weight=weight, segments=["country"]
    )
    per_user = result.per_user.fillna({"country": "(missing)"})
    columns = {"ndcg": "ndcg", "map": "ap", "gauc": "auc", "fcp": "fcp", "recall": "recall"}
    n_seen = 0
    for row in result.metrics.itertuples():
        if row.metric in columns:
            rows = per_user[per_user["model"] == row.model]
            if row.segment != "all":
                rows = rows[rows[row.segment] == row.segment_value]
            column = f"{columns[str(row.metric)]}_at_{row.k}"
            assert rows[column].notna().any()
            mean, error, n_users, n_lists = plain_mean(rows, column, weight)
            assert (row.value, row.std_error) == pytest.approx((mean, error), rel=1e-12)
            assert (row.n_users, row.n_requests) == (n_users, n_lists)
            assert row.n_undefined == len(rows) - n_lists
            n_seen += 1
    assert n_seen == 2 * 3 * 5 * 2


def test_weighted_means_are_clustered_by_user() -> None:
    result = measured(drawn(), metrics=["fcp"], k=10)
    found = means(result, "value", "std_error")
    rows = result.per_user[result.per_user["model"] == "als"]
    weights = rows["fcp_pairs_at_10"].to_numpy()
    sums = pd.DataFrame({"user": rows["user"], "x": rows["fcp_at_10"].to_numpy() * weights, "w": weights})
    by_user = sums[np.isfinite(sums["x"])].groupby("user").sum()
    mean, n = by_user["x"].sum() / by_user["w"].sum(), len(by_user)
    spread = ((by_user["x"] - mean * by_user["w"]) ** 2).sum() * n / (n - 1)
    assert found["als", "fcp_micro", 10] == pytest.approx(
        (mean, sqrt(spread) / by_user["w"].sum()), rel=1e-12
    )


def test_truth_of_users_holds_for_each_of_their_lists() -> None:
    frames = drawn()
    truth = frames["truth"].drop(columns="request").drop_duplicates(["user", "item"])
    result = measured({**frames, "truth": truth}, metrics=METRICS, k=3)
    requests = frames["recommendations"][["user", "request"]].drop_duplicates()
    repeated = measured({**frames, "truth": truth.merge(requests, on="user")}, metrics=METRICS, k=3)
    one, other = (
        each.per_user.sort_values(["model", "user", "request"]).reset_index(drop=True)
        for each in (result, repeated)
    )
    pd.testing.assert_frame_equal(one, other, check_exact=True)
    assert means(result, "std_error") == means(repeated, "std_error")


def test_a_user_with_truth_and_no_list_has_one_empty_list() -> None:
    lists = pd.DataFrame({"user": [1, 1], "request": [5, 6], "item": [1, 2], "rank": 1})
    truth = pd.DataFrame({"user": [1, 2], "item": [1, 9]})
    result = evaluate(lists, truth, model="m", metrics=["recall"], k=1, engine="local")
    rows = result.per_user[["user", "request", "recall_at_1"]].itertuples(index=False)
    assert [tuple(None if pd.isna(one) else one for one in row) for row in rows] == [
        (1, 5, 1.0),
        (1, 6, 0.0),
        (2, None, 0.0),
    ]
    lines = {tuple(row)[:4]: tuple(row)[4:] for row in result.entries}
    assert lines["requests", "m", "in", None] == (3, 2)
    assert lines["requests", "m", "used", "no_recommendations"] == (1, None)
    assert lines["users", "m", "used", None] == (2, 2)


def test_one_request_of_two_users_is_two_lists_and_null_requests_are_counted() -> None:
    lists = pd.DataFrame({"user": [1, 2, 2], "request": [7, 7, None], "item": [1, 1, 1], "rank": 1})
    lists["request"] = lists["request"].astype("Int64")
    truth = pd.DataFrame({"user": [1, 2, 2], "request": [7, 7, None], "item": [1, 3, 4]})
    truth["request"] = truth["request"].astype("Int64")
    result = evaluate(lists, truth, model="m", metrics=["recall"], k=1, engine="local")
    assert result.per_user["recall_at_1"].tolist() == [1.0, 0.0]
    bad = [(row.source, row.rows) for row in result.entries if row.reason == "NULL_ID"]
    assert sorted(bad) == [("recommendations", 1), ("truth", 1)]


def test_requests_of_one_table_alone_or_of_another_type_are_refused() -> None:
    lists, truth = worked()
    with pytest.raises(DataError, match=r"error\[REQUESTS_DIFFER\] truth has a column request"):
        evaluate(lists.drop(columns="request"), truth, engine="local")
    with pytest.raises(DataError, match=r"ID_TYPE_MISMATCH.*request"):
        evaluate(lists, truth.astype({"request": str}), engine="local")
    weighted: dict[str, Any] = {"metrics": ["fcp"], "weight": "users", "interval": "bootstrap"}
    with pytest.raises(ConfigError, match=r"NOT_BY_REQUEST.*fcp_micro"):
        evaluate(lists, truth, **weighted, engine="local")


def test_histories_and_runs_are_those_of_users() -> None:
    frames = drawn()
    draw = np.random.default_rng(3)
    train = pd.DataFrame({"user": draw.integers(0, 30, 200), "item": draw.integers(0, 40, 200)})
    requests = pd.concat(frames.values())[["user", "request"]].drop_duplicates()
    items = pd.DataFrame({"item": range(40), "groups": ["red|blue", "blue", "green", "red"] * 10})
    options: dict[str, Any] = {"metrics": ["calibration_kl", "catalog_coverage"], "k": 5, "items": items}
    found = measured({**frames, "train": train}, **options)
    alone = {name: as_users(frame) for name, frame in frames.items()}
    alone["train"] = as_users(train.merge(requests, on="user"))
    expected = measured(alone, **options)
    of_lists, of_users = (one.per_user.drop(columns=["user"]) for one in (found, expected))
    values = [sorted(one[one.columns[-1]].fillna(-1)) for one in (of_lists, of_users)]
    assert values[0] == values[1]
    assert (
        means(found, "value")["als", "catalog_coverage", 5]
        == means(expected, "value")["als", "catalog_coverage", 5]
    )
    assert (
        means(found, "n_users", "n_requests")["als", "catalog_coverage", 5][0]
        == found.per_user["user"].nunique()
    )


def test_a_metric_that_never_varies_has_no_error() -> None:
    rows = [(user, request, 1) for user in range(9) for request in range(1 + user % 4)]
    lists = pd.DataFrame(rows, columns=["user", "request", "item"]).assign(rank=1)
    result = evaluate(lists, lists, model="m", metrics=["precision"], k=10, engine="local")
    # 0.1 for each: the totals 0.30000000000000004 and 0.4 of users round, the error stays that of rounding.
    [(value, error)] = means(result, "value", "std_error").values()
    assert value == 0.1
    assert error < 1e-15
