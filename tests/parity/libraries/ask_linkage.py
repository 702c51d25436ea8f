"""ER-Evaluation and bcubed-metrics: clusters of records against true ones.

Cases come as JSON on stdin: predicted and true cluster of each record, null for a record without one. Numbers
go as JSON to stdout, in the order of the cases.
"""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version

import er_evaluation as ee
import pandas as pd
from bcubed_metrics.bcubed import Bcubed

# Our names of the metrics of ER-Evaluation, whose B-cubed is by cluster.
OF_CLUSTERS = {
    "pairwise_precision": ee.metrics.pairwise_precision,
    "pairwise_recall": ee.metrics.pairwise_recall,
    "pairwise_f1": ee.metrics.pairwise_f,
    "bcubed_precision_by_cluster": ee.metrics.b_cubed_precision,
    "bcubed_recall_by_cluster": ee.metrics.b_cubed_recall,
    "bcubed_f1_by_cluster": ee.metrics.b_cubed_f,
    "cluster_exact_precision": ee.metrics.cluster_precision,
    "cluster_exact_recall": ee.metrics.cluster_recall,
}


def by_cluster(predicted: Sequence[int | None], true: Sequence[int | None]) -> dict[str, float]:
    """What ER-Evaluation computes."""
    clusters = [
        pd.Series({record: cluster for record, cluster in enumerate(one) if cluster is not None})
        for one in (predicted, true)
    ]
    return {name: float(measure(*clusters)) for name, measure in OF_CLUSTERS.items()}


def by_record(predicted: Sequence[int | None], true: Sequence[int | None]) -> dict[str, float]:
    """What bcubed-metrics computes from the records in both, as counts of true clusters in predicted ones."""
    both = [pair for pair in zip(predicted, true, strict=True) if None not in pair]
    counts: dict[int | None, Counter[int | None]] = {}
    for ours, theirs in both:
        counts.setdefault(ours, Counter())[theirs] += 1
    found = Bcubed(list(counts.values()), Counter(theirs for _, theirs in both), decimals=15)
    return {
        "bcubed_precision": found.bcubed_precision,
        "bcubed_recall": found.bcubed_recall,
        "bcubed_f1": found.bcubed_f1_micro,
    }


if __name__ == "__main__":
    cases = json.load(sys.stdin)
    numbers = [by_cluster(*case) | by_record(*case) for case in cases]
    versions = {name: version(name) for name in ("er-evaluation", "bcubed-metrics")}
    json.dump({"versions": versions, "numbers": numbers}, sys.stdout)
