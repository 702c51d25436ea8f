"""Types that Spark infers for text in files and folders, where they are sure."""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.files import INSTANT

# Integers that are read back as they were written, of up to 18 digits.
INTEGER: Final = r"^(0|-?[1-9][0-9]{0,17})$"
NUMBER: Final = r"^(0|-?[1-9][0-9]{0,17}|-?[0-9]{1,15}\.[0-9]{1,15})$"
MOMENT: Final = r"^[12][0-9]{3}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?$"
# Text that Spark takes for neither a number, a date, a time nor a truth value: one makes a column text.
WORD: Final = r"^[A-Za-z_][A-Za-z0-9_ -]*$"
NO_WORD: Final = r"(?i)^(nan|inf|infinity|true|false|epoch|now|today|tomorrow|yesterday|t[0-9].*)$"
INTS: Final = pa.int32()


def infer_type(values: pa.ChunkedArray, timezone: str | None = None) -> pa.DataType:
    """Return the type that Spark infers for a column of text; null if it may be any other.

    Points in time are inferred only if text without a zone is in ``timezone``, and that is UTC.

    Examples:
        >>> infer_type(pa.chunked_array([["7", None]])), infer_type(pa.chunked_array([["7", "0.5"]]))
        (DataType(int32), DataType(double))
        >>> infer_type(pa.chunked_array([["7", "als"]])), infer_type(pa.chunked_array([["007"]]))
        (DataType(string), DataType(null))
    """
    values = values.drop_null()
    if not len(values):
        return pa.null()
    if are_all(values, INTEGER):
        numbers = values.cast(pa.int64())
        ends = pa.array(pc.min_max(numbers).as_py().values())
        return INTS if pc.all(pc.equal(ends.cast(INTS, safe=False), ends)).as_py() else pa.int64()
    if are_all(values, NUMBER):
        return pa.float64()
    if timezone == "UTC" and are_all(values, MOMENT):
        return INSTANT
    is_word = pc.and_not(matches(values, WORD), matches(values, NO_WORD))
    return pa.string() if pc.any(is_word).as_py() else pa.null()


def typed(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return text with a type that ``infer_type`` has returned; with type null all values are null.

    Raises pyarrow's ArrowInvalid for a day or an hour that does not exist.
    """
    if kind == pa.null():
        return pa.chunked_array([pa.nulls(len(values))])
    if kind == INSTANT:
        return values.cast(pa.timestamp("us")).cast(INSTANT)
    return values.cast(kind)


def are_all(values: pa.ChunkedArray, pattern: str) -> bool:
    """Return True if all values match."""
    return bool(pc.all(matches(values, pattern)).as_py())


def matches(values: pa.ChunkedArray, pattern: str) -> pa.ChunkedArray:
    """Return True for each value that matches."""
    return pc.match_substring_regex(values, pattern)
