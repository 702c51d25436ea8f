"""A programme: past experiments by the runs that have their offline and online results."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.csv as pacsv

from spark_eval.calibration.calibrate import Calibration, calibrate_effects, row_of
from spark_eval.calibration.effects import (
    EXPERIMENT,
    GOAL,
    METRIC,
    TREATMENT,
    Effect,
    EffectKey,
    effects_of,
    named,
    offline_of_comparisons,
)
from spark_eval.calibration.plan import CalibratePlan
from spark_eval.calibration.rows import ForecastRow, NotUsed
from spark_eval.calibration.section import CandidateSection
from spark_eval.errors import ConfigError, DataError, raise_if_of_machine
from spark_eval.names import check_run_id, summarize_names
from spark_eval.runtime.local_files import local_path
from spark_eval.schema import ALL, Direction, Row
from spark_eval.tables.arrow_frames import read_arrow
from spark_eval.tables.columns import missing_column

FILE: Final = "calibrate.programme"
NEEDED: Final = (EXPERIMENT, "online_run", "offline_run")
# Rows of a table of each run; None if the run is not published.
RunRows = Mapping[str, Sequence[Row] | None]


class Trial(NamedTuple):
    """Row of a programme: an experiment, and the runs of ``online`` and ``compare`` that measured it."""

    experiment: str
    treatment: str | None
    online_run: str
    offline_run: str
    candidate: str | None
    baseline: str | None


def read_programme(path: str) -> list[Trial]:
    """Return the rows of a programme.

    Raises:
        ConfigError: UNSUPPORTED_INPUT for a file that is not on this machine; INVALID_RUN_ID.
        DataError: MISSING_INPUT, EMPTY_INPUT, MISSING_COLUMN, UNSUPPORTED_TYPE, NULL_ID, or
            DUPLICATE_EXPERIMENT for an experiment and treatment with several rows.
    """
    table = read_rows(path)
    for name in NEEDED:
        if name not in table.column_names:
            raise missing_column(FILE, name, {}, table.column_names)
    trials = [Trial(*values) for values in zip(*(texts(table, name) for name in Trial._fields), strict=True)]
    if not trials:
        raise DataError("EMPTY_INPUT", f"{FILE}: {path!r} has no rows")
    for trial in trials:
        for name in NEEDED:
            if getattr(trial, name) is None:
                raise DataError("NULL_ID", f"{FILE}: column {name!r} has rows without a value")
        check_run_id(trial.online_run)
        check_run_id(trial.offline_run)
    counts = Counter(trial[:2] for trial in trials)
    if several := sorted({experiment for (experiment, _), n_rows in counts.items() if n_rows > 1}):
        message = f"{FILE}: several rows of {summarize_names(several)}"
        raise DataError("DUPLICATE_EXPERIMENT", f"{message}; give one per experiment and treatment")
    return sorted(trials, key=lambda trial: (trial.experiment, trial.treatment or ""))


def read_rows(path: str) -> pa.Table:
    """Return a CSV file, by the end of its name, or Parquet files; cells of CSV are text, empty ones null."""
    local = local_path(path)
    if local is None:
        raise ConfigError("UNSUPPORTED_INPUT", f"{FILE}: {path!r} is not on this machine; copy it here")
    if local.suffix.lower() != ".csv":
        return read_arrow(FILE, local)
    try:
        # The names of the columns first, so that none is taken for a number or a time.
        with pacsv.open_csv(local) as reader:
            kinds = dict.fromkeys(reader.schema.names, pa.string())
        options = pacsv.ConvertOptions(column_types=kinds, strings_can_be_null=True, null_values=[""])
        return pacsv.read_csv(local, convert_options=options)
    except (OSError, pa.ArrowException) as error:
        raise_if_of_machine(error, path)
        code = "MISSING_INPUT" if isinstance(error, OSError) else "CORRUPT_FILE"
        raise DataError(code, f"{FILE}: cannot read {path!r}: {error}") from error


def texts(table: pa.Table, name: str) -> list[str | None]:
    """Return a column as text; nulls if the table lacks it."""
    if name not in table.column_names:
        return [None] * len(table)
    try:
        found: list[str | None] = table[name].cast(pa.string()).to_pylist()
    except pa.ArrowException as error:
        message = f"{FILE}: column {name!r} is {table[name].type}; give text"
        raise DataError("UNSUPPORTED_TYPE", message) from error
    return found


def offline_of(trial: Trial, rows: Sequence[Row]) -> list[Row]:
    """Return the rows of a trial in ``comparisons`` of its run.

    Raises ConfigError UNKNOWN_MODEL if the run has not compared the models, DataError DUPLICATE_EXPERIMENT if
    it has compared several pairs of them.
    """
    wanted = {"candidate": trial.candidate, "baseline": trial.baseline}
    wanted = {name: model for name, model in wanted.items() if model is not None}
    of_models = [row for row in rows if all(row[name] == model for name, model in wanted.items())]
    start = f"experiment {trial.experiment!r}: run {trial.offline_run!r}"
    if not of_models:
        pairs = sorted({f"{row['candidate']} with {row['baseline']}" for row in rows})
        asked = " and ".join(f"{name} {model!r}" for name, model in wanted.items())
        message = f"{start} has no comparison of {asked or 'models'}; it compares {summarize_names(pairs)}"
        raise ConfigError("UNKNOWN_MODEL", message)
    pairs = sorted({f"{row['candidate']} with {row['baseline']}" for row in of_models})
    if len(pairs) > 1:
        message = f"{start} compares {summarize_names(pairs)}; name candidate and baseline in the programme"
        raise DataError("DUPLICATE_EXPERIMENT", message)
    return [{**row, **key_of(trial)} for row in offline_of_comparisons(of_models)]


def online_of(trial: Trial, rows: Sequence[Row], plan: CalibratePlan) -> list[Row]:
    """Return the rows of a trial in ``experiments`` of its run, turned by the direction of each metric.

    Raises ConfigError UNKNOWN_EXPERIMENT if the run has not the experiment, or not the treatment.
    """
    of_trial = [
        row
        for row in rows
        if row[EXPERIMENT] == trial.experiment and trial.treatment in (None, row[TREATMENT])
    ]
    if not of_trial:
        known = sorted({f"{row[EXPERIMENT]} ({row[TREATMENT]})" for row in rows})
        what = trial.experiment if trial.treatment is None else f"{trial.experiment} ({trial.treatment})"
        where = f"run {trial.online_run!r}"
        raise ConfigError.unknown("UNKNOWN_EXPERIMENT", "experiment", what, known, where)
    if len(treatments := sorted({row[TREATMENT] for row in of_trial})) > 1:
        message = f"experiment {trial.experiment!r} has treatments {summarize_names(treatments)}"
        raise DataError("DUPLICATE_EXPERIMENT", f"{message}; name one per row of the programme")
    return [
        {**row, **key_of(trial), GOAL: row[METRIC], "difference": turned(row, plan)}
        for row in of_trial
        if row["segment"] == ALL
    ]


def key_of(trial: Trial) -> Row:
    """Return the columns that tell the experiment of a row."""
    return {EXPERIMENT: trial.experiment, TREATMENT: trial.treatment}


def turned(row: Row, plan: CalibratePlan) -> float | None:
    """Return the difference of a row of ``experiments``, turned so that more is better."""
    is_lower = row[METRIC] in plan.lower or row["direction"] == Direction.LOWER
    difference: float | None = row["difference"]
    return difference if difference is None or not is_lower else -difference


def check_conventions(rows: Sequence[Row], column: str, wanted: Sequence[str] | None) -> None:
    """Raise DataError MIXED_CONVENTIONS if a metric was measured by several conventions."""
    stamps: dict[str, dict[str, str]] = {}
    for row in rows:
        name = named(row, column)
        if wanted is None or name in wanted:
            stamps.setdefault(name, {}).setdefault(row["conventions"], row[EXPERIMENT])
    for name, experiments in stamps.items():
        if len(experiments) > 1:
            (one, first), (other, second) = list(experiments.items())[:2]
            message = f"{name} of experiment {first!r} is by {one}, of {second!r} by {other}"
            raise DataError("MIXED_CONVENTIONS", f"{message}; measure them alike")


def calibrate_programme(
    trials: Sequence[Trial], comparisons: RunRows, experiments: RunRows, plan: CalibratePlan
) -> Calibration:
    """Return the calibration of a programme from the tables of its runs; see ``calibrate``.

    Trials whose runs are not published are left out, and counted. Raises the errors of ``calibrate``, of
    ``offline_of`` and ``online_of``, and DataError MIXED_CONVENTIONS.
    """
    offline_rows, online_rows = list[Row](), list[Row]()
    for trial in trials:
        if (rows := comparisons[trial.offline_run]) is not None:
            offline_rows += offline_of(trial, rows)
        if (rows := experiments[trial.online_run]) is not None:
            online_rows += online_of(trial, rows, plan)
    check_conventions(offline_rows, METRIC, plan.metrics)
    offline = effects_of("offline", offline_rows, METRIC, plan.sign_of)
    # A trial without either run has no effect; it is counted as one without an offline run.
    unknown: dict[EffectKey, Effect] = {
        (trial[:2], metric): Effect(None, None, NotUsed.NO_OFFLINE)
        for trial in trials
        for metric in {metric for _, metric in offline}
        if comparisons[trial.offline_run] is None and experiments[trial.online_run] is None
    }
    online = effects_of("online", online_rows, GOAL, lambda _goal: 1)
    return calibrate_effects(unknown | offline, online, plan, {})


def forecast_row(calibration: Calibration, candidate: CandidateSection) -> ForecastRow:
    """Return what to expect of a candidate; its reason if nothing was estimated.

    Raises ConfigError METRIC_NOT_MEASURED as ``Calibration.predict`` does.
    """
    row = row_of(calibration.rows, candidate.metric, candidate.goal)
    given = (row.metric, row.goal, candidate.difference, candidate.std_error, row.reason)
    if row.fitted is None:
        return ForecastRow(*given)
    forecast = row.fitted.predict(candidate.difference, candidate.std_error)
    return ForecastRow(*given, forecast.expected, forecast.deviation, forecast.p_win)
