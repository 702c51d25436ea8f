"""Write the archive of classes from which the JVMs of the tests start: ``.venv/.classes.jsa``, by make.

Loading and checking Spark's classes is half of what a short process costs. The JVM that runs this is told by
``-XX:ArchiveClassesAtExit`` to write those that it has loaded. One that cannot do so leaves no file.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
from pyspark import SparkContext

from spark_eval import evaluate, get_session, split

LOG = pd.DataFrame({"user": range(40), "item": [n % 5 for n in range(40)], "rank": 1})


def load_classes(folder: Path) -> None:
    """Run a little of everything."""
    session = get_session("classes", "local[2]", {"spark.sql.warehouse.dir": str(folder / "warehouse")})
    for kind in ("csv", "json", "orc", "parquet"):
        session.createDataFrame(LOG).write.format(kind).save(str(folder / kind))
        session.read.format(kind).load(str(folder / kind)).groupBy().count().collect()
    lists, truth = str(folder / "parquet"), LOG[["user", "item"]]
    found = evaluate(lists, truth, model="m", metrics="ndcg", k=1, engine="spark")
    found.per_user.collect()
    log = LOG.assign(timestamp=range(1_700_000_000, 1_704_000_000, 100_000))
    split(log, timestamp_unit="s", local_cut="20d", global_cut="5d").write(str(folder / "split"))
    session.stop()


if __name__ == "__main__":
    with TemporaryDirectory() as home:
        load_classes(Path(home))
    jvm: Any = SparkContext._gateway
    jvm.proc.stdin.close()
    jvm.proc.wait()
    Path(sys.argv[1]).touch()
