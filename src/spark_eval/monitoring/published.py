"""Published days: what a window knows of them, and the files of their users."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import pyarrow.dataset as ds

from spark_eval.accounting import Entry, entries_of_rows
from spark_eval.arrow.user_files import UserFile, overlapping_groups, user_files
from spark_eval.errors import DataError
from spark_eval.evaluation.plan import Plan
from spark_eval.evaluation.summary import SumRow
from spark_eval.monitoring.spread import ModelUsers, map_users
from spark_eval.monitoring.sums import sum_row
from spark_eval.monitoring.worker.user_rows import UserFiles, UserRows, UserTables
from spark_eval.names import summarize_names
from spark_eval.publishing.published import PublishedTable
from spark_eval.schema import ALL, FOLDS, OF_ITEMS, Table

Made = TypeVar("Made")


@dataclass(frozen=True, kw_only=True)
class PublishedDay:
    """Published run of a day: its record and its tables.

    ``settings`` are the parts of its config that decide the metrics. ``has_users`` is false if ``per_user``
    was removed; ``is_local`` if its tables are on this machine.
    """

    run_id: str
    fingerprint: str
    models: Sequence[str]
    conventions: str
    version: str
    settings: Mapping[str, Any]
    has_users: bool
    is_local: bool
    open: Callable[[Table], PublishedTable]

    @property
    def entries(self) -> list[Entry]:
        """Rows of its accounting."""
        return entries_of_rows(self.open(Table.ACCOUNTING).rows())


@dataclass(frozen=True, kw_only=True)
class Day(PublishedDay):
    """Published evaluation of a day."""

    plan: Plan

    @cached_property
    def sum_rows(self) -> list[SumRow]:
        """Rows of its table ``sums``."""
        rows = self.open(Table.SUMS).rows()
        return [sum_row(row) for row in rows]

    @cached_property
    def metric_names(self) -> list[tuple[str, int | None, bool]]:
        """Metric, k, and True for values over folds, of the rows of its table ``metrics``."""
        merged = {row[:5] for row in self.sum_rows}
        keys = ("model", "metric", "k", "segment", "segment_value")
        rows = self.open(Table.METRICS).rows()
        alone = (row for row in rows if tuple(row[key] for key in keys) not in merged)
        return list(dict.fromkeys((row["metric"], row["k"], row["segment"] == FOLDS) for row in alone))


def check_same_question(days: Sequence[PublishedDay]) -> None:
    """Raise DataError MIXED_CONVENTIONS with the first day that differs from the first one, and how."""
    first = days[0]
    for day in days[1:]:
        pairs = (
            ("conventions", first.conventions, day.conventions),
            ("version of spark-eval", first.version, day.version),
            *((f"config {key}", value, day.settings.get(key)) for key, value in first.settings.items()),
        )
        differing = [f"{name} ({one!r} and {other!r})" for name, one, other in pairs if one != other]
        if differing:
            message = f"{first.run_id} and {day.run_id} differ in {summarize_names(differing)}"
            raise DataError("MIXED_CONVENTIONS", f"{message}; make the days alike, with --replace")


def check_models(days: Sequence[PublishedDay], models: Sequence[str]) -> None:
    """Raise DataError MISSING_DAYS for models that were not measured on all days."""
    lacking = [f"{model} on {day.run_id}" for model in models for day in days if model not in day.models]
    if lacking:
        message = f"there is no model {summarize_names(lacking)}; window.allow_missing merges the other days"
        raise DataError("MISSING_DAYS", message)


def segments_of(days: Sequence[Day]) -> list[str]:
    """Return the segments of users of the days' rows; folds are one that no plan names."""
    named = dict.fromkeys(row.segment for day in days for row in day.sum_rows)
    return [name for name in named if name != ALL and not name.startswith(OF_ITEMS)]


def item_segments_of(days: Sequence[Day]) -> list[str]:
    """Return the segments of items of the days' rows."""
    named = dict.fromkeys(row.segment for day in days for row in day.sum_rows)
    return [name for name in named if name.startswith(OF_ITEMS)]


def map_ranges(
    days: Sequence[PublishedDay],
    model: str,
    columns: Sequence[str],
    make: Callable[[UserRows], Made],
    name: Table = Table.PER_USER,
) -> Iterator[Made]:
    """Yield what ``make`` returns of each range of users of a model: rows of all days, in their order.

    They are those of the table ``name``.

    Spark reads these columns of days on a store, and its workers call ``make``.
    """
    if days[0].is_local:
        return (make(UserFiles(paths)) for paths in paths_of_users(days, model, name))
    tables = [day.open(name) for day in days if model in day.models]
    sources = [ModelUsers(table, model, columns) for table in tables]
    return map_users(sources, lambda tables: make(UserTables.of(tables)))


def paths_of_users(days: Sequence[PublishedDay], model: str, name: Table) -> Iterator[list[str]]:
    """Yield the files of all days that may have the same users of a model, in the order of the days."""
    files: dict[str, UserFile | None] = {}
    for day in (day for day in days if model in day.models):
        table = day.open(name)
        named = user_files(str(table.folder))
        if named is None:
            fragments = table.dataset().get_fragments(filter=ds.field("model") == model)
            files |= dict.fromkeys(fragment.path for fragment in fragments)
        else:
            files |= {file.path: file for file in named if file.model == model}
    ranged = [file for file in files.values() if file is not None]
    if len(ranged) < len(files):
        yield list(files)
        return
    number = {path: index for index, path in enumerate(files)}
    for group in overlapping_groups(ranged):
        yield sorted((file.path for file in group), key=number.__getitem__)
