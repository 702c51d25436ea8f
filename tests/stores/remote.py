"""The verbs in a client of a Spark Connect server, with tables of its catalogs as inputs and output."""

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from tests.cli.conftest import call
from tests.stores.chain import RUN, hash_of, run_chain, tree_of, write_config
from tests.stores.test_catalog import CATALOGS, race
from tests.stores.verbs import run_verbs, write_configs


def write_tables(spark: SparkSession, home: Path, schema: str, kind: str) -> None:
    """Write folders of Parquet as tables of a schema."""
    spark.sql(f"CREATE SCHEMA {schema}")
    for folder in home.iterdir():
        rows = spark.createDataFrame(pq.read_table(folder))
        rows.writeTo(f"{schema}.{folder.name}").using(kind).create()


def ends(config: str, *settings: str, run_id: str = RUN) -> str:
    """How a split ends: nothing, or the code of its error, which names what to do instead."""
    words = [word for setting in settings for word in ("--set", setting)]
    answer = call("split", "--config", config, "--run-id", run_id, *words)
    print(answer.err, file=sys.stderr)
    return answer.error if answer.code else ""


def answers_of_chain(spark: SparkSession, home: Path, kind: str) -> dict[str, Any]:
    """What the chain publishes there, and how splits end that name other snapshots or are refused."""
    inputs = f"{CATALOGS[kind]}.{kind}_in"
    write_tables(spark, home / "in", inputs, kind)
    tree = {
        **tree_of("", ""),
        "output": {"table": f"{CATALOGS[kind]}.{kind}_out"},
        "interactions": {"table": f"{inputs}.log", "timestamp_unit": "s"},
        "recommendations": {"table": f"{inputs}.lists"},
    }
    there = write_config(home / f"{kind}.yaml", tree)
    status = run_chain(call, there, "--to", str(home / "page.html"), is_repeated=False)
    found: dict[str, Any] = {"status": [(run["verb"], run["damage"]) for run in status["runs"]]}
    found["values"] = hash_of(spark, status["root"])
    [record] = spark.table(f"{CATALOGS[kind]}.{kind}_out.commits").where("verb = 'split'").collect()
    [version] = {one["version"] for one in json.loads(record["record"])["snapshots"].values()}
    spark.table(f"{inputs}.log").limit(1).writeTo(f"{inputs}.log").append()
    by_number, table = f"interactions.options.versionAsOf={version}", f"interactions.table={kind}_others"
    found["the newest snapshot"] = ends(there)
    found["the snapshot of the record"] = ends(there, by_number)
    found["races"] = [race(spark, f"{CATALOGS[kind]}.{kind}_out", run_id) for run_id in ("r", "r")]
    spark.sql(f"CREATE SCHEMA {kind}_others")
    spark.range(1).writeTo(f"{kind}_others.files").using("parquet").create()
    spark.sql(f"CREATE VIEW {kind}_others.view AS SELECT * FROM {kind}_others.files")
    # Runs of their own: one that is published with other inputs would be RUN_EXISTS.
    new = partial(ends, there, run_id="new")
    found["refused"] = [
        new("interactions.table=null", f"interactions.path={home / 'in' / 'log'}"),
        new(f"{table}.files"),
        new(f"{table}.view"),
        new("interactions.options.timestampAsOf=2999-01-01"),
        new("output.table=null", "output.path=s3a://bucket/out", "output.manifest=true"),
        new("output.table=null", f"output.path={home / 'out'}"),
    ]
    found["missing"] = [new(f"{table}.nothing"), new("interactions.options.versionAsOf=999")]
    return found


def answers_of_verbs(spark: SparkSession, home: Path, kind: str) -> dict[str, Any]:
    """What the other verbs publish there."""
    inputs = f"{CATALOGS[kind]}.{kind}_verbs_in"
    write_tables(spark, home / "in", inputs, kind)
    output = {"table": f"{CATALOGS[kind]}.{kind}_verbs_out"}
    configs = write_configs(home / kind, lambda name: {"table": f"{inputs}.{name}"}, output)
    return run_verbs(call, spark, configs, home / kind / "page.html")


ANSWERS = {"chain": answers_of_chain, "verbs": answers_of_verbs}

if __name__ == "__main__":
    part, folder, kind = sys.argv[1:]
    print(json.dumps(ANSWERS[part](SparkSession.builder.getOrCreate(), Path(folder), kind)))
