"""Metrics of predictions: rows of a label and a score in, metrics, curves, thresholds and the ledger out."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from spark_eval.accounting import ACCOUNTING, Entry, check
from spark_eval.engine.summary import MetricRow
from spark_eval.errors import DataError
from spark_eval.names import model_faults, models_shown
from spark_eval.pointwise.amounts import N_LIMBS
from spark_eval.pointwise.batches import Counted, Reading, outline
from spark_eval.pointwise.cuts import Extent, Sample, cuts_of, standings
from spark_eval.pointwise.options import make_plan
from spark_eval.pointwise.ordered import Candidate, Points
from spark_eval.pointwise.tables import (
    CURVES,
    METRICS,
    THRESHOLDS,
    curve_rows,
    metric_rows,
    threshold_rows,
)
from spark_eval.pointwise.task import Plan
from spark_eval.pointwise.totals import Cell, Totals, segment_faults
from spark_eval.pointwise.valid import SoundReading
from spark_eval.runtime import events
from spark_eval.schema import Outcome
from spark_eval.transforms.objects import each, made, made_of_files
from spark_eval.transforms.plain_files import plain_predictions
from spark_eval.transforms.predictions import SOURCE, Predictions, conform_predictions
from spark_eval.transforms.scored import in_order, in_ranges, of_users
from spark_eval.verbs.checks import share_faults
from spark_eval.verbs.frames import Frame, in_spark
from spark_eval.verbs.small import collected, small_table

# What a task sorts together, about: distinct scores of both labels, rows of users.
SCORES_PER_RANGE: Final = 1_000_000
ROWS_PER_BUCKET: Final = 1_000_000


@dataclass(repr=False)
class PredictionMetrics:
    """What came of predictions: exact sums by cell, and of every cell the candidates and the curves."""

    spark: SparkSession
    plan: Plan
    totals: Totals
    entries: Sequence[Entry]
    candidates: Mapping[Cell, Sequence[Sequence[Candidate | None]]] = field(default_factory=dict)
    points: Mapping[Cell, Sequence[Points]] = field(default_factory=dict)
    n_scores: Mapping[Cell, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        tables = "metrics, thresholds, curves, accounting are DataFrames"
        return f"PredictionMetrics of {models_shown(self.models)}: {', '.join(self.plan.metrics)}; {tables}"

    @cached_property
    def metric_rows(self) -> list[MetricRow]:
        """The rows of ``metrics``."""
        return metric_rows(self.totals, self.plan)

    @cached_property
    def threshold_rows(self) -> list[tuple[Any, ...]]:
        """The rows of ``thresholds``."""
        return threshold_rows(self.totals, self.plan, self.candidates)

    @cached_property
    def curve_rows(self) -> list[tuple[Any, ...]]:
        """The rows of ``curves``."""
        return curve_rows(self.totals, self.plan, self.points, self.n_scores)

    @cached_property
    def metrics(self) -> DataFrame:
        """The table ``metrics``: a value per model, segment and metric."""
        return small_table(self.spark, self.metric_rows, METRICS)

    @cached_property
    def thresholds(self) -> DataFrame:
        """The table ``thresholds``: what was chosen by each rule, and what it gives."""
        return small_table(self.spark, self.threshold_rows, THRESHOLDS)

    @cached_property
    def curves(self) -> DataFrame:
        """The table ``curves``: the points of ROC, P-R and calibration curves."""
        return small_table(self.spark, self.curve_rows, CURVES)

    @cached_property
    def accounting(self) -> DataFrame:
        """The table ``accounting``: what became of every row."""
        return small_table(self.spark, self.entries, ACCOUNTING)

    @property
    def models(self) -> list[str]:
        """The models that were measured."""
        return sorted({str(model) for model, _, _ in self.totals.sums})


@events.telling("evaluate_predictions")
def evaluate_predictions(
    predictions: Frame,
    task: str,
    *,
    model: str | None = None,
    columns: Mapping[str, str] | None = None,
    **options: Any,
) -> PredictionMetrics:
    """Metrics of predictions, of one or many models, in one pass over the rows.

    ``predictions``, of Spark or pandas or an Arrow table, hold label and score, and perhaps model (or name
    the one model by ``model``), user, item, weight, fold; ``columns`` maps our names to yours. ``task`` is
    binary, multiclass or regression. The other options are those of the section ``predictions`` of the
    config: scores, positive, negative, classes, probabilities, metrics, thresholds, choose, segments,
    sampling_rate, bins, curves, curve_points, conventions.

    Raises ConfigError or DataError; the ledger is closed before any number is given out.
    """
    plan = make_plan(task, **options)
    rows = in_spark({SOURCE: predictions})[SOURCE]
    return measure_predictions(read_predictions(rows, columns, model, plan))


def read_predictions(
    frame: DataFrame, columns: Mapping[str, str] | None, model: str | None, plan: Plan
) -> Predictions:
    """The conformed predictions, and their files if the workers can read these."""
    found = conform_predictions(frame, columns, model, plan)
    return replace(found, files=plain_predictions(frame, columns or {}, model, found.plan))


def measure_predictions(
    predictions: Predictions, most_quarantined: Mapping[str, float] | None = None
) -> PredictionMetrics:
    """The data path: sums of all rows in one pass; with what follows from order, one shuffle by score.

    Raises one DataError for all that is wrong; more than a share ``most_quarantined`` of the rows is.
    """
    plan = predictions.plan
    reading = Reading(plan, predictions.model, predictions.n_scores, predictions.has_weight)
    with ExitStack() as kept:
        parts, counted, samples, n_user_rows = read_once(predictions, reading, kept)
        entries = entries_of(counted.rows)
        shares = share_faults(entries, {SOURCE: predictions.given}, most_quarantined or {})
        of_segments = segment_faults(counted.totals.sums)
        check(entries, [*sound_faults(counted.rows), *of_segments, *shares])
        spark, totals = predictions.rows.sparkSession, counted.totals
        if n_user_rows:
            for found in collected(of_users(parts, 1 + n_user_rows // ROWS_PER_BUCKET)):
                totals.merge(found)
        measured = PredictionMetrics(spark, plan, totals, entries)
        if plan.by_score:
            add_order(measured, parts, samples, N_LIMBS if predictions.has_weight else 1, kept)
        return measured


def read_once(
    predictions: Predictions, reading: Reading, kept: ExitStack
) -> tuple[DataFrame, Counted, list[Sample], int]:
    """The parts of all rows, and what the driver sees of them.

    Plain files are read once more, by Spark, where a row has a fault.
    """
    spark, plan, files = predictions.rows.sparkSession, reading.plan, predictions.files
    ways = [partial(made, predictions.rows, reading.parts)]
    if files is not None:
        ways.insert(0, partial(made_of_files, spark, files, SoundReading(reading).parts))
    for way in ways:
        parts = keep(way(), kept) if plan.by_score or plan.by_user else way()
        counted, samples, n_user_rows = told(collected(each(parts, lambda part: [outline(part)])))
        if counted.is_sound:
            break
    return parts, counted, samples, n_user_rows


def add_order(
    measured: PredictionMetrics, parts: DataFrame, samples: Sequence[Sample], n_limbs: int, kept: ExitStack
) -> None:
    """Add what follows from the order of scores: each range sees what stands above it."""
    plan = measured.plan
    ranges = keep(in_ranges(parts, cuts_of(samples, SCORES_PER_RANGE), n_limbs), kept)
    extents = collected(each(ranges, lambda part: [Extent.of(part)]))
    standing = standings(extents, plan.curve_points)
    found = collected(in_order(ranges, standing, plan.rules, plan.curves))
    candidates: dict[Cell, list[Sequence[Candidate | None]]] = defaultdict(list)
    points: dict[Cell, list[Points]] = defaultdict(list)
    for part in sorted(found, key=lambda part: part.number):
        for name, sums in part.sums.items():
            measured.totals.add_sums(part.cell, name, sums)
        candidates[part.cell].append(part.candidates)
        points[part.cell] += part.points
    n_scores = Counter[Cell]()
    for extent in extents:
        n_scores[extent.cell] += extent.n_scores
    measured.candidates, measured.points, measured.n_scores = candidates, points, n_scores


def keep(rows: DataFrame, kept: ExitStack) -> DataFrame:
    """Compute rows once, and keep them in memory or on disk until ``kept`` is closed."""
    kept.callback(rows.unpersist)
    return rows.persist(StorageLevel.MEMORY_AND_DISK)


def told(outlines: Iterable[Counted | Sample | int]) -> tuple[Counted, list[Sample], int]:
    """All that was counted, the samples of all runs, the number of users' rows."""
    counted, samples, n_user_rows = Counted(), [], 0
    for one in outlines:
        match one:
            case Counted():
                counted.totals.merge(one.totals)
                counted.rows.update(one.rows)
                counted.is_sound &= one.is_sound
            case Sample():
                samples.append(one)
            case _:
                n_user_rows += one
    return counted, samples, n_user_rows


def entries_of(rows: Mapping[tuple[str | None, str | None], int]) -> list[Entry]:
    """The lines of the ledger: per model what came in, what is used, what is quarantined and why."""
    entries = []
    for model in sorted({model for model, _ in rows}, key=str):
        mine = {fault: n_rows for (name, fault), n_rows in rows.items() if name == model}
        entries.append(Entry(SOURCE, model, Outcome.IN, None, sum(mine.values()), None))
        for fault in sorted(mine, key=lambda fault: fault or ""):
            outcome = Outcome.USED if fault is None else Outcome.QUARANTINED
            entries.append(Entry(SOURCE, model, outcome, fault, mine[fault], None))
    return entries


def sound_faults(rows: Mapping[tuple[str | None, str | None], int]) -> list[DataError]:
    """Models without a proper name, or without a single row that can be used."""
    models = sorted({model for model, _ in rows if model is not None})
    faults = model_faults(models, SOURCE)
    if not rows:
        faults.append(DataError("EMPTY_PREDICTIONS", f"{SOURCE}: not a single row"))
    for model in models:
        if (model, None) not in rows:
            codes = ", ".join(sorted({str(fault) for name, fault in rows if name == model}))
            message = f"{SOURCE} of model {model!r}: not a single row can be used ({codes})"
            faults.append(DataError("EMPTY_PREDICTIONS", message))
    return faults
