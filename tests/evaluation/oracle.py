"""The whole evaluation a second time, slow and obvious: dicts and loops over rows, one user at a time."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from expected import expected

from spark_eval.conventions import Conventions, Ties, TruthDuplicates
from spark_eval.kernels.values import MetricValue
from users import User

Id = int | str


class Recommendation(NamedTuple):
    """A row as it came: ``order`` is a score or a rank."""

    model: str | None
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
    metrics: Sequence[MetricValue]
    are_scores: bool


def evaluate(
    recommendations: Iterable[Recommendation], truth: Iterable[Relevance], rules: Rules
) -> dict[tuple[str | None, Id], dict[str, float]]:
    """Every column of ``per_user`` by model and user."""
    relevant = truth_by_user(truth, rules)
    rows: dict[str | None, dict[Id, list[tuple[Id, float]]]] = defaultdict(lambda: defaultdict(list))
    for model, user, item, order in recommendations:
        of_model = rows[model]
        if user is not None and item is not None and order is not None and math.isfinite(order):
            of_model[user].append((item, order))
    per_user = {}
    for model, lists in rows.items():
        for user in population(lists, relevant, rules):
            items = {item for item, _ in lists.get(user, [])}
            is_in_vain = user in relevant and items and items.isdisjoint(relevant[user])
            if is_in_vain and rules.conventions.no_hits == "drop":
                continue
            per_user[model, user] = columns(lists.get(user, []), relevant.get(user, {}), rules)
    return per_user


def truth_by_user(truth: Iterable[Relevance], rules: Rules) -> dict[Id, dict[Id, float]]:
    """The relevance of each relevant item of each user: all sound rows combined, then judged."""
    rows: dict[Id, dict[Id, list[tuple[int, float]]]] = defaultdict(lambda: defaultdict(list))
    for user, item, relevance, time in truth:
        if user is not None and item is not None and relevance is not None and math.isfinite(relevance):
            rows[user][item].append((time, relevance))
    duplicates, relevant = rules.conventions.truth_duplicates, defaultdict[Id, dict[Id, float]](dict)
    for user, items in rows.items():
        for item, seen in items.items():
            relevance = combined(seen, duplicates)
            if is_relevant(relevance, rules.conventions.threshold):
                relevant[user][item] = relevance
    return relevant


def is_relevant(relevance: float, threshold: float | None) -> bool:
    """At or above the threshold; above 0 without one."""
    return relevance > 0 if threshold is None else relevance >= threshold


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
    if rules.conventions.no_recommendations == "zero":
        users |= relevant.keys()
    if rules.conventions.no_truth == "zero":
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


def columns(rows: Sequence[tuple[Id, float]], truth: Mapping[Id, float], rules: Rules) -> dict[str, float]:
    """All columns of one user; items become numbers, ranks that nothing holds become items of no worth."""
    ranks = ranks_of(rows, rules)
    number = {item: place for place, item in enumerate([*truth, *ranks])}
    places = [-rank for rank in range(1, max(ranks.values(), default=0) + 1)]
    for item, rank in ranks.items():
        if places[rank - 1] < 0 or item in truth:
            places[rank - 1] = number[item]
    falling = sorted((max(s for other, s in rows if other == item) for item in ranks), reverse=True)
    user = User(
        places,
        {number[item]: relevance for item, relevance in truth.items()},
        falling if rules.are_scores else None,
    )
    values: dict[str, float] = {"n_relevant": len(truth), "n_recommended": len(ranks)}
    for value in rules.metrics:
        conventions = value.conventions(rules.conventions)
        values[value.column] = expected(value.metric.name, user, value.k, conventions)
        for weight in value.metric.weights.values():
            values[value.column_of(weight.name)] = expected(weight.name, user, value.k, conventions)
    return values


def number(value: float | None) -> float:
    """A value of ``per_user``, NaN where it is undefined."""
    return math.nan if value is None else value
