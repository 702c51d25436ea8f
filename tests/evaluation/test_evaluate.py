"""The whole evaluation on a handful of rows: what it refuses, what it stamps, what it keeps."""

import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from arrow_rows import table
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_eval.errors import ConfigError, DataError, SparkEvalError
from spark_eval.evaluation.evaluate import evaluate


def tiny(rows: list[tuple[object, ...]], user: str = "int", order: str = "rank") -> pa.Table:
    return table(rows, f"model string, user {user}, item int, {order} int")


def liked(rows: list[tuple[object, ...]]) -> pa.Table:
    return table(rows, "user int, item int, relevance double")


def code_of(recommendations: pa.Table, truth: pa.Table, **rules: Any) -> str:
    with pytest.raises((ConfigError, DataError)) as raised:
        evaluate(recommendations, truth, engine="local", **rules)
    code: str = raised.value.code
    return code


@pytest.mark.parametrize(
    ("recommended", "relevant", "rules", "code"),
    [
        ([("als", 1, 1, 1)], [], {}, "EMPTY_TRUTH"),
        ([("als", 1, 1, 1)], [(1, 1, 3.0)], {"threshold": 4.0}, "EMPTY_TRUTH"),
        ([("als", 1, 1, 1)], [(1, 1, -3.0)], {}, "NEGATIVE_RELEVANCE"),
        (
            [("als", 1, 1, 1)],
            [(1, 1, 1.5e308), (1, 1, 1.5e308)],
            {"conventions": {"truth_duplicates": "sum"}, "metrics": ["precision"]},
            "RELEVANCE_TOO_LARGE",
        ),
        ([("als", 1, 1, 1)], [(1, 1, 513.0)], {"conventions": {"gain": "exp2"}}, "RELEVANCE_TOO_LARGE"),
        ([], [(1, 1, 1.0)], {}, "EMPTY_RECOMMENDATIONS"),
        ([("als", 2, 1, 1)], [(1, 1, 1.0)], {}, "NO_ID_OVERLAP"),
        ([("als", 1, 1, 1), ("bpr", 2, 1, 1)], [(1, 1, 1.0)], {}, "NO_ID_OVERLAP"),
        ([("als", 1, 1, None)], [(1, 1, 1.0)], {}, "NO_ID_OVERLAP"),
        ([("als", 1, 1, 0)], [(1, 1, 1.0)], {}, "RANK_BASE"),
        ([(None, 1, 1, 1)], [(1, 1, 1.0)], {}, "NULL_MODEL"),
        ([("als", 1, 1, 1), ("als", 1, 2, 1)], [(1, 1, 1.0), (1, 2, 1.0)], {}, "DUPLICATE_RANK"),
        ([("als", 1, 1, 1), ("als", 1, 2, 1)], [(1, 9, 1.0)], {"checks": "full"}, "DUPLICATE_RANK"),
    ],
)
def test_data_without_an_answer_are_refused_by_name(
    recommended: list[tuple[object, ...]],
    relevant: list[tuple[object, ...]],
    rules: dict[str, Any],
    code: str,
) -> None:
    assert code_of(tiny(recommended), liked(relevant), **rules) == code


@pytest.mark.parametrize(
    ("engine", "kind", "values", "code"),
    [
        ("local", pa.int32(), (0, -1), "RANK_BASE"),
        ("local", pa.float64(), (0.0, -1.0), "RANK_BASE"),
        ("local", pa.float64(), (1.5, 2.5), "RANK_NOT_INTEGER"),
        ("spark", pa.decimal128(4, 1), (Decimal("1.5"), Decimal("2.5")), "RANK_NOT_INTEGER"),
    ],
)
@pytest.mark.usefixtures("spark")
def test_ranks_that_are_refused_are_no_second_fault_of_their_users(
    engine: str, kind: pa.DataType, values: tuple[Any, Any], code: str
) -> None:
    lists = tiny([("als", 1, item, None) for item in range(2)]).drop_columns("rank")
    lists = lists.append_column("rank", pa.array(values, kind))
    options: Any = {"metrics": ["mrr"], "engine": engine}
    with pytest.raises(DataError) as raised:
        evaluate(lists, liked([(1, 1, 1.0)]), **options)
    assert raised.value.code == code
    assert "2 rows with a rank" in raised.value.message
    assert "NO_ID_OVERLAP" not in raised.value.message
    other = tiny([("bpr", 8, 1, None)]).drop_columns("rank")
    sound = pa.array([type(values[0])(1)], kind)
    others = pa.concat_tables([lists, other.append_column("rank", sound)])
    with pytest.raises(DataError, match=rf"{code}.*NO_ID_OVERLAP.*'bpr'") as raised:
        evaluate(others, liked([(1, 1, 1.0)]), **options)
    assert raised.value.message.count("NO_ID_OVERLAP") == 1


def test_the_preset_of_scikit_learn_says_which_metrics_it_has() -> None:
    ranked, truth = tiny([("als", 1, 1, 1)]), liked([(1, 1, 1.0)])
    options: Any = {"conventions": "sklearn", "engine": "local"}
    with pytest.raises(ConfigError) as raised:
        evaluate(ranked, truth, **options)
    told = ", ".join(f"{name}@10" for name in ("precision", "recall", "f1", "hit_rate", "mar", "mrr", "arhr"))
    assert raised.value.message.startswith(f"{told}: tie_order=shared, as in the preset sklearn, ")
    asked = re.search(r"ask for metrics=\[(.*)\] alone", raised.value.message)
    assert asked is not None
    scored = tiny([("als", 1, 1, 1)], order="score")
    assert evaluate(scored, truth, metrics=asked[1].split(", "), **options).models == ["als"]


@pytest.mark.parametrize(
    ("metric", "items", "says"),
    [
        ("ild", None, "for ild we need item attributes; give items, with vector for ild"),
        ("ild", "item int", "no column 'vector' for ild (by features instead: ild(distance=jaccard)); found"),
        ("ild", "item int, vectors array<double>", "Map with columns={'vector': 'vectors'}"),
        ("ild(distance=jaccard)", None, "with features for ild(distance=jaccard)"),
        ("ild(distance=jaccard)", "item int", "no column 'groups' for ild(distance=jaccard); found"),
        ("calibration_kl", "item int", "no column 'groups' for calibration_kl"),
    ],
)
def test_a_metric_of_items_is_named_with_the_column_that_it_needs(
    metric: str, items: str | None, says: str
) -> None:
    given = None if items is None else table([], items)
    ranked, truth = tiny([("als", 1, 1, 1)]), liked([(1, 1, 1.0)])
    with pytest.raises(SparkEvalError) as raised:
        evaluate(ranked, truth, items=given, train=truth, metrics=[metric], engine="local")
    assert raised.value.code == ("MISSING_ITEMS" if items is None else "MISSING_COLUMN")
    assert says in raised.value.message


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        ({"k": 0}, "INVALID_K"),
        ({"k": [5, -1]}, "INVALID_K"),
        ({"k": []}, "INVALID_K"),
        ({"k": [True]}, "INVALID_K"),
        ({"k": [2.5]}, "INVALID_K"),
        ({"k": 2**40}, "INVALID_K"),
        ({"metrics": ["ndgc"]}, "UNKNOWN_METRIC"),
        ({"metrics": []}, "NO_METRICS"),
        ({"metrics": ["ndcg(gian=exp2)"]}, "UNKNOWN_OPTION"),
        ({"metrics": ["ndcg("]}, "INVALID_METRIC"),
        ({"metrics": ["mrr"], "conventions": "sklearn"}, "TIE_ORDER"),
        ({"conventions": {"threshold": "high"}}, "INVALID_CHOICE"),
        ({"no_truth": "keep"}, "INVALID_CHOICE"),
        ({"checks": "none"}, "INVALID_CHOICE"),
    ],
)
def test_a_wrong_choice_is_refused_before_data_are_read(rules: dict[str, Any], code: str) -> None:
    assert code_of(tiny([]), liked([]), **rules) == code


def test_ids_of_two_types_are_refused() -> None:
    assert code_of(tiny([], user="string"), liked([])) == "ID_TYPE_MISMATCH"


def test_repeated_truth_never_lifts_a_metric_above_one() -> None:
    recommendations = tiny([("als", 1, item, item) for item in (1, 2, 3)])
    truth = liked([(1, item, 1.0) for item in (1, 2, 1)])
    evaluation = evaluate(recommendations, truth, k=3, metrics=["map"], engine="local")
    assert evaluation.metrics["value"].tolist() == [1.0]


def test_rows_carry_the_stamp_and_the_model_of_their_rules() -> None:
    evaluation = evaluate(
        tiny([("als", 1, 1, 1)]),
        liked([(1, 1, 1.0)]),
        k=[3, 1, 3],
        metrics=["mrr", "rr"],
        conventions={"gain": "exp2"},
        threshold=1.0,
        engine="local",
    )
    stamp = "default, gain=exp2; no_recommendations=zero; no_truth=drop; no_hits=zero; relevance>=1.0"
    found = evaluation.metrics.sort_values("k")[["model", "metric", "k", "conventions"]].to_numpy().tolist()
    assert found == [["als", "mrr", 1, stamp], ["als", "mrr", 3, stamp]]


@pytest.mark.usefixtures("spark")
def test_what_is_kept_is_freed(persisted: list[Any]) -> None:
    rows, truth = tiny([("als", 1, 1, 1)]), liked([(1, 1, 1.0)])
    evaluation = evaluate(rows, truth, metrics=["rr"], k=1)
    assert [rows.is_cached for rows in persisted] == [True]
    evaluation.unpersist()
    assert [rows.is_cached for rows in persisted] == [False]


@pytest.mark.usefixtures("spark")
def test_a_refusal_keeps_nothing(persisted: list[Any]) -> None:
    rows, truth = tiny([("als", 2, 1, 1)]), liked([(1, 1, 1.0)])
    with pytest.raises(DataError, match="NO_ID_OVERLAP"):
        evaluate(rows, truth, metrics=["rr"], k=1)
    assert [rows.is_cached for rows in persisted] == [False]


def test_ids_up_to_the_largest_come_out_as_they_went_in(spark: SparkSession) -> None:
    largest = 2**63 - 1
    users = [largest, largest - 1, -(2**63), 2**53 + 1]
    rows = [("als", user, user, rank) for rank, user in enumerate(users, 1)]
    recommendations = spark.createDataFrame(
        [*rows, ("als", None, 1, 1)], "model string, user bigint, item bigint, rank int"
    )
    truth = spark.range(0).select(F.col("id").alias("user"), F.col("id").alias("item"))
    truth = truth.unionAll(spark.createDataFrame([(user, user) for user in users], truth.schema))
    evaluation = evaluate(recommendations, truth, metrics=["rr"], k=9)
    found = {row["user"]: row["rr_at_9"] for row in evaluation.per_user.collect()}
    assert found == {user: 1 / rank for rank, user in enumerate(users, 1)}
