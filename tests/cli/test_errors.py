"""Bad inputs through the program: exit 3, one line with the right name, and nothing published."""

import errno
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from spark_eval.errors import ConfigError, DataError
from spark_eval.names import model_faults
from spark_eval.runtime.spark_errors import may_be_of_inputs, named_spark_error

pytestmark = pytest.mark.usefixtures("engine_of_users")

if TYPE_CHECKING:
    from tests.cli.conftest import Desk

LISTS = {"model": ["best"] * 2, "user": [1, 2], "item": [101, 102], "score": [1.0, 2.0]}


@pytest.mark.parametrize(
    ("section", "keys", "code", "says"),
    [
        (
            "interactions",
            {"path": "no/such/log"},
            "MISSING_INPUT",
            "interactions: 'no/such/log' not found (relative to the working folder). "
            "Fix `interactions.path`, or run the job that produces it",
        ),
        ("truth", {"path": "/no/such"}, "MISSING_INPUT", "truth: '/no/such' not found. Fix `truth.path`, or"),
        ("interactions", {"path": "no/such/*.parquet"}, "EMPTY_INPUT", "no data file at"),
        ("interactions", {"path": None, "table": "no_such"}, "MISSING_INPUT", "no_such"),
        ("interactions", {"columns": {"timestamp": "wen"}}, "MISSING_COLUMN", "did you mean 'when'?"),
        ("interactions", {"columns": {}}, "MISSING_COLUMN", "'timestamp'"),
        ("interactions", {"columns": {"usr": "user"}}, "UNKNOWN_CONFIG_KEY", "did you mean 'user'?"),
        ("interactions", {"timestamp_unit": None}, "TIMESTAMP_UNIT_MISSING", "set timestamp_unit"),
        ("interactions", {"where": [{"column": "star", "op": "is_null"}]}, "MISSING_COLUMN", "mean 'stars'?"),
        ("interactions", {"subset": "global_test"}, "MISSING_COLUMN", "no column 'subset'"),
        ("interactions", {"format": "parket"}, "UNKNOWN_FORMAT", "parket"),
        (
            "truth",
            {"subset": "global_test"},
            "MISSING_SPLIT",
            "run `spark-eval split --config FILE --run-id ",
        ),
        ("recommendations", {"columns": {"score": "model"}}, "SCORE_NOT_NUMERIC", "string"),
        ("recommendations", {"columns": {"rank": "model"}}, "RANK_NOT_INTEGER", "string; ranks are whole"),
        ("recommendations", {"layout": "array"}, "NOT_AN_ARRAY", "bigint"),
    ],
)
def test_what_validate_finds(desk: "Desk", section: str, keys: dict[str, Any], code: str, says: str) -> None:
    desk.change(section, **keys)
    exit_code, name, line = desk.refused("validate")
    assert name == code
    assert exit_code == (2 if code in ("UNKNOWN_CONFIG_KEY", "UNKNOWN_FORMAT") else 3)
    assert says in line


@pytest.mark.parametrize(
    ("lists", "code", "says"),
    [
        ({"user": [1.0, 2.0]}, "ID_IS_FLOAT", "'user' is double"),
        ({"user": [True, False]}, "ID_TYPE_UNSUPPORTED", "'user' is boolean"),
        ({"user": ["1", "2"]}, "ID_TYPE_MISMATCH", "string in recommendations and bigint in truth"),
        ({"model": None}, "MISSING_MODEL", "pass model=\"als\" or columns={'model': 'yours'}"),
        ({"User": [1, 2]}, "AMBIGUOUS_COLUMN", "differ by case only"),
    ],
)
def test_columns_of_wrong_types(desk: "Desk", lists: dict[str, Any], code: str, says: str) -> None:
    columns = {name: values for name, values in {**LISTS, **lists}.items() if values is not None}
    desk.change("recommendations", path=str(desk.write("wrong", pd.DataFrame(columns))))
    desk.change("truth", path=str(desk.home / "log"), columns={"relevance": "stars"})
    exit_code, name, line = desk.refused("validate")
    assert (exit_code, name) == (3, code)
    assert says in line


def test_all_faults_of_a_table_come_in_one_line(desk: "Desk") -> None:
    wrong = pd.DataFrame({"user": [1.5], "item": [2.5], "model": ["m"], "score": ["high"]})
    desk.change("recommendations", path=str(desk.write("wrong", wrong)))
    _, name, line = desk.refused("validate")
    assert name == "ID_IS_FLOAT"
    assert "also [ID_IS_FLOAT]" in line
    assert "also [SCORE_NOT_NUMERIC]" in line


def test_folders_and_files_without_content(desk: "Desk") -> None:
    empty = desk.home / "empty"
    empty.mkdir()
    (empty / "_SUCCESS").touch()
    desk.change("recommendations", path=str(empty))
    assert desk.refused("evaluate")[:2] == (3, "EMPTY_INPUT")
    (desk.home / "lists" / "1.parquet").touch()
    desk.change("recommendations", path=str(desk.home / "lists"))
    exit_code, name, line = desk.refused("evaluate")
    assert (exit_code, name) == (3, "EMPTY_FILE")
    assert "1.parquet" in line


def test_a_truncated_file_beside_a_good_one(desk: "Desk") -> None:
    good = desk.home / "lists" / "0.parquet"
    (desk.home / "lists" / "1.parquet").write_bytes(good.read_bytes()[:-40])
    desk.change("truth", path=str(desk.home / "log"))
    exit_code, name, line = desk.refused("evaluate")
    assert (exit_code, name) == (3, "CORRUPT_FILE")
    assert "1.parquet" in line


def test_links_that_lead_nowhere(desk: "Desk") -> None:
    (desk.home / "lists" / "1.parquet").symlink_to("nowhere")
    desk.change("truth", path=str(desk.home / "log"))
    exit_code, name, line = desk.refused("evaluate")
    assert (exit_code, name) == (3, "MISSING_INPUT")
    assert "1.parquet' leads to no file" in line
    (desk.home / "gone").symlink_to("nowhere")
    desk.change("interactions", path=str(desk.home / "gone"))
    assert desk.refused("split")[:2] == (3, "MISSING_INPUT")
    desk.change("interactions", path=str(desk.home / "log"))
    for no_folder in (desk.home / "gone", desk.home / "log" / "0.parquet"):
        desk.change("output", path=str(no_folder / "out"))
        exit_code, name, line = desk.refused("split")
        assert (exit_code, name) == (2, "UNSUPPORTED_OUTPUT")
        assert f"{str(no_folder)!r} is not a folder" in line


def test_uris_with_a_host(desk: "Desk") -> None:
    desk.change("interactions", path=f"file://localhost{desk.home / 'log'}")
    desk.change("output", path=f"file://LOCALHOST{desk.out}")
    desk.done("split", "--run-id", "a")
    assert len(desk.table("splits")) == 40
    for section in ("interactions", "output"):
        desk.change(section, path="file://data/log")
        exit_code, name, line = desk.refused("split")
        assert (exit_code, name) == (2, "INVALID_CONFIG")
        assert "'file://data/log' names a host, 'data'; a path of this machine is file:///" in line
        desk.change(section, path=str(desk.home / "log"))


def test_files_of_two_schemas(desk: "Desk") -> None:
    drifted = pd.DataFrame({**LISTS, "user": ["1", "2"]})
    drifted.to_parquet(desk.home / "lists" / "1.parquet")
    desk.change("truth", path=str(desk.home / "log"))
    exit_code, name, _ = desk.refused("evaluate")
    assert (exit_code, name) == (3, "SCHEMA_DRIFT")


@pytest.mark.parametrize("written", ["007", "+7", "7.0"])
def test_ids_of_a_csv_that_are_no_plain_integers(desk: "Desk", written: str) -> None:
    (desk.home / "truth.csv").write_text(f"user,item\n1,101\n{written},102\n")
    desk.change("truth", path=str(desk.home / "truth.csv"), format="csv", options={"header": True})
    exit_code, name, line = desk.refused("evaluate")
    assert exit_code == 3
    assert name == ("ID_IS_FLOAT" if "." in written else "ID_NOT_CANONICAL")
    assert name == "ID_IS_FLOAT" or f"'{written}' is no plain integer" in line


def test_a_short_row_of_a_csv(desk: "Desk") -> None:
    (desk.home / "truth.csv").write_text("user,item,relevance\n1,101,5\n2\n")
    desk.change("truth", path=str(desk.home / "truth.csv"), format="csv", options={"header": True})
    assert desk.refused("evaluate")[:2] == (3, "MALFORMED_RECORD")


def test_a_filter_of_another_type_than_its_column(desk: "Desk") -> None:
    desk.change("truth", path=str(desk.home / "log"), where=[{"column": "when", "op": "==", "value": "x"}])
    assert desk.refused("evaluate")[:2] == (3, "TYPE_MISMATCH")


def test_no_truth_left(desk: "Desk") -> None:
    desk.change("truth", path=str(desk.home / "log"), columns={"relevance": "stars"})
    exit_code, name, _ = desk.refused("evaluate", "--set", "evaluate.relevance.threshold=9.0")
    assert (exit_code, name) == (3, "EMPTY_TRUTH")


def test_a_threshold_below_0_is_refused_by_name(desk: "Desk") -> None:
    exit_code, name, line = desk.refused("evaluate", "--set", "evaluate.relevance.threshold=-1")
    assert (exit_code, name) == (2, "INVALID_CHOICE")
    assert "0 or more" in line


def test_no_user_in_common(desk: "Desk") -> None:
    strangers = pd.DataFrame({**LISTS, "user": [11, 12]})
    desk.change("recommendations", path=str(desk.write("strangers", strangers)))
    desk.change("truth", path=str(desk.home / "log"))
    assert desk.refused("evaluate")[:2] == (3, "NO_ID_OVERLAP")


def test_a_cut_outside_the_log(desk: "Desk") -> None:
    exit_code, name, line = desk.refused("split", "--set", "split.global_cut={instant: '1999-01-01'}")
    assert (exit_code, name) == (3, "SPLIT_OUT_OF_RANGE")
    assert "1970-01-11" in line


@pytest.mark.parametrize("by", ["column", "config"])
def test_a_model_without_a_name_of_its_own(desk: "Desk", by: str) -> None:
    lists = pd.DataFrame({**LISTS, "model": ["", "best"]})
    desk.change("recommendations", path=str(desk.write("wrong", lists)), model="" if by == "config" else None)
    desk.change("truth", path=str(desk.home / "log"))
    assert desk.refused("evaluate")[:2] == (3, "INVALID_MODEL_NAME")


def test_a_null_model(desk: "Desk") -> None:
    lists = pd.DataFrame({**LISTS, "model": [None, "best"]})
    desk.change("recommendations", path=str(desk.write("wrong", lists)))
    desk.change("truth", path=str(desk.home / "log"))
    assert desk.refused("evaluate")[:2] == (3, "NULL_MODEL")


@pytest.mark.parametrize(
    "name", ["", "__HIVE_DEFAULT_PARTITION__", "a\nb", "a\0", "\x7f", "x" * 201, "é" * 101, "/" * 67]
)
def test_refused_model_names(name: str) -> None:
    [fault] = model_faults(["als", name])
    assert re.fullmatch(r"error\[INVALID_MODEL_NAME\] [ -~é]+", str(fault))


# What spark.read.parquet gives for a folder of this name, where it is no text: read in Spark 4.3.
@pytest.mark.parametrize(
    ("name", "read"),
    [
        *[
            ("01", "1"),
            ("+1", "1"),
            ("-0", "0"),
            ("00", "0"),
            ("1e3", "1000"),
            ("1E3", "1000"),
            ("1e-3", "0.001"),
        ],
        *[("1.10", "1.1"), (".5", "0.5"), ("5.", "5"), ("1d", "1.0"), ("3F", "3.0"), ("0x1p3", "8.0")],
        *[("\u0661", "1"), ("\uff12", "2"), (" 1", "1.0"), ("1 ", "1.0"), ("1e400", "Infinity")],
        ("1" * 39, "1.111111111111111E38"),
        # Alone they come back as they are; beside 1 and 2024-01-01 they do not.
        *[("1.0", "1.0"), ("NaN", "NaN"), ("2024-01-01 00:00:00", "2024-01-01"), ("12:30:45", "12:30:45")],
    ],
)
def test_model_names_that_readers_take_for_a_value(name: str, read: str) -> None:
    [fault] = model_faults(["als", name])
    assert fault.code == "INVALID_MODEL_NAME"
    assert "begin it with a letter" in fault.message, read


@pytest.mark.parametrize("names", [["ALS", "als"], ["é", "e\u0301"], ["Straße", "STRASSE"]])
def test_model_names_that_a_file_system_may_take_for_one(names: list[str]) -> None:
    [fault] = model_faults(names)
    assert fault.code == "MODELS_ALIKE"
    assert ascii(names[1]) in fault.message


def test_allowed_model_names() -> None:
    assert not model_faults(
        [
            "1",
            "-1",
            "2024-01-01",
            "v01",
            "1.2.3",
            "1e",
            "0x1F",
            "inf",
            "T1:2",
            " ",
            "..",
            "a/b=c d",
            "x" * 200,
            "é" * 100,
            "/" * 66,
            "модель 🙂",
        ]
    )


def memory_error_of_numpy() -> MemoryError:
    """What numpy raises for an array that no machine holds."""
    with pytest.raises(MemoryError) as caught:
        np.empty(1 << 58)
    return caught.value


@pytest.mark.parametrize(
    ("error", "code", "exit_code"),
    [
        (OSError("odd"), "FILE_SYSTEM", 1),
        (OSError(errno.EIO, "bad disk", "a.parquet"), "FILE_SYSTEM", 1),
        (OSError(errno.ENOSPC, "full", "a.parquet"), "DISK_FULL", 1),
        (Py4JError("java.io.IOException: No space left on device\n\tat x"), "DISK_FULL", 1),
        (Py4JError("SparkException: Python worker exited unexpectedly (crashed)"), "WORKER_CRASHED", 1),
        (Py4JError('Cannot run program "python3": error=12, Cannot allocate memory'), "OUT_OF_MEMORY", 1),
        (
            Py4JError('Cannot run program "a": error=11, Resource temporarily unavailable'),
            "WORKER_CRASHED",
            1,
        ),
        (
            Py4JError("\nError from python worker:\n  MemoryError\nPYTHONPATH was:\n  /z\n"),
            "OUT_OF_MEMORY",
            1,
        ),
        *[
            (error, "OUT_OF_MEMORY", 1)
            for error in (
                RuntimeError("can't start new thread"),
                pa.ArrowMemoryError("malloc of size 64 failed"),
                memory_error_of_numpy(),
                pa.ArrowException("Unknown error: std::bad_alloc"),
                OSError(errno.ENOMEM, "Cannot allocate memory"),
                ImportError("groupby.so: failed to map segment from shared object"),
            )
        ],
        (ValueError("first line\nsecond line"), "UNEXPECTED", 1),
        (ValueError(), "UNEXPECTED", 1),
    ],
)
def test_anything_else_is_for_a_retry(error: Exception, code: str, exit_code: int) -> None:
    named = named_spark_error(error)
    assert (named.code, named.exit_code) == (code, exit_code)
    assert "\n" not in str(named)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        *[(OSError(number, "no", "a.parquet"), "NO_PERMISSION") for number in (errno.EROFS, errno.EACCES)],
        (Py4JError("java.io.FileNotFoundException: /a (Permission denied)"), "NO_PERMISSION"),
        (Py4JError("java.io.IOException: Read-only file system"), "NO_PERMISSION"),
        (Py4JError('IOException: Cannot run program "/no/python": error=2, No such'), "WORKER_ENV_MISMATCH"),
        (AnalysisException("[PYTHON_VERSION_MISMATCH] Python 3.9 and 3.12"), "WORKER_ENV_MISMATCH"),
        (
            Py4JError("\nError from python worker:\n  ImportError: x\nPYTHONPATH was:\n"),
            "WORKER_ENV_MISMATCH",
        ),
        *[
            (AnalysisException(f"Failed to find data source: {name}. Please deploy it"), "UNKNOWN_FORMAT")
            for name in ("avro", "kafka")
        ],
        (AnalysisException("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: dbf."), "UNKNOWN_FORMAT"),
    ],
)
def test_errors_that_no_retry_mends_are_not_retried(error: Exception, code: str) -> None:
    named = named_spark_error(error)
    assert (named.code, named.exit_code) == (code, 2)
    assert "\n" not in str(named)


def test_a_worker_that_cannot_start_is_reported_by_its_last_line() -> None:
    trace = (
        "\n  Traceback (most recent call last):\n    File 'x'\n  ImportError: no y\nPYTHONPATH was:\n  /z\n"
    )
    named = named_spark_error(
        Py4JError(f"SparkException: \nError from python worker:{trace}EOFException\n\tat x")
    )
    assert str(named) == (
        "error[WORKER_ENV_MISMATCH] a Python worker could not start: ImportError: no y; give workers the "
        "driver's environment by PYSPARK_PYTHON or --archives (--debug shows all)"
    )


FOOTER = """An error occurred while calling o1.collect.
: org.apache.spark.SparkException: [FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER] Encountered error while
reading file file:///data/a.parquet. Could not read footer. Please ensure that the file is in either ORC or
Parquet format. If not, please convert it to a valid format. If the file is in the valid format, please check
if it is corrupt. If it is, you can choose to either ignore it or fix the corruption. SQLSTATE: KD001
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.of(QueryExecutionErrors.scala:1)
Caused by: java.lang.RuntimeException: file:/data/a.parquet is not a Parquet file"""
DROPPED = f"""{FOOTER}
\tat x
Caused by: org.apache.http.ConnectionClosedException: Premature end of Content-Length"""
MERGED = """org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error. SQLSTATE: KD001
\tat x
Caused by: org.apache.spark.SparkException: [CANNOT_MERGE_SCHEMAS] Failed merging schemas:
Initial schema:
"a". SQLSTATE: 42KD9
\tat y"""
CAUSED = """org.apache.spark.SparkException: Job aborted
\tat a
Caused by: java.lang.RuntimeException: the outer
\tat b
Caused by: java.lang.IllegalStateException: the inner of org.a.B.SomeException: twice. Try it. It stays.
\tat c"""
DISK = "java.io.IOException: lost\n\tat x\nCaused by: java.io.IOException: No space left on device\n\tat y"


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        (
            FOOTER,
            "CORRUPT_FILE",
            "/data/a.parquet: FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER: Encountered error while reading file "
            "file:///data/a.parquet. Could not read footer; write the file again, and remove",
        ),
        (
            DROPPED,
            "STORE_DOWN",
            "/data/a.parquet: ConnectionClosedException: Premature end of Content-Length; try again once",
        ),
        (
            MERGED,
            "SCHEMA_DRIFT",
            'CANNOT_MERGE_SCHEMAS: Failed merging schemas: Initial schema: "a"; write all files',
        ),
        (CAUSED, "SPARK_FAILED", "IllegalStateException: the inner of SomeException: twice. It stays; try"),
        (f"a.b.AnError: {'x' * 600}", "SPARK_FAILED", f"AnError: {'x' * 491}; try again"),
        (DISK, "DISK_FULL", "No space left on device; free disk space"),
    ],
    ids=[
        "advice",
        "a dropped connection",
        "the first that is known",
        "the last cause",
        "length",
        "the system's words",
    ],
)
def test_of_what_spark_says_facts_are_left(text: str, code: str, says: str) -> None:
    line = str(named_spark_error(Py4JError(text), "truth", " (see the log)"))
    assert line.startswith(f"error[{code}] truth: {says}")
    assert line.endswith(" (see the log)")
    assert str(named_spark_error(Py4JError(text))).endswith(" (--debug shows all)")


def test_our_errors_are_shown_without_the_text_of_spark_around_them() -> None:
    text = "SparkException: job\n\tat a\nerror[CORRUPT_FILE] x is bad; fix it SQLSTATE: 38000\n\tat b"
    assert str(named_spark_error(Py4JError(text), "truth")) == "error[CORRUPT_FILE] x is bad; fix it"
    assert str(named_spark_error(ValueError("first\nsecond"))) == "error[UNEXPECTED] ValueError: first"


def test_which_errors_may_be_of_inputs_that_changed() -> None:
    errors = [
        DataError("CORRUPT_FILE", "x"),
        *map(named_spark_error, (OSError("x"), ValueError("x"), Py4JError("x"))),
    ]
    assert all(map(may_be_of_inputs, errors))
    assert not any(
        map(may_be_of_inputs, (named_spark_error(OSError(28, "x")), ConfigError("INVALID_K", "x")))
    )


def test_spark_speaks_in_one_line_without_a_trace(spark: SparkSession) -> None:
    for query, code, end in (
        ("SELECT 1 / 0", "SPARK_FAILED", "Division by zero; try again"),
        ("SELECT CAST('x' AS INT)", "TYPE_MISMATCH", "because it is malformed; compare with"),
        ("SELECT CAST(3e9 AS INT)", "VALUE_TOO_LARGE", "due to an overflow; check the value"),
        ("SELECT * FROM no_such", "MISSING_INPUT", "`no_such` cannot be found; "),
    ):
        with pytest.raises(Exception, match="SQLSTATE") as raised:
            spark.sql(query).collect()
        named = named_spark_error(raised.value)
        assert named.code == code
        assert end in named.message  # what to do is said by us, not by Spark
        assert "SQLSTATE" not in str(named)
        assert "\tat " not in str(named)
        assert "\n" not in str(named)


@pytest.mark.parametrize(
    ("cause", "code", "exit_code"),
    [
        ("org.apache.hadoop.hdfs.server.namenode.SafeModeException: Cannot create /out", "STORE_DOWN", 1),
        ("java.net.ConnectException: Call From a to b:8020 failed: Connection refused", "STORE_DOWN", 1),
        ("java.net.UnknownHostException: no-such-host", "STORE_DOWN", 1),
        ("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException: The DiskSpace quota", "STORE_FULL", 1),
        ("org.apache.hadoop.security.AccessControlException: Permission denied: user=a", "STORE_DENIED", 2),
        ("java.nio.file.AccessDeniedException: s3a://b: 403, ExpiredToken", "STORE_DENIED", 2),
        ("org.apache.hadoop.fs.s3a.AWSBadRequestException: 400, ExpiredToken: x", "STORE_DENIED", 2),
        (
            "org.apache.hadoop.fs.s3a.UnknownStoreException: `s3a://b/': Bucket missing",
            "UNREACHABLE_STORE",
            2,
        ),
        ("org.apache.hadoop.fs.s3a.AWSServiceThrottledException: SlowDown", "STORE_DOWN", 1),
    ],
)
def test_failures_of_stores_have_names(cause: str, code: str, exit_code: int) -> None:
    named = named_spark_error(
        Py4JError(f"An error occurred while calling o1.x.\n: {cause}\n\tat a.B(C.java:1)")
    )
    assert (named.code, named.exit_code) == (code, exit_code)
    assert "\n" not in named.message
    assert "\tat" not in named.message
