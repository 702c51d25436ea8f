"""Days of users: the events of each day summed by user, so that days add to the numbers of one run."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any, ClassVar, Final, Unpack

import pyarrow as pa

from spark_eval.accounting import ACCOUNTING, Entry, check_accounting
from spark_eval.arrow.files import Batches
from spark_eval.errors import ConfigError, DataError
from spark_eval.experiments.evaluate import entries_of, rows_by_bucket, variant_faults
from spark_eval.experiments.inputs import Tables, judged, open_tables
from spark_eval.experiments.parse import make_experiment_plan
from spark_eval.experiments.plan import USER_DAYS, ExperimentOptions, ExperimentPlan
from spark_eval.experiments.worker.bucket import EVENTS, EXPOSURES, BucketSums
from spark_eval.experiments.worker.days import DAY_COLUMN, judge_day, summed_days
from spark_eval.experiments.worker.judge import own_column
from spark_eval.options import Given, checked_call, documented
from spark_eval.results.driver_tables import SmallRows
from spark_eval.results.exported import Exported, SmallFrame
from spark_eval.runners.conformed import check_id_types, id_type
from spark_eval.runners.quarantine import share_faults
from spark_eval.runners.rows import Rows
from spark_eval.runners.spread import (
    Object,
    collect_or_raise,
    group_by_key,
    map_objects,
    n_buckets_of,
    unpickle_objects,
)
from spark_eval.runtime import events as run_events
from spark_eval.schema import KIND, TIMESTAMP, UNIT, USER, Outcome, Table
from spark_eval.tables.arrow_frames import Frame, like_given
from spark_eval.tables.columns import missing_column

NUMBERS: Final = pa.int64()


@dataclass(frozen=True)
class UserDays(Exported):
    """Result of ``sum_user_days``: rows of users and days, and the accounting of both tables.

    ``rows`` is a Spark frame, or in this process a frame of the kind of ``events``.

    Examples:
        >>> import pandas as pd
        >>> from spark_eval import sum_user_days
        >>> noon = pd.Timestamp("2024-05-01T12:00:00Z")
        >>> exposures = pd.DataFrame({"user": [1, 2], "variant": ["a", "b"], "timestamp": noon})
        >>> events = pd.DataFrame({"user": [1, 1], "kind": "click", "timestamp": noon})
        >>> home = {"name": "home", "control": "a", "variants": {"a": 1, "b": 1}}
        >>> home["period"] = ["2024-05-01", "2024-05-08"]
        >>> clicks = {"name": "clicks", "kind": "mean", "of": {"kind": "click"}}
        >>> sum_user_days(exposures, events, [clicks], home, engine="local").rows["n_events"].tolist()
        [2]
    """

    rows: Any
    entries: Sequence[Entry]
    tables: ClassVar[tuple[str, ...]] = ("rows", "accounting")

    @property
    def small_tables(self) -> dict[str, SmallRows]:
        """The rows of ``accounting``."""
        return {Table.ACCOUNTING: (self.entries, ACCOUNTING)}

    accounting = SmallFrame(Table.ACCOUNTING, "what became of every row of both tables.")


@run_events.timed_call("sum_user_days")
@documented(ExperimentOptions)
@checked_call
def sum_user_days(
    exposures: Frame,
    events: Frame,
    metrics: Sequence[Given],
    experiments: Given | Sequence[Given],
    *,
    day: str | None = None,
    exposure_columns: Mapping[str, str] | None = None,
    event_columns: Mapping[str, str] | None = None,
    timestamp_unit: str | None = None,
    engine: str | None = None,
    **options: Unpack[ExperimentOptions],
) -> UserDays:
    """Sum the events of a day by user, for experiments that are evaluated later over many days.

    Concatenate the rows of all days and give them to ``evaluate_experiments`` instead of the events, with the
    same metrics, experiments and options: the numbers have the same bits as those of one run over all events.

    The options under *Keyword args* are also keys of the config's section ``online``.

    Args:
        exposures: As of ``evaluate_experiments``: all exposures up to the end of the day.
        events: As of ``evaluate_experiments``; those of other days are left out. An ``id`` that returns on
            another day counts again.
        metrics: As of ``evaluate_experiments``.
        experiments: As of ``evaluate_experiments``.
        day: Day of the time zone, such as ``2024-05-01``; by default all days at once.
        exposure_columns: Mapping of our names to the column names of ``exposures``.
        event_columns: Mapping of our names to the column names of ``events``; the result has their names.
        timestamp_unit: Unit of timestamps that are numbers: ``s``, ``ms`` or ``us``.
        engine: ``local`` for this process, ``spark``, or ``auto``; see ``evaluate_experiments``.

    Returns:
        A ``UserDays``: ``rows``, in this process of the kind of ``events``, and ``accounting``.

    Raises:
        ConfigError: An option, a metric or an experiment is invalid.
        DataError: The rows cannot be summed. One error lists everything that was found.

    Examples:
        Two days, summed one by one and evaluated together:

        >>> import pandas as pd
        >>> from spark_eval import evaluate_experiments, sum_user_days
        >>> noon = pd.Timestamp("2024-05-01T12:00:00Z")
        >>> exposures = pd.DataFrame({"user": [1, 2, 3, 4], "variant": list("aabb"), "timestamp": noon})
        >>> first = pd.DataFrame({"user": [1, 1, 3], "kind": "click", "timestamp": noon})
        >>> second = first.assign(timestamp=noon + pd.Timedelta(days=1))
        >>> of_all = {"name": "clicks", "kind": "mean", "of": {"kind": "click"}}
        >>> home = {"name": "home", "control": "a", "variants": {"a": 1, "b": 1}}
        >>> home["period"] = ["2024-05-01", "2024-05-08"]
        >>> by_day = [
        ...     sum_user_days(exposures, one, [of_all], home, engine="local").rows
        ...     for one in (first, second)
        ... ]
        >>> by_day[0][["user", "kind", "n_events"]].sort_values("user").values.tolist()
        [[1, 'click', 2], [3, 'click', 1]]
        >>> online = evaluate_experiments(exposures, pd.concat(by_day), [of_all], home)
        >>> online.experiment_rows[0].control_value
        2.0
    """
    plan = make_experiment_plan(metrics, experiments, **options)
    names = {EXPOSURES: exposure_columns or {}, EVENTS: event_columns or {}}
    given = {EXPOSURES: exposures, EVENTS: events}
    plan, tables = open_tables(given, names, timestamp_unit, plan, engine)
    with ExitStack() as resources:
        rows, _, entries = measure_user_days(tables, plan, names[EVENTS], parse_day(day), resources)
        frame = rows.result() if rows.session is not None else like_given(rows.table(), events)
        return UserDays(frame, entries)


def parse_day(day: str | None) -> int | None:
    """Return the number of days since 1970; raise ConfigError OUT_OF_RANGE for another text."""
    try:
        return None if day is None else (date.fromisoformat(day) - date(1970, 1, 1)).days
    except (TypeError, ValueError) as error:
        raise ConfigError("OUT_OF_RANGE", f"day is {day!r}; give one such as 2024-05-01") from error


def measure_user_days(
    tables: Tables,
    plan: ExperimentPlan,
    names: Mapping[str, str],
    day: int | None,
    resources: ExitStack,
    most_quarantined: Mapping[str, float] | None = None,
) -> tuple[Rows, int, list[Entry]]:
    """Return the rows of ``user_days`` spread over tasks, their number, and the accounting.

    They are computed once until ``held`` closes. Raises one DataError that lists everything found.
    """
    check_id_types(tables.rows)
    if USER_DAYS in tables.rows[EVENTS].columns:
        raise DataError("INVALID_USER_DAYS", f"{EVENTS}: rows of user_days are summed already")
    if tables.lacks_unit(plan):
        purpose = "for days of users, whose exposures may follow"
        unit = {UNIT: plan.experiments[0].unit or UNIT}
        raise missing_column(EVENTS, UNIT, unit, tables.rows[EVENTS].columns, purpose)
    rules = {}
    if day is not None:
        rules[EVENTS] = partial(judge_day, judge=tables.rule(EVENTS, plan), plan=plan, day=day)
    n_buckets = n_buckets_of(sum(table.count() for table in tables.rows.values()))
    parts = rows_by_bucket(tables, plan, n_buckets, rules=rules)
    columns = columns_of(tables.rows[EVENTS], plan)
    schema = pa.schema([(names.get(ours, theirs), kind) for ours, (theirs, kind) in columns.items()])

    def measure(_: int, objects: list[Object]) -> Object:
        try:
            return summed_days(objects, plan, list(columns), schema)
        except DataError as error:
            return error

    summed = group_by_key(parts, n_buckets, measure).persist(resources)
    counts = map_objects(
        summed, lambda one: [(None, one if isinstance(one, DataError) else (one[0], len(one[1])))]
    )
    sums, n_found = BucketSums(), 0
    for one, n_own in collect_or_raise(counts):
        sums += one
        n_found += n_own
    entries = [entry for entry in entries_of(plan, with_exposures(sums)) if entry.model is None]
    bad = judged(tables, plan, entries)
    check_accounting(
        entries, [*variant_faults(plan, sums), *share_faults(entries, bad, most_quarantined or {})]
    )
    return summed.map(rows_of, schema), n_found, entries


def rows_of(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Yield the rows of ``user_days`` of objects."""
    for _, (_, rows) in unpickle_objects(batches):
        yield from rows.to_batches()


def with_exposures(sums: BucketSums) -> BucketSums:
    """Return the counts with all valid exposures as used: no experiment counts them here."""
    keys = [key for key in sums.rows if key[:2] == (None, EXPOSURES)]
    n_in = sums.rows[None, EXPOSURES, Outcome.IN, None]
    n_out = sum(sums.rows[key] for key in keys if key[2] not in (Outcome.IN, Outcome.USED))
    sums.rows[None, EXPOSURES, Outcome.USED, None] = n_in - n_out
    return sums


def columns_of(events: Rows, plan: ExperimentPlan) -> dict[str, tuple[str, pa.DataType]]:
    """Return the column name and type of ``user_days`` by our name."""
    unit, name = (UNIT, plan.experiments[0].unit or UNIT) if plan.by_unit else (USER, USER)
    columns: dict[str, tuple[str, pa.DataType]] = {unit: (name, id_type(events, unit))}
    columns |= {DAY_COLUMN: (DAY_COLUMN, pa.string()), TIMESTAMP: (TIMESTAMP, pa.timestamp("us", "UTC"))}
    columns[KIND] = (KIND, pa.string())
    for name in plan.event_columns:
        columns[own_column(name)] = (name, events.kind(own_column(name)))
    columns |= {name: (name, NUMBERS) for name in plan.day_columns}
    return columns | {USER_DAYS: (USER_DAYS, pa.string())}
