"""Task, messages and number of buckets of an evaluation on the executors."""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from spark_eval.arrow.messages import Content
from spark_eval.arrow.row_faults import fault_rules, interactions_of_users, judge_train, valid_train
from spark_eval.arrow.send import Sender
from spark_eval.conventions.choice import Need
from spark_eval.evaluation.result import Tables
from spark_eval.evaluation.worker.items.attributes import ItemAttributes
from spark_eval.evaluation.worker.task import EvaluationTask
from spark_eval.runners.exchange import BUCKETS_PER_TASK, exchange, send
from spark_eval.runtime.any_session import tasks_at_once
from spark_eval.schema import (
    FAULT,
    FOLD,
    IN_TRAIN,
    ITEM,
    MODEL,
    N_RECOMMENDED,
    N_RELEVANT,
    RANK,
    SCORE,
    USER,
    BuiltIn,
)
from spark_eval.tables.inputs import id_type

# Approximate rows of lists and of truth per bucket. Many small buckets keep the executors' memory low.
ROWS_PER_BUCKET: Final = 500_000
TRUTH_PER_BUCKET: Final = 150_000
MOST_BUCKETS: Final = 10_000
# Inputs with at most this number of rows may be measured by fewer tasks than there are cores.
LEAST_ROWS: Final = 50_000


def evaluation_task(
    tables: Tables, bounds: Mapping[int, int] | None, facts: ItemAttributes | None
) -> EvaluationTask:
    """Return the task for the executors."""
    return EvaluationTask(
        plan=tables.plan,
        user=id_type(tables.truth, USER),
        item=id_type(tables.truth, ITEM),
        model=tables.model,
        has_scores=RANK not in tables.recommendations.columns,
        most_relevance=tables.plan.most_relevance,
        bounds=bounds,
        facts=facts,
    )


def messages_of(tables: Tables, n_buckets: int, n_tasks: int) -> list[DataFrame]:
    """Return the messages of all tables."""
    names = [USER, ITEM, RANK, SCORE, FOLD, IN_TRAIN, *([MODEL] if tables.model is None else [])]
    lists = tables.recommendations.select(*(name for name in names if name in tables.recommendations.columns))
    plan, files, rules = tables.plan, tables.files, fault_rules(tables.plan.conventions)
    messages = [
        send(tables.truth, files.get("truth"), Sender(n_buckets, Content.TRUTH, rules["truth"]), n_tasks),
        send(
            lists,
            files.get("recommendations"),
            Sender(n_buckets, Content.LISTS, rules["recommendations"]),
            n_tasks,
        ),
    ]
    if tables.users is not None:
        messages.append(send(tables.users, None, Sender(n_buckets, Content.SEGMENTS), n_tasks))
    if not set(BuiltIn).isdisjoint(plan.segments):
        messages.append(
            send_train(tables, Sender(n_buckets, Content.TRAINED, interactions_of_users), n_tasks)
        )
    if Need.HISTORY in plan.needs:
        messages.append(send_train(tables, Sender(n_buckets, Content.PROFILE, valid_train), n_tasks))
    return messages


def send_train(tables: Tables, sender: Sender, n_tasks: int) -> DataFrame:
    """Return the messages of the training interactions."""
    assert tables.train is not None
    return send(tables.train.drop(FAULT), tables.files.get("train"), sender, n_tasks)


def train_messages(tables: Tables) -> tuple[DataFrame, int]:
    """Return the messages of training interactions to count, grouped so that a bucket is in one task.

    The number of buckets is returned as well.
    """
    cores, files = tasks_at_once(tables.truth.sparkSession), tables.files.get("train")
    n_buckets = BUCKETS_PER_TASK * cores
    if files is not None:
        n_buckets = min(1 + files.n_rows // ROWS_PER_BUCKET, MOST_BUCKETS)
    n_tasks = min(n_buckets, max(cores, n_buckets // BUCKETS_PER_TASK))
    sender = Sender(n_buckets, Content.TRAIN, judge_train)
    return exchange([send_train(tables, sender, n_tasks)], n_tasks), n_buckets


def buckets_for(tables: Tables) -> tuple[int, int]:
    """Return the number of buckets, and the number of tasks that measure them."""
    cores = tasks_at_once(tables.truth.sparkSession)
    lists, truth = tables.files.get("recommendations"), tables.files.get("truth")
    if lists is None or truth is None:
        return BUCKETS_PER_TASK * 2 * cores, 2 * cores
    n_lists, n_truth = lists.n_rows, truth.n_rows
    wanted = 1 + max(n_lists // ROWS_PER_BUCKET, n_truth // TRUTH_PER_BUCKET)
    if max(n_lists, n_truth) > LEAST_ROWS:
        wanted = max(wanted, 2 * cores)
    n_buckets = min(wanted, MOST_BUCKETS)
    return n_buckets, min(n_buckets, max(2 * cores, n_buckets // BUCKETS_PER_TASK))


def per_user_schema(tables: Tables) -> T.StructType:
    """Return the schema of ``per_user``."""
    plan = tables.plan
    longs = [T.StructField(name, T.LongType()) for name in (N_RELEVANT, N_RECOMMENDED)]
    fold = [T.StructField(FOLD, T.IntegerType())] if plan.by_fold else []
    segments = [T.StructField(name, T.StringType()) for name in plan.segments if name != FOLD]
    return T.StructType(
        [
            T.StructField(MODEL, T.StringType()),
            T.StructField(USER, tables.truth.schema[USER].dataType),
            *longs,
            *fold,
            *segments,
            *(T.StructField(name, T.DoubleType()) for name in plan.columns),
        ]
    )
