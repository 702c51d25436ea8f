"""Evidently: its public metrics for the run, and the calculations behind them for single users.

Its diversity and serendipity ask for the features of every item of the lists and of training. UserBias, the
users of each kind, has no counterpart.
"""

import pandas as pd
from evidently import DataDefinition, Dataset, Recsys, Report
from evidently.legacy.metrics.recsys.diversity import DiversityMetric
from evidently.legacy.metrics.recsys.novelty import NoveltyMetric
from evidently.legacy.metrics.recsys.serendipity import SerendipityMetric
from evidently.legacy.pipeline.column_mapping import RecomType
from evidently.metrics import Diversity, ItemBias, Novelty, Personalization, Serendipity
from evidently.metrics.recsys import PopularityBiasMetric
from exchange import Log, Numbers, doubles, respond, rows_of
from sklearn.metrics import pairwise_distances

PAIR = ["user_id", "item_id"]
# A report takes seconds.
REPORTED_KS = (3, 10)
FEATURES = ["x0", "x1", "x2", "x3"]


def measure(log: Log) -> Numbers:
    """Means and values of the run; per user what can be had."""
    relevant = {(user, item) for user, items in log["truth"].items() for item in items}
    lists = pd.DataFrame(
        [(user, item, rank, int((user, item) in relevant)) for user, item, rank in rows_of(log["lists"])],
        columns=[*PAIR, "prediction", "target"],
    )
    train = pd.DataFrame(log["train"], columns=PAIR)
    numbers: Numbers = {"per_user": {}, "means": {}}
    for k in log["ks"]:
        for name, values in of_users(log, lists, train, k).items():
            numbers["per_user"][f"{name}@{k}"] = doubles({str(user): value for user, value in values.items()})
    for k in REPORTED_KS:
        numbers["means"] |= of_run(with_facts(lists, log), with_facts(train, log), k)
    return numbers


def with_facts(pairs: pd.DataFrame, log: Log) -> pd.DataFrame:
    """The rows with what is known of their items."""
    facts = pd.DataFrame.from_dict(log["vectors"], orient="index", columns=FEATURES)
    facts["letter"] = pd.Series(log["letter"])
    return pairs.join(facts, on="item_id")


def of_users(log: Log, lists: pd.DataFrame, train: pd.DataFrame, k: int) -> dict[str, pd.Series]:
    """Its calculations give values in the order of users, those of serendipity sorted."""
    distances = pairwise_distances(list(log["vectors"].values()), metric="cosine")
    places = {item: place for place, item in enumerate(log["vectors"])}
    takers = train.groupby("item_id")["user_id"].nunique()
    diversity, _ = DiversityMetric(k, FEATURES).get_ild(
        lists, k, RecomType.RANK, *PAIR, "prediction", distances, places
    )
    diversity.index = lists["user_id"].unique()
    novelty, _ = NoveltyMetric(k).get_miuf(
        lists, k, RecomType.RANK, *PAIR, "prediction", takers / train["user_id"].nunique()
    )
    distinct = train.drop_duplicates()
    serendipity, _ = SerendipityMetric(k, FEATURES).get_serendipity(
        k, lists, RecomType.RANK, distinct, distances, "prediction", "target", *PAIR, places, None
    )
    hits = lists[(lists["target"] > 0) & (lists["prediction"] <= k)]
    serendipity.index = sorted(set(hits["user_id"]) & set(train["user_id"]))
    return {"ild": diversity, "novelty": novelty, "serendipity": serendipity}


def of_run(lists: pd.DataFrame, train: pd.DataFrame, k: int) -> dict[str, float]:
    """What its public metrics say. Repeated training rows would count again in its serendipity."""
    metrics = {
        "ild": Diversity(k=k, item_features=FEATURES),
        "novelty": Novelty(k=k),
        "serendipity": Serendipity(k=k, item_features=FEATURES),
        "personalization": Personalization(k=k),
        "arp": PopularityBiasMetric(k=k),
        "arp(scale=max)": PopularityBiasMetric(k=k, normalize_arp=True),
        "catalog_coverage": PopularityBiasMetric(k=k, metric="coverage"),
        "gini_recommended": PopularityBiasMetric(k=k, metric="gini"),
        "exposure": ItemBias(k=k, column_name="letter"),
    }
    definition = DataDefinition(
        ranking=[Recsys(recommendations_type="rank")],
        categorical_columns=["letter"],
        numerical_columns=FEATURES,
    )
    current, known = (
        Dataset.from_pandas(table, data_definition=definition) for table in (lists, train.drop_duplicates())
    )
    run = Report(list(metrics.values())).run(current, additional_data={"current_train_data": known})
    found: dict[str, float] = {}
    for name, result in zip(metrics, run.metric_results.values(), strict=True):
        if name == "exposure":
            counts = result.value.set_index("x")["y"]
            found |= {f"{name}@{k} {letter}": n / counts.sum() for letter, n in counts.items()}
        else:
            found[f"{name}@{k}"] = float(result.value)
    return found


if __name__ == "__main__":
    respond("evidently", measure)
