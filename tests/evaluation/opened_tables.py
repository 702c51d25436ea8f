"""Tables of an evaluation, as the door opens Spark frames, with all columns that a quarantine shows."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_eval.conventions import Conventions
from spark_eval.conventions.choice import Need
from spark_eval.evaluation.plan import Plan, make_plan
from spark_eval.evaluation.specs import LISTS, LONG, Described, specs_of
from spark_eval.evaluation.tables import as_conformed
from spark_eval.runners.rows import SparkRows
from spark_eval.schema import FAULT, FOLD, ITEM, MODEL, USER, Fault
from spark_eval.tables.file_parts import PlainFiles
from spark_eval.tables.inputs import conformed_on_spark
from spark_eval.tables.stored_files import StoredFiles

Names = Mapping[str, str] | None


def opened(
    frame: DataFrame, name: str, described: Any, timezone: str = "UTC", plan: Plan | None = None
) -> tuple[DataFrame, PlainFiles | StoredFiles | None]:
    """A conformed frame, and the files that workers read themselves."""
    every = {LISTS: Described(model="m"), name: described}
    specs = specs_of(plan or make_plan(), every, timezone)
    return conformed_on_spark(specs, name, frame, described.columns or {})


def conform_recommendations(
    frame: DataFrame, names: Names, model: str | None, layout: str = LONG
) -> DataFrame:
    rows = SparkRows(opened(frame, LISTS, Described(names, model, layout))[0])
    conformed: DataFrame = as_conformed(rows, LISTS, model).result()
    return conformed.drop(*([] if model is not None or MODEL in rows.columns else [MODEL]))


def conform_truth(
    frame: DataFrame, names: Names, unit: str | None, timezone: str, conventions: Conventions
) -> DataFrame:
    plan = replace(make_plan(), conventions=conventions)
    rows = opened(frame, "truth", Described(names, timestamp_unit=unit), timezone, plan)[0]
    conformed: DataFrame = as_conformed(SparkRows(rows), "truth", None).result()
    return conformed


def conform_train(frame: DataFrame, names: Names) -> DataFrame:
    return with_fault(opened(frame, "train", Described(names))[0], USER, ITEM, FOLD)


def conform_users(frame: DataFrame, names: Names, segments: Sequence[str]) -> DataFrame:
    plan = replace(make_plan(), segments=tuple(segments))
    return opened(frame, "users", Described(names), plan=plan)[0]


def conform_items(frame: DataFrame, names: Names, needs: Collection[Need] = ()) -> DataFrame:
    plan = replace(make_plan())
    plan.__dict__["needs"] = frozenset(needs)
    return with_fault(opened(frame, "items", Described(names), plan=plan)[0], ITEM)


def with_fault(frame: DataFrame, *keys: str) -> DataFrame:
    is_bad = reduce(or_, (F.col(key).isNull() for key in keys if key in frame.columns))
    return frame.withColumn(FAULT, F.when(is_bad, Fault.NULL_ID.value))
