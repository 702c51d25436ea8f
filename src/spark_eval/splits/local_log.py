"""Interaction logs of this process, with the columns and types of ``conform_interactions``. No Spark here."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

import pyarrow as pa

from spark_eval.errors import DataError, nearest
from spark_eval.runners.local_rows import LocalTable
from spark_eval.runners.local_tables import (
    NotPlain,
    OpenedTable,
    Takes,
    Wanted,
    is_id,
    is_number,
    is_value,
    is_whole,
    local_table,
)
from spark_eval.schema import FAULT, FOLD, ITEM, RELEVANCE, REQUEST, SUBSET, TIMESTAMP, USER
from spark_eval.splits.rules.fold_rule import FoldRule
from spark_eval.tables.columns import check_mapping, missing_column

LOG: Final = "interactions"
OURS: Final = (USER, ITEM, TIMESTAMP, RELEVANCE)
# Names that columns of a log must not have: the written tables have them.
RESERVED: Final = frozenset({*OURS, FOLD, SUBSET, FAULT, "run_id"})


def local_log(opened: OpenedTable, names: Mapping[str, str], unit: str | None, rule: FoldRule) -> LocalTable:
    """Return a log with our columns, then its others.

    Raises NotPlain if only Spark can split it, and DataError for columns that are missing.
    """
    if rule.needs_other_rows:
        raise NotPlain("the split sorts rows, or drops some by others")
    check_mapping(LOG, names)
    columns = opened[2].names
    mapped = {names.get(name, name) for name in OURS}
    others = [name for name in columns if name not in mapped]
    reserved = RESERVED.union([REQUEST] if rule.has_requests else [])
    if any(name.lower() in reserved for name in others):
        raise NotPlain(f"{LOG} has a column with a name of ours")
    is_moment = partial(tells_instants, unit, rule.timezone)
    needed: dict[str, Takes] = {USER: is_id, ITEM: is_id, **dict.fromkeys(others, is_value)}
    optional: dict[str, Takes] = {RELEVANCE: is_number_or_boolean}
    (needed if rule.timed else optional)[TIMESTAMP] = is_moment
    wanted = Wanted(needed, optional, lambda ours, has: missing_column(LOG, ours, names, has))
    log = local_table(LOG, opened, names, wanted)
    check_strata(rule, [*OURS, *others])
    return log.select(*(name for name in (*OURS, *others) if name in log.columns))


def tells_instants(unit: str | None, timezone: str, kind: pa.DataType) -> bool:
    """Return True for timestamps, and integers with a unit; without a zone they are in UTC."""
    if pa.types.is_timestamp(kind):
        return kind.tz is not None or timezone == "UTC"
    return is_whole(kind) and unit is not None


def is_number_or_boolean(kind: pa.DataType) -> bool:
    """Return True for types of relevances."""
    return is_number(kind) or kind == pa.bool_()


def check_strata(rule: FoldRule, columns: Iterable[str]) -> None:
    """Raise DataError MISSING_COLUMN for a column to stratify by that the log does not have."""
    known = [name for name in columns if name != FAULT]
    for name in rule.strata:
        if name not in known:
            hint = nearest(name, known)
            raise DataError("MISSING_COLUMN", f"{LOG}: no column {name!r} to stratify by; {hint}")
