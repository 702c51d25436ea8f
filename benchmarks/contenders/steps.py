"""spark-eval's own path, cut off after each step: what a step adds to the one before is what it costs.

This file follows ``spark_eval.evaluation.evaluate``.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from spark_eval.evaluation.conform import (
    conform_recommendations,
    conform_truth,
    plain_recommendations,
    plain_truth,
)

from benchmarks.contenders import Means, Repetition
from benchmarks.contenders.ours import MODEL, frames
from benchmarks.contenders.spark import finish, read, session
from benchmarks.processes import usage
from benchmarks.workload import Task
from spark_eval.evaluation.exchange import buckets_for, evaluation_task, measure, messages_of, per_user_schema
from spark_eval.evaluation.plan import make_plan
from spark_eval.evaluation.tables import Tables, check_folds
from spark_eval.runners.spread import exchange


class Steps:
    """One evaluation, as far as each step."""

    def __init__(self, spark: SparkSession, task: Task) -> None:
        workload = task.workload
        plan = make_plan(metrics=workload.run_metrics, k=workload.ks, conventions=workload.conventions)
        recommendations, truth = read(spark, task, workload.options)
        model = MODEL if workload.dataset.models == 1 else None
        tables = Tables(
            plan,
            conform_recommendations(recommendations, None, model),
            conform_truth(truth, None, None, "UTC", plan.conventions),
            model=model,
            files={
                "recommendations": plain_recommendations(recommendations, {}, model, "long"),
                "truth": plain_truth(truth, {}, plan.conventions),
            },
        )
        self.tables = check_folds(tables)
        self.n_buckets, self.n_tasks = buckets_for(self.tables)

    def sent(self) -> list[DataFrame]:
        """The messages of both tables."""
        return messages_of(self.tables, self.n_buckets, self.n_tasks)

    def measured(self, n_metrics: int | None, folder: Path | None) -> DataFrame:
        """The rows of the first so many metrics, or with ``folder`` a summary of each bucket."""
        plan = replace(self.tables.plan, requested=self.tables.plan.requested[:n_metrics])
        tables = replace(self.tables, plan=plan)
        question, schema = evaluation_task(tables, None, None), per_user_schema(tables)
        folder_name = folder and str(folder)
        return measure(self.sent(), question, self.n_buckets, self.n_tasks, schema, folder_name)


STEPS: Final[dict[str, Callable[[Steps, Path], object]]] = {
    "scan by Spark: conform both tables": lambda steps, _: [
        finish(frame) for frame in (steps.tables.recommendations, steps.tables.truth)
    ],
    "messages: both tables read, by bucket of users": lambda steps, _: list(map(finish, steps.sent())),
    "the exchange: messages in their buckets": lambda steps, _: finish(exchange(steps.sent(), steps.n_tasks)),
    "measured: ranks, hits, one metric, accounting, sums": lambda steps, _: finish(steps.measured(1, None)),
    "all other metrics": lambda steps, _: finish(steps.measured(None, None)),
    "per_user written by the workers": lambda steps, folder: finish(steps.measured(None, folder / "written")),
}


def prepare(task: Task) -> Repetition:
    """All steps in one warm process; a repetition gives the CPU seconds as far as each."""
    spark, whole = session(task), frames(task)

    def repeat(folder: Path) -> Means:
        spent = {}
        actions: dict[str, Callable[[], object]] = {
            name: partial(action, Steps(spark, task), folder) for name, action in STEPS.items()
        }
        actions["the whole evaluation"] = partial(whole, folder)
        for name, action in actions.items():
            before = usage(os.getpid()).cpu
            action()
            spent[name] = usage(os.getpid()).cpu - before
        return spent

    return repeat
