"""Data of a report: commit records and small tables of a run, and the distribution of its users."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from sys import intern
from typing import Any, Final, Protocol

from spark_eval.conventions.choice import Need
from spark_eval.conventions.comparison import PairTest
from spark_eval.errors import ConfigError
from spark_eval.kernels.registry import RANKING, RankingMetric
from spark_eval.kernels.values import UNCUT, ranking_names, split_metric_text
from spark_eval.results.leaderboard import (
    BEST,
    CLOSE,
    Line,
    cutoff_text,
    is_list_metric,
    list_direction,
    marks_of,
    measure_of,
    order_by_value,
    rows_of_metric,
)
from spark_eval.results.report.chapters import Dataset
from spark_eval.results.report.spread import UserCount
from spark_eval.results.sentences import is_lost
from spark_eval.schema import ALL, MODEL, SEGMENT, SEGMENT_VALUE, Direction, Row, Table

# Sort key of a model without a value.
LAST: Final = (True, True, 0.0)
# Metrics preferred as the primary one, in this order; ``preferred_metric`` has the fallbacks.
PREFERRED: Final = ("ndcg", "map")
PRIMARY: Final = "report.primary"
# Columns of ``metrics`` that pages show.
MEASURED: Final = (
    *(MODEL, "metric", "k", SEGMENT, SEGMENT_VALUE),
    *("value", "std_error", "ci_low", "ci_high", "n_undefined"),
)
# Additional means that are published with a requested metric.
EXTRA: Final = {name for one in RANKING.values() for name in one.extra_names}
# Metrics with a value per item group; their segment is a group of items, not of users.
OF_GROUPS: Final = {name for one in RANKING.values() if Need.GROUP_WEIGHTS in one.needs for name in one.names}


class MetricText(Protocol):
    """Direction and one-line meaning of a metric."""

    @property
    def direction(self) -> Direction:
        """Direction of better values."""

    @property
    def summary(self) -> str:
        """One-line meaning."""


@dataclass(frozen=True)
class RunFacts:
    """Input of a report.

    ``records`` has the commit record of each verb. ``tables`` has the rows of the small published
    tables. ``count_users`` counts the users of each model by value of the given metrics (``ndcg@10``). It is
    called only if a chart needs the counts. ``asked_primary`` is the primary metric; None if not requested.
    ``prediction_metrics`` are the texts of the metrics of predictions, by name.
    """

    run_id: str
    records: Mapping[str, Row]
    tables: Mapping[str, Sequence[Row]]
    count_users: Callable[[Collection[str]], Sequence[UserCount]] | None = None
    baseline: "RunFacts | None" = None
    asked_primary: str | None = None
    prediction_metrics: Mapping[str, MetricText] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Replace numbers that are not finite by null: no page can show them."""
        finite = {name: [without_infinities(row) for row in rows] for name, rows in self.tables.items()}
        object.__setattr__(self, "tables", finite)

    def rows(self, table: str) -> Sequence[Row]:
        """Return the rows of a table; empty if the table is not published."""
        return self.tables.get(table, ())

    @cached_property
    def users(self) -> Sequence[UserCount]:
        """Numbers of users of each model, by value of the measured metrics."""
        if self.count_users is None:
            return ()
        return self.count_users({measure_of(row) for row in self.rows(Table.METRICS)})

    def of_metrics(self, metrics: Sequence[str], where: str) -> "RunFacts":
        """Return the facts on these metrics alone; raise ConfigError METRIC_NOT_MEASURED."""
        given: dict[str, Sequence[Row]] = {
            table: [row for metric in metrics for row in self.rows_of(table, metric, where)]
            for table in (Table.METRICS, Table.COMPARISONS)
            if self.rows(table)
        }
        if not given:
            raise ConfigError(
                "METRIC_NOT_MEASURED", f"{where}: nothing is measured here; leave the metric out"
            )
        return replace(self, tables={**self.tables, **given})

    def rows_of(self, table: str, metric: str, where: str) -> Sequence[Row]:
        """Return the rows of a table on one metric; raise ConfigError METRIC_NOT_MEASURED if there are none.

        Metrics of predictions match by their exact name.
        """
        if not self.has_predictions:
            return rows_of_metric(self.rows(table), metric, where)
        if found := [row for row in self.rows(table) if row["metric"] == metric]:
            return found
        known = {str(row["metric"]) for row in self.rows(table)}
        raise ConfigError.unknown("METRIC_NOT_MEASURED", "metric", metric, known, where)

    @property
    def has_predictions(self) -> bool:
        """True if the run measured predictions, False if lists."""
        return any(row.get("n_rows") is not None for row in self.rows(Table.METRICS)[:1])

    @property
    def by_request(self) -> bool:
        """True if the run measured lists by request."""
        return any(row.get("n_requests") is not None for row in self.rows(Table.METRICS))

    @cached_property
    def is_shown(self) -> Callable[[str], bool]:
        """Predicate on names of metrics: True if the metric was requested.

        Some metrics add weighted means, such as ``novelty_micro``. These are shown only if a gate or the
        primary metric names them. Commit records cannot tell: they have the name of the metric alone.
        """
        asked = {self.asked_primary or "", *(str(row["metric"]) for row in self.rows(Table.GATES))}
        named = {text.partition("(")[0].partition("@")[0] for text in asked}
        return cache(lambda metric: (name := metric.partition("(")[0]) not in EXTRA or name in named)

    @cached_property
    def measured(self) -> list[dict[str, Any]]:
        """Rows of ``metrics`` on users, with the metric at its cutoff, segment label, direction and mark.

        There are no marks if models have values for different users.
        """
        rows = [row for row in self.of_users if self.is_shown(row["metric"])]
        marks = self.marks_as_compared(marks_of(rows, self.direction))
        has_predictions, measure, direction = (
            self.has_predictions,
            cache(self.measure_at),
            cache(self.direction),
        )
        cutoff, part, model = cache(cutoff_text), cache(part_name), cache(str)
        return [
            {
                **{name: row[name] for name in MEASURED},
                MODEL: model(row[MODEL] or ""),
                "measure": measure(row["metric"], row["k"]),
                "k": cutoff(row["k"]),
                "part": part(row[SEGMENT], row[SEGMENT_VALUE]),
                "better": direction(row["metric"]).value,
                "n": row["n_rows"] if has_predictions else row["n_users"],
                "mark": marks.get((row["metric"], (row[MODEL], row["k"])), "") if row[SEGMENT] == ALL else "",
            }
            for row in rows
        ]

    def marks_as_compared(self, marks: Mapping[tuple[str, Line], str]) -> dict[tuple[str, Line], str]:
        """Return the marks; published comparisons with the best model decide instead, if there are any.

        A model is close unless the comparison says that it is certainly worse. The first test of a pair
        counts.
        """
        best = {(metric, line[1]): line[0] for (metric, line), mark in marks.items() if mark == BEST}
        chosen, pairs = dict(marks), set[tuple[Any, ...]]()
        for row in self.rows(Table.COMPARISONS):
            first = best.get((row["metric"], row["k"]))
            names = (row["candidate"], row["baseline"])
            key = (row["metric"], row["k"], *names)
            is_other = row[SEGMENT] != ALL or row["baseline_run"] is not None or first not in names
            if is_other or key in pairs or row["test"] not in set(PairTest):
                continue
            pairs.add(key)
            rival = names[names[0] == first]
            worse = (lambda metric: TURNED[self.direction(metric)]) if rival == names[1] else self.direction
            cell = (row["metric"], (rival, row["k"]))
            if chosen.get(cell) != BEST:
                chosen.pop(cell, None)
                chosen |= {} if is_lost(row, worse) else {cell: CLOSE}
        return chosen

    @property
    def of_users(self) -> list[Row]:
        """Rows of ``metrics`` on users or on rows of predictions."""
        return [row for row in self.rows(Table.METRICS) if not is_of_group(row)]

    def measure(self, row: Row) -> str:
        """Return the metric and cutoff of a row of ``metrics``; metrics of predictions have no cutoff."""
        return self.measure_at(row["metric"], row["k"])

    def measure_at(self, metric: str, k: int | None) -> str:
        """Return a metric with its cutoff; metrics of predictions have none."""
        return metric if self.has_predictions else measure_of({"metric": metric, "k": k})

    @property
    def of_groups(self) -> list[Row]:
        """Rows of ``metrics`` on groups of items."""
        return [row for row in self.rows(Table.METRICS) if is_of_group(row)]

    def is_of_predictions(self, metric: str) -> bool:
        """Return True for a metric of predictions."""
        return self.has_predictions or not is_list_metric(metric)

    def direction(self, metric: str) -> Direction:
        """Return the direction of a metric: higher, lower or none."""
        if not self.is_of_predictions(metric):
            return list_direction(metric)
        known = self.prediction_metrics.get(split_metric_text(metric)["name"])
        return Direction.NONE if known is None else known.direction

    @cached_property
    def metrics(self) -> Dataset:
        """Rows of ``metrics`` as a dataset that many views share."""
        columns = (
            *(MODEL, "metric", "k", "measure", SEGMENT, SEGMENT_VALUE, "part", "value"),
            *("ci_low", "ci_high", "n", "n_undefined", "mark", "better"),
        )
        counted = "rows" if self.has_predictions else "users"
        undefined = "requests without a value" if self.by_request else "users without a value"
        headings = {"n": counted, "n_undefined": undefined, "ci_low": "from", "ci_high": "to"}
        return Dataset.of(Table.METRICS, self.measured, columns, headings)

    @cached_property
    def definitions(self) -> dict[str, str]:
        """Meaning and direction of each shown metric, by name."""
        names = dict.fromkeys(row["metric"] for row in (self.measured or self.rows(Table.COMPARISONS)))
        found = {name: self.definition(str(name)) for name in names}
        return {name: text for name, text in found.items() if text}

    def definition(self, metric: str) -> str:
        """Return the meaning and direction of a metric; empty if the metric is unknown."""
        of_predictions = self.prediction_metrics.get(metric.partition("(")[0])
        known = of_predictions if self.is_of_predictions(metric) else metric_called(metric)
        if known is None:
            return ""
        better = {Direction.HIGHER: " Higher is better.", Direction.LOWER: " Lower is better."}
        return known.summary.replace("``", "") + better.get(self.direction(metric), "")

    @cached_property
    def everybody(self) -> list[dict[str, Any]]:
        """Measured rows over all users, or over all rows of predictions."""
        return [row for row in self.measured if row[SEGMENT] == ALL]

    @cached_property
    def primary(self) -> str | None:
        """Metric that the page begins with and that orders models; None if nothing is measured.

        It is the requested metric, else that of ``preferred_metric``, at its largest k. No cutoff counts as
        the smallest k.

        Raises:
            ConfigError: METRIC_NOT_MEASURED if the requested metric was not measured.
        """
        table = Table.METRICS if self.rows(Table.METRICS) else Table.COMPARISONS
        rows = [row for row in self.rows(table) if row[SEGMENT] == ALL and not is_of_group(row)]
        if self.asked_primary is not None and rows:
            rows = list(replace(self, tables={table: rows}).rows_of(table, self.asked_primary, PRIMARY))
        shown = [row for row in rows if self.asked_primary is not None or self.is_shown(row["metric"])]
        metric = preferred_metric(shown, self.direction)
        firsts = [row for row in shown if row["metric"] == metric]
        best = max(firsts, key=lambda row: row["k"] or 0, default=None)
        return None if best is None else self.measure(best)

    @cached_property
    def models(self) -> list[str]:
        """Names of all models, the best by the primary metric first.

        Models with values for fewer users than others come last.
        """
        if not self.everybody:
            return sorted({str(row[name]) for row in self.rows(Table.COMPARISONS) for name in PAIR})
        firsts = [row for row in self.everybody if row["measure"] == self.primary]
        most = max((row["n"] or 0 for row in firsts), default=0)
        places = {
            row[MODEL]: ((row["n"] or 0) < most, *order_by_value(row, self.direction)) for row in firsts
        }
        names = {row[MODEL] for row in self.measured}
        return sorted(names, key=lambda name: (*places.get(name, LAST), name))


TURNED: Final = {
    Direction.HIGHER: Direction.LOWER,
    Direction.LOWER: Direction.HIGHER,
    Direction.NONE: Direction.NONE,
}
PAIR: Final = ("candidate", "baseline")


def without_infinities(row: Row) -> Row:
    """Return the row, with null for doubles that are not finite."""
    odd = [name for name, value in row.items() if isinstance(value, float) and not math.isfinite(value)]
    return {**row, **dict.fromkeys(odd)} if odd else row


def share_texts(rows: Iterable[dict[str, Any]]) -> None:
    """Intern the texts of rows in place: 300,000 rows of ``metrics`` have few distinct texts."""
    for row in rows:
        row.update((name, intern(value)) for name, value in row.items() if type(value) is str)


def metric_of(row: Row) -> RankingMetric | None:
    """Return the list metric of a row of ``metrics``; None for metrics of predictions."""
    return metric_called(str(row["metric"]))


@cache
def metric_called(name: str) -> RankingMetric | None:
    """Return the list metric of a published name, ignoring its options; None if unknown."""
    return ranking_names().get(name.partition("(")[0])


def is_of_group(row: Row) -> bool:
    """Return True if a row is on a group of items, not on users."""
    return str(row["metric"]).partition("(")[0] in OF_GROUPS


def preferred_metric(rows: Iterable[Row], direction: Callable[[str], Direction]) -> str | None:
    """Return the default primary metric; None if no metric has a direction.

    It is nDCG, else MAP, else the first metric that uses hits alone, else the first that has a direction.
    """
    found: dict[str, str] = {}
    others: list[str] = []
    for name in dict.fromkeys(row["metric"] for row in rows):
        metric = metric_called(name)
        if direction(name) is Direction.NONE:
            continue
        others.append(name)
        if metric is not None and is_of_hits(metric):
            found.setdefault(metric.run_name, name)
    return next(iter([*(found[name] for name in (*PREFERRED, *found) if name in found), *others]), None)


def is_of_hits(metric: RankingMetric) -> bool:
    """Return True if a metric uses the ranks of hits alone and higher values are better."""
    return metric.is_of_hits and metric.direction is Direction.HIGHER


def as_number(cutoff: str) -> float:
    """Return the sort key of a cutoff; no cutoff comes last."""
    return math.inf if cutoff == UNCUT else float(cutoff)


def part_of(row: Row) -> str:
    """Return the segment label of a row: ``all``, or ``country: DE``."""
    return part_name(row[SEGMENT], row[SEGMENT_VALUE])


def part_name(segment: str, value: str) -> str:
    """Return the label of a segment with its value: ``country: DE``; ``all`` for all users."""
    return ALL if segment == ALL else f"{segment}: {value}"
