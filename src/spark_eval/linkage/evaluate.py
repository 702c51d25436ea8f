"""Evaluation of linkage: pairs or clusters against the truth, blocking, and estimates from reviews."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, NamedTuple, Self, Unpack

import pyarrow as pa

from spark_eval.accounting import ACCOUNTING, Entry, check_closed
from spark_eval.errors import ConfigError, DataError
from spark_eval.linkage.clusters import f1, harmonic, share
from spark_eval.linkage.estimates import cohens_kappa, estimates
from spark_eval.linkage.given import relations_of, small_table
from spark_eval.linkage.plan import LinkageOptions, LinkagePlan, Missing, make_linkage_plan
from spark_eval.linkage.relations import Clusters, Pairs, Relation, Relations
from spark_eval.linkage.reviews import (
    CANDIDATES,
    PREDICTED,
    SAMPLE_COLUMNS,
    check_same_links,
    reviewed_strata,
    valid_rows,
)
from spark_eval.linkage.specs import spec_of
from spark_eval.options import checked_call, documented
from spark_eval.results.driver_tables import SmallRows
from spark_eval.results.exported import Exported, SmallFrame
from spark_eval.runners.door import open_given
from spark_eval.runtime import events
from spark_eval.schema import Outcome, Reason, Row, Table, ddl_of
from spark_eval.tables.arrow_frames import Frame

TRUE: Final = "true"


class LinkageRow(NamedTuple):
    """Row of ``linkage``: a metric, with its standard error and an interval of 95 % if it is estimated.

    ``n`` counts what it is a share or a mean of: pairs, records, clusters, or labels.
    """

    metric: str
    value: float | None
    std_error: float | None
    ci_low: float | None
    ci_high: float | None
    n: int

    @classmethod
    def counted(cls, metric: str, value: float | None, n: int) -> Self:
        """Return the row of a metric that is no estimate."""
        return cls(metric, value, None, None, None, n)


LINKAGE_TABLE: Final = ddl_of(LinkageRow)
SHOWN: Final = LinkageRow._fields


@dataclass(frozen=True)
class Linkage(Exported):
    """Result of ``evaluate_linkage``.

    Examples:
        >>> import pandas as pd
        >>> from spark_eval import evaluate_linkage
        >>> pairs = pd.DataFrame({"a": [1, 2], "b": [2, 3]})
        >>> evaluate_linkage(pairs, pairs[:1]).value("pairwise_precision")
        0.5
    """

    rows: Sequence[LinkageRow]
    entries: Sequence[Entry]
    tables: ClassVar[tuple[str, ...]] = ("linkage", "accounting")

    @property
    def small_tables(self) -> dict[str, SmallRows]:
        """Rows of its tables, with their schemas."""
        return {Table.LINKAGE: (self.rows, LINKAGE_TABLE), Table.ACCOUNTING: (self.entries, ACCOUNTING)}

    linkage = SmallFrame(Table.LINKAGE, "a row per metric.")
    accounting = SmallFrame(Table.ACCOUNTING, "what became of every row.")

    def value(self, metric: str) -> float | None:
        """Return the value of a metric.

        Args:
            metric: Its name, such as ``pairwise_f1``.

        Returns:
            The value; None if it is undefined.

        Raises:
            ConfigError: METRIC_NOT_MEASURED for a metric that the given tables do not have.

        Examples:
            >>> import pandas as pd
            >>> from spark_eval import evaluate_linkage
            >>> clusters = pd.DataFrame({"record": [1, 2, 3], "cluster": ["x", "x", "y"]})
            >>> evaluate_linkage(clusters, clusters).value("bcubed_f1")
            1.0
        """
        values = {row.metric: row.value for row in self.rows}
        if metric not in values:
            raise ConfigError.unknown("METRIC_NOT_MEASURED", "metric", metric, values, "Linkage.value")
        return values[metric]


def shown_lines(rows: Iterable[Row]) -> list[tuple[str, ...]]:
    """Return the cells of SHOWN of each row as text.

    >>> row = LinkageRow("estimated_recall", 0.4, 0.1, 0.25, 0.625, 10)
    >>> shown_lines([row._asdict()])
    [('estimated_recall', '0.400000', '0.100000', '0.250000', '0.625000', '10')]
    """
    return [
        (
            row["metric"],
            *("" if row[name] is None else f"{row[name]:.6f}" for name in SHOWN[1:-1]),
            f"{row['n']:,}",
        )
        for row in rows
    ]


def shown_missing(entries: Iterable[Row]) -> list[str]:
    """Return a sentence for each table with rows of records that the other table lacks.

    >>> shown_missing([Entry(TRUE, None, Outcome.USED, Reason.NOT_IN_BOTH, 3, None)._asdict()])
    ['true: 3 rows are of records that predicted lacks; each is a cluster of its own there (linkage.missing)']
    """
    ends = {
        Outcome.USED: "each is a cluster of its own there (linkage.missing)",
        Outcome.DROPPED: "they are left out (linkage.missing)",
    }
    other = {PREDICTED: TRUE, TRUE: PREDICTED}
    return [
        f"{row['source']}: {row['rows']:,} rows are of records that {other[row['source']]} lacks; "
        f"{ends[row['outcome']]}"
        for row in entries
        if row["reason"] == Reason.NOT_IN_BOTH
    ]


@events.timed_call("evaluate_linkage")
@documented(LinkageOptions)
@checked_call
def evaluate_linkage(
    predicted: Frame,
    true: Frame | None = None,
    *,
    candidates: Frame | None = None,
    sample: Frame | None = None,
    reviews: Frame | None = None,
    engine: str | None = None,
    **options: Unpack[LinkageOptions],
) -> Linkage:
    """Evaluate predicted links of records, pairs or clusters.

    Args:
        predicted: Pairs (``a``, ``b``, optionally ``score``) or clusters (``record``, ``cluster``): a pandas,
            polars or Spark frame, an Arrow table, or the path of Parquet files.
        true: The truth, in either form; None if only reviews are there.
        candidates: The pairs that blocking lets through, for measures of blocking.
        sample: The table of ``sample_pairs`` whose pairs were reviewed.
        reviews: Labels of its pairs: ``a``, ``b``, ``reviewer`` and ``label`` (match, non_match or unsure).
        engine: ``local`` for this process, ``spark``, or ``auto``: this process for pandas, polars and Arrow
            frames and for files of this machine, otherwise Spark. By default that of the environment variable
            ``SPARK_EVAL_ENGINE``, otherwise ``auto``.

    Returns:
        A ``Linkage``: ``table("linkage")``, ``table("accounting")``, ``value(metric)``.

    Raises:
        ConfigError: NOT_A_FRAME; NEEDS_SPARK for tables that ``engine="local"`` cannot take;
            NOTHING_TO_COMPARE without truth and reviews, or for a sample without reviews.
        DataError: MISSING_COLUMN, ID_IS_FLOAT, ID_TYPE_UNSUPPORTED, UNSUPPORTED_TYPE, ID_TYPE_MISMATCH,
            RECORD_IN_TWO_CLUSTERS, UNKNOWN_LABEL, DUPLICATE_REVIEW, TOO_FEW_REVIEWS, or LINKS_DIFFER for a
            sample that other links were drawn with.

    Examples:
        Eight records; the clusters have five pairs each, and share two:

        >>> import pandas as pd
        >>> from spark_eval import evaluate_linkage
        >>> predicted = pd.DataFrame({"record": range(1, 9), "cluster": list("11232444")})
        >>> true = pd.DataFrame({"record": range(1, 9), "cluster": list("11122334")})
        >>> found = evaluate_linkage(predicted, true)
        >>> found.value("pairwise_precision"), round(found.value("bcubed_precision_by_cluster"), 6)
        (0.4, 0.645833)
    """
    plan = make_linkage_plan(**options)
    given = {PREDICTED: predicted, TRUE: true, CANDIDATES: candidates}
    given = {name: frame for name, frame in given.items() if frame is not None}
    labelled = {"sample": sample, "reviews": reviews}
    reviewed = {name: small_table(name, one) for name, one in labelled.items() if one is not None}
    with ExitStack() as resources:

        def make() -> Relations:
            return relations_of(open_given(given, spec_of, engine), resources, plan.sources)

        return measure_linkage(make, given, reviewed, plan)


def measure_linkage(
    make: Callable[[], Relations], names: Collection[str], reviewed: Mapping[str, pa.Table], plan: LinkagePlan
) -> Linkage:
    """Evaluate tables of these names, whose relations are made at need; see ``evaluate_linkage``."""
    if TRUE not in names and len(reviewed) < 2:
        raise ConfigError("NOTHING_TO_COMPARE", "nothing to compare with: give true, or sample and reviews")
    if len(reviewed) == 1:
        raise ConfigError("NOTHING_TO_COMPARE", f"{next(iter(reviewed))} is alone; give sample and reviews")
    relations = make()
    rows: list[LinkageRow] = []
    entries = list(relations.entries)
    if TRUE in names:
        predicted, true = relations.tables[PREDICTED], relations.tables[TRUE]
        if isinstance(predicted, Clusters) and isinstance(true, Clusters):
            numbers, entries = of_clusters(predicted, true, entries, plan)
        else:
            numbers, entries = of_pairs(predicted, true, entries, plan)
        rows += numbers
    if CANDIDATES in names:
        candidates = relations.tables[CANDIDATES]
        if not isinstance(candidates, Pairs):
            raise DataError("MISSING_COLUMN", "candidates: blocking is measured on pairs; give a and b")
        rows += of_blocking(candidates, relations.tables.get(TRUE), sizes(plan, relations))
    if reviewed:
        sample = valid_rows("sample", reviewed["sample"], SAMPLE_COLUMNS)
        strata, labels, more = reviewed_strata(sample, reviewed["reviews"], plan.sources)
        check_same_links(relations, sample, plan.sources)
        entries += more
        n = sum(one.n_reviewed for one in strata)
        rows += [LinkageRow(f"estimated_{name}", *one, n) for name, one in estimates(strata).items()]
        kappa, n_common = cohens_kappa(labels)
        rows.append(LinkageRow.counted("reviewer_kappa", kappa, n_common))
    check_closed(entries)
    return Linkage(rows, entries)


def of_pairs(
    predicted: Relation, true: Relation, entries: Sequence[Entry], plan: LinkagePlan
) -> tuple[list[LinkageRow], list[Entry]]:
    """Return precision, recall and F1 of pairs; in listed pairs a record may have no cluster."""
    n_pairs = {PREDICTED: predicted.n_pairs, TRUE: true.n_pairs}
    name, listed, other = (PREDICTED, predicted, true)
    if not isinstance(listed, Pairs):
        name, listed, other = (TRUE, true, predicted)
    assert isinstance(listed, Pairs)
    n_known, n_common = listed.agreement(other)
    n_unknown = n_pairs[name] - n_known
    if plan.missing is Missing.LEAVE_OUT:
        n_pairs[name] = n_known
    moved = set_apart(entries, name, n_unknown, plan.missing)
    return pairwise(n_common, n_pairs[PREDICTED], n_pairs[TRUE], plan.conventions.of_no_pair), moved


def pairwise(n_common: int, n_predicted: int, n_true: int, of_none: float | None) -> list[LinkageRow]:
    """Return precision, recall and F1 of pairs; ``of_none`` where there is no pair."""
    values = {
        "precision": (share(n_common, n_predicted), n_predicted),
        "recall": (share(n_common, n_true), n_true),
        "f1": (f1(n_common, n_predicted, n_true), n_predicted + n_true),
    }
    return [
        LinkageRow.counted(f"pairwise_{name}", of_none if value is None else value, n)
        for name, (value, n) in values.items()
    ]


def of_clusters(
    predicted: Clusters, true: Clusters, entries: Sequence[Entry], plan: LinkagePlan
) -> tuple[list[LinkageRow], list[Entry]]:
    """Return all metrics of clusters, over the records in either table, or in both."""
    contingency = predicted.contingency(true, plan.missing)
    n_both = contingency.n_records
    if plan.missing is Missing.SINGLETON:
        n_both = predicted.n_records + true.n_records - contingency.n_records
    moved = list(entries)
    for name, clusters in ((PREDICTED, predicted), (TRUE, true)):
        moved = set_apart(moved, name, clusters.n_records - n_both, plan.missing)
    n_pairs = (contingency.n_common, contingency.n_predicted_pairs, contingency.n_true_pairs)
    rows = pairwise(*n_pairs, plan.conventions.of_no_pair)
    n_clusters = [best.n_clusters for best in (contingency.best_predicted, contingency.best_true)]
    for by_cluster, end, n in ((False, "", contingency.n_records), (True, "_by_cluster", n_clusters[1])):
        precision, recall = contingency.b_cubed(by_cluster=by_cluster)
        values = (precision, recall, harmonic(precision, recall))
        rows += [
            LinkageRow.counted(f"bcubed_{name}{end}", value, n)
            for name, value in zip(("precision", "recall", "f1"), values, strict=True)
        ]
    for name, ends in (("exact", contingency.exact()), ("closest", contingency.closest())):
        kinds = zip(("precision", "recall"), ends, n_clusters, strict=True)
        rows += [LinkageRow.counted(f"cluster_{name}_{kind}", value, n) for kind, value, n in kinds]
    return rows, moved


def of_blocking(candidates: Pairs, true: Relation | None, n_records: Sequence[int]) -> list[LinkageRow]:
    """Return the measures of blocking, by the truth, if it is given, and by the number of comparisons.

    Source: Christen, Data matching, 2012, section 7.3.
    """
    n, rows = candidates.n_pairs, list[LinkageRow]()
    if true is not None:
        n_found = candidates.agreement(true).n_held
        completeness = share(n_found, true.n_pairs)
        rows.append(LinkageRow.counted("pair_completeness", completeness, true.n_pairs))
        rows.append(LinkageRow.counted("pair_quality", share(n_found, n), n))
    total = n_records[0] * n_records[1] if len(n_records) == 2 else n_records[0] * (n_records[0] - 1) // 2
    reduction = float(1 - Fraction(n, total)) if total else None
    rows.append(LinkageRow.counted("reduction_ratio", reduction, total))
    rows.append(LinkageRow.counted("candidates_per_record", share(2 * n, sum(n_records)), sum(n_records)))
    return rows


def sizes(plan: LinkagePlan, relations: Relations) -> Sequence[int]:
    """Return the numbers of records; raise ConfigError OUT_OF_RANGE for fewer than the tables have."""
    seen, given = relations.sizes, plan.n_records
    if given is None:
        return seen
    where = f"linkage.n_records is {list(given)}"
    if len(given) < len(seen):
        raise ConfigError("OUT_OF_RANGE", f"{where}; with sources: bipartite give two numbers")
    few = [sum(given)] if len(seen) == 1 else given
    if any(n < n_seen for n, n_seen in zip(few, seen, strict=True)):
        message = f"{where}, and the tables have {' and '.join(map(str, seen))} records"
        raise ConfigError("OUT_OF_RANGE", message)
    return given


def set_apart(entries: Sequence[Entry], name: str, n: int, missing: Missing) -> list[Entry]:
    """Count rows of a table apart whose records the other table lacks: used, or left out."""
    if not n:
        return list(entries)
    outcome = Outcome.USED if missing is Missing.SINGLETON else Outcome.DROPPED
    key = (name, Outcome.USED)
    moved = [
        entry._replace(rows=entry.rows - n) if (entry.source, entry.outcome) == key else entry
        for entry in entries
    ]
    return [*moved, Entry(name, None, outcome, Reason.NOT_IN_BOTH, n, None)]
