"""Functions of array columns: the numbers of ``evaluate``, row by row and to the last bit."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.functions.stub import FILE, stub

from spark_eval import evaluate
from spark_eval import functions as F2
from spark_eval.errors import ConfigError, DataError, EnvironmentFault
from spark_eval.functions import arrays
from spark_eval.functions.columns import arrow_udf, measured_functions, plan_of
from spark_eval.functions.json_arrays import array_of

N_ROWS, N_ITEMS, LONGEST = 250, 30, 12
SCHEMA = (
    "user long, recommended array<{0}>, relevant array<{0}>, relevances array<double>, scores array<double>"
)
EVERY = (
    *dict.fromkeys(metric.run_name for metric in measured_functions().values()),
    *("ndcg(gain=exp2, ideal=list)", "ndcg(ideal=positions)@3", "map(denominator=min_relevant_length)"),
    *("map(variant=window)", "precision(denominator=min_k_length)", "recall(denominator=retrieved)@3"),
    *("ndcg(tie_order=best)@3", "map(tie_order=worst)", "map(tie_order=shared)@all", "gauc@all", "mdcg@all"),
)
Row = tuple[int, list[Any] | None, list[Any] | None, list[Any] | None, list[Any] | None]


@dataclass(frozen=True)
class Case:
    """The form of the rows, and the rules."""

    name: str
    has_scores: bool = False
    is_graded: bool = False
    is_text: bool = False
    conventions: Mapping[str, Any] = field(default_factory=dict)
    has_negative: bool = False
    is_slow: bool = False

    def item(self, number: int) -> int | str:
        """An id; text has another order than the numbers, and the largest integers are no doubles."""
        return f"é{number}" if self.is_text else 2**62 + number


CASES = [
    Case("places, all defaults"),
    Case("scores, all defaults", has_scores=True),
    Case(
        "grades under other rules",
        is_graded=True,
        conventions={"gain": "exp2", "truth_duplicates": "sum"},
        is_slow=True,
    ),
    Case(
        "scores of text as LensKit sees them",
        has_scores=True,
        is_graded=True,
        is_text=True,
        conventions={"preset": "lenskit", "ties": "item_asc", "no_hits": "drop"},
    ),
    Case(
        "scores as trec_eval sees them",
        has_scores=True,
        is_graded=True,
        has_negative=True,
        conventions={"preset": "trec_eval", "ties": "hash", "threshold": 2, "no_truth": "zero"},
    ),
    Case(
        "places of text",
        is_text=True,
        conventions={"preset": "recommenders", "truth_duplicates": "count"},
        is_slow=True,
    ),
]


def draw(case: Case, seed: int) -> list[Row]:
    """Random rows: null and empty arrays, null items, repeats, ties, scores that are no numbers."""
    random = np.random.default_rng(seed)

    def rarely(value: Any, other: Any, chance: float = 0.04) -> Any:
        return other if random.random() < chance else value

    def items() -> list[Any]:
        numbers = random.integers(0, N_ITEMS, random.integers(0, LONGEST))
        return [rarely(case.item(number), None) for number in numbers.tolist()]

    def grades(n: int) -> list[Any]:
        least = -2 if case.has_negative else 0
        grades = random.integers(least, 6, n).tolist()
        return [rarely(float(grade), rarely(None, float("nan"), 0.5)) for grade in grades]

    def scores(n: int) -> list[Any]:
        values = (random.integers(-3, 4, n) / 4).tolist()
        return [rarely(float(value), rarely(None, float("inf"), 0.5)) for value in values]

    rows: list[Row] = []
    for user in range(N_ROWS):
        recommended, relevant = rarely(items(), None), rarely(items(), None)
        relevances = None if relevant is None else grades(len(relevant))
        rows.append((user, recommended, relevant, relevances, recommended and scores(len(recommended))))
    return rows


def frame_of(spark: SparkSession, case: Case, rows: Sequence[Row]) -> DataFrame:
    """The rows as they are."""
    return spark.createDataFrame(rows, SCHEMA.format("string" if case.is_text else "long"))


def long_tables(case: Case, rows: Sequence[Row]) -> tuple[pa.Table, pa.Table]:
    """The same as recommendations and truth: a row per item."""
    kind = pa.string() if case.is_text else pa.int64()
    lists = [
        (user, item, place + 1, scores and scores[place])
        for user, recommended, _, _, scores in rows
        for place, item in enumerate(recommended or [])
    ]
    truth = [
        (user, item, relevances[place] if relevances else None)
        for user, _, relevant, relevances, _ in rows
        for place, item in enumerate(relevant or [])
    ]
    users, items, ranks, scores = zip(*lists, strict=True)
    order = {"score": pa.array(scores, pa.float64())} if case.has_scores else {"rank": pa.array(ranks)}
    recommendations = pa.table({"user": users, "item": pa.array(items, kind), **order})
    users, items, relevances = zip(*truth, strict=True)
    columns = {"user": pa.array(users), "item": pa.array(items, kind)}
    if case.is_graded:
        columns["relevance"] = pa.array(relevances, pa.float64())
    return recommendations, pa.table(columns)


def in_hex(rows: pd.DataFrame) -> dict[Any, dict[Any, str]]:
    """Values by user and column, to the last bit; none where there is none."""
    by_user = rows.set_index("user").sort_index()
    return {
        user: {name: value.hex() for name, value in values.items() if not np.isnan(value)}
        for user, values in by_user.to_dict("index").items()
    }


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=[pytest.mark.slow] * case.is_slow) for case in CASES],
)
def test_values_are_those_of_evaluate_to_the_last_bit(
    spark: SparkSession, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "ITEMS_AT_ONCE", 100)
    rows = draw(case, seed=7)
    given = {"relevances": "relevances"} if case.is_graded else {}
    given |= {"scores": "scores"} if case.has_scores else {}
    struct = F2.ranking_metrics(
        "recommended", "relevant", EVERY, [1, 5], conventions=case.conventions, **given
    )
    measured = (
        frame_of(spark, case, rows).repartition(3).select("user", struct.alias("m")).select("user", "m.*")
    )
    result = evaluate(
        *long_tables(case, rows), model="m", metrics=EVERY, k=[1, 5], conventions=case.conventions
    )
    per_user = result.per_user.drop("model", "n_relevant", "n_recommended").toPandas()
    result.unpersist()
    assert set(measured.columns) == set(per_user.columns)
    expected: dict[Any, dict[Any, str]] = {user: {} for user in range(N_ROWS)} | in_hex(per_user)
    assert in_hex(measured.toPandas()) == expected
    assert 50 < sum(map(bool, expected.values())) < N_ROWS


def test_every_function_gives_the_field_of_its_name(spark: SparkSession) -> None:
    rows = frame_of(spark, CASES[0], draw(CASES[0], seed=8))
    names = list(measured_functions())
    both = ("recommended", F.col("relevant"))
    struct = F2.ranking_metrics(
        *both, [*names, "map(denominator=relevant)", "f1(recall_denominator=retrieved)"], 3
    )
    columns = [getattr(F2, name)(*both, k=3).alias(name) for name in names]
    own = [F2.map(*both, 3, denominator="relevant"), F2.f1(*both, 3, recall_denominator="retrieved")]
    found = rows.select(struct.alias("m"), *columns, *own).collect()
    for row in found:
        for name, metric in measured_functions().items():
            assert row[name] == row["m"][f"{metric.name}_at_3"]
        assert row["ap_denominator_relevant_at_3"] == row["m"]["ap_denominator_relevant_at_3"]
        assert row["f1_recall_denominator_retrieved_at_3"] == row["m"]["f1_recall_denominator_retrieved_at_3"]
    assert any(row["map"] != row["ap_denominator_relevant_at_3"] for row in found)


@pytest.mark.skipif(arrow_udf() is None, reason="Spark 4.0 has no Arrow functions")
def test_sql_gives_the_same(spark: SparkSession) -> None:
    names = F2.register(spark, {"gain": "exp2"})
    assert set(names) == {f"{name}_at" for name in measured_functions()}
    rows = frame_of(spark, CASES[0], draw(CASES[1], seed=9))
    rows.withColumn("k", F.when(F.col("user") % 2 == 0, 2).otherwise(5)).createOrReplaceTempView("lists")
    both, rules = ("recommended", "relevant"), {"gain": "exp2"}
    by_scores = F2.ndcg(*both, 5, scores="scores", relevances="relevances", conventions=rules)
    expected = [
        F2.ndcg(*both, 2, gain="exp2"),
        F2.ndcg(*both, 5, gain="exp2"),
        F2.mrr(*both, "all"),
        by_scores,
    ]
    found = spark.sql(
        "SELECT user, ndcg_at(recommended, relevant, k) a, mrr_at(recommended, relevant, 'all') b, "
        "ndcg_at(recommended, relevant, 5, relevances, scores) c, "
        "map_at(recommended, relevant, 5, NULL, scores) d FROM lists"
    )
    values = rows.select("user", *(column.alias(f"v{n}") for n, column in enumerate(expected))).toPandas()
    values["v4"] = rows.select(F2.map(*both, 5, scores="scores").alias("v4")).toPandas()["v4"]
    values["v0"] = values["v0"].where(values["user"] % 2 == 0, values["v1"])
    pd.testing.assert_frame_equal(
        found.toPandas(),
        values[["user", "v0", "v2", "v3", "v4"]].set_axis(["user", "a", "b", "c", "d"], axis=1),
    )


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"k": 0}, "INVALID_K"),
        ({"k": "ten"}, "INVALID_K"),
        ({"gain": "exp3"}, "INVALID_CHOICE"),
        ({"conventions": "mine"}, "UNKNOWN_PRESET"),
        ({"conventions": {"gains": "exp2"}}, "UNKNOWN_CONVENTION"),
        ({"conventions": {"truth_duplicates": "last"}}, "INVALID_CHOICE"),
        ({"tie_order": "shared", "discount": "log3"}, "INVALID_CHOICE"),
        ({"scores": 3}, "NOT_A_COLUMN"),
        ({"relevant": None}, "NOT_A_COLUMN"),
    ],
)
def test_wrong_arguments_are_named_errors_before_any_job(arguments: dict[str, Any], code: str) -> None:
    given: dict[str, Any] = {"recommended": "recommended", "relevant": "relevant", "k": 5} | arguments
    with pytest.raises(ConfigError) as error:
        F2.ndcg(**given)
    assert error.value.code == code


def test_unknown_arguments_are_type_errors() -> None:
    with pytest.raises(TypeError, match="denominator"):
        F2.ndcg("recommended", "relevant", 5, denominator="k")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("columns", "code"),
    [
        ({"recommended": pa.array([1, 2])}, "NOT_AN_ARRAY"),
        ({"recommended": pa.array([["a"]])}, "ID_TYPE_MISMATCH"),
        ({"recommended": pa.array([[1.0]])}, "ID_IS_FLOAT"),
        ({"recommended": pa.array([[{"item": 1}]])}, "ID_TYPE_UNSUPPORTED"),
        ({"relevances": pa.array([[1.0]])}, "ARRAYS_DIFFER"),
        ({"relevances": pa.array([None], pa.list_(pa.float64()))}, "ARRAYS_DIFFER"),
        ({"scores": pa.array([[1.0, 2.0]])}, "ARRAYS_DIFFER"),
        ({"scores": pa.array([["a"]])}, "SCORE_NOT_NUMERIC"),
        ({"relevances": pa.array([["a", "b"]])}, "RELEVANCE_NOT_NUMERIC"),
        ({"relevances": pa.array([[1.0, -1.0]])}, "NEGATIVE_RELEVANCE"),
        ({"relevances": pa.array([[1, 2**60]])}, "RELEVANCE_NOT_EXACT"),
        ({"relevances": pa.array([[1.0, 600.0]])}, "RELEVANCE_TOO_LARGE"),
        ({"recommended": pa.array([[1, 3, 1]])}, "REPEATED_ITEM"),
    ],
)
def test_wrong_arrays_are_named_errors(columns: dict[str, pa.Array], code: str) -> None:
    plan = plan_of("ndcg", 5, {"gain": "exp2", "recommendation_duplicates": "refuse"})
    given = {"recommended": pa.array([[1]]), "relevant": pa.array([[1, 2]])} | columns
    if code == "NOT_AN_ARRAY":
        given["relevant"] = pa.array([[1], [2]])
    with pytest.raises(DataError) as error:
        arrays.measured_values(plan, given)
    assert error.value.code == code


def test_a_wrong_array_ends_the_query_with_its_name(spark: SparkSession) -> None:
    rows = spark.createDataFrame([([1], ["a"])], "recommended array<long>, relevant array<string>")
    with pytest.raises(Exception, match=r"error\[ID_TYPE_MISMATCH\] items are int64 in recommended"):
        rows.select(F2.ndcg("recommended", "relevant", 5)).collect()


@pytest.mark.parametrize(
    ("numbers", "given"),
    [
        ([[True, False]], {}),
        ([[3, 1]], {}),
        (pa.array([[3, 1]], pa.list_(pa.decimal128(4, 1))), {}),
        (
            pa.array([[3, 1]], pa.large_list(pa.float32())),
            {"recommended": pa.array([["a", "b"]], pa.large_list(pa.large_string()))},
        ),
    ],
)
def test_numbers_and_ids_may_have_any_width(numbers: Any, given: dict[str, pa.Array]) -> None:
    plan = plan_of("cg", 1, "default")
    columns = {"recommended": pa.array([["a", "b"]]), "relevant": pa.array([["b", "a"]])} | given
    numbers = pa.array(numbers)
    scored = arrays.measured_values(plan, columns | {"scores": numbers, "relevances": numbers})
    assert scored["cg_at_1"].tolist() == [numbers.to_pylist()[0][1]]


def test_rows_without_arrays_have_no_value() -> None:
    plan = plan_of(["ndcg", "gauc"], ["all"], "default")
    nothing = {"recommended": pa.nulls(2), "relevant": pa.array([[], None], pa.list_(pa.null()))}
    assert np.isnan(arrays.measured_values(plan, nothing)["ndcg_at_all"]).all()
    found = arrays.measured_values(plan, {name: column.slice(0, 0) for name, column in nothing.items()})
    assert [len(values) for values in found.values()] == [0] * 4


def test_signatures_for_editors_are_those_that_are() -> None:
    assert FILE.read_text(encoding="utf-8") == stub()
    assert sorted(vars(F2)["__all__"]) == sorted({*measured_functions(), "ranking_metrics", "register"})
    signature = inspect.signature(F2.map)
    assert F2.map is F2.ap
    assert [*signature.parameters][-3:] == ["denominator", "variant", "tie_order"]
    assert "Mean of the precisions" in str(F2.map.__doc__)
    assert "denominator: min_relevant_k or relevant or" in str(F2.map.__doc__)


def test_without_arrow_functions_values_are_the_same(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark 4.0 has none; ids beyond doubles, nulls and numbers of every kind keep their bits as text."""
    rows = frame_of(spark, CASES[1], draw(CASES[1], seed=11)).limit(40)
    rows = rows.withColumn("relevances", F.transform("relevances", lambda x: x.cast("decimal(6,2)")))
    given = {"relevances": "relevances", "scores": F.col("scores")}
    both = ("recommended", "relevant")

    def measured() -> pd.DataFrame:
        struct = F2.ranking_metrics(*both, ["ndcg", "map", "gauc"], [3], **given)  # type: ignore[arg-type]
        return (
            rows.select("user", struct.alias("m"), F2.ndcg(*both, 2))
            .select("user", "m.*", "ndcg_at_2")
            .toPandas()
        )

    expected = in_hex(measured())
    monkeypatch.delattr("pyspark.sql.pandas.functions.arrow_udf", raising=False)
    assert in_hex(measured()) == expected
    assert sum(map(len, expected.values())) > 40
    with pytest.raises(EnvironmentFault) as error:
        F2.register(spark)
    assert error.value.code == "SPARK_TOO_OLD"


@pytest.mark.parametrize(
    ("kind", "text", "code"),
    [
        ("int", '{"of":1}', "NOT_AN_ARRAY"),
        ("array<double>", '{"of":[1.0]}', "ID_IS_FLOAT"),
        ("array<struct<item:int>>", '{"of":[{"item":1}]}', "ID_TYPE_UNSUPPORTED"),
        ("array<timestamp>", '{"of":["2024"]}', "ID_TYPE_UNSUPPORTED"),
        ("array<string>", '{"of":["1"]}', "ID_TYPE_MISMATCH"),
    ],
)
def test_wrong_arrays_of_text_are_named_errors(kind: str, text: str, code: str) -> None:
    given = {"recommended": array_of(kind, [text]), "relevant": array_of("array<int>", ['{"of":[1]}'])}
    with pytest.raises(DataError) as error:
        arrays.measured_values(plan_of("ndcg", 5, "default"), given)
    assert error.value.code == code


@pytest.mark.slow
def test_batches_of_a_stream_are_measured(spark: SparkSession, tmp_path: Path) -> None:
    rows = frame_of(spark, CASES[0], draw(CASES[0], seed=10))
    rows.repartition(4).write.parquet(str(tmp_path / "lists"))
    found: list[tuple[Any, ...]] = []

    def measure(batch: DataFrame, _: int) -> None:
        found.extend(map(tuple, batch.select("user", F2.ndcg("recommended", "relevant", 5)).collect()))

    stream = (
        spark.readStream.schema(rows.schema).option("maxFilesPerTrigger", 2).parquet(str(tmp_path / "lists"))
    )
    writer = stream.writeStream.foreachBatch(measure).option("checkpointLocation", str(tmp_path / "seen"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    expected = rows.select("user", F2.ndcg("recommended", "relevant", 5)).collect()
    assert len(found) == N_ROWS
    assert sorted(found, key=str) == sorted(map(tuple, expected), key=str)
