"""Tables of the metrics, the conventions and the presets, for the terminal and for the documentation.

All of them are generated from the registry and the enumerations, so they match the computation.
"""

import ast
import doctest
import inspect
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any, Final

from spark_eval import kernels
from spark_eval.conventions import CONVENTIONS, Conventions, TieOrder, TruthDuplicates
from spark_eval.conventions.choice import Need
from spark_eval.conventions.presets import PRESETS, changed_choices, conventions_of
from spark_eval.errors import ConfigError
from spark_eval.kernels.aliases import ALIASES, find_name
from spark_eval.kernels.registry import RANKING, RankingMetric
from spark_eval.kernels.values import (
    SHARES_PLACES,
    parse_metric,
    ranking_names,
    split_metric_text,
    without_metric,
)
from spark_eval.predictions import PREDICTION_METRICS
from spark_eval.predictions.registry import PredictionMetric
from spark_eval.predictions.task import PREDICTION_PRESETS

if TYPE_CHECKING:
    import pandas as pd

TextRows = list[list[str]]
# A header, and rows with one text per column.
TextTable = tuple[Sequence[str], TextRows]
# Relevances of the rows of one user and item, the latest last, and the result of each choice.
WORKED_ROWS = ("rows of one item", *TruthDuplicates)
WORKED = (
    ["5, 0", "5", "5", "0", "2"],
    ["2, 2", "2", "4", "2", "2"],
    ["0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1", "0.1", "1", "0.1", "10"],
    ["3, -4", "3", "-1", "-4", "2"],
)
PROMPT: Final = ">>> "
DEFAULTS: Final = conventions_of("default")
# Full names of abbreviations, as search terms in the documentation.
FULL_NAMES: Final = {
    "ap": "average precision, mean average precision (MAP)",
    "ar": "average recall, mean average recall (MAR)",
    "rr": "reciprocal rank, mean reciprocal rank (MRR)",
    "rhr": "reciprocal hit rank, average reciprocal hit rank (ARHR)",
    "cg": "cumulative gain",
    "dcg": "discounted cumulative gain",
    "mdcg": "mean of discounted cumulative gains",
    "ndcg": "normalized discounted cumulative gain (nDCG)",
    "auc": "area under the ROC curve, of each user",
    "fcp": "fraction of concordant pairs",
    "arp": "average recommendation popularity",
    "ild": "intra-list diversity",
    "epc": "expected popularity complement",
    "efd": "expected free discovery",
    "err_ia": "intent-aware expected reciprocal rank",
    "nerr_ia": "normalized intent-aware expected reciprocal rank",
    "p_ia": "intent-aware precision",
    "ap_ia": "intent-aware average precision",
}


def metrics() -> "pd.DataFrame":
    """Return one row per metric of lists and of predictions, as printed by ``spark-eval metrics``.

    Returns:
        A pandas frame: ``metric``, as accepted by ``metrics=[...]``; ``of`` (lists or predictions);
        ``column``, its name in ``per_user``; ``better``; ``formula``; ``options``; ``meaning``.

    Examples:
        >>> import spark_eval
        >>> spark_eval.metrics().query("metric == 'ndcg'")[["of", "better"]].to_numpy().tolist()
        [['lists', 'higher']]
    """
    import pandas as pd

    lists = [
        [
            metric.run_name,
            "lists",
            metric.name if metric.is_of_users else "",
            str(metric.direction),
            metric.formula,
            ", ".join(without_metric(name, metric) for name in metric.options),
            metric.summary,
        ]
        for metric in RANKING.values()
    ]
    predictions = [
        [metric.name, "predictions", "", str(metric.direction), metric.formula, "", metric.summary]
        for metric in PREDICTION_METRICS.values()
    ]
    names = ["metric", "of", "column", "better", "formula", "options", "meaning"]
    return pd.DataFrame([*lists, *predictions], columns=names)


def ranking_table() -> TextTable:
    """Return one row per ranking metric of the registry."""
    return ("metric", "mean over users", "better", "formula", "options", "meaning"), [
        [
            metric.name,
            ", ".join(metric.names) if metric.is_of_users else whose_value(metric),
            metric.direction,
            metric.formula,
            ", ".join(without_metric(name, metric) for name in metric.options),
            metric.summary.replace("``", "`"),
        ]
        for metric in RANKING.values()
    ]


def prediction_table() -> TextTable:
    """Return one row per metric of predictions."""
    return ("metric of predictions", "tasks", "better", "formula", "meaning"), [
        [metric.name, ", ".join(metric.tasks), metric.direction, metric.formula, metric.summary]
        for metric in PREDICTION_METRICS.values()
    ]


def convention_table() -> TextTable:
    """Return one row per convention, with its choices."""
    rows = []
    for name, choices in CONVENTIONS.items():
        default = getattr(DEFAULTS, name)
        shown = [f"{one}: {one.meaning}" for one in (default, *(one for one in choices if one != default))]
        rows.append([name, shown[0], "; ".join(shown[1:])])
    rows.append(["threshold", "none: relevance above 0", "a number from 0: relevance at or above it"])
    return ("convention", "default", "other choices"), rows


def choice_table() -> TextTable:
    """Return one row per choice of every convention."""
    return ("convention", "choice", "meaning"), [
        [name, choice, choice.meaning] for name, choices in CONVENTIONS.items() for choice in choices
    ]


def preset_table(n_columns: int | None = None) -> TextTable:
    """Return one row per preset, with all columns or the first ``n_columns``."""
    header = ("preset", "numbers of", "changes", "why numbers differ from the default's", "not reproduced")
    rows = [
        [name, preset.source, ", ".join(changed_by(name)) or "nothing", preset.differs, preset.leaves_out]
        for name, preset in PRESETS.items()
    ]
    return header[:n_columns], [row[:n_columns] for row in rows]


def preset_choice_table(preset: str) -> TextTable:
    """Return a preset's choice for every convention, and the default's if that differs."""
    chosen = conventions_of(preset)
    changed = changed_choices(DEFAULTS, chosen)
    rows = [
        [name, choice, choice.meaning, changed.get(name, "")]
        for name in CONVENTIONS
        for choice in [getattr(chosen, name)]
    ]
    threshold = "above 0" if chosen.threshold is None else f"{chosen.threshold} or more"
    rows.append(["threshold", threshold, "relevance that counts as relevant", ""])
    return ("convention", "choice", "meaning", "default"), rows


def changed_by(name: str) -> list[str]:
    """Return the choices of a preset that differ from the default, as in a config."""
    chosen = conventions_of(name)
    changed = [f"{name}: {choice}" for name, choice in changed_choices(chosen, DEFAULTS).items()]
    return changed if chosen.threshold is None else [*changed, f"threshold: {chosen.threshold}"]


def metric_text(text: str, preset: str | None = None) -> str:
    """Return the description of a metric of rankings or predictions, and the choices of a preset for it.

    ``text`` is any name of the metric. Raises ConfigError UNKNOWN_METRIC or UNKNOWN_PRESET, and the errors of
    invalid options and cutoffs.
    """
    name = split_metric_text(text)["name"]
    of_rankings, of_predictions = find_name(name, ranking_names()), find_name(name, PREDICTION_METRICS)
    if preset is not None:
        conventions_of(preset)
    parts = []
    if of_rankings is not None:
        parse_metric(text)
        parts += [ranking_text(of_rankings), preset and ranking_choices(of_rankings, preset)]
    if of_predictions is not None:
        parts += [prediction_text(of_predictions), preset and prediction_choices(of_predictions, preset)]
    if not parts:
        raise ConfigError.unknown(
            "UNKNOWN_METRIC", "metric", name, {**ranking_names(), **PREDICTION_METRICS}, "metrics NAME"
        )
    return "\n\n".join(filter(None, parts))


def prediction_text(metric: PredictionMetric) -> str:
    """Return the description of a metric of predictions."""
    return whole_text(f"{metric.name}, of predictions ({', '.join(metric.tasks)})", metric, [metric.name])


def ranking_text(metric: RankingMetric) -> str:
    """Return the description of a ranking metric."""
    title = f"{metric.name}, {whose_value(metric)}: {', '.join(metric.names)}"
    options = [
        f"option {without_metric(name, metric)}={choice}: {choice.meaning}"
        for name in metric.conventions
        for choice in CONVENTIONS[name]
        if choice is not TieOrder.SHARED or metric.name in SHARES_PLACES
    ]
    if metric.column_option is not None:
        default = getattr(Conventions(), metric.column_option)
        name = without_metric(metric.column_option, metric)
        options.append(f"option {name}=NAME: a boolean column of items (default: {default})")
    return whole_text(title, metric, [metric.name, metric.run_name], options)


def whose_value(metric: RankingMetric) -> str:
    """Describe the metric's value: a mean over users, a value of the run, or one per group of items."""
    if Need.ITEM_COUNTS in metric.needs:
        return "value of the run"
    return "value of the run for each group" if Need.GROUP_WEIGHTS in metric.needs else "mean over users"


def whole_text(
    title: str, metric: RankingMetric | PredictionMetric, names: Iterable[str], options: Sequence[str] = ()
) -> str:
    """Return formula, direction, other names, options and docstring of a metric below its title."""
    aliases = [alias for name in dict.fromkeys(names) for alias in ALIASES.get(name, ())]
    lines = [f"formula: {metric.formula}", f"better: {metric.direction}"]
    called = [f"also called: {', '.join(aliases)}"] if aliases else []
    return "\n".join([title, *lines, *called, *options, "", noted(metric.kernel)])


def noted(kernel: Callable[..., Any]) -> str:
    """Return the docstring of a kernel, with the imports of its examples before the first one."""
    notes = inspect.cleandoc(kernel.__doc__ or "")
    before, mark, examples = notes.partition(PROMPT)
    return f"{before}{''.join(imports(notes, kernel))}{mark}{examples}"


def imports(notes: str, kernel: Callable[..., Any]) -> list[str]:
    """Return the lines that import what the examples use, from a public module if it offers that."""
    used = {
        node.id
        for example in doctest.DocTestParser().get_examples(notes)
        for node in ast.walk(ast.parse(example.source))
        if isinstance(node, ast.Name) and node.id in kernel.__globals__
    }
    by_home: dict[str, list[str]] = {}
    for name in sorted(used):
        value = kernel.__globals__[name]
        is_public = getattr(kernels, name, None) is value
        by_home.setdefault(kernels.__name__ if is_public else value.__module__, []).append(name)
    return [f"{PROMPT}from {home} import {', '.join(by_home[home])}\n" for home in sorted(by_home)]


def ranking_choices(metric: RankingMetric, preset: str) -> str:
    """Return a preset's choices for a ranking metric, with the default's if those differ."""
    lines = [
        f"{without_metric(name, metric)}={choice}: {meaning}" + (f" (default: {default})" if default else "")
        for name, choice, meaning, default in preset_choice_table(preset)[1]
        if name in metric.conventions
    ]
    return "\n".join([f"under preset {preset} (whole: spark-eval metrics --preset {preset}):", *lines])


def prediction_choices(metric: PredictionMetric, preset: str) -> str:
    """Return a preset's choices for a metric of predictions."""
    if preset not in PREDICTION_PRESETS:
        return f"presets of predictions: {', '.join(PREDICTION_PRESETS)}; {preset} is one of rankings only"
    chosen = PREDICTION_PRESETS[preset]
    choices = {"auprc": f"{chosen.auprc}: {chosen.auprc.meaning}"}
    choices |= dict.fromkeys(("log_loss", "log_likelihood"), f"eps={chosen.log_loss_eps}")
    return f"under preset {preset}: {choices.get(metric.name, 'as by default; it has no choice to make')}"


def markdown(header: Sequence[str], rows: TextRows) -> str:
    """Return a Markdown table; the first column is formatted as code."""
    lines = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    for first, *others in rows:
        cells = [cell.replace("|", r"\|") for cell in others]
        lines.append(f"| `{first}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def heading(name: str) -> str:
    """Return the name of a metric, followed by the full name if it is an abbreviation."""
    return f"{name}: {FULL_NAMES[name]}" if name in FULL_NAMES else name


def document() -> str:
    """Return the text of docs/conventions.md."""
    text = files("spark_eval.cli").joinpath("conventions.md").read_text(encoding="utf-8")
    metrics = (f"### {heading(one.name)}\n\n```text\n{ranking_text(one)}\n```" for one in RANKING.values())
    return Template(text).substitute(
        metrics=markdown(*ranking_table()),
        each_metric="\n\n".join(metrics),
        conventions=markdown(*convention_table()),
        worked=markdown(WORKED_ROWS, list(WORKED)),
        presets=markdown(*preset_table()),
    )
