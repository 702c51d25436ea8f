"""Bad inputs of every kind: each is refused by name, or each of its bad rows is kept and counted."""

import os
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from spoiling import (
    LISTS,
    LOG,
    RANKED,
    TRAIN,
    TRUTH,
    USERS,
    Inputs,
    Spoiler,
    call,
    column,
    config,
    files,
    given,
    in_this_process,
    keys,
    orc,
    row,
    text,
    then,
    through_spark,
    without,
)

from spark_eval import evaluate
from spark_eval.errors import DataError
from spark_eval.evaluation.evaluate import measure_lists
from spark_eval.evaluation.result import Evaluation
from spark_eval.runtime.spark_errors import named_spark_error

RECS = "recommendations"
# The smallest whole number that a double cannot hold.
BIG = 2**53 + 1
SECONDS, MICROSECONDS = pa.timestamp("s", "UTC"), pa.timestamp("us", "UTC")
NANOSECONDS = pa.timestamp("ns", "UTC")
without_unit = keys("interactions", timestamp_unit=None)
ranked = given(RECS, RANKED)
# Who reads the Parquet of lists and truth. This process leaves to Spark what it does not take.
READERS: dict[str, Spoiler] = {
    "auto": in_this_process,
    "workers": then(),
    "spark": through_spark(RECS, "truth"),
}


def add(rows: pa.Table) -> Callable[[Path], None]:
    """A file of these rows."""
    return lambda folder: pq.write_table(rows, folder / "1.parquet")


def raw(content: bytes, name: str = "1.parquet") -> Callable[[Path], object]:
    """A file of this content."""
    return lambda folder: (folder / name).write_bytes(content)


def truncated(folder: Path) -> None:
    """A file that ends too early."""
    (folder / "1.parquet").write_bytes((folder / "0.parquet").read_bytes()[:-40])


def flipped(folder: Path) -> None:
    """A bit of an item is another than it was."""
    file, plain = folder / "0.parquet", {"compression": "none", "use_dictionary": False}
    pq.write_table(LISTS, file, write_page_checksum=True, **plain)
    data = bytearray(file.read_bytes())
    data[data.index(np.int64(102).tobytes())] ^= 1
    file.write_bytes(data)


def no_groups(schema: pa.Schema) -> Callable[[Path], None]:
    """No rows, as Spark writes an empty frame."""

    def write(folder: Path) -> None:
        pq.ParquetWriter(folder / "0.parquet", schema).close()

    return write


def no_text(values: pa.ChunkedArray) -> pa.Array:
    """As many texts that are no UTF-8."""
    n_rows = len(values)
    places = b"".join(place.to_bytes(4, "little") for place in range(n_rows + 1))
    letters = b"\xff" * n_rows
    return pa.Array.from_buffers(pa.string(), n_rows, [None, pa.py_buffer(places), pa.py_buffer(letters)])


def as_type(kind: pa.DataType) -> Callable[[pa.ChunkedArray], pa.ChunkedArray]:
    """The same values of another type."""
    return lambda values: values.cast(kind)


# What is done to sound inputs, and the code that comes of it with what else the line says.
# Of all verbs, exit 2.
CONFIGS: list[tuple[str, Spoiler, str]] = [
    ("negative days", keys("split", gap_days=-3), "INVALID_SPLIT ... gap_days"),
    ("an unknown format", keys("interactions", format="parket"), "UNKNOWN_FORMAT ... parket"),
    (
        "an option that loses files",
        keys("interactions", options={"ignoreCorruptFiles": True}),
        "LOSSY_OPTION ... interactions.options.ignoreCorruptFiles",
    ),
    (
        "an option that loses rows",
        text("truth", "csv", "user,item\n1,101\n", mode="DROPMALFORMED"),
        "LOSSY_OPTION ... truth.options.mode",
    ),
    ("an alias in YAML", config("output: &a {path: out}\nspark: *a\n"), "INVALID_YAML ... aliases"),
    ("a tag in YAML", config("output: !!python/object/apply:os.system [ls]\n"), "INVALID_YAML ... tags"),
    ("a key twice in YAML", config("output: {path: out, path: in}\n"), "INVALID_YAML ... twice"),
    ("an unknown key", keys("interactions", formt="csv"), "UNKNOWN_CONFIG_KEY ... did you mean 'format'?"),
    ("k of 0", keys("evaluate", k=[0]), "INVALID_K ... 0"),
    ("k of 1.5", keys("evaluate", k=1.5), "INVALID_CONFIG ... evaluate.k"),
    ("k of 2^40", keys("evaluate", k=[2**40]), "INVALID_K ... 1099511627776"),
    ("a share above 1", keys("interactions", max_quarantined=1.5), "INVALID_CONFIG ... max_quarantined"),
]
# Seen by validate.
VALIDATE: list[tuple[str, Spoiler, str]] = [
    (
        "items of text and of integers",
        column(RECS, item=as_type(pa.string())),
        "ID_TYPE_MISMATCH ... item is string",
    ),
    ("scores of text", column(RECS, score="high"), "SCORE_NOT_NUMERIC ... 'score' is string"),
    (
        "numbers of no unit",
        keys("interactions", timestamp_unit=None),
        "TIMESTAMP_UNIT_MISSING ... timestamp_unit",
    ),
    ("a truncated file", files(RECS, truncated), "CORRUPT_FILE ... 1.parquet"),
    (
        "faults of several tables, validated",
        then(column("interactions", user=1.5), column("truth", item=1.5)),
        "ID_IS_FLOAT ... interactions: column 'user' ... [ID_IS_FLOAT] truth: column 'item'",
    ),
]
SPLIT: list[tuple[str, Spoiler, str]] = [
    (
        "ids of decimals",
        column("interactions", item=as_type(pa.decimal128(20, 1))),
        "ID_IS_FLOAT ... 'item' is decimal(20,1)",
    ),
    (
        "milliseconds read as seconds",
        column("interactions", timestamp=lambda at: pa.array([v.as_py() * 1000 for v in at])),
        "TIMESTAMP_UNIT_SUSPECT ... set timestamp_unit: ms",
    ),
    (
        "seconds read as milliseconds",
        keys("interactions", timestamp_unit="ms"),
        "TIMESTAMP_UNIT_SUSPECT ... set timestamp_unit: s",
    ),
    ("times that are truth values", column("interactions", timestamp=True), "TIMESTAMP_TYPE ... boolean"),
    (
        "parts of a microsecond",
        then(column("interactions", timestamp=pa.array([10**18 + 1] * 40, NANOSECONDS)), without_unit),
        "TIMESTAMP_TOO_FINE ... timestamp ... coerce_timestamps='us'",
    ),
    (
        "times as 05/01/2024",
        column("interactions", timestamp="05/01/2024"),
        "EMPTY_INPUT ... interactions ... timestamp",
    ),
    (
        "times beyond 64 bits",
        row("interactions", timestamp=2**62),
        "VALUE_TOO_LARGE ... timestamp_unit",
    ),
    (
        "a cut after the log",
        keys("split", global_cut={"instant": "2031-01-01"}),
        "SPLIT_OUT_OF_RANGE ... 2024-01-10",
    ),
    (
        "no table",
        keys("interactions", path=None, table="no_such"),
        "MISSING_INPUT ... interactions ... no_such",
    ),
    (
        "a file that is no Parquet",
        files("interactions", raw(b"hello, world")),
        "CORRUPT_FILE ... 1.parquet",
    ),
    (
        "a column in some files of a log only",
        files("interactions", add(LOG.drop_columns("relevance"))),
        "SCHEMA_DRIFT ... 'relevance' ... 1.parquet",
    ),
    (
        "another column in some files of a log only",
        files("interactions", add(LOG.append_column("shop", pa.array(["x"] * 40)))),
        "SCHEMA_DRIFT ... 'shop' ... 0.parquet",
    ),
    ("a column of ours in the log", column("interactions", fold=1), "RESERVED_COLUMN ... 'fold'"),
    (
        "too many bad rows in a log",
        then(
            row("interactions", n=3, user=None),
            row("interactions", timestamp=None),
            keys("interactions", max_quarantined=0.09),
        ),
        "QUARANTINE_SHARE ... 4 of 44 rows ... 3 NULL_ID, 1 NULL_TIMESTAMP ... such as ... max_quarantined",
    ),
]
EVALUATE: list[tuple[str, Spoiler, str]] = [
    (
        "users of text and of integers",
        column(RECS, user=as_type(pa.string())),
        "ID_TYPE_MISMATCH ... user is string in recommendations and bigint in truth",
    ),
    ("ids of floats", column(RECS, user=as_type(pa.float64())), "ID_IS_FLOAT ... 'user' is double"),
    (
        "a segment in some files only",
        then(
            given("users", USERS.drop_columns("country")),
            files("users", add(USERS)),
            keys("evaluate", segments=["country"]),
        ),
        "SCHEMA_DRIFT ... users: 1 of 2 files have no column 'country'",
    ),
    (
        "a filter's column in some files only",
        then(
            files(RECS, add(LISTS.append_column("day", pa.array([1] * 8)))),
            keys(RECS, where=[{"column": "day", "op": "==", "value": 1}]),
        ),
        "SCHEMA_DRIFT ... 'day'",
    ),
    (
        "a Delta table",
        files(RECS, lambda folder: (folder / "_delta_log").mkdir()),
        "TABLE_FORMAT ... set recommendations.format: delta",
    ),
    ("ids of truth values", column("truth", user=True), "ID_TYPE_UNSUPPORTED ... 'user' is boolean"),
    (
        "ids in CSV with zeros",
        text("truth", "csv", "user,item\n1,101\n007,102\n"),
        "ID_NOT_CANONICAL ... '007' is no plain integer",
    ),
    (
        "ids in CSV with blanks",
        text("truth", "csv", "user,item\n1,101\n 7,102\n", ignoreLeadingWhiteSpace=False),
        "ID_IS_FLOAT ... truth: column 'user'",
    ),
    (
        "ranks between whole numbers",
        then(ranked, column(RECS, rank=1.5)),
        "RANK_NOT_INTEGER ... rows with a rank that is no whole number ... .astype(int)",
    ),
    ("ranks of text", then(ranked, column(RECS, rank="1")), "RANK_NOT_INTEGER ... 'rank' is string"),
    ("no model", without(RECS, "model"), "MISSING_MODEL ... pass model="),
    ("no array in layout array", keys(RECS, layout="array"), "NOT_AN_ARRAY ... bigint"),
    ("relevance of text", column("truth", relevance="5"), "RELEVANCE_NOT_NUMERIC ... 'relevance' is string"),
    (
        "a segment that is not there",
        then(given("users", USERS), keys("evaluate", segments=["county"])),
        "MISSING_COLUMN ... did you mean 'country'?",
    ),
    (
        "an empty folder",
        lambda inputs: inputs.path(RECS).mkdir(),
        "EMPTY_INPUT ... recommendations ... no data file",
    ),
    ("no folder", keys(RECS, path="no/such"), "MISSING_INPUT ... recommendations: 'no/such' not found"),
    (
        "a file without a byte",
        files(RECS, raw(b"")),
        "EMPTY_FILE ... 1.parquet",
    ),
    ("a file without a byte, of CSV", text("truth", "csv", "user,item\n1,101\n", ""), "EMPTY_FILE ... 1.csv"),
    (
        "a truncated ORC file",
        then(
            orc(RECS, LISTS, LISTS),
            files(RECS, raw(b"ORC and no more", "1.orc")),
        ),
        "CORRUPT_FILE ... 1.orc",
    ),
    (
        "a column in some files only",
        files("truth", add(TRUTH.drop_columns("relevance"))),
        "SCHEMA_DRIFT ... 'relevance' ... 1.parquet",
    ),
    (
        "a column in some ORC files only",
        orc("truth", TRUTH, TRUTH.drop_columns("relevance")),
        "SCHEMA_DRIFT ... 'relevance' ... 1.orc",
    ),
    (
        "no such column",
        keys("truth", columns={"relevance": "relevanc"}),
        "MISSING_COLUMN ... truth: no column 'relevanc' ... did you mean 'relevance'?",
    ),
    ("columns that differ by case", column(RECS, User=1), "AMBIGUOUS_COLUMN ... recommendations ... user"),
    (
        "a short row of CSV",
        text("truth", "csv", "user,item,relevance\n1,101,5\n2\n"),
        "MALFORMED_RECORD ... 0.csv",
    ),
    (
        "a number in CSV that is none",
        text("truth", "csv", "user,item,relevance\n1,101,5\n2,102,good\n"),
        "RELEVANCE_NOT_NUMERIC ... string",
    ),
    (
        "CSV with the header in another order",
        then(column(RECS, user="u", item="i"), text("truth", "csv", "user,item\nu,i\n", "item,user\ni,u\n")),
        "SCHEMA_DRIFT ... 1.csv",
    ),
    (
        "a broken record of JSON",
        text("truth", "json", '{"user": 1, "item": 101}\n{"user": 2, \n'),
        "MALFORMED_RECORD ... truth",
    ),
    (
        "a filter of another type",
        keys("truth", where=[{"column": "user", "op": "==", "value": "x"}]),
        "TYPE_MISMATCH ... BIGINT",
    ),
    (
        "faults of several tables",
        then(without(RECS, "item", "model"), column("truth", relevance="x"), keys("train", path="no/such")),
        "MISSING_MODEL ... [MISSING_COLUMN] recommendations: no column 'item' "
        "... [RELEVANCE_NOT_NUMERIC] truth ... [MISSING_INPUT] train",
    ),
]
# Seen only when rows are counted, whoever reads them.
BY_ROW: list[tuple[str, Spoiler, str]] = [
    (
        "two items at one rank",
        then(ranked, column(RECS, rank=1), row("truth", item=201)),
        "DUPLICATE_RANK ... model 'a' ... relevant items that share their rank",
    ),
    (
        "two items at one rank, looked for",
        then(ranked, column(RECS, rank=1), keys("evaluate", checks="full")),
        "DUPLICATE_RANK ... model 'a'",
    ),
    (
        "ranks from 0",
        then(ranked, column(RECS, rank=[0, 1] * 4)),
        "RANK_BASE ... 2 rows with a rank below 1 ... ranks start at 1",
    ),
    (
        "repeated items, not allowed",
        then(row(RECS), keys("evaluate", conventions={"recommendation_duplicates": "refuse"})),
        "REPEATED_ITEM ... model 'a': 1 rows repeat",
    ),
    ("a null model", row(RECS, model=None), "NULL_MODEL ... 1 rows without a model name"),
    ("negative relevance", row("truth", relevance=-1.0), "NEGATIVE_RELEVANCE ... truth: 1 rows"),
    ("a flipped bit", files(RECS, flipped), "CORRUPT_FILE ... 0.parquet"),
    (
        "text that is no UTF-8",
        then(column(RECS, item=no_text), column("truth", item="a")),
        "INVALID_TEXT ... item",
    ),
    (
        "too many bad rows of a model",
        then(row(RECS, score=None), keys(RECS, max_quarantined=0.1)),
        "QUARANTINE_SHARE ... recommendations of model 'a': 1 of 5 rows ... 1 NULL_SCORE",
    ),
    (
        "several faults of rows",
        then(
            ranked,
            row(RECS, rank=0),
            row(RECS, model=None),
            row(RECS, model="c", user=99),
        ),
        "NULL_MODEL ... [RANK_BASE] recommendations of model 'a' ... [NO_ID_OVERLAP]",
    ),
    (
        "faults of users and train, before the larger tables are read",
        then(
            row("truth", relevance=-1.0),
            given("users", USERS),
            row("users"),
            given("train", TRAIN.slice(0, 0)),
            keys("evaluate", segments=["country", "known"]),
        ),
        "DUPLICATE_USER ... [EMPTY_TRAIN]",
    ),
    (
        "faults of rows of both tables",
        then(
            ranked,
            row(RECS, rank=0),
            row(RECS, model="01"),
            row(RECS, rank=None),
            row("truth", relevance=-1.0),
            row("truth", item=None),
            keys("truth", max_quarantined=0),
            keys(RECS, max_quarantined=0),
        ),
        "NEGATIVE_RELEVANCE ... [RANK_BASE] ... [INVALID_MODEL_NAME] ... "
        "[QUARANTINE_SHARE] truth: 1 of 5 rows ... "
        "[QUARANTINE_SHARE] recommendations of model 'a': 1 of 6",
    ),
]
# The same, of whole lists.
COUNTED: list[tuple[str, Spoiler, str]] = [
    (
        "ids of nobody in the truth",
        column(RECS, user=lambda ids: pa.array([v.as_py() + 50 for v in ids])),
        "NO_ID_OVERLAP ... model 'a' ... no_truth); here users are 51, 52, there 1, 2, 3; ... model 'b'",
    ),
    ("a model of which no user has truth", row(RECS, model="c", user=99), "NO_ID_OVERLAP ... model 'c'"),
    ("all scores are NaN", column(RECS, score=float("nan")), "NO_ID_OVERLAP ... 4 SCORE_NOT_FINITE"),
    ("a model without a name", row(RECS, model=""), "INVALID_MODEL_NAME ... model ''"),
    ("a model with a null character", row(RECS, model="a\0b"), "INVALID_MODEL_NAME ... 'a\\x00b'"),
    (
        "not a single recommendation",
        given(RECS, LISTS.slice(0, 0)),
        "EMPTY_RECOMMENDATIONS ... recommendations",
    ),
    (
        "recommendations without a row group",
        files(RECS, no_groups(LISTS.schema)),
        "EMPTY_RECOMMENDATIONS ... recommendations",
    ),
    ("a truth without a row group", files("truth", no_groups(TRUTH.schema)), "EMPTY_TRUTH ... truth"),
    (
        "relevance too large for exp2",
        then(row("truth", relevance=1e6), keys("evaluate", metrics=["ndcg(gain=exp2)"])),
        "RELEVANCE_TOO_LARGE ... 1000000.0",
    ),
    ("nothing relevant", keys("evaluate", relevance={"threshold": 9.0}), "EMPTY_TRUTH ... 3 below_threshold"),
    ("a truth without rows", given("truth", TRUTH.slice(0, 0)), "EMPTY_TRUTH ... truth"),
    (
        "a truth of nobody",
        column("truth", user=pa.nulls(3, pa.int64())),
        "EMPTY_TRUTH ... 3 NULL_ID",
    ),
    (
        "a train without a sound row",
        then(given("train", TRAIN), column("train", user=pa.nulls(3, pa.int64()))),
        "EMPTY_TRAIN ... train",
    ),
    (
        "users twice",
        then(given("users", USERS), row("users"), keys("evaluate", segments=["country"])),
        "DUPLICATE_USER ... users: 1 rows",
    ),
    (
        "files of other types",
        files(RECS, add(LISTS.set_column(1, "user", LISTS["user"].cast(pa.string())))),
        "SCHEMA_DRIFT ... parquet",
    ),
    (
        "any bad row of the truth",
        then(row("truth", item=None), keys("truth", max_quarantined=0)),
        "QUARANTINE_SHARE ... truth: 1 of 4 rows ... NULL_ID {",
    ),
]
# What is done to them, and lines of the ledger that tell of it: source, model, outcome, reason, rows.
SPLIT_KEPT: list[tuple[Any, ...]] = [
    (
        "null ids of a log",
        then(row("interactions", n=2, user=None), row("interactions", item=None)),
        "interactions - quarantined NULL_ID 3",
    ),
    (
        "some times as 05/01/2024",
        column("interactions", timestamp=["05/01/2024", *(f"2024-01-{1 + n % 10:02}" for n in range(1, 40))]),
        "interactions - quarantined NULL_TIMESTAMP 1",
    ),
    ("null times", row("interactions", timestamp=None), "interactions - quarantined NULL_TIMESTAMP 1"),
    (
        "times in nanoseconds",
        then(
            column("interactions", timestamp=lambda at: at.cast(SECONDS).cast(NANOSECONDS)),
            row("interactions", timestamp=None),
            without_unit,
        ),
        "interactions - quarantined NULL_TIMESTAMP 1",
        "interactions - used local_train 20",
    ),
    (
        "times far from ours",
        then(
            column("interactions", timestamp=lambda at: at.cast(SECONDS).cast(MICROSECONDS)),
            row("interactions", timestamp=-(10**16)),
            row("interactions", timestamp=3 * 10**16),
            keys("interactions", timestamp_unit=None),
        ),
        "interactions - used local_train 21",
        "interactions - used global_test 9",
        "interactions - before_1900 rows=1 0",
    ),
]
ALL_KEPT: list[tuple[Any, ...]] = [
    (
        "rows of many kinds",
        then(
            row(RECS, user=None),
            row(RECS, user=77),
            row(RECS),
            row(RECS, score=None),
            row(RECS, score=float("nan")),
            row(RECS, model="b", score=float("-inf")),
            row("truth"),
            row("truth", item=None),
            row("truth", relevance=None),
            row("truth", relevance=float("nan")),
            row("truth", relevance=0.0),
            given("train", TRAIN),
            row("train", user=None),
        ),
        "recommendations a deduplicated repeated_item 1",
        "recommendations a quarantined NULL_ID 1",
        "recommendations a quarantined NULL_SCORE 1",
        "recommendations a quarantined SCORE_NOT_FINITE 1",
        "recommendations b quarantined SCORE_NOT_FINITE 1",
        "recommendations a dropped no_truth 1",
        "truth - deduplicated repeated_item 1",
        "truth - quarantined NULL_ID 1",
        "truth - quarantined NULL_RELEVANCE 1",
        "truth - quarantined RELEVANCE_NOT_FINITE 1",
        "truth - filtered not_relevant 1",
        "train - quarantined NULL_ID 1",
        "users a used no_recommendations 1",
    ),
]
EVALUATE_KEPT: list[tuple[Any, ...]] = [
    (
        "null ids",
        then(row(RECS, user=None), row("truth", n=2, item=None)),
        "recommendations a quarantined NULL_ID 1",
        "truth - quarantined NULL_ID 2",
    ),
    (
        "null ids of a train",
        then(given("train", TRAIN), row("train", user=None)),
        "train - quarantined NULL_ID 1",
    ),
    (
        "scores that are null, NaN, infinite",
        then(row(RECS, score=None), row(RECS, score=float("nan")), row(RECS, model="b", score=float("-inf"))),
        "recommendations a quarantined NULL_SCORE 1",
        "recommendations a quarantined SCORE_NOT_FINITE 1",
        "recommendations b quarantined SCORE_NOT_FINITE 1",
    ),
    ("null ranks", then(ranked, row(RECS, rank=None)), "recommendations a quarantined NULL_RANK 1"),
    (
        "relevances that are null, NaN",
        then(row("truth", relevance=None), row("truth", relevance=float("nan"))),
        "truth - quarantined NULL_RELEVANCE 1",
        "truth - quarantined RELEVANCE_NOT_FINITE 1",
    ),
    ("repeated items", row(RECS, n=2), "recommendations a deduplicated repeated_item 2"),
    ("repeated truth", row("truth", n=2), "truth - deduplicated repeated_item 2"),
    ("ties at the cut", column(RECS, score=1.0), "recommendations a ties_at_cut k=1 0"),
    ("relevance 0", row("truth", relevance=0.0), "truth - filtered not_relevant 1"),
    (
        "ranks with gaps, beyond k",
        then(ranked, column(RECS, rank=[1, 7] * 4)),
        "recommendations a filtered beyond_k 2",
        "recommendations a rank_gaps - 0",
    ),
    (
        "users on one side only",
        row(RECS, user=77),
        "recommendations a dropped no_truth 1",
        "users a used no_recommendations 1",
        "users a dropped no_truth 1",
    ),
    ("nobody's item is relevant", column(RECS, item=9), "users a used no_hits 2"),
    (
        "CSV with a row too short, taken as nulls",
        text("truth", "csv", "user,item,relevance\n1,101,5\n2\n", mode="PERMISSIVE"),
        "truth - quarantined NULL_ID 1",
    ),
    (
        "a column in some files only, taken as nulls",
        files("truth", add(TRUTH.drop_columns("relevance")), options={"mergeSchema": True}),
        "truth - quarantined NULL_RELEVANCE 3",
    ),
    (
        "other columns in some files only",
        files("truth", add(TRUTH.append_column("note", pa.array(["x"] * 3)))),
        "truth - deduplicated repeated_item 3",
    ),
    (
        "ids that look alike",
        then(
            column(RECS, user="é", item="7"),
            column("truth", user=["e\u0301", "é", "é"], item=["7", "07", "7"]),
        ),
        "truth - used - 3",
        "truth - odd_ids user 0",
        "users a used no_recommendations 1",
    ),
    (
        "ids with a null character",
        then(column(RECS, user="a\0", item="i\0"), column("truth", user=["a\0", "a", "a\0b"], item="i\0")),
        "users a used - 1",
        "users a used no_recommendations 2",
        "recommendations a odd_ids user 0",
        "truth - odd_ids item 0",
    ),
    (
        "large ids beside nulls",
        then(
            row(RECS, user=None),
            row(RECS, user=BIG, item=BIG),
            row("truth", user=BIG, item=BIG),
            row("truth", user=BIG - 1, item=BIG),
        ),
        "recommendations a quarantined NULL_ID 1",
        "users a used - 3",
        "users a used no_recommendations 2",
    ),
    (
        "items that train has not",
        given("train", TRAIN),
        "truth - used cold_item 1",
        "recommendations a used cold_item 2",
    ),
    (
        "within the limit",
        then(row("truth", n=1, item=None), keys("truth", max_quarantined=0.25)),
        "truth - quarantined NULL_ID 1",
    ),
    (
        "JSON of another order, with a key missing",
        text("truth", "json", '{"user": 1, "item": 101}\n{"item": 102, "user": 2, "relevance": 1.0}\n'),
        "truth - quarantined NULL_RELEVANCE 1",
    ),
    (
        "ORC with nulls",
        orc(
            "truth",
            pa.concat_tables(
                [TRUTH, pa.table({"user": [None], "item": [1], "relevance": [1.0]}, schema=TRUTH.schema)]
            ),
        ),
        "truth - quarantined NULL_ID 1",
    ),
]
OUTCOMES: Counter[str] = Counter()


@pytest.fixture(scope="module", autouse=True)
def told() -> Iterator[None]:
    """In the end, what came of all inputs."""
    yield
    print(f"{OUTCOMES.total()} inputs: {dict(OUTCOMES.most_common())}")


@pytest.fixture
def inputs(tmp_path: Path, spark: SparkSession) -> Inputs:
    assert SparkSession.getActiveSession() is spark
    return Inputs(tmp_path)


def refusals() -> Iterator[Any]:
    """verb, what is done, what is said."""
    for verb, readers, cases in (
        ("validate", ["workers"], CONFIGS),
        ("validate", ["auto", "workers"], VALIDATE),
        ("split", ["auto", "workers"], SPLIT),
        ("evaluate", ["auto"], EVALUATE),
        ("evaluate", ["auto", "workers", "spark"], BY_ROW),
        ("evaluate", ["auto", "workers", "spark"], COUNTED),
    ):
        for name, spoil, says in cases:
            for reader in readers:
                slow = [pytest.mark.slow] if reader != readers[0] else []
                spoilt = then(spoil, READERS[reader])
                yield pytest.param(verb, spoilt, says, id=f"{name}, {verb}, {reader}", marks=slow)


@pytest.mark.parametrize(("verb", "spoil", "says"), list(refusals()))
def test_it_is_refused_by_name(inputs: Inputs, verb: str, spoil: Spoiler, says: str) -> None:
    inputs.spoil(spoil)
    code, line = refused(inputs, verb)
    expected, *others = says.split(" ... ")
    assert code == expected, line
    for other in others:
        assert other in line


def refused(inputs: Inputs, verb: str) -> tuple[str, str]:
    """The code and the line of a verb that must fail in one line, with a fix, and publish nothing."""
    answer = call(verb, "--config", inputs.config(), *([] if verb == "validate" else ["--run-id", "a"]))
    found = re.fullmatch(r"error\[([A-Z_]+)\] ([^\n]+)\n", answer.err)
    assert found, answer.err
    assert not re.search(r"Traceback|Py4J|java\.|org\.apache", answer.err), answer.err
    assert answer.code in (2, 3)
    assert answer.code == 2 or re.search(r"; |\. (Fix|Map) ", found[2]), f"no fix: {answer.err}"
    assert not inputs.out.exists()
    OUTCOMES[f"exit {answer.code}"] += 1
    return found[1], answer.err


def kept() -> Iterator[Any]:
    """verb, what is done, lines of the ledger."""
    for name, spoil, *lines in SPLIT_KEPT:
        for reader, through, marks in (
            ("auto", in_this_process, []),
            ("spark", through_spark("interactions"), [pytest.mark.slow]),
            ("workers", then(), [pytest.mark.exhaustive]),
        ):
            yield pytest.param(
                "split", then(spoil, through), lines, id=f"{name}, split, {reader}", marks=marks
            )
    for cases in (ALL_KEPT, EVALUATE_KEPT):
        for name, spoil, *lines in cases:
            for reader, through in READERS.items():
                spoilt = then(spoil, through)
                slow = [pytest.mark.slow] if reader != "auto" else []
                yield pytest.param("evaluate", spoilt, lines, id=f"{name}, evaluate, {reader}", marks=slow)


@pytest.mark.parametrize(("verb", "spoil", "lines"), list(kept()))
def test_every_row_is_accounted_for(inputs: Inputs, verb: str, spoil: Spoiler, lines: Sequence[str]) -> None:
    inputs.spoil(spoil)
    answer = call(verb, "--config", inputs.config(), "--run-id", "a")
    assert (answer.code, answer.err) == (0, "")
    ledger = pq.read_table(inputs.out / "accounting").to_pylist()
    shown = [" ".join(str(v if v is not None else "-") for v in list(line.values())[:5]) for line in ledger]
    assert not set(lines) - set(shown), shown
    sums: Counter[tuple[str, str]] = Counter()
    for line in ledger:
        sums[line["source"], line["model"]] += line["rows"] * (-1 if line["outcome"] == "in" else 1)
    assert not any(sums.values()), shown
    codes = [line.split()[3:] for line in lines if " quarantined " in line]
    quarantine = inputs.out / "quarantine"
    found = pq.read_table(quarantine)["code"].to_pylist() if quarantine.exists() else []
    expected: Counter[str] = Counter()
    for code, rows in codes:
        expected[code] += int(rows)
    assert Counter(found) == expected
    OUTCOMES["kept"] += 1


@pytest.mark.parametrize("setting", ["ignoreCorruptFiles", "ignoreMissingFiles"])
def test_a_session_that_loses_files_is_refused(inputs: Inputs, spark: SparkSession, setting: str) -> None:
    inputs.spoil()
    spark.conf.set(f"spark.sql.files.{setting}", "true")
    try:
        code, line = refused(inputs, "split")
    finally:
        spark.conf.unset(f"spark.sql.files.{setting}")
    assert code == "LOSSY_OPTION"
    assert f"spark.sql.files.{setting}" in line


@pytest.mark.parametrize(
    "reader", ["auto", *(pytest.param(one, marks=pytest.mark.slow) for one in ("workers", "spark"))]
)
@pytest.mark.parametrize("what", ["damaged", "shorter", "another schema", "gone"])
def test_files_that_are_replaced_while_they_are_read(
    inputs: Inputs, monkeypatch: pytest.MonkeyPatch, what: str, reader: str
) -> None:
    inputs.spoil(READERS[reader])
    file = inputs.path("recommendations") / "0.parquet"

    def measured(*given: Any) -> Evaluation:
        match what:
            case "damaged":
                file.write_bytes(b"PAR1 and then nothing")
            case "shorter":
                pq.write_table(pq.read_table(file).slice(0, 1), file)
            case "another schema":
                pq.write_table(pa.table({"user": ["x"]}), file)
            case "gone":
                file.unlink()
        return measure_lists(*given)

    monkeypatch.setattr("spark_eval.verbs.evaluate.measure_lists", measured)
    code, line = refused(inputs, "evaluate")
    assert code == "INPUT_CHANGED_DURING_RUN", line
    assert "recommendations: 1 files changed, such as '0.parquet'" in line


@pytest.mark.parametrize("what", ["touched", "gone", "added"])
def test_files_that_change_during_a_run(inputs: Inputs, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    inputs.spoil(in_this_process)
    folder = inputs.path("truth")

    def measured(*given: Any) -> Evaluation:
        found = measure_lists(*given)
        match what:
            case "touched":
                os.utime(folder / "0.parquet", (0, 0))
            case "gone":
                (folder / "0.parquet").unlink()
            case "added":
                pq.write_table(TRUTH, folder / "1.parquet")
        return found

    monkeypatch.setattr("spark_eval.verbs.evaluate.measure_lists", measured)
    if what == "added":  # after the files to be read were listed
        assert call("evaluate", "--config", inputs.config()).code == 0
    else:
        code, line = refused(inputs, "evaluate")
        assert code == "INPUT_CHANGED_DURING_RUN"
        assert "truth: 1 files changed, such as '0.parquet'" in line


def test_frames_come_with_all_faults_of_all_tables(spark: SparkSession) -> None:
    lists = spark.createDataFrame([(1, 2.5, "high")], "user long, item double, score string")
    truth = spark.createDataFrame([(1, "much")], "user long, relevance string")
    with pytest.raises(DataError) as raised:
        evaluate(lists, truth)
    codes = re.findall(r"\[([A-Z_]+)\]", str(raised.value))
    assert codes == [
        "MISSING_MODEL",
        "ID_IS_FLOAT",
        "SCORE_NOT_NUMERIC",
        "MISSING_COLUMN",
        "RELEVANCE_NOT_NUMERIC",
    ]


def fails(error: Exception | None) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A worker that raises this; without it, one that the operating system kills."""

    def work(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if error is not None:
            raise error
        os.kill(os.getpid(), signal.SIGKILL)
        return rows

    return work


@pytest.mark.parametrize(
    ("work", "says"),
    [
        (fails(ValueError("no such thing")), "error[SPARK_FAILED] ValueError: no such thing; try again"),
        (fails(MemoryError()), "error[OUT_OF_MEMORY] MemoryError; raise spark.driver.memory"),
        (
            fails(OSError(28, "No space left on device")),
            "error[DISK_FULL] No space left on device; free disk space",
        ),
        (fails(DataError("CORRUPT_FILE", "x is bad; fix it")), "error[CORRUPT_FILE] x is bad; fix it"),
        (fails(None), "error[WORKER_CRASHED] Python worker exited unexpectedly"),
    ],
)
def test_what_workers_raise_has_a_name(spark: SparkSession, work: Any, says: str) -> None:
    rows: DataFrame = spark.range(1, numPartitions=1).mapInArrow(work, "id long")
    with pytest.raises((PySparkException, Py4JError)) as raised:
        rows.collect()
    line = str(named_spark_error(raised.value))
    assert line.startswith(says)
    assert not re.search(r"\n|Traceback|Py4J|java\.|org\.apache", line)
