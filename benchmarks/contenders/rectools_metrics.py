"""RecTools: its calc_metrics, which shares the merge between metrics; one node, pandas."""

from pathlib import Path

import pandas as pd
from rectools.metrics import MAP, MRR, NDCG, HitRate, Precision, Recall, calc_metrics

from benchmarks.contenders import Means, Repetition
from benchmarks.workload import Task

CLASSES = {"precision": Precision, "recall": Recall, "ap": MAP, "rr": MRR, "ndcg": NDCG, "hit_rate": HitRate}
COLUMNS = {"user": "user_id", "item": "item_id"}


def prepare(task: Task) -> Repetition:
    """The metrics."""
    options = {"ndcg": {"divide_by_achievable": True}}
    metrics = {
        f"{metric}@{k}": CLASSES[metric](k=k, **options.get(metric, {}))
        for metric in task.workload.metrics
        for k in task.workload.ks
    }

    def repeat(_: Path) -> Means:
        recommendations = pd.read_parquet(task.recommendations).rename(columns=COLUMNS)
        truth = pd.read_parquet(task.truth).rename(columns=COLUMNS)
        return {name: float(value) for name, value in calc_metrics(metrics, recommendations, truth).items()}

    return repeat
