"""Any timestamp column as an instant (TIMESTAMP), whatever the session's time zone."""

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_eval.schema import TIMESTAMP
from spark_eval.transforms.inputs import Input

FROM_EPOCH = {"s": F.timestamp_seconds, "ms": F.timestamp_millis, "us": F.timestamp_micros}
# Whatever follows the time of day: Z, +01, +01:00, UTC or Europe/Berlin, each of which Spark understands.
OFFSET = r":\d{1,2}(\.\d*)?\s*([A-Za-z]\S*|[+-]\d{1,2}(:?\d{2}){0,2})\s*$"


def instant(table: Input, unit: str | None, timezone: str) -> Column:
    """Return the table's timestamp as an instant; null where text is no timestamp.

    Numbers are epochs in ``unit`` (s, ms, us); text, dates and zoneless timestamps are local to
    ``timezone``, unless the text names its offset. A column of another type is a fault of the table.
    """
    column = table.column(TIMESTAMP)
    kind = table.kind(TIMESTAMP)
    match kind:
        case T.TimestampType() | T.NullType():
            return column.cast("timestamp")
        case T.TimestampNTZType() | T.DateType():
            return local_instant(column.cast("timestamp_ntz"), timezone)
        case T.StringType():
            local = local_instant(column.try_cast("timestamp_ntz"), timezone)
            return F.when(column.rlike(OFFSET), column.try_cast("timestamp")).otherwise(local)
        case T.NumericType() if unit is not None:
            return FROM_EPOCH[unit](column if unit == "s" else column.cast("long"))
        case T.NumericType():
            table.fault(
                "TIMESTAMP_UNIT_MISSING", "the timestamp is a number; set timestamp_unit to s, ms or us"
            )
        case _:
            what = f"the timestamp column is {kind.simpleString()}"
            table.fault("TIMESTAMP_TYPE", f"{what}; map columns.timestamp to one that tells a time")
    return F.lit(None).cast("timestamp")


def local_instant(wall_clock: Column, timezone: str) -> Column:
    """Return the instant at which clocks in ``timezone`` show this zoneless timestamp.

    Counted in microseconds from the epoch, because Spark's casts would use the session's zone.
    """
    epoch = F.lit("1970-01-01 00:00:00").cast("timestamp_ntz")
    utc = F.convert_timezone(F.lit(timezone), F.lit("UTC"), wall_clock)
    return F.timestamp_micros(F.timestamp_diff("MICROSECOND", epoch, utc))
