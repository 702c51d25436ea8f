"""What is known of users and items beside lists and truth: read once, counted, checked."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_eval.errors import DataError
from spark_eval.ledger import Entry, train_entries
from spark_eval.schema import N_INTERACTIONS, BuiltIn
from spark_eval.segments import activity_bounds, user_columns
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


@dataclass(frozen=True)
class Training:
    """What the training interactions tell.

    ``items`` (item) have interactions; ``users`` (user, n_interactions) are None unless a segment follows
    from them; ``bounds`` are the largest numbers of interactions of the deciles, if asked for.
    """

    items: DataFrame | None = None
    users: DataFrame | None = None
    bounds: Mapping[int, int] | None = None
    entries: Sequence[Entry] = ()


def read_about(
    tables: Tables, segments: Sequence[str], broadcast_rows: int, kept: ExitStack
) -> tuple[DataFrame | None, Training]:
    """The users with their segments, and what the training interactions tell.

    Raises one DataError for what is wrong with either, before truth and lists are read, which are larger.
    """
    faults = []
    try:
        users = read_users(tables.users, segments, broadcast_rows, kept)
    except DataError as fault:
        faults.append(fault)
    try:
        training = read_train(tables.train, segments, broadcast_rows, kept)
    except DataError as fault:
        faults.append(fault)
    DataError.raise_all(faults)
    return users, training


def read_train(
    train: DataFrame | None, segments: Sequence[str], broadcast_rows: int, kept: ExitStack
) -> Training:
    """Count the training interactions; nothing is known without any. Raises DataError EMPTY_TRAIN."""
    if train is None:
        return Training()
    by_id = count_by_id(train).persist()
    kept.callback(by_id.unpersist)
    counts = [row.asDict() for row in count_train(by_id).collect()]
    used = check_train(counts)
    items, users = trained_items(by_id), trained_users(by_id)
    bounds = None
    if BuiltIn.ACTIVITY in segments:
        histogram = activity_histogram(users).collect()
        bounds = activity_bounds({row[N_INTERACTIONS]: row["n_users"] for row in histogram})
    return Training(
        spread(items, used["items"], broadcast_rows),
        None if set(BuiltIn).isdisjoint(segments) else spread(users, used["users"], broadcast_rows),
        bounds,
        train_entries(counts),
    )


def read_users(
    users: DataFrame | None, segments: Sequence[str], broadcast_rows: int, kept: ExitStack
) -> DataFrame | None:
    """The users with their segments, each once; DataError where they are not."""
    if users is None:
        return None
    users, columns = users.persist(), user_columns(segments)
    kept.callback(users.unpersist)
    count = count_users(users, columns).collect()[0].asDict()
    check_users(count, columns)
    # A row of several segments is as large as several of the truth.
    return spread(users, count["rows"] * max(1, len(columns)), broadcast_rows)


def spread(frame: DataFrame, rows: int, broadcast_rows: int) -> DataFrame:
    """The frame, sent whole to every executor if it is small; Spark sorts more."""
    return F.broadcast(frame) if rows <= broadcast_rows else frame
