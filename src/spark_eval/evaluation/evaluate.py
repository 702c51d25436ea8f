"""``evaluate``: from recommendations and truth to metrics and the accounting of every row."""

import logging
import pickle
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial, reduce
from operator import add
from typing import Any, Unpack

from spark_eval.arrow.files import remove_other_files
from spark_eval.errors import ConfigError
from spark_eval.evaluation.bootstrap import Bootstrap, CellReplicates, ItemBootstrap, sums_of_cell
from spark_eval.evaluation.exchange import (
    buckets_for,
    evaluation_task,
    histograms_of,
    measure,
    messages_of,
)
from spark_eval.evaluation.plan import Candidates, EvaluateOptions, MeanInterval, Plan, make_plan
from spark_eval.evaluation.repeats import warn_of_copies
from spark_eval.evaluation.result import Evaluation
from spark_eval.evaluation.segments import check_given, tables_read
from spark_eval.evaluation.side_tables import attributes_of_items, read_users_and_items
from spark_eval.evaluation.specs import Described, names_of, specs_of
from spark_eval.evaluation.summaries import SUMMARY, Summaries
from spark_eval.evaluation.summary import MeanKey
from spark_eval.evaluation.tables import (
    Tables,
    check_folds,
    check_repeats,
    check_requests,
    checked_entries,
)
from spark_eval.names import repeat_name, summarize_names
from spark_eval.options import checked_call, documented
from spark_eval.results.driver_tables import to_arrow
from spark_eval.runners.conformed import check_unchanged, has_text_ids
from spark_eval.runners.door import open_given
from spark_eval.runners.rows import Rows
from spark_eval.runners.spread import collect_objects, collect_or_raise
from spark_eval.runners.user_buckets import Buckets, buckets_of_users, with_repeats_as_models
from spark_eval.runtime import events
from spark_eval.runtime.any_session import is_remote, release_with
from spark_eval.schema import ALL, OF_ITEMS, SEGMENT, USER, Table
from spark_eval.statistics.intervals import LowHigh
from spark_eval.tables.arrow_frames import Frame, like_given
from spark_eval.tables.file_parts import takes_files
from spark_eval.users.cells import SegmentValue
from spark_eval.users.population import CANDIDATE
from spark_eval.users.resampling import largest_amounts


@events.timed_call("evaluate")
@documented(EvaluateOptions)
@checked_call
def evaluate(
    recommendations: Frame,
    truth: Frame,
    *,
    model: str | None = None,
    layout: str = "long",
    columns: Mapping[str, str] | None = None,
    truth_columns: Mapping[str, str] | None = None,
    timestamp_unit: str | None = None,
    timezone: str = "UTC",
    train: Frame | None = None,
    train_columns: Mapping[str, str] | None = None,
    users: Frame | None = None,
    users_columns: Mapping[str, str] | None = None,
    items: Frame | None = None,
    items_columns: Mapping[str, str] | None = None,
    folder: str | None = None,
    engine: str | None = None,
    **options: Unpack[EvaluateOptions],
) -> Evaluation:
    """Compute ranking metrics per user and on average, for one or many models, in one pass.

    ``evaluate(recommendations, truth, model="als", metrics=["ndcg"], k=[1, 5])`` evaluates one model.

    Every row is accounted for before any value is returned. If ``recommendations`` has a column ``fold``,
    ``truth`` and ``train`` must have one as well: the folds are evaluated separately in the same pass, and
    the mean and standard deviation over folds are added.

    Frames are Spark, pandas or polars frames, Arrow tables, or paths of Parquet files.

    The options under *Keyword args* are also keys of the config's section ``evaluate``.

    Args:
        recommendations: One row per recommended item: ``user``, ``item``, and ``rank`` (from 1) or ``score``
            (higher is better); ``model`` if there are several models, ``fold`` if there are folds, ``repeat``
            if models were made several times, such as with several seeds.
        truth: One row per relevant item: ``user``, ``item``, and ``relevance`` if graded.
        model: Name of the only model, if ``recommendations`` has no column ``model``.
        layout: ``long`` for one row per item, ``array`` for one row per user with an array of items.
        columns: Mapping of these names to the column names of ``recommendations``.
        truth_columns: The same mapping for ``truth``.
        timestamp_unit: Unit of integer timestamps of ``truth``: s, ms or us.
        timezone: Time zone of timestamps without one.
        train: Training interactions, one row each: ``user``, ``item``. Required by the segments ``known`` and
            ``activity`` and by metrics of popularity. With ``train``, the accounting counts cold items, which
            have no training interaction.
        train_columns: The same mapping for ``train``.
        users: One row per user: ``user`` and the columns to segment by. With ``request``, one row per user
            and request, for segments of requests such as the device.
        users_columns: The same mapping for ``users``.
        items: One row per item of the catalogue: ``item``, ``groups`` (array of text, or text separated by
            ``|``), ``features`` (array of text or integers; by default the groups) and ``vector`` (array of
            numbers, or map of int to double). Only columns that a chosen metric needs are required and read.
        items_columns: The same mapping for ``items``.
        folder: Path of a new folder; if given, ``per_user`` is written there as Parquet.
        engine: ``local`` for this process, ``spark``, or ``auto``: this process for pandas, polars and Arrow
            frames and for plain Parquet files of this machine, otherwise Spark. By default that of the
            environment variable ``SPARK_EVAL_ENGINE``, otherwise ``auto``.

    Returns:
        An ``Evaluation``: ``metrics``, ``per_user``, ``accounting``, ``sums``; ``stages`` and ``funnel``,
        which locate the loss of users and relevant items in a pipeline; ``leaderboard()``, ``plot()``,
        ``write()``.

    Raises:
        ConfigError: An option is unknown or invalid, or a metric needs a table that was not given;
            NEEDS_SPARK for tables that ``engine="local"`` cannot take.
        DataError: The tables cannot be evaluated; one error lists everything that was found.

    Examples:
        User 1 finds the relevant item at rank 2, user 2 at rank 1:

        >>> import pandas as pd
        >>> from spark_eval import evaluate
        >>> lists = pd.DataFrame({"user": [1, 1, 2, 2], "item": [7, 8, 9, 8], "rank": [1, 2, 1, 2]})
        >>> truth = pd.DataFrame({"user": [1, 2], "item": [8, 9]})
        >>> result = evaluate(lists, truth, model="als", metrics=["mrr"], k=[1, 2])
        >>> result.to_pandas("metrics")[["metric", "k", "value"]]
          metric  k  value
        0    mrr  1   0.50
        1    mrr  2   0.75
    """
    plan = make_plan(**options)
    if folder == "":
        raise ConfigError("INVALID_PATH", "folder: ''; name a new folder")
    optional = {"train": train, "users": users, "items": items}
    check_given(plan, [name for name, frame in optional.items() if frame is not None], model)
    given = {"recommendations": recommendations, "truth": truth} | optional
    given = {name: given[name] for name in tables_read(plan, given) if given[name] is not None}
    described = {
        "recommendations": Described(columns, model, layout),
        "truth": Described(truth_columns, timestamp_unit=timestamp_unit),
        "train": Described(train_columns),
        "users": Described(users_columns),
        "items": Described(items_columns),
    }
    rows = open_given(given, specs_of(plan, described, timezone), engine, names_of(described))
    folders = {} if folder is None else {str(Table.PER_USER): folder}
    result = measure_lists(Tables.of(rows, described, plan), folders)
    if result.spark is not None:
        return result
    per_user, item_rows = (
        None if table is None else like_given(to_arrow(table), recommendations)
        for table in (result.per_user, result.item_rows)
    )
    return replace(result, per_user=per_user, item_rows=item_rows)


def measure_lists(tables: Tables, folders: Mapping[str, str] | None = None) -> Evaluation:
    """Evaluate conformed tables: one shuffle by bucket of users, metrics per bucket, then checks.

    With ``folders``, ``per_user`` and ``item_segments`` are written there. Raises one DataError that lists
    the errors of all tables.
    """
    tables = check_requests(check_folds(check_repeats(tables)))
    check = check_unchanged(list(tables.given().values()))
    plan = tables.plan
    with ExitStack() as resources:
        training, tables = read_users_and_items(tables, resources)
        attributes, tables = attributes_of_items(tables, training)
        task = evaluation_task(tables, training.bounds, attributes)
        n_buckets, n_tasks = buckets_for(tables)
        messages = messages_of(tables, n_buckets, n_tasks)
        schemas = tables.user_schemas
        folders = {name: folder for name, folder in (folders or {}).items() if name in schemas}
        # Folders of a remote session are on its server.
        is_here = not is_remote(tables.truth.session)
        in_place = {name: folder for name, folder in folders.items() if takes_files(folder) and is_here}
        rows = measure(messages, task, n_buckets, n_tasks, schemas, in_place, check)
        if plan.of_run or schemas.keys() - in_place.keys():
            rows = rows.persist(resources)
        summaries = Summaries(list(map(pickle.loads, rows.values(SUMMARY))), plan)
        folds = None if attributes is None else attributes.folds
        entries = checked_entries(tables, training.entries, folds, summaries)
        warn_of_candidates(summaries)
        if summaries.plan.has_repeats:
            warn_of_copies(summaries.digests)
        histograms = collect_objects(histograms_of(rows, n_tasks)) if plan.of_run else []
        files = {Table.PER_USER: summaries.files, Table.ITEM_SEGMENTS: summaries.item_files}
        of_users: dict[str, Any] = {}
        for name, schema in schemas.items():
            if name in in_place:
                remove_other_files(in_place[name], files[Table(name)])
                of_users[name] = tables.truth.written(schema, in_place[name])
            else:
                chosen = rows_of_table(rows, name, plan).where_not_null(USER, schema.names)
                of_users[name] = chosen.result(folders.get(name))
        per_user = of_users[Table.PER_USER]
        result = Evaluation(
            per_user=per_user,
            entries=entries,
            models=summaries.models,
            plan=summaries.plan,
            resources=resources,
            sum_rows=summaries.sum_rows,
            keys=summaries.keys,
            truth_digest=summaries.truth_digest,
            n_per_user=summaries.n_per_user,
            run_rows=summaries.run_rows(histograms, task.item_attributes),
            folder=in_place.get(Table.PER_USER),
            files=frozenset(summaries.files),
            stage_sums=summaries.stages,
            item_rows=of_users.get(Table.ITEM_SEGMENTS),
            n_item_rows=summaries.n_item_rows,
        )
        is_drawn = plan.interval is MeanInterval.BOOTSTRAP
        result = replace(
            result, intervals=bootstrap_intervals(result) if is_drawn else None, resources=resources.pop_all()
        )
    release_with(per_user, result.resources)
    return result


def rows_of_table(rows: Rows, name: str, plan: Plan) -> Rows:
    """Return the measured rows of a table; the column ``segment`` tells them apart if it is there."""
    if SEGMENT not in rows.columns:
        return rows
    item_segments = [f"{OF_ITEMS}{one}" for one in plan.item_segments]
    return rows.where_in(SEGMENT, [ALL] if name == Table.PER_USER else item_segments)


def warn_of_candidates(summaries: Summaries) -> None:
    """Warn of lists that look like sampled candidates, unless the plan says that they are."""
    models = summaries.models_like_sampled
    if summaries.plan.candidates is Candidates.SAMPLED or not models:
        return
    message = (
        f"SAMPLED_CANDIDATES: all lists of {summarize_names(models)} have one length and all of their truth"
    )
    message += "; if they rank it among sampled items, say candidates: sampled: such values do not compare "
    message += "with those of full rankings"
    events.say("sampled_candidates", message, logging.WARNING, models=models)


def bootstrap_intervals(evaluation: Evaluation) -> Mapping[MeanKey, LowHigh]:
    """Return the interval of each mean, by a second pass over rows by user; see ``evaluation.bootstrap``."""
    cells = list(dict.fromkeys((row.segment, row.segment_value) for row in evaluation.sum_rows))
    item_cells = [cell for cell in cells if cell[0].startswith(OF_ITEMS)]
    users, models = evaluation.users, evaluation.models
    if evaluation.plan.has_repeats:
        names = (repeat_name(row.model, row.repeat) for row in evaluation.sum_rows if row.repeat is not None)
        users, models = with_repeats_as_models(users), list(dict.fromkeys(names))
    bootstrap = Bootstrap(evaluation.plan, models, [cell for cell in cells if cell not in item_cells])
    task = bootstrap.task(has_text_ids=has_text_ids(users.frame), request=users.request)
    with ExitStack() as resources:
        buckets = persisted(buckets_of_users({CANDIDATE: users}, task), resources)
        unbounded = bootstrap.unbounded
        largest = collect_or_raise(buckets.each(partial(largest_amounts, unbounded))) if unbounded else []
        resampler = bootstrap.resampler(largest)
        parts = collect_or_raise(buckets.added(resampler.sums))
        intervals = bootstrap.intervals(resampler, reduce(add, parts, resampler.zero()))
    return {**intervals, **item_intervals(evaluation, item_cells)} if item_cells else intervals


def item_intervals(evaluation: Evaluation, cells: Sequence[SegmentValue]) -> Mapping[MeanKey, LowHigh]:
    """Return the intervals of the means by segments of items, by a pass over ``item_segments``."""
    users = evaluation.item_users
    bootstrap = ItemBootstrap.of(evaluation.plan, evaluation.models, cells)
    task = bootstrap.task(has_text_ids=has_text_ids(users.frame), request=users.request)
    with ExitStack() as resources:
        buckets = persisted(buckets_of_users({CANDIDATE: users}, task), resources)
        largest = collect_or_raise(buckets.each(bootstrap.largest)) if bootstrap.unbounded else []
        resamplers = bootstrap.resamplers(largest)
        parts = collect_or_raise(buckets.added(partial(sums_of_cell, resamplers)))
        return bootstrap.intervals(resamplers, reduce(add, parts, CellReplicates()))


def persisted(buckets: Buckets, resources: ExitStack) -> Buckets:
    """Return buckets whose shuffled rows are persisted until ``resources`` closes."""
    return replace(buckets, frame=buckets.frame.persist(resources)) if buckets.is_sent else buckets
