"""Model comparison: sums over users per pair of models, tests of the differences, decisions of gates.

All gates take this path: those of ``compare`` and ``evaluate`` on published runs, and ``gates=`` in Python.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, product
from pathlib import Path
from typing import Any, ClassVar, Final, Unpack

from spark_eval.accounting import ACCOUNTING, Entry, check_closed
from spark_eval.comparison.decisions import (
    Evidence,
    GatedPair,
    ModelPair,
    PairCell,
    UserCounts,
    decide_gates,
    evidence_of_means,
    evidence_of_users,
    failure_of,
    gated_pairs,
)
from spark_eval.comparison.gates import Gate, Pairing, with_baseline
from spark_eval.comparison.given import Measured, calibration_of, open_sides, table_of
from spark_eval.comparison.lists import compare_lists
from spark_eval.comparison.matching import (
    Requested,
    match_metrics,
    match_models,
    model_entries,
    pair_entries,
    users_of,
)
from spark_eval.comparison.plan import CompareOptions, ComparePlan, make_compare_plan
from spark_eval.comparison.predictions import compare_predictions
from spark_eval.comparison.results import (
    comparison_rows,
)
from spark_eval.comparison.rows import (
    COMPARISONS,
    GATES,
    SLICES,
    ComparisonRow,
    GateRow,
    SliceRow,
    compared_direction,
)
from spark_eval.comparison.sides import (
    BaselineName,
    Side,
    Sides,
    check_comparable,
)
from spark_eval.comparison.slices.gates import evidence_of_slices
from spark_eval.comparison.slices.tested import PairValue, TestedSums, found_slices
from spark_eval.conventions.comparison import Interval, PairTest
from spark_eval.errors import ConfigError
from spark_eval.names import counted
from spark_eval.options import Given, checked_call, documented
from spark_eval.predictions import PREDICTION_METRICS
from spark_eval.results.driver_tables import SmallRows
from spark_eval.results.exported import Exported, SmallFrame
from spark_eval.results.forecasts import (
    FORECAST,
    FORECASTS,
    CalibrationRow,
    ForecastRow,
    forecast_lines,
    forecast_rows,
    forecast_sentence,
)
from spark_eval.results.sentences import (
    GATED,
    MOST_SENTENCES,
    SLICED,
    compared_table,
    gated_lines,
    lost_sentences,
    seed_sentences,
    segment_notes,
    sentences,
    shortened,
    slice_sentences,
    sliced_lines,
)
from spark_eval.results.shown import TextTable, Writable
from spark_eval.runtime import events
from spark_eval.schema import FOLD, FOLDS, Table
from spark_eval.statistics.differences import ComparedSums
from spark_eval.tables.arrow_frames import Frame
from spark_eval.users.population import BASELINE, CANDIDATE

# Hint for a gate against another run if ``compare`` was given no baseline.
NO_BASELINE: Final = "compare has no baseline: give it that run's result or table"
# Sentences that print shows; the display of a notebook has more.
MOST_PRINTED: Final = 5
NO_RATIO: Final = (
    "the row over folds is left out: compare.test_train_ratio, rows of test per row of train in a fold, is "
    "not known here; of as many k-fold parts it is {:.6g}"
)


@dataclass(frozen=True, repr=False)
class Comparison(Writable):
    """Result of ``compare``: tables of tests and gates as DataFrames.

    ``rows`` are the rows of ``comparisons``, ``slice_rows`` those of ``slices``, ``gate_rows`` those of
    ``gates``, ``forecast_rows`` those of ``forecasts``, ``entries`` those of ``accounting``. ``pairs`` are
    names of (baseline, candidate). ``sums`` are the exact sums of each pair, metric value (``ndcg@10``),
    segment and segment value; gates are decided from them. ``common`` has the number of users of each pair:
    those of the baseline, those of the candidate, and those of both.

    Examples:
        ``comparison`` is the result of the example of ``compare``:

        >>> for row in comparison.rows:
        ...     print(row.metric, row.k, row.difference)
        mrr 5 0.25
    """

    rows: Sequence[ComparisonRow]
    gate_rows: Sequence[GateRow]
    entries: Sequence[Entry]
    pairs: Sequence[ModelPair]
    sums: Mapping[PairCell, ComparedSums]
    common: Mapping[ModelPair, UserCounts]
    spark: Any  # SparkSession | None
    slice_rows: Sequence[SliceRow] = ()
    slice_sums: Mapping[PairValue, TestedSums] = field(default_factory=dict)
    forecast_rows: Sequence[ForecastRow] = ()
    verb: ClassVar[str] = "compare"
    prediction_metrics = PREDICTION_METRICS
    tables: ClassVar[tuple[str, ...]] = ("comparisons", "slices", "forecasts", "gates", "accounting")

    def shown(self) -> list[TextTable]:
        """Return the differences and the slices that lose, with sentences, and the decisions of the gates."""
        rows, gates, slices, forecasts = (
            [row._asdict() for row in of]
            for of in (self.rows, self.gate_rows, self.slice_rows, self.forecast_rows)
        )
        lost = lost_sentences(rows, compared_direction)
        notes = segment_notes(rows, compared_direction)
        notes += shortened(sentences(rows, compared_direction), MOST_SENTENCES) + seed_sentences(rows)
        tables = [
            TextTable("Comparison", *compared_table(rows, compared_direction), notes, lost),
            TextTable("Slices", SLICED, sliced_lines(slices), slice_sentences(slices)[:MOST_SENTENCES]),
            TextTable(
                "Forecasts", FORECAST, forecast_lines(forecasts), list(map(forecast_sentence, forecasts))
            ),
            TextTable("Gates", GATED, gated_lines(gates)),
        ]
        return [table for table in tables if table.lines or table.notes]

    def __repr__(self) -> str:
        tests = ", ".join(dict.fromkeys(row.test for row in self.rows))
        sizes = f"{counted(len(self.pairs), 'pair')}: {counted(len(self.rows), 'row')} of {tests}"
        rows = [row._asdict() for row in self.rows]
        texts = shortened(sentences(rows, compared_direction), MOST_PRINTED)
        texts += lost_sentences(rows, compared_direction)
        failure = failure_of(self.gate_rows)
        gates = [] if failure is None else [failure.message.partition("; the run is")[0]]
        past = [forecast_sentence(row._asdict()) for row in self.forecast_rows[:MOST_PRINTED]]
        tables = f"{', '.join(self.tables)} are DataFrames"
        slices = slice_sentences([row._asdict() for row in self.slice_rows])[:MOST_PRINTED]
        seeds = seed_sentences(rows)
        return "\n".join([*gates, *texts, *slices, *past, *seeds, f"Comparison of {sizes}; {tables}"])

    @property
    def small_tables(self) -> dict[str, SmallRows]:
        """The rows of all tables."""
        return {
            Table.COMPARISONS: (self.rows, COMPARISONS),
            Table.SLICES: (self.slice_rows, SLICES),
            Table.FORECASTS: (self.forecast_rows, FORECASTS),
            Table.GATES: (self.gate_rows, GATES),
            Table.ACCOUNTING: (self.entries, ACCOUNTING),
        }

    comparisons = SmallFrame(Table.COMPARISONS, "a row per pair, metric, k, segment value and test.")
    slices = SmallFrame(
        Table.SLICES, "a row per pair, metric, k and tested slice of users, if slices are asked for."
    )
    forecasts = SmallFrame(
        Table.FORECASTS, "a row per pair, metric and goal, if a calibration is given: what to expect online."
    )
    gates = SmallFrame(Table.GATES, "a row per gate and cell.")
    accounting = SmallFrame(
        Table.ACCOUNTING, "which users of each side and pair are compared, and which are not."
    )


@events.timed_call("compare")
@documented(CompareOptions)
@checked_call
def compare(
    candidate: Measured,
    baseline: Measured | None = None,
    *,
    model: str | None = None,
    baseline_model: str | None = None,
    gates: Sequence[Given] = (),
    calibration: Exported | Frame | None = None,
    engine: str | None = None,
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
        candidate: The result of ``evaluate``, or of ``evaluate_predictions`` with ``intervals: user``, or a
            table like the ``per_user`` of ``evaluate``: one row per model and user, with columns such as
            ``ndcg_at_10``. A Spark, pandas or polars frame, an Arrow table, or the path
            of Parquet files.
        baseline: The results to compare with, in the same forms.
        model: Name of the only model of ``candidate``, if it has no column ``model``.
        baseline_model: Name of the model to compare with. It also names the only model of ``baseline``, if
            that has no column ``model``.
        gates: Mappings like the entries of the config's ``gates``. A gate without ``against`` is decided
            against ``baseline`` and ``baseline_model``.
        calibration: The result of ``calibrate``, its table, or the path of its published table: what past
            experiments say of a difference like this.
        engine: ``local`` for this process, ``spark``, or ``auto``: this process for results that it has
            computed, for pandas, polars and Arrow frames, and for plain Parquet files of this machine,
            otherwise Spark. By default that of the environment variable ``SPARK_EVAL_ENGINE``, otherwise
            ``auto``.

    Returns:
        A ``Comparison``: ``comparisons``, ``slices``, ``forecasts``, ``gates``, ``accounting``;
        ``summary()``, ``plot()``, ``write()``.

    Raises:
        ConfigError: An option or a gate is invalid, or a model, metric or segment is unknown; NEEDS_SPARK for
            tables that ``engine="local"`` cannot take.
        DataError: The tables cannot be compared, for example because they have no users in common.

    Examples:
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
    given, models = {CANDIDATE: candidate}, {CANDIDATE: model}
    if baseline is not None and not is_same(table_of(baseline), table_of(candidate)):
        given[BASELINE], models[BASELINE] = baseline, baseline_model
    run = BASELINE if BASELINE in given else None
    plan = replace(plan, gates=[with_baseline(gate, run, baseline_model) for gate in plan.gates])
    sides = open_sides(given, models, plan.named_segments, engine)
    calibrated = None if calibration is None else calibration_of(calibration)
    comparison = compare_sides(sides_of_roles(sides, plan), plan, BaselineName(run, baseline_model))
    return comparison if calibrated is None else with_forecasts(comparison, calibrated)


def with_forecasts(comparison: Comparison, calibrated: Sequence[CalibrationRow]) -> Comparison:
    """Return a comparison with what past experiments say of its differences."""
    rows = [row._asdict() for row in comparison.rows]
    return replace(comparison, forecast_rows=forecast_rows(rows, calibrated, compared_direction))


def sides_of_roles(sides: Mapping[str, Side], plan: ComparePlan) -> Sides:
    """Return the sides of a comparison; every run that a gate names is the only baseline."""
    candidate, baselines = sides[CANDIDATE], dict[str, Side]()
    if BASELINE in sides:
        names = [BASELINE, *(gate.against_run for gate in plan.gates if gate.against_run is not None)]
        baselines = dict.fromkeys(names, sides[BASELINE])
    return Sides(candidate.users.frame.session, baselines, candidate, lambda _: NO_BASELINE)


def is_same(table: Any, other: Any) -> bool:
    """Return True if two tables are the same object or the same path."""
    are_paths = isinstance(table, str | Path) and isinstance(other, str | Path)
    return table is other or (are_paths and bool(table == other))


def compare_sides(sides: Sides, plan: ComparePlan, against: BaselineName | None) -> Comparison:
    """Compare the candidate with a baseline and decide the plan's gates; see ``compare``.

    Each gate names its own baseline. ``against`` is that of the rows of ``comparisons``; None if only gates
    are decided.

    Raises:
        ConfigError: INVALID_GATE for a gate on published means if there are none, and the errors of
            ``gated_pairs``, ``match_models`` and ``match_metrics``.
        DataError: MISSING_BASELINE, and the errors of tables that cannot be compared.
    """
    gated = [pair for gate in plan.gates for pair in pairs_of_gate(gate, sides)]
    main = None
    if against is not None and has_rows(against, sides, gated):
        main = sides.baseline(against.run)
    by_users: dict[Side, list[GatedPair]] = {} if main is None else {main: []}
    for pair in gated:
        if pair.missing is None and pair.gate.sees_users:
            by_users.setdefault(sides.baseline(pair.gate.against_run), []).append(pair)
    comparisons = {
        baseline: compare_pairs(baseline, sides.candidate, plan, pairs, against if baseline is main else None)
        for baseline, pairs in by_users.items()
    }

    def evidence(pair: GatedPair) -> Iterator[Evidence]:
        gate, baseline = pair.gate, sides.baseline(pair.gate.against_run)
        if gate.sees_users:
            comparison = comparisons[baseline]
            if gate.every_slice:
                return evidence_of_slices(pair, comparison.slice_sums, comparison.common)
            return evidence_of_users(pair, comparison.sums, comparison.common)
        check_comparable(baseline, sides.candidate, [gate.value], by_truth=gate.pairing is Pairing.USER)
        return evidence_of_means(pair, baseline.means, sides.candidate.means)

    no_rows = Comparison([], [], [], [], {}, {}, sides.spark)
    return replace(
        no_rows if main is None else comparisons[main],
        gate_rows=decide_gates(gated, evidence),
        entries=list(dict.fromkeys(chain.from_iterable(each.entries for each in comparisons.values()))),
    )


def pairs_of_gate(gate: Gate, sides: Sides) -> list[GatedPair]:
    """Return the model pairs of a gate; raise ConfigError INVALID_GATE if it needs means and has none."""
    run, candidate = gate.against_run, sides.candidate
    if not sides.has(run):
        return gated_pairs(gate, None, candidate.models, sides.hint(str(run)))
    baseline = sides.baseline(run)
    if not gate.sees_users and None in (baseline.read_means, candidate.read_means):
        message = f"{gate} compares published means; `spark-eval compare` has them"
        raise ConfigError("INVALID_GATE", message)
    return gated_pairs(gate, baseline.models, candidate.models)


def check_item_gates(gated: Sequence[GatedPair], *sides: Side) -> None:
    """Raise ConfigError METRIC_NOT_MEASURED for a gate on a segment of items that lacks the metric."""
    for pair, side in product(gated, sides):
        value, segment = pair.gate.value, pair.gate.segment
        if segment in side.item_segments and value not in side.item_metrics:
            message = f"{pair.gate}: {value} is not measured by segments of items"
            raise ConfigError("METRIC_NOT_MEASURED", f"{message}, only metrics of hits are")


def has_rows(against: BaselineName, sides: Sides, gated: Sequence[GatedPair]) -> bool:
    """Return True if the comparison with this baseline has rows of its own.

    It has none if gates pass without this baseline, if no gate against it pairs users, or if gates are given
    and the candidate has no metric per user.
    """
    candidate = sides.candidate
    pairs = [pair for pair in gated if pair.gate.against_run == against.run]
    if {pair.gate.pairing for pair in pairs} == {Pairing.NONE} or (gated and not candidate.metrics):
        return False
    models = set(sides.baseline(against.run).models if sides.has(against.run) else [])
    named = set(candidate.models) if against.model is None else {against.model}
    return bool(models & named) or all(pair.missing is None for pair in pairs)


def compare_pairs(
    baseline: Side,
    candidate: Side,
    plan: ComparePlan,
    gated: Sequence[GatedPair],
    against: BaselineName | None,
) -> Comparison:
    """Compare models of two sides in one pass, with the sums that gates need; ``gate_rows`` are left out.

    ``against`` names the baseline of the rows; None if only gates need the sums.
    """
    models, metrics = (None, None) if baseline is candidate else (baseline.models, baseline.metrics)
    plan = replace(plan, test_train_ratio=plan.test_train_ratio or candidate.users.test_train_ratio)
    shown = Requested()
    if against is None:
        gated_slices = plan.slices if any(pair.gate.every_slice for pair in gated) else None
        plan = replace(plan, tests=(), interval=Interval.T, equivalence=None, slices=gated_slices)
    else:
        matched = match_models(models, candidate.models, against.model, plan)
        shown = replace(
            matched, metrics=match_metrics(metrics, candidate.metrics, plan), segments=plan.segments
        )
    check_item_gates(gated, baseline, candidate)
    requested = shown.with_gates(gated, metrics, candidate.metrics)
    check_comparable(baseline, candidate, requested.metrics)
    found = (
        compare_lists(baseline, candidate, plan, shown, requested)
        if candidate.values_by_model is None
        else compare_predictions(baseline, candidate, plan, shown, requested)
    )
    cells, counts, pairs = found.cells, found.counts, requested.pairs
    run = None if baseline is candidate else baseline.run
    slices = found_slices(found, plan, shown, requested, run, candidate.conventions)
    entries = [*model_entries(shown), *pair_entries(pairs, counts, found.moved)]
    for name, of_items in found.of_items.items():
        entries += pair_entries(pairs, of_items.counts, (), name)
    entries += slices.entries
    check_closed(entries)
    rows = comparison_rows(found.of_rows, plan, run, candidate.conventions)
    n_folds = len({cell.segment_value for cell in cells.values() if cell.segment == FOLD})
    if n_folds and PairTest.T in plan.tests and not any(row.segment == FOLDS for row in rows):
        events.say("row_left_out", NO_RATIO.format(1 / (n_folds - 1)), logging.WARNING)
    return Comparison(
        rows=rows,
        gate_rows=[],
        entries=entries,
        pairs=shown.pairs,
        sums={key: cell.of_users for key, cell in cells.items()},
        common=users_of(pairs, counts),
        spark=candidate.users.frame.session,
        slice_rows=slices.rows,
        slice_sums=slices.sums,
    )
