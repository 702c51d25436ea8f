"""The verb ``window``: merge the evaluations of days into one run."""

from collections.abc import Mapping, Sequence
from typing import Final, Unpack

from spark_eval.config.inputs import Source
from spark_eval.errors import DataError
from spark_eval.monitoring.plan import WindowOptions, WindowPlan, make_window_plan
from spark_eval.monitoring.predictions import ScoredDay, merge_scored_days
from spark_eval.monitoring.published import Day
from spark_eval.monitoring.window import Window, merge_days
from spark_eval.names import summarize_names
from spark_eval.options import checked_call, documented, meanings
from spark_eval.predictions.tables import metrics_by_model
from spark_eval.publishing.attempt import Store
from spark_eval.publishing.commits import Record, records_of
from spark_eval.publishing.published import open_table
from spark_eval.publishing.stores import store_of
from spark_eval.results.leaderboard import Leaderboard
from spark_eval.runs.job import Job, JobKind, Run, fingerprints_of
from spark_eval.runs.sections import Config, PredictionsSection
from spark_eval.runs.verb import ACCOUNTING, METRICS, Computed, Published, Screen, Shortcut, Verb, Work
from spark_eval.runtime.any_session import OpenSession
from spark_eval.schema import MODEL, Row, Table
from spark_eval.verbs.kinds import CALIBRATE, EVALUATE, MEASURING, ONLINE, PREDICTIONS
from spark_eval.verbs.measured import MeasuredRun, known_runs, usable_record
from spark_eval.verbs.report import store_at


def compute(work: Work) -> Computed:
    """Merge the sums of the days and cluster their users; merge bins of calibration of predictions."""
    plan = work.config.window.checked()
    window = merge_published(work.job.store, list(work.job.runs), plan)
    return Computed(
        rows={name: small for name, small in window.small_tables.items() if name != Table.CURVES or small[0]},
        entries=window.entries,
        facts={
            "conventions": window.conventions,
            "models": list(window.models),
            "parts": dict(window.days),
            "n_days": len(window.days),
            "missing": [day for day in plan.days if day not in window.days],
            "absent": list(window.absent),
            "unclustered": window.unclustered,
        },
        n_rows=len(window.metric_rows),
    )


def show(run: Run, screen: Screen) -> None:
    """Print the leaderboard, of predictions a line per metric; and what could not be merged."""
    facts, rows, title = run.record.job, run.rows(Table.METRICS), f"metrics of window {run.run_id}"
    if "n_rows" in rows[0]:
        screen.grid(*metrics_by_model(rows), title, of=Table.METRICS)
        screen.say(f"{facts['n_days']} days merged")
    else:
        screen.board(Leaderboard.of(rows), title)
        screen.say(f"{facts['n_days']} days merged; a user counts once a day unless window.unit is users")
    if facts["missing"]:
        screen.say(f"missing days: {summarize_names(facts['missing'])}")
    if facts["absent"]:
        absent = summarize_names(facts["absent"])
        screen.say(f"not merged: {absent}; evaluate the days together for these")
    if facts["unclustered"]:
        screen.say("no standard errors: per_user of a day was removed; window.errors: independent needs none")


def check(_verb: Verb, config: Config, session: OpenSession) -> list[str]:
    """Check that the days are published; return their names."""
    plan = config.window.checked()
    return [f"run {day}" for day in parts_of(store_of(config.output, session), plan)]


def options() -> list[tuple[str, str]]:
    """Return the options of its section, with their meanings."""
    return meanings(WindowOptions)


CURVES = Published(Table.CURVES, by=(MODEL,))


# Sections of a day's config that decide its metrics; those of its inputs differ from day to day.
DECIDING: Final = (EVALUATE.name, "stages")
# Keys of the section of predictions that name its input, or decide only whether values are published.
OF_INPUT: Final = frozenset(Source.model_fields) | {"max_quarantined"}


def job_of_days(verb: JobKind, config: Config, run_id: str | None, session: OpenSession) -> Job:
    """Return the job of a window, which has the id FROM_TO and reads published runs instead of sources."""
    plan = config.window.checked()
    store = store_of(config.output, session)
    return Job.of_runs(verb, config, run_id or plan.run_id, store, parts_of(store, plan), MEASURING)


def parts_of(store: Store, plan: WindowPlan) -> dict[str, str | None]:
    """Return the fingerprints of the published days of a window.

    Raises DataError MISSING_DAYS if a day is not published, unless the plan allows it, and always if none is.
    """
    found = fingerprints_of(store, plan.days, MEASURING)
    missing = [day for day, fingerprint in found.items() if fingerprint is None]
    if len(missing) == len(found) or (missing and not plan.allow_missing):
        hint = f"{known_runs(store, missing[0])}; window.allow_missing merges the other days"
        named = summarize_names(missing)
        raise DataError("MISSING_DAYS", f"no run of evaluate or predictions for {named}; {hint}")
    return {day: fingerprint for day, fingerprint in found.items() if fingerprint is not None}


def merge_published(store: Store, days: Sequence[str], plan: WindowPlan) -> Window:
    """Merge published days; raises DataError as ``merge_days`` and ``MeasuredRun.of`` do."""
    of_verb = {run_id: PREDICTIONS.name in records_of(store.files, run_id) for run_id in days}
    if all(of_verb.values()):
        return merge_scored_days([scored_day_of(store, run_id) for run_id in days], plan)
    if any(of_verb.values()):
        lists, rows = (next(day for day in days if of_verb[day] is one) for one in (False, True))
        message = f"{lists} is a run of evaluate, {rows} one of predictions"
        raise DataError("MIXED_CONVENTIONS", f"{message}; publish them below different output paths")
    return merge_days([day_of(store, run_id) for run_id in days], plan)


def day_of(store: Store, run_id: str) -> Day:
    """Return the evaluation of a day."""
    measured = MeasuredRun.of(store, run_id)
    if measured is None:
        raise removed(run_id)
    job = measured.record.job
    return Day(
        run_id=run_id,
        fingerprint=str(job["fingerprint"]),
        plan=measured.plan,
        models=measured.models,
        conventions=measured.conventions,
        version=str(job["versions"].get("spark_eval")),
        settings={key: job["config"].get(key) for key in DECIDING},
        has_users=has_users(store, measured.record),
        is_local=store.is_local,
        open=measured.open,
    )


def scored_day_of(store: Store, run_id: str) -> ScoredDay:
    """Return the predictions of a day."""
    record = usable_record(store, run_id, PREDICTIONS.name)
    if record is None:
        raise removed(run_id)
    job, settings = record.job, record.job["config"][PREDICTIONS.name]
    return ScoredDay(
        run_id=run_id,
        fingerprint=str(job["fingerprint"]),
        plan=PredictionsSection.model_validate(settings).checked(),
        models=list(job["models"]),
        conventions=str(job["conventions"]),
        version=str(job["versions"].get("spark_eval")),
        settings={key: value for key, value in settings.items() if key not in OF_INPUT},
        has_users=has_users(store, record),
        is_local=store.is_local,
        open=lambda table: open_table(store.files, record, table),
    )


def has_users(store: Store, record: Record) -> bool:
    """Return True if ``per_user`` of a run is there."""
    return store.files.is_there(record.path_of(Table.PER_USER))


def removed(run_id: str) -> DataError:
    """Return the error for a run that was published when the window began."""
    return DataError("MISSING_DAYS", f"run {run_id!r} was removed during the run; start again")


def stale_parts(record: Record, fingerprints: Mapping[tuple[str, str], str]) -> list[str]:
    """Return the runs that a run has read and that were published, published again or removed since.

    ``fingerprints`` are today's, by verb and run id. Windows and ``online`` read days, a calibration reads
    runs of ``compare`` and ``online``.
    """
    if record.verb == CALIBRATE:
        runs: Row = record.job["runs"]
        return [run for run, before in runs.items() if fingerprints.get(verb_and_id(run)) != before]
    parts: Row = record.job.get("parts", {})
    verbs = (ONLINE,) if record.verb == ONLINE else MEASURING
    return [
        run_id
        for run_id, before in parts.items()
        if before not in {fingerprints.get((verb, run_id)) for verb in verbs}
    ]


def verb_and_id(run: str) -> tuple[str, str]:
    """Return verb and run id of a run that a calibration has read: ``compare spring``."""
    verb, _, run_id = run.partition(" ")
    return verb, run_id


@documented(WindowOptions)
@checked_call
def window(path: str, **options: Unpack[WindowOptions]) -> Window:
    """Merge the evaluations, or the predictions, of days published below a local output path into one window.

    Nothing is published: ``spark-eval window`` does so. No Spark is needed.

    Args:
        path: The output path; its runs have days as ids, such as ``2024-03-01``.

    Returns:
        A ``Window``: ``metrics``, ``sums`` and ``accounting`` are pandas frames, of predictions ``curves``,
        too; ``absent`` names the metrics that cannot be merged.

    Raises:
        ConfigError: INVALID_WINDOW for days that are no dates or no window, or users of predictions.
        DataError: MISSING_DAYS, MIXED_CONVENTIONS or NO_PER_USER, as in docs/windows.md; INCOMPLETE_RUN or
            CORRUPT_FILE for a damaged day.

    Examples:
        ``daily`` is an output path with two published days:

        >>> from spark_eval import window
        >>> week = window(daily, first="2024-03-01", last="2024-03-02")
        >>> [(row.metric, row.k, row.value, row.n_users) for row in week.metric_rows[:1]]
        [('map', 2, 0.4375, 4)]
    """
    plan, store = make_window_plan(**options), store_at(path)
    return merge_published(store, list(parts_of(store, plan)), plan)


VERB = Verb(
    name="window",
    about="Days are run ids. The window's own id is FROM_TO. Values are exact; standard errors are clustered "
    "by user.",
    sections=("window",),
    tables=(METRICS, Published(Table.SUMS, by=(MODEL,), is_reported=False), ACCOUNTING, CURVES),
    phases=("merge",),
    compute=compute,
    show=show,
    job=job_of_days,
    check=check,
    options=options,
    shortcuts=(
        Shortcut("--from", "DAY", "window.first", "First day, the id of its run: 2024-03-01."),
        Shortcut("--to", "DAY", "window.last", "Last day; both ends are included."),
    ),
    opens_spark=False,
)
