"""Select, rename and type the columns of each input, and mark invalid rows.

Nothing is cast silently and no row is removed: an invalid row has its code in the column ``fault`` until the
accounting has counted it. All errors of a table's columns are raised together, before any data is read.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_eval.conventions import Conventions, TruthDuplicates
from spark_eval.conventions.choice import Need
from spark_eval.evaluation.plan import Plan
from spark_eval.evaluation.tables import Tables
from spark_eval.evaluation.wanted import (
    DIVIDER,
    MOST_ROWS,
    purposes_of_columns,
    wanted_columns,
    warn_of_requests,
)
from spark_eval.names import quote_column
from spark_eval.results.driver_tables import to_arrow
from spark_eval.runners.local_tables import NotPlain
from spark_eval.runners.rows import SparkRows
from spark_eval.schema import (
    FAULT,
    FEATURES,
    FOLD,
    GROUPS,
    ITEM,
    MODEL,
    RANK,
    RELEVANCE,
    REQUEST,
    SCORE,
    TIMESTAMP,
    USER,
    VECTOR,
    BuiltIn,
    Fault,
)
from spark_eval.tables.columns import NO_MODEL, missing_order, missing_segment
from spark_eval.tables.file_parts import PlainFiles
from spark_eval.tables.inputs import (
    ID_TYPES,
    Input,
    first_fault_column,
    fold_of,
    instant,
    is_any_null,
    open_input,
)
from spark_eval.tables.plain_files import plain_files, source_columns

SETS: Final = "give an array of text or integers, or text divided by |"


ARRAY_COLUMNS = ("recommendations", "items", ITEM)


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


def conform_truth(
    frame: DataFrame,
    names: Mapping[str, str] | None,
    timestamp_unit: str | None,
    timezone: str,
    conventions: Conventions,
) -> DataFrame:
    """Return user, item, relevance (default 1), timestamp if it decides, fold and request if present.

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
    columns |= fold_of(table) | request_of(table)
    return table.conformed(columns | {FAULT: first_fault_column({Fault.RELEVANCE_NOT_EXACT: is_inexact})})


def conform_recommendations(
    frame: DataFrame, names: Mapping[str, str] | None, model: str | None, layout: str = "long"
) -> DataFrame:
    """Return model, user, item, fold and request if present, and rank or score: a row per item of a list.

    ``layout="array"`` expects one row per list with an array of items, or of structs of an item and its
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
    columns |= request_of(table)
    if RANK in table.names or (SCORE not in table.names and RANK in table.frame.columns):
        what = "ranks are whole numbers from 1; cast them, in pandas by .astype(int)"
        order = table.typed(RANK, (T.NumericType,), "RANK_NOT_INTEGER", what)
        is_whole = isinstance(table.kind(RANK), T.IntegralType)
        columns[RANK] = order.cast("long" if is_whole else "double")  # pandas returns whole ranks as doubles
    else:
        columns[SCORE] = score_of(table)
    return table.conformed(columns)


def request_of(table: Input) -> dict[str, Column]:
    """Return the column ``request``, if the table has one."""
    return {REQUEST: table.id(REQUEST)} if table.has(REQUEST) else {}


def score_of(table: Input) -> Column:
    """Return the score with its order preserved; a table without score and rank is an error."""
    if table.has(SCORE):
        return table.ordered(SCORE, "SCORE_NOT_NUMERIC")
    table.faults.append(missing_order(table.frame.columns))
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
    keys = [name for name in (USER, REQUEST, MODEL, FOLD) if table.has(name)]
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
    """Return the user, the request if present, and each segment as text, whatever its type.

    ``segments`` may include built-in ones; a column of the table must not have the name of one.
    """
    table = Input(frame, "users", names or {})
    columns = {USER: table.id(USER)} | request_of(table)
    for name in segments:
        if name in set(BuiltIn):
            if table.has(name):
                table.fault(
                    "RESERVED_COLUMN", f"column {name!r} has the name of a segment of ours; rename it"
                )
        elif table.has(name) or name.split(".")[0] in frame.columns:
            columns[name] = table.text(name)
        else:
            table.note(missing_segment(name, frame.columns))
    return table.conformed(columns)


def tables_of(
    frames: Mapping[str, tuple[DataFrame, DataFrame]],
    described: Mapping[str, Any],
    plan: Plan,
    most_quarantined: Mapping[str, float],
) -> Tables:
    """Return the tables of an evaluation from pairs of (original, conformed) frames, by name.

    Their ids have one type; raises DataError ID_TYPE_MISMATCH.
    """
    files = {
        name: plain_table(frames[name][0], name, described[name], plan)
        for name in ("recommendations", "truth", "train")
        if name in frames
    }
    conformed = {name: SparkRows(frame, files.get(name)) for name, (_, frame) in frames.items()}
    lists = frames["recommendations"][0]
    head = lists.limit(MOST_ROWS)
    warn_of_requests(described, lists.columns, lambda names: to_arrow(head.select(*map(quote_column, names))))
    model = described["recommendations"].model
    return Tables(plan, **conformed, model=model, most_quarantined=most_quarantined).aligned()


def plain_table(frame: DataFrame, name: str, described: Any, plan: Plan) -> PlainFiles | None:
    """Return the files of a table if they are plain, otherwise None."""
    names = described.columns or {}
    try:
        wanted = wanted_columns(name, described, frame.columns, plan)
    except NotPlain:
        return None
    return plain_files(frame, source_columns(frame, names, list(wanted.needed), list(wanted.optional)))


def conform_items(
    frame: DataFrame,
    names: Mapping[str, str] | None,
    needs: Collection[Need] = (),
    needed: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return item, the needed attributes of groups, features (arrays of text) and vector, and ``fault``.

    A vector is an array of floats or doubles, or a map of int to double. If the table has no features, the
    groups are used. ``needed`` maps columns to the purpose they are needed for, as used in messages.
    """
    table = open_input(frame, "items", names)
    table.needed = purposes_of_columns(needed or {})
    item = table.id(ITEM)
    columns = {ITEM: item}
    if Need.GROUPS in needs:
        columns[GROUPS] = set_of(table, GROUPS)
    if Need.FEATURES in needs:
        columns[FEATURES] = set_of(table, FEATURES if table.has(FEATURES) else GROUPS)
    if Need.VECTORS in needs:
        columns[VECTOR] = vector_of(table)
    return table.conformed(columns | {FAULT: F.when(item.isNull(), Fault.NULL_ID.value)})


def set_of(table: Input, name: str) -> Column:
    """Return a column of sets as arrays of text."""
    column, kind = table.column(name), table.kind(name)
    if isinstance(kind, T.StringType):
        return F.split(table.readable(name, column), rf"\{DIVIDER}")
    if not isinstance(kind, T.NullType) and not (
        isinstance(kind, T.ArrayType) and isinstance(kind.elementType, (*ID_TYPES, T.NullType))
    ):
        theirs = table.names.get(name, name)
        table.fault("NOT_A_SET", f"column {theirs!r} is {kind.simpleString()}; {SETS}")
        return F.lit(None)
    return column.cast("array<string>")


def vector_of(table: Input) -> Column:
    """Return the column of vectors; dense vectors of floats stay floats."""
    column, kind = table.column(VECTOR), table.kind(VECTOR)
    match kind:
        case T.ArrayType(elementType=T.FloatType()):
            return column
        case T.ArrayType(elementType=T.NumericType() | T.NullType()) | T.NullType():
            return column.cast("array<double>")
        case T.MapType(keyType=T.IntegralType(), valueType=T.NumericType()):
            return column.cast("map<bigint,double>")
        case T.UserDefinedType():
            from pyspark.ml.functions import vector_to_array

            return F.when(column.isNotNull(), vector_to_array(column))
    theirs = table.names.get(VECTOR, VECTOR)
    what = f"column {theirs!r} is {kind.simpleString()}; give an array of numbers, or a map of int to double"
    table.fault("NOT_A_VECTOR", what)
    return F.lit(None)
