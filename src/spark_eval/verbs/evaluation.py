"""What goes into an evaluation and what comes out of it, whatever plan lies between."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_eval.accounting import ACCOUNTING, Entry, unusable
from spark_eval.arrow.row_faults import fault_rules
from spark_eval.arrow.user_files import open_dataset
from spark_eval.comparing.leaderboard import Leaderboard
from spark_eval.engine.summary import (
    METRICS,
    SUMS,
    Ends,
    MeanKey,
    MetricRow,
    SumRow,
    fold_rows,
    in_requested_order,
    metric_rows,
)
from spark_eval.errors import ConfigError
from spark_eval.metrics.options import Plan
from spark_eval.names import literal_path, models_shown, quote_column
from spark_eval.pipeline.rows import FUNNEL, STAGE_TABLE, StageSums
from spark_eval.reporting.facts import RunFacts
from spark_eval.reporting.spread import (
    N_BINS,
    UserCount,
    spread_of,
    spread_values,
    upper_bound,
    user_counts,
)
from spark_eval.schema import ALL, MODEL, Outcome, Table
from spark_eval.transforms.conform import unusable_rows
from spark_eval.transforms.plain_files import PlainFiles, plain_recommendations, plain_train, plain_truth
from spark_eval.verbs.results.shown import SmallFrame, TextTable, Writable
from spark_eval.verbs.small import SmallRows


@dataclass(frozen=True)
class Tables:
    """The conformed tables, and the plan by which they are measured.

    ``model`` is the name of the only model, if no column holds names. ``files`` are those of recommendations,
    truth and training interactions, by the table's name, where these are plain Parquet. ``most_quarantined``
    is the share of each table that may be quarantined, by default any.
    """

    plan: Plan
    recommendations: DataFrame
    truth: DataFrame
    train: DataFrame | None = None
    users: DataFrame | None = None
    items: DataFrame | None = None
    model: str | None = None
    files: Mapping[str, PlainFiles | None] = field(default_factory=dict)
    most_quarantined: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        frames: Mapping[str, tuple[DataFrame, DataFrame]],
        described: Mapping[str, Any],
        plan: Plan,
        most_quarantined: Mapping[str, float],
    ) -> "Tables":
        """Return the tables of an evaluation, each of them as it is and conformed; see ``conform_table``."""
        given, lists = {name: frame for name, (frame, _) in frames.items()}, described["recommendations"]
        names = {name: described[name].columns or {} for name in frames}
        files = {
            "recommendations": plain_recommendations(
                given["recommendations"], names["recommendations"], lists.model, lists.layout
            ),
            "truth": plain_truth(given["truth"], names["truth"], plan.conventions),
            "train": plain_train(given["train"], names["train"]) if "train" in given else None,
        }
        conformed = {name: frame for name, (_, frame) in frames.items()}
        return cls(plan, **conformed, model=lists.model, files=files, most_quarantined=most_quarantined)

    def given(self) -> dict[str, DataFrame]:
        """Return the tables that there are, by name."""
        names = ("recommendations", "truth", "train", "users", "items")
        return {name: frame for name in names if (frame := getattr(self, name)) is not None}

    def judged(self, entries: Iterable[Entry]) -> dict[str, DataFrame]:
        """Return the tables with quarantined rows, codes in ``fault``; of lists and truth these alone."""
        bad = {entry.source for entry in entries if entry.outcome == Outcome.QUARANTINED}
        rules = fault_rules(self.plan.conventions)
        return {
            name: unusable_rows(frame, rules[name]) if name in rules else frame
            for name, frame in self.given().items()
            if name in bad
        }


@dataclass(frozen=True, repr=False)
class Evaluation(Writable):
    """What came of an evaluation.

    ``per_user``: one row per model and user of the population, a double per metric and k; lazy, unless it
    is written already. ``entries`` are the lines of the accounting. ``held`` holds what later steps share;
    ``unpersist`` frees it. ``sum_rows`` are the rows of ``sums``, ``run_rows`` those of ``metrics`` that no
    user has a value of. ``n_per_user`` is the number of rows of ``per_user``, ``keys`` the sum of their keys.
    ``truth_digest`` is a number of 64 bits as text, equal where what is relevant is.
    ``folder`` is where ``per_user`` lies as ``files`` by bucket, if workers wrote it. ``stage_sums`` are
    those of the stages, and ``intervals`` those of the bootstrap; None unless they were asked for.
    """

    per_user: DataFrame
    entries: Sequence[Entry]
    models: Sequence[str]
    plan: Plan
    held: ExitStack
    sum_rows: Sequence[SumRow]
    keys: int
    truth_digest: str
    n_per_user: int
    run_rows: Sequence[MetricRow] = ()
    folder: str | None = None
    files: frozenset[str] | None = None
    stage_sums: StageSums | None = None
    intervals: Mapping[MeanKey, Ends] | None = None
    verb: ClassVar[str] = "evaluate"
    offers: ClassVar[tuple[str, ...]] = ("leaderboard", "unpersist")
    tables: ClassVar[tuple[str, ...]] = ("metrics", "per_user", "stages", "funnel", "sums", "accounting")

    def __repr__(self) -> str:
        names = ", ".join(dict.fromkeys(value.name for value in self.plan.asked))
        cutoffs = ", ".join(dict.fromkeys(value.cutoff for value in self.plan.asked))
        tables = f"metrics, {'stages, funnel, ' if self.plan.stages else ''}per_user, accounting"
        told = f"Evaluation of {models_shown(self.models)}: {names} at k {cutoffs}; {tables} are DataFrames"
        return "; ".join([told, *unusable(self.entries)])

    def leaderboard(self, metric: str | None = None, *, segment: str | None = None) -> TextTable:
        """Return the models side by side, the best marked; of one ``metric`` alone, the best model first.

        Args:
            metric: A name, perhaps with its conventions and cutoff: ``ndcg``, ``ndcg@10``.
            segment: A segment of ``evaluate``; the models stand side by side for each of its values.

        Raises:
            ConfigError: METRIC_NOT_MEASURED, or UNKNOWN_SEGMENT.
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
        """Return a leaderboard for each value of a segment, one below the other."""
        known = dict.fromkeys(row["segment"] for row in rows if row["segment"] != ALL)
        if segment not in known:
            raise ConfigError.unknown("UNKNOWN_SEGMENT", "segment", segment, known, "leaderboard")
        by_value: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            if row["segment"] == segment:
                alone = row | {"segment": ALL, "segment_value": ALL}
                by_value.setdefault(row["segment_value"], []).append(alone)
        header, lines, notes = [segment], list[tuple[str, ...]](), list[str]()
        for value, of_value in by_value.items():
            board = Leaderboard.of(of_value, metric)
            columns = {**board.lines, **board.metrics, **board.users}
            header, notes = [segment, *columns], list(dict.fromkeys([*notes, *board.notes]))
            lines += [(value, *line) for line in zip(*columns.values(), strict=True)]
        title = f"Evaluation of {models_shown(self.models)} by {segment}"
        return TextTable(title, header, lines, notes)

    def shown(self) -> list[TextTable]:
        """Return the leaderboard, with the rows that could not be used."""
        board = self.leaderboard()
        return [replace(board, notes=[*board.notes, *unusable(self.entries)])]

    @property
    def record(self) -> dict[str, str]:
        """The conventions, and what tells whether the truth of two results is the same."""
        return {"conventions": self.plan.stamp, "truth_digest": self.truth_digest}

    def facts_of_run(self) -> RunFacts:
        """Return what a report is made of; users are counted where their spread is drawn."""
        return replace(super().facts_of_run(), count_users=self.count_users)

    def count_users(self, measures: Collection[str]) -> Sequence[UserCount]:
        """Return how users spread over values of metrics (``ndcg@10``): from files, or by jobs of Spark."""
        if self.folder is None:
            return spread_in_spark(self.per_user, measures)
        return spread_of(open_dataset(self.folder), measures)[0]

    @cached_property
    def metric_rows(self) -> list[MetricRow]:
        """The rows of ``metrics``."""
        rows = metric_rows(self.sum_rows, self.intervals)
        if self.run_rows:
            rows = in_requested_order([*rows, *self.run_rows], self.plan.asked)
        return rows + fold_rows(rows)

    @cached_property
    def small_tables(self) -> dict[Table, SmallRows]:
        """The rows of all tables but ``per_user``; of stages there are none without these."""
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
        """Free what is held in memory."""
        self.held.close()

    @property
    def spark(self) -> SparkSession:
        """The session of the inputs."""
        return self.per_user.sparkSession


def read_back(per_user: DataFrame, folder: str | None) -> DataFrame:
    """Return the same rows; with a folder, from files that lie below it now."""
    if folder is None:
        return per_user
    per_user.write.mode("error").partitionBy(MODEL).parquet(folder)
    # Read with its schema: Spark would take models named 1 and 01 for one number.
    return per_user.sparkSession.read.schema(per_user.schema).parquet(literal_path(folder))


def spread_in_spark(per_user: DataFrame, measures: Collection[str] | None = None) -> list[UserCount]:
    """Return what ``reporting.spread.spread_of`` counts in files, by a job of Spark for each metric."""
    found: list[UserCount] = []
    for value in spread_values(per_user.columns, measures):
        upper, column = upper_bound(value), F.col(quote_column(value.column))
        place = F.least(F.floor(column * N_BINS / upper), F.lit(N_BINS - 1)) + 1
        binned = F.when(column == 0, 0).otherwise(place).alias("bin")
        is_defined = column.isNotNull() & ~F.isnan(column)
        counts: dict[str, list[int]] = {}
        for row in per_user.where(is_defined).groupBy(MODEL, binned).count().collect():
            counts.setdefault(row[MODEL], [0] * (N_BINS + 1))[row["bin"]] = row["count"]
        for model in sorted(counts):
            found += user_counts(model, value, counts[model])
    return found
