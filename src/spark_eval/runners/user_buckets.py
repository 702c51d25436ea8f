"""Run pairwise comparisons on the executors, bucketed by user.

If the file names of ``per_user`` contain the buckets, each worker reads the files of a bucket. Rows in memory
are aligned as a whole and divided. Otherwise the rows are shuffled by user. Which users share a bucket
changes no result.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import iadd
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.codes import Booleans, to_numpy
from spark_eval.arrow.files import Batches
from spark_eval.arrow.messages import Content, group_by_bucket, partition_bucket
from spark_eval.arrow.send import Sender, repeats_as_models
from spark_eval.arrow.user_files import UserFile, overlapping_groups, read_files, user_files
from spark_eval.errors import DataError
from spark_eval.runners.conformed import id_type, rows_here
from spark_eval.runners.in_process import MOST_IN_MEMORY
from spark_eval.runners.rows import Rows
from spark_eval.runners.spread import (
    BUCKETS_PER_TASK,
    NumberedObject,
    Object,
    exchange,
    map_batches,
    send,
)
from spark_eval.runtime.any_session import is_remote
from spark_eval.schema import ALL, FOLD, MODEL, N_RELEVANT, REPEAT, REQUEST, SEGMENT, SEGMENT_VALUE
from spark_eval.tables.file_parts import takes_files
from spark_eval.users.cells import EVERYBODY, SegmentValue, rows_by_cell
from spark_eval.users.population import BASELINE, CANDIDATE, AlignedUsers, ComparisonTask

# Groups of overlapping files are used if they are at most this many times coarser than the files.
COARSEST: Final = 8

# Users of a bucket of rows in memory.
USERS_AT_ONCE: Final = 1 << 17
# Maximum number of ``per_user`` values of a shuffled bucket in a worker's memory.
MOST_SENT: Final = 16_000_000
CONTENT: Final = {BASELINE: Content.BASELINES, CANDIDATE: Content.CANDIDATES}


@dataclass(frozen=True)
class Buckets:
    """Buckets of users with the rows of all models; ``populations`` builds them from the rows of a task.

    ``is_sent`` is true if the rows come from a shuffle.
    """

    frame: Rows
    populations: Callable[[Batches], Iterator[AlignedUsers]]
    is_sent: bool

    def map(self, make: Callable[[Iterator[AlignedUsers]], Iterable[NumberedObject]]) -> Rows:
        """Apply ``make`` to the populations of each task; a DataError is returned as an object, too."""
        populations = self.populations

        def make_all(batches: Batches) -> Iterator[NumberedObject]:
            try:
                yield from make(populations(batches))
            except DataError as error:
                yield 0, error  # raised by the driver, because Spark would wrap it

        return map_batches(self.frame, make_all)

    def each(self, measure: Callable[[AlignedUsers], Object]) -> Rows:
        """Apply ``measure`` to each population; return one object per population."""
        return self.map(lambda populations: ((None, measure(users)) for users in populations))

    def added(self, measure: Callable[[AlignedUsers], Object]) -> Rows:
        """Apply ``measure`` to the populations of each task; return one sum per task."""

        def add_up(populations: Iterator[AlignedUsers]) -> Iterator[NumberedObject]:
            parts = map(measure, populations)
            first = next(parts, None)
            if first is not None:
                yield None, reduce(iadd, parts, first)

        return self.map(add_up)


def buckets_of_files(
    like: Rows, groups: Sequence[Mapping[int, Sequence[str]]], n_tasks: int, task: ComparisonTask
) -> Buckets:
    """Return buckets that workers read from groups of files; the paths are given per model index.

    ``like`` is a table on the same runner.
    """
    of_tasks = [groups[start::n_tasks] for start in range(n_tasks)]

    def populations(batches: Batches) -> Iterator[AlignedUsers]:
        for number in numbers_of(batches):
            for paths in of_tasks[number]:
                yield AlignedUsers(task, partial(rows_of_files, task, paths))

    return Buckets(like.numbers(n_tasks), populations, is_sent=False)


def buckets_of_rows(
    like: Rows, tables: Mapping[int, pa.Table], n_tasks: int, task: ComparisonTask
) -> Buckets:
    """Return buckets of rows in memory, given per model index: all users are aligned once, then divided.

    ``like`` is a table on the same runner.
    """
    whole = AlignedUsers(task, partial(task.rows_of_model, tables))
    if any(rows is not None for rows in whole.rows):  # rows are quickly taken of whole columns
        tables = {model: table.combine_chunks() for model, table in tables.items()}
    read = partial(task.rows_of_model, tables)
    starts = range(0, max(len(whole), 1), USERS_AT_ONCE) if whole.n_rows.any() else range(0)

    def populations(batches: Batches) -> Iterator[AlignedUsers]:
        for number in numbers_of(batches):
            for start in starts[number::n_tasks]:
                yield whole.part(slice(start, min(start + USERS_AT_ONCE, len(whole))), read)

    return Buckets(like.numbers(n_tasks), populations, is_sent=False)


def numbers_of(batches: Batches) -> Iterator[int]:
    """Yield the numbers of ``Rows.numbers``."""
    return (number for batch in batches for number in batch.column(0).to_pylist())


def rows_of_files(
    task: ComparisonTask, paths: Mapping[int, Sequence[str]], model: int, columns: Sequence[str]
) -> pa.Table:
    """Return columns of a model's rows in a bucket, read from its files."""
    return task.rows(read_files(paths.get(model, ()), columns), columns)


def buckets_of_frames(
    frames: Mapping[str, Rows], n_buckets: int, n_tasks: int, task: ComparisonTask
) -> Buckets:
    """Return buckets of the chosen rows of baseline and candidate, after one shuffle by user."""

    def populations(batches: Batches) -> Iterator[AlignedUsers]:
        for _, rows in group_by_bucket(batches):
            tables = {content: table for content, table in rows.items() if content in CONTENT.values()}
            n_values = sum(table.num_rows * table.num_columns for table in tables.values())
            n_parts = 1 + n_values // MOST_SENT
            parts = iter([tables]) if n_parts == 1 else partition_bucket(tables, n_buckets, n_parts)
            for part in parts:
                given = {role: part[content] for role, content in CONTENT.items() if content in part}
                for cell, of_cell in tables_by_cell(task, given):
                    of_models = tables_of_models(task, of_cell)
                    yield AlignedUsers(task, partial(task.rows_of_model, of_models), cell)

    sent = [send(frame, Sender(n_buckets, CONTENT[role]), n_tasks) for role, frame in frames.items()]
    return Buckets(exchange(sent, n_tasks), populations, is_sent=True)


def chosen_rows(table: Rows, role: str, task: ComparisonTask) -> Rows:
    """Return the rows and columns of a table that are compared."""
    segments = task.texts if role == CANDIDATE else task.moved
    truth = [N_RELEVANT] if task.has_truth else []
    names = [MODEL, *task.keys, *(name for name in segments if name != FOLD), *truth, *task.values]
    if task.of_items is not None:
        table = table.where_in(SEGMENT, [task.of_items])
        names = [SEGMENT_VALUE if name == task.of_items else name for name in names]
    if task.row_segments is not None and SEGMENT in table.columns:
        names += [SEGMENT, SEGMENT_VALUE]
        table = table.where_in(SEGMENT, [ALL, *task.row_segments])
    return table.select(*dict.fromkeys(names)).where_in(MODEL, list(task.models_of(role)))


def tables_by_cell(
    task: ComparisonTask, tables: Mapping[str, pa.Table]
) -> Iterator[tuple[SegmentValue, Mapping[str, pa.Table]]]:
    """Yield the rows of both tables, by role, by segment value if they are sums of rows; or all at once.

    The values of a segment of items become a column of its name.
    """
    if task.row_segments is None:
        names = {SEGMENT_VALUE: task.of_items or SEGMENT_VALUE}
        named = {
            role: table.rename_columns([names.get(name, name) for name in table.column_names])
            for role, table in tables.items()
        }
        yield EVERYBODY, named
        return
    by_cell: dict[SegmentValue, dict[str, pa.Table]] = defaultdict(dict)
    for role, table in tables.items():
        for cell, rows in rows_by_cell(table):
            by_cell[cell][role] = rows
    yield from by_cell.items()


def tables_of_models(task: ComparisonTask, tables: Mapping[str, pa.Table]) -> dict[int, pa.Table]:
    """Split the rows of both tables, given by role, by model index."""
    of_models = {}
    for role, table in tables.items():
        names = table[MODEL].cast(pa.string())
        for name, index in task.models_of(role).items():
            of_models[index] = rows_where(table, to_numpy(pc.equal(names, name)).astype(bool))
    return of_models


def rows_where(table: pa.Table, is_chosen: Booleans) -> pa.Table:
    """Return the chosen rows; nothing is copied if they are adjacent."""
    n_chosen = np.count_nonzero(is_chosen)
    first = int(np.argmax(is_chosen)) if n_chosen else 0
    if is_chosen[first : first + n_chosen].all():
        return table.slice(first, n_chosen)
    return table.filter(pa.array(is_chosen))


class UserTable(NamedTuple):
    """Per-user table of a side: a row per model and user, and per fold if there are folds.

    ``frame`` has model, user, n_relevant (if counted), fold (if any), the ``segments``, a double per metric
    column, and the weights of weighted means. ``folder`` is set if it is stored as files by bucket on this
    machine or a mounted disk: ``<folder>/model=<name>/part-<bucket>-of-<buckets>-<id>.parquet``. ``files``
    are the expected paths below it; None if unknown. ``test_train_ratio`` is the ratio of test to train rows
    in a fold; None if unknown. With ``has_repeats``, models are named with their repeats.
    """

    frame: Rows
    segments: Sequence[str] = ()
    folder: str | None = None
    files: frozenset[str] | None = None
    test_train_ratio: float | None = None
    has_repeats: bool = False

    @property
    def by_fold(self) -> bool:
        """True if users have a row per fold."""
        return FOLD in self.frame.columns

    @property
    def request(self) -> pa.DataType | None:
        """Type of the ids of requests in comparisons; None if users have one list each."""
        return id_type(self.frame, REQUEST) if REQUEST in self.frame.columns else None


def with_repeats_as_models(users: UserTable) -> UserTable:
    """Return a per-user table whose models are named with their repeats; raise DataError NULL_REPEAT."""
    frame = users.frame
    schema = pa.schema(
        {name: frame.kind(name) for name in frame.columns if name != REPEAT} | {MODEL: pa.string()}
    )

    def named(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = repeats_as_models(pa.table(batch), None)
            yield from rows.select(schema.names).cast(schema).to_batches()

    joined = frame.map(named, schema)
    return users._replace(frame=joined, folder=None, files=None, has_repeats=True)


def buckets_of_users(tables: Mapping[str, UserTable], task: ComparisonTask) -> Buckets:
    """Return buckets that hold the same users of all models.

    They come from bucketed files, from rows in memory if users have one row per model, or else by a shuffle.

    ``tables`` are by role.
    """
    candidate = tables[CANDIDATE].frame
    at_once = candidate.at_once
    groups = groups_of_files(tables, task)
    if groups is not None:
        n_tasks = max(1, min(len(groups), BUCKETS_PER_TASK * at_once))
        return buckets_of_files(candidate, groups, n_tasks, task)
    frames = {
        role: chosen_rows(users.frame, role, task) for role, users in tables.items() if task.models_of(role)
    }
    is_sent = task.has_several_rows or task.of_means or task.row_segments is not None
    here = None if is_sent else rows_here(list(frames.values()), MOST_IN_MEMORY)
    if here is not None:
        of_models = tables_of_models(task, dict(zip(frames, here, strict=True)))
        return buckets_of_rows(candidate, of_models, 2 * at_once, task)
    return buckets_of_frames(frames, BUCKETS_PER_TASK * 2 * at_once, 2 * at_once, task)


def groups_of_files(
    tables: Mapping[str, UserTable], task: ComparisonTask
) -> list[dict[int, list[str]]] | None:
    """Return groups of files that cover the same users: the paths of each model, by the model's index.

    None if there are no bucketed files, or if bucket ranges overlap so that the groups would be too large.
    """
    files: list[UserFile] = []
    model_of: dict[str, int] = {}
    for role, users in tables.items():
        of_table = files_of_users(users)
        if of_table is None:
            return None
        models = task.models_of(role)
        of_models = [file for file in of_table if file.model in models]
        model_of |= {file.path: models[file.model] for file in of_models}
        files += of_models
    groups = []
    finest = len({(file.start, file.end) for file in files})
    for group in overlapping_groups(files):
        paths: dict[int, list[str]] = {}
        for file in group:
            paths.setdefault(model_of[file.path], []).append(file.path)
        groups.append(paths)
    return groups if len(groups) * COARSEST >= finest else None


def files_of_users(users: UserTable) -> list[UserFile] | None:
    """Return the bucketed files of a per-user table; None if the executors cannot read them.

    Raises DataError INPUT_CHANGED_DURING_RUN if the files are not those that were measured.
    """
    if users.folder is None or not takes_files(users.folder) or is_remote(users.frame.session):
        return None
    files = user_files(users.folder)
    names = {os.path.relpath(file.path, users.folder) for file in files or ()}
    if users.files is not None and names != users.files:
        message = f"per_user at {users.folder!r} is not what was measured; other files are there"
        raise DataError("INPUT_CHANGED_DURING_RUN", f"{message}; evaluate again")
    return files
