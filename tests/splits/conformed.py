"""Logs of Spark frames, as the door opens them."""

from collections.abc import Mapping

from pyspark.sql import DataFrame

from spark_eval.splits.label import with_faults
from spark_eval.splits.specs import LOG, specs_of
from spark_eval.tables.file_parts import PlainFiles
from spark_eval.tables.inputs import conformed_on_spark
from spark_eval.tables.stored_files import StoredFiles


def conformed_log(
    frame: DataFrame, columns: Mapping[str, str] | None, unit: str | None, timezone: str, timed: bool = True
) -> DataFrame:
    """A frame as a conformed log, with the code of each invalid row."""
    specs = specs_of(unit, timezone, timed=timed)
    return with_faults(conformed_on_spark(specs, LOG, frame, columns or {})[0], timed=timed)


def files_of_log(
    frame: DataFrame, columns: Mapping[str, str], unit: str | None, timezone: str
) -> PlainFiles | StoredFiles | None:
    """The files of a log that the workers read themselves."""
    return conformed_on_spark(specs_of(unit, timezone, by_workers=True), LOG, frame, columns)[1]
