"""Rows of files with their types: models and segments are text, ids pass unchanged, moments are exact."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_eval.config.sections import Scalar, Source
from spark_eval.names import quoted
from spark_eval.runtime.any_session import NANOS_AS_LONG, setting
from spark_eval.schema import ITEM, MODEL, NO_TEXT, USER
from spark_eval.sources.listing import spark_path
from spark_eval.sources.schemas import PARQUET
from spark_eval.transforms.plain_files import CHECKSUMS

TEXT_FORMATS: Final = ("csv", "json", "xml")
# Spark reads damaged pages without a word unless it is told to look at their checksums.
VERIFIED: Final[dict[str, Scalar]] = {CHECKSUMS: True}
CANONICAL_INTEGER: Final = r"^(0|-?[1-9][0-9]{0,18})$"
# What a reader puts in the place of bytes that its encoding does not know.
REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
MICROSECONDS_PER_DAY: Final = 86_400_000_000


@dataclass(frozen=True)
class Texts:
    """Columns that Spark guesses the types of, and which of them are text or ids; all names in lower case.

    ``guessed`` are names of folders, or None for all columns: those of text files.
    """

    guessed: Collection[str] | None
    ids: Collection[str]
    texts: Collection[str]

    @classmethod
    def of(cls, source: Source, segments: Sequence[str], partitions: Collection[str]) -> "Texts":
        """Those of a source with these partitions; a model and a segment are text whatever they look like."""
        return cls(
            None if source.format in TEXT_FORMATS else {name.lower() for name in partitions},
            {source.columns.get(name, name).lower() for name in (USER, ITEM)},
            {source.columns.get(name, name).lower() for name in (MODEL, *segments)},
        )

    def among(self, names: Collection[str], schema: T.StructType) -> list[T.StructField]:
        """Return the columns of these names of which the type is guessed."""
        known = names if self.guessed is None else {*names} & {*self.guessed}
        return [column for column in schema if column.name.lower() in known]


def read_typed(
    spark: SparkSession,
    source: Source,
    path: str,
    timezone: str,
    texts: Texts,
    nanoseconds: Collection[str] = (),
) -> DataFrame:
    """Rows of a path with the types that Spark finds, models and segments as text, ids unchanged.

    Spark reads '007' as 7, in text and in names of folders. So ids of digits are read as text again and
    become integers only if every one is written canonically.
    """
    options: dict[str, Scalar] = {}
    if source.format == PARQUET:
        options = VERIFIED
    elif source.format in TEXT_FORMATS:
        options = {"inferSchema": True, "enforceSchema": False, "mode": "FAILFAST", "timeZone": timezone}
    reader = spark.read.format(source.format).options(**(options | source.options))
    place = spark_path(path)
    with setting(spark, NANOS_AS_LONG, "true") if nanoseconds else nullcontext():
        found = reader.load(place)
    ids = texts.among(texts.ids, found.schema)
    digits = [column.name for column in ids if isinstance(column.dataType, T.IntegralType)]
    names = [column.name for column in texts.among(texts.texts, found.schema)]
    if digits or nanoseconds or any(found.schema[name].dataType != T.StringType() for name in names):
        fields = [
            T.StructField(f.name, T.StringType() if f.name in (*digits, *names) else f.dataType)
            for f in found.schema
        ]
        found = reader.schema(T.StructType(fields)).load(place)
    if texts.guessed is None:
        others = [column.name for column in ids if column.dataType == T.StringType()]
        found = with_columns(found, {name: decodable(name) for name in (*others, *names)})
    return with_columns(found, {name: canonical(name) for name in digits})


def decodable(name: str) -> Column:
    """Text of a file; a row with what no encoding gives fails the job by name."""
    text = F.col(quoted(name))
    fault = F.raise_error(F.lit(f"error[INVALID_TEXT] column {name} {NO_TEXT}")).cast("string")
    return F.when(text.contains(REPLACEMENT), fault).otherwise(text)


def in_microseconds(frame: DataFrame, names: Mapping[str, bool], source: str) -> DataFrame:
    """Return the frame with columns that count nanoseconds as moments; those that are true have a zone.

    A part of a microsecond fails the job by name.
    """
    return with_columns(frame, {name: moment(name, has_zone, source) for name, has_zone in names.items()})


def moment(name: str, has_zone: bool, source: str) -> Column:
    """Return a count of nanoseconds as a moment, exactly."""
    count = F.col(quoted(name))
    message = f"error[TIMESTAMP_TOO_FINE] {source}: column {name} holds parts of a microsecond; "
    fault = F.raise_error(F.lit(f"{message}write it in microseconds (coerce_timestamps='us')")).cast("long")
    micros = F.when(count % 1000 != 0, fault).otherwise(F.call_function("div", count, F.lit(1000)))
    if has_zone:
        return F.timestamp_micros(micros)
    # In no zone: a cast would take that of the session.
    of_day = F.pmod(micros, F.lit(MICROSECONDS_PER_DAY))
    days = F.call_function("div", micros - of_day, F.lit(MICROSECONDS_PER_DAY)).cast("int")
    seconds = (of_day.cast("decimal(18,0)") / 1_000_000).cast("decimal(18,6)")
    epoch = F.lit("1970-01-01").cast("timestamp_ntz")
    return epoch + F.make_dt_interval(days, F.lit(0), F.lit(0), seconds)


def canonical(name: str) -> Column:
    """Text as a long; a row written in any other way than the number prints fails the job by name."""
    text = F.col(quoted(name))
    fault = F.concat(
        F.lit(f"error[ID_NOT_CANONICAL] column {name}: '"),
        text,
        F.lit("' is no plain integer; write ids as text"),
    )
    return (
        F.when(text.rlike(CANONICAL_INTEGER), text.cast("long"))
        .when(text.isNotNull(), F.raise_error(fault).cast("long"))
        .alias(name)
    )


def with_columns(frame: DataFrame, columns: Mapping[str, Column]) -> DataFrame:
    """Return the frame with other columns; the very frame where there are none."""
    return frame.withColumns({**columns}) if columns else frame
