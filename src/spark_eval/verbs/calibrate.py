"""The verb ``calibrate``: tell which offline metric has predicted the effects of past experiments."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from spark_eval.accounting import ACCOUNTING as ACCOUNTING_TABLE
from spark_eval.accounting import Entry, check_accounting
from spark_eval.calibration.plan import CalibrateOptions
from spark_eval.calibration.programme import (
    RunRows,
    Trial,
    calibrate_programme,
    forecast_row,
    read_programme,
)
from spark_eval.calibration.rows import (
    FORECAST,
    FORECASTS_TABLE,
    SHIPPED,
    SHOWN,
    forecast_lines,
    forecast_sentence,
    sentence,
    shipped_lines,
    shown_lines,
)
from spark_eval.calibration.section import CalibrateSection
from spark_eval.errors import DataError, nearest
from spark_eval.names import summarize_names
from spark_eval.options import meanings
from spark_eval.publishing.attempt import Store
from spark_eval.publishing.commits import published, records_of
from spark_eval.publishing.published import open_table
from spark_eval.publishing.stores import store_of
from spark_eval.runs.job import Job, JobKind, Run, fingerprints_of
from spark_eval.runs.run import needed
from spark_eval.runs.sections import Config
from spark_eval.runs.verb import ACCOUNTING, Computed, Published, Screen, Verb, Work
from spark_eval.runtime.any_session import OpenSession
from spark_eval.schema import Outcome, Reason, Table
from spark_eval.verbs.kinds import READ_BY

NAME: Final = "calibrate"
# Source of its lines in the accounting.
PROGRAMME: Final = "programme"
OFFLINE, ONLINE = READ_BY[NAME]


def compute(work: Work) -> Computed:
    """Calibrate each metric against each goal, and forecast the effects of new candidates."""
    asked, store = needed(work.config.calibrate, NAME), work.job.store
    trials = read_programme(asked.programme)
    if job_of_trials(VERB, work.config, work.job.run_id, store, trials).fingerprint != work.job.fingerprint:
        message = f"{asked.programme!r} or a run of it changed during the run; start again"
        raise DataError("INPUT_CHANGED_DURING_RUN", message)
    comparisons = rows_of_runs(store, OFFLINE, Table.COMPARISONS, (trial.offline_run for trial in trials))
    experiments = rows_of_runs(store, ONLINE, Table.EXPERIMENTS, (trial.online_run for trial in trials))
    calibration = calibrate_programme(trials, comparisons, experiments, asked.checked())
    forecasts = [forecast_row(calibration, candidate) for candidate in asked.predict]
    entries = entries_of(trials, comparisons, experiments)
    return Computed(
        rows={
            **calibration.small_tables,
            Table.FORECASTS: (forecasts, FORECASTS_TABLE),
            Table.ACCOUNTING: (entries, ACCOUNTING_TABLE),
        },
        entries=entries,
        facts={"parts": {run: known for run, known in work.job.runs.items() if known is not None}},
        n_rows=len(calibration.rows),
    )


def show(run: Run, screen: Screen) -> None:
    """Print the correlations with a sentence for each, what shipping has brought, and forecasts."""
    rows, of_run = run.rows(Table.CALIBRATION), f"of run {run.run_id}"
    screen.grid(SHOWN, shown_lines(rows), f"calibration {of_run}", of=Table.CALIBRATION)
    for row in rows:
        screen.say(sentence(row))
    screen.grid(SHIPPED, shipped_lines(rows), "shipped if certainly better offline", of=Table.CALIBRATION)
    if Table.FORECASTS in run.tables:
        forecasts = run.rows(Table.FORECASTS)
        screen.grid(FORECAST, forecast_lines(forecasts), f"forecasts {of_run}", of=Table.FORECASTS)
        for row in forecasts:
            screen.say(forecast_sentence(row))
        screen.say("forecasts take the fitted values as known: their own uncertainty is left out")


def check(_verb: Verb, config: Config, session: OpenSession) -> list[str]:
    """Check that the runs of the programme are published; return their names."""
    asked = needed(config.calibrate, NAME)
    trials, store = read_programme(asked.programme), store_of(config.output, session)
    check_runs(store, trials, asked)
    return [f"run {run}" for run in runs_of(trials)]


def options() -> list[tuple[str, str]]:
    """Return the options of its section, with their meanings."""
    keys = ("programme", "if_missing", "predict")
    own = [(key, f"{CalibrateSection.model_fields[key].description}.") for key in keys]
    return [*own, *meanings(CalibrateOptions)]


def job_of_programme(verb: JobKind, config: Config, run_id: str | None, session: OpenSession) -> Job:
    """Return the job of a calibration, which reads published runs instead of sources.

    Raises the errors of ``read_programme`` and ``check_runs``.
    """
    asked, store = needed(config.calibrate, NAME), store_of(config.output, session)
    trials = read_programme(asked.programme)
    check_runs(store, trials, asked)
    return job_of_trials(verb, config, run_id, store, trials)


def job_of_trials(
    verb: JobKind, config: Config, run_id: str | None, store: Store, trials: Sequence[Trial]
) -> Job:
    """Return the job of a calibration of these trials."""
    reads = READ_BY[NAME]
    return Job.of_runs(
        verb, config, run_id, store, fingerprints_of(store, runs_of(trials), reads), reads, trials
    )


def runs_of(trials: Iterable[Trial]) -> list[str]:
    """Return the ids of the runs of a programme."""
    return sorted({run for trial in trials for run in (trial.online_run, trial.offline_run)})


def check_runs(store: Store, trials: Iterable[Trial], asked: CalibrateSection) -> None:
    """Raise DataError UNKNOWN_RUN for runs that are not published, unless they are left out."""
    if asked.if_missing == "leave_out":
        return
    pairs = {
        (verb, run)
        for one in trials
        for verb, run in zip(READ_BY[NAME], (one.offline_run, one.online_run), strict=True)
    }
    lacking = [(verb, run) for verb, run in sorted(pairs) if verb not in records_of(store.files, run)]
    if lacking:
        verb, run = lacking[0]
        known = {record.run_id for record in published(store.files) if record.verb == verb}
        hint = nearest(run, known) if known else f"no run of {verb} is published here"
        missing = summarize_names([f"{run} of {verb}" for verb, run in lacking])
        message = f"not published: {missing}; {hint}; if_missing: leave_out leaves their experiments out"
        raise DataError("UNKNOWN_RUN", message)


def rows_of_runs(store: Store, verb: str, table: Table, runs: Iterable[str]) -> RunRows:
    """Return the rows of a table of published runs of a verb, None for a run that is not published.

    Raises DataError MISSING_TABLE for a run without this table, and as ``open_table`` does.
    """
    rows: dict[str, Sequence[dict[str, object]] | None] = {}
    for run in sorted(set(runs)):
        record = records_of(store.files, run).get(verb)
        if record is not None and table not in record.job["tables"]:
            raise DataError("MISSING_TABLE", f"run {run!r} of {verb} has no table {table!r}")
        rows[run] = None if record is None else open_table(store.files, record, table).rows()
    return rows


def entries_of(trials: Sequence[Trial], comparisons: RunRows, experiments: RunRows) -> list[Entry]:
    """Return the accounting of a programme: trials whose runs are published, and those left out."""
    is_used = Counter(
        None not in (comparisons[trial.offline_run], experiments[trial.online_run]) for trial in trials
    )
    entries = [
        Entry(PROGRAMME, None, Outcome.IN, None, len(trials), None),
        Entry(PROGRAMME, None, Outcome.USED, None, is_used[True], None),
        Entry(PROGRAMME, None, Outcome.DROPPED, Reason.MISSING_RUN, is_used[False], None),
    ]
    entries = [entry for entry in entries if entry.rows]
    check_accounting(entries)
    return entries


VERB = Verb(
    name=NAME,
    about="It reads published runs of compare and online, which calibrate.programme names.",
    sections=(NAME,),
    tables=(
        Published(Table.CALIBRATION),
        Published(Table.PROGRAMME),
        Published(
            Table.FORECASTS,
            is_asked=lambda config: config.calibrate is not None and bool(config.calibrate.predict),
        ),
        ACCOUNTING,
    ),
    phases=("calibrate",),
    compute=compute,
    show=show,
    job=job_of_programme,
    check=check,
    options=options,
    opens_spark=False,
)
