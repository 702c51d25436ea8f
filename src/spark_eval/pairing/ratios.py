"""Weighted means of pairs of models: exact sums of what users weigh, and of products of any two amounts."""

from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Final

import numpy as np

from spark_eval.arrow.hashes import Booleans
from spark_eval.pairing.cells import Crossings, cells_of
from spark_eval.pairing.drawing import Amount, values_of
from spark_eval.pairing.population import Population
from spark_eval.pairing.totals import PairTotals
from spark_eval.stats.exact import ByPlace, ExactSums, Floats, Groups, Ints, add, two_product
from spark_eval.stats.ratios import RatioSums

# Weighted values and weights of the candidate, then of the baseline.
N_AMOUNTS: Final = 4
N_USERS: Final = "n"


def pair_parts(left: int, right: int, column: str, weight: str) -> tuple[Amount, ...]:
    """Return the amounts of a pair of models, of users whom both have."""
    return (*Amount.parts(right, column, weight, [left]), *Amount.parts(left, column, weight, [right]))


def sum_ratios(population: Population, grouped: Sequence[Crossings]) -> tuple[PairTotals, Floats]:
    """Return the sums of all pairs in each weighted mean, and the largest amounts (pairs, means, 4)."""
    question = population.question
    lefts, rights = question.ends
    totals = PairTotals(list(cells_of(grouped)), len(lefts), len(question.weighted))
    largest = np.zeros((len(lefts), len(question.weighted), N_AMOUNTS))
    for mean, (column, weight) in enumerate(question.weighted):
        values = values_of(population, (column, weight), slice(None))
        for pair, (left, right) in enumerate(zip(lefts.tolist(), rights.tolist(), strict=True)):
            found = [one.amounts(values) for one in pair_parts(left, right, column, weight)]
            amounts, is_defined = np.stack([own for own, _ in found]), found[0][1]
            largest[pair, mean] = abs(amounts).max(axis=1, initial=0.0)
            for grouping in grouped:
                put_amounts(
                    totals, (pair, mean), grouping, *of_people(population, grouping, amounts, is_defined)
                )
    return totals, largest


def of_people(
    population: Population, grouping: Crossings, amounts: Floats, is_defined: Booleans
) -> tuple[Floats, Ints]:
    """Return the amounts (4, m) of users who have any, over their folds, and the crossing of each."""
    if population.folds is None:
        return amounts[:, is_defined], grouping.crossing[is_defined]
    order, starts, _ = grouping.by_person(population.person, population.folds)
    is_there = np.add.reduceat(is_defined[order], starts, dtype=np.int64) > 0
    together = np.add.reduceat(amounts[:, order], starts, axis=1)
    return together[:, is_there], grouping.crossing[order[starts]][is_there]


def put_amounts(
    totals: PairTotals, place: tuple[int, int], grouping: Crossings, amounts: Floats, crossing: Ints
) -> None:
    """Add the sums of the users (m,) of each crossing, of a pair and a weighted mean."""
    groups = Groups([(crossing, grouping.n_crossings)], groups_only=True)
    counts = np.bincount(crossing, minlength=grouping.n_crossings)
    totals.put_counts(N_USERS, grouping, place, counts)
    for number, one in enumerate(amounts):
        totals.put_sums(name_of(number), grouping, place, ExactSums.of(one, groups, has_squares=False).total)
    for numbers in combinations_with_replacement(range(N_AMOUNTS), 2):
        by_place: ByPlace = {}
        for part in two_product(*amounts[list(numbers)]):
            for at, sums in ExactSums.of(part, groups, has_squares=False).total.items():
                add(by_place, at, sums)
        totals.put_sums(name_of(*numbers), grouping, place, by_place)


def ratio_sums(totals: PairTotals, place: tuple[int, int, int]) -> RatioSums:
    """Return the sums of a cell, pair and weighted mean: the candidate's ratio, then the baseline's."""
    amounts = range(N_AMOUNTS)
    return RatioSums(
        totals.count(N_USERS, place),
        [totals.number(name_of(one), place) for one in amounts],
        [[totals.number(name_of(*sorted((one, other))), place) for other in amounts] for one in amounts],
    )


def name_of(*amounts: int) -> str:
    """Return the name of the sum of an amount, or of the products of two."""
    return " * ".join(map(str, amounts))
