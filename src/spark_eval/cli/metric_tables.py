"""Tables of the metrics, the conventions and the presets, for the terminal and for the documents.

All of it comes from the registry and the enumerations: what is shown is what is computed.
"""

import ast
import doctest
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final

from spark_eval.conventions import FORKS, TieOrder, TruthDuplicates
from spark_eval.errors import ConfigError
from spark_eval.metrics import RANKING, RankingMetric, parse_metric
from spark_eval.metrics.aliases import ALIASES, find
from spark_eval.metrics.values import SHARES_PLACES, formed, ranking_names, short
from spark_eval.pointwise import POINTWISE
from spark_eval.pointwise.registry import PointwiseMetric
from spark_eval.pointwise.task import PRESETS as POINTWISE_PRESETS
from spark_eval.presets import PRESETS, changed_forks, conventions_of

Rows = list[list[str]]
METRICS = ("metric", "mean over users", "formula", "options", "meaning")
POINTWISE_METRICS = ("metric of predictions", "tasks", "formula", "meaning")
CONVENTIONS = ("convention", "default", "other choices")
CHOICES = ("convention", "choice", "meaning")
# Relevances of the rows of one user and item, the latest last, and what comes of them.
WORKED_ROWS = ("rows of one item", *TruthDuplicates)
WORKED = (
    ["5, 0", "5", "5", "0", "2"],
    ["2, 2", "2", "4", "2", "2"],
    ["0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1", "0.1", "1", "0.1", "10"],
    ["3, -4", "3", "-1", "-4", "2"],
)
PRESET_TABLE = ("preset", "numbers of", "changes")
PRESET_NOTES = ("preset", "numbers of", "changes", "why numbers differ from the default's", "not reproduced")
PRESET_FORKS = ("convention", "choice", "meaning", "default")
PROMPT: Final = ">>> "


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
    return [*rows, ["threshold", "none: relevance above 0", "a number from 0: relevance at or above it"]]


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


def metric_text(text: str, preset: str | None = None) -> str:
    """All of one metric, of rankings and of predictions, by any name it has; what a preset chooses for it.

    Raises ConfigError UNKNOWN_METRIC, UNKNOWN_PRESET, or what is wrong with its options and cutoff.
    """
    name = formed(text)["name"]
    of_rankings, of_predictions = find(name, ranking_names()), find(name, POINTWISE)
    if preset is not None:
        conventions_of(preset)
    parts = []
    if of_rankings is not None:
        parse_metric(text)
        parts += [ranking_text(of_rankings), preset and ranking_choices(of_rankings, preset)]
    if of_predictions is not None:
        parts += [pointwise_text(of_predictions), preset and pointwise_choices(of_predictions, preset)]
    if not parts:
        raise ConfigError.unknown(
            "UNKNOWN_METRIC", "metric", name, {**ranking_names(), **POINTWISE}, "metrics NAME"
        )
    return "\n\n".join(filter(None, parts))


def pointwise_text(metric: PointwiseMetric) -> str:
    """All of one metric of predictions."""
    lines = [f"{metric.name}, of predictions ({', '.join(metric.tasks)})", f"formula: {metric.formula}"]
    return "\n".join([*lines, *also_called(metric.name), "", noted(metric.kernel)])


def ranking_text(metric: RankingMetric) -> str:
    """All of one metric of rankings: formula, options, the notes of its kernel."""
    lines = [f"{metric.name}, mean over users: {', '.join([metric.run_name, *metric.weights])}"]
    lines += [f"formula: {metric.formula}", *also_called(*dict.fromkeys((metric.name, metric.run_name)))]
    return "\n".join([*lines, *options_of(metric), "", noted(metric.kernel)])


def also_called(*names: str) -> list[str]:
    """A line with the other names that are understood, if there are any."""
    aliases = [alias for name in names for alias in ALIASES.get(name, ())]
    return [f"also called: {', '.join(aliases)}"] if aliases else []


def noted(kernel: Callable[..., Any]) -> str:
    """The docstring of a kernel, with the imports that its examples need in front of the first."""
    notes = inspect.cleandoc(kernel.__doc__ or "")
    before, mark, examples = notes.partition(PROMPT)
    return f"{before}{''.join(imports(notes, kernel))}{mark}{examples}"


def imports(notes: str, kernel: Callable[..., Any]) -> list[str]:
    """The lines that import what the examples of these notes take from the kernel's module."""
    used = {
        node.id
        for example in doctest.DocTestParser().get_examples(notes)
        for node in ast.walk(ast.parse(example.source))
        if isinstance(node, ast.Name) and node.id in kernel.__globals__
    }
    by_home: dict[str, list[str]] = {}
    for name in sorted(used):
        by_home.setdefault(kernel.__globals__[name].__module__, []).append(name)
    return [f"{PROMPT}from {home} import {', '.join(by_home[home])}\n" for home in sorted(by_home)]


def ranking_choices(metric: RankingMetric, preset: str) -> str:
    """What a preset chooses where this metric has a choice, and the default where that is another."""
    lines = [
        f"{short(fork, metric)}={choice}: {meaning}" + (f" (default: {default})" if default else "")
        for fork, choice, meaning, default in preset_fork_rows(preset)
        if fork in metric.forks
    ]
    return "\n".join([f"under preset {preset} (whole: spark-eval metrics --preset {preset}):", *lines])


def pointwise_choices(metric: PointwiseMetric, preset: str) -> str:
    """What a preset chooses for a metric of predictions."""
    if preset not in POINTWISE_PRESETS:
        return f"presets of predictions: {', '.join(POINTWISE_PRESETS)}; {preset} is one of rankings only"
    chosen = POINTWISE_PRESETS[preset]
    choices = {"auprc": f"{chosen.auprc}: {chosen.auprc.meaning}"}
    choices |= dict.fromkeys(("log_loss", "log_likelihood"), f"eps={chosen.log_loss_eps}")
    return f"under preset {preset}: {choices.get(metric.name, 'as by default; it has no choice to make')}"


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
        "The interval takes the mean for normally distributed and is published as it comes. Of few users, or "
        "near a bound, `ci_low` may lie below 0 or `ci_high` above 1, where no value can. To show it, cut it "
        "at the metric's bounds; to test with it, take it as it is.",
        "## Metrics",
        markdown(METRICS, metric_rows()),
        "A metric is a value: `ndcg(gain=exp2)@10` has its own options and cutoff, so that one run can hold "
        "several variants; without `@` it is measured at every `evaluate.k`; `all` is no cutoff. Its column "
        "in `per_user` is `ndcg_gain_exp2_at_10`. `tie_order=best` and `tie_order=worst` give the best and "
        "the worst that an order of equal scores could give. Names are understood in any case and by their "
        "other names (`NDCG@10`, `HR`, `recall@k`, k for every `evaluate.k`); tables hold that shown here.",
        *(f"### {metric.name}\n\n```text\n{ranking_text(metric)}\n```" for metric in RANKING.values()),
        "## Conventions",
        markdown(CONVENTIONS, convention_rows()),
        "## What is relevant",
        "Rows of the truth that have the same user and item are first combined into one relevance, by "
        "`truth_duplicates`. Then it is judged: the item is relevant if it is at or above `threshold`, or "
        "above 0 without one. Rows that cannot be used (no id, no relevance, under "
        "`negative_relevance: refuse` one below 0) are found before that.",
        markdown(WORKED_ROWS, list(WORKED)),
        "An item rated 5 and later 0 is a hit under `max`, and none under `last`. Two rows of 2 reach a "
        "threshold of 4 by their `sum`.",
        "With `threshold: 0` an item of relevance 0 is relevant: it is a hit, counts in m, and adds 0 to "
        "gains, but 1 to those of `gain: binary`. A user whose whole ideal list is worth 0 has nDCG 0. A "
        "threshold below 0 is refused.",
        "In `accounting`, all rows of an item that is not relevant are `filtered`; of a relevant item one "
        "row is `used`, and the others are `deduplicated`. Under `max` a row that is below the threshold "
        "itself is `filtered`, whatever the other rows of its item are.",
        "## Presets",
        "With a library's preset the same input gives the number that the library gives; the parity tests "
        "compare them per user.",
        markdown(PRESET_NOTES, preset_rows()),
    ]
    return "\n\n".join(parts) + "\n"
