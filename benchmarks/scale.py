"""Coefficients of docs/scale.md: CPU, shuffled and written bytes of five models at once, as JSON lines.

``python -m benchmarks.scale FOLDER [USERS ...]``: tables are written below FOLDER; the second repetition of
each case counts. Shuffled bytes are from Spark's REST interface; CPU time is that of the process and its
descendants.
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
from spark_eval.runs.run import run_verb
from spark_eval.runs.sections import parse_config
from spark_eval.verbs import VERBS

LENGTH, MODELS, LOG_ROWS = 100, 5, 50
KS = [1, 5, 10, 20, 50]
# Cases: changes of the dataset of ranked lists, and the reader.
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "ranked": ({}, "files"),
    "ranked, read by Spark": ({}, "spark"),
    "ranked, anywhere": ({"layout": "anywhere"}, "files"),
    "scored": ({"scored": True, "ties": True}, "files"),
    "split": ({"models": 1, "length": LOG_ROWS, "holds": "log"}, "files"),
}


def shuffled(spark: SparkSession) -> dict[str, int]:
    """Return the shuffled and spilled bytes of all Spark stages so far."""
    context = spark.sparkContext
    url = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/stages?status=complete"
    with urllib.request.urlopen(url, timeout=60) as answer:
        stages = json.load(answer)
    return {name: sum(stage[name] for stage in stages) for name in ("shuffleWriteBytes", "diskBytesSpilled")}


def size(folder: Path) -> int:
    """Return the bytes of the data files below a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*.parquet"))


def run(spark: SparkSession, tables: Path, read: str, output: Path) -> None:
    """Publish a split of the log, or an evaluation of the lists."""
    tree: dict[str, Any] = {"output": {"path": str(output)}}
    if (tables / "interactions").exists():
        tree["interactions"] = {"path": str(tables / "interactions"), "columns": {"relevance": "rating"}}
        run_verb(VERBS["split"], lambda: spark, parse_config(tree), None, replace=False)
    else:
        for name in ("recommendations", "truth"):
            tree[name] = {"path": str(tables / name), "options": dict(READERS[read])}
        tree["evaluate"] = {"k": KS, "metrics": list(RUN_NAMES.values())}
        run_verb(VERBS["evaluate"], lambda: spark, parse_config(tree), None, replace=False)


def main(folder: Path, all_users: list[int]) -> None:
    """Print a line for each number of users and case."""
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
            # The CPU seconds of a worker that ended between samples are lost.
            about = {
                "case": case,
                "users": users,
                "cpu_s": round(seconds, 2) if seconds > 0 else None,
                **moved,
            }
            print(json.dumps(about | {"read_bytes": size(tables), "written_bytes": written}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(users) for users in sys.argv[2:]] or [8_000, 40_000])
