"""Ranking evaluation: recommendations and truth in, metrics and the ledger out, by one of two plans."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from spark_eval import journal
from spark_eval.conventions import Conventions, PhysicalPlan
from spark_eval.errors import ConfigError, each
from spark_eval.plan import DEFAULT_K, DEFAULT_METRICS, Plan, make_plan
from spark_eval.scan import plain_recommendations, plain_truth
from spark_eval.segments import check_segments, user_columns
from spark_eval.transforms.conform import (
    align_ids,
    check_id_types,
    conform_recommendations,
    conform_train,
    conform_truth,
    conform_users,
)
from spark_eval.verbs.by_fold import over_folds
from spark_eval.verbs.by_shuffle import evaluate_by_shuffle
from spark_eval.verbs.by_workers import DoesNotFit, evaluate_by_workers, obstacle
from spark_eval.verbs.evaluation import Evaluation, Tables
from spark_eval.verbs.frames import Frame, in_spark


@journal.telling("evaluate")
def evaluate(
    recommendations: Frame,
    truth: Frame,
    *,
    model: str | None = None,
    layout: str = "long",
    columns: Mapping[str, str] | None = None,
    truth_columns: Mapping[str, str] | None = None,
    timestamp_unit: str | None = None,
    timezone: str = "UTC",
    train: Frame | None = None,
    train_columns: Mapping[str, str] | None = None,
    users: Frame | None = None,
    users_columns: Mapping[str, str] | None = None,
    segments: Sequence[str] = (),
    metrics: Sequence[str] = DEFAULT_METRICS,
    k: Sequence[int | str] | int | str = DEFAULT_K,
    conventions: Conventions | str | Mapping[str, Any] = "default",
    threshold: float | None = None,
    no_recommendations: str | None = None,
    no_truth: str | None = None,
    checks: str = "hits",
    plan: str = "auto",
    folder: str | None = None,
) -> Evaluation:
    """Ranking metrics per user and in the mean, of one or many models, in one pass over the data.

    Frames are of Spark or pandas, or Arrow tables. ``recommendations`` hold user, item, score or rank, and
    model (or name the one model by ``model``); ``truth`` holds user, item and, if graded, relevance.
    ``columns``, ``truth_columns``, ``train_columns`` and ``users_columns`` map our names to yours. A metric
    may carry its own k and conventions: ``ndcg(gain=exp2)@10``; k may be ``all``.

    ``segments`` are columns of ``users`` (one row per user), or ``known`` and ``activity``, which follow from
    the training interactions ``train``; the means of their users stand beside those of all. With ``train``,
    the ledger tells the cold items apart, which have none.

    Where ``recommendations`` have a column ``fold``, ``truth`` and ``train`` must have one: all folds are
    measured in one pass, each by itself, and their mean and standard deviation stand beside them.

    ``plan`` chooses how Spark goes about it; the numbers are the same. With
    ``folder``, a new one, ``per_user`` is written there as Parquet on the way.

    Raises ConfigError or DataError; the ledger is closed before any number is given out.
    """
    chosen = make_plan(
        metrics, k, conventions, threshold, no_recommendations, no_truth, checks, segments, plan
    )
    check_segments(chosen.segments, chosen.columns, train is not None, users is not None)
    if not user_columns(chosen.segments):
        users = None
    frames = in_spark({"recommendations": recommendations, "truth": truth, "train": train, "users": users})
    lists, relevant = frames["recommendations"], frames["truth"]
    conforming: dict[str, Callable[[], DataFrame]] = {
        "recommendations": lambda: conform_recommendations(lists, columns, model, layout),
        "truth": lambda: conform_truth(relevant, truth_columns, timestamp_unit, timezone, chosen.conventions),
        "train": lambda: conform_train(frames["train"], train_columns),
        "users": lambda: conform_users(frames["users"], users_columns, chosen.segments),
    }
    tables = Tables(
        **each({name: conforming[name] for name in frames}),
        model=model,
        files=plain_recommendations(lists, columns or {}, model, layout),
        truth_files=plain_truth(relevant, truth_columns or {}, chosen.conventions),
        most_quarantined={},
    )
    return measure_lists(tables, chosen, folder)


def measure_lists(tables: Tables, plan: Plan, folder: str | None = None) -> Evaluation:
    """The data path, by one of its plans; with ``folder``, ``per_user`` is written below it on the way.

    Raises ConfigError PLAN_IMPOSSIBLE where a plan is asked for that cannot be taken.
    """
    check_id_types(tables.given())
    recommendations, truth = align_ids(tables.recommendations, tables.truth)
    tables, plan = over_folds(replace(tables, recommendations=recommendations, truth=truth), plan)
    why_not = "plan=shuffle is asked for" if plan.physical is PhysicalPlan.SHUFFLE else obstacle(tables, plan)
    if why_not is None:
        how = "through Spark" if tables.files is None else "as plain Parquet files"
        reason = told(PhysicalPlan.WORKERS, f"recommendations are read {how}")
        try:
            return evaluate_by_workers(tables, plan, reason, folder)
        except DoesNotFit as fault:
            why_not = str(fault)
    if plan.physical is PhysicalPlan.WORKERS:
        raise ConfigError("PLAN_IMPOSSIBLE", f"evaluate.plan: workers cannot be taken: {why_not}; use auto")
    return evaluate_by_shuffle(tables, plan, told(PhysicalPlan.SHUFFLE, why_not), folder)


def told(physical: PhysicalPlan, why: str) -> str:
    """The choice with its reason, as it is logged and kept in the commit record."""
    journal.say("plan", f"plan {physical}: {why}", plan=physical.value)
    return f"{physical}: {why}"
