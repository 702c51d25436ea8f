"""Cost of intervals of predictions in this process: seconds of CPU of the same rows with and without.

Usage: python -m benchmarks.local_predictions [ROWS [ROUNDS]]    (by default 4,000,000 rows, 5 rounds)

Each user has ten rows. Rounds alternate, so that other work on the machine falls on all alike; ratios are
of a round. Metrics of sums and of the order of scores come first, then also those of a bootstrap.
"""

import sys
import time
from statistics import median

import numpy as np
import pyarrow as pa

from spark_eval import evaluate_predictions

ROWS_PER_USER = 10
METRICS = ("log_loss", "auc", "rmse", "accuracy", "f1", "mae")
DRAWN = (*METRICS, "auprc", "ece")


def scored(n_rows: int) -> pa.Table:
    """Return rows of users whose labels and scores resemble each other, in no order."""
    draw = np.random.default_rng(1)
    user = draw.integers(0, n_rows // ROWS_PER_USER, n_rows)
    logit = draw.standard_normal(n_rows // ROWS_PER_USER)[user] + draw.standard_normal(n_rows) - 1
    score = 1 / (1 + np.exp(-logit))
    return pa.table({"user": user, "label": (draw.random(n_rows) < score).astype(np.int8), "score": score})


def cpu_seconds(rows: pa.Table, metrics: tuple[str, ...], intervals: str) -> float:
    """Evaluate, and return the seconds of CPU of this process."""
    before = time.process_time()
    evaluate_predictions(
        rows, "binary", model="m", metrics=metrics, thresholds=[0.5], intervals=intervals, engine="local"
    )
    return time.process_time() - before


def main() -> None:
    """Measure all in turn, after a round that is not counted."""
    given = [int(text) for text in sys.argv[1:]]
    n_rows, rounds = [*given, *(4_000_000, 5)[len(given) :]]
    rows, runs = scored(n_rows), [(METRICS, "none"), (METRICS, "user"), (DRAWN, "none"), (DRAWN, "user")]
    seconds = [[cpu_seconds(rows, *run) for run in runs] for _ in range(rounds + 1)][1:]
    for name, start in (("sums and order", 0), ("also auprc and ece", 2)):
        alone, both = ([one[start + index] for one in seconds] for index in (0, 1))
        ratio = median(one / other for other, one in zip(alone, both, strict=True))
        print(
            f"{name}: CPU s {median(alone):.2f} without intervals, {median(both):.2f} with; ratio {ratio:.2f}"
        )


if __name__ == "__main__":
    main()
