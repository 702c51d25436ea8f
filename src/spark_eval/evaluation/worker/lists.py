"""The lists of a bucket: their hits, their values, and exact sums over their users."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import prod
from typing import Final, NamedTuple, Self

import numpy as np

from spark_eval.accounting import EntryKey, ListCounts
from spark_eval.arrow.codes import Array, Booleans, count_by_code, lexsort, run_starts
from spark_eval.conventions import Conventions, NoHits, NoRecommendations, NoTruth
from spark_eval.evaluation.worker.truth import Truth
from spark_eval.kernels.beyond.catalog import Entries
from spark_eval.kernels.lists import FilledRanks, Lists, Ragged
from spark_eval.schema import ALL, ROW_FAULTS, USER, Fault, Outcome, Reason
from spark_eval.statistics.exact import (
    MOST_SUMMED,
    POINT_BITS,
    DigitSums,
    ExactSums,
    Floats,
    Groups,
    Ints,
    add,
    two_product,
)
from spark_eval.statistics.totals import CellTotals


@dataclass(frozen=True)
class RowArrays:
    """Arrays of one length; some may be None."""

    def take(self, chosen: "Ints | Booleans | slice") -> Self:
        """Return the chosen rows of every array."""
        return type(self)(*(None if values is None else values[chosen] for values in vars(self).values()))


@dataclass(frozen=True)
class Hits(RowArrays):
    """Hits sorted by list and rank; all of shape (hits,).

    ``pair`` is the index of the relevant pair. ``position`` is the hit's position among the items of the list
    that are present (gaps in the ranks are skipped), from 1; it equals the rank if this is not requested.
    """

    of_list: Ints
    pair: Ints
    rank: Ints
    tie_first: Ints
    tie_last: Ints
    position: Ints


@dataclass(frozen=True)
class BucketLists:
    """Lists of the n users of the truth for several models, sorted by model, then by user.

    Row counts of each list, all of shape (lists,): ``n_valid`` valid rows and, by fault, ``bad`` invalid
    ones. Among the valid rows, ``n_repeated`` repeat an item of the list, ``n_beyond`` have a rank beyond the
    largest cutoff, and ``n_cold`` of the rest have items without training interactions. ``length_within[k]``
    counts the items at ranks up to k (None if not requested), ``n_within[k]`` the same for the cutoffs of
    pipeline stages. ``n_found`` counts relevant rows at any rank, ``n_below`` those beyond the number of
    relevant items. ``listed`` are the items that metrics need, ``handed_on`` those that stages compare.
    """

    truth: Truth
    n_models: int
    n_valid: Ints
    bad: Mapping[Fault, Ints]
    n_repeated: Ints
    n_beyond: Ints
    n_cold: Ints | None
    tied_cuts: Ints
    last_rank: Ints
    length_within: Mapping[int, Ints] | None
    n_within: Mapping[int, Ints]
    n_found: Ints
    n_below: Ints
    hits: Hits
    listed: Entries | None = None
    handed_on: Entries | None = None

    def of_models(self, first: int, last: int) -> "BucketLists":
        """Return the lists of the models with indices ``first`` to ``last - 1``."""
        part = slice(first * self.truth.n_users, last * self.truth.n_users)
        hits = self.hits.take(slice(*np.searchsorted(self.hits.of_list, [part.start, part.stop])))
        return BucketLists(
            self.truth,
            last - first,
            self.n_valid[part],
            {fault: n_bad[part] for fault, n_bad in self.bad.items()},
            self.n_repeated[part],
            self.n_beyond[part],
            None if self.n_cold is None else self.n_cold[part],
            self.tied_cuts[part],
            self.last_rank[part],
            self.length_within and {k: within[part] for k, within in self.length_within.items()},
            {k: within[part] for k, within in self.n_within.items()},
            self.n_found[part],
            self.n_below[part],
            replace(hits, of_list=hits.of_list - part.start),
            self.listed and entries_between(self.listed, part.start, part.stop),
            self.handed_on and entries_between(self.handed_on, part.start, part.stop),
        )

    def with_truth(self, truth: Truth, lists: Ints, hits: Hits) -> "BucketLists":
        """Return these lists for the users of another truth, with their hits and without their items."""
        of_each = ("n_valid", "n_repeated", "n_beyond", "tied_cuts", "last_rank", "n_found", "n_below")
        return replace(
            self,
            truth=truth,
            bad={fault: n_bad[lists] for fault, n_bad in self.bad.items()},
            n_cold=None if self.n_cold is None else self.n_cold[lists],
            length_within=self.length_within
            and {k: within[lists] for k, within in self.length_within.items()},
            n_within={k: within[lists] for k, within in self.n_within.items()},
            hits=hits,
            listed=None,
            handed_on=self.handed_on and self.handed_on.of_rows(lists),
            **{name: getattr(self, name)[lists] for name in of_each},
        )

    @property
    def n_lists(self) -> int:
        """Number of lists: one per model and user, including empty ones."""
        return self.n_models * self.truth.n_users

    def by_model(self, of_users: Array) -> Array:
        """Reshape values of lists to (models, users)."""
        return of_users.reshape(self.n_models, self.truth.n_users)

    @cached_property
    def n_rows(self) -> Ints:
        """Number of rows of each list, valid or not."""
        return self.n_valid + sum(self.bad.values(), np.zeros(1, dtype=np.int64))

    @cached_property
    def n_recommended(self) -> Ints:
        """Number of distinct items of each list; with quick checks only repeated hits are found."""
        return self.n_valid - self.n_repeated

    @cached_property
    def n_hits(self) -> Ints:
        """Number of hits of each list."""
        return count_by_code(self.hits.of_list, self.n_lists)

    @cached_property
    def has_truth(self) -> Booleans:
        """True for lists of users with at least one relevant item."""
        return np.tile(self.truth.n_relevant > 0, self.n_models)

    def population(self, conventions: Conventions) -> Ints:
        """Return the indices of the lists in the mean."""
        is_list, has_truth = self.n_recommended > 0, self.has_truth
        chosen = has_truth | (is_list & (conventions.no_truth is NoTruth.ZERO))
        if conventions.no_recommendations is NoRecommendations.DROP:
            chosen &= is_list
        if conventions.no_hits is NoHits.DROP:
            chosen &= ~(has_truth & is_list & (self.n_hits == 0))
        return np.flatnonzero(chosen)

    def chosen_hits(self, chosen: Ints) -> Hits:
        """Return the hits of the chosen lists, renumbered from 0."""
        if len(chosen) == self.n_lists:
            return self.hits
        number = np.full(self.n_lists, -1, dtype=np.int64)
        number[chosen] = np.arange(len(chosen))
        hits = self.hits.take(number[self.hits.of_list] >= 0)
        return replace(hits, of_list=number[hits.of_list])

    def lists(self, chosen: Ints, ideal: Ragged) -> Lists:
        """Return the chosen lists as input of the kernels; ``ideal`` has a row per user."""
        users, hits = chosen % max(self.truth.n_users, 1), self.chosen_hits(chosen)
        relevance, filled_ranks = self.truth.relevances(hits.pair), None
        if self.length_within is not None:
            filled_ranks = FilledRanks(
                hits.position, {k: within[chosen] for k, within in self.length_within.items()}
            )
        return Lists(
            n_relevant=self.truth.n_relevant[users],
            n_recommended=self.n_recommended[chosen],
            hits=Ragged(len(chosen), hits.of_list, hits.rank, relevance),
            ideal=ideal.of_rows(users),
            tie_first=hits.tie_first,
            tie_last=hits.tie_last,
            filled_ranks=filled_ranks,
        )

    def counts(
        self, cuts: Sequence[int], has_scores: bool, is_odd_user: Booleans, starts: Ints | None = None
    ) -> list[ListCounts]:
        """Count the rows and users of each model by outcome.

        ``starts`` is the index of each user's first list, if users have several; None: one each.
        """
        used, has_truth, is_list = self.n_recommended - self.n_beyond, self.has_truth, self.n_recommended > 0
        reasons: dict[str | None, Ints] = {None: used}
        if self.n_cold is not None:
            reasons = {None: used - self.n_cold, Reason.COLD_ITEM: self.n_cold}
        none = np.zeros(self.n_lists, dtype=np.int64)
        rows: dict[EntryKey, Ints] = {
            (Outcome.IN, None): self.n_rows,
            **{(Outcome.USED, reason): np.where(has_truth, n, 0) for reason, n in reasons.items()},
            (Outcome.DROPPED, Reason.NO_TRUTH): np.where(has_truth, 0, used),
            (Outcome.FILTERED, Reason.BEYOND_K): self.n_beyond,
            (Outcome.DEDUPLICATED, Reason.REPEATED_ITEM): self.n_repeated,
            **{(Outcome.QUARANTINED, fault): self.bad.get(fault, none) for fault in ROW_FAULTS},
        }
        users: dict[EntryKey, Booleans] = {line: number > 0 for line, number in rows.items()}
        if has_scores:
            ties = {k: self.tied_cuts >> bit & 1 for bit, k in enumerate(cuts)}
            users |= {(Outcome.TIES_AT_CUT, f"k={k}"): tied > 0 for k, tied in ties.items()}
        else:
            users[Outcome.RANK_GAPS, None] = self.last_rank > self.n_rows
        users[Outcome.ODD_IDS, USER] = np.tile(is_odd_user, self.n_models) & (self.n_rows > 0)
        clashes = ~(run_starts(self.hits.of_list) | run_starts(self.hits.rank))
        numbers = (
            self.by_model(self.n_rows).max(axis=1, initial=0).tolist(),
            self.sums(is_list & has_truth),
            self.sums(is_list & has_truth & (self.n_hits == 0)),
            self.sums(is_list & ~has_truth),
            self.sums(count_by_code(self.hits.of_list[clashes], self.n_lists)),
        )
        if starts is not None:
            users = {line: self.of_any_list(has, starts) for line, has in users.items()}
        of_users = self.by_line(users)
        of_models = zip(self.by_line(rows), of_users, *numbers, strict=True)
        return [ListCounts(*one) for one in of_models]

    def count_people(self, chosen: Ints, starts: Ints) -> list[Counter[Outcome]]:
        """Count the users of each model: with truth or a list, in the mean, with truth that has no list."""
        is_used = np.zeros(self.n_lists, dtype=bool)
        is_used[chosen] = True
        is_list = self.n_recommended > 0
        masks = {
            Outcome.IN: self.has_truth | is_list,
            Outcome.USED: is_used,
            Outcome.NO_RECOMMENDATIONS: self.has_truth & ~is_list,
        }
        counts = {outcome: self.sums(self.of_any_list(mask, starts)) for outcome, mask in masks.items()}
        return [
            Counter({outcome: n[index] for outcome, n in counts.items()}) for index in range(self.n_models)
        ]

    def of_any_list(self, of_lists: Booleans, starts: Ints) -> Booleans:
        """Return masks of lists with True at the first list of a user who has any True."""
        is_any = np.zeros_like(self.by_model(of_lists))
        if len(starts):
            is_any[:, starts] = np.logical_or.reduceat(self.by_model(of_lists), starts, axis=1)
        return is_any.ravel()

    def sums(self, of_lists: Array) -> list[int]:
        """Sum values of lists by model."""
        return [int(total) for total in self.by_model(of_lists).sum(axis=1)]

    def by_line(self, of_lists: Mapping[EntryKey, Array]) -> list[Counter[EntryKey]]:
        """Sum values of lists by model, separately for each key."""
        totals = {line: self.sums(values) for line, values in of_lists.items()}
        return [Counter({line: n[index] for line, n in totals.items()}) for index in range(self.n_models)]


def entries_between(entries: Entries, first: int, last: int) -> Entries:
    """Return the entries of rows ``first`` to ``last - 1``, renumbered from 0."""
    part = slice(*np.searchsorted(entries.row, [first, last]))
    values = (entries.rank[part], entries.item[part], entries.index[part])
    return Entries(last - first, entries.row[part] - first, *values)


def distinct_hits(hits: Hits) -> tuple[Hits, Hits]:
    """Return hits sorted by list and rank, each item at its best rank, and the duplicates left out."""
    hits = hits.take(lexsort(hits.of_list, hits.pair, hits.rank))
    is_first = run_starts(hits.of_list) | run_starts(hits.pair)
    first = hits.take(is_first)
    return first.take(lexsort(first.of_list, first.rank, first.pair)), hits.take(~is_first)


# Numbers of users, of users with a value, and of users whose value overflows a double.
N_USERS: Final = "n_users"
N_DEFINED: Final = "n_defined"
N_INFINITE: Final = "n_infinite"
TOTAL: Final = "total"
SQUARES: Final = "squares"
# Of value * weight: sums of value * weight * weight.
PRODUCTS: Final = "products"
# Of clusters: sums of the squares of their weights; ``products`` are of total * weight.
WEIGHT_SQUARES: Final = "weight_squares"
EACH: Final = slice(None)
# Maximum number of sums whose digits are carried at once.
MOST_CARRIED: Final = 1 << 16
# Sums of digits are multiplied by integers below this: 2^41 times as much fits 64 bits.
MOST_TIMES: Final = 1 << 20


class ColumnSums(NamedTuple):
    """Sums of one column over the users of a segment."""

    n_users: int
    n_defined: int
    n_infinite: int
    total: Fraction
    squares: Fraction
    products: Fraction
    weight_squares: Fraction = Fraction()


NOBODY: Final = ColumnSums(0, 0, 0, Fraction(), Fraction(), Fraction())
# model, segment, value of the segment
SegmentCell = tuple[str, str, str]
# Code of each user's model or segment value, and the names of the codes.
Group = tuple[Ints, Sequence[str]]
# Sums of columns; shape (cells, columns).
SegmentTotals = CellTotals[SegmentCell]


def sums(
    measured: Mapping[str, Floats],
    summed: Mapping[str, Sequence[str]],
    models: Group,
    segments: Mapping[str, Group],
    *,
    has_all: bool = True,
    has_squares: bool = True,
) -> SegmentTotals:
    """Sum the values of each model over all users (with ``has_all``) and over each segment value.

    ``measured`` has the values of the users, NaN where undefined; ``summed`` maps each column to its one or
    two factors (value, or value and weight).
    """
    model, names = models
    codes = [] if len(names) == 1 or not has_all else [(model, len(names))]
    cells = [(name, ALL, ALL) for name in names if has_all]
    for segment, (code, values) in segments.items():
        codes.append((model * len(values) + code, len(names) * len(values)))
        cells += [(name, segment, value) for name, value in product(names, values)]
    totals, columns = SegmentTotals(cells, (len(summed),)), list(summed.values())
    for start in range(0, len(model), MOST_SUMMED):
        part = slice(start, start + MOST_SUMMED)
        # With a single model, the sums over all users are the sums of the model.
        groups = Groups(
            [(code[part], n_groups) for code, n_groups in codes], groups_only=len(names) > 1 or not has_all
        )
        n_users = groups.sums(np.ones(len(model[part]), dtype=bool))
        totals.put_count(N_USERS, (EACH, EACH), n_users[:, np.newaxis])
        # Carrying digits takes longer than adding a column: it is done for many columns at once.
        n_together = max(1, MOST_CARRIED // max(len(cells), 1))
        for first in range(0, len(columns), n_together):
            digit_sums: dict[str, list[DigitSums]] = {TOTAL: [], SQUARES: [], PRODUCTS: []}
            for column, factors in enumerate(columns[first : first + n_together], first):
                amounts = [measured[factor][part] for factor in factors]
                value = finite_products(totals, column, amounts, groups, n_users)
                exact = ExactSums.of(value, groups, has_squares=has_squares)
                digit_sums[TOTAL].append(exact.total)
                digit_sums[SQUARES].append(exact.squares)
                is_weighted = len(factors) > 1 and has_squares
                digit_sums[PRODUCTS].append(
                    weighted_sums(value, amounts[-1], exact.total, groups) if is_weighted else {}
                )
            for name, of_columns in digit_sums.items():
                totals.put_columns(name, first, of_columns)
    return totals


def finite_products(
    totals: SegmentTotals, column: int, factors: Sequence[Floats], groups: Groups, n_users: Ints
) -> Floats:
    """Return the product of a column's factors, 0 where it is not finite; add the counts of such users."""
    value, n_defined, where = prod(factors[1:], start=factors[0]), n_users, (EACH, column)
    if not (is_finite := np.isfinite(value)).all():
        n_defined = groups.sums(~np.isnan(value))
        totals.put_count(N_INFINITE, where, groups.sums(np.isinf(value)))
        value = np.where(is_finite, value, 0.0)
    totals.put_count(N_DEFINED, where, n_defined)
    return value


def weighted_sums(value: Floats, weight: Floats, total: DigitSums, groups: Groups) -> DigitSums:
    """Return the sums of value * weight; ``total`` are the sums of the values, up to MOST_SUMMED."""
    weight = np.nan_to_num(weight)
    largest = weight.max(initial=0.0)
    if largest < MOST_TIMES and largest.is_integer() and ((weight == largest) | (value == 0.0)).all():
        # Lists mostly have an item at every rank, so all weights are the cutoff.
        return {position: amounts * int(largest) for position, amounts in total.items()}
    sums = DigitSums()
    for part in two_product(value, weight):
        for position, amounts in ExactSums.of(part, groups, has_squares=False).total.items():
            add(sums, position, amounts)
    return sums


def merge_sums(
    parts: Iterable[SegmentTotals], names: Sequence[str]
) -> dict[SegmentCell, dict[str, ColumnSums]]:
    """Return the total sums by cell and column name, for cells with at least one user."""
    whole = SegmentTotals.together(parts, (len(names),))
    totals: dict[SegmentCell, dict[str, ColumnSums]] = defaultdict(dict)
    for (row, cell), (column, name) in product(enumerate(whole.cells), enumerate(names)):
        at = (row, column)
        if n_users := whole.count(N_USERS, at):
            totals[cell][name] = ColumnSums(
                n_users,
                n_defined=whole.count(N_DEFINED, at),
                n_infinite=whole.count(N_INFINITE, at),
                total=whole.number(TOTAL, at),
                squares=whole.number(SQUARES, at, 2 * POINT_BITS),
                products=whole.number(PRODUCTS, at),
                weight_squares=whole.number(WEIGHT_SQUARES, at, 2 * POINT_BITS),
            )
    return totals
