"""ranx: ``evaluate`` of a run against judgements."""

from collections.abc import Sequence

from exchange import Numbers, User, answer, doubles
from ranx import Qrels, Run, evaluate

NAMES = {
    "precision": "precision",
    "recall": "recall",
    "f1": "f1",
    "hit_rate": "hit_rate",
    "ap": "map",
    "rr": "mrr",
    "dcg": "dcg",
    "ndcg": "ndcg",
    "dcg(gain=exp2)": "dcg_burges",
    "ndcg(gain=exp2)": "ndcg_burges",
}


def measure(users: Sequence[User], ks: Sequence[int]) -> Numbers:
    """Judgements with relevance 0 are given too; ranx drops them, and users without a list count with 0."""
    qrels = Qrels({user["user"]: judged(user) for user in users if user["relevant"]})
    # ranx sorts equal scores in no fixed order: ranks as scores leave no ties.
    run = Run({user["user"]: ranks_as_scores(user) for user in users if user["ranking"]})
    names = {f"{ours}@all": theirs for ours, theirs in NAMES.items()} | {"r_precision@all": "r-precision"}
    names |= {f"{ours}@{k}": f"{theirs}@{k}" for ours, theirs in NAMES.items() for k in ks}
    evaluate(qrels, run, list(names.values()), make_comparable=True)
    return {
        "per_user": {ours: doubles(run.scores[name]) for ours, name in names.items()},
        "means": doubles({ours: run.mean_scores[name] for ours, name in names.items()}),
    }


def judged(user: User) -> dict[str, int]:
    """Every judged item, with relevance 0 where it was judged irrelevant."""
    return {item: 0 for item, _ in user["truth"]} | user["relevant"]


def ranks_as_scores(user: User) -> dict[str, float]:
    """Scores that fall by one from rank to rank."""
    return {item: -float(rank) for rank, item in enumerate(user["ranking"])}


if __name__ == "__main__":
    answer("ranx", measure)
