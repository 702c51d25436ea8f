"""Comparisons in this process and on Spark: the same bits, accounting, gates and errors."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from spark_eval import compare, evaluate
from spark_eval.errors import SparkEvalError
from spark_eval.runners import user_buckets

N_USERS: Final = 60
ANYBODY: Final = {"min_users": 1, "min_common": 0.1}
GATES: Final[list[dict[str, Any]]] = [
    {"metric": "ndcg", "k": 5, "max_drop": 0.05, **ANYBODY},
    {"metric": "map", "k": 5, "max_drop": 0.5, "drop": "relative", "segment": "country", **ANYBODY},
    {"metric": "ndcg", "k": 5, "max_drop": 0.0, "mode": "certain_drop", **ANYBODY},
]


def users_of(*models: str, by_fold: bool = False, seed: int = 5) -> pd.DataFrame:
    """Rows of users that differ by model, with segments and undefined values."""
    draw = np.random.default_rng(seed)
    parts = []
    for model in models:
        for fold in (0, 1) if by_fold else (0,):
            users = np.sort(draw.choice(N_USERS, N_USERS - 7, replace=False))
            rows = pd.DataFrame({"model": model, "user": users, "n_relevant": users % 4 + 1})
            rows["country"] = np.where(users % 3, "at", "be")
            rows["age"] = pd.array(users // 20, dtype="Int64")
            rows.loc[users % 5 == 0, "age"] = pd.NA
            for column in ("ndcg_at_5", "ap_at_5"):
                values = draw.integers(0, 7, len(users)) / 6 * 10.0 ** draw.integers(-9, 1, len(users))
                rows[column] = np.where(draw.random(len(users)) < 0.1, np.nan, values)
            parts.append(rows.assign(fold=fold) if by_fold else rows)
    return pd.concat(parts, ignore_index=True).sample(frac=1, random_state=3)


def bits(table: pa.Table) -> list[str]:
    """The rows in one order, doubles by their bits."""
    rows = (row.values() for row in table.to_pylist())
    return sorted(str([one.hex() if isinstance(one, float) else one for one in row]) for row in rows)


def found(engine: str, candidate: Any, baseline: Any = None, **options: Any) -> dict[str, Any] | str:
    """All tables of a comparison, or its error."""
    try:
        result = compare(candidate, baseline, engine=engine, **options)
    except SparkEvalError as error:
        return str(error)
    assert (result.spark is not None) is (engine == "spark")
    assert isinstance(result.gates, pd.DataFrame)
    tables: dict[str, Any] = {name: bits(result.to_arrow(name)) for name in result.tables}
    return tables | {"pairs": result.pairs, "common": result.common}


def assert_alike(candidate: Any, baseline: Any = None, **options: Any) -> dict[str, Any]:
    """Both engines find the same tables."""
    local = found("local", candidate, baseline, **options)
    assert isinstance(local, dict), local
    assert local == found("spark", candidate, baseline, **options)
    return local


ASKED: Final[Mapping[str, dict[str, Any]]] = {
    "tests": {"tests": ["t", "sign", "wilcoxon"], "equivalence": 0.1, "interval": "bca", "resamples": 50},
    "resampled": {"tests": ["randomization", "bootstrap", "bca"], "resamples": 50, "segments": ["country"]},
    "gates": {"gates": GATES, "segments": ["age", "country"]},
}


# Each of these with a baseline or without; the other pairs repeat them.
WITH_BASELINE: Final = {"tests": False, "resampled": True, "gates": False}


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("asked", "has_baseline"),
    [
        pytest.param(asked, given, marks=[] if WITH_BASELINE[asked] is given else pytest.mark.exhaustive)
        for asked in ASKED
        for given in (False, True)
    ],
)
def test_a_comparison_has_the_same_bits(asked: str, has_baseline: bool) -> None:
    baseline = users_of("als", "knn", "old", seed=6) if has_baseline else None
    gated = {} if has_baseline else {"baseline_model": "als"}
    tables = assert_alike(users_of("als", "knn"), baseline, **gated, **ASKED[asked])
    assert tables["comparisons"]
    assert bool(tables["gates"]) is (asked == "gates")


@pytest.mark.usefixtures("spark")
def test_folds_have_the_same_bits() -> None:
    both = users_of("als", "knn", by_fold=True)
    tests = ["t", "randomization", "bootstrap"]
    assert_alike(both, segments=["fold", "country"], tests=tests, resamples=50, test_train_ratio=0.5)


KINDS: Final[Mapping[str, Callable[[pd.DataFrame], Any]]] = {
    "polars": pl.from_pandas,
    "arrow": pa.Table.from_pandas,
    "texts": lambda rows: rows.assign(user="u" + rows["user"].astype(str)),
    "numbered models": lambda rows: rows.assign(model=rows["model"].map({"als": 1, "knn": 2})),
    "foreign names": lambda rows: rows.rename(columns={"ndcg_at_5": "NDCG@5", "ap_at_5": "map@5"}),
}


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=pytest.mark.slow if kind in ("polars", "arrow") else []) for kind in KINDS],
)
def test_frames_of_all_libraries_have_the_same_bits(kind: str) -> None:
    assert_alike(KINDS[kind](users_of("als", "knn")), segments=["country"])


@pytest.mark.usefixtures("spark")
def test_results_and_their_files_have_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(1)
    n_rows = 40 * N_USERS
    lists = pd.DataFrame(
        {"model": draw.choice(["als", "a b/ü"], n_rows), "user": draw.integers(0, N_USERS, n_rows)}
    )
    lists = lists.assign(item=draw.integers(0, 99, n_rows), score=draw.random(n_rows))
    truth = pd.DataFrame({"user": draw.integers(3, N_USERS + 3, 500), "item": draw.integers(0, 99, 500)})
    users = pd.DataFrame({"user": range(N_USERS), "country": ["at", "be"] * (N_USERS // 2)})
    options: dict[str, Any] = {"metrics": ["ndcg", "map"], "k": 5, "segments": ["country"], "users": users}
    result = evaluate(lists, truth, engine="local", folder=str(tmp_path / "by_bucket"), **options)
    evaluate(lists, truth, engine="local", **options).write(tmp_path / "by_model")
    places = [tmp_path / "by_bucket", tmp_path / "by_model" / "per_user"]
    asked: dict[str, Any] = {"segments": ["country"], "tests": ["t", "wilcoxon"], "gates": GATES[:1]}
    asked |= {"baseline_model": "als", "gates": GATES[:1]}
    assert_alike(result, **asked)

    def of_files(engine: str, place: Path) -> Any:
        tables = found(engine, place, **asked)
        assert isinstance(tables, dict), tables
        return tables

    tables = [of_files(engine, place) for place in places for engine in ("local", "spark")]
    assert all(one == tables[0] for one in tables)
    compared = [
        compare(one, None, engine="local", **asked).to_arrow("comparisons") for one in (result, places[0])
    ]
    of_result, of_files_alone = [bits(table.drop_columns("conventions")) for table in compared]
    assert of_result == of_files_alone, "only conventions are not told by files"
    monkeypatch.setattr(user_buckets, "COARSEST", 0)  # as if the buckets of files were too coarse
    assert of_files("local", places[0]) == tables[0]


Rows = pd.DataFrame
# Candidate, baseline and options of comparisons that are refused, from rows of two models and of another run.
REFUSED: Final[Mapping[str, Callable[[Rows, Rows], tuple[Any, Any, dict[str, Any]]]]] = {
    "no user": lambda rows, _: (rows.drop(columns="user"), None, {}),
    "no model": lambda rows, _: (rows.drop(columns="model"), None, {}),
    "null model": lambda rows, _: (rows.assign(model=rows["model"].replace("als", None)), None, {}),
    "no metric": lambda rows, _: (rows[["user", "model"]].assign(ndgc_at_5=1.0), None, {}),
    "metric twice": lambda rows, _: (rows.assign(**{"map@5": 1.0}), None, {}),
    "user twice": lambda rows, _: (pd.concat([rows, rows[:1]]), None, {}),
    "unknown segment": lambda rows, _: (rows, None, {"segments": ["contry"]}),
    "infinite": lambda rows, _: (rows.assign(ndcg_at_5=np.inf), None, {}),
    "ids of two types": lambda rows, other: (rows, other.assign(user="u"), {}),
    "nobody in common": lambda rows, other: (rows, other.assign(user=other["user"] + 1000), {}),
    "other truth": lambda rows, other: (rows, other.assign(n_relevant=9), {}),
    "folds of one side": lambda rows, other: (rows, other.assign(fold=1), {}),
    "no run": lambda rows, _: (rows, None, {"gates": [{**GATES[0], "against": {"run": "x"}}]}),
}


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_the_same_error(name: str) -> None:
    candidate, baseline, options = REFUSED[name](users_of("als", "knn"), users_of("als", seed=7))
    refused = found("local", candidate, baseline, **options)
    assert isinstance(refused, str)
    assert "NEEDS_SPARK" not in refused
    assert refused == found("spark", candidate, baseline, **options)


@pytest.mark.usefixtures("spark")
def test_one_side_on_spark_takes_both_there() -> None:
    lists = pd.DataFrame({"user": [1, 1, 2], "item": [7, 8, 9], "rank": [1, 2, 1]})
    truth = pd.DataFrame({"user": [1, 2], "item": [8, 9]})
    local, again, of_spark = (
        evaluate(lists, truth, model="m", engine=engine) for engine in ("local", "local", "spark")
    )
    assert {row.difference for row in compare(local, of_spark, engine="auto").rows} == {0.0}
    with pytest.raises(SparkEvalError, match=r"NEEDS_SPARK.* baseline is a Spark frame"):
        compare(local, of_spark, engine="local")
    assert compare(local, again, engine="auto").spark is None


WITHOUT_JAVA: Final = """
import sys
import pandas as pd
from spark_eval import compare
users = pd.DataFrame({"model": ["a", "a", "b", "b"], "user": [1, 2, 1, 2], "mrr_at_5": [0.5, 1, 1, 1]})
found = compare(users, gates=[{"metric": "mrr", "k": 5, "max_drop": 0.5, "min_users": 1}], baseline_model="a")
print(len(found.gates), found.to_pandas()["difference"].tolist(), "pyspark" in sys.modules)
"""


def test_frames_need_neither_java_nor_pyspark(without_java: Callable[[str], list[str]]) -> None:
    assert without_java(WITHOUT_JAVA) == ["1", "[0.25]", "False"]
