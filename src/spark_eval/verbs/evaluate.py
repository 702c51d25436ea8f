"""Ranking evaluation, the whole data path: recommendations and truth in, metrics and the ledger out."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_eval.conventions import Conventions, TruthDuplicates
from spark_eval.ledger import ACCOUNTING, Entry, check, list_entries, truth_entries
from spark_eval.plan import DEFAULT_K, DEFAULT_METRICS, Plan, make_plan
from spark_eval.transforms.account import count_lists, count_truth
from spark_eval.transforms.aggregate import limb_sums
from spark_eval.transforms.conform import align_ids, conform_recommendations, conform_truth
from spark_eval.transforms.match import match
from spark_eval.transforms.measure import measure
from spark_eval.transforms.populate import populate
from spark_eval.transforms.rank import rank
from spark_eval.transforms.truth import distinct_truth, per_user_truth, relevant
from spark_eval.verbs.checks import check_lists, check_truth
from spark_eval.verbs.summary import METRICS, metric_rows

# Truth of up to so many rows goes whole to every executor, at some 100 bytes a row; Spark sorts more.
BROADCAST_ROWS: Final = 2_000_000


def evaluate(
    recommendations: DataFrame,
    truth: DataFrame,
    *,
    model: str | None = None,
    layout: str = "long",
    columns: Mapping[str, str] | None = None,
    truth_columns: Mapping[str, str] | None = None,
    timestamp_unit: str | None = None,
    timezone: str = "UTC",
    metrics: Sequence[str] = DEFAULT_METRICS,
    k: Sequence[int] | int = DEFAULT_K,
    conventions: Conventions | str | Mapping[str, str] = "default",
    threshold: float | None = None,
    no_recommendations: str = "zero",
    no_truth: str = "drop",
    checks: str = "hits",
) -> "Evaluation":
    """Ranking metrics per user and in the mean, of one or many models, in one pass over the data.

    ``recommendations`` hold user, item, score or rank, and model (or name the one model by ``model``);
    ``truth`` holds user, item and, if graded, relevance. ``columns`` and ``truth_columns`` map our names
    to yours. Raises ConfigError or DataError; the ledger is closed before any number is given out.
    """
    chosen = make_plan(metrics, k, conventions, threshold, no_recommendations, no_truth, checks)
    by_time = chosen.conventions.truth_duplicates is TruthDuplicates.LAST
    return measure_lists(
        conform_recommendations(recommendations, columns, model, layout),
        conform_truth(truth, truth_columns, timestamp_unit, timezone, ordered=by_time),
        chosen,
    )


def measure_lists(recommendations: DataFrame, truth: DataFrame, plan: Plan) -> "Evaluation":
    """The data path. Both inputs are read once: what later steps share is small and kept."""
    max_k = max(plan.k)
    recommendations, truth = align_ids(recommendations, truth)
    with ExitStack() as kept:
        distinct = distinct_truth(truth, plan.threshold, plan.conventions.truth_duplicates).persist()
        kept.callback(distinct.unpersist)
        truth_counts = [row.asDict() for row in count_truth(distinct).collect()]
        entries = truth_entries(truth_counts)
        check(entries)
        used = check_truth(truth_counts, plan.conventions.gain)

        items = relevant(distinct)
        known = F.broadcast(items) if used["distinct"] <= BROADCAST_ROWS else items
        ranked = rank(recommendations, plan.conventions.ties, plan.checks)
        lists = match(ranked, known, max_k).persist()
        kept.callback(lists.unpersist)
        users = per_user_truth(distinct, max_k)
        counts = [row.asDict() for row in count_lists(lists, users).collect()]
        entries += list_entries(counts, used["users"], plan.no_recommendations, plan.no_truth)
        check(entries)
        check_lists(counts)

        models = sorted(count["model"] for count in counts)
        population = populate(lists, users, models, plan.no_recommendations, plan.no_truth)
        per_user = measure(population, plan.metrics, plan.k, plan.conventions)
        return Evaluation(per_user, entries, models, plan, kept.pop_all())


@dataclass(frozen=True)
class Evaluation:
    """What came of an evaluation.

    ``per_user`` is lazy: one row per model and user of the population, a double per metric and k.
    ``entries`` are the lines of the ledger. ``kept`` holds the persisted steps; ``unpersist`` frees them.
    """

    per_user: DataFrame
    entries: Sequence[Entry]
    models: Sequence[str]
    plan: Plan
    kept: ExitStack

    @cached_property
    def metrics(self) -> DataFrame:
        """The table ``metrics``: value, standard error and interval per model, metric and k."""
        return self.summarise(self.per_user)

    def summarise(self, per_user: DataFrame) -> DataFrame:
        """The same from a copy of ``per_user``, say one already written."""
        sums = (row.asDict() for row in limb_sums(per_user, self.plan.columns).collect())
        rows = metric_rows(sums, self.models, self.plan.metrics, self.plan.k, self.plan.stamp)
        return self.spark.createDataFrame(rows, METRICS)

    @cached_property
    def accounting(self) -> DataFrame:
        """The table ``accounting``: what became of every input row."""
        return self.spark.createDataFrame([entry.row() for entry in self.entries], ACCOUNTING)

    def unpersist(self) -> None:
        """Free what is kept."""
        self.kept.close()

    @property
    def spark(self) -> SparkSession:
        """The session of the inputs."""
        return self.per_user.sparkSession
