"""Sides of ``compare`` in Python, from results and frames: in this process, or on Spark."""

from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_eval.arrow.user_files import user_files
from spark_eval.comparison.sides import (
    Side,
    check_models,
    columns_of_mean,
    columns_of_users,
    side_of_evaluation,
    side_of_predictions,
)
from spark_eval.evaluation.result import Evaluation
from spark_eval.predictions.evaluate import Predictions
from spark_eval.runners.local_tables import (
    NUMBERS,
    NotPlain,
    Wanted,
    columns_of,
    file_schema,
    is_id,
    is_number,
    is_whole,
    local_table,
    path_here,
    paths_by_folder,
)
from spark_eval.runners.rows import SparkRows
from spark_eval.runners.user_buckets import UserTable
from spark_eval.schema import FOLD, MODEL, N_RELEVANT, REQUEST, USER
from spark_eval.tables.arrow_frames import Frame
from spark_eval.tables.columns import missing_column

# A result, or a frame with a row per model and user.
Measured = Evaluation | Predictions | Frame


def table_of(measured: Measured) -> Any:
    """Return the per-user table of a result, whose kind tells where it was computed; frames themselves."""
    match measured:
        case Evaluation():
            return measured.per_user
        case Predictions():
            return measured.user_sums
    return measured


def side_in_process(measured: Measured, model: str | None, role: str, segments: Collection[str]) -> Side:
    """Return the baseline or candidate as tables of this process; of a frame, these segments are read.

    ``model`` is the name of a frame's only model, if it has no column of model names. Raises NotPlain if only
    Spark can judge a frame, and the errors of ``columns_of_users``.
    """
    match measured:
        case Evaluation():
            return side_of_evaluation(measured, lambda: measured.users)
        case Predictions():
            users = measured.users
            return side_of_predictions(measured, lambda: users)
    return side_of_local_frame(measured, model, role, segments)


def side_of_local_frame(given: Frame, model: str | None, role: str, segments: Collection[str]) -> Side:
    """Return a frame, or files of this machine, as baseline or candidate; see ``side_in_process``."""
    models = paths_by_folder(str(given), MODEL) if isinstance(given, str | Path) else None
    found = columns_of(role, given) if models is None else (None, list(models), file_schema(list(models)))
    rows, paths, schema = found
    if models is not None and MODEL in schema.names:
        raise NotPlain(f"{role}: files below {given} have a column {MODEL}")
    names = [*schema.names, *([MODEL] if models is not None else [])]
    columns = columns_of_users(
        names, lambda name: is_number(schema.field(name).type), role, None if MODEL in names else model
    )
    wanted = Wanted(
        needed={
            USER: is_id,
            **({MODEL: is_id} if MODEL in schema.names else {}),
            **{column: is_number for mean in columns.means for column in columns_of_mean(mean)},
        },
        optional={N_RELEVANT: is_number, FOLD: is_whole, REQUEST: is_id}
        | dict.fromkeys(segments, is_segment),
        missing=partial(missing_column, role, mapped={}),
    )
    table = local_table(role, found, columns.theirs, wanted)
    if MODEL in table.columns:
        table = table.read().cast(MODEL, pa.string())
        known = check_models(table.table(MODEL)[MODEL].unique().to_pylist(), role)
    else:
        models = models or dict.fromkeys(paths, str(model))
        known = sorted(set(models.values())) if rows is None else [str(model)]
        table = table.with_models(models, str(model))
    users = UserTable(table, columns.segments, folder_by_bucket(given, models))
    return Side(known, columns.means, lambda: users)


def folder_by_bucket(given: Frame, models: Mapping[str, str] | None) -> str | None:
    """Return the folder of files by model and bucket; None for other tables."""
    if models is None or not isinstance(given, str | Path) or not Path(given).is_dir():
        return None
    folder = str(path_here(str(given)))  # absolute, as the paths of ``models``
    files = user_files(folder)
    return folder if files is not None and {file.path for file in files} == set(models) else None


def is_segment(kind: pa.DataType) -> bool:
    """Return True for types of segments, which workers cast to text."""
    return kind in (*NUMBERS, pa.string(), pa.bool_())


def side_on_spark(measured: Measured, model: str | None, role: str) -> Side:
    """Return the baseline or candidate as Spark frames; see ``side_in_process``.

    Raises the errors of ``to_spark_frames`` and ``columns_of_users``.
    """
    match measured:
        case Evaluation():
            return side_of_evaluation(measured, lambda: users_on_spark(measured.users))
        case Predictions():
            users = measured.users
            return side_of_predictions(measured, lambda: users_on_spark(users))
    return side_of_spark_frame(measured, model, role)


def users_on_spark(users: UserTable) -> UserTable:
    """Return the per-user table of a result, on Spark if this process has computed it."""
    from spark_eval.tables.frames import to_spark_frames

    if users.frame.session is not None:
        return users
    frame = to_spark_frames({"per_user": users.frame.table()})["per_user"]
    return users._replace(frame=SparkRows(frame), folder=None, files=None)


def side_of_spark_frame(given: Frame, model: str | None, role: str) -> Side:
    """Return a frame as baseline or candidate; see ``side_on_spark``."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    from spark_eval.tables.frames import to_spark_frames

    frame = to_spark_frames({role: given})[role]
    if model is not None and MODEL not in frame.columns:
        frame = frame.withColumn(MODEL, F.lit(model))
    kinds = {column.name: column.dataType for column in frame.schema}
    columns = columns_of_users(
        frame.columns, lambda name: isinstance(kinds[name], T.NumericType), role, model=None
    )
    frame = frame.withColumn(MODEL, F.col(MODEL).cast("string"))
    models = [row[MODEL] for row in frame.select(MODEL).distinct().collect()]
    frame = frame.withColumnsRenamed({theirs: ours for ours, theirs in columns.theirs.items()})
    users = UserTable(SparkRows(frame), columns.segments)
    return Side(check_models(models, role), columns.means, lambda: users)
