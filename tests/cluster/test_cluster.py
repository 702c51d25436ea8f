"""The jobs through spark-submit: the same bits as the command line gives, exit codes, settings left alone."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
import yaml
from tests.cluster.conftest import SECONDS_TO_START, asked, daemon, free_port, until

from spark_eval.cli.commands import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.cluster.conftest import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
DAY = 86_400


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of 2,000 rows and two models' lists with ties."""
    folder, generator = tmp_path_factory.mktemp("inputs"), np.random.default_rng(3)
    log: dict[str, Any] = {
        "user": generator.integers(0, 80, 2000),
        "item": generator.integers(0, 50, 2000),
        "timestamp": generator.integers(0, 100 * DAY, 2000),
        "relevance": generator.random(2000) * 5,
    }
    lists: dict[str, Any] = {
        "model": generator.choice(["als", "top/10"], 3000),
        "user": generator.integers(0, 80, 3000),
        "item": generator.integers(0, 50, 3000),
        "score": generator.integers(0, 5, 3000) / 7,
    }
    for name, columns in (("log", log), ("lists", lists)):
        (folder / name).mkdir()
        for number in range(3):
            rows = pd.DataFrame(columns).iloc[number::3]
            rows.to_parquet(folder / name / f"{number}.parquet", index=False)
    return folder


def write_config(inputs: Path, home: Path, **sections: Any) -> str:
    """A config whose own master and settings must not count under spark-submit."""
    tree = {
        "output": {"path": str(home / "out")},
        "spark": {"master": "local[1]", "conf": {"spark.app.name": "ours", "spark.sql.ansi.enabled": False}},
        "interactions": {"path": str(inputs / "log"), "timestamp_unit": "s"},
        "recommendations": {"path": str(inputs / "lists")},
        "evaluate": {"metrics": ["map", "ndcg", "f1", "mrr"]},
        **sections,
    }
    path = home / "config.yaml"
    path.write_text(yaml.safe_dump(tree))
    return str(path)


def digests(home: Path) -> dict[str, str]:
    """A hash of each table of numbers, its rows in a fixed order, doubles by their bits."""
    found = {}
    for table in ("splits", "leakage", "per_user", "metrics", "accounting"):
        rows = pd.read_parquet(home / "out" / table)
        lines = [
            "|".join(value.hex() if isinstance(value, float) else str(value) for value in row)
            for row in rows[sorted(rows.columns)].itertuples(index=False)
        ]
        found[table] = hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
    return found


@pytest.fixture(scope="module")
def in_process(inputs: Path, tmp_path_factory: pytest.TempPathFactory, spark: "SparkSession") -> Path:
    """The split and evaluation of the program in this process, by the session of the tests."""
    assert spark.getActiveSession() is not None
    home = tmp_path_factory.mktemp("in_process")
    for verb in ("split", "evaluate"):
        with pytest.raises(SystemExit, match="0"):
            main([verb, "--config", write_config(inputs, home), "--run-id", "a"])
    return home


@dataclass(frozen=True)
class Submitted:
    """What the same by spark-submit on a cluster left: published tables, and events of two applications."""

    home: Path
    events: Path


@pytest.fixture(scope="module")
def submitted(cluster: "Cluster", inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Submitted:
    home = tmp_path_factory.mktemp("submitted")
    found = Submitted(home, home / "events")
    found.events.mkdir()
    conf = {
        "spark.app.name": "theirs",
        "spark.sql.shuffle.partitions": "5",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": found.events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    config = write_config(inputs, home)
    for verb in ("split", "evaluate"):
        done = cluster.submit(cluster.master, verb, "--config", config, "--run-id", "a", cwd=home, conf=conf)
        assert done.returncode == 0, done.stderr
        assert "run a published" in done.stdout
    return found


def logged(folder: Path, event: str) -> list[dict[str, Any]]:
    """The events of a kind in all event logs of a folder."""
    lines = [line for file in sorted(folder.iterdir()) for line in file.read_text().splitlines()]
    return [found for line in lines if (found := json.loads(line))["Event"].endswith(event)]


def fingerprint(home: Path) -> str:
    """The fingerprint of a split, as its commit record has it."""
    record = json.loads((home / "out" / "_commits" / "a.json").read_text())
    return str(record["jobs"]["split"]["fingerprint"])


@pytest.mark.brief
def test_a_cluster_gives_the_same_bits_and_keeps_its_settings(
    cluster: "Cluster", submitted: Submitted, in_process: Path
) -> None:
    assert digests(submitted.home) == digests(in_process)
    assert fingerprint(submitted.home) == fingerprint(in_process)

    started = [event["Spark Properties"] for event in logged(submitted.events, "EnvironmentUpdate")]
    assert {properties["spark.app.name"] for properties in started} == {"theirs"}
    assert {properties["spark.master"] for properties in started} == {cluster.master}
    queries = logged(submitted.events, "SparkListenerSQLExecutionStart")
    assert queries
    assert all("spark.sql.ansi.enabled" not in query["modifiedConfigs"] for query in queries)
    hosts = {event["Executor ID"] for event in logged(submitted.events, "SparkListenerExecutorAdded")}
    assert hosts == {"0", "1"}


def test_the_history_server_reads_a_run_back(submitted: Submitted, tmp_path: Path) -> None:
    port, settings = free_port(), tmp_path / "history.conf"
    folder = submitted.events.as_uri()
    settings.write_text(f"spark.history.fs.logDirectory {folder}\nspark.history.ui.port {port}\n")
    server = "org.apache.spark.deploy.history.HistoryServer"
    with daemon(tmp_path / "history.log", server, "--properties-file", str(settings)):
        known = until(lambda: asked(port, "/api/v1/applications"), SECONDS_TO_START, "runs")
        jobs = [job for found in known for job in asked(port, f"/api/v1/applications/{found['id']}/jobs")]
    assert {job["status"] for job in jobs} == {"SUCCEEDED"}
    described = {
        verb: {job["description"] for job in jobs if job["jobGroup"] == f"{verb} of run a"}
        for verb in ("split", "evaluate")
    }
    assert set().union(*described.values()) == {job["description"] for job in jobs}
    stages = ("start", "read", "measure", "metrics", "publish")
    assert described["evaluate"] <= {f"evaluate: {stage}" for stage in stages}
    assert "evaluate: measure" in described["evaluate"]
    assert described["split"]


def test_exit_codes_pass_through(cluster: "Cluster", inputs: Path, tmp_path: Path) -> None:
    config = write_config(inputs, tmp_path, evaluate={"metrics": ["mapp"]})
    failed = cluster.submit("local[1]", "evaluate", "--config", config, cwd=tmp_path)
    assert failed.returncode == 2
    # spark-submit puts both streams of a Python job on its stdout, and its own log on stderr.
    assert failed.stdout.splitlines()[-1].startswith("error[UNKNOWN_METRIC] ")
    assert "Traceback" not in failed.stdout + failed.stderr
    assert not (tmp_path / "out").exists()
