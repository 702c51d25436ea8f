"""Named errors for exceptions of Spark; users see traces of the JVM and workers only with ``--debug``."""

import errno
import os
import re
import signal
import sys
from contextlib import suppress
from subprocess import TimeoutExpired
from typing import Any, Final
from urllib.parse import unquote

from spark_eval.errors import (
    ConfigError,
    DataError,
    EnvironmentFault,
    SetupError,
    SparkEvalError,
    lacks_memory,
)
from spark_eval.runtime import streams
from spark_eval.runtime.file_kinds import other_format

OURS: Final = re.compile(r"error\[([A-Z_]+)\] ([^\n]*?)(?: SQLSTATE|\n|$)")
CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
# End of Spark's sentence; the file it was reading; a trace line with a message; package of a Java class.
END: Final = re.compile(r"SQLSTATE|\n\s*at |\nJVM|\nTraceback|\n== SQL|;\n'")
FILE: Final = re.compile(
    r"reading (?:the )?file:? (?:file:/*(?=/))?(/[^\n]+?)(?:\.?\s*(?:SQLSTATE|\n|$)|\. (?=[A-Z]))"
)
CAUSE: Final = re.compile(r"^(?:Caused by)?:? ?((?:[\w$]+\.)*\w*(?:Exception|Error): .+)$", re.MULTILINE)
JAVA_CLASS: Final = re.compile(r"(?:[\w$]+\.)+(?=\w*(?:Exception|Error)\b)")
# Py4J's message if the JVM did not answer.
NO_ANSWER: Final = re.compile(r"An error occurred while calling [\w.$]+$")
# Sentences of advice to authors of SQL are removed; FIXES has the advice for configs.
SENTENCE: Final = re.compile(r"(?<=[.!]) (?=[A-Z])")
ADVICE: Final = re.compile(
    r"(Use|Set|Choose|Correct|Please,?|Consider|Try|Verify|Check|Ensure|Make sure|You (can|may|need|must)|"
    r"It (must be specified|is possible)|Search path|If|"
    r"To (tolerate|process|bypass|avoid|ignore|allow|work|convert|use))\b"
)
LONGEST_CAUSE: Final = 500
DEBUG: Final = " (--debug shows all)"
SECONDS_TO_END: Final = 2.0
# Our codes by the first characters of Spark's error conditions. The first match counts; wrappers are last.
KNOWN: Final[dict[str, tuple[type[SparkEvalError], str]]] = {
    "FAILED_READ_FILE.PARQUET_COLUMN": (DataError, "SCHEMA_DRIFT"),
    "COLUMN_ALREADY_EXISTS": (DataError, "AMBIGUOUS_COLUMN"),
    "CANNOT_MERGE_SCHEMAS": (DataError, "SCHEMA_DRIFT"),
    "PATH_NOT_FOUND": (DataError, "MISSING_INPUT"),
    "TABLE_OR_VIEW_NOT_FOUND": (DataError, "MISSING_INPUT"),
    "UNABLE_TO_INFER_SCHEMA": (DataError, "EMPTY_INPUT"),
    "MALFORMED_": (DataError, "MALFORMED_RECORD"),
    "PARQUET_TYPE_ILLEGAL": (DataError, "UNSUPPORTED_TYPE"),
    "PARQUET_TYPE_NOT_": (DataError, "UNSUPPORTED_TYPE"),
    "DECIMAL_PRECISION_EXCEEDS": (DataError, "UNSUPPORTED_TYPE"),
    "UNSUPPORTED_TIME_TYPE": (DataError, "UNSUPPORTED_TYPE"),
    "CAST_INVALID_INPUT": (DataError, "TYPE_MISMATCH"),
    "DATATYPE_MISMATCH": (DataError, "TYPE_MISMATCH"),
    "CAST_OVERFLOW": (DataError, "VALUE_TOO_LARGE"),
    "DATETIME_OVERFLOW": (DataError, "VALUE_TOO_LARGE"),
    "DELTA_VERSION_NOT_FOUND": (DataError, "MISSING_SNAPSHOT"),
    "DELTA_TIMESTAMP_": (DataError, "MISSING_SNAPSHOT"),
    "DATA_SOURCE_NOT_FOUND": (ConfigError, "UNKNOWN_FORMAT"),
    "FAILED_READ_FILE.FILE_NOT_EXIST": (DataError, "INPUT_CHANGED_DURING_RUN"),
    "PYTHON_VERSION_MISMATCH": (SetupError, "WORKER_ENV_MISMATCH"),
    "FAILED_READ_FILE": (DataError, "CORRUPT_FILE"),
    "EMPTY_PARTITION_COLUMN": (DataError, "INVALID_PARTITION"),
    "CONFLICTING_PARTITION_COLUMN_NAMES": (DataError, "INVALID_PARTITION"),
    "CONFLICTING_DIRECTORY_STRUCTURES": (DataError, "INVALID_PARTITION"),
}
# Advice for each code that Spark's errors are mapped to.
FIXES: Final = {
    "SCHEMA_DRIFT": "write all files with one schema",
    "AMBIGUOUS_COLUMN": "rename one of the columns",
    "MISSING_INPUT": "fix the config, or run the job that produces it",
    "MISSING_SNAPSHOT": "name a snapshot that the table has kept, by versionAsOf or timestampAsOf",
    "EMPTY_INPUT": "run what writes it",
    "INPUT_CHANGED_DURING_RUN": "rerun when the input is stable",
    "MALFORMED_RECORD": "fix the record, or the reader's options",
    "UNSUPPORTED_TYPE": "write the column with another type, times in microseconds (coerce_timestamps='us')",
    "UNSUPPORTED_CODEC": "write the file again, compressed by zstd or snappy, with default encodings",
    "ENCRYPTED_FILE": "give Spark the keys by spark-submit --conf, or write without encryption",
    "INVALID_PARTITION": "rename the folders, or name fewer by path",
    "TYPE_MISMATCH": "compare with a value of the column's type, or cast the column when writing it",
    "VALUE_TOO_LARGE": "check the value, and timestamp_unit if it is a timestamp",
    "UNKNOWN_FORMAT": "fix the name, or put the source on Spark's classpath",
    "CORRUPT_FILE": "write the file again, and remove an older .crc file next to it",
    "INVALID_PATH": "choose another path, each name in it of at most 255 bytes",
    "DISK_FULL": "free disk space",
    "NO_PERMISSION": "check permissions and mounts",
    "STORE_DOWN": "try again once the store answers",
    "STORE_DENIED": "check the user, the credentials and the permissions of the path",
    "STORE_FULL": "free space or raise the quota of the folder",
    "UNREACHABLE_STORE": "fix the address of the store",
    "OUT_OF_MEMORY": "raise spark.driver.memory or spark.executor.memory, or use fewer cores",
    "WORKER_CRASHED": "check for a memory limit that killed it; give workers more memory, or use fewer cores",
    "WORKER_ENV_MISMATCH": "give workers the driver's environment by PYSPARK_PYTHON or --archives",
    "JVM_DIED": "check for a memory limit that killed it, and spark.driver.memory",
    "SPARK_FAILED": "try again",
}
MORE_MEMORY: Final = "give it more, evaluate fewer models and metrics at once, or choose engine: spark"
# Classes and codes of errors by errno of the operating system.
REFUSALS: Final[dict[int, tuple[type[SparkEvalError], str]]] = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), (EnvironmentFault, "DISK_FULL")),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), (SetupError, "NO_PERMISSION")),
}
# Codes of the operating system for paths that no retry changes.
NO_PATH: Final = (errno.ENAMETOOLONG, errno.ELOOP, errno.EISDIR, errno.ENOTDIR)
# Codes by texts of the JVM and workers that have no condition of Spark.
SAID: Final[dict[str, tuple[type[SparkEvalError], str]]] = {
    # Stores that Hadoop reaches, by the class of its exception. HDFS:
    "SafeModeException": (EnvironmentFault, "STORE_DOWN"),
    "StandbyException": (EnvironmentFault, "STORE_DOWN"),
    "could only be written to": (EnvironmentFault, "STORE_DOWN"),
    "BlockMissingException": (EnvironmentFault, "STORE_DOWN"),
    "QuotaExceededException": (EnvironmentFault, "STORE_FULL"),
    "AccessControlException": (SetupError, "STORE_DENIED"),
    # S3:
    "UnknownStoreException": (ConfigError, "UNREACHABLE_STORE"),
    "AWSServiceThrottledException": (EnvironmentFault, "STORE_DOWN"),
    "AWSStatus500Exception": (EnvironmentFault, "STORE_DOWN"),
    "AWSApiCallTimeoutException": (EnvironmentFault, "STORE_DOWN"),
    "NoAuthWithAWSException": (SetupError, "STORE_DENIED"),
    "AccessDeniedException": (SetupError, "STORE_DENIED"),
    "ExpiredToken": (SetupError, "STORE_DENIED"),
    # Iceberg:
    "Cannot find snapshot with ID": (DataError, "MISSING_SNAPSHOT"),
    "Cannot find matching snapshot ID": (DataError, "MISSING_SNAPSHOT"),
    "Cannot find a snapshot older than": (DataError, "MISSING_SNAPSHOT"),
    # The network:
    "ConnectException": (EnvironmentFault, "STORE_DOWN"),
    "UnknownHostException": (EnvironmentFault, "STORE_DOWN"),
    "NoRouteToHostException": (EnvironmentFault, "STORE_DOWN"),
    "SocketTimeoutException": (EnvironmentFault, "STORE_DOWN"),
    "ConnectTimeoutException": (EnvironmentFault, "STORE_DOWN"),
    # A connection that ends in mid-answer; Spark takes it for a file without a footer.
    "ConnectionClosedException": (EnvironmentFault, "STORE_DOWN"),
    "NoHttpResponseException": (EnvironmentFault, "STORE_DOWN"),
    "No space left on device": (EnvironmentFault, "DISK_FULL"),
    "Disk quota exceeded": (EnvironmentFault, "DISK_FULL"),
    "Permission denied": (SetupError, "NO_PERMISSION"),
    "Read-only file system": (SetupError, "NO_PERMISSION"),
    "File name too long": (ConfigError, "INVALID_PATH"),
    "OutOfMemoryError": (EnvironmentFault, "OUT_OF_MEMORY"),
    "MemoryError": (EnvironmentFault, "OUT_OF_MEMORY"),
    "Python worker exited unexpectedly": (EnvironmentFault, "WORKER_CRASHED"),
    "Python worker failed to connect": (EnvironmentFault, "WORKER_CRASHED"),
    "Cannot allocate memory": (EnvironmentFault, "OUT_OF_MEMORY"),
    "Resource temporarily unavailable": (EnvironmentFault, "WORKER_CRASHED"),
    "Cannot run program": (SetupError, "WORKER_ENV_MISMATCH"),
    "Failed to find data source": (ConfigError, "UNKNOWN_FORMAT"),
    "CSV header does not conform": (DataError, "SCHEMA_DRIFT"),
    "Found duplicate field": (DataError, "AMBIGUOUS_COLUMN"),
    "Checksum error": (DataError, "CORRUPT_FILE"),
    "BrotliCodec was not found": (DataError, "UNSUPPORTED_CODEC"),
    "Codec was not found": (DataError, "UNSUPPORTED_CODEC"),
    "Unsupported encoding": (DataError, "UNSUPPORTED_CODEC"),
    "ParquetCryptoRuntimeException": (DataError, "ENCRYPTED_FILE"),
    "long overflow": (DataError, "VALUE_TOO_LARGE"),  # of timestamps, before Spark 4.1
}
# Codes of a store's own failures.
STORE_CODES: Final = ("STORE_DOWN", "STORE_DENIED", "STORE_FULL")
# Codes that a damaged or vanished input may cause, in addition to those of DataError.
VAGUE: Final = ("FILE_SYSTEM", "SPARK_FAILED", "UNEXPECTED")
# Spark's quote of a Python worker that could not start; the group is its last line, without the trace.
LAST_OF_WORKER: Final = re.compile(r"Error from python worker:.*?(\S[^\n]*)\s+PYTHONPATH was:", re.DOTALL)


def is_of_spark(error: Exception) -> bool:
    """Return True if Spark raised the error, or the gateway to its JVM."""
    if "pyspark" not in sys.modules:
        return False
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return isinstance(error, PySparkException | Py4JError)


def named_spark_error(error: Exception, where: str = "", more: str = DEBUG) -> SparkEvalError:
    """Return the named error for any exception; ``where`` is the name of the input, if known.

    ``more`` is appended and says how to see Spark's full message.
    """
    if isinstance(error, SparkEvalError):
        return error
    if (how := end_of_jvm(error)) is not None:
        return EnvironmentFault("JVM_DIED", f"{how}; {FIXES['JVM_DIED']}{more}")
    text = str(error)
    ours = OURS.search(text)
    if ours:
        return DataError(ours[1], ours[2])
    if is_of_spark(error):
        kind, code, sentence = known(text)
        files = FILE.findall(text)[:1]
        if code == "CORRUPT_FILE":
            # Spark writes a path as it is, or as a URI.
            others = [other_format(form(file), "parquet") for file in files for form in (str, unquote)]
            if other := next(filter(None, others), None):
                return DataError("WRONG_FORMAT", f"{where}: {other}" if where else other)
        what = ": ".join(part for part in (where, *files, sentence) if part)
        return kind(code, f"{what}; {FIXES[code]}{more}")
    if lacks_memory(error):
        return EnvironmentFault("OUT_OF_MEMORY", f"no more memory or threads to be had; {MORE_MEMORY}")
    if isinstance(error, OSError):
        return refusal(error)
    return EnvironmentFault("UNEXPECTED", f"{type(error).__name__}: {text.splitlines()[0] if text else ''}")


def refusal(error: OSError) -> SparkEvalError:
    """Return the named error for one of the operating system."""
    if error.errno in NO_PATH:
        return ConfigError("INVALID_PATH", f"{error}; {FIXES['INVALID_PATH']}")
    kind, code = REFUSALS.get(error.errno or 0, (EnvironmentFault, "FILE_SYSTEM"))
    # Of a full disk Arrow's own text has the number twice, and no advice.
    text = os.strerror(error.errno or 0) if code == "DISK_FULL" else str(error)
    return kind(code, f"{text}; {FIXES[code]}" if code in FIXES else text)


def may_be_of_inputs(error: SparkEvalError) -> bool:
    """Return True if inputs that changed during the run may be the cause."""
    return isinstance(error, DataError) or error.code in VAGUE


def end_of_jvm(error: Exception) -> str | None:
    """Describe the end of the driver's JVM, if it caused the error; None otherwise."""
    if "pyspark" not in sys.modules:
        return None
    from py4j.protocol import Py4JNetworkError
    from pyspark import SparkContext

    aside = streams.current.get()
    words = aside.last_words() if aside is not None else ""
    output = f": {words}"[:LONGEST_CAUSE] if words else ""
    if "JAVA_GATEWAY_EXITED" in str(error):
        return f"the driver's JVM did not start{output}"
    is_cut_off = isinstance(error, Py4JNetworkError | ConnectionError | EOFError) or bool(
        NO_ANSWER.search(str(error))
    )
    process: Any = getattr(SparkContext._gateway, "proc", None)
    if process is None:  # spark-submit started the JVM
        return "the driver's JVM died" if is_cut_off else None
    # Py4J takes the empty answer of a dying JVM for that of a class that is not there.
    if is_cut_off or "does not exist in the JVM" in str(error):
        with suppress(TimeoutExpired):  # its sockets close before the process ends
            process.wait(SECONDS_TO_END)
    code = process.poll()
    if code is None:
        return None
    how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}{output}"
    return f"the driver's JVM died ({how})"


def known(text: str) -> tuple[type[SparkEvalError], str, str]:
    """Return error class, code and one-line message for a text of Spark."""
    if (last := LAST_OF_WORKER.search(text)) and not last[1].startswith("MemoryError"):
        return SetupError, "WORKER_ENV_MISMATCH", f"a Python worker could not start: {last[1]}"
    for phrase, (kind, code) in SAID.items():
        if phrase in text:
            return kind, code, in_one_line(text[text.index(phrase) :])
    conditions = CONDITION.findall(text)
    for beginning, (kind, code) in KNOWN.items():
        for condition in conditions:
            if condition.startswith(beginning):
                return kind, code, f"{condition}: {in_one_line(text.partition(f'[{condition}]')[2])}"
    causes = CAUSE.findall(text)
    return EnvironmentFault, "SPARK_FAILED", in_one_line(causes[-1] if causes and not conditions else text)


def in_one_line(text: str) -> str:
    """Shorten a text of Spark to one line, without advice, trace and class names."""
    first, *others = SENTENCE.split(JAVA_CLASS.sub("", " ".join(END.split(text.strip())[0].split())))
    facts = [first, *(sentence for sentence in others if not ADVICE.match(sentence))]
    return " ".join(facts).rstrip(". ")[:LONGEST_CAUSE]
