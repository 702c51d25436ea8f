"""What a metric must be under any order of ties: by brute force over the orders, or from the definition."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import groupby, permutations, product

from oracles import CONVENTIONAL, ORACLES, Cutoff, averaged, hits_in_top, ratio

from spark_eval.conventions import Conventions, TieOrder
from users import User


def orders(user: User) -> list[User]:
    """The list in every order of the items that tie."""
    scored = zip(user.falling, user.recommended, strict=True)
    groups = [[item for _, item in tied] for _, tied in groupby(scored, lambda place: place[0])]
    return [
        replace(user, recommended=[item for group in order for item in group])
        for order in product(*map(permutations, groups))
    ]


def arranged(user: User, order: TieOrder) -> User:
    """The list with the more relevant of tied items first (best) or last (worst)."""
    sign = {TieOrder.BEST: -1, TieOrder.WORST: 1}[order]
    # Items that are not relevant come after those of relevance 0.
    worth = [-1 if one is None else one for one in user.judged]
    scored = zip(user.falling, worth, user.recommended, strict=True)
    items = [item for *_, item in sorted(scored, key=lambda place: (-place[0], sign * place[1]))]
    return replace(user, recommended=items)


def shared_average_precision(user: User, k: Cutoff, conventions: Conventions) -> float:
    """Every distinct score is a threshold: what it adds to the hits, times the precision down to it."""
    total, before = Fraction(), 0
    for threshold in sorted(set(user.falling), reverse=True):
        depth = sum(score >= threshold for score in user.falling)
        found = len(hits_in_top(user, depth if k is None else min(depth, k)))
        total += (found - before) * Fraction(len(hits_in_top(user, depth)), depth)
        before = found
    return ratio(total, averaged(user, k, conventions.ap_denominator))


def as_ranked(name: str, user: User, k: Cutoff, conventions: Conventions) -> float:
    """The metric of the list as it stands."""
    return ORACLES[name](user, k) if name in ORACLES else CONVENTIONAL[name](user, k, conventions)


def expected(name: str, user: User, k: Cutoff, conventions: Conventions) -> float:
    """The metric, or the weight, of one user under these conventions."""
    match conventions.tie_order:
        case TieOrder.AS_RANKED:
            return as_ranked(name, user, k, conventions)
        case TieOrder.SHARED if name == "ap":
            return shared_average_precision(user, k, conventions)
        case TieOrder.SHARED:
            values = [as_ranked(name, order, k, conventions) for order in orders(user)]
            return math.fsum(values) / len(values)
        case order:
            return as_ranked(name, arranged(user, order), k, conventions)
