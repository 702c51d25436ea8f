"""The plan ``workers``: the truth goes to all workers, which find the hits in batches of rows.

Nothing of the recommendations is shuffled but what is left of them: a fragment per list.
"""

import json
import shutil
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import Broadcast
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from spark_eval.batches.ids import Ids
from spark_eval.batches.lookup import Lookup
from spark_eval.batches.measuring import Measuring
from spark_eval.batches.meet import Meeting
from spark_eval.batches.order import MOST_CUTS
from spark_eval.batches.parcels import unpacked
from spark_eval.batches.rows import judged
from spark_eval.batches.segments import Segment, segments_of_columns, segments_of_train
from spark_eval.batches.sums import added
from spark_eval.batches.truth import Truth, count_rows, count_used, index_truth
from spark_eval.conventions import Checks, Ties
from spark_eval.ledger import check, list_entries, truth_entries
from spark_eval.metrics.values import summed
from spark_eval.names import check_models
from spark_eval.plan import Plan
from spark_eval.schema import FAULT, MODEL, RANK, USER, Outcome
from spark_eval.transforms.truth import judge
from spark_eval.transforms.workers import (
    MODELS,
    in_buckets,
    measure_parcels,
    send,
    send_files,
    tally_parcels,
)
from spark_eval.verbs.checks import check_lists, check_truth, empty_truth
from spark_eval.verbs.evaluation import Evaluation, Tables
from spark_eval.verbs.segments import Training, read_train, read_users

# Tables of up to so many rows go to the workers. Truth takes some 25 bytes a row, beside ids of text.
MOST_ROWS: Final = 6_000_000
# A bucket of users has about so many values in ``per_user``.
VALUES_PER_BUCKET: Final = 4_000_000
MOST_BUCKETS: Final = 2_000


class DoesNotFit(Exception):
    """What the plan takes for granted does not hold; the message says what."""


def obstacle(tables: Tables, plan: Plan) -> str | None:
    """Why this plan cannot be taken; None where it can."""
    has_scores = RANK not in tables.recommendations.columns
    if has_scores and plan.conventions.ties is Ties.HASH:
        return "ties=hash is computed by Spark"
    if has_scores and len(plan.cuts) > MOST_CUTS:
        return f"scored lists are cut at more than {MOST_CUTS} ranks"
    n_rows = tables.truth.count() if tables.truth_files is None else tables.truth_files.n_rows
    return f"truth has {n_rows} rows, more than {MOST_ROWS}" if n_rows > MOST_ROWS else None


def evaluate_by_workers(tables: Tables, plan: Plan, reason: str, folder: str | None) -> Evaluation:
    """Every input is read once.

    Raises DoesNotFit where something turns out on the way; nothing has been written then.
    """
    with ExitStack() as kept:
        users = read_users(tables.users, plan.segments, MOST_ROWS, kept)
        training = read_train(tables.train, plan.segments, MOST_ROWS, kept)
        truth, n_rows, truth_counts = read_truth(tables, plan)
        trained = None if training.items is None else look_up(training.items, truth.seed)
        cold = None if trained is None else trained.codes(Ids.of(truth.items, truth.seed)) < 0
        truth_counts.append(count_used(truth, n_rows, cold))
        entries = [*training.entries, *truth_entries(truth_counts)]

        meeting = meeting_of(tables, truth, trained, plan)
        measuring = Measuring(
            meeting,
            tuple((value.name, value.k) for value in plan.metrics),
            plan.conventions,
            plan.truth_depth,
            has_scores=RANK not in tables.recommendations.columns,
            cold=cold,
            segments=segments_of(users, training, plan, truth.seed),
        )
        parcels, everywhere, models = send_out(tables, measuring, kept)
        user = tables.truth.schema[USER].dataType
        tallies = tally_parcels(parcels, everywhere, models, user, folder).collect()
        if any(tally["n_split"] for tally in tallies):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
            raise DoesNotFit("lists to be ranked or checked as a whole do not lie together")
        counts = counts_of_models(tallies)
        entries += list_entries(counts, truth.n_users, plan.conventions)
        check(entries)
        check_lists(counts, plan.conventions.recommendation_duplicates)

        names = sorted(count[MODEL] for count in counts)
        per_user = measure_parcels(parcels, everywhere, names, user)
        if folder is not None:
            keep_files(folder, {tally["file"] for tally in tallies})
            per_user = per_user.sparkSession.read.schema(per_user.schema).parquet(folder)
        sums = sums_of_models(tallies, plan)
        return Evaluation(per_user, entries, names, plan, kept.pop_all(), reason, sums)


def read_truth(tables: Tables, plan: Plan) -> tuple[Truth, int, list[dict[str, Any]]]:
    """The relevant items, of how many rows, and counts of all other rows; DataError for truth without any."""
    if tables.truth_files is None:
        rows = judge(tables.truth, plan.conventions.threshold).toArrow()
    else:
        rows = judged(tables.truth_files.read(), plan.conventions)
    counts = count_rows(rows)
    sound = rows.filter(pc.is_null(rows[FAULT]))
    if not sound.num_rows:
        check(truth_entries(counts))
        raise empty_truth()
    truth = index_truth(sound, plan.conventions.truth_duplicates)
    whole = [*counts, count_used(truth, sound.num_rows, None)]
    check(truth_entries(whole))
    check_truth(whole, plan)
    return truth, sound.num_rows, counts


def look_up(items: DataFrame, seed: int) -> Lookup:
    """Distinct items, to be found by the workers."""
    [ids] = collected(items).columns
    return Lookup.of(ids.combine_chunks(), np.zeros(len(ids), dtype=np.int64), seed)


def segments_of(users: DataFrame | None, training: Training, plan: Plan, seed: int) -> dict[str, Segment]:
    """The segments that were asked for, in their order."""
    found: dict[str, Segment] = {}
    if users is not None:
        found |= segments_of_columns(collected(users), seed)
    if training.users is not None:
        found |= segments_of_train(collected(training.users), training.bounds, seed)
    return {name: found[name] for name in plan.segments}


def collected(frame: DataFrame) -> pa.Table:
    """The rows; raises DoesNotFit where there are too many."""
    n_rows = frame.count()
    if n_rows > MOST_ROWS:
        raise DoesNotFit(f"{n_rows} users or items of train and users are more than {MOST_ROWS}")
    return frame.toArrow()


def meeting_of(tables: Tables, truth: Truth, trained: Lookup | None, plan: Plan) -> Meeting:
    """How recommendations are reduced, for buckets of bounded size and at least one for each core."""
    cores = tables.recommendations.sparkSession.sparkContext.defaultParallelism
    n_buckets = max(cores, -(-truth.n_users * len(plan.columns) // VALUES_PER_BUCKET))
    return Meeting(
        truth,
        trained,
        plan.depth,
        tuple(plan.cuts),
        plan.conventions.ties,
        RANK not in tables.recommendations.columns or plan.checks is Checks.FULL,
        tables.model,
        min(n_buckets, MOST_BUCKETS, truth.n_users),
    )


def send_out(
    tables: Tables, measuring: Measuring, kept: ExitStack
) -> tuple[DataFrame, "Broadcast[Measuring]", list[str | None]]:
    """The parcels of the recommendations in their buckets, what to do with them, and the models."""
    frame = tables.recommendations
    spark = frame.sparkSession
    everywhere = spark.sparkContext.broadcast(measuring)
    kept.callback(everywhere.destroy)
    if tables.files is None:
        sent = send(frame, everywhere, tables.model)
    else:
        tasks = tables.files.tasks(spark.sparkContext.defaultParallelism)
        sent = send_files(spark, tasks, tables.files.columns, everywhere)
    parcels = in_buckets(sent, measuring.meeting.n_buckets).persist()
    kept.callback(parcels.unpersist)
    models: list[str | None] = [tables.model]
    if tables.model is None:
        models = [row[0] for row in parcels.select(F.explode(MODELS)).distinct().collect()]
        check_models([model for model in models if model is not None])
    return parcels, everywhere, models


def counts_of_models(tallies: Sequence[Row]) -> list[dict[str, Any]]:
    """The counts of each model that any row names, added up over the buckets."""
    totals: dict[str | None, Counter[str]] = {}
    for tally in tallies:
        totals.setdefault(tally[MODEL], Counter()).update(json.loads(tally["counts"]))
    return [{MODEL: model, **total} for model, total in totals.items() if total[f"{Outcome.IN}..rows"]]


def sums_of_models(tallies: Sequence[Row], plan: Plan) -> list[dict[str, Any]]:
    """Exact sums over users, as ``transforms.aggregate.limb_sums`` gives them."""
    names = list(summed(plan.metrics))
    parts: dict[str, list[pa.Table]] = {}
    for tally in tallies:
        parts.setdefault(tally[MODEL], []).append(unpacked(pa.py_buffer(tally["sums"])))
    return [{MODEL: model, **row} for model, tables in parts.items() for row in added(tables, names)]


def keep_files(folder: str, written: Collection[str]) -> None:
    """Remove what attempts of tasks have written that came to nothing."""
    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    for file in root.rglob("*.parquet"):
        if str(file.relative_to(root)) not in written:
            file.unlink()
