"""The only shuffle of an evaluation: rows are sent as messages, grouped by bucket, and measured."""

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from spark_eval.arrow.files import Batches
from spark_eval.arrow.messages import (
    Content,
    from_bytes,
    group_by_bucket,
    partition_bucket,
    to_bytes,
)
from spark_eval.arrow.row_faults import interactions_of_users, judge_train, valid_train
from spark_eval.arrow.send import Sender
from spark_eval.arrow.user_files import file_name
from spark_eval.conventions.choice import Need
from spark_eval.evaluation.stages.measure import stage_sums
from spark_eval.evaluation.summaries import SUMMARY, BucketSummary
from spark_eval.evaluation.tables import Tables
from spark_eval.evaluation.worker.bucket import Bucket, models_in
from spark_eval.evaluation.worker.items.attributes import ItemAttributes
from spark_eval.evaluation.worker.items.counts import ItemTally, histogram, partition_by_item
from spark_eval.evaluation.worker.measure import BucketMeasurer
from spark_eval.evaluation.worker.task import EvaluationTask
from spark_eval.names import folder_name, split_repeat
from spark_eval.runners.rows import Rows, is_first_task
from spark_eval.runners.spread import (
    BUCKETS_PER_TASK,
    NUMBER,
    OBJECT,
    OBJECTS,
    exchange,
    group_by_key,
    send,
)
from spark_eval.schema import (
    ALL,
    FOLD,
    IN_TRAIN,
    ITEM,
    MODEL,
    RANK,
    REPEAT,
    REQUEST,
    SCORE,
    SEGMENT,
    USER,
    BuiltIn,
    Table,
)

# Approximate rows of lists and of truth per bucket. Many small buckets keep the executors' memory low.
ROWS_PER_BUCKET: Final = 500_000
TRUTH_PER_BUCKET: Final = 150_000
MOST_BUCKETS: Final = 10_000
# Inputs with at most this number of rows may be measured by fewer tasks than there are cores.
LEAST_ROWS: Final = 50_000


def evaluation_task(
    tables: Tables, bounds: Mapping[int, int] | None, attributes: ItemAttributes | None
) -> EvaluationTask:
    """Return the task for the executors."""
    ids = tables.id_types
    return EvaluationTask(
        plan=tables.plan,
        user=ids[USER],
        item=ids[ITEM],
        model=None if tables.plan.has_repeats else tables.model,
        has_scores=RANK not in tables.recommendations.columns,
        most_relevance=tables.plan.most_relevance,
        bounds=bounds,
        attributes=attributes,
        request=ids.get(REQUEST),
    )


def messages_of(tables: Tables, n_buckets: int, n_tasks: int) -> list[Rows]:
    """Return the messages of all tables."""
    names = [USER, ITEM, RANK, SCORE, FOLD, REQUEST, REPEAT, IN_TRAIN]
    names += [MODEL] if tables.model is None else []
    lists = tables.recommendations.select(*(name for name in names if name in tables.recommendations.columns))
    plan, rules = tables.plan, tables.rules
    messages = [
        send(tables.truth, Sender(n_buckets, Content.TRUTH, rules["truth"]), n_tasks),
        send(lists, Sender(n_buckets, Content.LISTS, rules["recommendations"], tables.model), n_tasks),
    ]
    if tables.users is not None:
        messages.append(send(tables.users, Sender(n_buckets, Content.SEGMENTS), n_tasks))
    if not set(BuiltIn).isdisjoint(plan.segments):
        messages.append(
            send_train(tables, Sender(n_buckets, Content.TRAINED, interactions_of_users), n_tasks)
        )
    if Need.HISTORY in plan.needs:
        messages.append(send_train(tables, Sender(n_buckets, Content.PROFILE, valid_train), n_tasks))
    return messages


def send_train(tables: Tables, sender: Sender, n_tasks: int) -> Rows:
    """Return the messages of the training interactions."""
    assert tables.train is not None
    return send(tables.train, sender, n_tasks)


def train_messages(tables: Tables) -> tuple[Rows, int]:
    """Return the messages of training interactions to count, grouped so that a bucket is in one task.

    The number of buckets is returned as well.
    """
    assert tables.train is not None
    cores, n_rows = tables.truth.at_once, tables.train.n_rows
    n_buckets = BUCKETS_PER_TASK * cores
    if n_rows is not None:
        n_buckets = min(1 + n_rows // ROWS_PER_BUCKET, MOST_BUCKETS)
    n_tasks = min(n_buckets, max(cores, n_buckets // BUCKETS_PER_TASK))
    messages = send_train(tables, Sender(n_buckets, Content.TRAIN, judge_train), n_tasks)
    return exchange([messages], n_tasks), n_buckets


def buckets_for(tables: Tables) -> tuple[int, int]:
    """Return the number of buckets, and the number of tasks that measure them."""
    cores = tables.truth.at_once
    n_lists, n_truth = tables.recommendations.n_rows, tables.truth.n_rows
    if n_lists is None or n_truth is None:
        return BUCKETS_PER_TASK * 2 * cores, 2 * cores
    wanted = 1 + max(n_lists // ROWS_PER_BUCKET, n_truth // TRUTH_PER_BUCKET)
    if max(n_lists, n_truth) > LEAST_ROWS:
        wanted = max(wanted, 2 * cores)
    n_buckets = min(wanted, MOST_BUCKETS)
    return n_buckets, min(n_buckets, max(2 * cores, n_buckets // BUCKETS_PER_TASK))


# Limits of one measurement on a worker: rows of lists, and values of ``per_user``. One user may exceed them.
MOST_ROWS: Final = 1_000_000
MOST_VALUES: Final = 8_000_000
# Number of rows that tell whether a column of ``per_user`` is written with a dictionary.
SAMPLED: Final = 256


@dataclass(frozen=True)
class Destination:
    """Destination of the rows of tables with a row per user: files below ``folders``, or the driver.

    ``schemas`` are those of ``per_user`` and, with segments of items, of ``item_segments``. Rows that are
    returned have the columns of both, and ``segment`` tells them apart.
    """

    schemas: Mapping[str, pa.Schema]
    folders: Mapping[str, str]

    @cached_property
    def returned(self) -> list[pa.Field]:
        """Columns of the rows that are returned; none if all are written."""
        tables = [schema for name, schema in self.schemas.items() if name not in self.folders]
        fields = {field.name: field for schema in tables for field in schema}
        if len(self.schemas) > 1 and fields:
            fields[SEGMENT] = pa.field(SEGMENT, pa.string())
        return list(fields.values())

    def rows(self, table: str, model: str | None, rows: pa.Table) -> pa.Table:
        """Return the rows of a model or a repeat as they are written, without their model, or returned."""
        schema = self.schemas[table]
        of_model, repeat = split_repeat(model or "")
        rows = rows.add_column(0, MODEL, pa.repeat(model and of_model, len(rows)))
        if repeat is not None:
            rows = rows.add_column(1, REPEAT, pa.repeat(repeat, len(rows)))
        rows = rows.select(schema.names).cast(schema)
        if table in self.folders:
            return rows.drop_columns(MODEL)
        if SEGMENT not in schema.names and any(field.name == SEGMENT for field in self.returned):
            return rows.append_column(SEGMENT, pa.repeat(ALL, len(rows)))
        return rows


def measure(
    messages: Sequence[Rows],
    task: EvaluationTask,
    n_buckets: int,
    n_tasks: int,
    schemas: Mapping[str, pa.Schema],
    folders: Mapping[str, str],
    check: Callable[[], None] | None = None,
) -> Rows:
    """Return the rows of tables with a row per user, and one row per bucket with only its summary.

    ``n_tasks`` tasks measure the buckets, once all messages have been shuffled to them.

    See ``Destination`` for ``schemas`` and ``folders``. Nothing is written if a model's name cannot be a
    folder name, because the run then fails. If items are counted, each task adds rows with only the number of
    a group of items, one for each task, and its counts, as bytes.

    The first task calls ``check``: inputs must be unchanged if rows are computed later, or again.
    """
    destination = Destination(schemas, folders)
    item_columns: list[pa.Field] = [*OBJECTS] if task.plan.of_run else []
    columns: pa.Schema = pa.schema([*destination.returned, pa.field(SUMMARY, pa.binary()), *item_columns])

    def measured(batches: Batches) -> Iterator[pa.RecordBatch]:
        if check is not None and is_first_task():
            check()
        tally = ItemTally(task)
        for number, n_numbers, bucket in buckets(batches, task, n_buckets):
            measuring, models = BucketMeasurer(bucket, tally), []
            for one, *both in measuring.measured():
                files = {}
                for table, rows in zip(schemas, both, strict=False):
                    rows = destination.rows(table, one.model, rows)
                    if table not in folders:
                        yield from add_missing_columns(rows, columns).to_batches()
                    elif bucket.has_valid_models and len(rows):
                        model, _ = split_repeat(one.model or "")
                        name = file_name(number, n_numbers)
                        files[table] = write_users(model, rows, folders[table], name)
                own, item_file = (files.get(table) for table in (Table.PER_USER, Table.ITEM_SEGMENTS))
                models.append(replace(one, file=own, item_file=item_file))
            of_truth = (measuring.truth_counts(), bucket.truth_digest, bucket.truth_folds)
            stages = stage_sums(measuring) if task.plan.stages else None
            of_users = (measuring.user_sums, measuring.item_sums, measuring.item_user_sums)
            summary = BucketSummary(
                *of_truth,
                models,
                measuring.sums,
                stages,
                measuring.groups,
                *of_users,
                repeat_sums=measuring.repeat_sums,
                over_repeats=measuring.over_repeats,
                over_repeats_users=measuring.over_repeats_users,
            )
            del measuring  # free its lists before the next bucket
            yield from add_missing_columns({SUMMARY: [pickle.dumps(summary)]}, columns).to_batches()
        counts = tally.table()
        for part, rows in partition_by_item(counts, n_tasks) if counts is not None else ():
            of_part = {NUMBER: [part], OBJECT: [pickle.dumps(to_bytes(rows).to_pybytes())]}
            yield from add_missing_columns(of_part, columns).to_batches()

    return exchange(messages, n_tasks).map(measured, columns)


def add_missing_columns(rows: "pa.Table | Mapping[str, Any]", columns: pa.Schema) -> pa.Table:
    """Return the rows with all of these columns; missing ones are null."""
    n_rows = len(next(iter(rows.values()))) if isinstance(rows, Mapping) else len(rows)
    names = rows.keys() if isinstance(rows, Mapping) else rows.column_names
    return pa.table(
        [rows[one.name] if one.name in names else pa.nulls(n_rows, one.type) for one in columns],
        schema=columns,
    )


def histograms_of(rows: Rows, n_tasks: int) -> Rows:
    """Return the number of items per number of lists, from the result of ``measure``: one shuffle."""

    def merged(_: int, parts: list[bytes]) -> pa.Table:
        return histogram([from_bytes(pa.py_buffer(part)) for part in parts])

    return group_by_key(rows.where_not_null(NUMBER, OBJECTS.names), n_tasks, merged)


def buckets(batches: Batches, task: EvaluationTask, n_buckets: int) -> Iterator[tuple[int, int, Bucket]]:
    """Yield number, total number and content of each bucket of a task; large buckets are divided."""
    for number, rows in group_by_bucket(batches):
        n_parts = parts_for(rows, task)
        parts = iter([rows]) if n_parts == 1 else partition_bucket(rows, n_buckets, n_parts)
        del rows
        for index, part in enumerate(parts):
            yield number * n_parts + index, n_buckets * n_parts, Bucket(task, part)


def parts_for(rows: Mapping[Content, pa.Table], task: EvaluationTask) -> int:
    """Return the number of parts to divide a bucket into."""
    n_lists = rows[Content.LISTS].num_rows if Content.LISTS in rows else 0
    n_users = n_distinct(rows, Content.TRUTH, USER)
    if task.request is not None:
        n_users = max(n_users, n_distinct(rows, Content.LISTS, REQUEST))
    n_columns = sum(len(value.columns) for value in task.plan.metrics)
    n_values = n_users * (len(models_in(rows, task.model)) * n_columns + task.n_stage_columns)
    return 1 + max(n_lists // MOST_ROWS, n_values // MOST_VALUES)


def n_distinct(rows: Mapping[Content, pa.Table], content: Content, name: str) -> int:
    """Return the number of distinct values of a column of a content's rows."""
    return len(rows[content][name].unify_dictionaries().unique()) if content in rows else 0


def write_users(model: str, rows: pa.Table, folder: str, name: str) -> str:
    """Write rows to a file of this name in the folder of their model; return its path."""
    file = f"{MODEL}={folder_name(model)}/{name}"
    path = Path(folder, file)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path, use_dictionary=columns_with_dictionary(rows), write_page_checksum=True)
    return file


def columns_with_dictionary(rows: pa.Table) -> list[str]:
    """Return the columns to write with a dictionary: not those whose values are nearly all distinct."""
    sample = rows.slice(0, SAMPLED)
    return [
        field.name
        for field in rows.schema
        if field.type != pa.float64() or len(sample[field.name].unique()) <= 0.75 * len(sample)
    ]
