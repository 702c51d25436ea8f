"""``split``: label every interaction with the part it is held out for, and account for the others."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from spark_eval.accounting import ACCOUNTING, Entry
from spark_eval.arrow.files import remove_other_files
from spark_eval.errors import ConfigError, DataError, nearest
from spark_eval.names import quote_column
from spark_eval.reporting.facts import RunFacts
from spark_eval.runtime import events
from spark_eval.runtime.any_session import MICROSECONDS, TIMESTAMP_TYPE, setting
from spark_eval.schema import FAULT, FOLD, ITEM, RELEVANCE, SUBSET, SUBSETS, TIMESTAMP, USER, Subset, Table
from spark_eval.splits.facts import SplitCounts
from spark_eval.splits.fold_rule import FoldRule, Layout
from spark_eval.splits.folds import StratifiedKFold
from spark_eval.splits.labels import RowLabeller
from spark_eval.splits.methods import GLOBAL_LOCAL_RANKER, METHODS, rule_of
from spark_eval.splits.subsets import SUBSET_TABLE, SubsetRow, ways_to_train
from spark_eval.transforms.conform import conform_interactions
from spark_eval.transforms.label import PLACE, explode_folds, label, row_counts
from spark_eval.transforms.listed import NOTHING_LISTED, ListedFiles
from spark_eval.transforms.objects import map_files
from spark_eval.transforms.plain_files import PlainFiles, plain_log, takes_files
from spark_eval.verbs.cuts import Found, Times, resolve
from spark_eval.verbs.frames import Frame, to_spark_frames
from spark_eval.verbs.leakage import (
    LEAKAGE,
    LeakageRow,
    check_parts,
    compare_times,
    count_subsets,
    leakage_rows,
)
from spark_eval.verbs.results.shown import Displayable, TextTable, as_if_published
from spark_eval.verbs.small import collect_objects, small_table

# The leakage report, and the accounting of the folds.
Compared = tuple[list[LeakageRow], list[Entry]]


@dataclass(frozen=True, repr=False)
class Split(Displayable):
    """A labelled log. ``places`` holds every row of it once, with all its places in the folds.

    ``timeline`` is what the rule had to find of the log. ``plain`` are the files of a log that the workers
    label and write themselves, so that its rows never become Spark's; ``unit`` is that of its timestamps.
    ``listed`` are the log's files: rows are computed when they are read, and must be those that were split.
    """

    places: DataFrame
    rule: FoldRule
    timeline: Found | None
    layout: Layout
    plain: PlainFiles | None = None
    unit: str | None = None
    listed: ListedFiles = NOTHING_LISTED
    tables: ClassVar[tuple[str, ...]] = ("accounting", "leakage", "subsets", "rows")

    @property
    def method(self) -> str:
        """The name of its rule."""
        return next(name for name, kind in METHODS.items() if kind is type(self.rule))

    def shown(self) -> list[TextTable]:
        """Return the rule and its parts."""
        shared = {field.name for field in fields(FoldRule)}  # of all rules: they come last
        names = sorted(vars(self.rule), key=lambda name: name in shared)
        options = {name: str(value) for name in names if (value := getattr(self.rule, name)) is not None}
        notes = [*self.hints, "accounting, leakage and subsets count the rows when they are asked for"]
        return [TextTable(f"Split by {self.method}", ("option", "value"), list(options.items()), notes)]

    def __repr__(self) -> str:
        hints = "; ".join(self.hints)
        return f"Split by {self.method}: {hints}; rows, accounting, leakage, subsets are DataFrames"

    @property
    def hints(self) -> list[str]:
        """What to train on for which test, and all names of subsets."""
        names = ", ".join(self.rule.subset_names)
        return [*ways_to_train(self.rule.trained_on), f"subset(NAME) of {names}"]

    def facts_of_run(self) -> RunFacts:
        """Return what a report is made of; rows are counted for it."""
        facts = self.facts()
        leaks, of_folds = self.compared(facts)
        tables: dict[Table, Sequence[Any]] = {
            Table.LEAKAGE: leaks,
            Table.SUBSETS: self.counted_subsets(),
            Table.ACCOUNTING: [*facts.accounting(), *of_folds],
        }
        return as_if_published("split", {"timeline": self.timeline and asdict(self.timeline)}, tables)

    @property
    def labelled(self) -> DataFrame:
        """Every row, once for each fold.

        Columns are user, item, timestamp, relevance, the log's other columns, fault, fold, subset. A row that
        no fold uses has in ``fault`` why; one without a place in any comes once. Raises DataError
        INPUT_CHANGED_DURING_RUN where the log's files are not those that were split.
        """
        return self.in_folds().drop(PLACE)

    def in_folds(self) -> DataFrame:
        """Return ``labelled`` with the place of each row."""
        self.listed.check(self.places, "interactions")
        return explode_folds(self.places, self.rule)

    @property
    def rows(self) -> DataFrame:
        """The rows with a subset, once for each fold that uses them, as in the table ``splits``."""
        return used_rows(self.labelled)

    def subset(self, name: str, fold: int | None = None) -> DataFrame:
        """Return the rows of one subset, or of several under one name.

        Args:
            name: A label, or a name for several: ``global_train`` is all before ``global_test``.
            fold: The fold; by default the rows of all folds.

        Raises:
            ConfigError: UNKNOWN_SUBSET, with what to train on for which test.
        """
        if name not in self.rule.subset_names:
            what = f"unknown subset {name!r} in {self.method}; {nearest(name, self.rule.subset_names)}"
            raise ConfigError("UNKNOWN_SUBSET", "; ".join([what, *ways_to_train(self.rule.trained_on)]))
        rows = self.rows.where(F.col(SUBSET).isin([subset.value for subset in SUBSETS[name]]))
        return rows if fold is None else rows.where(F.col(FOLD) == fold)

    @property
    def train(self) -> DataFrame:
        """The rows to train on for ``test``: ``train``, or ``global_train`` of ``global_local_ranker``.

        Raises ConfigError UNKNOWN_SUBSET where there are several folds: ask for one by ``subset``.
        """
        return self.only_fold(self.rule.trained_on[self.rule.final_test])

    @property
    def validation(self) -> DataFrame:
        """The rows to choose a model by, if the split has any; raises as ``train`` does."""
        return self.only_fold(Subset.VALIDATION.value)

    @property
    def test(self) -> DataFrame:
        """The rows to recommend for and to evaluate against: ``test`` or ``global_test``."""
        return self.only_fold(self.rule.final_test)

    def only_fold(self, name: str) -> DataFrame:
        """Return a subset of a split that has one fold."""
        if self.layout.n_folds > 1:
            message = f"{name} of {self.layout.n_folds} folds; ask for one: subset({name!r}, fold=0)"
            raise ConfigError("UNKNOWN_SUBSET", message)
        return self.subset(name)

    @cached_property
    def accounting(self) -> DataFrame:
        """The accounting of the log (columns ``ACCOUNTING``), from a scan when it is first asked for.

        ``users`` is null but for folds: counting distinct users would cost a shuffle of the log.
        """
        facts = self.facts()
        rows = facts.accounting()
        if self.rule.reports_folds:
            rows += self.compared(facts)[1]
        return small_table(self.places.sparkSession, rows, ACCOUNTING)

    @cached_property
    def leakage(self) -> DataFrame:
        """What of the test parts is in the train parts, counted when it is first asked for."""
        return small_table(self.places.sparkSession, self.compared(self.facts())[0], LEAKAGE)

    @cached_property
    def subsets(self) -> DataFrame:
        """Rows, users and items of each subset, and how many are cold, counted when it is first asked for."""
        return small_table(self.places.sparkSession, self.counted_subsets(), SUBSET_TABLE)

    def counted_subsets(self, folder: str | None = None) -> list[SubsetRow]:
        """Return the rows of the table ``subsets``; those of the split are read in ``folder`` if given."""
        return count_subsets(self.rows, self.rule, self.layout.n_folds, folder)

    def facts(self) -> SplitCounts:
        """Return what is counted of the rows, in a scan of its own."""
        rows = self.in_folds().agg(*row_counts(self.rule))
        return self.counted(rows.collect()[0].asDict())

    def counted(self, aggregates: Mapping[str, Any]) -> SplitCounts:
        """Return the facts that ``transforms.label.row_counts`` have found."""
        found: dict[str, Counter[str]] = {"row": Counter(), "place": Counter()}
        for name, n_rows in aggregates.items():
            kind, _, code = name.partition("_")
            if kind in found:
                found[kind][code] = n_rows
        return SplitCounts(
            self.rule, aggregates["n_rows"], aggregates["n_used"], found["row"], found["place"]
        )

    def write(self, folder: str) -> SplitCounts:
        """Write ``rows`` below a new folder, as Parquet by subset; they are counted on the way, once each."""
        if self.plain is not None and takes_files(folder):
            return self.write_plain(self.plain, folder)
        observed = Observation("split")
        rows = used_rows(self.in_folds().observe(observed, *row_counts(self.rule)))
        with setting(self.places.sparkSession, TIMESTAMP_TYPE, MICROSECONDS):
            rows.drop(PLACE).write.mode("error").partitionBy(SUBSET).parquet(folder)
        return self.counted(observed.get)

    def write_plain(self, plain: PlainFiles, folder: str) -> SplitCounts:
        """Write the rows of plain files in the workers, as ``write`` does."""
        facts, files = SplitCounts(self.rule), set[str]()
        labelling = RowLabeller(self.rule, self.layout, self.unit)
        tasks = map_files(
            self.places.sparkSession, plain, lambda batches: [(None, labelling.write(batches, folder))]
        )
        for of_task, written in collect_objects(tasks):
            facts.add(of_task)
            files.update(written)
        remove_other_files(folder, files)
        return facts

    def compared(self, facts: SplitCounts, folder: str | None = None) -> Compared:
        """Return the leakage report, and the accounting of the folds, if there is one.

        Rows are read in ``folder`` where they are written.
        """
        counts = compare_times(self.rows, facts, self.layout.n_folds, folder)
        if not self.rule.reports_folds:
            return leakage_rows(counts, self.rule), []
        check_parts(counts, self.rule)
        return leakage_rows(counts, self.rule), facts.accounting_of_folds(counts)


def used_rows(labelled: DataFrame) -> DataFrame:
    """Return the labelled rows with a subset, in the order of the columns of ``splits``."""
    first, last = (USER, ITEM, TIMESTAMP, RELEVANCE, FOLD), (SUBSET,)
    others = [name for name in labelled.columns if name not in (*first, FAULT, *last)]
    rows = labelled.where(F.col(SUBSET).isNotNull())
    return rows.select(*(F.col(quote_column(name)) for name in (*first, *others, *last)))


@events.timed_call("split")
def split(
    interactions: Frame,
    rule: FoldRule | None = None,
    *,
    method: str | None = None,
    columns: Mapping[str, str] | None = None,
    timestamp_unit: str | None = None,
    **options: object,
) -> Split:
    """Split a log, a Spark or pandas frame or an Arrow table, by a rule.

    ``split(log, method="time", test_cut=0.8)`` trains on the first 80 % of the log and tests on the rest.
    Without a method it is ``global_local_ranker``, whose parts also serve a second-level ranker. A few small
    actions run here to find the cuts; nothing is cached.

    Args:
        interactions: The log: a row per event, with user, item and, if time decides, timestamp.
        rule: The rule as an object, instead of ``method`` and ``options``.
        method: The name of the rule: ``time``, ``k_fold``, ``leave_one_out``, ...
        columns: Our names (user, item, timestamp, relevance) to those of the log.
        timestamp_unit: The unit of integer timestamps: s, ms or us.
        **options: The options of the method; cuts in any form that a config takes.

    Returns:
        A ``Split``: ``train``, ``validation``, ``test``, ``subset(name, fold)``; ``subsets``, ``leakage`` and
        ``accounting`` count its rows.

    Raises:
        ConfigError: An option is unknown or invalid.
        DataError: The log cannot be split so.

    Example:
        >>> parts = split(log, method="time", test_cut="30d")  # doctest: +SKIP
        >>> parts.train, parts.test  # doctest: +SKIP
    """
    if rule is not None and (options or method):
        given = ", ".join([*(["method"] if method else []), *options])
        raise ConfigError("INVALID_SPLIT", f"give a rule or its options, not both: {given}")
    rule = rule or rule_of(method or GLOBAL_LOCAL_RANKER, options)
    frame = to_spark_frames({"interactions": interactions})["interactions"]
    listed = ListedFiles.of(frame)
    log = conform_interactions(frame, columns, timestamp_unit, rule.timezone, rule.timed)
    for name in rule.by if isinstance(rule, StratifiedKFold) else ():
        if name not in log.columns or name == FAULT:
            known = nearest(name, [column for column in log.columns if column != FAULT])
            raise DataError("MISSING_COLUMN", f"interactions: no column {name!r} to stratify by; {known}")
    plain = plain_log(frame, columns or {}, rule.timezone) if rule.timed else None
    timeline = resolve(Times(log, timestamp_unit, plain), rule)
    layout = rule.layout(timeline)
    is_written_by_workers = not rule.drops and not layout.numbering.is_order
    return Split(
        label(log, rule, layout),
        rule,
        timeline,
        layout,
        plain if is_written_by_workers else None,
        timestamp_unit,
        listed,
    )
