"""Build the rows of the tables ``stages`` and ``funnel`` from exact sums over users."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from spark_eval.evaluation.plan import Plan
from spark_eval.evaluation.stages.quantities import (
    StageValue,
    of_stage,
    outside,
    pairs_at,
    population_stamp,
    stage_values,
    staged_metrics,
    steps,
    summed_columns,
    users_at,
)
from spark_eval.evaluation.summary import SumRow, everybody_first, mean_of, overflow
from spark_eval.evaluation.worker.lists import NOBODY, ColumnSums, SegmentCell, SegmentTotals, merge_sums
from spark_eval.metrics.stages import EFFICIENCY, ORACLE, Stage
from spark_eval.results.rows import fold_rows
from spark_eval.schema import ALL, ddl_of

OfCell = Mapping[str, ColumnSums]


class StageRow(NamedTuple):
    """Row of STAGE_TABLE: the value of a metric of a stage in a segment.

    ``model`` is None for a union of several models. ``n_users`` counts the users in the mean,
    ``n_undefined`` those without a value.
    """

    stage: str
    model: str | None
    metric: str
    k: int | None
    segment: str
    segment_value: str
    value: float | None
    std_error: float | None
    ci_low: float | None
    ci_high: float | None
    n_users: int
    n_undefined: int
    conventions: str


STAGE_TABLE: Final = ddl_of(StageRow)


class FunnelRow(NamedTuple):
    """Row of FUNNEL: users and their relevant pairs at a step, or with a fate."""

    segment: str
    segment_value: str
    step: str
    n_users: int
    n_pairs: int
    conventions: str


FUNNEL: Final = ddl_of(FunnelRow)


class StageSums:
    """Sums over all buckets, by segment."""

    def __init__(self, parts: Sequence[SegmentTotals], plan: Plan) -> None:
        self.plan, self.stamp = plan, population_stamp(plan)
        totals = merge_sums(parts, list(summed_columns(plan)))
        everybody: SegmentCell = ("", ALL, ALL)
        self.cells = {
            cell: totals.get(cell, {}) for cell in sorted({everybody, *totals}, key=everybody_first)
        }

    def stage_rows(self) -> list[StageRow]:
        """Return the rows of STAGE_TABLE, by stage, then by segment; means over folds come last.

        Raises DataError METRIC_OVERFLOW for sums that overflow a double.
        """
        rows = []
        for stage in self.plan.stages:
            of_cells = [
                row for cell, of_cell in self.cells.items() for row in self.rows(stage, cell, of_cell)
            ]
            rows += of_cells + fold_rows(of_cells)
        return rows

    def funnel_rows(self) -> list[FunnelRow]:
        """Return the rows of FUNNEL, by segment."""
        return [
            FunnelRow(*cell[1:], step, users.total.numerator, pairs.total.numerator, self.stamp)
            for cell, of_cell in self.cells.items()
            for step in steps(self.plan.stages)
            for users, pairs in [[of_cell.get(column(step), NOBODY) for column in (users_at, pairs_at)]]
        ]

    def rows(self, stage: Stage, cell: SegmentCell, of_cell: OfCell) -> list[StageRow]:
        """Return the rows of a stage in a segment: means over users, then ratios of these means."""
        means = [
            self.mean(value, cell, of_cell) for value in stage_values(self.plan) if value.stage == stage.name
        ]
        candidates = self.plan.stages[0]
        if stage == candidates:
            return means
        rows = {(row.metric, row.k): row for row in means}
        for value in staged_metrics(self.plan):
            mine, best = of_stage(stage, value), of_stage(candidates, value, ORACLE)
            row = rows[mine.metric, mine.k]
            efficiency = None
            if not of_cell.get(outside(stage), NOBODY).total:
                efficiency = quotient(of_cell.get(mine.column, NOBODY), of_cell.get(best.column, NOBODY))
            name = of_stage(stage, value, EFFICIENCY).metric
            means.append(
                row._replace(metric=name, value=efficiency, std_error=None, ci_low=None, ci_high=None)
            )
        return means

    def mean(self, value: StageValue, cell: SegmentCell, of_cell: OfCell) -> StageRow:
        """Return the mean of a value over the users of a segment."""
        sums = of_cell.get(value.column, NOBODY)
        if sums.n_infinite:
            raise overflow(f"{value.metric} of stage {value.stage!r}")
        key = (value.model or "", value.metric, value.k, *cell[1:], self.stamp)
        mean = mean_of(
            SumRow.of(key, sums.n_users, sums.n_defined, (sums.total, sums.squares, None, None, None))
        )
        return StageRow(
            stage=value.stage,
            model=value.model,
            metric=value.metric,
            k=value.k,
            segment=cell[1],
            segment_value=cell[2],
            value=mean.value,
            std_error=mean.std_error,
            ci_low=mean.ci_low,
            ci_high=mean.ci_high,
            n_users=mean.n,
            n_undefined=sums.n_users - mean.n,
            conventions=self.stamp,
        )


def quotient(part: ColumnSums, whole: ColumnSums) -> float | None:
    """Return the ratio of the means of two columns; None without users, or if the second mean is 0."""
    if not part.n_defined or not whole.total:
        return None
    return float(part.total / part.n_defined / (whole.total / whole.n_defined))
