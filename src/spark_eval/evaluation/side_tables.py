"""Conform, read and validate ``users``, ``train`` and ``items``."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Final

import pyarrow as pa

from spark_eval.accounting import Counts, Entry, EntryKey, table_entries
from spark_eval.arrow.files import Batches
from spark_eval.arrow.messages import concat_messages, from_bytes, group_by_bucket, sum_equal_keys, to_bytes
from spark_eval.conventions.choice import Need
from spark_eval.errors import DataError, collect_errors
from spark_eval.evaluation.aggregates import (
    N_BYTES,
    count_items,
    count_users,
    mark_trained,
    trained_pairs,
    valid_items,
)
from spark_eval.evaluation.exchange import train_messages
from spark_eval.evaluation.segments import activity_bounds
from spark_eval.evaluation.tables import Tables
from spark_eval.evaluation.worker.items.attributes import ItemAttributes, item_attributes
from spark_eval.evaluation.worker.items.counts import partition_by_item
from spark_eval.evaluation.worker.items.training import TrainSummary, count_train
from spark_eval.runners.objects import NumberedObject, collect_objects, group_by_key, map_batches
from spark_eval.runners.spread import Spread, persist_table
from spark_eval.schema import FOLD, ITEM, BuiltIn, Fault, Outcome
from spark_eval.tables.conformed import Rows, id_type

# Maximum number of values of a segment: more are likely ids or measurements.
MAX_SEGMENT_VALUES: Final = 1_000


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
    most_items = MOST_BYTES // BYTES_PER_ITEM if plan.needs_items else MOST_ITEMS
    sees_takers = Need.POPULARITY in plan.needs
    parts = collect_objects(counted_train(messages, n_buckets, most_items, sees_takers=sees_takers))
    summaries = [summary for part in parts for summary in part.summaries]
    counts = reduce(Counts.plus, (one.counts for one in summaries), Counts())
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


def check_users_table(users: Rows, columns: Sequence[str], resources: ExitStack) -> Rows:
    """Return the persisted users; raise DataError for repeated users or segments with too many values."""
    if users is None:
        return None
    persisted = persist_table(users, resources)
    check_users(count_users(persisted, columns), columns)
    return persisted


def check_items(items: Rows) -> list[Entry]:
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


def facts_of_items(tables: Tables, training: Training) -> tuple[ItemAttributes | None, Tables]:
    """Return the item attributes for the executors, None if not needed, and the tables.

    If only the trained items are needed and they are too many for the executors, recommendations and truth
    get a column ``in_train`` by a join.
    """
    if tables.train is None and tables.items is None:
        return None, tables
    plan, is_left_out = tables.plan, tables.train is not None and training.items is None
    if tables.train is not None and (is_left_out or training.n_items > MOST_ITEMS) and not plan.needs_items:
        recommendations, truth = (
            mark_trained(rows, tables.train) for rows in (tables.recommendations, tables.truth)
        )
        files = {"train": tables.files.get("train")}
        return None, replace(tables, recommendations=recommendations, truth=truth, files=files)
    check_bytes(max(training.n_items * BYTES_PER_ITEM, is_left_out * (MOST_BYTES + 1)), "train")
    of_items = None if tables.items is None else valid_items(tables.items)
    taken, n_users = None, training.n_users if Need.POPULARITY in plan.needs else {}
    if tables.train is not None and Need.TAKERS in plan.needs:
        taken = trained_pairs(tables.train, lambda n_pairs: check_bytes(n_pairs * BYTES_PER_TAKER, "train"))
    kind = id_type(tables.truth, ITEM)
    facts = item_attributes(kind, of_items, training.items, n_users, taken)
    return (facts.with_text_order if Need.TEXT_ORDER in plan.needs else facts), tables


@dataclass(frozen=True)
class CountedTrain:
    """Bucket summaries, and one part of the items with counts; ``items`` is None if there are too many."""

    summaries: Sequence[TrainSummary]
    n_items: int
    items: pa.Table | None


def counted_train(messages: Spread, n_buckets: int, most_items: int, *, sees_takers: bool) -> Spread:
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
        if values > MAX_SEGMENT_VALUES:
            message = f"users: segment {name!r} has {values} values, at most {MAX_SEGMENT_VALUES}; group them"
            faults.append(DataError("TOO_MANY_SEGMENTS", message))
    DataError.raise_all(faults)
