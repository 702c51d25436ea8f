"""Leaderboard: a line per model and cutoff, a column per metric, marks of the best and the close models."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from spark_eval.conventions import Gain, NoRecommendations
from spark_eval.conventions.presets import parse_stamp
from spark_eval.errors import ConfigError
from spark_eval.kernels.values import (
    UNCUT,
    cutoff_of,
    has_cutoff,
    published_name,
    ranking_names,
    split_metric_text,
)
from spark_eval.schema import ALL, FOLDS, Direction, Outcome, Row
from spark_eval.statistics.differences import signed_root, unpaired
from spark_eval.statistics.intervals import Summary
from spark_eval.statistics.significance import adjusted, p_of_t

BEST: Final = "*"
CLOSE: Final = "~"
CERTAIN: Final = 0.05
EXPLAINED: Final = (
    f"{BEST} the best of its k; {CLOSE} not significantly worse than the best "
    "(approximate; `spark-eval compare` runs the paired test)"
)
OVER_REPEATS: Final = "±: half the 95 % interval over users and repeats"
OTHER_USERS: Final = "(n): a mean of n users, not of all in its line; no marks between models of other users"
# Treatment of users without a list, by the convention no_recommendations.
WITHOUT_LIST: Final[Mapping[str, str]] = {
    NoRecommendations.ZERO: "they count as 0, and are left out of metrics of the items in a list",
    NoRecommendations.DROP: "they are left out",
}
MOST_MODELS: Final = 5
# Options of metrics of predictions.
OF_PREDICTIONS: Final = re.compile("(threshold|class|label|sampling_rate)=")
GAIN_OPTION: Final = re.compile(r"\bgain=(\w+)")
WHERE: Final = "leaderboard"
Columns = Mapping[str, Sequence[str]]
# Model and cutoff; None is no cutoff.
Line = tuple[str, int | None]


def list_direction(metric: str) -> Direction:
    """Return the direction of a list metric: higher, lower or none."""
    return ranking_names()[split_metric_text(metric)["name"]].direction


def marks_of(
    rows: Iterable[Row], better: Callable[[str], Direction] = list_direction
) -> dict[tuple[str, Line], str]:
    """Return the marks of models, BEST or CLOSE, by metric and line.

    A model is close if a one-sided Welch test does not tell it from the best. The p-values of a metric and k
    are adjusted by Holm. Without standard errors no model is close.

    There are no marks if only one model has a value, or if models have different numbers of users or rows:
    their populations are not the same. ``better`` returns the direction of a metric, by default of a list
    metric.
    """
    groups: dict[tuple[str, int | None], dict[str, Summary]] = {}
    populations: dict[tuple[str, int | None], set[Any]] = {}
    for row in rows:
        if row["segment"] == ALL and row["value"] is not None:
            mean = Summary(row["value"], row.get("std_error"), n=n_values(row))
            groups.setdefault((row["metric"], row["k"]), {})[row["model"]] = mean
            populations.setdefault((row["metric"], row["k"]), set()).add((row["n_users"], row.get("n_rows")))
    marks = {}
    for (metric, k), of_models in groups.items():
        direction = better(metric)
        if direction is Direction.NONE or len(of_models) == 1 or len(populations[metric, k]) > 1:
            continue
        sign = -1 if direction is Direction.LOWER else 1
        best = of_models[max((sign * (mean.value or 0), model) for model, mean in of_models.items())[1]]
        p_values = adjusted([p_behind(mean, best, sign) for mean in of_models.values()], "holm")
        for model, p in zip(of_models, p_values, strict=True):
            is_equal = of_models[model].value == best.value
            if is_equal or (p is not None and p >= CERTAIN):
                marks[metric, (model, k)] = BEST if is_equal else CLOSE
    return marks


def n_values(row: Row) -> int:
    """Return the number of values behind a mean, one more than its degrees of freedom.

    With repeats it is smaller than the number of users: Satterthwaite's degrees of freedom, plus 1, of the
    shares of repeats and of users in the variance.
    """
    n = int(row["n_users"] or row.get("n_rows") or 0)
    share, n_repeats = row.get("repeat_share"), row.get("n_repeats")
    if not share or n_repeats is None or n <= n_repeats:
        return n
    return int(1 / (share**2 / (n_repeats - 1) + (1 - share) ** 2 / (n - 1))) + 1


def p_behind(mean: Summary, best: Summary, sign: int) -> float | None:
    """Return the one-sided p-value of a mean below the best; None for the best itself and without errors."""
    difference = unpaired(best.value, best.std_error, best.n, mean.value, mean.std_error, mean.n)
    if mean is best or difference.value is None or not difference.variance:
        return None
    return p_of_t(signed_root(sign * difference.value, difference.variance), difference.freedom, "less")


@dataclass(frozen=True)
class Leaderboard:
    """Texts of all cells by column and line, metrics in the requested order, and notes."""

    lines: Columns
    metrics: Columns
    n_users: Sequence[int]
    notes: Sequence[str]

    @property
    def users(self) -> Columns:
        """Numbers of users as text."""
        return {"users": [f"{n:,}" for n in self.n_users]}

    @classmethod
    def of(
        cls,
        rows: Iterable[Row],
        metric: str | None = None,
        entries: Iterable[Row] = (),
    ) -> Self:
        """Build the leaderboard from rows of the tables ``metrics`` and ``accounting``.

        With folds, cells show the mean over folds and the standard deviation; with repeats, the mean and half
        its interval over users and repeats. With a ``metric``, only its
        column is shown, the best model first.

        Raises:
            ConfigError: METRIC_NOT_MEASURED.
        """
        rows = list(rows) if metric is None else rows_of_metric(list(rows), metric)
        cells: dict[tuple[str, Line], str] = {}
        counts: dict[tuple[str, Line], int] = {}
        over_folds: dict[tuple[str, Line], dict[str, str]] = {}
        n_users: dict[Line, int] = {}
        segments = dict[str, None]()
        for row in rows:
            line = (row["model"], row["k"])
            if row["segment"] == ALL:
                cells[row["metric"], line] = four_digits(row["value"]) + margin_over_repeats(row)
                if row["value"] is not None:
                    counts[row["metric"], line] = row["n_users"]
                n_users[line] = max(n_users.get(line, 0), row["n_users"])
            elif row["segment"] == FOLDS:
                over_folds.setdefault((row["metric"], line), {})[row["segment_value"]] = four_digits(
                    row["value"]
                )
            else:
                segments[row["segment"]] = None
        marks = marks_of(rows)
        cells |= {key: cells[key] + mark for key, mark in marks.items()}
        of_others = {key: f"{cells[key]} ({n:,})" for key, n in counts.items() if n != n_users[key[1]]}
        cells |= of_others
        cells |= {key: f"{numbers['mean']} ± {numbers['sd']}" for key, numbers in over_folds.items()}
        lines = sorted(n_users, key=smaller_k_first)
        if metric is not None:
            order = {(row["model"], row["k"]): order_by_value(row) for row in rows if row["segment"] == ALL}
            lines.sort(key=lambda line: (smaller_k_first(line)[:2], order[line]))
        metrics = dict.fromkeys(metric for metric, _ in cells)
        return cls(
            {"model": [model for model, _ in lines], "k": [cutoff_text(k) for _, k in lines]},
            # Metrics can have different cutoffs.
            {metric: [cells.get((metric, line), four_digits(None)) for line in lines] for metric in metrics},
            [n_users[line] for line in lines],
            [
                *([EXPLAINED] if marks else []),
                *gains_in_words(rows),
                *([OVER_REPEATS] if any(map(margin_over_repeats, rows)) else []),
                *([OTHER_USERS] if of_others.keys() - over_folds.keys() else []),
                *(
                    f"no list: {models}; {WITHOUT_LIST[choice]} (no_recommendations={choice})"
                    for choice, models in models_without_lists(entries).items()
                ),
                *(
                    f"by {name}: `leaderboard(segment={name!r})` in Python, or the table metrics"
                    for name in segments
                ),
            ],
        )


def gains_in_words(rows: Iterable[Row]) -> list[str]:
    """Return the gain of each metric with gains, such as nDCG, if there is a relevance threshold.

    >>> gains_in_words([{"metric": "ndcg", "conventions": "default; relevance>=4.0"}])
    ['ndcg: an item of relevance 4 or more gains its relevance (gain=linear); others gain 0']
    """
    notes = dict[str, None]()
    for metric, text in dict.fromkeys((row["metric"], row.get("conventions")) for row in rows):
        form = split_metric_text(metric)
        if text is None or "gain" not in ranking_names()[form["name"]].options:
            continue
        conventions = parse_stamp(text)
        if conventions.threshold is not None:
            option = GAIN_OPTION.search(metric)
            gain = next((one for one in Gain if option and one.value == option[1]), conventions.gain)
            gained = f"gains {gain.meaning} (gain={gain}); others gain 0"
            notes[f"{metric}: an item of relevance {conventions.threshold:g} or more {gained}"] = None
    return list(notes)


def models_without_lists(entries: Iterable[Row], n_users: Mapping[str, int] | None = None) -> dict[str, str]:
    """Return the models that lack lists for some users, by the convention that treats these users.

    ``entries`` are rows of ``accounting``. ``n_users`` is the number of users with truth of each model; it is
    named if there is one. At most MOST_MODELS models are named: ``als for 62 of 81 users``.
    """
    models: dict[str, list[str]] = {}
    for entry in entries:
        if entry["outcome"] == Outcome.NO_RECOMMENDATIONS and entry["users"]:
            n, total = entry["users"], (n_users or {}).get(entry["model"])
            users = f"{n:,} user{'s' * (n > 1)}" if not total else f"{n:,} of {total:,} users"
            models.setdefault(entry["reason"], []).append(f"{entry['model']} for {users}")
    return {
        choice: ", ".join(named[:MOST_MODELS])
        + (f" and {len(named) - MOST_MODELS} more models" if named[MOST_MODELS:] else "")
        for choice, named in models.items()
    }


def rows_of_metric(rows: Sequence[Row], metric: str, where: str = WHERE) -> list[Row]:
    """Return the rows of a metric, and of its cutoff if it names one.

    ``where`` is the name of the option for messages.

    Raises:
        ConfigError: METRIC_NOT_MEASURED.
    """
    form, name = split_metric_text(metric, where), published_name(metric, where)
    chosen = [row for row in rows if row["metric"] == name]
    if has_cutoff(form):
        chosen = [row for row in chosen if row["k"] == cutoff_of(form)]
    if not chosen:
        measured = {measure_of(row) for row in rows}
        raise ConfigError.unknown("METRIC_NOT_MEASURED", "metric", metric, measured, where)
    return chosen


def order_by_value(row: Row, better: Callable[[str], Direction] = list_direction) -> tuple[bool, float]:
    """Return the sort key of a row by value: the best first, a missing value last."""
    is_lower = better(row["metric"]) is Direction.LOWER
    return row["value"] is None, (row["value"] or 0.0) * (1 if is_lower else -1)


def cutoff_text(k: int | None) -> str:
    """Return k as text; ``all`` if there is no cutoff."""
    return UNCUT if k is None else str(k)


def is_list_metric(metric: str) -> bool:
    """Return True for a metric of lists, False for one of predictions, such as ``f1(threshold=0.5)``."""
    name, _, options = metric.partition("(")
    is_published = any(name in one.names for one in ranking_names().values())
    return is_published and not OF_PREDICTIONS.search(options)


def measure_of(row: Row) -> str:
    """Return metric and cutoff of a row: ``ndcg@10``; metrics of predictions have no cutoff."""
    if row["k"] is None and not is_list_metric(row["metric"]):
        return str(row["metric"])
    return f"{row['metric']}@{cutoff_text(row['k'])}"


def margin_over_repeats(row: Row) -> str:
    """Return half the interval of a mean over users and several repeats as text; empty for other rows.

    >>> margin_over_repeats({"segment": "all", "value": 0.5, "ci_low": 0.25, "std_repeat": 0.1})
    ' ± 0.2500'
    """
    is_over_repeats = row["segment"] == ALL and row.get("std_repeat") is not None
    if not is_over_repeats or row["value"] is None or row["ci_low"] is None:
        return ""
    return f" ± {four_digits(row['value'] - row['ci_low'])}"


def four_digits(value: float | None) -> str:
    """Return a value with four decimals; ``-`` if missing."""
    return "-" if value is None else f"{value:.4f}"


def smaller_k_first(line: Line) -> tuple[bool, int, str]:
    """Return the sort key of a line: by k, no cutoff last, then by model."""
    model, k = line
    return (k is None, k or 0, model)
