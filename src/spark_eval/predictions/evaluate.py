"""Metrics of predictions: from rows of label and score to metrics, curves, thresholds and accounting."""

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Final, Unpack

import pyarrow as pa

from spark_eval.accounting import ACCOUNTING, Entry, check_accounting, unusable
from spark_eval.errors import ConfigError, DataError
from spark_eval.names import model_faults, models_shown, summarize_names
from spark_eval.options import checked_call, documented
from spark_eval.predictions import PREDICTION_METRICS
from spark_eval.predictions.measure import (
    PREDICTIONS,
    PredictionTable,
    counts_of_tasks,
    group_by_range,
    measure_ranges,
    per_user_rows,
    range_sizes,
    replicate_values,
    sum_influences,
    sums_over_users,
    sums_per_user,
    task_outputs,
    with_placements,
)
from spark_eval.predictions.plan import MOST_QUARANTINED, PredictionOptions, make_prediction_plan
from spark_eval.predictions.specs import specs_of, table_of
from spark_eval.predictions.tables import (
    CURVES,
    METRICS,
    SUMS,
    THRESHOLDS,
    MeasuredPredictions,
    metrics_by_model,
)
from spark_eval.predictions.task import ECE, Clusters, PredictionPlan
from spark_eval.predictions.values import CellValues, ModelValues, SlopedValue
from spark_eval.predictions.worker.batches import TaskCounts
from spark_eval.predictions.worker.clusters import N_USERS, InfluenceSums
from spark_eval.predictions.worker.ordered import RangeOffset, RangeResult
from spark_eval.predictions.worker.score_ranges import range_offsets, score_ranges
from spark_eval.predictions.worker.totals import Cell, Totals, segment_faults
from spark_eval.results.driver_tables import SmallRows
from spark_eval.results.exported import SmallFrame
from spark_eval.results.shown import TextTable, Writable
from spark_eval.runners.door import open_given
from spark_eval.runners.local_rows import LocalTable
from spark_eval.runners.quarantine import HINTS, share_faults
from spark_eval.runners.rows import Rows
from spark_eval.runners.spread import collect_objects, n_buckets_of
from spark_eval.runners.user_buckets import UserTable
from spark_eval.runtime import events
from spark_eval.runtime.any_session import release_with
from spark_eval.schema import ALL, Outcome, Table
from spark_eval.tables.arrow_frames import Frame, like_given
from spark_eval.users.cells import SegmentValue

# Approximate number of rows that a task sorts: distinct scores per label.
SCORES_PER_RANGE: Final = 1_000_000
# With fewer rows a bin, chance alone adds .01 or more to the calibration error.
FEW_ROWS_PER_BIN: Final = 500


@events.timed_call("evaluate_predictions")
@documented(PredictionOptions)
@checked_call
def evaluate_predictions(
    predictions: Frame,
    task: str,
    *,
    model: str | None = None,
    columns: Mapping[str, str] | None = None,
    max_quarantined: float = MOST_QUARANTINED,
    engine: str | None = None,
    **options: Unpack[PredictionOptions],
) -> "Predictions":
    """Compute metrics of predictions, for one or many models, in one pass over the rows.

    Every row is accounted for before any value is returned.

    The options under *Keyword args* are also keys of the config's section ``predictions``.

    Args:
        predictions: One row per prediction: ``label``, ``score``, and optionally ``model``, ``user``,
            ``item``, ``weight`` and ``fold``. A Spark, pandas or polars frame, an Arrow table, or the path of
            Parquet files.
        task: ``binary``, ``multiclass`` or ``regression``.
        model: Name of the only model, if ``predictions`` has no column ``model``.
        columns: Mapping of these names to the column names of ``predictions``.
        max_quarantined: Largest share of each model's rows that may be quarantined, in [0, 1].
        engine: ``local`` for this process, ``spark``, or ``auto``: this process for pandas, polars and Arrow
            frames and for plain Parquet files of this machine, otherwise Spark. By default that of the
            environment variable ``SPARK_EVAL_ENGINE``, otherwise ``auto``.

    Returns:
        A ``Predictions``: ``metrics``, ``sums``, ``thresholds``, ``curves``, ``accounting``; ``summary()``,
        ``plot()``, ``write()``.

    Raises:
        ConfigError: An option is unknown or invalid; NEEDS_SPARK for rows that ``engine="local"`` cannot
            take.
        DataError: The rows cannot be evaluated, for example QUARANTINE_SHARE if too many are invalid. One
            error lists everything that was found.

    Examples:
        Of four pairs of a positive and a negative row, three are in the right order:

        >>> import pandas as pd
        >>> from spark_eval import evaluate_predictions
        >>> clicks = pd.DataFrame({"label": [0, 1, 1, 0], "score": [0.1, 0.9, 0.4, 0.5]})
        >>> found = evaluate_predictions(clicks, "binary", model="ctr", metrics=["auc"])
        >>> found.to_pandas()[["metric", "value"]]
          metric  value
        0    auc   0.75
    """
    plan = make_prediction_plan(task, **options)
    if not 0 <= max_quarantined <= 1:
        raise ConfigError("OUT_OF_RANGE", f"max_quarantined: {max_quarantined} is not in [0, 1]")
    rows = open_given({PREDICTIONS: predictions}, specs_of(plan, model), engine, {PREDICTIONS: columns or {}})
    result = measure_predictions(table_of(rows, plan, model), {PREDICTIONS: max_quarantined})
    is_local = rows[PREDICTIONS].session is None
    return replace(result, convert=partial(like_given, given=predictions)) if is_local else result


def measure_predictions(
    predictions: PredictionTable, most_quarantined: Mapping[str, float] | None = None
) -> "Predictions":
    """Sum all rows in one pass; sort by score and by user in one shuffle each, if a metric needs it.

    One more shuffle by user has the sums of each user, if standard errors are computed.

    ``most_quarantined`` has the largest share of rows that may be quarantined. Raises one DataError that
    lists everything found.
    """
    plan, results = predictions.plan, dict[Cell, list[RangeResult]]()
    with ExitStack() as resources:
        outputs = task_outputs(predictions)
        if plan.by_score or plan.by_user or plan.has_errors:
            outputs = outputs.persist(resources)
        counts = TaskCounts()
        for one in collect_objects(counts_of_tasks(outputs)):
            counts += one
        entries = checked_entries(predictions, counts, most_quarantined or {})
        if plan.by_user:
            n_buckets = n_buckets_of(counts.n_user_rows)
            for totals in collect_objects(sums_over_users(outputs, n_buckets, predictions.reader)):
                counts.totals += totals
        rows = outputs
        if plan.by_score:
            ranges = score_ranges(counts.samples, SCORES_PER_RANGE)
            by_range = group_by_range(outputs, ranges).persist(resources)
            offsets = range_offsets(collect_objects(range_sizes(by_range)), plan.curve_points)
            results = range_results(by_range, offsets, plan)
            rows = with_placements(by_range, offsets, plan)
        for part in chain.from_iterable(results.values()):
            counts.totals.add_all(part.cell, part.sums)
        session, user_type = predictions.session, predictions.user_type
        result = Predictions(plan, counts.totals, results, Totals(), session, entries, user_type)
        if plan.has_errors:
            n_buckets = n_buckets_of(counts.n_cell_rows)
            result = with_errors(result, sums_per_user(rows, n_buckets, plan))
            release_with(result, result.resources)
    warn_of_few_rows(result)
    return result


def warn_of_few_rows(result: "Predictions") -> None:
    """Warn FEW_ROWS_PER_BIN of models with few rows in a bin of their calibration: chance adds to ``ece``."""
    few, n_bins = [], result.plan.bins
    for (model, segment, _), sums in result.sums_by_cell() if ECE in result.plan.metrics else ():
        if segment == ALL:
            weights = sums.sums["bins"]
            n_filled = sum(bool(weights[at] + weights[n_bins + at]) for at in range(n_bins))
            if sums.n_rows < FEW_ROWS_PER_BIN * n_filled:
                few.append(str(model))
    if few:
        message = f"FEW_ROWS_PER_BIN: ece of {summarize_names(few)} is over fewer than {FEW_ROWS_PER_BIN}"
        message += " rows for each bin with any, and too large by chance; take ece_debiased, or fewer bins"
        events.say("few_rows_per_bin", message, logging.WARNING, models=few)


def with_errors(result: "Predictions", sums: Rows) -> "Predictions":
    """Return the result with standard errors from the sums of each user, which it keeps if asked by user."""
    with ExitStack() as resources:
        sums, influences = sums.persist(resources), InfluenceSums()
        for one in collect_objects(sum_influences(sums, result.slopes)):
            influences += one
        is_drawn = bool(result.plan.bootstrapped)
        return replace(
            result,
            replicates=dict(collect_objects(replicate_values(sums, list(result.values)))) if is_drawn else {},
            influences=influences.totals,
            digests=influences.digests_of(result.values),
            user_sums=sums if result.plan.intervals is Clusters.USER else None,
            resources=resources.pop_all(),
        )


def range_results(
    ranges: Rows, offsets: Mapping[int, RangeOffset], plan: PredictionPlan
) -> dict[Cell, list[RangeResult]]:
    """Return the results of score ranges in order, by cell; each range uses the totals above it."""
    found: list[RangeResult] = collect_objects(measure_ranges(ranges, offsets, plan.rules, plan.curves))
    by_cell: dict[Cell, list[RangeResult]] = defaultdict(list)
    for part in sorted(found, key=lambda part: part.number):
        by_cell[part.cell].append(part)
    return by_cell


def checked_entries(
    predictions: PredictionTable, counts: TaskCounts, most_quarantined: Mapping[str, float]
) -> list[Entry]:
    """Return the entries of the accounting; raise one DataError that lists everything found."""
    entries = entries_of(counts.rows)
    shares = share_faults(entries, {PREDICTIONS: predictions.judged_by_model}, most_quarantined)
    of_segments = segment_faults(counts.totals.sums)
    check_accounting(entries, [*unusable_models(counts.rows), *of_segments, *shares])
    return entries


def entries_of(rows: Mapping[tuple[str | None, str | None], int]) -> list[Entry]:
    """Return the numbers of input, used and quarantined rows per model, the latter by code."""
    entries = []
    for model in sorted({model for model, _ in rows}, key=str):
        by_fault = {fault: n_rows for (name, fault), n_rows in rows.items() if name == model}
        entries.append(Entry(PREDICTIONS, model, Outcome.IN, None, sum(by_fault.values()), None))
        for fault in sorted(by_fault, key=lambda fault: fault or ""):
            outcome = Outcome.USED if fault is None else Outcome.QUARANTINED
            entries.append(Entry(PREDICTIONS, model, outcome, fault, by_fault[fault], None))
    return entries


def unusable_models(rows: Mapping[tuple[str | None, str | None], int]) -> list[DataError]:
    """Return an error for each model with an invalid name or without any valid row."""
    models = sorted({model for model, _ in rows if model is not None})
    faults = model_faults(models, PREDICTIONS)
    if not rows:
        faults.append(DataError("EMPTY_PREDICTIONS", f"{PREDICTIONS}: not a single row"))
    for model in models:
        if (model, None) not in rows:
            codes = ", ".join(sorted({str(fault) for name, fault in rows if name == model}))
            message = f"{PREDICTIONS} of model {model!r}: not a single row can be used ({codes})"
            message += HINTS.get((PREDICTIONS, codes), "")
            faults.append(DataError("EMPTY_PREDICTIONS", message))
    return faults


@dataclass(frozen=True, repr=False)
class Predictions(MeasuredPredictions, Writable):
    """Result of ``evaluate_predictions``: the rows of all tables, and the tables as DataFrames.

    Examples:
        ``found`` is the result of the example of ``evaluate_predictions``:

        >>> found.models
        ['ctr']
    """

    spark: Any  # SparkSession | None
    entries: Sequence[Entry]
    user_type: pa.DataType | None = None
    digests: Mapping[Cell, str] = field(default_factory=dict)
    user_sums: Any = None
    convert: Callable[[Any], Any] = lambda table: table
    resources: ExitStack = field(default_factory=ExitStack)
    verb: ClassVar[str] = PREDICTIONS
    prediction_metrics = PREDICTION_METRICS
    tables: ClassVar[tuple[str, ...]] = ("metrics", "sums", "thresholds", "curves", "accounting")
    on_request: ClassVar[tuple[str, ...]] = ("per_user",)

    def shown(self) -> list[TextTable]:
        """Return a line per metric over all rows, with a column per model."""
        title = f"Predictions of {models_shown(self.models)}"
        header, lines = metrics_by_model([row._asdict() for row in self.metric_rows])
        return [TextTable(title, header, lines, unusable(self.entries))]

    def __repr__(self) -> str:
        names = ", ".join(self.plan.metrics)
        tables = "metrics, sums, thresholds, curves, accounting are DataFrames"
        text = f"Predictions of {models_shown(self.models)}: {names}; {tables}"
        return "; ".join([text, *unusable(self.entries)])

    @property
    def record(self) -> dict[str, str]:
        """The conventions."""
        return {"conventions": self.plan.stamp}

    @property
    def small_tables(self) -> dict[str, SmallRows]:
        """The rows of all tables."""
        return {
            Table.METRICS: (self.metric_rows, METRICS),
            Table.SUMS: (self.sum_rows, SUMS),
            Table.CURVES: (self.curve_rows, CURVES),
            Table.THRESHOLDS: (self.threshold_rows, THRESHOLDS),
            Table.ACCOUNTING: (self.entries, ACCOUNTING),
        }

    @property
    def per_user(self) -> Any:
        """The table ``per_user``: exact sums of the rows of each user, and nothing else of them.

        With segments or folds a user has such a row for each value, too; see ``segment`` and
        ``segment_value``, both ``all`` in the sums of all rows.

        It is a Spark frame; in this process it is a frame of the kind that was given.

        Raises:
            ConfigError: NO_USERS without ``intervals: user``.

        Examples:
            ``clicks`` as in the example of ``evaluate_predictions``, with a column ``user``:

            >>> clicks = clicks.assign(user=[1, 1, 2, 2])
            >>> options = {"metrics": ["mae"], "intervals": "user", "engine": "local"}
            >>> by_user = evaluate_predictions(clicks, "binary", model="ctr", **options)
            >>> by_user.per_user.set_index("user")["error"].sort_index().round(6).tolist()
            [0.2, 1.1]
        """
        return self.convert(self.users.frame.result())

    @property
    def users(self) -> UserTable:
        """The per-user table as input of a comparison; raises ConfigError NO_USERS as ``per_user`` does."""
        if self.user_sums is None or self.user_type is None:
            raise ConfigError("NO_USERS", "there are no sums of users; set intervals: user")
        rows = per_user_rows(self.user_sums, self.user_type, self.plan)
        return UserTable(rows if self.spark is not None else LocalTable.of(rows.table()))

    @property
    def n_per_user(self) -> int:
        """Number of rows of ``per_user``."""
        return sum(int(self.influences.of(cell)[N_USERS][0]) for cell in self.influences.sums)

    @property
    def values_by_model(self) -> dict[str, ModelValues]:
        """Values that can be compared, by model; empty without sums of users."""
        by_model: dict[str, dict[SegmentValue, CellValues]] = defaultdict(dict)
        for cell, digest in self.digests.items():
            values = {
                value.name(name): SlopedValue(value.value, value.slopes)
                for name, value in self.values[cell]
                if value.value is not None and value.slopes and PREDICTION_METRICS[name].is_of_users
            }
            model, segment, segment_value = cell
            by_model[str(model)][segment, segment_value] = CellValues(values, digest)
        return {model: ModelValues(cells) for model, cells in by_model.items()}

    metrics = SmallFrame(Table.METRICS, "a value per model, segment and metric.")
    sums = SmallFrame(Table.SUMS, "the exact sums that days are merged from.")
    thresholds = SmallFrame(Table.THRESHOLDS, "what was chosen by each rule, and what it gives.")
    curves = SmallFrame(Table.CURVES, "the points of ROC, P-R and calibration curves.")
    accounting = SmallFrame(Table.ACCOUNTING, "what became of every row.")
