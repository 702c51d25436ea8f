"""Inputs of a comparison: per-user tables with the attributes of their runs, aligned in buckets of users."""

import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_eval.arrow.user_files import UserFile, overlapping_groups, user_files
from spark_eval.comparison.gating import NO_SIDE, gated_pairs, models_against
from spark_eval.comparison.matching import MatchedModels, check_known, match_metrics
from spark_eval.comparison.plan import COMPARE, ComparePlan
from spark_eval.conventions.comparison import Interval
from spark_eval.errors import ConfigError, DataError, nearest
from spark_eval.evaluation.result import Evaluation
from spark_eval.metrics import RANKING, MetricValue
from spark_eval.metrics.columns import looks_like_metric, value_of_foreign_column
from spark_eval.metrics.means import WeightedMean, means_of_users
from spark_eval.per_user.buckets import Buckets, buckets_of_files, buckets_of_frames
from spark_eval.per_user.population import BASELINE, CANDIDATE, ComparisonTask
from spark_eval.runners.exchange import BUCKETS_PER_TASK
from spark_eval.runtime import events
from spark_eval.runtime.any_session import is_remote, tasks_at_once
from spark_eval.schema import ALL, FOLD, MODEL, N_RECOMMENDED, N_RELEVANT, USER
from spark_eval.tables.frames import Frame, to_spark_frames
from spark_eval.tables.inputs import check_id_types
from spark_eval.tables.plain_files import takes_files

# Groups of overlapping files are used if they are at most this many times coarser than the files.
COARSEST: Final = 8


@dataclass(frozen=True)
class Side:
    """Measured models: their per-user table and the attributes of their run.

    ``per_user`` has model, user, n_relevant, n_recommended, fold if any, segments, a double per metric
    column, and the weights of weighted means. ``conventions`` is the stamp of the run; empty if unknown.
    ``folder`` is set if ``per_user`` is stored as files by bucket on this machine or a mounted disk:
    ``<folder>/model=<name>/part-<bucket>-of-<buckets>-<id>.parquet``. ``files`` are the expected paths below
    it; None if unknown. ``test_train_ratio`` is the ratio of test to train rows in a fold; None if unknown.
    """

    per_user: DataFrame
    models: Sequence[str]
    metrics: Sequence[MetricValue]
    segments: Sequence[str]
    conventions: str
    run: str | None = None
    truth_digest: str | None = None
    folder: str | None = None
    files: frozenset[str] | None = None
    test_train_ratio: float | None = None


def side_of(measured: Evaluation | Frame, model: str | None, name: str) -> Side:
    """Return the baseline or candidate from an evaluation, or from a frame with a row per model and user.

    ``model`` is the name of a frame's only model, if it has no column of model names. Raises DataError
    MISSING_COLUMN or NULL_MODEL, and the errors of ``to_spark_frames``.
    """
    if isinstance(measured, Evaluation):
        plan = measured.plan
        facts = (means_of_users(plan.metrics), plan.segments, plan.stamp)
        places = (measured.truth_digest, measured.folder, measured.files)
        return Side(measured.per_user, measured.models, *facts, None, *places)
    frame = to_spark_frames({name: measured})[name]
    if model is not None and MODEL not in frame.columns:
        frame = frame.withColumn(MODEL, F.lit(model))
    for needed in (USER, MODEL):
        if needed not in frame.columns:
            message = f"{name}: no column {needed!r}; {nearest(needed, frame.columns)}"
            hint = f"; {'model' if name == CANDIDATE else 'baseline_model'} names the only one"
            raise DataError("MISSING_COLUMN", message + (hint if needed == MODEL else ""))
    names = [row[MODEL] for row in frame.select(F.col(MODEL).cast("string")).distinct().collect()]
    if None in names:
        raise DataError("NULL_MODEL", f"{name}: rows without a model; fill the column, or leave it out")
    frame, values = with_value_columns(frame.withColumn(MODEL, F.col(MODEL).cast("string")), name)
    columns = frame.columns
    of_values = {column for value in values for column in value.columns}
    segments = [name for name in columns if name not in {MODEL, USER, N_RELEVANT, N_RECOMMENDED, *of_values}]
    means = [mean for mean in means_of_users(values) if has_columns(mean, columns)]
    check_unread(name, means, frame.select(segments).schema)
    return Side(frame, sorted(names), means, segments, conventions="")


def with_value_columns(frame: DataFrame, side: str) -> tuple[DataFrame, list[MetricValue]]:
    """Return a frame with metric columns renamed as in ``per_user``, and the metrics.

    Raises DataError AMBIGUOUS_COLUMN if two columns name the same metric.
    """
    values: dict[str, MetricValue] = {}
    renamed: dict[str, str] = {}
    for column in frame.columns:
        value = value_of_foreign_column(column)
        if value is None:
            continue
        if value.column in values:
            other = next(name for name, own in renamed.items() if own == value.column)
            message = f"{side}: columns {other!r} and {column!r} are both {value}; leave one out"
            raise DataError("AMBIGUOUS_COLUMN", message)
        values[value.column], renamed[column] = value, value.column
    return frame.withColumnsRenamed(renamed), list(values.values())


def check_unread(side: str, means: Sequence[MetricValue], others: T.StructType) -> None:
    """Warn about numeric columns whose names look like a metric at a cutoff, but which are not compared.

    Raises ConfigError METRIC_NOT_MEASURED, with these columns, if there is no metric at all.
    """
    is_number = {one.name: isinstance(one.dataType, T.NumericType) for one in others}
    unread = [
        f"{name!r}{meant(name)}" for name in others.names if is_number[name] and looks_like_metric(name)
    ]
    if not means:
        found = ", ".join(unread or map(repr, others.names)) or "none but ids"
        message = f"{side}: no column of a metric of users; found {found}"
        raise ConfigError("METRIC_NOT_MEASURED", f"{message}; columns are named as ndcg_at_10")
    if unread:
        message = f"{side}: no metric of users, not compared: {', '.join(unread)}"
        events.say("columns_not_read", message, logging.WARNING)


def meant(column: str) -> str:
    """Return the nearest metric name as a hint in parentheses; an empty text if none is near."""
    names = [name for one in RANKING.values() if one.is_of_users for name in (one.name, one.run_name)]
    hint = nearest(re.split("_at_|@", column)[0], names)
    return f" ({hint})" if hint.startswith("did you mean") else ""


def has_columns(mean: MetricValue, columns: Sequence[str]) -> bool:
    """Return True if the columns of a mean are there: its values and, if it is weighted, their weights."""
    needed = mean.columns if isinstance(mean, WeightedMean) else [mean.column]
    return set(needed) <= set(columns)


@dataclass(frozen=True)
class Requested:
    """Models, metrics and segments to compare, including those that only gates need."""

    matched: MatchedModels
    values: Sequence[MetricValue]
    segments: Sequence[str]


def requested_of(
    matched: MatchedModels, values: Sequence[MetricValue], plan: ComparePlan, sides: Mapping[str, Side]
) -> Requested:
    """Return the requested models, metrics and segments, then those that only the plan's gates need."""
    candidate, side = sides[CANDIDATE], BASELINE if BASELINE in sides else CANDIDATE
    baselines = sides[BASELINE].models if BASELINE in sides else None
    all_values, segments = list(values), list(plan.segments)
    for gate in plan.gates:
        if gate.sees_users:
            known = models_against(gate, candidate.models, baselines)
            pairs = gated_pairs(gate, candidate.models, known, NO_SIDE)
            matched = matched.with_pairs((pair.names for pair in pairs if pair.is_there), side)
            only = replace(plan, metrics=(str(gate.value),), tests=(), interval=Interval.T)
            all_values += match_metrics(candidate.metrics, sides[side].metrics, only)
            segments += [gate.segment] if gate.segment != ALL else []
    by_text = {str(value): value for value in all_values}
    return Requested(matched, list(by_text.values()), list(dict.fromkeys(segments)))


def comparison_task(sides: Mapping[str, Side], asked: Requested, *, needs_largest: bool) -> ComparisonTask:
    """Return the task for the executors.

    Raises ConfigError UNKNOWN_SEGMENT, and DataError ID_TYPE_MISMATCH, or FOLDS_DIFFER if only one of
    baseline and candidate has folds.
    """
    candidate, baseline, segments = sides[CANDIDATE], sides.get(BASELINE), asked.segments
    for name in segments:
        check_known("segment", name, [*candidate.segments, FOLD], f"{COMPARE}.segments")
    check_id_types({f"per_user of the {side}": one.per_user for side, one in sides.items()})
    by_fold = {FOLD in one.per_user.columns for one in sides.values()}
    if len(by_fold) > 1:
        raise DataError("FOLDS_DIFFER", "one side has folds, the other has none; measure both alike")
    if FOLD in segments and by_fold == {False}:
        raise ConfigError("UNKNOWN_SEGMENT", f"{COMPARE}.segments names the folds, and there are none")
    all_segments = dict.fromkeys([*segments, *([FOLD] if True in by_fold else [])])
    moved = [] if baseline is None else [one for one in segments if one in baseline.segments and one != FOLD]
    has_digests = baseline is not None and None not in (candidate.truth_digest, baseline.truth_digest)
    has_counts = all(N_RELEVANT in one.per_user.columns for one in sides.values())
    return ComparisonTask(
        models=asked.matched.models,
        matches=asked.matched.matches,
        columns=list(dict.fromkeys(value.column for value in asked.values)),
        weighted=[(one.column, one.weight) for one in asked.values if isinstance(one, WeightedMean)],
        segments=list(all_segments),
        by_fold=True in by_fold,
        moved=moved,
        has_truth=baseline is not None and not has_digests and has_counts,
        needs_largest=needs_largest,
        has_text_ids=isinstance(candidate.per_user.schema[USER].dataType, T.StringType),
    )


def buckets_of_sides(sides: Mapping[str, Side], question: ComparisonTask) -> Buckets:
    """Return buckets that hold the same users of all models: from bucketed files, or by a shuffle."""
    spark = sides[CANDIDATE].per_user.sparkSession
    at_once = tasks_at_once(spark)
    groups = groups_of_files(sides, question)
    if groups is not None:
        n_tasks = max(1, min(len(groups), BUCKETS_PER_TASK * at_once))
        return buckets_of_files(spark, groups, n_tasks, question)
    frames = {side: one.per_user for side, one in sides.items() if question.side(side)}
    return buckets_of_frames(frames, BUCKETS_PER_TASK * 2 * at_once, 2 * at_once, question)


def groups_of_files(sides: Mapping[str, Side], question: ComparisonTask) -> list[dict[int, list[str]]] | None:
    """Return groups of files that cover the same users: the paths of each model, by the model's index.

    None if there are no bucketed files, or if bucket ranges overlap so that the groups would be too large.
    """
    files: list[UserFile] = []
    place_of: dict[str, int] = {}
    for side, one in sides.items():
        found = files_of_side(one)
        if found is None:
            return None
        places = {question.models[place][1]: place for place in question.side(side)}
        own = [file for file in found if file.model in places]
        place_of |= {file.path: places[file.model] for file in own}
        files += own
    groups = []
    finest = len({(file.start, file.end) for file in files})
    for group in overlapping_groups(files):
        paths: dict[int, list[str]] = {}
        for file in group:
            paths.setdefault(place_of[file.path], []).append(file.path)
        groups.append(paths)
    return groups if len(groups) * COARSEST >= finest else None


def files_of_side(side: Side) -> list[UserFile] | None:
    """Return the bucketed files of a baseline or candidate; None if the executors cannot read them.

    Raises DataError INPUT_CHANGED_DURING_RUN if the files are not those that were measured.
    """
    if side.folder is None or not takes_files(side.folder) or is_remote(side.per_user):
        return None
    found = user_files(side.folder)
    names = {os.path.relpath(file.path, side.folder) for file in found or ()}
    if side.files is not None and names != side.files:
        what = f"per_user at {side.folder!r} is not what was measured; other files are there"
        raise DataError("INPUT_CHANGED_DURING_RUN", f"{what}; evaluate again")
    return found
