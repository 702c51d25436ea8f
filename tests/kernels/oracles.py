"""Each metric a second time, slow and obvious: lists, sets and loops over ranks, from the formula.

They see one order of the list; ``expected`` is the door to them and follows ``tie_order``.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations, product
from typing import Final

from oracles_beyond import OF_INTENTS, OVER_IDEALS
from oracles_lists import OF_LISTS

from spark_eval.conventions import (
    AucTies,
    AverageDenominator,
    AverageVariant,
    Conventions,
    Discount,
    Gain,
    Ideal,
    OneClass,
    PrecisionDenominator,
    RecallDenominator,
)
from users import User

Cutoff = int | None
Oracle = Callable[[User, Cutoff], float]
ConventionalOracle = Callable[[User, Cutoff, Conventions], float]
NAN: Final = float("nan")


def ratio(numerator: Fraction | int, denominator: int) -> float:
    return float(Fraction(numerator) / denominator) if denominator else 0.0


def places(user: User, k: Cutoff) -> int:
    return user.n_recommended if k is None else k


def filled(user: User, k: Cutoff) -> int:
    return min(user.n_recommended, places(user, k))


def hits_in_top(user: User, k: Cutoff) -> set[int]:
    return set(user.recommended[:k]) & set(user.truth)


def ranks_of_hits(user: User, k: Cutoff) -> list[int]:
    top = user.recommended[:k]
    return [rank for rank in range(1, len(top) + 1) if top[rank - 1] in user.truth]


def precision(user: User, k: Cutoff, conventions: Conventions) -> float:
    denominators = {
        PrecisionDenominator.K: places(user, k),
        PrecisionDenominator.MIN_K_LENGTH: filled(user, k),
    }
    return ratio(len(hits_in_top(user, k)), denominators[conventions.precision_denominator])


def recall(user: User, k: Cutoff, conventions: Conventions) -> float:
    relevant = len(user.truth)
    denominators = {
        RecallDenominator.RELEVANT: relevant,
        RecallDenominator.MIN_RELEVANT_K: relevant if k is None else min(relevant, k),
        RecallDenominator.RETRIEVED: len(hits_in_top(user, None)),
    }
    return ratio(len(hits_in_top(user, k)), denominators[conventions.recall_denominator])


def recall_capped(user: User, k: Cutoff) -> float:
    return recall(user, k, Conventions(recall_denominator=RecallDenominator.MIN_RELEVANT_K))


def f1(user: User, k: Cutoff, conventions: Conventions) -> float:
    if not hits_in_top(user, k):
        return 0
    return 2 / (1 / precision(user, k, conventions) + 1 / recall(user, k, conventions))


def hit_rate(user: User, k: Cutoff) -> float:
    return 1 if hits_in_top(user, k) else 0


def averaged(user: User, k: Cutoff, denominator: AverageDenominator) -> int:
    relevant = len(user.truth)
    return {
        AverageDenominator.MIN_RELEVANT_K: relevant if k is None else min(relevant, k),
        AverageDenominator.RELEVANT: relevant,
        AverageDenominator.HITS: len(ranks_of_hits(user, k)),
        AverageDenominator.K: places(user, k),
        AverageDenominator.MIN_RELEVANT_LENGTH: min(relevant, filled(user, k)),
        AverageDenominator.RETRIEVED: len(hits_in_top(user, None)),
    }[denominator]


def average_precision(user: User, k: Cutoff, conventions: Conventions) -> float:
    is_window = conventions.ap_variant is AverageVariant.WINDOW
    ranks = range(1, places(user, k) + 1) if is_window else ranks_of_hits(user, k)
    total = sum((Fraction(len(hits_in_top(user, rank)), rank) for rank in ranks), Fraction())
    return ratio(total, len(ranks) if is_window else averaged(user, k, conventions.ap_denominator))


def average_recall(user: User, k: Cutoff, conventions: Conventions) -> float:
    is_window = conventions.ar_variant is AverageVariant.WINDOW
    ranks = range(1, places(user, k) + 1) if is_window else ranks_of_hits(user, k)
    is_retrieved = conventions.ar_denominator is AverageDenominator.RETRIEVED
    relevant = len(hits_in_top(user, None)) if is_retrieved else len(user.truth)
    if not relevant:
        return 0
    total = sum((Fraction(len(hits_in_top(user, rank)), relevant) for rank in ranks), Fraction())
    return ratio(total, len(ranks) if is_window else averaged(user, k, conventions.ar_denominator))


def reciprocal_rank(user: User, k: Cutoff) -> float:
    for rank, item in enumerate(user.recommended, 1):
        if item in user.truth:
            return 1 / rank if k is None or rank <= k else 0
    return 0


def reciprocal_hit_rate(user: User, k: Cutoff) -> float:
    return float(sum(Fraction(1, rank) for rank in ranks_of_hits(user, k)))


def reciprocal_hit_rate_norm(user: User, k: Cutoff) -> float:
    perfect = User(list(user.truth), user.truth)
    best = reciprocal_hit_rate(perfect, k)
    return reciprocal_hit_rate(user, k) / best if best else 0


def r_precision(user: User, _k: Cutoff) -> float:
    return ratio(len(hits_in_top(user, len(user.truth))), len(user.truth))


def cumulated_gain(user: User, k: Cutoff) -> float:
    return math.fsum(user.relevances[:k])


def gain(relevance: float, conventions: Conventions) -> float:
    worth = {Gain.LINEAR: relevance, Gain.EXP2: 2**relevance - 1, Gain.BINARY: 1}
    worth[Gain.EXP2_PLUS_1] = 2 ** (relevance + 1) - 1
    return worth[conventions.gain]


def dcg_of(relevances: Sequence[float | None], k: Cutoff, conventions: Conventions) -> float:
    is_clipped = conventions.discount is Discount.LOG2_CLIPPED
    divisors = [
        math.log(max(rank, 2) if is_clipped else rank + 1, 2) for rank in range(1, len(relevances) + 1)
    ]
    worth = [0 if relevance is None else gain(relevance, conventions) for relevance in relevances[:k]]
    return math.fsum(one / divisor for one, divisor in zip(worth, divisors, strict=False))


def dcg(user: User, k: Cutoff, conventions: Conventions) -> float:
    return dcg_of(user.judged, k, conventions)


def mean_dcg(user: User, k: Cutoff, conventions: Conventions) -> float:
    windows = range(1, places(user, k) + 1)
    total = math.fsum(dcg(user, window, conventions) for window in windows)
    return total / len(windows) if windows else 0


def ndcg(user: User, k: Cutoff, conventions: Conventions) -> float:
    best_first = sorted(user.truth.values(), reverse=True)
    found = sorted((one for one in user.judged if one is not None), reverse=True)
    ideals = {
        Ideal.TRUTH: best_first,
        Ideal.LIST: found,
        Ideal.POSITIONS: best_first[:1] * places(user, k),
    }
    ideal = dcg_of(ideals[conventions.ideal], k, conventions)
    return dcg(user, k, conventions) / ideal if ideal else 0


def compared(user: User, k: Cutoff) -> list[bool]:
    """Of each pair of relevant items with other relevances and other scores, whether it is concordant."""
    top = list(zip(user.falling, user.judged, strict=True))[:k]
    relevant = [(score, relevance) for score, relevance in top if relevance is not None]
    return [
        (one[0] > other[0]) == (one[1] > other[1])
        for one, other in combinations(relevant, 2)
        if one[0] != other[0] and one[1] != other[1]
    ]


def concordant_pairs(user: User, k: Cutoff) -> float:
    pairs = compared(user, k)
    return ratio(sum(pairs), len(pairs)) if pairs else NAN


def held(user: User, k: Cutoff) -> list[tuple[float, bool]]:
    """The items that the list holds up to rank k, best first: their scores, and whether each is a hit."""
    scored = list(zip(user.falling, user.recommended, strict=True))[:k]
    return [(score, item in user.truth) for score, item in scored if item >= 0]


def auc(user: User, k: Cutoff, conventions: Conventions) -> float:
    is_half = conventions.auc_ties is AucTies.HALF
    places = [(score if is_half else -place, hit) for place, (score, hit) in enumerate(held(user, k))]
    hits = [score for score, is_hit in places if is_hit]
    misses = [score for score, is_hit in places if not is_hit]
    if not (hits and misses):
        return NAN if conventions.one_class is OneClass.UNDEFINED else float(bool(hits))
    halves = [2 * (hit > miss) + (hit == miss) for hit, miss in product(hits, misses)]
    return ratio(sum(halves), 2 * len(halves))


def defined_auc(user: User, k: Cutoff, conventions: Conventions, weight: int) -> float:
    return NAN if math.isnan(auc(user, k, conventions)) else float(weight)


def compared_pairs(user: User, k: Cutoff) -> float:
    return float(len(compared(user, k))) or NAN


def impressions(user: User, k: Cutoff, conventions: Conventions) -> float:
    return defined_auc(user, k, conventions, len(held(user, k)))


def positives(user: User, k: Cutoff, conventions: Conventions) -> float:
    return defined_auc(user, k, conventions, len(ranks_of_hits(user, k)))


# Metrics with one definition, but for the order of ties.
ORACLES: Final[dict[str, Oracle]] = {
    "recall_capped": recall_capped,
    "hit_rate": hit_rate,
    "rr": reciprocal_rank,
    "rhr": reciprocal_hit_rate,
    "rhr_norm": reciprocal_hit_rate_norm,
    "r_precision": r_precision,
    "cg": cumulated_gain,
    "fcp": concordant_pairs,
    "fcp_pairs": compared_pairs,
    **OF_INTENTS,
}
# Metrics whose values a convention changes.
CONVENTIONAL: Final[dict[str, ConventionalOracle]] = {
    "precision": precision,
    "recall": recall,
    "f1": f1,
    "ap": average_precision,
    "ar": average_recall,
    "dcg": dcg,
    "mdcg": mean_dcg,
    "ndcg": ndcg,
    "auc": auc,
    "auc_impressions": impressions,
    "auc_positives": positives,
    **OF_LISTS,
    **OVER_IDEALS,
}
