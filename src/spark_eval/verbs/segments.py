"""What is known of users and items beside lists and truth: read once, counted, checked."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_eval.accounting import Entry, table_entries
from spark_eval.engine.segments import activity_bounds, user_columns
from spark_eval.errors import each
from spark_eval.schema import FOLD, IN_TRAIN, ITEM, N_INTERACTIONS, BuiltIn
from spark_eval.transforms.segments import (
    activity_histogram,
    count_by_id,
    count_train,
    count_users,
    trained_items,
    trained_users,
)
from spark_eval.verbs.checks import check_train, check_users
from spark_eval.verbs.evaluation import Tables

# Items with training interactions, of which every worker has the list, at some 25 bytes, beside ids of text.
MOST_ITEMS: Final = 2_000_000


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
    entries: Sequence[Entry] = ()


def read_about(tables: Tables, segments: Sequence[str], held: ExitStack) -> Training:
    """Check the users with their segments, and return what the training interactions tell.

    Raises one DataError for what is wrong with either, before truth and lists are read, which are larger.
    """
    readers: dict[str, Callable[[], Training | None]] = {
        "users": lambda: check_about(tables.users, segments, held),
        "train": lambda: read_train(tables.train, segments, held),
    }
    return each(readers)["train"] or Training()


def read_train(train: DataFrame | None, segments: Sequence[str], held: ExitStack) -> Training:
    """Count the training interactions; nothing is known without any. Raises DataError EMPTY_TRAIN."""
    if train is None:
        return Training()
    by_id = count_by_id(train).persist()
    held.callback(by_id.unpersist)
    counts = [row.asDict() for row in count_train(by_id).collect()]
    used = check_train(counts)
    users = trained_users(by_id)
    bounds = None
    if BuiltIn.ACTIVITY in segments:
        histogram = activity_histogram(users).collect()
        bounds = activity_bounds({row[N_INTERACTIONS]: row["n_users"] for row in histogram})
    return Training(
        trained_items(by_id),
        used["items"],
        None if set(BuiltIn).isdisjoint(segments) else users,
        bounds,
        table_entries("train", counts),
    )


def check_about(users: DataFrame | None, segments: Sequence[str], held: ExitStack) -> None:
    """Raise DataError unless each user comes once, with segments of few values; hold the rows in memory."""
    if users is None:
        return
    held.callback(users.persist().unpersist)
    columns = user_columns(segments)
    check_users(count_users(users, columns).collect()[0].asDict(), columns)


def known_items(tables: Tables, training: Training) -> tuple[Mapping[int | None, pa.Array] | None, Tables]:
    """Return the items with training interactions, by fold, for all workers; None where nobody asks.

    Where they are too many, Spark tells of every row whether its item is one of them.
    """
    if training.items is None:
        return None, tables
    if training.n_items <= MOST_ITEMS:
        items = training.items.toArrow().combine_chunks()
        ids = items[ITEM].cast(pa.string() if is_text(training.items, ITEM) else pa.int64()).combine_chunks()
        if FOLD not in items.column_names:
            return {None: ids}, tables
        folds = items[FOLD].combine_chunks()
        return {fold: ids.filter(pc.equal(folds, fold)) for fold in pc.unique(folds).to_pylist()}, tables
    recommendations, truth = (mark(rows, training.items) for rows in (tables.recommendations, tables.truth))
    marked = replace(tables, recommendations=recommendations, truth=truth, files=None, truth_files=None)
    return None, marked


def mark(rows: DataFrame, items: DataFrame) -> DataFrame:
    """Return the rows with a column that tells whether their items have training interactions."""
    marked = rows.join(items.withColumn(IN_TRAIN, F.lit(True)), items.columns, "left")
    return marked.withColumn(IN_TRAIN, F.coalesce(IN_TRAIN, F.lit(False)))


def is_text(frame: DataFrame, name: str) -> bool:
    """Return whether ids are text."""
    return isinstance(frame.schema[name].dataType, T.StringType)
