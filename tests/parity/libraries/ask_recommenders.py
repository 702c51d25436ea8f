"""recommenders: its ranking metrics give means, so each user is a run of his own, at one cutoff."""

import math
from collections.abc import Sequence
from functools import partial

import pandas as pd
from exchange import Numbers, User, answer
from recommenders.evaluation import python_evaluation as evaluation

METRICS = {
    "precision": evaluation.precision_at_k,
    "recall": evaluation.recall_at_k,
    "ap": evaluation.map_at_k,
    "ap(denominator=relevant)": evaluation.map,
    "ndcg": evaluation.ndcg_at_k,
    "ndcg(gain=linear)": partial(evaluation.ndcg_at_k, score_type="raw", discfun_type="log2"),
    "ndcg(gain=exp2)": partial(evaluation.ndcg_at_k, score_type="exp"),
}
# Its mean nDCG counts users without recommendations, who are in no other mean.
COMMON_USERS_ONLY = ["precision", "recall", "ap", "ap(denominator=relevant)"]


def measure(users: Sequence[User], ks: Sequence[int]) -> Numbers:
    """Users take turns at the cutoffs.

    r-precision is cut at k too, so its k is the length of the list. It is a mean over the users with a hit
    in their top m: for one user without, the mean over nobody.
    """
    per_user: dict[str, dict[str, float]] = {"r_precision@all": {}}
    common = [user for user in users if user["relevant"] and user["ranking"]]
    for turn, user in enumerate(common):
        truth, listed = tables([user])
        k = ks[turn % len(ks)]
        for name, metric in METRICS.items():
            per_user.setdefault(f"{name}@{k}", {})[user["user"]] = float(metric(truth, listed, k=k))
        r_precision = float(evaluation.r_precision_at_k(truth, listed, k=len(listed)))
        if not math.isnan(r_precision):
            per_user["r_precision@all"][user["user"]] = r_precision
    truth, listed = tables(users)
    return {
        "per_user": per_user,
        "means": {
            f"{name}@{k}": float(METRICS[name](truth, listed, k=k)) for name in COMMON_USERS_ONLY for k in ks
        },
    }


def tables(users: Sequence[User]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Truth without repeats, and lists whose rows stand in the order of their ranks, which decides ties."""
    relevant = [
        (user["user"], item, float(relevance))
        for user in users
        for item, relevance in user["relevant"].items()
    ]
    listed = [(user["user"], item, user["scores"][item]) for user in users for item in user["ranking"]]
    columns = ["userID", "itemID"]
    return (
        pd.DataFrame(relevant, columns=[*columns, "rating"]),
        pd.DataFrame(listed, columns=[*columns, "prediction"]),
    )


if __name__ == "__main__":
    answer("recommenders", measure)
