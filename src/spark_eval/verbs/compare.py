"""Models compared: sums of pairs user by user, tests of the differences, rows of ``comparisons``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Unpack

from pyspark.sql import DataFrame, SparkSession

from spark_eval.accounting import ACCOUNTING, Entry
from spark_eval.comparing.options import CompareOptions, ComparePlan
from spark_eval.comparing.rows import COMPARISONS, GATES, ComparisonRow, GateRow
from spark_eval.metrics import MetricValue
from spark_eval.options import documented
from spark_eval.verbs.small import small_table


class Pair(NamedTuple):
    """Names of two models; in a comparison of two runs the baseline's is one of the other run."""

    baseline: str
    candidate: str


# Whose differences are summed: the pair, a metric value as text (``ndcg@10``), a segment and its value.
CellOfPair = tuple[Pair, str, str, str]


@dataclass(frozen=True)
class Side:
    """Measured models: a table of users.

    ``per_user`` has model, user, n_relevant, n_recommended, fold if any, segments and a double per metric
    column. ``conventions`` is the stamp of the run. ``folder`` is where it lies as files by bucket on this
    machine or a mounted disk, if it does: ``<folder>/model=<name>/part-<bucket>-of-<buckets>-<id>.parquet``.
    """

    per_user: DataFrame
    models: Sequence[str]
    metrics: Sequence[MetricValue]
    segments: Sequence[str]
    conventions: str
    run: str | None = None
    truth_digest: str | None = None
    folder: str | None = None


@dataclass(frozen=True)
class Comparison:
    """What came of a comparison.

    ``sums`` are the exact sums of each pair, metric value and segment value: gates are decided by these.
    ``common`` has the users of each pair: those of the baseline, of the candidate, and of both.
    """

    rows: Sequence[ComparisonRow]
    gate_rows: Sequence[GateRow]
    entries: Sequence[Entry]
    pairs: Sequence[Pair]
    sums: Mapping[CellOfPair, Any]
    common: Mapping[Pair, tuple[int, int, int]]
    spark: SparkSession = field(repr=False)

    @cached_property
    def comparisons(self) -> DataFrame:
        """The table ``comparisons``: a row per pair, metric, k, segment value and test."""
        return small_table(self.spark, self.rows, COMPARISONS)

    @cached_property
    def gates(self) -> DataFrame:
        """The table ``gates``: a row per gate and cell."""
        return small_table(self.spark, self.gate_rows, GATES)

    @cached_property
    def accounting(self) -> DataFrame:
        """The table ``accounting``: which users of each side and pair are compared, and which are not."""
        return small_table(self.spark, self.entries, ACCOUNTING)


@documented(CompareOptions)
def compare(
    candidate: Any,
    baseline: Any = None,
    *,
    model: str | None = None,
    baseline_model: str | None = None,
    gates: Sequence[Mapping[str, Any]] = (),
    **options: Unpack[CompareOptions],
) -> Comparison:
    """Compare models user by user: those of one table with each other, or with those of a baseline."""
    raise NotImplementedError


def compare_sides(
    candidate: Side, baseline: Side | None, plan: ComparePlan, baseline_model: str | None = None
) -> Comparison:
    """Compare the models of a side with each other, or with those of a baseline; see ``compare``."""
    raise NotImplementedError
