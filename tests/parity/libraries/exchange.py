"""What the scripts beside this one share: users, or a log, come as JSON on stdin, numbers go to stdout.

Each script runs in the environment of its library, imports nothing of spark-eval, and says what the
library computes under our names: ``ndcg(gain=binary)@10`` as a metric, ``all`` where nothing is cut.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, TypedDict


class User(TypedDict):
    """``scores`` in no order; ``ranking`` of the same items, best first; ``relevant`` items of ``truth``."""

    user: str
    scores: dict[str, float]
    ranking: list[str]
    relevant: dict[str, int]
    truth: list[tuple[str, int]]


class Log(TypedDict):
    """A log as ``beyond_cases`` describes it, with the items of the catalogue and the cutoffs."""

    lists: dict[str, list[str]]
    base: dict[str, list[str]]
    truth: dict[str, list[str]]
    train: list[tuple[str, str]]
    vectors: dict[str, list[float]]
    words: dict[str, list[str]]
    letter: dict[str, str]
    catalog: list[str]
    ks: list[int]


class Numbers(TypedDict, total=False):
    """What a library computes: by metric and user, and of the run: its own means, and values of a run."""

    per_user: dict[str, dict[str, float]]
    means: dict[str, float]


def answer(distribution: str, measure: Callable[[Sequence[User], Sequence[int]], Numbers]) -> None:
    """Read users and cutoffs, measure them, write the numbers with the library's version."""
    respond(distribution, lambda question: measure(question["users"], question["ks"]))


def respond(distribution: str, measure: Callable[[Any], Numbers]) -> None:
    """Read a question, such as a Log, measure it, write the numbers with the library's version."""
    # Whatever else a library prints is no answer.
    stdout, sys.stdout = sys.stdout, sys.stderr
    numbers = measure(json.load(sys.stdin))
    json.dump({"library": distribution, "version": version(distribution), **numbers}, stdout)


def rows_of(lists: Mapping[str, Sequence[str]]) -> list[tuple[str, str, int]]:
    """User, item and rank of each item of each list."""
    return [(user, item, rank) for user, items in lists.items() for rank, item in enumerate(items, 1)]


def pairs_of(lists: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """User and item of each item of each list."""
    return [(user, item) for user, item, _ in rows_of(lists)]


def doubles(values: Mapping[str, float]) -> dict[str, float]:
    """The same as JSON takes it: plain numbers, whatever the library calls its own."""
    return {name: float(value) for name, value in values.items()}
