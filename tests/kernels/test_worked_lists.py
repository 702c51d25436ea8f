"""All numbers of a worked example of lists, training and items (``world``), also as libraries measure it."""

from typing import NamedTuple

import numpy as np
import pytest
from textbook_lists import EVERYBODY

from spark_eval.conventions import Conventions
from spark_eval.conventions.presets import conventions_of
from spark_eval.kernels.beyond.catalog import Catalog
from spark_eval.kernels.beyond.discovery import surprise
from spark_eval.kernels.distances import cosine, euclid
from spark_eval.kernels.lists import Lists
from spark_eval.kernels.values import metric_values, published_name
from spark_eval.statistics.exact import Floats
from users import batch


class Row(NamedTuple):
    """What is measured at k = 3 under a preset, and the mean over the five users, or those with a list."""

    preset: str
    metric: str
    value: float
    n_users: int = 5


TABLE = [
    Row("default", "user_coverage", 0.8),
    Row("default", "arp", 1.416667),
    Row("rectools", "arp", 1.416667, 4),
    Row("rectools", "arp(scale=share)", 0.118056, 4),
    Row("default", "arp(scale=share)", 0.118056),
    Row("evidently", "arp", 1.541667, 4),
    Row("default", "novelty", 1.873808),
    Row("evidently", "novelty", 1.832141, 4),
    Row("replay", "novelty", 0.752114, 4),
    Row("recommenders", "novelty_micro", 2.842242, 4),
    Row("default", "epc", 0.235196),
    Row("default", "efd", 1.068396),
    Row("elliot", "epc", 0.293995, 4),
    Row("elliot", "efd", 1.335495, 4),
    Row("default", "ild(distance=euclid)", 1.338708),
    Row("default", "ild(distance=jaccard)", 0.694444),
    Row("evidently", "ild", 0.235389, 4),
    Row("default", "serendipity", 0.0625),
    Row("rectools", "serendipity", 0.078125, 4),
    Row("recommenders", "serendipity", 0.319802, 4),
    Row("recommenders", "serendipity(variant=recommenders_cosine)", 0.212733, 4),
    Row("evidently", "serendipity", 0.351588, 4),
    Row("default", "long_tail", 0.458333),
    Row("elliot", "long_tail", 0.458333, 4),
    Row("default", "pop_lift", -0.521127),
    Row("default", "mean_pop_lift", -0.511905),
    # One of three items is the baseline's; all of them; the baseline has no list, or an empty one.
    Row("default", "unexpectedness", (2 / 3 + 0 + 1) / 3),
    Row("replay", "unexpectedness", (2 / 3 + 0 + 0 + 1) / 4, 4),
]


def values(metric: str, preset: str, n_users: int) -> tuple[Floats, Floats]:
    """The values of the first users, and what weighs in the mean of this name."""
    conventions = conventions_of(preset)
    [value] = metric_values([metric], [3], conventions)
    columns = value.measure(batch(EVERYBODY[:n_users]), conventions)
    weights = {name: columns[value.column_of(weight.name)] for name, weight in value.weights.items()}
    return columns[value.column], weights.get(published_name(metric), np.ones(n_users))


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.preset}, {row.metric}")
def test_means(row: Row) -> None:
    found, weights = values(row.metric, row.preset, row.n_users)
    is_defined = ~np.isnan(found)
    mean = np.average(found[is_defined], weights=weights[is_defined])
    assert mean == pytest.approx(row.value, abs=5e-7)


@pytest.mark.parametrize(
    ("metric", "by_user"),
    [
        ("ild", [0.720636, 0, 0.051317, 0.195262]),
        ("calibration_kl", [1.078810, 3.180897, 0.169565, 0.357418]),
    ],
)
def test_values_of_users(metric: str, by_user: list[float]) -> None:
    assert values(metric, "default", 4)[0] == pytest.approx(by_user, abs=5e-7)


def test_the_rarest_item_is_that_of_the_fold() -> None:
    """The last place is that of items that training never saw."""
    bits = surprise(Catalog(2, n_takers=np.array([[4, 2, 0], [1, 3, 0]])))
    assert bits == pytest.approx(-np.log2([[4 / 6, 2 / 6, 2 / 6], [1 / 4, 3 / 4, 1 / 4]]))


def test_what_the_only_user_had_is_no_share_of_anything() -> None:
    [value] = metric_values(["novelty(scale=share)"], [1], Conventions())
    lists = Lists.of_items([[0], [1]], train=[[0]])
    assert value.measure(lists, Conventions())[value.column].tolist() == [0, 0]


def test_distances_of_limitations() -> None:
    one, other = np.array([[0.0, 1.0], [1.0, 10.0]]), np.array([[1.0, 0.0], [10.0, 100.0]])
    assert cosine(one, other) == pytest.approx([1, 0], abs=1e-15)
    assert euclid(one, other) == pytest.approx([1.414214, 90.448881], abs=5e-7)
    # All pairs of both.
    assert cosine(one[:, None], other).shape == euclid(one[:, None], other).shape == (2, 2)
    assert euclid(one[:, None], other)[0, 1] == pytest.approx(np.hypot(10, 99))
