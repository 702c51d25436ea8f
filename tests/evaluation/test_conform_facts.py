"""The door of the tables beside lists and truth: training interactions, users with segments, items."""

import pytest
from frames import assert_rows
from opened_tables import conform_items, conform_train, conform_users
from pyspark.sql import DataFrame, SparkSession

from spark_eval.errors import DataError
from spark_eval.runners.conformed import check_id_types
from spark_eval.runners.rows import SparkRows
from spark_eval.schema import ITEM, TIMESTAMP, USER


def frame(spark: SparkSession, schema: str) -> DataFrame:
    return spark.createDataFrame([], schema)


def test_one_id_of_another_type_in_any_table_is_refused_and_integers_of_all_sizes_fit(
    spark: SparkSession,
) -> None:
    lists = SparkRows(frame(spark, "user bigint, item int"))
    fitting = {
        "recommendations": lists,
        "users": SparkRows(frame(spark, "user int")),
        "items": SparkRows(frame(spark, "item bigint")),
    }
    check_id_types(fitting)
    with pytest.raises(DataError, match="user is bigint in recommendations and string in users") as raised:
        check_id_types(fitting | {"users": SparkRows(frame(spark, "user string"))})
    assert raised.value.code == "ID_TYPE_MISMATCH"


def test_training_interactions_without_an_id_carry_their_code(spark: SparkSession) -> None:
    schema = "user int, item string, fault string"
    rows = [(1, "a", None), (None, "a", "NULL_ID"), (1, None, "NULL_ID"), (None, None, "NULL_ID")]
    train = spark.createDataFrame(rows, schema).withColumnRenamed("user", "who")
    columns = {USER: "who", TIMESTAMP: "not looked at"}
    assert_rows(conform_train(train, columns), schema, rows)


def test_segments_are_text_whatever_they_were(spark: SparkSession) -> None:
    table = spark.createDataFrame(
        [("ann", 7, True, ("it",), 1.5, [1, None]), ("bob", None, None, None, None, None)],
        "id string, age tinyint, paid boolean, address struct<country: string>, `a.b` double, "
        "tags array<int>",
    )
    columns = {USER: "id", "country": "address.country"}
    segments = ["age", "country", "address.country", "a.b", "paid", "tags"]
    users = conform_users(table, columns, segments)
    assert users.columns == ["user", *segments]
    plain = users.toDF(
        "user", *(f"column_{place}" for place in range(6))
    )  # chispa sorts by names without dots
    assert_rows(
        plain,
        ", ".join(f"{name} string" for name in plain.columns),
        [("ann", "7", "it", "it", "1.5", "true", "[1, null]"), ("bob", *[None] * 6)],
    )


@pytest.mark.parametrize(
    ("schema", "segments", "code", "words"),
    [
        ("user int, country string", ["contry"], "MISSING_COLUMN", "did you mean 'country'?"),
        ("user int, country string", ["Country"], "MISSING_COLUMN", "did you mean 'country'?"),
        ("user int, country string", ["activty"], "MISSING_COLUMN", "did you mean 'activity'?"),
        ("user int, country struct<a: int>", ["country.b"], "MISSING_COLUMN", "no field 'country.b'"),
        ("userid int, country string", ["country"], "MISSING_COLUMN", "no column 'user'"),
        ("user double", [], "ID_IS_FLOAT", "'user' is double"),
        ("user int, known string", ["known"], "RESERVED_COLUMN", "'known'"),
    ],
)
def test_users_without_the_segment_are_refused_by_its_name(
    spark: SparkSession, schema: str, segments: list[str], code: str, words: str
) -> None:
    with pytest.raises(DataError) as raised:
        conform_users(frame(spark, schema), None, segments)
    assert (raised.value.code, words in raised.value.message) == (code, True), raised.value


def test_items_need_an_id_alone(spark: SparkSession) -> None:
    items = spark.createDataFrame([("a", 1)], "movie string, year int")
    assert_rows(conform_items(items, {ITEM: "movie"}), "item string, fault string", [("a", None)])
    with pytest.raises(DataError, match="no column 'item'"):
        conform_items(items, None)
