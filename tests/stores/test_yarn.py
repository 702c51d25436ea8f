"""spark-submit on YARN over HDFS: exit codes in both modes; what a second attempt of an application finds."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.cli.conftest import call
from tests.cluster.conftest import REPOSITORY, build_package, environment, spark_home, until
from tests.stores.chain import RUN, failing, rows_of, tree_of, write_config, write_inputs
from tests.stores.conftest import Hdfs, Yarn, need_jars, put

from spark_eval import read_published
from spark_eval.runtime.hadoop_files import HadoopFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.stores, pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def yarn(hdfs: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    """A resource manager and a node manager over the HDFS of the ring."""
    servers = Yarn(tmp_path_factory.mktemp("yarn"), [*need_jars("hdfs"), *need_jars("yarn")], hdfs)
    try:
        yield servers
    finally:
        servers.stop()


class Submitted:
    """An application of one verb, as spark-submit ended and as YARN tells of it."""

    def __init__(self, yarn: Yarn, mode: str, verb: str, config: str, home: Path, *conf: str) -> None:
        package = build_package(home / "spark_eval.zip")
        python = sys.executable
        settings = [
            "spark.ui.enabled=false",
            f"spark.yarn.jars=local:{spark_home()}/jars/*",
            "spark.executor.instances=1",
            "spark.yarn.am.memory=512m",
            f"spark.yarn.appMasterEnv.PYSPARK_PYTHON={python}",
            f"spark.executorEnv.PYSPARK_PYTHON={python}",
            "spark.yarn.submit.waitAppCompletion=true",
            *conf,
        ]
        words = [word for setting in settings for word in ("--conf", setting)]
        files = ["--files", config] if mode == "cluster" else []
        named = Path(config).name if mode == "cluster" else config
        program = [str(spark_home() / "bin" / "spark-submit"), "--master", "yarn", "--deploy-mode", mode]
        memory = ["--driver-memory", "700m", "--executor-memory", "512m", "--py-files", str(package)]
        job = [str(REPOSITORY / "jobs" / f"{verb}.py"), "--config", named, "--run-id", RUN]
        self.yarn = yarn
        self.process = subprocess.Popen(
            [*program, *memory, *words, *files, *job],
            env=environment(HADOOP_CONF_DIR=str(yarn.conf), PYSPARK_PYTHON=python, HADOOP_USER_NAME="root"),
            cwd=home,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self) -> tuple[int, str]:
        """Wait for spark-submit; return its exit code and all that it said."""
        out, err = self.process.communicate(timeout=550)
        return self.process.returncode, out + err


def ready(on_hdfs: str, spark: "SparkSession", tmp_path: Path, **sections: object) -> str:
    """Put the inputs there, and write the config."""
    write_inputs(tmp_path / "in")
    put(spark, tmp_path / "in", f"{on_hdfs}/in")
    return write_config(tmp_path / "there.yaml", tree_of(f"{on_hdfs}/in", f"{on_hdfs}/out") | sections)


def test_cluster_mode_says_what_yarn_says(
    yarn: Yarn, on_hdfs: str, spark: "SparkSession", tmp_path: Path
) -> None:
    """spark-submit ends with 0 or 1; our own exit code is in the diagnostics of YARN alone."""
    config = ready(on_hdfs, spark, tmp_path)
    code, said = Submitted(yarn, "cluster", "split", config, tmp_path).end()
    assert code == 0, said
    assert read_published(spark, f"{on_hdfs}/out", "splits", [RUN]).count() == 720
    bad = write_config(tmp_path / "bad.yaml", failing(tree_of(f"{on_hdfs}/in", f"{on_hdfs}/out")))
    code, said = Submitted(yarn, "cluster", "evaluate", bad, tmp_path, "spark.yarn.maxAppAttempts=1").end()
    print(code, said[-1500:])
    assert code == 1
    assert "User application exited with status 5" in yarn.application(said)["diagnostics"]
    assert read_published(spark, f"{on_hdfs}/out", "gates", [RUN]).count() == 1


def test_client_mode_passes_our_exit_codes_and_outlives_an_executor(
    yarn: Yarn, on_hdfs: str, spark: "SparkSession", tmp_path: Path
) -> None:
    """The only executor is killed during a split, which has the rows of a local one."""
    config = ready(on_hdfs, spark, tmp_path)
    there = HadoopFiles(spark, f"{on_hdfs}/out")
    job = Submitted(yarn, "client", "split", config, tmp_path)
    until(lambda: there.names(f"{on_hdfs}/out/_staging"), 500, "attempt", 0.05)
    [executor] = yarn.pids("CoarseGrainedExecutorBackend")
    os.kill(executor, signal.SIGKILL)
    code, said = job.end()
    assert code == 0, said
    assert f"run {RUN} published" in said
    assert "Lost executor" in said
    local = write_config(tmp_path / "local.yaml", tree_of(str(tmp_path / "in"), str(tmp_path / "out")))
    assert call("split", "--config", local, "--run-id", RUN).code == 0
    here, away = (rows_of(spark, out) for out in (str(tmp_path / "out"), f"{on_hdfs}/out"))
    assert here == away
    bad = write_config(tmp_path / "bad.yaml", failing(tree_of(f"{on_hdfs}/in", f"{on_hdfs}/out")))
    code, said = Submitted(yarn, "client", "evaluate", bad, tmp_path).end()
    assert code == 5, said
    assert "error[GATE_FAILED]" in said


@pytest.mark.brief
def test_a_second_attempt_finishes_what_the_first_began(
    yarn: Yarn, on_hdfs: str, spark: "SparkSession", tmp_path: Path
) -> None:
    """The application master is killed while tables are staged: nothing is there twice."""
    config = ready(on_hdfs, spark, tmp_path)
    there = HadoopFiles(spark, f"{on_hdfs}/out")
    job = Submitted(yarn, "cluster", "split", config, tmp_path, "spark.yarn.maxAppAttempts=2")
    until(lambda: there.names(f"{on_hdfs}/out/_staging"), 500, "attempt", 0.05)
    [master] = yarn.pids("ApplicationMaster")
    os.kill(master, signal.SIGKILL)
    code, said = job.end()
    assert code == 0, said
    assert read_published(spark, f"{on_hdfs}/out", "splits", [RUN]).count() == 720
    assert yarn.n_attempts(said) == 2
