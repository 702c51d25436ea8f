"""What is known of a run: its commit records, its small tables, and how users spread over values."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from spark_eval.comparing.leaderboard import (
    cutoff_text,
    list_direction,
    marks_of,
    measure_of,
    rows_of_metric,
    standing,
)
from spark_eval.comparing.sentences import Row
from spark_eval.errors import ConfigError
from spark_eval.metrics.registry import RANKING, Kind, RankingMetric
from spark_eval.metrics.values import UNCUT, formed, ranking_names
from spark_eval.pointwise import POINTWISE
from spark_eval.reporting.chapters import Dataset
from spark_eval.reporting.spread import UserCount
from spark_eval.schema import ALL, MODEL, SEGMENT, SEGMENT_VALUE, Direction, Table

# The place of a model without a value among the others.
LAST: Final = (True, 0.0)
# Tables that are small, whatever was measured.
SMALL: Final = (
    *(Table.METRICS, Table.COMPARISONS, Table.GATES, Table.CURVES, Table.THRESHOLDS),
    *(Table.ACCOUNTING, Table.SUBSETS, Table.LEAKAGE, Table.STAGES, Table.FUNNEL),
)
# Names of metrics that have a value for each group of items; their segment is no part of the users.
OF_GROUPS: Final = {name for one in RANKING.values() if one.kind is Kind.GROUPS for name in one.names}


@dataclass(frozen=True)
class RunFacts:
    """What a report is made of.

    ``records`` are what the commit record says of each verb. ``tables`` hold the rows of those of SMALL that
    are published. ``count_users`` returns how many users of each model have which value of these metrics
    (``ndcg@10``); it is called where that is drawn.
    """

    run_id: str
    records: Mapping[str, Mapping[str, Any]]
    tables: Mapping[Table, Sequence[Row]]
    count_users: Callable[[Collection[str]], Sequence[UserCount]] | None = None
    baseline: "RunFacts | None" = None

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
    def measured(self) -> list[dict[str, Any]]:
        """The rows of ``metrics`` on users, with a name for metric and cutoff, their part, and a mark."""
        rows = [row for row in self.rows(Table.METRICS) if not is_of_group(row)]
        marks = marks_of(rows, self.direction)
        return [
            {
                **row,
                MODEL: row[MODEL] or "",
                "measure": self.measure(row),
                "k": cutoff_text(row["k"]),
                "part": part_of(row),
                "better": str(self.direction(row["metric"])),
                "n": row.get("n_rows") if self.is_scored else row["n_users"],
                "mark": marks.get((row["metric"], (row[MODEL], row["k"])), "") if row[SEGMENT] == ALL else "",
            }
            for row in rows
        ]

    def measure(self, row: Row) -> str:
        """Return what a row of ``metrics`` is a value of; metrics of predictions have no cutoff."""
        return str(row["metric"]) if self.is_scored else measure_of(row)

    @property
    def of_groups(self) -> list[Row]:
        """The rows of ``metrics`` on groups of items."""
        return [row for row in self.rows(Table.METRICS) if is_of_group(row)]

    def direction(self, metric: str) -> Direction:
        """Return which values of a metric are the better ones."""
        if not self.is_scored:
            return list_direction(metric)
        name = formed(metric)["name"]
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
    def everybody(self) -> list[dict[str, Any]]:
        """What is measured of all users, or of all rows of predictions."""
        return [row for row in self.measured if row[SEGMENT] == ALL]

    @cached_property
    def headline(self) -> Row | None:
        """The row of everybody's mean by which models are ordered: of the first metric at its largest k."""
        firsts = [row for row in self.everybody if row["metric"] == self.everybody[0]["metric"]]
        return max(firsts, key=lambda row: 0 if row["k"] == UNCUT else int(row["k"]), default=None)

    @cached_property
    def models(self) -> list[str]:
        """All models, the best by the headline's metric first."""
        first = self.headline
        if first is None:
            return sorted({str(row[name]) for row in self.rows(Table.COMPARISONS) for name in PAIR})
        places = {
            row[MODEL]: standing(row, self.direction)
            for row in self.everybody
            if row["measure"] == first["measure"]
        }
        names = {row[MODEL] for row in self.measured}
        return sorted(names, key=lambda name: (*places.get(name, LAST), name))


PAIR: Final = ("candidate", "baseline")


def metric_of(row: Row) -> RankingMetric | None:
    """Return the metric of lists whose mean or value a row is; None of predictions."""
    return ranking_names().get(str(row["metric"]).partition("(")[0])


def is_of_group(row: Row) -> bool:
    """Return whether a row is of a group of items, not of users."""
    return str(row["metric"]).partition("(")[0] in OF_GROUPS


def as_number(cutoff: str) -> float:
    """Return the place of a cutoff; none comes last."""
    return math.inf if cutoff == UNCUT else float(cutoff)


def part_of(row: Row) -> str:
    """Return whose users a row is of: ``all``, or ``country: DE``."""
    return ALL if row[SEGMENT] == ALL else f"{row[SEGMENT]}: {row[SEGMENT_VALUE]}"
