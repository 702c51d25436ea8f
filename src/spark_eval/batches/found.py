"""Fragments put together: the lists of one model in one bucket of users, counted and ready to be measured."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from spark_eval.batches.ids import Booleans, Ids, Ints, changes, is_odd, numbers
from spark_eval.batches.lookup import Lookup
from spark_eval.batches.meet import (
    HELD_PLACES,
    HELD_WITHIN,
    ITEMS,
    LAST_RANK,
    N_BEYOND,
    N_COLD,
    N_REPEATED,
    RANKS,
    TIE_FIRST,
    TIE_LAST,
    TIED_CUTS,
)
from spark_eval.batches.rows import SOUND
from spark_eval.batches.truth import Truth
from spark_eval.conventions import Conventions, NoHits, NoRecommendations, NoTruth
from spark_eval.ledger import CLASHES, WITH_TRUTH, WITHOUT_HITS, WITHOUT_TRUTH
from spark_eval.metrics.lists import Held, Lists, Ragged
from spark_eval.schema import FAULT, N_ROWS, ROW_FAULTS, USER, Outcome, Reason


@dataclass(frozen=True)
class Hits:
    """Hits of all lists, by list and rank; all of shape (hits,)."""

    of_list: Ints
    row: Ints
    rank: Ints
    tie_first: Ints
    tie_last: Ints
    held_place: Ints

    def take(self, places: Ints | Booleans) -> "Hits":
        """These hits."""
        return Hits(*(values[places] for values in vars(self).values()))


@dataclass(frozen=True)
class Found:
    """n lists of one model: of the users of the truth, then of others.

    ``users`` are the ids of the others, one of which may be null. All counts are of shape (n,); ``faulty``
    is (n, faults).
    """

    truth: Truth
    users: pa.Array
    n_rows: Ints
    faulty: Ints
    n_repeated: Ints
    n_beyond: Ints
    n_cold: Ints | None
    tied_cuts: Ints
    last_rank: Ints
    n_fragments: Ints
    n_clashes: Ints
    held_within: Mapping[int, Ints] | None
    hits: Hits

    @classmethod
    def of(
        cls,
        fragments: pa.Table,
        truth: Truth,
        trained: Lookup | None,
        held_cuts: tuple[int, ...] | None = None,
    ) -> "Found":
        """The lists of the fragments of one model; items that are not in ``trained`` are cold."""
        columns = {name: fragments[name].combine_chunks() for name in fragments.column_names}
        place, others = numbered(columns[USER], truth)
        n, fault = truth.n_users + len(others), numbers(columns[FAULT])

        def total(name: str, chosen: Booleans) -> Ints:
            return counted(place[chosen], n, numbers(columns[name])[chosen])

        is_sound = fault == SOUND
        of_list = np.repeat(place, numbers(columns[ITEMS].value_lengths()))
        items = columns[ITEMS].flatten()
        is_hit, row = truth.hits(of_list, Ids.of(items))
        names = (RANKS, TIE_FIRST, TIE_LAST, RANKS if held_cuts is None else HELD_PLACES)
        ranks = (numbers(columns[name].flatten())[is_hit] for name in names)
        hits, again = distinct(Hits(of_list[is_hit], row, *ranks))
        n_cold = None
        if trained is not None:
            # A hit is one item however often it was recommended; of other candidates every row counts.
            is_cold = trained.codes(Ids.of(items)) < 0
            is_cold[is_hit] = False
            is_cold_hit = trained.codes(Ids.of(truth.items.take(pa.array(hits.row)))) < 0
            n_cold = total(N_COLD, is_sound) + counted(of_list[is_cold], n)
            n_cold += counted(hits.of_list[is_cold_hit], n)
        clashes = hits.of_list[~(changes(hits.of_list) | changes(hits.rank))]
        tied_cuts = np.zeros(n, dtype=np.int64)
        np.bitwise_or.at(tied_cuts, place, numbers(columns[TIED_CUTS]))
        last_rank = np.zeros(n, dtype=np.int64)
        np.maximum.at(last_rank, place, numbers(columns[LAST_RANK]))
        return cls(
            truth=truth,
            users=others,
            n_rows=total(N_ROWS, fault >= SOUND),
            faulty=np.stack([total(N_ROWS, fault == code) for code in range(len(ROW_FAULTS))], axis=1),
            n_repeated=total(N_REPEATED, is_sound) + counted(again, n),
            n_beyond=total(N_BEYOND, is_sound),
            n_cold=n_cold,
            tied_cuts=tied_cuts,
            last_rank=last_rank,
            n_fragments=counted(place[is_sound], n),
            n_clashes=counted(clashes, n),
            held_within=(
                None if held_cuts is None else {k: total(HELD_WITHIN.format(k), is_sound) for k in held_cuts}
            ),
            hits=hits,
        )

    @cached_property
    def n_recommended(self) -> Ints:
        """Distinct items of each list, as far as repeats were looked for."""
        n_recommended: Ints = self.n_rows - self.faulty.sum(axis=1) - self.n_repeated
        return n_recommended

    @cached_property
    def n_hits(self) -> Ints:
        """Hits of each list."""
        return np.bincount(self.hits.of_list, minlength=len(self.n_rows))

    @cached_property
    def has_truth(self) -> Booleans:
        """Whose lists have anything relevant."""
        return np.arange(len(self.n_rows)) < self.truth.n_users

    def counts(self, cuts: tuple[int, ...], has_scores: bool) -> dict[str, int]:
        """What became of every row, and of how many users: as ``transforms.account.count_lists``."""
        used = self.n_recommended - self.n_beyond
        kinds = {"": used}
        if self.n_cold is not None:
            kinds = {"": used - self.n_cold, Reason.COLD_ITEM.value: self.n_cold}
        rows = {
            f"{Outcome.IN}.": self.n_rows,
            **{f"{Outcome.USED}.{kind}": np.where(self.has_truth, n, 0) for kind, n in kinds.items()},
            f"{Outcome.DROPPED}.{Reason.NO_TRUTH}": np.where(self.has_truth, 0, used),
            f"{Outcome.FILTERED}.{Reason.BEYOND_K}": self.n_beyond,
            f"{Outcome.DEDUPLICATED}.{Reason.REPEATED_ITEM}": self.n_repeated,
            **{
                f"{Outcome.QUARANTINED}.{fault}": self.faulty[:, code]
                for code, fault in enumerate(ROW_FAULTS)
            },
        }
        is_user = self.has_truth.copy()
        is_user[self.truth.n_users :] = numbers(self.users.is_valid())
        is_list = self.n_recommended > 0
        counts = {f"{name}.rows": number.sum() for name, number in rows.items()}
        counts |= {f"{name}.users": ((number > 0) & is_user).sum() for name, number in rows.items()}
        counts[WITH_TRUTH] = (is_list & self.has_truth).sum()
        counts[WITHOUT_HITS] = (is_list & self.has_truth & (self.n_hits == 0)).sum()
        counts[WITHOUT_TRUTH] = (is_list & ~self.has_truth).sum()
        if has_scores:
            for bit, k in enumerate(cuts):
                counts[f"{Outcome.TIES_AT_CUT}.k={k}"] = (self.tied_cuts >> bit & 1).sum()
        else:
            counts[f"{Outcome.RANK_GAPS}."] = (self.last_rank > self.n_rows).sum()
        is_odd_user = np.concatenate([is_odd(self.truth.users.ids), is_odd(self.users)])
        counts[f"{Outcome.ODD_IDS}.{USER}"] = (is_odd_user & (self.n_rows > 0)).sum()
        counts[Outcome.LARGEST] = self.n_rows[is_user].max(initial=0)
        counts[CLASHES] = self.n_clashes.sum()
        return {name: int(number) for name, number in counts.items()}

    def population(self, conventions: Conventions) -> Ints:
        """The lists that are in the mean."""
        is_list = self.n_recommended > 0
        chosen = np.where(self.has_truth, True, is_list & (conventions.no_truth is NoTruth.ZERO))
        if conventions.no_recommendations is NoRecommendations.DROP:
            chosen &= is_list
        if conventions.no_hits is NoHits.DROP:
            chosen &= ~(self.has_truth & is_list & (self.n_hits == 0))
        return np.flatnonzero(chosen)

    def ids(self, chosen: Ints) -> pa.Array:
        """The users of these lists."""
        return pa.concat_arrays([self.truth.users.ids, self.users]).take(pa.array(chosen))

    def lists(self, chosen: Ints, truth_depth: int | None) -> Lists:
        """These lists, as kernels take them; ``truth_depth`` is how many items an ideal list can hold."""
        number = np.full(len(self.n_rows), -1, dtype=np.int64)
        number[chosen] = np.arange(len(chosen))
        hits = self.hits.take(number[self.hits.of_list] >= 0)
        known = chosen[chosen < self.truth.n_users]
        starts, ends = self.truth.offsets[known], self.truth.offsets[known + 1]
        n_relevant = np.zeros(len(chosen), dtype=np.int64)
        n_relevant[: len(known)] = sizes = ends - starts
        of_list = np.repeat(np.arange(len(known)), sizes)
        place = np.arange(len(of_list)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        relevance = self.truth.relevances(np.repeat(starts, sizes) + place)
        ideal = Ragged(len(chosen), of_list, place + 1, relevance)
        if self.truth.relevance is not None:
            ideal = ideal.best_first
        if truth_depth is not None:
            within = ideal.rank <= truth_depth
            ideal = Ragged(len(chosen), of_list[within], ideal.rank[within], ideal.relevance[within])
        held = None
        if self.held_within is not None:
            counts = {k: counts[chosen] for k, counts in self.held_within.items()}
            held = Held(hits.held_place, counts)
        return Lists(
            n_relevant=n_relevant,
            n_recommended=np.maximum(self.n_recommended[chosen], 0),
            hits=Ragged(len(chosen), number[hits.of_list], hits.rank, self.truth.relevances(hits.row)),
            ideal=ideal,
            tie_first=hits.tie_first,
            tie_last=hits.tie_last,
            held=held,
        )


def numbered(users: pa.Array, truth: Truth) -> tuple[Ints, pa.Array]:
    """The list of each fragment, by number: its user's code in the truth, or beyond; and the other users."""
    is_named = numbers(users.is_valid()).astype(bool)
    number = np.full(len(users), -1, dtype=np.int64)
    number[is_named] = truth.users.codes(Ids.of(users.drop_null()))
    others = users.filter(pa.array(number < 0)).dictionary_encode("encode")
    number[number < 0] = truth.n_users + numbers(others.indices)
    return number, others.dictionary


def counted(lists: Ints, n: int, numbers: Ints | None = None) -> Ints:
    """How often each list is named, or the sum of its ``numbers``; shape (n,)."""
    counts: Ints = np.bincount(lists, numbers, minlength=n).astype(np.int64)
    return counts


def distinct(hits: Hits) -> tuple[Hits, Ints]:
    """The hits by list and rank, each item once, at its best rank; and the lists of those left out."""
    hits = hits.take(np.lexsort((hits.rank, hits.row)))
    is_first = changes(hits.row)
    again = hits.of_list[~is_first]
    first = hits.take(is_first)
    return first.take(np.lexsort((first.rank, first.of_list))), again
