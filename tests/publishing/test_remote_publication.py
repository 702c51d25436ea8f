"""Publication through Hadoop, on a store that is not this machine's as far as Spark can tell (viewfs)."""

import time
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.stores.attempts import TABLES, begun, die_before_every_call, found, publish, unfinished, whole

from spark_eval import read_published
from spark_eval.arrow.checksums import key_sum
from spark_eval.config.inputs import Output, Source
from spark_eval.errors import BusyError, ConfigError, EnvironmentFault, SparkEvalError
from spark_eval.publishing import remote
from spark_eval.publishing.attempt import Attempt, Store
from spark_eval.publishing.commits import published
from spark_eval.publishing.local import LocalStore
from spark_eval.publishing.remote import HadoopStore
from spark_eval.publishing.stores import store_of
from spark_eval.publishing.verify import Expected
from spark_eval.runtime.hadoop_files import HadoopFiles
from spark_eval.schema import Table
from spark_eval.sources.listing import fingerprint

BOTH: Final = pytest.mark.parametrize("manifest", [False, True], ids=["renames", "manifest"])
# One of both by default, where the other does the same steps.
ONE: Final = pytest.mark.parametrize(
    "manifest",
    [pytest.param(False, marks=pytest.mark.slow, id="renames"), pytest.param(True, id="manifest")],
)


@pytest.fixture
def store(spark: SparkSession, tmp_path: Path) -> HadoopFiles:
    """A folder behind another scheme, under a name of its own."""
    (tmp_path / "store").mkdir()
    name = f"t{time.monotonic_ns()}"
    java: Any = spark
    mounts = java._jsc.hadoopConfiguration()
    mounts.set(f"fs.viewfs.mounttable.{name}.link./out", (tmp_path / "store").as_uri())
    return HadoopFiles(spark, f"viewfs://{name}/out")


@ONE
def test_runs_are_read_whole_with_their_names(store: HadoopFiles, manifest: bool) -> None:
    for run_id in ("2024-01-01", "7"):
        publish(store, manifest, run_id)
    hidden = begun(store, manifest, "hidden")
    assert found(store) == whole("2024-01-01", "7")
    rows = read_published(store.spark, store.root, "metrics", ["7"])
    assert {(row["run_id"], row["model"]) for row in rows.collect()} == {("7", "01")}
    assert [(record.run_id, record.verb) for record in published(store)] == [
        ("2024-01-01", "evaluate"),
        ("7", "evaluate"),
    ]
    assert unfinished(store) == [hidden.staging.folder]
    if not manifest:
        plain = store.spark.read.parquet(f"{store.root}/metrics")
        assert plain.count() == 2 * TABLES[Table.METRICS]
    hidden.__exit__()
    assert unfinished(store) == []


@ONE
def test_of_two_attempts_one_wins(store: HadoopFiles, manifest: bool) -> None:
    attempts = [begun(store, manifest) for _ in range(3)]
    attempts[1].publish(TABLES, {"fingerprint": "f"})
    for late in (attempts[0], attempts[2]):
        with pytest.raises(BusyError, match=r"RUN_BUSY.*was faster") as raised:
            late.publish(TABLES, {"fingerprint": "f"})
        assert raised.value.exit_code == 4
        late.__exit__()
    [record] = published(store)
    assert record.job["attempt"] == attempts[1].staging.name
    assert found(store) == whole("a")
    with Attempt(HadoopStore(store, manifest=manifest), "a", "evaluate") as again:
        assert again.is_published("f", TABLES, replace=False)


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "refused"])
def test_death_before_every_call(store: HadoopFiles, manifest: bool, is_killed: bool) -> None:
    """Whoever is next, at the same run or another, leaves each table there once; also after an error."""
    n_points, published = die_before_every_call(store, manifest, is_killed)
    print(f"{n_points} points, at {published} of them published already; 0 bad")
    assert n_points >= (8 if manifest else 17)


def test_a_manifest_replaces_in_one_step_and_a_rename_does_not(store: HadoopFiles) -> None:
    first = publish(store, True, fingerprint="f")
    with Attempt(HadoopStore(store, manifest=True), "a", "evaluate") as attempt:
        with pytest.raises(ConfigError, match=r"RUN_EXISTS.*other content"):
            attempt.is_published("g", TABLES, replace=False)
        assert not attempt.is_published("g", TABLES, replace=True)
    second = publish(store, True, fingerprint="g")
    assert found(store) == whole("a")
    [record] = published(store)
    assert (record.job["attempt"], record.job["fingerprint"]) == (second.staging.name, "g")
    # Whoever had begun to read goes on.
    assert store.spark.read.parquet(first.staged(Table.METRICS)).count() == TABLES[Table.METRICS]
    publish(store, False, "b", "f")
    with (
        Attempt(HadoopStore(store, manifest=False), "b", "evaluate") as attempt,
        pytest.raises(EnvironmentFault, match="CANNOT_SWAP"),
    ):
        attempt.is_published("g", TABLES, replace=True)


def test_a_run_that_is_published_in_both_ways_is_read_once(spark: SparkSession, tmp_path: Path) -> None:
    files = HadoopFiles(spark, f"file://{tmp_path}")

    def write(store: Store, n_rows: int, fingerprint: str) -> None:
        with Attempt(store, "a", "evaluate") as attempt:
            folder = Path(attempt.staged(Table.METRICS).removeprefix("file://"), "model=01")
            folder.mkdir(parents=True)
            pq.write_table(pa.table({"row": list(range(n_rows))}), folder / "0.parquet")
            attempt.publish({Table.METRICS: n_rows}, {"fingerprint": fingerprint})

    write(LocalStore(tmp_path), 2, "f")
    by_manifest = HadoopStore(files, manifest=True)
    with Attempt(by_manifest, "a", "evaluate") as again:
        assert again.is_published("f", [Table.METRICS], replace=False)
        assert again.path_of(Table.METRICS) == f"file://{tmp_path}/metrics/run_id=a"
    write(by_manifest, 3, "g")
    assert read_published(spark, str(tmp_path), "metrics").count() == 3
    with Attempt(LocalStore(tmp_path), "a", "evaluate") as again:
        assert again.is_published("g", [Table.METRICS], replace=False)


@ONE
def test_what_is_out_of_use_is_cleared_away_in_the_end(
    store: HadoopFiles, manifest: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = begun(store, manifest)
    publish(store, manifest)
    assert unfinished(store) == [dead.staging.folder]
    monkeypatch.setattr(remote, "MOST_HOURS", -1)
    with Attempt(HadoopStore(store, manifest=manifest), "a", "evaluate") as attempt:
        assert attempt.recovered == [dead.staging.name]
    assert unfinished(store) == []
    assert found(store) == whole("a")


def test_a_table_of_unknown_origin_is_not_published_over(store: HadoopFiles) -> None:
    attempt = begun(store, False)
    store.spark.range(7).write.parquet(f"{store.root}/metrics/run_id=a")
    with pytest.raises(EnvironmentFault, match=r"FILE_SYSTEM.*cannot be renamed"):
        attempt.publish(TABLES, {"fingerprint": "f"})
    with pytest.raises(ConfigError, match=r"RUN_EXISTS.*unknown origin \(metrics\)"):
        attempt.is_published("f", TABLES, replace=False)


@ONE
def test_what_is_not_what_was_counted_is_not_published(store: HadoopFiles, manifest: bool) -> None:
    attempt = begun(store, manifest)
    for n_rows in (2, 4):
        with pytest.raises(SparkEvalError, match=r"STAGED_OTHERWISE.*found are 3"):
            attempt.publish({**TABLES, Table.METRICS: n_rows}, {"fingerprint": "f"})
    attempt = begun(store, manifest, "b")
    store.spark.createDataFrame([(0.5,), (1.5,)], "ap double").write.parquet(attempt.staged(Table.PER_USER))
    tables = {**TABLES, Table.PER_USER: 2}
    with pytest.raises(SparkEvalError, match=r"STAGED_OTHERWISE.*ap goes from 0.5 to 1.5"):
        attempt.publish(tables, {"fingerprint": "f"}, Expected({"ap": (0, 1.0)}))
    attempt = begun(store, manifest, "c")
    columns = "model string, user long, n_relevant long, n_recommended long"
    rows = store.spark.createDataFrame([("10", 1, 2, 3), ("a", 1, 2, 3)], columns)
    rows.write.partitionBy("model").parquet(attempt.staged(Table.PER_USER))
    table = rows.drop("model").limit(1).toArrow()
    with pytest.raises(SparkEvalError, match=r"STAGED_OTHERWISE.*not those that were measured"):
        attempt.publish(tables, {"fingerprint": "f"}, Expected(keys=2 * key_sum("a", table)))
    assert found(store) == {}
    attempt.publish(tables, {"fingerprint": "f"}, Expected(keys=key_sum("10", table) + key_sum("a", table)))


def test_stores_without_renames_need_the_manifest(spark: SparkSession, tmp_path: Path) -> None:
    assert isinstance(store_of(Output(path=str(tmp_path)), lambda: spark), LocalStore)
    by_manifest = store_of(Output(path=str(tmp_path), manifest=True), lambda: spark)
    assert isinstance(by_manifest, HadoopStore)
    assert by_manifest.manifest
    assert by_manifest.files.root == f"file://{tmp_path}"
    with pytest.raises(ConfigError, match=r"UNSUPPORTED_OUTPUT.*output.manifest: true"):
        store_of(Output(path="s3a://bucket/out"), lambda: spark)
    with pytest.raises(ConfigError, match=r"UNREACHABLE_STORE.*S3A"):
        store_of(Output(path="s3a://bucket/out", manifest=True), lambda: spark)


def test_the_content_of_remote_files_is_known_by_names_sizes_and_times(store: HadoopFiles) -> None:
    path = f"{store.root}/lists"

    def content() -> list[tuple[Any, ...]]:
        return fingerprint(Source(path=path), lambda: store.spark)

    assert content() == []
    store.spark.range(3, numPartitions=2).write.parquet(path)
    before = content()
    assert len(before) == 2
    store.write_new(f"{path}/_hidden", "x", f"{store.root}/drafts/one")
    assert content() == before
    store.spark.range(1).coalesce(1).write.mode("append").parquet(path)
    assert len(content()) == 3
