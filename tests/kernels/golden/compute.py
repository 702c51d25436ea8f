"""Write the golden tables: our rankings, measured by other programs, each in its own environment.

    python tests/kernels/golden/compute.py rankings       # any Python
    python tests/kernels/golden/compute.py trec_eval      # with pytrec_eval-terrier; likewise the others

Each table names its library's version and, for every metric, the call that gave its values.
"""

import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any, Final

HERE: Final = Path(__file__).parent
KS: Final = (1, 3, 10)
# metric -> (the call, the value of each user in the order of the rankings; None where there is none)
Table = dict[str, tuple[str, Sequence[float | None]]]
Users = list[dict[str, Any]]


def rankings() -> Users:
    """Lists of 1 to 15 items with equal scores among them, truth of 1 to 17 items with grades 0 to 3.

    Equal scores stand by item, the larger first, as trec_eval sorts them. Every user has a relevant item.
    """
    random = Random(20231)
    users = []
    for number in range(40):
        items = [f"i{item:02}" for item in random.sample(range(24), random.choice([1, 2, 3, 5, 8, 11, 15]))]
        scores = {item: random.randint(1, 12) / 4 for item in items}
        likely = random.sample(items, min(len(items), random.randint(0, 4)))
        others = [f"i{item:02}" for item in random.sample(range(30), random.choice([1, 2, 4, 6, 14]))]
        truth = {item: random.randint(0, 3) for item in [*likely, *others]}
        truth[others[0]] = max(truth[others[0]], 1)
        best_first = sorted(sorted(items, reverse=True), key=lambda item: -scores[item])
        users.append(
            {
                "user": f"u{number:02}",
                "items": best_first,
                "scores": [scores[item] for item in best_first],
                "truth": dict(sorted(truth.items())),
            }
        )
    return users


def relevant(user: Mapping[str, Any]) -> dict[str, int]:
    """Truth of grade 1 or more, for programs that take every row as relevant."""
    return {item: grade for item, grade in user["truth"].items() if grade >= 1}


def ordered(user: Mapping[str, Any]) -> dict[str, float]:
    """Scores in the order of the list without ties, for programs that sort ties as it comes."""
    return {item: float(len(user["items"]) - rank) for rank, item in enumerate(user["items"])}


def trec_eval(users: Users) -> Table:
    """trec_eval's own C code, on scores with ties."""
    names = {
        "precision@{}": "P_{}",
        "recall@{}": "recall_{}",
        "hit_rate@{}": "success_{}",
        "ap@{}": "map_cut_{}",
        "ndcg@{}": "ndcg_cut_{}",
    }
    uncut = {
        "precision@all": "set_P",
        "recall@all": "set_recall",
        "f1@all": "set_F",
        "ap@all": "map",
        "rr@all": "recip_rank",
        "ndcg@all": "ndcg",
        "r_precision@all": "Rprec",
    }
    theirs = {ours.format(k): name.format(k) for ours, name in names.items() for k in KS} | uncut
    cuts = {".".join([name.removesuffix("_{}"), ",".join(map(str, KS))]) for name in names.values()}
    evaluator = import_module("pytrec_eval").RelevanceEvaluator(
        {user["user"]: user["truth"] for user in users}, {*cuts, *uncut.values()}
    )
    measured = evaluator.evaluate(
        {user["user"]: dict(zip(user["items"], user["scores"], strict=True)) for user in users}
    )
    return {
        ours: (
            f"RelevanceEvaluator(...).evaluate(...)[user][{name!r}]",
            [measured[user["user"]][name] for user in users],
        )
        for ours, name in theirs.items()
    }


def ranx(users: Users) -> Table:
    """ranx, on scores without ties."""
    library = import_module("ranx")
    names = {
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
    theirs = {f"{ours}@{k}": f"{name}@{k}" for ours, name in names.items() for k in KS}
    theirs |= {f"{ours}@all": name for ours, name in names.items()} | {"r_precision@all": "r-precision"}
    qrels = library.Qrels({user["user"]: user["truth"] for user in users})
    run = library.Run({user["user"]: ordered(user) for user in users})
    return {
        ours: (
            f"evaluate(qrels, run, {name!r}, return_mean=False)",
            list(library.evaluate(qrels, run, name, return_mean=False)),
        )
        for ours, name in theirs.items()
    }


def sklearn(users: Users) -> Table:
    """scikit-learn, on scores with ties; the truth is that of the list, the only items with a score."""
    library = import_module("sklearn.metrics")

    def each(measure: Callable[..., float], needs_miss: bool = False, **options: Any) -> list[float | None]:
        values: list[float | None] = []
        for user in users:
            grades = [max(user["truth"].get(item, 0), 0) for item in user["items"]]
            is_defined = any(grades) and len(grades) > 1 and not (needs_miss and all(grades))
            values.append(measure(grades, user["scores"], **options) if is_defined else None)
        return values

    def ndcg(grades: list[int], scores: list[float], k: int | None) -> float:
        return float(library.ndcg_score([grades], [scores], k=k))

    def dcg(grades: list[int], scores: list[float], k: int | None) -> float:
        return float(library.dcg_score([grades], [scores], k=k))

    def average_precision(grades: list[int], scores: list[float]) -> float:
        return float(library.average_precision_score([grade > 0 for grade in grades], scores))

    def roc_auc(grades: list[int], scores: list[float]) -> float:
        return float(library.roc_auc_score([grade > 0 for grade in grades], scores))

    table: Table = {}
    for k in (*KS, None):
        cut = "all" if k is None else str(k)
        table[f"dcg@{cut}"] = (f"dcg_score(..., k={k})", each(dcg, k=k))
        table[f"ndcg@{cut}"] = (f"ndcg_score(..., k={k})", each(ndcg, k=k))
    table["ap@all"] = ("average_precision_score(...)", each(average_precision))
    table["auc@all"] = ("roc_auc_score(...)", each(roc_auc, needs_miss=True))
    return table


def rectools(users: Users) -> Table:
    """RecTools, on ranks."""
    pandas, library = import_module("pandas"), import_module("rectools.metrics")
    lists = [(user["user"], item, rank) for user in users for rank, item in enumerate(user["items"], 1)]
    truth = [(user["user"], item, 1.0, "2023-01-01") for user in users for item in relevant(user)]
    recommendations = pandas.DataFrame(lists, columns=["user_id", "item_id", "rank"])
    interactions = pandas.DataFrame(truth, columns=["user_id", "item_id", "weight", "datetime"])
    table: Table = {}
    for k in KS:
        calls = {
            "precision": ("Precision", {}),
            "recall": ("Recall", {}),
            "recall_capped": ("Precision", {"r_precision": True}),
            "f1": ("F1Beta", {}),
            "hit_rate": ("HitRate", {}),
            "rr": ("MRR", {}),
            "ap": ("MAP", {}),
            "ap(denominator=k)": ("MAP", {"divide_by_k": True}),
            "ndcg": ("NDCG", {}),
            "ndcg(ideal=truth)": ("NDCG", {"divide_by_achievable": True}),
        }
        for ours, (name, options) in calls.items():
            if hasattr(library, name):
                by_user = getattr(library, name)(k=k, **options).calc_per_user(recommendations, interactions)
                text = ", ".join([f"k={k}", *(f"{option}={value}" for option, value in options.items())])
                values = [float(by_user[user["user"]]) for user in users]
                table[f"{ours}@{k}"] = (f"{name}({text}).calc_per_user(...)", values)
    return table


def lenskit(users: Users) -> Table:
    """LensKit, on ordered lists; graded metrics take the field ``rating``."""
    lists, library = import_module("lenskit.data"), import_module("lenskit.metrics")
    names = {
        "precision": ("Precision", {}),
        "recall": ("Recall", {}),
        "hit_rate": ("Hit", {}),
        "rr": ("RecipRank", {}),
        "ap": ("AveragePrecision", {}),
        "dcg": ("DCG", {}),
        "ndcg": ("NDCG", {}),
        "dcg(gain=linear)": ("DCG", {"gain": "rating"}),
        "ndcg(gain=linear)": ("NDCG", {"gain": "rating"}),
    }
    table: Table = {}
    for k in (*KS, None):
        for ours, (name, options) in names.items():
            metric = getattr(library, name, None) or getattr(import_module("lenskit.metrics.ranking"), name)
            measure = metric(k, **options).measure_list
            values = [
                float(
                    measure(
                        lists.ItemList(user["items"], ordered=True),
                        lists.ItemList([*truth], rating=[*truth.values()]),
                    )
                )
                for user in users
                for truth in [relevant(user)]
            ]
            text = ", ".join([str(k), *(f"{option}={value!r}" for option, value in options.items())])
            table[f"{ours}@{'all' if k is None else k}"] = (f"{name}({text}).measure_list(...)", values)
    return table


def replay(users: Users) -> Table:
    """RePlay on pandas, on scores without ties."""
    pandas, library = import_module("pandas"), import_module("replay.metrics")
    lists = [(user["user"], item, score) for user in users for item, score in ordered(user).items()]
    truth = [(user["user"], item) for user in users for item in relevant(user)]
    recommendations = pandas.DataFrame(lists, columns=["query_id", "item_id", "rating"])
    ground_truth = pandas.DataFrame(truth, columns=["query_id", "item_id"])
    names = {
        "precision": "Precision",
        "recall": "Recall",
        "hit_rate": "HitRate",
        "rr": "MRR",
        "ap": "MAP",
        "ndcg": "NDCG",
        "auc": "RocAuc",
    }
    table: Table = {}
    for ours, name in names.items():
        metric = getattr(library, name)(list(KS), mode=library.PerUser())
        measured = metric(recommendations, ground_truth)
        for k in KS:
            by_user = measured[f"{name}-PerUser@{k}"]
            values = [float(by_user[user["user"]]) for user in users]
            table[f"{ours}@{k}"] = (f"{name}({list(KS)}, mode=PerUser())(...)['{name}-PerUser@{k}']", values)
    return table


LIBRARIES: Final[dict[str, tuple[str, Callable[[Users], Table]]]] = {
    "trec_eval": ("pytrec_eval-terrier", trec_eval),
    "ranx": ("ranx", ranx),
    "sklearn": ("scikit-learn", sklearn),
    "rectools": ("rectools", rectools),
    "lenskit": ("lenskit", lenskit),
    "replay": ("replay-rec", replay),
}


def plain(values: Iterable[float | None]) -> list[float | None]:
    """Python's own floats; None for what is no number."""
    return [None if value is None or math.isnan(value) else float(value) for value in values]


def write(name: str, lines: Iterable[str]) -> None:
    """One entry per line, so that a change shows as one."""
    (HERE / f"{name}.json").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(name: str) -> None:
    """Write the rankings, or the table of a library."""
    if name == "rankings":
        write(name, ["[", ",\n".join(json.dumps(user) for user in rankings()), "]"])
        return
    users = json.loads((HERE / "rankings.json").read_text(encoding="utf-8"))
    package, measure = LIBRARIES[name]
    table = measure(users)
    entries = [
        f"{json.dumps(metric)}: {json.dumps({'call': call, 'values': plain(values)})}"
        for metric, (call, values) in table.items()
    ]
    write(
        name,
        [
            f'{{"package": "{package}", "version": "{version(package)}", "metrics": {{',
            ",\n".join(entries),
            "}}",
        ],
    )


if __name__ == "__main__":
    main(sys.argv[1])
