"""A/A comparisons of predictions: of two equal models, how often a test finds a difference at 5 %.

Users have effects: a user's rows resemble each other in label and score. The errors are those of the workers,
by user and, to show what that costs, by row.
"""

from fractions import Fraction
from typing import Final

import numpy as np
import pyarrow as pa
import pytest
from local import measure

from spark_eval.comparison.predictions import covariances
from spark_eval.comparison.worker.influences import InfluenceAdder, InfluenceTotals
from spark_eval.predictions.values import SlopedValue
from spark_eval.predictions.worker.clusters import column_of
from spark_eval.statistics.differences import PairEstimate
from spark_eval.statistics.significance import t_test
from spark_eval.users.cells import EVERYBODY
from spark_eval.users.population import BASELINE, CANDIDATE, AlignedUsers, ComparisonTask

METRICS: Final = ("auc", "log_loss")


def p_values(seed: int, n_users: int, by: str) -> list[float]:
    """The p-values of AUC and log loss of two models that differ by noise alone."""
    random = np.random.default_rng(seed)
    user = np.repeat(np.arange(n_users), random.integers(1, 20, n_users))
    taste = 2 * random.standard_normal(n_users)[user]
    label = (random.random(len(user)) < 1 / (1 + np.exp(-taste))).astype(int)
    models, tables = [], []
    for _ in range(2):
        of_user, of_row = random.standard_normal(n_users)[user], random.standard_normal(len(user))
        score = 1 / (1 + np.exp(-(taste / 2 + of_user + of_row / 2)))
        key = user if by == "user" else np.arange(len(user))
        answer = measure({"label": label, "score": score, "user": key}, metrics=METRICS, intervals="user")
        [values] = answer.measured.values.values()
        models.append({name: SlopedValue(value.value or 0.0, value.slopes) for name, value in values})
        tables.append(pa.concat_tables([users.rows() for users in answer.users]))
    keys = {key for value in models[0].values() for part in value.slopes for key in part}
    task = ComparisonTask(
        models=[(BASELINE, "a"), (CANDIDATE, "b")],
        matches=[(slice(0, 1), slice(1, 2))],
        columns=[*map(column_of, sorted(keys))],
    )
    population = AlignedUsers(
        task, lambda model, columns: task.rows([tables[model].select(columns)], columns)
    )
    totals: InfluenceTotals = InfluenceAdder({EVERYBODY: models}).sums(population)
    found = []
    for name in METRICS:
        old, new = (of_model[name] for of_model in models)
        has_labels = len(old.slopes) > 1
        both = covariances(totals, (EVERYBODY, 0, name), len(population), has_labels)
        of_both = (Fraction(old.value), Fraction(new.value))
        pair = PairEstimate(len(population), of_both, both, is_normal=has_labels)
        found.append(t_test(pair.estimate, 0.95).p_value or 0.0)
    return found


def rejected(n: int, n_users: int = 200, by: str = "user") -> list[float]:
    """The shares of n comparisons with p below 5 %, of AUC and of log loss."""
    found = np.array([p_values(seed, n_users, by) for seed in range(n)])
    return list(map(float, (found < 0.05).mean(axis=0)))


def test_equal_models_seldom_differ() -> None:
    for share in rejected(100):
        assert share <= 0.12


def test_rows_as_users_differ_far_too_often() -> None:
    of_auc, of_loss = rejected(50, by="row")
    assert of_auc > 0.1
    assert of_loss > 0.15


@pytest.mark.exhaustive
@pytest.mark.timeout(3_000)
def test_equal_models_differ_in_five_of_a_hundred_comparisons() -> None:
    for share in rejected(2_000, n_users=1_000):
        assert 0.04 <= share <= 0.06
