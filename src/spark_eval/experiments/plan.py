"""Metrics, experiments and options of the section ``online``: definition and validation."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime, time, timedelta
from enum import StrEnum
from typing import Annotated, Any, Final, TypedDict, TypeVar, Unpack
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from spark_eval.errors import ConfigError, parse_choice
from spark_eval.options import AT_LEAST_1, INSIDE_0_AND_1, SHARE, check_keys, checked
from spark_eval.schema import LARGEST_EXACT, Direction

SECTION: Final = "online"
MOST_DECIMALS: Final = 6
MICROSECONDS: Final = {"m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
WINDOW: Final = re.compile(r"([1-9]\d{0,4})([mhd])")
EPOCH: Final = datetime(1970, 1, 1, tzinfo=ZoneInfo("UTC"))
Record = TypeVar("Record")


class MetricKind(StrEnum):
    """Definition of a metric from the sums x and y of each user."""

    MEAN = "mean"
    RATIO = "ratio"
    MEAN_OF_RATIOS = "mean_of_ratios"


class TermValue(StrEnum):
    """Value of a user's events of a kind: sum of values, number of events, or 1 if there is any."""

    SUM = "sum"
    COUNT = "count"
    ANY = "any"


class Role(StrEnum):
    """Role of a metric in the decision."""

    GOAL = "goal"
    GUARDRAIL = "guardrail"
    INFO = "info"


class MarginKind(StrEnum):
    """Unit of the margin of a guardrail: that of the metric, or a share of the control's value."""

    ABSOLUTE = "absolute"
    RELATIVE = "relative"


class Correction(StrEnum):
    """Correction of the p-values of all goals and treatments of an experiment."""

    HOLM = "holm"
    BH = "bh"


class ExperimentOptions(TypedDict, total=False):
    """Options of the analysis of experiments: keys of the config's section ``online``."""

    timezone: Annotated[str, "time zone of days, and of times without an offset.", "UTC"]
    pre_days: Annotated[int, "whole days before the day of exposure that are the pre-period.", 14, AT_LEAST_1]
    max_crossover: Annotated[float, "a larger share of users with two variants is refused.", 0.01, SHARE]
    correction: Annotated[str, "of the p-values of goals and treatments: holm or bh.", "holm", Correction]
    confidence: Annotated[float, "of intervals; 1 - confidence is the level of tests.", 0.95, INSIDE_0_AND_1]


@dataclass(frozen=True)
class Term:
    """A user's value of the events of a kind."""

    kind: str
    value: TermValue = TermValue.COUNT


@dataclass(frozen=True)
class Metric:
    """A metric; ``denominator`` is None for means, ``margin`` is None unless it is a guardrail.

    Values of events are rounded to ``decimals``, half-even; negative ones are valid if ``signed``.
    """

    name: str
    kind: MetricKind
    numerator: Term
    denominator: Term | None = None
    role: Role = Role.GOAL
    direction: Direction = Direction.HIGHER
    decimals: int = 0
    signed: bool = False
    margin: float | None = None
    margin_kind: MarginKind = MarginKind.ABSOLUTE

    @property
    def terms(self) -> tuple[Term, ...]:
        """Numerator, then the denominator if there is one."""
        return (self.numerator,) if self.denominator is None else (self.numerator, self.denominator)

    @property
    def sign(self) -> int:
        """1 if higher values are better, otherwise -1."""
        return -1 if self.direction is Direction.LOWER else 1

    def scale(self, term: Term) -> int:
        """Return the number of units in 1: sums are integers in units of the last decimal."""
        return 10**self.decimals if term.value is TermValue.SUM else 1


@dataclass(frozen=True)
class Assignment:
    """Assignment by hash: ``ranges`` are half-open and disjoint ranges of the buckets, by variant."""

    salt: str
    ranges: Mapping[str, tuple[int, int]]
    buckets: int = 10_000


@dataclass(frozen=True)
class Experiment:
    """An experiment; ``variants`` are planned weights, the control first. Times are in microseconds."""

    name: str
    control: str
    variants: Mapping[str, float]
    start: int
    end: int
    window: int | None = None
    assignment: Assignment | None = None
    gate: bool = False

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of the variants, the control first."""
        return (self.control, *(name for name in self.variants if name != self.control))


@dataclass(frozen=True)
class ExperimentPlan:
    """Validated metrics, experiments and options; see ExperimentOptions."""

    metrics: tuple[Metric, ...]
    experiments: tuple[Experiment, ...]
    timezone: str
    pre_days: int
    max_crossover: float
    correction: Correction
    confidence: float

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of events that some metric uses, sorted."""
        return tuple(sorted({term.kind for metric in self.metrics for term in metric.terms}))

    @property
    def signed_kinds(self) -> frozenset[str]:
        """Kinds whose values may be negative: those that only signed metrics sum."""
        summed = [
            (term.kind, metric.signed)
            for metric in self.metrics
            for term in metric.terms
            if term.value is TermValue.SUM
        ]
        return frozenset(kind for kind, _ in summed) - {kind for kind, signed in summed if not signed}

    @property
    def largest_value(self) -> float:
        """Largest absolute value of an event that is exact at the decimals of all metrics."""
        return float(LARGEST_EXACT // 10 ** max(metric.decimals for metric in self.metrics))

    @property
    def stamp(self) -> str:
        """Conventions, as text for every output row."""
        parts = ["welch", "delta method", "lift=fieller", f"correction={self.correction}"]
        return "; ".join([*parts, f"pre_days={self.pre_days}", f"timezone={self.timezone}"])


def make_experiment_plan(
    metrics: Iterable[Mapping[str, Any]],
    experiments: Iterable[Mapping[str, Any]] | Mapping[str, Any],
    **options: Unpack[ExperimentOptions],
) -> ExperimentPlan:
    """Return the validated plan; raise ConfigError with the key that is wrong.

    >>> clicks = {"name": "clicks", "kind": "mean", "of": {"kind": "click"}}
    >>> home = {"name": "home", "control": "a", "variants": {"a": 1, "b": 1}}
    >>> home["period"] = ["2024-05-01", "2024-05-15"]
    >>> plan = make_experiment_plan([clicks], [home], timezone="Europe/Berlin")
    >>> plan.experiments[0].arms, (plan.experiments[0].end - plan.experiments[0].start) // 86_400_000_000
    (('a', 'b'), 14)
    """
    chosen = checked(ExperimentOptions, options, SECTION)
    zone = zone_of(chosen["timezone"])
    several = [experiments] if isinstance(experiments, Mapping) else experiments
    plan = ExperimentPlan(
        tuple(metric_of(f"{SECTION}.metrics.{n}", given) for n, given in enumerate(metrics)),
        tuple(experiment_of(f"{SECTION}.experiments.{n}", given, zone) for n, given in enumerate(several)),
        **chosen,
    )
    for key, named in (("metrics", plan.metrics), ("experiments", plan.experiments)):
        names = [one.name for one in named]
        if not names or len(set(names)) < len(names):
            raise invalid(f"{SECTION}.{key}", "needs at least one, with distinct names")
    return plan


def metric_of(key: str, given: Mapping[str, Any]) -> Metric:
    """Return the validated metric of a mapping; ``key`` is its path in the config."""
    allowed = [*(one.name for one in fields(Metric)), "of"]
    check_keys(given, allowed, key)
    kind = parse_choice(MetricKind, required(given, "kind", key), f"{key}.kind")
    top, bottom = ("of", None) if kind is MetricKind.MEAN else ("numerator", "denominator")
    unused = {"of", "numerator", "denominator"} - {top, bottom}
    for name in sorted(unused & {name for name in given if given[name] is not None}):
        raise invalid(key, f"kind: {kind} has no {name}")
    metric = Metric(
        name=required(given, "name", key),
        kind=kind,
        numerator=term_of(f"{key}.{top}", required(given, top, key)),
        denominator=None if bottom is None else term_of(f"{key}.{bottom}", required(given, bottom, key)),
        role=parse_choice(Role, given.get("role", "goal"), f"{key}.role"),
        direction=parse_choice(Direction, given.get("direction", "higher"), f"{key}.direction"),
        decimals=given.get("decimals", 0),
        signed=given.get("signed", False),
        margin=given.get("margin"),
        margin_kind=parse_choice(MarginKind, given.get("margin_kind", "absolute"), f"{key}.margin_kind"),
    )
    if not 0 <= metric.decimals <= MOST_DECIMALS:
        raise invalid(key, f"decimals: {metric.decimals}; allowed: 0 to {MOST_DECIMALS}")
    if metric.direction is Direction.NONE:
        raise invalid(key, "direction: higher or lower")
    if (metric.role is Role.GUARDRAIL) != (metric.margin is not None):
        raise invalid(key, "a guardrail, and only a guardrail, needs a margin")
    if metric.margin is not None and not 0 <= metric.margin < math.inf:
        raise invalid(key, f"margin: {metric.margin}; it is 0 or more")
    return metric


def term_of(key: str, given: Mapping[str, Any]) -> Term:
    """Return the validated term of a mapping."""
    check_keys(given, [one.name for one in fields(Term)], key)
    value = given.get("value", TermValue.COUNT.value)
    return Term(required(given, "kind", key), parse_choice(TermValue, value, f"{key}.value"))


def experiment_of(key: str, given: Mapping[str, Any], zone: ZoneInfo) -> Experiment:
    """Return the validated experiment of a mapping; ``key`` is its path in the config."""
    check_keys(given, ["name", "control", "variants", "period", "window", "assignment", "gate"], key)
    name, control, period = (required(given, one, key) for one in ("name", "control", "period"))
    variants = dict(required(given, "variants", key))
    if control not in variants or len(variants) < 2:
        raise invalid(key, f"variants: at least two, among them the control {control!r}")
    if not all(0 < weight < math.inf for weight in variants.values()):
        raise invalid(key, "variants: weights are above 0")
    if len(period) != 2:
        raise invalid(key, "period: [start, end)")
    start, end = (micros_of(text, zone, f"{key}.period") for text in period)
    if start >= end:
        raise invalid(key, f"period: {period[0]} is not before {period[1]}")
    window, assignment = given.get("window"), given.get("assignment")
    return Experiment(
        name,
        control,
        variants,
        start,
        end,
        None if window is None else window_of(window, f"{key}.window"),
        None if assignment is None else assignment_of(f"{key}.assignment", assignment, variants),
        given.get("gate", False),
    )


def assignment_of(key: str, given: Mapping[str, Any], variants: Mapping[str, float]) -> Assignment:
    """Return the validated assignment; raise ConfigError for overlapping ranges."""
    check_keys(given, [one.name for one in fields(Assignment)], key)
    n_buckets = given.get("buckets", 10_000)
    ranges = {name: tuple(bounds) for name, bounds in required(given, "ranges", key).items()}
    if set(ranges) != set(variants):
        raise invalid(key, "ranges: one for each variant")
    last = 0
    for low, high in sorted(bounds if len(bounds) == 2 else (0, 0) for bounds in ranges.values()):
        if not last <= low < high <= n_buckets:
            raise invalid(key, f"ranges: [start, end) within {n_buckets} buckets, not empty and disjoint")
        last = high
    return Assignment(str(required(given, "salt", key)), ranges, n_buckets)


def required(given: Mapping[str, Any], name: str, key: str) -> Any:
    """Return the value of a required key."""
    if given.get(name) is None:
        raise invalid(key, f"{name} is missing")
    return given[name]


def zone_of(name: str) -> ZoneInfo:
    """Return the time zone with this name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise invalid(f"{SECTION}.timezone", f"{name!r} is not a time zone") from error


def micros_of(text: str, zone: ZoneInfo, key: str) -> int:
    """Return the instant of a day or time, in microseconds since 1970; local unless it has an offset."""
    try:
        when = datetime.combine(date.fromisoformat(text), time()) if len(text) == 10 else None
        when = datetime.fromisoformat(text) if when is None else when
    except (TypeError, ValueError) as error:
        raise invalid(
            key, f"{text!r} is not a day or time, such as 2024-05-01 or 2024-05-01T06:00"
        ) from error
    instant = when.replace(tzinfo=zone) if when.tzinfo is None else when
    return (instant - EPOCH) // timedelta(microseconds=1)


def window_of(text: str, key: str) -> int:
    """Return the microseconds of a duration: 30m, 12h, 7d."""
    found = WINDOW.fullmatch(text)
    if found is None:
        raise invalid(key, f"{text!r} is not a duration, such as 30m, 12h or 7d")
    return int(found[1]) * MICROSECONDS[found[2]]


def invalid(key: str, message: str) -> ConfigError:
    """Return ConfigError INVALID_EXPERIMENT with the path of the key."""
    return ConfigError("INVALID_EXPERIMENT", f"{key}: {message}")


def names_of(given: Sequence[Metric] | Sequence[Experiment]) -> str:
    """Return the names of metrics or experiments, for display."""
    return ", ".join(one.name for one in given)
