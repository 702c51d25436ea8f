"""Small runs of the verbs, of tables made by arithmetic: the same on every machine and with every library."""

from pathlib import Path

import pandas as pd
from tests.cli.conftest import Desk, call

CONF = Path(__file__).parents[2] / "conf"
DAY = 86_400
N_USERS, N_ITEMS = 15, 24
COLUMNS = {"user": "userId", "item": "movieId", "timestamp": "timestamp", "relevance": "rating"}
MEASURED = (
    *("precision", "recall", "recall_capped", "f1", "hit_rate", "map", "mar", "mrr", "arhr", "arhr_norm"),
    *("r_precision", "cg", "dcg", "mdcg", "ndcg", "gauc", "fcp", "mrr@all", "map(denominator=relevant)"),
    *("ndcg(gain=exp2)@3", "ndcg(tie_order=worst)", "map(tie_order=shared)", "gauc@all"),
)


def draw(*numbers: int, below: int) -> int:
    """Return a number that follows from the others and looks like chance."""
    mixed = 88_172_645_463_325_252
    for number in numbers:
        mixed = (mixed ^ (number + 1)) * 6_364_136_223_846_793_005 % 2**64
        mixed ^= mixed >> 29
    return mixed % below


def user_name(user: int) -> str:
    """Return an id of text, of letters inside and outside ASCII."""
    return f"{'uÿ東'[user % 3]}{user}"


def make_log() -> pd.DataFrame:
    """Return 300 days of rows of users named by text: ratings, equal moments, and a user without a name."""
    rows = [
        (user_name(user), draw(user, n, below=N_ITEMS), draw(user, n, 1, below=300), draw(user, n, below=9))
        for user in range(N_USERS)
        for n in range(20)
    ]
    log = pd.DataFrame([*rows, (None, 1, 299, 1)], columns=["userId", "movieId", "timestamp", "rating"])
    device = pd.Series(["phone" if draw(n, below=3) else None for n in range(len(log))])
    return log.assign(timestamp=log["timestamp"] * DAY, rating=1 + log["rating"] / 2, device=device)


def make_lists(is_text: bool, n_folds: int = 1) -> pd.DataFrame:
    """Return lists of two models for all users but the first: tied scores, repeats, a row without an item."""
    rows = [
        (fold, model, user, draw(fold, place, user, n, below=N_ITEMS), draw(place, user, n, below=5) / 3)
        for fold in range(n_folds)
        for place, model in enumerate(("als", "knn"))
        for user in range(1, N_USERS)
        for n in range(7 + user % 3)
    ]
    lists = pd.DataFrame(rows, columns=["fold", "model", "user", "item", "score"]).astype({"item": "Int64"})
    lists.loc[3, "item"] = None
    return named(lists if n_folds > 1 else lists.drop(columns="fold"), is_text)


def named(rows: pd.DataFrame, is_text: bool) -> pd.DataFrame:
    """Return the rows with users of text, or as they are."""
    return rows.assign(user=rows["user"].map(user_name)) if is_text else rows


def make_truth() -> pd.DataFrame:
    """Return graded rows with repeated items, of relevances whose sum depends on the order of addition."""
    rows = [
        (user, draw(user, n, 9, below=N_ITEMS), (1 + draw(user, n, below=99)) / 7 * 10.0 ** (n % 7 - 6))
        for user in range(N_USERS + 2)
        for n in range(9)
    ]
    return pd.DataFrame(rows, columns=["user", "item", "relevance"])


def make_predictions() -> pd.DataFrame:
    """Return scored rows of two models: tied scores, weights, segments, and a row without a score."""
    numbered = [(place, n) for place in range(2) for n in range(120)]
    scored = pd.DataFrame(
        {
            "model": [("ctr", "old")[place] for place, _ in numbered],
            "user_id": [n % 11 for _, n in numbered],
            "clicked": [draw(place, n, below=3) // 2 for place, n in numbered],
            "p": [draw(place, n, 1, below=30) / 29 for place, n in numbered],
            "impressions": [1 + n % 4 / 4 for _, n in numbered],
            "country": [("at", "be", None)[draw(n, 5, below=3)] for _, n in numbered],
            "shelf": [draw(place, n, 6, below=3) for place, n in numbered],
            "p_first": [draw(n, 7, below=8) / 16 for _, n in numbered],
            "p_second": [draw(place, n, 8, below=8) / 16 for place, n in numbered],
        }
    )
    scored.loc[7, "p"] = None
    return scored.assign(p_third=1 - scored["p_first"] - scored["p_second"])


def splits(home: Path) -> Path:
    """Split a log by every example of ``conf/``, and return the output root."""
    out, log = home / "out", Desk(home).write("log", make_log(), files=2)
    for path in sorted(CONF.glob("split_*.yaml")):
        do("split", path.stem, path, f"output.path={out}", f"interactions.path={log}")
    return out


def verbs(home: Path) -> Path:
    """Do a run for each way through the verbs, and return the output root."""
    desk = Desk(home)
    desk.tree = {"output": {"path": str(desk.out)}}
    predict(desk)
    measure_graded(desk)
    measure_arrays(desk)
    measure_a_split(desk)
    measure_folds(desk)
    measure_stages(desk)
    return desk.out


def predict(desk: Desk) -> None:
    """Measure clicks as ``conf/predictions.yaml`` does, then classes, then numbers."""
    path = str(desk.write("scored", make_predictions()))
    places = (f"output.path={desk.out}", f"predictions.path={path}")
    do("predictions", "clicks", CONF / "predictions.yaml", *places)
    classes = {"classes": [0, 1, 2], "probabilities": ["p_first", "p_second", "p_third"]}
    desk.change("predictions", path=path, task="multiclass", columns={"label": "shelf"}, **classes)
    do("predictions", "classes", desk.config())
    desk.tree["predictions"] = {"path": path, "task": "regression"}
    desk.change("predictions", columns={"label": "impressions", "score": "p"}, segments=["country"])
    do("predictions", "numbers", desk.config())


def measure_graded(desk: Desk) -> None:
    """Measure scores against graded truth of users named by number: plain files, which any engine takes."""
    desk.change("truth", path=str(desk.write("truth", make_truth())))
    desk.change("recommendations", path=str(desk.write("lists", make_lists(is_text=False))))
    desk.change("evaluate", k=[3, "all"], metrics=["map", "mar", "recall", "ndcg", "dcg(gain=exp2)@2", "fcp"])
    desk.change("evaluate", conventions={"preset": "evidently", "truth_duplicates": "sum"}, checks="full")
    do("evaluate", "evidently", desk.config())
    desk.change(
        "evaluate", conventions={"preset": "lenskit", "ties": "hash", "no_truth": "zero"}, checks="hits"
    )
    desk.change("evaluate", relevance={"threshold": 0.5})
    do("evaluate", "lenskit", desk.config())


def measure_arrays(desk: Desk) -> None:
    """Measure ranks in arrays against the same truth."""
    lists = make_lists(is_text=False)
    whole = lists[lists["model"] == "als"].dropna().astype({"item": "int64"})
    arrays = whole.groupby("user", as_index=False).agg({"item": list})
    desk.change("recommendations", path=str(desk.write("arrays", arrays)), layout="array", model="als")
    desk.change("evaluate", conventions="spark", relevance=None)
    do("evaluate", "spark", desk.config())


def measure_a_split(desk: Desk) -> None:
    """Split a log in time, and measure lists against its last part, by segments of users named by text."""
    log = str(desk.write("log", make_log(), files=2))
    desk.change("interactions", path=log, columns=COLUMNS, timestamp_unit="s")
    desk.change("split", local_cut="60d", global_cut={"share": 0.8})
    path = str(desk.write("named", make_lists(is_text=True)))
    desk.change("recommendations", path=path, layout=None, model=None)
    countries = pd.DataFrame({"user": range(N_USERS - 2), "country": list("aaabbbbccddde")})
    desk.change("users", path=str(desk.write("users", named(countries, is_text=True))))
    desk.change("train", subset="global_train")
    desk.change("truth", path=None, subset="global_test")
    desk.change("evaluate", k=[1, 5], metrics=list(MEASURED), conventions=None)
    desk.change("evaluate", segments=["known", "activity", "country"])
    do("split", "ranker", desk.config())
    do("evaluate", "ranker", desk.config())


def measure_folds(desk: Desk) -> None:
    """Split a log in folds, and measure lists of each against its own test."""
    rule = {"method": "k_fold", "k": 3, "by": "row", "exact": True, "cold_items": "drop", "seen": "drop"}
    desk.tree["split"] = rule
    desk.change("recommendations", path=str(desk.write("by_fold", make_lists(is_text=True, n_folds=3))))
    desk.change("truth", subset="test")
    desk.change("train", subset="train")
    desk.change("evaluate", k=[2, 5], metrics=["ndcg", "map", "recall", "gauc"], segments=["activity"])
    do("split", "folds", desk.config())
    do("evaluate", "folds", desk.config())


def measure_stages(desk: Desk) -> None:
    """Measure the same folds as stages: candidates of both models, of which one ranks and one comes last."""
    first = {"name": "candidates", "models": ["als", "knn"], "k": 6}
    later = [{"name": "ranking", "model": "knn", "k": 4}, {"name": "final", "model": "als", "k": 2}]
    desk.tree["stages"] = [first, *later]
    desk.change("truth", path=str(desk.out / "splits" / "run_id=folds"))
    desk.change("train", path=str(desk.out / "splits" / "run_id=folds"))
    do("evaluate", "stages", desk.config())


def do(verb: str, run_id: str, config: Path | str, *settings: str) -> None:
    """Do a verb, which must succeed."""
    given = [part for setting in settings for part in ("--set", setting)]
    answer = call(verb, "--config", str(config), "--run-id", run_id, *given)
    assert (answer.code, answer.err) == (0, ""), answer.err
