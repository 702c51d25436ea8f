"""The verb ``calibrate``: which offline metric has predicted past experiments, from published runs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final, NamedTuple

from spark_eval.accounting import ACCOUNTING as ACCOUNTING_COLUMNS
from spark_eval.accounting import Entry, check_accounting
from spark_eval.calibration.calibrate import Calibration, calibrate_rows, row_of
from spark_eval.calibration.effects import GOAL, effects_of
from spark_eval.calibration.plan import CalibrateOptions, CalibratePlan, make_calibrate_plan
from spark_eval.calibration.programme import (
    PROGRAMME_FILE,
    PastExperiment,
    compared_rows,
    measured_rows,
    named_experiments,
    programme_of,
)
from spark_eval.config.calibrate import CalibrateSection
from spark_eval.errors import DataError
from spark_eval.names import summarize_names
from spark_eval.options import meanings
from spark_eval.publishing.attempt import Store
from spark_eval.publishing.commits import published, records_of
from spark_eval.publishing.published import open_table, unknown_run
from spark_eval.publishing.stores import store_of
from spark_eval.results.forecasts import (
    FORECASTS,
    SHIPPED,
    SHOWN,
    ForecastRow,
    forecast_of,
    forecast_sentence,
    sentence,
    shipped_lines,
    shown_lines,
)
from spark_eval.runs.job import Job, JobKind, Run, digest_of, fingerprints_of, settings_of, usual_id
from spark_eval.runs.run import needed
from spark_eval.runs.sections import Config
from spark_eval.runs.verb import ACCOUNTING, Computed, Published, Screen, Verb, Work
from spark_eval.runtime.any_session import OpenSession
from spark_eval.schema import Outcome, Reason, Row, Table
from spark_eval.sources.small import read_small
from spark_eval.verbs.kinds import COMPARE, ONLINE

# Table of each verb that is read.
READ: Final = {COMPARE: Table.COMPARISONS, ONLINE: Table.EXPERIMENTS}


class Programme(NamedTuple):
    """Past experiments of a config; ``runs`` are the fingerprints of their runs by verb and id."""

    section: CalibrateSection
    store: Store
    experiments: Sequence[PastExperiment]
    runs: Mapping[tuple[str, str], str | None]

    @classmethod
    def of(cls, config: Config, session: OpenSession) -> "Programme":
        """Return the programme of a config; raise DataError UNKNOWN_RUN for runs that are not published.

        With ``if_missing: leave_out`` only if no experiment has both of its runs.
        """
        section = needed(config.calibrate, "calibrate")
        plan_of(section)
        experiments = programme_of(read_small(section.programme, PROGRAMME_FILE, session))
        store = store_of(config.output, session)
        runs: dict[tuple[str, str], str | None] = {}
        for verb, ids in {
            COMPARE: {past.offline_run for past in experiments},
            ONLINE: {past.online_run for past in experiments},
        }.items():
            fingerprints = fingerprints_of(store, sorted(ids), (verb,))
            runs |= {(verb, run_id): fingerprint for run_id, fingerprint in fingerprints.items()}
        programme = cls(section, store, experiments, runs)
        missing = [
            f"{run_id} of {verb}" for (verb, run_id), fingerprint in runs.items() if fingerprint is None
        ]
        if missing and (section.if_missing == "refuse" or not programme.used):
            raise programme.unknown(missing)
        return programme

    def unknown(self, missing: Sequence[str]) -> DataError:
        """Return the error for runs that are not published."""
        files = self.store.files
        if len(missing) == 1:
            [(run_id, _, verb)] = [one.partition(" of ") for one in missing]
            known = {one.run_id for one in published(files) if one.verb == verb}
            return unknown_run(run_id, known, files.root)
        message = f"{PROGRAMME_FILE}: {len(missing)} runs are not published below {files.root!r}"
        hint = "calibrate.if_missing: leave_out counts their experiments"
        return DataError("UNKNOWN_RUN", f"{message}: {summarize_names(missing)}; {hint}")

    @property
    def used(self) -> list[PastExperiment]:
        """The experiments whose runs are both published."""
        return [
            past
            for past in self.experiments
            if self.runs[COMPARE, past.offline_run] and self.runs[ONLINE, past.online_run]
        ]

    @property
    def entries(self) -> list[Entry]:
        """The number of experiments that are used, and that have no runs."""
        n, n_used = len(self.experiments), len(self.used)
        counts: dict[tuple[Outcome, str | None], int] = {
            (Outcome.IN, None): n,
            (Outcome.USED, None): n_used,
            (Outcome.DROPPED, Reason.NO_RUN): n - n_used,
        }
        entries = [Entry("programme", None, *key, count, None) for key, count in counts.items() if count]
        check_accounting(entries)
        return entries

    def calibration(self, plan: CalibratePlan) -> Calibration:
        """Return the calibration by the published tables of the experiments."""

        @cache
        def rows_of(verb: str, run_id: str) -> list[dict[str, Any]]:
            record = records_of(self.store.files, run_id).get(verb)
            if record is None:
                raise DataError("INPUT_CHANGED_DURING_RUN", f"run {run_id!r} was removed; start again")
            return open_table(self.store.files, record, READ[verb]).rows()

        offline, online = list[Row](), list[Row]()
        for past, name in named_experiments(self.used).items():
            offline += compared_rows(past, name, rows_of(COMPARE, past.offline_run))
            online += measured_rows(past, name, rows_of(ONLINE, past.online_run), plan.lower)
        return calibrate_rows(offline, effects_of("online", online, GOAL, lambda _goal: 1), plan, {})

    def digest(self, settings: Mapping[str, Any]) -> str:
        """Return a hash of the settings, the programme and the contents of its runs."""
        runs = [[*key, fingerprint] for key, fingerprint in sorted(self.runs.items())]
        return digest_of(config=settings, programme=list(map(list, self.experiments)), runs=runs)


def plan_of(section: CalibrateSection) -> CalibratePlan:
    """Return the validated options of a section; raise ConfigError for an invalid one."""
    return make_calibrate_plan(metrics=section.metrics, goals=section.goals, lower=section.lower)


def job_of_programme(verb: JobKind, config: Config, run_id: str | None, session: OpenSession) -> Job:
    """Return the job of a calibration, which reads published runs instead of sources."""
    programme = Programme.of(config, session)
    digest = programme.digest(settings_of(verb, config))
    job = Job.of_runs(verb, config, run_id or usual_id(verb, digest), programme.store, {}, ())
    return replace(job, fingerprint=digest)


def compute(work: Work) -> Computed:
    """Calibrate the metrics, and predict the effects of new candidates.

    Raises DataError INPUT_CHANGED_DURING_RUN if a run was published again, or the programme was changed.
    """
    programme = Programme.of(work.config, work.session)
    calibration = programme.calibration(plan_of(programme.section))
    forecasts = [forecast_row(calibration, dict(one)) for one in programme.section.predict]
    if Programme.of(work.config, work.session).digest(work.job.config) != work.job.fingerprint:
        message = "the programme, or one of its runs, was changed while it was read; start again"
        raise DataError("INPUT_CHANGED_DURING_RUN", message)
    return Computed(
        rows={
            **calibration.small_tables,
            Table.FORECASTS: (forecasts, FORECASTS),
            Table.ACCOUNTING: (programme.entries, ACCOUNTING_COLUMNS),
        },
        entries=programme.entries,
        facts={"runs": {f"{verb} {run_id}": one for (verb, run_id), one in programme.runs.items()}},
        n_rows=len(calibration.rows),
    )


def forecast_row(calibration: Calibration, candidate: Mapping[str, Any]) -> ForecastRow:
    """Return the forecast for a candidate; raise ConfigError METRIC_NOT_MEASURED for an unknown metric."""
    row = row_of(calibration.rows, candidate["metric"], candidate["goal"])
    return forecast_of(row, candidate["difference"], candidate["std_error"])


def show(run: Run, screen: Screen) -> None:
    """Print a line and a sentence per offline metric and goal, what shipping has brought, and forecasts."""
    rows = run.rows(Table.CALIBRATION)
    title = f"calibration of run {run.run_id}"
    screen.grid(SHOWN, shown_lines(rows), title, of=Table.CALIBRATION)
    screen.grid(SHIPPED, shipped_lines(rows), f"shipped if certainly better offline, run {run.run_id}")
    for row in rows:
        screen.say(sentence(row))
    for forecast in run.rows(Table.FORECASTS) if Table.FORECASTS in run.tables else ():
        screen.say(forecast_sentence(forecast))
    for row in run.rows(Table.ACCOUNTING):
        if row["reason"] == Reason.NO_RUN:
            screen.say(f"left out, a run is not published: {row['rows']:,}")


def check(_verb: Verb, config: Config, session: OpenSession) -> list[str]:
    """Check the programme and that its runs are published; return their names."""
    programme = Programme.of(config, session)
    return [
        f"run {run_id} of {verb}" for (verb, run_id), fingerprint in programme.runs.items() if fingerprint
    ]


def options() -> list[tuple[str, str]]:
    """Return the options of its section, with their meanings."""
    return meanings(CalibrateOptions)


VERB = Verb(
    name="calibrate",
    about="The programme names for each experiment its run of online, and the run of compare of the models "
    "that were tested.",
    sections=("calibrate",),
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
