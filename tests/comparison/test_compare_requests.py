"""Models compared by request: users are clusters, and equal models differ as often as promised."""

from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from request_lists import drawn, worked
from tests.comparison.plain_pairs import plain_clusters, population_of, table_of

from spark_eval import compare, evaluate
from spark_eval.comparison.worker.sums import cluster_sums, pair_sums, sum_bucket
from spark_eval.errors import ConfigError, DataError
from spark_eval.statistics.differences import PairSums
from spark_eval.statistics.significance import t_test
from spark_eval.users.population import CANDIDATE, ComparisonTask

pytestmark = pytest.mark.usefixtures("engine_of_users")
COLUMN: Final = "ndcg_at_10"
TASK: Final = ComparisonTask(
    [(CANDIDATE, "a"), (CANDIDATE, "b")], [(slice(0, 1), slice(1, 2))], [COLUMN], request=pa.string()
)
FIRST: Final = (0, 0, 0)


def draw_model(generator: np.random.Generator, *, gaps: bool) -> pd.DataFrame:
    """Rows of 20 users with up to 6 requests; with gaps, values and rows are missing."""
    rows = [(user, f"{user % 3}-{n}") for user in range(20) for n in range(user % 7)]
    table = pd.DataFrame([*rows, (20, None)], columns=["user", "request"])
    table[COLUMN] = np.round(generator.random(len(table)), 3)
    if gaps:
        table.loc[generator.random(len(table)) < 0.2, COLUMN] = np.nan
        table = table[generator.random(len(table)) < 0.8]
    return table.sample(frac=1, random_state=3)


@pytest.mark.parametrize("gaps", [False, True])
def test_sums_over_requests_are_those_of_users_as_clusters(gaps: bool) -> None:
    generator = np.random.default_rng(int(gaps))
    models = [draw_model(generator, gaps=gaps) for _ in range(2)]
    found = sum_bucket(population_of(TASK, [table_of(one) for one in models]))
    pairs = (
        models[0]
        .merge(models[1], on=["user", "request"])
        .rename(columns={f"{COLUMN}_x": "a", f"{COLUMN}_y": "b"})
    )
    of_rows = pair_sums(found.totals, FIRST)
    assert of_rows == PairSums.of(*(pairs.dropna(subset=["a", "b"])[name].tolist() for name in "ab"))
    of_users, expected = cluster_sums(found.clusters, FIRST, of_rows), plain_clusters(pairs)
    assert of_users.n == expected.n
    assert of_users.estimate == expected.estimate
    assert found.counts.people[0, 2] == pairs["user"].nunique()


def mean_of(values: Any) -> float:
    """The mean of numbers, rounded as the sum is and as the quotient is."""
    return float(sum(map(Fraction, values))) / len(values)


@pytest.mark.parametrize("gaps", [False, True])
def test_users_count_once_with_the_means_of_their_requests(gaps: bool) -> None:
    generator = np.random.default_rng(5)
    models = [draw_model(generator, gaps=gaps) for _ in range(2)]
    task = replace(TASK, of_means=True)
    found = pair_sums(sum_bucket(population_of(task, [table_of(one) for one in models])).totals, FIRST)
    both = models[0].merge(models[1], on=["user", "request"]).dropna(subset=[f"{COLUMN}_x", f"{COLUMN}_y"])
    means = [[mean_of(own[f"{COLUMN}_{side}"]) for _, own in both.groupby("user")] for side in "xy"]
    assert found == PairSums.of(*means)


@pytest.mark.parametrize(
    ("weight", "expected"),
    [
        ("requests", (0.04, 0.0484424057, 0.82572282, 0.4694998475, -0.11416535, 0.19416535)),
        ("users", (0.0083333333, 0.075, 0.11111111, 0.9185449017, -0.23035, 0.247017)),
    ],
)
def test_worked_comparison(weight: str, expected: tuple[float, ...]) -> None:
    lists, truth = worked()
    measured = evaluate(lists, truth, metrics=["precision"], k=10, weight=weight, engine="local")
    result = compare(measured, tests=["t", "sign", "wilcoxon", "randomization", "bootstrap"])
    rows = {row.test: row for row in result.rows}
    row = rows["t"]
    numbers = (row.difference, row.std_error, row.statistic, row.p_value, row.ci_low, row.ci_high)
    assert numbers == pytest.approx(expected, abs=1e-6)
    assert (row.n_users, row.n_requests, row.wins, row.ties, row.losses) == (4, 10, 5, 3, 2)
    assert (row.user_wins, row.user_ties, row.user_losses) == (2, 1, 1)
    assert [entry.rows for entry in result.entries] == [10] * 4
    # Two of three users that differ have a better mean: the sign test is on users.
    assert rows["sign"].p_value == 1.0
    assert rows["wilcoxon"].p_value is not None
    assert rows["bootstrap"].ci_low is not None


def test_a_run_by_request_is_compared_with_its_like_alone() -> None:
    lists, truth = worked()
    of_requests = evaluate(lists, truth, metrics=["precision"], k=10, engine="local")
    of_users = evaluate(lists, truth, metrics=["precision"], k=10, weight="users", engine="local")
    with pytest.raises(DataError, match=r"CONVENTIONS_DIFFER.*weight=requests"):
        compare(of_requests, of_users)
    frame = of_requests.per_user
    with pytest.raises(DataError, match="REQUESTS_DIFFER"):
        compare(frame, frame.drop(columns="request").drop_duplicates(["model", "user"]))
    with pytest.raises(DataError, match=r"DUPLICATE_USER.*repeat a request"):
        compare(pd.concat([frame, frame[:1]]))
    with pytest.raises(ConfigError, match="NOT_BY_REQUEST"):
        compare(frame, tests=["bca"])


def test_a_gate_counts_users_and_takes_clustered_errors() -> None:
    lists, truth = worked()
    measured = evaluate(lists, truth, metrics=["precision"], k=10, engine="local")
    gate = {
        "metric": "precision@10",
        "model": "b",
        "against": {"model": "a"},
        "max_drop": 0.05,
        "min_users": 2,
    }
    [row] = compare(measured, gates=[gate]).gate_rows
    # 0.04 + 0.05 - t(.95, 3) * 0.0484424057, one-sided
    assert row.n_users == 4
    assert row.bound_low == pytest.approx(0.09 - 2.3533634348 * 0.0484424057, abs=1e-8)


def test_bootstrap_intervals_draw_users() -> None:
    frames: dict[str, Any] = drawn()
    options: dict[str, Any] = {"metrics": ["ndcg", "recall"], "k": 5, "engine": "local"}
    for weight in ("requests", "users"):
        normal = evaluate(**frames, **options, weight=weight)
        by_draws = evaluate(**frames, **options, weight=weight, interval="bootstrap", resamples=2_000)
        for row, drawn_row in zip(normal.metric_rows, by_draws.metric_rows, strict=True):
            assert row.value == drawn_row.value
            widths = [(one.ci_high or 0) - (one.ci_low or 0) for one in (drawn_row, row)]
            assert widths[0] == pytest.approx(widths[1], rel=0.12)


def rejected(n_runs: int, n_users: int = 200) -> tuple[float, float]:
    """Shares of comparisons of equal models with p < .05: users as clusters, requests as users."""
    generator, by_user, by_row = np.random.default_rng(7), 0, 0
    for _ in range(n_runs):
        n_requests = generator.geometric(1 / 5.5, n_users)
        user = np.repeat(np.arange(n_users), n_requests)
        names = pa.array(np.arange(len(user))).cast(pa.string())
        tables = []
        for _ in range(2):
            liking = generator.normal(0, 0.15, n_users)[user]
            values = np.clip(0.4 + liking + generator.normal(0, 0.25, len(user)), 0, 1)
            tables.append(pa.table({"user": pa.array(user), "request": names, COLUMN: values}))
        totals = sum_bucket(population_of(TASK, tables))
        of_rows = pair_sums(totals.totals, FIRST)
        of_users = cluster_sums(totals.clusters, FIRST, of_rows)
        p_values = [t_test(one.estimate, 0.95, "two_sided").p_value for one in (of_users, of_rows)]
        by_user += (p_values[0] or 0) < 0.05
        by_row += (p_values[1] or 0) < 0.05
    return by_user / n_runs, by_row / n_runs


def test_equal_models_seldom_differ_by_request() -> None:
    by_user, by_row = rejected(150)
    assert by_user < 0.1
    assert by_row > 0.12


@pytest.mark.exhaustive
@pytest.mark.timeout(1_000)
def test_equal_models_differ_in_five_of_a_hundred_comparisons_by_request() -> None:
    by_user, by_row = rejected(2_000)
    assert 0.04 <= by_user <= 0.06
    assert by_row > 0.15
