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

from pyspark import RDD, Broadcast
from pyspark.sql import SparkSession

from benchmarks.contenders import Means, Repetition
from benchmarks.contenders.ours import MODEL, frames
from benchmarks.contenders.spark import finish, read, session
from benchmarks.processes import usage
from benchmarks.workload import Task
from spark_eval.batches.judging import Judging
from spark_eval.batches.measuring import Measuring
from spark_eval.batches.segments import Segmenting
from spark_eval.batches.sieve import Sieve
from spark_eval.plan import make_plan
from spark_eval.scan import plain_recommendations, plain_truth
from spark_eval.schema import USER
from spark_eval.transforms.conform import conform_recommendations, conform_truth
from spark_eval.transforms.workers import Sent, tally_parcels
from spark_eval.verbs.by_workers import judge_truth, judging_of, measuring_of, send_lists
from spark_eval.verbs.evaluation import Tables
from spark_eval.verbs.segments import Training


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

    def judged(self, kept: ExitStack) -> tuple[Judging, RDD[Sent], Sieve]:
        """The truth in its buckets."""
        judging = judging_of(self.tables, Training(), 0, self.plan)
        truth, _, sieve = judge_truth(self.tables, judging, kept)
        return judging, truth, sieve

    def truth(self) -> None:
        """As far as the truth."""
        with ExitStack() as kept:
            self.judged(kept)

    def parcels(
        self, n_metrics: int | None, kept: ExitStack
    ) -> tuple[RDD[Sent], "Broadcast[Measuring]", list[str | None]]:
        """What came for the buckets, for the first so many metrics."""
        judging, truth, sieve = self.judged(kept)
        plan = replace(self.plan, metrics=self.plan.metrics[:n_metrics])
        measuring = measuring_of(self.tables, judging, sieve, Segmenting((), None), plan)
        return send_lists(self.tables, measuring, [truth], kept, is_read_again=False)

    def sent(self) -> None:
        """As far as the parcels of the recommendations."""
        with ExitStack() as kept:
            self.parcels(1, kept)[0].count()

    def tallied(self, n_metrics: int | None, folder: Path | None) -> None:
        """Counts and sums of the first so many metrics; with ``folder`` also ``per_user``."""
        with ExitStack() as kept:
            parcels, everywhere, models = self.parcels(n_metrics, kept)
            user = self.tables.truth.schema[USER].dataType
            tally_parcels(
                parcels, everywhere, models, user, None if folder is None else str(folder)
            ).collect()


STEPS: Final[dict[str, Callable[[Steps, Path], object]]] = {
    "scan by Spark: conform both tables": lambda steps, _: [
        finish(frame) for frame in (steps.tables.recommendations, steps.tables.truth)
    ],
    "truth: read, in its buckets, each pair once": lambda steps, _: steps.truth(),
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
