"""Metrics beyond accuracy end to end: facts of items and histories reach the workers, counts come back."""

from collections.abc import Iterator
from typing import Any

import item_metrics
import pandas as pd
import pyarrow as pa
import pytest
from data_b import GROUPS, LISTS, TRAIN, TRUTH, VECTORS
from item_metrics import METRICS, registered
from opened_tables import conform_items
from pyspark import cloudpickle
from pyspark.ml.functions import array_to_vector
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_eval import evaluate
from spark_eval.conventions.choice import Need
from spark_eval.errors import ConfigError, DataError
from spark_eval.evaluation import side_tables as segments

# What the metrics of tests/evaluation/item_metrics.py are of data B at 3.
AT_3 = {
    "t_popularity": (4 / 3 + 1 + 2 + 4 / 3) / 4,
    "t_groups": 1.1 * (5 / 3 + 1 + 1.5 + 5 / 3) / 4,
    "t_seen": 0.0,
    "t_first": 3.0,
    "t_coverage": 0.625,
    "t_filled": 0.8,
}


@pytest.fixture(autouse=True)
def metrics() -> Iterator[None]:
    # Workers have no folder of tests to import from.
    cloudpickle.register_pickle_by_value(item_metrics)  # type: ignore[no-untyped-call]
    with registered():
        yield
    cloudpickle.unregister_pickle_by_value(item_metrics)  # type: ignore[no-untyped-call]


def lists_of(model: str = "m", lists: Any = LISTS) -> pd.DataFrame:
    rows = [(model, user, item, rank) for user, items in lists.items() for rank, item in enumerate(items, 1)]
    return pd.DataFrame(rows, columns=["model", "user", "item", "rank"])


def pairs_of(items: Any) -> pd.DataFrame:
    return pd.DataFrame([(u, i) for u, of_user in items.items() for i in of_user], columns=["user", "item"])


def items_of() -> pd.DataFrame:
    rows = [(one, list(groups), list(VECTORS[one])) for one, groups in GROUPS.items()]
    return pd.DataFrame(rows, columns=["item", "groups", "vector"])


def values_of(rows: Any, k: int = 3) -> dict[str, float]:
    return {row.metric: row.value for row in rows if (row.k, row.segment) == (k, "all")}


def test_data_b_of_frames() -> None:
    other = lists_of("n", {1: [4, 7], 5: [1, 2, 3]})
    names = [
        "t_coverage",
        "t_popularity",
        "t_trained",
        "t_groups",
        "t_vectors",
        "t_first",
        "t_seen",
        "t_base",
    ]
    found = evaluate(
        pd.concat([lists_of(), other]),
        pairs_of(TRUTH),
        train=pairs_of(TRAIN),
        items=items_of(),
        metrics=[*names, "t_filled"],
        k=[2, 3],
        base="n",
        conventions={"entropy_weights": "slots"},
        engine="local",
    )
    rows = [row for row in found.metric_rows if row.model == "m"]
    values = values_of(rows)
    assert {name: values[name] for name in AT_3} == pytest.approx(AT_3)
    # One of three items of user 1; the other users have no list of n.
    assert values["t_base"] == pytest.approx(1 / 3)
    assert [row.metric for row in rows][::2] == [*names, "t_filled"]
    [coverage] = [row for row in rows if (row.metric, row.k) == ("t_coverage", 3)]
    assert (coverage.std_error, coverage.ci_low, coverage.n_users, coverage.n_undefined) == (None, None, 5, 0)
    assert not any("coverage" in name or "filled" in name for name in found.per_user.columns)
    assert set(found.sums["metric"]) == set(names) - {"t_coverage", "t_trained"}
    of_m = {tuple(row)[2:] for row in found.entries if row.model in ("m", None) and row.source != "truth"}
    assert {("in", None, 8, None), ("used", None, 8, None)} <= of_m
    for outcome in ("outside_catalog", "unseen_items", "without_groups", "without_vectors", "empty_lists"):
        assert (outcome, None, 0, 1) in of_m, outcome


def item_ids(items: "pd.Series[int]", *, is_text: bool) -> Any:
    return "i" + items.astype(str) if is_text else items


def in_folds(rows: pd.DataFrame, *, is_text: bool) -> pd.DataFrame:
    """Two folds: in the second, users are others and a few rows are missing."""
    second = rows[rows["item"] != 3].assign(user=lambda those: those["user"] + 10, fold=1)
    both = pd.concat([rows.assign(fold=0), second], ignore_index=True)
    return both.assign(item=item_ids(both["item"], is_text=is_text))


@pytest.mark.parametrize("is_text", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_folds_models_and_segments_have_the_same_bits_however_rows_lie(
    spark: SparkSession, is_text: bool
) -> None:
    both = pd.concat([lists_of(), lists_of("n", {1: [1, 3, 2], 3: [2, 8], 5: [4]})])
    tables = [both, pairs_of(TRUTH), pairs_of(TRAIN)]
    lists, truth, train = (in_folds(one, is_text=is_text) for one in tables)
    items = items_of()
    items["item"] = item_ids(items["item"], is_text=is_text)
    asked: Any = {"metrics": list(METRICS), "k": [2, "all"], "base": "n", "segments": ["known"]}
    found = []
    for engine in ("local", "spark"):
        given: list[Any] = [lists, truth, train, items]
        if engine == "spark":
            given = [spark.createDataFrame(one).repartition(5, F.rand(5)) for one in given]
        evaluation = evaluate(*given[:2], train=given[2], items=given[3], engine=engine, **asked)
        per_user = sorted(map(str, evaluation.to_arrow("per_user").to_pylist()))
        found.append((list(map(str, evaluation.metric_rows)), per_user, list(evaluation.entries)))
        rows = evaluation.metric_rows
        evaluation.unpersist()
    assert found[0] == found[1]
    of_folds = {
        (row.segment, row.segment_value): row.value
        for row in rows
        if (row.model, row.metric, row.k) == ("m", "t_coverage", 2)
    }
    # In the second fold the list of user 4 lacks item 3: 6 and 4 stand first.
    assert of_folds == pytest.approx(
        {
            ("all", "all"): 5 / 8,
            ("fold", "0"): 5 / 8,
            ("fold", "1"): 4 / 8,
            ("folds", "mean"): 4.5 / 8,
            ("folds", "sd"): 2**-0.5 / 8,
            ("known", "known"): 5 / 8,
            ("known", "no_train"): 0,
        }
    )


def test_facts_come_as_text_as_maps_as_floats_and_as_vectors_of_spark_ml(spark: SparkSession) -> None:
    rows = [(1, "b|a||b", {3: 2.0}, [1, 2], [1.5]), (None, None, None, None, None)]
    schema = "item int, genres string, map map<int,float>, ids array<int>, f array<float>"
    vector = array_to_vector(F.array(F.lit(1.0), F.lit(0.0)))
    items = spark.createDataFrame(rows, schema).withColumn("ml", F.when(F.col("item") == 1, vector))
    columns: dict[str, dict[str, str]] = {"map": {"features": "ids"}, "ml": {}, "f": {}}
    values: dict[str, Any] = {"map": {3: 2.0}, "ml": [1.0, 0.0], "f": [1.5]}
    kinds = {"map": "map<bigint,double>", "ml": "array<double>", "f": "array<float>"}
    for name, others in columns.items():
        mapped = {"groups": "genres", "vector": name, **others}
        found = conform_items(items, mapped, [Need.GROUPS, Need.FEATURES, Need.VECTORS])
        groups = ["b", "a", "", "b"]
        features = ["1", "2"] if others else groups
        assert [tuple(row) for row in found.collect()] == [
            (1, groups, features, values[name], None),
            (None, None, None, None, "NULL_ID"),
        ]
        assert found.schema["vector"].dataType.simpleString() == kinds[name]


@pytest.mark.parametrize(
    ("items", "metric", "code"),
    [
        (pd.DataFrame({"item": [1, 1], "groups": ["a", "b"]}), "t_groups", "DUPLICATE_ITEM"),
        (pd.DataFrame({"item": ["1"], "groups": ["a"]}), "t_groups", "ID_TYPE_MISMATCH"),
        (pd.DataFrame({"item": [1]}), "t_groups", "MISSING_COLUMN"),
        (pd.DataFrame({"item": [1], "groups": [1.5]}), "t_groups", "NOT_A_SET"),
        (pd.DataFrame({"item": [1], "vector": ["a"]}), "t_vectors", "NOT_A_VECTOR"),
        (pd.DataFrame({"item": [1, 2], "vector": [[1.0], [1.0, 2.0]]}), "t_vectors", "VECTOR_LENGTHS"),
        (pa.table({"item": pa.array([None], pa.int64())}), "t_coverage", "EMPTY_ITEMS"),
    ],
)
@pytest.mark.parametrize("engine", ["auto", pytest.param("spark", marks=pytest.mark.slow)])
@pytest.mark.usefixtures("spark")
def test_bad_items_are_refused_by_name(items: Any, metric: str, code: str, engine: str) -> None:
    with pytest.raises(DataError) as raised:
        evaluate(lists_of(), pairs_of(TRUTH), items=items, metrics=metric, k=3, engine=engine)
    assert raised.value.code == code


def test_an_unknown_base_and_too_many_facts_are_refused_and_rows_without_item_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    items = pa.table({"item": pa.array([1, None, None], pa.int64())})
    with pytest.raises(ConfigError, match=r"unknown model 'x' in evaluate\.base") as raised:
        evaluate(lists_of(), pairs_of(TRUTH), items=items, metrics=["t_base"], k=3, base="x", engine="local")
    assert raised.value.code == "UNKNOWN_MODEL"
    found = evaluate(lists_of(), pairs_of(TRUTH), items=items, metrics=["t_coverage"], k=3, engine="local")
    of_items = [tuple(entry)[2:5] for entry in found.entries if entry.source == "items"]
    assert of_items == [("in", None, 3), ("used", None, 1), ("quarantined", "NULL_ID", 2)]
    assert [row.value for row in found.metric_rows] == [0.0]
    assert (len(found.per_user), found.n_per_user) == (5, 5)
    monkeypatch.setattr(segments, "MOST_BYTES", 100)
    with pytest.raises(DataError, match="items: facts of items take") as too_many:
        evaluate(lists_of(), pairs_of(TRUTH), items=items_of(), metrics="t_vectors", k=3, engine="local")
    assert too_many.value.code == "TOO_MANY_FACTS"


NOTHING_KNOWN = [
    *(("groups", kind) for kind in (pa.list_(pa.string()), pa.string())),
    *(("features", kind) for kind in (pa.list_(pa.int32()), pa.list_(pa.null()))),
    *(("vector", kind) for kind in (pa.list_(pa.float64()), pa.list_(pa.float32()), pa.list_(pa.null()))),
    ("vector", pa.map_(pa.int32(), pa.float64())),
]
OF_COLUMN = {
    "groups": [
        *("exposure", "calibration_kl", "alpha_ndcg", "err_ia", "nerr_ia", "p_ia", "subtopic_recall"),
        *("ap_ia", "ild(distance=jaccard)"),
    ],
    "features": ["ild(distance=jaccard)", "ild(distance=hamming)"],
    "vector": ["ild(distance=cosine)", "ild(distance=euclid)", "serendipity"],
}


@pytest.mark.parametrize("engine", ["auto", pytest.param("spark", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("column", OF_COLUMN)
@pytest.mark.usefixtures("spark")
def test_nothing_is_known_of_any_item(column: str, engine: str) -> None:
    """A column of nulls, of empty sets or vectors, and of both, of any type: the values are the same.

    Spark reads maps.
    """
    every = engine == "spark"
    kinds = [kind for name, kind in NOTHING_KNOWN if name == column]
    found = {}
    for kind in kinds:
        empty: Any = "" if kind == pa.string() else []
        # Nulls and empty ones each alone for the first type, together for all.
        for fill in [[None, empty], *([[None], [empty]] if every or kind is kinds[0] else [])]:
            values = pa.array([fill[n % len(fill)] for n in range(len(VECTORS))], kind)
            groups = {} if column == "groups" else {"groups": pa.array([["x"]] * len(VECTORS))}
            items = pa.table({"item": list(VECTORS), column: values, **groups})
            of_all = evaluate(
                lists_of(),
                pairs_of(TRUTH),
                train=pairs_of(TRAIN),
                items=items,
                metrics=OF_COLUMN[column],
                k=[3],
                engine=engine,
            )
            found[kind, str(fill)] = repr(of_all.metric_rows)
    assert len(set(found.values())) == 1, found
