"""Ranking evaluation: recommendations and truth in, metrics and the accounting of every row out."""

import pickle
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial, reduce
from typing import Any, Unpack

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_eval.accounting import Entry, added_counts, list_entries, rows_in, table_entries
from spark_eval.arrow.files import keep_files
from spark_eval.engine.items.counts import group_rows, run_rows
from spark_eval.engine.items.facts import ItemFacts
from spark_eval.engine.means import added
from spark_eval.engine.replicates import Bootstrap
from spark_eval.engine.segments import check_segments, user_columns
from spark_eval.engine.summary import Ends, MeanKey, population, sum_rows
from spark_eval.errors import ConfigError, each
from spark_eval.metrics.options import EvaluateOptions, MeanInterval, Plan, make_plan
from spark_eval.metrics.stages import check_stage_models
from spark_eval.names import literal
from spark_eval.options import documented
from spark_eval.pairing.drawing import DrawnSums
from spark_eval.pairing.population import CANDIDATE
from spark_eval.pipeline.rows import StageSums
from spark_eval.runtime import events
from spark_eval.runtime.any_session import is_remote
from spark_eval.schema import FAULT, MODEL, USER, Outcome
from spark_eval.transforms.conform import Described, align_ids, check_id_types, conform_table
from spark_eval.transforms.exchange import SUMMARY, BucketSummary, exchanged, histograms_of, measure
from spark_eval.transforms.pairs import drawn_pairs, largest_amounts
from spark_eval.transforms.plain_files import takes_files
from spark_eval.verbs.checks import check_folds, check_tables, fold_faults, train_fold_faults, truth_faults
from spark_eval.verbs.evaluation import Evaluation, Tables, read_back
from spark_eval.verbs.frames import Frame, in_spark
from spark_eval.verbs.segments import Training, facts_of_items, read_about
from spark_eval.verbs.sides import buckets_of_sides, side_of
from spark_eval.verbs.small import collected, collected_or_raised
from spark_eval.verbs.workers import buckets_for, messages_of, per_user_schema, question_of


@events.telling("evaluate")
@documented(EvaluateOptions)
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
    items: Frame | None = None,
    items_columns: Mapping[str, str] | None = None,
    folder: str | None = None,
    **options: Unpack[EvaluateOptions],
) -> Evaluation:
    """Measure ranking metrics per user and in the mean, of one or many models, in one pass over the data.

    Frames are of Spark or pandas, or Arrow tables. ``recommendations`` hold user, item, score or rank, and
    model (or name the one model by ``model``); ``truth`` holds user, item and, if graded, relevance.
    ``columns``, ``truth_columns``, ``train_columns``, ``users_columns`` and ``items_columns`` map our names
    to yours.

    ``segments`` are columns of ``users`` (one row per user), or ``known`` and ``activity``, which follow from
    the training interactions ``train``; the means of their users stand beside those of all. With ``train``,
    the accounting tells the cold items apart, which have none.

    ``items`` has one row per item of the catalogue: ``groups`` (an array of text, or text divided by |),
    ``features`` (an array of text or integers; by default the groups), ``vector`` (an array of numbers, or a
    map of int to double). Only columns that a chosen metric needs are read. Metrics of popularity need
    ``train``, those of unexpectedness a model's name as ``base``.

    Where ``recommendations`` have a column ``fold``, ``truth`` and ``train`` must have one: all folds are
    measured in one pass, each by itself, and their mean and standard deviation stand beside them.

    ``stages`` of a recommender, whose models are among these, tell where along it users and relevant items
    are lost: tables ``stages`` and ``funnel`` of the result.

    With ``folder``, a new one, ``per_user`` is written there as Parquet on the way.

    Raises ConfigError or DataError; every row is accounted for before any number is given out.
    """
    plan = make_plan(**options)
    if model is not None:
        check_stage_models(plan.stages, [model])
    check_segments(plan.segments, plan.columns, train is not None, users is not None)
    plan.check_tables(has_train=train is not None, has_items=items is not None)
    users = users if user_columns(plan.segments) else None
    items = items if plan.needs_items else None
    given = {"recommendations": recommendations, "truth": truth, "train": train, "users": users}
    frames = in_spark(given | {"items": items})
    described = {
        "recommendations": Described(columns, model, layout),
        "truth": Described(truth_columns, timestamp_unit=timestamp_unit),
        "train": Described(train_columns),
        "users": Described(users_columns),
        "items": Described(items_columns),
    }
    conformed = each(
        {
            name: partial(conform_table, frame, name, described[name], timezone, plan)
            for name, frame in frames.items()
        }
    )
    tables = Tables.of({name: (frames[name], conformed[name]) for name in frames}, described, plan, {})
    return measure_lists(tables, plan, folder)


def measure_lists(tables: Tables, plan: Plan, folder: str | None = None) -> Evaluation:
    """Take the data path: conformed tables, one exchange by bucket of users, measured buckets, checks.

    With ``folder``, ``per_user`` is written below it on the way. One DataError tells all that is wrong with
    all tables.
    """
    check_id_types(tables.given())
    recommendations, truth = align_ids(tables.recommendations, tables.truth)
    tables = replace(tables, recommendations=recommendations, truth=truth)
    tables, plan = check_folds(tables, plan)
    with ExitStack() as held:
        training = read_about(tables, plan, held)
        facts, tables = facts_of_items(tables, training, plan)
        question = question_of(tables, plan, training.bounds, facts)
        n_buckets, n_tasks = buckets_for(tables)
        messages = exchanged(messages_of(tables, plan, n_buckets, n_tasks), n_tasks)
        schema = per_user_schema(tables, plan)
        # The folders of a remote session are those of its server.
        in_place = folder if folder and takes_files(folder) and not is_remote(messages) else None
        rows = measure(messages, question, n_buckets, schema, in_place)
        if in_place is None or plan.of_run:
            held.callback(rows.persist().unpersist)
        summaries = [pickle.loads(row[SUMMARY]) for row in rows.where(F.col(SUMMARY).isNotNull()).collect()]
        entries, models = checked_entries_of(tables, plan, training, facts, summaries)
        check_stage_models(plan.stages, models)
        of_models = [one for summary in summaries for one in summary.models]
        if in_place is None:
            of_users = rows.where(F.col(USER).isNotNull()).select(*schema.fieldNames())
            per_user = read_back(of_users, folder)
        else:
            keep_files(in_place, {one.file for one in of_models if one.file})
            per_user = tables.truth.sparkSession.read.schema(schema).parquet(literal(in_place))
        totals = added([summary.sums for summary in summaries], list(plan.summed))
        sums = sum_rows(totals, models, plan.metrics, plan.stamp)
        run = []
        if plan.of_run:
            histograms = collected(histograms_of(rows, n_buckets))
            run = run_rows(plan, histograms, question.known_items, totals, models)
        keys = sum(one.keys for one in of_models)
        run += group_rows(
            plan, [summary.groups for summary in summaries], question.known_items, totals, models
        )
        digest = str(sum(summary.truth_digest for summary in summaries) % 2**64)
        staged = [summary.stages for summary in summaries if summary.stages is not None]
        stages = StageSums(staged, plan) if plan.stages else None
        n_users = population(totals, models)
        of_tables = (per_user, entries, models, plan, held, sums, keys, digest)
        found = Evaluation(*of_tables, n_users, run, in_place, stages)
        is_drawn = plan.interval is MeanInterval.BOOTSTRAP
        return replace(found, intervals=bootstrapped(found) if is_drawn else None, held=held.pop_all())


def bootstrapped(evaluation: Evaluation) -> Mapping[MeanKey, Ends]:
    """Return the interval of each mean by a second pass over ``per_user``; see ``engine.replicates``."""
    cells = list(dict.fromkeys((row.segment, row.segment_value) for row in evaluation.sum_rows))
    bootstrap = Bootstrap(evaluation.plan, evaluation.models, cells)
    has_text_ids = isinstance(evaluation.per_user.schema[USER].dataType, T.StringType)
    question = bootstrap.question(has_text_ids=has_text_ids)
    with ExitStack() as held:
        buckets = buckets_of_sides(side_of(evaluation, None, CANDIDATE), None, question)
        if buckets.is_sent:
            held.callback(buckets.frame.persist().unpersist)
        unbounded = bootstrap.unbounded
        largest = collected_or_raised(largest_amounts(buckets, unbounded)) if unbounded else []
        drawing = bootstrap.drawing(largest)
        parts = collected_or_raised(drawn_pairs(buckets, drawing))
        return bootstrap.intervals(drawing, reduce(DrawnSums.plus, parts, drawing.zero()))


def checked_entries_of(
    tables: Tables,
    plan: Plan,
    training: Training,
    facts: ItemFacts | None,
    summaries: Sequence[BucketSummary],
) -> tuple[list[Entry], list[str]]:
    """Return the entries of the accounting and the models; one DataError tells all that is wrong.

    Raises ConfigError UNKNOWN_MODEL for a base that no recommendations are of.
    """
    counts = counts_of_truth(summaries)
    entries = [*training.entries, *table_entries("truth", counts)]
    used, of_truth = truth_faults(entries, counts, plan)
    of_folds = fold_faults(summaries) if plan.by_fold and not of_truth else []
    if facts is not None and facts.folds is not None and plan.needs_items:
        of_folds += train_fold_faults(summaries, facts.folds.tolist())
    of_lists = counts_of_models(summaries)
    entries += list_entries(of_lists, used["users"], plan.conventions)
    events.stage("measure", rows_in(entries, "truth") + rows_in(entries, "recommendations"), then="metrics")
    check_tables(tables, entries, of_lists, plan, [*of_truth, *of_folds])
    models = sorted(count[MODEL] for count in of_lists)
    if plan.base is not None and plan.base not in models:
        raise ConfigError.unknown("UNKNOWN_MODEL", "model", plan.base, models, "evaluate.base")
    return entries, models


def counts_of_truth(summaries: Sequence[BucketSummary]) -> list[dict[str, Any]]:
    """Return the counts of the truth over all buckets: everything first, then by fault; none of no rows."""
    counts = added_counts((count for one in summaries for count in one.truth), ("everything", FAULT))
    counts = [count for count in counts if count["rows"] or count["everything"]]
    return sorted(counts, key=lambda count: (not count["everything"], count[FAULT] or ""))


def counts_of_models(summaries: Sequence[BucketSummary]) -> list[dict[str, Any]]:
    """Return the counts of each model that any row names, over all buckets."""
    parts = ({MODEL: one.model, **one.counts} for summary in summaries for one in summary.models)
    return [count for count in added_counts(parts, (MODEL,)) if count[f"{Outcome.IN}..rows"]]
