"""A standalone cluster on loopback, from pip's Spark: a master, two workers, executors with a bare Python."""

import hashlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_eval.runtime.session import LAUNCHER_HOME, find_java

Found = TypeVar("Found")
REPOSITORY = Path(__file__).parents[2]
SECONDS_TO_START = 120
# What JVMs of tests are told: see tests/conftest.py.
OPTIONS = os.environ.get("SPARK_SUBMIT_OPTS", "")
QUICK = {"spark.executor.extraJavaOptions": OPTIONS}
# All that executors may import besides Spark's own zips: three libraries, and what these need.
ON_EXECUTORS = ("numpy", "pandas", "pyarrow", "pytz", "dateutil", "six", "tzdata")


def spark_home() -> Path:
    """The folder of pip's pyspark."""
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def environment(**more: str) -> dict[str, str]:
    """A process that knows Java, Spark and loopback, and no PYTHONPATH."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/"),
        "JAVA_HOME": str(LAUNCHER_HOME),
        "SPARK_EVAL_JAVA": str(find_java().home / "bin" / "java"),
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_SUBMIT_OPTS": OPTIONS,
        "SPARK_DAEMON_JAVA_OPTS": OPTIONS,
        **more,
    }


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def daemon(log: Path, *arguments: str, **more: str) -> Iterator[None]:
    """One of Spark's daemons in the foreground, stopped in the end by its own id; ``more`` is environment."""
    with log.open("w") as file:
        process = subprocess.Popen(
            [spark_home() / "bin" / "spark-class", *arguments],
            env=environment(**more),
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
        )
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(30)


def asked(web_port: int, path: str) -> Any:
    """What one of the daemons answers as JSON; None until it is ready: it refuses, or has an empty page."""
    with (
        suppress(OSError, ValueError),
        urllib.request.urlopen(f"http://127.0.0.1:{web_port}{path}", timeout=30) as page,
    ):
        return json.load(page)
    return None


def until(find: Callable[[], Found | None], seconds: float, what: str, pause: float = 0.2) -> Found:
    """What is found at last, asked for after each pause; the test fails if that takes too long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = find()
        if found:
            return found
        time.sleep(pause)
    pytest.fail(f"after {seconds} seconds no {what}")


def has_two_workers(web_port: int) -> bool:
    """Whether a master knows them."""
    return (asked(web_port, "/json/") or {}).get("aliveworkers") == 2


@dataclass(frozen=True)
class Cluster:
    """Where to submit, with which package, the Python of its executors, the folder that holds theirs."""

    home: Path
    master: str
    package: Path
    executor_python: Path | str

    def submit(
        self, master: str, job: str, *arguments: str, cwd: Path, conf: dict[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """A job through spark-submit: one of ours by its name, or another by its path, both without .py."""
        settings = {**QUICK, "spark.ui.enabled": "false", **(conf or {})}
        given = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        memory = ["--executor-memory", "512m", "--driver-memory", "1g"]
        application = [str(REPOSITORY / "jobs" / f"{job}.py"), *arguments]
        program = str(spark_home() / "bin" / "spark-submit")
        return subprocess.run(
            [program, "--master", master, *memory, *given, "--py-files", str(self.package), *application],
            env=environment(PYSPARK_PYTHON=str(self.executor_python)),
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
        )


def build_package(target: Path) -> Path:
    """The package as ``make package`` builds it."""
    source = REPOSITORY / "src"
    with zipfile.ZipFile(target, "w") as archive:
        for file in sorted((source / "spark_eval").rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, file.relative_to(source))
    return target


def published_bytes(home: Path, run_id: str) -> dict[str, list[str]]:
    """Hashes of what a run published, by folder: of the files of ``per_user``, of the rows of all others.

    Rows as they stand in a file, bit by bit. Files that the JVM writes differ in their footers from one
    process to the next: parquet-java lists the encodings of a column in the order of a hash set.
    """
    found: dict[str, list[str]] = {}
    for table in ("per_user", "metrics", "accounting", "leakage"):
        for file in sorted((home / "out" / table / f"run_id={run_id}").rglob("*.parquet")):
            content = file.read_bytes()
            if table != "per_user":
                sink = pa.BufferOutputStream()
                rows = pq.read_table(pa.BufferReader(content)).combine_chunks()
                with pa.ipc.new_stream(sink, rows.schema) as stream:
                    stream.write_table(rows)
                content = sink.getvalue().to_pybytes()
            folder = str(file.parent.relative_to(home))
            found.setdefault(folder, []).append(hashlib.sha256(content).hexdigest())
    return {folder: sorted(digests) for folder, digests in found.items()}


def bare_python(folder: Path) -> Path:
    """A Python that finds the libraries of ON_EXECUTORS and nothing else of this environment."""
    libraries = folder / "libraries"
    libraries.mkdir()
    for name in ON_EXECUTORS:
        found = find_spec(name)
        if found is None or found.origin is None:
            continue  # newer releases of dateutil do without six
        module = Path(found.origin)
        module = module.parent if module.name == "__init__.py" else module
        (libraries / module.name).symlink_to(module)
        if (beside := module.with_name(f"{name}.libs")).exists():
            (libraries / beside.name).symlink_to(beside)
    program = folder / "python"
    # Without site (-S) no package of the environment is found, ours least of all.
    path = f'PYTHONPATH="$PYTHONPATH:{libraries}"'
    program.write_text(f'#!/bin/sh\n{path} exec "{sys.executable}" -S "$@"\n')
    program.chmod(0o755)
    return program


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    home = tmp_path_factory.mktemp("cluster")
    port, web_port = free_port(), free_port()
    master = f"spark://127.0.0.1:{port}"
    here = ("--host", "127.0.0.1")
    with ExitStack() as daemons:
        ports = ("--port", str(port), "--webui-port", str(web_port))
        daemons.enter_context(
            daemon(home / "master.log", "org.apache.spark.deploy.master.Master", *here, *ports)
        )
        for name in ("one", "two"):
            own = ("--cores", "1", "--memory", "1g", "--work-dir", str(home / name))
            web = ("--webui-port", str(free_port()))
            worker = "org.apache.spark.deploy.worker.Worker"
            daemons.enter_context(daemon(home / f"{name}.log", worker, *here, *own, *web, master))
        until(lambda: has_two_workers(web_port), SECONDS_TO_START, f"two workers; logs are in {home}")
        yield Cluster(home, master, build_package(home / "spark_eval.zip"), bare_python(home))
