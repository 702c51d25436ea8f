"""Published days of users that a run of ``online`` reads instead of the events."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from spark_eval.errors import ConfigError, DataError
from spark_eval.experiments.plan import USER_DAYS, ExperimentPlan, names_of
from spark_eval.experiments.user_days import parse_day
from spark_eval.experiments.worker.bucket import earliest_of
from spark_eval.experiments.worker.clock import day_name, local_days
from spark_eval.names import summarize_names
from spark_eval.publishing.attempt import Store
from spark_eval.publishing.commits import Record, published, records_of
from spark_eval.publishing.published import (
    RUN_ID_COLUMN,
    PublishedTable,
    data_files,
    frame_of,
    open_table,
)
from spark_eval.runs.job import Job, digest_of, usual_id
from spark_eval.runs.sections import Config
from spark_eval.runs.verb import Verb
from spark_eval.runtime.any_session import OpenSession
from spark_eval.schema import Table
from spark_eval.tables.local_tables import OpenedTable, file_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Fact of the commit record of a day: its date.
DAY: Final = "day"


def days_between(config: Config) -> Sequence[str]:
    """Return the days whose ``user_days`` a run reads; none if it reads events.

    Raises ConfigError OUT_OF_RANGE for days that are no dates, or in the wrong order.
    """
    online = config.online
    if online is None or online.first is online.last is None:
        return ()
    first, last = parse_day(online.first), parse_day(online.last)
    if first is None or last is None:
        raise ConfigError("OUT_OF_RANGE", "online.first and online.last: give both, --from and --to")
    if online.day is not None:
        message = "online.day sums a day, online.first and online.last read such days; give one or the other"
        raise ConfigError("OUT_OF_RANGE", message)
    if first > last:
        raise ConfigError("OUT_OF_RANGE", f"online.first {online.first} is after online.last {online.last}")
    return [day_name(day) for day in range(first, last + 1)]


def check_covered(days: Sequence[str], plan: ExperimentPlan) -> None:
    """Raise ConfigError OUT_OF_RANGE if an experiment begins before the first day: its events would lack."""
    for one in plan.experiments:
        [begins] = local_days(np.array([one.start]), plan.timezone).tolist()
        if days[0] > day_name(begins):
            message = f"online.first is {days[0]}, but {one.name!r} begins on {day_name(begins)}"
            raise ConfigError("OUT_OF_RANGE", f"{message}; give that day, or an earlier one")


def days_before(days: Sequence[str], plan: ExperimentPlan) -> Sequence[str]:
    """Return the days of the earliest pre-period that are before the first day: they are not read."""
    earliest = np.array([min(earliest_of(one, plan) for one in plan.experiments)])
    [begins] = local_days(earliest, plan.timezone).tolist()
    first = parse_day(days[0])
    return [] if first is None else [day_name(day) for day in range(begins, first)]


def job_of_days(
    verb: Verb, config: Config, plan: ExperimentPlan, run_id: str | None, session: OpenSession
) -> Job:
    """Return the job of a run that reads published days instead of the events."""
    days = days_between(config)
    check_covered(days, plan)
    job = Job.of(verb, config.model_copy(update={"events": None}), run_id, session)
    records = records_of_days(job.store, days, plan)
    runs: dict[str, str | None] = {record.run_id: record.job["fingerprint"] for record in records}
    digest = digest_of(job=job.fingerprint, runs=runs)
    reads = (verb.name,)
    return replace(job, run_id=run_id or usual_id(verb, digest), fingerprint=digest, runs=runs, reads=reads)


def records_of_days(store: Store, days: Sequence[str], plan: ExperimentPlan) -> list[Record]:
    """Return the run of each day that was summed for this plan; of several the latest.

    Raises DataError MISSING_DAYS if a day is not published, INVALID_USER_DAYS if it was summed for another
    plan.
    """
    found: dict[str, Record] = {}
    others: dict[str, Record] = {}
    for record in sorted(published(store.files), key=lambda one: str(one.job["published_at"])):
        if Table.USER_DAYS in record.job["tables"] and record.job.get(DAY) in days:
            of_plan = found if record.job.get(USER_DAYS) == plan.digest else others
            of_plan[record.job[DAY]] = record
    lacking = [day for day in days if day not in found]
    missing = [day for day in lacking if day not in others]
    if missing:
        message = f"no user_days of {summarize_names(missing)} below {store.files.root!r}"
        raise DataError(
            "MISSING_DAYS", f"{message}; sum each first: `spark-eval online --config FILE --day {missing[0]}`"
        )
    if lacking:
        runs = summarize_names([f"{day} (run {others[day].run_id})" for day in lacking])
        message = f"user_days of {runs} were summed for another config of {names_of(plan.experiments)}"
        raise DataError("INVALID_USER_DAYS", f"{message}; sum these days again")
    return [found[day] for day in days]


def tables_of_days(job: Job) -> list[PublishedTable]:
    """Return ``user_days`` of each day; raise DataError for a damaged run, MISSING_DAYS for a removed one."""
    tables = []
    for run_id in job.runs:
        record = records_of(job.store.files, run_id).get(job.verb)
        if record is None:
            raise DataError("MISSING_DAYS", f"run {run_id!r} was removed during the run; start again")
        tables.append(open_table(job.store.files, record, Table.USER_DAYS))
    return tables


def open_days(job: Job) -> OpenedTable:
    """Return the local files of the days and their columns."""
    folders = [table.folder for table in tables_of_days(job)]
    paths = [str(path) for folder in folders if folder is not None for path in data_files(folder)]
    return None, paths, file_schema(paths)


def read_days(job: Job, spark: "SparkSession") -> "DataFrame":
    """Return the rows of the days on Spark."""
    return frame_of(spark, tables_of_days(job)).drop(RUN_ID_COLUMN)
