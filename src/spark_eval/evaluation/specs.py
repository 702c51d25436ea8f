"""Columns that an evaluation reads of each table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from spark_eval.conventions import TruthDuplicates
from spark_eval.conventions.choice import Need
from spark_eval.errors import DataError
from spark_eval.evaluation.plan import Plan
from spark_eval.runners.rows import Rows
from spark_eval.schema import (
    FEATURES,
    FLAG,
    FOLD,
    GROUPS,
    ITEM,
    MODEL,
    PROPENSITY,
    RANK,
    RELEVANCE,
    REPEAT,
    REQUEST,
    SCORE,
    SEGMENT_COLUMN,
    TIMESTAMP,
    USER,
    VECTOR,
    BuiltIn,
    ItemBuiltIn,
)
from spark_eval.tables.columns import missing_order, missing_segment
from spark_eval.tables.spec import Column, Kind, SpecOf, TableSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LISTS: Final = "recommendations"
LONG, ARRAY = "long", "array"
# Column of an id that is the user of another table; that of recommendations is another column.
COARSER: Final = "coarser_{}"
FOLD_COLUMN: Final = Column(
    FOLD, Kind.WHOLE, is_needed=False, code="FOLD_NOT_INTEGER", needs="folds are whole numbers"
)
REQUEST_COLUMN: Final = Column(REQUEST, Kind.ID, is_needed=False)
REPEAT_COLUMN: Final = Column(REPEAT, Kind.ID, is_needed=False)
KEYS: Final = (Column(USER, Kind.ID), Column(ITEM, Kind.ID))


# A ``Described`` or a source of each table.
Descriptions = Mapping[str, Any]


@dataclass(frozen=True)
class Described:
    """Description of a table: columns (ours: theirs), name of the only model, layout, unit of timestamps."""

    columns: Mapping[str, str] | None = None
    model: str | None = None
    layout: str = LONG
    timestamp_unit: str | None = None


def specs_of(plan: Plan, described: Descriptions, timezone: str) -> SpecOf:
    """Return the specs of the tables of an evaluation.

    ``described`` has a ``Described`` or a source for each table.
    """
    return partial(spec_of, plan, described, timezone)


def names_of(described: Descriptions) -> dict[str, Mapping[str, str]]:
    """Return the names of columns, ours to theirs, by table."""
    return {name: one.columns or {} for name, one in described.items()}


def spec_of(
    plan: Plan, described: Descriptions, timezone: str, name: str, columns: Sequence[str]
) -> TableSpec:
    """Return the spec of a table with these columns."""
    match name:
        case "recommendations":
            return spec_of_lists(described, columns)
        case "truth":
            unit = described[name].timestamp_unit
            return spec_of_truth(plan, Column(TIMESTAMP, Kind.INSTANT, unit=unit, timezone=timezone))
        case "train":
            return TableSpec(name, [*KEYS, FOLD_COLUMN], is_judged_by_workers=True)
        case "users":
            return spec_of_users(plan, described, columns)
    return spec_of_items(plan, described[name].columns or {}, columns)


def spec_of_lists(described: Descriptions, columns: Sequence[str]) -> TableSpec:
    """Return the spec of recommendations: a row per item of a list, with a rank or a score.

    A rank counts if it is mapped, or if no score is.
    """
    lists = described[LISTS]
    is_long = lists.layout == LONG
    names = (lists.columns or {}) if is_long else {}
    is_ranked = RANK in names or (SCORE not in names and RANK in columns)
    order = (
        Column(RANK, Kind.RANK, code="RANK_NOT_INTEGER")
        if is_ranked
        else Column(SCORE, Kind.ORDERED, code="SCORE_NOT_NUMERIC")
    )
    is_named = lists.model is None
    coarser = [
        Column(COARSER.format(one), Kind.ORIGINAL, is_needed=False, named=one, is_mapped=False)
        for one in coarser_names(described)
    ]
    return TableSpec(
        LISTS,
        [
            *([Column(MODEL, Kind.TEXT)] if is_named else []),
            *KEYS,
            FOLD_COLUMN,
            REQUEST_COLUMN,
            REPEAT_COLUMN,
            order,
            *([] if REQUEST in columns else coarser),
        ],
        is_judged_by_workers=is_long,
        lacking={SCORE: missing_order},
        only_spark=None if is_long else f"have layout: {lists.layout}",
        unfold=None if is_long else partial(unfolded, described=described),
    )


def spec_of_truth(plan: Plan, when: Column) -> TableSpec:
    """Return the spec of the truth; the time is read if it decides which of several rows counts."""
    is_last = plan.conventions.truth_duplicates is TruthDuplicates.LAST
    relevance = Column(RELEVANCE, Kind.SCORE, is_needed=False, code="RELEVANCE_NOT_NUMERIC")
    return TableSpec(
        "truth",
        [*KEYS, relevance, *([when] if is_last else []), FOLD_COLUMN, REQUEST_COLUMN],
        is_judged_by_workers=not is_last,
        only_spark="needs timestamps" if is_last else None,
    )


def spec_of_users(plan: Plan, described: Descriptions, columns: Sequence[str]) -> TableSpec:
    """Return the spec of users: each segment is text, whatever its type.

    Segments of ours are not columns: a table must not have one of their names.
    """
    names = described["users"].columns or {}
    built_in = sorted({*BuiltIn}.intersection(plan.segments, {*names, *columns}))
    faults = [
        DataError("RESERVED_COLUMN", f"users: column {one!r} has the name of a segment of ours; rename it")
        for one in built_in
    ]
    segments = [Column(one, Kind.TEXT) for one in plan.user_columns]
    lacking = {one: partial(missing_segment, one) for one in plan.user_columns}
    return TableSpec("users", [KEYS[0], REQUEST_COLUMN, *segments], faults=faults, lacking=lacking)


def spec_of_items(plan: Plan, names: Mapping[str, str], columns: Sequence[str]) -> TableSpec:
    """Return the spec of items: what metrics need, and the attributes that truth is divided by."""
    has_features = FEATURES in names or FEATURES in columns
    built_in = sorted({*ItemBuiltIn}.intersection(plan.item_segments, {*names, *columns}))
    faults = [
        DataError("RESERVED_COLUMN", f"items: column {one!r} has the name of a segment of ours; rename it")
        for one in built_in
    ]
    attributes = [
        Column(
            SEGMENT_COLUMN.format(number),
            Kind.LABELS,
            code="NOT_A_SET",
            named=one,
            purpose="for item_segments",
        )
        for number, one in enumerate(plan.attributes)
    ]
    wanted = item_columns(plan, FEATURES if has_features else GROUPS)
    return TableSpec("items", [KEYS[1], *wanted, *attributes], faults=faults)


def item_columns(plan: Plan, of_features: str) -> Iterator[Column]:
    """Yield the attributes of items that the metrics need; without features the groups are used for them."""
    purposes = dict(plan.item_columns)
    if FEATURES in purposes:
        purposes = {GROUPS: purposes[FEATURES], **purposes}
    wanted = {
        Need.GROUPS: Column(GROUPS, Kind.SET, code="NOT_A_SET", named=GROUPS),
        Need.FEATURES: Column(FEATURES, Kind.SET, code="NOT_A_SET", named=of_features),
        Need.PROPENSITIES: Column(PROPENSITY, Kind.NUMBER, code="INVALID_PROPENSITY", named=PROPENSITY),
        Need.VECTORS: Column(VECTOR, Kind.EMBEDDING, code="NOT_A_VECTOR", named=VECTOR),
    }
    for need, column in wanted.items():
        if need in plan.needs:
            yield replace(column, purpose=purposes.get(column.named, ""))
    for flag in plan.flags:
        purpose, name = purposes[flag], FLAG.format(flag)
        yield Column(name, Kind.FLAG, code="NOT_A_FLAG", named=flag, purpose=purpose, is_mapped=False)


def without_coarser(lists: Rows, described: Descriptions) -> Rows:
    """Return recommendations without the columns that tell whether their users are requests."""
    for other in coarser_names(described):
        lists = lists.drop(COARSER.format(other))
    return lists


def coarser_names(described: Descriptions) -> dict[str, str]:
    """Return names of columns that are users elsewhere, with where, other than the user of these lists."""
    theirs = (described[LISTS].columns or {}).get(USER, USER)
    elsewhere = {USER: "our name of users"}
    for name, one in described.items():
        if name != LISTS and one.columns and USER in one.columns:
            elsewhere[one.columns[USER]] = f"the user of {name}"
    return {name: where for name, where in elsewhere.items() if name != theirs}


def unfolded(frame: "DataFrame", described: Descriptions) -> "DataFrame":
    """Return a row for each element of arrays of items, by our names, with its rank or its score.

    An element is an item, or a struct of an item and its score, as ``ALS.recommendForAllUsers`` returns it.
    If no score is mapped, the position in the array is the rank.
    """
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    from spark_eval.tables.inputs import ID_TYPES, open_input

    table = open_input(frame, LISTS, described[LISTS].columns)
    arrays_of_items = (LISTS, "items", ITEM)
    unmapped = [name for name in arrays_of_items if name in frame.columns and ITEM not in table.names]
    items = F.col(unmapped[0]) if unmapped else table.column(ITEM)
    kind = frame.select(items).schema[0].dataType
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
    keys = [name for name in (USER, REQUEST, MODEL, REPEAT, FOLD) if table.has(name)]
    keys += [name for name in coarser_names(described) if name in frame.columns and name not in keys]
    arrays = {ITEM: items} | ({SCORE: table.column(SCORE)} if SCORE in table.names else {})
    table.check()
    columns = [table.column(name).alias(name) for name in keys]
    columns += [array.alias(name) for name, array in arrays.items()]
    elements = frame.select(*columns).select(*keys, F.posexplode(F.arrays_zip(*arrays)))
    order = F.col(f"col.{SCORE}").alias(SCORE) if SCORE in arrays else (F.col("pos") + 1).alias(RANK)
    return elements.select(*keys, F.col(f"col.{ITEM}").alias(ITEM), order)
