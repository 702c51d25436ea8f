"""The simulated log has the properties that make an evaluation hard. No JVM."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from spark_eval.demo.simulation import MECHANISMS, simulate


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    return simulate()


@pytest.fixture(scope="module")
def past_and_last_tenth(log: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    n_past = len(log) * 9 // 10
    return log.iloc[:n_past], log.iloc[n_past:]


def test_columns_and_types_are_those_of_movielens(log: pd.DataFrame) -> None:
    assert {column: str(dtype) for column, dtype in log.dtypes.items()} == {
        "userId": "int64",
        "movieId": "int64",
        "rating": "float64",
        "timestamp": "int64",
    }


def test_the_same_seed_gives_the_same_log_and_another_seed_another(log: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(simulate(), log)
    assert not simulate(seed=8).equals(log)


def test_values_are_within_their_ranges(log: pd.DataFrame) -> None:
    assert log["userId"].between(1, MECHANISMS.users).all()
    assert log["movieId"].between(1, MECHANISMS.items).all()
    assert set(log["rating"].unique()) == set(np.arange(1, 11) / 2)
    day = (log["timestamp"] - MECHANISMS.start_epoch_seconds) / 86_400
    assert day.between(0, MECHANISMS.days).all()
    assert day.min() < 1
    assert day.max() > MECHANISMS.days - 1
    assert log["timestamp"].is_monotonic_increasing


def test_size_at_scale_one(log: pd.DataFrame) -> None:
    assert 60_000 <= len(log) <= 100_000
    assert log["userId"].nunique() == MECHANISMS.users
    assert log["movieId"].nunique() > 0.9 * MECHANISMS.items


@pytest.mark.parametrize("scale", [0.05, 4.0])
def test_rows_and_users_grow_with_the_scale_and_items_with_its_root(log: pd.DataFrame, scale: float) -> None:
    scaled = simulate(scale)
    # Few items leave little to take that a user does not have yet.
    assert 0.5 * scale < len(scaled) / len(log) < 1.5 * scale
    assert scaled["userId"].nunique() == MECHANISMS.users * scale
    assert scaled["movieId"].max() <= round(MECHANISMS.items * scale**0.5)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan")])
def test_a_scale_that_is_not_positive_is_refused(scale: float) -> None:
    with pytest.raises(ValueError, match="scale must be positive"):
        simulate(scale)


def test_the_smallest_log_is_still_a_log() -> None:
    assert set(simulate(scale=1e-9)["userId"]) <= {1}


def test_few_items_and_few_users_have_most_of_the_interactions(log: pd.DataFrame) -> None:
    for column, least in (("movieId", 0.4), ("userId", 0.25)):
        counts = log[column].value_counts()
        share_of_top_tenth = counts.iloc[: len(counts) // 10].sum() / len(log)
        assert least < share_of_top_tenth < 0.8, column


def test_the_last_tenth_has_cold_users_and_cold_items(
    past_and_last_tenth: tuple[pd.DataFrame, pd.DataFrame],
) -> None:
    past, last_tenth = past_and_last_tenth
    users, items = last_tenth["userId"].unique(), last_tenth["movieId"].unique()
    assert 0.1 < 1 - np.isin(users, past["userId"]).mean() < 0.6
    assert 0.02 < 1 - np.isin(items, past["movieId"]).mean() < 0.2


def test_some_interactions_are_repeats(log: pd.DataFrame) -> None:
    assert log.duplicated(["userId", "movieId"]).mean() == pytest.approx(MECHANISMS.repeats, abs=0.01)


def test_without_repeats_every_pair_is_there_once() -> None:
    log = simulate(0.1, mechanisms=replace(MECHANISMS, repeats=0.0))
    assert not log.duplicated(["userId", "movieId"]).any()


def test_what_was_popular_lately_says_more_about_the_last_tenth_than_what_was_popular_ever(
    past_and_last_tenth: tuple[pd.DataFrame, pd.DataFrame],
) -> None:
    past, last_tenth = past_and_last_tenth
    lately = past[past["timestamp"] > past["timestamp"].max() - 30 * 86_400]

    def share_of_top_items(of: pd.DataFrame) -> float:
        top = of["movieId"].value_counts().index[:20]
        return float(last_tenth["movieId"].isin(top).mean())

    assert share_of_top_items(lately) > 1.15 * share_of_top_items(past)


def test_users_come_in_sessions(log: pd.DataFrame) -> None:
    gap = log.sort_values(["userId", "timestamp"]).groupby("userId")["timestamp"].diff().dropna()
    assert 0.6 < (gap < 3600).mean() < 0.95
    assert (gap > 7 * 86_400).mean() > 0.05


def test_taste_is_what_ratings_vary_with(log: pd.DataFrame) -> None:
    without_taste = simulate(mechanisms=replace(MECHANISMS, taste_effect=0.0))
    assert log["rating"].std() > without_taste["rating"].std()


def test_neither_spark_nor_a_session_is_imported() -> None:
    program = "import sys, spark_eval.demo.simulation; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
