"""What is known of a run: its commit records, its small tables, and how users spread over values."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from sys import intern
from typing import Any, Final

from spark_eval.comparing.leaderboard import (
    cutoff_text,
    list_direction,
    marks_of,
    measure_of,
    order_by_value,
    rows_of_metric,
)
from spark_eval.comparing.sentences import Row
from spark_eval.errors import ConfigError
from spark_eval.metrics.registry import RANKING, Kind, RankingMetric
from spark_eval.metrics.values import UNCUT, ranking_names, split_metric_text
from spark_eval.pointwise import POINTWISE
from spark_eval.reporting.chapters import Dataset
from spark_eval.reporting.spread import UserCount
from spark_eval.schema import ALL, MODEL, SEGMENT, SEGMENT_VALUE, Direction, Table

# The place of a model without a value among the others.
LAST: Final = (True, True, 0.0)
# Tables that are small, whatever was measured.
SMALL: Final = (
    *(Table.METRICS, Table.COMPARISONS, Table.GATES, Table.CURVES, Table.THRESHOLDS),
    *(Table.ACCOUNTING, Table.SUBSETS, Table.LEAKAGE, Table.STAGES, Table.FUNNEL),
)
# What is asked first of a run: the first of these that was measured, else of its metrics the first that says
# which values are better.
PREFERRED: Final = ("ndcg", "map")
PRIMARY: Final = "report.primary"
# The columns of ``metrics`` that pages show.
MEASURED: Final = (
    *(MODEL, "metric", "k", SEGMENT, SEGMENT_VALUE),
    *("value", "std_error", "ci_low", "ci_high", "n_undefined"),
)
# Means that come beside one that was asked for.
EXTRA: Final = {name for one in RANKING.values() for name in one.extra_names}
# Names of metrics that have a value for each group of items; their segment is no part of the users.
OF_GROUPS: Final = {name for one in RANKING.values() if one.kind is Kind.GROUPS for name in one.names}


@dataclass(frozen=True)
class RunFacts:
    """What a report is made of.

    ``records`` are what the commit record says of each verb. ``tables`` hold the rows of those of SMALL that
    are published. ``count_users`` returns how many users of each model have which value of these metrics
    (``ndcg@10``); it is called where that is drawn. ``asked_primary`` is the metric that the page is to begin
    with, if somebody said so.
    """

    run_id: str
    records: Mapping[str, Mapping[str, Any]]
    tables: Mapping[Table, Sequence[Row]]
    count_users: Callable[[Collection[str]], Sequence[UserCount]] | None = None
    baseline: "RunFacts | None" = None
    asked_primary: str | None = None

    def rows(self, table: Table) -> Sequence[Row]:
        """Return the rows of a table; none where it is not published."""
        return self.tables.get(table, ())

    @cached_property
    def users(self) -> Sequence[UserCount]:
        """How many users of each model have which value of the metrics that were measured."""
        if self.count_users is None:
            return ()
        return self.count_users({measure_of(row) for row in self.rows(Table.METRICS)})

    def of_metrics(self, metrics: Sequence[str], where: str) -> "RunFacts":
        """Return the facts on these metrics alone; raise ConfigError METRIC_NOT_MEASURED."""
        kept = {
            table: [row for metric in metrics for row in self.rows_of(table, metric, where)]
            for table in (Table.METRICS, Table.COMPARISONS)
            if self.rows(table)
        }
        if not kept:
            raise ConfigError(
                "METRIC_NOT_MEASURED", f"{where}: nothing is measured here; leave the metric out"
            )
        return replace(self, tables={**self.tables, **kept})

    def rows_of(self, table: Table, metric: str, where: str) -> Sequence[Row]:
        """Return the rows of a table on a metric; those of predictions go by their names as they stand."""
        if not self.is_scored:
            return rows_of_metric(self.rows(table), metric, where)
        if found := [row for row in self.rows(table) if row["metric"] == metric]:
            return found
        known = {str(row["metric"]) for row in self.rows(table)}
        raise ConfigError.unknown("METRIC_NOT_MEASURED", "metric", metric, known, where)

    @property
    def is_scored(self) -> bool:
        """Whether predictions were measured, not lists."""
        return any(row.get("n_rows") is not None for row in self.rows(Table.METRICS)[:1])

    @cached_property
    def is_shown(self) -> Callable[[str], bool]:
        """Whether a metric of ``metrics`` was asked for; others come beside one that was.

        Weighted means, such as ``novelty_micro``, are shown where a gate or the primary metric is of them:
        commit records have no other name for them than that of their metric.
        """
        asked = {self.asked_primary or "", *(str(row["metric"]) for row in self.rows(Table.GATES))}
        named = {text.partition("(")[0].partition("@")[0] for text in asked}
        return cache(lambda metric: (name := metric.partition("(")[0]) not in EXTRA or name in named)

    @cached_property
    def measured(self) -> list[dict[str, Any]]:
        """The rows of ``metrics`` on users, with a name for metric and cutoff, their part, and a mark.

        Where models have values for different users, none has a mark.
        """
        rows = [row for row in self.of_users if self.is_shown(row["metric"])]
        marks = marks_of(of_one_population(row for row in rows if row[SEGMENT] == ALL), self.direction)
        is_scored, measure, direction = self.is_scored, cache(self.measure_at), cache(self.direction)
        cutoff, part, model = cache(cutoff_text), cache(part_name), cache(str)
        return [
            {
                **{name: row[name] for name in MEASURED},
                MODEL: model(row[MODEL] or ""),
                "measure": measure(row["metric"], row["k"]),
                "k": cutoff(row["k"]),
                "part": part(row[SEGMENT], row[SEGMENT_VALUE]),
                "better": direction(row["metric"]).value,
                "n": row["n_rows"] if is_scored else row["n_users"],
                "mark": marks.get((row["metric"], (row[MODEL], row["k"])), "") if row[SEGMENT] == ALL else "",
            }
            for row in rows
        ]

    @property
    def of_users(self) -> list[Row]:
        """The rows of ``metrics`` that are on users, or on rows of predictions."""
        return [row for row in self.rows(Table.METRICS) if not is_of_group(row)]

    def measure(self, row: Row) -> str:
        """Return what a row of ``metrics`` is a value of; metrics of predictions have no cutoff."""
        return self.measure_at(row["metric"], row["k"])

    def measure_at(self, metric: str, k: int | None) -> str:
        """Return a metric with its cutoff; metrics of predictions have none."""
        return metric if self.is_scored else measure_of({"metric": metric, "k": k})

    @property
    def of_groups(self) -> list[Row]:
        """The rows of ``metrics`` on groups of items."""
        return [row for row in self.rows(Table.METRICS) if is_of_group(row)]

    def direction(self, metric: str) -> Direction:
        """Return which values of a metric are the better ones."""
        if not self.is_scored:
            return list_direction(metric)
        name = split_metric_text(metric)["name"]
        return POINTWISE[name].direction if name in POINTWISE else Direction.NONE

    @cached_property
    def metrics(self) -> Dataset:
        """The rows of ``metrics``, as many views show them."""
        columns = (
            *(MODEL, "metric", "k", "measure", SEGMENT, SEGMENT_VALUE, "part", "value"),
            *("ci_low", "ci_high", "n", "n_undefined", "mark", "better"),
        )
        counted = "rows" if self.is_scored else "users"
        headings = {"n": counted, "n_undefined": "users without a value", "ci_low": "from", "ci_high": "to"}
        return Dataset.of(Table.METRICS, self.measured, columns, headings)

    @cached_property
    def definitions(self) -> dict[str, str]:
        """What each metric that is shown is, in a sentence, and which values are better."""
        names = dict.fromkeys(row["metric"] for row in (self.measured or self.rows(Table.COMPARISONS)))
        found = {name: self.definition(str(name)) for name in names}
        return {name: text for name, text in found.items() if text}

    def definition(self, metric: str) -> str:
        """Return what a metric is and which values are better; nothing of one that is not known."""
        known = POINTWISE.get(metric.partition("(")[0]) if self.is_scored else metric_called(metric)
        if known is None:
            return ""
        better = {Direction.HIGHER: " Higher is better.", Direction.LOWER: " Lower is better."}
        return known.summary.replace("``", "") + better.get(self.direction(metric), "")

    @cached_property
    def everybody(self) -> list[dict[str, Any]]:
        """What is measured of all users, or of all rows of predictions."""
        return [row for row in self.measured if row[SEGMENT] == ALL]

    @cached_property
    def primary(self) -> str | None:
        """The measure that the page begins with, and that orders models; None where nothing is measured.

        It is the one that was asked for, else that of ``preferred_metric``, at its largest k: one without a
        cutoff comes last.

        Raises:
            ConfigError: METRIC_NOT_MEASURED for one that was asked for and is not among those measured.
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
        """All models, the best by the primary metric first; of other users than most of them, last."""
        if not self.everybody:
            return sorted({str(row[name]) for row in self.rows(Table.COMPARISONS) for name in PAIR})
        firsts = [row for row in self.everybody if row["measure"] == self.primary]
        most = max((row["n"] or 0 for row in firsts), default=0)
        places = {
            row[MODEL]: ((row["n"] or 0) < most, *order_by_value(row, self.direction)) for row in firsts
        }
        names = {row[MODEL] for row in self.measured}
        return sorted(names, key=lambda name: (*places.get(name, LAST), name))


PAIR: Final = ("candidate", "baseline")


def share_texts(rows: Iterable[dict[str, Any]]) -> None:
    """Let equal texts of rows be one object: 300,000 rows of ``metrics`` have few."""
    for row in rows:
        row.update((name, intern(value)) for name, value in row.items() if type(value) is str)


def metric_of(row: Row) -> RankingMetric | None:
    """Return the metric of lists whose mean or value a row is; None of predictions."""
    return metric_called(str(row["metric"]))


@cache
def metric_called(name: str) -> RankingMetric | None:
    """Return the metric of lists of a published name, with its options."""
    return ranking_names().get(name.partition("(")[0])


def is_of_group(row: Row) -> bool:
    """Return whether a row is of a group of items, not of users."""
    return str(row["metric"]).partition("(")[0] in OF_GROUPS


def preferred_metric(rows: Iterable[Row], direction: Callable[[str], Direction]) -> str | None:
    """Return nDCG, else MAP, else the first metric of hits alone, else the first that has a direction."""
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
    """Return whether a metric judges lists by where the relevant items are, the higher the better."""
    return metric.kind is Kind.HITS and not metric.knows_items and metric.direction is Direction.HIGHER


def of_one_population(rows: Iterable[Row]) -> list[Row]:
    """Return the rows of metrics and cutoffs for which all models have a value for as many users."""
    groups: dict[tuple[str, int | None], list[Row]] = {}
    for row in rows:
        if row["value"] is not None:
            groups.setdefault((row["metric"], row["k"]), []).append(row)
    return [row for group in groups.values() if len({one["n_users"] for one in group}) == 1 for row in group]


def as_number(cutoff: str) -> float:
    """Return the place of a cutoff; none comes last."""
    return math.inf if cutoff == UNCUT else float(cutoff)


def part_of(row: Row) -> str:
    """Return whose users a row is of: ``all``, or ``country: DE``."""
    return part_name(row[SEGMENT], row[SEGMENT_VALUE])


def part_name(segment: str, value: str) -> str:
    """Return a segment with its value: ``country: DE``; ``all`` of everybody."""
    return ALL if segment == ALL else f"{segment}: {value}"
