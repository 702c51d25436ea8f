"""Publication under kill -9, races and a refusing disk: tables whole or not at all, and in the end once."""

import errno
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from functools import partial
from itertools import count, product
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession
from tests.publishing.deaths import (
    ALREADY,
    BUSY,
    FAILED,
    WON,
    contents,
    die_at,
    ended,
    fail_at,
    forked,
    publish,
    recorded,
    unfinished,
)

from spark_eval.publishing.local import INTENT
from spark_eval.schema import Table

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    # Newer Pythons warn of threads that are not there in the child; it uses none.
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]
TABLES = {Table.PER_USER: 60, Table.METRICS: 3, Table.ACCOUNTING: 5, Table.QUARANTINE: 2}
# What was there before, of the same run or of another.
BEFORE = {Table.PER_USER: 40, Table.METRICS: 2, Table.ACCOUNTING: 4}
OLD, NEW = "old", "new"


def found(root: Path, run_id: str) -> dict[Table, tuple[set[str], int]]:
    """What readers see of a run."""
    return {table: contents(root, run_id, table) for table in TABLES}


def whole(tables: dict[Table, int], fingerprint: str) -> dict[Table, tuple[set[str], int]]:
    """What they should see of these tables."""
    return {table: ({fingerprint}, tables[table]) if table in tables else (set(), 0) for table in TABLES}


def check_interrupted(root: Path, is_replaced: bool) -> None:
    """Old or new, whole, never neither; the other run as it was."""
    assert found(root, "other") == whole(BEFORE, OLD)
    before = whole(BEFORE if is_replaced else {}, OLD)
    after = whole(TABLES, NEW)
    for table, seen in found(root, "a").items():
        assert seen in (before[table], after[table]), (table, seen)


def check_done(root: Path) -> None:
    """Everything is there once, and nothing is left over."""
    assert found(root, "a") == whole(TABLES, NEW)
    assert found(root, "other") == whole(BEFORE, OLD)
    assert recorded(root, "a")["evaluate"]["fingerprint"] == NEW
    assert not (root / "_staging").exists()
    assert sorted(path.name for path in root.iterdir()) == sorted(["_commits", *TABLES])


@pytest.fixture(params=[False, True], ids=["new", "replaced"])
def is_replaced(request: pytest.FixtureRequest) -> bool:
    """Whether the run has other content already."""
    return bool(request.param)


@pytest.fixture
def roots(tmp_path: Path, is_replaced: bool) -> Iterator[Path]:
    """Roots with the same state before, one after the other."""
    template = tmp_path / "template"
    publish(template, "other", BEFORE, OLD)
    if is_replaced:
        publish(template, "a", BEFORE, OLD)

    def copies() -> Iterator[Path]:
        for number in range(10_000):
            root = tmp_path / str(number)
            shutil.copytree(template, root)
            yield root
            shutil.rmtree(root)

    return copies()


@pytest.mark.brief
@pytest.mark.slow
def test_kill_at_every_step(roots: Iterator[Path], is_replaced: bool) -> None:
    """SIGKILL before each system call of an attempt, one process for each; then the same command again."""
    n_points = n_begun = 0
    for n_points, root in enumerate(roots, 1):
        attempt = partial(publish, root, "a", TABLES, NEW)
        code = ended(forked(attempt, die_at(n_points)))
        check_interrupted(root, is_replaced)
        if code == WON:
            break
        assert code == -signal.SIGKILL
        n_begun += any((folder / INTENT).exists() for folder in unfinished(root))
        publish(root, "a", TABLES, NEW)
        check_done(root)
    print(f"{n_points - 1} kill points, {n_begun} of them amid publication; 0 bad")
    assert n_points > 100
    assert n_begun >= 30


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_another_run_finishes_what_was_begun(roots: Iterator[Path], step: int) -> None:
    """Whoever starts next carries out what a dead attempt intended; every ``step``-th system call kills."""
    n_begun = 0
    for number, root in zip(count(60, step), roots, strict=False):
        if ended(forked(partial(publish, root, "a", TABLES, NEW), die_at(number))) == WON:
            break
        was_begun = any((folder / INTENT).exists() for folder in unfinished(root))
        publish(root, "next", {Table.METRICS: 1}, NEW)
        assert not (root / "_staging").exists()
        if was_begun:
            n_begun += 1
            check_done(root)
    assert n_begun >= 30 // step


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [errno.EACCES, *(pytest.param(code, marks=pytest.mark.exhaustive) for code in (errno.ENOSPC, errno.EIO))],
    ids=errno.errorcode.get,
)
def test_a_refusal_at_every_step(roots: Iterator[Path], is_replaced: bool, code: int) -> None:
    """The disk is full, fails or forbids, once, at each system call; then the same command again."""
    n_failed = n_points = 0
    for n_points, root in enumerate(roots, 1):
        attempt = partial(publish, root, "a", TABLES, NEW)
        outcome = ended(forked(attempt, fail_at(n_points, code)))
        check_interrupted(root, is_replaced)
        # Some steps need not succeed, such as removing what is left over.
        assert outcome in (WON, FAILED)
        n_failed += outcome == FAILED
        done = recorded(root, "a").get("evaluate", {}).get("fingerprint") == NEW
        publish(root, "a", TABLES, NEW)
        check_done(root)
        if outcome == WON and n_points > 80 and done:
            break
    print(f"{n_points} refused calls, {n_failed} of them told; 0 bad")
    assert n_failed >= 40


@pytest.mark.slow
@pytest.mark.parametrize(
    "n_kills",
    # A thousand take more than the usual five minutes on a machine that is busy.
    [100, pytest.param(1_000, marks=[pytest.mark.exhaustive, pytest.mark.timeout(1800)])],
)
def test_random_kills(roots: Iterator[Path], is_replaced: bool, n_kills: int) -> None:
    """SIGKILL at random moments of an attempt that lasts some milliseconds; then the same command again."""
    chance, killed = random.Random(20231), 0
    for number, root in enumerate(roots):
        if killed == n_kills // 2:  # new and replaced together
            break
        assert number < 4 * n_kills
        process = forked(partial(publish, root, "a", TABLES, NEW))
        time.sleep(chance.uniform(0, 0.03))
        os.kill(process, signal.SIGKILL)
        killed += ended(process) == -signal.SIGKILL
        check_interrupted(root, is_replaced)
        publish(root, "a", TABLES, NEW)
        check_done(root)
    print(f"{killed} random kills, 0 bad")


@pytest.mark.parametrize("n_rounds", [10, pytest.param(200, marks=pytest.mark.exhaustive)])
def test_racers(tmp_path: Path, n_rounds: int) -> None:
    """Four processes at one run: one publishes it, the others are told."""
    for number in range(n_rounds):
        racers = [forked(partial(publish, tmp_path, f"r-{number}", TABLES, NEW)) for _ in range(4)]
        codes = sorted(map(ended, racers))
        assert codes.count(WON) == 1, codes
        assert set(codes) <= {WON, ALREADY, BUSY}
        assert found(tmp_path, f"r-{number}") == whole(TABLES, NEW)
    assert not (tmp_path / "_staging").exists()


def test_different_runs_at_once(tmp_path: Path) -> None:
    """Eight processes publish 25 runs each below one root."""

    def publish_all(first: int) -> bool:
        return all(
            publish(tmp_path, f"r-{first}-{number}", TABLES, f"{first}-{number}") for number in range(25)
        )

    assert [ended(process) for process in [forked(partial(publish_all, first)) for first in range(8)]] == [
        WON
    ] * 8
    for first, n in product(range(8), range(25)):
        assert found(tmp_path, f"r-{first}-{n}") == whole(TABLES, f"{first}-{n}")
    assert not (tmp_path / "_staging").exists()


def test_readers_during_publications(tmp_path: Path) -> None:
    """A reader counts the rows of all runs again and again: each run is whole or not there."""

    def publish_all() -> bool:
        return all(publish(tmp_path, f"r-{number}", {Table.METRICS: 1_000}, NEW) for number in range(200))

    publish(tmp_path, "r-first", {Table.METRICS: 1_000}, NEW)
    writer = forked(publish_all)
    counts = []
    while os.waitpid(writer, os.WNOHANG)[0] == 0:
        counts.append(ds.dataset(tmp_path / "metrics", partitioning="hive").count_rows())
    print(f"{len(counts)} reads")
    assert len(set(counts)) > 10
    assert counts == sorted(counts)
    assert all(n % 1_000 == 0 for n in counts)


def test_a_reader_of_replaced_content_finds_old_or_new(tmp_path: Path) -> None:
    """During 200 replacements a run is never absent."""

    def publish_all() -> bool:
        return all(
            publish(tmp_path, "a", {Table.METRICS: 10 + number % 2}, str(number)) for number in range(200)
        )

    publish(tmp_path, "a", {Table.METRICS: 11}, "first")
    writer = forked(publish_all)
    n_seen, folder = 0, tmp_path / "metrics" / "run_id=a"
    while os.waitpid(writer, os.WNOHANG)[0] == 0:
        assert (folder / "part-0.parquet").exists()
        n_seen += 1
    print(f"{n_seen} looks")
    assert n_seen > 200


@pytest.mark.parametrize(
    "n_runs",
    [
        pytest.param(15, marks=pytest.mark.slow),
        pytest.param(200, marks=[pytest.mark.slow, pytest.mark.exhaustive]),
    ],
)
def test_spark_reads_during_publications(tmp_path: Path, spark: SparkSession, n_runs: int) -> None:
    """The same with Spark, which lists the files, reads a footer and scans in separate steps."""
    enough = tmp_path / "enough"

    def publish_all() -> bool:
        for n in count():
            publish(tmp_path, f"r-{n}", {Table.METRICS: 1_000}, NEW)
            time.sleep(0.04)
            if n >= n_runs and enough.exists():
                return True
        return False

    publish(tmp_path, "r-first", {Table.METRICS: 1_000}, NEW)
    writer = forked(publish_all)
    counts = []
    while os.waitpid(writer, os.WNOHANG)[0] == 0:
        counts.append(spark.read.parquet(str(tmp_path / "metrics")).count())
        if len(set(counts)) > 2:
            enough.touch()
    print(f"{len(counts)} reads")
    assert len(set(counts)) > 2
    assert counts == sorted(counts)
    assert all(n % 1_000 == 0 for n in counts)
