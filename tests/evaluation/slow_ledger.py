"""What became of every row of recommendations and of the truth, a second time: loops over lists."""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import oracle
from oracle import Id, Recommendation, Relevance, Rules

from spark_eval.evaluation.plan import Plan

List = list[tuple[Id, float]]


def fault_of(row: Recommendation, are_scores: bool) -> str | None:
    """The first fault of a row."""
    if row.model is None:
        return "NULL_MODEL"
    if row.user is None or row.item is None:
        return "NULL_ID"
    if row.order is None:
        return "NULL_SCORE" if are_scores else "NULL_RANK"
    if are_scores:
        return None if math.isfinite(row.order) else "SCORE_NOT_FINITE"
    return "RANK_BASE" if row.order < 1 else None


def counts_of_lists(
    recommendations: Iterable[Recommendation],
    relevant: dict[Id, dict[Id, float]],
    plan: Plan,
    are_scores: bool,
    trained: Collection[Id] | None = None,
) -> dict[str | None, Counter[str]]:
    """The counts that the ledger is made of, by model; those that are 0 are left out.

    ``relevant`` are the relevant items of each user, ``trained`` the items with training interactions.
    """
    by_list: dict[Any, list[Recommendation]] = defaultdict(list)
    for row in recommendations:
        by_list[row.model, row.user].append(row)
    found: dict[str | None, Counter[str]] = defaultdict(Counter)
    for (model, user), rows in by_list.items():
        counts = of_list(rows, relevant.get(user, {}), plan, are_scores, trained)
        largest = max(found[model]["largest"], counts.pop("largest") if user is not None else 0)
        found[model].update(counts)
        found[model]["largest"] = largest
        if user is not None:
            found[model].update(
                name.replace(".rows", ".users") for name, n in counts.items() if n and name.endswith(".rows")
            )
    return {model: +counts for model, counts in found.items()}


def of_list(
    rows: Sequence[Recommendation],
    truth: dict[Id, float],
    plan: Plan,
    are_scores: bool,
    trained: Collection[Id] | None,
) -> Counter[str]:
    """The counts of one list."""
    counts = Counter({"in..rows": len(rows), "largest": len(rows)})
    sound: List = []
    for row in rows:
        fault = fault_of(row, are_scores)
        if fault is None:
            assert row.item is not None
            assert row.order is not None
            sound.append((row.item, row.order))
        else:
            counts[f"quarantined.{fault}.rows"] += 1
    if not are_scores and plan.checks == "full":
        sound = without_shared(sound, counts)
    rank = oracle.ranks_of(sound, Rules(plan.conventions, plan.metrics, are_scores))
    looks_at_all = are_scores or plan.checks == "full"
    is_near = {item: plan.depth is None or place <= plan.depth for item, place in rank.items()}
    seen: set[Id] = set()
    n_used = 0
    for item, order in sorted(sound, key=lambda row: -row[1] if are_scores else row[1]):
        place = rank[item] if are_scores else int(order)
        is_reached = plan.depth is None or place <= plan.depth
        if item in seen and (looks_at_all or (item in truth and is_reached)):
            counts["deduplicated.repeated_item.rows"] += 1
        elif not is_reached:
            counts["filtered.beyond_k.rows"] += 1
        else:
            n_used += 1
            is_cold = trained is not None and item not in trained
            reason = "no_truth" if not truth else "cold_item" if is_cold else ""
            counts[f"{'used' if truth else 'dropped'}.{reason}.rows"] += 1
        seen.add(item)
    hits = [item for item in rank if item in truth and is_near[item]]
    n_kept = n_used + counts["filtered.beyond_k.rows"]
    if n_kept:
        counts["with_truth" if truth else "without_truth"] += 1
        counts["without_hits"] += bool(truth) and not hits
    if are_scores:
        best = sorted((max(s for other, s in sound if other == item) for item in rank), reverse=True)
        for k in plan.cuts:
            counts[f"ties_at_cut.k={k}"] += k < len(best) and best[k - 1] == best[k]
    else:
        ranks = rank.values() if looks_at_all else [order for _, order in sound]
        counts["rank_gaps."] += max(ranks, default=0) > len(rows)
    counts["clashes"] = len(hits) - len({rank[item] for item in hits}) if not are_scores else 0
    return counts


def without_shared(sound: List, counts: Counter[str]) -> List:
    """Leave out the rows of items whose best rank is that of another item, and count them."""
    best = {item: min(rank for other, rank in sound if other == item) for item, _ in sound}
    at = Counter(best.values())
    kept = [(item, rank) for item, rank in sound if at[best[item]] == 1]
    counts["quarantined.DUPLICATE_RANK.rows"] += len(sound) - len(kept)
    return kept


def counts_of_truth(truth: Sequence[Relevance], rules: Rules) -> dict[tuple[str, str | None], int]:
    """How many rows of the truth have each outcome, by the definition."""
    threshold, is_max = rules.conventions.threshold, rules.conventions.truth_duplicates == "max"
    reason = "not_relevant" if threshold is None else "below_threshold"
    pairs: dict[tuple[Any, Any], list[tuple[int, float]]] = defaultdict(list)
    found: Counter[tuple[str, str | None]] = Counter()
    for user, item, relevance, time in truth:
        if user is None or item is None:
            found["quarantined", "NULL_ID"] += 1
        elif relevance is None or not math.isfinite(relevance):
            fault = "NULL_RELEVANCE" if relevance is None else "RELEVANCE_NOT_FINITE"
            found["quarantined", fault] += 1
        elif is_max and not oracle.is_relevant(relevance, threshold):
            found["filtered", reason] += 1
        else:
            pairs[user, item].append((time, relevance))
    for seen in pairs.values():
        if oracle.is_relevant(oracle.combined(seen, rules.conventions.truth_duplicates), threshold):
            found["used", None] += 1
            found["deduplicated", "repeated_item"] += len(seen) - 1
        else:
            found["filtered", reason] += len(seen)
    found["in", None] = len(truth)
    return {key: n for key, n in found.items() if n}
