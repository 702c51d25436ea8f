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

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import Broadcast
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from spark_eval.batches.measuring import Measuring
from spark_eval.batches.meet import Meeting
from spark_eval.batches.order import MOST_CUTS
from spark_eval.batches.parcels import unpacked
from spark_eval.batches.sums import added
from spark_eval.batches.truth import Truth, count_rows, count_used, index_truth
from spark_eval.conventions import Checks, Ties
from spark_eval.ledger import Entry, check, list_entries, truth_entries
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
from spark_eval.verbs.checks import check_lists, check_truth
from spark_eval.verbs.evaluation import Evaluation, Tables

# Truth of up to so many rows goes to the workers: some 25 bytes a row, and the ids where they are text.
MOST_TRUTH_ROWS: Final = 6_000_000
# A bucket of users has about so many values in ``per_user``.
VALUES_PER_BUCKET: Final = 4_000_000
MOST_BUCKETS: Final = 2_000


class ListsSplit(Exception):
    """Lists that must be looked at as a whole do not lie together."""


def needs_whole(tables: Tables, plan: Plan) -> bool:
    """Whether lists must be looked at as a whole."""
    return RANK not in tables.recommendations.columns or plan.checks is Checks.FULL


def obstacle(tables: Tables, plan: Plan) -> str | None:
    """Why this plan cannot be taken; None where it can."""
    has_scores = RANK not in tables.recommendations.columns
    reasons = {
        "ties=hash is computed by Spark": has_scores and plan.conventions.ties is Ties.HASH,
        f"more than {MOST_CUTS} cutoffs of scored lists": has_scores and len(plan.cuts) > MOST_CUTS,
        "segments": bool(plan.segments),
        "cold items are told by a join with train": tables.train is not None,
    }
    for reason, holds in reasons.items():
        if holds:
            return reason
    n_rows = tables.truth.count()
    return f"truth has {n_rows} rows, more than {MOST_TRUTH_ROWS}" if n_rows > MOST_TRUTH_ROWS else None


def evaluate_by_workers(tables: Tables, plan: Plan, reason: str, folder: str | None) -> Evaluation:
    """Recommendations and truth are read once each.

    Raises ListsSplit where lists that must be seen as a whole lie apart; nothing has been written then.
    """
    with ExitStack() as kept:
        truth, entries = read_truth(tables.truth, plan)
        parcels, measuring, models = meet(tables, truth, plan, kept)
        user = tables.truth.schema[USER].dataType
        tallies = tally_parcels(parcels, measuring, models, user, folder).collect()
        if any(tally["n_split"] for tally in tallies):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
            raise ListsSplit
        counts = counts_of_models(tallies)
        entries += list_entries(counts, truth.n_users, plan.conventions)
        check(entries)
        check_lists(counts, plan.conventions.recommendation_duplicates)

        names = sorted(count[MODEL] for count in counts)
        per_user = measure_parcels(parcels, measuring, names, user)
        if folder is not None:
            keep_files(folder, {tally["file"] for tally in tallies})
            per_user = per_user.sparkSession.read.schema(per_user.schema).parquet(folder)
        sums = sums_of_models(tallies, plan)
        return Evaluation(per_user, entries, names, plan, kept.pop_all(), reason, sums)


def read_truth(frame: DataFrame, plan: Plan) -> tuple[Truth, list[Entry]]:
    """The relevant items, and what became of the other rows."""
    conventions = plan.conventions
    rows = judge(frame, conventions.threshold).toArrow()
    counts = count_rows(rows)
    sound = rows.filter(pc.is_null(rows[FAULT]))
    truth = index_truth(sound, conventions.truth_duplicates) if sound.num_rows else None
    if truth is not None:
        counts.append(count_used(truth, sound.num_rows))
    entries = truth_entries(counts)
    check(entries)
    check_truth(counts, plan)
    assert truth is not None  # an empty one is refused
    return truth, entries


def meet(
    tables: Tables, truth: Truth, plan: Plan, kept: ExitStack
) -> tuple[DataFrame, "Broadcast[Measuring]", list[str | None]]:
    """The parcels of the recommendations in their buckets, what to do with them, and the models."""
    frame = tables.recommendations
    spark = frame.sparkSession
    context = spark.sparkContext
    n_values = truth.n_users * len(plan.columns)
    n_buckets = min(MOST_BUCKETS, max(context.defaultParallelism, -(-n_values // VALUES_PER_BUCKET)))
    meeting = Meeting(
        truth,
        plan.depth,
        tuple(plan.cuts),
        plan.conventions.ties,
        needs_whole(tables, plan),
        tables.model,
        min(n_buckets, truth.n_users),
    )
    measuring = Measuring(
        meeting,
        tuple((value.name, value.k) for value in plan.metrics),
        plan.conventions,
        plan.truth_depth,
        has_scores=RANK not in frame.columns,
    )
    everywhere = context.broadcast(measuring)
    kept.callback(everywhere.destroy)
    if tables.files is None:
        sent = send(frame, everywhere, tables.model)
    else:
        tasks = tables.files.tasks(context.defaultParallelism)
        sent = send_files(spark, tasks, tables.files.columns, everywhere)
    parcels = in_buckets(sent, meeting.n_buckets).persist()
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
