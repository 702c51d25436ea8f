"""Columns of Parquet files in types that Spark lacks, exactly as types that it has."""

from collections.abc import Collection, Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_eval.arrow.files import TOO_FINE, WIDE_UNSIGNED
from spark_eval.names import quote_column

# Largest integer of 64 bits, as text.
LARGEST: Final = str(2**63 - 1)


def in_microseconds(frame: DataFrame, names: Mapping[str, bool], source: str) -> DataFrame:
    """Return the frame with these nanosecond columns as timestamps; ``names`` maps to True if with a zone."""
    return with_columns(frame, {name: moment(name, has_zone, source) for name, has_zone in names.items()})


def moment(name: str, has_zone: bool, source: str) -> Column:
    """Return nanoseconds as a timestamp; a fraction of a microsecond fails the job with a named error."""
    count = F.col(quote_column(name))
    message = f"error[TIMESTAMP_TOO_FINE] {source}: column {name} {TOO_FINE}"
    fault = F.raise_error(F.lit(message)).cast("long")
    micros = F.when(count % 1000 != 0, fault).otherwise(F.call_function("div", count, F.lit(1000)))
    if has_zone:
        return F.timestamp_micros(micros)
    # The cast must not depend on the session's zone.
    seconds = (micros.cast("decimal(18,0)") / 1_000_000).cast("decimal(18,6)")
    return F.lit("1970-01-01").cast("timestamp_ntz") + F.make_dt_interval(secs=seconds)


def as_signed(frame: DataFrame, names: Collection[str], source: str) -> DataFrame:
    """Return the frame with these columns, decimals for Spark, as integers of 64 bits."""
    of_spark = [name for name in names if isinstance(frame.schema[name].dataType, T.DecimalType)]
    return with_columns(frame, {name: signed(name, source) for name in of_spark})


def signed(name: str, source: str) -> Column:
    """Return unsigned integers as longs; one of 2^63 or more fails the job with a named error."""
    number = F.col(quote_column(name))
    message = f"error[UNSUPPORTED_TYPE] {source}: column {name!r} {WIDE_UNSIGNED}"
    fault = F.raise_error(F.lit(message)).cast("long")
    return F.when(number > F.lit(LARGEST).cast("decimal(20,0)"), fault).otherwise(number.cast("long"))


def with_columns(frame: DataFrame, columns: Mapping[str, Column]) -> DataFrame:
    """Return the frame with these columns replaced; the same frame if there are none."""
    return frame.withColumns({**columns}) if columns else frame
