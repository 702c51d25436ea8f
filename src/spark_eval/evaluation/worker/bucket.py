"""Truth, lists and hits of one bucket of users."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_eval.accounting import EntryKey, ListCounts, TruthCounts, outcome_and_reason
from spark_eval.arrow.checksums import truth_digest
from spark_eval.arrow.codes import (
    Array,
    Booleans,
    Codes,
    count_by_code,
    count_unique,
    index_of,
    is_numeric_lookalike,
    to_numpy,
)
from spark_eval.arrow.messages import Content
from spark_eval.conventions.choice import Need
from spark_eval.evaluation.worker.items.attributes import IndexFinder
from spark_eval.evaluation.worker.lists import BucketLists, Hits, RowArrays, distinct_hits
from spark_eval.evaluation.worker.ranks import (
    Ranks,
    descending_keys,
    has_no_duplicates,
    is_duplicate_item,
    is_duplicate_rank,
    position_in_list,
    rank_by_score,
    rows_by_rank,
    score_keys,
    sort_by_list_and_rank,
    tie_keys,
    use_given_ranks,
)
from spark_eval.evaluation.worker.task import EvaluationTask
from spark_eval.evaluation.worker.truth import Truth, combine_duplicates
from spark_eval.evaluation.worker.users import (
    Users,
    has_user,
    number_requests,
    number_users,
)
from spark_eval.kernels.beyond.catalog import UNKNOWN, Entries
from spark_eval.names import model_faults, repeat_faults, split_repeat
from spark_eval.schema import (
    FAULT,
    IN_TRAIN,
    ITEM,
    MODEL,
    RANK,
    REQUEST,
    SCORE,
    USER,
    Fault,
    Outcome,
    Reason,
)
from spark_eval.statistics.exact import Ints


def models_in(rows: Mapping[Content, pa.Table], only: str | None) -> list[str | None]:
    """Return the sorted model names of all buckets, with None for rows without a name.

    ``only`` is the name of the only model, if no column has the names.
    """
    if only is not None:
        return [only]
    names = (
        set(pc.unique(rows[Content.MODELS][MODEL].unify_dictionaries()).to_pylist())
        if Content.MODELS in rows
        else set()
    )
    return sorted(names, key=lambda name: name or "")


def model_codes(names: pa.ChunkedArray, models: Sequence[str | None]) -> Ints:
    """Return the index of each row's model among all models."""
    all_names = pa.array(models, pa.string())
    parts = [np.empty(0, dtype=np.int64)]
    for chunk in names.chunks:
        if not pa.types.is_dictionary(chunk.type):
            chunk = chunk.cast(pa.string()).dictionary_encode("encode")
        index = index_of(chunk.dictionary.cast(pa.string()), all_names)
        null = int(all_names.null_count and models.index(None))
        codes = to_numpy(chunk.indices.fill_null(len(index)))
        parts.append(np.append(index, null)[codes])
    return np.concatenate(parts)


@dataclass(frozen=True)
class ListRows(RowArrays):
    """n valid rows of recommendations: codes of user, item and list, and the score or rank.

    ``catalog_index`` is the item's index in the catalogue, ``is_cold`` True if the item has no training
    interactions; both None if not requested.
    """

    user: Ints
    item: Ints
    of_list: Ints
    order: Array
    catalog_index: Ints | None
    is_cold: Booleans | None


class Bucket:
    """Users of a bucket with their truth and lists; ``rows`` are the received tables by content.

    ``people`` are the n users, once per fold and request. ``user`` maps each content to the user codes of its
    rows; ``items`` codes the items of truth, lists and profiles. ``owners`` are the users once per fold, and
    ``owner`` (n,) the index of each of ``people`` in them; None if there are no requests. ``judged`` are
    those whom the codes of the truth number: ``people``, or ``owners`` if the truth is not of requests.
    """

    def __init__(self, task: EvaluationTask, rows: Mapping[Content, pa.Table]) -> None:
        self.task = task
        self.rows = {kind: rows.get(kind, schema.empty_table()) for kind, schema in task.schemas.items()}
        kinds = (Content.TRUTH, Content.LISTS, Content.BAD_TRUTH, Content.BAD_LISTS)
        valid = {kind: self.rows[kind] for kind in kinds[:2]}
        bad = {kind: self.rows[kind].filter(has_user(self.rows[kind])) for kind in kinds[2:]}
        self.named = valid | bad
        tables = [self.named[kind] for kind in kinds]
        self.people, users = number_users(tables)
        self.owners, self.owner = self.people, None
        if task.request is not None:
            self.people, self.owner, users = number_requests(self.people, tables, users)
        self.judged = self.people if REQUEST in tables[0].column_names else self.owners
        self.user = dict(zip(kinds, users, strict=True))
        with_items = (Content.TRUTH, Content.LISTS, Content.PROFILE)
        self.items = Codes.of([self.rows[kind][ITEM] for kind in with_items if kind in self.rows])

    @cached_property
    def models(self) -> list[str | None]:
        """Sorted names of the models that occur in any bucket."""
        return models_in(self.rows, self.task.model)

    @cached_property
    def has_valid_models(self) -> bool:
        """True if the names of all models may be names of folders."""
        names = [name for name in self.models if name is not None]
        models = dict.fromkeys(split_repeat(name)[0] for name in names)
        return not (model_faults(list(models)) or repeat_faults(names))

    @cached_property
    def n_lists(self) -> int:
        """Number of lists: one per model and user."""
        return len(self.people) * len(self.models)

    @cached_property
    def is_odd_user(self) -> Booleans:
        """True for users with ids that look like other users' ids; shape (n,)."""
        return is_numeric_lookalike(self.people.ids)

    @cached_property
    def pairs(self) -> tuple[Ints, Ints, NDArray[np.float64], Ints, Booleans | None]:
        """Distinct pairs of the truth: user, item, relevance, number of rows, cold flag (or None)."""
        user, item = self.user[Content.TRUTH], self.items.columns[0]
        is_cold = self.is_cold(Content.TRUTH, self.judged, user, self.catalog_index(item))
        first, relevance, size = combine_duplicates(
            user, item, self.rows[Content.TRUTH], self.task.plan.conventions.truth_duplicates
        )
        return user[first], item[first], relevance, size, None if is_cold is None else is_cold[first]

    @cached_property
    def irrelevant(self) -> tuple[Reason, Booleans]:
        """Reason for leaving out pairs, and True for the pairs that are not relevant."""
        relevance, least = self.pairs[2], self.task.plan.conventions.threshold
        if least is None:
            return Reason.NOT_RELEVANT, relevance <= 0
        return Reason.BELOW_THRESHOLD, relevance < least

    @cached_property
    def truth(self) -> Truth:
        """Relevant pairs of each of ``people``."""
        if self.owner is None or self.judged is self.people:
            return self.relevant
        return self.relevant.of_lists(self.owner)

    @cached_property
    def relevant(self) -> Truth:
        """Relevant pairs of each of ``judged``, as the table has them."""
        user, item, relevance, _, is_cold = self.pairs
        is_relevant = ~self.irrelevant[1]
        # If all pairs are relevant, nothing is copied: a single user may have millions.
        chosen = slice(None) if is_relevant.all() else is_relevant
        relevance = relevance[chosen]
        return Truth(
            len(self.judged),
            user[chosen],
            item[chosen],
            None if (relevance == 1).all() else relevance,
            None if is_cold is None else is_cold[chosen],
        )

    @property
    def truth_digest(self) -> int:
        """Checksum of the relevant pairs."""
        truth = self.relevant
        relevance = truth.relevances(np.arange(len(truth.user)))
        judged = [self.judged.ids, *([] if self.judged.requests is None else [self.judged.requests])]
        return truth_digest(judged, truth.user, self.items, truth.item, relevance)

    @property
    def truth_folds(self) -> frozenset[int]:
        """Folds with at least one relevant pair."""
        folds = self.people.folds
        return frozenset() if folds is None else frozenset(folds[self.truth.n_relevant > 0].tolist())

    def truth_counts(self) -> TruthCounts:
        """Count the rows of the truth and their users by outcome; ``n_users`` counts lists with truth."""
        user, size = self.pairs[0], self.pairs[3]
        truth, bad, bad_users = self.relevant, self.rows[Content.BAD_TRUTH], self.user[Content.BAD_TRUTH]
        n_rows = len(self.rows[Content.TRUTH]) + len(bad)
        # Outcome and reason, number of rows, and the users (indices of ``judged``) who have them.
        noted: list[tuple[EntryKey, int, Ints]] = [
            ((Outcome.IN, None), n_rows, np.append(self.user[Content.TRUTH], bad_users))
        ]
        used: dict[str | None, Ints] = {None: truth.user}
        if truth.is_cold is not None:
            used = {None: truth.user[~truth.is_cold], Reason.COLD_ITEM: truth.user[truth.is_cold]}
        noted += [((Outcome.USED, reason), len(users), users) for reason, users in used.items()]
        why, left_out = self.irrelevant
        noted.append((outcome_and_reason(why), int(size[left_out].sum()), user[left_out]))
        for fault in pc.unique(bad[FAULT]).to_pylist():
            named = bad_users[to_numpy(pc.equal(self.named[Content.BAD_TRUTH][FAULT], fault))]
            noted.append((outcome_and_reason(fault), pc.sum(pc.equal(bad[FAULT], fault)).as_py(), named))
        is_odd_user = is_numeric_lookalike(self.judged.ids) & (truth.n_relevant > 0)
        odd = {
            USER: np.flatnonzero(is_odd_user),
            ITEM: truth.user[is_numeric_lookalike(self.items.ids(truth.item))],
        }
        largest, n_users = int(truth.n_relevant.max(initial=0)), count_unique(self.truth.user)
        counts = TruthCounts(largest=largest, n_users=n_users, max_relevance=truth.largest_relevance)
        n_repeats = int(size[~left_out].sum()) - len(truth.user)
        counts.rows[Outcome.DEDUPLICATED, Reason.REPEATED_ITEM] = n_repeats
        owner = None if self.judged is self.owners else self.owner
        with_users: list[tuple[EntryKey, Ints]] = [(key, users) for key, _, users in noted]
        with_users += [((Outcome.ODD_IDS, column), users) for column, users in odd.items()]
        for key, rows, _ in noted:
            counts.rows[key] += rows
        for key, users in with_users:
            counts.users[key] += count_unique(users if owner is None else owner[users])
        return counts

    def is_cold(self, kind: Content, people: Users, user: Ints, index: Ints | None) -> Booleans | None:
        """Return True for rows whose item has no training interactions (in the fold of the user).

        ``user`` are indices in ``people``, ``index`` those of the rows' items in the catalogue. None if
        training interactions are unknown.
        """
        if IN_TRAIN in self.rows[kind].column_names:
            return ~to_numpy(self.rows[kind][IN_TRAIN]).astype(bool)
        attributes = self.task.attributes
        if attributes is None or attributes.catalog.n_rows is None or index is None:
            return None
        if attributes.folds is None or people.folds is None:
            return np.asarray(~attributes.is_trained[0][index])
        fold = attributes.tables_of(people.folds, len(people))[user]
        return ~attributes.is_trained[fold, index] & (fold >= 0)

    def catalog_index(self, item: Ints) -> Ints | None:
        """Return the catalogue indices of item codes; None if there are no item attributes."""
        return None if self.task.attributes is None else self.find_index(item)

    @cached_property
    def find_index(self) -> IndexFinder:
        """Function from item codes to catalogue indices."""
        return self.task.item_attributes.index_finder(self.items)

    @cached_property
    def list_rows(self) -> ListRows:
        """Valid rows of recommendations."""
        rows, user, item = self.rows[Content.LISTS], self.user[Content.LISTS], self.items.columns[1]
        order = score_keys(rows[SCORE]) if self.task.has_scores else to_numpy(rows[RANK]).astype(np.int64)
        index = self.catalog_index(item)
        is_cold = self.is_cold(Content.LISTS, self.people, user, index)
        return ListRows(user, item, self.list_of(Content.LISTS), order, index, is_cold)

    def list_of(self, kind: Content) -> Ints:
        """Return the list number of each row with a user; lists are numbered by model, then by user."""
        if self.task.model is not None:
            return self.user[kind]
        return self.user[kind] + len(self.people) * model_codes(self.named[kind][MODEL], self.models)

    @cached_property
    def n_listed_items(self) -> int:
        """Number of distinct items in all lists."""
        return count_unique(self.list_rows.item)

    def lists(self) -> BucketLists:
        """Rank the lists of all models at once, find their hits, count their rows."""
        task, n_lists = self.task, self.n_lists
        bad, rows = self.bad_lists(), self.list_rows
        n_valid = count_by_code(rows.of_list, n_lists)
        n_repeated = np.zeros(n_lists, dtype=np.int64)
        grid = None
        if task.checks_all and not task.has_scores:
            grid = rows_by_rank(rows.of_list, n_lists, rows.order)
        if task.checks_all and not has_no_duplicates(grid, rows.item):
            grid = None
            is_again, shares = self.repeated(rows)
            bad[Fault.DUPLICATE_RANK] = count_by_code(rows.of_list[shares], n_lists)
            n_valid = n_valid - bad[Fault.DUPLICATE_RANK]
            n_repeated = count_by_code(rows.of_list[is_again & ~shares], n_lists)
            if (left_out := is_again | shares).any():
                rows = rows.take(~left_out)
        if task.has_scores:
            keys = tie_keys(self.items, rows.item, task.plan.conventions.ties)
            ranked = rank_by_score(
                rows.of_list, n_lists, rows.order, keys, task.plan.cuts, Need.TIES in task.plan.needs
            )
        else:
            ranked = use_given_ranks(rows.of_list, n_lists, rows.order)
        near = None if task.plan.depth is None else ranked.rank <= task.plan.depth
        row, pair = self.truth.find(rows.user, rows.item)
        of_found = rows.of_list[row]
        is_below = ranked.rank[row] > self.truth.n_relevant[rows.user[row]]
        hits, again = self.hits(rows, ranked, near, row, pair)
        cuts = task.length_cuts
        return BucketLists(
            self.truth,
            len(self.models),
            n_valid,
            bad,
            n_repeated + count_by_code(again.of_list, n_lists),
            np.zeros(n_lists, dtype=np.int64)
            if near is None
            else count_by_code(rows.of_list[~near], n_lists),
            self.n_cold(rows, near, again),
            ranked.tied_cuts,
            ranked.last_rank,
            None
            if cuts is None
            else {k: count_by_code(rows.of_list[ranked.rank <= k], n_lists) for k in cuts},
            {k: count_by_code(rows.of_list[ranked.rank <= k], n_lists) for k in task.plan.stage_cuts},
            count_by_code(of_found, n_lists),
            count_by_code(of_found[is_below], n_lists),
            hits,
            self.listed(rows, ranked, grid, task.plan.listed_depth)
            if Need.ITEMS in task.plan.needs
            else None,
            self.listed(rows, ranked, grid, depth) if (depth := task.plan.handed_on_depth) else None,
        )

    def listed(self, rows: ListRows, ranked: Ranks, grid: Ints | None, depth: int | None) -> Entries:
        """Return the recommended items of all lists up to a rank.

        ``grid`` are the rows by list and rank, if they are known.
        """
        if grid is None:
            row = sort_by_list_and_rank(rows.of_list, self.n_lists, ranked.rank, depth)
            of_list, rank = rows.of_list[row], ranked.rank[row]
        elif (near := grid[:, :depth]).min(initial=0) >= 0:  # most often every list has a row at each rank
            row, width = near.ravel(), near.shape[1]
            of_list = np.repeat(np.arange(self.n_lists), width)
            rank = np.tile(np.arange(1, width + 1), self.n_lists)
        else:
            has_row = near >= 0
            row = near[has_row]
            of_list = np.repeat(np.arange(self.n_lists), np.count_nonzero(has_row, axis=1))
            rank = np.broadcast_to(np.arange(1, has_row.shape[1] + 1), has_row.shape)[has_row]
        index = np.full(len(row), UNKNOWN) if rows.catalog_index is None else rows.catalog_index[row]
        item = self.items.in_order(rows.item[row])
        return Entries(self.n_lists, of_list, rank, item, index)

    def repeated(self, rows: ListRows) -> tuple[Booleans, Booleans]:
        """Return masks of rows that repeat an item of their list, and of rows that share a rank."""
        before = descending_keys(rows.order) if self.task.has_scores else rows.order
        again = is_duplicate_item(rows.of_list, self.n_lists, rows.item, before)
        is_again = np.zeros(len(rows.item), dtype=bool)
        is_again[again] = True
        if self.task.has_scores:
            return is_again, np.zeros_like(is_again)
        return is_again, is_duplicate_rank(rows.of_list, rows.item, rows.order, is_again)

    def hits(
        self, rows: ListRows, ranked: Ranks, near: Booleans | None, row: Ints, pair: Ints
    ) -> tuple[Hits, Hits]:
        """Return the hits of all lists, each item once at its best rank, and the duplicate hits.

        ``row`` are the rows with a relevant item, ``pair`` its index in the truth.
        """
        if near is not None:
            row, pair = row[near[row]], pair[near[row]]
        position = (
            ranked.rank if self.task.length_cuts is None else position_in_list(rows.of_list, ranked.rank)
        )
        ranks = (values[row] for values in (ranked.rank, ranked.tie_first, ranked.tie_last, position))
        return distinct_hits(Hits(rows.of_list[row], pair, *ranks))

    def n_cold(self, rows: ListRows, near: Booleans | None, again: Hits) -> Ints | None:
        """Count the cold items of each list; a duplicate item counts once if it is a hit."""
        if rows.is_cold is None or self.truth.is_cold is None:
            return None
        is_cold = rows.is_cold if near is None else rows.is_cold & near
        counted_again = again.of_list[self.truth.is_cold[again.pair]]
        return count_by_code(rows.of_list[is_cold], self.n_lists) - count_by_code(counted_again, self.n_lists)

    def bad_lists(self) -> dict[Fault, Ints]:
        """Count invalid rows by error code; arrays of shape (n_lists,)."""
        faults, of_list = self.named[Content.BAD_LISTS][FAULT], self.list_of(Content.BAD_LISTS)
        return {
            Fault(fault): count_by_code(of_list[to_numpy(pc.equal(faults, fault))], self.n_lists)
            for fault in pc.unique(faults).to_pylist()
        }

    def nameless(self, model: str | None) -> ListCounts:
        """Count a model's rows without a user, by error code."""
        rows = self.rows[Content.BAD_LISTS]
        rows = rows.filter(pc.invert(has_user(rows)))
        if self.task.model is None:
            names = rows[MODEL].cast(pa.string())
            rows = rows.filter(pc.is_null(names) if model is None else pc.equal(names, model))
        of_faults = Counter(outcome_and_reason(fault) for fault in rows[FAULT].to_pylist())
        return ListCounts(Counter({(Outcome.IN, None): len(rows)}) + of_faults)
