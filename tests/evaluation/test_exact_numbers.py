"""Numbers that a double rounds: scores order lists exactly, what must be a double is refused by name.

Whoever reads a table, and wherever the rows of a list lie.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_eval import evaluate, evaluate_predictions, split
from spark_eval.runtime.spark_errors import named_spark_error

LARGEST = 2**53
LONGS = [(LARGEST, LARGEST + 1), (-(2**63), -(2**63) + 1), (2**63 - 2, 2**63 - 1), (-LARGEST - 1, -LARGEST)]
# Moments in nanoseconds, of which a double keeps every 256th.
LONGS += [(1_700_000_000_000_000_000, 1_700_000_000_000_000_001), (-1, 1)]
DECIMALS = [(Decimal(low).scaleb(-18), Decimal(high).scaleb(-18)) for low, high in LONGS]
SCORES: dict[str, tuple[pa.DataType, Sequence[tuple[Any, Any]]]] = {
    "long": (pa.int64(), LONGS),
    "decimal": (pa.decimal128(38, 18), DECIMALS),
}
HIT, MISS = 1, 2
READERS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "files": lambda frame: frame,
    # A filter, so that Spark reads.
    "spark": lambda frame: frame.where(F.lit(True) | F.col(frame.columns[0]).isNull()),
}


def stored(spark: SparkSession, folder: Path, columns: dict[str, pa.Array]) -> DataFrame:
    """A table of these columns, as plain Parquet."""
    folder.mkdir()
    table = pa.table(columns)
    half = -(-len(table) // 2)
    for start in (0, half):
        pq.write_table(table.slice(start, half), folder / f"{start:03}.parquet")
    return spark.read.parquet(str(folder))


def lists_of(spark: SparkSession, folder: Path, kind: str, *, is_scattered: bool) -> DataFrame:
    """Of each pair of neighbouring scores a list with the hit first, one with it last, and one of a tie.

    An item is repeated with the lower score of the pair: its best score counts.
    """
    arrow, pairs = SCORES[kind]
    rows: list[tuple[str, int, Any]] = []
    for number, (low, high) in enumerate(pairs):
        rows += [
            (f"{number} first", HIT, high),
            (f"{number} first", MISS, low),
            (f"{number} first", HIT, low),
        ]
        rows += [(f"{number} last", HIT, low), (f"{number} last", MISS, high)]
        rows += [(f"{number} tie", HIT, high), (f"{number} tie", MISS, high)]
    users, items, scores = zip(*(rows[::2] + rows[1::2] if is_scattered else rows), strict=True)
    columns = {"user": pa.array(users), "item": pa.array(items), "score": pa.array(scores, arrow)}
    return stored(spark, folder, columns)


@pytest.mark.parametrize(
    ("kind", "read", "is_scattered"),
    [
        ("long", READERS["files"], False),
        ("long", READERS["spark"], False),
        ("long", READERS["files"], True),
        ("decimal", READERS["files"], False),
        ("decimal", READERS["files"], True),
    ],
    ids=["long files", "long spark", "long scattered", "decimal", "decimal scattered"],
)
def test_scores_that_a_double_rounds_order_lists_exactly(
    spark: SparkSession,
    tmp_path: Path,
    kind: str,
    read: Callable[[DataFrame], DataFrame],
    is_scattered: bool,
) -> None:
    recommendations = read(lists_of(spark, tmp_path / "lists", kind, is_scattered=is_scattered))
    users = [row["user"] for row in recommendations.select("user").distinct().collect()]
    truth = spark.createDataFrame([(user, HIT) for user in users], "user string, item long")
    metrics = ["mrr@2", "mrr(tie_order=best)@2", "gauc@2"]
    evaluation = evaluate(recommendations, truth, model="m", metrics=metrics)
    found = {row["user"]: tuple(row)[-5:-2] for row in evaluation.per_user.collect()}
    evaluation.unpersist()
    # Of equal scores the larger item goes first, which is the miss.
    expected = {"first": (1.0, 1.0, 1.0), "last": (0.5, 0.5, 0.0), "tie": (0.5, 1.0, 0.5)}
    assert found == {user: expected[user.split()[1]] for user in users}


def code_of(use: Callable[[DataFrame], Any], frame: DataFrame) -> str | None:
    """The code that a use of a table is refused with; None where it is not."""
    try:
        use(frame)
    except Exception as error:  # also what Spark and its workers say, as the command line names it
        return named_spark_error(error).code
    return None


DECIMAL, WHOLE = pa.decimal128(38, 18), pa.decimal128(38, 0)
# Who reads numbers of which type, and whether a double tells each of them from all others of the type.
FORMS: list[tuple[str, pa.DataType, list[Any], bool]] = [
    ("files", pa.int64(), [LARGEST, -LARGEST, 0, None], True),
    ("spark", pa.int64(), [LARGEST, -LARGEST, 0, None], True),
    ("files", pa.int64(), [LARGEST + 1], False),
    ("spark", pa.int64(), [-(2**63)], False),
    # Spark reads all of these. A third as a double has it, and as no double does.
    (
        "files",
        DECIMAL,
        [*map(Decimal, ("0.1", "-99999999999999.9", "1E-18", "0.3333333333333333")), None],
        True,
    ),
    ("files", DECIMAL, [Decimal("0.333333333333333333")], False),
    ("files", WHOLE, [Decimal("77308500000000000000"), Decimal(10**37)], True),
    ("files", WHOLE, [Decimal(10**38 - 1)], False),
]
EXPECTED = [is_exact for *_, is_exact in FORMS]
N_ROWS = 40


def refusals(spark: SparkSession, folder: Path, column: str, use: Callable[[DataFrame], Any]) -> list[bool]:
    """Of each form of numbers whether a table that has them in this column is taken; else it is refused."""
    found = []
    for number, (reader, arrow, values, _) in enumerate(FORMS):
        ids = pa.array(range(1, N_ROWS + 1))
        filled = pa.array(values + [1] * (N_ROWS - len(values)), arrow)
        columns = {"user": ids, "item": ids, "timestamp": ids, "label": pa.array([0, 1] * (N_ROWS // 2))}
        frame = stored(spark, folder / f"{number}", columns | {column: filled})
        code = code_of(use, READERS[reader](frame))
        assert code in (None, f"{column.upper()}_NOT_EXACT"), (FORMS[number], code)
        found.append(code is None)
    return found


@pytest.mark.slow
def test_relevances_that_no_double_holds_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    recommendations = spark.createDataFrame([(1, 1, 1)], "user long, item long, rank int")
    chosen = {"negative_relevance": "irrelevant"}

    def use(truth: DataFrame) -> None:
        evaluate(recommendations, truth, model="m", metrics=["mrr"], k=1, conventions=chosen).unpersist()

    assert refusals(spark, tmp_path, "relevance", use) == EXPECTED


@pytest.mark.slow
def test_a_log_with_relevances_that_no_double_holds_is_not_split(spark: SparkSession, tmp_path: Path) -> None:
    names = (f"{tmp_path}/split-{number}" for number in count())
    assert (
        refusals(spark, tmp_path, "relevance", lambda log: split(log, timestamp_unit="s").write(next(names)))
        == EXPECTED
    )


@pytest.mark.slow
def test_scores_of_predictions_that_no_double_holds_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    def use(predictions: DataFrame) -> None:
        evaluate_predictions(
            predictions, "binary", model="m", scores="raw", metrics=["auc"], max_quarantined=1.0
        )

    assert refusals(spark, tmp_path, "score", use) == EXPECTED


def test_predictions_that_no_metric_orders_are_rounded(spark: SparkSession, tmp_path: Path) -> None:
    columns = {"label": pa.array([1.0, 2.0]), "score": pa.array([LARGEST + 1, 2])}
    frame = stored(spark, tmp_path / "rows", columns)
    found = evaluate_predictions(frame, "regression", model="m", metrics=["mae"])
    assert [row.n_rows for row in found.metric_rows] == [2]
