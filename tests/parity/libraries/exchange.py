"""What the scripts beside this one share: users come as JSON on stdin, numbers go as JSON to stdout.

Each script runs in the environment of its library, imports nothing of spark-eval, and says what the
library computes under our names: ``ndcg(gain=binary)@10`` as a metric, ``all`` where nothing is cut.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import TypedDict


class User(TypedDict):
    """``scores`` in no order; ``ranking`` of the same items, best first; ``relevant`` items of ``truth``."""

    user: str
    scores: dict[str, float]
    ranking: list[str]
    relevant: dict[str, int]
    truth: list[tuple[str, int]]


class Numbers(TypedDict, total=False):
    """What a library computes: by metric and user, and the library's own means over the run, by metric."""

    per_user: dict[str, dict[str, float]]
    means: dict[str, float]


def answer(distribution: str, measure: Callable[[Sequence[User], Sequence[int]], Numbers]) -> None:
    """Read users and cutoffs, measure them, write the numbers with the library's version."""
    # Whatever else a library prints is no answer.
    stdout, sys.stdout = sys.stdout, sys.stderr
    question = json.load(sys.stdin)
    numbers = measure(question["users"], question["ks"])
    json.dump({"library": distribution, "version": version(distribution), **numbers}, stdout)


def doubles(values: Mapping[str, float]) -> dict[str, float]:
    """The same as JSON takes it: plain numbers, whatever the library calls its own."""
    return {name: float(value) for name, value in values.items()}
