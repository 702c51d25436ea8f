"""Delta and Iceberg tables as inputs: the values of Parquet, snapshots that a run keeps to, named errors."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from tests.cli.conftest import call
from tests.stores.chain import (
    RUN,
    failing,
    hash_of,
    rows_of,
    run_chain,
    tree_of,
    write_config,
    write_inputs,
)
from tests.stores.conftest import SPARK_OF_LAKE, Hdfs, need_jars
from tests.stores.test_catalog import CATALOGS, race

from spark_eval import read_published
from spark_eval.runs.job import Job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = [pytest.mark.stores, pytest.mark.timeout(1800)]
# How a config names a table, and what SQL names it.
WAYS = ("delta path", "delta table", "iceberg path", "iceberg table")


class Lake:
    """Versioned tables of one format, which a config names in one way."""

    def __init__(self, spark: "SparkSession", way: str, home: Path) -> None:
        self.spark, self.home = spark, home
        self.format, self.how = way.split()
        self.schema = f"lake.{home.name}" if self.format == "iceberg" else home.name
        spark.sql(f"CREATE SCHEMA IF NOT EXISTS {self.schema}")

    def name(self, table: str) -> str:
        """Return the name of a table in SQL."""
        return f"{self.schema}.{table}"

    def path(self, table: str) -> str:
        """Return the folder of a table."""
        if self.format == "iceberg":
            return f"{self.spark.conf.get('spark.sql.catalog.lake.warehouse')}/{self.home.name}/{table}"
        return str(self.first(f"DESCRIBE DETAIL {self.name(table)}")["location"])

    def write(self, table: str, rows: "DataFrame") -> None:
        """Create a table with these rows, as one commit."""
        rows.writeTo(self.name(table)).using(self.format).create()

    def source(self, table: str) -> dict[str, Any]:
        """Return how a config names a table."""
        if self.how == "path":
            return {"path": self.path(table), "format": self.format}
        return {"table": self.name(table)}

    def version(self, table: str) -> int:
        """Return the newest version of a table, as its own format tells it."""
        if self.format == "delta":
            return int(self.first(f"DESCRIBE HISTORY {self.name(table)}")["version"])
        return int(self.first(f"SELECT * FROM {self.name(table)}.refs WHERE name = 'main'")["snapshot_id"])

    def first(self, query: str) -> "Row":
        """Return the first row of an answer."""
        [row, *_] = self.spark.sql(query).collect()
        return row


@pytest.fixture(params=WAYS)
def lake(spark: "SparkSession", tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Lake]:
    """The inputs of the chain as versioned tables, and below ``in`` as Parquet."""
    if not pyspark.__version__.startswith(SPARK_OF_LAKE):
        pytest.skip(f"the pinned Delta and Iceberg are of Spark {SPARK_OF_LAKE}*: run by make test-stores")
    need_jars("lake")
    home = tmp_path / f"shop_{WAYS.index(request.param)}_{request.node.originalname[5:25]}"
    lake = Lake(spark, request.param, home)
    write_inputs(tmp_path / "in")
    for table in ("log", "lists"):
        lake.write(table, spark.read.parquet(str(tmp_path / "in" / table)))
    yield lake
    for table in ("log", "lists"):
        spark.sql(f"DROP TABLE {lake.name(table)}")


def tree_on(lake: Lake, home: Path) -> dict[str, Any]:
    """Return the config of the chain with inputs of the lake and output on this machine."""
    tree = tree_of(str(home / "in"), str(home / "on_lake"))
    tree["interactions"] = {**lake.source("log"), "timestamp_unit": "s"}
    tree["recommendations"] = lake.source("lists")
    return tree


def record_of(home: Path, run_id: str, verb: str) -> dict[str, Any]:
    """Return the commit record of a verb."""
    text = (home / "on_lake" / "_commits" / f"{run_id}.json").read_text()
    record: dict[str, Any] = json.loads(text)["jobs"][verb]
    return record


def snapshot(lake: Lake, table: str) -> dict[str, Any]:
    """Return what a commit record says of the newest snapshot of a table, but its id."""
    return {"format": lake.format, "version": lake.version(table)}


# Values differ by format, if at all, and not by how a table is named.
ONE_OF_EACH = pytest.mark.parametrize("lake", ["delta path", "iceberg table"], indirect=True)


@ONE_OF_EACH
def test_the_whole_chain_gives_the_values_of_parquet(
    lake: Lake, spark: "SparkSession", tmp_path: Path
) -> None:
    local = write_config(tmp_path / "local.yaml", tree_of(str(tmp_path / "in"), str(tmp_path / "out")))
    there = write_config(tmp_path / "there.yaml", tree_on(lake, tmp_path))
    run_chain(call, local)
    assert len(run_chain(call, there)["runs"]) == 3
    assert hash_of(spark, str(tmp_path / "on_lake")) == hash_of(spark, str(tmp_path / "out"))
    for verb, name, table in (("split", "interactions", "log"), ("evaluate", "recommendations", "lists")):
        found = record_of(tmp_path, RUN, verb)["snapshots"][name]
        assert found.pop("table_id")
        assert found == snapshot(lake, table)
    page = (tmp_path / "on_lake" / "report" / f"{RUN}.html").read_text()
    assert f"versionAsOf: {lake.version('lists')}" in page


def told_of(status: dict[str, Any]) -> list[Any]:
    """Return what status tells of runs, but times."""
    return [[run[key] for key in ("verb", "run_id", "rows", "damage", "stale")] for run in status["runs"]]


@pytest.mark.parametrize("lake", ["delta table", "iceberg table"], indirect=True)
def test_the_whole_chain_from_table_to_table(lake: Lake, spark: "SparkSession", tmp_path: Path) -> None:
    """Inputs and results are tables: values and status of Parquet, and of two attempts at a run one wins."""
    local = write_config(tmp_path / "local.yaml", tree_of(str(tmp_path / "in"), str(tmp_path / "out")))
    schema = f"{CATALOGS[lake.format]}.{lake.home.name}_out"
    tree = {**tree_on(lake, tmp_path), "output": {"table": schema}}
    there = write_config(tmp_path / "there.yaml", tree)
    of_files = run_chain(call, local)
    status = run_chain(call, there, "--to", str(tmp_path / "page.html"))
    assert told_of(status) == told_of(of_files)
    values = hash_of(spark, str(tmp_path / "out"))
    assert hash_of(spark, status["root"]) == values
    assert [race(spark, schema, "other") for _ in range(2)] == [["RUN_BUSY", "published"]] * 2
    assert hash_of(spark, status["root"]) == values
    failed = write_config(tmp_path / "failed.yaml", failing(tree))
    for words in (("--replace",), ()):
        told = call("compare", "--config", failed, "--run-id", RUN, *words)
        assert (told.code, told.error) == (5, "GATE_FAILED")
    [gate] = read_published(spark, status["root"], "gates", [RUN]).collect()
    assert not gate["passed"]


def run_id_of(config: str, *settings: str) -> tuple[str, bool]:
    """Split; return the run id that follows from config and inputs, and whether the run was there already."""
    done = call("split", "--config", config, *(word for one in settings for word in ("--set", one)))
    assert (done.code, done.err) == (0, ""), done.err
    [run_id] = {word.strip(".,;:") for word in done.out.split() if word.startswith("s-")} or {""}
    return run_id, "already published" in done.out


def test_a_run_is_of_a_snapshot(
    lake: Lake, spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit amid the run does not disturb it, and a later one makes another run."""
    config = write_config(tmp_path / "there.yaml", tree_on(lake, tmp_path))
    old = lake.version("log")
    committed: list[int] = []

    def commit_first(read: Callable[..., Any]) -> Callable[..., Any]:
        def reading(*arguments: Any) -> Any:
            if not committed:
                spark.table(lake.name("log")).limit(5).writeTo(lake.name("log")).append()
                committed.append(lake.version("log"))
            return read(*arguments)

        return reading

    with monkeypatch.context() as patch:
        patch.setattr(Job, "read", commit_first(Job.read))
        first, _ = run_id_of(config)
    assert committed
    assert committed[0] != old
    assert record_of(tmp_path, first, "split")["snapshots"]["interactions"]["version"] == old
    assert record_of(tmp_path, first, "split")["tables"]["splits"]["rows"] == 720
    assert run_id_of(config, f"interactions.options.versionAsOf={old}") == (first, True)
    second, was_there = run_id_of(config)
    assert second != first
    assert not was_there
    assert record_of(tmp_path, second, "split")["tables"]["splits"]["rows"] == 725
    assert run_id_of(config, f"interactions.options.versionAsOf={committed[0]}") == (second, True)
    told = call("split", "--config", config, "--run-id", first)
    assert (told.code, told.error) == (2, "RUN_EXISTS")


@ONE_OF_EACH
def test_deleted_rows_and_other_schemas(lake: Lake, spark: "SparkSession", tmp_path: Path) -> None:
    """Rows that are deleted but not rewritten, a column that came later, partitions that changed."""
    log = lake.name("log")
    later = spark.sql("SELECT 3L user, 1L item, 86400L timestamp, 2.5D relevance, 'a' shop")
    if lake.format == "delta":
        later.write.format("delta").mode("append").option("mergeSchema", "true").saveAsTable(log)
        assert "deletionVectors" in str(lake.first(f"DESCRIBE DETAIL {log}")["tableFeatures"])
    else:
        modes = "'format-version' = '2', 'write.delete.mode' = 'merge-on-read'"
        spark.sql(f"ALTER TABLE {log} SET TBLPROPERTIES ({modes})")
        spark.sql(f"ALTER TABLE {log} ADD PARTITION FIELD bucket(4, user)")
        spark.sql(f"ALTER TABLE {log} ADD COLUMN shop string")
        later.writeTo(log).append()
    spark.sql(f"DELETE FROM {log} WHERE user < 10 AND item < 20")
    spark.table(log).coalesce(1).write.parquet(str(tmp_path / "plain"))
    tree = tree_on(lake, tmp_path)
    plain = {"path": str(tmp_path / "plain"), "timestamp_unit": "s"}
    there = write_config(tmp_path / "there.yaml", tree)
    local = write_config(
        tmp_path / "local.yaml",
        tree | {"interactions": plain, "output": {"path": str(tmp_path / "out")}},
    )
    for config in (there, local):
        run_chain(call, config)
    found = hash_of(spark, str(tmp_path / "on_lake"))
    assert found == hash_of(spark, str(tmp_path / "out"))


def test_errors_have_names(lake: Lake, tmp_path: Path) -> None:
    tree = tree_on(lake, tmp_path)
    config = write_config(tmp_path / "there.yaml", tree)
    valid = call("validate", "--config", config, "--verb", "split")
    assert (valid.code, valid.err) == (0, "")

    def ends(*settings: str) -> tuple[int, str]:
        words = [word for setting in settings for word in ("--set", setting)]
        answer = call("split", "--config", config, "--run-id", RUN, *words)
        print(answer.err)
        return answer.code, answer.error

    assert ends("interactions.options.versionAsOf=123456") == (3, "MISSING_SNAPSHOT")
    assert ends("interactions.options.timestampAsOf=1999-01-01") == (3, "MISSING_SNAPSHOT")
    assert ends("interactions.options.snapshot-id=7") == (2, "UNSUPPORTED_INPUT")
    gone = "path" if lake.how == "path" else "table"
    assert ends(f"interactions.{gone}={tree['interactions'][gone]}_gone") == (3, "MISSING_INPUT")
    assert not (tmp_path / "on_lake" / "_commits").exists()


@pytest.mark.parametrize("lake", ["delta table", "iceberg table"], indirect=True)
def test_a_view_must_rest(
    lake: Lake, spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A view has no snapshot of its own: a commit to a table of it amid the run is named."""
    spark.table(lake.name("log")).where("item < 30").createOrReplaceTempView("some")
    tree = tree_on(lake, tmp_path) | {"interactions": {"table": "some", "timestamp_unit": "s"}}
    config = write_config(tmp_path / "there.yaml", tree)
    first, _ = run_id_of(config)
    spark.table(lake.name("log")).limit(5).writeTo(lake.name("log")).append()
    second, was_there = run_id_of(config)
    assert second != first
    assert not was_there
    check = Job.check_rest

    def commit_first(job: Job, session: Any) -> None:
        spark.table(lake.name("log")).limit(5).writeTo(lake.name("log")).append()
        check(job, session)

    with monkeypatch.context() as patch:
        patch.setattr(Job, "check_rest", commit_first)
        told = call("split", "--config", config, "--run-id", "other")
    assert (told.code, told.error) == (3, "INPUT_CHANGED_DURING_RUN")


def test_iceberg_on_hdfs_decides_between_drivers(
    hdfs: Hdfs, on_hdfs: str, spark: "SparkSession", tmp_path: Path
) -> None:
    """Tables on HDFS have the values of files; of two drivers at one run one publishes it."""
    if not pyspark.__version__.startswith(SPARK_OF_LAKE):
        pytest.skip(f"the pinned Iceberg is of Spark {SPARK_OF_LAKE}*: run by make test-stores")
    assert hdfs.n_live() == 2
    conf = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop", ".warehouse": f"{on_hdfs}/lake"}
    catalog = {f"spark.sql.catalog.far{key}": value for key, value in conf.items()}
    for key, value in catalog.items():
        spark.conf.set(key, value)
    write_inputs(tmp_path / "in")
    spark.sql("CREATE SCHEMA far.shop")
    for table in ("log", "lists"):
        spark.read.parquet(str(tmp_path / "in" / table)).writeTo(f"far.shop.{table}").using(
            "iceberg"
        ).create()
    tree = {
        **tree_of(str(tmp_path / "in"), str(tmp_path / "out")),
        "interactions": {"table": "far.shop.log", "timestamp_unit": "s"},
        "recommendations": {"table": "far.shop.lists"},
        "output": {"table": "far.evals"},
    }
    there = write_config(tmp_path / "there.yaml", tree)
    run_chain(
        call, write_config(tmp_path / "local.yaml", tree_of(str(tmp_path / "in"), str(tmp_path / "out")))
    )
    run_chain(call, there, "--to", str(tmp_path / "page.html"), is_repeated=False)
    values = hash_of(spark, str(tmp_path / "out"))
    assert hash_of(spark, "catalog://far.evals") == values
    of_driver = {"master": "local[1]", "conf": {**catalog, "spark.hadoop.dfs.replication": "2"}}
    own = write_config(tmp_path / "own.yaml", {**tree, "spark": of_driver})
    program = [str(Path(sys.executable).with_name("spark-eval")), "split", "--config", own]
    drivers = [
        subprocess.Popen(
            [*program, "--run-id", "both"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    ends = [driver.communicate(timeout=500) for driver in drivers]
    codes = sorted(driver.returncode for driver in drivers)
    is_late = codes == [0, 0] and "already published" in "".join(out for out, _ in ends)
    assert codes == [0, 4] or is_late, ends
    splits = [rows_of(spark, "catalog://far.evals", run_id=run_id) for run_id in (RUN, "both")]
    assert [row.replace("both", RUN) for row in splits[1]] == splits[0]
    assert spark.table("far.evals.splits").count() == 2 * 720
