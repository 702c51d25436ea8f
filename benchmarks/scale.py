"""The coefficients of docs/scale.md: CPU, shuffled and written bytes of five models at once, as JSON lines.

``python -m benchmarks.scale FOLDER [USERS ...]``: tables are made below FOLDER; of each case the second
repetition counts. Shuffled bytes are Spark's own, from its REST interface; CPU time is that of the process
with everything below it.
"""

import json
import os
import shutil
import sys
import urllib.request
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.data import Dataset, ensure
from benchmarks.processes import usage
from benchmarks.workload import READERS, RUN_NAMES
from spark_eval import get_session
from spark_eval.config.sections import parse_config
from spark_eval.runs.run import run_evaluate, run_split

LENGTH, MODELS, LOG_ROWS = 100, 5, 50
KS = [1, 5, 10, 20, 50]
# What differs from ranked lists, list after list, that the workers read: tables, and who reads them.
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "ranked": ({}, "files"),
    "ranked, read by Spark": ({}, "spark"),
    "ranked, anywhere": ({"layout": "anywhere"}, "files"),
    "scored": ({"scored": True, "ties": True}, "files"),
    "split": ({"models": 1, "length": LOG_ROWS, "holds": "log"}, "files"),
}


def shuffled(spark: SparkSession) -> dict[str, int]:
    """What all stages so far have shuffled."""
    context = spark.sparkContext
    url = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/stages?status=complete"
    with urllib.request.urlopen(url, timeout=60) as answer:
        found = json.load(answer)
    return {name: sum(stage[name] for stage in found) for name in ("shuffleWriteBytes", "diskBytesSpilled")}


def size(folder: Path) -> int:
    """Bytes of the data files below a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*.parquet"))


def run(spark: SparkSession, tables: Path, read: str, output: Path) -> None:
    """Split or evaluation of what there is, published."""
    tree: dict[str, Any] = {"output": {"path": str(output)}}
    if (tables / "interactions").exists():
        tree["interactions"] = {"path": str(tables / "interactions"), "columns": {"relevance": "rating"}}
        run_split(lambda: spark, parse_config(tree), None, replace=False)
    else:
        for name in ("recommendations", "truth"):
            tree[name] = {"path": str(tables / name), "options": dict(READERS[read])}
        tree["evaluate"] = {"k": KS, "metrics": list(RUN_NAMES.values())}
        run_evaluate(lambda: spark, parse_config(tree), None, replace=False)


def main(folder: Path, all_users: list[int]) -> None:
    """Print a line per case and number of users."""
    ui = {"spark.ui.enabled": "true", "spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "4"}
    spark = get_session("scale", "local[2]", ui)
    for users in all_users:
        for case, (changes, read) in CASES.items():
            tables = ensure(
                Dataset(**{"users": users, "length": LENGTH, "models": MODELS, **changes}), folder
            )
            for _ in range(2):
                before, cpu = shuffled(spark), usage(os.getpid()).cpu
                run(spark, tables, read, folder / "out")
                seconds, after = usage(os.getpid()).cpu - cpu, shuffled(spark)
                written = size(folder / "out")
                shutil.rmtree(folder / "out")
            moved = {name: after[name] - before[name] for name in after}
            # A worker that ended unseen takes its seconds with it.
            about = {
                "case": case,
                "users": users,
                "cpu_s": round(seconds, 2) if seconds > 0 else None,
                **moved,
            }
            print(json.dumps(about | {"read_bytes": size(tables), "written_bytes": written}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(users) for users in sys.argv[2:]] or [8_000, 40_000])
