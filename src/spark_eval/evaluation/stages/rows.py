"""Build the rows of the tables ``stages`` and ``funnel`` from exact sums over lists and users."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final, NamedTuple

from spark_eval.evaluation.plan import ListWeight, Plan
from spark_eval.evaluation.stages.measure import StageTotals
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
    user_means,
    users_at,
)
from spark_eval.evaluation.summary import SumRow, everybody_first, mean_of, overflow, request_sum_row
from spark_eval.evaluation.worker.lists import NOBODY, ColumnSums, SegmentCell, merge_sums
from spark_eval.kernels.stages import EFFICIENCY, ORACLE, Stage
from spark_eval.results.rows import fold_rows
from spark_eval.schema import ALL, ddl_of

OfCell = Mapping[str, ColumnSums]


class StageRow(NamedTuple):
    """Row of STAGE_TABLE: the value of a metric of a stage in a segment.

    ``model`` is None for a union of several models. ``n_users`` counts the users in the mean,
    ``n_undefined`` those without a value. If users have a list per request, ``n_requests`` counts the lists
    in the mean, and ``n_undefined`` those without a value.
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
    n_requests: int | None = None


STAGE_TABLE: Final = ddl_of(StageRow)


class FunnelRow(NamedTuple):
    """Row of FUNNEL: users and their relevant pairs at a step, or with a fate.

    If users have a list per request, ``n_requests`` counts the lists there, and ``n_users`` their users.
    """

    segment: str
    segment_value: str
    step: str
    n_users: int
    n_pairs: int
    conventions: str
    n_requests: int | None = None


FUNNEL: Final = ddl_of(FunnelRow)


class StageSums:
    """Sums over all buckets, by segment."""

    def __init__(self, parts: Sequence[StageTotals], plan: Plan) -> None:
        self.plan, self.stamp = plan, population_stamp(plan)
        totals = merge_sums([part.lists for part in parts], list(summed_columns(plan)))
        of_users = [part.users for part in parts if part.users is not None]
        self.users = merge_sums(of_users, list(user_means(plan)))
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
            rows += of_cells + fold_rows(of_cells, ("n_users", "n_undefined", "n_requests"))
        return rows

    def funnel_rows(self) -> list[FunnelRow]:
        """Return the rows of FUNNEL, by segment."""
        rows = []
        for cell, of_cell in self.cells.items():
            for step in steps(self.plan.stages):
                n_lists, n_pairs = (
                    of_cell.get(column(step), NOBODY).total.numerator for column in (users_at, pairs_at)
                )
                n_users, n_requests = n_lists, None
                if self.plan.by_request:
                    n_users, n_requests = self.of_users(cell, users_at(step)).n_defined, n_lists
                rows.append(FunnelRow(*cell[1:], step, n_users, n_pairs, self.stamp, n_requests))
        return rows

    def of_users(self, cell: SegmentCell, column: str) -> ColumnSums:
        """Return the sums of a column over the users of a segment who have a list per request."""
        return self.users.get(cell, {}).get(column, NOBODY)

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
                efficiency = self.quotient(mine.column, best.column, cell, of_cell)
            name = of_stage(stage, value, EFFICIENCY).metric
            means.append(
                row._replace(metric=name, value=efficiency, std_error=None, ci_low=None, ci_high=None)
            )
        return means

    def mean(self, value: StageValue, cell: SegmentCell, of_cell: OfCell) -> StageRow:
        """Return the mean of a value over the users, or lists by request, of a segment."""
        sums = of_cell.get(value.column, NOBODY)
        if sums.n_infinite:
            raise overflow(f"{value.metric} of stage {value.stage!r}")
        key = (value.model or "", value.metric, value.k, *cell[1:], self.stamp)
        if self.plan.by_request:
            ratio = (sums.total, Fraction(sums.n_defined))
            is_mean = self.plan.weight is ListWeight.USERS
            row = request_sum_row(key, sums, self.of_users(cell, value.column), None if is_mean else ratio)
        else:
            row = SumRow.of(key, sums.n_users, sums.n_defined, (sums.total, sums.squares, None, None, None))
        mean = mean_of(row)
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
            n_undefined=sums.n_users - sums.n_defined,
            conventions=self.stamp,
            n_requests=row.n_requests_defined,
        )

    def quotient(self, part: str, whole: str, cell: SegmentCell, of_cell: OfCell) -> float | None:
        """Return the ratio of the means of two columns; None without users, or if the second mean is 0."""
        is_mean = self.plan.by_request and self.plan.weight is ListWeight.USERS
        one, other = (
            self.of_users(cell, name) if is_mean else of_cell.get(name, NOBODY) for name in (part, whole)
        )
        if not one.n_defined or not other.total:
            return None
        return float(one.total / one.n_defined / (other.total / other.n_defined))
