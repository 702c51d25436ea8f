"""RePlay: Surprisal, Unexpectedness and Coverage of pandas tables.

Its Novelty (what of a list the user did not have) and CategoricalDiversity (categories over k) have no
counterpart.
"""

import pandas as pd
from exchange import Log, Numbers, doubles, respond, rows_of
from replay.metrics import Coverage, Mean, PerUser, Surprisal, Unexpectedness

COLUMNS = ["query_id", "item_id"]


def measure(log: Log) -> Numbers:
    """Values of users, and the library's means over those with a list."""
    lists, base = (scored(rows_of(log[of])) for of in ("lists", "base"))
    train = pd.DataFrame(log["train"], columns=COLUMNS)
    ks = list(log["ks"])
    numbers: Numbers = {"per_user": {}, "means": {}}
    for name, metric, other in (("novelty", Surprisal, train), ("unexpectedness", Unexpectedness, base)):
        per_user = metric(ks, mode=PerUser())(lists, other)
        means = metric(ks, mode=Mean())(lists, other)
        for k in ks:
            numbers["per_user"][f"{name}@{k}"] = doubles(per_user[f"{metric.__name__}-PerUser@{k}"])
            numbers["means"][f"{name}@{k}"] = float(means[f"{metric.__name__}@{k}"])
    coverage = Coverage(ks)(lists, train)
    numbers["means"] |= {f"catalog_coverage@{k}": float(coverage[f"Coverage@{k}"]) for k in ks}
    return numbers


def scored(rows: list[tuple[str, str, int]]) -> pd.DataFrame:
    """Scores that fall with the rank."""
    return pd.DataFrame(
        [(user, item, -float(rank)) for user, item, rank in rows], columns=[*COLUMNS, "rating"]
    )


if __name__ == "__main__":
    respond("replay-rec", measure)
