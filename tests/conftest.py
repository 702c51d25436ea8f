"""What all rings of tests share: one Spark session per process, and hypothesis for a shared machine."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial, partialmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# No example fails for being slow, and fewer than the usual number run: the same each time, so that a change
# is refused for what it changed. ``make test-exhaustive`` draws others.
settings.register_profile("others", deadline=None, max_examples=40)
settings.register_profile("shared", settings.get_profile("others"), derandomize=True)
settings.load_profile("shared")

# Options of every JVM that tests start. Tables are small: optimising machine code costs more than it gives.
# Code and classes have room: in the little of the default, the JVM sweeps and collects all the time.
# Spark's classes come from the archive that make has written.
CLASSES = Path(sys.prefix) / ".classes.jsa"
os.environ["SPARK_SUBMIT_OPTS"] = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=256m -XX:+UseSerialGC"
)
if CLASSES.exists() and CLASSES.stat().st_size:
    os.environ["SPARK_SUBMIT_OPTS"] += f" -XX:SharedArchiveFile={CLASSES} -Xlog:cds*=off"


# The make that runs the tests would have the makes that they call print where they work.
for variable in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
    os.environ.pop(variable, None)

# A shell that starts a call in the background has it ignore SIGINT, and with it all that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


# Marks of tests that call Spark where they name no engine.
ON_SPARK = ["spark", "slow", "cluster", "setup", "parity", "airflow", "browser", "stores", "exhaustive"]


def pytest_configure(config: pytest.Config) -> None:
    """Hide Spark from the default ring, so that a test that starts one fails there."""
    if "not spark" in config.getoption("markexpr"):
        os.environ["SPARK_HOME"] = "/The default ring starts no Spark: mark the test spark."


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests with a session of Spark; put their files first and, for ``FromBothEnds``, long ones last.

    Where idle workers steal tests (the exhaustive ring), tests with the longest time-outs come first.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
    if config.getoption("dist", "no") == "worksteal":
        items.sort(key=lambda item: -longest_of(item))
        return
    has_spark, is_long = set[Path](), set[Path]()
    for item in items:
        if item.get_closest_marker("spark"):
            has_spark.add(item.path)
        if item.get_closest_marker("timeout"):
            is_long.add(item.path)
    items.sort(key=lambda item: (item.path not in has_spark, item.path in is_long))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Choose the engine of calls that name none: Spark in tests of it and slower ones, else as for users."""
    os.environ["SPARK_EVAL_ENGINE"] = engine_of(item)


def engine_of(item: pytest.Item) -> str:
    """Return what ``each_engine`` or ``engine_of_users`` ask for, else the engine of the ring."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    if "each_engine" in parameters:
        return str(parameters["each_engine"])
    of_users = "engine_of_users" in getattr(item, "fixturenames", ())
    return "auto" if of_users or not any(map(item.get_closest_marker, ON_SPARK)) else "spark"


def longest_of(item: pytest.Item) -> float:
    """Return the time-out of a test in seconds; 0 without one of its own."""
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0]) if marker is not None and marker.args else 0.0


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Of several processes let one begin with the files with Spark, the others with the last files.

    A second JVM loads and compiles the same classes again: it starts only if files with Spark are left when
    all others are done.
    """
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

    class FromBothEnds(LoadFileScheduling):  # type: ignore[misc]
        def _assign_work_unit(self, node: Any) -> None:
            if node is not self.nodes[0]:
                self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
            super()._assign_work_unit(node)

    return FromBothEnds(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="module")
def engine_of_users() -> None:
    """Calls run in this process where it can, as for users, also in tests with a session of Spark."""


@pytest.fixture(scope="module", params=["auto", pytest.param("spark", marks=pytest.mark.slow)])
def each_engine(request: pytest.FixtureRequest) -> str:
    """As for users in the quick rings; the slow ring asks Spark for the same."""
    engine: str = request.param
    return engine


@pytest.fixture(params=["local", pytest.param("spark", marks=pytest.mark.slow)])
def session(request: pytest.FixtureRequest) -> "SparkSession | None":
    """None, for logs and tables of this process; in the slow ring also the session of Spark."""
    found: SparkSession | None = request.getfixturevalue("spark") if request.param == "spark" else None
    return found


@pytest.fixture(scope="session", autouse=True)
def no_wait_for_the_disk() -> Iterator[None]:
    """Publication syncs what it writes: it takes long, and only a machine without power could tell."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    # Imported here: the rings without a JVM load no Spark.
    from py4j.java_gateway import JavaPackage, JVMView
    from pyspark.sql import SparkSession

    from spark_eval.runtime.session import get_session

    # A test without this fixture may have started a session of its own.
    if (running := SparkSession.getActiveSession()) is not None:
        running.stop()
    session = get_session(
        "spark-eval tests",
        "local[2]",
        {
            "spark.sql.shuffle.partitions": "2",
            # A query of a test may hold 600 MB while it runs. One JVM may serve most files of the run, so it
            # keeps few plans of queries that have ended.
            "spark.driver.memory": "2g",
            "spark.sql.ui.retainedExecutions": "20",
            "spark.ui.retainedJobs": "20",
            "spark.ui.retainedStages": "20",
            # Hundreds of small queries: compiling a program for each costs more than it gives. Processes of
            # their own (cluster, pages, demo) compile.
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            # Planning anew after each shuffle is a fifth of a small query; tests of plans and of bits do.
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        },
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "createDataFrame", partial(create_frame, session.createDataFrame))
        # PySpark's own conversion warns of pandas 3; the package takes results by way of Arrow, too.
        patch.setattr(type(session.range(1)), "toPandas", lambda frame: frame.toArrow().to_pandas())
        for kind in (JVMView, JavaPackage):
            patch.setattr(kind, "__getattr__", partialmethod(name_of_java, kind.__getattr__))
        yield session
    session.stop()


def name_of_java(self: Any, look_up: Callable[[Any, str], Any], name: str) -> Any:
    """Return a package or class, asked for once: the JVM looks for each part of a name in all of its jars."""
    vars(self)[name] = found = look_up(self, name)
    return found


def create_frame(create: Any, rows: Any, schema: Any = None, *rest: Any, **more: Any) -> Any:
    """Return a frame of tuples or of pandas by way of Arrow.

    Each query of tuples would run a Python worker otherwise, and PySpark's own conversion warns of pandas 3.
    """
    from pyspark.sql.types import StructType

    from spark_eval.tables.plain_files import arrow_type

    if isinstance(rows, pd.DataFrame):
        return create(pa.Table.from_pandas(rows, preserve_index=False), schema, *rest, **more)
    if not (isinstance(rows, list) and rows and isinstance(schema, str)):
        return create(rows, schema, *rest, **more)
    kinds: Any = StructType.fromDDL(schema)
    columns = zip(zip(*rows, strict=True), kinds, strict=True)
    arrays = [pa.array(values, arrow_type(kind.dataType)) for values, kind in columns]
    return create(pa.table(arrays, kinds.names), kinds, **more)


@pytest.fixture
def without_java(tmp_path: Path) -> Callable[[str], list[str]]:
    """Run a program of Python where no Java is found; return the words that it prints."""

    def run(code: str) -> list[str]:
        clean = {name: value for name, value in os.environ.items() if name != "SPARK_EVAL_ENGINE"}
        ended = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
            env=clean | {"PATH": "/nowhere", "JAVA_HOME": "/nowhere"},
        )
        return ended.stdout.split()

    return run


@pytest.fixture
def persisted(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every frame that the test persists."""
    found: list[Any] = []
    kind = type(spark.range(1))
    persist = kind.persist

    def noted(rows: Any, *level: Any) -> Any:
        found.append(rows)
        return persist(rows, *level)

    monkeypatch.setattr(kind, "persist", noted)
    return found
