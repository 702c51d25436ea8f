"""Decisions of gates: worse, not worse or undecided, from bounds on the margin left until a gate fails.

Gates of all verbs take one path: their pairs of models (``gated_pairs``), the evidence for each pair, from
users of both models or from published means, and the decisions (``decide_gates``).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, Self

from spark_eval.comparison.gates import GATES_KEY, Gate, IfMissing
from spark_eval.comparison.rows import GateRow, finite_row
from spark_eval.conventions.comparison import Decision, Drop, Mode
from spark_eval.errors import ConfigError, DataError, GateFailure, nearest
from spark_eval.results.leaderboard import measure_of
from spark_eval.results.sentences import ASSUMED_GAIN, undecided_text
from spark_eval.schema import ALL
from spark_eval.statistics.differences import DUST, ComparedSums, Estimate, PairSums, signed_root, unpaired
from spark_eval.statistics.intervals import Summary, nearest_double, square_root
from spark_eval.statistics.significance import (
    LARGEST_EFFECT,
    adjusted,
    bounds,
    p_of_t,
    users_and_repeats_needed,
    users_needed,
)

# Names of baseline and candidate.
ModelPair = tuple[str, str]
# Key of summed differences: the pair, the metric at its cutoff as text, a segment and its value.
PairCell = tuple[ModelPair, str, str, str]
# Numbers of users of a pair: of the baseline, of the candidate, and of both.
UserCounts = tuple[int, int, int]
# Key of a published mean: model, metric, k, segment and its value.
MeanCell = tuple[str, str, int | None, str, str]
NO_SUMS: Final = PairSums.of([], [])
NO_MEAN: Final = Summary()
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
        baseline, candidate = sums.means or (None, None)
        estimate = drop_rounding_noise(sums.combination(*gate.factors(baseline), amount=gate.amount))
        return cls(gate, model, segment_value, baseline, candidate, estimate, sums.n, common)

    @classmethod
    def of_means(
        cls, gate: Gate, model: str, segment_value: str, baseline: Summary, candidate: Summary
    ) -> Self:
        """Return the evidence from two published means; the users of the means may differ."""
        baseline_mean, candidate_mean = (
            None if summary.value is None else Fraction(summary.value) for summary in (baseline, candidate)
        )
        of_baseline, of_candidate = gate.factors(baseline_mean)
        subtracted, added = scale_mean(baseline, -of_baseline), scale_mean(candidate, of_candidate)
        difference = unpaired(*subtracted, baseline.n, *added, candidate.n)
        margin = None if difference.value is None else difference.value + Fraction(gate.amount)
        estimate, n_users = (
            drop_rounding_noise(replace(difference, value=margin)),
            min(baseline.n, candidate.n),
        )
        return cls(gate, model, segment_value, baseline_mean, candidate_mean, estimate, n_users, None)

    def __str__(self) -> str:
        return row_in_words(gate_row(self.gate, self.model, self.segment_value))

    @property
    def p_worse(self) -> float | None:
        """One-sided p-value of c < 0; None without variance and in mode ``observed``."""
        return self.p_of_margin

    @property
    def p_of_margin(self) -> float | None:
        """One-sided p-value of c < 0 in this cell alone."""
        value, variance = self.estimate.value, self.estimate.variance
        if value is None or not variance or self.gate.mode is Mode.OBSERVED:
            return None
        return p_of_t(signed_root(value, variance), self.estimate.freedom, "less")

    @property
    def users_needed(self) -> int | None:
        """Number of users for 80 % power to show that a model as good as the baseline is not worse.

        If no drop is allowed, the model is better by ASSUMED_GAIN of the baseline. None if nothing varies, if
        users are not paired, or if the baseline is 0 where the limit is a share of it.
        """
        is_relative = self.gate.drop is Drop.RELATIVE or not self.gate.max_drop
        share = Fraction(self.gate.max_drop) or ASSUMED_GAIN
        limit = share * (abs(self.baseline or Fraction()) if is_relative else 1)
        if self.common is None or not limit or not self.estimate.variance:
            return None
        if self.estimate.parts is not None:
            return users_and_repeats_needed(self.estimate.parts, float(limit), self.gate.confidence)[0]
        squared = limit**2 / (self.estimate.variance * self.n_users)
        return users_needed(Fraction(square_root(min(squared, LARGEST_EFFECT**2))), self.gate.confidence)

    def insufficiencies(self) -> list[DataError]:
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
        baseline, candidate = self.baseline, self.candidate
        row = gate_row(
            self.gate,
            self.model,
            self.segment_value,
            baseline_value=None if baseline is None else nearest_double(baseline),
            candidate_value=None if candidate is None else nearest_double(candidate),
            difference=None
            if baseline is None or candidate is None
            else nearest_double(candidate - baseline),
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
        return finite_row(row)

    def reason(self, decision: Decision) -> str:
        """Return the reason for the decision in words."""
        if self.gate.mode is Mode.OBSERVED:
            return "by the values alone, whatever chance does"
        if decision is not Decision.UNDECIDED:
            return decision.meaning
        is_warning = "warning: " if self.gate.mode is Mode.CERTAIN_DROP else ""
        return is_warning + undecided_text(self.gate.max_drop, self.n_users, self.users_needed)


def drop_rounding_noise(estimate: Estimate) -> Estimate:
    """Return the estimate, with variance 0 if its variance is within the rounding error of doubles."""
    value, variance = estimate.value, estimate.variance
    is_dust = value is not None and variance is not None and variance <= DUST * value**2
    return replace(estimate, variance=Fraction(0)) if is_dust else estimate


def gate_row(gate: Gate, model: str, segment_value: str, **results: Any) -> GateRow:
    """Return a row of a gate with the given results; results that are left out are unknown."""
    row: dict[str, Any] = {name: getattr(gate, name, None) for name in GateRow._fields}
    row |= {"model": model, "against_model": gate.against_model or model, "segment_value": segment_value}
    return GateRow(**row | {"n_users": 0} | results)


def row_without_baseline(gate: Gate, model: str, message: str) -> GateRow:
    """Return the row of a gate that passes with a warning because its baseline does not exist yet.

    ``message`` names the missing model or run and the existing ones, since the name may be misspelt.
    """
    value, decision = gate.segment_value or gate.segment, Decision.NO_BASELINE
    reason = f"warning: {decision.meaning}: {message}"
    return gate_row(gate, model, value, decision=decision, passed=True, reason=reason)


def decide_all(evidence: Sequence[Evidence]) -> list[GateRow]:
    """Return a row for each piece of evidence.

    In mode ``certain_drop`` the p-values of all gates are adjusted by Holm. The other modes need no
    adjustment, because every gate must pass.

    Raises:
        DataError: POPULATIONS_DIFFER or TOO_FEW_USERS; one error lists all insufficient evidence.
    """
    DataError.raise_all([error for of_cell in evidence for error in of_cell.insufficiencies()])
    alarms = [of_cell.p_worse if of_cell.gate.mode is Mode.CERTAIN_DROP else None for of_cell in evidence]
    return [of_cell.row(p) for of_cell, p in zip(evidence, adjusted(alarms, "holm"), strict=True)]


@dataclass(frozen=True)
class GatedPair:
    """A gate of one pair of models.

    ``missing`` is the message that the baseline does not exist; None if it exists.
    """

    gate: Gate
    baseline: str
    candidate: str
    missing: str | None = None

    @property
    def names(self) -> ModelPair:
        """Names of baseline and candidate."""
        return self.baseline, self.candidate


def gated_pairs(
    gate: Gate, baselines: Sequence[str] | None, candidates: Sequence[str], missing_run: str = ""
) -> list[GatedPair]:
    """Return the model pairs of a gate; within one run a model is not compared with itself.

    ``baselines`` is None if the baseline's run does not exist; ``missing_run`` then names the existing runs.

    Raises:
        ConfigError: UNKNOWN_MODEL for an unknown candidate; SAME_MODEL if there is no pair.
        DataError: MISSING_BASELINE, unless the gate passes without its baseline.
    """
    if gate.model is not None and gate.model not in candidates:
        raise ConfigError.unknown("UNKNOWN_MODEL", "model", gate.model, candidates, f"{GATES_KEY}: {gate}")
    pairs, errors = [], []
    run = "this run" if gate.against_run is None else f"run {gate.against_run!r}"
    for candidate in candidates if gate.model is None else [gate.model]:
        baseline, missing = gate.against_model or candidate, None
        if gate.against_run is None and baseline == candidate:
            continue
        if baselines is None or baseline not in baselines:
            known = missing_run if baselines is None else nearest(baseline, baselines)
            missing = f"no model {baseline!r} in {run}; {known}"
            if gate.if_missing is IfMissing.REFUSE:
                message = f"{gate}: {missing}; if_missing: pass lets a first run through"
                errors.append(DataError("MISSING_BASELINE", message))
        pairs.append(GatedPair(gate, baseline, candidate, missing))
    DataError.raise_all(errors)
    if not pairs:
        raise ConfigError("SAME_MODEL", f"{gate}: no model but the baseline itself; name another, or a run")
    return pairs


def evidence_of_users(
    pair: GatedPair, sums: Mapping[PairCell, ComparedSums], common: Mapping[ModelPair, UserCounts]
) -> Iterator[Evidence]:
    """Yield the evidence for a gate in each of its cells, from the users of both models."""
    gate, n_baseline, n_candidate, n_both = pair.gate, *common[pair.names]
    share = n_both / max(n_baseline + n_candidate - n_both, 1)
    cell = (pair.names, str(gate.value), gate.segment)
    for value in gated_values(gate, [key[3] for key in sums if key[:3] == cell]):
        yield Evidence.of_users(gate, pair.candidate, value, sums.get((*cell, value), NO_SUMS), share)


def evidence_of_means(
    pair: GatedPair, baseline: Mapping[MeanCell, Summary], candidate: Mapping[MeanCell, Summary]
) -> Iterator[Evidence]:
    """Yield the evidence for a gate in each of its cells, from published means.

    Raises:
        ConfigError: METRIC_NOT_MEASURED if baseline or candidate lacks a metric that has one value per run.
    """
    gate, cell = pair.gate, (pair.gate.metric, pair.gate.k, pair.gate.segment)
    for value in gated_values(gate, [key[-1] for key in candidate if key[:4] == (pair.candidate, *cell)]):
        of_baseline = baseline.get((pair.baseline, *cell, value), NO_MEAN)
        of_candidate = candidate.get((pair.candidate, *cell, value), NO_MEAN)
        if not gate.value.metric.is_of_users and None in (of_baseline.value, of_candidate.value):
            side = "baseline" if of_baseline.value is None else "candidate"
            message = f"{gate}: metrics of the {side} have no value of it; evaluate it there"
            raise ConfigError("METRIC_NOT_MEASURED", message)
        yield Evidence.of_means(gate, pair.candidate, value, of_baseline, of_candidate)


def gated_values(gate: Gate, values: Sequence[str]) -> Sequence[str]:
    """Return the segment values where a gate must pass; at least one, which may have no users."""
    if gate.segment_value is not None:
        return [gate.segment_value]
    return sorted(values) or [gate.segment]


def decide_gates(
    pairs: Sequence[GatedPair], evidence: Callable[[GatedPair], Iterable[Evidence]]
) -> list[GateRow]:
    """Return the rows of gates of pairs; pairs without a baseline come last.

    Raises:
        DataError: The errors of ``decide_all``.
    """
    decided = decide_all([of_cell for pair in pairs if pair.missing is None for of_cell in evidence(pair)])
    without_baseline = [
        row_without_baseline(pair.gate, pair.candidate, pair.missing)
        for pair in pairs
        if pair.missing is not None
    ]
    return [*decided, *without_baseline]


def failure_of(rows: Sequence[GateRow]) -> GateFailure | None:
    """Return the error that names the failed gates; None if all passed."""
    not_passed = [row for row in rows if not row.passed]
    failed = sorted(not_passed, key=lambda row: row.decision == Decision.UNDECIDED)
    if not failed:
        return None
    named = (f"{row_in_words(row)} is {row.decision} ({row.reason})" for row in failed[:MOST_NAMED])
    more = f"; and {len(failed) - MOST_NAMED} more" if failed[MOST_NAMED:] else ""
    outcome = gates_in_words([row.decision for row in failed], len(rows))
    message = f"{outcome}: {'; '.join(named)}{more}"
    return GateFailure("GATE_FAILED", f"{message}; the run is published, see the table gates")


def gates_in_words(failed: Sequence[str], n_gates: int) -> str:
    """Return the numbers of failed and of undecided gates, from the decisions of those that did not pass.

    >>> gates_in_words(["worse", "undecided"], 5), gates_in_words(["undecided"], 2)
    ('1 of 5 gates failed, 1 undecided', '1 of 2 gates undecided')
    """
    n_undecided = [*failed].count(Decision.UNDECIDED)
    if n_undecided == len(failed):
        return f"{n_undecided} of {n_gates} gates undecided"
    more = f", {n_undecided} undecided" if n_undecided else ""
    return f"{len(failed) - n_undecided} of {n_gates} gates failed{more}"


def row_in_words(row: GateRow) -> str:
    """Return the comparison of a gate as text: ``ndcg@10 of 'als' against 'als' of run 'a'``."""
    run = "" if row.against_run is None else f" of run {row.against_run!r}"
    of = "" if row.segment == ALL else f" ({row.segment} {row.segment_value!r})"
    return f"{measure_of(row._asdict())}{of} of {row.model!r} against {row.against_model!r}{run}"


def scale_mean(summary: Summary, factor: Fraction) -> tuple[float | None, float | None]:
    """Return a published mean and its standard error, multiplied by a factor."""
    value, error = summary.value, summary.std_error
    return (
        None if value is None else value * float(factor),
        None if error is None else error * abs(float(factor)),
    )
