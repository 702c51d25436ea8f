"""Tables of a Hive metastore, embedded in Derby: split by spark-submit, evaluated by the command line."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from spark_eval.runtime.session import LAUNCHER_HOME, find_java

if TYPE_CHECKING:
    from tests.cli.conftest import Desk

REPOSITORY = Path(__file__).parents[2]
# A table of Spark's own, and one of Hive's, whose partitions are made as rows come.
FILL = """
import json, sys
from spark_eval.runtime.session import get_session

log, lists, conf = sys.argv[1:]
spark = get_session(master="local[1]", conf=json.loads(conf))
spark.sql("CREATE DATABASE shop")
by_day = spark.read.parquet(log).selectExpr("*", "string(when div 86400) AS day")
by_day.write.partitionBy("day").saveAsTable("shop.log")
columns = "user BIGINT, item BIGINT, score DOUBLE"
spark.sql(f"CREATE TABLE shop.lists ({columns}) PARTITIONED BY (model STRING) STORED AS ORC")
spark.read.parquet(lists).select("user", "item", "score", "model").write.insertInto("shop.lists")
"""


def hive(home: Path) -> dict[str, str]:
    """What docs/sources.md tells to set, for a metastore in a folder."""
    place = f"{home}/metastore"
    return {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": f"{home}/warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={place};create=true",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={home}",
    }


def run(*command: str | Path, home: Path, **more: str) -> str:
    """What a program prints that must succeed."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "src"), **more}
    done = subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_tables_of_a_metastore(desk: "Desk") -> None:
    home, conf = desk.home, hive(desk.home)
    run(sys.executable, "-c", FILL, desk.home / "log", desk.home / "lists", json.dumps(conf), home=home)
    assert (home / "metastore").is_dir()
    desk.change("interactions", path=None, table="shop.log")
    # Every user's first day is left out, by the partitions' names.
    desk.change("interactions", where=[{"column": "day", "op": "!=", "value": "1"}])
    desk.change("recommendations", path=None, table="spark_catalog.shop.lists")
    # spark-submit's session is used as it is: the config's conf does not count.
    spark_home = Path(pyspark.__file__).parent
    submit = [str(spark_home / "bin" / "spark-submit"), "--master", "local[2]"]
    submit += [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    job = [str(REPOSITORY / "jobs" / "split.py"), "--config", desk.config(), "--run-id", "a"]
    java = {"JAVA_HOME": str(LAUNCHER_HOME), "SPARK_EVAL_JAVA": str(find_java().home / "bin" / "java")}
    run(*submit, *job, home=home, PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1", **java)
    assert len(desk.table("splits")) == 36
    desk.change("spark", master="local[2]", conf=conf)
    program = Path(sys.executable).parent / "spark-eval"
    run(program, "evaluate", "--config", desk.config(), "--run-id", "a", home=home)
    assert desk.metric() == {"best": 1.0, "half": 0.5, "late": 0.5}
