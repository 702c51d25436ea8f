"""The form that lists take for the kernels: hits, cutoffs, ties and their best and worst order."""

import math
from dataclasses import FrozenInstanceError, fields
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from spark_eval.conventions import Discount, Gain, TieOrder
from spark_eval.kernels.beyond.catalog import divide
from spark_eval.kernels.binary import hits_up_to_ties
from spark_eval.kernels.discounts import bits_of, discount_sums, discounts, gains, harmonic
from spark_eval.kernels.lists import Lists, Ragged
from spark_eval.kernels.values import parse_metric
from users import batch, graded

RANKS = np.arange(1, 70)


def test_lists_of_examples() -> None:
    lists = Lists.of(
        [[0, 2, 0, 1], [], [0, 0]], truth=[[1, 2, 0, 5], [3], []], scores=[[9, 8, 8, 8], [], [1, 1]]
    )
    assert lists.n_relevant.tolist() == [3, 1, 0]
    assert lists.n_recommended.tolist() == [4, 0, 2]
    assert (lists.hits.row.tolist(), lists.hits.rank.tolist()) == ([0, 0], [2, 4])
    assert lists.hits.relevance.tolist() == [2, 1]
    assert (lists.ideal.row.tolist(), lists.ideal.rank.tolist()) == ([0, 0, 0, 1], [1, 2, 3, 1])
    assert lists.ideal.relevance.tolist() == [5, 2, 1, 3]
    assert (lists.tie_first.tolist(), lists.tie_last.tolist()) == ([2, 2], [4, 4])


def test_without_scores_no_two_items_tie_and_without_truth_the_list_holds_it_all() -> None:
    lists = Lists.of([[1, 0, 2]])
    assert lists.tie_first.tolist() == lists.tie_last.tolist() == lists.hits.rank.tolist() == [1, 3]
    assert lists.ideal.relevance.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("k", "n_hits", "n_ranks", "filled", "fillable"),
    [(1, 1, 1, 1, 1), (3, 2, 3, 3, 3), (4, 2, 4, 3, 4), (9, 2, 9, 3, 5), (None, 2, 3, 3, 5)],
)
def test_counts_at_a_cutoff(k: int | None, n_hits: int, n_ranks: int, filled: int, fillable: int) -> None:
    lists = Lists.of([[1, 0, 1]], truth=[[1] * 5])
    counts = [lists.n_hits(k), lists.n_ranks(k), lists.filled(k), lists.fillable(k)]
    assert [count.tolist() for count in counts] == [[n_hits], [n_ranks], [filled], [fillable]]


def test_entries_are_numbered_and_sorted_within_their_list() -> None:
    entries = Ragged.of([[0, 1, 3], [], [2, 0, 5, 2]])
    assert entries.n_rows == 3
    assert entries.number.tolist() == [1, 2, 1, 2, 3]
    best_first = entries.best_first
    assert best_first.row.tolist() == [0, 0, 2, 2, 2]
    assert best_first.rank.tolist() == [1, 2, 1, 2, 3]
    assert best_first.relevance.tolist() == [3, 1, 5, 2, 2]
    assert entries.total(entries.relevance, 2).tolist() == [1, 0, 2]
    assert entries.total(entries.relevance, 3).tolist() == [4, 0, 7]
    assert entries.total(entries.relevance, None).tolist() == [4, 0, 9]


@pytest.mark.parametrize("thing", [Lists.of([[1]]), Ragged.of([[1]]), *parse_metric("map@5")])
def test_what_kernels_share_cannot_be_set_anew(thing: Any) -> None:
    for field in fields(thing):
        with pytest.raises(FrozenInstanceError):
            setattr(thing, field.name, None)


def test_entries_of_nothing() -> None:
    nothing = Ragged.of([[], [0]])
    assert nothing.number.tolist() == []
    assert nothing.best_first.row.tolist() == []
    assert nothing.total(nothing.relevance, 3).tolist() == [0, 0]
    assert nothing.total(nothing.relevance, 3).dtype == np.float64


TIED = [
    # Ranks 2 to 5 tie and hold two hits; ranks 6 and 7 tie and hold one.
    graded([0, 0, 1, 3, 0, 2, 0], scores=[9, 8, 8, 8, 8, 7, 7]),
    graded([1, 2], scores=[5, 5]),
    graded([0, 1], scores=[6, 5]),
    graded([2, 1], scores=[5, 5]),
]


@pytest.mark.parametrize(
    ("order", "ranks", "relevances"),
    [
        (TieOrder.BEST, [2, 3, 6, 1, 2, 2, 1, 2], [3, 1, 2, 2, 1, 1, 2, 1]),
        (TieOrder.WORST, [4, 5, 7, 1, 2, 2, 1, 2], [1, 3, 2, 1, 2, 1, 1, 2]),
        (TieOrder.AS_RANKED, [3, 4, 6, 1, 2, 2, 1, 2], [1, 3, 2, 1, 2, 1, 2, 1]),
        (TieOrder.SHARED, [3, 4, 6, 1, 2, 2, 1, 2], [1, 3, 2, 1, 2, 1, 2, 1]),
    ],
)
def test_hits_move_within_their_ties(order: TieOrder, ranks: list[int], relevances: list[float]) -> None:
    arranged = batch(TIED).arranged(order)
    assert arranged.hits.row.tolist() == [0, 0, 0, 1, 1, 2, 3, 3]
    assert arranged.hits.rank.tolist() == ranks
    assert arranged.hits.rank.dtype == np.int64
    assert arranged.hits.relevance.tolist() == relevances
    assert arranged.tie_first.tolist() == [2, 2, 6, 1, 1, 2, 1, 1]
    assert arranged.tie_last.tolist() == [5, 5, 7, 2, 2, 2, 2, 2]


@pytest.mark.parametrize("order", [TieOrder.BEST, TieOrder.WORST])
def test_no_hit_moves_nowhere(order: TieOrder) -> None:
    arranged = batch([graded([0, 0], scores=[1, 1])]).arranged(order)
    assert arranged.hits.rank.tolist() == []
    assert arranged.n_recommended.tolist() == [2]


def test_ties_end_with_their_list() -> None:
    # The ties of the first list reach its last rank, and the next list begins with a hit.
    people = batch([graded([1, 0, 0], scores=[7, 7, 7]), graded([1]), graded([1, 1], scores=[7, 7])])
    assert hits_up_to_ties(people).tolist() == [1, 1, 2, 2]
    assert hits_up_to_ties(batch([])).tolist() == []


def test_division_by_nothing_gives_zero() -> None:
    assert divide(np.array([1.0, 3.0, 0.0]), np.array([2, 0, 0])).tolist() == [0.5, 0.0, 0.0]


def test_discounts_are_those_of_the_formula() -> None:
    assert discounts(RANKS, Discount.LOG2).tolist() == [1 / math.log2(rank + 1) for rank in RANKS]
    clipped = [1.0, *(1 / math.log2(rank) for rank in RANKS[1:])]
    assert discounts(RANKS, Discount.LOG2_CLIPPED).tolist() == clipped


@pytest.mark.parametrize("discount", Discount)
def test_sums_of_discounts(discount: Discount) -> None:
    sums = [math.fsum(discounts(RANKS[:rank], discount)) for rank in range(70)]
    assert discount_sums(np.arange(70), discount) == pytest.approx(sums, rel=1e-14)
    assert discount_sums(np.array([0]), discount).tolist() == [0]


def test_harmonic_numbers() -> None:
    exact = [
        float(sum((Fraction(1, one) for one in range(1, number + 1)), Fraction())) for number in range(70)
    ]
    assert harmonic(np.arange(70)) == pytest.approx(exact, rel=1e-14)


@pytest.mark.parametrize(
    ("numbers", "bits"), [([], 0), ([0], 0), ([1], 1), ([3, 1], 2), ([4], 3), ([7, 8], 4)]
)
def test_tables_reach_the_largest_number(numbers: list[int], bits: int) -> None:
    assert bits_of(np.array(numbers, dtype=np.int64)) == bits


def test_gains() -> None:
    relevances = np.array([2.0, 0.5, 3.0, 2.0])
    assert gains(relevances, Gain.LINEAR).tolist() == [2, 0.5, 3, 2]
    assert gains(relevances, Gain.EXP2).tolist() == [3, 2**0.5 - 1, 7, 3]
    assert gains(relevances, Gain.BINARY).tolist() == [1, 1, 1, 1]
