"""What is known of users and items beside lists and truth: read once, counted, checked."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_eval.accounting import Counts, Entry, EntryKey, key_of, table_entries
from spark_eval.engine.items.facts import ItemFacts, item_facts
from spark_eval.engine.segments import activity_bounds, user_columns
from spark_eval.errors import DataError, each
from spark_eval.metrics.options import Plan
from spark_eval.metrics.registry import Fact
from spark_eval.schema import FAULT, FOLD, IN_TRAIN, ITEM, N_INTERACTIONS, N_ROWS, BuiltIn, Fault, Outcome
from spark_eval.transforms.inputs import id_type
from spark_eval.transforms.items import N_BYTES, counts_of_items, item_popularity, taken_items
from spark_eval.transforms.segments import (
    activity_histogram,
    count_by_id,
    count_train,
    count_trained_users,
    count_users,
    trained_items,
    trained_users,
)
from spark_eval.verbs.checks import check_train, check_users
from spark_eval.verbs.evaluation import Tables

# Items with training interactions, of which every worker has the list, at some 25 bytes, beside ids of text.
MOST_ITEMS: Final = 2_000_000
# Facts that every worker can hold; what the numbers of an item take, and one of its training users.
MOST_BYTES: Final = 1_000_000_000
BYTES_PER_ITEM: Final = 64
BYTES_PER_TAKER: Final = 8


@dataclass(frozen=True)
class Training:
    """What the training interactions tell.

    ``items`` (item) are the ``n_items`` that have interactions; ``users`` (user, n_interactions) are None
    unless a segment follows from them; ``bounds`` are the largest numbers of interactions of the deciles, if
    asked for.
    """

    items: DataFrame | None = None
    n_items: int = 0
    users: DataFrame | None = None
    bounds: Mapping[int, int] | None = None
    by_id: DataFrame | None = None
    entries: Sequence[Entry] = ()


def read_about(tables: Tables, plan: Plan, held: ExitStack) -> Training:
    """Check the users with their segments and the items, return what the training interactions tell.

    Raises one DataError for what is wrong with any, before truth and lists are read, which are larger.
    """
    readers: dict[str, Callable[[], Any]] = {
        "users": lambda: check_about(tables.users, plan.segments, held),
        "train": lambda: read_train(tables.train, plan.segments, held),
        "items": lambda: check_items(tables.items),
    }
    read = each(readers)
    training: Training = read["train"]
    return replace(training, entries=[*training.entries, *read["items"]])


def read_train(train: DataFrame | None, segments: Sequence[str], held: ExitStack) -> Training:
    """Count the training interactions; nothing is known without any. Raises DataError EMPTY_TRAIN."""
    if train is None:
        return Training()
    by_id = count_by_id(train).persist()
    held.callback(by_id.unpersist)
    counts, n_items = counts_of_train([row.asDict() for row in count_train(by_id).collect()])
    check_train(counts)
    users = trained_users(by_id)
    bounds = None
    if BuiltIn.ACTIVITY in segments:
        histogram = activity_histogram(users).collect()
        bounds = activity_bounds({row[N_INTERACTIONS]: row["n_users"] for row in histogram})
    return Training(
        trained_items(by_id),
        n_items,
        None if set(BuiltIn).isdisjoint(segments) else users,
        bounds,
        by_id,
        table_entries("train", counts),
    )


def counts_of_train(by_fault: Iterable[Mapping[str, Any]]) -> tuple[Counts, int]:
    """Return the counts of the training interactions, and how many items have any; see ``count_train``."""
    counts, n_items = Counts(), 0
    for one in by_fault:
        key = (Outcome.IN, None) if one["everything"] else key_of(one[FAULT])
        is_used = key[0] == Outcome.USED
        n_items = one["items"] if is_used else n_items
        largest = one[Outcome.LARGEST] or 0 if is_used else 0
        of_line = Counts(Counter({key: one["rows"] or 0}), Counter({key: one["users"]}), largest)
        counts = counts.plus(of_line)
    return counts, n_items


def check_about(users: DataFrame | None, segments: Sequence[str], held: ExitStack) -> None:
    """Raise DataError unless each user comes once, with segments of few values; hold the rows in memory."""
    if users is None:
        return
    held.callback(users.persist().unpersist)
    columns = user_columns(segments)
    check_users(count_users(users, columns).collect()[0].asDict(), columns)


def check_items(items: DataFrame | None) -> list[Entry]:
    """Count the rows of the table of items. Raises DataError EMPTY_ITEMS or TOO_MANY_FACTS."""
    if items is None:
        return []
    count = counts_of_items(items).collect()[0].asDict()
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
    """Raise DataError TOO_MANY_FACTS where facts of items are too large for every worker to hold."""
    if n_bytes > MOST_BYTES:
        message = f"{source}: facts of items take {n_bytes} bytes, every worker would hold them; at most "
        message += (
            f"{MOST_BYTES}: leave out items that are never recommended, or give shorter vectors, as floats"
        )
        raise DataError("TOO_MANY_FACTS", message)


def facts_of_items(tables: Tables, training: Training, plan: Plan) -> tuple[ItemFacts | None, Tables]:
    """Return what is known of items, for all workers; None where nobody asks.

    Where all that is asked is which ones have training interactions, and they are too many, Spark tells it of
    every row.
    """
    if training.items is None and tables.items is None:
        return None, tables
    if training.items is not None and training.n_items > MOST_ITEMS and not plan.needs_items:
        seen = training.items.drop(N_ROWS)
        recommendations, truth = (mark(rows, seen) for rows in (tables.recommendations, tables.truth))
        marked = replace(tables, recommendations=recommendations, truth=truth, files=None, truth_files=None)
        return None, marked
    check_bytes(training.n_items * BYTES_PER_ITEM, "train")
    items = tables.items and tables.items.where(F.col(FAULT).isNull()).drop(FAULT)
    trained, taken, n_users = training.items, None, {}
    if tables.train is not None and training.by_id is not None:
        if Fact.POPULARITY in plan.facts:
            trained = item_popularity(tables.train)
            users = count_trained_users(training.by_id).collect()
            n_users = {row.asDict().get(FOLD): row["n_users"] for row in users}
        if Fact.TAKERS in plan.facts:
            taken = taken_items(tables.train)
            check_bytes(taken.count() * BYTES_PER_TAKER, "train")
    of_items, of_trained, of_taken = (frame and frame.toArrow() for frame in (items, trained, taken))
    facts = item_facts(id_type(tables.truth, ITEM), of_items, of_trained, n_users, of_taken)
    return (facts.with_text_order if Fact.TEXT_ORDER in plan.facts else facts), tables


def mark(rows: DataFrame, items: DataFrame) -> DataFrame:
    """Return the rows with a column that tells whether their items have training interactions."""
    marked = rows.join(items.withColumn(IN_TRAIN, F.lit(True)), items.columns, "left")
    return marked.withColumn(IN_TRAIN, F.coalesce(IN_TRAIN, F.lit(False)))
