"""RecTools: popularity, novelty, serendipity, diversity, coverage, and what two models' lists share."""

import pandas as pd
from exchange import Log, Numbers, doubles, pairs_of, respond, rows_of
from rectools import Columns
from rectools.metrics import (
    AvgRecPopularity,
    CatalogCoverage,
    Intersection,
    IntraListDiversity,
    MeanInvUserFreq,
    PairwiseHammingDistanceCalculator,
    Serendipity,
    SufficientReco,
)

PAIR = [Columns.User, Columns.Item]


def measure(log: Log) -> Numbers:
    """Values of users and their means; unexpectedness is what is not in the intersection."""
    lists, base = (pd.DataFrame(rows_of(log[of]), columns=[*PAIR, Columns.Rank]) for of in ("lists", "base"))
    truth = pd.DataFrame(pairs_of(log["truth"]), columns=PAIR)
    train = pd.DataFrame(log["train"], columns=PAIR)
    distances = PairwiseHammingDistanceCalculator(features_of(log))
    numbers: Numbers = {"per_user": {}, "means": {}}
    for k in log["ks"]:
        values = {
            "arp": AvgRecPopularity(k).calc_per_user(lists, train),
            "arp(scale=share)": AvgRecPopularity(k, normalize=True).calc_per_user(lists, train),
            "novelty": MeanInvUserFreq(k).calc_per_user(lists, train),
            "serendipity": Serendipity(k).calc_per_user(lists, truth, train, log["catalog"]),
            "ild": IntraListDiversity(k, distances).calc_per_user(lists),
            "unexpectedness": 1 - Intersection(k).calc_per_user(lists, base),
            "user_coverage(places=all)": SufficientReco(k).calc_per_user(lists),
        }
        # A mean over users without one is a mean over those with one.
        numbers["means"] |= {f"{name}@{k}": float(of_users.mean()) for name, of_users in values.items()}
        numbers["means"][f"catalog_coverage@{k}"] = CatalogCoverage(k, normalize=True).calc(
            lists, log["catalog"]
        )
        numbers["per_user"] |= {
            f"{name}@{k}": doubles(of_users.dropna().to_dict()) for name, of_users in values.items()
        }
    return numbers


def features_of(log: Log) -> pd.DataFrame:
    """A column of 0 and 1 for each word; items outside the catalogue and those without words have no row."""
    words = sorted({word for of_item in log["words"].values() for word in of_item})
    rows = {item: of_item for item in log["catalog"] if (of_item := log["words"][item])}
    table = [[float(word in of_item) for word in words] for of_item in rows.values()]
    return pd.DataFrame(table, index=list(rows), columns=words)


if __name__ == "__main__":
    respond("rectools", measure)
