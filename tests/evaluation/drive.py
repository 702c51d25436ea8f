"""The engine as the workers drive it, without Spark: rows, senders, messages, buckets, measured lists."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pytest

from spark_eval.accounting import ListCounts, TruthCounts, list_entries, table_entries
from spark_eval.arrow.codes import bucket_of, hashes_of
from spark_eval.arrow.messages import Content
from spark_eval.arrow.row_faults import judge_lists, judge_truth
from spark_eval.arrow.send import Sender
from spark_eval.evaluation import exchange
from spark_eval.evaluation.exchange import buckets
from spark_eval.evaluation.plan import LARGEST_DOUBLE, Plan
from spark_eval.evaluation.stages.measure import stage_sums
from spark_eval.evaluation.stages.rows import StageSums
from spark_eval.evaluation.summaries import BucketSummary, Summaries
from spark_eval.evaluation.summary import metric_rows
from spark_eval.evaluation.worker.items.attributes import ItemAttributes, item_attributes
from spark_eval.evaluation.worker.items.counts import ItemTally, histogram
from spark_eval.evaluation.worker.measure import BucketMeasurer
from spark_eval.evaluation.worker.task import EvaluationTask


@dataclass(frozen=True)
class Layout:
    """How rows lie and travel: buckets, tasks, rows of a batch, and what a worker measures at once."""

    n_buckets: int = 3
    n_tasks: int = 2
    batch_rows: int = 50
    is_scattered: bool = True
    most_rows: int = exchange.MOST_ROWS


LAYOUT: Final = Layout()


@dataclass(frozen=True)
class Tables:
    """What comes in, as it has been conformed; ``trained`` are items with training interactions by fold.

    ``profile`` are training interactions, ``facts`` what is known of items (None: what ``trained`` tells).
    """

    lists: pa.Table
    truth: pa.Table
    model: str | None = None
    users: pa.Table | None = None
    train: pa.Table | None = None
    bounds: Mapping[int, int] | None = None
    trained: Mapping[int | None, pa.Array] | None = None
    profile: pa.Table | None = None
    facts: ItemAttributes | None = None


@dataclass(frozen=True)
class Found:
    """Rows of ``per_user`` by model, fold if any, and user; counts; ledger; rows of ``metrics``."""

    per_user: dict[tuple[Any, ...], dict[str, Any]]
    truth: TruthCounts
    lists: dict[str | None, dict[str, int]]
    entries: list[tuple[Any, ...]]
    metrics: list[tuple[Any, ...]]
    summaries: list[BucketSummary] = field(compare=False)

    def stages(self, plan: Plan) -> StageSums:
        """What was summed of stages."""
        return StageSums([one.stages for one in self.summaries if one.stages is not None], plan)


def drive(plan: Plan, tables: Tables, layout: Layout = LAYOUT) -> Found:
    """Measure the tables."""
    question = question_of(plan, tables)
    messages = list(sent(tables, plan, layout))
    random.Random(7).shuffle(messages)
    per_user: dict[tuple[Any, ...], dict[str, Any]] = {}
    summaries: list[BucketSummary] = []
    tally = ItemTally(question)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exchange, "MOST_ROWS", layout.most_rows)
        for number, n_numbers, bucket in buckets(messages, question, layout.n_buckets):
            assert (bucket_of(hashes_of(bucket.people.ids), n_numbers) == number).all()
            measuring, models = BucketMeasurer(bucket, tally), []
            for one, rows, _ in measuring.measured():
                models.append(one)
                for row in rows.to_pylist():
                    fold = (row["fold"],) if plan.by_fold else ()
                    key = (one.model, *fold, row["user"])
                    assert key not in per_user
                    per_user[key] = row
            of_truth = (bucket.truth_counts(), bucket.truth_digest, bucket.truth_folds)
            stages = stage_sums(measuring) if plan.stages else None
            summaries.append(BucketSummary(*of_truth, models, measuring.sums, stages))
    counts = tally.table()
    return found_of(plan, per_user, summaries, [] if counts is None else [counts], question.item_attributes)


def found_of(
    plan: Plan,
    per_user: dict[tuple[Any, ...], dict[str, Any]],
    summaries: list[BucketSummary],
    counts: Sequence[pa.Table],
    facts: ItemAttributes,
) -> Found:
    """Add up what the buckets say, as the driver does."""
    summed = Summaries(summaries, plan)
    histograms = [histogram(counts)] if counts else []
    sums, of_run = summed.sum_rows, summed.run_rows(histograms, facts)
    entries = table_entries("truth", summed.truth)
    entries += list_entries(summed.lists, summed.truth.n_users, plan.conventions)
    return Found(
        per_user,
        summed.truth,
        {model: by_name(counts) for model, counts in summed.lists.items()},
        sorted(entries, key=str),
        sorted([*metric_rows(sums), *of_run], key=str),
        summaries,
    )


def by_name(counts: ListCounts) -> dict[str, int]:
    """Return all numbers by names such as ``used.cold_item.rows``, ``rank_gaps.``, ``clashes``."""
    names = {line: ".".join((line[0], line[1] or "")) for line in counts.users}
    found = {f"{names[line]}.rows": rows for line, rows in counts.rows.items()}
    for line, users in counts.users.items():
        found[f"{names[line]}.users" if line in counts.rows else names[line]] = users
    own = ("largest", "with_truth", "without_hits", "without_truth", "clashes")
    return found | {name: getattr(counts, name) for name in own}


def question_of(plan: Plan, tables: Tables) -> EvaluationTask:
    """Return what ``evaluation.evaluate`` asks of such tables."""
    user, item = (id_type(tables.truth.schema.field(name).type) for name in ("user", "item"))
    return EvaluationTask(
        plan=plan,
        user=user,
        item=item,
        model=tables.model,
        has_scores="score" in tables.lists.column_names,
        most_relevance=LARGEST_DOUBLE,
        bounds=tables.bounds,
        attributes=tables.facts or facts_of(tables.trained, item),
    )


def facts_of(trained: Mapping[int | None, pa.Array] | None, item: pa.DataType) -> ItemAttributes | None:
    """Return what is known of items with training interactions."""
    if trained is None:
        return None
    rows = [(one, fold, 1) for fold, items in trained.items() for one in items.to_pylist()]
    table = table_of(rows, item=item, fold=pa.int64(), n_rows=pa.int64())
    return item_attributes(item, None, table.drop_columns(["fold"]) if None in trained else table, {})


def id_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of ids as the engine has them."""
    return pa.int64() if pa.types.is_integer(kind) else pa.string()


def sent(tables: Tables, plan: Plan, layout: Layout) -> Iterator[pa.RecordBatch]:
    """Return the messages of all tasks."""
    n_buckets = layout.n_buckets
    judge = partial(judge_truth, conventions=plan.conventions)
    for table, sender in (
        (tables.truth, Sender(n_buckets, Content.TRUTH, judge)),
        (tables.lists, Sender(n_buckets, Content.LISTS, judge_lists)),
        (tables.users, Sender(n_buckets, Content.SEGMENTS)),
        (tables.train, Sender(n_buckets, Content.TRAINED)),
        (tables.profile, Sender(n_buckets, Content.PROFILE)),
    ):
        if table is not None:
            for task in tasks_of(table, layout):
                yield from sender(task)


def tasks_of(table: pa.Table, layout: Layout) -> Iterator[Sequence[pa.RecordBatch]]:
    """Return the batches of each task."""
    if layout.is_scattered:
        order = random.Random(len(table)).sample(range(len(table)), len(table))
        table = table.take(pa.array(order, pa.int64()))
    size = max(-(-len(table) // layout.n_tasks), 1)
    for start in range(0, max(len(table), 1), size):
        yield table.slice(start, size).combine_chunks().to_batches(layout.batch_rows)


def table_of(rows: Sequence[Sequence[Any]], **columns: pa.DataType) -> pa.Table:
    """Return rows as a table with these columns."""
    values = zip(*rows, strict=True) if rows else [()] * len(columns)
    return pa.table(
        [pa.array(list(one), kind) for one, kind in zip(values, columns.values(), strict=True)],
        names=list(columns),
    )
