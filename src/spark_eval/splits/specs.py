"""Columns of an interaction log."""

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Final

from spark_eval.errors import DataError, nearest
from spark_eval.schema import FAULT, FOLD, ITEM, RELEVANCE, REQUEST, SUBSET, TIMESTAMP, USER
from spark_eval.splits.rules.fold_rule import FoldRule
from spark_eval.tables.spec import Column, Kind, SpecOf, TableSpec

LOG: Final = "interactions"
OURS: Final = (USER, ITEM, TIMESTAMP, RELEVANCE)
# Names that columns of a log must not have: the written tables have them.
RESERVED: Final = frozenset({*OURS, FOLD, SUBSET, FAULT, "run_id"})
# Columns of ours that rows are dealt out by, as text that Spark writes.
WRITTEN_BY_SPARK: Final = (TIMESTAMP, RELEVANCE)


def specs_of_rule(rule: FoldRule, unit: str | None) -> SpecOf:
    """Return the spec of a log that a rule splits; ``unit`` is that of timestamps that are integers."""
    return specs_of(
        unit,
        rule.timezone,
        timed=rule.timed,
        added=(REQUEST,) if rule.has_requests else (),
        by_workers=not rule.needs_other_rows,
        dealt_by=rule.strata if rule.needs_other_rows else (),
    )


def specs_of(
    unit: str | None,
    timezone: str,
    *,
    timed: bool = True,
    added: Collection[str] = (),
    by_workers: bool = False,
    dealt_by: Collection[str] = (),
) -> SpecOf:
    """Return the spec of a log: user, item, timestamp, relevance, and whatever other columns it has.

    If ``timed`` is false, timestamps may be null and the column may be missing. ``added`` are columns that
    the split adds, ``dealt_by`` those that rows are dealt out by.
    """
    when = Column(TIMESTAMP, Kind.INSTANT, is_needed=timed, unit=unit, timezone=timezone)
    relevance = Column(RELEVANCE, Kind.EXACT, is_needed=False, code="RELEVANCE_NOT_NUMERIC")
    ours = (Column(USER, Kind.ID), Column(ITEM, Kind.ID), when, relevance)
    return partial(spec_of, ours, RESERVED.union(added), by_workers, dealt_by)


def spec_of(
    ours: Sequence[Column],
    reserved: Collection[str],
    by_workers: bool,
    dealt_by: Collection[str],
    name: str,
    columns: Sequence[str],
) -> TableSpec:
    """Return the spec of a log with these columns."""
    others = list(columns)
    for one in ours:
        if one.name in others:
            others.remove(one.name)
    faults = [
        DataError("RESERVED_COLUMN", f"{name}: column {one!r} would clash with ours; rename it or map it")
        for one in others
        if one.lower() in reserved
    ]
    values = [
        Column(one, Kind.STRATUM if one in dealt_by else Kind.VALUE)
        for one in others
        if one.lower() not in reserved
    ]
    as_text = [one for one in WRITTEN_BY_SPARK if one in dealt_by]
    only_spark = f"is dealt out by {as_text[0]}" if as_text else None
    return TableSpec(name, [*ours, *values], by_workers, faults, only_spark=only_spark)


def check_strata(rule: FoldRule, columns: Iterable[str]) -> None:
    """Raise DataError MISSING_COLUMN for a column to stratify by that the log does not have."""
    known = [name for name in columns if name != FAULT]
    for name in rule.strata:
        if name not in known:
            hint = nearest(name, known)
            raise DataError("MISSING_COLUMN", f"{LOG}: no column {name!r} to stratify by; {hint}")
