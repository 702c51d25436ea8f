"""Bootstrap intervals of means: resampled sums of measured users, and percentiles of the replicates."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import product
from operator import add
from typing import Final, Self

import numpy as np
import pyarrow as pa

from spark_eval.evaluation.plan import ListWeight, Plan
from spark_eval.evaluation.summary import MeanKey
from spark_eval.names import split_repeat
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
    repeat_weights,
)

CONFIDENCE: Final = 0.95


@dataclass(frozen=True)
class ResampledMean:
    """Mean of a model: sum of ``numerator`` / sum of ``denominator``; None: over the number of users.

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

    ``models`` are named with their repeats, if they have any; the repeats of a model are then drawn as well.
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
        """Return the percentile interval of each mean in each cell, of repeats and of all repeats of a model.

        Those of repeats have the name of model and repeat.
        """
        index_of = {amount: index for index, amount in enumerate(resampler.amounts)}
        ends = {}
        for number, cell in enumerate(self.cells):
            first, repeats = number * len(resampler.amounts), dict[MeanKey, list[Drawn]]()
            for mean in self.means():
                drawn = Drawn.of(mean, resampler, sums, first, index_of)
                ends[mean.model, mean.metric, mean.k, *cell] = drawn.interval
                model, repeat = split_repeat(mean.model)
                if repeat is not None:
                    repeats.setdefault((model, mean.metric, mean.k, *cell), []).append(drawn)
            for key, of_repeats in repeats.items():
                weights = repeat_weights(self.plan.seed, key[0], len(of_repeats), self.plan.resamples)
                ends[key] = Drawn.together(of_repeats, weights.T.tolist()).interval
        return ends


@dataclass(frozen=True)
class Drawn:
    """Sums of replicates of a mean, the first over all users, in the units of numerator and divisor."""

    numerators: Sequence[int]
    divisors: Sequence[int]
    units: tuple[float, float]

    @classmethod
    def of(
        cls,
        mean: ResampledMean,
        resampler: Resampler,
        sums: ResampledSums,
        first: int,
        index_of: Mapping[Amount, int],
    ) -> Self:
        """Return the sums of a mean in the cell whose amounts begin at ``first``."""
        numerator = index_of[mean.numerator]
        divisors, unit = sums.weights[first + numerator], 1.0
        if mean.denominator is not None:
            denominator = index_of[mean.denominator]
            divisors = sums.totals[first + denominator]
            unit = scale_of(float(resampler.largest[denominator])) / 2.0**SCALE_BITS
        units = (scale_of(float(resampler.largest[numerator])), unit)
        return cls(sums.totals[first + numerator].tolist(), divisors.tolist(), units)

    @classmethod
    def together(cls, repeats: Sequence[Self], weights: Sequence[Sequence[int]]) -> Self:
        """Return the sums over repeats, each as often as it was drawn: ``weights`` are of each repeat."""
        numerators, unit = added([(one.numerators, one.units[0]) for one in repeats], weights)
        divisors, unit_of_divisors = added([(one.divisors, one.units[1]) for one in repeats], weights)
        return cls(numerators, divisors, (unit, unit_of_divisors))

    @property
    def interval(self) -> LowHigh:
        """Percentile interval of the mean."""
        scale = self.units[0] / self.units[1]
        return percentile_interval(Replicates.of(self.numerators, self.divisors, scale), CONFIDENCE)


def added(
    parts: Sequence[tuple[Sequence[int], float]], weights: Sequence[Sequence[int]]
) -> tuple[list[int], float]:
    """Return the weighted sums of integers (replicates,) in units that are powers of two, and their unit.

    >>> added([([1, 2], 1.0), ([3, 4], 0.5)], [[1, 2], [1, 0]])
    ([5, 8], 0.5)
    """
    unit = min(own for _, own in parts)
    factors = [int(own / unit) for _, own in parts]
    of_replicates = zip(*(numbers for numbers, _ in parts), strict=True)
    sums = [
        sum(weight * number * factor for weight, number, factor in zip(drawn, own, factors, strict=True))
        for drawn, own in zip(zip(*weights, strict=True), of_replicates, strict=True)
    ]
    return sums, unit


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
    """Resampled sums of cells; sums of equal cells are added."""

    def __add__(self, other: "CellReplicates") -> "CellReplicates":
        """Add the sums of other users."""
        cells = dict.fromkeys((*self, *other))
        both = {cell: [one[cell] for one in (self, other) if cell in one] for cell in cells}
        return CellReplicates({cell: reduce(add, parts) for cell, parts in both.items()})


def sums_of_cell(resamplers: Mapping[SegmentValue, Resampler], population: AlignedUsers) -> CellReplicates:
    """Return the resampled sums of users of one cell."""
    return CellReplicates({population.cell: resamplers[population.cell].sums(population)})
