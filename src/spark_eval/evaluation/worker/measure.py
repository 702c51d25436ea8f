"""Measure a bucket of users: rows of ``per_user``, their sums, and counts of all rows."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from spark_eval.accounting import EntryKey, ListCounts, TruthCounts
from spark_eval.arrow.checksums import key_sum, truth_digest
from spark_eval.arrow.codes import count_by_code, count_unique, run_starts
from spark_eval.arrow.messages import Content
from spark_eval.evaluation.plan import ListWeight, filled_column
from spark_eval.evaluation.worker.bucket import Bucket
from spark_eval.evaluation.worker.candidates import CandidateSign, candidate_signs
from spark_eval.evaluation.worker.items.context import ItemContextBuilder, empty_and_unknown_lists
from spark_eval.evaluation.worker.items.counts import ItemTally
from spark_eval.evaluation.worker.items.segments import ItemPopulation
from spark_eval.evaluation.worker.lists import BucketLists, SegmentTotals, sums
from spark_eval.evaluation.worker.requests import means_of, sums_of_users
from spark_eval.evaluation.worker.users import segments_of
from spark_eval.kernels.beyond.catalog import GroupWeights, require_fact
from spark_eval.kernels.columns import sum_of_columns
from spark_eval.kernels.lists import Lists
from spark_eval.names import split_repeat
from spark_eval.schema import (
    FOLD,
    N_RECOMMENDED,
    N_RELEVANT,
    OF_ITEMS,
    REQUEST,
    SEGMENT,
    SEGMENT_VALUE,
    USER,
    Outcome,
)
from spark_eval.statistics.exact import Floats, Ints

# Maximum number of values of ``per_user`` and relevant items measured at once; one model may have more.
MOST_AT_ONCE: Final = 1_000_000


@dataclass(frozen=True)
class ModelSummary:
    """Per-model summary of a bucket: counts, folds, key checksum, output file.

    ``folds`` are those with a list of the model. ``keys`` is the sum of the keys of its rows of ``per_user``;
    the rows are written to ``file``, and those of segments of items to ``item_file``, if any. ``candidates``
    tells sampled candidates. ``digest`` is equal for equal lists; it is computed of repeats only.
    """

    model: str | None
    counts: ListCounts
    folds: frozenset[int]
    keys: int
    candidates: CandidateSign
    digest: int = 0
    file: str | None = None
    item_file: str | None = None


# A model's summary and its rows of ``per_user``, one per user in the mean, and of ``item_segments``, if any.
Measured = tuple[ModelSummary, pa.Table, pa.Table | None]


def ends_of(model: Ints, n_models: int) -> Ints:
    """Return the index of the first row of each model, and the number of rows; rows are sorted by model."""
    return np.searchsorted(model, np.arange(n_models + 1))


class BucketMeasurer:
    """Measures the lists of a bucket.

    After ``measured`` is exhausted, ``sums`` has the sums of the columns of ``per_user``, ``user_sums`` those
    of users with a list per request, ``repeat_sums`` those of users over all repeats of a model,
    ``over_repeats`` and ``over_repeats_users`` those of one value over repeats, by list and by user with
    requests, ``groups`` the weights of item groups by metric index and model, and ``tally`` the counts of
    recommended items.
    ``item_sums`` and ``item_user_sums`` are the sums of segments of items.
    """

    def __init__(self, bucket: Bucket, tally: ItemTally) -> None:
        self.bucket, self.task, self.tally = bucket, bucket.task, tally
        self.context_builder: ItemContextBuilder | None = None
        self.ideal = bucket.truth.ideal(self.task.plan.truth_depth)
        of_users = bucket.rows[Content.SEGMENTS], bucket.rows[Content.TRAINED]
        self.segments = segments_of(self.task.plan.segments, bucket.people, *of_users, self.task.bounds)
        self.sums = SegmentTotals([], (len(self.task.plan.summed),))
        self.user_sums = SegmentTotals([], (len(means_of(self.task.plan.metrics)),))
        self.repeat_sums = SegmentTotals([], (len(means_of(self.task.plan.metrics)),))
        n_over_repeats = len(self.task.plan.over_repeats)
        self.over_repeats = SegmentTotals([], (n_over_repeats,))
        self.over_repeats_users = SegmentTotals([], (n_over_repeats,))
        self.groups: dict[tuple[int, str], GroupWeights] = {}
        item_metrics = self.task.plan.item_metrics
        self.item_sums = SegmentTotals([], (len(sum_of_columns(item_metrics)),))
        self.item_user_sums = SegmentTotals([], (len(means_of(item_metrics)),))

    @cached_property
    def lists(self) -> BucketLists:
        """Lists of all models."""
        return self.bucket.lists()

    @cached_property
    def item_populations(self) -> dict[str, ItemPopulation]:
        """Users of each segment of items, by the segment's name."""
        bucket, truth, attributes = self.bucket, self.bucket.truth, self.task.item_attributes
        fold = np.maximum(attributes.tables_of(bucket.people.folds, len(bucket.people)), 0)
        return {
            f"{OF_ITEMS}{name}": ItemPopulation.of(
                truth, segment, bucket.find_index(truth.item), fold[truth.user], self.task.plan.truth_depth
            )
            for name, segment in attributes.segments.items()
        }

    def truth_counts(self) -> TruthCounts:
        """Count the rows of the truth, and the users with a relevant item without a value of a segment."""
        counts, owner = self.bucket.truth_counts(), self.bucket.owner
        for name, population in self.item_populations.items():
            users = population.user[population.segment.code == len(population.segment.values) - 1]
            counts.users[Outcome.WITHOUT_VALUE, name] = count_unique(users if owner is None else owner[users])
        return counts

    def measured(self) -> Iterator[Measured]:
        """Measure each model's lists; small models are measured together."""
        lists, models = self.lists, self.bucket.models
        n_columns = sum(len(value.columns) for value in self.task.plan.metrics)
        n_listed = 0 if lists.listed is None else len(lists.listed.row) // max(len(models), 1)
        of_one = len(self.bucket.people) * n_columns + len(self.ideal.row) + n_listed
        of_one += sum(len(one.user) for one in self.item_populations.values()) * n_columns
        if self.task.plan.needs_items:
            self.context_builder = ItemContextBuilder(self.bucket, lists)
        n_together = max(1, MOST_AT_ONCE // max(of_one, 1))
        starts = list(range(0, len(models), n_together))
        if self.task.plan.has_repeats:  # the repeats of a model are measured together
            owners = [name and split_repeat(name)[0] for name in models]
            starts = [index for index, owner in enumerate(owners) if index == 0 or owner != owners[index - 1]]
        for first, last in pairwise([*starts, len(models)]):
            yield from self.of_models(models[first:last], lists.of_models(first, last))

    def of_models(self, models: Sequence[str | None], lists: BucketLists) -> Iterator[Measured]:
        """Measure the lists of some models: users in the mean, kernels, sums."""
        task, bucket, n_users = self.task, self.bucket, max(len(self.bucket.people), 1)
        chosen = lists.population(task.plan.conventions)
        if lists.truth.largest_relevance > task.most_relevance:
            chosen = chosen[:0]  # the gain of such a relevance overflows, so the run fails
        inputs = lists.lists(chosen, self.ideal)
        if self.context_builder is not None:
            inputs = replace(inputs, context=self.context_builder.of_lists(lists, chosen))
        columns, users, model = self.columns(inputs), chosen % n_users, chosen // n_users
        segments = {name: (segment.code[users], segment.names) for name, segment in self.segments.items()}
        names = [name or "" for name in models]
        filled = self.filled(inputs)
        of_lists = columns | filled, task.plan.summed, (model, names), segments
        self.sums += sums(*of_lists, has_squares=bucket.owner is None)
        if (owner := bucket.owner) is not None:
            user = owner[users]
            of_users = columns, user, (model, names), segments
            self.user_sums += sums_of_users(means_of(task.plan.metrics), task.plan.weight, *of_users)
        if task.plan.has_repeats:
            user = users if owner is None else owner[users]
            of_all = [split_repeat(names[0])[0]] if names else []
            of_users = columns, user, (np.zeros_like(model), of_all), segments
            self.repeat_sums += sums_of_users(means_of(task.plan.metrics), ListWeight.REQUESTS, *of_users)
        if task.plan.over_repeats and names:
            self.add_over_repeats(columns, users, model, names)
        if task.plan.of_run:
            self.tally.add(bucket, inputs.context, (model, names), segments)
        self.groups |= self.weighed_groups(inputs, model, names)
        rows, ends = self.per_user(users, inputs, columns), ends_of(model, len(models))
        item_rows = [self.of_items(name, lists, names) for name in self.item_populations]
        is_list = lists.by_model(lists.n_recommended > 0)
        starts = None if bucket.owner is None else np.flatnonzero(run_starts(bucket.owner))
        counts = lists.counts(task.plan.cuts, task.has_scores, bucket.is_odd_user, starts)
        people = None if starts is None else lists.count_people(chosen, starts)
        lacking = {
            outcome: count_by_code(model[with_it], len(models))
            for outcome, with_it in empty_and_unknown_lists(inputs.context).items()
        }
        signs = candidate_signs(lists, lambda: bucket.n_listed_items)
        for index, name in enumerate(models):
            extra = Counter[EntryKey]({(outcome, None): int(n[index]) for outcome, n in lacking.items()})
            more = ListCounts(users=extra, people=Counter() if people is None else people[index])
            of_rows = counts[index] + bucket.nameless(name) + more
            folds = () if bucket.people.folds is None else bucket.people.folds[is_list[index]].tolist()
            part = rows.slice(ends[index], ends[index + 1] - ends[index])
            keys = key_sum(split_repeat(name or "")[0], part)
            digest = self.list_digest(name) if task.plan.has_repeats else 0
            item_part = pa.concat_tables(parts[index] for parts in item_rows) if item_rows else None
            yield ModelSummary(name, of_rows, frozenset(folds), keys, signs[index], digest), part, item_part

    def add_over_repeats(
        self, columns: Mapping[str, Floats], users: Ints, model: Ints, names: Sequence[str]
    ) -> None:
        """Sum the values that lists have of all repeats of a model; undefined unless each repeat has one.

        ``users`` are the indices in ``people`` of the lists of each repeat, ``model`` those of its name.
        """
        means, owner, people = self.task.plan.over_repeats, self.bucket.owner, np.unique(users)
        reduced: dict[str, Floats] = {}
        for value in means:
            of_each = np.full((len(names), len(people)), np.nan)
            of_each[model, np.searchsorted(people, users)] = columns[value.of_each]
            reduced[value.column] = value.reduced(of_each)
        of_all = np.zeros_like(people), [split_repeat(names[0])[0]]
        segments = {name: (segment.code[people], segment.names) for name, segment in self.segments.items()}
        summed = {value.column: (value.column,) for value in means}
        self.over_repeats += sums(reduced, summed, of_all, segments, has_squares=owner is None)
        if owner is not None:
            of_users = reduced, owner[people], of_all, segments
            self.over_repeats_users += sums_of_users(summed, ListWeight.REQUESTS, *of_users)

    def of_items(self, name: str, lists: BucketLists, names: Sequence[str]) -> list[pa.Table]:
        """Measure the lists of some models by a segment of items; return the rows of each model."""
        plan, population, owner = self.task.plan, self.item_populations[name], self.bucket.owner
        whole, lists = lists, population.lists(lists)
        chosen = lists.population(plan.conventions)
        if whole.truth.largest_relevance > self.task.most_relevance:
            chosen = chosen[:0]
        inputs = lists.lists(chosen, population.ideal)
        columns: dict[str, Floats] = {}
        for value in plan.item_metrics:
            columns |= value.measure(inputs, plan.conventions)
        model, number = np.divmod(chosen, max(len(population.user), 1))
        users, values = population.user[number], population.segment
        cells = (model, names), {name: (values.code[number], values.names)}
        summed = sum_of_columns(plan.item_metrics)
        self.item_sums += sums(columns, summed, *cells, has_all=False, has_squares=owner is None)
        if owner is not None:
            of_users = columns, owner[users], *cells
            means = means_of(plan.item_metrics)
            self.item_user_sums += sums_of_users(means, plan.weight, *of_users, has_all=False)
        rows = self.per_user(users, inputs, columns)
        rows = rows.append_column(SEGMENT, pa.repeat(name, len(rows)))
        rows = rows.append_column(SEGMENT_VALUE, pa.array(values.names).take(pa.array(values.code[number])))
        ends = ends_of(model, len(names))
        return [rows.slice(start, end - start) for start, end in pairwise(ends.tolist())]

    def list_digest(self, model: str | None) -> int:
        """Return a checksum of the valid rows of a model's lists, in any order."""
        bucket, rows = self.bucket, self.bucket.list_rows
        first = bucket.models.index(model) * len(bucket.people)
        own = rows.take((rows.of_list >= first) & (rows.of_list < first + len(bucket.people)))
        ids = [bucket.people.ids, *([] if bucket.people.requests is None else [bucket.people.requests])]
        return truth_digest(ids, own.user, bucket.items, own.item, own.order.astype(np.float64))

    def per_user(self, users: Ints, lists: Lists, columns: Mapping[str, Floats]) -> pa.Table:
        """Return the rows of ``per_user`` of these users."""
        people = self.bucket.people
        fold = {} if people.folds is None else {FOLD: people.folds[users].astype(np.int32)}
        segments = {name: segment.column(users) for name, segment in self.segments.items() if name != FOLD}
        values = {name: pa.array(values, from_pandas=True) for name, values in columns.items()}
        ids = {USER: people.ids.take(pa.array(users))}
        if people.requests is not None:
            ids[REQUEST] = people.requests.take(pa.array(users))
        counts = {N_RELEVANT: lists.n_relevant, N_RECOMMENDED: lists.n_recommended}
        return pa.table(ids | counts | fold | segments | values)

    def columns(self, lists: Lists) -> dict[str, Floats]:
        """Return the values of all metrics, NaN where undefined."""
        columns: dict[str, Floats] = {}
        for value in self.task.plan.metrics:
            columns |= value.measure(lists, self.task.plan.conventions)
        return columns

    def weighed_groups(
        self, lists: Lists, model: Ints, names: Sequence[str]
    ) -> dict[tuple[int, str], GroupWeights]:
        """Return the weights of item groups in the lists of each model, by metric index and model."""
        plan, context = self.task.plan, lists.context
        weights: dict[tuple[int, str], GroupWeights] = {}
        for index, value in enumerate(plan.of_groups if context is not None else ()):
            own = value.conventions(plan.conventions)
            of_models = GroupWeights.of_lists(require_fact(context), value.k, own, model, len(names))
            weights |= {(index, name): one for name, one in zip(names, of_models, strict=True)}
        return weights

    def filled(self, lists: Lists) -> dict[str, Floats]:
        """Return a column per cutoff of the run: 1 for lists with an item up to it, NaN for others."""
        columns: dict[str, Floats] = {}
        if lists.context is not None and lists.context.listed is not None:
            for k in self.task.plan.run_cuts:
                columns[filled_column(k)] = np.where(lists.context.listed.count(k) > 0, 1.0, np.nan)
        return columns
