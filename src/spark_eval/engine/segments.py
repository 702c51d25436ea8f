"""Segments of users: their names, and the rule of the activity deciles. No Spark here."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from spark_eval.errors import ConfigError, nearest
from spark_eval.metrics.options import Plan
from spark_eval.metrics.stages import check_stage_models
from spark_eval.schema import (
    ALL,
    FOLD,
    FOLDS,
    MODEL,
    N_INTERACTIONS,
    N_RECOMMENDED,
    N_RELEVANT,
    USER,
    BuiltIn,
)

DECILES: Final = 10
# What a segment cannot be called: it stands beside these columns, in ``per_user`` or on the way to it.
RESERVED: Final = frozenset(
    {
        *(FOLD, FOLDS),
        *(MODEL, USER, N_RELEVANT, N_RECOMMENDED, N_INTERACTIONS),
        *(ALL, "measured", "run_id", ""),
    }
)


def user_columns(segments: Sequence[str]) -> list[str]:
    """Return the segments that are columns of ``users``."""
    return [name for name in segments if name not in {*BuiltIn, FOLD}]


def check_segments(segments: Sequence[str], metrics: Iterable[str], has_train: bool, has_users: bool) -> None:
    """Raise ConfigError for a segment that no table holds, or that clashes with a column of ours.

    ``metrics`` are the metric columns of ``per_user``. Names that differ by case only are one to Spark.
    """
    reserved, built_in, seen = RESERVED.union(map(str.lower, metrics)), set(BuiltIn), set()
    for name in segments:
        if name.lower() in reserved:
            message = f"segment {name!r} has the name of a column of ours; users.columns can give it another"
            raise ConfigError("INVALID_SEGMENT", message)
        if name.lower() in seen:
            raise ConfigError("INVALID_SEGMENT", f"segment {name!r} comes twice, but for case")
        seen.add(name.lower())
        if name in built_in and not has_train:
            message = f"segment {name!r} follows from the training interactions; give the table train"
            raise ConfigError("MISSING_TRAIN", message)
        if name not in built_in and not has_users:
            message = f"segment {name!r} is none of ours ({nearest(name, BuiltIn)}); give the table users"
            raise ConfigError("MISSING_USERS", message)


def check_given(plan: Plan, tables: Collection[str], model: str | None) -> None:
    """Raise ConfigError for what a plan needs of tables, by those that are given, or of the only model."""
    has_train = "train" in tables
    if model is not None:
        check_stage_models(plan.stages, [model])
    check_segments(plan.segments, plan.columns, has_train, "users" in tables)
    plan.check_tables(has_train=has_train, has_items="items" in tables)


def unread_tables(plan: Plan) -> set[str]:
    """Return the tables that a plan asks nothing of."""
    is_read = {"users": bool(user_columns(plan.segments)), "items": plan.needs_items}
    return {name for name in is_read if not is_read[name]}


def activity_bounds(histogram: Mapping[int, int]) -> dict[int, int]:
    """Return the largest number of interactions in each decile that holds any user, ascending.

    ``histogram`` maps a number of interactions to the users who have so many. Their decile is
    ceil(10 * users with at most so many / all users): a tenth of the users, rounded up to whole groups of
    equally active ones, who are never parted. The most active are always in 10; the larger a group, the more
    deciles below its own are empty. Computed in integers, so that nothing is rounded.

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
