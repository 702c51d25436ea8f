"""Result of an evaluation, independent of how it is computed."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from spark_eval.accounting import ACCOUNTING, Entry, unmatched_lists, unusable
from spark_eval.arrow.user_files import open_dataset
from spark_eval.errors import ConfigError
from spark_eval.evaluation.plan import Plan
from spark_eval.evaluation.repeats import repeat_metric_rows
from spark_eval.evaluation.stages.rows import FUNNEL, STAGE_TABLE, StageSums
from spark_eval.evaluation.summary import (
    METRICS,
    SUMS,
    MeanKey,
    MetricRow,
    SumRow,
    in_requested_order,
    metric_rows,
)
from spark_eval.names import models_shown, quote_column
from spark_eval.results.driver_tables import SmallRows, is_of_spark, to_arrow
from spark_eval.results.exported import SmallFrame
from spark_eval.results.leaderboard import Leaderboard
from spark_eval.results.report.data import RunFacts
from spark_eval.results.report.spread import (
    N_BINS,
    UserCount,
    spread_of,
    spread_of_table,
    spread_values,
    upper_bound,
    user_counts,
)
from spark_eval.results.rows import fold_rows
from spark_eval.results.sentences import (
    FEW,
    FEW_EXPLAINED,
    few_marked,
    meanings_of_segments,
    number_order,
)
from spark_eval.results.shown import TextTable, Writable
from spark_eval.runners.local_rows import LocalTable
from spark_eval.runners.rows import SparkRows
from spark_eval.runners.user_buckets import UserTable
from spark_eval.schema import ALL, MODEL, Table
from spark_eval.statistics.intervals import LowHigh

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, repr=False)
class Evaluation(Writable):
    """Result of ``evaluate``: tables as DataFrames, a leaderboard and charts.

    ``per_user`` has one row per model and user, and a double per metric and k. It is a Spark frame, computed
    lazily unless it has been written, or in this process of the kind that was given. ``entries`` are the rows
    of ``accounting``, ``sum_rows`` those of ``sums``; ``run_rows`` are the rows of ``metrics`` that have no
    value per user, such as catalog coverage. ``resources`` owns the cached frames and ``unpersist`` frees
    them. ``n_per_user`` is the number of rows of ``per_user``, and ``keys`` is the sum of their keys, a
    checksum. ``truth_digest`` is a 64-bit number as text; it is equal if the relevant items are equal.
    ``folder`` and ``files`` locate ``per_user`` if executors wrote it, one file per model and bucket.
    ``stage_sums`` are the sums of pipeline stages and ``intervals`` the bootstrap intervals; None if not
    requested. ``item_rows`` are the ``n_item_rows`` rows of ``item_segments``.

    Examples:
        ``result`` is that of the example of ``evaluate``:

        >>> result.models
        ['als']
    """

    per_user: Any
    entries: Sequence[Entry]
    models: Sequence[str]
    plan: Plan
    resources: ExitStack
    sum_rows: Sequence[SumRow]
    keys: int
    truth_digest: str
    n_per_user: int
    run_rows: Sequence[MetricRow] = ()
    folder: str | None = None
    files: frozenset[str] | None = None
    stage_sums: StageSums | None = None
    intervals: Mapping[MeanKey, LowHigh] | None = None
    item_rows: Any = None
    n_item_rows: int = 0
    verb: ClassVar[str] = "evaluate"
    offers: ClassVar[tuple[str, ...]] = ("leaderboard", "unpersist")
    tables: ClassVar[tuple[str, ...]] = ("metrics", "per_user", "stages", "funnel", "sums", "accounting")
    on_request: ClassVar[tuple[str, ...]] = ("item_segments",)

    def __dir__(self) -> list[str]:
        lacking = {str(Table.ITEM_SEGMENTS)} if self.item_rows is None else set[str]()
        return sorted({*super().__dir__()} - lacking)

    def __repr__(self) -> str:
        names = ", ".join(dict.fromkeys(value.name for value in self.plan.requested))
        cutoffs = ", ".join(dict.fromkeys(value.cutoff for value in self.plan.requested))
        tables = f"metrics, {'stages, funnel, ' if self.plan.stages else ''}per_user, accounting"
        text = f"Evaluation of {models_shown(self.models)}: {names} at k {cutoffs}; {tables} are DataFrames"
        return "; ".join([text, *unusable(self.entries), *unmatched_lists(self.entries)])

    def leaderboard(self, metric: str | None = None, *, segment: str | None = None) -> TextTable:
        """Return a table of the models and their metrics, with the best values marked.

        Args:
            metric: A name, optionally with conventions and cutoff, such as ``ndcg`` or ``ndcg@10``: show this
                metric only, best model first. By default all metrics.
            segment: A segment of the evaluation: show a leaderboard for each of its values.

        Returns:
            A table of texts that a notebook displays; ``to_pandas()`` converts it.

        Raises:
            ConfigError: METRIC_NOT_MEASURED or UNKNOWN_SEGMENT.

        Examples:
            With the ``result`` of the example of ``evaluate``:

            >>> result.leaderboard("mrr@2")
            Evaluation of 1 model (als)
            model k    mrr users
              als 2 0.7500     2
        """
        rows = [row._asdict() for row in self.metric_rows]
        if segment is not None:
            return self.leaderboard_of_segment(rows, metric, segment)
        board = Leaderboard.of(rows, metric, (entry._asdict() for entry in self.entries))
        columns = {**board.lines, **board.metrics, **board.users}
        lines = list(zip(*columns.values(), strict=True))
        return TextTable(f"Evaluation of {models_shown(self.models)}", list(columns), lines, board.notes)

    def leaderboard_of_segment(
        self, rows: Sequence[dict[str, Any]], metric: str | None, segment: str
    ) -> TextTable:
        """Return a table with a leaderboard for each value of a segment."""
        segments = dict.fromkeys(row["segment"] for row in rows if row["segment"] != ALL)
        if segment not in segments:
            raise ConfigError.unknown("UNKNOWN_SEGMENT", "segment", segment, segments, "leaderboard")
        by_value: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            if row["segment"] == segment:
                alone = row | {"segment": ALL, "segment_value": ALL}
                by_value.setdefault(row["segment_value"], []).append(alone)
        header, lines, notes = [segment], list[tuple[str, ...]](), list[str]()
        for value in sorted(by_value, key=number_order):
            board = Leaderboard.of(by_value[value], metric)
            users = {name: [few_marked(n) for n in board.n_users] for name in board.users}
            columns = {**board.lines, **board.metrics, **users}
            header, notes = [segment, *columns], list(dict.fromkeys([*notes, *board.notes]))
            lines += [(value, *line) for line in zip(*columns.values(), strict=True)]
        is_few = any(row["n_users"] < FEW for of_value in by_value.values() for row in of_value)
        notes += [*([FEW_EXPLAINED] if is_few else []), *meanings_of_segments([segment])]
        title = f"Evaluation of {models_shown(self.models)} by {segment}"
        return TextTable(title, header, lines, notes)

    def shown(self) -> list[TextTable]:
        """Return the leaderboard, with notes on rows that could not be used."""
        board = self.leaderboard()
        return [replace(board, notes=[*board.notes, *unusable(self.entries), *unmatched_lists(self.entries)])]

    @property
    def users(self) -> UserTable:
        """The per-user table as input of a comparison or of a bootstrap."""
        if self.spark is None:
            return UserTable(LocalTable.of(to_arrow(self.per_user)), self.plan.segments)
        return UserTable(SparkRows(self.per_user), self.plan.segments, self.folder, self.files)

    @property
    def item_users(self) -> UserTable:
        """The table ``item_segments`` as input of a comparison or of a bootstrap."""
        if self.spark is None:
            return UserTable(LocalTable.of(to_arrow(self.item_segments)))
        return UserTable(SparkRows(self.item_segments))

    @property
    def record(self) -> dict[str, str]:
        """The conventions and the digest of the truth, which results need for comparison."""
        return {"conventions": self.plan.stamp, "truth_digest": self.truth_digest}

    @property
    def item_segments(self) -> Any:
        """The table ``item_segments``: a row per model, user and value of a segment of items.

        Raises:
            ConfigError: NO_ITEM_SEGMENTS if the evaluation has none.
        """
        if self.item_rows is None:
            message = "this evaluation has no table item_segments; name columns of items in item_segments"
            raise ConfigError("NO_ITEM_SEGMENTS", message)
        return self.item_rows

    def facts_of_run(self) -> RunFacts:
        """Return the data of a report; users are counted only if a chart needs it."""
        return replace(super().facts_of_run(), count_users=self.count_users)

    def count_users(self, measures: Collection[str]) -> Sequence[UserCount]:
        """Return histograms of the users' values of these metrics (``ndcg@10``), from files or Spark jobs."""
        if self.folder is not None:
            return spread_of(open_dataset(self.folder), measures)[0]
        if self.spark is None:
            return spread_of_table(to_arrow(self.per_user), measures)
        return spread_in_spark(self.per_user, measures)

    @cached_property
    def metric_rows(self) -> list[MetricRow]:
        """The rows of ``metrics``."""
        if self.plan.has_repeats:
            rows = repeat_metric_rows(self.sum_rows, self.intervals, by_repeat=self.plan.by_repeat)
        else:
            rows = metric_rows(self.sum_rows, self.intervals)
        if self.run_rows:
            rows = in_requested_order([*rows, *self.run_rows], self.plan.requested)
        return rows + fold_rows(rows, ("n_users", "n_undefined", "n_requests"))

    @cached_property
    def small_tables(self) -> dict[str, SmallRows]:
        """The rows of all tables except ``per_user``; none in ``stages`` and ``funnel`` without stages."""
        stages = self.stage_sums
        return {
            Table.METRICS: (self.metric_rows, METRICS),
            Table.SUMS: (self.sum_rows, SUMS),
            Table.STAGES: ([] if stages is None else stages.stage_rows(), STAGE_TABLE),
            Table.FUNNEL: ([] if stages is None else stages.funnel_rows(), FUNNEL),
            Table.ACCOUNTING: (self.entries, ACCOUNTING),
        }

    metrics = SmallFrame(
        Table.METRICS, "a mean per model, metric and k: ``map`` is that of the users' ``ap``."
    )
    sums = SmallFrame(Table.SUMS, "exact sums per model, metric and k, which add to those of other runs.")
    stages = SmallFrame(Table.STAGES, "recall, oracle, efficiency of each stage; empty without stages.")
    funnel = SmallFrame(Table.FUNNEL, "users at each step, relevant items by what became of them.")
    accounting = SmallFrame(Table.ACCOUNTING, "what became of every input row.")

    def unpersist(self) -> None:
        """Free the frames that this result holds in memory.

        Tables that are read later are computed anew.

        Examples:
            With the ``result`` of the example of ``evaluate``:

            >>> result.unpersist()
            >>> len(result.to_pandas("per_user"))
            2
        """
        self.resources.close()

    @property
    def spark(self) -> Any:
        """The Spark session of the inputs; None if this process has computed the result."""
        return self.per_user.sparkSession if is_of_spark(self.per_user) else None


def spread_in_spark(per_user: "DataFrame", measures: Collection[str] | None = None) -> list[UserCount]:
    """Return the histograms of ``results.report.spread.spread_of``, by one Spark job per metric."""
    from pyspark.sql import functions as F

    histograms: list[UserCount] = []
    for value in spread_values(per_user.columns, measures):
        upper, column = upper_bound(value), F.col(quote_column(value.column))
        bin_number = F.least(F.floor(column * N_BINS / upper), F.lit(N_BINS - 1)) + 1
        binned = F.when(column == 0, 0).otherwise(bin_number).alias("bin")
        is_defined = column.isNotNull() & ~F.isnan(column)
        counts: dict[str, list[int]] = {}
        for row in per_user.where(is_defined).groupBy(MODEL, binned).count().collect():
            counts.setdefault(row[MODEL], [0] * (N_BINS + 1))[row["bin"]] = row["count"]
        for model in sorted(counts):
            histograms += user_counts(model, value, counts[model])
    return histograms
