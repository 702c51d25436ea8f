"""Read files with our types: models and segments as text, ids unchanged, timestamps exact."""

from collections.abc import Collection, Iterable, Sequence
from contextlib import nullcontext
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_eval.config.inputs import Scalar, Source
from spark_eval.names import quote_column
from spark_eval.runtime.any_session import NANOS_AS_LONG, setting
from spark_eval.schema import ITEM, MODEL, NO_TEXT, USER
from spark_eval.sources.listing import spark_path
from spark_eval.sources.schemas import PARQUET
from spark_eval.tables.exact_types import with_columns
from spark_eval.tables.plain_files import CHECKSUMS
from spark_eval.tables.stored_files import AUTO, READ

TEXT_FORMATS: Final = ("csv", "json", "xml")
# Spark silently reads damaged pages unless it verifies checksums.
VERIFIED: Final[dict[str, Scalar]] = {CHECKSUMS: True}
CANONICAL_INTEGER: Final = r"^(0|-?[1-9][0-9]{0,18})$"
# A decoder's replacement for bytes that are invalid in its encoding.
REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


def read_typed(
    spark: SparkSession,
    source: Source,
    timezone: str,
    segments: Sequence[str],
    partitions: Collection[str],
    nanoseconds: Collection[str] = (),
) -> DataFrame:
    """Read a source with the types that Spark infers, models and segments as text, ids unchanged.

    Spark reads '007' as 7, in text and in partition folders (``partitions``). So ids of digits are read
    again as text, and become integers only if every one is written canonically.
    """
    is_text = source.format in TEXT_FORMATS
    options: dict[str, Scalar] = {}
    if source.format == PARQUET:
        options = VERIFIED if source.read == AUTO else {**VERIFIED, READ: source.read}
    if is_text:
        options = {"inferSchema": True, "enforceSchema": False, "mode": "FAILFAST", "timeZone": timezone}
    reader = spark.read.format(source.format).options(**(options | source.options))
    path = spark_path(source.path_or_empty)
    with setting(spark, NANOS_AS_LONG, "true") if nanoseconds else nullcontext():
        frame = reader.load(path)
    schema = frame.schema
    guessed = [column for column in schema if is_text or column.name.lower() in map(str.lower, partitions)]
    ids = matching_columns(guessed, source, (USER, ITEM))
    digits = [name for name in ids if isinstance(schema[name].dataType, T.IntegralType)]
    texts = matching_columns(guessed, source, (MODEL, *segments))
    if digits or nanoseconds or any(schema[name].dataType != T.StringType() for name in texts):
        changed = dict.fromkeys((*digits, *texts), T.StringType())
        fields = [T.StructField(f.name, changed.get(f.name, f.dataType)) for f in schema]
        frame = reader.schema(T.StructType(fields)).load(path)
    if is_text:
        others = [name for name in ids if schema[name].dataType == T.StringType()]
        frame = with_columns(frame, {name: checked_text(name) for name in (*others, *texts)})
    return with_columns(frame, {name: exact_long(name) for name in digits})


def matching_columns(columns: Iterable[T.StructField], source: Source, ours: Sequence[str]) -> list[str]:
    """Return the names of the columns that match ours, ignoring case."""
    theirs = {source.columns.get(name, name).lower() for name in ours}
    return [column.name for column in columns if column.name.lower() in theirs]


def checked_text(name: str) -> Column:
    """Return text of a file; a row that could not be decoded fails the job with a named error."""
    text = F.col(quote_column(name))
    fault = F.raise_error(F.lit(f"error[INVALID_TEXT] column {name} {NO_TEXT}")).cast("string")
    return F.when(text.contains(REPLACEMENT), fault).otherwise(text)


def exact_long(name: str) -> Column:
    """Return text as a long; a row that is not canonically written fails the job with a named error."""
    text = F.col(quote_column(name))
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
