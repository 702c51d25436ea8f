"""spark-eval's own path, cut off after each step: what a step adds to the one before is what it costs.

Nothing is kept between the steps, and the ledger is not counted: what a whole evaluation takes beyond the
last step is the price of both. This file follows ``spark_eval.verbs.evaluate.measure_lists``.
"""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.contenders import Means, Repetition
from benchmarks.contenders.ours import MODEL, frames
from benchmarks.contenders.spark import finish, read, session
from benchmarks.processes import usage
from benchmarks.workload import Task
from spark_eval.plan import make_plan
from spark_eval.transforms.aggregate import limb_sums
from spark_eval.transforms.conform import conform_recommendations, conform_truth
from spark_eval.transforms.match import match
from spark_eval.transforms.measure import measure
from spark_eval.transforms.populate import populate
from spark_eval.transforms.rank import rank
from spark_eval.transforms.truth import distinct_truth, per_user_truth, relevant
from spark_eval.verbs.by_shuffle import BROADCAST_ROWS
from spark_eval.verbs.summary import summed_columns


class Steps:
    """The frames of one evaluation, as far as each step."""

    def __init__(self, spark: SparkSession, task: Task) -> None:
        workload = task.workload
        self.plan = make_plan(workload.run_metrics, workload.ks, workload.conventions)
        recommendations, truth = read(spark, task)
        is_one = workload.dataset.models == 1
        self.models = [MODEL] if is_one else [f"model_{n}" for n in range(workload.dataset.models)]
        self.recommendations = conform_recommendations(recommendations, None, MODEL if is_one else None)
        self.truth = conform_truth(truth, None, None, "UTC", self.plan.conventions)

    @property
    def distinct(self) -> DataFrame:
        """Distinct relevant items."""
        conventions = self.plan.conventions
        return distinct_truth(self.truth, conventions.threshold, conventions.truth_duplicates)

    @property
    def ranked(self) -> DataFrame:
        """Recommendations with ranks."""
        return rank(self.recommendations, self.plan.conventions.ties, self.plan.checks, self.plan.sees_ties)

    @property
    def known(self) -> DataFrame:
        """The truth as recommendations meet it."""
        found = relevant(self.distinct)
        return F.broadcast(found) if found.count() <= BROADCAST_ROWS else found

    @property
    def lists(self) -> DataFrame:
        """One row per list."""
        return match(self.ranked, self.known, self.plan.depth, self.plan.cuts)

    @property
    def population(self) -> DataFrame:
        """One row per user."""
        by_user = per_user_truth(self.distinct, self.plan.truth_depth)
        return populate(self.lists, by_user, self.models, self.plan.conventions)

    def measured(self, n_metrics: int | None) -> DataFrame:
        """``per_user``, with the first so many metric values."""
        plan = self.plan
        return measure(self.population, plan.metrics[:n_metrics], plan.conventions, plan.truth_depth)


def scan(steps: Steps, _: Path) -> None:
    """Both tables, conformed."""
    finish(steps.recommendations)
    finish(steps.truth)


def write(steps: Steps, folder: Path) -> None:
    """``per_user`` as Parquet."""
    steps.measured(None).write.parquet(str(folder / "written"))


def mean(steps: Steps, folder: Path) -> None:
    """``per_user`` written, read again, summed exactly."""
    steps.measured(None).write.parquet(str(folder / "summed"))
    written = steps.truth.sparkSession.read.parquet(str(folder / "summed"))
    limb_sums(written, summed_columns(steps.plan.metrics)).collect()


def join(steps: Steps) -> DataFrame:
    """Recommendations with the relevance of hits."""
    return steps.ranked.join(steps.known, ["user", "item"], "left")


STEPS: Final[dict[str, Callable[[Steps, Path], None]]] = {
    "scan: read and conform both tables": scan,
    "rank": lambda steps, _: finish(steps.ranked),
    "join: distinct truth, met by the recommendations": lambda steps, _: finish(join(steps)),
    "aggregation: one row per list": lambda steps, _: finish(steps.lists),
    "population: lists join the users with truth": lambda steps, _: finish(steps.population),
    "crossing to Python and back, with one metric": lambda steps, _: finish(steps.measured(1)),
    "kernel: all other metrics": lambda steps, _: finish(steps.measured(None)),
    "write per_user": write,
    "read it again, exact sums": mean,
}


def prepare(task: Task) -> Repetition:
    """All steps in one warm process; a repetition gives the CPU seconds as far as each."""
    spark, whole = session(task), frames(task)

    def repeat(folder: Path) -> Means:
        spent = {}
        actions: dict[str, Callable[[], object]] = {
            name: partial(action, Steps(spark, task), folder) for name, action in STEPS.items()
        }
        actions["the whole evaluation, with the ledger"] = partial(whole, folder)
        for name, action in actions.items():
            before = usage(os.getpid()).cpu
            action()
            spent[name] = usage(os.getpid()).cpu - before
        return spent

    return repeat
