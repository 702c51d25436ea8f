"""Windows under kill -9 and races: published whole or not at all, by one of several."""

import os
import random
import signal
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pyarrow.parquet as pq
import pytest
from publishing import ALREADY, BUSY, WON, die_at, ended, forked, unfinished
from tests.days.days import FIRST, SECOND, publish_day

from spark_eval.runs.run import run_verb
from spark_eval.runs.sections import parse_config
from spark_eval.runs.verbs import VERBS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]
DAYS = ["2024-03-01", "2024-03-02"]
WINDOW = "2024-03-01_2024-03-02"
TABLES = ("metrics", "sums", "accounting")


def no_spark() -> NoReturn:
    raise AssertionError("a session of Spark was opened")


def publish_days(root: Path) -> Path:
    for day, rows in zip(DAYS, (FIRST, SECOND), strict=True):
        publish_day(root, day, {"als": rows, "pop": rows[:1]})
    return root


def contents(out: Path) -> dict[str, Any]:
    """The rows of the window's tables; nothing where it is not published."""
    return {
        table: [
            pq.read_table(file).to_pylist()
            for file in sorted((out / table / f"run_id={WINDOW}").rglob("*.parquet"))
        ]
        for table in TABLES
        if (out / table / f"run_id={WINDOW}").exists()
    }


def publish_window(out: Path) -> bool:
    config = parse_config({"output": {"path": str(out)}, "window": {"first": DAYS[0], "last": DAYS[1]}})
    return run_verb(VERBS["window"], no_spark, config, None, False).is_new


def test_one_of_several_publishes(tmp_path: Path) -> None:
    root = publish_days(tmp_path / "out")
    codes = [ended(process) for process in [forked(partial(publish_window, root)) for _ in range(3)]]
    assert codes.count(WON) == 1
    assert set(codes) <= {WON, ALREADY, BUSY}


def test_a_killed_window_is_whole_or_not_there(tmp_path: Path) -> None:
    """Killed at steps all over an attempt; then the same command again."""
    publish_window(publish_days(tmp_path / "whole"))
    expected = contents(tmp_path / "whole")
    n_killed = n_begun = 0
    # A window makes some 600 calls; it begins to write after some 440.
    for number in random.Random(0).sample(range(300, 650), 30):
        root = publish_days(tmp_path / str(number))
        n_killed += ended(forked(partial(publish_window, root), die_at(number))) == -signal.SIGKILL
        n_begun += any(unfinished(root))
        committed = (root / "_commits" / f"{WINDOW}.json").exists()
        assert not committed or contents(root) == expected
        publish_window(root)
        assert contents(root) == expected
        assert not (root / "_staging").exists()
    assert n_killed >= 10
    assert n_begun >= 5
