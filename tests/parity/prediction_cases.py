"""Predictions by chance, as the libraries and we get them: ties, weights, users of one class."""

import random
from collections.abc import Iterator
from typing import Any

SEED = 20_261_121
N_CASES = 24
# Scores have so many distinct values; none lies on the edge of a bin.
GRIDS = (3, 17, 1_000_003)


def binary_cases() -> dict[str, dict[str, list[Any]]]:
    """label, score, user, weight of each case, by name."""
    generator = random.Random(SEED)
    return {f"binary {number}": binary_case(generator, GRIDS[number % 3]) for number in range(N_CASES)}


def binary_case(generator: random.Random, grid: int) -> dict[str, list[Any]]:
    n = generator.randint(30, 300)
    scores = [(generator.randrange(grid) + 0.37) / grid for _ in range(n)]
    users = [generator.randrange(12) for _ in range(n)]
    # Users 0 and 1 have one class each.
    chances = [{0: 0.0, 1: 1.0}.get(user, score) for user, score in zip(users, scores, strict=True)]
    labels = [int(generator.random() < chance) for chance in chances]
    weights = [generator.choice([0.1, 0.7, 1.0, 2.5, generator.random()]) for _ in range(n)]
    return {"label": labels, "score": scores, "user": users, "weight": weights}


def multiclass_cases() -> dict[str, dict[str, list[Any]]]:
    """label (0 to 3), probabilities, weight of each case."""
    generator = random.Random(SEED + 1)
    cases: dict[str, dict[str, list[Any]]] = {}
    for number in range(N_CASES):
        n = generator.randint(20, 200)
        shares = [[generator.choice([0.0, 1.0, 1.0, 2.0]) + 0.01 for _ in range(4)] for _ in range(n)]
        rows = [[share / sum(row) for share in row] for row in shares]
        labels = [generator.choices(range(4), [share + 0.05 for share in row])[0] for row in rows]
        cases[f"classes {number}"] = {
            "label": [*labels[:-4], 0, 1, 2, 3],
            "score": rows,
            "weight": [generator.random() * 3 for _ in range(n)],
        }
    return cases


def regression_cases() -> dict[str, dict[str, list[Any]]]:
    """label (never 0), score, weight of each case; small, large and far from zero."""
    generator = random.Random(SEED + 2)
    cases = {}
    for number in range(N_CASES):
        n, size, shift = (
            generator.randint(5, 200),
            10.0 ** generator.randint(-6, 6),
            generator.choice([0, 3, 100]),
        )
        labels = [(generator.gauss(0, 1) + shift) * size or size for _ in range(n)]
        cases[f"numbers {number}"] = {
            "label": labels,
            "score": [label + generator.gauss(0, 0.3) * size for label in labels],
            "weight": [generator.random() * 3 for _ in range(n)],
        }
    return cases


def rows_of(cases: dict[str, dict[str, list[Any]]]) -> Iterator[tuple[Any, ...]]:
    """The rows of all cases: the case as model, then its columns."""
    for name, columns in cases.items():
        for values in zip(*columns.values(), strict=True):
            yield (name, *values)
