"""Users by hand and by chance, and what tests of ranks take from them."""

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from spark_eval.stats.differences import ClusterSums, PairSums, quanta
from spark_eval.stats.exact import Floats
from spark_eval.stats.ranked import RankSums

Pair = tuple[Floats, Floats]


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
    return [int(q) for q in quanta(pair[1] - pair[0]) if q]


def ranks_of(differences: Sequence[int]) -> RankSums:
    sizes = sorted(set(map(abs, differences)))
    up, down = ([differences.count(sign * size) for size in sizes] for sign in (1, -1))
    return RankSums.of(up, down)


def clusters_of(users: Sequence[int], differences: Sequence[float]) -> ClusterSums:
    """The sums over users whose baseline is 0 throughout."""
    return clusters_of_both(users, [0.0] * len(differences), differences)


def clusters_of_both(
    users: Sequence[object], baseline: Sequence[float], candidate: Sequence[float]
) -> ClusterSums:
    """The sums over users, of the rows that each has."""
    of_users: dict[object, list[tuple[Fraction, Fraction]]] = defaultdict(list)
    for user, a, b in zip(users, baseline, candidate, strict=True):
        of_users[user].append((Fraction(a), Fraction(b)))
    sums = [
        (len(own), sum((a for a, _ in own), Fraction()), sum((b for _, b in own), Fraction()))
        for own in of_users.values()
    ]
    return ClusterSums(
        n=len(sums),
        rows=PairSums.of(baseline, candidate),
        row_squares=sum(n * n for n, _, _ in sums),
        baseline=sum((n * a for n, a, _ in sums), Fraction()),
        candidate=sum((n * b for n, _, b in sums), Fraction()),
        baseline_squares=sum((a * a for _, a, _ in sums), Fraction()),
        candidate_squares=sum((b * b for _, _, b in sums), Fraction()),
        difference_squares=sum(((b - a) ** 2 for _, a, b in sums), Fraction()),
    )
