"""Decisions of gates: worse, not worse or undecided, from bounds on the margin left until a gate fails."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, Self

from spark_eval.comparison.gates import Gate
from spark_eval.comparison.rows import GateRow
from spark_eval.conventions.comparison import Decision, Drop, Mode
from spark_eval.errors import DataError, GateFailure
from spark_eval.schema import ALL
from spark_eval.statistics.differences import DUST, ComparedSums, Estimate, signed_root, unpaired
from spark_eval.statistics.intervals import Summary, square_root
from spark_eval.statistics.significance import LARGEST_EFFECT, adjusted, bounds, p_of_t, users_needed

# Maximum number of failed gates that an error names.
MOST_NAMED: Final = 5


@dataclass(frozen=True)
class Evidence:
    """Evidence for a gate in one cell: a pair of models over the users of a segment value.

    ``estimate`` is that of c, the margin left until the gate fails, over ``n_users`` users. ``common`` is the
    share of these users among the users of either model; None if users are not paired.
    """

    gate: Gate
    model: str
    segment_value: str
    baseline: Fraction | None
    candidate: Fraction | None
    estimate: Estimate
    n_users: int
    common: float | None

    @classmethod
    def of_users(cls, gate: Gate, model: str, segment_value: str, sums: ComparedSums, common: float) -> Self:
        """Return the evidence from the users with values of both models."""
        after, before = sums.means or (None, None)
        estimate = drop_rounding_noise(sums.combination(*gate.factors, amount=gate.amount))
        return cls(gate, model, segment_value, before, after, estimate, sums.n, common)

    @classmethod
    def of_means(
        cls, gate: Gate, model: str, segment_value: str, baseline: Summary, candidate: Summary
    ) -> Self:
        """Return the evidence from two published means; the users of the means may differ."""
        of_candidate, of_baseline = gate.factors
        below, above = scale_mean(baseline, -of_baseline), scale_mean(candidate, of_candidate)
        distance = unpaired(*below, baseline.n, *above, candidate.n)
        value = None if distance.value is None else distance.value + Fraction(gate.amount)
        before, after = (None if one.value is None else Fraction(one.value) for one in (baseline, candidate))
        estimate, n_users = drop_rounding_noise(replace(distance, value=value)), min(baseline.n, candidate.n)
        return cls(gate, model, segment_value, before, after, estimate, n_users, None)

    def __str__(self) -> str:
        return row_in_words(gate_row(self.gate, self.model, self.segment_value))

    @property
    def p_worse(self) -> float | None:
        """One-sided p-value of c < 0; None without variance and in mode ``observed``."""
        value, variance = self.estimate.value, self.estimate.variance
        if value is None or not variance or self.gate.mode is Mode.OBSERVED:
            return None
        return p_of_t(signed_root(value, variance), self.estimate.freedom, "less")

    @property
    def users_needed(self) -> int | None:
        """Number of users for 80 % power to show that a model as good as the baseline is not worse.

        None if no drop is allowed, if nothing varies, or if users are not paired.
        """
        is_relative = self.gate.drop is Drop.RELATIVE
        limit = Fraction(self.gate.max_drop) * (abs(self.baseline or Fraction()) if is_relative else 1)
        if self.common is None or not limit or not self.estimate.variance:
            return None
        squared = limit**2 / (self.estimate.variance * self.n_users)
        return users_needed(Fraction(square_root(min(squared, LARGEST_EFFECT**2))), self.gate.confidence)

    def faults(self) -> list[DataError]:
        """Return the error of insufficient evidence, if any: too few common users, or a small share."""
        gate = self.gate
        if not gate.value.metric.is_of_users:
            return []
        if self.n_users < gate.min_users:
            message = f"{self}: {self.n_users} users in both, min_users is {gate.min_users}"
            message += "; set the gate's key min_users to decide by fewer"
            return [DataError("TOO_FEW_USERS", message)]
        if self.common is not None and self.common < gate.min_common:
            message = f"{self}: {self.common:.4f} of all users are in both, min_common is {gate.min_common}"
            message += "; set the gate's key min_common to decide by a smaller share"
            return [DataError("POPULATIONS_DIFFER", message)]
        return []

    def decision(self, p_adjusted: float | None) -> Decision:
        """Return the decision; mode ``certain_drop`` uses the p-value adjusted for the number of gates."""
        value, gate = self.estimate.value, self.gate
        if value is None:
            return Decision.UNDECIDED
        if gate.mode is Mode.OBSERVED:
            return Decision.WORSE if value < 0 else Decision.NOT_WORSE
        low, high = bounds(self.estimate, gate.confidence)
        if low is None or high is None:
            return Decision.UNDECIDED
        is_worse = high < 0 if p_adjusted is None else p_adjusted < 1 - gate.confidence
        if is_worse:
            return Decision.WORSE
        return Decision.NOT_WORSE if low >= 0 else Decision.UNDECIDED

    def row(self, p_adjusted: float | None) -> GateRow:
        """Return the row of the table ``gates``."""
        decision, mode = self.decision(p_adjusted), self.gate.mode
        fails = {Decision.WORSE} if mode is not Mode.NON_INFERIOR else {Decision.WORSE, Decision.UNDECIDED}
        low, high = (None, None) if mode is Mode.OBSERVED else bounds(self.estimate, self.gate.confidence)
        before, after = self.baseline, self.candidate
        return gate_row(
            self.gate,
            self.model,
            self.segment_value,
            baseline_value=None if before is None else float(before),
            candidate_value=None if after is None else float(after),
            difference=None if before is None or after is None else float(after - before),
            bound_low=low,
            bound_high=high,
            decision=decision,
            passed=decision not in fails,
            reason=self.reason(decision),
            n_users=self.n_users,
            p_worse=self.p_worse,
            p_adjusted=p_adjusted,
            users_needed=None if mode is Mode.OBSERVED else self.users_needed,
        )

    def reason(self, decision: Decision) -> str:
        """Return the reason for the decision in words."""
        if self.gate.mode is Mode.OBSERVED:
            return "by the values alone, whatever chance does"
        if decision is not Decision.UNDECIDED:
            return decision.meaning
        needed = self.users_needed
        more = "" if needed is None else f"; {needed:,} users would tell, there are {self.n_users:,}"
        is_warning = "warning: " if self.gate.mode is Mode.CERTAIN_DROP else ""
        return f"{is_warning}{decision.meaning}{more}"


def drop_rounding_noise(estimate: Estimate) -> Estimate:
    """Return the estimate, with variance 0 if its variance is within the rounding error of doubles."""
    value, variance = estimate.value, estimate.variance
    is_dust = value is not None and variance is not None and variance <= DUST * value**2
    return replace(estimate, variance=Fraction(0)) if is_dust else estimate


def gate_row(gate: Gate, model: str, segment_value: str, **found: Any) -> GateRow:
    """Return a row of a gate with the given results; results that are left out are unknown."""
    row: dict[str, Any] = {name: getattr(gate, name, None) for name in GateRow._fields}
    row |= {"model": model, "against_model": gate.against_model or model, "segment_value": segment_value}
    return GateRow(**row | {"n_users": 0} | found)


def without_baseline(gate: Gate, model: str, hint: str) -> GateRow:
    """Return the row of a gate that passes with a warning because its baseline does not exist yet.

    ``hint`` names the missing model or run and the existing ones, since the name may be misspelt.
    """
    value, decision = gate.segment_value or gate.segment, Decision.NO_BASELINE
    reason = f"warning: {decision.meaning}: {hint}"
    return gate_row(gate, model, value, decision=decision, passed=True, reason=reason)


def decide_all(evidence: Sequence[Evidence]) -> list[GateRow]:
    """Return a row for each piece of evidence.

    In mode ``certain_drop`` the p-values of all gates are adjusted by Holm. The other modes need no
    adjustment, because every gate must pass.

    Raises:
        DataError: POPULATIONS_DIFFER or TOO_FEW_USERS; one error lists all insufficient evidence.
    """
    DataError.raise_all([fault for one in evidence for fault in one.faults()])
    alarms = [one.p_worse if one.gate.mode is Mode.CERTAIN_DROP else None for one in evidence]
    return [one.row(p) for one, p in zip(evidence, adjusted(alarms, "holm"), strict=True)]


def failure_of(rows: Sequence[GateRow]) -> GateFailure | None:
    """Return the error that names the failed gates; None if all passed."""
    failed = [row for row in rows if not row.passed]
    if not failed:
        return None
    named = (f"{row_in_words(row)} is {row.decision} ({row.reason})" for row in failed[:MOST_NAMED])
    more = f"; and {len(failed) - MOST_NAMED} more" if failed[MOST_NAMED:] else ""
    message = f"{len(failed)} of {len(rows)} gates failed: {'; '.join(named)}{more}"
    return GateFailure("GATE_FAILED", f"{message}; the run is published, see the table gates")


def row_in_words(row: GateRow) -> str:
    """Return the comparison of a gate as text: ``ndcg@10 of 'als' against 'als' of run 'a'``."""
    k = "all" if row.k is None else row.k
    run = "" if row.against_run is None else f" of run {row.against_run!r}"
    of = "" if row.segment == ALL else f" ({row.segment} {row.segment_value!r})"
    return f"{row.metric}@{k}{of} of {row.model!r} against {row.against_model!r}{run}"


def scale_mean(summary: Summary, factor: Fraction) -> tuple[float | None, float | None]:
    """Return a published mean and its standard error, multiplied by a factor."""
    value, error = summary.value, summary.std_error
    return (
        None if value is None else value * float(factor),
        None if error is None else error * abs(float(factor)),
    )
