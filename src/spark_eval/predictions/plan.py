"""Options of the section ``predictions``: definition and validation."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Final, TypedDict, Unpack

from spark_eval.errors import ConfigError, parse_choice
from spark_eval.kernels.aliases import as_list, metric_named
from spark_eval.kernels.parsers import RESAMPLES, Seed, as_tuple, metric_texts
from spark_eval.options import Given, check_keys, checked
from spark_eval.predictions import PREDICTION_METRICS
from spark_eval.predictions.task import (
    DEFAULT_BINS,
    DEFAULT_CURVE_POINTS,
    ECE_DEBIASED,
    MOST_SUMS_OF_USERS,
    PREDICTION_PRESETS,
    REPLICATES,
    AucInterval,
    Class,
    Clusters,
    Goal,
    PredictionPlan,
    Scores,
    Task,
    ThresholdRule,
)
from spark_eval.schema import ALL, FOLD, FOLDS
from spark_eval.statistics.resampling import DEFAULT_RESAMPLES

SECTION: Final = "predictions"
LEAST_CURVE_POINTS: Final = 1_000
MOST_CLASSES: Final = 1_000
# Maximum share of invalid rows of a model: invalid labels or scores rarely are single cases.
MOST_QUARANTINED: Final = 0.01
MOST_BINS: Final = 10_000
MOST_THRESHOLDS: Final = 1_000
# Kinds of scores that each task allows, its default first.
SCORES: Final = {
    Task.BINARY: (Scores.PROBABILITY, Scores.RAW, Scores.CLASS),
    Task.MULTICLASS: (Scores.PROBABILITY, Scores.CLASS),
    Task.REGRESSION: (Scores.RAW,),
}
# Keys of ``choose``, and of its costs.
RULE_KEYS: Final = {
    Goal.FLAGS: Sequence[float],
    Goal.RECALL: Sequence[float],
    Goal.COST: Sequence[Given],
}
COST_KEYS: Final = {"false_positive": float, "false_negative": float}
# Names that segments cannot have; a column ``fold`` is a segment by itself.
RESERVED_SEGMENTS: Final = frozenset({"", ALL, FOLD, FOLDS})


def canonical_name(name: str) -> str:
    """Return the published name of a metric or alias; raise ConfigError UNKNOWN_METRIC."""
    return metric_named(name, PREDICTION_METRICS, f"{SECTION}.metrics").name


def known_preset(name: str, where: str) -> str:
    """Return the name of a preset if it exists; raise ConfigError UNKNOWN_PRESET otherwise."""
    if name not in PREDICTION_PRESETS:
        raise ConfigError.unknown("UNKNOWN_PRESET", "preset", name, PREDICTION_PRESETS, where)
    return name


class PredictionOptions(TypedDict, total=False):
    """Options of the evaluation of predictions: the keys of the config's section ``predictions``."""

    scores: Annotated[
        str | None,
        "probability, raw or class; None: raw for regression, otherwise probability.",
        None,
        Scores,
    ]
    positive: Annotated[Class, "label of the positive class.", 1]
    negative: Annotated[Class, "label of the negative class; rows with other labels are quarantined.", 0]
    classes: Annotated[Sequence[Class], "the classes, in the order of their probabilities.", (), as_tuple]
    probabilities: Annotated[
        Sequence[str], "a column per class; without them, score is an array of probabilities.", (), as_tuple
    ]
    metrics: Annotated[
        Sequence[str] | None, "names; None: all except those per user.", None, metric_texts, canonical_name
    ]
    thresholds: Annotated[
        Sequence[float] | float | None, "scores at or above one are flagged; None: 0.5 for probabilities."
    ]
    choose: Annotated[
        Given | None,
        "thresholds to find: {flags: [300], recall: [0.95], cost: [{false_negative: 20}]}.",
    ]
    segments: Annotated[Sequence[str], "columns; metrics are also computed for each value.", (), as_tuple]
    sampling_rate: Annotated[
        float | None, "sampling rate of negatives in training; probabilities are corrected for it."
    ]
    bins: Annotated[int, "number of calibration bins of equal width.", DEFAULT_BINS]
    curves: Annotated[bool, "write the curves roc, pr and calibration.", False]
    curve_points: Annotated[
        int,
        "maximum number of points; curves with more are reduced, with a stated error bound.",
        DEFAULT_CURVE_POINTS,
    ]
    conventions: Annotated[str, "preset: default or spark.", "default", known_preset]
    intervals: Annotated[str, "standard errors and intervals by user, by row, or none.", "none", Clusters]
    auc_interval: Annotated[
        str, "scale of the interval of auc: normal, or logit for one within (0, 1).", "normal", AucInterval
    ]
    resamples: Annotated[
        int,
        "number of bootstrap replicates, for intervals of auprc, ece and ece_debiased.",
        DEFAULT_RESAMPLES,
        RESAMPLES,
    ]
    seed: Seed


def make_prediction_plan(task: str, **options: Unpack[PredictionOptions]) -> PredictionPlan:
    """Validate the options and return them as a plan; raise ConfigError with the allowed values."""
    kind, chosen = parse_choice(Task, task, f"{SECTION}.task"), checked(PredictionOptions, options, SECTION)
    scores, labels = chosen["scores"] or SCORES[kind][0], (chosen.pop("negative"), chosen.pop("positive"))
    if scores not in SCORES[kind]:
        raise invalid(f"scores: {scores} does not fit task: {kind}")
    thresholds = thresholds_of(kind, scores, chosen["thresholds"])
    names = metrics_of(kind, scores, chosen["metrics"], bool(thresholds))
    needs = {name for metric in names for name in PREDICTION_METRICS[metric].needs}
    if chosen["curves"] and scores is Scores.PROBABILITY:
        needs.add("bins")
    classes = classes_of(kind, labels if kind is Task.BINARY else chosen["classes"])
    rules = tuple(threshold_rules(chosen.pop("choose") or {}))
    chosen |= {"scores": scores, "metrics": names, "classes": classes, "thresholds": thresholds}
    plan = PredictionPlan(
        kind, preset=chosen.pop("conventions"), rules=rules, needs=frozenset(needs), **chosen
    )
    check_together(plan)
    return plan


def check_together(plan: PredictionPlan) -> None:
    """Raise ConfigError for options that exclude each other."""
    rate, n_columns, n_classes = plan.sampling_rate, len(plan.probabilities), len(plan.classes)
    is_binary, has_probabilities = plan.task is Task.BINARY, plan.scores is Scores.PROBABILITY
    is_ordered, asks_order = is_binary and plan.scores is not Scores.CLASS, plan.curves or plan.rules
    has_columns = plan.task is Task.MULTICLASS and has_probabilities
    faults = {
        "curves and choose need task: binary with scores that have an order": asks_order and not is_ordered,
        "sampling_rate corrects the probabilities of task: binary": (
            rate is not None and not (is_binary and has_probabilities)
        ),
        f"sampling_rate {rate} is not in (0, 1]": rate is not None and not 0 < rate <= 1,
        "probabilities are the columns of task: multiclass": n_columns and not has_columns,
        f"{n_columns} probabilities for {n_classes} classes": n_columns and n_columns != n_classes,
        f"bins: {plan.bins}; allowed: 1 to {MOST_BINS}": not 1 <= plan.bins <= MOST_BINS,
        f"curve_points: {plan.curve_points}; at least {LEAST_CURVE_POINTS}": (
            plan.curve_points < LEAST_CURVE_POINTS
        ),
        f"{ECE_DEBIASED} needs intervals: user, or row where each row is of its own user": (
            REPLICATES in plan.needs and not plan.has_errors
        ),
        f"{ECE_DEBIASED} has at most {MOST_SUMS_OF_USERS} bins, and bins is {plan.bins}": (
            REPLICATES in plan.needs and plan.bins > MOST_SUMS_OF_USERS
        ),
        "metrics at thresholds need thresholds, e.g. [0.5]": (
            "flags" in plan.needs and is_binary and not plan.thresholds
        ),
    }
    for message, holds in faults.items():
        if holds:
            raise invalid(message)
    lowered = [name.lower() for name in plan.segments]
    if len(set(lowered)) < len(lowered) or RESERVED_SEGMENTS & set(lowered):
        raise ConfigError(
            "INVALID_SEGMENT",
            f"{SECTION}.segments: a name is repeated, empty or reserved (all, fold, folds)",
        )


def metrics_of(
    task: Task, scores: Scores, names: Sequence[str] | None, has_thresholds: bool
) -> tuple[str, ...]:
    """Return the requested metrics; by default all that fit, except those per user."""
    fitting = [name for name, metric in PREDICTION_METRICS.items() if metric.fits(task, scores)]
    if names is None:
        unwanted = {"users", REPLICATES} | (set() if has_thresholds or task is not Task.BINARY else {"flags"})
        return tuple(name for name in fitting if not unwanted & set(PREDICTION_METRICS[name].needs))
    requested = dict.fromkeys(map(canonical_name, names))
    for name in requested:
        if name not in fitting:
            message = f"{name} is not defined for task: {task} with scores: {scores}"
            raise invalid(f"{message}; defined are: {', '.join(fitting)}")
    return tuple(requested)


def classes_of(task: Task, labels: tuple[Class, ...]) -> tuple[Class, ...]:
    """Return the classes of the labels; empty for regression."""
    if task is Task.REGRESSION:
        return ()
    if not 2 <= len(labels) <= MOST_CLASSES:
        raise invalid(f"classes: task: multiclass needs a list of 2 to {MOST_CLASSES} classes")
    if len({isinstance(one, str) for one in labels}) > 1 or len(set(labels)) < len(labels):
        raise invalid(f"classes {', '.join(map(str, labels))}: must be distinct, and all text or all numbers")
    return labels


def thresholds_of(task: Task, scores: Scores, given: Sequence[float] | float | None) -> tuple[float, ...]:
    """Return the thresholds in ascending order; 0.5 for predicted classes."""
    if task is not Task.BINARY or scores is Scores.CLASS:
        if given is not None:
            raise invalid("thresholds need task: binary with scores that have an order")
        return (0.5,) if task is Task.BINARY else ()
    default = (0.5,) if scores is Scores.PROBABILITY else ()
    thresholds = default if given is None else tuple(sorted({float(one) for one in as_list(given)}))
    if len(thresholds) > MOST_THRESHOLDS or not all(map(math.isfinite, thresholds)):
        raise invalid(f"thresholds: at most {MOST_THRESHOLDS} finite numbers")
    return thresholds


def threshold_rules(choose: Given) -> list[ThresholdRule]:
    """Return the rules of ``choose: {flags: [300], recall: [0.95], cost: [{false_positive: 1, ...}]}``.

    The first costs also apply to the other rules.
    """
    key = f"{SECTION}.choose"
    check_keys(choose, RULE_KEYS, key)
    given = as_list(choose.get(Goal.COST, ()))
    for index, one in enumerate(given):
        check_keys(one, COST_KEYS, f"{key}.{Goal.COST}.{index}")
    costs = [ThresholdRule(Goal.COST, **one) for one in given]
    judge = costs[0] if costs else ThresholdRule(Goal.COST)
    rules = [
        replace(judge, goal=goal, limit=float(limit))
        for goal in (Goal.FLAGS, Goal.RECALL)
        for limit in as_list(choose.get(goal, ()))
    ]
    for rule in [*rules, *costs]:
        if not 0 <= rule.limit <= (1 if rule.goal is Goal.RECALL else math.inf):
            raise invalid(f"choose: {rule}; flags must be at least 0, recall in [0, 1]")
        if not (0 <= rule.false_positive < math.inf and 0 <= rule.false_negative < math.inf):
            raise invalid(f"choose: {rule}; costs must be at least 0")
    return list(dict.fromkeys([*rules, *costs]))


def invalid(message: str) -> ConfigError:
    """Return ConfigError INVALID_CONFIG with the section's name before the message."""
    return ConfigError("INVALID_CONFIG", f"{SECTION}: {message}")
