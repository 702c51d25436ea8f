"""Verbs that need no Spark under kill -9 and races: published whole or not at all, by one of several.

Those that may run on Spark are killed and raced there as well, as drivers of their own.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.calibration.runs import (
    comparison,
    effect,
    publish_comparison,
    publish_effects,
    trial,
    write_programme,
)
from tests.monitoring.days import FIRST, SECOND, publish_day
from tests.publishing.deaths import ALREADY, BUSY, WON, die_at, ended, forked, unfinished

from spark_eval.runs.run import run_verb
from spark_eval.runs.sections import parse_config
from spark_eval.verbs import VERBS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]
DAYS = ["2024-03-01", "2024-03-02"]
Sections = Mapping[str, Any]


def no_spark() -> NoReturn:
    raise AssertionError("a session of Spark was opened")


def publish_days(home: Path) -> Sections:
    """Two days of two models; the second one is watched."""
    for day, rows in zip(DAYS, (FIRST, SECOND), strict=True):
        publish_day(home / "out", day, {"als": rows, "pop": rows[:1]})
    return {"window": {"first": DAYS[0], "last": DAYS[1]}, "watch": {"metrics": ["map@2"], "models": ["als"]}}


def write_links(home: Path) -> Sections:
    """Records in clusters, and candidates with scores."""
    home.mkdir()
    records = list(range(40))
    candidates = {"a": records[:-1], "b": records[1:], "score": [at / 40 for at in records[:-1]]}
    tables = {
        "predicted": {"record": records, "cluster": [at // 3 for at in records]},
        "true": {"record": records, "cluster": [at // 4 for at in records]},
        "candidates": candidates,
    }
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), home / f"{name}.parquet")
    return {name: {"path": str(home / f"{name}.parquet")} for name in tables} | {"sample": {"per_stratum": 5}}


def publish_programme(home: Path) -> Sections:
    """Nine experiments, offline and online."""
    numbers = range(9)
    for number in numbers:
        publish_comparison(home / "out", f"off-{number}", [comparison(number % 4 - 1.0, 0.1)])
        publish_effects(home / "out", f"live-{number}", [effect(f"e{number}", number % 5 - 2.0, 0.2)])
    write_programme(home / "programme.csv", list(map(trial, numbers)))
    candidate = {"difference": 1.0, "std_error": 0.1}
    return {"calibrate": {"programme": str(home / "programme.csv"), "predict": candidate}}


@dataclass(frozen=True)
class Case:
    """A verb, what it reads, the id that it is given, and that of its run."""

    verb: str
    prepare: Callable[[Path], Sections]
    given: str | None
    run_id: str

    def run(self, home: Path, sections: Sections) -> bool:
        tree = {"output": {"path": str(home / "out")}, "engine": "local", **sections}
        return run_verb(VERBS[self.verb], no_spark, parse_config(tree), self.given, False).is_new

    def contents(self, home: Path) -> dict[str, Any]:
        """The rows of the run's tables."""
        files = sorted((home / "out").glob(f"[a-z]*/run_id={self.run_id}/**/*.parquet"))
        return {str(file.relative_to(home)): pq.ParquetFile(file).read().to_pylist() for file in files}


CASES = [
    Case("window", publish_days, None, "_".join(DAYS)),
    Case("watch", publish_days, DAYS[1], f"{DAYS[1]}_watch"),
    Case("calibrate", publish_programme, "march", "march"),
    Case("linkage", write_links, "march", "march"),
    Case("sample", write_links, "march", "march"),
]
each_verb = pytest.mark.parametrize("case", CASES, ids=lambda case: case.verb)


@each_verb
def test_one_of_several_publishes(case: Case, tmp_path: Path) -> None:
    sections = case.prepare(tmp_path / "home")
    run = partial(case.run, tmp_path / "home", sections)
    codes = [ended(process) for process in [forked(run) for _ in range(3)]]
    assert codes.count(WON) == 1
    assert set(codes) <= {WON, ALREADY, BUSY}


def count_steps(action: Callable[[], bool]) -> int:
    """Number of steps of an action, each a byte in a pipe."""
    steps, told = os.pipe()

    def step(_number: int, _name: str) -> None:
        os.write(told, b".")

    process = forked(action, step)
    assert ended(process) == WON
    n_steps = len(os.read(steps, 1 << 16))
    os.close(steps)
    os.close(told)
    return n_steps


@pytest.mark.brief
@each_verb
def test_a_killed_run_is_whole_or_not_there(case: Case, tmp_path: Path) -> None:
    """Killed at steps of its last third, in which it writes; then the same command again."""
    whole = tmp_path / "whole"
    case.run(whole, case.prepare(whole))  # imports
    expected = case.contents(whole)
    assert expected
    n_steps = count_steps(partial(case.run, tmp_path / "counted", case.prepare(tmp_path / "counted")))
    n_killed = n_begun = 0
    for number in random.Random(0).sample(range(n_steps * 2 // 3, n_steps + 1), 20):
        home = tmp_path / str(number)
        run = partial(case.run, home, case.prepare(home))
        n_killed += ended(forked(run, die_at(number))) == -signal.SIGKILL
        n_begun += any(unfinished(home / "out"))
        committed = (home / "out" / "_commits" / f"{case.run_id}.json").exists()
        assert not committed or case.contents(home) == expected
        run()
        assert case.contents(home) == expected
        assert not (home / "out" / "_staging").exists()
    assert n_killed >= 15
    assert n_begun >= 3


SETTINGS = ("--set", "spark.master='local[2]'", "--set", "spark.conf={spark.driver.memory: 1g}")
each_on_spark = pytest.mark.parametrize("case", CASES[3:], ids=lambda case: case.verb)


def driver(case: Case, home: Path, sections: Sections) -> "subprocess.Popen[str]":
    """The verb on Spark in a process of its own, which leads a group of its own."""
    config = home / "config.yaml"
    config.write_text(json.dumps({"output": {"path": str(home / "out")}, **sections}))
    program = Path(sys.executable).parent / "spark-eval"
    given = ["--config", str(config), "--run-id", "march", "--engine", "spark", *SETTINGS]
    return subprocess.Popen(
        [program, case.verb, *given],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def rows_of(case: Case, home: Path) -> list[Any]:
    """The rows of the run's tables, of files of any name."""
    return [rows for _, rows in sorted(case.contents(home).items())]


@each_on_spark
def test_a_killed_driver_of_spark_leaves_nothing_half_published(case: Case, tmp_path: Path) -> None:
    whole, home = tmp_path / "whole", tmp_path / "home"
    case.run(whole, case.prepare(whole))
    sections = case.prepare(home)
    victim = driver(case, home, sections)
    while victim.poll() is None and not any(unfinished(home / "out")):
        time.sleep(0.005)
    os.killpg(victim.pid, signal.SIGKILL)
    victim.communicate()
    assert victim.returncode == -signal.SIGKILL
    assert case.contents(home) == {}
    retry = driver(case, home, sections)
    said, complaint = retry.communicate()
    assert (retry.returncode, complaint) == (0, "")
    assert "cleared away" in said
    assert rows_of(case, home) == rows_of(case, whole)
    assert not any(unfinished(home / "out"))


@each_on_spark
def test_one_of_two_drivers_of_spark_publishes(case: Case, tmp_path: Path) -> None:
    home = tmp_path / "home"
    sections = case.prepare(home)
    drivers = [driver(case, home, sections) for _ in range(2)]
    said = [one.communicate()[0] for one in drivers]
    assert sum("run march published" in one for one in said) == 1
    codes = [one.returncode for one in drivers]
    assert codes.count(0) + codes.count(BUSY) == 2
    assert len(rows_of(case, home)) == 2
