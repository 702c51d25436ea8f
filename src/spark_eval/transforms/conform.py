"""Select, rename and type the columns of each input, and mark invalid rows.

Nothing is cast silently and no row is removed: an invalid row has its code in the column ``fault`` until the
accounting has counted it. All errors of a table's columns are raised together, before any data is read.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_eval.arrow.row_faults import FaultRule, inexact_relevance
from spark_eval.conventions import Conventions, TruthDuplicates
from spark_eval.errors import DataError, nearest
from spark_eval.metrics.options import Plan
from spark_eval.names import quote_column
from spark_eval.schema import (
    FAULT,
    FOLD,
    ITEM,
    MODEL,
    RANK,
    RELEVANCE,
    SCORE,
    SUBSET,
    TIMESTAMP,
    USER,
    BuiltIn,
    Fault,
)
from spark_eval.transforms.inputs import ID_TYPES, NO_MODEL, Input, fold_of, instant, open_input
from spark_eval.transforms.items import conform_items

ARRAY_COLUMNS = ("recommendations", "items", ITEM)


@dataclass(frozen=True)
class Described:
    """Description of a table: columns (ours: theirs), name of the only model, layout, unit of timestamps."""

    columns: Mapping[str, str] | None = None
    model: str | None = None
    layout: str = "long"
    timestamp_unit: str | None = None


def conform_table(frame: DataFrame, name: str, described: Any, timezone: str, plan: Plan) -> DataFrame:
    """Return a table with our columns; ``described`` is a ``Described`` or a source of a config."""
    names = described.columns
    match name:
        case "recommendations":
            return conform_recommendations(frame, names, described.model, described.layout)
        case "truth":
            return conform_truth(frame, names, described.timestamp_unit, timezone, plan.conventions)
        case "train":
            return conform_train(frame, names)
        case "users":
            return conform_users(frame, names, plan.segments)
    return conform_items(frame, names, plan.needs, plan.item_columns)


def first_fault_column(faults: Mapping[Fault, Column]) -> Column:
    """Return the code of the first condition that is true, or null."""
    return F.coalesce(*(F.when(condition, code.value) for code, condition in faults.items()))


def is_any_null(*keys: Column) -> Column:
    """Return True if any key is null."""
    return reduce(or_, (key.isNull() for key in keys))


def conform_interactions(
    frame: DataFrame,
    names: Mapping[str, str] | None,
    timestamp_unit: str | None,
    timezone: str,
    timed: bool = True,
) -> DataFrame:
    """Return user, item, timestamp (an instant), relevance (default 1), the other columns, and ``fault``.

    If ``timed`` is false, timestamps may be null and the column may be missing.
    """
    table = open_input(frame, "interactions", names)
    user, item = table.id(USER), table.id(ITEM)
    has_time = timed or table.has(TIMESTAMP)
    when = instant(table, timestamp_unit, timezone) if has_time else F.lit(None).cast("timestamp")
    relevance = F.lit(1.0)
    if table.has(RELEVANCE):
        # The rows are published: their reader could not know that a relevance was rounded.
        refused = F.raise_error(F.lit(str(inexact_relevance())))
        number = table.number(RELEVANCE, "RELEVANCE_NOT_NUMERIC")
        relevance = F.when(table.is_inexact(RELEVANCE), refused).otherwise(number)
    ours = (USER, ITEM, TIMESTAMP, RELEVANCE)
    mapped = {table.names.get(name, name) for name in ours}
    others = [name for name in frame.columns if name not in mapped]
    for name in others:
        if name.lower() in {*ours, FOLD, SUBSET, FAULT, "run_id"}:
            table.fault("RESERVED_COLUMN", f"column {name!r} would clash with ours; rename it or map it")
    faults = {Fault.NULL_ID: is_any_null(user, item)}
    if timed:
        faults[Fault.NULL_TIMESTAMP] = when.isNull()
    columns = dict(zip(ours, (user, item, when, relevance), strict=True))
    columns |= {name: other_column(table, name) for name in others}
    return table.conformed(columns | {FAULT: first_fault_column(faults)})


def other_column(table: Input, name: str) -> Column:
    """Return any other column of a log unchanged; text must be UTF-8."""
    column, is_text = F.col(quote_column(name)), isinstance(table.frame.schema[name].dataType, T.StringType)
    return table.readable(name, column) if is_text else column


def conform_truth(
    frame: DataFrame,
    names: Mapping[str, str] | None,
    timestamp_unit: str | None,
    timezone: str,
    conventions: Conventions,
) -> DataFrame:
    """Return user, item, relevance (default 1), timestamp if the latest row counts, and fold if present.

    ``fault`` marks relevances that a double cannot represent; workers find all other invalid rows.
    """
    table = open_input(frame, "truth", names)
    columns = {USER: table.id(USER), ITEM: table.id(ITEM), RELEVANCE: F.lit(1.0)}
    is_inexact = F.lit(False)
    if table.has(RELEVANCE):
        columns[RELEVANCE] = table.number(RELEVANCE, "RELEVANCE_NOT_NUMERIC")
        is_inexact = table.is_inexact(RELEVANCE)
    if conventions.truth_duplicates is TruthDuplicates.LAST:
        columns[TIMESTAMP] = instant(table, timestamp_unit, timezone)
    columns |= fold_of(table)
    return table.conformed(columns | {FAULT: first_fault_column({Fault.RELEVANCE_NOT_EXACT: is_inexact})})


def conform_recommendations(
    frame: DataFrame, names: Mapping[str, str] | None, model: str | None, layout: str = "long"
) -> DataFrame:
    """Return model, user, item, fold if present, and rank or score: one row per recommended item.

    ``layout="array"`` expects one row per user with an array of items, or of structs of an item and its
    score as returned by ``ALS.recommendForAllUsers``. If no score is mapped, the position in the array is
    the rank.
    """
    table = open_input(frame, "recommendations", names)
    has_name = model is None and table.has(MODEL)
    if model is None and not has_name:
        table.fault("MISSING_MODEL", NO_MODEL)
    if layout == "array":
        table = unfold(table)
    columns = {USER: table.id(USER), ITEM: table.id(ITEM)}
    columns = {MODEL: table.text(MODEL) if has_name else F.lit(model)} | columns | fold_of(table)
    if RANK in table.names or (SCORE not in table.names and RANK in table.frame.columns):
        what = "ranks are whole numbers from 1; cast them, in pandas by .astype(int)"
        order = table.typed(RANK, (T.NumericType,), "RANK_NOT_INTEGER", what)
        is_whole = isinstance(table.kind(RANK), T.IntegralType)
        columns[RANK] = order.cast("long" if is_whole else "double")  # pandas returns whole ranks as doubles
    else:
        columns[SCORE] = score_of(table)
    return table.conformed(columns)


def score_of(table: Input) -> Column:
    """Return the score with its order preserved; a table without score and rank is an error."""
    if table.has(SCORE):
        return table.ordered(SCORE, "SCORE_NOT_NUMERIC")
    columns = ", ".join(sorted(table.frame.columns))
    mend = f"Map with columns={{{SCORE!r}: 'yours'}}"
    message = f"recommendations need `{SCORE}` or `{RANK}`; found: {columns}. {mend}"
    table.faults.append(DataError("MISSING_COLUMN", message))
    return F.lit(None).cast("double")


def unfold(table: Input) -> Input:
    """Return one row per array element, with its position as rank, or its score."""
    unmapped = [name for name in ARRAY_COLUMNS if name in table.frame.columns and ITEM not in table.names]
    items = F.col(unmapped[0]) if unmapped else table.column(ITEM)
    kind = table.frame.select(items).schema[0].dataType
    if not isinstance(kind, T.ArrayType):
        what = f"layout: array, but the item column is {kind.simpleString()}"
        table.fault("NOT_AN_ARRAY", f"{what}; use layout: long, or map columns.item")
    elif isinstance(kind.elementType, T.StructType):
        ids = [entry.name for entry in kind.elementType if isinstance(entry.dataType, ID_TYPES)]
        if len(ids) != 1:
            table.fault(
                "AMBIGUOUS_COLUMN", f"{len(ids)} fields of the array may be the item; map columns.item"
            )
        items = items.getField(ids[0] if ids else "")
    table.id(USER)
    keys = [name for name in (USER, MODEL, FOLD) if table.has(name)]
    arrays = {ITEM: items} | ({SCORE: table.column(SCORE)} if SCORE in table.names else {})
    table.check()
    columns = [table.column(name).alias(name) for name in keys] + [
        a.alias(name) for name, a in arrays.items()
    ]
    elements = table.frame.select(*columns).select(*keys, F.posexplode(F.arrays_zip(*arrays)))
    order = F.col(f"col.{SCORE}").alias(SCORE) if SCORE in arrays else (F.col("pos") + 1).alias(RANK)
    return Input(elements.select(*keys, F.col(f"col.{ITEM}").alias(ITEM), order), table.source, {})


def conform_train(frame: DataFrame, names: Mapping[str, str] | None) -> DataFrame:
    """Return training interactions: user, item, fold if present, and ``fault``."""
    table = open_input(frame, "train", names)
    keys = {USER: table.id(USER), ITEM: table.id(ITEM)} | fold_of(table)
    return table.conformed(keys | {FAULT: first_fault_column({Fault.NULL_ID: is_any_null(*keys.values())})})


def conform_users(frame: DataFrame, names: Mapping[str, str] | None, segments: Sequence[str]) -> DataFrame:
    """Return the user, and each segment as text, whatever its type.

    ``segments`` may include built-in ones; a column of the table must not have the name of one.
    """
    table = Input(frame, "users", names or {})
    columns = {USER: table.id(USER)}
    for name in segments:
        if name in set(BuiltIn):
            if table.has(name):
                table.fault(
                    "RESERVED_COLUMN", f"column {name!r} has the name of a segment of ours; rename it"
                )
        elif table.has(name) or name.split(".")[0] in frame.columns:
            columns[name] = table.text(name)
        else:
            known = nearest(name, [*frame.columns, *BuiltIn])
            table.fault("MISSING_COLUMN", f"no column {name!r} for the segment; {known}")
    return table.conformed(columns)


def unusable_rows(rows: DataFrame, rule: FaultRule) -> DataFrame:
    """Return the conformed rows that are invalid by the rule, with the code in ``fault``."""
    names = [name for name in rows.columns if name != FAULT]
    schema = T.StructType([*rows.select(names).schema.fields, T.StructField(FAULT, T.StringType())])

    def judged(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            table = pa.table(batch)
            _, faults = rule(table)
            if faults is not None:
                codes = faults.cast(pa.string())
                is_fault = pc.is_in(codes, value_set=pa.array([fault.value for fault in Fault]))
                yield from table.select(names).append_column(FAULT, codes).filter(is_fault).to_batches()

    return rows.mapInArrow(judged, schema)


def check_id_types(tables: Mapping[str, DataFrame]) -> None:
    """Raise DataError ID_TYPE_MISMATCH if an id is text in one table and an integer in another.

    Spark would silently cast one of them, and '007', ' 7' and 7 would be the same user.
    """
    faults = []
    for name in (USER, ITEM):
        kinds = {
            table: frame.schema[name].dataType for table, frame in tables.items() if name in frame.columns
        }
        if len({isinstance(kind, T.StringType) for kind in kinds.values()}) > 1:
            types = " and ".join(f"{kind.simpleString()} in {table}" for table, kind in kinds.items())
            message = f"{name} is {types}; write all with one type"
            faults.append(DataError("ID_TYPE_MISMATCH", message))
    DataError.raise_all(faults)


def align_ids(recommendations: DataFrame, truth: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return both frames with ids of one type: integers are widened exactly, and never cast to text."""
    check_id_types({"recommendations": recommendations, "truth": truth})
    for name in (USER, ITEM):
        if recommendations.schema[name].dataType != truth.schema[name].dataType:
            recommendations, truth = (
                frame.withColumn(name, F.col(name).cast("long")) for frame in (recommendations, truth)
            )
    return recommendations, truth
