"""A bucket of users, from the messages that came for it to their rows of ``per_user`` and its sums."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.batches.sums import sums
from spark_eval.conventions import Conventions
from spark_eval.engine.codes import Booleans, Codes, Ints, counted, numbers
from spark_eval.engine.lists import Hits, ModelLists, distinct_hits
from spark_eval.engine.messages import Kind, tables_of
from spark_eval.engine.people import People, Segment, numbered, place_in, segments_of
from spark_eval.engine.ranks import Places, places_by_score, repeats, sharing_rank, tie_keys
from spark_eval.engine.truth import Truth, combined
from spark_eval.batches.ids import is_odd
from spark_eval.metrics import parse_metric
from spark_eval.metrics.lists import Floats, Lists, Ragged
from spark_eval.metrics.values import MetricValue, summed
from spark_eval.schema import (
    FAULT,
    FOLD,
    ITEM,
    MODEL,
    N_INTERACTIONS,
    N_RECOMMENDED,
    N_RELEVANT,
    N_ROWS,
    RANK,
    RELEVANCE,
    SCORE,
    TIMESTAMP,
    USER,
    Fault,
    Outcome,
    Reason,
)


@dataclass(frozen=True)
class Measured:
    """One model's lists in a bucket.

    ``counts`` are for the accounting; ``per_user`` has a row per user of the population; ``sums`` are those
    of its columns.
    """

    model: str | None
    counts: Mapping[str, int]
    per_user: pa.Table
    sums: pa.Table


@dataclass(frozen=True)
class Question:
    """What is measured, and by which rules.

    ``user`` and ``item`` are the types of the ids, int64 or text. ``metrics`` are texts with their k.
    ``model`` is the name of the only model, None where a column holds names. Lists are looked at as far as
    rank ``depth``, the ideal ones as far as ``truth_depth``; ``cuts`` are looked at for ties. With
    ``checks_all``, repeats are looked for among all items, not among hits alone. Items that are not in
    ``trained`` (by fold, None without folds) are cold. ``bounds`` are the most interactions of each decile.
    """

    user: pa.DataType
    item: pa.DataType
    metrics: tuple[tuple[str, int | None], ...]
    conventions: Conventions
    model: str | None
    has_scores: bool
    has_folds: bool
    checks_all: bool
    sees_ties: bool
    cuts: tuple[int, ...]
    depth: int | None
    truth_depth: int | None
    most_relevance: float | None
    segments: tuple[str, ...] = ()
    bounds: Mapping[int, int] | None = None
    trained: Mapping[int | None, pa.Array] | None = None

    @cached_property
    def values(self) -> list[MetricValue]:
        """The metrics."""
        return [value for text, k in self.metrics for value in parse_metric(text, [k])]

    def schema(self, kind: Kind) -> pa.Schema:
        """The columns of rows of a kind, where not one came."""
        fold = {FOLD: pa.int64()} if self.has_folds else {}
        ids = {USER: self.user, ITEM: self.item}
        match kind:
            case Kind.LISTS:
                order = {SCORE: pa.float64()} if self.has_scores else {RANK: pa.int64()}
                return pa.schema(ids | order | fold | ({MODEL: pa.string()} if self.model is None else {}))
            case Kind.TRUTH:
                return pa.schema(ids | {RELEVANCE: pa.float64(), TIMESTAMP: pa.int64()} | fold)
            case Kind.SEGMENTS:
                return pa.schema({USER: self.user} | dict.fromkeys(self.segments, pa.string()))
            case Kind.TRAINED:
                return pa.schema({USER: self.user, N_INTERACTIONS: pa.int64()} | fold)
        model = {MODEL: pa.string()} if kind is Kind.BAD_LISTS else {}
        return pa.schema(model | {USER: self.user, FAULT: pa.string()} | fold)


class Bucket:
    """The users of a bucket with their truth and lists."""

    def __init__(self, question: Question, parts: Mapping[Kind, Sequence[pa.Buffer]]) -> None:
        self.question = question
        rows = {kind: tables_of(parts, kind, question.schema(kind)) for kind in Kind if kind is not Kind.MODELS}
        named = {kind: rows[kind].filter(pc.is_valid(rows[kind][USER])) for kind in (Kind.BAD_LISTS, Kind.BAD_TRUTH)}
        kinds = (Kind.TRUTH, Kind.LISTS)
        self.people, users = numbered([*(rows[kind] for kind in kinds), *named.values()])
        self.items = Codes.of([rows[kind][ITEM] for kind in kinds])
        self.rows, self.named = rows, named
        self.user = dict(zip((*kinds, *named), users, strict=True))
        self.truth, self.truth_counts = self.judged()

    def judged(self) -> tuple[Truth, list[dict[str, Any]]]:
        """Combine the rows of the truth to pairs and tell which are relevant; with the counts of all rows."""
        conventions, rows = self.question.conventions, self.rows[Kind.TRUTH]
        user, item, relevance, size = combined(
            self.user[Kind.TRUTH], self.items.columns[0], rows, conventions.truth_duplicates
        )
        n = len(self.people)
        least = -np.inf if conventions.threshold is None else conventions.threshold
        is_relevant = (relevance > 0) & (relevance >= least)
        reasons = {
            Reason.BELOW_THRESHOLD: relevance < least,
            Reason.NOT_RELEVANT: (relevance <= 0) & (relevance >= least),
        }
        counts = [
            {FAULT: reason.value, "rows": int(size[chosen].sum()), "users": len(np.unique(user[chosen]))}
            for reason, chosen in reasons.items()
            if chosen.any()
        ]
        bad = self.rows[Kind.BAD_TRUTH]
        for row in bad.group_by(FAULT).aggregate([([], "count_all"), (USER, "count_distinct")]).to_pylist():
            users = row[f"{USER}_count_distinct"]
            counts.append({FAULT: row[FAULT], "rows": row["count_all"], "users": users})
        user, item, relevance = user[is_relevant], item[is_relevant], relevance[is_relevant]
        truth = Truth(n, user, item, None if (relevance == 1).all() else relevance)
        everybody = np.concatenate([self.user[Kind.TRUTH], self.user[Kind.BAD_TRUTH]])
        everything = {FAULT: None, "everything": True, "rows": len(rows) + len(bad)}
        everything["users"] = len(np.unique(everybody))
        used = {FAULT: None, "rows": int(size[is_relevant].sum()), "distinct": len(user)}
        used |= {"users": int(np.count_nonzero(truth.n_relevant)), "max_relevance": relevance.max(initial=0.0)}
        if self.question.trained is not None:
            is_cold = self.is_cold(self.items.columns[0], user, item)
            used |= {"cold": int(np.count_nonzero(is_cold)), "cold_users": len(np.unique(user[is_cold]))}
            used["warm_users"] = len(np.unique(user[~is_cold]))
        used[Outcome.LARGEST] = int(truth.n_relevant.max(initial=0))
        used[f"{Outcome.ODD_IDS}.{USER}"] = np.count_nonzero(self.is_odd_user & (truth.n_relevant > 0))
        odd_items = is_odd(self.items.ids(item))
        used[f"{Outcome.ODD_IDS}.{ITEM}"] = len(np.unique(user[odd_items]))
        return truth, [everything, used, *counts]

    @cached_property
    def is_odd_user(self) -> Booleans:
        """Which users have ids that look like others."""
        return is_odd(self.people.ids)

    def is_cold(self, every_item: Ints, user: Ints, item: Ints) -> Booleans:
        """Return which of these rows name an item without training interactions (in the fold of the user)."""
        trained = self.question.trained or {}
        cold = np.zeros(len(item), dtype=bool)
        distinct, place = np.unique(item, return_inverse=True)
        ids = self.items.ids(distinct)
        for fold, known in trained.items():
            is_new = place_in(ids, known) < 0
            chosen = np.ones(len(item), bool) if fold is None else self.people.folds[user] == fold
            cold |= is_new[place] & chosen
        return cold

    def measured(self, models: Sequence[str | None]) -> Iterator[Measured]:
        """Measure the lists of each model; ``models`` are all that any bucket has."""
        n, question = len(self.people), self.question
        about = [self.rows[kind] for kind in (Kind.SEGMENTS, Kind.TRAINED)]
        segments = segments_of(question.segments, self.people, *about, question.bounds)
        ideal = self.truth.ideal(question.truth_depth)
        for model, lists in zip(models, self.lists(models), strict=True):
            yield self.of_model(model, lists, segments, ideal)

    def lists(self, models: Sequence[str | None]) -> Iterator[ModelLists]:
        """Rank the lists of all models at once, find their hits, count their rows."""
        question, rows, n = self.question, self.rows[Kind.LISTS], len(self.people)
        user, item = self.user[Kind.LISTS], self.items.columns[1]
        of_list = user if question.model is not None else user + n * model_codes(rows[MODEL], models)
        n_lists = n * len(models)
        is_sound, n_repeated = None, np.zeros(n_lists, dtype=np.int64)
        shared = None
        if question.has_scores:
            order = numbers(rows[SCORE])
            from spark_eval.engine.ranks import falling
            again = repeats(of_list, item, falling(order))
        else:
            order = numbers(rows[RANK]).astype(np.int64, copy=False)
            again = repeats(of_list, item, order) if question.checks_all else None
            shared = sharing_rank(of_list, item, order, again) if question.checks_all else None
        bad = dict[Fault, Ints]()
        if again is not None or shared is not None:
            kept = np.ones(len(order), dtype=bool)
            if again is not None:
                kept[again] = False
            if shared is not None:
                bad[Fault.DUPLICATE_RANK] = counted(of_list[shared], n_lists)
                n_repeated = counted(of_list[~kept & ~shared], n_lists)
                kept &= ~shared
            else:
                n_repeated = counted(of_list[~kept], n_lists)
            user, item, of_list, order = user[kept], item[kept], of_list[kept], order[kept]
        n_sound = counted(of_list, n_lists) + n_repeated
        if question.has_scores:
            keys = tie_keys(self.items, item, question.conventions.ties)
            places = places_by_score(of_list, n_lists, order, keys, question.cuts, question.sees_ties)
            last_rank = np.zeros(n_lists, dtype=np.int64)
        else:
            places = Places(order, order, order, np.zeros(n_lists, dtype=np.int64))
            last_rank = np.zeros(n_lists, dtype=np.int64)
            np.maximum.at(last_rank, of_list, order)
        n_beyond = np.zeros(n_lists, dtype=np.int64)
        if question.depth is not None:
            within = places.rank <= question.depth
            n_beyond = counted(of_list[~within], n_lists)
        row, pair = self.truth.find(user, item)
        if question.depth is not None:
            near = within[row]
            row, pair = row[near], pair[near]
        found = Hits(of_list[row], pair, *(values[row] for values in (places.rank, places.tie_first, places.tie_last)))
        hits, lists_again = distinct_hits(found)
        n_cold = None
        if question.trained is not None:
            is_cold = self.is_cold(item, user, item)
            if question.depth is not None:
                is_cold &= within
            n_cold = counted(of_list[is_cold], n_lists)
            cold_row = is_cold[row]
            # A hit is one item however often it was recommended.
            n_cold -= counted(found.of_list[cold_row], n_lists)
            n_cold += counted(hits.of_list[self.is_cold(item, hits.of_list % max(n, 1), self.truth.item[hits.pair])], n_lists)
        n_repeated = n_repeated + counted(lists_again, n_lists)
        bad_rows = self.bad_lists(models)
        for place in range(len(models)):
            part = slice(place * n, (place + 1) * n)
            ends = np.searchsorted(hits.of_list, [part.start, part.stop])
            mine = hits.take(slice(*ends))
            mine = Hits(mine.of_list - part.start, *list(vars(mine).values())[1:])
            bad_users, nameless = bad_rows[place]
            yield ModelLists(
                self.truth,
                n_sound[part],
                {**{fault: n_bad[part] for fault, n_bad in bad.items()}, **bad_users},
                nameless,
                n_repeated[part],
                n_beyond[part],
                None if n_cold is None else n_cold[part],
                places.tied_cuts[part],
                last_rank[part],
                mine,
            )

    def bad_lists(self, models: Sequence[str | None]) -> list[tuple[dict[Fault, Ints], dict[Fault, int]]]:
        """Count each model's rows with a fault: by user, and those without a user."""
        rows, n = self.rows[Kind.BAD_LISTS], len(self.people)
        found: list[tuple[dict[Fault, Ints], dict[Fault, int]]] = [({}, {}) for _ in models]
        if not len(rows):
            return found
        named = self.named[Kind.BAD_LISTS]
        nameless = rows.filter(pc.is_null(rows[USER]))
        for place, model in enumerate(models):
            for table, is_named in ((named, True), (nameless, False)):
                mine = np.ones(len(table), bool) if self.question.model is not None else numbers(
                    pc.is_null(table[MODEL]) if model is None else pc.equal(table[MODEL].cast(pa.string()), model).combine_chunks().fill_null(False)
                ).astype(bool)
                for fault in pc.unique(table[FAULT].filter(pa.array(mine))).to_pylist():
                    chosen = mine & numbers(pc.equal(table[FAULT], fault))
                    if is_named:
                        found[place][0][Fault(fault)] = counted(self.user[Kind.BAD_LISTS][chosen], n)
                    else:
                        found[place][1][Fault(fault)] = int(np.count_nonzero(chosen))
        return found

    def of_model(
        self, model: str | None, lists: ModelLists, segments: Mapping[str, Segment], ideal: Ragged
    ) -> Measured:
        """Measure one model's lists: population, kernels, sums."""
        question = self.question
        chosen = lists.population(question.conventions)
        taken = lists.lists(chosen, ideal)
        columns = self.columns(taken)
        fold = {} if self.people.folds is None else {FOLD: self.people.folds[chosen]}
        per_user = pa.table(
            {
                **fold,
                USER: self.people.ids.take(pa.array(chosen)),
                N_RELEVANT: taken.n_relevant,
                N_RECOMMENDED: taken.n_recommended,
                **{name: segment.column(chosen) for name, segment in segments.items() if name != FOLD},
                **{name: pa.array(values, from_pandas=True) for name, values in columns.items()},
            }
        )
        groups = {name: (segment.code[chosen], segment.names) for name, segment in segments.items()}
        return Measured(
            model,
            lists.counts(question.cuts, question.has_scores, self.is_odd_user),
            per_user,
            sums(columns, summed(question.values), groups),
        )

    def columns(self, lists: Lists) -> dict[str, Floats]:
        """Return the values of all metrics, NaN where undefined."""
        columns: dict[str, Floats] = {}
        for value in self.question.values:
            columns |= value.measure(lists, self.question.conventions)
        return columns


def model_codes(names: pa.ChunkedArray, models: Sequence[str | None]) -> Ints:
    """Return the place of each row's model among all models."""
    known = pa.array(models, pa.string())
    if not pa.types.is_dictionary(names.type):
        return place_in(names.cast(pa.string()).combine_chunks(), known)
    parts = [place_in(chunk.dictionary.cast(pa.string()), known)[numbers(chunk.indices)] for chunk in names.chunks]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
