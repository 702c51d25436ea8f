"""Inputs of experiments as the engine reads them: their columns, conformed tables, rules, and invalid rows.

No Spark here.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import pyarrow as pa

from spark_eval.accounting import Entry
from spark_eval.arrow.files import Batches
from spark_eval.arrow.row_faults import FaultRule
from spark_eval.errors import ConfigError, DataError, collect_errors
from spark_eval.experiments.plan import INTERLEAVING, USER_DAYS, ExperimentPlan, Test
from spark_eval.experiments.worker.bucket import EVENTS, EXPOSURES
from spark_eval.experiments.worker.judge import judge_events, judge_exposures, own_column
from spark_eval.runners.engine import parse_engine, reason_for_spark, refuse_or_explain, say_local, say_spark
from spark_eval.runners.local_rows import LocalTable
from spark_eval.runners.local_tables import (
    NotPlain,
    OpenedTable,
    Wanted,
    columns_of,
    is_id,
    is_number,
    is_whole,
    local_table,
)
from spark_eval.runners.quarantine import unusable_rows
from spark_eval.runners.rows import Rows, SparkRows
from spark_eval.runners.spread import NumberedObject, map_batches
from spark_eval.schema import (
    CLICKED,
    EVENT_ID,
    EXPERIMENT,
    FIRST_PICK,
    IMPRESSION,
    ITEM,
    ITEM_RANKS,
    KIND,
    POSITION,
    TEAM,
    TIMESTAMP,
    UNIT,
    USER,
    VALUE,
    VARIANT,
    Outcome,
)
from spark_eval.tables.columns import NO_TIMESTAMP_UNIT, check_mapping, missing_column

# Units of timestamps that are numbers, by table.
Units = Mapping[str, str | None]
# Columns of conformed tables, in the order that Spark's frames have; all others follow.
ORDER: Final = (USER, TIMESTAMP, UNIT, VARIANT, EXPERIMENT, KIND, VALUE, EVENT_ID)


def open_tables(
    given: Mapping[str, Any],
    names: Mapping[str, Mapping[str, str]],
    unit: str | None,
    plan: ExperimentPlan,
    engine: str | None,
) -> tuple[ExperimentPlan, "Tables"]:
    """Return the plan with its unit, and the conformed tables of the engine."""
    plan, names = with_unit(plan, names)
    chosen = parse_engine(engine)
    reason = reason_for_spark(chosen, given.items())
    if reason is None:
        try:
            opened = {name: partial(columns_of, name, table) for name, table in given.items()}
            tables = local_tables(opened, names, dict.fromkeys(given, unit), plan)
        except NotPlain as fault:
            reason = refuse_or_explain(chosen, str(fault))
        else:
            say_local(sum(table.n_rows for table in tables.values()))
            return plan, Tables(tables, dict.fromkeys(given, unit))
    say_spark(reason)
    return plan, tables_on_spark(given, names, unit, plan)


def with_unit(
    plan: ExperimentPlan, names: Mapping[str, Mapping[str, str]]
) -> tuple[ExperimentPlan, dict[str, Mapping[str, str]]]:
    """Return the plan and the names of columns with the unit: that of the experiments, or a mapped ``unit``.

    Events may lack it: see ``names_with_unit``. Raises ConfigError INVALID_EXPERIMENT if only they map it, or
    if a test of users would take units for them.
    """
    column = plan.experiments[0].unit
    shown = names[EXPOSURES] if column is None else {UNIT: column, **names[EXPOSURES]}
    if UNIT in names[EVENTS] and UNIT not in shown:
        raise ConfigError("INVALID_EXPERIMENT", f"{EVENTS}.columns has {UNIT}; {EXPOSURES} need it too")
    pooled = [metric.name for metric in plan.metrics if metric.test is Test.Z_POOLED]
    if pooled and UNIT in shown:
        message = f"metric {pooled[0]}: test: z_pooled is of users, and the unit is {shown[UNIT]}"
        raise ConfigError("INVALID_EXPERIMENT", f"{message}; test: welch has the errors of units")
    return replace(plan, by_unit=UNIT in shown), {**names, EXPOSURES: shown}


def names_with_unit(
    name: str, names: Mapping[str, str], theirs: Sequence[str], plan: ExperimentPlan
) -> Mapping[str, str]:
    """Return the names of columns of a table, of events with the unit if they have its column.

    Without it, a user's events have the unit of the user's exposures.
    """
    column = plan.experiments[0].unit
    if column is None or name != EVENTS or column not in theirs or UNIT in names:
        return names
    return {UNIT: column, **names}


@dataclass(frozen=True)
class Tables:
    """Conformed tables by name, and the units of timestamps that are numbers, as they are read."""

    rows: Mapping[str, Rows]
    units: Units = field(default_factory=dict)

    def rule(self, name: str, plan: ExperimentPlan) -> FaultRule:
        """Return the rule of a table as it is read."""
        return rules_of(plan, self.units)[name]

    def lacks_unit(self, plan: ExperimentPlan) -> bool:
        """Return True if only the exposures have the unit."""
        return plan.by_unit and UNIT not in self.rows[EVENTS].columns

    def map(self, name: str, make: Callable[[Batches], Iterable[NumberedObject]]) -> Rows:
        """Apply ``make`` to the batches of a table; return its objects."""
        return map_batches(self.rows[name], make, coded=True)


def tables_on_spark(
    given: Mapping[str, Any],
    names: Mapping[str, Mapping[str, str]],
    unit: str | None,
    plan: ExperimentPlan,
) -> Tables:
    """Return frames and paths as conformed Spark frames."""
    from spark_eval.experiments.conform import conformed_tables
    from spark_eval.tables.frames import to_spark_frames

    return conformed_tables(to_spark_frames(given), names, dict.fromkeys(given, unit), plan)


def rules_of(plan: ExperimentPlan, units: Units | None = None) -> dict[str, FaultRule]:
    """Return the rule of each table; ``units`` are those of timestamps that are numbers, by table."""
    units = units or {}
    return {
        EXPOSURES: partial(judge_exposures, plan=plan, unit=units.get(EXPOSURES)),
        EVENTS: partial(judge_events, plan=plan, unit=units.get(EVENTS)),
    }


def judged(tables: Tables, plan: ExperimentPlan, entries: Sequence[Entry]) -> dict[str, Rows]:
    """Return the invalid rows of the tables that have any, with their code in ``fault``."""
    bad = {entry.source for entry in entries if entry.outcome == Outcome.QUARANTINED}
    given, conformed = rules_of(plan, tables.units), rules_of(plan)
    return {
        name: unusable_rows(as_on_spark(table, given[name]), conformed[name])
        for name, table in tables.rows.items()
        if name in bad
    }


def as_on_spark(table: Rows, rule: FaultRule) -> Rows:
    """Return a table with the types and the order of columns that it has on Spark."""
    if isinstance(table, SparkRows):
        return table
    names: list[str] = [name for name in ORDER if name in table.columns]
    names += [name for name in table.columns if name not in ORDER]
    rows, _ = rule(table.table())
    ordered = rows.select(names)
    return LocalTable(ordered.schema, ordered)


def local_tables(
    opened: Mapping[str, Callable[[], OpenedTable]],
    names: Mapping[str, Mapping[str, str]],
    units: Mapping[str, str | None],
    plan: ExperimentPlan,
) -> dict[str, LocalTable]:
    """Return tables, given by functions that open them, as conformed tables of this process.

    ``names`` map our columns to theirs, ``units`` are those of numeric timestamps, by table. Raises NotPlain
    if only Spark can judge a table, and one DataError for columns that are missing.
    """
    for name in opened:
        check_mapping(name, names[name])

    def conformed(name: str) -> LocalTable:
        table = opened[name]()
        ours = names_with_unit(name, names[name], table[2].names, plan)
        columns = {**ours, **{own_column(own): own for own in own_columns(name, plan)}}
        return local_table(name, table, columns, wanted_columns(name, columns, table[2], units[name], plan))

    return collect_errors({name: partial(conformed, name) for name in opened})


def own_columns(name: str, plan: ExperimentPlan) -> Sequence[str]:
    """Return the columns of a table that have the names of the user."""
    return plan.segments if name == EXPOSURES else plan.event_columns


def wanted_columns(
    name: str, names: Mapping[str, str], schema: pa.Schema, unit: str | None, plan: ExperimentPlan
) -> Wanted:
    """Return the columns to read of a table with this schema."""

    def is_time(kind: pa.DataType) -> bool:
        if pa.types.is_timestamp(kind):
            # Spark knows which wall clocks a change of clock skips or repeats.
            return kind.tz is not None or plan.timezone == "UTC"
        if is_number(kind) and unit is None:
            raise DataError("TIMESTAMP_UNIT_MISSING", f"{name}: {NO_TIMESTAMP_UNIT}")
        return is_whole(kind)

    theirs_of = {own_column(own): own for own in own_columns(name, plan)}

    def missing(ours: str, theirs: Sequence[str]) -> Any:
        return missing_column(name, theirs_of.get(ours, ours), names, theirs)

    needed: dict[str, Any] = {USER: is_id, TIMESTAMP: is_time}
    needed |= dict.fromkeys((own_column(own) for own in own_columns(name, plan)), is_scalar)
    if plan.by_unit and UNIT in names:
        needed[UNIT] = is_id
    if name == EVENTS:
        if USER_DAYS in schema.names:
            if plan.by_unit:
                # Rows are of units: no user has them.
                needed = {UNIT: is_id, **needed}
                del needed[USER]
            needed |= {USER_DAYS: is_id, **dict.fromkeys(plan.day_columns, is_whole)}
            return Wanted({**needed, KIND: is_id}, {}, missing)
        return Wanted({**needed, KIND: is_id}, {VALUE: is_number, EVENT_ID: is_id}, missing)
    is_hashed = all(one.assignment is not None for one in plan.experiments)
    has_variant = VARIANT in names or VARIANT in schema.names or not is_hashed
    variant = {VARIANT: is_id} if has_variant else {}
    has_several = len(plan.experiments) > 1 and has_variant
    experiment = {EXPERIMENT: is_id}
    if has_several:
        return Wanted({**needed, **variant, **experiment}, {}, missing)
    return Wanted({**needed, **variant}, experiment, missing)


def local_impressions(opened: OpenedTable, names: Mapping[str, str]) -> LocalTable:
    """Return interleaved lists as a conformed table of this process; raises what ``local_tables`` raises."""
    check_mapping(INTERLEAVING, names)

    def missing(ours: str, theirs: Sequence[str]) -> Any:
        return missing_column(INTERLEAVING, ours, names, theirs)

    needed: dict[str, Any] = dict.fromkeys((USER, IMPRESSION, ITEM, TEAM, FIRST_PICK), is_id)
    needed |= {POSITION: is_number, CLICKED: is_number_or_boolean}
    if has_ranks(names, opened[2].names):
        needed |= dict.fromkeys(ITEM_RANKS, is_number)
    return local_table(INTERLEAVING, opened, names, Wanted(needed, {EXPERIMENT: is_id}, missing))


def has_ranks(names: Mapping[str, str], theirs: Sequence[str]) -> bool:
    """Return True if a table of interleaved lists has the ranks of a list: it then needs those of both."""
    return any(rank in names or rank in theirs for rank in ITEM_RANKS)


def is_number_or_boolean(kind: pa.DataType) -> bool:
    """Return True for types of clicks."""
    return is_number(kind) or pa.types.is_boolean(kind)


def is_scalar(kind: pa.DataType) -> bool:
    """Return True for types of columns of segments, slices and conditions."""
    return is_id(kind) or is_number_or_boolean(kind)
