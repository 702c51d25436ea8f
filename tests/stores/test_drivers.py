"""Kills at random and races of drivers that are processes, each with a JVM of its own, on both stores."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from typing import IO, TYPE_CHECKING, Final, NamedTuple

import pytest
from tests.cluster.conftest import REPOSITORY
from tests.stores.attempts import finish, found, whole
from tests.stores.conftest import CLIENT, S3, SECONDS
from tests.stores.driver import sealed_unread

from spark_eval.publishing.remote import HadoopStore
from spark_eval.runtime.hadoop_files import HadoopFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.stores, pytest.mark.exhaustive, pytest.mark.timeout(7200)]
BOTH: Final = pytest.mark.parametrize("store", ["on_hdfs", "on_s3"])
N_KILLED: Final = 200
AT_ONCE: Final = 10
N_RACES: Final = 50


class Store(NamedTuple):
    """A folder on a store, whether a manifest decides there, and the settings of a client."""

    root: str
    manifest: bool
    settings: dict[str, str]


@pytest.fixture
def place(store: str, request: pytest.FixtureRequest) -> Store:
    """The store of this name."""
    root: str = request.getfixturevalue(store)
    if store == "on_hdfs":
        return Store(root, False, CLIENT)
    s3: S3 = request.getfixturevalue("s3")
    return Store(root, True, s3.settings)


class Driver:
    """A process of ``tests.stores.driver``."""

    def __init__(self, place: Store, root: str) -> None:
        words = [f"{name}={value}" for name, value in place.settings.items()]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.stores.driver", root, str(place.manifest), *words],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def order(self, line: str) -> None:
        """Give an order, and do not wait."""
        stream: IO[str] | None = self.process.stdin
        assert stream is not None
        stream.write(f"{line}\n")
        stream.flush()

    def answer(self) -> str:
        """Wait for the answer to the oldest order that has none."""
        stream: IO[str] | None = self.process.stdout
        assert stream is not None
        return stream.readline().strip()

    def kill(self) -> None:
        """End the process and its JVM as kill -9 does."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate(timeout=SECONDS)


@contextmanager
def driver(place: Store, root: str) -> Iterator[Driver]:
    """Start a driver, which is gone in the end."""
    process = Driver(place, root)
    try:
        yield process
    finally:
        process.kill()


def seconds_of_publications(place: Store) -> float:
    """Return how long the publications of a process take."""
    with driver(place, f"{place.root}/unharmed") as unharmed:
        run_ids = begin(unharmed)
        start = time.monotonic()
        for run_id in run_ids:
            unharmed.order(f"publish {run_id}")
        answers = {unharmed.answer() for _ in run_ids}
        assert answers == {f"published {run_id}" for run_id in run_ids}
        return time.monotonic() - start


def begin(one: Driver) -> list[str]:
    """Stage the runs of a process; return their ids."""
    run_ids = [f"r{number}" for number in range(AT_ONCE)]
    for run_id in run_ids:
        one.order(f"begin {run_id}")
        assert one.answer() == f"begun {run_id}"
    return run_ids


@BOTH
def test_kills_at_random_moments_of_publication(
    place: Store, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process dies while it publishes ten runs, each begun at a moment of its own: all are there, once."""
    longest = seconds_of_publications(place)
    monkeypatch.setattr(HadoopStore, "seal", sealed_unread)
    random, ends = Random(34), Counter[tuple[bool, bool]]()
    for number in range(N_KILLED // AT_ONCE):
        root = f"{place.root}/{number:03}"
        with driver(place, root) as victim:
            run_ids = begin(victim)
            pause = random.uniform(0, 2 * longest / AT_ONCE)
            for run_id in run_ids:
                victim.order(f"publish {run_id}")
                time.sleep(random.uniform(0, pause))
        ends.update(finish(HadoopFiles(spark, root), place.manifest, run_ids))
        print(f"{AT_ONCE} publications take {longest:.2f} s; of {ends.total()}: {dict(ends)}; 0 bad")
    # Some died before they had decided anything, and some had all done or intended.
    assert ends[False, False]
    assert ends[True, True] + ends[False, True]


@BOTH
def test_of_two_processes_that_publish_at_once_one_wins(place: Store, spark: "SparkSession") -> None:
    """The other is told RUN_BUSY, exit 4; readers find each run once, whole."""
    run_ids = [f"r{number:02}" for number in range(N_RACES)]
    with ExitStack() as stack:
        drivers = [stack.enter_context(driver(place, place.root)) for _ in range(2)]
        winners = Counter[int]()
        for run_id in run_ids:
            for order, expected in (("begin", ["begun", "begun"]), ("publish", ["RUN_BUSY", "published"])):
                for one in drivers:
                    one.order(f"{order} {run_id}")
                answers = [one.answer().split()[0] for one in drivers]
                assert sorted(answers) == expected
            winners[answers.index("published")] += 1
    print(f"{N_RACES} races, won by {dict(winners)}")
    assert found(HadoopFiles(spark, place.root)) == whole(*run_ids)
