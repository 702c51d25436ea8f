"""Evaluation by the one exchange."""

import pickle
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from spark_eval import journal
from spark_eval.batches.files import keep_files
from spark_eval.batches.sums import added
from spark_eval.conventions import Checks, Gain
from spark_eval.engine.measure import Question
from spark_eval.engine.messages import Kind
from spark_eval.engine.send import ListSender, TruthSender, UserSender
from spark_eval.ledger import check, list_entries, rows_in, truth_entries
from spark_eval.metrics.values import summed
from spark_eval.plan import Plan
from spark_eval.schema import (
    FAULT, FOLD, ITEM, MODEL, N_RECOMMENDED, N_RELEVANT, RANK, RELEVANCE, SCORE, TIMESTAMP, USER, Outcome,
)
from spark_eval.transforms.exchange import SUMMARY, exchanged, measure, send
from spark_eval.verbs.checks import check_tables, truth_faults
from spark_eval.verbs.evaluation import Evaluation, Tables
from spark_eval.verbs.segments import read_about

ROWS_PER_BUCKET: Final = 500_000
VALUES_PER_BUCKET: Final = 4_000_000


def evaluate_by_engine(tables: Tables, plan: Plan, reason: str, folder: str) -> Evaluation:
    with ExitStack() as kept:
        users, training, faults = read_about(tables, plan.segments, 0, kept)
        plan = replace(plan, segments=()) if faults else plan
        spark = tables.truth.sparkSession
        cores = spark.sparkContext.defaultParallelism
        n_lists = tables.files.n_rows if tables.files is not None else 10_000_000
        n_truth = tables.truth_files.n_rows if tables.truth_files is not None else 1_000_000
        n_buckets = max(n_lists // ROWS_PER_BUCKET, n_truth * len(plan.columns) // VALUES_PER_BUCKET, 1)
        if n_lists > 50_000:
            n_buckets = max(n_buckets, 2 * cores)
        n_tasks = min(n_buckets, 2 * cores)
        question = question_of(tables, plan, training)
        lists = [name for name in (USER, ITEM, RANK, SCORE, FOLD) if name in tables.recommendations.columns]
        frame = tables.recommendations.select(*lists, *([] if tables.model is not None else [MODEL]))
        truth = tables.truth.drop(FAULT)
        sent = [
            send(frame, tables.files, ListSender(n_buckets, tables.model is None), cores),
            send(truth, tables.truth_files, TruthSender(n_buckets, plan.conventions), cores),
        ]
        if users is not None:
            sent.append(send(users, None, UserSender(n_buckets, Kind.SEGMENTS), cores))
        if training.users is not None:
            sent.append(send(training.users, None, UserSender(n_buckets, Kind.TRAINED), cores))
        found = measure(exchanged(sent, n_tasks), question, folder).collect()
        summaries = [pickle.loads(row[0]) for row in found]
        counts = added_counts([count for truth, _ in summaries for count in truth])
        entries = [*training.entries, *truth_entries(counts)]
        used, of_truth = truth_faults(entries, counts, plan)
        of_models = [one for _, models in summaries for one in models]
        list_counts = counts_of_models(of_models)
        entries += list_entries(list_counts, used["users"], plan.conventions)
        check_tables(tables, entries, list_counts, plan, [*faults, *of_truth])
        journal.stage("lists", rows_in(entries, "recommendations"), then="metrics")
        names = sorted(count[MODEL] for count in list_counts)
        keep_files(folder, {one.file for one in of_models if one.file})
        per_user = spark.read.schema(per_user_schema(tables, plan)).parquet(folder)
        sums = sums_of_models(of_models, plan)
        return Evaluation(per_user, entries, names, plan, kept.pop_all(), reason, sums, sum(one.keys for one in of_models))


def per_user_schema(tables, plan):
    user = tables.truth.schema[USER].dataType
    return T.StructType(
        [
            T.StructField(MODEL, T.StringType()),
            T.StructField(USER, user),
            *(T.StructField(name, T.LongType()) for name in (N_RELEVANT, N_RECOMMENDED)),
            *(T.StructField(name, T.StringType()) for name in plan.segments),
            *(T.StructField(name, T.DoubleType()) for name in plan.columns),
        ]
    )


def question_of(tables: Tables, plan: Plan, training: Any) -> Question:
    has_scores = RANK not in tables.recommendations.columns

    def kind(name: str) -> pa.DataType:
        return pa.string() if isinstance(tables.truth.schema[name].dataType, T.StringType) else pa.int64()

    return Question(
        kind(USER),
        kind(ITEM),
        tuple((value.name, value.k) for value in plan.metrics),
        plan.conventions,
        tables.model,
        has_scores,
        FOLD in tables.recommendations.columns,
        has_scores or plan.checks is Checks.FULL,
        plan.sees_ties,
        tuple(plan.cuts),
        plan.depth,
        plan.truth_depth,
        None,
        tuple(plan.segments),
        training.bounds,
        None,
    )


def added_counts(parts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    totals: dict[tuple[bool, str], dict[str, Any]] = {}
    for part in parts:
        part = {"everything": False, "distinct": None, **part}
        key = (not part["everything"], part[FAULT] or "")
        total = totals.setdefault(key, dict.fromkeys(part))
        for name, number in part.items():
            one = total[name]
            if one is None or number is None or name in (FAULT, "everything"):
                total[name] = number if one is None else one
            else:
                total[name] = max(one, number) if name in ("max_relevance", Outcome.LARGEST) else one + number
    return [total for key, total in sorted(totals.items()) if total["rows"] or total["everything"]]


def counts_of_models(tallies) -> list[dict[str, Any]]:
    totals: dict[str | None, Counter[str]] = {}
    for tally in tallies:
        total = totals.setdefault(tally.model, Counter())
        largest = max(total[Outcome.LARGEST], tally.counts[Outcome.LARGEST])
        total.update(tally.counts)
        total[Outcome.LARGEST] = largest
    return [{MODEL: model, **total} for model, total in totals.items() if total[f"{Outcome.IN}..rows"]]


def sums_of_models(tallies, plan: Plan) -> list[dict[str, Any]]:
    names = list(summed(plan.metrics))
    parts: dict[str | None, list[pa.Table]] = {}
    for tally in tallies:
        parts.setdefault(tally.model, []).append(tally.sums)
    return [{MODEL: model, **row} for model, tables in parts.items() for row in added(tables, names)]
