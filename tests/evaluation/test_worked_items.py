"""Worked numbers of data B, end to end through ``evaluate``: of all users, and of those with a list."""

from typing import Any

import pandas as pd
import pytest
from data_b import GROUPS, LISTS, TRAIN, TRUTH, VECTORS

from spark_eval import evaluate

# Means over the five users with truth.
MEANS = {
    "catalog_coverage": 0.625,
    "catalog_coverage(variant=recommended)": 0.75,
    "catalog_coverage(variant=by_trained)": 1.0,
    "catalog_coverage(variant=trained)": 0.833333,
    "user_coverage": 0.8,
    "gini_catalog": 0.475,
    "gini_recommended": 0.196970,
    "gini_recommended(gini_variant=n_minus_1)": 0.236364,
    "entropy": 2.481715,
    "entropy(weights=slots)": 2.521524,
    "personalization": 0.666667,
    "personalization(variant=full_lists)": 0.694444,
    "alpha_ndcg": 0.531290,
    "err_ia": 0.387500,
    "nerr_ia": 0.481916,
    "p_ia": 0.277778,
    "subtopic_recall": 0.733333,
    "ap_ia": 0.416667,
    "arp": 1.416667,
    "arp(scale=share)": 0.118056,
    "arp(unseen=drop)": 1.541667,
    "novelty": 1.873808,
    "novelty(unseen=drop)": 1.832141,
    "novelty(scale=share, denominator=k)": 0.752114,
    "epc": 0.235196,
    "efd": 1.068396,
    "ild(distance=euclid)": 1.338708,
    "ild(distance=jaccard)": 0.694444,
    "serendipity": 0.0625,
    "long_tail": 0.458333,
    "pop_lift": -0.521127,
}
# Of groups of items.
EXPOSURE = {"a": 0.136364, "b": 0.363636, "c": 0.409091, "(missing)": 0.090909}
# Over the four with a list.
OF_LISTS = {
    "epc": 0.293995,
    "efd": 1.335495,
    "serendipity": 0.078125,
    "serendipity(variant=recommenders)": 0.319802,
    "serendipity(variant=recommenders_cosine, no_features=unlike)": 0.212733,
    "serendipity(variant=evidently)": 0.351588,
    # As recommenders pools all places, and as Evidently divides by items; nothing is known of item 9.
    "novelty_micro(popularity=rows, unseen=zero)": 2.842242,
    "ild(average=length, short=zero)": 0.235389,
}
# Of users 1 to 4.
OF_USERS = {
    "ild_at_3": [0.720636, 0.0, 0.051317, 0.195262],
    "calibration_kl_at_3": [1.078810, 3.180897, 0.169565, 0.357418],
}


def tables(item: Any) -> dict[str, Any]:
    """Data B with ids of items as ``item`` makes them."""
    pairs = [(user, item(one)) for user, items in TRUTH.items() for one in items]
    trained = [(user, item(one)) for user, items in TRAIN.items() for one in items]
    lists = [(user, item(one), rank) for user, items in LISTS.items() for rank, one in enumerate(items, 1)]
    facts = [(item(one), list(groups), list(VECTORS[one])) for one, groups in GROUPS.items()]
    return {
        "recommendations": pd.DataFrame(lists, columns=["user", "item", "rank"]),
        "truth": pd.DataFrame(pairs, columns=["user", "item"]),
        "train": pd.DataFrame(trained, columns=["user", "item"]),
        "items": pd.DataFrame(facts, columns=["item", "groups", "vector"]),
    }


@pytest.mark.parametrize("item", [int, "item {}".format])
def test_worked_numbers(item: Any) -> None:
    given, model = tables(item), "b"
    metrics = [*MEANS, "ild", "calibration_kl", "exposure"]
    found = evaluate(**given, model=model, metrics=metrics, k=3, engine="local")
    values = {row.metric: row.value for row in found.metric_rows}
    assert {name: values[name] for name in MEANS} == pytest.approx(MEANS, abs=1e-6)
    exposure = {row.segment_value: row.value for row in found.metric_rows if row.metric == "exposure"}
    assert exposure == pytest.approx(EXPOSURE, abs=1e-6)
    per_user = found.to_pandas("per_user").set_index("user").sort_index()
    for column, expected in OF_USERS.items():
        assert per_user[column].tolist() == pytest.approx([*expected, float("nan")], abs=1e-6, nan_ok=True)
    of_lists = evaluate(
        **given, model=model, metrics=list(OF_LISTS), k=3, no_recommendations="drop", engine="local"
    )
    values = {row.metric: row.value for row in of_lists.metric_rows}
    assert {name: values[name] for name in OF_LISTS} == pytest.approx(OF_LISTS, abs=1e-6)
