"""What must not change, or must change in a known way, when the input does: on random lists."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from choices import ACCURACY, PERFECT
from pyspark.sql import SparkSession

from spark_eval.evaluation.evaluate import evaluate
from spark_eval.evaluation.result import Evaluation
from spark_eval.kernels.registry import RANKING

N_USERS, N_ITEMS, LENGTH = 50, 30, 8
KS = (1, 3, LENGTH)
# Without a table of items nothing is known of them but who finds them relevant.
OF_RELEVANCE = [name for name, metric in RANKING.items() if not metric.knows_items]
# Of a whole list, and of its length, nothing is said when items are appended.
METRICS = [*ACCURACY, "ndcg(gain=exp2)", "map(denominator=relevant)", "ndcg(tie_order=best)"]
UNCUT = ("r_precision", "ndcg(tie_order=best)")


@pytest.fixture(scope="module")
def truth() -> pd.DataFrame:
    random = np.random.default_rng(3)
    rows = [
        (user, int(item), float(random.integers(1, 5)))
        for user in range(N_USERS)
        for item in random.choice(N_ITEMS, random.integers(1, 12), replace=False)
    ]
    return pd.DataFrame(rows, columns=["user", "item", "relevance"])


@pytest.fixture(scope="module")
def base() -> pd.DataFrame:
    """Lists with many ties; every tenth user has none."""
    random = np.random.default_rng(4)
    rows = [
        ("base", user, int(item), float(random.integers(-8, 9)) / 4)
        for user in range(N_USERS)
        if user % 10
        for item in random.choice(N_ITEMS, LENGTH, replace=False)
    ]
    return pd.DataFrame(rows, columns=["model", "user", "item", "score"])


Values = Mapping[tuple[str, str, int], float | None]


def values_of(evaluation: Evaluation) -> Values:
    return {(row.model, row.metric, row.k or 0): row.value for row in evaluation.metric_rows}


@pytest.fixture(scope="module")
def evaluation(truth: pd.DataFrame, base: pd.DataFrame) -> Evaluation:
    """Variants of the same lists, each as a model of its own."""
    extra = base.groupby(["model", "user"], as_index=False)["item"].max().assign(score=-100.0)
    extra["item"] += 1000
    models = {
        "base": base,
        "permuted": base.sample(frac=1, random_state=7),
        "scaled": base.assign(score=base["score"] * 2.0**40),
        "appended": pd.concat([base, extra]),
        "perfect": truth.rename(columns={"relevance": "score"}),
        "disjoint": base.assign(item=base["item"] + 1000),
        "worse": base.assign(score=-base["score"]),
    }
    together = pd.concat([lists.assign(model=name) for name, lists in models.items()], ignore_index=True)
    return evaluate(together, truth, metrics=METRICS, k=KS, engine="local")


@pytest.fixture(scope="module")
def values(evaluation: Evaluation) -> Values:
    return values_of(evaluation)


def of_model(values: Values, model: str, names: list[str] | None = None) -> dict[tuple[str, int], Any]:
    return {
        (name, k): value
        for (other, name, k), value in values.items()
        if other == model and (names is None or name in names)
    }


@pytest.mark.parametrize("variant", ["permuted", "scaled"])
def test_the_order_of_rows_and_the_scale_of_scores_change_nothing(values: Values, variant: str) -> None:
    assert of_model(values, variant) == of_model(values, "base")


def test_items_appended_below_change_nothing_at_k(values: Values) -> None:
    kept = [name for _, name, _ in values if name not in UNCUT]
    assert of_model(values, "appended", kept) == of_model(values, "base", kept)


def test_lists_that_are_the_truth_are_perfect(values: Values) -> None:
    perfect = {RANKING[name].run_name for name in PERFECT - {"precision"}}
    found = of_model(values, "perfect", [*perfect, "ndcg(gain=exp2)"])
    assert len(found) == len(KS) * (len(perfect) + 1)
    assert {key[0] for key, value in found.items() if value is None} <= {"gauc", "fcp"}  # no miss, no pair
    assert set(found.values()) - {None} == {1.0}


def test_lists_without_anything_of_the_truth_have_nothing(values: Values) -> None:
    assert set(of_model(values, "disjoint").values()) == {0.0, None}  # pairs of hits there are none


@pytest.mark.parametrize("name", ["recall", "hit_rate", "mrr", "arhr", "dcg", "cg"])
def test_a_larger_k_never_lowers(values: Values, name: str) -> None:
    for model in ("base", "worse", "perfect"):
        by_k = [value for (_, k), value in sorted(of_model(values, model, [name]).items())]
        assert by_k == sorted(by_k)
        assert len(by_k) == len(KS)


def test_best_ties_are_no_worse(values: Values) -> None:
    for k in KS:
        lowest, highest = values["base", "ndcg", k], values["base", "ndcg(tie_order=best)", k]
        assert lowest is not None
        assert highest is not None
        assert 0 < lowest < highest < 1


def test_renamed_users_and_items_change_nothing(
    truth: pd.DataFrame, base: pd.DataFrame, values: Values
) -> None:
    # Shifted item ids keep their order, by which ties fall; users may go anywhere.
    def renamed(rows: pd.DataFrame) -> pd.DataFrame:
        users = [f"u{7 * user % N_USERS}" for user in rows["user"]]
        return rows.assign(user=users, item=rows["item"] * 3 - 50)

    found = evaluate(renamed(base), renamed(truth), metrics=METRICS, k=KS, engine="local")
    assert of_model(values_of(found), "base") == of_model(values, "base")


def test_a_user_with_nothing_scales_the_means(
    truth: pd.DataFrame, base: pd.DataFrame, values: Values
) -> None:
    more = pd.concat([truth, truth[:1].assign(user=N_USERS, item=0, relevance=1.0)])
    nothing = pd.concat([base, base[:1].assign(user=N_USERS, item=999, score=1.0)])
    larger = evaluate(nothing, more, metrics=["map", "ndcg", "cg"], k=KS, engine="local")
    for (_, name, k), value in values_of(larger).items():
        before = values["base", name, k]
        assert before is not None
        assert value == pytest.approx(before * N_USERS / (N_USERS + 1), rel=1e-14)


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_model_split_over_files_is_one_model(
    spark: SparkSession, truth: pd.DataFrame, base: pd.DataFrame, values: Values, tmp_path: Path, engine: str
) -> None:
    for part in range(5):
        base[base["item"] % 5 == part].to_parquet(tmp_path / f"{part}.parquet", index=False)
    lists = spark.read.parquet(str(tmp_path)) if engine == "spark" else str(tmp_path)
    split = evaluate(lists, truth, metrics=METRICS, k=KS, engine=engine)
    assert of_model(values_of(split), "base") == of_model(values, "base")
    split.unpersist()
