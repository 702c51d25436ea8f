"""From exact sums to the rows of ``experiments``. For the driver."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import Final

from spark_eval.conventions.comparison import Drop, Mode
from spark_eval.experiments.checks import NO_SPREAD, Compared, TrustChecks
from spark_eval.experiments.inference import (
    Contrast,
    effect_factor,
    interactions,
    lift_interval,
    needed_units,
    tau_squared_of,
)
from spark_eval.experiments.moments import (
    ArmEstimate,
    Moments,
    adjusted_estimates,
)
from spark_eval.experiments.plan import (
    Gate,
    MarginKind,
    Metric,
    Preset,
    Role,
    Test,
)
from spark_eval.experiments.tables import ExperimentRow
from spark_eval.experiments.worker.units import DAY_SINCE, NOVELTY
from spark_eval.results.effects import Finding
from spark_eval.schema import ALL, Direction
from spark_eval.statistics.differences import TestResult
from spark_eval.statistics.significance import adjusted

# Test of a difference, or of a lift.
Testing = Callable[[Contrast], TestResult]


class Method(StrEnum):
    """Method of a row of ``experiments``."""

    RAW = "raw"
    Z_POOLED = "z_pooled"
    CUPED = "cuped"
    SEQUENTIAL = "sequential"
    NON_INFERIORITY = "non_inferiority"
    GATE = "gate"
    NOVELTY = "novelty"
    COCHRAN_Q = "cochran_q"
    GAIL_SIMON = "gail_simon"


# Methods whose p-value belongs to the lift under the preset gbstats.
TESTED_BY_LIFT: Final = (Method.RAW, Method.CUPED, Method.SEQUENTIAL)


@dataclass(frozen=True)
class Estimates(TrustChecks):
    """Rows of one experiment, from the sums of all its units."""

    @cached_property
    def rows(self) -> list[ExperimentRow]:
        """Rows of ``experiments``; p-values of goals are adjusted over goals and treatments."""
        pairs = [(metric, arm) for metric in self.plan.metrics for arm in self.experiment.arms[1:]]
        estimates = [self.raw_row(metric, treatment) for metric, treatment in pairs]
        estimates += [
            self.pooled_row(metric, treatment) for metric, treatment in pairs if metric.test is Test.Z_POOLED
        ]
        if self.experiment.sequential is not None:
            estimates += [self.sequential_row(metric, treatment) for metric, treatment in pairs]
        self.adjust_goals(estimates)
        adjusting = [self.cuped_row(metric, treatment) for metric, treatment in pairs if metric.cuped]
        self.adjust_goals(adjusting)
        estimates += adjusting
        for metric, treatment in pairs:
            if metric.role is Role.GUARDRAIL:
                estimates.append(self.guardrail_row(metric, treatment))
            estimates += [self.gate_row(gate, metric, treatment) for gate in self.gates_of(metric)]
        for metric, treatment in pairs:
            for by in (*self.experiment.segments, *self.slices):
                estimates += self.rows_by(metric, treatment, by)
            if self.plan.novelty_days is not None and metric.kind.has_novelty:
                estimates += self.novelty_rows(metric, treatment)
        return estimates

    def gates_of(self, metric: Metric) -> list[Gate]:
        """Return the gates of this experiment that limit the drop of a metric."""
        names = (self.experiment.name, metric.name)
        gates = [gate for gate in self.plan.gates if gate.max_drop is not None]
        return [gate for gate in gates if (gate.experiment, gate.metric) == names]

    def adjust_goals(self, rows: list[ExperimentRow]) -> None:
        """Set the adjusted p-values of the rows of goals, of the method that decides or is the only one."""
        is_single = len({row.method for row in rows}) == 1
        goals = [
            number
            for number, row in enumerate(rows)
            if row.role == Role.GOAL and (is_single or row.method == self.deciding(row.metric))
        ]
        p_values = adjusted([rows[number].p_value for number in goals], self.plan.correction)
        for number, p_value in zip(goals, p_values, strict=True):
            rows[number] = rows[number]._replace(p_adjusted=p_value)
            if rows[number].method == self.deciding(rows[number].metric):
                rows[number] = rows[number]._replace(finding=self.finding_of(rows[number]))

    def finding_of(self, row: ExperimentRow) -> Finding:
        """Return the finding of a goal: its adjusted p-value decides."""
        if row.p_adjusted is None:
            return Finding.UNKNOWN
        if row.p_adjusted >= 1 - self.plan.confidence:
            return Finding.FLAT
        is_better = (
            (row.difference or 0) > 0 if row.direction == Direction.HIGHER else (row.difference or 0) < 0
        )
        return Finding.WINS if is_better else Finding.LOSES

    def deciding(self, metric: str) -> Method:
        """Return the method whose rows decide on a metric."""
        if self.experiment.sequential is not None:
            return Method.SEQUENTIAL
        pooled = [one.name for one in self.plan.metrics if one.test is Test.Z_POOLED]
        return Method.Z_POOLED if metric in pooled else Method.RAW

    def pooled_row(self, metric: Metric, treatment: str) -> ExperimentRow:
        """Return the z-test of the difference of two shares, with their pooled variance."""
        compared = self.compared(metric, treatment, self.estimating(metric))
        compared = replace(compared, contrast=Contrast.z_pooled(compared.strata))
        return self.two_sided(metric, treatment, Method.Z_POOLED, compared)

    def raw_row(self, metric: Metric, treatment: str) -> ExperimentRow:
        """Return the two-sided test of the difference, with the interval of the lift."""
        return self.two_sided(
            metric, treatment, Method.RAW, self.compared(metric, treatment, self.estimating(metric))
        )

    def cuped_row(self, metric: Metric, treatment: str) -> ExperimentRow:
        """Return the test of the difference adjusted by the pre-period."""
        thetas = []

        def adjusting(control: Moments, other: Moments) -> tuple[ArmEstimate, ArmEstimate]:
            [of_control, of_treatment], (theta, _) = adjusted_estimates([control, other], metric.scales)
            thetas.append(theta)
            return of_control, of_treatment

        compared = self.compared(metric, treatment, adjusting)
        raw = self.compared(metric, treatment, self.estimating(metric)).contrast.variance
        variance = compared.contrast.variance
        return self.two_sided(metric, treatment, Method.CUPED, compared)._replace(
            theta=number(thetas[0]) if len(thetas) == 1 else None,
            variance_reduction=float(1 - variance / raw) if raw and variance is not None else None,
        )

    def two_sided(
        self,
        metric: Metric,
        treatment: str,
        method: Method,
        compared: Compared,
        by: str = ALL,
        value: str = ALL,
        testing: Testing | None = None,
    ) -> ExperimentRow:
        """Return the row of a two-sided test; by default Welch's of the difference."""
        contrast, confidence = compared.contrast, self.plan.confidence
        test = testing or (lambda tested: tested.test(confidence))
        result, reason = test(contrast), self.reason_of(metric, compared)
        control, other = compared.single or (ArmEstimate(None, None, 0),) * 2
        lift, low, high = None, None, None
        if self.plan.conventions is Preset.GBSTATS and method in TESTED_BY_LIFT:
            relative = self.lift_of(metric, compared, method)
            of_lift = test(relative)
            lift, low, high = number(relative.difference), of_lift.ci_low, of_lift.ci_high
            result = result._replace(statistic=of_lift.statistic, p_value=of_lift.p_value)
            reason = reason or (None if relative.difference is not None else "the value of the control is 0")
        elif control.value and other.value is not None:
            lift = float(other.value / control.value - 1)
            low, high = lift_interval(control, other, contrast, confidence, self.plan.conventions.lift)
        mde, n_needed = (
            self.power_of(metric, compared) if by == ALL and method is not Method.SEQUENTIAL else (None, None)
        )
        return ExperimentRow(
            experiment=self.experiment.name,
            metric=metric.name,
            treatment=treatment,
            control=self.experiment.control,
            method=method.value,
            segment=by,
            segment_value=value,
            role=metric.role.value,
            n_control=compared.control.n,
            n_treatment=compared.treatment.n,
            undefined_control=compared.control.n_undefined,
            undefined_treatment=compared.treatment.n_undefined,
            control_value=number(control.value),
            treatment_value=number(other.value),
            control_se=control.std_error,
            treatment_se=other.std_error,
            difference=number(contrast.difference),
            std_error=contrast.std_error,
            statistic=result.statistic,
            df=None if contrast.freedom == float("inf") else contrast.freedom,
            p_value=result.p_value,
            p_adjusted=None,
            ci_low=result.ci_low,
            ci_high=result.ci_high,
            lift=lift,
            lift_low=low,
            lift_high=high,
            theta=None,
            variance_reduction=None,
            mde=mde,
            n_needed=n_needed,
            reason=reason,
            trusted=self.is_trusted,
            conventions=self.stamp(metric, method, by),
            direction=metric.direction.value,
            margin=None,
            margin_kind=None,
            finding=None,
        )

    def reason_of(self, metric: Metric, compared: Compared) -> str | None:
        """Return the reason why a difference has no p-value; None if it has one."""
        reason = compared.reason
        return reason and (self.nothing_measured(metric) or reason)

    def lift_of(self, metric: Metric, compared: Compared, method: Method) -> Contrast:
        """Return the lift of gbstats: over the value of the control without adjustment."""
        (base, v, _), (value, w, _) = (
            arm.estimate(metric.scales) for arm in (compared.control, compared.treatment)
        )
        if not base or value is None or v is None or w is None:
            return compared.contrast.relative(base, None)
        ratio = value / base
        if method is not Method.CUPED:
            return compared.contrast.relative(base, w + ratio**2 * v)
        arms, factors = (compared.control, compared.treatment), (ratio, Fraction(1))
        (control, treatment), _ = adjusted_estimates(arms, metric.scales, factors)
        assert control.variance is not None
        assert treatment.variance is not None
        return compared.contrast.relative(base, treatment.variance + control.variance)

    def stamp(self, metric: Metric, method: Method, by: str) -> str:
        """Return the conventions of a row."""
        parts = [self.plan.stamp]
        if method is Method.Z_POOLED:
            parts.append("test=z_pooled")
        for term in metric.terms:
            key = (self.experiment.name, term, metric.scale(term))
            if key in self.plan.caps:
                cap = self.plan.caps[key] / metric.scale(term)
                parts.append(f"{term.kind} winsorise={term.winsorise:g} at {cap:g}")
        if self.plan.by_unit and metric.kind.is_mean:
            parts.append("of units" if metric.is_share else "of users")
        if by in self.plan.slices:
            parts.append("descriptive")
        if method is Method.SEQUENTIAL:
            given = self.experiment.sequential
            assert given is not None
            parts.append(f"tau={given.tau:g}" if given.tau else f"tightest_at={given.tightest_at:g}")
            if self.experiment.window is None:
                parts.append("approximate: values are not final without a window")
        if method in (Method.COCHRAN_Q, Method.GAIL_SIMON) and by in self.slices:
            parts.append("approximate: users recur")
        return "; ".join(parts)

    def power_of(self, metric: Metric, compared: Compared) -> tuple[float | None, int | None]:
        """Return the smallest detectable effect, and the units of the control needed for the given effect."""
        error = compared.contrast.std_error
        if not error or compared.single is None:
            return None, None
        n_guardrails = sum(one.role is Role.GUARDRAIL for one in self.plan.metrics)
        factor = effect_factor(self.plan.confidence, self.plan.power, n_guardrails)
        control, other = compared.single
        if metric.effect is None or control.variance is None or other.variance is None:
            return factor * error, None
        variances = (float(control.variance * control.n), float(other.variance * other.n))
        return factor * error, needed_units(metric.effect, variances, factor, other.n / control.n)

    def sequential_row(self, metric: Metric, treatment: str) -> ExperimentRow:
        """Return the test of the difference that is valid at every look."""
        given = self.experiment.sequential
        assert given is not None
        compared = self.compared(metric, treatment, self.estimating(metric))
        enough = min(compared.control.n, compared.treatment.n) >= given.min_users
        n_units, confidence = compared.control.n + compared.treatment.n, self.plan.confidence

        def always_valid(tested: Contrast) -> TestResult:
            if not enough or not tested.variance:
                return TestResult()
            tau = (
                Fraction(given.tau) ** 2
                if given.tau is not None
                else tau_squared_of(given.tightest_at or 0, n_units, tested.variance, confidence)
            )
            return tested.always_valid(confidence, tau)

        row = self.two_sided(metric, treatment, Method.SEQUENTIAL, compared, testing=always_valid)
        reason = row.reason if enough else f"fewer than {given.min_users} units in an arm"
        row = row._replace(df=None, reason=reason)
        # Our intervals of the lift hold at one look only.
        is_ours = self.plan.conventions is not Preset.GBSTATS
        return row._replace(lift_low=None, lift_high=None) if is_ours else row

    def rows_by(self, metric: Metric, treatment: str, by: str) -> list[ExperimentRow]:
        """Return a row per value of a segment or slice, Holm-corrected; then both tests of interaction."""
        estimating, rows = self.estimating(metric), []
        for value in self.values(metric, by):
            compared = self.compared(metric, treatment, estimating, by, value)
            rows.append(self.two_sided(metric, treatment, Method.RAW, compared, by, value))
        p_values = adjusted([row.p_value for row in rows], "holm")
        rows = [row._replace(p_adjusted=p) for row, p in zip(rows, p_values, strict=True)]
        return [*rows, *self.interaction_rows(metric, treatment, by, rows)]

    def interaction_rows(
        self, metric: Metric, treatment: str, by: str, rows: Sequence[ExperimentRow]
    ) -> list[ExperimentRow]:
        """Return the tests of heterogeneity and of opposite signs over the values of a segment or slice."""
        pairs = [(row.difference, row.std_error) for row in rows]
        known = [(d, error) for d, error in pairs if d is not None and error]
        tests = interactions([d for d, _ in known], [error for _, error in known])
        if tests is None:
            return []
        empty = self.compared(metric, treatment, lambda *_: (ArmEstimate(None, None, 0),) * 2)
        base = self.two_sided(metric, treatment, Method.COCHRAN_Q, empty, by)._replace(reason=None)
        q = base._replace(
            difference=tests.pooled, statistic=tests.q, df=len(known) - 1, p_value=tests.q_p_value
        )
        conventions = self.stamp(metric, Method.GAIL_SIMON, by)
        m = base._replace(
            method=Method.GAIL_SIMON.value,
            statistic=tests.m,
            p_value=tests.m_p_value,
            conventions=conventions,
        )
        return [q, m]

    def novelty_rows(self, metric: Metric, treatment: str) -> list[ExperimentRow]:
        """Return the difference of late - early by user, then the difference on each day since exposure."""
        estimating = self.estimating(metric)
        change = self.compared(metric, treatment, estimating, NOVELTY)
        rows = [self.two_sided(metric, treatment, Method.NOVELTY, change, NOVELTY)]
        for value in self.values(metric, DAY_SINCE):
            compared = self.compared(metric, treatment, estimating, DAY_SINCE, value)
            rows.append(self.two_sided(metric, treatment, Method.RAW, compared, DAY_SINCE, value))
        return rows

    def guardrail_row(self, metric: Metric, treatment: str) -> ExperimentRow:
        """Return the one-sided test that the treatment is not worse than the control by the margin."""
        is_relative = metric.margin_kind is MarginKind.RELATIVE
        return self.one_sided(
            metric, treatment, Method.NON_INFERIORITY, metric.margin or 0, is_relative, self.plan.confidence
        )

    def gate_row(self, gate: Gate, metric: Metric, treatment: str) -> ExperimentRow:
        """Return the one-sided test of a gate: not worse by ``max_drop``, or certainly worse."""
        is_relative = gate.drop is Drop.RELATIVE
        row = self.one_sided(
            metric,
            treatment,
            Method.GATE,
            gate.max_drop or 0,
            is_relative,
            gate.confidence,
            worse=gate.mode is Mode.CERTAIN_DROP,
        )
        return row._replace(conventions=f"{gate.mode}; level={1 - gate.confidence:g}; {row.conventions}")

    def one_sided(
        self,
        metric: Metric,
        treatment: str,
        method: Method,
        amount: float,
        is_relative: bool,
        confidence: float,
        worse: bool = False,
    ) -> ExperimentRow:
        """Return the test that a treatment is not worse by a margin; with ``worse``, that it is."""
        compared = self.compared(metric, treatment, self.estimating(metric))
        margin, times = Fraction(str(amount)), Fraction(1)
        if is_relative and compared.strata[0][1].value is not None:
            # The margin is a share of the size of the control's value.
            size = -1 if compared.strata[0][1].value < 0 else 1
            times -= metric.sign * size * margin
            margin = Fraction(0)
        left = Contrast.over_strata(compared.strata, times)
        if left.difference is not None:
            left = Contrast(left.difference + metric.sign * margin, left.variance, left.freedom)
        alternative = "greater" if metric.sign * (-1 if worse else 1) > 0 else "less"
        tested = left.test(confidence, alternative)
        # Both one-sided bounds of the change itself, which are compared with the margin.
        both = 2 * confidence - 1
        row = self.two_sided(metric, treatment, method, compared, testing=lambda one: one.test(both))
        low, high = None, None
        if compared.single is not None and row.lift is not None:
            low, high = lift_interval(*compared.single, compared.contrast, both)
        kind = MarginKind.RELATIVE if is_relative else MarginKind.ABSOLUTE
        return row._replace(
            statistic=tested.statistic,
            p_value=tested.p_value,
            lift_low=low,
            lift_high=high,
            mde=None,
            n_needed=None,
            conventions=f"margin={amount:g} {kind.value}; {row.conventions}",
            margin=amount,
            margin_kind=kind.value,
            finding=finding_of_margin(row.reason, tested.p_value, left, metric.sign, 1 - confidence, worse),
        )


def finding_of_margin(
    reason: str | None, p_value: float | None, left: Contrast, sign: int, level: float, worse: bool
) -> Finding:
    """Return the finding of a one-sided test; ``left`` is what is left of the margin, times the sign.

    Without any spread the difference decides. A metric that measures nothing is unknown.
    """
    if reason not in (None, NO_SPREAD) or left.difference is None:
        return Finding.UNKNOWN
    if p_value is None:
        return Finding.HOLDS if sign * left.difference >= 0 else Finding.BREACHED
    first, second = (Finding.BREACHED, Finding.HOLDS) if worse else (Finding.HOLDS, Finding.BREACHED)
    if p_value < level:
        return first
    return second if p_value > 1 - level else Finding.NOT_RULED_OUT


def number(value: Fraction | None) -> float | None:
    """Return a fraction as a double, rounded once."""
    return None if value is None else float(value)
