"""Intervals of means by the bootstrap: against one loop over users, the same bits in any order of rows."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from spark_eval.arrow.xxhash64 import id_hashes
from spark_eval.errors import ConfigError
from spark_eval.evaluation.evaluate import evaluate
from spark_eval.evaluation.result import Evaluation
from spark_eval.evaluation.summary import MetricRow
from spark_eval.runners import user_buckets
from spark_eval.statistics.draws import poisson_weights

N_USERS, LENGTH, N_ITEMS = 60, 8, 20
METRICS = ["precision", "dcg", "gauc", "fcp"]
OPTIONS: Any = {"metrics": METRICS, "k": [5, "all"], "interval": "bootstrap", "resamples": 40, "seed": 3}
OPTIONS["engine"] = "local"
# What weighs in a weighted mean, and the values.
WEIGHTED = {
    "gauc_by_impressions": ("auc", "auc_impressions"),
    "gauc_by_positives": ("auc", "auc_positives"),
    "fcp_micro": ("fcp", "fcp_pairs"),
}


def lists_of(models: str, *, folds: int = 0) -> pd.DataFrame:
    generator = np.random.default_rng(5)
    parts = []
    for model in models:
        for user in range(N_USERS):
            items = generator.permutation(N_ITEMS)[:LENGTH]
            parts.append(pd.DataFrame({"model": model, "user": user, "item": items}))
    lists = pd.concat(parts, ignore_index=True)
    lists["rank"] = lists.groupby(["model", "user"]).cumcount() + 1
    return pd.concat([lists.assign(fold=n) for n in range(folds)]) if folds else lists


def truth_of(*, folds: int = 0) -> pd.DataFrame:
    generator = np.random.default_rng(6)
    parts = [
        pd.DataFrame({"user": user, "item": generator.permutation(N_ITEMS)[:4], "fold": fold})
        for fold in range(max(folds, 1))
        for user in range(N_USERS)
        if not folds or generator.random() < 0.7
    ]
    truth = pd.concat(parts, ignore_index=True)
    truth["relevance"] = generator.integers(1, 4, len(truth))
    return truth if folds else truth.drop(columns="fold")


def users_of() -> pd.DataFrame:
    return pd.DataFrame({"user": range(N_USERS), "country": ["at", "be", "cz"] * (N_USERS // 3)})


def check(found: Evaluation, n_resamples: int, seed: int) -> None:
    """Compare each interval with percentiles of means over rows counted as often as their user is drawn."""
    rows = found.to_pandas("per_user")
    hashes = id_hashes(pa.array(rows["user"]), np.int64(seed))
    weights = poisson_weights(hashes, n_resamples).astype(np.float64)
    n_checked = 0
    for row in found.metric_rows:
        if row.std_error is None:
            assert (row.ci_low, row.ci_high) == (None, None)
            continue
        cut = "all" if row.k is None else row.k
        plain = {"precision": "precision", "dcg": "dcg", "gauc": "auc", "fcp": "fcp"}.get(row.metric)
        value, weight = (plain, None) if plain else WEIGHTED[row.metric]
        chosen = (rows["model"] == row.model) & rows[f"{value}_at_{cut}"].notna()
        if row.segment != "all":
            chosen &= rows[row.segment].astype(str) == row.segment_value
        own, drawn = rows[chosen], weights[chosen.to_numpy()]
        counted = np.ones(len(own)) if weight is None else own[f"{weight}_at_{cut}"].to_numpy()
        below = counted @ drawn
        means = ((own[f"{value}_at_{cut}"].to_numpy() * counted) @ drawn)[below > 0] / below[below > 0]
        assert (row.ci_low, row.ci_high) == pytest.approx(np.quantile(means, [0.025, 0.975]), abs=1e-8)
        n_checked += 1
    assert n_checked > len(METRICS)


def test_intervals_are_those_of_users_drawn_again(tmp_path: Path) -> None:
    lists, truth, users = lists_of("ab"), truth_of(), users_of()
    tables: Mapping[str, Any] = {"users": users, "segments": "country"}
    found = evaluate(lists, truth, **tables, **OPTIONS)
    check(found, 40, 3)
    written = evaluate(lists, truth, folder=str(tmp_path / "users"), **tables, **OPTIONS)
    assert list(map(repr, written.metric_rows)) == list(map(repr, found.metric_rows))
    plain = evaluate(lists, truth, **tables, metrics=METRICS, k=[5, "all"], engine="local")
    assert [without_ends(row) for row in plain.metric_rows] == [
        without_ends(row) for row in found.metric_rows
    ]
    assert plain.sum_rows == found.sum_rows
    alone = evaluate(lists[lists["model"] == "b"], truth, **tables, **OPTIONS)
    assert alone.metric_rows == [row for row in found.metric_rows if row.model == "b"]


def without_ends(row: MetricRow) -> MetricRow:
    return row._replace(ci_low=None, ci_high=None)


def test_users_are_drawn_with_their_rows_of_all_folds() -> None:
    found = evaluate(lists_of("a", folds=3), truth_of(folds=3), **OPTIONS)
    check(found, 40, 3)
    over_folds = [row for row in found.metric_rows if row.segment == "folds"]
    assert over_folds
    assert {(row.ci_low, row.ci_high) for row in over_folds} == {(None, None)}


@pytest.mark.slow
def test_the_rows_may_lie_in_any_order(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = evaluate(lists_of("ab"), truth_of(), **OPTIONS)
    with monkeypatch.context() as patch:
        patch.setattr(user_buckets, "BUCKETS_PER_TASK", 1)
        moved = spark.createDataFrame(lists_of("ab").sample(frac=1, random_state=1)).repartition(5)
        again = evaluate(moved, truth_of().sample(frac=1, random_state=2), **(OPTIONS | {"engine": "spark"}))
    assert list(map(repr, again.metric_rows)) == list(map(repr, found.metric_rows))


@pytest.mark.parametrize(
    ("code", "options"),
    [
        ("INVALID_CHOICE", {"interval": "bootsrap"}),
        ("OUT_OF_RANGE", {"interval": "bootstrap", "resamples": 0}),
        ("OUT_OF_RANGE", {"seed": 2**63}),
        ("TOO_MANY_REPLICATES", {"resamples": 100_000, "k": list(range(1, 30))}),
    ],
)
def test_what_cannot_be_drawn_is_refused(code: str, options: Any) -> None:
    with pytest.raises(ConfigError) as refused:
        evaluate(lists_of("ab"), truth_of(), **{**OPTIONS, **options})
    assert refused.value.code == code
