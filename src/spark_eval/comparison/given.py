"""Sides of ``compare`` in Python, from results and frames: in this process, or on Spark."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from spark_eval.arrow.user_files import user_files
from spark_eval.comparison.sides import (
    Side,
    check_models,
    columns_of_mean,
    columns_of_users,
    side_of_evaluation,
    side_of_predictions,
    warn_of_unread,
)
from spark_eval.errors import DataError
from spark_eval.evaluation.result import Evaluation
from spark_eval.names import summarize_names
from spark_eval.predictions.evaluate import Predictions
from spark_eval.results.driver_tables import arrow_schema, is_of_spark
from spark_eval.results.exported import Exported
from spark_eval.results.forecasts import CALIBRATION_TABLE, CalibrationRow
from spark_eval.runners.door import open_given
from spark_eval.runners.local_rows import LocalTable
from spark_eval.runners.rows import Rows
from spark_eval.runners.user_buckets import UserTable
from spark_eval.schema import FOLD, MODEL, N_RELEVANT, OF_ITEMS, REPEAT, REQUEST, USER, Table
from spark_eval.tables.arrow_frames import Frame, read_arrow
from spark_eval.tables.columns import missing_column
from spark_eval.tables.opened import path_here
from spark_eval.tables.spec import Column, Kind, TableSpec

ReadUsers = Callable[[], UserTable]
# A result, or a frame with a row per model and user.
Result = Evaluation | Predictions
Measured = Result | Frame
# Name of a calibration in errors.
CALIBRATION: Final = "compare.calibration"


def table_of(measured: Measured) -> Any:
    """Return the per-user table of a result, whose kind tells where it was computed; frames themselves."""
    match measured:
        case Evaluation():
            return measured.per_user
        case Predictions():
            return measured.user_sums
    return measured


def open_sides(
    given: Mapping[str, Measured],
    models: Mapping[str, str | None],
    segments: Collection[str],
    engine: str | None,
) -> dict[str, Side]:
    """Return baseline and candidate, by role, on one engine; of frames, these segments are read.

    ``models`` names the only model of each frame that has no column of model names. Raises the errors of
    ``open_given`` and ``columns_of_users``.
    """
    results = {role: one.users for role, one in given.items() if isinstance(one, Result)}
    if any(name.startswith(OF_ITEMS) for name in segments):
        results |= {
            item_table(role): one.item_users
            for role, one in given.items()
            if isinstance(one, Evaluation) and one.item_rows is not None
        }
    tables = {**given, **{name: users.frame for name, users in results.items()}}
    opened = open_given(tables, partial(spec_of, models, segments), engine)
    read = {name: partial(on_engine, users, opened[name]) for name, users in results.items()}
    return {
        role: side_of_result(one, read[role], read.get(item_table(role)))
        if isinstance(one, Result)
        else side_of_frame(one, opened[role], models[role], role)
        for role, one in given.items()
    }


def item_table(role: str) -> str:
    """Return the name of the table ``item_segments`` of a role."""
    return f"item_segments of the {role}"


def side_of_result(result: Result, read_users: ReadUsers, read_item_users: ReadUsers | None) -> Side:
    """Return a result as baseline or candidate."""
    if isinstance(result, Evaluation):
        return side_of_evaluation(result, read_users, read_item_users)
    return side_of_predictions(result, read_users)


def on_engine(users: UserTable, rows: Rows) -> UserTable:
    """Return the per-user table of a result with its rows where they are compared."""
    return users if rows is users.frame else users._replace(frame=rows, folder=None, files=None)


def spec_of(
    models: Mapping[str, str | None], segments: Collection[str], role: str, columns: Sequence[str]
) -> TableSpec:
    """Return the spec of a per-user table with these columns; raise the errors of ``columns_of_users``."""
    users = columns_of_users(columns, role, None if MODEL in columns else models[role])
    values = dict.fromkeys(column for mean in users.means for column in columns_of_mean(mean))
    return TableSpec(
        role,
        [
            Column(USER, Kind.ID),
            *([Column(MODEL, Kind.TEXT)] if MODEL in columns else []),
            Column(FOLD, Kind.WHOLE, is_needed=False),
            Column(REQUEST, Kind.ID, is_needed=False),
            Column(REPEAT, Kind.ID, is_needed=False),
            Column(N_RELEVANT, Kind.NUMBER, is_needed=False),
            *(Column(one, Kind.NUMBER, named=users.theirs[one]) for one in values),
            *other_columns(users.segments, segments),
        ],
    )


def other_columns(names: Sequence[str], segments: Collection[str]) -> Iterator[Column]:
    """Yield segments as text; others as they are, for messages, unless two differ by case only."""
    lower = [name.lower() for name in names]
    for name in names:
        if name in segments and name != FOLD:
            yield Column(name, Kind.TEXT)
        elif name != FOLD and lower.count(name.lower()) == 1:
            yield Column(name, Kind.ORIGINAL, is_needed=False)


def side_of_frame(given: Frame, rows: Rows, model: str | None, role: str) -> Side:
    """Return an opened frame, or files, as baseline or candidate; ``model`` is its only one without names."""
    if MODEL not in rows.columns:
        rows = rows.with_text(MODEL, str(model))
    users = columns_of_users(rows.columns, role, model=None)
    warn_of_unread(role, users.segments, rows)
    table = UserTable(rows, users.segments, folder_by_bucket(given, rows))
    return Side(check_models(rows.distinct(MODEL), role), users.means, lambda: table)


def folder_by_bucket(given: Frame, rows: Rows) -> str | None:
    """Return the folder of files of this process by model and bucket; None for other tables."""
    models = rows.folders.get(MODEL) if isinstance(rows, LocalTable) else None
    if models is None or not isinstance(given, str | Path) or not Path(given).is_dir():
        return None
    folder = str(path_here(str(given)))  # absolute, as the paths of files
    files = user_files(folder)
    return folder if files is not None and {file.path for file in files} == set(models) else None


def calibration_of(given: Any) -> list[CalibrationRow]:
    """Return the rows of a calibration, given as a result, a frame or a path.

    Raises the errors of ``calibration_rows``.
    """
    if isinstance(given, Exported):
        return calibration_rows(given.to_arrow(Table.CALIBRATION))
    return calibration_rows(given.toArrow() if is_of_spark(given) else read_arrow(CALIBRATION, given))


def calibration_rows(table: pa.Table) -> list[CalibrationRow]:
    """Return the rows of a table ``calibration``, as it was published or exported.

    Raises DataError MISSING_COLUMN, UNSUPPORTED_TYPE, EMPTY_INPUT, or SEVERAL_CALIBRATIONS for a metric and
    goal with several rows.
    """
    schema = arrow_schema(CALIBRATION_TABLE)
    for column in schema.names:
        if column not in table.column_names:
            raise missing_column(CALIBRATION, column, {}, table.column_names)
    try:
        rows = [CalibrationRow(**row) for row in table.select(schema.names).cast(schema).to_pylist()]
    except pa.ArrowException as error:
        message = f"{CALIBRATION}: {error}; give the table calibration as it was published"
        raise DataError("UNSUPPORTED_TYPE", message) from error
    if not rows:
        raise DataError("EMPTY_INPUT", f"{CALIBRATION} has no rows; give the table of a calibration")
    pairs = [f"{row.metric} and {row.goal}" for row in rows]
    if len(set(pairs)) < len(pairs):
        several = summarize_names(sorted({pair for pair in pairs if pairs.count(pair) > 1}))
        message = (
            f"{CALIBRATION} has several rows of {several}; give the path of one run, calibration/run_id=..."
        )
        raise DataError("SEVERAL_CALIBRATIONS", message)
    return rows
