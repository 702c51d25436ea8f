"""Workers that are not as they should be, and executors that die."""

import os
import signal
import subprocess
import time
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

from spark_eval.cli.commands import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.cluster.conftest import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

NEWER_PYTHON = """
import pyspark.worker, runpy, sys
sys.version_info = (3, 99, 0, "final", 0)
del sys.argv[:2]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
# Evaluations of one session, each with workers of another Python.
EVALUATIONS = """
import sys
from pyspark.sql import SparkSession
from spark_eval.cli.commands import main

context = SparkSession.builder.getOrCreate().sparkContext
config, *programs = sys.argv[1:]
for program in programs:
    context.pythonExec = program
    try:
        main(["evaluate", "--config", config, "--run-id", "a"])
    except SystemExit as left:
        print("left", left.code, flush=True)
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


def python_with(cluster: "Cluster", folder: Path, name: str, content: str) -> str:
    """The executors' Python, to which a module of another content comes first."""
    module = folder / name / "first" / name / "__init__.py"
    module.parent.mkdir(parents=True)
    module.write_text(content)
    path = f'PYTHONPATH="{module.parents[1]}:$PYTHONPATH"'
    return program(folder / name / "python", f'{path} exec "{cluster.executor_python}" "$@"')


def program(path: Path, command: str) -> str:
    """A command as a program."""
    path.write_text(f"#!/bin/sh\n{command}\n")
    path.chmod(0o755)
    return str(path)


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


@pytest.mark.brief
def test_workers_that_differ_are_refused_before_data_is_read(
    cluster: "Cluster", config: str, tmp_path: Path
) -> None:
    for file in (tmp_path / "truth").iterdir():
        file.write_bytes(b"not Parquet")
    newer = f'exec "{cluster.executor_python}" -c \'{NEWER_PYTHON}\' "$@"'
    dies = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"
    differs = "error[WORKER_ENV_MISMATCH] workers differ from the driver: "
    says = {
        python_with(cluster, tmp_path, "pandas", "__version__ = '2.0.9'"): (
            differs,
            " has pandas 2.0.9 for ",
        ),
        python_with(cluster, tmp_path, "pyarrow", "raise ImportError('libarrow is not here')"): (
            differs,
            " has pyarrow none (libarrow is not here) for ",
        ),
        str(cluster.executor_python): (differs, " has spark_eval none (No module named 'spark_eval')"),
        program(tmp_path / "python", newer): ("error[WORKER_ENV_MISMATCH] ", "3.99"),
        python_with(cluster, tmp_path, "numpy", dies): ("error[WORKER_CRASHED] ", ""),
    }
    job = tmp_path / "evaluations"
    job.with_suffix(".py").write_text(EVALUATIONS)
    with ZipFile(tmp_path / "empty.zip", "w") as package:
        package.writestr("nothing.txt", "")
    without = replace(cluster, package=tmp_path / "empty.zip")
    done = without.submit(cluster.master, str(job), config, *says, cwd=tmp_path)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("error[", "left "))]
    ends = [1 if "WORKER_CRASHED" in start else 2 for start, _ in says.values()]
    assert lines[1::2] == [f"left {end}" for end in ends], done.stdout
    for line, (start, part) in zip(lines[::2], says.values(), strict=True):
        assert line.startswith(start)
        assert part in line
    assert "Traceback" not in done.stdout
    assert not (tmp_path / "out" / "metrics").exists()


def executors(home: Path) -> list[int]:
    """The process ids of the executors that run in folders of the cluster's workers."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            is_executor = b"CoarseGrainedExecutorBackend" in (folder / "cmdline").read_bytes()
            if is_executor and home in (folder / "cwd").resolve().parents:
                found.append(int(folder.name))
    return sorted(found)


def test_a_killed_executor_changes_nothing(
    cluster: "Cluster", config: str, tmp_path: Path, spark: "SparkSession"
) -> None:
    assert spark.getActiveSession() is not None
    with pytest.raises(SystemExit, match="0"):
        main(["evaluate", "--config", config, "--run-id", "whole"])
    arguments = ("--config", config, "--run-id", "killed")
    with ThreadPoolExecutor(max_workers=1) as pool:
        job = pool.submit(cluster.submit, cluster.master, "evaluate", *arguments, cwd=tmp_path)
        while not list(tmp_path.glob("out/_staging/killed-evaluate-*/per_user")):
            assert not job.done(), job.result().stdout
            time.sleep(0.01)
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
