"""Context of lists for metrics: recommended items, truth, training history, base lists."""

import numpy as np

from spark_eval.arrow.codes import Booleans, count_by_code, lexsort, run_starts
from spark_eval.arrow.messages import Content
from spark_eval.conventions.choice import Need
from spark_eval.evaluation.worker.bucket import Bucket
from spark_eval.evaluation.worker.lists import BucketLists
from spark_eval.evaluation.worker.users import Users, indices_of_users
from spark_eval.kernels.beyond.catalog import Entries, ItemContext, Sets, index_in_run
from spark_eval.schema import Outcome
from spark_eval.statistics.exact import Floats, Ints


class ItemContextBuilder:
    """Users' relevant, trained and base items in a bucket, if a metric needs them.

    ``lists`` are those of all models. ``fold`` (users,) is the row of each user in the catalogue's tables;
    ``relevant``, ``profile`` and ``base`` have a row per user.
    """

    def __init__(self, bucket: Bucket, lists: BucketLists) -> None:
        plan, self.bucket = bucket.task.plan, bucket
        people, self.attributes = bucket.people, bucket.task.item_attributes
        # A fold that is missing in training raises an error after all buckets are measured.
        self.fold = np.maximum(self.attributes.tables_of(people.folds, len(people)), 0)
        self.relevant = self.relevant_items() if Need.RELEVANT in plan.needs else None
        self.profile = self.trained_items() if Need.HISTORY in plan.needs else None
        self.base, self.has_base = None, None
        if Need.BASE in plan.needs:
            self.has_base = np.zeros(len(people), dtype=bool)
            self.base = self.entries(*np.empty((3, 0), dtype=np.int64))
            if plan.base in bucket.models and lists.listed is not None:
                index = bucket.models.index(plan.base)
                of_base = lists.of_models(index, index + 1)
                self.base, self.has_base = of_base.listed, of_base.n_recommended > 0

    def entries(self, row: Ints, rank: Ints, item: Ints) -> Entries:
        """Return entries from item codes; rows are users, and sorted by row and rank."""
        bucket = self.bucket
        return Entries(len(bucket.people), row, rank, bucket.items.in_order(item), bucket.find_index(item))

    def relevant_items(self) -> Entries:
        """Return the relevant items of each user, best first; equal relevances by descending id."""
        truth, in_order = self.bucket.truth, self.bucket.items.in_order(self.bucket.truth.item)
        relevance = truth.relevances(np.arange(len(truth.user)))
        order = np.lexsort((~in_order, -relevance, truth.user))
        row = truth.user[order]
        return self.entries(row, index_in_run(run_starts(row)) + 1, truth.item[order])

    def trained_items(self) -> Entries:
        """Return the distinct training items of each user, sorted by id."""
        bucket = self.bucket
        rows, item = bucket.rows[Content.PROFILE], bucket.items.columns[2]
        row = indices_of_users(Users.of(rows, bucket.owners.ids.type), bucket.owners)
        row, item = row[row >= 0], item[row >= 0]
        order = lexsort(row, bucket.items.in_order(item))
        row, item = row[order], item[order]
        is_first = run_starts(row) | run_starts(item)
        row, item = row[is_first], item[is_first]
        rank = index_in_run(run_starts(row)) + 1
        of_owners = Entries(
            len(bucket.owners), row, rank, bucket.items.in_order(item), bucket.find_index(item)
        )
        return of_owners if bucket.owner is None else of_owners.of_rows(bucket.owner)

    def of_lists(self, lists: BucketLists, chosen: Ints) -> ItemContext:
        """Return the item context of the chosen lists."""
        users, hits = chosen % max(lists.truth.n_users, 1), lists.chosen_hits(chosen)
        hit_items = lists.truth.item[hits.pair]
        of_users = (self.relevant, self.profile, self.base)
        relevant, profile, base = (one and one.of_rows(users) for one in of_users)
        return ItemContext(
            catalog=self.attributes.catalog,
            fold=self.fold[users],
            hits=self.bucket.find_index(hit_items),
            hit_items=self.bucket.items.in_order(hit_items),
            listed=lists.listed and lists.listed.of_rows(chosen),
            relevant=relevant,
            profile=profile,
            base=base,
            has_base=None if self.has_base is None else self.has_base[users],
        )


def empty_and_unknown_lists(context: ItemContext | None) -> dict[Outcome, Booleans]:
    """Return masks of lists that are empty, or have an item without some attribute, by outcome."""
    if context is None or context.listed is None:
        return {}
    listed, catalog = context.listed, context.catalog
    lacking: dict[Outcome, Booleans] = {}
    if catalog.is_listed is not None:
        lacking[Outcome.OUTSIDE_CATALOG] = context.of_entries(~catalog.is_listed, listed)
    if catalog.n_rows is not None:
        lacking[Outcome.UNSEEN_ITEMS] = context.of_entries(catalog.n_rows == 0, listed)
    for outcome, attributes in (
        (Outcome.WITHOUT_GROUPS, catalog.groups),
        (Outcome.WITHOUT_FEATURES, catalog.features),
        (Outcome.WITHOUT_VECTORS, catalog.vectors),
    ):
        if attributes is not None:
            lacking[outcome] = is_unknown(attributes)[listed.index]
    if catalog.flags:
        is_unflagged = np.any([flags < 0 for flags in catalog.flags.values()], axis=0)
        lacking[Outcome.WITHOUT_FLAGS] = is_unflagged[listed.index]
    n = listed.n_rows
    counts = {outcome: count_by_code(listed.row[entries], n) > 0 for outcome, entries in lacking.items()}
    return {Outcome.EMPTY_LISTS: listed.count(None) == 0, **counts}


def is_unknown(values: Floats | Sets) -> Booleans:
    """Return True for items without the attribute; shape (n + 1,)."""
    return np.asarray(values.sizes == 0 if isinstance(values, Sets) else np.isnan(values).all(axis=1))
