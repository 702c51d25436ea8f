"""Model comparison: sums over users per pair of models, tests of the differences, rows of ``comparisons``."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import reduce
from operator import add, iadd
from pathlib import Path
from typing import Any, ClassVar, Final, Unpack

from pyspark.sql import SparkSession

from spark_eval.accounting import ACCOUNTING, Entry, check_closed
from spark_eval.comparing.gates import Gate
from spark_eval.comparing.gating import ModelPair, PairCell, UserCounts, decide_gates
from spark_eval.comparing.matching import (
    check_conventions,
    check_counts,
    check_digests,
    check_over_folds,
    match_metrics,
    match_models,
    model_entries,
    pair_entries,
    users_of,
)
from spark_eval.comparing.options import CompareOptions, ComparePlan, PairTest, make_compare_plan
from spark_eval.comparing.passes import RequiredPasses
from spark_eval.comparing.results import ComparedCell, cells_of_pairs, comparison_rows
from spark_eval.comparing.rows import COMPARISONS, GATES, ComparisonRow, GateRow
from spark_eval.comparing.sentences import (
    COMPARED,
    GATED,
    MOST_SENTENCES,
    compared_lines,
    gated_lines,
    sentences,
    shortened,
)
from spark_eval.errors import DataError
from spark_eval.options import documented
from spark_eval.pairing.population import BASELINE, CANDIDATE, ComparisonTask
from spark_eval.pairing.ranking import Ranked, merge_slices
from spark_eval.pairing.sums import BucketTotals, sum_bucket
from spark_eval.runtime import events
from spark_eval.runtime.any_session import persist, tasks_at_once
from spark_eval.schema import ALL, FOLD, FOLDS, Table
from spark_eval.stats.differences import ComparedSums
from spark_eval.transforms.pairs import Buckets, ranked_pairs
from spark_eval.verbs.evaluation import Evaluation
from spark_eval.verbs.frames import Frame
from spark_eval.verbs.results.shown import SmallFrame, TextTable, Writable
from spark_eval.verbs.sides import Side, buckets_of_sides, comparison_task, requested_of, side_of
from spark_eval.verbs.small import SmallRows, collect_or_raise

# Number of shuffle partitions of counted differences, per concurrent task.
PARTS_PER_TASK: Final = 4


NO_RATIO: Final = (
    "the row over folds is left out: compare.test_train_ratio, rows of test per row of train in a fold, is "
    "not known here; of as many k-fold parts it is {:.6g}"
)


@dataclass(frozen=True, repr=False)
class Comparison(Writable):
    """Result of ``compare``: tables of tests and gates as DataFrames.

    ``rows`` are the rows of ``comparisons``, ``gate_rows`` those of ``gates`` and ``entries`` those of
    ``accounting``. ``pairs`` are names of (baseline, candidate). ``sums`` are the exact sums of each pair,
    metric value (``ndcg@10``), segment and segment value; gates are decided from them. ``common`` has the
    number of users of each pair: those of the baseline, those of the candidate, and those of both.

    Example:
        ``comparison`` is the result of the example of ``compare``:

        >>> [(row.metric, row.k, row.difference) for row in comparison.rows]
        [('mrr', 5, 0.25)]
    """

    rows: Sequence[ComparisonRow]
    gate_rows: Sequence[GateRow]
    entries: Sequence[Entry]
    pairs: Sequence[ModelPair]
    sums: Mapping[PairCell, ComparedSums]
    common: Mapping[ModelPair, UserCounts]
    spark: SparkSession
    verb: ClassVar[str] = "compare"
    tables: ClassVar[tuple[str, ...]] = ("comparisons", "gates", "accounting")

    def shown(self) -> list[TextTable]:
        """Return the differences with a sentence for each pair and metric, and the decisions of the gates."""
        rows, gates = ([row._asdict() for row in of] for of in (self.rows, self.gate_rows))
        notes = shortened(sentences(rows), MOST_SENTENCES)
        tables = [
            TextTable("Comparison", COMPARED, compared_lines(rows), notes),
            TextTable("Gates", GATED, gated_lines(gates)),
        ]
        return [table for table in tables if table.lines]

    def __repr__(self) -> str:
        tests = ", ".join(dict.fromkeys(row.test for row in self.rows))
        tables = "comparisons, gates, accounting are DataFrames"
        return f"Comparison of {len(self.pairs)} pairs: {len(self.rows)} rows of {tests}; {tables}"

    @property
    def small_tables(self) -> dict[Table, SmallRows]:
        """The rows of all tables."""
        return {
            Table.COMPARISONS: (self.rows, COMPARISONS),
            Table.GATES: (self.gate_rows, GATES),
            Table.ACCOUNTING: (self.entries, ACCOUNTING),
        }

    comparisons = SmallFrame(Table.COMPARISONS, "a row per pair, metric, k, segment value and test.")
    gates = SmallFrame(Table.GATES, "a row per gate and cell.")
    accounting = SmallFrame(
        Table.ACCOUNTING, "which users of each side and pair are compared, and which are not."
    )


@events.timed_call("compare")
@documented(CompareOptions)
def compare(
    candidate: Evaluation | Frame,
    baseline: Evaluation | Frame | None = None,
    *,
    model: str | None = None,
    baseline_model: str | None = None,
    gates: Sequence[Mapping[str, Any]] = (),
    **options: Unpack[CompareOptions],
) -> Comparison:
    """Compare models user by user: those of one table with each other, or with the models of a baseline.

    Without ``baseline`` all pairs of models are compared; the first name in sort order is the pair's
    baseline. With ``baseline_model`` alone, that model is compared with all others. With ``baseline``, models
    of equal names are compared. With both, that model of the baseline is compared with each candidate. If
    ``baseline`` is the same table as ``candidate``, it is ignored: a model is not compared with itself.

    Users are joined by id, and by fold if there are folds. Users of only one table are counted in
    ``accounting``.

    The options under *Keyword args* are also keys of the config's section ``compare``.

    Args:
        candidate: The result of ``evaluate``, or a table like its ``per_user``: one row per model and user,
            with columns such as ``ndcg_at_10``. A Spark, pandas or polars frame, an Arrow table, or the path
            of Parquet files.
        baseline: The results to compare with, in the same forms.
        model: Name of the only model of ``candidate``, if it has no column ``model``.
        baseline_model: Name of the model to compare with. It also names the only model of ``baseline``, if
            that has no column ``model``.
        gates: Mappings like the entries of the config's ``gates``. A gate without ``against`` is decided
            against ``baseline`` and ``baseline_model``.

    Returns:
        A ``Comparison``: ``comparisons``, ``gates``, ``accounting``; ``summary()``, ``plot()``, ``write()``.

    Raises:
        ConfigError: An option or a gate is invalid, or a model, metric or segment is unknown.
        DataError: The tables cannot be compared, for example because they have no users in common.

    Example:
        >>> import pandas as pd
        >>> from spark_eval import compare
        >>> per_user = pd.DataFrame({"user": [1, 2, 1, 2], "mrr_at_5": [0.5, 1.0, 1.0, 1.0]})
        >>> per_user["model"] = ["als", "als", "bpr", "bpr"]
        >>> comparison = compare(per_user)
        >>> comparison.to_pandas()[["baseline", "candidate", "difference"]]
          baseline candidate  difference
        0      als       bpr        0.25
    """
    plan = make_compare_plan(gates, **options)
    side = side_of(candidate, model, CANDIDATE)
    has_other = baseline is not None and not is_same(table_of(baseline), table_of(candidate))
    other = side_of(baseline, baseline_model, BASELINE) if baseline is not None and has_other else None
    run = None if other is None else BASELINE
    plan = replace(plan, gates=[against_baseline(gate, run, baseline_model) for gate in plan.gates])
    found = compare_sides(side, other, plan, baseline_model)
    baselines = None if other is None else other.models
    return replace(
        found, gate_rows=decide_gates(plan.gates, side.models, baselines, found.sums, found.common)
    )


def table_of(measured: Evaluation | Frame) -> Frame:
    """Return the ``per_user`` table of an evaluation, or the frame itself."""
    return measured.per_user if isinstance(measured, Evaluation) else measured


def is_same(one: Frame, other: Frame) -> bool:
    """Return True if two tables are the same object or the same path."""
    return one is other or (isinstance(one, str | Path) and one == other)


def against_baseline(gate: Gate, run: str | None, model: str | None) -> Gate:
    """Return the gate with the baseline of the call, unless the gate names another."""
    return replace(gate, against_run=gate.against_run or run, against_model=gate.against_model or model)


def compare_sides(
    candidate: Side, baseline: Side | None, plan: ComparePlan, baseline_model: str | None = None
) -> Comparison:
    """Compare the models of the candidate with each other, or with those of a baseline; see ``compare``.

    Pairs, metrics and segments that only the plan's gates need are summed as well, without rows of their own.
    """
    sides = {CANDIDATE: candidate} | ({} if baseline is None else {BASELINE: baseline})
    other = sides.get(BASELINE, candidate)
    plan = replace(plan, test_train_ratio=plan.test_train_ratio or candidate.test_train_ratio)
    baselines, run = (None, None) if baseline is None else (baseline.models, baseline.run)
    matched = match_models(candidate.models, baselines, baseline_model, plan)
    values, pairs = match_metrics(candidate.metrics, other.metrics, plan), matched.pairs
    asked = requested_of(matched, values, plan, sides)
    check_digests(candidate.truth_digest, other.truth_digest)
    check_conventions(candidate.conventions, other.conventions, asked.values)
    by_fold = FOLD in candidate.per_user.columns
    if by_fold:
        check_over_folds(plan)
    needs = RequiredPasses(plan, by_fold)
    question = comparison_task(sides, asked, needs_largest=needs.any)
    with ExitStack() as held:
        buckets = buckets_of_sides(sides, question)
        if needs.any and buckets.is_sent:
            buckets = replace(buckets, frame=persist(buckets.frame, held))
        found = sums_of_pairs(buckets)
        check_counts(asked.matched.pairs, found.counts)
        cells = cells_of_pairs(found, asked.matched.pairs, asked.values, question)
        chosen, segments, names = set(pairs), {ALL, FOLD, *plan.segments}, set(map(str, values))
        shown = [
            cell
            for cell in cells.values()
            if cell.models in chosen and cell.segment in segments and str(cell.value) in names
        ]
        shown = with_passes(shown, question, buckets, found, needs)
    entries = [*model_entries(matched), *pair_entries(asked.matched.pairs, found.counts, question.moved)]
    check_closed(entries)
    rows = comparison_rows(shown, plan, run, candidate.conventions)
    if by_fold and PairTest.T in plan.tests and not any(row.segment == FOLDS for row in rows):
        n_folds = len({cell.segment_value for cell in cells.values() if cell.segment == FOLD})
        events.say("row_left_out", NO_RATIO.format(1 / (n_folds - 1)), logging.WARNING)
    return Comparison(
        rows=rows,
        gate_rows=[],
        entries=entries,
        pairs=pairs,
        sums={key: cell.of_users for key, cell in cells.items()},
        common=users_of(asked.matched.pairs, found.counts),
        spark=candidate.per_user.sparkSession,
    )


def with_passes(
    cells: Sequence[ComparedCell],
    question: ComparisonTask,
    buckets: Buckets,
    found: BucketTotals,
    needs: RequiredPasses,
) -> list[ComparedCell]:
    """Return the cells, completed by a pass for ranks and one for replicates if their tests need them."""
    at_once = tasks_at_once(buckets.frame.sparkSession)
    ranked, drawn = dict[int, Ranked](), None
    if (counting := needs.counting(found, cells, PARTS_PER_TASK * at_once)) is not None:
        ranked = merge_slices(collect_or_raise(ranked_pairs(buckets, counting)))
    if (drawing := needs.drawing(found, cells, question)) is not None:
        drawn = reduce(add, collect_or_raise(buckets.added(drawing.sums)))
    return [needs.completed(cell, found, ranked, drawn) for cell in cells]


def sums_of_pairs(buckets: Buckets) -> BucketTotals:
    """Return the sums of all pairs; raise DataError NO_COMMON_USERS if there are no users."""
    parts = collect_or_raise(buckets.added(sum_bucket))
    if not parts:
        raise DataError("NO_COMMON_USERS", "no side has any user")
    found: BucketTotals = reduce(iadd, parts)
    return found
