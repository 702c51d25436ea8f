"""Runs on S3 by manifest: values of a local disk, conditional writes, kills, races, faults of the server."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.conftest import call
from tests.stores.attempts import die_before_every_call, found, race, whole
from tests.stores.chain import RUN, hash_of, run_chain, tree_of, write_config, write_inputs
from tests.stores.conftest import S3, put

from spark_eval.runtime.hadoop_files import CREATE_IF_FREE, HadoopFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.stores, pytest.mark.timeout(1800)]
ROUNDS = 50


def test_the_server_keeps_the_promise_that_records_rest_on(on_s3: str, spark: "SparkSession") -> None:
    """Of eight conditional writes at once to a free name one is made; a listing then has it at once."""
    files = HadoopFiles(spark, on_s3)
    path = files.fs.Path(f"{on_s3}/x")
    assert path.getFileSystem(files.conf).hasPathCapability(path, CREATE_IF_FREE)
    for number in range(5):

        def write(text: str, name: str = f"{on_s3}/{number}/name") -> bool:
            return files.write_new(name, text, f"{on_s3}/drafts/{text}")

        with ThreadPoolExecutor(8) as pool:
            written = list(pool.map(write, "abcdefgh"))
        assert sum(written) == 1
        assert files.read(f"{on_s3}/{number}/name") == "abcdefgh"[written.index(True)]
        assert files.names(f"{on_s3}/{number}") == ["name"]


@pytest.mark.brief
def test_the_whole_chain_gives_the_values_of_a_local_disk(
    s3: S3, on_s3: str, spark: "SparkSession", tmp_path: Path
) -> None:
    write_inputs(tmp_path / "in")
    put(spark, tmp_path / "in", f"{on_s3}/in")
    local = write_config(tmp_path / "local.yaml", tree_of(str(tmp_path / "in"), str(tmp_path / "out")))
    there = write_config(tmp_path / "there.yaml", tree_of(f"{on_s3}/in", f"{on_s3}/out", manifest=True))
    run_chain(call, local)
    counts: list[tuple[str, dict[str, int]]] = []

    def counted(verb: str, *words: str) -> Any:
        s3.ask("_counts")
        done = call(verb, *words)
        counts.append((verb, s3.ask("_counts")))
        return done

    assert len(run_chain(counted, there)["runs"]) == 3
    for verb, requests in counts:
        print(verb, sum(requests.values()), requests)
    assert hash_of(spark, f"{on_s3}/out") == hash_of(spark, str(tmp_path / "out"))


@pytest.mark.brief
@pytest.mark.parametrize(
    "is_killed", [True, pytest.param(False, marks=pytest.mark.exhaustive)], ids=["killed", "refused"]
)
def test_death_before_every_call(on_s3: str, spark: "SparkSession", is_killed: bool) -> None:
    n_points, published = die_before_every_call(HadoopFiles(spark, f"{on_s3}/out"), True, is_killed)
    print(f"{n_points} points, at {published} of them published already; 0 bad")
    assert n_points >= 5


def test_of_two_attempts_that_publish_at_once_one_wins(on_s3: str, spark: "SparkSession") -> None:
    files = HadoopFiles(spark, f"{on_s3}/out")
    run_ids = [f"r{number:02}" for number in range(ROUNDS)]
    for run_id in run_ids:
        assert race(files, True, run_id) == ["RUN_BUSY", "published"]
    assert found(files) == whole(*run_ids)


def test_errors_have_names_and_say_whether_to_retry(
    s3: S3, on_s3: str, spark: "SparkSession", tmp_path: Path
) -> None:
    """One line each, without the key; nothing is published, and the same command then succeeds."""
    write_inputs(tmp_path / "in")
    put(spark, tmp_path / "in", f"{on_s3}/in")
    config = write_config(tmp_path / "there.yaml", tree_of(f"{on_s3}/in", f"{on_s3}/out", manifest=True))

    def ends(*settings: str) -> tuple[int, str]:
        words = [word for setting in settings for word in ("--set", setting)]
        answer = call("split", "--config", config, "--run-id", RUN, *words)
        print(answer.err)
        assert "testing" not in answer.err
        return answer.code, answer.error

    assert ends("output.path=s3a://no-such-bucket/out") == (2, "UNREACHABLE_STORE")
    assert ends("interactions.path=s3a://no-such-bucket/log") == (2, "UNREACHABLE_STORE")
    assert ends(f"interactions.path={on_s3}/nothing") == (3, "MISSING_INPUT")
    for status, code, end in (
        (503, "SlowDown", (1, "STORE_DOWN")),
        (500, "InternalError", (1, "STORE_DOWN")),
        (403, "AccessDenied", (2, "STORE_DENIED")),
        (400, "ExpiredToken", (2, "STORE_DENIED")),
    ):
        for method, path in (("GET", "bucket"), ("PUT", "/out/_runs"), ("PUT", "_commits")):
            s3.fail(method, path, 30, status, code)
            assert ends() == end, (status, method, path)
            s3.heal()
    assert HadoopFiles(spark, f"{on_s3}/out").names(f"{on_s3}/out/_commits") == []
    # A connection that ends in mid-body: whatever comes of it, the next attempt finds nothing in its way.
    s3.fail("GET", "/in/log", 1, 0)
    dropped = call("split", "--config", config, "--run-id", RUN)
    print(dropped)
    s3.heal()
    assert HadoopFiles(spark, f"{on_s3}/out").names(f"{on_s3}/out/_commits") == [RUN] * (dropped.code == 0)
    assert call("split", "--config", config, "--run-id", RUN).code == 0


def test_a_dropped_connection_is_no_damaged_file(
    s3: S3, on_s3: str, spark: "SparkSession", tmp_path: Path
) -> None:
    """A retry fixes it, so it is STORE_DOWN, exit 1; a file that is damaged stays CORRUPT_FILE, exit 3."""
    write_inputs(tmp_path / "in")
    put(spark, tmp_path / "in", f"{on_s3}/in")
    config = write_config(tmp_path / "there.yaml", tree_of(f"{on_s3}/in", f"{on_s3}/out", manifest=True))

    def ends() -> tuple[int, str]:
        answer = call("split", "--config", config, "--run-id", RUN)
        print(answer.err)
        return answer.code, answer.error

    s3.fail("GET", "/in/log/", 30, 0)
    assert ends() == (1, "STORE_DOWN")
    s3.heal()
    assert HadoopFiles(spark, f"{on_s3}/out").names(f"{on_s3}/out/_commits") == []
    damaged = tmp_path / "in" / "log" / "3.parquet"
    damaged.write_bytes((tmp_path / "in" / "log" / "0.parquet").read_bytes()[:-9] + b"no footer")
    put(spark, damaged, f"{on_s3}/in/log/3.parquet")
    assert ends() == (3, "CORRUPT_FILE")


def test_a_folder_of_ten_thousand_objects(s3: S3, on_s3: str, spark: "SparkSession") -> None:
    """It is listed whole, page by page, and no object is asked for alone."""
    s3.ask("_fill", {"bucket": "bucket", "folder": f"{on_s3.rpartition('/')[2]}/many", "n": 10_000})
    s3.ask("_counts")
    found = HadoopFiles(spark, on_s3).files_below(f"{on_s3}/many")
    assert len({path for path, *_ in found}) == 10_000
    counts = s3.ask("_counts")
    assert sum(counts.values()) <= 20, counts
