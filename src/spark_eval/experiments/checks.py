"""Checks of trust in an experiment. For the driver."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final

from spark_eval.experiments.cells import ExperimentCells, before_exposure
from spark_eval.experiments.inference import (
    PRIOR_UNITS,
    Contrast,
    TrustTest,
    sample_ratio,
    sequential_sample_ratio,
    tau_squared_of,
)
from spark_eval.experiments.plan import (
    DAY_SLICE,
    MetricKind,
    SampleRatioTest,
)
from spark_eval.experiments.tables import CheckRow
from spark_eval.experiments.worker.bucket import UNITS
from spark_eval.experiments.worker.halves import arms_of
from spark_eval.schema import ALL, Outcome, Reason
from spark_eval.statistics.significance import adjusted

# A check of trust fails below this p-value.
TRUST_LEVEL: Final = 0.001


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
            for treatment in self.experiment.arms[1:] if metric.kind is not MetricKind.RETENTION else ():
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
