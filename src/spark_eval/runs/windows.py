"""Windows that a config or a call requests: their days among the published runs."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Unpack

from spark_eval.config.inputs import Source
from spark_eval.days.plan import WindowOptions, WindowPlan, make_window_plan
from spark_eval.days.published import Day
from spark_eval.days.scored import ScoredDay, merge_scored_days
from spark_eval.days.window import Window, merge_days
from spark_eval.errors import DataError
from spark_eval.names import summarize_names
from spark_eval.options import checked_call, documented
from spark_eval.publishing.attempt import Store
from spark_eval.publishing.commits import Record, records_of
from spark_eval.publishing.published import open_table
from spark_eval.publishing.stores import store_of
from spark_eval.runs.job import (
    EVALUATE,
    MEASURING,
    PREDICTIONS,
    Job,
    digest_of,
    fingerprints_of,
    settings_of,
)
from spark_eval.runs.measured import MeasuredRun, known_runs, usable_record
from spark_eval.runs.report import store_at
from spark_eval.runs.sections import Config, PredictionsSection
from spark_eval.runs.verb import Verb
from spark_eval.runtime.any_session import OpenSession
from spark_eval.schema import Table

# Sections of a day's config that decide its metrics; those of its inputs differ from day to day.
DECIDING: Final = (EVALUATE, "stages")
ONLINE: Final = "online"
# Keys of the section of predictions that name its input, or decide only whether values are published.
OF_INPUT: Final = frozenset(Source.model_fields) | {"max_quarantined"}


def job_of_days(verb: Verb, config: Config, run_id: str | None, session: OpenSession) -> Job:
    """Return the job of a window, which has the id FROM_TO and reads published runs instead of sources."""
    plan = config.window.checked()
    store = store_of(config.output, session)
    runs = parts_of(store, plan)
    settings, timezone = settings_of(verb, config), config.split.rule().timezone
    digest = digest_of(config=settings, runs=runs)
    return Job(
        verb.name, run_id or plan.run_id, digest, settings, {}, {}, store, "", timezone, runs, MEASURING
    )


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
    of_verb = {run_id: PREDICTIONS in records_of(store.files, run_id) for run_id in days}
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
    record = usable_record(store, run_id, PREDICTIONS)
    if record is None:
        raise removed(run_id)
    job, settings = record.job, record.job["config"][PREDICTIONS]
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
    """Return the days that a run has read and that were removed or published again since.

    ``fingerprints`` are today's, by verb and run id. ``online`` reads days of its own.
    """
    parts: Mapping[str, Any] = record.job.get("parts", {})
    verbs = (ONLINE,) if record.verb == ONLINE else MEASURING
    return [
        run_id
        for run_id, before in parts.items()
        if before not in {fingerprints.get((verb, run_id)) for verb in verbs}
    ]


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
