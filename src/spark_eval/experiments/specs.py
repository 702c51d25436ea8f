"""Columns of exposures, events and interleaved lists, as the plan asks for."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from spark_eval.experiments.plan import USER_DAYS, ExperimentPlan
from spark_eval.experiments.worker.bucket import EXPOSURES
from spark_eval.experiments.worker.judge import own_column
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
)
from spark_eval.tables.spec import Column, Kind, SpecOf, TableSpec

# Units of timestamps that are numbers, by table.
Units = Mapping[str, str | None]
DAY_SUM: Final = "it is a long"


def specs_of(plan: ExperimentPlan, names: Mapping[str, Mapping[str, str]], units: Units) -> SpecOf:
    """Return the specs of exposures and events; ``names`` map our columns to theirs, by table."""
    return partial(spec_of, plan, names, units)


def spec_of(
    plan: ExperimentPlan,
    names: Mapping[str, Mapping[str, str]],
    units: Units,
    name: str,
    columns: Sequence[str],
) -> TableSpec:
    """Return the spec of exposures or events with these columns."""
    when = Column(TIMESTAMP, Kind.MICROSECONDS, unit=units.get(name), timezone=plan.timezone)
    ids = [*unit_columns(plan, names[name], columns), Column(USER, Kind.ID)]
    if name == EXPOSURES:
        others = exposure_columns(plan, columns)
    elif USER_DAYS in columns:
        # Rows of units have no user.
        ids = ids[:-1] if plan.by_unit else ids
        sums = [Column(one, Kind.WHOLE, code="UNSUPPORTED_TYPE", needs=DAY_SUM) for one in plan.day_columns]
        others = [Column(KIND, Kind.TEXT), *sums, Column(USER_DAYS, Kind.TEXT)]
    else:
        others = [
            Column(KIND, Kind.TEXT),
            Column(VALUE, Kind.NUMBER, is_needed=False, code="VALUE_NOT_NUMERIC"),
            Column(EVENT_ID, Kind.TEXT, is_needed=False),
        ]
    kind = Kind.TEXT if name == EXPOSURES else Kind.SCALAR
    own = [Column(own_column(one), kind, named=one) for one in own_columns(name, plan)]
    return TableSpec(name, [*ids, when, *others, *own], is_judged_by_workers=True)


def unit_columns(plan: ExperimentPlan, names: Mapping[str, str], columns: Sequence[str]) -> list[Column]:
    """Return the column of the unit: a mapped one, or that of the experiments, which events may lack.

    Without it, a user's events have the unit of the user's exposures.
    """
    column = plan.experiments[0].unit
    if not plan.by_unit:
        return []
    if UNIT in names or (USER_DAYS in columns and column not in columns):
        return [Column(UNIT, Kind.ID)]
    return [Column(UNIT, Kind.ID, named=column)] if column is not None and column in columns else []


def exposure_columns(plan: ExperimentPlan, columns: Sequence[str]) -> list[Column]:
    """Return variant and experiment.

    ``variant`` may be missing if all experiments have an assignment, ``experiment`` if there is only one
    experiment, or no variant.
    """
    is_hashed = all(one.assignment is not None for one in plan.experiments)
    has_variant = VARIANT in columns or not is_hashed
    return [
        Column(VARIANT, Kind.TEXT, is_needed=not is_hashed),
        Column(EXPERIMENT, Kind.TEXT, is_needed=has_variant and len(plan.experiments) > 1),
    ]


def own_columns(name: str, plan: ExperimentPlan) -> Sequence[str]:
    """Return the columns of a table that have the names of the user."""
    return plan.segments if name == EXPOSURES else plan.event_columns


def spec_of_impressions(name: str, columns: Sequence[str]) -> TableSpec:
    """Return the spec of interleaved lists; with the ranks of one list they need those of both."""
    has_ranks = any(rank in columns for rank in ITEM_RANKS)
    return TableSpec(
        name,
        [
            Column(USER, Kind.ID),
            Column(EXPERIMENT, Kind.TEXT, is_needed=False),
            *(Column(one, Kind.ID) for one in (IMPRESSION, ITEM)),
            *(Column(one, Kind.TEXT) for one in (TEAM, FIRST_PICK)),
            *(Column(one, Kind.NUMBER) for one in (POSITION, CLICKED)),
            *(Column(one, Kind.NUMBER, is_needed=has_ranks) for one in ITEM_RANKS),
        ],
    )
