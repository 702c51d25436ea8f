"""The path of predictions without Spark: batches to parts, runs to ranges, sums to rows of the tables."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from spark_eval.pointwise.batches import Counted, Reading, UserRows, totals_of_users
from spark_eval.pointwise.cuts import Extent, Sample, cuts_of, standings
from spark_eval.pointwise.options import make_plan
from spark_eval.pointwise.ordered import Points, Range, Run, ordered
from spark_eval.pointwise.tables import (
    CURVES,
    METRICS,
    THRESHOLDS,
    curve_rows,
    metric_rows,
    threshold_rows,
)
from spark_eval.pointwise.task import Plan
from spark_eval.pointwise.totals import Cell, Totals
from spark_eval.schema import ALL


@dataclass
class Measured:
    """The rows of all tables."""

    plan: Plan
    totals: Totals = field(default_factory=Totals)
    candidates: dict[Cell, list[Any]] = field(default_factory=lambda: defaultdict(list))
    points: dict[Cell, list[Points]] = field(default_factory=lambda: defaultdict(list))
    n_scores: dict[Cell, int] = field(default_factory=lambda: defaultdict(int))

    @property
    def metrics(self) -> list[dict[str, Any]]:
        return named(METRICS, metric_rows(self.totals, self.plan))

    @property
    def thresholds(self) -> list[dict[str, Any]]:
        return named(THRESHOLDS, threshold_rows(self.totals, self.plan, self.candidates))

    @property
    def curves(self) -> list[dict[str, Any]]:
        return named(CURVES, curve_rows(self.totals, self.plan, self.points, self.n_scores))

    @property
    def values(self) -> dict[str, float | None]:
        """The values of the metrics of all rows, by name."""
        return {row["metric"]: row["value"] for row in self.metrics if row["segment"] == ALL}


def named(schema: str, rows: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    names = [column.split()[0] for column in schema.split(", ")]
    return [dict(zip(names, row, strict=True)) for row in rows]


def measure(
    columns: Mapping[str, Any],
    task: str = "binary",
    *,
    order: Any = None,
    rows_per_batch: int = 1 << 20,
    n_tasks: int = 1,
    scores_per_range: int = 1 << 20,
    **options: Any,
) -> Measured:
    """All tables of conformed rows: label, score (or score_0, ...), user, weight, segment_0, model."""
    plan = make_plan(task, **options)
    known = {"score_0" if name == "score" else name: pa.array(values) for name, values in columns.items()}
    table = pa.table(known)
    numbers = [name for name in table.column_names if name.startswith(("label", "score_", "weight"))]
    for name in numbers:
        place = table.column_names.index(name)
        table = table.set_column(place, name, table[name].cast(pa.float64()))
    if "fault" not in table.column_names:
        table = table.append_column("fault", pa.nulls(len(table), pa.string()))
    if order is not None:
        table = table.take(pa.array(order))
    n_scores = sum(name.startswith("score_") for name in table.column_names)
    has_weight = "weight" in table.column_names
    model = None if "model" in table.column_names else "m"
    reading = Reading(plan, model, n_scores, has_weight)
    measured = Measured(plan)
    runs: list[Run] = []
    users: list[UserRows] = []
    size = -(-len(table) // n_tasks)
    for start in range(0, len(table), size):
        for part in reading.parts(table.slice(start, size).combine_chunks().to_batches(rows_per_batch)):
            match part:
                case Counted():
                    measured.totals.merge(part.totals)
                case Run():
                    runs.append(part)
                case UserRows():
                    users.append(part)
    if users:
        by_bucket = defaultdict(list)
        for rows in users:
            for bucket, mine in rows.in_buckets(3):
                by_bucket[bucket].append(mine)
        for parts in by_bucket.values():
            measured.totals.merge(totals_of_users(parts))
    if plan.by_score:
        add_order(measured, runs, 3 if has_weight else 1, scores_per_range)
    return measured


def add_order(measured: Measured, runs: Sequence[Run], n_limbs: int, scores_per_range: int) -> None:
    """What follows from order, range by range."""
    plan = measured.plan
    cuts = cuts_of(map(Sample.of, runs), scores_per_range)
    by_number: dict[int, list[Run]] = defaultdict(list)
    for run in runs:
        for number, part in cuts[run.cell].parts(run):
            by_number[number].append(part)
    ranges = [Range.of(found[0].cell, number, found, n_limbs) for number, found in sorted(by_number.items())]
    extents = list(map(Extent.of, ranges))
    standing = standings(extents, plan.curve_points)
    for one, extent in zip(ranges, extents, strict=True):
        with_curves = plan.curves and one.cell[1] == ALL
        found = ordered(one, standing[one.number], plan.rules, with_curves)
        for name, sums in found.sums.items():
            measured.totals.add_sums(one.cell, name, sums)
        measured.candidates[one.cell].append(found.candidates)
        measured.points[one.cell] += found.points
        measured.n_scores[one.cell] += extent.n_scores


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
