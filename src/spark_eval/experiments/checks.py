"""Checks of trust in an experiment. For the driver."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final

from spark_eval.experiments.cells import ExperimentCells, before_exposure
from spark_eval.experiments.inference import (
    sample_ratio,
    sequential_sample_ratio,
)
from spark_eval.experiments.plan import (
    MetricKind,
    SampleRatioTest,
)
from spark_eval.experiments.tables import CheckRow
from spark_eval.experiments.worker.bucket import UNITS
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
        found = test(self.counts(self.sums.units))
        rows = [CheckRow(name, "srm", ALL, *found, passed(found.p_value))]
        if self.plan.bots.ids or self.plan.bots.pre_events is not None:
            before = test(self.counts(self.sums.with_bots))
            rows.append(CheckRow(name, "srm", "with bots", *before, passed(before.p_value)))
        rows.append(CheckRow(name, "crossover", ALL, self.crossover_share, None, None, True))
        if self.experiment.assignment is not None and name in self.sums.mismatched:
            n_units = self.sums.mismatched[name]
            rows.append(CheckRow(name, "assignment", ALL, n_units, None, None, n_units == 0))
        for metric in self.plan.metrics:
            for treatment in self.experiment.arms[1:] if metric.kind is not MetricKind.RETENTION else ():
                contrast = self.compared(metric, treatment, partial(before_exposure, metric)).contrast
                result = contrast.test(self.plan.confidence)
                subject = f"{metric.name} of {treatment}"
                numbers = (result.statistic, contrast.freedom, result.p_value)
                rows.append(CheckRow(name, "pre_period", subject, *numbers, passed(result.p_value)))
        return [*rows, *self.shown_ratios]

    @cached_property
    def shown_ratios(self) -> list[CheckRow]:
        """Sample ratios by segment, Holm-corrected: shown, never a reason to distrust."""
        metric = next((one for one in self.plan.metrics if one.kind is not MetricKind.MEAN_OF_RATIOS), None)
        if metric is None or metric.kind is MetricKind.RETENTION:
            return []
        rows = []
        for segment in self.experiment.segments:
            values = self.values(metric, segment)
            tests = []
            for value in values:
                counts = Counter(
                    {
                        (self.experiment.name, arm, stratum): self.moments(
                            metric, arm, stratum, segment, value
                        ).n
                        for arm in self.experiment.arms
                        for stratum in range(len(self.experiment.strata))
                    }
                )
                tests.append(sample_ratio(self.counts(counts)))
            p_values = adjusted([test.p_value for test in tests], "holm")
            for value, test, p_value in zip(values, tests, p_values, strict=True):
                subject = f"{segment}={value}"
                rows.append(
                    CheckRow(
                        self.experiment.name,
                        "srm_segment",
                        subject,
                        test.statistic,
                        test.freedom,
                        p_value,
                        None,
                    )
                )
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
        arms, found = self.experiment.arms, []
        for stratum, planned in enumerate(self.experiment.strata):
            numbers = [units[self.experiment.name, arm, stratum] for arm in arms]
            if sum(numbers) or len(self.experiment.strata) == 1:
                found.append((numbers, [planned.weights[arm] for arm in arms]))
        return found or [([0] * len(arms), [1.0] * len(arms))]


def passed(p_value: float | None) -> bool | None:
    """Return False if a check of trust fails at this p-value; None if there is none."""
    return None if p_value is None else p_value >= TRUST_LEVEL
