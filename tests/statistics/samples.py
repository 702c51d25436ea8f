"""Users by hand and by chance, and what tests of ranks take from them."""

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from spark_eval.statistics.differences import PairSums, RatioSums, to_quanta
from spark_eval.statistics.exact import Floats
from spark_eval.statistics.ranked import RankSums

Pair = tuple[Floats, Floats]

ALTERNATIVES = ("two_sided", "greater", "less")
ZERO_METHODS = ("pratt", "wilcox", "zsplit")


def numbers(text: str) -> Floats:
    return np.array(text.split(), dtype=np.float64)


S1: Pair = (
    numbers(".2 .4 0 .6 .2 .8 .4 0 .2 1 .4 .6"),
    numbers(".4 .4 .2 .6 .6 .8 .2 0 .6 1 .6 .8"),
)
S2: Pair = (
    numbers(".5 .5 0 1 .25 .5 0 0 1 .5 .2 .2 0 .5 1 .25 .5 0 .2 .5"),
    numbers("1 .5 0 .5 .5 .5 .25 0 1 1 .25 .2 .2 .5 1 .5 1 .2 .2 .25"),
)


def filled(found: Sequence[float | None]) -> list[float]:
    """The same, with a number for what is undefined: pytest.approx takes no None."""
    return [-99.0 if number is None else number for number in found]


def by_chance(n: int, seed: int, steps: int = 20) -> Pair:
    """Values on a grid: there are ties and zeros."""
    random = np.random.default_rng(seed)
    baseline = random.integers(0, steps + 1, n) / steps
    moved = baseline + random.integers(-2, 4, n) / steps
    return baseline, np.where(random.random(n) < 0.7, np.clip(moved, 0, 1), baseline)


def pair_sums(pair: Pair) -> PairSums:
    return PairSums.of(*(side.tolist() for side in pair))


def whole_differences(pair: Pair) -> list[int]:
    """Those that are not 0, in quanta."""
    return [int(q) for q in to_quanta(pair[1] - pair[0]) if q]


def ranks_of(differences: Sequence[int]) -> RankSums:
    sizes = sorted(set(map(abs, differences)))
    up, down = ([differences.count(sign * size) for size in sizes] for sign in (1, -1))
    return RankSums.of(up, down)


def clusters_of(users: Sequence[int], differences: Sequence[float]) -> RatioSums:
    """The sums over users whose baseline is 0 throughout."""
    return clusters_of_both(users, [0.0] * len(differences), differences)


def clusters_of_both(
    users: Sequence[object], baseline: Sequence[float], candidate: Sequence[float]
) -> RatioSums:
    """The sums over users, of the rows that each has."""
    of_users: dict[object, list[Fraction]] = defaultdict(lambda: [Fraction()] * 4)
    for user, a, b in zip(users, baseline, candidate, strict=True):
        row = (Fraction(a), Fraction(1), Fraction(b), Fraction(1))
        of_users[user] = [one + more for one, more in zip(of_users[user], row, strict=True)]
    sums = list(of_users.values())
    return RatioSums(
        len(sums),
        [sum((own[i] for own in sums), Fraction()) for i in range(4)],
        [[sum((own[i] * own[j] for own in sums), Fraction()) for j in range(4)] for i in range(4)],
    )
