"""Metrics of whole lists and histories a second time, slow and obvious: loops over items and pairs of them.

The facts of items are those of ``world``.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import combinations
from statistics import fmean
from typing import Final

from world import AVAILABLE, LETTERS, LISTED, N_ITEMS, PROPENSITIES, TRAINING, VECTORS

from spark_eval.conventions import Conventions
from spark_eval.conventions.beyond import (
    ArpScale,
    ArpUnseen,
    CalibrationWeights,
    CoveredPlaces,
    Distance,
    DistanceAverage,
    NoFeatures,
    NoveltyDenominator,
    NoveltyScale,
    NoveltyUnseen,
    Popularity,
    SerendipityVariant,
    ShortList,
    UnexpectednessDenominator,
)
from users import User

Cutoff = int | None
NAN: Final = float("nan")


def items(user: User, k: Cutoff) -> list[int]:
    return [item for item in user.recommended[:k] if item >= 0]


def popularity(user: User, conventions: Conventions, of: str = "popularity") -> Counter[int]:
    rows = TRAINING[user.fold]
    if getattr(conventions, of) is Popularity.USERS:
        return Counter(item for row in rows for item in set(row))
    return Counter(item for row in rows for item in row)


def known(user: User, conventions: Conventions) -> tuple[Counter[int], int]:
    """What novelty counts of each item, and of all."""
    counts = popularity(user, conventions, "novelty_popularity")
    is_users = conventions.novelty_popularity is Popularity.USERS
    return counts, len(TRAINING[user.fold]) if is_users else counts.total()


def disc(rank: int) -> float:
    return 1 / math.log2(rank + 1)


def user_coverage(user: User, k: Cutoff, conventions: Conventions) -> float:
    held = len(items(user, k))
    if conventions.user_coverage_places is CoveredPlaces.ANY:
        return float(held > 0)
    return float(held > 0 and (k is None or held >= k))


def arp(user: User, k: Cutoff, conventions: Conventions) -> float:
    counts = popularity(user, conventions)
    unit = {ArpScale.COUNT: 1, ArpScale.SHARE: counts.total(), ArpScale.MAX: max(counts.values())}
    drops, least = conventions.arp_unseen is ArpUnseen.DROP, int(conventions.arp_unseen is ArpUnseen.ONE)
    values = [
        (counts[item] or least) / unit[conventions.arp_scale]
        for item in items(user, k)
        if counts[item] or not drops
    ]
    return fmean(values) if values else NAN


def novelty_items(user: User, k: Cutoff, conventions: Conventions) -> float:
    counts, _ = known(user, conventions)
    drops = conventions.novelty_unseen is NoveltyUnseen.DROP
    counted = [item for item in items(user, k) if counts[item] or not drops]
    if not counted:
        return NAN
    return k if conventions.novelty_denominator is NoveltyDenominator.K and k is not None else len(counted)


def novelty(user: User, k: Cutoff, conventions: Conventions) -> float:
    counts, n_all = known(user, conventions)
    if conventions.novelty_unseen is NoveltyUnseen.ONE:
        counts.update(item for item in items(user, k) if not counts[item])
    values = [-math.log2(counts[item] / n_all) for item in items(user, k) if counts[item]]
    unit = math.log2(n_all) if conventions.novelty_scale is NoveltyScale.SHARE else 1
    return math.fsum(values) / unit / novelty_items(user, k, conventions)


def over_discounts(user: User, k: Cutoff, worth: Callable[[int], float]) -> float:
    ranked = enumerate(user.recommended[:k], 1)
    total = math.fsum(worth(item) * disc(rank) for rank, item in ranked if item in user.truth and item >= 0)
    all_ranks = math.fsum(disc(rank) for rank in range(1, len(items(user, k)) + 1))
    return total / all_ranks if all_ranks else 0.0


def epc(user: User, k: Cutoff, _: Conventions) -> float:
    counts = popularity(user, Conventions())
    return over_discounts(user, k, lambda item: 1 - counts[item] / len(TRAINING[user.fold]))


def efd(user: User, k: Cutoff, _: Conventions) -> float:
    counts = popularity(user, Conventions())
    rarest = min(counts.values())
    return over_discounts(user, k, lambda item: -math.log2((counts[item] or rarest) / counts.total()))


def vector(item: int) -> tuple[float, ...] | None:
    one = VECTORS[item] if item < N_ITEMS else (NAN,)
    return None if any(map(math.isnan, one)) else one


def letters(item: int) -> set[str]:
    return set(LETTERS[item]) if item < N_ITEMS else set()


def cosine(one: int, other: int) -> float:
    a, b = vector(one), vector(other)
    if a is None or b is None or not any(a) or not any(b):
        return 0.0
    product = math.fsum(x * y for x, y in zip(a, b, strict=True))
    return product / (math.hypot(*a) * math.hypot(*b))


def is_known(item: int, distance: Distance) -> bool:
    if distance in (Distance.COSINE, Distance.EUCLID):
        return vector(item) is not None
    return bool(letters(item))


def apart(one: int, other: int, distance: Distance) -> float:
    if not (is_known(one, distance) and is_known(other, distance)):
        return 1.0
    a, b = letters(one), letters(other)
    match distance:
        case Distance.COSINE:
            return 1 - cosine(one, other)
        case Distance.EUCLID:
            return math.dist(vector(one) or (), vector(other) or ())
        case Distance.JACCARD:
            return 1 - len(a & b) / len(a | b)
        case Distance.HAMMING:
            return len(a ^ b)


def ild(user: User, k: Cutoff, conventions: Conventions) -> float:
    distance, listed = conventions.ild_distance, items(user, k)
    is_unlike = conventions.no_features is NoFeatures.UNLIKE
    compared = [item for item in listed if is_unlike or is_known(item, distance)]
    distances = [apart(one, other, distance) for one, other in combinations(compared, 2)]
    if not distances:
        return 0.0 if len(listed) == 1 and conventions.ild_short is ShortList.ZERO else NAN
    by_pairs = conventions.ild_average is DistanceAverage.PAIRS
    return math.fsum(distances) / (len(distances) if by_pairs else len(compared))


def unexpectedness(user: User, k: Cutoff, conventions: Conventions) -> float:
    listed = items(user, k)
    if not listed:
        return NAN
    if user.base is None:
        return {"undefined": NAN, "zero": 0.0, "one": 1.0}[conventions.unexpectedness_no_base]
    shared = len(set(listed) & set(user.base[:k]))
    is_k = conventions.unexpectedness_denominator is UnexpectednessDenominator.K
    return 1 - shared / (k if is_k and k is not None else len(listed))


def place_among(x: float) -> float:
    return max((len(LISTED) + 1 - x) / len(LISTED), 0.0)


def above_popularity(user: User, rank: int, item: int, conventions: Conventions) -> float:
    counts = popularity(user, conventions)
    falling = sorted(set(counts.values()), reverse=True)
    popular = place_among(falling.index(counts[item]) + 1) if counts[item] else 0.0
    return max(place_among(rank) - popular, 0.0)


def by_takers(user: User, one: int, other: int) -> float:
    counts, rows = popularity(user, Conventions()), TRAINING[user.fold]
    both = sum(one in row and other in row for row in rows)
    return both / math.sqrt(counts[one] * counts[other]) if both else 0.0


def serendipity(user: User, k: Cutoff, conventions: Conventions) -> float:
    variant, listed = conventions.serendipity_variant, items(user, k)
    ranked = [
        (rank, item) for rank, item in enumerate(user.recommended[:k], 1) if item in user.truth and item >= 0
    ]
    if variant is SerendipityVariant.RECTOOLS:
        total = math.fsum(above_popularity(user, rank, item, conventions) for rank, item in ranked)
        return total / len(listed) if listed else 0.0
    is_cosine = variant is not SerendipityVariant.RECOMMENDERS
    if is_cosine and conventions.no_features is NoFeatures.DROP:
        listed = [item for item in listed if vector(item) is not None]
    history = [item for item in user.history if not is_cosine or compared(item, conventions)]
    hits = [item for _, item in ranked if item in listed]
    means = [
        math.fsum(cosine(hit, item) if is_cosine else by_takers(user, hit, item) for item in history)
        / max(len(history), 1)
        for hit in hits
    ]
    if variant is SerendipityVariant.EVIDENTLY:
        return 1 - math.fsum(means) if hits and history else NAN
    if not items(user, k):
        return 0.0
    return math.fsum(1 - mean for mean in means) / len(listed) if history and listed else NAN


def compared(item: int, conventions: Conventions) -> bool:
    return vector(item) is not None or conventions.no_features is NoFeatures.UNLIKE


def outside_catalog(user: User, k: Cutoff, _: Conventions) -> float:
    listed = items(user, k)
    return sum(item not in LISTED for item in listed) / len(listed) if listed else NAN


def inverse_propensity(item: int, user: User, conventions: Conventions) -> float:
    floor = {"tenth": 0.1, "hundredth": 0.01, "thousandth": 0.001, "none": 0.0}[conventions.propensity_floor]
    if conventions.propensity == "given":
        return 1 / max(PROPENSITIES[item], floor) if item < N_ITEMS else NAN
    powers = {"sqrt": 0.5, "linear": 1, "gamma_1_5": 1.25, "gamma_2": 1.5, "gamma_2_5": 1.75, "gamma_3": 2}
    counts = popularity(user, conventions)
    least = 1 if conventions.propensity_floor == "none" else 0
    share = max(counts[item], least) / max(counts.values())
    weight: float = 1 / max(share ** powers[conventions.propensity_power], floor)
    return weight


def snips_weight(user: User, _: Cutoff, conventions: Conventions) -> float:
    weights = [inverse_propensity(item, user, conventions) for item in user.truth]
    known = [weight for weight in weights if not math.isnan(weight)]
    return math.fsum(known) if known or not weights else NAN


def snips_recall(user: User, k: Cutoff, conventions: Conventions) -> float:
    total = snips_weight(user, k, conventions)
    hits = {item for item in items(user, k) if item in user.truth}
    weights = [inverse_propensity(item, user, conventions) for item in hits]
    found = math.fsum(weight for weight in weights if not math.isnan(weight))
    return found / total if total else total


def violations(user: User, k: Cutoff, _: Conventions) -> float:
    flags = [AVAILABLE[item] for item in items(user, k) if item < N_ITEMS]
    known = [flag for flag in flags if flag is not None]
    return known.count(False) / len(known) if known else NAN


def long_tail(user: User, k: Cutoff, _: Conventions) -> float:
    counts, listed = popularity(user, Conventions()), items(user, k)
    head, covered = set(), 0
    for item in sorted(counts, key=lambda item: (-counts[item], -item)):
        if covered * 10 < counts.total() * 8:
            head.add(item)
            covered += counts[item]
    return sum(item not in head for item in listed) / len(listed) if listed else NAN


def pop_lift_profile(user: User, k: Cutoff, conventions: Conventions) -> float:
    counts = popularity(user, conventions)
    mean = fmean(counts[item] for item in user.history) if user.history else 0
    return mean if mean and items(user, k) else NAN


def pop_lift(user: User, k: Cutoff, conventions: Conventions) -> float:
    plain = Conventions(popularity=conventions.popularity)
    return arp(user, k, plain) / pop_lift_profile(user, k, conventions) - 1


def shares(weighed: list[tuple[int, float]]) -> dict[str, float]:
    totals = defaultdict[str, float](float)
    for item, weight in weighed:
        for letter in letters(item):
            totals[letter] += weight / len(letters(item))
    return {letter: total / math.fsum(totals.values()) for letter, total in totals.items()}


def calibration_kl(user: User, k: Cutoff, conventions: Conventions) -> float:
    is_disc = conventions.calibration_kl_weights is CalibrationWeights.DISC
    p = shares([(item, 1) for item in user.history])
    ranked = enumerate(user.recommended[:k], 1)
    q = shares([(item, disc(rank) if is_disc else 1) for rank, item in ranked if item >= 0])
    if not p or not items(user, k):
        return NAN
    return math.fsum(p[g] * math.log(p[g] / (0.99 * q.get(g, 0) + 0.01 * p[g])) for g in p)


OF_LISTS: Final = {
    "user_coverage": user_coverage,
    "arp": arp,
    "novelty": novelty,
    "novelty_items": novelty_items,
    "epc": epc,
    "efd": efd,
    "ild": ild,
    "unexpectedness": unexpectedness,
    "serendipity": serendipity,
    "outside_catalog": outside_catalog,
    "violations": violations,
    "snips_recall": snips_recall,
    "snips_recall_weight": snips_weight,
    "long_tail": long_tail,
    "pop_lift": pop_lift,
    "pop_lift_profile": pop_lift_profile,
    "calibration_kl": calibration_kl,
}
