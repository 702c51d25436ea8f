"""Verbs of the command line in a client of a Spark Connect server, from table to table of its catalogs."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from tests.cli.conftest import call
from tests.cluster.conftest import (
    QUICK,
    REPOSITORY,
    SECONDS_TO_START,
    bare_python,
    daemon,
    free_port,
    until,
)
from tests.stores.chain import hash_of, run_chain, tree_of, write_config, write_inputs
from tests.stores.conftest import LAKE, SPARK_OF_LAKE, listens, need_jars
from tests.stores.verbs import run_verbs, write_configs, write_inputs_of_verbs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.stores,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(find_spec("grpc") is None, reason="no grpcio in this environment"),
]

BY_KIND = pytest.mark.parametrize("kind", ["iceberg", pytest.param("delta", marks=pytest.mark.exhaustive)])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with Delta and Iceberg, whose workers do not have this package."""
    if not pyspark.__version__.startswith(SPARK_OF_LAKE):
        pytest.skip(f"the pinned Delta and Iceberg are of Spark {SPARK_OF_LAKE}*: run by make test-stores")
    jars, home, port = need_jars("lake"), tmp_path_factory.mktemp("connect"), free_port()
    conf = {
        **LAKE,
        **QUICK,
        "spark.sql.catalog.lake.warehouse": (home / "lake").as_uri(),
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.extraClassPath": ":".join(map(str, jars)),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    settings = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    service = ("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal")
    submit = ("org.apache.spark.deploy.SparkSubmit", "--master", "local[2]", "--driver-memory", "1g")
    log = home / "server.log"
    with daemon(log, *submit, *settings, *service, PYSPARK_PYTHON=str(bare_python(home))):
        until(lambda: listens(port), SECONDS_TO_START, f"server; its log is {log}")
        yield f"sc://127.0.0.1:{port}"


def answers(server: str, part: str, home: Path, kind: str) -> tuple[dict[str, Any], str]:
    """Return what a client of the server tells of a part of ``tests.stores.remote``, and its errors."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.stores.remote", part, str(home), kind],
        env=os.environ | {"PYTHONPATH": f"{REPOSITORY / 'src'}:{REPOSITORY}", "SPARK_REMOTE": server},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,  # a client that leaves an attempt open waits at its end for a thread that cannot start
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


@pytest.fixture(scope="module")
def files(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, str]]:
    """The folder of inputs as files, and hashes of what the chain makes of them in a classic session."""
    home = tmp_path_factory.mktemp("files")
    write_inputs(home / "in")
    run_chain(call, write_config(home / "files.yaml", tree_of(str(home / "in"), str(home / "out"))))
    return home, hash_of(spark, str(home / "out"))


@BY_KIND
def test_verbs_go_from_table_to_table(server: str, kind: str, files: tuple[Path, Mapping[str, str]]) -> None:
    home, values = files
    found, errors = answers(server, "chain", home, kind)
    assert found["values"] == values
    assert found["status"] == [["compare", None], ["evaluate", None], ["split", None]]
    assert found["the newest snapshot"] == "RUN_EXISTS"
    assert found["the snapshot of the record"] == ""
    assert found["races"] == [["RUN_BUSY", "published"]] * 2
    # Of a time to come Delta says itself that there is no snapshot.
    time = "MISSING_SNAPSHOT" if kind == "delta" else "CONNECT_UNSUPPORTED"
    assert found["refused"] == [*["CONNECT_UNSUPPORTED"] * 3, time, *["CONNECT_UNSUPPORTED"] * 2], errors
    assert found["missing"] == ["MISSING_INPUT", "MISSING_SNAPSHOT"], errors


@pytest.fixture(scope="module")
def verbs_of_files(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The folder of inputs as files, and what the other verbs make of them without Spark Connect."""
    home = tmp_path_factory.mktemp("verbs")
    write_inputs(home / "in")
    write_inputs_of_verbs(home / "in")
    configs = write_configs(
        home / "files", lambda name: {"path": str(home / "in" / name)}, {"path": str(home / "out")}
    )
    return home, run_verbs(call, spark, configs, home / "page.html")


@BY_KIND
def test_the_other_verbs_end_as_on_files(server: str, kind: str, verbs_of_files: tuple[Path, Any]) -> None:
    home, of_files = verbs_of_files
    found, errors = answers(server, "verbs", home, kind)
    assert found == of_files, errors
