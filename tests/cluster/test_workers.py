"""Workers that are not as they should be, and executors that die."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pytest
import yaml
from tests.cluster.conftest import REPOSITORY

if TYPE_CHECKING:
    from tests.cluster.conftest import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

MakeCluster = Callable[[str, str], "Cluster"]
NEWER_PYTHON = """
import pyspark.worker, runpy, sys
sys.version_info = (3, 99, 0, "final", 0)
del sys.argv[:2]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The executors' environment as ``make archive`` packs it."""
    folder = tmp_path_factory.mktemp("dist")
    made = subprocess.run(
        ["make", "archive", f"dist={folder}"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    return folder / "environment.tar.gz"


@pytest.fixture
def config(tmp_path: Path) -> str:
    """A config over truth and lists that three tasks or more have to read."""
    generator = np.random.default_rng(5)
    for name, extra in (("truth", {}), ("lists", {"model": "m", "score": generator.random(30_000)})):
        (tmp_path / name).mkdir()
        pairs = {"user": np.arange(30_000) // 10, "item": generator.integers(0, 50, 30_000)}
        rows = pd.DataFrame({**pairs, **extra})
        for number in range(3):
            rows.iloc[number * 10_000 : (number + 1) * 10_000].to_parquet(
                tmp_path / name / f"{number}.parquet"
            )
    tree = {
        "output": {"path": str(tmp_path / "out")},
        "recommendations": {"path": str(tmp_path / "lists")},
        "truth": {"path": str(tmp_path / "truth")},
        "evaluate": {"metrics": ["map", "ndcg"]},
    }
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(tree))
    return str(path)


@pytest.fixture
def cluster_with(cluster: "Cluster", tmp_path: Path) -> MakeCluster:
    """Makes clusters of which the executors find a module of another content first."""

    def make(name: str, content: str) -> "Cluster":
        module = tmp_path / "first" / name / "__init__.py"
        module.parent.mkdir(parents=True)
        module.write_text(content)
        program = tmp_path / "python"
        path = f'PYTHONPATH="{tmp_path / "first"}:$PYTHONPATH"'
        program.write_text(f'#!/bin/sh\n{path} exec "{cluster.executor_python}" "$@"\n')
        program.chmod(0o755)
        return replace(cluster, executor_python=program)

    return make


def test_executors_live_in_the_archive(
    cluster: "Cluster", archive: Path, config: str, tmp_path: Path
) -> None:
    inside = replace(cluster, executor_python="./environment/bin/python")
    conf = {"spark.archives": f"{archive}#environment"}
    arguments = ("--config", config, "--run-id", "a")
    done = inside.submit(cluster.master, "evaluate", *arguments, cwd=tmp_path, conf=conf)
    assert done.returncode == 0, done.stdout
    [told] = [line for line in done.stdout.splitlines() if "workers on " in line]
    assert f" at {cluster.home}/" in told
    assert "/environment/bin/python" in told
    assert "run a published" in done.stdout


def refusal(cluster: "Cluster", config: str, home: Path) -> tuple[int, str]:
    """Exit code and last line of an evaluation, before which nothing may be published."""
    failed = cluster.submit(cluster.master, "evaluate", "--config", config, "--run-id", "a", cwd=home)
    assert "Traceback" not in failed.stdout
    assert not (home / "out" / "metrics").exists()
    return failed.returncode, failed.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("pandas", "__version__ = '2.0.9'", " has pandas 2.0.9 for "),
        (
            "pyarrow",
            "raise ImportError('libarrow is not here')",
            " has pyarrow none (libarrow is not here) for ",
        ),
    ],
)
def test_libraries_that_differ_are_refused_before_data_is_read(
    cluster_with: MakeCluster, config: str, tmp_path: Path, name: str, content: str, says: str
) -> None:
    for file in (tmp_path / "truth").iterdir():
        file.write_bytes(b"not Parquet")
    code, line = refusal(cluster_with(name, content), config, tmp_path)
    assert code == 1
    assert line.startswith("error[WORKER_ENV_MISMATCH] workers differ from the driver: ")
    assert says in line


def test_workers_without_the_package_are_told_of(cluster: "Cluster", config: str, tmp_path: Path) -> None:
    with ZipFile(tmp_path / "empty.zip", "w") as archive:
        archive.writestr("nothing.txt", "")
    code, line = refusal(replace(cluster, package=tmp_path / "empty.zip"), config, tmp_path)
    assert code == 1
    assert "error[WORKER_ENV_MISMATCH]" in line
    assert "has spark_eval none (No module named 'spark_eval')" in line


def test_another_python_is_refused(cluster: "Cluster", config: str, tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nexec "{cluster.executor_python}" -c \'{NEWER_PYTHON}\' "$@"\n')
    program.chmod(0o755)
    code, line = refusal(replace(cluster, executor_python=program), config, tmp_path)
    assert code == 1
    assert line.startswith("error[WORKER_ENV_MISMATCH] ")
    assert "3.99" in line


def test_workers_that_always_die_have_a_name(cluster_with: MakeCluster, config: str, tmp_path: Path) -> None:
    dies = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"
    code, line = refusal(cluster_with("numpy", dies), config, tmp_path)
    assert code == 1
    assert line.startswith("error[WORKER_CRASHED] ")


def executors(home: Path) -> list[int]:
    """The process ids of the executors that run in folders of the cluster's workers."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            is_executor = b"CoarseGrainedExecutorBackend" in (folder / "cmdline").read_bytes()
            if is_executor and home in (folder / "cwd").resolve().parents:
                found.append(int(folder.name))
    return sorted(found)


def test_a_killed_executor_changes_nothing(cluster: "Cluster", config: str, tmp_path: Path) -> None:
    with ThreadPoolExecutor(max_workers=1) as pool:
        for run_id in ("whole", "killed"):
            arguments = ("--config", config, "--run-id", run_id)
            job = pool.submit(cluster.submit, cluster.master, "evaluate", *arguments, cwd=tmp_path)
            while run_id == "killed" and not list(tmp_path.glob("out/_staging/killed-evaluate-*/per_user")):
                assert not job.done(), job.result().stdout
                time.sleep(0.01)
            if run_id == "killed":
                os.kill(executors(cluster.home)[0], signal.SIGKILL)
            done = job.result()
            assert done.returncode == 0, done.stdout
    assert "Lost executor" in done.stderr
    for table in ("per_user", "metrics", "accounting"):
        whole, killed = (
            pd.read_parquet(tmp_path / "out" / table / f"run_id={run_id}") for run_id in ("whole", "killed")
        )
        columns = list(whole.columns)
        pd.testing.assert_frame_equal(
            killed.sort_values(columns, ignore_index=True),
            whole.sort_values(columns, ignore_index=True),
            check_exact=True,
        )
