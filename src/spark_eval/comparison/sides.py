"""Sides of a comparison: baseline and candidate, whose users are aligned in buckets."""

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

from spark_eval.comparison.decisions import MeanCell
from spark_eval.comparison.matching import (
    Requested,
    check_conventions,
    check_digests,
    check_folds,
    check_known,
)
from spark_eval.comparison.plan import COMPARE, SlicePlan
from spark_eval.comparison.rows import ComparedValue
from spark_eval.errors import ConfigError, DataError, nearest
from spark_eval.evaluation.result import Evaluation
from spark_eval.kernels.columns import looks_like_metric, value_of_foreign_column
from spark_eval.kernels.means import WeightedMean, means_of_users
from spark_eval.kernels.registry import RANKING
from spark_eval.kernels.values import MetricValue
from spark_eval.names import split_repeat
from spark_eval.predictions.evaluate import Predictions
from spark_eval.predictions.values import ModelValues, compared_values
from spark_eval.runners.conformed import check_id_types, has_text_ids
from spark_eval.runners.local_tables import is_number
from spark_eval.runners.rows import Rows
from spark_eval.runners.user_buckets import UserTable, with_repeats_as_models
from spark_eval.runtime import events
from spark_eval.schema import (
    FOLD,
    MODEL,
    N_RECOMMENDED,
    N_RELEVANT,
    OF_ITEMS,
    REPEAT,
    REQUEST,
    USER,
    Row,
)
from spark_eval.statistics.intervals import Summary
from spark_eval.users.population import BASELINE, CANDIDATE, ComparisonTask, SliceTask

Means = Mapping[MeanCell, Summary]
# Columns of a per-user table that are neither segments nor metrics.
NO_SEGMENTS: Final = frozenset({MODEL, REPEAT, USER, REQUEST, N_RELEVANT, N_RECOMMENDED})


@dataclass(frozen=True, eq=False)
class Side:
    """Baseline or candidate of a comparison: models measured in memory or in a published run.

    ``metrics`` are the means over users. ``conventions`` is the stamp of the run; empty if unknown.
    ``read_users`` and ``read_means`` read the per-user table and the means of models when they are needed;
    ``read_means`` is None if there are no means. ``values_by_model`` are the models by name if they are of
    predictions. ``n_rows`` is the number of rows of a published per-user table.

    ``item_segments`` are the segments of items, ``read_item_users`` reads their table, and ``item_metrics``
    are the means that it has.
    """

    models: Sequence[str]
    metrics: Sequence[ComparedValue]
    read_users: Callable[[], UserTable]
    read_means: Callable[[], Means] | None = None
    conventions: str = ""
    truth_digest: str | None = None
    run: str | None = None
    values_by_model: Mapping[str, ModelValues] | None = None
    n_rows: int = 0
    item_segments: Sequence[str] = ()
    item_metrics: Sequence[ComparedValue] = ()
    read_item_users: Callable[[], UserTable] | None = None

    @cached_property
    def item_users(self) -> UserTable | None:
        """The table ``item_segments``; None without segments of items."""
        return None if self.read_item_users is None else self.read_item_users()

    @cached_property
    def users(self) -> UserTable:
        """The per-user table; each repeat of a model is a model of its own."""
        users = self.read_users()
        return with_repeats_as_models(users) if REPEAT in users.frame.columns else users

    @cached_property
    def repeats(self) -> Mapping[str, Sequence[str]]:
        """Names of the repeats of each model, in order; those that are models of their own in ``users``.

        A model without repeats is its own.
        """
        repeats: dict[str, list[str]] = {model: [] for model in self.models}
        if self.users.has_repeats:
            for name in sorted(check_models(self.users.frame.distinct(MODEL), "per_user")):
                repeats.setdefault(split_repeat(name)[0], []).append(name)
        return {model: names or [model] for model, names in repeats.items()}

    @cached_property
    def means(self) -> Means:
        """Means of models by model, metric, k, segment and segment value."""
        return {} if self.read_means is None else self.read_means()


class BaselineName(NamedTuple):
    """Run and model of a baseline; None is the candidate's own run, and the model of the same name."""

    run: str | None = None
    model: str | None = None


@dataclass(frozen=True)
class Sides:
    """The baselines of a comparison, by run, and its candidate.

    A run that does not exist is left out; ``hint`` returns a note on the runs that do. ``spark`` is the
    session; None in this process.
    """

    spark: Any
    baselines: Mapping[str, Side]
    candidate: Side
    hint: Callable[[str], str]

    def has(self, run: str | None) -> bool:
        """Return True if a run exists; None is the candidate's own."""
        return run is None or run in self.baselines

    def baseline(self, run: str | None) -> Side:
        """Return the baseline of a run that exists; None is the candidate's own."""
        return self.candidate if run is None else self.baselines[run]


def check_comparable(
    baseline: Side, candidate: Side, values: Sequence[ComparedValue], *, by_truth: bool = True
) -> None:
    """Raise DataError TRUTH_DIFFERS or CONVENTIONS_DIFFER for metrics that are not measured alike.

    Without ``by_truth`` the truth may differ.
    """
    if by_truth:
        check_digests(baseline.truth_digest, candidate.truth_digest)
    check_conventions(baseline.conventions, candidate.conventions, values)


def side_of_evaluation(
    evaluation: Evaluation,
    read_users: Callable[[], UserTable],
    read_item_users: Callable[[], UserTable] | None = None,
) -> Side:
    """Return an evaluation as baseline or candidate."""
    plan = evaluation.plan
    return Side(
        models=evaluation.models,
        metrics=means_of_users(plan.metrics),
        read_users=read_users,
        item_segments=[f"{OF_ITEMS}{name}" for name in plan.item_segments],
        item_metrics=means_of_users(plan.item_metrics),
        read_item_users=read_item_users,
        read_means=lambda: means_of_rows(row._asdict() for row in evaluation.metric_rows),
        conventions=plan.stamp,
        truth_digest=evaluation.truth_digest,
    )


def side_of_predictions(predictions: Predictions, read_users: Callable[[], UserTable]) -> Side:
    """Return predictions as baseline or candidate."""
    return Side(
        models=predictions.models,
        metrics=compared_values(predictions.values_by_model.values()),
        read_users=read_users,
        read_means=lambda: means_of_rows(row._asdict() for row in predictions.metric_rows),
        conventions=predictions.plan.stamp,
        values_by_model=predictions.values_by_model,
    )


def means_of_rows(rows: Iterable[Row]) -> Means:
    """Return means by cell from rows of the table ``metrics``."""
    return {
        (row["model"], row["metric"], row["k"], row["segment"], row["segment_value"]): Summary(
            row["value"], row["std_error"], row["ci_low"], row["ci_high"], row["n_users"] or 0
        )
        for row in rows
    }


class UserColumns(NamedTuple):
    """Columns of a given per-user table.

    ``theirs`` has the table's columns by our names, ``means`` are the means over users, and ``segments`` the
    names of all other columns.
    """

    theirs: Mapping[str, str]
    means: Sequence[MetricValue]
    segments: Sequence[str]


def columns_of_users(names: Sequence[str], role: str, model: str | None) -> UserColumns:
    """Return the columns of a per-user table of a role, baseline or candidate.

    ``model`` names the only model if the table has no column of model names.

    Raises:
        DataError: MISSING_COLUMN, or AMBIGUOUS_COLUMN if two columns name the same metric.
        ConfigError: METRIC_NOT_MEASURED if there is no metric.
    """
    for column in (USER, *([] if model is not None else [MODEL])):
        if column not in names:
            message = f"{role}: no column {column!r}; {nearest(column, names)}"
            hint = f"; {'model' if role == CANDIDATE else 'baseline_model'} names the only one"
            raise DataError("MISSING_COLUMN", message + (hint if column == MODEL else ""))
    values = value_columns(names, role)
    ours = {value.column: column for column, value in values.items()}
    theirs = {column: column for column in names if column not in values} | ours
    of_values = {column for value in values.values() for column in value.columns}
    segments = [name for name in theirs if name not in {*NO_SEGMENTS, *of_values}]
    means = [
        mean for mean in means_of_users(list(values.values())) if theirs.keys() >= set(columns_of_mean(mean))
    ]
    if not means:
        shown = ", ".join(map(shown_column, segments)) or "none but ids"
        message = f"{role}: no column of a metric of users; found {shown}"
        raise ConfigError("METRIC_NOT_MEASURED", f"{message}; columns are named as ndcg_at_10")
    return UserColumns(theirs, means, segments)


def value_columns(names: Sequence[str], role: str) -> dict[str, MetricValue]:
    """Return the metric of each column that has one.

    Raises DataError AMBIGUOUS_COLUMN if two columns name the same metric.
    """
    values: dict[str, MetricValue] = {}
    first: dict[str, str] = {}
    for column in names:
        value = value_of_foreign_column(column)
        if value is None:
            continue
        if value.column in first:
            message = (
                f"{role}: columns {first[value.column]!r} and {column!r} are both {value}; leave one out"
            )
            raise DataError("AMBIGUOUS_COLUMN", message)
        values[column], first[value.column] = value, column
    return values


def warn_of_unread(role: str, columns: Sequence[str], rows: Rows) -> None:
    """Warn about numeric columns whose names look like a metric at a cutoff, but which are not compared."""
    unread = [
        shown_column(name)
        for name in columns
        if looks_like_metric(name) and name in rows.columns and is_number(rows.kind(name))
    ]
    if unread:
        message = f"{role}: no metric of users, not compared: {', '.join(unread)}"
        events.say("columns_not_read", message, logging.WARNING)


def shown_column(name: str) -> str:
    """Return the name of a column, with the nearest metric if it looks like one."""
    return f"{name!r}{nearest_metric(name) if looks_like_metric(name) else ''}"


def check_models(names: Iterable[str | None], role: str) -> list[str]:
    """Return the names of models in order; raise DataError NULL_MODEL for rows without one."""
    models = set(names)
    if None in models:
        raise DataError("NULL_MODEL", f"{role}: rows without a model; fill the column, or leave it out")
    return sorted(name for name in models if name is not None)


def nearest_metric(column: str) -> str:
    """Return the nearest metric name as a hint in parentheses; an empty text if none is near."""
    of_users = (metric for metric in RANKING.values() if metric.is_of_users)
    names = [name for metric in of_users for name in (metric.name, metric.run_name)]
    hint = nearest(re.split("_at_|@", column)[0], names)
    return f" ({hint})" if hint.startswith("did you mean") else ""


def columns_of_mean(mean: MetricValue) -> list[str]:
    """Return the columns of a mean: its values and, if it is weighted, their weights."""
    return mean.columns if isinstance(mean, WeightedMean) else [mean.column]


def comparison_task(
    baseline: Side, candidate: Side, requested: Requested, slices: SlicePlan | None
) -> ComparisonTask:
    """Return the task for the executors.

    Raises ConfigError UNKNOWN_SEGMENT, and DataError ID_TYPE_MISMATCH, or FOLDS_DIFFER or REQUESTS_DIFFER if
    only one of baseline and candidate has folds or requests.
    """
    is_within, tables = baseline is candidate, user_tables(baseline, candidate)
    check_segments(baseline, candidate, requested.segments, () if slices is None else slices.of)
    segments, sliced = (
        [name for name in names if name not in candidate.item_segments]
        for names in (requested.segments, () if slices is None else slices.of)
    )
    check_id_types({f"per_user of the {role}": users.frame for role, users in tables.items()})
    by_fold, request = candidate.users.by_fold, candidate.users.request
    if (baseline.users.request is None) != (request is None):
        raise DataError("REQUESTS_DIFFER", "one side has requests, the other has none; measure both alike")
    check_folds(baseline.users.by_fold, by_fold)
    if FOLD in segments and not by_fold:
        raise ConfigError("UNKNOWN_SEGMENT", f"{COMPARE}.segments names the folds, and there are none")
    has_digests = None not in (baseline.truth_digest, candidate.truth_digest)
    has_counts = all(N_RELEVANT in users.frame.columns for users in tables.values())
    return ComparisonTask(
        models=requested.models,
        matches=requested.matches,
        columns=list(dict.fromkeys(value.column for value in requested.list_metrics)),
        weighted=[
            (value.column, value.weight) for value in requested.metrics if isinstance(value, WeightedMean)
        ],
        segments=list(dict.fromkeys([*segments, *([FOLD] if by_fold else [])])),
        by_fold=by_fold,
        request=request,
        moved=[
            name
            for name in dict.fromkeys([*segments, *sliced])
            if not is_within and name in baseline.users.segments and name != FOLD
        ],
        has_truth=not is_within and not has_digests and has_counts,
        has_text_ids=has_text_ids(candidate.users.frame),
        slices=None if slices is None else SliceTask(sliced, slices.cross, slices.min_users),
    )


def check_segments(baseline: Side, candidate: Side, segments: Sequence[str], sliced: Sequence[str]) -> None:
    """Raise ConfigError UNKNOWN_SEGMENT for a segment that was not evaluated; with items, in both runs."""
    known = [*candidate.users.segments, *candidate.item_segments]
    for name in segments:
        check_known("segment", name, [*known, FOLD], f"{COMPARE}.segments")
    for name in sliced:
        check_known("segment", name, [one for one in known if one != FOLD], f"{COMPARE}.slices.of")
    for name in (*segments, *sliced):
        if name in candidate.item_segments:
            check_known("segment", name, baseline.item_segments, f"{COMPARE}, segments of the baseline")


def item_task(
    task: ComparisonTask,
    segment: str,
    values: Sequence[MetricValue],
    attributes: Sequence[str],
    *,
    is_within: bool,
) -> ComparisonTask:
    """Return the task of a segment of items: a user has a row for each of its values, over their truth.

    ``task`` compares all users, ``values`` are the metrics, ``attributes`` those of its slices; none
    without slices. There the rows of a user are one cluster; unless users have several lists, a user counts
    once in a slice, with the mean over these rows.
    """
    slices = None
    if task.slices is not None and attributes:
        by_means = task.slices.by_means or not task.has_clusters
        slices = replace(task.slices, attributes=attributes, by_means=by_means)
    return replace(
        task,
        of_items=segment,
        segments=[segment],
        moved=(),
        has_truth=not is_within,
        columns=list(dict.fromkeys(value.column for value in values)),
        weighted=[(value.column, value.weight) for value in values if isinstance(value, WeightedMean)],
        slices=slices,
    )


def item_tables(baseline: Side, candidate: Side) -> dict[str, UserTable]:
    """Return the tables ``item_segments`` by role; within one run only the candidate has one."""
    by_role = {CANDIDATE: candidate, **({} if baseline is candidate else {BASELINE: baseline})}
    return {role: side.item_users for role, side in by_role.items() if side.item_users is not None}


def user_tables(baseline: Side, candidate: Side) -> dict[str, UserTable]:
    """Return the per-user tables by role; within one run there is that of the candidate only."""
    of_baseline = {} if baseline is candidate else {BASELINE: baseline.users}
    return {CANDIDATE: candidate.users, **of_baseline}
