"""RePlay: metrics of pandas tables, in the mode that gives every user's value, and their means."""

from collections.abc import Sequence

import pandas as pd
from exchange import Numbers, User, answer, doubles
from replay.metrics import MAP, MRR, NDCG, HitRate, Mean, PerUser, Precision, Recall, RocAuc

# With repeated rows in the truth RePlay takes more items to be relevant than there are.
ONE_ROW_AN_ITEM = {"ap": MAP, "ndcg": NDCG}
ALL_ROWS = {"precision": Precision, "recall": Recall, "hit_rate": HitRate, "rr": MRR, "auc": RocAuc}


def measure(users: Sequence[User], ks: Sequence[int]) -> Numbers:
    """The scores with their ties; the truth with its repeated rows where they do no harm."""
    scored = [(user["user"], item, score) for user in users for item, score in user["scores"].items()]
    recommendations = pd.DataFrame(scored, columns=["query_id", "item_id", "rating"])
    rows = [(user["user"], item) for user in users for item, relevance in user["truth"] if relevance > 0]
    truth = pd.DataFrame(rows, columns=["query_id", "item_id"])
    numbers: Numbers = {"per_user": {}, "means": {}}
    for metrics, relevant in ((ALL_ROWS, truth), (ONE_ROW_AN_ITEM, truth.drop_duplicates())):
        for name, metric in metrics.items():
            per_user = metric(list(ks), mode=PerUser())(recommendations, relevant)
            means = metric(list(ks), mode=Mean())(recommendations, relevant)
            for k in ks:
                numbers["per_user"][f"{name}@{k}"] = doubles(per_user[f"{metric.__name__}-PerUser@{k}"])
                numbers["means"][f"{name}@{k}"] = float(means[f"{metric.__name__}@{k}"])
    return numbers


if __name__ == "__main__":
    answer("replay-rec", measure)
