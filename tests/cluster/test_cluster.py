"""The jobs through spark-submit: the same bits as the command line gives, exit codes, settings left alone."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
import yaml
from tests.cluster.conftest import SECONDS_TO_START, asked, daemon, free_port, until

if TYPE_CHECKING:
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
def local_run(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command line's split and evaluation, on two threads of one process."""
    home = tmp_path_factory.mktemp("local")
    events = home / "events"
    events.mkdir()
    log = {"spark.eventLog.enabled": True, "spark.eventLog.dir": events.as_uri()}
    spark = {"master": "local[2]", "conf": {"spark.driver.memory": "1g", **log}}
    config = write_config(inputs, home, spark=spark)
    for verb in ("split", "evaluate"):
        program = Path(sys.executable).parent / "spark-eval"
        subprocess.run([program, verb, "--config", config, "--run-id", "a"], check=True, capture_output=True)
    return home


def submit_both(
    cluster: "Cluster", master: str, inputs: Path, home: Path, conf: dict[str, str]
) -> dict[str, Any]:
    """Split and evaluation through spark-submit from a folder of its own; the commit record."""
    config = write_config(inputs, home)
    for verb in ("split", "evaluate"):
        done = cluster.submit(master, verb, "--config", config, "--run-id", "a", cwd=home, conf=conf)
        assert done.returncode == 0, done.stderr
        assert "run a published" in done.stdout
    record: dict[str, Any] = json.loads((home / "out" / "_commits" / "a.json").read_text())
    return record


def logged(folder: Path, event: str) -> list[dict[str, Any]]:
    """The events of a kind in all event logs of a folder."""
    lines = [line for file in sorted(folder.iterdir()) for line in file.read_text().splitlines()]
    return [found for line in lines if (found := json.loads(line))["Event"].endswith(event)]


def test_a_cluster_gives_the_same_bits_and_keeps_its_settings(
    cluster: "Cluster", inputs: Path, local_run: Path, tmp_path: Path
) -> None:
    events = tmp_path / "events"
    events.mkdir()
    conf = {
        "spark.app.name": "theirs",
        "spark.sql.shuffle.partitions": "5",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    record = submit_both(cluster, cluster.master, inputs, tmp_path, conf)
    assert digests(tmp_path) == digests(local_run)
    local_record = json.loads((local_run / "out" / "_commits" / "a.json").read_text())
    assert record["jobs"]["split"]["fingerprint"] == local_record["jobs"]["split"]["fingerprint"]

    started = [event["Spark Properties"] for event in logged(events, "EnvironmentUpdate")]
    assert {properties["spark.app.name"] for properties in started} == {"theirs"}
    assert {properties["spark.master"] for properties in started} == {cluster.master}
    queries = logged(events, "SparkListenerSQLExecutionStart")
    assert queries
    assert all("spark.sql.ansi.enabled" not in query["modifiedConfigs"] for query in queries)
    hosts = {event["Executor ID"] for event in logged(events, "SparkListenerExecutorAdded")}
    assert hosts == {"0", "1"}


def test_the_history_server_reads_a_run_back(local_run: Path, tmp_path: Path) -> None:
    port, settings = free_port(), tmp_path / "history.conf"
    folder = (local_run / "events").as_uri()
    settings.write_text(f"spark.history.fs.logDirectory {folder}\nspark.history.ui.port {port}\n")
    server = "org.apache.spark.deploy.history.HistoryServer"
    with daemon(tmp_path / "history.log", server, "--properties-file", str(settings)):
        known = until(lambda: asked(port, "/api/v1/applications"), SECONDS_TO_START, "runs")
        applications = {found["name"]: found["id"] for found in known}
        assert applications.keys() == {"spark-eval split", "spark-eval evaluate"}
        jobs = asked(port, f"/api/v1/applications/{applications['spark-eval evaluate']}/jobs")
    assert {(job["status"], job["jobGroup"]) for job in jobs} == {("SUCCEEDED", "evaluate of run a")}
    stages = ("read", "measure", "metrics", "publish")
    assert {job["description"] for job in jobs} <= {f"evaluate: {stage}" for stage in stages}
    assert {job["description"] for job in jobs} >= {"evaluate: measure"}


def test_spark_submit_on_one_machine(
    cluster: "Cluster", inputs: Path, local_run: Path, tmp_path: Path
) -> None:
    submit_both(cluster, "local[2]", inputs, tmp_path, {})
    assert digests(tmp_path) == digests(local_run)


@pytest.mark.parametrize(
    ("sections", "code", "name"),
    [
        ({"evaluate": {"metrics": ["mapp"]}}, 2, "UNKNOWN_METRIC"),
        ({"truth": {"path": "no/such/truth"}}, 3, "MISSING_INPUT"),
    ],
)
def test_exit_codes_pass_through(
    cluster: "Cluster", inputs: Path, tmp_path: Path, sections: dict[str, Any], code: int, name: str
) -> None:
    config = write_config(inputs, tmp_path, **sections)
    failed = cluster.submit("local[1]", "evaluate", "--config", config, cwd=tmp_path)
    assert failed.returncode == code
    # spark-submit puts both streams of a Python job on its stdout, and its own log on stderr.
    assert failed.stdout.splitlines()[-1].startswith(f"error[{name}] ")
    assert "Traceback" not in failed.stdout + failed.stderr
    assert not (tmp_path / "out").exists()
