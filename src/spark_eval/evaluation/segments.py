"""Segments of users: checks of their names, and activity deciles. No Spark here."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from spark_eval.errors import ConfigError, nearest
from spark_eval.evaluation.plan import Plan
from spark_eval.kernels.stages import check_stage_models
from spark_eval.schema import (
    ALL,
    FOLD,
    FOLDS,
    MODEL,
    N_INTERACTIONS,
    N_RECOMMENDED,
    N_RELEVANT,
    OF_ITEMS,
    REPEAT,
    REQUEST,
    USER,
    BuiltIn,
    ItemBuiltIn,
)

DECILES: Final = 10
# Names that a segment cannot have: columns of ``per_user`` and of intermediate tables.
RESERVED: Final = frozenset(
    {
        *(FOLD, FOLDS),
        *(MODEL, REPEAT, USER, REQUEST, N_RELEVANT, N_RECOMMENDED, N_INTERACTIONS),
        *(ALL, "measured", "run_id", ""),
    }
)


def check_segments(segments: Sequence[str], metrics: Iterable[str], has_train: bool, has_users: bool) -> None:
    """Raise ConfigError for a segment without a table, or with a name that another column has.

    ``metrics`` are the metric columns of ``per_user``. Names are compared as Spark does, ignoring case.
    """
    reserved, built_in, seen = RESERVED.union(map(str.lower, metrics)), set(BuiltIn), set()
    for name in segments:
        if name.lower() in reserved:
            message = f"segment {name!r} has a reserved name; rename the column with users.columns"
            raise ConfigError("INVALID_SEGMENT", message)
        if name.lower() in seen:
            raise ConfigError("INVALID_SEGMENT", f"segment {name!r} is given twice (case is ignored)")
        seen.add(name.lower())
        if name in built_in and not has_train:
            message = f"segment {name!r} is computed from training interactions; give the table train"
            raise ConfigError("MISSING_TRAIN", message)
        if name not in built_in and not has_users:
            message = f"segment {name!r} is not built in ({nearest(name, BuiltIn)}); give the table users"
            raise ConfigError("MISSING_USERS", message)


def check_item_segments(plan: Plan, has_train: bool, has_items: bool) -> None:
    """Raise ConfigError for a segment of items without a table, or one that is given twice."""
    seen = {name.lower() for name in plan.segments}
    for name in plan.item_segments:
        what = f"segment {name!r} of items"
        if not name or f"{OF_ITEMS}{name}".lower() in seen:
            raise ConfigError("INVALID_SEGMENT", f"{what} is empty, or given twice (case is ignored)")
        seen.add(f"{OF_ITEMS}{name}".lower())
        if name in set(ItemBuiltIn) and not has_train:
            message = f"{what} is computed from training interactions; give the table train"
            raise ConfigError("MISSING_TRAIN", message)
        if name not in set(ItemBuiltIn) and not has_items:
            message = f"{what} is not built in ({nearest(name, ItemBuiltIn)}); give the table items"
            raise ConfigError("MISSING_ITEMS", message)
    if plan.item_segments and not plan.item_metrics:
        message = "item_segments: no metric counts hits alone; add one, such as ndcg"
        raise ConfigError("INVALID_SEGMENT", message)


def check_given(plan: Plan, tables: Collection[str], model: str | None) -> None:
    """Raise ConfigError if a plan needs a table that is not given, or has stages for an unknown model."""
    has_train = "train" in tables
    if model is not None:
        check_stage_models(plan.stages, [model])
    check_segments(plan.segments, plan.columns, has_train, "users" in tables)
    check_item_segments(plan, has_train, "items" in tables)
    plan.check_tables(has_train=has_train, has_items="items" in tables)


def tables_read(plan: Plan, given: Iterable[str]) -> list[str]:
    """Return the given tables that a plan reads: ``users`` and ``items`` only if it needs them."""
    is_read = {"users": bool(plan.user_columns), "items": plan.reads_items}
    return [name for name in given if is_read.get(name, True)]


def activity_bounds(histogram: Mapping[int, int]) -> dict[int, int]:
    """Return the largest number of interactions of each non-empty activity decile, ascending.

    ``histogram`` maps a number of interactions to the number of users who have it. The decile of these users
    is ceil(10 * users with at most this number / all users). Equally active users are always in the same
    decile, so a large group leaves the deciles below its own empty; the most active users are always in
    decile 10. Computed in integers, without rounding.

    Five users with 1, 1, 1, 2 and 9 interactions: 3/5, 4/5 and 5/5 of the users have at most 1, 2 and 9.

        interactions   1    1    1    2    9
        decile         6    6    6    8   10

    >>> activity_bounds({9: 1, 1: 3, 2: 1})
    {6: 1, 8: 2, 10: 9}
    """
    users, at_most, bounds = sum(histogram.values()), 0, {}
    for interactions, number in sorted(histogram.items()):
        at_most += number
        bounds[-(-DECILES * at_most // users)] = interactions
    return bounds
