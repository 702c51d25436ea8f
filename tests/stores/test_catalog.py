"""Results as tables of a catalog, Iceberg or Delta: whole runs, at kills and races, too."""

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING, Any, Final

import pyspark
import pytest
from tests.cli.conftest import call
from tests.stores.attempts import Killed
from tests.stores.chain import RUN, failing, hash_of, run_chain, tree_of, write_config, write_inputs
from tests.stores.conftest import SPARK_OF_LAKE, need_jars

from spark_eval import read_published
from spark_eval.errors import BusyError
from spark_eval.publishing.attempt import Attempt
from spark_eval.publishing.catalog import CatalogStore
from spark_eval.publishing.published import published_tables
from spark_eval.schema import Table
from spark_eval.tables.catalog_tables import CatalogTables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.stores, pytest.mark.timeout(1800)]
CATALOGS: Final = {"iceberg": "lake", "delta": "spark_catalog"}
SIZES: Final = {Table.METRICS: 3, Table.ACCOUNTING: 2}
# What publication asks of a catalog.
CALLS: Final = ("register", "fitting", "create", "append", "commits", "attempts", "rows", "commit", "remove")


@pytest.fixture(params=CATALOGS)
def schema(spark: "SparkSession", tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A schema of the test's own, which is not there yet."""
    if not pyspark.__version__.startswith(SPARK_OF_LAKE):
        pytest.skip(f"the pinned Delta and Iceberg are of Spark {SPARK_OF_LAKE}*: run by make test-stores")
    need_jars("lake")
    name = f"{CATALOGS[request.param]}.{tmp_path.name.replace('-', '_')}"
    assert not spark.catalog.databaseExists(name)
    return name


def store_of_test(spark: "SparkSession", schema: str) -> CatalogStore:
    """The store of a process that begins."""
    return CatalogStore(CatalogTables.of(spark, schema, None))


def tree_in(schema: str, home: Path) -> dict[str, Any]:
    """Return the config of the chain with local inputs and tables of a catalog."""
    tree = tree_of(str(home / "in"), "")
    tree["output"] = {"table": schema}
    return tree


def in_sql(spark: "SparkSession", schema: str, table: str) -> "DataFrame":
    """Return the rows that count, as a user of SQL asks for them."""
    name = f"{schema}.{table}"
    return spark.sql(f"SELECT t.* FROM {name} t LEFT SEMI JOIN {schema}.commits c ON t.attempt = c.attempt")


def test_the_whole_chain_gives_the_values_of_files(
    schema: str, spark: "SparkSession", tmp_path: Path
) -> None:
    write_inputs(tmp_path / "in")
    local = write_config(tmp_path / "local.yaml", tree_of(str(tmp_path / "in"), str(tmp_path / "out")))
    there = write_config(tmp_path / "there.yaml", tree_in(schema, tmp_path))
    run_chain(call, local)
    status = run_chain(call, there, "--to", str(tmp_path / "page.html"))
    assert status["root"] == f"catalog://{schema}"
    assert [run["verb"] for run in status["runs"]] == ["compare", "evaluate", "split"]
    assert [run["damage"] for run in status["runs"]] == [None, None, None]
    assert status["attempts"] == []
    assert RUN in (tmp_path / "page.html").read_text()
    assert hash_of(spark, f"catalog://{schema}") == hash_of(spark, str(tmp_path / "out"))
    for table in ("metrics", "per_user", "splits", "gates"):
        rows = in_sql(spark, schema, table)
        assert {row.run_id for row in rows.select("run_id").distinct().collect()} == {RUN}
        assert rows.count() == read_published(spark, str(tmp_path / "out"), table).count()
    told = call("report", "--config", there, "--run-id", RUN)
    assert (told.code, told.error) == (2, "UNSUPPORTED_OUTPUT")


def test_a_run_is_replaced_in_one_commit(schema: str, spark: "SparkSession", tmp_path: Path) -> None:
    """Other columns, other gates; exit codes are those of files, and no row of the replaced run is left."""
    write_inputs(tmp_path / "in")
    tree = tree_in(schema, tmp_path)
    config = write_config(tmp_path / "there.yaml", tree)
    assert call("split", "--config", config, "--run-id", RUN).code == 0
    assert call("evaluate", "--config", config, "--run-id", RUN).code == 0
    before = read_published(spark, f"catalog://{schema}", "metrics", [RUN])
    n_before = before.count()
    tree["evaluate"] = {"k": [5], "metrics": ["hit_rate"]}
    other = write_config(tmp_path / "other.yaml", {**tree, "gates": []})
    told = call("evaluate", "--config", other, "--run-id", RUN)
    assert (told.code, told.error) == (2, "RUN_EXISTS")
    assert call("evaluate", "--config", other, "--run-id", "second").code == 3  # it has no split
    assert call("evaluate", "--config", other, "--run-id", RUN, "--replace").code == 0
    now = read_published(spark, f"catalog://{schema}", "metrics", [RUN])
    assert {row.metric for row in now.select("metric").distinct().collect()} == {"hit_rate"}
    assert before.count() == n_before  # a reader keeps the run that it has opened
    assert {row.metric for row in spark.table(f"{schema}.metrics").collect()} == {"hit_rate"}
    users = read_published(spark, f"catalog://{schema}", "per_user", [RUN]).columns
    assert "hit_rate_at_5" in users
    assert "ndcg_at_10" not in users
    failed = write_config(tmp_path / "failed.yaml", failing(tree_in(schema, tmp_path)))
    told = call("evaluate", "--config", failed, "--run-id", RUN, "--replace")
    assert (told.code, told.error) == (5, "GATE_FAILED")
    told = call("evaluate", "--config", failed, "--run-id", RUN)
    assert (told.code, told.error) == (5, "GATE_FAILED")
    assert spark.table(f"{schema}.attempts").count() == spark.table(f"{schema}.commits").count() == 3


def begun(spark: "SparkSession", schema: str, run_id: str, n_more: int = 0) -> Attempt:
    """An attempt that has written its tables."""
    attempt = Attempt(store_of_test(spark, schema), run_id, "evaluate")
    attempt.__enter__()
    for table, n_rows in SIZES.items():
        attempt.staged(table).append(spark.range(n_rows + n_more).withColumnRenamed("id", "row"))  # type: ignore[attr-defined]
    return attempt


def sizes(n_more: int = 0) -> dict[Table, int]:
    """The numbers of rows of the tables."""
    return {table: n_rows + n_more for table, n_rows in SIZES.items()}


def publish(spark: "SparkSession", schema: str, run_id: str, n_more: int = 0) -> None:
    """All of it."""
    attempt = begun(spark, schema, run_id, n_more)
    attempt.publish(sizes(n_more), {"fingerprint": f"f{n_more}"})
    attempt.__exit__()


def found(spark: "SparkSession", schema: str) -> Mapping[tuple[str, Table], int]:
    """The rows that are published, by run and table."""
    counts = Counter[tuple[str, Table]]()
    tables = published_tables(CatalogTables(spark, f"catalog://{schema}"))
    for table in SIZES:
        if wanted := [run_id for run_id in tables if table in tables[run_id]]:
            rows = read_published(spark, f"catalog://{schema}", table, wanted)
            counts.update((row["run_id"], table) for row in rows.collect())
    return counts


def whole(run_id: str, n_more: int = 0) -> Mapping[tuple[str, Table], int]:
    """The same of a run that is whole, once."""
    return {(run_id, table): n_rows for table, n_rows in sizes(n_more).items()}


def counted_down(patch: pytest.MonkeyPatch, n_calls: int) -> list[str]:
    """Let so many calls to the catalog pass, then die before every one; empty once that has happened."""
    left = ["alive"] * (n_calls + 1)

    def dying(name: str) -> Any:
        original = getattr(CatalogTables, name)

        def calling(*arguments: Any, **named: Any) -> Any:
            if left:
                left.pop()
            if not left:
                raise Killed(name)
            return original(*arguments, **named)

        return calling

    for name in CALLS:
        patch.setattr(CatalogTables, name, dying(name))
    return left


@pytest.mark.parametrize("step", [8, pytest.param(1, marks=pytest.mark.exhaustive)], ids=["some", "every"])
def test_killed_before_a_call_and_tried_again(schema: str, spark: "SparkSession", step: int) -> None:
    """A run is replaced by one with a row more, each time; the attempt dies some calls later each time."""
    publish(spark, schema, "a")
    n_published = n_dead = 0
    n_more = 0
    for point in range(0, 100, step):
        with pytest.MonkeyPatch.context() as patch:
            left = counted_down(patch, point)
            try:
                publish(spark, schema, "a", n_more + 1)
            except Killed:
                assert left == []
                n_dead += 1
            else:
                n_more += 1
                break
        now = found(spark, schema)
        assert now in (whole("a", n_more), whole("a", n_more + 1))
        is_done = now == whole("a", n_more + 1)
        n_published += is_done
        n_more += 1
        with Attempt(store_of_test(spark, schema), "a", "evaluate") as again:
            assert again.is_published(f"f{n_more}", SIZES, replace=True) == is_done
        if not is_done:
            publish(spark, schema, "a", n_more)
        assert found(spark, schema) == whole("a", n_more)
    assert n_dead * step > 12
    assert n_published < n_dead
    assert n_published or step > 1
    assert found(spark, schema) == whole("a", n_more)
    # Neither dead nor replaced attempts have left a row.
    assert spark.table(f"{schema}.attempts").count() == 1
    for table, n_rows in sizes(n_more).items():
        assert spark.table(f"{schema}.{table}").count() == n_rows


def race(spark: "SparkSession", schema: str, run_id: str) -> list[str]:
    """Let two attempts at a run publish at once; return how they end, sorted."""
    attempts = [begun(spark, schema, run_id, n_more) for n_more in (0, 1)]
    start = Barrier(2)

    def end(n_more: int) -> str:
        start.wait()
        try:
            attempts[n_more].publish(sizes(n_more), {"fingerprint": "f"})
        except BusyError as error:
            return error.code
        finally:
            attempts[n_more].__exit__()
        return "published"

    with ThreadPoolExecutor(2) as pool:
        return sorted(pool.map(end, (0, 1)))


@pytest.mark.parametrize("n_times", [2, pytest.param(50, marks=pytest.mark.exhaustive)], ids=["few", "many"])
def test_of_two_attempts_one_wins(schema: str, spark: "SparkSession", n_times: int) -> None:
    """A run that is new, then the same run replaced; the loser leaves no row."""
    for number in range(n_times):
        assert race(spark, schema, f"r{number // 2}") == ["RUN_BUSY", "published"]
        won = spark.table(f"{schema}.metrics").where(f"run_id = 'r{number // 2}'").count() - 3
        mine = {key: rows for key, rows in found(spark, schema).items() if key[0] == f"r{number // 2}"}
        assert mine == whole(f"r{number // 2}", won)
    assert spark.table(f"{schema}.attempts").count() == spark.table(f"{schema}.commits").count()


def test_errors_have_names(schema: str, spark: "SparkSession", tmp_path: Path) -> None:
    write_inputs(tmp_path / "in")
    config = write_config(tmp_path / "there.yaml", tree_in(schema, tmp_path))

    def ends(*settings: str) -> tuple[int, str]:
        words = [word for setting in settings for word in ("--set", setting)]
        answer = call("split", "--config", config, "--run-id", RUN, *words)
        print(answer.err)
        return answer.code, answer.error

    assert ends("output.table=nowhere.evals") == (2, "UNSUPPORTED_OUTPUT")
    assert ends("output.table=lake") == (2, "INVALID_CONFIG")
    assert ends("output.path=out") == (2, "INVALID_CONFIG")
    assert ends("report=true") == (2, "UNSUPPORTED_OUTPUT")
    assert call("split", "--config", config, "--run-id", RUN).code == 0
    users = spark.read.parquet(str(tmp_path / "in" / "log")).selectExpr(
        "cast(user AS string) AS user", "item", "timestamp", "relevance"
    )
    users.write.parquet(str(tmp_path / "in" / "text"))
    words = ("--set", f"interactions.path={tmp_path / 'in' / 'text'}")
    told = call("split", "--config", config, "--run-id", "other", *words)
    assert (told.code, told.error) == (2, "UNSUPPORTED_OUTPUT")
    assert "splits.user is bigint in output.table, and string in this run" in told.err
    assert spark.table(f"{schema}.attempts").count() == 1
