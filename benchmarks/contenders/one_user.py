"""The metrics of one user, as a person would write them for a function that Spark calls for each user."""

import numpy as np
from numpy.typing import NDArray

from benchmarks.workload import Workload


def measure_user(ranks: NDArray[np.int64], n_relevant: int, workload: Workload) -> list[float]:
    """The values of ``workload.columns`` for hits at these ranks, in ascending order."""
    precisions = np.arange(1, len(ranks) + 1) / ranks
    discounts = 1 / np.log2(ranks + 1)
    ideal = (1 / np.log2(np.arange(2, max(workload.ks) + 2))).cumsum()
    values: dict[tuple[str, int], float] = {}
    for k in workload.ks:
        n_hits, fillable = int((ranks <= k).sum()), min(n_relevant, k)
        values |= {
            ("precision", k): n_hits / k,
            ("recall", k): n_hits / n_relevant,
            ("ap", k): precisions[:n_hits].sum() / fillable,
            ("rr", k): 1 / ranks[0] if n_hits else 0.0,
            ("ndcg", k): discounts[:n_hits].sum() / ideal[fillable - 1],
            ("hit_rate", k): float(n_hits > 0),
        }
    return [values[metric, k] for metric in workload.metrics for k in workload.ks]
