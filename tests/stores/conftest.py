"""Servers of stores on loopback, as processes that tests start, kill and start again."""

import json
import os
import re
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

import pyspark
import pytest
from pyspark.sql import SparkSession
from tests.cluster.conftest import REPOSITORY, asked, free_port, until
from tests.stores.jars import CACHE, NO_MAVEN, missing, pinned

from spark_eval.runtime.session import find_java

SECONDS: Final = 60
SMALL: Final = (
    "-Xmx256m",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)
# Who formats the name node is its superuser; the drivers of the tests are ordinary users.
SUPERUSER: Final = "hdfs"
HDFS: Final = "org.apache.hadoop.hdfs"
YARN: Final = "org.apache.hadoop.yarn.server"
NODES: Final = ("node1", "node2")
# What clients are told: to give up a dead server in seconds; two copies, for there are two data nodes.
CLIENT: Final = {
    "dfs.replication": "2",
    "ipc.client.connect.max.retries": "2",
    "ipc.client.connect.retry.interval": "500",
}


def need_jars(use: str) -> list[Path]:
    """Return the pinned jars of a use; skip the test with the reason if they are not there."""
    if lacking := missing(use):
        reason = NO_MAVEN if shutil.which("mvn") is None else "fetch them by: make test-stores"
        pytest.skip(f"{lacking[0].coordinates} is not in {CACHE}: {reason}")
    return [jar.path for jar in pinned(use)]


def write_settings(path: Path, settings: Mapping[str, object]) -> None:
    """Write a file of settings as Hadoop reads it."""
    lines = [
        f"<property><name>{name}</name><value>{escape(str(value))}</value></property>"
        for name, value in settings.items()
    ]
    path.write_text("<configuration>\n{}\n</configuration>\n".format("\n".join(lines)))


def listens(port: int) -> bool:
    """True if a server of this machine answers at the port."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


class Daemons:
    """Processes of Hadoop by name; settings are in the folder ``conf`` below ``home``."""

    def __init__(self, home: Path, jars: list[Path]) -> None:
        self.home = home
        self.conf = home / "conf"
        self.conf.mkdir()
        # The servers' release is that of the Hadoop in .venv, whichever Spark the tests run on.
        [shared] = (REPOSITORY / ".venv" / "lib").glob("python3*/site-packages/pyspark/jars")
        self.classpath = ":".join(map(str, (self.conf, *jars, shared / "*")))
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def command(self, program: str, *arguments: str) -> list[str]:
        """Return the command line of a Java program of Hadoop."""
        java = str(find_java().home / "bin" / "java")
        return [java, *SMALL, "-cp", self.classpath, program, *arguments]

    def start(self, name: str, program: str, *arguments: str, **environment: str) -> None:
        """Start a daemon; its output is in the file of its name."""
        # Containers of YARN get this Java; the session of the tests has put another one there.
        home = str(find_java().home)
        with (self.home / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                self.command(program, *arguments),
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.home,
                env={**os.environ, "JAVA_HOME": home, "HADOOP_USER_NAME": SUPERUSER, **environment},
            )

    def kill(self, name: str) -> None:
        """End a daemon as kill -9 does."""
        process = self.processes.pop(name)
        process.kill()
        process.wait(SECONDS)

    def stop(self) -> None:
        """End all daemons, by their ids."""
        for name in list(self.processes):
            self.kill(name)

    def run(self, program: str, *arguments: str, user: str = SUPERUSER) -> str:
        """Run a tool of Hadoop to its end; return its output."""
        done = subprocess.run(
            self.command(program, *arguments),
            env={**os.environ, "HADOOP_USER_NAME": user},
            cwd=self.home,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


class Hdfs(Daemons):
    """HDFS of a name node and two data nodes."""

    def __init__(self, home: Path, jars: list[Path]) -> None:
        super().__init__(home, jars)
        self.port = free_port()
        self.uri = f"hdfs://127.0.0.1:{self.port}"
        self.settings: dict[str, object] = {
            **CLIENT,
            "fs.defaultFS": self.uri,
            "dfs.namenode.name.dir": (home / "name").as_uri(),
            "dfs.namenode.http-address": f"127.0.0.1:{free_port()}",
            "dfs.namenode.safemode.extension": 0,
            "dfs.namenode.heartbeat.recheck-interval": 1000,
            "dfs.heartbeat.interval": "1s",
            "dfs.permissions.enabled": True,
            "fs.trash.interval": 60,
        }
        # Each file is read after the defaults of its own part of Hadoop.
        for part in ("core", "hdfs"):
            write_settings(self.conf / f"{part}-site.xml", self.settings)
        self.run(f"{HDFS}.server.namenode.NameNode", "-format", "-nonInteractive")
        self.start_name_node()
        for name in ("data1", "data2"):
            self.start_data_node(name)
        until(lambda: self.n_live() == 2, SECONDS, f"two data nodes; logs are in {home}")
        self.shell("-mkdir", "-p", "/tests")
        self.shell("-chmod", "777", "/tests")

    def start_name_node(self) -> None:
        """Start the name node, and wait until it answers."""
        self.start("name", f"{HDFS}.server.namenode.NameNode")
        until(lambda: listens(self.port), SECONDS, f"name node; logs are in {self.home}")

    def start_data_node(self, name: str) -> None:
        """Start one data node with a folder and ports of its own."""
        own = {
            "dfs.datanode.data.dir": (self.home / name).as_uri(),
            "dfs.datanode.address": "127.0.0.1:0",
            "dfs.datanode.http.address": "127.0.0.1:0",
            "dfs.datanode.ipc.address": "127.0.0.1:0",
        }
        words = [word for key, value in own.items() for word in ("-D", f"{key}={value}")]
        self.start(name, f"{HDFS}.server.datanode.DataNode", *words)

    def shell(self, *arguments: str, user: str = SUPERUSER) -> str:
        """Run a command of ``hdfs dfs``."""
        return self.run("org.apache.hadoop.fs.FsShell", *arguments, user=user)

    def admin(self, *arguments: str) -> str:
        """Run a command of ``hdfs dfsadmin``."""
        return self.run(f"{HDFS}.tools.DFSAdmin", *arguments)

    def n_live(self) -> int:
        """Return the number of data nodes that the name node knows to be alive."""
        page = f"http://{self.settings['dfs.namenode.http-address']}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystem"
        with suppress(OSError, ValueError), urllib.request.urlopen(page, timeout=5) as answer:
            return int(json.load(answer)["beans"][0]["NumLiveDataNodes"])
        return 0


class Yarn(Daemons):
    """YARN of a resource manager and two node managers, whose default store is an HDFS."""

    def __init__(self, home: Path, jars: list[Path], hdfs: Hdfs) -> None:
        super().__init__(home, jars)
        manager = "yarn.resourcemanager"
        node = "yarn.nodemanager"
        self.web = free_port()
        kinds = ("address", "scheduler.address", "resource-tracker.address", "admin.address")
        self.settings: dict[str, object] = {
            **{f"{manager}.{kind}": f"127.0.0.1:{free_port()}" for kind in kinds},
            f"{manager}.webapp.address": f"127.0.0.1:{self.web}",
            f"{manager}.hostname": "127.0.0.1",
            f"{manager}.scheduler.class": f"{YARN}.resourcemanager.scheduler.fifo.FifoScheduler",
            f"{manager}.am.max-attempts": 4,
            # Ten minutes by default: so long a lost node is not replaced.
            "yarn.nm.liveness-monitor.expiry-interval-ms": 10_000,
            **{f"{node}.{kind}address": "127.0.0.1:0" for kind in ("", "localizer.", "webapp.")},
            f"{node}.hostname": "127.0.0.1",
            f"{node}.resource.memory-mb": 6144,
            f"{node}.resource.cpu-vcores": 8,
            f"{node}.vmem-check-enabled": False,
            f"{node}.disk-health-checker.max-disk-utilization-per-disk-percentage": 99.9,
            "yarn.scheduler.minimum-allocation-mb": 128,
        }
        for part in ("core", "hdfs"):
            write_settings(self.conf / f"{part}-site.xml", hdfs.settings)
        write_settings(self.conf / "yarn-site.xml", self.settings)
        # Spark stages an application below the home of its user.
        hdfs.shell("-mkdir", "-p", "/user")
        hdfs.shell("-chmod", "777", "/user")
        self.start("manager", f"{YARN}.resourcemanager.ResourceManager")
        for name in NODES:
            self.start_node(name)
        until(lambda: self.n_nodes() == len(NODES), SECONDS, f"node managers; logs are in {home}")

    def start_node(self, name: str) -> None:
        """Start one node manager with folders of its own."""
        own = {f"yarn.nodemanager.{kind}-dirs": self.home / name / kind for kind in ("local", "log")}
        words = [word for key, value in own.items() for word in ("-D", f"{key}={value}")]
        self.start(name, f"{YARN}.nodemanager.NodeManager", *words)

    def ask(self, path: str) -> Any:
        """Return what the resource manager answers; None until it does."""
        return asked(self.web, f"/ws/v1/cluster/{path}")

    def n_nodes(self) -> int:
        """Return the number of node managers that are known and not lost."""
        return int((self.ask("metrics") or {}).get("clusterMetrics", {}).get("activeNodes", 0))

    def application(self, said: str) -> Any:
        """Return what the resource manager knows of the application that spark-submit spoke of."""
        found = re.search(r"application_\d+_\d+", said)
        assert found, said
        return self.ask(f"apps/{found[0]}")["app"]

    def n_attempts(self, said: str) -> int:
        """Return the number of attempts at an application."""
        return len(self.ask(f"apps/{self.application(said)['id']}/appattempts")["appAttempts"]["appAttempt"])

    def logs(self, said: str) -> list[str]:
        """Return what the driver of each attempt printed in cluster mode."""
        identifier = self.application(said)["id"]
        folders = self.home.glob(f"*/log/{identifier}/container_*_000001")
        return [(folder / "stdout").read_text() for folder in sorted(folders, key=lambda one: one.name)]

    def pids(self, name: str, program: str = "java", home: str = "") -> list[int]:
        """Return the ids of a program's processes in containers, or with a path, whose words have a name."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                line = (folder / "cmdline").read_bytes().decode(errors="replace")
                is_within = (home or str(self.home)) in f"{line} {(folder / 'cwd').resolve()}"
                if name in line and is_within and (folder / "exe").resolve().name.startswith(program):
                    found.append(int(folder.name))
        return found


# Delta and Iceberg are of one Spark each; Delta is the session's own catalog, Iceberg the catalog `lake`.
SPARK_OF_LAKE: Final = "4.1."
LAKE: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop",
    "spark.databricks.delta.properties.defaults.enableDeletionVectors": "true",
    # A table of Delta has some commits here: more tasks than these cost seconds for each look at one.
    "spark.databricks.delta.snapshotPartitions": "1",
    # Delta 4.2.0 cannot read its own checkpoints on Spark 4.1.4: NoSuchMethodError after ten commits.
    "spark.databricks.delta.properties.defaults.checkpointInterval": "1000",
}


@pytest.fixture(scope="session", autouse=True)
def classpath(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give the jars of the ring, as far as they are there, to every JVM that it starts."""
    has_lake = pyspark.__version__.startswith(SPARK_OF_LAKE) and not missing("lake")
    found = [*pinned("s3"), *(pinned("lake") if has_lake else [])]
    jars = ":".join(str(jar.path) for jar in found if jar.is_there)
    home = tmp_path_factory.mktemp("lake")
    conf = {**LAKE, "spark.sql.catalog.lake.warehouse": home.as_uri()} if has_lake else {}
    words = " ".join(f"--conf {name}={value}" for name, value in conf.items())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_SUBMIT_ARGS", f"--driver-class-path '{jars}' {words} pyspark-shell")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        yield


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """One HDFS for the whole ring; a test that ends a daemon starts it again."""
    jars = need_jars("hdfs")
    servers = Hdfs(tmp_path_factory.mktemp("hdfs"), jars)
    try:
        yield servers
    finally:
        servers.stop()


@pytest.fixture
def on_hdfs(hdfs: Hdfs, spark: SparkSession, request: pytest.FixtureRequest) -> str:
    """A folder of the test's own on HDFS, which the session of the tests reaches as a client does."""
    java: Any = spark
    for name, value in CLIENT.items():
        java._jsc.hadoopConfiguration().set(name, value)
    return f"{hdfs.uri}/tests/{request.node.name.replace('[', '-').rstrip(']')}"


class S3:
    """An S3 server of this machine, and the settings of a client that reaches it and soon gives up."""

    def __init__(self, home: Path) -> None:
        environment = REPOSITORY / ".venv-stores"
        if not (environment / ".installed").exists():
            pytest.skip("no .venv-stores here, or not all of it: make it by make test-stores")
        python = environment / "bin" / "python"
        self.port = free_port()
        with (home / "server.log").open("wb") as log:
            program = [str(python), str(Path(__file__).with_name("s3_server.py")), str(self.port)]
            self.process = subprocess.Popen(program, stdout=log, stderr=subprocess.STDOUT, cwd=home)
        until(lambda: listens(self.port), SECONDS, f"S3 server; its log is in {home}")
        self.settings = {
            "fs.s3a.endpoint": f"http://127.0.0.1:{self.port}",
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.attempts.maximum": "1",
            "fs.s3a.retry.limit": "1",
            "fs.s3a.retry.throttle.limit": "1",
            "fs.s3a.retry.interval": "50ms",
            "fs.s3a.retry.throttle.interval": "50ms",
        }

    def ask(self, path: str, content: Mapping[str, object] | None = None) -> Any:
        """Ask the part of the server that orders and counts."""
        body = None if content is None else json.dumps(content).encode()
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{path}", body, timeout=120) as answer:
            return json.load(answer)

    def heal(self) -> None:
        """Take back the faults that are left."""
        self.ask("_faults", {"clear": True})

    def fail(self, method: str, path: str, times: int, status: int, code: str = "") -> None:
        """Order faults of the next requests of a method whose path contains a text."""
        self.ask("_faults", {"method": method, "path": path, "times": times, "status": status, "code": code})


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    """One S3 server for the whole ring."""
    need_jars("s3")
    server = S3(tmp_path_factory.mktemp("s3"))
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait(SECONDS)


@pytest.fixture
def on_s3(s3: S3, spark: SparkSession, request: pytest.FixtureRequest) -> str:
    """A folder of the test's own in a bucket."""
    s3.heal()
    java: Any = spark
    for name, value in s3.settings.items():
        java._jsc.hadoopConfiguration().set(name, value)
    urllib.request.urlopen(
        urllib.request.Request(f"http://127.0.0.1:{s3.port}/bucket", method="PUT"), timeout=30
    ).close()
    return f"s3a://bucket/{request.node.name.replace('[', '-').rstrip(']')}"


def put(spark: SparkSession, source: Path, goal: str) -> None:
    """Copy a local folder to a store."""
    java: Any = spark
    hadoop = java._jvm.org.apache.hadoop.fs
    path = hadoop.Path(goal)
    files = path.getFileSystem(java._jsc.hadoopConfiguration())
    files.copyFromLocalFile(hadoop.Path(source.as_uri()), path)
