"""spark-eval's own path, cut off after each step: what a step adds to the one before is what it costs.

This file follows ``spark_eval.verbs.by_workers``; recommendations are read as the workers read them.
"""

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from benchmarks.contenders import Means, Repetition
from benchmarks.contenders.ours import MODEL, frames
from benchmarks.contenders.spark import finish, read, session
from benchmarks.processes import usage
from benchmarks.workload import Task
from spark_eval.batches.measuring import Measuring
from spark_eval.batches.truth import Truth
from spark_eval.plan import make_plan
from spark_eval.scan import plain_recommendations, plain_truth
from spark_eval.schema import RANK, USER
from spark_eval.transforms.conform import conform_recommendations, conform_truth
from spark_eval.transforms.workers import tally_parcels
from spark_eval.verbs.by_workers import meeting_of, read_truth, send_out
from spark_eval.verbs.evaluation import Tables


class Steps:
    """One evaluation, as far as each step."""

    def __init__(self, spark: SparkSession, task: Task) -> None:
        workload = task.workload
        self.plan = make_plan(workload.run_metrics, workload.ks, workload.conventions)
        recommendations, truth = read(spark, task)
        model = MODEL if workload.dataset.models == 1 else None
        self.tables = Tables(
            conform_recommendations(recommendations, None, model),
            conform_truth(truth, None, None, "UTC", self.plan.conventions),
            model=model,
            files=plain_recommendations(recommendations, {}, model, "long"),
            truth_files=plain_truth(truth, {}, self.plan.conventions),
        )

    def truth(self) -> Truth:
        """The truth, collected and indexed."""
        return read_truth(self.tables, self.plan)[0]

    def measuring(self, n_metrics: int | None) -> Measuring:
        """What the workers are told, with the first so many metrics."""
        plan = replace(self.plan, metrics=self.plan.metrics[:n_metrics])
        return Measuring(
            meeting_of(self.tables, self.truth(), None, self.plan),
            tuple((value.name, value.k) for value in plan.metrics),
            plan.conventions,
            plan.truth_depth,
            has_scores=RANK not in self.tables.recommendations.columns,
            cold=None,
            segments={},
        )

    def sent(self) -> None:
        """The parcels in their buckets."""
        with ExitStack() as kept:
            parcels, _, _ = send_out(self.tables, self.measuring(1), kept)
            finish(parcels)

    def tallied(self, n_metrics: int | None, folder: Path | None) -> None:
        """Counts and sums of the first so many metrics; with ``folder`` also ``per_user``."""
        with ExitStack() as kept:
            parcels, everywhere, models = send_out(self.tables, self.measuring(n_metrics), kept)
            user = self.tables.truth.schema[USER].dataType
            tally_parcels(
                parcels, everywhere, models, user, None if folder is None else str(folder)
            ).collect()


STEPS: Final[dict[str, Callable[[Steps, Path], object]]] = {
    "scan by Spark: conform both tables": lambda steps, _: [
        finish(frame) for frame in (steps.tables.recommendations, steps.tables.truth)
    ],
    "truth: read and indexed": lambda steps, _: steps.truth(),
    "recommendations: read, hits found, parcels in buckets": lambda steps, _: steps.sent(),
    "lists put together, one metric, ledger and sums": lambda steps, _: steps.tallied(1, None),
    "kernel and sums of all other metrics": lambda steps, _: steps.tallied(None, None),
    "write per_user": lambda steps, folder: steps.tallied(None, folder / "written"),
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
