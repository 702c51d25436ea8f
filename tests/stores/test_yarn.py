"""spark-submit on YARN over HDFS: exit codes in both modes, lost nodes, what a second attempt finds."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest
from tests.cli.conftest import call
from tests.cluster.conftest import REPOSITORY, build_package, environment, spark_home, until
from tests.stores.chain import RUN, failing, rows_of, tree_of, write_config, write_inputs
from tests.stores.conftest import NODES, SECONDS, Hdfs, Yarn, need_jars, put

from spark_eval import read_published
from spark_eval.runtime.hadoop_files import HadoopFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.stores, pytest.mark.slow, pytest.mark.timeout(1200)]
PYTHON: Final = sys.executable
UNPACKED: Final = "./environment/bin/python"
TWO_ATTEMPTS: Final = "spark.yarn.maxAppAttempts=2"
MODES: Final = ("client", "cluster")
# What a split is told so that it ends with a code, and the name of its error.
FAILURES: Final = {
    1: ("output.path=hdfs://no-such-host.invalid:8020/out", "STORE_DOWN"),
    2: ("split.no_such_key=1", "UNKNOWN_CONFIG_KEY"),
    3: ("interactions.path=hdfs:///no/such/folder", "MISSING_INPUT"),
}


@pytest.fixture(scope="module")
def yarn(hdfs: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    """A resource manager and two node managers over the HDFS of the ring."""
    servers = Yarn(tmp_path_factory.mktemp("yarn"), [*need_jars("hdfs"), *need_jars("yarn")], hdfs)
    try:
        yield servers
    finally:
        servers.stop()


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Environments to send to the nodes, as the page has them packed: of executors, and of a driver."""
    folder = tmp_path_factory.mktemp("dist")
    make = ["make", "archive", "archive-driver", f"dist={folder}"]
    subprocess.run(make, cwd=REPOSITORY, capture_output=True, check=True)
    return {"client": folder / "environment.tar.gz", "cluster": folder / "driver.tar.gz"}


class Ended(NamedTuple):
    """How spark-submit ended."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """All of its output."""
        return self.out + self.err


class Submitted:
    """An application of one verb, or of another program that takes a verb, submitted to YARN."""

    def __init__(
        self,
        yarn: Yarn,
        mode: str,
        words: Sequence[str],
        config: str,
        home: Path,
        *conf: str,
        program: Path | None = None,
        python: str = PYTHON,
        archive: Path | None = None,
    ) -> None:
        package = build_package(home / "spark_eval.zip")
        verb, *others = words
        settings = [
            "spark.ui.enabled=false",
            f"spark.yarn.jars=local:{spark_home()}/jars/*",
            "spark.executor.instances=1",
            "spark.yarn.am.memory=512m",
            f"spark.yarn.appMasterEnv.PYSPARK_DRIVER_PYTHON={python}",
            f"spark.yarn.appMasterEnv.PYSPARK_PYTHON={python}",
            *conf,
        ]
        given = [word for setting in settings for word in ("--conf", setting)]
        given += ["--driver-memory", "700m", "--executor-memory", "512m", "--py-files", str(package)]
        if archive is not None:
            given += ["--archives", f"{archive}#environment"]
        if mode == "cluster":
            given += ["--files", config]
        submit = [str(spark_home() / "bin" / "spark-submit"), "--master", "yarn", "--deploy-mode", mode]
        job = [str(program or REPOSITORY / "jobs" / f"{verb}.py")]
        named = Path(config).name if mode == "cluster" else config
        self.process = subprocess.Popen(
            [*submit, *given, *job, *others, "--config", named, "--run-id", RUN],
            env=environment(HADOOP_CONF_DIR=str(yarn.conf), PYSPARK_PYTHON=python, HADOOP_USER_NAME="root"),
            cwd=home,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self) -> Ended:
        """Wait for spark-submit."""
        out, err = self.process.communicate(timeout=550)
        return Ended(self.process.returncode, out, err)


def ready(on_hdfs: str, spark: "SparkSession", tmp_path: Path) -> str:
    """Put the inputs there, and write the config."""
    write_inputs(tmp_path / "in")
    put(spark, tmp_path / "in", f"{on_hdfs}/in")
    return write_config(tmp_path / "there.yaml", tree_of(f"{on_hdfs}/in", f"{on_hdfs}/out"))


def splits_of_local_disk(spark: "SparkSession", tmp_path: Path) -> list[str]:
    """Return the rows of a split of the same inputs here."""
    local = write_config(tmp_path / "local.yaml", tree_of(str(tmp_path / "in"), str(tmp_path / "out")))
    assert call("split", "--config", local, "--run-id", RUN).code == 0
    return rows_of(spark, str(tmp_path / "out"))


def last_line(yarn: Yarn, mode: str, ended: Ended) -> str:
    """Return the last line of our program: in cluster mode it is in the log of the driver's container."""
    said = yarn.logs(ended.said)[-1] if mode == "cluster" else ended.out
    return said.strip().splitlines()[-1]


def check_of_yarn(yarn: Yarn, ended: Ended, code: int) -> None:
    """Check what cluster mode leaves of our exit code: 0 or 1 of spark-submit, and a line of diagnostics."""
    told = yarn.application(ended.said)
    print(code, ended.code, told["state"], told["finalStatus"], yarn.n_attempts(ended.said))
    print("\n".join(ended.said.strip().splitlines()[-3:]))
    assert ended.code == min(code, 1), ended.said
    assert told["finalStatus"] == ("FAILED" if code else "SUCCEEDED")
    # A config is refused before there is a session, so its application never comes to work.
    assert told["state"] == ("FAILED" if code == 2 else "FINISHED")
    if code:
        assert f"User application exited with status {code}" in told["diagnostics"]
        assert "error[" not in ended.out


@pytest.mark.parametrize("mode", ["client", pytest.param("cluster", marks=pytest.mark.exhaustive)])
def test_environments_travel_by_archives(
    yarn: Yarn, on_hdfs: str, spark: "SparkSession", tmp_path: Path, archives: Mapping[str, Path], mode: str
) -> None:
    """In cluster mode driver and executors live in one archive; of the nodes they need Python alone."""
    config = ready(on_hdfs, spark, tmp_path)
    job = Submitted(yarn, mode, ["split"], config, tmp_path, python=UNPACKED, archive=archives[mode])
    ended = job.end()
    assert ended.code == 0, ended.said
    said = yarn.logs(ended.said)[0] if mode == "cluster" else ended.out
    print(said)
    [workers] = [line for line in said.splitlines() if "workers on " in line]
    assert re.search(rf" at {yarn.home}/\S+/environment/bin/python", workers)
    assert f"run {RUN} published" in said
    assert rows_of(spark, f"{on_hdfs}/out") == splits_of_local_disk(spark, tmp_path)
    if mode == "cluster":
        check_of_yarn(yarn, ended, 0)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("code", FAILURES)
def test_failures_end_as_documented(
    yarn: Yarn, on_hdfs: str, spark: "SparkSession", tmp_path: Path, mode: str, code: int
) -> None:
    """In client mode our code and last line are those of spark-submit; in cluster mode YARN has them."""
    config = ready(on_hdfs, spark, tmp_path)
    setting, name = FAILURES[code]
    words = ["split", "--set", setting]
    ended = Submitted(yarn, mode, words, config, tmp_path, "spark.yarn.maxAppAttempts=1").end()
    if mode == "client":
        assert ended.code == code, ended.said
    else:
        check_of_yarn(yarn, ended, code)
    assert last_line(yarn, mode, ended).startswith(f"error[{name}] ")
    assert HadoopFiles(spark, f"{on_hdfs}/out").names(f"{on_hdfs}/out/_commits") == []


@pytest.mark.parametrize("mode", MODES)
def test_a_faster_attempt_is_exit_4(
    yarn: Yarn, on_hdfs: str, spark: "SparkSession", tmp_path: Path, mode: str
) -> None:
    """The driver stands still while another one publishes the run."""
    config = ready(on_hdfs, spark, tmp_path)
    there = HadoopFiles(spark, f"{on_hdfs}/out")
    job = Submitted(yarn, mode, ["split"], config, tmp_path, "spark.yarn.maxAppAttempts=1")
    until(lambda: there.names(f"{on_hdfs}/out/_staging"), 500, "attempt", 0.05)
    [driver] = yarn.pids("split.py", "python", home=config if mode == "client" else "")
    os.kill(driver, signal.SIGSTOP)
    try:
        assert call("split", "--config", config, "--run-id", RUN).code == 0
    finally:
        os.kill(driver, signal.SIGCONT)
    ended = job.end()
    if mode == "client":
        assert ended.code == 4, ended.said
    else:
        check_of_yarn(yarn, ended, 4)
    assert last_line(yarn, mode, ended).startswith("error[RUN_BUSY] ")
    assert rows_of(spark, f"{on_hdfs}/out") == splits_of_local_disk(spark, tmp_path)


@pytest.mark.parametrize("mode", MODES)
def test_a_failed_gate_is_exit_5_of_a_published_run(
    yarn: Yarn, on_hdfs: str, spark: "SparkSession", tmp_path: Path, mode: str
) -> None:
    """In cluster mode YARN tries again, in vain; status and the table of gates say what happened."""
    config = ready(on_hdfs, spark, tmp_path)
    assert call("split", "--config", config, "--run-id", RUN).code == 0
    bad = write_config(tmp_path / "bad.yaml", failing(tree_of(f"{on_hdfs}/in", f"{on_hdfs}/out")))
    ended = Submitted(yarn, mode, ["evaluate"], bad, tmp_path, TWO_ATTEMPTS).end()
    if mode == "client":
        assert ended.code == 5, ended.said
    else:
        check_of_yarn(yarn, ended, 5)
        first, second = yarn.logs(ended.said)
        assert f"run {RUN} published" in first
        assert "already published" in second
    assert last_line(yarn, mode, ended).startswith("error[GATE_FAILED] ")
    status = json.loads(call("status", "--config", bad, "--json").out)
    [compared] = [run for run in status["runs"] if run["verb"] == "compare"]
    assert (compared["run_id"], compared["damage"], compared["rows"]["gates"]) == (RUN, None, 1)
    [gate] = read_published(spark, f"{on_hdfs}/out", "gates", [RUN]).collect()
    assert not gate["passed"]
    # The same verb from where a scheduler is reads what was published, and has our exit code.
    again = call("evaluate", "--config", bad, "--run-id", RUN)
    assert (again.code, again.error) == (5, "GATE_FAILED")
    assert "already published" in again.out


def test_a_lost_executor_is_replaced(yarn: Yarn, on_hdfs: str, spark: "SparkSession", tmp_path: Path) -> None:
    """The only executor is killed during a split, which has the rows of a local one."""
    config = ready(on_hdfs, spark, tmp_path)
    there = HadoopFiles(spark, f"{on_hdfs}/out")
    job = Submitted(yarn, "client", ["split"], config, tmp_path)
    until(lambda: there.names(f"{on_hdfs}/out/_staging"), 500, "attempt", 0.05)
    [executor] = yarn.pids("CoarseGrainedExecutorBackend")
    os.kill(executor, signal.SIGKILL)
    ended = job.end()
    assert ended.code == 0, ended.said
    assert f"run {RUN} published" in ended.out
    assert "Lost executor" in ended.said
    assert rows_of(spark, f"{on_hdfs}/out") == splits_of_local_disk(spark, tmp_path)


@pytest.mark.parametrize("is_whole", [False, True], ids=["daemon", "node"])
def test_a_lost_node_manager_changes_nothing(
    yarn: Yarn, on_hdfs: str, spark: "SparkSession", tmp_path: Path, is_whole: bool
) -> None:
    """It is killed while its executor works, alone or with all of its containers."""
    config = ready(on_hdfs, spark, tmp_path)
    there = HadoopFiles(spark, f"{on_hdfs}/out")
    job = Submitted(yarn, "client", ["split"], config, tmp_path)
    until(lambda: there.names(f"{on_hdfs}/out/_staging"), 500, "attempt", 0.05)
    [lost] = [name for name in NODES if yarn.pids("CoarseGrainedExecutorBackend", home=f"{yarn.home}/{name}")]
    yarn.kill(lost)
    try:
        for name in ("CoarseGrainedExecutorBackend", "ExecutorLauncher") if is_whole else ():
            for pid in yarn.pids(name, home=f"{yarn.home}/{lost}"):
                print("killed", name, pid)
                os.kill(pid, signal.SIGKILL)
        ended = job.end()
        print(ended.said[-3000:])
        assert ended.code == 0, ended.said
        until(lambda: yarn.n_nodes() == 1, SECONDS, "lost node")
    finally:
        yarn.start_node(lost)
        until(lambda: yarn.n_nodes() == len(NODES), SECONDS, "two node managers")
    assert ("Lost executor" in ended.said) == is_whole
    assert rows_of(spark, f"{on_hdfs}/out") == splits_of_local_disk(spark, tmp_path)


@pytest.mark.brief
def test_a_second_attempt_finishes_what_the_first_began(
    yarn: Yarn, on_hdfs: str, spark: "SparkSession", tmp_path: Path
) -> None:
    """The application master is killed while tables are staged: nothing is there twice."""
    config = ready(on_hdfs, spark, tmp_path)
    there = HadoopFiles(spark, f"{on_hdfs}/out")
    job = Submitted(yarn, "cluster", ["split"], config, tmp_path, TWO_ATTEMPTS)
    until(lambda: there.names(f"{on_hdfs}/out/_staging"), 500, "attempt", 0.05)
    [master] = yarn.pids("ApplicationMaster")
    os.kill(master, signal.SIGKILL)
    ended = job.end()
    assert ended.code == 0, ended.said
    assert read_published(spark, f"{on_hdfs}/out", "splits", [RUN]).count() == 720
    assert yarn.n_attempts(ended.said) == 2


# A call at which the application master dies, and whether the second attempt then finds the run published.
STAGES: Final = {
    "inputs": ("read:1", False),
    "intent": ("write_new:1", False),
    "renames": ("rename:3", True),
    "cleaning": ("remove:1", True),
}


@pytest.mark.parametrize("stage", STAGES)
def test_a_second_attempt_after_death_at_each_stage(
    yarn: Yarn, on_hdfs: str, spark: "SparkSession", tmp_path: Path, stage: str
) -> None:
    """Before inputs are read, before the intent, amid its renames, after the commit record."""
    config = ready(on_hdfs, spark, tmp_path)
    moment, is_published = STAGES[stage]
    words = ["", moment, "split"]
    dying = REPOSITORY / "tests" / "stores" / "dying.py"
    ended = Submitted(yarn, "cluster", words, config, tmp_path, TWO_ATTEMPTS, program=dying).end()
    check_of_yarn(yarn, ended, 0)
    assert yarn.n_attempts(ended.said) == 2
    first, second = yarn.logs(ended.said)
    print(first, second, sep="\n---\n")
    assert "published" not in first
    assert ("already published" in second) == is_published
    assert rows_of(spark, f"{on_hdfs}/out") == splits_of_local_disk(spark, tmp_path)
    there = HadoopFiles(spark, f"{on_hdfs}/out")
    assert there.names(f"{on_hdfs}/out/_commits/{RUN}") == ["split.1.json"]
    status = json.loads(call("status", "--config", config, "--json").out)
    print(status)
    assert [(run["verb"], run["damage"]) for run in status["runs"]] == [("split", None)]
