"""``split``: label every interaction with its subset in each fold, and account for every row."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

from spark_eval.accounting import ACCOUNTING, Entry
from spark_eval.errors import ConfigError, DataError, nearest
from spark_eval.options import checked_call
from spark_eval.results.driver_tables import SmallRows
from spark_eval.results.exported import SmallFrame
from spark_eval.results.report.data import RunFacts
from spark_eval.results.shown import Displayable, TextTable, as_if_published
from spark_eval.results.subsets import (
    SUBSET_HEADER,
    SUBSET_TABLE,
    SubsetRow,
    cold_warnings,
    counted_ways_to_train,
    leaks_in_words,
    subset_lines,
    ways_to_train,
)
from spark_eval.runners.door import open_given
from spark_eval.runners.local_rows import LocalTable
from spark_eval.runners.rows import Rows, SparkRows
from spark_eval.runtime import events
from spark_eval.schema import (
    FOLD,
    SUBSET,
    SUBSETS,
    Subset,
    Table,
)
from spark_eval.splits.cuts import Times
from spark_eval.splits.facts import SplitCounts
from spark_eval.splits.in_order import with_numbers
from spark_eval.splits.labelled import LabelledByWorkers, LabelledLog
from spark_eval.splits.leakage import (
    LEAKAGE,
    LeakageRow,
    check_parts,
    compare_times,
    count_subsets,
    leakage_rows,
)
from spark_eval.splits.rules.fold_rule import FoldRule, Found, Layout
from spark_eval.splits.rules.methods import GLOBAL_LOCAL_RANKER, METHODS, rule_of, with_options
from spark_eval.splits.specs import LOG, OURS, check_strata, specs_of_rule
from spark_eval.splits.worker.labels import RowLabeller
from spark_eval.tables.arrow_frames import AnyFrame, Frame, like_given

# The leakage report, and the accounting per fold.
Compared = tuple[list[LeakageRow], list[Entry]]


@dataclass(frozen=True, repr=False)
class Split(Displayable):
    """Result of ``split``: a labelled log.

    ``log`` labels the rows when they are read; ``given`` is the log as it was given. ``timeline`` are the
    properties of the log that the rule needed, such as the instants of its cuts. The log's files must not
    change.

    Examples:
        ``parts`` is the result of the example of ``split``:

        >>> parts.method
        'time'
    """

    log: LabelledLog
    rule: FoldRule
    timeline: Found | None
    layout: Layout
    given: Any = None
    tables: ClassVar[tuple[str, ...]] = ("accounting", "leakage", "subsets", "rows")

    @property
    def method(self) -> str:
        """The name of the rule."""
        return next(name for name, kind in METHODS.items() if kind is type(self.rule))

    def shown(self) -> list[TextTable]:
        """Return the subsets, if they are counted, and the options of the rule."""
        return [*self.counted(), self.chosen()]

    def counted(self) -> list[TextTable]:
        """Return the decision on leaks with the subsets and warnings of cold users and items.

        This process counts for a display. Spark shows what has been counted before, and rows that cannot be
        counted raise their error where a table is asked for: nothing is returned then.
        """
        if self.spark is not None and not {"subset_rows", "leaks"} <= vars(self).keys():
            return []
        try:
            rows, leaks = ([row._asdict() for row in of] for of in (self.subset_rows, self.leaks[0]))
        except DataError:
            return []
        title = f"Split by {self.method}: {leaks_in_words(leaks)}"
        warnings = [f"warning: {text}" for text in cold_warnings(rows)]
        notes = [*counted_ways_to_train(rows), *warnings]
        return [TextTable(title, SUBSET_HEADER, subset_lines(rows, self.layout.n_folds > 1), notes)]

    def chosen(self) -> TextTable:
        """Return the options of the rule, with notes on its subsets."""
        shared = {field.name for field in fields(FoldRule)}  # options of all rules come last
        names = sorted(vars(self.rule), key=lambda name: name in shared)
        options = {name: str(value) for name in names if (value := getattr(self.rule, name)) is not None}
        notes = [*self.hints, "accounting, leakage and subsets count the rows when they are asked for"]
        return TextTable(f"Split by {self.method}", ("option", "value"), list(options.items()), notes)

    def __repr__(self) -> str:
        tables = "rows, accounting, leakage, subsets are DataFrames"
        for table in self.counted():
            return f"{table!r}\n{self.hints[-1]}; {tables}"
        return f"Split by {self.method}: {'; '.join(self.hints)}; {tables}"

    @property
    def hints(self) -> list[str]:
        """The subset to train on for each test subset, and the names of all subsets."""
        names = ", ".join(self.rule.subset_names)
        return [*ways_to_train(self.rule.trained_on), f"subset(NAME) of {names}"]

    def facts_of_run(self) -> RunFacts:
        """Return the data of a report; this counts the rows."""
        tables = {table: rows for table, (rows, _) in self.small_tables.items()}
        return as_if_published("split", {"timeline": self.timeline and asdict(self.timeline)}, tables)

    @property
    def spark(self) -> Any:
        """The Spark session of the log; None if this process splits it."""
        return self.log.rows.session

    @property
    def labelled(self) -> AnyFrame:
        """Every row of the log, once for each fold.

        Columns are user, item, timestamp, relevance, the log's other columns, fault, fold and subset. If no
        fold uses a row, ``fault`` has the reason; a row without a position in any fold occurs once. Raises
        DataError INPUT_CHANGED_DURING_RUN if the log's files have changed since the split.
        """
        return self.as_given(self.log.labelled)

    @property
    def rows(self) -> AnyFrame:
        """The rows that have a subset, once for each fold that uses them, as in the table ``splits``."""
        return self.as_given(self.log.used)

    def as_given(self, rows: Rows) -> AnyFrame:
        """Return rows as a frame: on Spark a Spark frame, in this process of the kind that was given."""
        return rows.result() if self.spark is not None else like_given(rows.table(), self.given)

    def subset(self, name: str, fold: int | None = None) -> AnyFrame:
        """Return the rows of one subset, or of several subsets under one name.

        Args:
            name: A subset, or a name of several: ``global_train`` has all rows before ``global_test``.
            fold: The fold, from 0. By default the rows of all folds.

        Returns:
            The rows, with the columns of ``rows``.

        Raises:
            ConfigError: UNKNOWN_SUBSET; the message lists the subset to train on for each test subset.

        Examples:
            With the ``parts`` of the example of ``split``:

            >>> "item" in parts.subset("test").columns
            True
        """
        if name not in self.rule.subset_names:
            what = f"unknown subset {name!r} in {self.method}; {nearest(name, self.rule.subset_names)}"
            raise ConfigError("UNKNOWN_SUBSET", "; ".join([what, *ways_to_train(self.rule.trained_on)]))
        rows = self.log.used.where_in(SUBSET, [subset.value for subset in SUBSETS[name]])
        return self.as_given(rows if fold is None else rows.where_in(FOLD, [fold]))

    @property
    def train(self) -> AnyFrame:
        """The rows to train on for ``test``: ``train``, or ``global_train`` of ``global_local_ranker``.

        Raises ConfigError UNKNOWN_SUBSET if there are several folds; use ``subset(name, fold)`` then.
        """
        return self.only_fold(self.rule.trained_on[self.rule.final_test])

    @property
    def validation(self) -> AnyFrame:
        """The rows for model selection.

        Raises ConfigError UNKNOWN_SUBSET if the split has none, or has several folds.
        """
        return self.only_fold(Subset.VALIDATION.value)

    @property
    def test(self) -> AnyFrame:
        """The rows to evaluate against: ``test`` or ``global_test``.

        Raises ConfigError UNKNOWN_SUBSET if there are several folds.
        """
        return self.only_fold(self.rule.final_test)

    def only_fold(self, name: str) -> AnyFrame:
        """Return a subset of a split with one fold; raise ConfigError UNKNOWN_SUBSET if there are several."""
        if self.layout.n_folds > 1:
            message = f"{name} of {self.layout.n_folds} folds; ask for one: subset({name!r}, fold=0)"
            raise ConfigError("UNKNOWN_SUBSET", message)
        return self.subset(name)

    accounting = SmallFrame(
        Table.ACCOUNTING,
        "what became of every row, counted at first access. ``users`` is null except in rows of folds,\n"
        "        because counting distinct users would require a shuffle of the log.",
    )
    leakage = SmallFrame(Table.LEAKAGE, "a row per fold and check of the rule, counted at first access.")
    subsets = SmallFrame(
        Table.SUBSETS, "rows, users and items of each subset, and its cold ones, counted at first access."
    )

    @property
    def small_tables(self) -> dict[str, SmallRows]:
        """The rows of ``accounting``, ``leakage`` and ``subsets``; this counts the rows of the log."""
        tables = {name: self.small_rows(name) for name in self.tables}
        return {name: rows for name, rows in tables.items() if rows is not None}

    def small_rows(self, name: str) -> SmallRows | None:
        """Return the rows of a table of counts, with their schema; None for ``rows``."""
        if name == Table.ACCOUNTING:
            of_log = self.row_counts.accounting()
            return [*of_log, *(self.leaks[1] if self.rule.reports_folds else [])], ACCOUNTING
        if name == Table.LEAKAGE:
            return self.leaks[0], LEAKAGE
        return (self.subset_rows, SUBSET_TABLE) if name == Table.SUBSETS else None

    @cached_property
    def row_counts(self) -> SplitCounts:
        """The row counts, by a scan at first access."""
        return self.log.count()

    @cached_property
    def leaks(self) -> Compared:
        """The leakage report and the accounting per fold, counted at first access."""
        return self.compared(self.row_counts)

    @cached_property
    def subset_rows(self) -> list[SubsetRow]:
        """The rows of ``subsets``, counted at first access."""
        return self.counted_subsets()

    def counted_subsets(self, folder: str | None = None) -> list[SubsetRow]:
        """Return the rows of the table ``subsets``; with ``folder``, the written split is read from there."""
        return count_subsets(self.log.used, self.rule, self.layout.n_folds, folder)

    def write(self, folder: str) -> SplitCounts:
        """Write ``rows`` to a new folder as Parquet partitioned by subset.

        Args:
            folder: The path of the folder, which must not exist.

        Returns:
            The row counts, which are observed while writing.

        Raises:
            DataError: INPUT_CHANGED_DURING_RUN if the log's files have changed since the split.

        Examples:
            With the ``parts`` of the example of ``split``, and the path of a ``folder``:

            >>> parts.write(f"{folder}/parts").n_rows
            4
        """
        return self.log.write(folder)

    def compared(self, facts: SplitCounts, folder: str | None = None) -> Compared:
        """Return the leakage report and, if the rule reports folds, the accounting per fold.

        With ``folder``, the written rows are read from there. Raises DataError SPLIT_OUT_OF_RANGE if a subset
        of a fold is empty and the rule reports folds.
        """
        counts = compare_times(self.log.used, facts, self.layout.n_folds, folder)
        if not self.rule.reports_folds:
            return leakage_rows(counts, self.rule), []
        check_parts(counts, self.rule)
        return leakage_rows(counts, self.rule), facts.accounting_of_folds(counts)


@events.timed_call("split")
@with_options
@checked_call
def split(
    interactions: Frame,
    rule: FoldRule | None = None,
    *,
    method: str | None = None,
    columns: Mapping[str, str] | None = None,
    timestamp_unit: str | None = None,
    engine: str | None = None,
    **options: object,
) -> Split:
    """Split a log of interactions into subsets by a rule.

    ``split(log, method="time", test_cut=0.8)`` trains on the first 80 % of the log and tests on the rest. The
    default method is ``global_local_ranker``; its subsets also serve a second-level ranker. A few scans of
    the timestamps find the cuts here; nothing is cached.

    Args:
        interactions: The log: one row per event, with user, item and, for rules by time, timestamp. A Spark,
            pandas or polars frame, an Arrow table, or the path of Parquet files.
        rule: The rule as an object, instead of ``method`` and ``options``.
        method: The name of the rule: ``time``, ``k_fold``, ``leave_one_out``, ...
        columns: Mapping of user, item, timestamp and relevance to the log's column names.
        timestamp_unit: The unit of integer timestamps: s, ms or us.
        engine: ``local`` for this process, ``spark``, or ``auto``: this process for pandas, polars and Arrow
            frames and for plain Parquet files of this machine; otherwise Spark. By default that of the
            environment variable ``SPARK_EVAL_ENGINE``, otherwise ``auto``.
        **options: The options of the method, listed below; cuts in any form that a config accepts.

    Returns:
        A ``Split``: ``train``, ``validation``, ``test``, ``subset(name, fold)``; ``subsets``, ``leakage`` and
        ``accounting`` count its rows. In this process rows are of the kind of ``interactions``, of a path a
        pandas frame; on Spark they are Spark frames. The tables of counts are pandas frames.

    Raises:
        ConfigError: An option is unknown or invalid; NEEDS_SPARK for what ``engine="local"`` cannot take.
        DataError: The log cannot be split by this rule, for example because a column is missing.

    Examples:
        The last of four days is for testing:

        >>> import pandas as pd
        >>> from spark_eval import split
        >>> days = pd.date_range("2024-05-01", periods=4, tz="UTC")
        >>> log = pd.DataFrame({"user": [1, 1, 2, 2], "item": [7, 8, 9, 7], "timestamp": days})
        >>> parts = split(log, method="time", test_cut="2024-05-04")
        >>> parts.to_pandas("subsets")[["subset", "rows"]]
          subset  rows
        0  train     3
        1   test     1
    """
    if rule is not None and (options or method):
        given = ", ".join([*(["method"] if method else []), *options])
        raise ConfigError("INVALID_SPLIT", f"give a rule or its options, not both: {given}")
    rule = rule or rule_of(method or GLOBAL_LOCAL_RANKER, options)
    names = {LOG: columns or {}}
    rows = open_given({LOG: interactions}, specs_of_rule(rule, timestamp_unit), engine, names)
    return split_rows(rows[LOG], rule, timestamp_unit, interactions)


def split_rows(log: Rows, rule: FoldRule, unit: str | None, given: Any = None) -> Split:
    """Split a conformed log, where it is; in this process its rows are of the kind of ``given``."""
    check_strata(rule, dict.fromkeys([*OURS, *log.columns]))
    if isinstance(log, SparkRows):
        from spark_eval.splits.labelled_on_spark import labelled_on_spark

        labelled, timeline, layout = labelled_on_spark(log, rule, unit)
        return Split(labelled, rule, timeline, layout)
    assert isinstance(log, LocalTable)
    timeline = rule.find(Times(log, unit))
    layout = rule.layout(timeline)
    if rule.needs_other_rows:
        log, layout = with_numbers(log, rule, layout, unit)
    return Split(LabelledByWorkers(log, RowLabeller(rule, layout, unit)), rule, timeline, layout, given)
