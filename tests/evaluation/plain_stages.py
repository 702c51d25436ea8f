"""The stages of a pipeline a second time, slow and obvious: sets of items and loops, one user at a time."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from expected import expected

from spark_eval.evaluation.plan import Plan
from users import User

Key = tuple[str, str | None, str, int | None]


@dataclass(frozen=True)
class Person:
    """One user: what is relevant, and each model's list, best first; a negative item is a gap."""

    truth: Mapping[int, float]
    lists: Mapping[str, Sequence[int]]
    scores: Mapping[str, Sequence[float]]

    def cut(self, model: str, k: int) -> User:
        scores = self.scores[model][:k] if model in self.scores else None
        return User(self.lists.get(model, ())[:k], self.truth, scores)

    def union(self, models: Sequence[str], k: int) -> set[int]:
        return {item for model in models for item in self.lists.get(model, ())[:k] if item >= 0}


def values_of(one: Person, plan: Plan) -> dict[Key, float]:
    """Every value of a user, by stage, model, metric and k; NaN where it is undefined."""
    first = plan.stages[0]
    candidates = one.union(first.models, first.k) & one.truth.keys()
    values: dict[Key, float] = {}
    for stage in plan.stages:
        model = stage.models[0] if len(stage.models) == 1 else None
        here = (stage.name, model)
        values[*here, "stage_recall", stage.k] = share(one.union(stage.models, stage.k), one)
        for part in () if model else stage.models:
            others = one.union([other for other in stage.models if other != part], stage.k)
            items = one.union([part], stage.k)
            values[stage.name, part, "stage_recall", stage.k] = share(items, one)
            values[stage.name, part, "added_recall", stage.k] = share(items - others, one)
        if model is not None:
            values |= measured(one.cut(model, stage.k), plan, *here)
        if stage is first:
            best_first = sorted(candidates, key=lambda item: -one.truth[item])
            values |= measured(User(best_first, one.truth), plan, *here, "oracle_")
        elif model is not None:
            cut = one.cut(model, stage.k)
            narrow = User(cut.recommended, {item: one.truth[item] for item in candidates}, cut.scores)
            conditional = measured(narrow, plan, *here, "conditional_")
            values |= conditional if candidates else dict.fromkeys(conditional, math.nan)
        if stage.reranks is not None:
            [earlier] = [other for other in plan.stages if other.name == stage.reranks]
            lists = (
                one.lists.get(earlier.models[0], ())[: earlier.k],
                one.lists.get(stage.models[0], ())[: stage.k],
            )
            for name, number in changes(*lists, stage.k).items():
                values[*here, name, stage.k] = number
    return values


def changes(earlier: Sequence[int], later: Sequence[int], k: int) -> dict[str, float]:
    """What a reranker changes of a list; a negative item is a gap."""
    ranks = [{item: rank for rank, item in enumerate(items, 1) if item >= 0} for items in (earlier, later)]
    before, after = ranks
    top = {item for item, rank in before.items() if rank <= k}
    depth = max([rank for one in ranks for rank in one.values() if rank <= k], default=0)
    weights = [0.85**d for d in range(depth)]
    shares = [
        len({item for item in before if before[item] <= d} & {item for item in after if after[item] <= d}) / d
        for d in range(1, depth + 1)
    ]
    overlap = sum(w * share for w, share in zip(weights, shares, strict=True))
    rises = [before[item] - rank for item, rank in after.items() if item in before]
    return {
        "rank_biased_overlap": overlap / sum(weights) if depth else math.nan,
        "share_replaced": len(after.keys() - top) / len(after) if after else math.nan,
        "largest_promotion": max(0, *rises) if rises else math.nan,
    }


def share(items: set[int], one: Person) -> float:
    return len(items & one.truth.keys()) / len(one.truth)


def measured(user: User, plan: Plan, stage: str, model: str | None, before: str = "") -> dict[Key, float]:
    return {
        (stage, model, f"{before}{value.name}", value.k): expected(
            value.metric.name, user, value.k, value.conventions(plan.conventions)
        )
        for value in plan.metrics
    }


def means(people: Sequence[Person], plan: Plan) -> dict[Key, tuple[float | None, int, int]]:
    """The mean of each value, the users in it, and those for whom it is undefined; then efficiencies."""
    users = [one for one in people if one.truth]
    rows = [values_of(one, plan) for one in users]
    found: dict[Key, tuple[float | None, int, int]] = {}
    for key in rows[0]:
        values = [row[key] for row in rows if not math.isnan(row[key])]
        found[key] = (fmean(values) if values else None, len(values), len(rows) - len(values))
    first = plan.stages[0]
    model = first.models[0] if len(first.models) == 1 else None
    for stage in plan.stages[1:]:
        relevant = [(one, one.union(stage.models, stage.k) & one.truth.keys()) for one in users]
        is_outside = any(items - one.union(first.models, first.k) for one, items in relevant)
        for value in plan.metrics:
            mean, n_users, n_undefined = found[stage.name, stage.models[0], value.name, value.k]
            best, *_ = found[first.name, model, f"oracle_{value.name}", value.k]
            efficiency = None if is_outside or mean is None or not best else mean / best
            key = (stage.name, stage.models[0], f"efficiency_{value.name}", value.k)
            found[key] = (efficiency, n_users, n_undefined)
    return found


def funnel(people: Sequence[Person], plan: Plan) -> dict[str, tuple[int, int]]:
    """Users and relevant pairs, step by step; those that are 0 are left out."""
    users, pairs = Counter[str](), Counter[str]()
    for one in people:
        handed_on = [one.union(stage.models, stage.k) for stage in plan.stages]
        mine = Counter({"with_truth": len(one.truth)})
        if handed_on[0]:
            mine["with_candidates"] = len(one.truth)
        for item in one.truth:
            mine["with_relevant_candidate"] += item in handed_on[0]
            for stage, items in zip(plan.stages[1:], handed_on[1:], strict=True):
                mine[f"with_hit_in_{stage.name}"] += item in items
            mine[fate(item, handed_on)] += 1
        pairs.update(mine)
        users.update({name: 1 for name, number in mine.items() if number})
    return {name: (users[name], pairs[name]) for name in users}


def fate(item: int, handed_on: Sequence[set[int]]) -> str:
    """What became of a relevant item."""
    candidates, *between, final = handed_on
    if item not in candidates:
        return "outside_candidates" if any(item in items for items in handed_on) else "lost_candidates"
    if item in final:
        return "kept" if all(item in items for items in between) else "promoted"
    return "lost_reranking" if any(item in items for items in between) else "lost_ranking"
