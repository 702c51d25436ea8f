"""Users for every library: drawn at random from a seed, and hand-made ones for every corner."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

SEED = 20231
N_DRAWN = 720
# Padded with zeros: strings of the same length, so that all agree which item is the larger.
CATALOG = [f"i{number:03d}" for number in range(60)]
KS = (1, 3, 5, 10, 20)
# Lengths of lists and numbers of relevant items: one of the ranges, then one of its numbers.
LENGTHS = [range(1), *[range(2, 5)] * 3, *[range(5, 13)] * 6, *[range(13, 31)] * 4]
RELEVANT = [range(1), *[range(1, 4)] * 4, *[range(4, 13)] * 6, *[range(13, 31)] * 3]
SHARES_FOUND = [0.0, 0.3, 0.3, 0.6, 0.6, 0.8, 1.0, 1.0]


@dataclass(frozen=True)
class User:
    """One user's list, in no order, and his truth as rows, which may repeat an item or hold relevance 0.

    Scores are eighths: no 32-bit float loses anything of them.
    """

    name: str
    scores: dict[str, float]
    truth: tuple[tuple[str, int], ...]

    @cached_property
    def ranking(self) -> list[str]:
        """Items, best first; of equal scores the larger item."""
        return sorted(self.scores, key=lambda item: (self.scores[item], item), reverse=True)

    @cached_property
    def relevant(self) -> dict[str, int]:
        """The relevant items with their largest relevance."""
        return {item: relevance for item, relevance in sorted(self.truth) if relevance > 0}

    @property
    def n_hits(self) -> int:
        """How many of the relevant items the list holds."""
        return len(self.scores.keys() & self.relevant.keys())

    @property
    def ends_with_a_hit(self) -> bool:
        """Whether the last item of the list is relevant."""
        return bool(self.ranking) and self.ranking[-1] in self.relevant

    def within_list(self) -> "User":
        """The same user, had he found relevant only what was recommended to him."""
        return User(self.name, self.scores, tuple(row for row in self.truth if row[0] in self.scores))

    def as_json(self) -> dict[str, Any]:
        """What a library is told."""
        return {
            "user": self.name,
            "scores": self.scores,
            "ranking": self.ranking,
            "relevant": self.relevant,
            "truth": self.truth,
        }


def all_users() -> list[User]:
    """The users of all corners, then those drawn."""
    generator = random.Random(SEED)
    drawn = [draw(generator, f"u{number:04d}") for number in range(N_DRAWN)]
    return [*CORNERS, *(user for user in drawn if user.scores or user.truth)]


def users_of(preset: str) -> list[User]:
    """All users; for scikit-learn, which wants a score for every relevant item, as far as their lists go."""
    if preset != "sklearn":
        return all_users()
    within_list = (user.within_list() for user in all_users())
    return [user for user in within_list if user.n_hits and len(user.scores) > 1]


def draw(generator: random.Random, name: str) -> User:
    """Any length, any number of relevant items, any share of them found, any number of ties."""
    listed = generator.sample(CATALOG, generator.choice(generator.choice(LENGTHS)))
    others = sorted(set(CATALOG) - set(listed))
    n_relevant = generator.choice(generator.choice(RELEVANT))
    n_found = min(len(listed), math.ceil(n_relevant * generator.choice(SHARES_FOUND)))
    n_missed = min(len(others), n_relevant - n_found)
    relevant = generator.sample(listed, n_found) + generator.sample(others, n_missed)
    truth = [(item, generator.randint(1, 3)) for item in relevant]
    # Rows that change nothing: repeats with a smaller relevance, and items that were judged irrelevant.
    truth += [
        (item, generator.randint(1, relevance)) for item, relevance in truth if generator.random() < 0.1
    ]
    if truth:
        truth += [(item, 0) for item in CATALOG if item not in relevant and generator.random() < 0.05]
    generator.shuffle(truth)
    return User(name, draw_scores(generator, listed), tuple(truth))


def draw_scores(generator: random.Random, items: Sequence[str]) -> dict[str, float]:
    """All different, or of three values, or all the same."""
    levels = generator.choice([range(-16, 64), range(-16, 64), range(3), range(1)])
    if len(levels) > len(items):
        return {
            item: level / 8 for item, level in zip(items, generator.sample(levels, len(items)), strict=True)
        }
    return {item: generator.choice(levels) / 8 for item in items}


def corner(name: str, relevances: Sequence[int], missed: int = 0, scores: Sequence[float] = ()) -> User:
    """A list given as the relevance at each rank, 0 without a truth row, and items he missed."""
    listed = {item: -float(rank) for rank, item in enumerate(CATALOG[: len(relevances)])}
    found = [(item, relevance) for item, relevance in zip(listed, relevances, strict=True) if relevance]
    others = [(item, 1 + number % 3) for number, item in enumerate(CATALOG[len(listed) :][:missed])]
    given = dict(zip(listed, map(float, scores), strict=True)) if scores else listed
    return User(name, given, (*found, *others))


CORNERS = [
    corner("no recommendations", [], missed=3),
    corner("no truth", [0, 0, 0]),
    corner("no hit", [0] * 7, missed=4),
    corner("one item, a hit", [2]),
    corner("one item, a miss", [0], missed=1),
    corner("nothing but hits", [3, 3, 2, 2, 1, 1]),
    corner("nothing but hits, worst first", [1, 1, 2, 2, 3, 3]),
    corner("short, last is a hit", [1, 0, 2]),
    corner("short, last is a miss", [1, 2, 0]),
    corner("short, many missed", [1, 0, 1], missed=8),
    corner("long, one hit beyond every k", [0] * 24 + [3]),
    corner("long, m < k", [0, 1] * 15, missed=2),
    corner("long, m > k", [1, 0, 3] * 10, missed=12),
    corner("all tied", [0, 3, 0, 1, 0, 2], scores=[0.5] * 6),
    corner("tied across k", [0, 3, 0, 1, 0, 2], scores=[2, 1, 1, 1, 1, 0]),
    User("repeated truth", {"i002": 3.0, "i001": 2.0, "i000": 1.0}, (("i002", 1), ("i001", 1), ("i002", 3))),
    User(
        "judged irrelevant", {"i002": 3.0, "i001": 2.0, "i000": 1.0}, (("i002", 0), ("i001", 1), ("i005", 0))
    ),
]
