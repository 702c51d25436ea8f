"""One log for all libraries that measure beyond accuracy: lists, truth, training, items, drawn from a seed.

There are lists shorter than every k, users without training or without a list of the baseline, items that
training never saw, items outside the catalogue, repeated training rows. Scores never tie: ranks are given.
"""

import random
from dataclasses import dataclass, replace
from typing import Any

SEED = 20_261_123
N_USERS = 300
# Padded with zeros: strings of the same length, so that all agree which item is the larger.
ITEMS = [f"i{number:03d}" for number in range(60)]
# What the table of items holds; training and lists hold the others, too.
CATALOG = ITEMS[4:54]
UNSEEN = frozenset(ITEMS[::9])
KS = (1, 3, 5, 10, 20)
WORDS = [f"w{number}" for number in range(12)]
LETTERS = "abcde"


@dataclass(frozen=True)
class Log:
    """What libraries are told. Lists are best first, by user; users who lack one are not in them.

    ``train`` are rows of user and item, of which some repeat. ``vectors``, ``words`` and ``letter`` are those
    of all items; one vector in ten is zero.
    """

    lists: dict[str, list[str]]
    base: dict[str, list[str]]
    truth: dict[str, list[str]]
    train: list[tuple[str, str]]
    vectors: dict[str, list[float]]
    words: dict[str, list[str]]
    letter: dict[str, str]

    def as_json(self) -> dict[str, Any]:
        """The same with the catalogue and the cutoffs."""
        return {**vars(self), "catalog": CATALOG, "ks": KS}

    def without_known(self) -> "Log":
        """Recommend to nobody what they had in training: recommenders refuses such lists."""
        known = set(self.train)
        lists = {
            user: [item for item in items if (user, item) not in known] for user, items in self.lists.items()
        }
        return replace(self, lists={user: items for user, items in lists.items() if items})


def log_of(preset: str) -> Log:
    """The log that a library is asked about."""
    log = draw_log()
    return log.without_known() if preset == "recommenders" else log


def draw_log() -> Log:
    """The same each time."""
    draw = random.Random(SEED)
    users = [f"u{number:04d}" for number in range(N_USERS)]
    trained = [item for item in ITEMS if item not in UNSEEN]
    # The first items have most of the training.
    weights = [1 / (1 + place) for place in range(len(trained))]
    train = []
    for user in [*users, *(f"v{number}" for number in range(40))]:
        if draw.random() < 0.9:
            had = sorted(set(draw.choices(trained, weights, k=draw.randint(1, 12))))
            train += [(user, item) for item in had for _ in range(draw.choice([1, 1, 1, 1, 2, 3]))]
    draw.shuffle(train)
    pairs = set(train)
    lists, base, truth = {}, {}, {}
    for user in users:
        # The last items are recommended to nobody, the first ones often.
        liked = sorted(ITEMS[:50], key=lambda item: draw.random() * (2 + ITEMS.index(item)))
        listed = liked[: draw.choice([1, 2, 4, 8, 12, 20, 26])]
        others = [item for item in ITEMS if (user, item) not in pairs]
        wanted = [item for item in listed if item in others and draw.random() < 0.4]
        truth[user] = sorted({*wanted, *draw.sample(others, draw.randint(1, 5))})
        if draw.random() < 0.95:
            lists[user] = listed
        if draw.random() < 0.85:
            base[user] = draw.sample(ITEMS[:30], draw.choice([2, 10, 20]))
    return Log(
        lists,
        base,
        truth,
        train,
        vectors={item: draw_vector(draw) for item in ITEMS},
        words={item: draw.sample(WORDS, draw.choice([0, 1, 2, 3, 5])) for item in ITEMS},
        letter={item: draw.choice(LETTERS) for item in ITEMS},
    )


def draw_vector(draw: random.Random) -> list[float]:
    """Four components; all are zero in one vector of ten."""
    return [0.0] * 4 if draw.random() < 0.1 else [draw.gauss(0, 1) for _ in range(4)]
