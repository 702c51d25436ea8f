"""The options of the section ``predictions``, checked."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from spark_eval.errors import ConfigError
from spark_eval.metrics.aliases import find, several
from spark_eval.pointwise import POINTWISE, PointwiseMetric
from spark_eval.pointwise.task import (
    DEFAULT_BINS,
    DEFAULT_CURVE_POINTS,
    PRESETS,
    Class,
    Goal,
    PredictionPlan,
    Rule,
    Scores,
    Task,
)
from spark_eval.presets import parse_choice
from spark_eval.schema import ALL, FOLD, FOLDS

WHERE: Final = "predictions"
LEAST_CURVE_POINTS: Final = 1_000
MOST_CLASSES: Final = 1_000
MOST_BINS: Final = 10_000
MOST_THRESHOLDS: Final = 1_000
# The scores that each task can have, the default first.
SCORES_OF: Final[Mapping[Task, Sequence[Scores]]] = {
    Task.BINARY: tuple(Scores),
    Task.MULTICLASS: (Scores.PROBABILITY, Scores.CLASS),
    Task.REGRESSION: (Scores.RAW,),
}
# No names of segments: a column fold is one by itself.
RESERVED: Final = frozenset({"", ALL, FOLD, FOLDS})


def make_plan(
    task: str,
    *,
    scores: str | None = None,
    positive: Class = 1,
    negative: Class = 0,
    classes: Sequence[Class] = (),
    probabilities: Sequence[str] = (),
    metrics: Sequence[str] | None = None,
    thresholds: Sequence[float] | float | None = None,
    choose: Mapping[str, Any] | None = None,
    segments: Sequence[str] = (),
    sampling_rate: float | None = None,
    bins: int = DEFAULT_BINS,
    curves: bool = False,
    curve_points: int = DEFAULT_CURVE_POINTS,
    conventions: str = "default",
) -> PredictionPlan:
    """Check the choices; raise ConfigError with what is allowed."""
    chosen = parse_choice(Task, task, f"{WHERE}.task")
    fitting = SCORES_OF[chosen]
    kind = parse_choice(Scores, scores or fitting[0], f"{WHERE}.scores")
    if conventions not in PRESETS:
        raise ConfigError.unknown("UNKNOWN_PRESET", "preset", conventions, PRESETS, f"{WHERE}.conventions")
    if kind not in fitting:
        raise invalid(f"scores: {kind} does not fit task: {chosen}")
    cuts = thresholds_of(chosen, kind, thresholds)
    names = metrics_of(chosen, kind, metrics, bool(cuts))
    needs = {name for metric in names for name in POINTWISE[metric].needs}
    if curves and kind is Scores.PROBABILITY:
        needs.add("bins")
    plan = PredictionPlan(
        task=chosen,
        scores=kind,
        metrics=names,
        classes=classes_of(chosen, classes, negative, positive),
        probabilities=tuple(probabilities),
        thresholds=cuts,
        rules=tuple(rules_of(choose or {})),
        segments=tuple(several(segments)),
        sampling_rate=sampling_rate,
        bins=bins,
        curves=curves,
        curve_points=curve_points,
        preset=conventions,
        needs=frozenset(needs),
    )
    check(plan)
    return plan


def check(plan: PredictionPlan) -> None:
    """Raise ConfigError for options that do not go together."""
    is_ordered = plan.task is Task.BINARY and plan.scores is not Scores.CLASS
    if (plan.curves or plan.rules) and not is_ordered:
        raise invalid("curves and choose need task: binary with scores that have an order")
    has_probabilities = plan.scores is Scores.PROBABILITY
    if plan.sampling_rate is not None:
        if not (plan.task is Task.BINARY and has_probabilities):
            raise invalid("sampling_rate corrects the probabilities of task: binary")
        if not 0 < plan.sampling_rate <= 1:
            raise invalid(f"sampling_rate {plan.sampling_rate} is not in (0, 1]")
    if plan.probabilities and not (plan.task is Task.MULTICLASS and has_probabilities):
        raise invalid("probabilities are the columns of task: multiclass")
    if plan.probabilities and len(plan.probabilities) != len(plan.classes):
        raise invalid(f"{len(plan.probabilities)} probabilities for {len(plan.classes)} classes")
    if not 1 <= plan.bins <= MOST_BINS:
        raise invalid(f"bins: {plan.bins}; allowed: 1 to {MOST_BINS}")
    if plan.curve_points < LEAST_CURVE_POINTS:
        raise invalid(f"curve_points: {plan.curve_points}; at least {LEAST_CURVE_POINTS}")
    if "flags" in plan.needs and plan.task is Task.BINARY and not plan.thresholds:
        raise invalid("metrics at thresholds need thresholds, such as [0.5]")
    check_segments(plan.segments)


def check_segments(segments: Sequence[str]) -> None:
    """Raise ConfigError for names that segments cannot have."""
    lowered = [name.lower() for name in segments]
    if len(set(lowered)) < len(lowered) or RESERVED & set(lowered):
        raise ConfigError(
            "INVALID_SEGMENT",
            f"{WHERE}.segments: a name comes twice, is empty, or one of ours: all, fold, folds",
        )


def metrics_of(
    task: Task, scores: Scores, names: Sequence[str] | None, has_thresholds: bool
) -> tuple[str, ...]:
    """Return the metrics asked for; by default all that fit, but those of users."""
    fitting = [name for name, metric in POINTWISE.items() if metric.fits(task, scores)]
    asked = None if names is None else several(names)
    if asked is None:
        unwanted = {"users"} if has_thresholds or task is not Task.BINARY else {"users", "flags"}
        return tuple(name for name in fitting if not unwanted & set(POINTWISE[name].needs))
    if not asked:
        raise ConfigError("NO_METRICS", f"{WHERE}.metrics is empty; `spark-eval metrics` lists them")
    chosen = [pointwise_named(name).name for name in asked]
    for name in chosen:
        if name not in fitting:
            message = f"{name} is not defined for task: {task} with scores: {scores}"
            raise invalid(f"{message}; these are: {', '.join(fitting)}")
    return tuple(dict.fromkeys(chosen))


def pointwise_named(name: str) -> PointwiseMetric:
    """Return the metric of this name or alias; raise ConfigError UNKNOWN_METRIC with the nearest one."""
    metric = find(name, POINTWISE)
    if metric is None:
        raise ConfigError.unknown("UNKNOWN_METRIC", "metric", name, POINTWISE, f"{WHERE}.metrics")
    return metric


def classes_of(task: Task, classes: Sequence[Class], negative: Class, positive: Class) -> tuple[Class, ...]:
    """Return the classes of labels; none in a regression."""
    match task:
        case Task.BINARY:
            names: tuple[Class, ...] = (negative, positive)
        case Task.MULTICLASS:
            names = tuple(classes)
            if not 2 <= len(names) <= MOST_CLASSES:
                raise invalid(f"classes: task: multiclass needs their list, 2 to {MOST_CLASSES}")
        case Task.REGRESSION:
            return ()
    if len({isinstance(one, str) for one in names}) > 1 or len(set(names)) < len(names):
        raise invalid(f"classes {', '.join(map(str, names))}: distinct ones, all texts or all numbers")
    return names


def thresholds_of(task: Task, scores: Scores, given: Sequence[float] | float | None) -> tuple[float, ...]:
    """Return ascending thresholds; of classes the one between 0 and 1."""
    if task is not Task.BINARY or scores is Scores.CLASS:
        if given is not None:
            raise invalid("thresholds need task: binary with scores that have an order")
        return (0.5,) if task is Task.BINARY else ()
    default = (0.5,) if scores is Scores.PROBABILITY else ()
    chosen = default if given is None else tuple(sorted({float(one) for one in several(given)}))
    if len(chosen) > MOST_THRESHOLDS or not all(map(math.isfinite, chosen)):
        raise invalid(f"thresholds are up to {MOST_THRESHOLDS} finite numbers")
    return chosen


def rules_of(choose: Mapping[str, Any]) -> list[Rule]:
    """Return the rules of ``choose: {flags: [300], recall: [0.95], cost: [{false_positive: 1, ...}]}``.

    Other rules report cost by the first costs given, by default 1 per error.
    """
    for name in choose:
        if name not in set(Goal):
            raise ConfigError.unknown("UNKNOWN_CONFIG_KEY", "key", name, Goal, f"{WHERE}.choose")
    costs = [Rule(Goal.COST, **dict(costs)) for costs in several(choose.get(Goal.COST, ()))]
    judge = costs[0] if costs else Rule(Goal.COST)
    rules = [
        replace(judge, goal=goal, limit=float(limit))
        for goal in (Goal.FLAGS, Goal.RECALL)
        for limit in several(choose.get(goal, ()))
    ]
    for rule in [*rules, *costs]:
        if not 0 <= rule.limit <= (1 if rule.goal is Goal.RECALL else math.inf):
            raise invalid(f"choose: {rule}; flags are 0 or more, recall is in [0, 1]")
        if not (0 <= rule.false_positive < math.inf and 0 <= rule.false_negative < math.inf):
            raise invalid(f"choose: {rule}; costs are 0 or more")
    return list(dict.fromkeys([*rules, *costs]))


def invalid(message: str) -> ConfigError:
    """Return the error of options that do not go together."""
    return ConfigError("INVALID_CONFIG", f"{WHERE}: {message}")
