"""Random tables, and the rules by which they are measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from choices import ACCURACY
from drive import Tables, table_of
from oracle import Id, Recommendation, Relevance, Rules

from spark_eval.evaluation.plan import Plan, make_plan
from spark_eval.kernels.registry import RANKING

N_USERS, N_ITEMS, LONGEST = 60, 40, 14
KS = (3, 10)
# What asks for the length of a list makes checks complete of itself.
OF_HITS = [name for name in ACCURACY if RANKING[name].is_of_hits]
EVERY = (
    *ACCURACY,
    *("ndcg(gain=exp2, ideal=list)", "ndcg(ideal=positions)@3", "dcg(discount=log2_clipped)@10"),
    *("map(denominator=min_relevant_length)", "map(variant=window)", "mar(variant=window)@3"),
    *("precision@all", "map@all", "ndcg@all", "mdcg@all", "recall(denominator=retrieved)@3"),
    *("ndcg(tie_order=best)@3", "map(tie_order=worst)@10", "map(tie_order=shared)@all"),
)
MODELS = ("als", "bpr", "pop")
SMALL, TEXT, LARGE = "small", "text", "large"


def identity(ids: str, kind: str, number: int) -> Id:
    """Return an id: text without leading zeros, which has another order than the numbers; or far apart."""
    match ids:
        case "text":
            return f"{kind}{number}é"
        case "large":
            return number - 2**63 if number % 2 else 2**63 - 1 - number
    return number - 7


@dataclass(frozen=True)
class Case:
    """The form of the input, and the rules."""

    name: str
    order: str
    ids: str
    conventions: dict[str, str]
    threshold: float | None = None
    no_recommendations: str = "zero"
    no_truth: str = "drop"
    checks: str = "hits"
    metrics: Sequence[str] = EVERY

    @property
    def plan(self) -> Plan:
        return make_plan(
            metrics=self.metrics,
            k=KS,
            conventions=self.conventions,
            threshold=self.threshold,
            no_recommendations=self.no_recommendations,
            no_truth=self.no_truth,
            checks=self.checks,
        )

    @property
    def are_scores(self) -> bool:
        return self.order == "score"

    @property
    def rules(self) -> Rules:
        return Rules(self.plan.conventions, self.plan.metrics, self.are_scores)

    def tables(self, lists: Sequence[Recommendation], truth: Sequence[Relevance], **others: Any) -> Tables:
        """The rows as Arrow has them."""
        kind = pa.string() if self.ids == TEXT else pa.int64()
        order = {"score": pa.float64(), "rank": pa.int64()}[self.order]
        return Tables(
            table_of(lists, model=pa.string(), user=kind, item=kind, **{self.order: order}),
            table_of(truth, user=kind, item=kind, relevance=pa.float64(), timestamp=pa.int64()),
            **others,
        )


CASES = [
    Case("scores, all defaults", "score", SMALL, {}),
    Case(
        "scores of strings, ties ascending",
        "score",
        TEXT,
        {"ties": "item_asc", "gain": "exp2", "ap_denominator": "hits", "truth_duplicates": "sum"},
        threshold=2.0,
        no_truth="zero",
    ),
    Case("scores of the largest ids, ties ascending", "score", LARGE, {"ties": "item_asc"}, metrics=OF_HITS),
    Case("scores of strings, cut off", "score", TEXT, {"truth_duplicates": "count"}, metrics=OF_HITS),
    Case(
        "ranks, the last relevance",
        "rank",
        TEXT,
        {"gain": "binary", "ap_denominator": "relevant", "truth_duplicates": "last"},
        no_recommendations="drop",
        metrics=OF_HITS,
    ),
    Case("ranks under full checks", "rank", SMALL, {"ap_denominator": "k"}, checks="full", threshold=0.0),
    Case("ranks of the largest ids", "rank", LARGE, {"truth_duplicates": "count"}, metrics=("map@3", "auc")),
    Case("ranks as LensKit sees them", "rank", SMALL, {"preset": "lenskit", "no_hits": "drop"}),
    # No run publishes the numbers of the last.
    Case("ranks that are shared", "rank", SMALL, {}, checks="full", metrics=OF_HITS),
]


def draw(case: Case, seed: int) -> tuple[list[Recommendation], list[Relevance]]:
    """Random rows: repeats, ties, gaps, nulls, not-a-numbers; users without list or truth; short lists."""
    random = np.random.default_rng(seed)

    def rarely(value: Any, other: Any, chance: float = 0.02) -> Any:
        return other if random.random() < chance else value

    truth, recommendations = [], []
    for user in (identity(case.ids, "u", number) for number in range(N_USERS)):
        for _ in range(random.integers(0, LONGEST) if random.random() < 0.85 else 0):
            item: Id = identity(case.ids, "i", int(random.integers(N_ITEMS)))
            relevance = rarely(float(random.integers(0, 11)) / 2, rarely(None, float("nan"), 0.5))
            truth.append(
                Relevance(rarely(user, None), rarely(item, None), relevance, int(random.integers(5)))
            )
        for model in MODELS:
            if random.random() < 0.1:
                continue
            n_items = int(random.integers(0, LONGEST))
            shares = case.name == "ranks that are shared"
            ranks = random.choice(np.arange(1, LONGEST + 4), n_items, replace=shares)
            for rank in ranks:
                item = identity(case.ids, "i", int(random.integers(0, N_ITEMS)))
                order: Any = int(rank)
                if case.are_scores:
                    # Zeros of both signs are equal; a score between two multiples differs in its last bits.
                    order = float(random.integers(-3, 4)) / 4 * random.choice([1.0, 1.0, 1 + 2**-50])
                order = rarely(order, rarely(None, float("nan"), 0.5) if case.are_scores else None)
                recommendations.append(Recommendation(model, rarely(user, None), rarely(item, None), order))
    return recommendations, truth
