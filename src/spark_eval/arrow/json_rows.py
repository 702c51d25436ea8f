"""Rows as JSON, in the form of Spark's ``to_json``: the same text, whatever has written a quarantine."""

from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.codes import to_numpy

# Java writes numbers in this range without an exponent.
LEAST_PLAIN: Final = 1e-3
MOST_PLAIN: Final = 1e7
ESCAPES: Final = {"\\": "\\\\", '"': '\\"'}
# Characters that JSON must escape in addition; \u has capital digits in Java.
CONTROLS: Final = {chr(code): f"\\u{code:04X}" for code in range(32)} | {
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}


def rows_as_json(rows: pa.Table) -> pa.ChunkedArray:
    r"""Return each row as a JSON object without its null fields.

    >>> rows = pa.table({"user": ['a"b', None], "score": [float("nan"), 2.0]})
    >>> rows_as_json(rows).to_pylist()
    ['{"user":"a\\"b","score":"NaN"}', '{"score":2.0}']
    """
    rows = rows.combine_chunks()
    fields = [
        pc.binary_join_element_wise(f'"{name}":', as_json(column), "")
        for name, column in zip(rows.column_names, rows.columns, strict=True)
    ]
    inside = pc.binary_join_element_wise(*fields, ",", null_handling="skip")
    return pc.binary_join_element_wise("{", inside, "}", "")


def as_json(values: Any) -> Any:
    """Return values of text, numbers or lists of them as JSON; null for nulls."""
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_list(values.type):
        texts = pc.fill_null(as_json(values.flatten()), "null")
        lengths = pc.fill_null(pc.list_value_length(values), 0)
        offsets = np.concatenate(([0], np.cumsum(to_numpy(lengths)))).astype(np.int32)
        inside = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), texts), ",")
        lists = pc.binary_join_element_wise("[", inside, "]", "")
        return pc.if_else(values.is_valid(), lists, None)
    if pa.types.is_floating(values.type):
        return floats_as_json(values)
    if pa.types.is_timestamp(values.type):
        texts = pc.floor_temporal(values, unit="millisecond").cast(pa.timestamp("ms", values.type.tz))
        return quoted(pc.replace_substring(texts.cast(pa.string()), " ", "T"))
    texts = values.cast(pa.string())
    is_text = pa.types.is_string(values.type) or pa.types.is_date(values.type)
    return quoted(texts) if is_text else texts


def quoted(texts: pa.Array) -> pa.Array:
    """Return texts in quotes, escaped as Java does."""
    has_controls = pc.any(pc.match_substring_regex(texts, "[\\x00-\\x1f]")).as_py()
    for character, escape in (ESCAPES | CONTROLS if has_controls else ESCAPES).items():
        texts = pc.replace_substring(texts, character, escape)
    return pc.binary_join_element_wise('"', texts, '"', "")


def floats_as_json(values: pa.Array) -> pa.Array:
    """Return floats as Java writes them."""
    size = pc.abs(values)
    is_plain = pc.and_(pc.greater_equal(size, LEAST_PLAIN), pc.less(size, MOST_PLAIN))
    plain = pc.if_else(is_plain, values, None).cast(pa.string())
    has_point = pc.match_substring(plain, ".")
    plain = pc.if_else(has_point, plain, pc.binary_join_element_wise(plain, ".0", ""))
    others = pc.if_else(is_plain, None, values).dictionary_encode()
    words = pa.array([java_text(one) for one in to_numpy(others.dictionary)], pa.string())
    return pc.coalesce(plain, words.take(others.indices))


def java_text(number: np.floating[Any]) -> str:
    """Return a number as Java writes it, outside of the range without exponents.

    >>> [java_text(np.float64(one)) for one in (0, 1e-05, -1.25e10, np.inf)]
    ['0.0', '1.0E-5', '-1.25E10', '"Infinity"']
    """
    if np.isnan(number):
        return '"NaN"'
    if np.isinf(number):
        return '"Infinity"' if number > 0 else '"-Infinity"'
    if number == 0:
        return "-0.0" if np.signbit(number) else "0.0"
    sign, digits, exponent = Decimal(str(number)).normalize().as_tuple()
    first, *rest = map(str, digits)
    power = int(exponent) + len(rest)
    return f"{'-' if sign else ''}{first}.{''.join(rest) or '0'}E{power}"
