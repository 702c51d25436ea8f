"""Ranking evaluation, the whole data path: recommendations and truth in, metrics and the ledger out."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from pyspark.sql import DataFrame, Row, SparkSession

from spark_eval.conventions import Conventions
from spark_eval.ledger import ACCOUNTING, Entry, check, list_entries, truth_entries
from spark_eval.plan import DEFAULT_K, DEFAULT_METRICS, Plan, make_plan
from spark_eval.segments import check_segments, user_columns
from spark_eval.transforms.account import count_lists, count_truth
from spark_eval.transforms.aggregate import limb_sums
from spark_eval.transforms.conform import (
    align_ids,
    check_id_types,
    conform_recommendations,
    conform_train,
    conform_truth,
    conform_users,
)
from spark_eval.transforms.inputs import quoted
from spark_eval.transforms.match import match
from spark_eval.transforms.measure import measure
from spark_eval.transforms.populate import populate
from spark_eval.transforms.rank import rank
from spark_eval.transforms.segments import add_segments
from spark_eval.transforms.truth import distinct_truth, per_user_truth, relevant
from spark_eval.verbs.checks import check_lists, check_truth
from spark_eval.verbs.segments import read_train, read_users, spread
from spark_eval.verbs.summary import METRICS, metric_rows, summed_columns

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
    train: DataFrame | None = None,
    train_columns: Mapping[str, str] | None = None,
    users: DataFrame | None = None,
    users_columns: Mapping[str, str] | None = None,
    segments: Sequence[str] = (),
    metrics: Sequence[str] = DEFAULT_METRICS,
    k: Sequence[int | str] | int | str = DEFAULT_K,
    conventions: Conventions | str | Mapping[str, Any] = "default",
    threshold: float | None = None,
    no_recommendations: str | None = None,
    no_truth: str | None = None,
    checks: str = "hits",
) -> "Evaluation":
    """Ranking metrics per user and in the mean, of one or many models, in one pass over the data.

    ``recommendations`` hold user, item, score or rank, and model (or name the one model by ``model``);
    ``truth`` holds user, item and, if graded, relevance. ``columns``, ``truth_columns``, ``train_columns``
    and ``users_columns`` map our names to yours. A metric may carry its own k and conventions:
    ``ndcg(gain=exp2)@10``; k may be ``all``.

    ``segments`` are columns of ``users`` (one row per user), or ``known`` and ``activity``, which follow from
    the training interactions ``train``; the means of their users stand beside those of all. With ``train``,
    the ledger tells the cold items apart, which have none.

    Raises ConfigError or DataError; the ledger is closed before any number is given out.
    """
    chosen = make_plan(metrics, k, conventions, threshold, no_recommendations, no_truth, checks, segments)
    check_segments(segments, chosen.columns, train is not None, users is not None)
    return measure_lists(
        conform_recommendations(recommendations, columns, model, layout),
        conform_truth(truth, truth_columns, timestamp_unit, timezone, chosen.conventions),
        chosen,
        None if train is None else conform_train(train, train_columns),
        conform_users(users, users_columns, segments)
        if users is not None and user_columns(segments)
        else None,
    )


def measure_lists(
    recommendations: DataFrame,
    truth: DataFrame,
    plan: Plan,
    train: DataFrame | None = None,
    users: DataFrame | None = None,
) -> "Evaluation":
    """The data path. Every input is read once: what later steps share is small and kept."""
    conventions = plan.conventions
    given = {"recommendations": recommendations, "truth": truth, "train": train, "users": users}
    check_id_types({name: frame for name, frame in given.items() if frame is not None})
    recommendations, truth = align_ids(recommendations, truth)
    with ExitStack() as kept:
        segment_values = read_users(users, plan.segments, BROADCAST_ROWS, kept)
        training = read_train(train, plan.segments, BROADCAST_ROWS, kept)
        distinct = distinct_truth(truth, conventions.threshold, conventions.truth_duplicates).persist()
        kept.callback(distinct.unpersist)
        truth_counts = [row.asDict() for row in count_truth(distinct, training.items).collect()]
        entries = [*training.entries, *truth_entries(truth_counts)]
        check(entries)
        used = check_truth(truth_counts, plan)

        known = spread(relevant(distinct), used["distinct"], BROADCAST_ROWS)
        ranked = rank(recommendations, conventions.ties, plan.checks, plan.sees_ties)
        lists = match(ranked, known, plan.depth, plan.cuts, training.items).persist()
        kept.callback(lists.unpersist)
        by_user = per_user_truth(distinct, plan.truth_depth)
        counts = [row.asDict() for row in count_lists(lists, by_user, plan.cuts).collect()]
        entries += list_entries(counts, used["users"], conventions)
        check(entries)
        check_lists(counts, conventions.recommendation_duplicates)

        models = sorted(count["model"] for count in counts)
        population = populate(lists, by_user, models, conventions)
        if plan.segments:
            population = add_segments(
                population, plan.segments, segment_values, training.users, training.bounds
            )
        kept_columns = [quoted(name) for name in plan.segments]
        per_user = measure(population, plan.metrics, conventions, plan.truth_depth, kept_columns)
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
        sums = limb_sums(per_user, summed_columns(self.plan.metrics), self.plan.segments).collect()
        rows = metric_rows(map(Row.asDict, sums), self.models, self.plan.metrics, self.plan.stamp)
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
