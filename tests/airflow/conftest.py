"""A real Airflow on loopback, in the environment .venv-airflow, over days of the demo's log."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from tests.cluster.conftest import OPTIONS, build_package, free_port, spark_home, until

from spark_eval.demo.simulation import simulate
from spark_eval.runtime.session import LAUNCHER_HOME, find_java

REPOSITORY = Path(__file__).parents[2]
AIRFLOW = REPOSITORY / ".venv-airflow" / "bin"
DAG = "spark_eval_daily"
DAYS = [f"2024-05-{day:02}" for day in range(10, 17)]
LIST_LENGTH = 20
GATE = {
    "metric": "ndcg",
    "k": 5,
    "max_drop": 0.0,
    "mode": "observed",
    "pairing": "none",
    "if_missing": "pass",
    "min_users": 1,
}
TABLES = ("splits", "subsets", "leakage", "per_user", "metrics", "sums", "accounting")


@dataclass(frozen=True)
class Desk:
    """A folder with all that the DAG is told by environment variables, and with what its runs publish."""

    home: Path

    @property
    def out(self) -> Path:
        """The root of what is published."""
        return self.home / "out"

    def config(self) -> Path:
        """The config, written."""
        columns = {"user": "userId", "item": "movieId", "timestamp": "timestamp", "relevance": "rating"}
        tree = {
            "output": {"path": str(self.out)},
            "interactions": {
                "path": str(self.home / "log.parquet"),
                "columns": columns,
                "timestamp_unit": "s",
            },
            "recommendations": {"path": "each day has its own"},
            "evaluate": {"k": [5], "metrics": ["map", "ndcg", "recall"]},
            "gates": [GATE],
            "report": True,
        }
        path = self.home / "config.yaml"
        path.write_text(yaml.safe_dump(tree))
        return path

    def values(self, day: str) -> dict[str, tuple[str, ...]]:
        """The rows of every table of a day's run, in a fixed order, doubles by their bits."""
        found = {}
        for table in TABLES:
            rows = pd.read_parquet(self.out / table / f"run_id={day}")
            lines = (
                "|".join(value.hex() if isinstance(value, float) else str(value) for value in row)
                for row in rows[sorted(rows.columns)].itertuples(index=False)
            )
            found[table] = tuple(sorted(lines))
        return found

    def record(self, day: str) -> dict[str, Any]:
        """The commit record of a day's run."""
        record: dict[str, Any] = json.loads((self.out / "_commits" / f"{day}.json").read_text())
        return record


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """The demo's log, and for every day the same lists: what was taken most."""
    home = tmp_path_factory.mktemp("desk")
    log = simulate(0.1, 7)
    log.to_parquet(home / "log.parquet", index=False)
    popular = log["movieId"].value_counts().head(LIST_LENGTH).rename_axis("item").reset_index(name="score")
    lists = log[["userId"]].drop_duplicates().rename(columns={"userId": "user"}).merge(popular, how="cross")
    for day in DAYS:
        folder = home / "recommendations" / day
        folder.mkdir(parents=True)
        lists.assign(model="popular").to_parquet(folder / "0.parquet", index=False)
    (home / ".venv").symlink_to(sys.prefix)
    (home / "jobs").symlink_to(REPOSITORY / "jobs")
    (home / "dist").mkdir()
    build_package(home / "dist" / "spark_eval.zip")
    return Desk(home)


@dataclass(frozen=True)
class Airflow:
    """An installation with a database of its own, and how to ask it."""

    home: Path
    port: int
    variables: dict[str, str]

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """A command of Airflow's."""
        return subprocess.run(
            [AIRFLOW / "airflow", *arguments],
            env=self.variables,
            cwd=self.home,
            capture_output=True,
            text=True,
            check=False,
        )

    @contextmanager
    def service(self, *arguments: str) -> Iterator[None]:
        """One of Airflow's services, ended by its own id, and what it leaves by that of its group."""
        with (self.home / f"{arguments[0]}.log").open("a") as log:
            process = subprocess.Popen(
                [AIRFLOW / "airflow", *arguments],
                env=self.variables,
                cwd=self.home,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                yield
            finally:
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(30)
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait(30)

    def end_what_is_left(self) -> None:
        """Kill tasks, and what they started, that have outlived their service: all that know this folder."""
        mark = f"AIRFLOW_HOME={self.home}\0".encode()
        is_clear = False
        while not is_clear:
            is_clear = True
            for folder in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    if mark in (folder / "environ").read_bytes():
                        os.kill(int(folder.name), signal.SIGKILL)
                        is_clear = False

    @cached_property
    def token(self) -> str:
        """What the server lets us in for; it holds for a day."""
        return str(self.ask("/auth/token")["access_token"])

    def ask(self, path: str, body: dict[str, Any] | None = None, method: str | None = None) -> Any:
        """The answer of the server's interface."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Accept": "application/json"},
            method=method,
        )
        if path.startswith("/api/v2/"):
            request.add_header("Authorization", f"Bearer {self.token}")
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)

    def scheduler(self) -> AbstractContextManager[None]:
        """The scheduler, at work."""
        return self.service("scheduler", "--skip-serve-logs")

    def knows_the_dag(self) -> bool:
        """Whether the server answers."""
        with suppress(OSError, ValueError):
            return bool(self.ask(f"/api/v2/dags/{DAG}"))
        return False

    def start(self, day: str) -> str:
        """Trigger the run of a day; its name at Airflow."""
        body = {"logical_date": f"{day}T00:00:00Z"}
        return str(self.ask(f"/api/v2/dags/{DAG}/dagRuns", body)["dag_run_id"])

    def ended(self, run: str, seconds: float = 900) -> str:
        """The state of a run, once it is at its end."""

        def state() -> str | None:
            found = str(self.ask(f"/api/v2/dags/{DAG}/dagRuns/{run}")["state"])
            return found if found in ("success", "failed") else None

        return until(state, seconds, f"end of {run}", pause=1)

    def tasks(self, run: str) -> dict[str, tuple[str, int]]:
        """State and number of tries of a run's tasks."""
        found = self.ask(f"/api/v2/dags/{DAG}/dagRuns/{run}/taskInstances")["task_instances"]
        return {task["task_id"]: (task["state"], task["try_number"]) for task in found}

    def log(self, run: str, task: str) -> str:
        """What a task's tries wrote."""
        files = (self.home / "logs" / f"dag_id={DAG}" / f"run_id={run}" / f"task_id={task}").iterdir()
        return "".join(file.read_text() for file in sorted(files))

    def backfill(self, first: str, last: str, *options: str) -> set[str]:
        """Backfill these days; the states of its runs in the end.

        No scheduler may be at work: Airflow cannot create a backfill in SQLite while others write to it.
        """
        days = ("--from-date", first, "--to-date", last)
        created = self.run("backfill", "create", "--dag-id", DAG, *days, *options)
        assert created.returncode == 0, created.stdout + created.stderr

        def states() -> set[str] | None:
            backfills = self.ask(f"/api/v2/backfills?dag_id={DAG}")["backfills"]
            if not all(backfill["completed_at"] for backfill in backfills):
                return None
            runs = self.ask(f"/api/v2/dags/{DAG}/dagRuns?run_type=backfill")["dag_runs"]
            return {run["state"] for run in runs}

        with self.scheduler():
            return until(states, 1500, "end of the backfill", pause=1)


@pytest.fixture(scope="session")
def airflow(desk: Desk, tmp_path_factory: pytest.TempPathFactory) -> Airflow:
    """Airflow with an empty database."""
    assert AIRFLOW.exists(), "no .venv-airflow; `make test-airflow` makes it and runs this"
    home, port = tmp_path_factory.mktemp("airflow"), free_port()
    spark = {"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "JAVA_HOME": str(LAUNCHER_HOME),
        "SPARK_EVAL_JAVA": str(find_java().home / "bin" / "java"),
        # The archive of classes is that of this path, and of no folder with settings before it.
        "SPARK_HOME": str(spark_home()),
        "SPARK_SUBMIT_OPTS": f"{OPTIONS} -Dspark.sql.shuffle.partitions=2 -Dspark.ui.enabled=false",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "AIRFLOW_HOME": str(home),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(spark),
        "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{port}",
        "AIRFLOW__API__SECRET_KEY": "for tests on loopback",
        "AIRFLOW__API_AUTH__JWT_SECRET": "for tests on loopback" * 4,
        "AIRFLOW__CORE__DAGS_FOLDER": str(REPOSITORY / "dags"),
        "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "1",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PARALLELISM": "2",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
        "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
        # On a busy machine the server takes longer than five seconds for its first answer to a task.
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
        "SPARK_EVAL_HOME": str(desk.home),
        "SPARK_EVAL_CONFIG": str(desk.config()),
        "SPARK_EVAL_RECOMMENDATIONS": str(desk.home / "recommendations"),
    }
    found = Airflow(home, port, variables)
    migrated = found.run("db", "migrate")
    assert migrated.returncode == 0, migrated.stderr
    return found


@pytest.fixture(scope="session")
def served(airflow: Airflow) -> Iterator[Airflow]:
    """The same with the DAG in its database, switched on, and its server at work."""
    known = airflow.run("dags", "reserialize")
    assert known.returncode == 0, known.stderr
    with ExitStack() as services:
        services.callback(airflow.end_what_is_left)
        ports = ("--host", "127.0.0.1", "--port", str(airflow.port), "--workers", "1")
        services.enter_context(airflow.service("api-server", *ports))
        until(airflow.knows_the_dag, 300, f"server; its log is in {airflow.home}")
        airflow.ask(f"/api/v2/dags/{DAG}", {"is_paused": False}, "PATCH")
        yield airflow
