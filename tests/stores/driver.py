"""A light driver: a process with a JVM of its own and no Spark, which publishes as it is told.

``python -m tests.stores.driver ROOT MANIFEST NAME=VALUE …`` takes the settings of its client of Hadoop, then
lines of stdin: ``begin RUN`` stages the tables of an attempt, ``publish RUN`` publishes it in a thread of
its own. It answers each with a line: ``begun RUN``, ``published RUN``, or the code of an error and the run.
"""

import sys
from threading import Thread
from types import SimpleNamespace
from typing import Any

from py4j.java_gateway import JavaGateway
from tests.cluster.conftest import spark_home
from tests.stores.attempts import TABLES, begun
from tests.stores.jars import pinned

from spark_eval.errors import BusyError
from spark_eval.publishing.attempt import Attempt
from spark_eval.publishing.commits import Sealed
from spark_eval.publishing.remote import HadoopStore
from spark_eval.runtime.hadoop_files import HadoopFiles
from spark_eval.runtime.session import find_java


def client(settings: dict[str, str]) -> Any:
    """Start a JVM; return of a Spark session what files of Hadoop need."""
    jars = spark_home() / "jars"
    [py4j] = jars.glob("py4j-*.jar")
    classpath = [f"{jars}/*", *(str(jar.path) for jar in pinned("s3") if jar.is_there)]
    launch: Any = JavaGateway.launch_gateway
    gateway = launch(
        jarpath=str(py4j),
        classpath=":".join(classpath),
        java_path=str(find_java().home / "bin" / "java"),
        javaopts=["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"],
        die_on_exit=True,
    )
    conf = gateway.jvm.org.apache.hadoop.conf.Configuration()
    for name, value in settings.items():
        conf.set(name, value)
    return SimpleNamespace(
        _jvm=gateway.jvm,
        _jsc=SimpleNamespace(hadoopConfiguration=lambda: conf),
        sparkContext=SimpleNamespace(_gateway=gateway),
    )


def sealed_unread(store: HadoopStore, folder: str, _: object) -> Sealed:
    """Describe a table without Spark, which only reads it: by its name."""
    files = [path for path, *_ in store.files.files_below(folder)]
    [n_rows] = [rows for table, rows in TABLES.items() if f"/{table}" in folder]
    return Sealed(files, n_rows, {})


def answer(word: str, run_id: str) -> None:
    """Write a line at once: threads share stdout."""
    sys.stdout.write(f"{word} {run_id}\n")
    sys.stdout.flush()


def publish(attempt: Attempt) -> None:
    """Publish, and answer."""
    run_id = attempt.staging.run_id
    try:
        attempt.publish(TABLES, {"fingerprint": "f"})
    except BusyError as error:
        answer(error.code, run_id)
    else:
        answer("published", run_id)
    finally:
        attempt.__exit__()


def main(root: str, manifest: str, *settings: str) -> None:
    """Obey until stdin ends."""
    files = HadoopFiles(client(dict(setting.split("=", 1) for setting in settings)), root)
    HadoopStore.seal = sealed_unread  # type: ignore[method-assign, assignment]
    attempts: dict[str, Attempt] = {}
    for line in sys.stdin:
        order, run_id = line.split()
        if order == "begin":
            attempts[run_id] = begun(files, manifest == "True", run_id)
            answer("begun", run_id)
        else:
            Thread(target=publish, args=(attempts.pop(run_id),)).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
