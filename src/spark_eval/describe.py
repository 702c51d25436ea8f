"""Tables of the metrics, the conventions and the presets, for the terminal and for the documents.

All of it comes from the registry and the enumerations: what is shown is what is computed.
"""

import inspect
from collections.abc import Sequence

from spark_eval.conventions import FORKS, TieOrder
from spark_eval.metrics import RANKING, RankingMetric
from spark_eval.metrics.values import SHARES_PLACES, metric_named, short
from spark_eval.pointwise.metrics import POINTWISE
from spark_eval.presets import PRESETS, changed_forks, conventions_of

Rows = list[list[str]]
METRICS = ("metric", "mean over users", "formula", "options", "meaning")
POINTWISE_METRICS = ("metric of predictions", "tasks", "formula", "meaning")
CONVENTIONS = ("convention", "default", "other choices")
CHOICES = ("convention", "choice", "meaning")
PRESET_TABLE = ("preset", "numbers of", "changes")
PRESET_NOTES = ("preset", "numbers of", "changes", "why numbers differ from the default's", "not reproduced")
PRESET_FORKS = ("convention", "choice", "meaning", "default")


def metric_rows() -> Rows:
    """One row per metric of the registry."""
    return [
        [
            metric.name,
            ", ".join([metric.run_name, *metric.weights]),
            metric.formula,
            ", ".join(short(fork, metric) for fork in metric.forks),
            metric.summary.replace("``", "`"),
        ]
        for metric in RANKING.values()
    ]


def pointwise_rows() -> Rows:
    """One row per metric of predictions."""
    return [
        [metric.name, ", ".join(metric.tasks), metric.formula, metric.summary]
        for metric in POINTWISE.values()
    ]


def convention_rows() -> Rows:
    """One row per fork, with its choices, and the threshold."""
    defaults = conventions_of("default")
    rows = []
    for fork, choices in FORKS.items():
        default = getattr(defaults, fork)
        others = [choice for choice in choices if choice is not default]
        rows.append([fork, f"{default}: {default.meaning}", "; ".join(f"{c}: {c.meaning}" for c in others)])
    return [*rows, ["threshold", "none: relevance above 0", "a number: relevance at or above it"]]


def choice_rows() -> Rows:
    """One row per choice of every fork."""
    return [[fork, choice, choice.meaning] for fork, choices in FORKS.items() for choice in choices]


def preset_rows() -> Rows:
    """One row per preset: whose numbers it gives, what it changes, why they differ, what it leaves out."""
    return [
        [name, preset.source, ", ".join(changes(name)) or "nothing", preset.differs, preset.leaves_out]
        for name, preset in PRESETS.items()
    ]


def short_preset_rows() -> Rows:
    """The same without the story."""
    return [row[: len(PRESET_TABLE)] for row in preset_rows()]


def preset_fork_rows(name: str) -> Rows:
    """Every fork as a preset chooses it, and the default's choice where that is another."""
    chosen, defaults = conventions_of(name), conventions_of("default")
    rows = [
        [fork, choice, choice.meaning, "" if choice is default else default]
        for fork in FORKS
        for choice, default in [(getattr(chosen, fork), getattr(defaults, fork))]
    ]
    threshold = "above 0" if chosen.threshold is None else f"{chosen.threshold} or more"
    return [*rows, ["threshold", threshold, "relevance that counts as relevant", ""]]


def changes(name: str) -> list[str]:
    """What a preset changes of the default, as it would be written in a config."""
    chosen = conventions_of(name)
    forks = [f"{fork}: {choice}" for fork, choice in changed_forks(chosen, conventions_of("default")).items()]
    return forks if chosen.threshold is None else [*forks, f"threshold: {chosen.threshold}"]


def metric_text(name: str) -> str:
    """All of one metric, of rankings and of predictions: formula, options, the notes of its kernel."""
    of_predictions = pointwise_text(name) if name in POINTWISE else ""
    if of_predictions and name not in {
        known for one in RANKING.values() for known in (one.name, one.run_name)
    }:
        return of_predictions
    return "\n\n".join(filter(None, [ranking_text(name), of_predictions]))


def pointwise_text(name: str) -> str:
    """All of one metric of predictions."""
    metric = POINTWISE[name]
    lines = [f"{metric.name}, of predictions ({', '.join(metric.tasks)})", f"formula: {metric.formula}"]
    return "\n".join([*lines, "", inspect.cleandoc(metric.kernel.__doc__ or "")])


def ranking_text(name: str) -> str:
    """All of one metric of rankings."""
    metric = metric_named(name)
    lines = [f"{metric.name}, mean over users: {', '.join([metric.run_name, *metric.weights])}"]
    lines += [f"formula: {metric.formula}", *options_of(metric), "", inspect.cleandoc(metric.notes)]
    return "\n".join(lines)


def options_of(metric: RankingMetric) -> list[str]:
    """A line for each choice of each option."""
    return [
        f"option {short(fork, metric)}={choice}: {choice.meaning}"
        for fork in metric.forks
        for choice in FORKS[fork]
        if choice is not TieOrder.SHARED or metric.name in SHARES_PLACES
    ]


def markdown(header: Sequence[str], rows: Rows) -> str:
    """A table as documents hold it; the first column in code."""
    lines = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    for first, *others in rows:
        cells = [cell.replace("|", r"\|") for cell in others]
        lines.append(f"| `{first}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def document() -> str:
    """docs/conventions.md, whole."""
    parts = [
        "# Metrics, conventions, presets",
        "Printed by `spark-eval metrics --markdown`; a test compares. Ranks start at 1; k is the cutoff, h "
        "the hits in the top k, m the user's relevant items, P@i and R@i precision and recall at rank i.",
        "Metrics are computed per user, then averaged. `_micro` and `_by_` are weighted averages. The "
        "`std_error` of an average is s / sqrt(n), s the deviation over users with the divisor n - 1, and "
        "its interval value -+ 1.96 std_error; weighted averages have none.",
        "## Metrics",
        markdown(METRICS, metric_rows()),
        "A metric is a value: `ndcg(gain=exp2)@10` has its own options and cutoff, so that one run can hold "
        "several variants; without `@` it is measured at every `evaluate.k`; `all` is no cutoff. Its column "
        "in `per_user` is `ndcg_gain_exp2_at_10`. `tie_order=best` and `tie_order=worst` give the best and "
        "the worst that an order of equal scores could give.",
        *(f"### {metric.name}\n\n```text\n{ranking_text(metric.name)}\n```" for metric in RANKING.values()),
        "## Conventions",
        markdown(CONVENTIONS, convention_rows()),
        "## Presets",
        "With a library's preset the same input gives the number that the library gives; the parity tests "
        "compare them per user.",
        markdown(PRESET_NOTES, preset_rows()),
    ]
    return "\n\n".join(parts) + "\n"
