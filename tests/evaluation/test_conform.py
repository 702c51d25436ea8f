"""The door of the inputs: columns found by name and path, types checked, unusable rows marked."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from conformed import conformed_log
from frames import assert_rows
from opened_tables import (
    conform_items,
    conform_recommendations,
    conform_train,
    conform_truth,
    conform_users,
)
from pyspark.sql import DataFrame, SparkSession

from spark_eval.arrow.row_faults import FaultRule, judge_lists, judge_truth
from spark_eval.conventions import Conventions
from spark_eval.conventions.presets import parse_conventions
from spark_eval.errors import ConfigError, DataError
from spark_eval.runners.conformed import align_ids, check_id_types
from spark_eval.runners.quarantine import unusable_rows
from spark_eval.runners.rows import SparkRows
from spark_eval.schema import FAULT, ITEM, RANK, RELEVANCE, SCORE, TIMESTAMP, USER

SCORED = "model string, user string, item int, score double, fault string"
RANKED = "model string, user string, item int, rank long, fault string"
LARGEST = 2**63 - 1
NAN, INFINITY = float("nan"), float("inf")


def fault_of(spark: SparkSession, schema: str, columns: Mapping[str, str] | None = None) -> DataError:
    """What is wrong with recommendations of this schema; no row is needed to tell."""
    with pytest.raises(DataError) as raised:
        conform_recommendations(spark.createDataFrame([], schema), columns, "als")
    return raised.value


def assert_judged(
    lists: DataFrame, schema: str, rows: Sequence[tuple[Any, ...]], rule: FaultRule = judge_lists
) -> None:
    """Conformed rows, the last of whose columns is the code that the workers give them."""
    assert_rows(lists.drop(FAULT), schema.removesuffix(", fault string"), [row[:-1] for row in rows])
    bad = unusable_rows(SparkRows(lists), rule).result()
    assert_rows(bad, schema, [row for row in rows if row[-1] is not None])


def test_columns_are_found_by_mapping_by_path_and_by_a_name_with_a_dot(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [(("ann",), 7, 0.5)], "who struct<id: string>, `movie.id` int, points double"
    )
    columns = {USER: "who.id", ITEM: "movie.id", SCORE: "points"}
    assert_judged(conform_recommendations(frame, columns, "als"), SCORED, [("als", "ann", 7, 0.5, None)])


@pytest.mark.parametrize(
    ("schema", "columns", "code", "words"),
    [
        (
            "user int, itm int, score double",
            {},
            "MISSING_COLUMN",
            "'itm'? Map with columns={'item': 'itm'}",
        ),
        (
            "User int, item int, score double",
            {},
            "MISSING_COLUMN",
            "mean 'User'? Map with columns={'user': 'User'}",
        ),
        ("user int, item int, score double", {USER: "usr"}, "MISSING_COLUMN", "did you mean 'user'?"),
        (
            "user int, name string, score double",
            {},
            "MISSING_COLUMN",
            "recommendations: no column 'item'; found: name, score, user. Map with columns={'item': 'yours'}",
        ),
        (
            "user int, item int",
            {},
            "MISSING_COLUMN",
            "recommendations need `score` or `rank`; found: item, user. Map with columns={'score': 'yours'}",
        ),
        ("user struct<id: int>, item int, score double", {USER: "user.key"}, "MISSING_COLUMN", "user.key"),
        ("user int, item int, score double", {USER: "user.id"}, "MISSING_COLUMN", "'user' is int"),
        ("user int, User int, item int, score double", {}, "AMBIGUOUS_COLUMN", "user, User"),
        ("user double, item int, score double", {}, "ID_IS_FLOAT", "'user' is double"),
        ("user int, item decimal(9, 1), score double", {}, "ID_IS_FLOAT", "'item' is decimal(9,1)"),
        ("user boolean, item int, score double", {}, "ID_TYPE_UNSUPPORTED", "'user' is boolean"),
        ("user int, item int, score string", {}, "SCORE_NOT_NUMERIC", "'score' is string"),
        ("user int, item int, rank string", {}, "RANK_NOT_INTEGER", "'rank' is string; ranks are whole"),
        ("user int, item int, rank string", {}, "RANK_NOT_INTEGER", "in pandas by .astype(int)"),
    ],
)
def test_a_fault_of_the_table_has_a_name(
    spark: SparkSession, schema: str, columns: dict[str, str], code: str, words: str
) -> None:
    fault = fault_of(spark, schema, columns)
    assert (fault.code, words in fault.message) == (code, True), fault


@pytest.mark.parametrize("table", ["interactions", "recommendations", "truth", "train", "users", "items"])
def test_ids_under_a_collation_are_refused_in_every_table(spark: SparkSession, table: str) -> None:
    ids = "'a' COLLATE UTF8_LCASE AS user, 'b' COLLATE UNICODE AS item"
    frame = spark.sql(f"SELECT {ids}, 1L AS timestamp, 1 AS score")
    conforming: dict[str, Callable[[], DataFrame]] = {
        "interactions": lambda: conformed_log(frame, {}, "s", "UTC"),
        "recommendations": lambda: conform_recommendations(frame, {}, "als"),
        "truth": lambda: conform_truth(frame, {}, "s", "UTC", Conventions()),
        "train": lambda: conform_train(frame, {}),
        "users": lambda: conform_users(frame, {}, []),
        "items": lambda: conform_items(frame, {}),
    }
    with pytest.raises(DataError) as raised:
        conforming[table]()
    assert raised.value.code == "ID_COLLATION"
    column = "item" if table == "items" else "user"
    assert f"{table}: column {column!r} is string collate" in raised.value.message
    assert f"CAST({column} AS STRING COLLATE UTF8_BINARY)" in raised.value.message


def test_all_faults_of_a_table_come_in_one_error(spark: SparkSession) -> None:
    fault = str(fault_of(spark, "user double, score string"))
    found = [fault.index(f"[{code}]") for code in ("ID_IS_FLOAT", "MISSING_COLUMN", "SCORE_NOT_NUMERIC")]
    assert found == sorted(found)


def test_a_mapping_of_an_unknown_name_is_refused(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], "user int, item int")
    with pytest.raises(ConfigError, match="did you mean 'user'") as raised:
        conform_truth(frame, {"usr": "user"}, None, "UTC", Conventions())
    assert raised.value.code == "UNKNOWN_CONFIG_KEY"


def test_rows_with_unusable_scores_carry_their_code(spark: SparkSession) -> None:
    rows = [
        ("als", "ann", 1, 0.5, None),
        ("als", None, 2, 0.5, "NULL_ID"),
        ("als", "ann", None, NAN, "NULL_ID"),
        ("als", "ann", 3, None, "NULL_SCORE"),
        ("als", "ann", 4, NAN, "SCORE_NOT_FINITE"),
        ("als", "ann", 5, INFINITY, "SCORE_NOT_FINITE"),
        ("als", "ann", 6, -INFINITY, "SCORE_NOT_FINITE"),
        (None, "ann", 7, 0.5, "NULL_MODEL"),
        ("", "", 0, -1e308, None),
    ]
    frame = spark.createDataFrame(rows, SCORED).drop(FAULT)
    assert_judged(conform_recommendations(frame, None, None), SCORED, rows)


def test_rows_with_unusable_ranks_carry_their_code(spark: SparkSession) -> None:
    rows = [
        ("als", "ann", 1, 1, None),
        ("als", "ann", 2, LARGEST, None),
        ("als", "ann", 3, None, "NULL_RANK"),
        ("als", "ann", 4, 0, "RANK_BASE"),
        ("als", "ann", 5, -1, "RANK_BASE"),
        ("als", None, 6, 0, "NULL_ID"),
    ]
    frame = spark.createDataFrame(rows, RANKED).drop(FAULT)
    assert_judged(conform_recommendations(frame, None, None), RANKED, rows)


def test_ranks_win_over_scores_unless_scores_are_mapped(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], "user int, item int, rank int, score float")
    assert RANK in conform_recommendations(frame, None, "als").columns
    assert SCORE in conform_recommendations(frame, {SCORE: "score"}, "als").columns


def test_a_model_must_be_named(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], "user int, item int, score double")
    with pytest.raises(DataError) as raised:
        conform_recommendations(frame, None, None)
    assert raised.value.code == "MISSING_MODEL"


def test_the_model_is_a_constant_or_a_column_of_any_type(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("ann", 1, 0.5, 7)], "user string, item int, score double, variant int")
    constant = conform_recommendations(frame, None, "als")
    column = conform_recommendations(frame, {"model": "variant"}, None)
    rows = [("als", "ann", 1, 0.5, None), ("7", "ann", 1, 0.5, None)]
    assert_judged(constant.unionAll(column), SCORED, rows)


@pytest.mark.parametrize(
    ("schema", "columns"),
    [
        ("user string, items array<int>", {}),
        ("user string, recommendations array<struct<item: int, rating: double>>", {}),
        ("user string, list array<struct<item: int, rating: double>>", {ITEM: "list"}),
        ("user string, list struct<movies: array<int>>", {ITEM: "list.movies"}),
    ],
)
def test_positions_in_an_array_are_ranks(spark: SparkSession, schema: str, columns: dict[str, str]) -> None:
    array: dict[str, Any] = {
        "items": [8, 9, None],
        "recommendations": [(8, 0.1), (9, 0.2), (None, 0.3)],
        "list": ([8, 9, None],) if "movies" in schema else [(8, 0.1), (9, 0.2), (None, 0.3)],
    }
    items = array[schema.split()[2]]
    empty: Any = ([],) if "movies" in schema else []
    frame = spark.createDataFrame([("ann", items), ("bob", empty), ("eve", None)], schema)
    rows = [("als", "ann", 8, 1, None), ("als", "ann", 9, 2, None), ("als", "ann", None, 3, "NULL_ID")]
    assert_judged(conform_recommendations(frame, columns, "als", "array"), RANKED, rows)


def test_mapped_scores_of_an_array_rank_its_items(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [("als", "ann", [(8, 0.5), (9, None)])],
        "model string, user string, recommendations array<struct<item: int, rating: double>>",
    )
    columns = {ITEM: "recommendations.item", SCORE: "recommendations.rating"}
    rows = [("als", "ann", 8, 0.5, None), ("als", "ann", 9, None, "NULL_SCORE")]
    assert_judged(conform_recommendations(frame, columns, None, "array"), SCORED, rows)


def test_items_without_a_partner_in_the_scores_are_not_lost(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [("ann", [8, 9], [0.5]), ("bob", [8], [0.5, 0.4])],
        "user string, items array<int>, scores array<double>",
    )
    rows = [
        ("als", "ann", 8, 0.5, None),
        ("als", "ann", 9, None, "NULL_SCORE"),
        ("als", "bob", 8, 0.5, None),
        ("als", "bob", None, 0.4, "NULL_ID"),
    ]
    assert_judged(conform_recommendations(frame, {SCORE: "scores"}, "als", "array"), SCORED, rows)


@pytest.mark.parametrize(
    ("schema", "code"),
    [
        ("user int, items int", "NOT_AN_ARRAY"),
        ("user int, items array<struct<item: int, rank: int>>", "AMBIGUOUS_COLUMN"),
        ("user int, items array<struct<score: double>>", "AMBIGUOUS_COLUMN"),
        ("user int, items array<double>", "ID_IS_FLOAT"),
        ("user int", "MISSING_COLUMN"),
    ],
)
def test_an_array_without_one_clear_item_is_refused(spark: SparkSession, schema: str, code: str) -> None:
    with pytest.raises(DataError) as raised:
        conform_recommendations(spark.createDataFrame([], schema), None, "als", "array")
    assert f"[{code}]" in str(raised.value)


def test_rows_of_the_truth_carry_their_code(spark: SparkSession) -> None:
    schema = "user int, item string, relevance double, fault string"
    rows = [
        (1, "a", 4.5, None),
        (1, "b", 0.0, None),
        (1, "c", None, "NULL_RELEVANCE"),
        (1, "d", NAN, "RELEVANCE_NOT_FINITE"),
        (1, "e", INFINITY, "RELEVANCE_NOT_FINITE"),
        (1, "f", -0.5, "NEGATIVE_RELEVANCE"),
        (None, "g", -0.5, "NULL_ID"),
        (1, None, 1.0, "NULL_ID"),
    ]
    frame = spark.createDataFrame(rows, schema).drop(FAULT)
    conventions = Conventions()
    truth = conform_truth(frame, None, None, "UTC", conventions)
    assert_judged(truth, schema, rows, partial(judge_truth, conventions=conventions))


def test_negative_relevance_is_a_fault_unless_it_counts_as_none(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, "a", -0.5)], "user int, item string, relevance double")
    lenient = parse_conventions({"negative_relevance": "irrelevant"})
    schema = "user int, item string, relevance double, fault string"
    truth = conform_truth(frame, None, None, "UTC", lenient)
    assert_judged(truth, schema, [(1, "a", -0.5, None)], partial(judge_truth, conventions=lenient))


def test_truth_without_relevance_is_worth_one(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, "a")], "user int, item string")
    truth = conform_truth(frame, None, None, "UTC", Conventions())
    assert_rows(truth.drop(FAULT), "user int, item string, relevance double", [(1, "a", 1.0)])


def test_truth_in_order_needs_its_time(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], "user int, item int")
    with pytest.raises(DataError) as raised:
        conform_truth(frame, None, None, "UTC", parse_conventions({"truth_duplicates": "last"}))
    assert raised.value.code == "MISSING_COLUMN"


def test_the_log_keeps_its_other_columns(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [(1, 2, 3, 4.0, "web")], "user int, item int, at int, stars float, `a.b` string"
    )
    log = conformed_log(frame, {TIMESTAMP: "at", RELEVANCE: "stars"}, "s", "UTC")
    schema = "user int, item int, timestamp timestamp, relevance double, `a.b` string, fault string"
    assert log.schema.simpleString() == spark.createDataFrame([], schema).schema.simpleString()


@pytest.mark.parametrize("name", ["Timestamp", "fold", "SUBSET", "run_id", "fault"])
def test_a_column_of_the_log_that_would_clash_is_refused(spark: SparkSession, name: str) -> None:
    frame = spark.createDataFrame([], f"user int, item int, at int, {name} string")
    with pytest.raises(DataError) as raised:
        conformed_log(frame, {TIMESTAMP: "at"}, "s", "UTC")
    assert raised.value.code == "RESERVED_COLUMN"


def ids(spark: SparkSession, schema: str, *rows: tuple[object, ...]) -> DataFrame:
    return spark.createDataFrame(rows, schema)


def test_integers_of_two_sizes_meet_as_longs_and_keep_their_values(spark: SparkSession) -> None:
    narrow = ids(spark, "user int, item bigint", (7, LARGEST))
    wide = ids(spark, "user bigint, item smallint", (LARGEST, 7))
    left, right = align_ids(SparkRows(narrow), SparkRows(wide))
    assert_rows(left.concat([right]).result(), "user bigint, item bigint", [(7, LARGEST), (LARGEST, 7)])


def test_strings_and_integers_never_meet(spark: SparkSession) -> None:
    numbers, texts = (
        SparkRows(ids(spark, kinds)) for kinds in ("user bigint, item int", "user string, item string")
    )
    with pytest.raises(DataError) as raised:
        check_id_types({"recommendations": numbers, "truth": texts})
    assert raised.value.code == "ID_TYPE_MISMATCH"
    assert [f"{name} is" in raised.value.message for name in (USER, ITEM)] == [True, True]
