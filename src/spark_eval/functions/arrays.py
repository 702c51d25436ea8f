"""Compute metrics of array columns: the rows of an Arrow batch become a bucket of the engine."""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.codes import to_numpy
from spark_eval.arrow.messages import Content
from spark_eval.arrow.row_faults import FaultRule, judge_lists, judge_truth
from spark_eval.conventions import RecommendationDuplicates
from spark_eval.errors import DataError
from spark_eval.evaluation.plan import Plan
from spark_eval.evaluation.worker.bucket import Bucket
from spark_eval.evaluation.worker.lists import BucketLists
from spark_eval.evaluation.worker.task import EvaluationTask
from spark_eval.schema import EXACT_DIGITS, FATAL, ITEM, RANK, RELEVANCE, SCORE, USER
from spark_eval.statistics.exact import Floats, Ints

RECOMMENDED: Final = "recommended"
RELEVANT: Final = "relevant"
RELEVANCE_ARRAY: Final = "relevances"
SCORE_ARRAY: Final = "scores"
# Number of items of both arrays that are processed at once; a single row may have more.
ITEMS_AT_ONCE: Final = 1_000_000


def measured_values(plan: Plan, arrays: dict[str, pa.Array]) -> dict[str, Floats]:
    """Return the values of all metrics of the plan by column, NaN if undefined; each of shape (rows,).

    ``arrays`` are columns of a batch of rows: ``recommended`` and ``relevant``, optionally ``relevances``
    (parallel to relevant) and ``scores`` (parallel to recommended).

    Raises DataError NOT_AN_ARRAY, ARRAYS_DIFFER, REPEATED_ITEM, RELEVANCE_TOO_LARGE, and those of invalid
    ids, numbers and rows.
    """
    # The SQL literal NULL means that relevances or scores are not given.
    needed = (RECOMMENDED, RELEVANT)
    arrays = {name: one for name, one in arrays.items() if name in needed or not pa.types.is_null(one.type)}
    for name, column in arrays.items():
        kind = column.type
        if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_null(kind)):
            raise DataError("NOT_AN_ARRAY", f"{name}: the column is {kind}; give an array")
    lengths = {name: lengths_of(column) for name, column in arrays.items()}
    for name, other in ((RELEVANCE_ARRAY, RELEVANT), (SCORE_ARRAY, RECOMMENDED)):
        if name in arrays and (n_bad := np.count_nonzero(lengths[name] != lengths[other])):
            message = f"{name}: in {n_bad} rows the array differs in length from {other}"
            raise DataError("ARRAYS_DIFFER", f"{message}; give one number for each item")
    parts = [
        values_at_once(plan, {name: column.slice(start, stop - start) for name, column in arrays.items()})
        for start, stop in pieces(lengths[RECOMMENDED] + lengths[RELEVANT])
    ]
    return {column: np.concatenate([part[column] for part in parts]) for column in plan.columns}


def values_at_once(plan: Plan, arrays: dict[str, pa.Array]) -> dict[str, Floats]:
    """Compute the values of some rows in one bucket."""
    lists, truth = rows_of_lists(arrays), truth_of(arrays)
    lists, truth = with_alike_ids(lists, truth)
    task = EvaluationTask(
        plan=plan,
        user=pa.int64(),
        item=lists.schema.field(ITEM).type,
        model="",
        has_scores=SCORE_ARRAY in arrays,
        most_relevance=plan.most_relevance,
        bounds=None,
    )
    lists = usable(lists, judge_lists, RECOMMENDED)
    truth = usable(truth, partial(judge_truth, conventions=plan.conventions), RELEVANT)
    bucket = Bucket(task, {Content.LISTS: lists, Content.TRUTH: truth})
    ranked = bucket.lists()
    check_lists(ranked, plan)
    chosen = ranked.population(plan.conventions)
    chosen_lists = ranked.lists(chosen, bucket.truth.ideal(plan.truth_depth))
    rows = to_numpy(bucket.people.ids)[chosen]
    columns = {column: np.full(len(arrays[RECOMMENDED]), np.nan) for column in plan.columns}
    for value in plan.metrics:
        for column, values in value.measure(chosen_lists, plan.conventions).items():
            columns[column][rows] = values
    return columns


def rows_of_lists(arrays: dict[str, pa.Array]) -> pa.Table:
    """Return a row per recommended item: list number, item, and score or rank."""
    row, items = flattened(arrays[RECOMMENDED])
    if SCORE_ARRAY not in arrays:
        starts = np.searchsorted(row, row)
        return pa.table({USER: row, ITEM: items, RANK: np.arange(1, len(row) + 1) - starts})
    return pa.table({USER: row, ITEM: items, SCORE: numeric(arrays, SCORE_ARRAY, "SCORE_NOT_NUMERIC")})


def truth_of(arrays: dict[str, pa.Array]) -> pa.Table:
    """Return a row per relevant item: list number, item, and relevance if given."""
    row, items = flattened(arrays[RELEVANT])
    if RELEVANCE_ARRAY not in arrays:
        return pa.table({USER: row, ITEM: items})
    relevance = numeric(arrays, RELEVANCE_ARRAY, "RELEVANCE_NOT_NUMERIC")
    if pa.types.is_decimal(relevance.type):
        if relevance.type.precision > EXACT_DIGITS:
            message = f"{RELEVANCE_ARRAY}: {relevance.type} can exceed a double's digits; cast it to double"
            raise DataError("RELEVANCE_NOT_EXACT", message)
        relevance = relevance.cast(pa.string()).cast(pa.float64())
    return pa.table({USER: row, ITEM: items, RELEVANCE: relevance})


def with_alike_ids(lists: pa.Table, truth: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Cast the items of both tables to int64, or both to text; raise DataError for other ids."""
    kinds = [
        kind
        for name, table in ((RECOMMENDED, lists), (RELEVANT, truth))
        if (kind := id_kind(name, table.schema.field(ITEM).type)) is not None
    ]
    if len(set(kinds)) > 1:
        message = f"items are {kinds[0]} in {RECOMMENDED} and {kinds[1]} in {RELEVANT}"
        raise DataError("ID_TYPE_MISMATCH", f"{message}; write all with one type")
    kind = kinds[0] if kinds else pa.int64()
    lists, truth = (table.set_column(1, ITEM, table[ITEM].cast(kind)) for table in (lists, truth))
    return lists, truth


def id_kind(name: str, kind: pa.DataType) -> pa.DataType | None:
    """Return int64 or string for ids of a type, None for nulls only; raise DataError for other types."""
    if pa.types.is_null(kind):
        return None
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.string()
    code = "ID_IS_FLOAT" if pa.types.is_floating(kind) or pa.types.is_decimal(kind) else "ID_TYPE_UNSUPPORTED"
    message = f"{name}: an array of {kind}; items are integers or strings"
    raise DataError(
        code, message + ("; name the field, as recommended.item" if pa.types.is_struct(kind) else "")
    )


def usable(rows: pa.Table, rule: FaultRule, name: str) -> pa.Table:
    """Return the valid rows; raise DataError if a row has a fatal code."""
    rows, faults = rule(rows)
    if faults is None:
        return rows
    counts = {one["values"]: one["counts"] for one in faults.value_counts().to_pylist()}
    refused = [
        DataError(fault, f"{name}: {counts[fault]} {why}") for fault, why in FATAL.items() if fault in counts
    ]
    DataError.raise_all(refused)
    return rows.filter(faults.is_null())


def check_lists(lists: BucketLists, plan: Plan) -> None:
    """Raise DataError for gains that overflow a double, and for repeated items if conventions refuse them."""
    largest = lists.truth.largest_relevance
    if largest > plan.most_relevance:
        message = f"{RELEVANCE_ARRAY}: the gain of {largest} overflows; at most {plan.most_relevance:g}"
        raise DataError("RELEVANCE_TOO_LARGE", f"{message}; scale relevances down")
    n_again = int(lists.n_repeated.sum())
    if n_again and plan.conventions.recommendation_duplicates is RecommendationDuplicates.REFUSE:
        message = f"{RECOMMENDED}: {n_again} items repeat an item of their list; remove them, or use "
        raise DataError("REPEATED_ITEM", f"{message}recommendation_duplicates=best_rank")


def flattened(lists: pa.Array) -> tuple[Ints, pa.Array]:
    """Return the list number of each element, and the elements; a null list has none."""
    if pa.types.is_null(lists.type):
        return np.empty(0, np.int64), pa.nulls(0)
    return np.repeat(np.arange(len(lists)), lengths_of(lists)), lists.flatten()


def lengths_of(lists: pa.Array) -> Ints:
    """Return the number of elements of each list, 0 for a null list; shape (rows,)."""
    if pa.types.is_null(lists.type):
        return np.zeros(len(lists), dtype=np.int64)
    return to_numpy(pc.list_value_length(lists).fill_null(0)).astype(np.int64)


def pieces(lengths: Ints) -> Iterator[tuple[int, int]]:
    """Yield ranges [start, stop) of rows with about ITEMS_AT_ONCE items each; at least one range."""
    number = np.maximum(np.cumsum(lengths) - 1, 0) // ITEMS_AT_ONCE
    starts = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(lengths)]
    yield from pairwise(starts)


def numeric(arrays: dict[str, pa.Array], name: str, code: str) -> pa.Array:
    """Concatenate the numbers of all lists, booleans and nulls as doubles; raise DataError otherwise."""
    _, values = flattened(arrays[name])
    kind, of = values.type, pa.types
    if of.is_boolean(kind) or of.is_null(kind):
        return values.cast(pa.float64())
    if of.is_integer(kind) or of.is_floating(kind) or of.is_decimal(kind):
        return values
    raise DataError(code, f"{name}: an array of {kind}; give numbers")
