"""The plan ``workers``: tables go to the workers in batches of rows, and what is left of them to buckets.

First the truth, whole, in buckets of users, which give a sieve of all relevant pairs. Then the
recommendations, of which only a fragment per list, with what passes the sieve, is shuffled.
"""

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
from pyspark import RDD, Broadcast
from pyspark.sql import DataFrame

from spark_eval import journal
from spark_eval.batches.files import keep_files
from spark_eval.batches.judging import Judging
from spark_eval.batches.lookup import Lookup
from spark_eval.batches.measuring import Measuring
from spark_eval.batches.meet import Meeting
from spark_eval.batches.order import MOST_CUTS
from spark_eval.batches.parcels import Kind, unpacked
from spark_eval.batches.segments import Segmenting
from spark_eval.batches.sieve import Sieve, slice_bits_for
from spark_eval.batches.truth import added_counts
from spark_eval.connect import is_remote
from spark_eval.conventions import Checks, Ties
from spark_eval.ledger import check, list_entries, rows_in, truth_entries
from spark_eval.metrics.values import summed
from spark_eval.names import literal, model_faults
from spark_eval.plan import Plan
from spark_eval.scan import takes_files
from spark_eval.schema import ITEM, MODEL, RANK, SCORE, USER, Outcome
from spark_eval.transforms.workers import (
    Sent,
    Tally,
    distinct_parcels,
    id_type,
    in_buckets,
    measure_parcels,
    models_of,
    send,
    tally_parcels,
)
from spark_eval.verbs.checks import check_tables, truth_faults
from spark_eval.verbs.evaluation import Evaluation, Tables, sums_of_models, written
from spark_eval.verbs.kept import keep
from spark_eval.verbs.segments import Training, read_about

# Items with training interactions, of which every worker has the list, at some 25 bytes, beside ids of text.
MOST_ITEMS: Final = 2_000_000
# What a bucket of users has about: rows of truth and users, values in ``per_user``, recommendations.
ROWS_PER_BUCKET: Final = 500_000
VALUES_PER_BUCKET: Final = 4_000_000
LIST_ROWS_PER_BUCKET: Final = 20_000_000
# What a bucket may have of the truth, at some 160 bytes a row: a single user may have more.
MOST_ROWS: Final = 1_000_000
# Less is not worth a task of its own.
LEAST_ROWS: Final = 10_000
MOST_BUCKETS: Final = 2_000


Value = TypeVar("Value")


class DoesNotFit(Exception):
    """What the plan takes for granted does not hold; the message says what."""


def obstacle(tables: Tables, plan: Plan) -> str | None:
    """Why this plan cannot be taken; None where it can."""
    if plan.by_fold:
        return "ids carry their folds"
    if is_remote(tables.truth):
        return "a Spark Connect session has no RDDs"
    has_scores = RANK not in tables.recommendations.columns
    if has_scores and plan.conventions.ties is Ties.HASH:
        return "ties=hash is computed by Spark"
    if has_scores and len(plan.cuts) > MOST_CUTS:
        return f"scored lists are cut at more than {MOST_CUTS} ranks"
    return None


def evaluate_by_workers(tables: Tables, plan: Plan, reason: str, folder: str | None) -> Evaluation:
    """Every input is read once; one DataError tells all that is wrong with truth and lists.

    Raises DoesNotFit where something turns out on the way; nothing has been written then.
    """
    with ExitStack() as kept:
        users, training = read_about(tables, plan.segments, 0, kept)
        about = {Kind.SEGMENTS: users, Kind.TRAINED: training.users}
        about_users = {kind: frame for kind, frame in about.items() if frame is not None}
        judging = judging_of(tables, training, sum(frame.count() for frame in about_users.values()), plan)
        truth, counts, sieve = judge_truth(tables, judging, kept)
        entries = [*training.entries, *truth_entries(counts)]
        used, of_truth = truth_faults(entries, counts, plan)
        if of_truth and used["users"]:
            check(entries, of_truth)  # no gain of such relevances can be computed
        journal.stage("truth", rows_in(entries, "truth"), then="lists")

        measuring = measuring_of(tables, judging, sieve, Segmenting(plan.segments, training.bounds), plan)
        sent = [truth, *send_users(about_users, measuring.segmenting, judging.n_buckets)]
        files_in = folder if folder is not None and takes_files(folder) else None
        parcels, everywhere, models = send_lists(
            tables, measuring, sent, kept, is_read_again=files_in is None
        )
        if model_faults([model for model in models if model is not None]):
            files_in = None  # names that are no folders are refused with what else is wrong
        user = tables.truth.schema[USER].dataType
        tallies = tally_parcels(parcels, everywhere, models, user, files_in).collect()
        if any(tally.n_split for tally in tallies):
            if files_in is not None:
                shutil.rmtree(files_in, ignore_errors=True)
            raise DoesNotFit("lists to be ranked or checked as a whole do not lie together")
        counts = counts_of_models(tallies)
        entries += list_entries(counts, used["users"], plan.conventions)
        check_tables(tables, entries, counts, plan, of_truth)
        journal.stage("lists", rows_in(entries, "recommendations"), then="metrics")

        names = sorted(count[MODEL] for count in counts)
        spark = tables.truth.sparkSession
        per_user = measure_parcels(parcels, everywhere, names, user, plan.segments, spark)
        keys = None
        if files_in is not None:
            keys = sum(tally.keys for tally in tallies)
            keep_files(files_in, {tally.file for tally in tallies if tally.file})
            per_user = spark.read.schema(per_user.schema).parquet(literal(files_in))
        elif folder is not None:
            per_user, keys = written(per_user, folder)
        sums = sums_of_models(sums_of_tallies(tallies), list(summed(plan.metrics)))
        return Evaluation(per_user, entries, names, plan, kept.pop_all(), reason, sums, keys)


def judging_of(tables: Tables, training: Training, n_users: int, plan: Plan) -> Judging:
    """How the truth is judged, beside tables that tell of so many users in all."""
    n_truth = tables.truth.count() if tables.truth_files is None else tables.truth_files.n_rows
    n_buckets = buckets_for(tables, plan, n_truth + n_users)
    return Judging(
        user=id_type(tables.truth, USER),
        item=id_type(tables.truth, ITEM),
        n_buckets=n_buckets,
        slice_bits=slice_bits_for(n_truth, n_buckets),
        conventions=plan.conventions,
        trained=None if training.items is None else look_up(training.items),
    )


def judge_truth(
    tables: Tables, judging: Judging, kept: ExitStack
) -> tuple[RDD[Sent], list[dict[str, Any]], Sieve]:
    """The parcels of the truth, each relevant pair once; counts of its rows; what lets these pairs pass."""
    everywhere = broadcast(tables, judging, kept)
    parcels = send(tables.truth, tables.truth_files, lambda rows: everywhere.value.parcels(rows))
    buckets = in_buckets([parcels], judging.n_buckets)
    judged = keep(distinct_parcels(buckets, everywhere, MOST_ROWS), kept)
    found = judged.map(lambda bucket: replace(bucket, sent=())).collect()
    largest = max((bucket.n_rows for bucket in found), default=0)
    if largest > MOST_ROWS:
        raise DoesNotFit(f"{largest} rows of the truth go to one bucket of users, more than {MOST_ROWS}")
    counts = added_counts(count for bucket in found for count in bucket.counts)
    slices = {bucket.bucket: bucket.slice for bucket in found}
    sieve = Sieve.of(slices, judging.n_buckets, judging.slice_bits)
    return judged.flatMap(lambda bucket: bucket.sent), counts, sieve


def send_users(
    about_users: Mapping[Kind, DataFrame], segmenting: Segmenting, n_buckets: int
) -> Iterator[RDD[Sent]]:
    """The parcels of tables about users."""
    for kind, frame in about_users.items():
        yield send(frame, None, partial(segmenting.parcels, kind=kind, n_buckets=n_buckets))


def buckets_for(tables: Tables, plan: Plan, n_rows: int) -> int:
    """How many buckets of bounded size: for so many rows of truth and users, and for the lists."""
    n_lists = 0 if tables.files is None else tables.files.n_rows
    wanted = max(
        n_rows // ROWS_PER_BUCKET,
        n_rows * len(plan.columns) // VALUES_PER_BUCKET,
        n_lists // LIST_ROWS_PER_BUCKET,
    )
    cores = tables.truth.sparkSession.sparkContext.defaultParallelism
    return min(max(wanted, min(2 * cores, n_rows // LEAST_ROWS), 1), MOST_BUCKETS)


def look_up(items: DataFrame) -> Lookup:
    """Distinct items, to be found by the workers; raises DoesNotFit where there are too many."""
    n_rows = items.count()
    if n_rows > MOST_ITEMS:
        raise DoesNotFit(f"train has {n_rows} items, more than {MOST_ITEMS}")
    [ids] = items.toArrow().columns
    return Lookup.of(ids.combine_chunks(), np.zeros(len(ids), dtype=np.int64))


def measuring_of(
    tables: Tables, judging: Judging, sieve: Sieve, segmenting: Segmenting, plan: Plan
) -> Measuring:
    """What the workers do with lists."""
    has_scores = RANK not in tables.recommendations.columns
    meeting = Meeting(
        sieve,
        judging.trained,
        plan.depth,
        tuple(plan.cuts),
        plan.conventions.ties,
        has_scores or plan.checks is Checks.FULL,
        tables.model,
        None if has_scores else plan.held_cuts,
    )
    metrics = tuple((value.name, value.k) for value in plan.metrics)
    return Measuring(
        judging.user,
        judging.item,
        meeting,
        segmenting,
        metrics,
        plan.conventions,
        plan.truth_depth,
        has_scores,
    )


def send_lists(
    tables: Tables,
    measuring: Measuring,
    others: Sequence[RDD[Sent]],
    kept: ExitStack,
    *,
    is_read_again: bool,
) -> tuple[RDD[Sent], "Broadcast[Measuring]", list[str | None]]:
    """The parcels of recommendations and ``others`` in their buckets, what to do with them, the models."""
    everywhere = broadcast(tables, measuring, kept)
    names = [name for name in (USER, ITEM, RANK, SCORE) if name in tables.recommendations.columns]
    frame = tables.recommendations.select(*names, *([] if tables.model is not None else [MODEL]))
    lists = send(frame, tables.files, lambda rows: everywhere.value.meeting.parcels(rows))
    parcels = in_buckets([*others, lists], measuring.meeting.sieve.n_buckets)
    if is_read_again or tables.model is None:
        parcels = keep(parcels, kept)
    models: list[str | None] = [tables.model]
    if tables.model is None:
        models = sorted(set(models_of(parcels).collect()), key=lambda name: name or "")
    return parcels, everywhere, models


def broadcast(tables: Tables, value: Value, kept: ExitStack) -> "Broadcast[Value]":
    """A value for all workers, until the evaluation ends."""
    everywhere = tables.truth.sparkSession.sparkContext.broadcast(value)
    kept.callback(everywhere.destroy)
    return everywhere


def counts_of_models(tallies: Sequence[Tally]) -> list[dict[str, Any]]:
    """The counts of each model that any row names, added up over the buckets; of ``largest`` the largest."""
    totals: dict[str | None, Counter[str]] = {}
    for tally in tallies:
        total = totals.setdefault(tally.model, Counter())
        largest = max(total[Outcome.LARGEST], tally.counts[Outcome.LARGEST])
        total.update(tally.counts)
        total[Outcome.LARGEST] = largest
    return [{MODEL: model, **total} for model, total in totals.items() if total[f"{Outcome.IN}..rows"]]


def sums_of_tallies(tallies: Sequence[Tally]) -> dict[str | None, list[pa.Table]]:
    """The sums of each model's users, bucket by bucket."""
    parts: dict[str | None, list[pa.Table]] = {}
    for tally in tallies:
        parts.setdefault(tally.model, []).append(unpacked(pa.py_buffer(tally.sums)))
    return parts
