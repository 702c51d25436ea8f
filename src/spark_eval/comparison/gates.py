"""Gates: limits on how far a model may fall behind a baseline in a metric."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, Final, TypedDict

from spark_eval.comparison.rows import ComparedValue, is_of_predictions
from spark_eval.conventions.choice import Choice
from spark_eval.conventions.comparison import Drop, Mode
from spark_eval.errors import ConfigError
from spark_eval.kernels.aliases import as_list
from spark_eval.kernels.means import weighted_means
from spark_eval.kernels.values import has_cutoff, parse_k, parse_metric, published_name, split_metric_text
from spark_eval.options import (
    AT_LEAST_0,
    AT_LEAST_1,
    INSIDE_0_AND_1,
    SHARE,
    Given,
    check_keys,
    check_kind,
    checked,
    declared,
)
from spark_eval.predictions.values import PredictionValue
from spark_eval.schema import ALL, Direction

GATES_KEY: Final = "gates"
# Required keys of a gate, and keys of its baseline.
NEEDED_KEYS: Final[Given] = {"metric": str, "max_drop": float}
BASELINE_KEYS: Final = ("run", "model")


class IfMissing(Choice):
    """Result of a gate whose baseline does not exist."""

    REFUSE = "refuse", "nothing: MISSING_BASELINE refuses the comparison"
    PASS = "pass", "the model passes: its first run has nothing to be compared with"


class Pairing(Choice):
    """Pairing of the values of candidate and baseline."""

    USER = "user", "by user, who must have the same truth in both"
    NONE = "none", "not at all: published means are compared, as of two days with other truths"


class GateOptions(TypedDict, total=False):
    """Options of a gate in addition to ``metric`` and ``max_drop``; also keys of the config's ``gates``."""

    k: Annotated[int | str | None, "cutoff, or all; None: that of the metric, as in ndcg@10."]
    model: Annotated[str | None, "the candidate; None: each of the run's models."]
    against: Annotated[
        Mapping[str, str | None],
        "{run, model} of the baseline, by default the same; empty: that of compare.baseline.",
        {},
    ]
    drop: Annotated[str, "max_drop is absolute, or relative to the baseline's mean.", "absolute", Drop]
    mode: Annotated[str, "non_inferior, certain_drop or observed.", "non_inferior", Mode]
    confidence: Annotated[float, "confidence of the one-sided bounds.", 0.95, INSIDE_0_AND_1]
    segment: Annotated[str, "all, or a segment: each of its values must pass.", ALL]
    segment_value: Annotated[str | None, "only this value of the segment."]
    min_users: Annotated[int, "minimum number of common users.", 100, AT_LEAST_1]
    min_common: Annotated[float, "minimum share of common users among all users.", 0.99, SHARE]
    if_missing: Annotated[str, "if the baseline does not exist: refuse, or pass.", "refuse", IfMissing]
    pairing: Annotated[str, "user, or none: published means of other truth.", "user", Pairing]
    direction: Annotated[str | None, "higher or lower is better; None: as the metric has it."]
    every_slice: Annotated[bool, "certain_drop in every tested slice of compare.slices.", False]


@dataclass(frozen=True)
class Gate:
    """A validated gate; see GateOptions.

    ``metric`` is the name in the table ``metrics``, ``value`` the metric at its cutoff. ``against_run`` is
    None if the baseline is in the candidate's run.
    """

    metric: str
    k: int | None
    value: ComparedValue
    max_drop: float
    model: str | None
    against_run: str | None
    against_model: str | None
    drop: Drop
    mode: Mode
    confidence: float
    segment: str
    segment_value: str | None
    min_users: int
    min_common: float
    if_missing: IfMissing
    pairing: Pairing
    direction: Direction
    every_slice: bool = False

    @property
    def sees_users(self) -> bool:
        """True if the gate is decided by per-user values, False if by published means."""
        return self.pairing is Pairing.USER and self.value.metric.is_of_users

    def factors(self, baseline: Fraction | None) -> tuple[Fraction, Fraction]:
        """Factors of a user's baseline value A and candidate value B in the margin c; c >= 0 passes.

        If higher is better, c = B - A + max_drop (absolute drop) or c = B - (1 - max_drop) A (relative drop).
        If lower is better, c = A - B + max_drop or c = (1 + max_drop) A - B.

        A relative drop is a share of the size of the baseline's mean: if ``baseline``, that mean, is below 0,
        the sign of max_drop changes, so that a drop stays allowed.
        """
        sign, share = (-1 if self.direction is Direction.LOWER else 1), Fraction(self.max_drop)
        if self.drop is Drop.ABSOLUTE:
            return Fraction(-sign), Fraction(sign)
        allowed = -share if baseline is not None and baseline < 0 else share
        return -sign * (1 - sign * allowed), Fraction(sign)

    @property
    def amount(self) -> float:
        """Constant term of c."""
        return self.max_drop if self.drop is Drop.ABSOLUTE else 0.0

    def __str__(self) -> str:
        of = "" if self.segment == ALL else f" of {self.segment}"
        return f"gate {self.value}{of}"


def make_gates(given: Iterable[Given]) -> tuple[Gate, ...]:
    """Return the validated gates of mappings; raise ConfigError with the nearest allowed key or choice.

    >>> [gate] = make_gates([{"metric": "NDCG@10", "max_drop": 0.01}])
    >>> gate.metric, gate.k, gate.mode, gate.min_users
    ('ndcg', 10, <Mode.NON_INFERIOR: 'non_inferior'>, 100)
    """
    return tuple(make_gate(f"{GATES_KEY}.{index}", keys) for index, keys in enumerate(as_list(given)))


def make_gate(key: str, given: Given) -> Gate:
    """Return the validated gate of a mapping; ``key`` is its path in the config.

    Raises:
        ConfigError: INVALID_GATE, NO_INTERVAL, NO_DIRECTION or SAME_MODEL, or a key or choice is unknown.
    """
    check_keys(given, [*NEEDED_KEYS, *declared(GateOptions)], key)
    for name, kind in NEEDED_KEYS.items():
        if given.get(name) is None:
            raise ConfigError("INVALID_GATE", f"{key} has no {name}; it has no default")
        check_kind(kind, given[name], f"{key}.{name}")
    options: Any = {name: given[name] for name in given if name not in NEEDED_KEYS}
    chosen = checked(GateOptions, options, key)
    against = chosen.pop("against")
    check_keys(against, BASELINE_KEYS, f"{key}.against")
    value = value_of(given["metric"], chosen["k"], f"{key}.metric")
    chosen |= {"metric": value.name, "k": value.k, "direction": direction_of(value, chosen["direction"], key)}
    chosen |= {f"against_{name}": against.get(name) for name in BASELINE_KEYS}
    gate = Gate(value=value, max_drop=AT_LEAST_0(given["max_drop"], f"{key}.max_drop"), **chosen)
    if not value.metric.is_of_users and gate.mode is not Mode.OBSERVED:
        raise ConfigError("NO_INTERVAL", f"{key}: {gate.metric} is no mean over users; use mode: observed")
    check_models(gate)
    return of_slices(gate, given, key) if gate.every_slice else gate


def of_slices(gate: Gate, given: Given, key: str) -> Gate:
    """Return a gate of every slice, in mode certain_drop; raise ConfigError INVALID_GATE for other keys."""
    if given.get("mode", Mode.CERTAIN_DROP) != Mode.CERTAIN_DROP:
        message = f"{key}: every_slice with mode {gate.mode}: no experiment has users enough in every slice"
        raise ConfigError("INVALID_GATE", f"{message}; leave it out, for certain_drop")
    refused = {
        "drop: relative": gate.drop is Drop.RELATIVE,
        "segment": gate.segment != ALL,
        "pairing: none": not gate.sees_users,
        "a metric of predictions": isinstance(gate.value, PredictionValue),
    }
    for name, is_so in refused.items():
        if is_so:
            raise ConfigError("INVALID_GATE", f"{key}: every_slice is not defined with {name}")
    return replace(gate, mode=Mode.CERTAIN_DROP)


def value_of(text: str, k: int | str | None, key: str) -> ComparedValue:
    """Return the metric at its cutoff; raise ConfigError INVALID_GATE unless ``text`` or ``k`` has it.

    Metrics of predictions have no cutoff.
    """
    of_predictions = PredictionValue.of(text) if k is None and is_of_predictions(text) else None
    if of_predictions is not None:
        return of_predictions
    has_own = has_cutoff(split_metric_text(text, key))
    if has_own and k is not None:
        raise ConfigError("INVALID_GATE", f"{key}: {text!r} has a k, and so has the gate; leave out k: {k}")
    if not has_own and k is None:
        name = text.partition("@")[0]
        raise ConfigError("INVALID_GATE", f"{key}: {text!r} needs one k: k: 10 beside it, or {name}@10")
    [value] = parse_metric(text, [] if k is None else [parse_k(k)], key)
    name = published_name(text, key)
    return next((mean for mean in weighted_means([value]) if mean.name == name), value)


def direction_of(value: ComparedValue, given: str | None, key: str) -> Direction:
    """Return the direction of the metric; raise ConfigError NO_DIRECTION if there is none."""
    chosen = value.metric.direction.value if given is None else given
    if chosen not in (Direction.HIGHER, Direction.LOWER):
        message = f"{key}: {value}: no value is better than another, unless direction is higher or lower"
        raise ConfigError("NO_DIRECTION", message)
    return Direction(chosen)


def with_baseline(gate: Gate, run: str | None, model: str | None) -> Gate:
    """Return the gate against its own baseline, or against this one if it names neither run nor model.

    Raises:
        ConfigError: SAME_MODEL for a gate that compares a model with itself.
    """
    if gate.against_run is None and gate.against_model is None:
        gate = replace(gate, against_run=run, against_model=model)
    check_models(gate)
    return gate


def check_models(gate: Gate) -> None:
    """Raise ConfigError SAME_MODEL for a gate that compares a model with itself."""
    if gate.against_run is None and gate.model is not None and gate.model == gate.against_model:
        message = f"{gate}: model {gate.model!r} is its own baseline; name another model, or against.run"
        raise ConfigError("SAME_MODEL", message)
