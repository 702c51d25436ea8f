"""``split``: label every interaction with the part it is held out for, and account for the others."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from spark_eval.accounting import ACCOUNTING, Entry
from spark_eval.errors import ConfigError, DataError, nearest
from spark_eval.names import literal, quoted
from spark_eval.runtime import events
from spark_eval.runtime.any_session import MICROSECONDS, TIMESTAMP_TYPE, setting
from spark_eval.schema import FAULT, FOLD, ITEM, RELEVANCE, SUBSET, SUBSETS, TIMESTAMP, USER
from spark_eval.splits.folds import FoldRule, StratifiedKFold
from spark_eval.splits.leave_out import Choices, LeavePOut
from spark_eval.splits.methods import GLOBAL_LOCAL_RANKER, METHODS, Rule, rule_of
from spark_eval.splits.rules import GlobalLocalRanker, Timeline
from spark_eval.splits.windows import Backtest, Windows
from spark_eval.transforms.conform import conform_interactions
from spark_eval.transforms.label import label
from spark_eval.transforms.label_folds import PLACES, label_folds
from spark_eval.transforms.plain_files import plain_log, takes_files
from spark_eval.verbs.cuts import backtest, resolve
from spark_eval.verbs.frames import Frame, in_spark
from spark_eval.verbs.leakage import LEAKAGE, LeakageRow, leakage_rows
from spark_eval.verbs.plain_log import PlainLog
from spark_eval.verbs.small import small_table
from spark_eval.verbs.split_counts import Facts
from spark_eval.verbs.split_folds import FoldFacts, compared, fold_ledger, leaks

# The leakage report, and the ledger of the folds.
Compared = tuple[list[LeakageRow], list[Entry]]


@dataclass(frozen=True, repr=False)
class Split:
    """A labelled log. ``labelled`` holds every row: user, item, timestamp, relevance, the log's other
    columns, fault, fold, subset; a row without a subset has in ``fault`` why. ``plain`` is the log where
    it is plain files, which then never become Spark's rows to be counted or written.
    """

    labelled: DataFrame
    rule: Rule
    timeline: Timeline | Backtest | Choices | None
    plain: PlainLog | None = None

    def __repr__(self) -> str:
        method = next(name for name, kind in METHODS.items() if kind is type(self.rule))
        parts = ", ".join(subset.value for subset in self.rule.subsets)
        return f"Split by {method}: subset(NAME) of {parts}; rows, accounting, leakage are DataFrames"

    @property
    def rows(self) -> DataFrame:
        """The rows with a subset, once for each fold they are used in: user, item, timestamp, relevance,
        fold, the log's other columns, subset.
        """
        first, last = (USER, ITEM, TIMESTAMP, RELEVANCE, FOLD), (SUBSET,)
        others = [name for name in self.labelled.columns if name not in (*first, FAULT, *last, PLACES)]
        used = self.in_folds().where(F.col(SUBSET).isNotNull())
        return used.select(*(F.col(quoted(name)) for name in (*first, *others, *last)))

    def subset(self, name: str, fold: int | None = None) -> DataFrame:
        """The rows of one subset, or of several under one name (global_train, local_test), in one fold or
        in all.

        Raises ConfigError UNKNOWN_SUBSET.
        """
        known = [name for name, parts in SUBSETS.items() if set(parts) <= set(self.rule.subsets)]
        if name not in known:
            raise ConfigError.unknown("UNKNOWN_SUBSET", "subset", name, known, "split")
        rows = self.rows.where(F.col(SUBSET).isin([subset.value for subset in SUBSETS[name]]))
        return rows if fold is None else rows.where(F.col(FOLD) == fold)

    @cached_property
    def accounting(self) -> DataFrame:
        """The accounting of the log (columns ``ACCOUNTING``), from a scan when it is first asked for.

        ``users`` is null but for folds: counting distinct users would cost a shuffle of the log.
        """
        return small_table(self.labelled.sparkSession, self.ledger(), ACCOUNTING)

    @cached_property
    def leakage(self) -> DataFrame:
        """What of the test parts is in the train parts, counted when it is first asked for."""
        return small_table(self.labelled.sparkSession, self.compared(self.facts())[0], LEAKAGE)

    def facts(self) -> Facts:
        """What is counted of the rows, in a scan of its own."""
        return self.counted(self.labelled.agg(*self.counts()).collect()[0].asDict())

    def write(self, folder: str) -> Facts:
        """Write ``rows`` below a new folder, as Parquet by subset; they are counted on the way, once each."""
        match self.rule, self.timeline, self.plain:
            case GlobalLocalRanker(drops=False) as rule, Timeline() as timeline, PlainLog() as plain:
                if takes_files(folder):
                    return plain.write(rule, timeline, folder)
        observed = Observation("split")
        rows = replace(self, labelled=self.labelled.observe(observed, *self.counts())).rows
        with setting(self.labelled.sparkSession, TIMESTAMP_TYPE, MICROSECONDS):
            rows.write.mode("error").partitionBy(SUBSET).parquet(folder)
        return self.counted(observed.get)

    def in_folds(self) -> DataFrame:
        """The labelled rows with fold and subset, once for each fold."""
        return self.labelled

    def counts(self) -> list[Column]:
        """What is to be aggregated, or observed, of the labelled rows."""
        return Facts.columns()

    def counted(self, aggregates: Mapping[str, Any]) -> Facts:
        """The facts that ``counts`` have found."""
        return Facts.of(aggregates)

    def ledger(self) -> list[Entry]:
        """The lines of ``accounting``; of one fold without a look at what leaks."""
        return self.facts().ledger()

    def compared(self, facts: Facts, folder: str | None = None) -> Compared:
        """The leakage report, and the ledger of the folds, if there is one; of rows that are in ``folder``
        where they are written.
        """
        return leakage_rows(self.rows, facts, folder), []


@dataclass(frozen=True, repr=False)
class FoldSplit(Split):
    """A log in folds: in ``labelled`` an array of places stands for fold and subset (PLACES)."""

    rule: FoldRule

    def in_folds(self) -> DataFrame:
        """The labelled rows with fold and subset, once for each fold."""
        place = F.col(PLACES)
        return self.labelled.withColumn(PLACES, F.explode(PLACES)).withColumns(
            {FOLD: place[FOLD], SUBSET: place[SUBSET]}
        )

    def counts(self) -> list[Column]:
        """What is to be aggregated, or observed, of the labelled rows."""
        return FoldFacts.columns_of(self.rule)

    def counted(self, aggregates: Mapping[str, Any]) -> Facts:
        """The facts that ``counts`` have found."""
        return FoldFacts.of(aggregates)

    def ledger(self) -> list[Entry]:
        """The lines of ``accounting``, those of the folds last."""
        facts = self.facts()
        return facts.ledger() + self.compared(facts)[1]

    def compared(self, facts: Facts, folder: str | None = None) -> Compared:
        """The leakage report and the ledger of the folds, of rows that are in ``folder`` where they are
        written.
        """
        rows = self.rows
        if folder is not None:
            rows = rows.sparkSession.read.schema(rows.schema).parquet(literal(folder))
        n_folds = self.timeline.n_folds if isinstance(self.timeline, Choices) else self.rule.n_folds
        folds = compared(rows, self.rule, n_folds)
        return leaks(folds, self.rule), fold_ledger(folds, facts)


@events.telling("split")
def split(
    interactions: Frame,
    rule: Rule | None = None,
    *,
    method: str | None = None,
    columns: Mapping[str, str] | None = None,
    timestamp_unit: str | None = None,
    **options: object,
) -> Split:
    """Split a log by a rule: into local_train, ranker_train, ranker_test and global_test by time and users,
    or by any other ``method`` into folds of train and test. The log is a Spark or pandas frame, or an Arrow
    table.

    The rule is given whole, or by its method and fields: ``split(log, local_cut=0.8, global_cut="14d")``,
    ``split(log, method="k_fold", k=5)``, with cuts in any form that ``parse_cut`` takes. ``columns`` maps
    our names (user, item, timestamp, relevance) to the log's; ``timestamp_unit`` (s, ms, us) is needed for
    integer timestamps. A few small actions run here to find the cuts; nothing is cached.

    Raises ConfigError for wrong options, and DataError for a log that cannot be split.
    """
    if rule is not None and (options or method):
        given = ", ".join([*(["method"] if method else []), *options])
        raise ConfigError("INVALID_SPLIT", f"give a rule or its options, not both: {given}")
    rule = rule or rule_of(method or GLOBAL_LOCAL_RANKER, options)
    frame = in_spark({"interactions": interactions})["interactions"]
    log = conform_interactions(frame, columns, timestamp_unit, rule.timezone, rule.timed)
    if isinstance(rule, FoldRule):
        return split_in_folds(log, rule, timestamp_unit)
    files = plain_log(frame, columns or {}, rule.timezone)
    plain = None if files is None else PlainLog(frame.sparkSession, files, timestamp_unit)
    timeline = resolve(log, rule, None if plain is None else plain.counted, timestamp_unit)
    return Split(label(log, rule, timeline), rule, timeline, plain)


def split_in_folds(log: DataFrame, rule: FoldRule, unit: str | None) -> FoldSplit:
    """A conformed log in folds; its span or its size is found first, where the rule needs it."""
    for name in rule.by if isinstance(rule, StratifiedKFold) else ():
        if name not in log.columns or name == FAULT:
            known = nearest(name, [column for column in log.columns if column != FAULT])
            raise DataError("MISSING_COLUMN", f"interactions: no column {name!r} to stratify by; {known}")
    found: Backtest | Choices | None = None
    match rule:
        case Windows():
            found = backtest(log, rule, unit)
        case LeavePOut(exhaustive=True):
            found = Choices.of(rule, log.where(F.col(FAULT).isNull()).count())
    return FoldSplit(label_folds(log, rule, found), rule, found)
