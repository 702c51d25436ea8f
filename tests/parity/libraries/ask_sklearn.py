"""scikit-learn: nDCG, DCG, average precision and AUC of one user's scores."""

from collections.abc import Sequence

from exchange import Numbers, User, answer
from sklearn.metrics import average_precision_score, dcg_score, ndcg_score, roc_auc_score


def measure(users: Sequence[User], ks: Sequence[int]) -> Numbers:
    """Users whose list holds all that is relevant to them, because every item has to have a score."""
    per_user: dict[str, dict[str, float]] = {}
    for user in users:
        for name, value in measure_user(user, ks).items():
            per_user.setdefault(name, {})[user["user"]] = float(value)
    return {"per_user": per_user}


def measure_user(user: User, ks: Sequence[int]) -> dict[str, float]:
    """Ranks as scores leave no ties: then it does not matter whether they are shared."""
    ranking = user["ranking"]
    truth = [user["relevant"].get(item, 0) for item in ranking]
    scores = [user["scores"][item] for item in ranking]
    ranks = [-rank for rank in range(len(ranking))]
    is_relevant = [relevance > 0 for relevance in truth]
    values = {"ap@all": average_precision_score(is_relevant, scores)}
    values["ap(tie_order=as_ranked)@all"] = average_precision_score(is_relevant, ranks)
    if not all(is_relevant):
        values["auc@all"] = roc_auc_score(is_relevant, scores)
    for name, k in [("all", None), *((str(k), k) for k in ks)]:
        values[f"dcg@{name}"] = dcg_score([truth], [scores], k=k)
        values[f"ndcg@{name}"] = ndcg_score([truth], [scores], k=k)
        values[f"ndcg(tie_order=as_ranked)@{name}"] = ndcg_score([truth], [ranks], k=k, ignore_ties=True)
    return values


if __name__ == "__main__":
    answer("scikit-learn", measure)
