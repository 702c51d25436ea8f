"""recommenders: coverage, novelty, diversity and serendipity, of lists cut at each k.

It takes training rows to be distinct; where repeated ones would count again for pairs of items, it gets them
once. Its diversity by common training users has no counterpart.
"""

import warnings

import numpy as np
import pandas as pd
from exchange import Log, Numbers, doubles, respond, rows_of
from recommenders.evaluation import python_evaluation as evaluation

PAIR = ["userID", "itemID"]
BY_VECTORS = "item_feature_vector"


def measure(log: Log) -> Numbers:
    """Values of the users who have any, and of the run."""
    # It fills in missing similarities in a way that pandas 3 will not allow.
    warnings.simplefilter("ignore")
    lists = pd.DataFrame(rows_of(log["lists"]), columns=[*PAIR, "rank"])
    relevant = {(user, item) for user, items in log["truth"].items() for item in items}
    lists["relevance"] = [
        float(pair in relevant) for pair in zip(lists["userID"], lists["itemID"], strict=True)
    ]
    rows = pd.DataFrame(log["train"], columns=PAIR)
    distinct = rows.drop_duplicates()
    # A vector of zeros has no direction: it divides by its length.
    vectors = [(item, np.array(vector)) for item, vector in log["vectors"].items() if any(vector)]
    features = pd.DataFrame(vectors, columns=["itemID", "features"])
    by_vectors = {"item_feature_df": features, "item_sim_measure": BY_VECTORS}
    numbers: Numbers = {"per_user": {}, "means": {}}
    for k in log["ks"]:
        cut = lists[lists["rank"] <= k]
        numbers["means"] |= {
            f"catalog_coverage@{k}": float(evaluation.catalog_coverage(rows, cut[PAIR])),
            f"entropy@{k}": float(evaluation.distributional_coverage(rows, cut[PAIR])),
            f"novelty_micro@{k}": float(evaluation.novelty(rows, cut[PAIR])),
        }
        relevance = {"col_relevance": "relevance"}
        tables = {
            "ild": evaluation.user_diversity(distinct, cut, **by_vectors),
            "serendipity": evaluation.user_serendipity(distinct, cut, **relevance),
            "serendipity(variant=recommenders_cosine)": evaluation.user_serendipity(
                distinct, cut, **by_vectors, **relevance
            ),
        }
        for name, table in tables.items():
            [column] = set(table.columns) - {"userID"}
            values = table.set_index("userID")[column]
            numbers["per_user"][f"{name}@{k}"] = doubles(values.to_dict())
            numbers["means"][f"{name}@{k}"] = float(values.mean())
    return numbers


if __name__ == "__main__":
    respond("recommenders", measure)
