"""Bootstrap intervals of means: resampled sums of measured users, and percentiles of the replicates."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import product
from operator import add
from typing import Final

import numpy as np
import pyarrow as pa

from spark_eval.evaluation.plan import ListWeight, Plan
from spark_eval.evaluation.summary import MeanKey
from spark_eval.schema import FOLD
from spark_eval.statistics.exact import Floats
from spark_eval.statistics.intervals import LowHigh
from spark_eval.statistics.resampling import SCALE_BITS, Replicates, percentile_interval, scale_of
from spark_eval.users.cells import EVERYBODY, SegmentValue
from spark_eval.users.population import CANDIDATE, AlignedUsers, ComparisonTask
from spark_eval.users.resampling import (
    Amount,
    ResampledSums,
    Resampler,
    check_replicates,
    largest_amounts,
)

CONFIDENCE: Final = 0.95


@dataclass(frozen=True)
class ResampledMean:
    """Mean of a model: the sum of ``numerator`` over that of ``denominator``; None: over the number of users.

    ``upper_bound`` is the largest possible value, None if unknown.
    """

    model: str
    metric: str
    k: int | None
    numerator: Amount
    denominator: Amount | None
    upper_bound: float | None


@dataclass(frozen=True)
class Bootstrap:
    """Means of a plan over resampled users; all rows of a user, for all models, are drawn together.

    ``cells`` are segments with their values. Raises ConfigError TOO_MANY_REPLICATES.
    """

    plan: Plan
    models: Sequence[str]
    cells: Sequence[SegmentValue]

    def __post_init__(self) -> None:
        check_replicates(len(self.cells) * len(self.upper_bounds), self.plan.resamples)

    def means(self) -> Iterator[ResampledMean]:
        """Yield the means of all models, weighted ones last."""
        for value, (index, model) in product(self.plan.metrics, enumerate(self.models)):
            if value.metric.is_of_users:
                of_users = Amount.of(index, value.column)
                yield ResampledMean(model, value.name, value.k, of_users, None, value.metric.upper)
        for mean, (index, model) in product(self.plan.weighted, enumerate(self.models)):
            yield ResampledMean(
                model, mean.name, mean.k, *Amount.parts(index, mean.column, mean.weight), None
            )

    @cached_property
    def upper_bounds(self) -> dict[Amount, float | None]:
        """Largest possible value of each resampled amount, None if unknown."""
        return {
            amount: mean.upper_bound
            for mean in self.means()
            for amount in (mean.numerator, mean.denominator)
            if amount
        }

    @property
    def unbounded(self) -> list[Amount]:
        """Amounts without a known largest value."""
        return [amount for amount, upper_bound in self.upper_bounds.items() if upper_bound is None]

    def task(self, *, has_text_ids: bool, request: pa.DataType | None = None) -> ComparisonTask:
        """Return the task of the executors: the users of each model, without pairs."""
        return ComparisonTask(
            models=[(CANDIDATE, model) for model in self.models],
            matches=(),
            columns=self.plan.columns,
            segments=self.plan.segments,
            by_fold=self.plan.by_fold,
            has_text_ids=has_text_ids,
            request=request,
            of_means=request is not None and self.plan.weight is ListWeight.USERS,
        )

    def resampler(self, largest: Sequence[Floats]) -> Resampler:
        """Return the plan of the resamples; ``largest`` has the largest unbounded amounts, by bucket."""
        maxima = np.max([np.zeros(len(self.unbounded)), *largest], axis=0).tolist()
        known = self.upper_bounds | dict(zip(self.unbounded, maxima, strict=True))
        sizes = np.array([known[amount] for amount in self.upper_bounds], dtype=np.float64)
        return Resampler(self.cells, list(self.upper_bounds), sizes, self.plan.seed, self.plan.resamples)

    def intervals(self, resampler: Resampler, sums: ResampledSums) -> Mapping[MeanKey, LowHigh]:
        """Return the percentile interval of each mean in each cell."""
        index_of = {amount: index for index, amount in enumerate(resampler.amounts)}
        ends = {}
        for (number, cell), mean in product(enumerate(self.cells), self.means()):
            first, numerator = number * len(resampler.amounts), index_of[mean.numerator]
            divisors, scale = sums.weights[first + numerator], scale_of(float(resampler.largest[numerator]))
            if mean.denominator is not None:
                denominator = index_of[mean.denominator]
                divisors = sums.totals[first + denominator]
                scale *= 2.0**SCALE_BITS / scale_of(float(resampler.largest[denominator]))
            means = Replicates.of(sums.totals[first + numerator].tolist(), divisors.tolist(), scale)
            ends[mean.model, mean.metric, mean.k, *cell] = percentile_interval(means, CONFIDENCE)
        return ends


@dataclass(frozen=True)
class ItemBootstrap:
    """Means of the rows of ``item_segments``: each cell is resampled as if it were evaluated alone."""

    alone: Bootstrap
    cells: Sequence[SegmentValue]

    @classmethod
    def of(cls, plan: Plan, models: Sequence[str], cells: Sequence[SegmentValue]) -> "ItemBootstrap":
        """Return the means of these cells. Raises ConfigError TOO_MANY_REPLICATES."""
        folds = (FOLD,) if plan.by_fold else ()
        alone = Bootstrap(replace(plan, requested=plan.item_metrics, segments=folds), models, [EVERYBODY])
        check_replicates(len(cells) * len(alone.upper_bounds), plan.resamples)
        return cls(alone, cells)

    @property
    def unbounded(self) -> bool:
        """True if an amount has no known largest value."""
        return bool(self.alone.unbounded)

    def task(self, *, has_text_ids: bool, request: pa.DataType | None) -> ComparisonTask:
        """Return the task of the executors: the users of each model, by cell."""
        task = self.alone.task(has_text_ids=has_text_ids, request=request)
        return replace(task, segments=(), row_segments=list(dict.fromkeys(name for name, _ in self.cells)))

    def largest(self, population: AlignedUsers) -> tuple[SegmentValue, Floats]:
        """Return the cell of users, and the largest of its unbounded amounts."""
        return population.cell, largest_amounts(self.alone.unbounded, population)

    def resamplers(self, largest: Sequence[tuple[SegmentValue, Floats]]) -> Mapping[SegmentValue, Resampler]:
        """Return the plan of the resamples of each cell; ``largest`` are of its parts."""
        return {
            cell: self.alone.resampler([amounts for of_cell, amounts in largest if of_cell == cell])
            for cell in self.cells
        }

    def intervals(
        self, resamplers: Mapping[SegmentValue, Resampler], sums: "CellReplicates"
    ) -> Mapping[MeanKey, LowHigh]:
        """Return the percentile interval of each mean in each cell."""
        return {
            (*key[:3], *cell): ends
            for cell, resampler in resamplers.items()
            for key, ends in self.alone.intervals(resampler, sums[cell]).items()
        }


class CellReplicates(dict[SegmentValue, ResampledSums]):
    """Resampled sums of cells; those of equal cells are added."""

    def __add__(self, other: "CellReplicates") -> "CellReplicates":
        """Add the sums of other users."""
        cells = dict.fromkeys((*self, *other))
        both = {cell: [one[cell] for one in (self, other) if cell in one] for cell in cells}
        return CellReplicates({cell: reduce(add, parts) for cell, parts in both.items()})


def sums_of_cell(resamplers: Mapping[SegmentValue, Resampler], population: AlignedUsers) -> CellReplicates:
    """Return the resampled sums of users of one cell."""
    return CellReplicates({population.cell: resamplers[population.cell].sums(population)})
