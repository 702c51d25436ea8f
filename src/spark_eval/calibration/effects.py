"""Effects of past experiments, offline and online, as rows of ``programme``."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa

from spark_eval.calibration.plan import CalibratePlan
from spark_eval.calibration.rows import NotUsed, ProgrammeRow
from spark_eval.errors import ConfigError, DataError
from spark_eval.names import summarize_names
from spark_eval.results.driver_tables import is_of_spark
from spark_eval.results.leaderboard import measure_of
from spark_eval.schema import ALL, LARGEST_EFFECT, Row
from spark_eval.tables.arrow_frames import read_arrow
from spark_eval.tables.columns import missing_column

EXPERIMENT: Final = "experiment"
TREATMENT: Final = "treatment"
METRIC: Final = "metric"
GOAL: Final = "goal"
COVARIANCE: Final = "covariance"
# Columns of numbers; all others that are read are names, or a flag.
NUMBERS: Final = ("difference", "std_error", COVARIANCE)
OTHERS: Final = (TREATMENT, "k", "segment", "method", "trusted", "conventions")
# Methods whose rows estimate an effect, the better first.
METHODS: Final = ("cuped", "raw")

# Largest effect and error, and the inverse of the smallest error: their products are doubles.
MOST: Final = LARGEST_EFFECT

# An experiment, and its treatment if there are several.
Tested: TypeAlias = tuple[str, str | None]
EffectKey: TypeAlias = tuple[Tested, str]


class Effect(NamedTuple):
    """A difference with its standard error; ``reason`` says why it is not used."""

    difference: float | None
    std_error: float | None
    reason: NotUsed | None = None


Effects: TypeAlias = Mapping[EffectKey, Effect]


def rows_of(name: str, given: Any, needed: Sequence[str]) -> list[Row]:
    """Return the rows of a table with checked columns: names as text, numbers as doubles.

    Raises DataError MISSING_COLUMN, UNSUPPORTED_TYPE, or NULL_ID for a row without a name.
    """
    table = given.toArrow() if is_of_spark(given) else read_arrow(name, given)
    columns = {}
    for column in needed:
        if column not in table.column_names:
            raise missing_column(name, column, {}, table.column_names)
    for column in (*needed, *(one for one in OTHERS if one in table.column_names)):
        kind = pa.float64() if column in NUMBERS else pa.bool_() if column == "trusted" else pa.string()
        try:
            columns[column] = table[column].cast(kind)
        except pa.ArrowException as error:
            message = f"{name}: column {column!r} is {table[column].type}; give {kind}"
            raise DataError("UNSUPPORTED_TYPE", message) from error
        if column in needed and column not in NUMBERS and columns[column].null_count:
            raise DataError("NULL_ID", f"{name}: column {column!r} has rows without a value")
    rows: list[Row] = pa.table(columns).to_pylist()
    return [row for row in rows if row.get("segment") in (None, ALL)]


def named(row: Row, column: str) -> str:
    """Return the name of a row's metric or goal, with its cutoff if the row has one."""
    return str(row[column]) if row.get("k") is None else measure_of({"metric": row[column], "k": row["k"]})


def stamps_of(rows: Iterable[Row], plan: CalibratePlan) -> dict[str, str]:
    """Return the conventions of each requested offline metric; those without any are left out.

    Raises DataError MIXED_CONVENTIONS if the comparisons of a metric have several.
    """
    stamps: dict[str, tuple[str, str]] = {}
    for row in rows:
        metric, stamp = named(row, METRIC), row.get("conventions")
        if not stamp or (plan.metrics is not None and metric not in plan.metrics):
            continue
        first, experiment = stamps.setdefault(metric, (stamp, row[EXPERIMENT]))
        if first != stamp:
            message = f"{metric} of {experiment!r} has the conventions {first}, that of"
            raise DataError("MIXED_CONVENTIONS", f"{message} {row[EXPERIMENT]!r} {stamp}; measure both alike")
    return {metric: stamp for metric, (stamp, _) in stamps.items()}


def effects_of(
    name: str, rows: Iterable[Row], column: str, sign_of: Callable[[str], int]
) -> dict[EffectKey, Effect]:
    """Return the effect of each experiment on each metric, turned so that more is better.

    Of rows by several methods, CUPED's is taken, else the raw one. Raises DataError DUPLICATE_EXPERIMENT for
    other repeated rows, INVALID_STD_ERROR and VALUE_NOT_FINITE.
    """
    best: dict[EffectKey, tuple[int, Row]] = {}
    for row in rows:
        if row.get("method") not in (None, *METHODS):
            continue
        key = (row[EXPERIMENT], row.get(TREATMENT)), named(row, column)
        rank = METHODS.index(row["method"]) if row.get("method") else 0
        if key in best and best[key][0] == rank:
            (experiment, _), metric = key
            message = f"{name}: experiment {experiment!r} has several rows of {metric}"
            raise DataError("DUPLICATE_EXPERIMENT", f"{message}; give one, or a column treatment")
        if key not in best or rank < best[key][0]:
            best[key] = rank, row
    return {key: effect_of(name, key, row, sign_of(key[1])) for key, (_, row) in best.items()}


def effect_of(name: str, key: EffectKey, row: Row, sign: int) -> Effect:
    """Return the effect of a row."""
    difference, error = row["difference"], row["std_error"]
    if difference is None or error is None:
        return Effect(None, None, NotUsed.NO_VALUE)
    where = f"{name}: {key[1]} of experiment {key[0][0]!r}"
    if not abs(difference) <= MOST:
        raise DataError("VALUE_NOT_FINITE", f"{where} has a difference of {difference}; leave the row out")
    if not 1 / MOST <= error <= MOST:
        message = f"{where} has a standard error of {error}; it is finite and above 0, or null"
        raise DataError("INVALID_STD_ERROR", message)
    return Effect(sign * difference, error, None if row.get("trusted", True) else NotUsed.NOT_TRUSTED)


def chosen(names: Iterable[str], requested: Sequence[str] | None, what: str) -> list[str]:
    """Return the requested names, or all in order; raise ConfigError METRIC_NOT_MEASURED for another."""
    known = sorted(set(names))
    for name in requested or ():
        if name not in known:
            raise ConfigError.unknown("METRIC_NOT_MEASURED", "metric", name, known, f"calibrate.{what}")
    return known if requested is None else list(requested)


def by_experiment(effects: Effects) -> dict[EffectKey, Effect]:
    """Return effects without their treatments; raise DataError DUPLICATE_EXPERIMENT for several of one."""
    merged: dict[EffectKey, Effect] = {}
    for ((experiment, _), metric), effect in effects.items():
        if merged.setdefault(((experiment, None), metric), effect) is not effect:
            message = f"experiment {experiment!r} has several treatments on one side, and none on the other"
            raise DataError("DUPLICATE_EXPERIMENT", f"{message}; give both a column treatment")
    return merged


def has_treatments(effects: Effects) -> bool:
    """Return True if any effect has a treatment."""
    return any(treatment is not None for (_, treatment), _ in effects)


def programme_rows(
    offline: Effects,
    online: Effects,
    plan: CalibratePlan,
    covariances: Mapping[tuple[str, str | None, str, str], float],
) -> list[ProgrammeRow]:
    """Return a row for each experiment, metric and goal.

    Raises DataError NOTHING_IN_COMMON if no experiment has both sides, INVALID_COVARIANCE.
    """
    metrics = chosen((metric for _, metric in offline), plan.metrics, "metrics")
    goals = chosen((goal for _, goal in online), plan.goals, "goals")
    if has_treatments(offline) != has_treatments(online):
        offline, online = by_experiment(offline), by_experiment(online)
    tested = {key for key, _ in (*offline, *online)}
    if not {key for key, _ in offline} & {key for key, _ in online}:
        sides = [summarize_names(sorted({key[0] for key, _ in side})) for side in (offline, online)]
        message = f"no experiment has both sides: offline {sides[0]}; online {sides[1]}"
        raise DataError("NOTHING_IN_COMMON", message)
    order = sorted(tested, key=lambda key: (key[0], key[1] or ""))
    rows = []
    for metric in metrics:
        for goal in goals:
            for key in order:
                x = offline.get((key, metric), Effect(None, None, NotUsed.NO_OFFLINE))
                y = online.get((key, goal), Effect(None, None, NotUsed.NO_ONLINE))
                reason = x.reason or y.reason
                row = ProgrammeRow(
                    *(*key, metric, goal, *x[:2], *y[:2]),
                    covariances.get((*key, metric, goal)),
                    None if reason is None else reason.value,
                )
                check_covariance(row)
                rows.append(row)
    return rows


def check_covariance(row: ProgrammeRow) -> None:
    """Raise DataError INVALID_COVARIANCE unless the covariance of the errors is below their product."""
    most = (row.offline_std_error or 0.0) * (row.online_std_error or 0.0)
    if row.reason is None and not abs(row.covariance or 0.0) < most:
        message = f"{row.metric} and {row.goal} of experiment {row.experiment!r}: {row.covariance} is not"
        raise DataError("INVALID_COVARIANCE", f"{message} below the product of the standard errors")


def covariances_of(given: Any, plan: CalibratePlan, signs: Callable[[str], int]) -> dict[Any, float]:
    """Return the covariances of the errors of a table: experiment, treatment, metric, goal, covariance."""
    if given is None:
        return {}
    rows = rows_of(COVARIANCE, given, (EXPERIMENT, METRIC, GOAL, COVARIANCE))
    covariances = {}
    for row in rows:
        metric, goal, value = named(row, METRIC), row[GOAL], row[COVARIANCE]
        if value is not None:
            sign = plan.sign_of(metric) * signs(goal)
            covariances[row[EXPERIMENT], row.get(TREATMENT), metric, goal] = sign * value
    return covariances
