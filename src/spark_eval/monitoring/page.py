"""The page of a history: one HTML file with a chart for each metric and segment, as SVG without script."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from importlib.resources import files
from itertools import groupby, pairwise
from typing import Final

import numpy as np
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from spark_eval.monitoring.rows import HistoryRow
from spark_eval.results.leaderboard import measure_of
from spark_eval.results.report.data import part_name
from spark_eval.results.report.page import hash_of
from spark_eval.results.sentences import interval_text, short, short_each
from spark_eval.schema import VERSION

# Okabe and Ito's colours without yellow, as in reports; models beyond them repeat the colours, dashed.
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7f7f7f")
DASHES: Final = ("none", "6 4", "2 3", "9 3 2 3")
# Size of a chart and of its margins.
WIDTH: Final = 900.0
HEIGHT: Final = 260.0
LEFT: Final = 100.0
RIGHT: Final = 12.0
TOP: Final = 14.0
BOTTOM: Final = 40.0
# End of the Content-Security-Policy.
NOTHING_ELSE: Final = "base-uri 'none'; form-action 'none'"
# Maximum number of labels on an axis of days, which of them a phone has room for, and of values at most.
MOST_DAYS: Final = 7
ON_PHONES: Final = 3
MOST_VALUES: Final = 6
# Steps between labels of values, times a power of ten.
STEPS: Final = (1, 2, 5, 10)


@dataclass(frozen=True)
class Part:
    """Days of a model that are joined by a line: no day without a run, and no break, lies between them."""

    model: str
    colour: str
    dash: str
    line: str
    band: str
    points: Markup


@dataclass(frozen=True)
class Chart:
    """Chart of a metric in a segment; rows of all models."""

    title: str
    rows: Sequence[HistoryRow]
    runs: Sequence[str]
    looks: Mapping[str, tuple[str, str]]

    @cached_property
    def ends(self) -> tuple[float, float]:
        """Lowest and highest value that the chart shows."""
        shown = [row for row in self.rows if row.value is not None]
        ends = [end for row in shown for end in (row.value, row.ci_low, row.ci_high) if end is not None]
        low, high = min(ends, default=0.0), max(ends, default=1.0)
        pad = 0.05 * (high - low) or 0.05 * abs(high) or 0.05
        return low - pad, high + pad

    @cached_property
    def days(self) -> tuple[date, int]:
        """First day of the chart, and the number of days up to the last one."""
        first, last = (date.fromisoformat(run_id) for run_id in (self.runs[0], self.runs[-1]))
        return first, (last - first).days

    @cached_property
    def places(self) -> dict[str, str]:
        """Horizontal positions of the runs, as text."""
        return {run_id: str(self.x(run_id)) for run_id in self.runs}

    def x(self, day: str) -> float:
        """Return the horizontal position of a day."""
        first, n_days = self.days
        at = (date.fromisoformat(day) - first).days / n_days if n_days else 0.5
        return round(LEFT + at * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        """Return the vertical position of a value."""
        return float(self.heights([value])[0])

    def heights(self, values: Sequence[float | None]) -> list[str]:
        """Return the vertical positions of values, as text."""
        low, high = self.ends
        shares = (np.array(values, dtype=np.float64) - low) / (high - low)
        return [f"{height:.1f}" for height in (HEIGHT - BOTTOM - shares * (HEIGHT - TOP - BOTTOM)).tolist()]

    @property
    def parts(self) -> Iterator[Part]:
        """Lines of all models, each divided at days without a run or value, and at breaks."""
        days = {run_id: date.fromisoformat(run_id).toordinal() for run_id in self.runs}
        for model, of_model in groupby(self.rows, key=lambda row: row.model):
            part: list[HistoryRow] = []
            for row in of_model:
                is_next = part and days[row.run_id] - days[part[-1].run_id] == 1
                if part and not (is_next and part[-1].series == row.series and row.value is not None):
                    yield self.part(model, part)
                    part = []
                if row.value is not None:
                    part.append(row)
            if part:
                yield self.part(model, part)

    def part(self, model: str, rows: Sequence[HistoryRow]) -> Part:
        """Return a line with its band and its points."""
        colour, dash = self.looks[model]
        at = list(zip(self.places_of(rows), self.heights([row.value for row in rows]), strict=True))
        inside = [row for row in rows if row.ci_low is not None and row.ci_high is not None]
        above, below = (
            list(
                zip(self.places_of(inside), self.heights([getattr(row, end) for row in inside]), strict=True)
            )
            for end in ("ci_high", "ci_low")
        )
        # A page may have a hundred thousand points: their texts hold nothing to escape but the model's name.
        points = "\n".join(
            f'<circle cx="{x}" cy="{y}" r="2" fill="{colour}"><title>{text}</title></circle>'
            for (x, y), text in zip(at, point_texts(rows, escape(model)), strict=True)
        )
        band = " ".join(map(",".join, (*above, *reversed(below))))
        return Part(model, colour, dash, " ".join(map(",".join, at)), band, Markup(points))

    def places_of(self, rows: Sequence[HistoryRow]) -> list[str]:
        """Return the horizontal positions of rows, as text."""
        return [self.places[row.run_id] for row in rows]

    @property
    def breaks(self) -> dict[float, str]:
        """Positions of breaks, each with the name of what changed."""
        return {
            self.x(row.run_id): f"{row.run_id}: {row.changed} changed" for row in self.rows if row.changed
        }

    @property
    def marks(self) -> list[tuple[float, float, str]]:
        """Positions of failed gates and alarms, with their texts."""
        found = []
        for row in self.rows:
            texts = [f"{row.failed_gates} failed gates"] if row.failed_gates else []
            texts += [f"alarm: {row.alarm}"] if row.alarm is not None else []
            if texts:
                y = TOP if row.value is None else self.y(row.value)
                found.append((self.x(row.run_id), y, f"{row.run_id} {row.model}: {', '.join(texts)}"))
        return found

    @property
    def day_labels(self) -> list[tuple[float, str, str, bool]]:
        """Positions, names and anchors of the newest day and of some before it, and which stay on a phone."""
        first, n_days = self.days
        step = max(1, -(-(n_days + 1) // MOST_DAYS))
        labels = []
        for at, n_back in enumerate(range(0, n_days + 1, step)):
            day = (first + timedelta(days=n_days - n_back)).isoformat()
            anchor = "middle" if n_back or not n_days else "end"
            labels.append((self.x(day), day, anchor, at % ON_PHONES == 0))
        return labels

    @property
    def value_labels(self) -> list[tuple[float, str]]:
        """Positions and texts of round values."""
        values, decimals = round_values(*self.ends)
        return [(self.y(value), short(value, decimals)) for value in values]

    @property
    def cut(self) -> str:
        """Sentence on a vertical axis without 0; empty if 0 is in sight."""
        low, high = self.ends
        return "" if low <= 0 <= high else f"The vertical axis begins at {short(low)}, not at 0."

    @property
    def latest(self) -> list[list[str]]:
        """Cells of a line per model: its newest value, and its differences."""
        newest = {row.model: row for row in self.rows}
        return [
            [
                *(row.model, row.run_id, short(row.value), interval_text(row.ci_low, row.ci_high)),
                changed(row.difference, row.difference_low, row.difference_high),
                changed(row.week_difference, row.week_low, row.week_high),
                "-" if row.n_users is None else f"{row.n_users:,}",
            ]
            for row in newest.values()
        ]


def round_values(low: float, high: float) -> tuple[list[float], int]:
    """Return at most MOST_VALUES round values between two ends, and the decimals that they need.

    >>> round_values(0.432, 0.519)
    ([0.44, 0.46, 0.48, 0.5], 2)
    >>> round_values(0.0, 1200.0)
    ([0.0, 500.0, 1000.0], 0)
    """
    least = (high - low) / (MOST_VALUES - 1)
    power = math.floor(math.log10(least))
    unit = next(step for step in STEPS if step * 10.0**power >= least)
    power, unit = (power + 1, 1) if unit == 10 else (power, unit)
    decimals = max(0, -power)
    step = unit * 10.0**power
    numbers = range(math.ceil(low / step), math.floor(high / step) + 1)
    return [round(number * step, decimals) for number in numbers], decimals


def point_texts(rows: Sequence[HistoryRow], model: str) -> list[str]:
    """Return the texts of points: day, model, value and interval."""
    values, lows, highs = (
        short_each([getattr(row, name) for row in rows]) for name in ("value", "ci_low", "ci_high")
    )
    intervals = ["-" if low == "-" else f"{low} to {high}" for low, high in zip(lows, highs, strict=True)]
    points = zip(rows, values, intervals, strict=True)
    return [f"{row.run_id} {model}: {value} ({interval})" for row, value, interval in points]


def changed(difference: float | None, low: float | None, high: float | None) -> str:
    """Return a difference with its interval: ``-.0120 (-.0200 to -.0040)``."""
    if difference is None:
        return "-"
    return short(difference) if low is None else f"{short(difference)} ({interval_text(low, high)})"


def missing_days(runs: Sequence[str]) -> int:
    """Return the number of days between the first and the last run that have none."""
    days = [date.fromisoformat(run_id) for run_id in runs]
    return sum((later - earlier).days - 1 for earlier, later in pairwise(days))


def history_page(rows: Sequence[HistoryRow], runs: Sequence[str], damaged: Mapping[str, str]) -> str:
    """Return the page of a history; the same rows give the same bytes."""
    models = sorted({row.model for row in rows})
    looks = {
        model: (COLOURS[at % len(COLOURS)], DASHES[at // len(COLOURS) % len(DASHES)])
        for at, model in enumerate(models)
    }
    charts = [
        Chart(title_of(*key), list(of_chart), runs, looks)
        for key, of_chart in groupby(
            rows, key=lambda row: (row.metric, row.k, row.segment, row.segment_value)
        )
    ]
    style = asset("history.css")
    page = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return page.from_string(asset("history.html.j2")).render(
        charts=charts,
        looks=looks,
        runs=runs,
        n_missing=missing_days(runs),
        damaged=damaged,
        style=Markup(style),
        policy=f"default-src 'none'; style-src {hash_of(style)}; img-src data:; {NOTHING_ELSE}",
        size={"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": RIGHT, "top": TOP, "bottom": BOTTOM},
        version=VERSION,
    )


def title_of(metric: str, k: int | None, segment: str, segment_value: str) -> str:
    """Return the title of a chart: metric and cutoff, and the segment if it has one."""
    part, measure = part_name(segment, segment_value), measure_of({"metric": metric, "k": k})
    return measure if part == segment else f"{measure}: {part}"


def asset(name: str) -> str:
    """Return the text of an asset of this package."""
    return files("spark_eval.monitoring").joinpath("assets", name).read_text(encoding="utf-8")
