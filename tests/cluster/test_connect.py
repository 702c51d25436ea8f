"""A client of a real Spark Connect server: the same bits as in a classic session."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.cluster.conftest import (
    QUICK,
    REPOSITORY,
    SECONDS_TO_START,
    bare_python,
    build_package,
    daemon,
    free_port,
)
from tests.cluster.remote import answers

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(900),
    pytest.mark.skipif(find_spec("grpc") is None, reason="no grpcio, which `make test-slow` installs"),
]


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What a client gets of a server whose workers have numpy, pandas and pyarrow only."""
    home = tmp_path_factory.mktemp("connect")
    port = free_port()
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.pyspark.python": str(bare_python(home)),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        **QUICK,
    }
    settings = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    server = ("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal")
    submit = ("org.apache.spark.deploy.SparkSubmit", "--master", "local[2]", "--driver-memory", "1g")
    with daemon(home / "server.log", *submit, *settings, *server):
        wait_for(port, home / "server.log")
        package = str(build_package(home / "spark_eval.zip"))
        done = subprocess.run(
            [sys.executable, "-m", "tests.cluster.remote", f"sc://127.0.0.1:{port}", package],
            env=os.environ | {"PYTHONPATH": f"{REPOSITORY / 'src'}:{REPOSITORY}"},
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        yield json.loads(done.stdout.splitlines()[-1])


def wait_for(port: int, log: Path) -> None:
    """Until something listens there."""
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
            return
        time.sleep(0.5)
    pytest.fail(f"no server after {SECONDS_TO_START} seconds:\n{log.read_text()}")


def test_frames_give_the_same_bits(remote: dict[str, Any], spark: SparkSession) -> None:
    classic = answers(spark)
    assert (classic.pop("written by Spark"), remote["written by Spark"]) == (False, True)
    assert (classic.pop("refused"), remote["refused"]) == ("", "CONNECT_UNSUPPORTED")
    assert {name: remote[name] for name in classic} == classic
    assert classic["the same if nothing is persisted"]
