"""The lists of a bucket: what became of their rows, where their hits are, and who is in the mean."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from spark_eval.accounting import CLASHES, WITH_TRUTH, WITHOUT_HITS, WITHOUT_TRUTH
from spark_eval.arrow.codes import counted
from spark_eval.arrow.hashes import Booleans, Ints, changes
from spark_eval.arrow.orders import ordered
from spark_eval.conventions import Conventions, NoHits, NoRecommendations, NoTruth
from spark_eval.engine.truth import Truth
from spark_eval.metrics.lists import Held, Lists, Ragged
from spark_eval.schema import ROW_FAULTS, USER, Fault, Outcome, Reason


@dataclass(frozen=True)
class Hits:
    """Hits by list and rank; all of shape (hits,).

    ``pair`` is the relevant pair; ``held`` is the place among the items that the list holds, or the rank
    where nobody asks.
    """

    of_list: Ints
    pair: Ints
    rank: Ints
    tie_first: Ints
    tie_last: Ints
    held: Ints

    def take(self, chosen: "Ints | Booleans | slice") -> "Hits":
        """Return some of them."""
        return Hits(*(values[chosen] for values in vars(self).values()))


@dataclass(frozen=True)
class AllLists:
    """Lists of the n users of the truth, of one model or of several, one after the other.

    ``n_sound`` are rows without a fault, ``bad`` the others by fault. Of the sound rows ``n_repeated`` name
    an item of the list again, ``n_beyond`` lie behind the largest rank that counts, ``n_cold`` of the rest
    are of items without training interactions. ``held_within[k]`` counts the items at ranks up to k, None
    where nobody asks. All have shape (lists,).
    """

    truth: Truth
    n_sound: Ints
    bad: Mapping[Fault, Ints]
    n_repeated: Ints
    n_beyond: Ints
    n_cold: Ints | None
    tied_cuts: Ints
    last_rank: Ints
    held_within: Mapping[int, Ints] | None
    hits: Hits

    def of_model(self, place: int) -> "AllLists":
        """Return the lists of one model, by its place."""
        part = slice(place * self.truth.n_users, (place + 1) * self.truth.n_users)
        hits = self.hits.take(slice(*np.searchsorted(self.hits.of_list, [part.start, part.stop])))
        return AllLists(
            self.truth,
            self.n_sound[part],
            {fault: n_bad[part] for fault, n_bad in self.bad.items()},
            self.n_repeated[part],
            self.n_beyond[part],
            None if self.n_cold is None else self.n_cold[part],
            self.tied_cuts[part],
            self.last_rank[part],
            self.held_within and {k: within[part] for k, within in self.held_within.items()},
            replace(hits, of_list=hits.of_list - part.start),
        )

    @cached_property
    def n_rows(self) -> Ints:
        """All rows of each list."""
        return self.n_sound + sum(self.bad.values(), np.zeros(1, dtype=np.int64))

    @cached_property
    def n_recommended(self) -> Ints:
        """Distinct items of each list, as far as repeats were looked for."""
        return self.n_sound - self.n_repeated

    @cached_property
    def n_hits(self) -> Ints:
        """Hits of each list."""
        return counted(self.hits.of_list, self.truth.n_users)

    @property
    def has_truth(self) -> Booleans:
        """Whose lists have anything relevant."""
        return self.truth.n_relevant > 0

    def population(self, conventions: Conventions) -> Ints:
        """Return the users in the mean."""
        is_list, has_truth = self.n_recommended > 0, self.has_truth
        chosen = has_truth | (is_list & (conventions.no_truth is NoTruth.ZERO))
        if conventions.no_recommendations is NoRecommendations.DROP:
            chosen &= is_list
        if conventions.no_hits is NoHits.DROP:
            chosen &= ~(has_truth & is_list & (self.n_hits == 0))
        return np.flatnonzero(chosen)

    def lists(self, chosen: Ints, ideal: Ragged) -> Lists:
        """Return these users' lists as kernels take them; ``ideal`` are those of all users."""
        hits = self.hits
        if len(chosen) < self.truth.n_users:
            number = np.full(self.truth.n_users, -1, dtype=np.int64)
            number[chosen] = np.arange(len(chosen))
            hits = hits.take(number[hits.of_list] >= 0)
            hits = replace(hits, of_list=number[hits.of_list])
            within = number[ideal.row] >= 0
            ideal = Ragged(
                len(chosen), number[ideal.row[within]], ideal.rank[within], ideal.relevance[within]
            )
        relevance, held = self.truth.relevances(hits.pair), None
        if self.held_within is not None:
            held = Held(hits.held, {k: within[chosen] for k, within in self.held_within.items()})
        return Lists(
            n_relevant=self.truth.n_relevant[chosen],
            n_recommended=self.n_recommended[chosen],
            hits=Ragged(len(chosen), hits.of_list, hits.rank, relevance),
            ideal=ideal,
            tie_first=hits.tie_first,
            tie_last=hits.tie_last,
            held=held,
        )

    def counts(
        self, cuts: Sequence[int], has_scores: bool, is_odd_user: Booleans, nameless: Mapping[Fault, int]
    ) -> dict[str, int]:
        """Count what became of every row, and of how many users; ``nameless`` are rows without a user."""
        used, has_truth, is_list = self.n_recommended - self.n_beyond, self.has_truth, self.n_recommended > 0
        kinds = {"": used}
        if self.n_cold is not None:
            kinds = {"": used - self.n_cold, Reason.COLD_ITEM.value: self.n_cold}
        none = np.zeros(1, dtype=np.int64)
        rows = {
            f"{Outcome.IN}.": self.n_rows,
            **{f"{Outcome.USED}.{kind}": np.where(has_truth, n, 0) for kind, n in kinds.items()},
            f"{Outcome.DROPPED}.{Reason.NO_TRUTH}": np.where(has_truth, 0, used),
            f"{Outcome.FILTERED}.{Reason.BEYOND_K}": self.n_beyond,
            f"{Outcome.DEDUPLICATED}.{Reason.REPEATED_ITEM}": self.n_repeated,
            **{f"{Outcome.QUARANTINED}.{fault}": self.bad.get(fault, none) for fault in ROW_FAULTS},
        }
        counts = {f"{name}.rows": number.sum() for name, number in rows.items()}
        for fault, number in nameless.items():
            counts[f"{Outcome.IN}..rows"] += number
            counts[f"{Outcome.QUARANTINED}.{fault}.rows"] += number
        counts |= {f"{name}.users": np.count_nonzero(number > 0) for name, number in rows.items()}
        counts[WITH_TRUTH] = np.count_nonzero(is_list & has_truth)
        counts[WITHOUT_HITS] = np.count_nonzero(is_list & has_truth & (self.n_hits == 0))
        counts[WITHOUT_TRUTH] = np.count_nonzero(is_list & ~has_truth)
        if has_scores:
            for bit, k in enumerate(cuts):
                counts[f"{Outcome.TIES_AT_CUT}.k={k}"] = np.count_nonzero(self.tied_cuts >> bit & 1)
        else:
            counts[f"{Outcome.RANK_GAPS}."] = np.count_nonzero(self.last_rank > self.n_rows)
        counts[f"{Outcome.ODD_IDS}.{USER}"] = np.count_nonzero(is_odd_user & (self.n_rows > 0))
        counts[Outcome.LARGEST] = self.n_rows.max(initial=0)
        clashes = ~(changes(self.hits.of_list) | changes(self.hits.rank))
        counts[CLASHES] = np.count_nonzero(clashes)
        return {name: int(number) for name, number in counts.items()}


def distinct_hits(hits: Hits) -> tuple[Hits, Hits]:
    """Return hits by list and rank, each item once, at its best rank; and those that are left out."""
    hits = hits.take(ordered(hits.of_list, hits.pair, hits.rank))
    is_first = changes(hits.of_list) | changes(hits.pair)
    first = hits.take(is_first)
    return first.take(ordered(first.of_list, first.rank, first.pair)), hits.take(~is_first)
