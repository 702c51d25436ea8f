"""trec_eval, by pytrec_eval: ``RelevanceEvaluator`` with trec_eval's own names of measures."""

from collections.abc import Sequence

from exchange import Numbers, User, answer
from pytrec_eval import RelevanceEvaluator

AT_K = {"precision": "P", "recall": "recall", "hit_rate": "success", "ap": "map_cut", "ndcg": "ndcg_cut"}
UNCUT = {
    "precision": "set_P",
    "recall": "set_recall",
    "f1": "set_F",
    "ap": "map",
    "rr": "recip_rank",
    "r_precision": "Rprec",
    "ndcg": "ndcg",
}


def measure(users: Sequence[User], ks: Sequence[int]) -> Numbers:
    """Judgements with relevance 0 are given too, and the scores with their ties."""
    judged = {
        user["user"]: {item: 0 for item, _ in user["truth"]} | user["relevant"]
        for user in users
        if user["relevant"]
    }
    cutoffs = ",".join(str(k) for k in ks)
    evaluator = RelevanceEvaluator(
        judged, {f"{name}.{cutoffs}" for name in AT_K.values()} | {*UNCUT.values()}
    )
    found = evaluator.evaluate({user["user"]: user["scores"] for user in users if user["scores"]})
    names = {f"{ours}@all": theirs for ours, theirs in UNCUT.items()}
    names |= {f"{ours}@{k}": f"{theirs}_{k}" for ours, theirs in AT_K.items() for k in ks}
    return {
        "per_user": {
            ours: {user: values[theirs] for user, values in found.items()} for ours, theirs in names.items()
        }
    }


if __name__ == "__main__":
    answer("pytrec_eval-terrier", measure)
