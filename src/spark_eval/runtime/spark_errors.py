"""Named errors for what Spark raises: no trace of the JVM or a worker reaches a user without ``--debug``."""

import errno
import re
import signal
from contextlib import suppress
from subprocess import TimeoutExpired
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from spark_eval.errors import ConfigError, DataError, EnvironmentFault, SparkEvalError
from spark_eval.runtime import streams

OURS: Final = re.compile(r"error\[([A-Z_]+)\] ([^\n]*?)(?: SQLSTATE|\n|$)")
CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
# Where a sentence of Spark's ends; the file it was reading; a line of a trace with its message; packages.
END: Final = re.compile(r"SQLSTATE|\n\s*at |\nJVM|\nTraceback|\n== SQL|;\n'")
FILE: Final = re.compile(r"reading (?:the )?file:? (?:file:/+)?(/\S+?)\.?(?:\s|$)")
CAUSE: Final = re.compile(r"^(?:Caused by)?:? ?((?:[\w$]+\.)*\w*(?:Exception|Error): .+)$", re.MULTILINE)
JAVA_CLASS: Final = re.compile(r"(?:[\w$]+\.)+(?=\w*(?:Exception|Error)\b)")
# What Py4J says where no answer came.
NO_ANSWER: Final = re.compile(r"An error occurred while calling [\w.$]+$")
# Sentences of advice to somebody who writes SQL; what to do about a config stands in MENDS.
SENTENCE: Final = re.compile(r"(?<=[.!]) (?=[A-Z])")
ADVICE: Final = re.compile(
    r"(Use|Set|Choose|Correct|Please,?|Consider|Try|Verify|Check|Ensure|Make sure|You (can|may|need|must)|"
    r"It (must be specified|is possible)|Search path|If|"
    r"To (tolerate|process|bypass|avoid|ignore|allow|work|convert|use))\b"
)
LONGEST_CAUSE: Final = 500
DEBUG: Final = " (--debug shows all)"
SECONDS_TO_END: Final = 2.0
# Spark's conditions, by their beginnings, and ours. The first of these counts: what wraps others is last.
KNOWN: Final[dict[str, tuple[type[SparkEvalError], str]]] = {
    "FAILED_READ_FILE.PARQUET_COLUMN": (DataError, "SCHEMA_DRIFT"),
    "COLUMN_ALREADY_EXISTS": (DataError, "AMBIGUOUS_COLUMN"),
    "CANNOT_MERGE_SCHEMAS": (DataError, "SCHEMA_DRIFT"),
    "PATH_NOT_FOUND": (DataError, "MISSING_INPUT"),
    "TABLE_OR_VIEW_NOT_FOUND": (DataError, "MISSING_INPUT"),
    "UNABLE_TO_INFER_SCHEMA": (DataError, "EMPTY_INPUT"),
    "MALFORMED_": (DataError, "MALFORMED_RECORD"),
    "PARQUET_TYPE_ILLEGAL": (DataError, "UNSUPPORTED_TYPE"),
    "CAST_INVALID_INPUT": (DataError, "TYPE_MISMATCH"),
    "DATATYPE_MISMATCH": (DataError, "TYPE_MISMATCH"),
    "CAST_OVERFLOW": (DataError, "VALUE_TOO_LARGE"),
    "DATETIME_OVERFLOW": (DataError, "VALUE_TOO_LARGE"),
    "DATA_SOURCE_NOT_FOUND": (ConfigError, "UNKNOWN_FORMAT"),
    "FAILED_READ_FILE.FILE_NOT_EXIST": (DataError, "INPUT_CHANGED_DURING_RUN"),
    "PYTHON_VERSION_MISMATCH": (EnvironmentFault, "WORKER_ENV_MISMATCH"),
    "FAILED_READ_FILE": (DataError, "CORRUPT_FILE"),
    "EMPTY_PARTITION_COLUMN": (DataError, "INVALID_PARTITION"),
    "CONFLICTING_PARTITION_COLUMN_NAMES": (DataError, "INVALID_PARTITION"),
    "CONFLICTING_DIRECTORY_STRUCTURES": (DataError, "INVALID_PARTITION"),
}
# What to do about each of our codes that Spark's text may mean.
MENDS: Final = {
    "SCHEMA_DRIFT": "write all files with one schema",
    "AMBIGUOUS_COLUMN": "rename one of the columns",
    "MISSING_INPUT": "fix the config, or run the job that produces it",
    "EMPTY_INPUT": "run what writes it",
    "INPUT_CHANGED_DURING_RUN": "start again once it rests",
    "MALFORMED_RECORD": "mend the record, or the reader's options",
    "UNSUPPORTED_TYPE": "write the column with another type, times in microseconds (coerce_timestamps='us')",
    "UNSUPPORTED_CODEC": "write the file again, packed by zstd or snappy and encoded by default",
    "ENCRYPTED_FILE": "give Spark the keys by the conf of spark-submit, or write without encryption",
    "INVALID_PARTITION": "rename the folders, or name fewer by path",
    "TYPE_MISMATCH": "compare with a value of the column's own type, or cast where it is written",
    "VALUE_TOO_LARGE": "look at the value, and at timestamp_unit if it is a time",
    "UNKNOWN_FORMAT": "mend the name, or put the source on Spark's classpath",
    "CORRUPT_FILE": "write the file again, and remove a .crc beside it that is older",
    "INVALID_PATH": "choose another path, each name in it of at most 255 bytes",
    "DISK_FULL": "make room",
    "NO_PERMISSION": "look at permissions and mounts",
    "OUT_OF_MEMORY": "give more by spark.driver.memory or spark.executor.memory, or start fewer cores",
    "WORKER_CRASHED": "look for a memory limit that killed it; give workers more, or start fewer cores",
    "WORKER_ENV_MISMATCH": "give workers the driver's environment by PYSPARK_PYTHON or --archives",
    "JVM_DIED": "look for a memory limit that killed it, and at spark.driver.memory",
    "SPARK_FAILED": "try again",
}
# What the operating system says of itself, and how Java and Spark quote it.
REFUSALS: Final = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "DISK_FULL"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "NO_PERMISSION"),
}
# What it says of a path that no retry makes another.
NO_PATH: Final = (errno.ENAMETOOLONG, errno.ELOOP, errno.EISDIR, errno.ENOTDIR)
# What the JVM and the workers say where Spark has no condition for it.
SAID: Final[dict[str, tuple[type[SparkEvalError], str]]] = {
    "No space left on device": (EnvironmentFault, "DISK_FULL"),
    "Disk quota exceeded": (EnvironmentFault, "DISK_FULL"),
    "Permission denied": (EnvironmentFault, "NO_PERMISSION"),
    "Read-only file system": (EnvironmentFault, "NO_PERMISSION"),
    "File name too long": (ConfigError, "INVALID_PATH"),
    "OutOfMemoryError": (EnvironmentFault, "OUT_OF_MEMORY"),
    "MemoryError": (EnvironmentFault, "OUT_OF_MEMORY"),
    "Python worker exited unexpectedly": (EnvironmentFault, "WORKER_CRASHED"),
    "Python worker failed to connect": (EnvironmentFault, "WORKER_CRASHED"),
    "Cannot run program": (EnvironmentFault, "WORKER_ENV_MISMATCH"),
    "CSV header does not conform": (DataError, "SCHEMA_DRIFT"),
    "Found duplicate field": (DataError, "AMBIGUOUS_COLUMN"),
    "Checksum error": (DataError, "CORRUPT_FILE"),
    "BrotliCodec was not found": (DataError, "UNSUPPORTED_CODEC"),
    "Codec was not found": (DataError, "UNSUPPORTED_CODEC"),
    "Unsupported encoding": (DataError, "UNSUPPORTED_CODEC"),
    "ParquetCryptoRuntimeException": (DataError, "ENCRYPTED_FILE"),
    "long overflow": (DataError, "VALUE_TOO_LARGE"),  # of moments, before Spark 4.1
}
# What a damaged or vanished input may show as, beside a DataError.
VAGUE: Final = ("FILE_SYSTEM", "SPARK_FAILED", "UNEXPECTED")
# How Spark quotes a Python that could not start: the last line counts, the trace before it does not.
LAST_OF_WORKER: Final = re.compile(r"Error from python worker:.*?(\S[^\n]*)\s+PYTHONPATH was:", re.DOTALL)


def is_of_spark(error: Exception) -> bool:
    """Return whether Spark raised it, in its own words or by the end of its JVM."""
    return isinstance(error, PySparkException | Py4JError)


def renamed(error: Exception, where: str = "", more: str = DEBUG) -> SparkEvalError:
    """Return the named error for anything that was raised, at ``where`` if that is known.

    ``more`` says where the whole of what Spark said can be seen.
    """
    if isinstance(error, SparkEvalError):
        return error
    if (how := end_of_jvm(error)) is not None:
        return EnvironmentFault("JVM_DIED", f"{how}; {MENDS['JVM_DIED']}{more}")
    text = str(error)
    ours = OURS.search(text)
    if ours:
        return DataError(ours[1], ours[2])
    if is_of_spark(error):
        kind, code, sentence = known(text)
        what = ": ".join(part for part in (where, *FILE.findall(text)[:1], sentence) if part)
        return kind(code, f"{what}; {MENDS[code]}{more}")
    if isinstance(error, OSError) and error.errno in NO_PATH:
        return ConfigError("INVALID_PATH", f"{text}; {MENDS['INVALID_PATH']}")
    if isinstance(error, OSError):
        code = REFUSALS.get(error.errno or 0, "FILE_SYSTEM")
        return EnvironmentFault(code, text)
    return EnvironmentFault("UNEXPECTED", f"{type(error).__name__}: {text.splitlines()[0] if text else ''}")


def may_be_of_inputs(error: SparkEvalError) -> bool:
    """Return whether inputs that changed while they were read may be the cause."""
    return isinstance(error, DataError) or error.code in VAGUE


def end_of_jvm(error: Exception) -> str | None:
    """Return how the driver's JVM ended, if that is why something failed."""
    aside = streams.current.get()
    words = aside.last_words() if aside is not None else ""
    said = f": {words}"[:LONGEST_CAUSE] if words else ""
    if "JAVA_GATEWAY_EXITED" in str(error):
        return f"the driver's JVM did not start{said}"
    is_cut_off = isinstance(error, Py4JNetworkError | ConnectionError | EOFError) or bool(
        NO_ANSWER.search(str(error))
    )
    process: Any = getattr(SparkContext._gateway, "proc", None)
    if process is None:  # of spark-submit
        return "the driver's JVM died" if is_cut_off else None
    if is_cut_off:
        with suppress(TimeoutExpired):  # its sockets close before it can be waited for
            process.wait(SECONDS_TO_END)
    code = process.poll()
    if code is None:
        return None
    how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}{said}"
    return f"the driver's JVM died ({how})"


def known(text: str) -> tuple[type[SparkEvalError], str, str]:
    """Return the kind of error, our code and the sentence for a text of Spark's."""
    if last := LAST_OF_WORKER.search(text):
        return EnvironmentFault, "WORKER_ENV_MISMATCH", f"a Python worker could not start: {last[1]}"
    for said, (kind, code) in SAID.items():
        if said in text:
            return kind, code, in_one_line(text[text.index(said) :])
    conditions = CONDITION.findall(text)
    for beginning, (kind, code) in KNOWN.items():
        for condition in conditions:
            if condition.startswith(beginning):
                return kind, code, f"{condition}: {in_one_line(text.partition(f'[{condition}]')[2])}"
    causes = CAUSE.findall(text)
    return EnvironmentFault, "SPARK_FAILED", in_one_line(causes[-1] if causes and not conditions else text)


def in_one_line(text: str) -> str:
    """Return what Spark says in one line, without its advice, the trace and the names of classes."""
    first, *others = SENTENCE.split(JAVA_CLASS.sub("", " ".join(END.split(text.strip())[0].split())))
    facts = [first, *(sentence for sentence in others if not ADVICE.match(sentence))]
    return " ".join(facts).rstrip(". ")[:LONGEST_CAUSE]
