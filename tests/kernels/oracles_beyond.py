"""Metrics beyond accuracy a second time, slow and obvious: lists of items, and letters that are groups."""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Final, NamedTuple

from spark_eval.conventions import (
    Conventions,
    CoverageVariant,
    EntropyWeights,
    GiniVariant,
    IdealTies,
    PersonalizationVariant,
)
from users import User, groups_of

Cutoff = int | None
GroupsOf = Callable[[int], str]
NAN: Final = float("nan")


def intents_of(user: User, groups: GroupsOf) -> set[str]:
    return {letter for item in user.truth for letter in groups(item)}


def undefined(user: User, groups: GroupsOf) -> bool:
    return bool(user.truth) and not intents_of(user, groups)


def gain(item: int, before: Collection[int], groups: GroupsOf) -> Fraction:
    """Half as much for each earlier item of the group, over the groups of an item."""
    return sum((Fraction(1, 2 ** sum(g in groups(one) for one in before)) for g in groups(item)), Fraction())


def ranked_hits(user: User, k: Cutoff) -> list[tuple[int, int]]:
    return [(rank, item) for rank, item in enumerate(user.recommended[:k], 1) if item in user.truth]


def gains_of_hits(user: User, k: Cutoff, groups: GroupsOf) -> list[tuple[int, Fraction]]:
    hits = ranked_hits(user, k)
    return [
        (rank, gain(item, [other for _, other in hits[:number]], groups))
        for number, (rank, item) in enumerate(hits)
    ]


def ideal_gains(user: User, k: Cutoff, ties: IdealTies, groups: GroupsOf) -> list[tuple[int, Fraction]]:
    """Take the item that gains most, again and again; of equal ones that with the larger id."""
    left, taken, gains = set(user.truth), list[int](), list[tuple[int, Fraction]]()
    while left and (k is None or len(taken) < k):
        best = max(gain(item, taken, groups) for item in left)
        equal = [item for item in left if gain(item, taken, groups) == best]
        item = max(equal, key=str) if ties is IdealTies.TEXT else max(equal)
        gains.append((len(taken) + 1, best))
        taken.append(item)
        left.remove(item)
    return gains


def over_ideal(
    user: User, k: Cutoff, conventions: Conventions, groups: GroupsOf, weight: Callable[[int], float]
) -> float:
    if undefined(user, groups):
        return NAN
    pairs = (gains_of_hits(user, k, groups), ideal_gains(user, k, conventions.ideal_ties, groups))
    ours, best = (math.fsum(float(one) * weight(rank) for rank, one in gains) for gains in pairs)
    return ours / best if best else 0.0


def alpha_ndcg(user: User, k: Cutoff, conventions: Conventions, groups: GroupsOf = groups_of) -> float:
    return over_ideal(user, k, conventions, groups, lambda rank: 1 / math.log2(rank + 1))


def nerr_ia(user: User, k: Cutoff, conventions: Conventions, groups: GroupsOf = groups_of) -> float:
    return over_ideal(user, k, conventions, groups, lambda rank: 1 / rank)


def places(user: User, k: Cutoff) -> int:
    return user.n_recommended if k is None else k


def err_ia(user: User, k: Cutoff, groups: GroupsOf = groups_of) -> float:
    most = sum((Fraction(1, 2 ** (r - 1) * r) for r in range(1, places(user, k) + 1)), Fraction())
    ours = sum((one / rank for rank, one in gains_of_hits(user, k, groups)), Fraction())
    if undefined(user, groups):
        return NAN
    return float(ours / (len(intents_of(user, groups)) * most)) if ours else 0.0


def p_ia(user: User, k: Cutoff, groups: GroupsOf = groups_of) -> float:
    if undefined(user, groups):
        return NAN
    served = [
        sum(g in groups(item) for _, item in ranked_hits(user, k)) for g in sorted(intents_of(user, groups))
    ]
    return sum(served) / len(served) / places(user, k) if any(served) else 0.0


def subtopic_recall(user: User, k: Cutoff, groups: GroupsOf = groups_of) -> float:
    if undefined(user, groups):
        return NAN
    served = {g for _, item in ranked_hits(user, k) for g in groups(item)}
    return len(served) / len(intents_of(user, groups)) if served else 0.0


def ap_ia(user: User, k: Cutoff, groups: GroupsOf = groups_of) -> float:
    if undefined(user, groups):
        return NAN
    values = []
    for g in intents_of(user, groups):
        ranks = [rank for rank, item in ranked_hits(user, k) if g in groups(item)]
        precisions = sum((Fraction(number, rank) for number, rank in enumerate(ranks, 1)), Fraction())
        values.append(precisions / sum(g in groups(item) for item in user.truth))
    return float(sum(values) / len(values)) if values else 0.0


OF_INTENTS: Final = {
    "err_ia": err_ia,
    "p_ia": p_ia,
    "subtopic_recall": subtopic_recall,
    "ap_ia": ap_ia,
}
OVER_IDEALS: Final = {"alpha_ndcg": alpha_ndcg, "nerr_ia": nerr_ia}


class Run(NamedTuple):
    """The lists of a run cut at k, empty ones too, and the items of the catalogue and of training."""

    lists: Sequence[Sequence[int]]
    catalog: Collection[int]
    trained: Collection[int]
    k: Cutoff

    @property
    def recommended(self) -> set[int]:
        return {item for items in self.lists for item in items}

    def lists_with(self, item: int) -> int:
        return sum(item in items for items in self.lists)


def catalog_coverage(run: Run, conventions: Conventions) -> float:
    catalog, trained = set(run.catalog), set(run.trained)
    shown, known = {
        CoverageVariant.CATALOG: (run.recommended & catalog, catalog),
        CoverageVariant.RECOMMENDED: (run.recommended, catalog),
        CoverageVariant.BY_TRAINED: (run.recommended, trained),
        CoverageVariant.TRAINED: (run.recommended & trained, trained),
    }[conventions.catalog_coverage_variant]
    return len(shown) / len(known) if known else NAN


def inequality(numbers: Sequence[int], variant: GiniVariant) -> float:
    """The mean difference of all pairs over twice the mean."""
    n, total = len(numbers), sum(numbers)
    divisor = n if variant is GiniVariant.N else n - 1
    if not total or not divisor:
        return NAN
    differences = sum(abs(one - other) for one in numbers for other in numbers)
    value = Fraction(differences, 2 * divisor * total)
    return float(1 - value if variant is GiniVariant.EQUALITY else value)


def gini_catalog(run: Run, conventions: Conventions) -> float:
    return inequality([run.lists_with(item) for item in run.catalog], conventions.gini_variant)


def gini_recommended(run: Run, conventions: Conventions) -> float:
    return inequality([run.lists_with(item) for item in run.recommended], conventions.gini_variant)


def entropy(run: Run, conventions: Conventions) -> float:
    slots = [(item, 1 / len(items)) for items in run.lists for item in items]
    if not slots:
        return NAN
    bits = {item: -math.log2(run.lists_with(item) / len(slots)) for item in run.recommended}
    if conventions.entropy_weights is EntropyWeights.LISTS:
        return math.fsum(bits[item] for item, _ in slots) / len(slots)
    return math.fsum(bits[item] * share for item, share in slots) / sum(len(items) > 0 for items in run.lists)


def entropy_norm(run: Run, conventions: Conventions) -> float:
    n = len(set(run.catalog))
    return entropy(run, conventions) / math.log2(n) if n > 1 else NAN


def personalization(run: Run, conventions: Conventions) -> float:
    """The mean over all pairs of lists; who takes them for full ones takes too little off what is shared."""
    filled, k = [set(items) for items in run.lists if items], run.k
    if k is None or len(filled) < 2:
        return NAN
    n, alike = len(filled), [Fraction(len(one & other), k) for one, other in combinations(filled, 2)]
    value = 1 - sum(alike) / len(alike)
    if conventions.personalization_variant is PersonalizationVariant.FULL_LISTS:
        value += Fraction(sum(k - len(items) for items in filled), k * n * (n - 1))
    return float(value)


OF_COUNTS: Final = {
    "catalog_coverage": catalog_coverage,
    "gini_catalog": gini_catalog,
    "gini_recommended": gini_recommended,
    "entropy": entropy,
    "entropy_norm": entropy_norm,
    "personalization": personalization,
}


def exposure(run: Run, groups: GroupsOf, weight: Callable[[int], float]) -> dict[str, float]:
    """The share of places by group; what has no group is in one of its own."""
    shares: dict[str, float] = defaultdict(float)
    for items in run.lists:
        for rank, item in enumerate(items, 1):
            for name in groups(item) or ["(missing)"]:
                shares[name] += weight(rank) / max(len(groups(item)), 1)
    return {name: share / math.fsum(shares.values()) for name, share in shares.items()}
