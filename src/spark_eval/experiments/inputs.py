"""Inputs of experiments as the engine reads them: their columns, conformed tables, rules, and invalid rows.

No Spark here.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from spark_eval.accounting import Entry
from spark_eval.arrow.files import Batches
from spark_eval.arrow.row_faults import FaultRule
from spark_eval.errors import ConfigError
from spark_eval.experiments.plan import ExperimentPlan, Test
from spark_eval.experiments.specs import Units, specs_of
from spark_eval.experiments.worker.bucket import EVENTS, EXPOSURES
from spark_eval.experiments.worker.judge import judge_events, judge_exposures
from spark_eval.runners.door import open_given
from spark_eval.runners.local_rows import LocalTable
from spark_eval.runners.quarantine import unusable_rows
from spark_eval.runners.rows import Rows
from spark_eval.runners.spread import NumberedObject, map_batches
from spark_eval.schema import (
    EVENT_ID,
    EXPERIMENT,
    KIND,
    TIMESTAMP,
    UNIT,
    USER,
    VALUE,
    VARIANT,
    Outcome,
)

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
    units = dict.fromkeys(given, unit)
    return plan, Tables.of(open_given(given, specs_of(plan, names, units), engine, names), units)


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


@dataclass(frozen=True)
class Tables:
    """Conformed tables by name, and the units of timestamps that are numbers, as they are read."""

    rows: Mapping[str, Rows]
    units: Units = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Mapping[str, Rows], units: Units) -> "Tables":
        """Return opened tables; Spark gives the timestamps that it reads itself in microseconds."""
        are_read = {name for name, one in rows.items() if one.read_by_workers}
        return cls(rows, {name: unit for name, unit in units.items() if name in are_read})

    def rule(self, name: str, plan: ExperimentPlan) -> FaultRule:
        """Return the rule of a table as it is read."""
        return rules_of(plan, self.units)[name]

    def lacks_unit(self, plan: ExperimentPlan) -> bool:
        """Return True if only the exposures have the unit."""
        return plan.by_unit and UNIT not in self.rows[EVENTS].columns

    def map(self, name: str, make: Callable[[Batches], Iterable[NumberedObject]]) -> Rows:
        """Apply ``make`` to the batches of a table; return its objects."""
        return map_batches(self.rows[name], make, coded=True)


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
    if table.session is not None:
        return table
    names: list[str] = [name for name in ORDER if name in table.columns]
    names += [name for name in table.columns if name not in ORDER]
    rows, _ = rule(table.table())
    ordered = rows.select(names)
    return LocalTable(ordered.schema, ordered)
