"""Cells of an experiment, where control and treatment are compared, and checks of trust. For the driver."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from itertools import product
from typing import Final

from spark_eval.experiments.inference import (
    PRIOR_UNITS,
    Contrast,
    TrustTest,
    sample_ratio,
    sequential_sample_ratio,
    tau_squared_of,
)
from spark_eval.experiments.moments import (
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
    SampleRatioTest,
    Term,
    TermValue,
)
from spark_eval.experiments.tables import CheckRow
from spark_eval.experiments.worker.bucket import UNITS, BucketSums, Cell
from spark_eval.experiments.worker.halves import arms_of
from spark_eval.experiments.worker.units import DAY_SINCE, EXPOSED_ON, NOVELTY
from spark_eval.results.effects import p_text
from spark_eval.schema import ALL, Outcome, Reason
from spark_eval.statistics.significance import adjusted

# A check of trust fails below this p-value.
TRUST_LEVEL: Final = 0.001
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
        return metric.kind.completed(moments, units)

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
        if metric.day is not None:
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
        is_partial = metric.kind.has_undefined and term is metric.numerator
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


def before_exposure(metric: Metric, control: Moments, other: Moments) -> tuple[ArmEstimate, ArmEstimate]:
    """Return the estimates of the pre-period."""
    return (
        control.estimate(metric.scales, PRE_X, PRE_Y),
        other.estimate(metric.scales, PRE_X, PRE_Y),
    )


@dataclass(frozen=True)
class TrustChecks(ExperimentCells):
    """Checks of one experiment: sample ratio, crossovers, pre-period, assignment."""

    @cached_property
    def checks(self) -> list[CheckRow]:
        """Checks of trust: sample ratio, crossovers, pre-period, assignment."""
        name = self.experiment.name
        test = sequential_sample_ratio if self.plan.srm is SampleRatioTest.SEQUENTIAL else sample_ratio
        ratio = test(self.counts(self.sums.units))
        rows = [CheckRow(name, "srm", ALL, *ratio, passed(ratio.p_value))]
        if self.plan.bots.ids or self.plan.bots.pre_events is not None:
            before = test(self.counts(self.sums.with_bots))
            rows.append(CheckRow(name, "srm", "with bots", *before, passed(before.p_value)))
        rows.append(CheckRow(name, "crossover", ALL, self.crossover_share, None, None, True))
        if self.experiment.assignment is not None and name in self.sums.mismatched:
            n_units = self.sums.mismatched[name]
            rows.append(CheckRow(name, "assignment", ALL, n_units, None, None, n_units == 0))
        return [*rows, *self.pre_periods, *self.shown_ratios, *self.uniformity]

    @cached_property
    def pre_periods(self) -> list[CheckRow]:
        """Differences before the exposure, Holm-corrected over metrics and treatments."""
        subjects, tests = list[str](), list[TrustTest]()
        for metric in self.plan.metrics:
            for treatment in self.experiment.arms[1:] if metric.kind.has_past else ():
                compared = self.compared(metric, treatment, partial(before_exposure, metric))
                n_units = compared.control.n + compared.treatment.n
                subjects.append(f"{metric.name} of {treatment}")
                tests.append(before_exposure_test(compared.contrast, n_units, self.plan.srm))
        p_values = adjusted([test.p_value for test in tests], "holm")
        return [
            CheckRow(self.experiment.name, "pre_period", subject, test.statistic, test.freedom, p, passed(p))
            for subject, test, p in zip(subjects, tests, p_values, strict=True)
        ]

    @cached_property
    def shown_ratios(self) -> list[CheckRow]:
        """Sample ratios by day of exposure and by segment, Holm-corrected: never a reason to distrust."""
        name, rows = self.experiment.name, list[CheckRow]()
        for check, by in (
            ("srm_day", DAY_SLICE),
            *(("srm_segment", one) for one in self.experiment.segments),
        ):
            counts: dict[str, Counter[tuple[str, str, int]]] = {}
            for (experiment, named, value, arm, stratum), n in self.sums.units_by.items():
                if (experiment, named) == (name, by):
                    counts.setdefault(value, Counter())[name, arm, stratum] += n
            values = sorted(counts)
            tests = [sample_ratio(self.counts(counts[value])) for value in values]
            p_values = adjusted([test.p_value for test in tests], "holm")
            for value, test, p_value in zip(values, tests, p_values, strict=True):
                subject = value if by == DAY_SLICE else f"{by}={value}"
                rows.append(CheckRow(name, check, subject, test.statistic, test.freedom, p_value, None))
        return rows

    @cached_property
    def uniformity(self) -> list[CheckRow]:
        """Are the p-values of random halves of the units uniform? Never a reason to distrust.

        Kolmogorov and Smirnov's test for each metric. The treatment does not matter: both halves have it.
        """
        from scipy.stats import kstwo

        name, rows = self.experiment.name, list[CheckRow]()
        for metric in self.plan.metrics:
            halves = self.sums.halves.get((name, metric.name))
            if halves is None:
                continue
            total = self.total(metric)
            p_values = []
            for half in halves:
                one, other = (arm.estimate(metric.scales) for arm in arms_of(half, total))
                p_values.append(Contrast.of(one, other).test(self.plan.confidence).p_value)
            known = sorted(p_value for p_value in p_values if p_value is not None)
            n = len(known)
            if n:
                gaps = [max((i + 1) / n - p, p - i / n) for i, p in enumerate(known)]
                p_value = float(kstwo.sf(max(gaps), n))
                rows.append(CheckRow(name, "uniformity", metric.name, max(gaps), None, p_value, None))
            else:
                rows.append(CheckRow(name, "uniformity", metric.name, None, None, None, None))
        return rows

    @property
    def crossover_share(self) -> float:
        """Share of exposed units with several variants."""
        rows, name = self.sums.rows, self.experiment.name
        n_units = rows[name, UNITS, Outcome.IN, None]
        return rows[name, UNITS, Outcome.DROPPED, Reason.CROSSOVER] / n_units if n_units else 0.0

    @property
    def failed_checks(self) -> list[str]:
        """Names of the failed checks, each once."""
        return list(dict.fromkeys(row.check for row in self.checks if row.passed is False))

    @property
    def doubts(self) -> list[str]:
        """The failed checks, each with the numbers that a person looks at first."""
        [expected, *_] = [row for row in self.checks if row.check == "srm"]
        texts = []
        for name in self.failed_checks:
            subjects = [row.subject for row in self.checks if row.check == name and row.passed is False]
            if name == "srm" and expected.passed is False:
                numbers = self.counts(self.sums.units)
                there = [sum(counts[i] for counts, _ in numbers) for i in range(len(self.experiment.arms))]
                units = " and ".join(
                    f"{arm} has {n:,}" for arm, n in zip(self.experiment.arms, there, strict=True)
                )
                chance = "" if expected.p_value is None else f" ({p_text(expected.p_value)})"
                texts.append(f"srm: {units} units, which the planned weights do not explain{chance}")
            else:
                named = [subject for subject in subjects if subject != ALL]
                texts.append(name + (f" ({', '.join(named)})" if named else ""))
        return texts

    @property
    def is_trusted(self) -> bool:
        """True if no check failed."""
        return not self.failed_checks

    def counts(self, units: Counter[tuple[str, str, int]]) -> list[tuple[list[int], list[float]]]:
        """Return the numbers of units and the planned weights of each stratum with units."""
        arms, counts = self.experiment.arms, []
        for stratum, planned in enumerate(self.experiment.strata):
            numbers = [units[self.experiment.name, arm, stratum] for arm in arms]
            if sum(numbers) or len(self.experiment.strata) == 1:
                counts.append((numbers, [planned.weights[arm] for arm in arms]))
        return counts or [([0] * len(arms), [1.0] * len(arms))]


def before_exposure_test(contrast: Contrast, n_units: int, srm: SampleRatioTest) -> TrustTest:
    """Test a difference before the exposure at one look, or, as that of sample ratios, at any look.

    The latter is tightest at the number of units that the prior of sample ratios weighs.
    """
    if srm is SampleRatioTest.FIXED or not contrast.variance:
        result = contrast.test(1 - TRUST_LEVEL)
        return TrustTest(result.statistic, contrast.freedom, result.p_value)
    tau = tau_squared_of(PRIOR_UNITS, n_units, contrast.variance, 1 - TRUST_LEVEL)
    result = contrast.always_valid(1 - TRUST_LEVEL, tau)
    return TrustTest(result.statistic, None, result.p_value)


def passed(p_value: float | None) -> bool | None:
    """Return False if a check of trust fails at this p-value; None if there is none."""
    return None if p_value is None else p_value >= TRUST_LEVEL
