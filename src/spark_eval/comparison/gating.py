"""Select the model pairs and cells of gates, with the evidence for each."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from spark_eval.comparison.decisions import Evidence, decide_all, without_baseline
from spark_eval.comparison.gates import GATES_KEY, Gate, IfMissing
from spark_eval.comparison.rows import GateRow
from spark_eval.errors import ConfigError, DataError, nearest
from spark_eval.statistics.differences import ComparedSums, PairSums
from spark_eval.statistics.intervals import Summary

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
# Hint for a gate against another run if compare has no baseline table.
NO_SIDE: Final = "compare has no baseline: give it that run's result or table"


@dataclass(frozen=True)
class GatedPair:
    """A gate of one pair of models.

    ``is_there`` is True if the baseline exists. ``hint`` is the message for a missing baseline.
    """

    gate: Gate
    model: str
    against: str
    is_there: bool
    hint: str = ""

    @property
    def names(self) -> ModelPair:
        """Names of baseline and candidate."""
        return self.against, self.model


def gated_pairs(
    gate: Gate, candidates: Sequence[str], baselines: Sequence[str] | None, hint: str = ""
) -> list[GatedPair]:
    """Return the model pairs of a gate; within one run a model is not compared with itself.

    ``baselines`` is None if the baseline's run does not exist; ``hint`` then names the existing runs.

    Raises:
        ConfigError: UNKNOWN_MODEL for an unknown candidate; SAME_MODEL if there is no pair.
        DataError: MISSING_BASELINE, unless the gate passes without its baseline.
    """
    if gate.model is not None and gate.model not in candidates:
        raise ConfigError.unknown("UNKNOWN_MODEL", "model", gate.model, candidates, f"{GATES_KEY}: {gate}")
    pairs, faults = [], []
    for model in candidates if gate.model is None else [gate.model]:
        against = gate.against_model or model
        if gate.against_run is None and against == model:
            continue
        is_there = baselines is not None and against in baselines
        known = hint if baselines is None else nearest(against, baselines)
        pair = GatedPair(gate, model, against, is_there, f"{absent_model(gate, against)}; {known}")
        pairs.append(pair)
        if not is_there and gate.if_missing is IfMissing.REFUSE:
            message = f"{gate}: {pair.hint}; if_missing: pass lets a first run through"
            faults.append(DataError("MISSING_BASELINE", message))
    DataError.raise_all(faults)
    if not pairs:
        raise ConfigError("SAME_MODEL", f"{gate}: no model but the baseline itself; name another, or a run")
    return pairs


def models_against(
    gate: Gate, candidates: Sequence[str], baselines: Sequence[str] | None
) -> Sequence[str] | None:
    """Return the models of the table that has the gate's baseline; None if there is no such table."""
    return candidates if gate.against_run is None else baselines


def absent_model(gate: Gate, against: str) -> str:
    """Return the message that a baseline does not exist."""
    run = "this run" if gate.against_run is None else f"run {gate.against_run!r}"
    return f"no model {against!r} in {run}"


def evidence_of_users(
    pair: GatedPair, sums: Mapping[PairCell, ComparedSums], common: Mapping[ModelPair, UserCounts]
) -> Iterator[Evidence]:
    """Yield the evidence for a gate in each of its cells, from the users of both models."""
    gate, of_baseline, of_candidate, of_both = pair.gate, *common[pair.names]
    share = of_both / max(of_baseline + of_candidate - of_both, 1)
    cell = (pair.names, str(gate.value), gate.segment)
    for value in chosen_values(gate, [key[3] for key in sums if key[:3] == cell]):
        yield Evidence.of_users(gate, pair.model, value, sums.get((*cell, value), NO_SUMS), share)


def evidence_of_means(
    pair: GatedPair, baseline: Mapping[MeanCell, Summary], candidate: Mapping[MeanCell, Summary]
) -> Iterator[Evidence]:
    """Yield the evidence for a gate in each of its cells, from published means.

    Raises:
        ConfigError: METRIC_NOT_MEASURED if baseline or candidate lacks a metric that has one value per run.
    """
    gate, key = pair.gate, (pair.gate.metric, pair.gate.k, pair.gate.segment)
    for value in chosen_values(gate, [cell[-1] for cell in candidate if cell[:4] == (pair.model, *key)]):
        before = baseline.get((pair.against, *key, value), NO_MEAN)
        after = candidate.get((pair.model, *key, value), NO_MEAN)
        if not gate.value.metric.is_of_users and None in (before.value, after.value):
            side = "baseline" if before.value is None else "candidate"
            message = f"{gate}: metrics of the {side} have no value of it; evaluate it there"
            raise ConfigError("METRIC_NOT_MEASURED", message)
        yield Evidence.of_means(gate, pair.model, value, before, after)


def chosen_values(gate: Gate, values: Sequence[str]) -> Sequence[str]:
    """Return the segment values where a gate must pass; at least one, which may have no users."""
    if gate.segment_value is not None:
        return [gate.segment_value]
    return sorted(values) or [gate.segment]


def decide_gates(
    gates: Sequence[Gate],
    candidates: Sequence[str],
    baselines: Sequence[str] | None,
    sums: Mapping[PairCell, ComparedSums],
    common: Mapping[ModelPair, UserCounts],
) -> list[GateRow]:
    """Return the rows of gates that are decided by per-user values.

    ``baselines`` is None if all models are in one table.

    Raises:
        ConfigError: INVALID_GATE for gates on published means, and the errors of ``gated_pairs``.
        DataError: The errors of ``gated_pairs`` and ``decide_all``.
    """
    for gate in gates:
        if not gate.sees_users:
            message = f"{gate} compares published means; `spark-eval compare` has them"
            raise ConfigError("INVALID_GATE", message)
    pairs = [
        pair
        for gate in gates
        for pair in gated_pairs(gate, candidates, models_against(gate, candidates, baselines), NO_SIDE)
    ]
    return decide_pairs(pairs, lambda pair: evidence_of_users(pair, sums, common))


def decide_pairs(
    pairs: Sequence[GatedPair], evidence: Callable[[GatedPair], Iterable[Evidence]]
) -> list[GateRow]:
    """Return the rows of gates of pairs; pairs without a baseline come last."""
    missing = [without_baseline(pair.gate, pair.model, pair.hint) for pair in pairs if not pair.is_there]
    return [*decide_all([one for pair in pairs if pair.is_there for one in evidence(pair)]), *missing]
