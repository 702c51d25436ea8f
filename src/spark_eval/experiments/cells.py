"""Cells of an experiment: control and treatment compared over units, a segment or a slice. For the driver."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Final

from spark_eval.experiments.inference import (
    Contrast,
)
from spark_eval.experiments.moments import (
    ONE,
    PRE_X,
    PRE_Y,
    ArmEstimate,
    Moments,
    X,
    Y,
)
from spark_eval.experiments.plan import (
    DAY_SLICE,
    Experiment,
    ExperimentPlan,
    Metric,
    MetricKind,
    Term,
    TermValue,
)
from spark_eval.experiments.worker.bucket import BucketSums, Cell
from spark_eval.experiments.worker.units import DAY_SINCE, EXPOSED_ON, NOVELTY
from spark_eval.schema import ALL

# Estimates of control and treatment from their moments.
Estimating = Callable[[Moments, Moments], tuple[ArmEstimate, ArmEstimate]]
# Reason of a difference without a p-value that is known all the same.
NO_SPREAD: Final = "no spread"
# Weight of a stratum, and its estimates of control and treatment.
Stratified = list[tuple[Fraction, ArmEstimate, ArmEstimate]]


@dataclass(frozen=True)
class Compared:
    """Control and treatment in a cell: estimates by stratum, moments over all strata, the difference."""

    strata: Stratified
    control: Moments
    treatment: Moments
    contrast: Contrast

    @property
    def single(self) -> tuple[ArmEstimate, ArmEstimate] | None:
        """The estimates if weights did not change; pooled ones would be biased otherwise."""
        return self.strata[0][1:] if len(self.strata) == 1 else None

    @property
    def reason(self) -> str | None:
        """Reason why there is no p-value; None if there is one."""
        if self.contrast.difference is None:
            arms = (self.control, self.treatment)
            if any(not arm.n + arm.n_undefined for arm in arms):
                return "an arm without units"
            if any(not arm.n for arm in arms):
                return "an arm without a unit whose value is defined"
            return "the denominator of an arm is 0"
        if self.contrast.variance is None:
            return "an arm with a single unit"
        return None if self.contrast.variance else NO_SPREAD


@dataclass(frozen=True)
class ExperimentCells:
    """Moments of one experiment by arm, and the comparisons they allow."""

    plan: ExperimentPlan
    experiment: Experiment
    sums: BucketSums

    @property
    def slices(self) -> tuple[str, ...]:
        """Slices of the events: hour, day, columns of the events."""
        return (*self.experiment.times, *self.plan.slices)

    def moments(self, metric: Metric, arm: str, stratum: int, by: str = ALL, value: str = ALL) -> Moments:
        """Return the moments of a cell. Cells of slices are completed by the units without events."""
        cell = Cell(self.experiment.name, metric.name, arm, stratum, by, value)
        moments = self.sums.moments.get(cell, Moments())
        if not (by in self.slices or by == DAY_SINCE):
            return moments
        units = self.all_units(cell)
        if metric.kind is MetricKind.MEAN_OF_RATIOS:
            return replace(moments, n_undefined=units.n + units.n_undefined - moments.n)
        return with_others(moments, units, is_mean=metric.is_mean)

    def all_units(self, cell: Cell) -> Moments:
        """Return the moments of 1 and y over all units that may have events in a cell of a slice."""
        if cell.by == DAY_SLICE:
            exposed = [
                moments
                for other, moments in self.sums.moments.items()
                if other[:4] == cell[:4] and other.by == EXPOSED_ON and other.value <= cell.value
            ]
            return sum(exposed, Moments())
        base = cell._replace(by=NOVELTY if cell.by == DAY_SINCE else ALL, value=ALL)
        return self.sums.moments.get(base, Moments())

    def nothing_measured(self, metric: Metric) -> str | None:
        """Return why every unit has the value 0, or none at all; None if the metric measures something."""
        for term in metric.terms:
            if (self.experiment.name, term) not in self.sums.with_events:
                return f"no event of kind {term.kind!r}{' meets its conditions' if term.where else ''}"
        total = self.total(metric)
        if metric.kind is MetricKind.RETENTION:
            when = f"on day {metric.day} after the exposure"
            is_empty = total.n and not total.product(X, X)
            return f"no event of kind {metric.numerator.kind!r} {when}" if is_empty else None
        if metric.denominator is not None and not total.product(Y, Y):
            return self.why_zero(metric, metric.denominator)
        return None if total.product(X, X) else self.why_zero(metric, metric.numerator)

    def why_zero(self, metric: Metric, term: Term) -> str:
        """Return why the sum of a term that has events is 0 for every unit with a value."""
        if self.plan.caps.get((self.experiment.name, term, metric.scale(term))) == 0:
            share = 100 * (1 - (term.winsorise or 0))
            return f"capped at 0: fewer than {share:g} % of the units have a value"
        is_partial = metric.kind is MetricKind.MEAN_OF_RATIOS and term is metric.numerator
        units = "unit whose value is defined" if is_partial else "unit"
        rounded = f", at decimals: {metric.decimals}" if term.value is TermValue.SUM else ""
        return f"the sum of kind {term.kind!r} is 0 for every {units}{rounded}"

    def total(self, metric: Metric) -> Moments:
        """Return the moments of a metric over all arms."""
        pairs = product(self.experiment.arms, range(len(self.experiment.strata)))
        return sum((self.moments(metric, *pair) for pair in pairs), Moments())

    def values(self, metric: Metric, by: str) -> list[str]:
        """Return the values of a segment or a slice, sorted."""
        key = (self.experiment.name, metric.name)
        return sorted({cell.value for cell in self.sums.moments if cell[:2] == key and cell.by == by})

    def compared(
        self, metric: Metric, treatment: str, estimating: Estimating, by: str = ALL, value: str = ALL
    ) -> Compared:
        """Return control and treatment in a cell; strata count by their units, (n_C + n_T) / N."""
        n_strata = range(len(self.experiment.strata))
        controls, treatments = (
            [self.moments(metric, arm, stratum, by, value) for stratum in n_strata]
            for arm in (self.experiment.control, treatment)
        )
        total, strata = sum(arm.n for arm in (*controls, *treatments)), []
        for control, other in zip(controls, treatments, strict=True):
            n_units = control.n + other.n
            if n_units or len(controls) == 1:
                weight = Fraction(n_units, total) if total else Fraction(1)
                strata.append((weight, *estimating(control, other)))
        contrast = Contrast.over_strata(strata)
        return Compared(strata, sum(controls, Moments()), sum(treatments, Moments()), contrast)

    def estimating(self, metric: Metric) -> Estimating:
        """Return the raw estimates of a metric."""
        return lambda control, other: (control.estimate(metric.scales), other.estimate(metric.scales))


def with_others(moments: Moments, units: Moments, *, is_mean: bool) -> Moments:
    """Return the moments of a slice over all units: those without events add 0 to x, and to y of ratios."""
    of_y = units if is_mean else moments
    pairs = {(ONE, ONE): units.n, (ONE, X): moments.product(ONE, X), (X, X): moments.product(X, X)}
    pairs |= {(ONE, Y): of_y.product(ONE, Y), (Y, Y): of_y.product(Y, Y), (X, Y): moments.product(X, Y)}
    return Moments.of_products(pairs)


def before_exposure(metric: Metric, control: Moments, other: Moments) -> tuple[ArmEstimate, ArmEstimate]:
    """Return the estimates of the pre-period."""
    return (
        control.estimate(metric.scales, PRE_X, PRE_Y),
        other.estimate(metric.scales, PRE_X, PRE_Y),
    )
