"""Rename what Spark raises: no JVM or worker trace reaches a user without ``--debug``."""

import errno
import re
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from spark_eval.errors import ConfigError, DataError, EnvironmentFault, SparkEvalError

OURS: Final = re.compile(r"error\[([A-Z_]+)\] ([^\n]*?)(?: SQLSTATE|\n|$)")
CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
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
    "PYTHON_VERSION_MISMATCH": (EnvironmentFault, "WORKER_ENV_MISMATCH"),
    "FAILED_READ_FILE": (DataError, "CORRUPT_FILE"),
}
# What the operating system says of itself, and how Java and Spark quote it.
REFUSALS: Final = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "DISK_FULL"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "NO_PERMISSION"),
}
# What Spark says without a condition of its own.
SAID: Final = {
    **dict.fromkeys(("No space left on device", "Disk quota exceeded"), "DISK_FULL"),
    **dict.fromkeys(("Python worker exited", "Python worker failed to connect"), "WORKER_CRASHED"),
    **dict.fromkeys(("Cannot run program", "Error from python worker"), "WORKER_ENV_MISMATCH"),
}
# How it quotes a Python that could not start: the last line counts, the trace before it does not.
LAST_OF_WORKER: Final = re.compile(r"Error from python worker:.*?(\S[^\n]*)\s+PYTHONPATH was:", re.DOTALL)


def renamed(error: Exception) -> SparkEvalError:
    """The named error for anything that was raised."""
    if isinstance(error, SparkEvalError):
        return error
    text = str(error)
    ours = OURS.search(text)
    if ours:
        return DataError(ours[1], ours[2])
    if isinstance(error, PySparkException | Py4JError):
        conditions = CONDITION.findall(text)
        for words, code in SAID.items():
            if words in text:
                return EnvironmentFault(code, told(text, conditions[0] if conditions else ""))
        for beginning, (kind, code) in KNOWN.items():
            for condition in conditions:
                if condition.startswith(beginning):
                    return kind(code, told(text, condition))
        return EnvironmentFault("SPARK_FAILED", told(text, conditions[0] if conditions else ""))
    if isinstance(error, OSError):
        code = REFUSALS.get(error.errno or 0, "FILE_SYSTEM")
        return EnvironmentFault(code, text)
    return EnvironmentFault("UNEXPECTED", f"{type(error).__name__}: {text.splitlines()[0] if text else ''}")


def told(text: str, condition: str) -> str:
    """Spark's own sentence for a condition, without the trace around it."""
    if last := LAST_OF_WORKER.search(text):
        return f"a Python worker could not start: {last[1]} (--debug shows all)"
    _, _, after = text.partition(f"[{condition}]")
    sentence = re.split(r"SQLSTATE|\n\s*at |\nJVM|\n== SQL|;\n'", after or text)[0]
    return f"{condition}: {sentence.strip()[:500]} (--debug shows all)"
