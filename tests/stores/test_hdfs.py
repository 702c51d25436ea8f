"""Runs on HDFS: the values of a local disk, and publication under kill -9."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlparse

import pytest
from tests.cli.conftest import call
from tests.cluster.conftest import REPOSITORY, until
from tests.stores.attempts import die_before_every_call, found, race, whole
from tests.stores.chain import RUN, hash_of, run_chain, tree_of, write_config, write_inputs
from tests.stores.conftest import SECONDS, Hdfs, put

from spark_eval import read_published
from spark_eval.publishing.remote import HadoopStore
from spark_eval.runtime.hadoop_files import HadoopFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.stores, pytest.mark.timeout(1800)]
ROUNDS = 50
# The call before which a driver dies: without an intent, and amid the renames that it intended.
WITHOUT_INTENT, WITH_INTENT = "write_new:1", "rename:3"


def test_the_whole_chain_gives_the_values_of_a_local_disk(
    on_hdfs: str, spark: "SparkSession", tmp_path: Path
) -> None:
    write_inputs(tmp_path / "in")
    put(spark, tmp_path / "in", f"{on_hdfs}/in")
    local = write_config(tmp_path / "local.yaml", tree_of(str(tmp_path / "in"), str(tmp_path / "out")))
    there = write_config(tmp_path / "there.yaml", tree_of(f"{on_hdfs}/in", f"{on_hdfs}/out"))
    told = [run_chain(call, config) for config in (local, there)]
    assert [len(one["runs"]) for one in told] == [3, 3]
    assert hash_of(spark, f"{on_hdfs}/out") == hash_of(spark, str(tmp_path / "out"))
    page = HadoopFiles(spark, f"{on_hdfs}/out").read(f"{on_hdfs}/out/report/2024-05-01.html")
    assert page
    assert "</html>" in page


@pytest.mark.parametrize(
    "is_killed", [True, pytest.param(False, marks=pytest.mark.exhaustive)], ids=["killed", "refused"]
)
def test_death_before_every_call(on_hdfs: str, spark: "SparkSession", is_killed: bool) -> None:
    """Whoever is next leaves each table there once."""
    files = HadoopFiles(spark, f"{on_hdfs}/out")
    n_points, published = die_before_every_call(files, False, is_killed)
    print(f"{n_points} points, at {published} of them published already; 0 bad")
    assert n_points >= 17


def test_of_two_attempts_that_publish_at_once_one_wins(on_hdfs: str, spark: "SparkSession") -> None:
    """The other ends with 4; readers find one whole run."""
    files = HadoopFiles(spark, f"{on_hdfs}/out")
    run_ids = [f"r{number:02}" for number in range(ROUNDS)]
    for run_id in run_ids:
        assert race(files, False, run_id) == ["RUN_BUSY", "published"]
    assert found(files) == whole(*run_ids)


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(WITHOUT_INTENT, id="intent"),
        pytest.param(WITH_INTENT, id="renames", marks=pytest.mark.slow),
    ],
)
def test_kill_minus_nine_of_a_driver_amid_publication(
    on_hdfs: str, spark: "SparkSession", tmp_path: Path, moment: str
) -> None:
    """A process dies at a call of its publication; the same command again leaves the run there, once."""
    write_inputs(tmp_path / "in")
    put(spark, tmp_path / "in", f"{on_hdfs}/in")
    config = write_config(tmp_path / "there.yaml", tree_of(f"{on_hdfs}/in", f"{on_hdfs}/out"))
    assert call("split", "--config", config, "--run-id", RUN).code == 0
    assert call("evaluate", "--config", config, "--run-id", RUN).code == 0
    words = [
        "evaluate",
        "--config",
        config,
        "--run-id",
        "killed",
        "--set",
        f"truth.path={on_hdfs}/out/splits/run_id={RUN}",
    ]
    words += ["--set", "truth.subset=global_test", "--set", "spark.master='local[1]'"]
    victim = subprocess.run(
        [sys.executable, "-m", "tests.stores.dying", moment, *words],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )
    assert victim.returncode == -signal.SIGKILL, victim.stderr
    assert len(HadoopStore(HadoopFiles(spark, f"{on_hdfs}/out"), manifest=False).unfinished()) == 1
    again = call(*words)
    assert (again.code, again.err) == (0, "")
    # An attempt with an intent is finished at once; another one is cleared away once it is surely dead.
    assert ("cleared away" in again.out) == (moment == WITH_INTENT)
    for table in ("per_user", "metrics", "sums"):
        one, two = (
            read_published(spark, f"{on_hdfs}/out", table, [run]).drop("run_id") for run in (RUN, "killed")
        )
        assert sorted(map(str, one.collect())) == sorted(map(str, two.collect()))


def test_errors_have_names_and_say_whether_to_retry(
    hdfs: Hdfs, on_hdfs: str, spark: "SparkSession", tmp_path: Path
) -> None:
    """One line each: exit 1 where a retry can help, else 2; and nothing is published."""
    write_inputs(tmp_path / "in")
    put(spark, tmp_path / "in", f"{on_hdfs}/in")
    folder = urlparse(on_hdfs).path
    config = write_config(tmp_path / "there.yaml", tree_of(f"{on_hdfs}/in", f"{on_hdfs}/out"))

    def ends(**output: str) -> tuple[int, str]:
        answer = call(
            "split", "--config", config, "--run-id", RUN, *(f"--set={k}={v}" for k, v in output.items())
        )
        print(answer.err)
        return answer.code, answer.error

    hdfs.shell("-mkdir", f"{folder}/theirs")
    hdfs.shell("-chmod", "700", f"{folder}/theirs")
    assert ends(**{"output.path": f"{on_hdfs}/theirs/out"}) == (2, "STORE_DENIED")
    assert ends(**{"interactions.path": f"{on_hdfs}/theirs/log"}) == (2, "STORE_DENIED")
    hdfs.shell("-mkdir", "-p", f"{folder}/few")
    hdfs.shell("-chmod", "777", f"{folder}/few")
    hdfs.admin("-setQuota", "4", f"{folder}/few")
    assert ends(**{"output.path": f"{on_hdfs}/few/out"}) == (1, "STORE_FULL")
    hdfs.shell("-mkdir", "-p", f"{folder}/small")
    hdfs.shell("-chmod", "777", f"{folder}/small")
    hdfs.admin("-setSpaceQuota", "1000", f"{folder}/small")
    assert ends(**{"output.path": f"{on_hdfs}/small/out"}) == (1, "STORE_FULL")
    hdfs.admin("-safemode", "enter")
    assert ends() == (1, "STORE_DOWN")
    hdfs.admin("-safemode", "leave")
    assert ends(**{"output.path": "hdfs://no-such-host.invalid:8020/out"}) == (1, "STORE_DOWN")
    assert ends(**{"interactions.path": f"{on_hdfs}/nothing"}) == (3, "MISSING_INPUT")
    assert HadoopFiles(spark, f"{on_hdfs}/out").names(f"{on_hdfs}/out/_commits") == []
    hdfs.kill("name")
    try:
        assert ends() == (1, "STORE_DOWN")
    finally:
        hdfs.start_name_node()
        until(lambda: hdfs.n_live() == 2, SECONDS, "two data nodes")
        hdfs.admin("-safemode", "wait")
    assert call("split", "--config", config, "--run-id", RUN).code == 0


def test_a_lost_data_node_changes_nothing(
    hdfs: Hdfs, on_hdfs: str, spark: "SparkSession", tmp_path: Path
) -> None:
    """It dies while tables are written; the other has them all, with the values of a local disk."""
    write_inputs(tmp_path / "in")
    put(spark, tmp_path / "in", f"{on_hdfs}/in")
    local = write_config(tmp_path / "local.yaml", tree_of(str(tmp_path / "in"), str(tmp_path / "out")))
    there = write_config(tmp_path / "there.yaml", tree_of(f"{on_hdfs}/in", f"{on_hdfs}/out"))
    killed: list[str] = []

    def kill(files: HadoopFiles, path: str, *rest: str) -> bool:
        if not killed:
            killed.append(path)
            hdfs.kill("data1")
        return write_new(files, path, *rest)

    write_new = HadoopFiles.write_new
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(HadoopFiles, "write_new", kill)
            told = run_chain(call, there)
    finally:
        if killed:
            hdfs.start_data_node("data1")
            until(lambda: hdfs.n_live() == 2, SECONDS, "two data nodes")
    assert killed
    assert not told["damaged"]
    run_chain(call, local)
    assert hash_of(spark, f"{on_hdfs}/out") == hash_of(spark, str(tmp_path / "out"))
