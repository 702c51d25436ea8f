"""Sum the summaries of all buckets: counts of rows, exact sums, folds, files."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import add
from typing import Final

import pyarrow as pa

from spark_eval.accounting import ListCounts, TruthCounts
from spark_eval.evaluation.plan import Plan
from spark_eval.evaluation.repeats import repeat_run_rows, with_repeats
from spark_eval.evaluation.stages.measure import StageTotals
from spark_eval.evaluation.stages.rows import StageSums
from spark_eval.evaluation.summary import (
    MetricRow,
    SumRow,
    everybody_first,
    group_rows,
    in_requested_order,
    request_sum_rows,
    run_rows,
    sum_rows,
)
from spark_eval.evaluation.worker.candidates import models_like_sampled
from spark_eval.evaluation.worker.items.attributes import ItemAttributes
from spark_eval.evaluation.worker.lists import ColumnSums, SegmentCell, SegmentTotals, merge_sums
from spark_eval.evaluation.worker.measure import ModelSummary
from spark_eval.evaluation.worker.requests import means_of
from spark_eval.kernels.beyond.catalog import GroupWeights
from spark_eval.kernels.columns import sum_of_columns
from spark_eval.names import split_repeat
from spark_eval.schema import ALL, Outcome

SUMMARY: Final = "summary"


@dataclass(frozen=True)
class BucketSummary:
    """Summary of a bucket: counts, digest and folds of its truth; lists and sums of each model.

    ``stages`` are the sums over pipeline stages, None if there are none. ``groups`` are weights of item
    groups by the index of their metric and model, ``user_sums`` the sums of users with a list per request.
    ``item_sums`` and ``item_user_sums`` are those of segments of items, ``repeat_sums`` those of users over
    all repeats of a model. ``over_repeats`` and ``over_repeats_users`` are those of one value over repeats.
    """

    truth: TruthCounts
    truth_digest: int
    folds: frozenset[int]
    models: Sequence[ModelSummary]
    sums: SegmentTotals
    stages: StageTotals | None = None
    groups: Mapping[tuple[int, str], GroupWeights] = field(default_factory=dict)
    user_sums: SegmentTotals | None = None
    item_sums: SegmentTotals | None = None
    item_user_sums: SegmentTotals | None = None
    repeat_sums: SegmentTotals | None = None
    over_repeats: SegmentTotals | None = None
    over_repeats_users: SegmentTotals | None = None


@dataclass(frozen=True)
class Summaries:
    """Summaries of all buckets."""

    buckets: Sequence[BucketSummary]
    plan: Plan

    @cached_property
    def of_models(self) -> list[ModelSummary]:
        """Summaries of each model in each bucket."""
        return [one for bucket in self.buckets for one in bucket.models]

    @cached_property
    def truth(self) -> TruthCounts:
        """Counts of the rows of the truth, by outcome."""
        return reduce(add, (one.truth for one in self.buckets), TruthCounts())

    @cached_property
    def named_lists(self) -> dict[str | None, ListCounts]:
        """Counts of the rows of each model and repeat, by outcome; None is for rows without a model."""
        by_model: dict[str | None, ListCounts] = {}
        for one in self.of_models:
            known = by_model.get(one.model)
            by_model[one.model] = one.counts if known is None else known + one.counts
        return {model: counts for model, counts in by_model.items() if counts.rows[Outcome.IN, None]}

    @cached_property
    def lists(self) -> dict[str | None, ListCounts]:
        """Counts of the rows of each model, by outcome; the key None is for rows without a model."""
        by_model: dict[str | None, ListCounts] = {}
        for name, counts in self.named_lists.items():
            model = name and split_repeat(name)[0]
            by_model[model] = by_model[model] + counts if model in by_model else counts
        return by_model

    @cached_property
    def names(self) -> list[str]:
        """Sorted names of models and their repeats, which are measured like models."""
        return sorted(name for name in self.named_lists if name is not None)

    @property
    def n_repeats(self) -> dict[str | None, int]:
        """Number of repeats of each model; 1 without repeats."""
        return dict(Counter(name and split_repeat(name)[0] for name in self.named_lists))

    @property
    def digests(self) -> dict[str, int]:
        """Checksum of the lists of each repeat."""
        totals = dict.fromkeys(self.names, 0)
        for one in self.of_models:
            if one.model in totals:
                totals[one.model] = (totals[one.model] + one.digest) % 2**64
        return totals

    @cached_property
    def models(self) -> list[str]:
        """Sorted names of the models."""
        return sorted(model for model in self.lists if model is not None)

    @cached_property
    def folds(self) -> list[int]:
        """Folds with at least one relevant item."""
        return sorted(frozenset[int]().union(*(one.folds for one in self.buckets)))

    @cached_property
    def folds_of_models(self) -> dict[str, frozenset[int]]:
        """Folds with lists of each model, by model name in sorted order."""
        by_model = dict.fromkeys(self.models, frozenset[int]())
        for one in self.of_models:
            if one.model in by_model:
                by_model[one.model] |= one.folds
        return by_model

    @property
    def truth_digest(self) -> str:
        """A 64-bit number that is equal for equal relevant items."""
        return str(sum(one.truth_digest for one in self.buckets) % 2**64)

    @cached_property
    def models_like_sampled(self) -> list[str]:
        """Models whose lists look like sampled candidates."""
        named = set(self.names)
        return models_like_sampled(
            (split_repeat(one.model)[0], one.candidates) for one in self.of_models if one.model in named
        )

    @property
    def keys(self) -> int:
        """Sum of the keys of the rows of ``per_user``."""
        return sum(one.keys for one in self.of_models)

    @property
    def files(self) -> set[str]:
        """Files of ``per_user`` written by workers."""
        return {one.file for one in self.of_models if one.file}

    @cached_property
    def sums(self) -> Mapping[SegmentCell, Mapping[str, ColumnSums]]:
        """Exact sums of the columns of ``per_user``, by model and segment."""
        return merge_sums([one.sums for one in self.buckets], list(self.plan.summed))

    @cached_property
    def user_sums(self) -> Mapping[SegmentCell, Mapping[str, ColumnSums]]:
        """Exact sums over users who have a list per request, by model and segment."""
        parts = [one.user_sums for one in self.buckets if one.user_sums is not None]
        return merge_sums(parts, list(means_of(self.plan.metrics)))

    @cached_property
    def item_sums(self) -> Mapping[SegmentCell, Mapping[str, ColumnSums]]:
        """Exact sums over the users of segments of items, by model and segment."""
        parts = [one.item_sums for one in self.buckets if one.item_sums is not None]
        return merge_sums(parts, list(sum_of_columns(self.plan.item_metrics)))

    @cached_property
    def item_user_sums(self) -> Mapping[SegmentCell, Mapping[str, ColumnSums]]:
        """Exact sums over users of segments of items, who have a list per request."""
        parts = [one.item_user_sums for one in self.buckets if one.item_user_sums is not None]
        return merge_sums(parts, list(means_of(self.plan.item_metrics)))

    @property
    def n_item_rows(self) -> int:
        """Number of rows of ``item_segments``."""
        return sum(next(iter(of_cell.values())).n_users for of_cell in self.item_sums.values())

    @property
    def item_files(self) -> set[str]:
        """Files of ``item_segments`` written by workers."""
        return {one.item_file for one in self.of_models if one.item_file}

    @property
    def n_per_user(self) -> int:
        """Number of rows of ``per_user``."""
        everybody = (self.sums.get((name, ALL, ALL), {}) for name in self.names)
        return sum(next(iter(of_column.values())).n_users for of_column in everybody if of_column)

    @property
    def sum_rows(self) -> list[SumRow]:
        """Rows of the table ``sums``."""
        plan, names = self.plan, self.names
        if plan.by_request:
            rows = request_sum_rows(self.sums, self.user_sums, names, plan, plan.metrics)
            item_rows = request_sum_rows(self.item_sums, self.item_user_sums, names, plan, plan.item_metrics)
        else:
            rows = sum_rows(self.sums, names, plan.metrics, plan.stamp)
            item_rows = sum_rows(self.item_sums, names, plan.item_metrics, plan.stamp)
        if plan.has_repeats:
            parts = [one.repeat_sums for one in self.buckets if one.repeat_sums is not None]
            rows = with_repeats(rows, merge_sums(parts, list(means_of(plan.metrics))), plan)
            return in_requested_order([*rows, *self.over_repeats], plan.requested)
        rows += [row for row in item_rows if row.segment != ALL]
        return sorted(rows, key=lambda row: everybody_first((row.model, row.segment, row.segment_value)))

    @property
    def over_repeats(self) -> list[SumRow]:
        """Rows of ``sums`` of the means of one value over all repeats of a model."""
        plan, names = self.plan, [value.column for value in self.plan.over_repeats]
        parts = [one.over_repeats for one in self.buckets if one.over_repeats is not None]
        of_lists = merge_sums(parts, names)
        if not plan.by_request:
            return sum_rows(of_lists, self.models, plan.over_repeats, plan.stamp)
        parts = [one.over_repeats_users for one in self.buckets if one.over_repeats_users is not None]
        return request_sum_rows(of_lists, merge_sums(parts, names), self.models, plan, plan.over_repeats)

    def run_rows(self, histograms: Sequence[pa.Table], items: ItemAttributes) -> list[MetricRow]:
        """Return the rows of ``metrics`` that have no values per user.

        ``histograms`` have the number of items per number of lists; see ``histograms_of``.
        """
        of_groups = [one.groups for one in self.buckets]
        rows = [
            *(run_rows(self.plan, histograms, items, self.sums, self.names) if self.plan.of_run else ()),
            *group_rows(self.plan, of_groups, items, self.sums, self.names),
        ]
        rows = [self.with_requests(row) for row in rows] if self.plan.by_request else rows
        return repeat_run_rows(rows, by_repeat=self.plan.by_repeat) if self.plan.has_repeats else rows

    def with_requests(self, row: MetricRow) -> MetricRow:
        """Return a row of a run with the number of its lists as requests, and that of their users."""
        whole = (row.model, ALL, ALL)
        of_cell = self.user_sums.get(
            (row.model, row.segment, row.segment_value), self.user_sums.get(whole, {})
        )
        n_users = max((one.n_users for one in of_cell.values()), default=0)
        return row._replace(n_requests=row.n_users, n_users=n_users)

    @property
    def stages(self) -> StageSums | None:
        """Sums over pipeline stages; None if there are none."""
        parts = [one.stages for one in self.buckets if one.stages is not None]
        return StageSums(parts, self.plan) if self.plan.stages else None
