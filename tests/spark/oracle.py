"""The whole evaluation a second time, slow and obvious: dicts and loops over rows, one user at a time."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from oracles import FORKED, ORACLES
from users import User

from spark_eval.conventions import Conventions, Ties, TruthDuplicates
from spark_eval.metrics import RANKING
from spark_eval.schema import metric_column

Id = int | str


class Recommendation(NamedTuple):
    """A row as it came: ``order`` is a score or a rank."""

    model: str
    user: Id | None
    item: Id | None
    order: float | None


class Relevance(NamedTuple):
    """A row of the truth as it came; ``time`` in seconds."""

    user: Id | None
    item: Id | None
    relevance: float | None
    time: int


@dataclass(frozen=True)
class Rules:
    """How to evaluate."""

    conventions: Conventions
    ks: Sequence[int]
    threshold: float | None
    no_recommendations: str
    no_truth: str
    are_scores: bool


def evaluate(
    recommendations: Iterable[Recommendation], truth: Iterable[Relevance], rules: Rules
) -> dict[tuple[str, Id], dict[str, float]]:
    """Every column of ``per_user`` by model and user."""
    relevant = truth_by_user(truth, rules)
    rows: dict[str, dict[Id, list[tuple[Id, float]]]] = defaultdict(lambda: defaultdict(list))
    for model, user, item, order in recommendations:
        of_model = rows[model]
        if user is not None and item is not None and order is not None and math.isfinite(order):
            of_model[user].append((item, order))
    per_user = {}
    for model, lists in rows.items():
        for user in population(lists, relevant, rules):
            ranks = ranks_of(lists.get(user, []), rules)
            per_user[model, user] = columns(ranks, relevant.get(user, {}), rules)
    return per_user


def truth_by_user(truth: Iterable[Relevance], rules: Rules) -> dict[Id, dict[Id, float]]:
    """The relevance of each relevant item of each user."""
    rows: dict[Id, dict[Id, list[tuple[int, float]]]] = defaultdict(lambda: defaultdict(list))
    for user, item, relevance, time in truth:
        if user is None or item is None or relevance is None or not math.isfinite(relevance):
            continue
        if relevance <= 0 or (rules.threshold is not None and relevance < rules.threshold):
            continue
        rows[user][item].append((time, relevance))
    duplicates = rules.conventions.truth_duplicates
    return {
        user: {item: combined(seen, duplicates) for item, seen in items.items()}
        for user, items in rows.items()
    }


def combined(seen: Sequence[tuple[int, float]], duplicates: TruthDuplicates) -> float:
    """One relevance out of several rows of (time, relevance)."""
    relevances = [relevance for _, relevance in seen]
    return {
        TruthDuplicates.MAX: max(relevances),
        TruthDuplicates.SUM: math.fsum(relevances),
        TruthDuplicates.LAST: max(seen)[1],
        TruthDuplicates.COUNT: float(len(seen)),
    }[duplicates]


def population(lists: Mapping[Id, object], relevant: Mapping[Id, object], rules: Rules) -> set[Id]:
    """The users in the mean of one model."""
    users = lists.keys() & relevant.keys()
    if rules.no_recommendations == "zero":
        users |= relevant.keys()
    if rules.no_truth == "zero":
        users |= lists.keys()
    return set(users)


def ranks_of(rows: Sequence[tuple[Id, float]], rules: Rules) -> dict[Id, int]:
    """The rank of each item of a list, repeated ones at their best."""
    if not rules.are_scores:
        return {item: min(int(rank) for other, rank in rows if other == item) for item, _ in rows}
    scores = {item: max(score for other, score in rows if other == item) for item, _ in rows}
    by_item = sorted(scores, reverse=rules.conventions.ties is Ties.ITEM_DESC)
    best_first = sorted(by_item, key=lambda item: -scores[item])  # a stable sort keeps ties in item order
    return {item: rank for rank, item in enumerate(best_first, 1)}


def columns(ranks: Mapping[Id, int], truth: Mapping[Id, float], rules: Rules) -> dict[str, float]:
    """All columns of one user; items become numbers, ranks that nothing holds become items of no worth."""
    number = {item: place for place, item in enumerate([*truth, *ranks])}
    places = [-rank for rank in range(1, max(ranks.values(), default=0) + 1)]
    for item, rank in ranks.items():
        if places[rank - 1] < 0 or item in truth:
            places[rank - 1] = number[item]
    user = User(places, {number[item]: relevance for item, relevance in truth.items()})
    values: dict[str, float] = {"n_relevant": len(truth), "n_recommended": len(ranks)}
    for name in RANKING:
        for k in rules.ks:
            values[metric_column(name, k)] = (
                ORACLES[name](user, k) if name in ORACLES else FORKED[name](user, k, rules.conventions)
            )
    return values
