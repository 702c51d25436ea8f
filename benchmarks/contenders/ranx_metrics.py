"""ranx: ids become text, tables dictionaries, then compiled loops; one node."""

from pathlib import Path

import pandas as pd
from ranx import Qrels, Run, evaluate

from benchmarks.contenders import Means, Repetition
from benchmarks.workload import Task

NAMES = {
    "precision": "precision",
    "recall": "recall",
    "ap": "map",
    "rr": "mrr",
    "ndcg": "ndcg",
    "hit_rate": "hit_rate",
}


def prepare(task: Task) -> Repetition:
    """The names of the metrics."""
    workload = task.workload
    names = {f"{NAMES[metric]}@{k}": f"{metric}_at_{k}" for metric in workload.metrics for k in workload.ks}

    def repeat(folder: Path) -> Means:
        recommendations = pd.read_parquet(task.recommendations).astype({"user": str, "item": str})
        truth = pd.read_parquet(task.truth).astype({"user": str, "item": str})
        recommendations["score"] = -recommendations["rank"].astype(float)
        truth["relevance"] = 1
        qrels = Qrels.from_df(truth, q_id_col="user", doc_id_col="item", score_col="relevance")
        run = Run.from_df(recommendations, q_id_col="user", doc_id_col="item", score_col="score")
        run.make_comparable(qrels)
        means = evaluate(qrels, run, list(names))
        per_user = pd.DataFrame({names[name]: values for name, values in run.scores.items()})
        per_user.insert(0, "user", per_user.index.astype("int64"))
        (folder / "per_user").mkdir()
        per_user.to_parquet(folder / "per_user" / "part-0.parquet", index=False)
        return {names[name].replace("_at_", "@"): float(value) for name, value in means.items()}

    return repeat
