"""Cost of lists by request in this process: seconds of CPU of the same rows with requests and without.

Usage: python -m benchmarks.local_requests [ROWS [ROUNDS]]    (by default 1,000,000 rows, 7 rounds)

Rounds alternate between both, so that other work on the machine falls on both alike; ratios are of a round.
"""

import sys
import time
from statistics import median

import numpy as np
import pyarrow as pa

from spark_eval import evaluate

LENGTH, REQUESTS, N_ITEMS = 10, 5, 5_000
METRICS = ["ndcg", "map", "mrr", "recall", "precision", "hit_rate"]


def tables(n_rows: int) -> tuple[pa.Table, pa.Table]:
    """Return lists of ten ranks, and a truth of a quarter of the rows."""
    draw, n_lists = np.random.default_rng(1), n_rows // LENGTH
    ranks = np.tile(np.arange(1, LENGTH + 1), n_lists)
    owner, items = np.repeat(np.arange(n_lists), LENGTH), draw.integers(0, N_ITEMS, n_lists * LENGTH)
    lists = pa.table({"user": owner, "item": items, "rank": ranks})
    wanted = draw.integers(0, n_lists, n_rows // 4)
    return lists, pa.table({"user": wanted, "item": draw.integers(0, N_ITEMS, n_rows // 4)})


def by_request(table: pa.Table) -> pa.Table:
    """Return the rows with five lists of each user, by request."""
    user, request = np.divmod(table["user"].to_numpy(), REQUESTS)
    return table.set_column(0, "user", pa.array(user)).append_column("request", pa.array(request))


def cpu_seconds(lists: pa.Table, truth: pa.Table) -> float:
    """Evaluate, and return the seconds of CPU of this process."""
    before = time.process_time()
    evaluate(lists, truth, model="m", metrics=METRICS, k=[1, 3, 5, 10], engine="local")
    return time.process_time() - before


def main() -> None:
    """Measure both in turn, after a round that is not counted."""
    given = [int(text) for text in sys.argv[1:]]
    n_rows, rounds = [*given, *(1_000_000, 7)[len(given) :]]
    plain = tables(n_rows)
    requests = (by_request(plain[0]), by_request(plain[1]))
    seconds = [(cpu_seconds(*plain), cpu_seconds(*requests)) for _ in range(rounds + 1)][1:]
    alone, both = zip(*seconds, strict=True)
    print(f"CPU s: {median(alone):.2f} without requests, {median(both):.2f} with")
    ratio = median(one / other for other, one in seconds)
    print(f"ratio: {ratio:.2f} of a round (median), {min(both) / min(alone):.2f} of the fastest")


if __name__ == "__main__":
    main()
