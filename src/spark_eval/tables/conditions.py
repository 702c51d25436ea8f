"""Conditions on the rows of a source, in this process as on Spark."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.tables.spec import NotPlain

COMPARED: Final[Mapping[str, Callable[[Any, Any], pa.ChunkedArray]]] = {
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
# To Spark, NaN is larger than any number.
ABOVE: Final = (">", ">=")


class Condition(NamedTuple):
    """Condition on a column of a table, by its own name; operators are those of ``where``."""

    column: str
    op: str
    value: Any = None

    def holds(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return True for each value that meets the condition; null for null.

        Raises NotPlain for a value of another type than the column, which Spark converts.

        Examples:
            >>> Condition("n", "between", [2, 3]).holds(pa.chunked_array([[1, 2, None]])).to_pylist()
            [False, True, None]
        """
        match self.op:
            case "is_null":
                return pc.is_null(values)
            case "is_not_null":
                return pc.is_valid(values)
            case "in":
                values, given = self.alike(values, self.value)
                return pc.if_else(pc.is_null(values), None, pc.is_in(values, given))
            case "between":
                values, given = self.alike(values, self.value)
                return pc.and_(pc.greater_equal(values, given[0]), pc.less_equal(values, given[1]))
        values, given = self.alike(values, [self.value])
        held = COMPARED[self.op](values, given[0])
        is_above = self.op in ABOVE and pa.types.is_floating(values.type)
        return pc.or_(held, pc.is_nan(values)) if is_above else held

    def alike(self, values: pa.ChunkedArray, given: list[Any]) -> tuple[pa.ChunkedArray, pa.Array]:
        """Return both with one type: text, booleans, longs, or doubles if any is."""
        kind, kinds = values.type, set(map(type, given))
        if kind == pa.string() and kinds <= {str}:
            return values, pa.array(given, kind)
        if kind == pa.bool_() and kinds <= {bool}:
            return values, pa.array(given, kind)
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)) or not kinds <= {int, float}:
            raise NotPlain(f"column {self.column} is compared with {self.value!r}, of another type")
        is_fraction = pa.types.is_floating(kind) or float in kinds
        common = pa.float64() if is_fraction else pa.int64()
        try:
            wanted = pa.array(map(float, given) if is_fraction else given, common)
            values = values.cast(common, safe=False)
        except (pa.ArrowInvalid, OverflowError) as error:
            raise NotPlain(f"column {self.column} is compared with {self.value!r}: {error}") from error
        return (pc.add(values, 0.0) if is_fraction else values), wanted  # -0.0 is 0.0


def meeting(rows: pa.Table, conditions: Mapping[str, Condition]) -> pa.Table:
    """Return the rows that meet all conditions, each on the column of its key."""
    for name, condition in conditions.items():
        rows = rows.filter(condition.holds(rows[name]))
    return rows
