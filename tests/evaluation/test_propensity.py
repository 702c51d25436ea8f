"""Recall by propensity, and the preset of WarpRec, against its published definitions in slow loops.

WarpRec 2.2.8 needs Python 3.12 and torch, which the environment of the other libraries has not.
"""

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_eval import evaluate
from spark_eval.errors import ConfigError, DataError

K, N_USERS, N_ITEMS = 5, 60, 30
LISTS = {1: [4, 5, 6], 2: [3, 4, 9]}
TRUTH = {1: [4, 8], 2: [9, 7]}
PROPENSITY = {4: 0.5, 7: 0.25, 8: 0.001, 9: None}


def pairs(rows: Mapping[int, Sequence[int]]) -> pd.DataFrame:
    return pd.DataFrame(
        [(user, item) for user, items in rows.items() for item in items], columns=["user", "item"]
    )


def ranked(rows: Mapping[int, Sequence[int]]) -> pd.DataFrame:
    lists = pairs(rows)
    return lists.assign(rank=lists.groupby("user").cumcount() + 1)


def items_of(propensity: Mapping[int, float | None]) -> pd.DataFrame:
    return pd.DataFrame({"item": list(propensity), "propensity": list(propensity.values())})


def measured(metric: str, propensity: Mapping[int, float | None] | None = None, **options: Any) -> Any:
    items = items_of(PROPENSITY if propensity is None else propensity)
    return evaluate(
        ranked(LISTS), pairs(TRUTH), model="m", items=items, metrics=[metric], k=3, engine="local", **options
    )


def test_worked_recall_by_given_propensities() -> None:
    found = measured("snips_recall(propensity=given)").to_pandas("per_user").set_index("user")
    column = "snips_recall_propensity_given_at_3"
    # User 1: 2 of 2 and 10, as 1 / .001 is floored; user 2: of 9 it is not known, and 7 is missed.
    assert found[column].to_dict() == {1: pytest.approx(2 / 12), 2: 0}
    means = {row.metric: row for row in measured("snips_recall(propensity=given)").metric_rows}
    micro = means["snips_recall_micro(propensity=given)"]
    assert micro.value == pytest.approx(2 / 16)
    assert micro.std_error is not None


def test_the_effective_number_of_users_follows_from_the_sums() -> None:
    [row] = [
        row
        for row in measured("snips_recall(propensity=given)").sum_rows
        if row.metric.startswith("snips_recall_m")
    ]
    assert row.weight is not None
    assert row.weight_squares is not None
    n_effective = Fraction(int(row.weight)) ** 2 / int(row.weight_squares)
    assert float(n_effective) == pytest.approx(16**2 / (12**2 + 4**2))


def test_propensities_out_of_range_and_missing_tables_are_refused() -> None:
    for wrong in (0.0, -0.5, 1.5, math.inf):
        with pytest.raises(DataError, match="above 0 and at most 1") as error:
            measured("snips_recall(propensity=given)", {4: wrong, 5: 0.5})
        assert error.value.code == "INVALID_PROPENSITY"
    text = pd.DataFrame({"item": [1], "propensity": ["often"]})
    with pytest.raises(DataError) as error:
        evaluate(
            *(ranked(LISTS), pairs(TRUTH)),
            model="m",
            items=text,
            metrics=["snips_recall(propensity=given)"],
            engine="local",
        )
    assert error.value.code == "INVALID_PROPENSITY"
    with pytest.raises(ConfigError, match="propensity for snips_recall") as missing:
        evaluate(
            ranked(LISTS),
            pairs(TRUTH),
            model="m",
            metrics=["snips_recall(propensity=given)"],
            engine="local",
        )
    assert missing.value.code == "MISSING_ITEMS"
    with pytest.raises(ConfigError) as missing:
        measured("snips_recall")
    assert missing.value.code == "MISSING_TRAIN"


def world() -> tuple[dict[int, list[int]], dict[int, dict[int, int]], pd.DataFrame]:
    """Full lists of K items, graded truth, and training rows, of which some repeat."""
    source = random.Random(11)
    lists = {user: source.sample(range(N_ITEMS), K) for user in range(N_USERS)}
    truth = {
        user: {item: source.randrange(1, 6) for item in source.sample(range(N_ITEMS), source.randrange(1, 9))}
        for user in range(N_USERS)
    }
    rows = [
        (source.randrange(N_USERS), min(source.randrange(N_ITEMS), source.randrange(N_ITEMS)))
        for _ in range(400)
    ]
    return lists, truth, pd.DataFrame(rows, columns=["user", "item"])


def warprec_of_user(items: Sequence[int], truth: Mapping[int, int], counts: Counter[int]) -> dict[str, float]:
    """The metrics of a user as WarpRec's modules define them."""
    relevance = [truth.get(item, 0) for item in items]
    is_hit = [grade > 0 for grade in relevance]
    m, hits = len(truth), sum(is_hit)
    precision, recall = hits / K, hits / m
    gain = [2 ** (grade + 1) - 1 if grade else 0 for grade in relevance]
    best = sorted((2 ** (grade + 1) - 1 for grade in truth.values()), reverse=True)[:K]
    dcg, ideal = (sum(g / math.log2(rank + 1) for rank, g in enumerate(one, 1)) for one in (gain, best))
    at_hits = [sum(is_hit[:rank]) for rank in range(1, K + 1) if is_hit[rank - 1]]
    ranks = [rank for rank in range(1, K + 1) if is_hit[rank - 1]]
    top = max(counts.values())
    weight = {item: 1 / max((counts[item] / top) ** 0.5, 0.1) for item in {*truth, *items}}
    return {
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / (precision + recall) if hits else 0.0,
        "map": sum(n / rank for n, rank in zip(at_hits, ranks, strict=True)) / min(m, K),
        "mar": sum(n / m for n in at_hits) / min(m, K),
        "mrr": 1 / ranks[0] if ranks else 0.0,
        "ndcg": dcg / ideal,
        "arp": sum(max(counts[item], 1) for item in items) / K,
        "snips_recall": sum(weight[item] for item in items if item in truth)
        / sum(weight[item] for item in truth),
    }


def test_the_preset_gives_the_numbers_of_its_definitions(spark: SparkSession) -> None:
    lists, truth, train = world()
    counts = Counter(train["item"].tolist())
    assert len(counts) < N_ITEMS
    slow = [warprec_of_user(lists[user], truth[user], counts) for user in lists]
    graded = pd.DataFrame(
        [(user, item, float(grade)) for user, grades in truth.items() for item, grade in grades.items()],
        columns=["user", "item", "relevance"],
    )
    items = pd.DataFrame({"item": range(N_ITEMS)})
    asked: Any = {"metrics": [*slow[0], "gini_catalog"], "k": K, "conventions": "warprec", "model": "m"}
    here = evaluate(ranked(lists), graded, train=train, items=items, engine="local", **asked)
    values = {row.metric: row.value for row in here.metric_rows}
    for metric in slow[0]:
        assert values[metric] == pytest.approx(sum(one[metric] for one in slow) / N_USERS, rel=1e-12), metric
    listed = sorted(Counter(item for row in lists.values() for item in row).values())
    offset = N_ITEMS - len(listed)
    terms = [(2 * (j + offset + 1) - N_ITEMS - 1) * n for j, n in enumerate(listed)]
    assert values["gini_catalog"] == pytest.approx(sum(terms) / (K * N_USERS) / (N_ITEMS - 1), rel=1e-12)
    frames = [
        spark.createDataFrame(one).repartition(4, F.rand(1)) for one in (ranked(lists), graded, train, items)
    ]
    there = evaluate(*frames[:2], train=frames[2], items=frames[3], engine="spark", **asked)
    assert there.metric_rows == here.metric_rows
    there.unpersist()
