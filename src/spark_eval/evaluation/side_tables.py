"""Conform, read and validate ``users``, ``train`` and ``items``."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add, and_
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.accounting import Counts, Entry, EntryKey, table_entries
from spark_eval.arrow.files import Batches
from spark_eval.arrow.messages import concat_messages, from_bytes, group_by_bucket, sum_equal_keys, to_bytes
from spark_eval.conventions.choice import Need
from spark_eval.errors import DataError, collect_errors
from spark_eval.evaluation.exchange import train_messages
from spark_eval.evaluation.segments import activity_bounds
from spark_eval.evaluation.tables import Tables
from spark_eval.evaluation.worker.items.attributes import ItemAttributes, item_attributes
from spark_eval.evaluation.worker.items.counts import partition_by_item
from spark_eval.evaluation.worker.items.training import TrainSummary, count_train
from spark_eval.names import quote_column
from spark_eval.runners.local_rows import LocalTable
from spark_eval.runners.rows import Rows, SparkRows
from spark_eval.runners.spread import (
    NumberedObject,
    collect_objects,
    group_by_key,
    map_batches,
)
from spark_eval.schema import (
    FOLD,
    IN_TRAIN,
    ITEM,
    MOST_SEGMENT_VALUES,
    REQUEST,
    USER,
    BuiltIn,
    Fault,
    Outcome,
)

if TYPE_CHECKING:
    pass

N_BYTES: Final = "n_bytes"
# Maximum number of trained items sent to executors: about 25 bytes each, plus the ids if these are text.
MOST_ITEMS: Final = 2_000_000
# Maximum size of item attributes per executor; bytes per item, and per training user of an item.
MOST_BYTES: Final = 1_000_000_000
BYTES_PER_ITEM: Final = 64
BYTES_PER_TAKER: Final = 8


@dataclass(frozen=True)
class Training:
    """Summary of the training interactions.

    ``items`` has one row for each of the ``n_items`` items with interactions, per fold (see
    ``evaluation.worker.items.training``); None if they are too many for the driver. ``n_users`` is the
    number of users by fold. ``bounds`` is the largest number of interactions of each activity decile; None
    if not requested.
    """

    items: pa.Table | None = None
    n_items: int = 0
    n_users: Mapping[int | None, int] = field(default_factory=dict)
    bounds: Mapping[int, int] | None = None
    entries: Sequence[Entry] = ()


def read_users_and_items(tables: Tables, resources: ExitStack) -> tuple[Training, Tables]:
    """Validate users and items, and summarize the training interactions.

    The returned tables have persisted users. Truth and lists are larger and are not read yet. Raises one
    DataError that lists the errors of all three tables.
    """
    readers: dict[str, Callable[[], Any]] = {
        "users": lambda: check_users_table(tables.users, tables.plan.user_columns, resources),
        "train": lambda: read_train(tables),
        "items": lambda: check_items(tables.items),
    }
    read = collect_errors(readers)
    training: Training = read["train"]
    training = replace(training, entries=[*training.entries, *read["items"]])
    return training, replace(tables, users=read["users"])


def read_train(tables: Tables) -> Training:
    """Count the training interactions; the summary is empty without any. Raises DataError EMPTY_TRAIN."""
    if tables.train is None:
        return Training()
    plan, (messages, n_buckets) = tables.plan, train_messages(tables)
    most_items = MOST_BYTES // BYTES_PER_ITEM if plan.reads_items else MOST_ITEMS
    sees_takers = Need.POPULARITY in plan.needs
    parts = collect_objects(counted_train(messages, n_buckets, most_items, sees_takers=sees_takers))
    summaries = [summary for part in parts for summary in part.summaries]
    counts = reduce(add, (one.counts for one in summaries), Counts())
    check_train(counts)
    activity = sum((one.activity for one in summaries), Counter[int]())
    items = [part.items for part in parts if part.n_items]
    is_whole = all(part is not None for part in items)
    return Training(
        concat_messages(items).unify_dictionaries() if is_whole else None,
        sum(part.n_items for part in parts),
        sum((one.n_users for one in summaries), Counter[int | None]()),
        activity_bounds(activity) if BuiltIn.ACTIVITY in plan.segments else None,
        table_entries("train", counts),
    )


def check_users_table(users: Rows | None, columns: Sequence[str], resources: ExitStack) -> Rows | None:
    """Return the persisted users; raise DataError for repeated users or segments with too many values."""
    if users is None:
        return None
    persisted = users.persist(resources)
    check_users(count_users(persisted, columns), columns)
    return persisted


def check_items(items: Rows | None) -> list[Entry]:
    """Count the rows of the table of items. Raises DataError EMPTY_ITEMS or TOO_MANY_FACTS."""
    if items is None:
        return []
    count = count_items(items)
    rows, valid = count["rows"], count["with_id"]
    if not valid:
        raise DataError("EMPTY_ITEMS", "items: not a single valid row; see its path, where and subset")
    check_bytes(valid * BYTES_PER_ITEM + (count[N_BYTES] or 0), "items")
    lines: dict[EntryKey, int] = {
        (Outcome.IN, None): rows,
        (Outcome.USED, None): valid,
        (Outcome.QUARANTINED, Fault.NULL_ID): rows - valid,
    }
    return table_entries("items", Counts(Counter(lines)))


def check_bytes(n_bytes: int, source: str) -> None:
    """Raise DataError TOO_MANY_FACTS if item attributes are too large for the memory of an executor."""
    if n_bytes > MOST_BYTES:
        message = f"{source}: facts of items take {n_bytes} bytes, every worker would hold them; at most "
        message += (
            f"{MOST_BYTES}: leave out items that are never recommended, or give shorter vectors, as floats"
        )
        raise DataError("TOO_MANY_FACTS", message)


def attributes_of_items(tables: Tables, training: Training) -> tuple[ItemAttributes | None, Tables]:
    """Return the item attributes for the executors, None if not needed, and the tables.

    If only the trained items are needed and they are too many for the executors, recommendations and truth
    get a column ``in_train`` by a join.
    """
    if tables.train is None and tables.items is None:
        return None, tables
    plan, is_left_out = tables.plan, tables.train is not None and training.items is None
    if tables.train is not None and (is_left_out or training.n_items > MOST_ITEMS) and not plan.reads_items:
        recommendations, truth = (
            mark_trained(rows, tables.train) for rows in (tables.recommendations, tables.truth)
        )
        return None, replace(tables, recommendations=recommendations, truth=truth)
    check_bytes(max(training.n_items * BYTES_PER_ITEM, is_left_out * (MOST_BYTES + 1)), "train")
    item_values = None if tables.items is None else valid_items(tables.items)
    train_pairs, n_users = None, training.n_users if Need.POPULARITY in plan.needs else {}
    if tables.train is not None and Need.TAKERS in plan.needs:
        train_pairs = trained_pairs(
            tables.train, lambda n_pairs: check_bytes(n_pairs * BYTES_PER_TAKER, "train")
        )
    attributes = item_attributes(tables.id_types[ITEM], item_values, training.items, n_users, train_pairs)
    attributes = attributes.with_segments(plan.item_segments, item_values)
    return (attributes.with_text_order if Need.TEXT_ORDER in plan.needs else attributes), tables


@dataclass(frozen=True)
class CountedTrain:
    """Bucket summaries, and one part of the items with counts; ``items`` is None if there are too many."""

    summaries: Sequence[TrainSummary]
    n_items: int
    items: pa.Table | None


def counted_train(messages: Rows, n_buckets: int, most_items: int, *, sees_takers: bool) -> Rows:
    """Return ``CountedTrain`` objects from the messages of training interactions: two small shuffles.

    Users are grouped by bucket, items by hash. Parts with more than about twice their share of
    ``most_items`` are left out, so that the driver's memory is bounded.
    """

    def count(batches: Batches) -> Iterator[NumberedObject]:
        for _, rows in group_by_bucket(batches):
            summary, items = count_train(rows, sees_takers=sees_takers)
            yield 0, summary
            for part, counts in partition_by_item(items, n_buckets) if items is not None else ():
                yield part, to_bytes(counts).to_pybytes()

    def meet(_: int, parts: list[TrainSummary | bytes]) -> CountedTrain:
        summaries = [one for one in parts if isinstance(one, TrainSummary)]
        tables = [from_bytes(pa.py_buffer(one)) for one in parts if isinstance(one, bytes)]
        items = sum_equal_keys(tables, (ITEM, FOLD)) if tables else None
        n_items = 0 if items is None else len(items)
        return CountedTrain(summaries, n_items, items if n_items <= 2 * most_items // n_buckets + 1 else None)

    return group_by_key(map_batches(messages, count), n_buckets, meet)


def check_train(counts: Counts) -> None:
    """Raise DataError EMPTY_TRAIN if no row is valid."""
    if not counts.rows[Outcome.USED, None]:
        raise DataError("EMPTY_TRAIN", "train: not a single valid row; see its path, where and subset")


def check_users(count: Mapping[str, Any], segments: Sequence[str]) -> None:
    """Raise DataError for rows without a user, users with several rows, and segments with too many values."""
    faults = []
    repeats, without = count["with_id"] - count["users"], count["rows"] - count["with_id"]
    if repeats:
        message = (
            f"users: {repeats} rows are not the first of their user (and request); keep one row for each"
        )
        faults.append(DataError("DUPLICATE_USER", message))
    if without:
        faults.append(
            DataError("NULL_USER", f"users: {without} rows without a user (or request); remove them")
        )
    for index, name in enumerate(segments):
        values = count[f"values_{index}"]
        if values > MOST_SEGMENT_VALUES:
            message = (
                f"users: segment {name!r} has {values} values, at most {MOST_SEGMENT_VALUES}; group them"
            )
            faults.append(DataError("TOO_MANY_SEGMENTS", message))
    DataError.raise_all(faults)


def count_users(users: Rows, segments: Sequence[str]) -> Mapping[str, int]:
    """Return rows, with_id, users (distinct), and the number of values per segment index.

    With a column ``request``, an id is a user and a request.
    """
    keys = [name for name in (USER, REQUEST) if name in users.columns]
    if users.session is None:
        rows = users.table()
        n_values = {f"values_{index}": distinct(rows, name) for index, name in enumerate(segments)}
        ids = rows.select(keys).drop_null()
        n_ids = len(ids.group_by(keys, use_threads=False).aggregate([]))
        return {"rows": len(rows), "with_id": len(ids), "users": n_ids} | n_values
    from pyspark.sql import functions as F

    totals = users.result().agg(
        F.count("*").alias("rows"),
        F.count_if(reduce(and_, (F.col(name).isNotNull() for name in keys))).alias("with_id"),
        F.count_distinct(*keys).alias("users"),
        *(
            F.count_distinct(quote_column(name)).alias(f"values_{index}")
            for index, name in enumerate(segments)
        ),
    )
    counts: Mapping[str, int] = totals.collect()[0].asDict()
    return counts


def distinct(rows: pa.Table, name: str) -> int:
    """Return the number of distinct values of a column, without null."""
    n_values: int = pc.count_distinct(rows[name], mode="only_valid").as_py()
    return n_values


def count_items(items: Rows) -> Mapping[str, Any]:
    """Return rows, with_id, and the bytes of all items' attributes."""
    kinds = {name: items.kind(name) for name in items.columns}
    names = [name for name, kind in kinds.items() if pa.types.is_list(kind) or pa.types.is_map(kind)]
    widths = {name: width_of(kinds[name]) for name in names}
    if items.session is None:
        rows = items.table()
        lengths = {name: pc.sum(pc.list_value_length(rows[name])).as_py() or 0 for name in names}
        n_bytes = sum(width * lengths[name] for name, width in widths.items())
        return {"rows": len(rows), "with_id": len(rows) - rows[ITEM].null_count, N_BYTES: n_bytes}
    from pyspark.sql import functions as F

    sizes = [F.greatest(F.size(name), F.lit(0)) * width for name, width in widths.items()]
    totals = items.result().agg(
        F.count("*").alias("rows"),
        F.count(ITEM).alias("with_id"),
        F.sum(sum(sizes, start=F.lit(0)).cast("long")).alias(N_BYTES),
    )
    counts: Mapping[str, Any] = totals.collect()[0].asDict()
    return counts


def width_of(kind: pa.DataType) -> int:
    """Return the size in bytes of an element of a list or a map."""
    if pa.types.is_map(kind):
        return 16
    return 4 if kind.value_type == pa.float32() else 8


def valid_items(items: Rows) -> pa.Table:
    """Return the valid rows of the table of items."""
    return items.where_not_null(ITEM, items.columns).table()


def trained_pairs(train: Rows, check: Callable[[int], None]) -> pa.Table:
    """Return item, user, and fold if present, of the valid training interactions, deduplicated.

    ``check`` gets their number before they are collected.
    """
    pairs = train.unique(ITEM, *([FOLD] if FOLD in train.columns else []), USER)
    check(pairs.count())
    return pairs.table()


def mark_trained(rows: Rows, train: Rows) -> Rows:
    """Add a column that is true if the row's item has training interactions."""
    if rows.session is None or train.session is None:
        return mark_here(rows.table(), train.table())
    from pyspark.sql import functions as F

    keys = [ITEM, *([FOLD] if FOLD in train.columns else [])]
    items = train.where_not_null(USER, [*keys, USER]).unique(*keys).result()
    marked = rows.result().join(items.withColumn(IN_TRAIN, F.lit(True)), keys, "left")
    return SparkRows(marked.withColumn(IN_TRAIN, F.coalesce(IN_TRAIN, F.lit(False))))


def mark_here(rows: pa.Table, train: pa.Table) -> LocalTable:
    """Do the same in this process."""
    keys = [name for name in (ITEM, FOLD) if name in train.column_names]
    whole = {ITEM: rows[ITEM].type if rows[ITEM].type == train[ITEM].type else pa.int64(), FOLD: pa.int64()}
    rows, train = (as_types(table, {name: whole[name] for name in keys}) for table in (rows, train))
    valid = LocalTable.of(train.filter(pc.is_valid(train[USER]))).unique(*keys).table()
    items = valid.append_column(IN_TRAIN, pa.repeat(True, len(valid)))
    marked = rows.join(items, keys, join_type="left outer", use_threads=False)
    is_trained = pc.fill_null(marked[IN_TRAIN], False)
    marked = marked.set_column(marked.column_names.index(IN_TRAIN), IN_TRAIN, is_trained)
    return LocalTable(marked.schema, marked)


def as_types(table: pa.Table, kinds: Mapping[str, pa.DataType]) -> pa.Table:
    """Return a table with these types of columns."""
    fields = [pa.field(field.name, kinds.get(field.name, field.type)) for field in table.schema]
    return table.cast(pa.schema(fields))
