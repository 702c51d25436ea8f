"""``split``: label every interaction with the part it is held out for, and account for the others."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from spark_eval.errors import ConfigError
from spark_eval.ledger import ACCOUNTING
from spark_eval.scan import plain_log, takes_files
from spark_eval.schema import FAULT, FOLD, ITEM, RELEVANCE, SUBSET, SUBSETS, TIMESTAMP, USER
from spark_eval.splits.cuts import resolve
from spark_eval.splits.label import label
from spark_eval.splits.rules import GlobalLocalRanker, Timeline
from spark_eval.transforms.conform import conform_interactions
from spark_eval.transforms.inputs import quoted
from spark_eval.verbs.facts import Facts
from spark_eval.verbs.leakage import LEAKAGE, leakage_rows
from spark_eval.verbs.plain_log import PlainLog
from spark_eval.verbs.small import small_table


@dataclass(frozen=True)
class Split:
    """A labelled log. ``labelled`` holds every row: user, item, timestamp, relevance, the log's other
    columns, fault, fold, subset; a row without a subset has in ``fault`` why. ``plain`` is the log where
    it is plain files, which then never become Spark's rows to be counted or written.
    """

    labelled: DataFrame
    rule: GlobalLocalRanker
    timeline: Timeline
    plain: PlainLog | None = None

    @property
    def rows(self) -> DataFrame:
        """The rows with a subset: user, item, timestamp, relevance, fold, the log's other columns, subset."""
        first, last = (USER, ITEM, TIMESTAMP, RELEVANCE, FOLD), (SUBSET,)
        others = [name for name in self.labelled.columns if name not in (*first, FAULT, *last)]
        used = self.labelled.where(F.col(SUBSET).isNotNull())
        return used.select(*(F.col(quoted(name)) for name in (*first, *others, *last)))

    def subset(self, name: str) -> DataFrame:
        """The rows of one subset, or of several under one name: global_train, local_test.

        Raises ConfigError UNKNOWN_SUBSET.
        """
        if name not in SUBSETS:
            raise ConfigError.unknown("UNKNOWN_SUBSET", "subset", name, SUBSETS, "split")
        return self.rows.where(F.col(SUBSET).isin([subset.value for subset in SUBSETS[name]]))

    def accounting(self) -> DataFrame:
        """The ledger of the log (columns in ``ledger.ACCOUNTING``), from one scan of it, which runs at once.

        ``users`` is null throughout: counting distinct users would cost a shuffle of the log.
        """
        return small_table(self.labelled.sparkSession, self.facts().ledger(), ACCOUNTING)

    def leakage(self) -> DataFrame:
        """What of the test parts is in the train parts; see ``spark_eval.verbs.leakage``. Runs at once."""
        return small_table(self.labelled.sparkSession, leakage_rows(self.rows, self.facts()), LEAKAGE)

    def facts(self) -> Facts:
        """What is counted of the rows, in a scan of its own."""
        return Facts.of(self.labelled.agg(*Facts.columns()).collect()[0].asDict())

    def write(self, folder: str) -> Facts:
        """Write ``rows`` below a new folder, as Parquet by subset; they are counted on the way, once each."""
        if self.plain is not None and not self.rule.drops and takes_files(folder):
            return self.plain.write(self.rule, self.timeline, folder)
        observed = Observation("split")
        rows = replace(self, labelled=self.labelled.observe(observed, *Facts.columns())).rows
        rows.write.mode("errorifexists").partitionBy(SUBSET).parquet(folder)
        return Facts.of(observed.get)


def split(
    interactions: DataFrame,
    rule: GlobalLocalRanker | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    timestamp_unit: str | None = None,
    **options: object,
) -> Split:
    """Split a log by time and users into local_train, ranker_train, ranker_test and global_test.

    The rule is given whole, or by its fields: ``split(log, local_cut=0.8, global_cut="14d")``, with
    cuts in any form that ``parse_cut`` takes. ``columns`` maps our names (user, item, timestamp,
    relevance) to the log's; ``timestamp_unit`` (s, ms, us) is needed for integer timestamps. A few
    small actions run here to find the cuts; nothing is cached.

    Raises ConfigError for wrong options, and DataError for a log that cannot be split.
    """
    if rule is not None and options:
        raise ConfigError("INVALID_SPLIT", f"give a rule or its options, not both: {', '.join(options)}")
    rule = rule or GlobalLocalRanker.of(options)
    log = conform_interactions(interactions, columns, timestamp_unit, rule.timezone)
    files = plain_log(interactions, columns or {}, rule.timezone)
    plain = None if files is None else PlainLog(interactions.sparkSession, files, timestamp_unit)
    timeline = resolve(log, rule, None if plain is None else plain.counted, timestamp_unit)
    return Split(label(log, rule, timeline), rule, timeline, plain)
