"""Metrics, experiments and options of the section ``online`` from mappings, validated."""

import math
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from itertools import chain
from typing import Any, Final, Unpack, get_type_hints
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from spark_eval.conventions.comparison import Drop, Mode
from spark_eval.errors import ConfigError, parse_choice
from spark_eval.experiments.kinds import KINDS, LARGEST_SUM, MetricKind
from spark_eval.experiments.plan import (
    DAY,
    MICROSECONDS,
    SECTION,
    TIMES,
    Assignment,
    Bots,
    Condition,
    Experiment,
    ExperimentOptions,
    ExperimentPlan,
    Gate,
    MarginKind,
    Metric,
    Preset,
    Role,
    Sequential,
    Stratum,
    Term,
    TermValue,
    Test,
)
from spark_eval.experiments.worker.units import DAY_SINCE, EXPOSED_ON, NOVELTY
from spark_eval.kernels.aliases import as_list
from spark_eval.options import AT_LEAST_0, INSIDE_0_AND_1, Given, check_keys, check_kind, checked
from spark_eval.schema import ALL, USER, Direction

MOST_DECIMALS: Final = 6
# Types of the keys of mappings, where these are not the fields of what is made of them.
NESTED: Final[Any] = Given
# Keys of the terms of a metric.
TERMS: Final = tuple(dict.fromkeys(chain.from_iterable(kind.keys for kind in KINDS.values())))
TERM_KEYS: Final = {**get_type_hints(Term), "where": Sequence[Given]}
METRIC_KEYS: Final = {
    **get_type_hints(Metric),
    "kind": str,
    **dict.fromkeys(TERMS, NESTED),
}
SEQUENTIAL_KEYS: Final = dict.fromkeys(get_type_hints(Sequential), float)
BOT_KEYS: Final = {**get_type_hints(Bots), "ids": Sequence[str | int]}
CHANGE_KEYS: Final = {"since": str, "variants": Mapping[str, float]}
EXPERIMENT_KEYS: Final = {
    "name": str,
    "control": str,
    "variants": Mapping[str, float],
    "period": Sequence[str],
    "window": str,
    "assignment": NESTED,
    "weights": Sequence[Given],
    "unit": str,
    "by": Sequence[str],
    "sequential": Given | None,
}
MOST_NOVELTY_DAYS: Final = 366
# Years of a period.
FIRST_YEAR: Final = 1900
LAST_YEAR: Final = 2199
# A term is winsorised at this quantile or above: its largest values are collected.
LEAST_QUANTILE: Final = 0.9
# Shares such as .333 need not add to 1 exactly.
SUM_TOLERANCE: Final = 0.0015
WINDOW: Final = re.compile(r"([1-9]\d{0,4})([mhd])")
EPOCH: Final = datetime(1970, 1, 1, tzinfo=ZoneInfo("UTC"))
# Values of the column ``segment`` that are not columns of the user.
OURS: Final = (ALL, EXPOSED_ON, NOVELTY, DAY_SINCE)
OPERATORS: Final = ("==", "!=", "<", "<=", ">", ">=", "in", "between", "is_null", "is_not_null")


def make_experiment_plan(
    metrics: Iterable[Given],
    experiments: Iterable[Given] | Given,
    gates: Iterable[Given] = (),
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
    chosen["slices"] = tuple(dict.fromkeys(chosen["slices"]))
    # Defaults of metrics and of experiments.
    cuped, of_all = chosen.pop("cuped"), {name: chosen.pop(name) for name in ("by", "sequential")}
    chosen["bots"] = bots_of(chosen["bots"] or {})
    if chosen["novelty_days"] is not None and not 2 <= chosen["novelty_days"] <= MOST_NOVELTY_DAYS:
        raise invalid(
            f"{SECTION}.novelty_days", f"{chosen['novelty_days']}; allowed: 2 to {MOST_NOVELTY_DAYS}"
        )
    plan = ExperimentPlan(
        tuple(metric_of(key, {"cuped": cuped} | given) for key, given in mappings("metrics", metrics)),
        tuple(
            experiment_of(key, of_all | given, zone) for key, given in mappings("experiments", experiments)
        ),
        **chosen,
        gates=tuple(gate_of(f"gates.{n}", given) for n, given in enumerate(as_list(gates))),
    )
    for key, named in (("metrics", plan.metrics), ("experiments", plan.experiments)):
        names = [one.name for one in named]
        if not names or len(set(names)) < len(names):
            raise invalid(f"{SECTION}.{key}", "needs at least one, with distinct names")
    check_gates(plan)
    check_units(plan)
    check_names(plan)
    check_preset(plan)
    check_retention(plan)
    return plan


def check_gates(plan: ExperimentPlan) -> None:
    """Raise ConfigError if a gate names an unknown experiment or metric."""
    for number, gate in enumerate(plan.gates):
        for key, name, named in (
            ("experiment", gate.experiment, plan.experiments),
            ("metric", gate.metric, plan.metrics),
        ):
            names = [one.name for one in named]
            if name not in names:
                raise ConfigError.unknown("INVALID_GATE", key, name, names, f"gates.{number}.{key}")


def check_units(plan: ExperimentPlan) -> None:
    """Raise ConfigError if experiments have different units: one shuffle by unit serves all of them."""
    units = sorted({one.unit or USER for one in plan.experiments})
    if len(units) > 1:
        raise invalid(SECTION, f"experiments of one run have one unit; here {' and '.join(units)}")


def check_names(plan: ExperimentPlan) -> None:
    """Raise ConfigError for names of columns that would have two meanings in ``segment``."""
    for key, names, ours in (("by", plan.segments, OURS), ("slices", plan.slices, (*OURS, *TIMES))):
        for name in names:
            if name in ours:
                message = f"{name} is a name of ours in segment; give the column another one"
                raise invalid(f"{SECTION}.{key}", message)
    if twice := [name for name in plan.slices if name in plan.segments]:
        raise invalid(SECTION, f"{twice[0]} is in by and in slices; give one of the columns another name")


def check_preset(plan: ExperimentPlan) -> None:
    """Raise ConfigError if a preset tests lifts that do not exist: there is none if weights change."""
    changing = [one.name for one in plan.experiments if len(one.strata) > 1]
    if plan.conventions is Preset.GBSTATS and changing:
        raise invalid(SECTION, f"conventions: gbstats tests lifts; {changing[0]} has weights, and no lift")


def check_retention(plan: ExperimentPlan) -> None:
    """Raise ConfigError if the window of an experiment ends before the day of a retention."""
    for metric in plan.metrics:
        for one in plan.experiments:
            if metric.day is not None and one.window is not None and one.window < (metric.day + 1) * DAY:
                raise invalid(SECTION, f"{metric.name}: day {metric.day} is beyond the window of {one.name}")


def sequential_of(given: Mapping[str, float] | None, key: str) -> Sequential | None:
    """Return the validated sequential test."""
    if given is None:
        return None
    check_keys(given, SEQUENTIAL_KEYS, key)
    if ("tau" in given) == ("tightest_at" in given):
        raise invalid(key, "either tau or tightest_at")
    if not all(0 < value < math.inf for value in given.values()):
        raise invalid(key, "values are above 0")
    return Sequential(given.get("tau"), given.get("tightest_at"), int(given.get("min_users", 100)))


def bots_of(given: Given) -> Bots:
    """Return the validated rules for bots."""
    check_keys(given, BOT_KEYS, f"{SECTION}.bots")
    most = given.get("pre_events")
    if most is not None and most < 0:
        raise invalid(f"{SECTION}.bots", f"pre_events: {most}; it is 0 or more")
    return Bots(tuple(map(str, as_list(given.get("ids", ())))), most)


def gate_of(key: str, given: Given) -> Gate:
    """Return the validated gate of a mapping; INVALID_GATE without a key that it needs."""
    check_keys(given, get_type_hints(Gate), key)
    for name in ("experiment", "metric"):
        if given.get(name) is None:
            raise ConfigError("INVALID_GATE", f"{key} has no {name}; it has no default")
    limit = given.get("max_drop")
    unused = [name for name in ("drop", "mode", "confidence") if given.get(name) is not None]
    if limit is None and unused:
        raise ConfigError("INVALID_GATE", f"{key} has no max_drop, which {', '.join(unused)} needs")
    gate = Gate(
        given["experiment"],
        given["metric"],
        None if limit is None else AT_LEAST_0(limit, f"{key}.max_drop"),
        parse_choice(Drop, given.get("drop", "absolute"), f"{key}.drop"),
        parse_choice(Mode, given.get("mode", "non_inferior"), f"{key}.mode"),
        INSIDE_0_AND_1(given.get("confidence", 0.95), f"{key}.confidence"),
    )
    if gate.mode is Mode.OBSERVED:
        raise ConfigError(
            "INVALID_GATE", f"{key}: mode observed sees no chance; non_inferior or certain_drop"
        )
    return gate


def metric_of(key: str, given: Given) -> Metric:
    """Return the validated metric of a mapping; ``key`` is its path in the config."""
    check_keys(given, METRIC_KEYS, key)
    kind = kind_of(f"{key}.kind", required(given, "kind", key))
    name = required(given, "name", key)
    unused = set(TERMS).difference(kind.keys)
    for one in sorted(unused & {one for one in given if given[one] is not None}):
        raise invalid(key, f"kind: {kind} has no {one}")
    numerator, *denominator = (term_of(f"{key}.{one}", required(given, one, key), kind) for one in kind.keys)
    metric = Metric(
        name=name,
        kind=kind,
        numerator=numerator,
        denominator=denominator[0] if denominator else None,
        role=parse_choice(Role, given.get("role", "goal"), f"{key}.role"),
        direction=parse_choice(Direction, given.get("direction", "higher"), f"{key}.direction"),
        decimals=given.get("decimals", 0),
        signed=given.get("signed", False),
        margin=given.get("margin"),
        margin_kind=parse_choice(MarginKind, given.get("margin_kind", "absolute"), f"{key}.margin_kind"),
        test=parse_choice(Test, given.get("test", "welch"), f"{key}.test"),
        day=given.get("day"),
        effect=given.get("effect"),
        cuped=given.get("cuped", True),
    )
    check_metric(key, metric)
    return metric


def kind_of(key: str, name: str) -> MetricKind:
    """Return the kind of this name; raise ConfigError INVALID_CHOICE if there is none."""
    if name not in KINDS:
        raise ConfigError.unknown("INVALID_CHOICE", "choice", name, KINDS, key)
    return KINDS[name]


def check_metric(key: str, metric: Metric) -> None:
    """Raise ConfigError INVALID_EXPERIMENT for keys that do not fit together."""
    if (metric.day is not None and metric.day >= 0) != metric.kind.needs_day:
        raise invalid(key, "a retention, and only a retention, needs a day, 0 or more")
    if metric.test is Test.Z_POOLED and not metric.is_share:
        raise invalid(key, "test: z_pooled is for shares of users: a mean of any, or a retention")
    if metric.effect is not None and not 0 < metric.effect < math.inf:
        raise invalid(key, f"effect: {metric.effect}; it is above 0")
    if not 0 <= metric.decimals <= MOST_DECIMALS:
        raise invalid(key, f"decimals: {metric.decimals}; allowed: 0 to {MOST_DECIMALS}")
    check_caps(key, metric)
    if metric.direction is Direction.NONE:
        raise invalid(key, "direction: higher or lower")
    if (metric.role is Role.GUARDRAIL) != (metric.margin is not None):
        raise invalid(key, "a guardrail, and only a guardrail, needs a margin")
    if metric.margin is not None and not 0 <= metric.margin < math.inf:
        raise invalid(key, f"margin: {metric.margin}; it is 0 or more")


def check_caps(key: str, metric: Metric) -> None:
    """Raise ConfigError INVALID_EXPERIMENT for a cap that is 0 once it is rounded to the decimals."""
    for term in metric.terms:
        if term.cap is not None and not 0.5 < term.cap * metric.scale(term) < LARGEST_SUM:
            least = 0.5 / metric.scale(term)
            message = f"cap: {term.cap}; allowed: above {least:g}, which rounds to 0, and below 2^62"
            raise invalid(f"{key}.{term_key(metric, term)}", message)


def term_key(metric: Metric, term: Term) -> str:
    """Return the key of a term in the config of its metric."""
    return metric.kind.keys[0 if term is metric.numerator else 1]


def term_of(key: str, given: Given, of: MetricKind) -> Term:
    """Return the validated term of a mapping, for a metric of this kind."""
    check_keys(given, TERM_KEYS, key)
    if not of.has_values and "value" in given:
        raise invalid(key, f"a {of} is of events of a kind; it has no value")
    default = TermValue.SUM if of.has_values else TermValue.COUNT
    value = parse_choice(TermValue, given.get("value", default.value), f"{key}.value")
    cap = given.get("cap")
    if cap is not None and not 0 < cap < math.inf:
        raise invalid(key, f"cap: {cap}; it is above 0")
    winsorise = given.get("winsorise")
    if winsorise is not None and not LEAST_QUANTILE <= winsorise < 1:
        raise invalid(key, f"winsorise: {winsorise}; it is a quantile from {LEAST_QUANTILE} on, below 1")
    if winsorise is not None and cap is not None:
        raise invalid(key, "either cap or winsorise")
    conditions = as_list(given.get("where", ()))
    where = tuple(condition_of(f"{key}.where.{n}", one) for n, one in enumerate(conditions))
    return Term(required(given, "kind", key), value, where, cap, winsorise)


def condition_of(key: str, given: Given) -> Condition:
    """Return the validated condition of a mapping: a list for ``in`` and ``between``."""
    check_keys(given, get_type_hints(Condition), key)
    op: str = required(given, "op", key)
    value: Any = given.get("value")
    if op not in OPERATORS:
        raise ConfigError.unknown("INVALID_EXPERIMENT", "op", op, OPERATORS, f"{key}.op")
    is_list = isinstance(value, list | tuple)
    if op.startswith("is_"):
        fits = value is None
    else:
        fits = value is not None and is_list == (op in ("in", "between"))
        fits = fits and (is_list or isinstance(value, Hashable))
    if not fits or value in ([], ()) or (op == "between" and len(value) != 2):
        raise invalid(key, f"value {value!r} does not fit op {op}")
    return Condition(required(given, "column", key), op, tuple(value) if is_list else value)


def experiment_of(key: str, given: Given, zone: ZoneInfo) -> Experiment:
    """Return the validated experiment of a mapping; ``key`` is its path in the config."""
    check_keys(given, EXPERIMENT_KEYS, key)
    name, control, period = (required(given, one, key) for one in ("name", "control", "period"))
    variants = dict(required(given, "variants", key))
    if control not in variants or len(variants) < 2:
        raise invalid(key, f"variants: at least two, among them the control {control!r}")
    check_weights(variants, f"{key}.variants")
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
        strata_of(f"{key}.weights", given.get("weights") or (), Stratum(start, variants), zone),
        None if given.get("unit") in (None, USER) else given["unit"],
        tuple(dict.fromkeys([given["by"]] if isinstance(given["by"], str) else given["by"])),
        sequential_of(given["sequential"], f"{key}.sequential"),
    )


def check_weights(weights: Mapping[str, float], key: str) -> None:
    """Raise ConfigError unless weights are shares whose sum is 1, or whole numbers such as 1 and 1."""
    if not all(0 < weight < math.inf for weight in weights.values()):
        raise invalid(key, "weights are above 0")
    total = math.fsum(weights.values())
    are_whole = all(float(weight).is_integer() for weight in weights.values())
    if not are_whole and abs(total - 1) > SUM_TOLERANCE:
        message = f"the sum of the weights is {total:g}; give shares with the sum 1, or whole numbers"
        raise invalid(key, message)


def strata_of(key: str, given: Iterable[Given], first: Stratum, zone: ZoneInfo) -> tuple[Stratum, ...]:
    """Return the weights over time: the first ones, then the changes, in the order of time."""
    strata = [first]
    for number, change in enumerate(given):
        check_keys(change, CHANGE_KEYS, f"{key}.{number}")
        since = micros_of(required(change, "since", f"{key}.{number}"), zone, f"{key}.{number}.since")
        weights = dict(required(change, "variants", f"{key}.{number}"))
        if since <= strata[-1].start:
            raise invalid(f"{key}.{number}", "since: changes are after the start, in the order of time")
        if set(weights) != set(first.weights):
            raise invalid(f"{key}.{number}", "variants: a weight above 0 for each")
        check_weights(weights, f"{key}.{number}.variants")
        strata.append(Stratum(since, weights))
    return tuple(strata)


def assignment_of(key: str, given: Given, variants: Mapping[str, float]) -> Assignment:
    """Return the validated assignment; raise ConfigError for overlapping ranges."""
    check_keys(given, get_type_hints(Assignment), key)
    n_buckets = given.get("buckets", 10_000)
    ranges = {name: tuple(bounds) for name, bounds in required(given, "ranges", key).items()}
    if set(ranges) != set(variants):
        raise invalid(key, "ranges: one for each variant")
    last = 0
    for low, high in sorted(bounds if len(bounds) == 2 else (0, 0) for bounds in ranges.values()):
        if not last <= low < high <= n_buckets < 2**63:
            raise invalid(key, f"ranges: [start, end) within {n_buckets} buckets, not empty and disjoint")
        last = high
    return Assignment(str(required(given, "salt", key)), ranges, n_buckets)


def mappings(name: str, several: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the config key of each mapping, and its keys that have a value; all others take their default."""
    for number, given in enumerate(as_list(several)):
        key = f"{SECTION}.{name}.{number}"
        check_kind(Mapping, given, key)
        yield key, {name: value for name, value in given.items() if value is not None}


def required(given: Given, name: str, key: str) -> Any:
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
    if not FIRST_YEAR <= when.year <= LAST_YEAR:
        raise invalid(key, f"{text!r} is not in the years {FIRST_YEAR} to {LAST_YEAR}")
    return (instant - EPOCH) // timedelta(microseconds=1)


def window_of(text: str, key: str) -> int:
    """Return the microseconds of a duration: 30m, 12h, 7d."""
    match = WINDOW.fullmatch(text)
    if match is None:
        raise invalid(key, f"{text!r} is not a duration, such as 30m, 12h or 7d")
    return int(match[1]) * MICROSECONDS[match[2]]


def invalid(key: str, message: str) -> ConfigError:
    """Return ConfigError INVALID_EXPERIMENT with the path of the key."""
    return ConfigError("INVALID_EXPERIMENT", f"{key}: {message}")
