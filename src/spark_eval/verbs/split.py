"""``split``: label every interaction with the part it is held out for, and account for the others."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_eval.errors import ConfigError, SparkEvalError
from spark_eval.ledger import ACCOUNTING, AccountingRow
from spark_eval.schema import (
    FAULT,
    FOLD,
    ITEM,
    RELEVANCE,
    SUBSET,
    SUBSETS,
    TIMESTAMP,
    USER,
    Fault,
    Outcome,
    Reason,
    Subset,
)
from spark_eval.splits.cuts import resolve
from spark_eval.splits.label import label
from spark_eval.splits.rules import GlobalLocalRanker, Timeline
from spark_eval.transforms.conform import conform_interactions
from spark_eval.transforms.inputs import quoted
from spark_eval.verbs.leakage import LEAKAGE, leakage_rows
from spark_eval.verbs.small import small_table

SOURCE: Final = "interactions"
# The reasons for which the splits in this package drop a row.
REASONS: Final = (Reason.GAP, Reason.AFTER_END, Reason.COLD_USER, Reason.COLD_ITEM, Reason.SEEN)


@dataclass(frozen=True)
class Split:
    """A labelled log. ``labelled`` holds every row: user, item, timestamp, relevance, the log's other
    columns, fault, fold, subset; a row without a subset has in ``fault`` why.
    """

    labelled: DataFrame
    rule: GlobalLocalRanker
    timeline: Timeline

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
        counts = self.labelled.agg(*ledger_counts()).collect()[0].asDict()
        return small_table(self.labelled.sparkSession, ledger_rows(counts), ACCOUNTING)

    def leakage(self) -> DataFrame:
        """What of the test parts is in the train parts; see ``spark_eval.verbs.leakage``. Runs at once."""
        return small_table(self.labelled.sparkSession, leakage_rows(self.rows), LEAKAGE)


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
    timeline = resolve(log, rule)
    return Split(label(log, rule, timeline), rule, timeline)


def ledger_counts() -> list[Column]:
    """One count per line of the ledger, over labelled rows: a fixed list, named for ``ledger_rows``.

    They may be observed on the very write of the rows, which then needs no second scan.
    """
    return [F.count_if(condition).alias(_name(*line)) for line, condition in _lines().items()]


def ledger_rows(counts: Mapping[str, int]) -> list[AccountingRow]:
    """The ledger out of its counts: the line ``in``, and every other line that counts a row.

    Raises SparkEvalError LEDGER_OPEN unless ``in`` is the sum of all others.
    """
    rows = {line: counts[_name(*line)] for line in _lines()}
    total = rows.pop((Outcome.IN, None))
    if total != sum(rows.values()):
        raise SparkEvalError(
            "LEDGER_OPEN",
            f"{SOURCE}: {total} rows in, but {sum(rows.values())} accounted for; report this",
        )
    lines = [((Outcome.IN, None), total), *((line, count) for line, count in rows.items() if count)]
    return [(SOURCE, None, outcome.value, reason, count, None) for (outcome, reason), count in lines]


def _lines() -> dict[tuple[Outcome, str | None], Column]:
    """The ledger's lines (outcome, reason), each with the condition of a row that belongs to it."""
    subset, fault = F.col(SUBSET), F.col(FAULT)
    return {
        (Outcome.IN, None): F.lit(True),
        **{(Outcome.USED, name.value): subset == name.value for name in Subset},
        **{(Outcome.DROPPED, reason.value): fault == reason.value for reason in REASONS},
        **{(Outcome.QUARANTINED, code.value): fault == code.value for code in Fault},
    }


def _name(outcome: Outcome, reason: str | None) -> str:
    return outcome.value if reason is None else f"{outcome.value}_{reason}"
