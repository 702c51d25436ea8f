"""LensKit: a ``RunAnalysis`` of ordered lists, with and without a field of gains."""

from collections.abc import Sequence

import stand_in_for_torch  # before LensKit, which imports torch
from exchange import Numbers, User, answer, doubles
from lenskit.data import ItemList, ItemListCollection, UserIDKey
from lenskit.metrics import DCG, NDCG, Hit, Precision, Recall, RecipRank, RunAnalysis
from lenskit.metrics.ranking import AveragePrecision

METRICS = {
    "precision": Precision,
    "recall": Recall,
    "hit_rate": Hit,
    "ap": AveragePrecision,
    "rr": RecipRank,
    "dcg": DCG,
    "ndcg": NDCG,
    "dcg(gain=linear)": lambda n: DCG(n, gain="rating"),
    "ndcg(gain=linear)": lambda n: NDCG(n, gain="rating"),
}


def measure(users: Sequence[User], ks: Sequence[int]) -> Numbers:
    """Empty lists are part of the run, as LensKit's own pipeline leaves them; for users without truth its
    average precision divides by zero, so they are not."""
    lists, truth = ItemListCollection(UserIDKey), ItemListCollection(UserIDKey)
    for user in users:
        if user["relevant"]:
            relevant = user["relevant"]
            lists.add(ItemList(user["ranking"], ordered=True), user["user"])
            truth.add(ItemList(list(relevant), rating=list(relevant.values())), user["user"])
    analysis = RunAnalysis()
    for name, metric in METRICS.items():
        analysis.add_metric(metric(None), label=f"{name}@all")
        for k in ks:
            analysis.add_metric(metric(k), label=f"{name}@{k}")
    measured = analysis.measure(lists, truth)
    assert not stand_in_for_torch.asked()
    per_user = measured.list_metrics()
    return {
        "per_user": {name: doubles(per_user[name].to_dict()) for name in per_user},
        "means": doubles(measured.list_summary()["mean"].to_dict()),
    }


if __name__ == "__main__":
    answer("lenskit", measure)
