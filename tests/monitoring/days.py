"""Days published without Spark, from the users' values; and what one job over all of them would publish."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_eval.accounting import ACCOUNTING, Entry
from spark_eval.arrow.user_files import file_name
from spark_eval.evaluation.plan import Plan, RequestTruth, make_plan
from spark_eval.evaluation.summary import METRICS, SUMS, SumRow, metric_rows, request_sum_rows, sum_rows
from spark_eval.evaluation.worker.lists import merge_sums, sums
from spark_eval.evaluation.worker.requests import means_of, sums_of_users
from spark_eval.names import folder_name
from spark_eval.publishing.attempt import Attempt
from spark_eval.publishing.local import LocalStore
from spark_eval.results.driver_tables import write_small
from spark_eval.schema import MISSING, VERSION, Table

METRICS_AT = {"metrics": ["map", "fcp"], "k": [2], "segments": ["country"]}
PLAN = make_plan(metrics=["map", "fcp"], k=[2], segments=["country"])
N_BUCKETS = 2


class UserDay(NamedTuple):
    """A row of ``per_user``: user, country, values, the weight of the micro average, and a request if any."""

    user: str | int
    country: str | None
    ap: float | None
    fcp: float | None
    pairs: float
    request: str | None = None


# The worked example: users a and b on the first day, a and c on the second.
FIRST = [UserDay("a", "DE", 0.5, None, 0.0), UserDay("b", "DE", 1.0, None, 0.0)]
SECOND = [UserDay("a", "DE", 0.0, None, 0.0), UserDay("c", None, 0.25, None, 0.0)]
# Rows of the models of a day.
OfDay = Mapping[str, Sequence[UserDay]]


def plan_of(weight: str | None) -> Plan:
    """The plan of users with one list, or with a list per request of this weight."""
    if weight is None:
        return PLAN
    plan = make_plan(metrics=["map", "fcp"], k=[2], segments=["country"], weight=weight)
    return replace(plan, request_truth=RequestTruth.REQUESTS)


def sums_of(models: OfDay, weight: str | None = None) -> list[SumRow]:
    """The rows of ``sums`` that one job publishes over these rows; with a weight, of lists by request."""
    parts, of_users, plan = [], [], plan_of(weight)
    for model, given in models.items():
        by_request = sorted(given, key=lambda row: (str(row.user), row.request or ""))
        rows = given if weight is None else by_request
        columns = {
            name: np.array([np.nan if row[at] is None else row[at] for row in rows], dtype=np.float64)
            for at, name in enumerate(plan.columns, start=2)
        }
        texts = [MISSING if row.country is None else row.country for row in rows]
        values = sorted(set(texts))
        country = {"country": (np.array([values.index(text) for text in texts], dtype=np.int64), values)}
        code = np.zeros(len(rows), dtype=np.int64)
        parts.append(sums(columns, plan.summed, (code, [model]), country))
        users = sorted({row.user for row in rows}, key=str)
        user = np.array([users.index(row.user) for row in rows], dtype=np.int64)
        if weight is not None:
            of_users.append(
                sums_of_users(means_of(plan.metrics), plan.weight, columns, user, (code, [model]), country)
            )
    totals = merge_sums(parts, list(plan.summed))
    if weight is None:
        return sum_rows(totals, sorted(models), plan.metrics, plan.stamp)
    return request_sum_rows(
        totals, merge_sums(of_users, list(means_of(plan.metrics))), sorted(models), plan, plan.metrics
    )


def write_users(rows: Sequence[UserDay], folder: Path, *, by_request: bool) -> None:
    """Write ``per_user`` of a model, a file for each bucket of users."""
    folder.mkdir(parents=True)
    kind = pa.string() if all(isinstance(row.user, str) for row in rows) else pa.int64()
    for bucket in range(N_BUCKETS):
        own = [row for row in rows if sum(str(row.user).encode()) % N_BUCKETS == bucket]
        table = pa.table(
            {
                "user": pa.array([row.user for row in own], kind),
                **({"request": pa.array([row.request for row in own], pa.string())} if by_request else {}),
                "country": pa.array([row.country for row in own], pa.string()),
                **{
                    name: pa.array([row[at] for row in own], pa.float64())
                    for at, name in enumerate(PLAN.columns, start=2)
                },
            }
        )
        pq.write_table(table, folder / file_name(bucket, N_BUCKETS), write_page_checksum=True)


def publish_day(
    root: Path,
    run_id: str,
    models: OfDay,
    *,
    fingerprint: str = "",
    entries: Sequence[Entry] = (),
    weight: str | None = None,
    **facts: Any,
) -> None:
    """Publish what ``evaluate`` does of a day; ``entries`` are more lines of its accounting.

    With ``weight`` users have a list per request.
    """
    of_sums = sums_of(models, weight)
    lines = [
        Entry(*line, len(rows), len(rows))
        for model, rows in models.items()
        for line in (("users", model, "in", None), ("users", model, "used", None))
    ]
    lines += [
        Entry("recommendations", model, "largest", f"rows={len(rows)}", 0, 1)
        for model, rows in models.items()
    ]
    small: dict[Table, tuple[Sequence[Any], str]] = {
        Table.METRICS: (metric_rows(of_sums), METRICS),
        Table.SUMS: (of_sums, SUMS),
        Table.ACCOUNTING: ([*lines, *entries], ACCOUNTING),
    }
    with Attempt(LocalStore(root), run_id, "evaluate") as attempt:
        for table, (rows, schema) in small.items():
            folder = Path(attempt.staged(table))
            write_small(rows, schema, folder, by_model=table != Table.ACCOUNTING)
        for model, users in models.items():
            folder = Path(attempt.staged(Table.PER_USER), f"model={folder_name(model)}")
            write_users(users, folder, by_request=weight is not None)
        n_rows = {table: len(rows) for table, (rows, _) in small.items()}
        record = {
            "config": {"evaluate": METRICS_AT | ({} if weight is None else {"weight": weight})},
            "fingerprint": fingerprint or f"{run_id}{len(of_sums)}",
            "versions": {"spark_eval": VERSION},
            "conventions": plan_of(weight).stamp,
            "models": sorted(models),
            "truth_digest": "0",
            "summary": {},
        }
        attempt.publish(n_rows | {Table.PER_USER: sum(map(len, models.values()))}, record | facts)
