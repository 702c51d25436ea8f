"""Array functions compared with Spark's RankingMetrics: ``python -m benchmarks.functions [LISTS]``.

Lists of 50 items and their relevant items are array columns in Parquet. Programs take turns in one session,
and each computes means over all lists. ``scan`` reads the arrays and sums their lengths, ``one`` is nDCG@10
by our function, ``thirty`` six metrics at five cutoffs by ``ranking_metrics``. ``spark one`` and ``spark
thirty`` use Spark's RankingEvaluator (RankingMetrics in the JVM), with one job per metric and cutoff; it has
four of our metrics. CPU seconds are those of driver, JVM and workers. Linux only.
"""

import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.ml.evaluation import RankingEvaluator
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.data import Dataset, ensure
from benchmarks.processes import usage
from spark_eval import functions as F2
from spark_eval import get_session

LENGTH: Final = 50
KS: Final = (1, 5, 10, 20, 50)
METRICS: Final = ("precision", "recall", "map", "mrr", "ndcg", "hit_rate")
OF_SPARK: Final = ("precisionAtK", "recallAtK", "meanAveragePrecisionAtK", "ndcgAtK")
BOTH: Final = ("recommended", "relevant")
FILES: Final = 4


def write_arrays(n_lists: int, folder: Path) -> None:
    """Write a row per list with relevant items; also as doubles, the only type of RankingEvaluator."""
    tables = ensure(Dataset(users=n_lists, length=LENGTH), folder)
    lists, truth = (pq.read_table(tables / name) for name in ("recommendations", "truth"))
    rows = pa.table({"user": pc.unique(lists["user"]).sort()})
    rows = rows.filter(pc.is_in(rows["user"], pc.unique(truth["user"])))
    for name, table, order in (("recommended", lists, "rank"), ("relevant", truth, "item")):
        mine = table.filter(pc.is_in(table["user"], rows["user"].combine_chunks()))
        items = mine.sort_by([("user", "ascending"), (order, "ascending")])
        arrays = items.group_by("user", use_threads=False).aggregate([("item", "list")])
        rows = rows.append_column(name, arrays["item_list"])
    for name, theirs in zip(BOTH, ("prediction", "label"), strict=True):
        rows = rows.append_column(theirs, rows[name].cast(pa.list_(pa.float64())))
    (folder / "arrays").mkdir()
    per_file = -(-len(rows) // FILES)
    for number in range(FILES):
        pq.write_table(rows.slice(number * per_file, per_file), folder / "arrays" / f"{number}.parquet")


def programs(rows: DataFrame) -> dict[str, Callable[[], Any]]:
    """Return the programs by name; each returns means."""

    def of_struct(metrics: tuple[str, ...], ks: tuple[int, ...]) -> Any:
        several = rows.select(F2.ranking_metrics(*BOTH, metrics, ks, conventions="spark").alias("m")).select(
            "m.*"
        )
        return several.agg(*(F.avg(name) for name in several.columns)).first()

    def of_spark(names: tuple[Any, ...], ks: tuple[int, ...]) -> Any:
        return [RankingEvaluator(metricName=name, k=k).evaluate(rows) for name in names for k in ks]

    return {
        "scan": lambda: rows.agg(*(F.sum(F.size(name)) for name in BOTH)).first(),
        "one": lambda: rows.agg(F.avg(F2.ndcg(*BOTH, 10, conventions="spark"))).first(),
        "thirty": lambda: of_struct(METRICS, KS),
        "spark one": lambda: of_spark(("ndcgAtK",), (10,)),
        "spark thirty": lambda: of_spark(OF_SPARK, KS),
    }


def main(n_lists: int, repetitions: int = 3) -> None:
    """Print a line per program: medians over warm repetitions, and the cost per million lists."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_arrays(n_lists, folder)
        spark = get_session("functions", "local[2]", {"spark.driver.memory": "1g"})
        rows = spark.read.parquet(str(folder / "arrays"))
        n_rows = rows.count()
        costs: dict[str, list[tuple[float, float]]] = {}
        for number in range(1 + repetitions):
            for program, run in programs(rows).items():
                before, start = usage(os.getpid()).cpu, perf_counter()
                means = run()
                cost = usage(os.getpid()).cpu - before, perf_counter() - start
                if number:
                    costs.setdefault(program, []).append(cost)
                else:
                    print(f"{program}: {str(means)[:200]}", file=sys.stderr)
        spark.stop()
    print(f"{n_rows:,} lists of {LENGTH}\n")
    print("| program | CPU s | least | most | wall s | CPU s per million lists |\n|---|---|---|---|---|---|")
    for program, measured in costs.items():
        cpu = sorted(cpu for cpu, _ in measured)
        median, wall = statistics.median(cpu), statistics.median(wall for _, wall in measured)
        line = f"{median:.1f} | {cpu[0]:.1f} | {cpu[-1]:.1f} | {wall:.1f} | {median / n_rows * 1e6:.0f}"
        print(f"| {program} | {line} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 200_000)
