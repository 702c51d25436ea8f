"""Models side by side: a line per model and cutoff, a column per metric, the best ones marked."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from spark_eval.comparing.marks import EXPLAINED, Line, list_direction, marks_of
from spark_eval.errors import ConfigError
from spark_eval.metrics.values import UNCUT, formed, has_cutoff, parse_metric, published_name
from spark_eval.schema import ALL, FOLDS, Direction

WHERE: Final = "leaderboard"
Columns = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Leaderboard:
    """Texts of all cells, by column and line; metrics in the order asked for; the names of segments."""

    lines: Columns
    metrics: Columns
    users: Columns
    segments: Sequence[str]
    is_marked: bool = False

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]], metric: str | None = None) -> Self:
        """Read rows of the table ``metrics``; over folds, show the mean of their values and the deviation.

        With a ``metric``, show it alone, the best model first. Raises ConfigError METRIC_NOT_MEASURED.
        """
        rows = list(rows) if metric is None else rows_of_metric(list(rows), metric)
        cells: dict[tuple[str, Line], str] = {}
        over_folds: dict[tuple[str, Line], dict[str, str]] = {}
        n_users: dict[Line, int] = {}
        segments = dict[str, None]()
        for row in rows:
            line = (row["model"], row["k"])
            if row["segment"] == ALL:
                cells[row["metric"], line] = four_digits(row["value"])
                n_users[line] = max(n_users.get(line, 0), row["n_users"])
            elif row["segment"] == FOLDS:
                over_folds.setdefault((row["metric"], line), {})[row["segment_value"]] = four_digits(
                    row["value"]
                )
            else:
                segments[row["segment"]] = None
        marks = marks_of(rows)
        cells |= {key: cells[key] + mark for key, mark in marks.items()}
        cells |= {key: f"{numbers['mean']} ± {numbers['sd']}" for key, numbers in over_folds.items()}
        lines = sorted(n_users, key=smaller_k_first)
        if metric is not None:
            places = {(row["model"], row["k"]): standing(row) for row in rows if row["segment"] == ALL}
            lines.sort(key=lambda line: (smaller_k_first(line)[:2], places[line]))
        metrics = dict.fromkeys(metric for metric, _ in cells)
        return cls(
            {"model": [model for model, _ in lines], "k": [UNCUT if k is None else str(k) for _, k in lines]},
            # A metric may be measured at a cutoff of its own.
            {metric: [cells.get((metric, line), four_digits(None)) for line in lines] for metric in metrics},
            {"users": [f"{n_users[line]:,}" for line in lines]},
            list(segments),
            bool(marks),
        )

    @property
    def notes(self) -> list[str]:
        """What its marks mean, and which segments the table ``metrics`` has beside."""
        of_segments = f"means by {', '.join(self.segments)} stand in the table metrics"
        return [EXPLAINED] * self.is_marked + [of_segments] * bool(self.segments)


def rows_of_metric(
    rows: Sequence[Mapping[str, Any]], metric: str, where: str = WHERE
) -> list[Mapping[str, Any]]:
    """Return the rows of a metric, and of its cutoff if it names one; errors say ``where`` it was named."""
    form, name = formed(metric, where), published_name(metric, where)
    found = [row for row in rows if row["metric"] == name]
    if has_cutoff(form):
        [value] = parse_metric(metric, key=where)
        found = [row for row in found if row["k"] == value.k]
    if not found:
        known = {f"{row['metric']}@{UNCUT if row['k'] is None else row['k']}" for row in rows}
        raise ConfigError.unknown("METRIC_NOT_MEASURED", "metric", metric, known, where)
    return found


def standing(row: Mapping[str, Any]) -> tuple[bool, float]:
    """Return the order of models by a value, the best first, one without a value last."""
    is_lower = list_direction(row["metric"]) is Direction.LOWER
    return row["value"] is None, (row["value"] or 0.0) * (1 if is_lower else -1)


def four_digits(value: float | None) -> str:
    """Return a value with four digits; a dash where there is none."""
    return "-" if value is None else f"{value:.4f}"


def smaller_k_first(line: Line) -> tuple[bool, int, str]:
    """Return the order of the lines: by k, no cutoff last, then by model."""
    model, k = line
    return (k is None, k or 0, model)
