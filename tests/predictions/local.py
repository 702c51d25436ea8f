"""The path of predictions without Spark: batches to parts, runs to ranges, sums to rows of the tables."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from spark_eval.predictions.plan import make_prediction_plan
from spark_eval.predictions.tables import CURVES, METRICS, THRESHOLDS, MeasuredPredictions
from spark_eval.predictions.task import Clusters, PredictionPlan, Scores
from spark_eval.predictions.worker.batches import RowReader, TaskCounts, in_buckets
from spark_eval.predictions.worker.clusters import CellRows, UserSums, add_rows_of_users, influence_sums
from spark_eval.predictions.worker.ordered import (
    RangeResult,
    RowRange,
    ScoreRun,
    add_placements,
    measure_range,
    merge_range,
)
from spark_eval.predictions.worker.replicates import merge_replicates, replicate_sums
from spark_eval.predictions.worker.score_ranges import RangeSize, Sample, range_offsets, score_ranges
from spark_eval.predictions.worker.totals import Cell, Totals
from spark_eval.schema import ALL
from spark_eval.statistics.exact import Floats


@dataclass
class Answer:
    """The rows of all tables."""

    plan: PredictionPlan
    totals: Totals = field(default_factory=Totals)
    ranges: dict[Cell, list[RangeResult]] = field(default_factory=lambda: defaultdict(list))
    influences: Totals = field(default_factory=Totals)
    users: list[UserSums] = field(default_factory=list)
    replicates: dict[Cell, dict[str, Floats]] = field(default_factory=dict)

    @property
    def measured(self) -> MeasuredPredictions:
        drawn = {"replicates": self.replicates}
        return MeasuredPredictions(self.plan, self.totals, self.ranges, self.influences, **drawn)

    @property
    def metrics(self) -> list[dict[str, Any]]:
        return named(METRICS, self.measured.metric_rows)

    @property
    def thresholds(self) -> list[dict[str, Any]]:
        return named(THRESHOLDS, self.measured.threshold_rows)

    @property
    def curves(self) -> list[dict[str, Any]]:
        return named(CURVES, self.measured.curve_rows)

    @property
    def values(self) -> dict[str, float | None]:
        """The values of the metrics of all rows, by name."""
        return {row["metric"]: row["value"] for row in self.metrics if row["segment"] == ALL}


def named(schema: str, rows: Sequence[Any]) -> list[dict[str, Any]]:
    names = [column.split()[0] for column in schema.split(", ")]
    return [{name: getattr(row, name) for name in names} for row in rows]


def measure(
    columns: Mapping[str, Any],
    task: str = "binary",
    *,
    order: Any = None,
    rows_per_batch: int = 1 << 20,
    n_tasks: int = 1,
    scores_per_range: int = 1 << 20,
    **options: Any,
) -> Answer:
    """All tables of rows: label (place of a class), score or score_0, ..., user, weight, segment_0, model."""
    plan = make_prediction_plan(task, **options)
    table = table_of(columns, plan)
    if order is not None:
        table = table.take(pa.array(order))
    reader = RowReader(plan, None if "model" in table.column_names else "m")
    answer = Answer(plan)
    runs: list[ScoreRun] = []
    users: list[pa.Table] = []
    rows: list[CellRows] = []
    size = -(-len(table) // n_tasks)
    for start in range(0, len(table), size):
        for part in reader.outputs(table.slice(start, size).combine_chunks().to_batches(rows_per_batch)):
            if isinstance(part, TaskCounts):
                answer.totals += part.totals
            elif isinstance(part, ScoreRun):
                runs.append(part)
            elif isinstance(part, CellRows):
                rows.append(part)
            else:
                users.append(part)
    add_users(answer, reader, users)
    if plan.by_score:
        rows = add_order(answer, runs, rows, scores_per_range)
    add_errors(answer, rows)
    return answer


def table_of(columns: Mapping[str, Any], plan: PredictionPlan) -> pa.Table:
    """The rows, classes by their names."""
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    for name in ("label", "score") if plan.classes else ():
        if name == "label" or plan.scores is Scores.CLASS:
            of_class = pa.array([plan.classes[int(place)] for place in columns[name]])
            table = table.set_column(table.column_names.index(name), name, of_class)
    return table


def add_users(answer: Answer, reader: RowReader, users: Sequence[pa.Table]) -> None:
    """What follows from users, bucket by bucket."""
    by_bucket = defaultdict(list)
    for rows in users:
        for bucket, mine in in_buckets(rows, 3):
            by_bucket[bucket].append(mine)
    for parts in by_bucket.values():
        answer.totals += reader.totals_over_users(parts)


def add_errors(answer: Answer, rows: Sequence[CellRows]) -> None:
    """What follows from the sums of each user, bucket by bucket."""
    by_bucket: dict[int, list[CellRows]] = defaultdict(list)
    for number, part in enumerate(rows):
        by_user = answer.plan.intervals is Clusters.USER
        for bucket, mine in part.by_bucket(3) if by_user else [(number, part)]:
            by_bucket[bucket].append(mine)
    drawn = defaultdict(list)
    for parts in by_bucket.values():
        answer.users += add_rows_of_users(parts, answer.plan)
        for sums in replicate_sums(parts, answer.plan):
            drawn[sums.cell].append(sums)
    answer.replicates = dict(map(merge_replicates, drawn.values()))
    slopes = answer.measured.slopes
    for users in answer.users:
        answer.influences += influence_sums(users, slopes).totals


def add_order(
    answer: Answer, runs: Sequence[ScoreRun], rows: Sequence[CellRows], scores_per_range: int
) -> list[CellRows]:
    """What follows from order, range by range; return the rows with their placements."""
    plan = answer.plan
    samples = [Sample.of(run.cell, run.scores) for run in runs] + [
        Sample.of(of_cell.cell, of_cell.score) for of_cell in rows
    ]
    cuts = score_ranges(samples, scores_per_range)
    by_number: dict[int, list[ScoreRun | CellRows]] = defaultdict(list)
    for run in runs:
        for number, part in cuts[run.cell].parts(run):
            by_number[number].append(part)
    for of_cell in rows:
        for number, mine in cuts[of_cell.cell].parts_of_rows(of_cell):
            by_number[number].append(mine)
    ranges = [merge_range(number, found) for number, found in sorted(by_number.items())]
    offsets = range_offsets([RangeSize.of(one.distinct) for one in ranges], plan.curve_points)
    for one in (one.distinct for one in ranges):
        with_curves = plan.curves and one.cell[1] == ALL
        found = measure_range(one, offsets[one.number], plan.rules, with_curves)
        answer.totals.add_all(one.cell, found.sums)
        answer.ranges[one.cell].append(found)
    return [add_placements(one, offsets[one.number], plan) for one in ranges if isinstance(one, RowRange)]


def crowd(seed: int, n: int = 400, n_scores: int = 40) -> dict[str, Any]:
    """Rows with ties, weights (some 0), users of one class, segments."""
    random = np.random.default_rng(seed)
    user = random.integers(0, 25, n)
    score = random.integers(0, n_scores, n) / (n_scores - 1)
    label = (random.random(n) < 0.15 + 0.6 * score).astype(np.int64)
    label[user < 3] = 0
    label[user == 3] = 1
    weight = np.round(random.random(n) * 3, 3)
    weight[random.random(n) < 0.05] = 0.0
    return {
        "label": label,
        "score": score,
        "user": user,
        "weight": weight,
        "segment_0": random.choice(["de", "fr", "ch"], n),
    }
