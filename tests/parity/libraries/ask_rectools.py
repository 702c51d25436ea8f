"""RecTools: metrics of ranked recommendations, with the options that change a number."""

from collections.abc import Sequence

import pandas as pd
from exchange import Numbers, User, answer, doubles
from rectools import Columns
from rectools.metrics import MAP, MRR, NDCG, F1Beta, HitRate, Precision, Recall

METRICS = {
    "precision": Precision,
    "recall_capped": lambda k: Precision(k, r_precision=True),
    "recall": Recall,
    "f1": F1Beta,
    "hit_rate": HitRate,
    "ap": MAP,
    "ap(denominator=k)": lambda k: MAP(k, divide_by_k=True),
    "rr": MRR,
    "ndcg": NDCG,
    "ndcg(ideal=truth)": lambda k: NDCG(k, divide_by_achievable=True),
}


def measure(users: Sequence[User], ks: Sequence[int]) -> Numbers:
    """Ranks and truth as tables; of repeated truth rows one each, because RecTools counts them apart."""
    listed = [(user["user"], item, rank) for user in users for rank, item in enumerate(user["ranking"], 1)]
    found = [(user["user"], item) for user in users for item in user["relevant"]]
    recommendations = pd.DataFrame(listed, columns=[Columns.User, Columns.Item, Columns.Rank])
    interactions = pd.DataFrame(found, columns=[Columns.User, Columns.Item])
    numbers: Numbers = {"per_user": {}, "means": {}}
    for name, metric in METRICS.items():
        for k in ks:
            values = metric(k).calc_per_user(recommendations, interactions)
            numbers["per_user"][f"{name}@{k}"] = doubles(values.to_dict())
            numbers["means"][f"{name}@{k}"] = float(metric(k).calc(recommendations, interactions))
    return numbers


if __name__ == "__main__":
    answer("rectools", measure)
