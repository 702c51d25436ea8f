"""Evidently: its calculations on one user's rows at a time, and its public metrics on all rows for the means.

Its runs end at the longest list. So one user's run says nothing of a k beyond his list, and what it says of
all of his list stands for every longer k.
"""

from collections.abc import Sequence

import pandas as pd
from evidently import DataDefinition, Dataset, Recsys, Report
from evidently.legacy.metrics.recsys.hit_rate_k import HitRateKMetric
from evidently.legacy.metrics.recsys.mrr import MRRKMetric
from evidently.legacy.metrics.recsys.ndcg_k import NDCGKMetric
from evidently.legacy.metrics.recsys.precision_recall_k import PrecisionRecallCalculation
from evidently.metrics import MRR, NDCG, HitRate, PrecisionTopK, RecallTopK
from exchange import Numbers, User, answer

# MAP and MAR are not among them: of lists shorter than k they count the last item again and again.
MEANS = {"precision": PrecisionTopK, "recall": RecallTopK, "ndcg": NDCG, "rr": MRR, "hit_rate": HitRate}
NAMES = {"precision": "precision", "recall": "recall", "map": "ap", "mar": "ar"}


def measure(users: Sequence[User], ks: Sequence[int]) -> Numbers:
    """Users whose list holds something relevant, because Evidently leaves out the others.

    They take turns at the largest cutoff, as every place of a list takes its time.
    """
    per_user: dict[str, dict[str, float]] = {}
    with_hits = [user for user in users if user["relevant"].keys() & user["scores"].keys()]
    for turn, user in enumerate(with_hits):
        cutoffs = ks[: 1 + turn % len(ks)]
        for name, values in measure_user(user, max(cutoffs)).items():
            for k in cutoffs:
                value = values[min(k, len(values)) - 1]
                per_user.setdefault(f"{name}@{k}", {})[user["user"]] = float(value)
    return {"per_user": per_user, "means": measure_run(users, ks)}


def measure_user(user: User, max_k: int) -> dict[str, list[float]]:
    """The values at 1, 2, ... by metric."""
    graded = rows([user]).set_axis(["users", "items", "target", "preds"], axis=1)
    binary = graded.assign(target=(graded["target"] > 0).astype(int))
    max_k = min(max_k, len(graded))
    found = PrecisionRecallCalculation(max_k).get_precision_and_recall_dict(binary, max_k)
    return {
        **{ours: found[theirs] for theirs, ours in NAMES.items()},
        "ndcg": list(NDCGKMetric(max_k).calculate_ndcg(graded, max_k)),
        "rr": list(MRRKMetric(max_k).get_values(binary, max_k)),
        "hit_rate": list(HitRateKMetric(max_k).get_values(binary, max_k)),
    }


def measure_run(users: Sequence[User], ks: Sequence[int]) -> dict[str, float]:
    """Means by the public metrics. Their values stand in the order of k; their column of ranks does not
    always begin with 1."""
    ranking = Recsys(recommendations_type="rank")
    dataset = Dataset.from_pandas(rows(users), data_definition=DataDefinition(ranking=[ranking]))
    report = Report([metric(k=max(ks)) for metric in MEANS.values()]).run(dataset)
    results = zip(MEANS, report.metric_results.values(), strict=True)
    return {f"{name}@{k}": float(result.value["value"].iloc[k - 1]) for name, result in results for k in ks}


def rows(users: Sequence[User]) -> pd.DataFrame:
    """The recommended items, best first, with their relevance: all that Evidently sees."""
    recommended = [
        (user["user"], item, user["relevant"].get(item, 0), rank)
        for user in users
        for rank, item in enumerate(user["ranking"], 1)
    ]
    return pd.DataFrame(recommended, columns=["user_id", "item_id", "target", "prediction"])


if __name__ == "__main__":
    answer("evidently", measure)
