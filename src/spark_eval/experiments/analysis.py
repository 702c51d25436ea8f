"""From exact sums to estimates, checks of trust and decisions. For the driver."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import Final

from spark_eval.errors import GateFailure
from spark_eval.experiments.inference import Contrast, lift_interval, sample_ratio
from spark_eval.experiments.moments import ArmEstimate, Moments
from spark_eval.experiments.plan import Experiment, ExperimentPlan, MarginKind, Metric, Role
from spark_eval.experiments.tables import CheckRow, DecisionRow, ExperimentRow
from spark_eval.experiments.worker.bucket import PRE, USED, USERS, BucketSums
from spark_eval.schema import ALL, Outcome, Reason
from spark_eval.statistics.intervals import square_root
from spark_eval.statistics.significance import adjusted

# A check of trust fails below this p-value.
TRUST_LEVEL: Final = 0.001


class Decision(StrEnum):
    """Decision on a treatment."""

    WIN = "win"
    FLAT = "flat"
    LOSS = "loss"
    BLOCKED = "blocked"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Analysis:
    """Results of one experiment, from the sums of all its units."""

    plan: ExperimentPlan
    experiment: Experiment
    sums: BucketSums

    @cached_property
    def checks(self) -> list[CheckRow]:
        """Checks of trust: sample ratio, crossovers, pre-period, assignment."""
        name = self.experiment.name
        counts = [self.sums.units[name, arm] for arm in self.experiment.arms]
        weights = [self.experiment.variants[arm] for arm in self.experiment.arms]
        statistic, freedom, p_value = sample_ratio(counts, weights)
        rows = [CheckRow(name, "srm", ALL, statistic, freedom, p_value, passed(p_value))]
        rows.append(CheckRow(name, "crossover", ALL, self.crossover_share, None, None, True))
        if self.experiment.assignment is not None and name in self.sums.mismatched:
            n_users = self.sums.mismatched[name]
            rows.append(CheckRow(name, "assignment", ALL, n_users, None, None, n_users == 0))
        for metric in self.plan.metrics:
            for treatment in self.experiment.arms[1:]:
                contrast = Contrast.of(*self.estimates(metric, treatment, PRE))
                result = contrast.test(self.plan.confidence)
                subject = f"{metric.name} of {treatment}"
                numbers = (result.statistic, contrast.freedom, result.p_value)
                rows.append(CheckRow(name, "pre_period", subject, *numbers, passed(result.p_value)))
        return rows

    @property
    def crossover_share(self) -> float:
        """Share of exposed users with several variants."""
        rows, name = self.sums.rows, self.experiment.name
        n_users = rows[name, USERS, Outcome.IN, None]
        return rows[name, USERS, Outcome.DROPPED, Reason.CROSSOVER] / n_users if n_users else 0.0

    @property
    def failed_checks(self) -> list[str]:
        """Names of the failed checks, each once."""
        return list(dict.fromkeys(row.check for row in self.checks if row.passed is False))

    @property
    def is_trusted(self) -> bool:
        """True if no check failed."""
        return not self.failed_checks

    def moments(self, metric: Metric, arm: str, phase: str) -> Moments:
        """Return the moments of an arm."""
        return self.sums.moments.get((self.experiment.name, metric.name, phase, arm), Moments())

    def estimates(self, metric: Metric, treatment: str, phase: str = USED) -> tuple[ArmEstimate, ArmEstimate]:
        """Return the estimates of control and treatment."""
        x_scale, y_scale = (*map(metric.scale, metric.terms), 1)[:2]
        of_arms = [self.moments(metric, arm, phase) for arm in (self.experiment.control, treatment)]
        control, other = (moments.estimate(x_scale, y_scale) for moments in of_arms)
        return control, other

    @cached_property
    def rows(self) -> list[ExperimentRow]:
        """Rows of ``experiments``; p-values of goals are adjusted over goals and treatments."""
        raw = [
            self.raw_row(metric, treatment)
            for metric in self.plan.metrics
            for treatment in self.experiment.arms[1:]
        ]
        goals = [number for number, row in enumerate(raw) if row.role == Role.GOAL]
        p_values = adjusted([raw[number].p_value for number in goals], self.plan.correction)
        for number, p_value in zip(goals, p_values, strict=True):
            raw[number] = raw[number]._replace(p_adjusted=p_value)
        guarded = [
            self.guardrail_row(metric, row)
            for metric in self.plan.metrics
            for row in raw
            if metric.role is Role.GUARDRAIL and row.metric == metric.name
        ]
        return [*raw, *guarded]

    def raw_row(self, metric: Metric, treatment: str) -> ExperimentRow:
        """Return the two-sided test of the difference, with the interval of the lift."""
        control, other = self.estimates(metric, treatment)
        contrast, confidence = Contrast.of(control, other), self.plan.confidence
        result = contrast.test(confidence)
        lift = None
        if control.value and other.value is not None:
            lift = float(other.value / control.value - 1)
        low, high = (
            lift_interval(control, other, contrast.quantile(confidence)) if lift is not None else (None, None)
        )
        n_control, n_treatment = (
            self.moments(metric, arm, USED).n_undefined for arm in (self.experiment.control, treatment)
        )
        return ExperimentRow(
            experiment=self.experiment.name,
            metric=metric.name,
            treatment=treatment,
            control=self.experiment.control,
            method="raw",
            segment=ALL,
            segment_value=ALL,
            role=metric.role.value,
            n_control=control.n,
            n_treatment=other.n,
            undefined_control=n_control,
            undefined_treatment=n_treatment,
            control_value=number(control.value),
            treatment_value=number(other.value),
            control_se=root(control.variance),
            treatment_se=root(other.variance),
            difference=number(contrast.difference),
            std_error=contrast.std_error,
            statistic=result.statistic,
            df=contrast.freedom,
            p_value=result.p_value,
            p_adjusted=None,
            ci_low=result.ci_low,
            ci_high=result.ci_high,
            lift=lift,
            lift_low=low,
            lift_high=high,
            reason=contrast.reason,
            trusted=self.is_trusted,
            conventions=self.plan.stamp,
        )

    def guardrail_row(self, metric: Metric, raw: ExperimentRow) -> ExperimentRow:
        """Return the one-sided test that the treatment is not worse than the control by the margin."""
        control, other = self.estimates(metric, raw.treatment)
        margin, times = Fraction(str(metric.margin or 0)), Fraction(1)
        if metric.margin_kind is MarginKind.RELATIVE:
            # The margin is a share of the size of the control's value.
            size = -1 if control.value is not None and control.value < 0 else 1
            times -= metric.sign * size * margin
            margin = Fraction(0)
        contrast = Contrast.of(control, other, times)
        if contrast.difference is not None:
            contrast = Contrast(
                contrast.difference + metric.sign * margin, contrast.variance, contrast.freedom
            )
        alternative = "greater" if metric.sign > 0 else "less"
        result = contrast.test(self.plan.confidence, alternative)
        conventions = f"margin={metric.margin:g} {metric.margin_kind}; {self.plan.stamp}"
        return raw._replace(
            method="non_inferiority",
            difference=number(contrast.difference),
            std_error=contrast.std_error,
            statistic=result.statistic,
            df=contrast.freedom,
            p_value=result.p_value,
            p_adjusted=None,
            ci_low=None,
            ci_high=None,
            lift=None,
            lift_low=None,
            lift_high=None,
            reason=contrast.reason,
            conventions=conventions,
        )

    @cached_property
    def decisions(self) -> list[DecisionRow]:
        """One decision per treatment."""
        rows = []
        for treatment in self.experiment.arms[1:]:
            decision, reason = self.decide(treatment)
            name, gate = self.experiment.name, self.experiment.gate
            rows.append(DecisionRow(name, treatment, decision.value, reason, self.is_trusted, gate))
        return rows

    def decide(self, treatment: str) -> tuple[Decision, str]:
        """Return the decision on a treatment and its reason; the first rule that applies decides."""
        if not self.is_trusted:
            return Decision.BLOCKED, f"not trusted: {', '.join(self.failed_checks)}"
        level = 1 - self.plan.confidence
        signs = {metric.name: metric.sign for metric in self.plan.metrics}
        rows = [row for row in self.rows if row.treatment == treatment]
        goals = [row for row in rows if row.role == Role.GOAL]
        certain = [row for row in goals if row.p_adjusted is not None and row.p_adjusted < level]
        worse = [row.metric for row in certain if signs[row.metric] * (row.difference or 0) < 0]
        if worse:
            return Decision.LOSS, f"worse: {', '.join(worse)}"
        guarded = [row for row in rows if row.method == "non_inferiority"]
        failed = [row.metric for row in guarded if not is_within(row, signs[row.metric], level)]
        if failed:
            return Decision.BLOCKED, f"guardrails not met: {', '.join(failed)}"
        if certain:
            return Decision.WIN, f"better: {', '.join(row.metric for row in certain)}"
        if any(row.p_value is not None for row in goals):
            return Decision.FLAT, "no goal differs significantly"
        reasons = dict.fromkeys(row.reason for row in goals if row.reason)
        return Decision.UNDECIDED, ", ".join(map(str, reasons)) or "no goal"


def passed(p_value: float | None) -> bool | None:
    """Return False if a check of trust fails at this p-value; None if there is none."""
    return None if p_value is None else p_value >= TRUST_LEVEL


def is_within(row: ExperimentRow, sign: int, level: float) -> bool:
    """Return True if a guardrail holds; without any spread its difference decides."""
    if row.p_value is not None:
        return row.p_value < level
    return row.std_error == 0 and row.difference is not None and sign * row.difference >= 0


def number(value: Fraction | None) -> float | None:
    """Return a fraction as a double, rounded once."""
    return None if value is None else float(value)


def root(variance: Fraction | None) -> float | None:
    """Return the standard error of a variance."""
    return None if variance is None else square_root(variance)


def analyses(plan: ExperimentPlan, sums: BucketSums) -> Iterator[Analysis]:
    """Yield the analysis of each experiment."""
    return (Analysis(plan, experiment, sums) for experiment in plan.experiments)


def failure_of(decisions: Sequence[DecisionRow]) -> GateFailure | None:
    """Return the failure of a run: experiments that cannot be trusted, gated ones that are lost or blocked.

    >>> failure_of([DecisionRow("home", "b", "loss", "worse: ctr", True, False)]) is None
    True
    """
    stopped = (Decision.LOSS, Decision.BLOCKED)
    failed = [row for row in decisions if not row.trusted or (row.gate and row.decision in stopped)]
    if not failed:
        return None
    texts = [f"{row.experiment}, {row.treatment}: {row.decision} ({row.reason})" for row in failed]
    return GateFailure("EXPERIMENT_FAILED", "; ".join(texts))
