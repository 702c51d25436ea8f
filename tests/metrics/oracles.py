"""Each metric a second time, slow and obvious: lists, sets and loops over ranks, from the formula."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

from users import User

from spark_eval.conventions import ApDenominator, Conventions, Gain

Oracle = Callable[[User, int], float]
ForkedOracle = Callable[[User, int, Conventions], float]


def hits_in_top(user: User, k: int) -> set[int]:
    return set(user.recommended[:k]) & set(user.truth)


def ranks_of_hits(user: User, k: int) -> list[int]:
    top = user.recommended[:k]
    return [rank for rank in range(1, len(top) + 1) if top[rank - 1] in user.truth]


def precision(user: User, k: int) -> float:
    return len(hits_in_top(user, k)) / k


def recall(user: User, k: int) -> float:
    return len(hits_in_top(user, k)) / len(user.truth) if user.truth else 0


def recall_capped(user: User, k: int) -> float:
    return len(hits_in_top(user, k)) / min(k, len(user.truth)) if user.truth else 0


def f1(user: User, k: int) -> float:
    if not hits_in_top(user, k):
        return 0
    return 2 / (1 / precision(user, k) + 1 / recall(user, k))


def hit_rate(user: User, k: int) -> float:
    return 1 if hits_in_top(user, k) else 0


def average_precision(user: User, k: int, conventions: Conventions) -> float:
    ranks = ranks_of_hits(user, k)
    if not ranks:
        return 0
    total = sum(Fraction(len(hits_in_top(user, rank)), rank) for rank in ranks)
    denominators = {
        ApDenominator.MIN_RELEVANT_K: min(len(user.truth), k),
        ApDenominator.RELEVANT: len(user.truth),
        ApDenominator.HITS: len(ranks),
        ApDenominator.K: k,
    }
    return float(total / denominators[conventions.ap_denominator])


def average_recall(user: User, k: int) -> float:
    if not user.truth:
        return 0
    recalls = [Fraction(len(hits_in_top(user, rank)), len(user.truth)) for rank in ranks_of_hits(user, k)]
    return float(Fraction(sum(recalls), min(len(user.truth), k)))


def reciprocal_rank(user: User, k: int) -> float:
    for rank, item in enumerate(user.recommended, 1):
        if item in user.truth:
            return 1 / rank if rank <= k else 0
    return 0


def reciprocal_hit_rate(user: User, k: int) -> float:
    return sum(1 / rank for rank in ranks_of_hits(user, k))


def gain(relevance: float, conventions: Conventions) -> float:
    return {
        Gain.LINEAR: relevance,
        Gain.EXP2: 2**relevance - 1,
        Gain.BINARY: 1 if relevance > 0 else 0,
    }[conventions.gain]


def dcg_of(relevances: Sequence[float], k: int, conventions: Conventions) -> float:
    return math.fsum(
        gain(relevance, conventions) / math.log(rank + 1, 2)
        for rank, relevance in enumerate(relevances[:k], 1)
    )


def dcg(user: User, k: int, conventions: Conventions) -> float:
    return dcg_of(user.relevances, k, conventions)


def ndcg(user: User, k: int, conventions: Conventions) -> float:
    ideal = dcg_of(sorted(user.truth.values(), reverse=True), k, conventions)
    return dcg(user, k, conventions) / ideal if ideal else 0


# Metrics with one definition.
ORACLES: Final[dict[str, Oracle]] = {
    "precision": precision,
    "recall": recall,
    "recall_capped": recall_capped,
    "f1": f1,
    "hit_rate": hit_rate,
    "ar": average_recall,
    "rr": reciprocal_rank,
    "rhr": reciprocal_hit_rate,
}
# Metrics that a convention forks.
FORKED: Final[dict[str, ForkedOracle]] = {"ap": average_precision, "dcg": dcg, "ndcg": ndcg}
