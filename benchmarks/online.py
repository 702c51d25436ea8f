"""Online experiments: CPU seconds of one and of twenty experiments, beside floors and Spark SQL.

``python -m benchmarks.online FOLDER [--events 10000000] [--engine local] [--memory 1g] [CASE ...]``

Every case runs in a process of its own. Tables are written below FOLDER, once for each number of events.
Linux only.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.processes import usage

EVENTS_PER_USER: Final = 20
FILE_ROWS: Final = 2_500_000
N_EXPERIMENTS: Final = 20
DAY: Final = 86_400_000_000
START: Final = 19_844 * DAY  # 2024-05-01
KINDS: Final = ("impression", "click", "watch")
INSTANT: Final = pa.timestamp("us", "UTC")
METRICS: Final[list[dict[str, Any]]] = [
    {
        "name": "ctr",
        "kind": "ratio",
        "numerator": {"kind": "click", "value": "count"},
        "denominator": {"kind": "impression", "value": "count"},
    },
    {"name": "watch", "kind": "mean", "of": {"kind": "watch"}, "decimals": 3},
    {"name": "clicked", "kind": "mean", "of": {"kind": "click", "value": "any"}},
]
HALVES: Final = {"a": [0, 5000], "b": [5000, 10000]}


def experiment(number: int, **more: Any) -> dict[str, Any]:
    """Return an experiment of four weeks with two arms."""
    sound = {"name": f"e{number}", "control": "a", "variants": {"a": 1, "b": 1}}
    return sound | {"period": ["2024-05-01", "2024-05-29"]} | more


def of_any_length(number: int) -> dict[str, Any]:
    """Return an experiment with a period and a window of its own."""
    period = [f"2024-05-{1 + number % 7:02}", f"2024-05-{22 + number % 8:02}"]
    return experiment(number, period=period, window=f"{5 + number}d")


def hashed(number: int) -> dict[str, Any]:
    """Return an experiment whose variants follow from the user."""
    return experiment(number, assignment={"salt": f"e{number}", "ranges": HALVES})


EVERY: Final = range(N_EXPERIMENTS)
# Exposures and experiments of each case; those in ``first`` have a row per user, and no variant.
CASES: Final[dict[str, tuple[str, list[dict[str, Any]]]]] = {
    "one": ("one", [experiment(0)]),
    "one, by hash": ("first", [hashed(0)]),
    "20 layers": ("layers", [experiment(number) for number in EVERY]),
    "20, all users": ("all", [experiment(number) for number in EVERY]),
    "20, by hash": ("first", [hashed(number) for number in EVERY]),
    "20 of other periods": ("all", [of_any_length(number) for number in EVERY]),
    "one of 20": ("all", [experiment(0)]),
    "one, few users": ("few", [experiment(0)]),
}
# The tables that floors and SQL read.
TABLES: Final = {"scan": "one", "shuffle": "one", "sql": "one"}


def write_events(folder: Path, n_events: int, text: bool, giant: bool) -> None:
    """Write events of six weeks in no order; four of ten are of users' columns that no metric reads."""
    folder.mkdir(parents=True)
    n_users = n_events // EVENTS_PER_USER
    for number, start in enumerate(range(0, n_events, FILE_ROWS)):
        draw, n = np.random.default_rng([7, number]), min(FILE_ROWS, n_events - start)
        users = draw.integers(0, n_users, n)
        if giant:
            users[draw.random(n) < 0.5] = 0
        values = np.round(draw.exponential(60.0, n), 3)
        columns = {
            "user": ids(users, text),
            "timestamp": pa.array(START - 14 * DAY + draw.integers(0, 42 * DAY, n), INSTANT),
            "kind": kinds_of(draw, n),
            "value": pa.array(values),
            "session": pa.array(draw.integers(0, 1 << 40, n)),
            "page": pa.DictionaryArray.from_arrays(draw.integers(0, 50, n), [f"page {n}" for n in range(50)]),
        }
        pq.write_table(pa.table(columns), folder / f"{number:04}.parquet", compression="snappy")


def ids(users: Any, text: bool) -> pa.Array:
    """Return numbers as ids."""
    numbers = pa.array(users)
    return numbers if not text else pa.compute.binary_join_element_wise("user-", numbers.cast("string"), "")


def kinds_of(draw: np.random.Generator, n: int) -> pa.Array:
    """Return kinds: seven of ten are impressions."""
    return pa.DictionaryArray.from_arrays(draw.choice(3, n, p=[0.7, 0.1, 0.2]), list(KINDS))


def write_exposures(folder: Path, kind: str, n_users: int, text: bool) -> None:
    """Write a row per user, or per user and experiment of ``all``."""
    folder.mkdir(parents=True)
    n_files = max(1, n_users * (N_EXPERIMENTS if kind == "all" else 1) // FILE_ROWS)
    for number, users in enumerate(np.array_split(np.arange(n_users), n_files)):
        draw = np.random.default_rng([11, number])
        if kind == "few":
            users = users[users % 20 == 0]
        if kind == "all":
            users = np.repeat(users, N_EXPERIMENTS)
        n = len(users)
        codes = {"layers": users % N_EXPERIMENTS, "all": np.arange(n) % N_EXPERIMENTS}.get(kind)
        table = {
            "user": ids(users, text),
            "timestamp": pa.array(START + draw.integers(0, 14 * DAY, n), INSTANT),
        }
        if kind != "first":
            table["variant"] = pa.DictionaryArray.from_arrays(draw.integers(0, 2, n), ["a", "b"])
        if codes is not None:
            names = [f"e{number}" for number in EVERY]
            table["experiment"] = pa.DictionaryArray.from_arrays(codes, names)
        pq.write_table(pa.table(table), folder / f"{number:04}.parquet", compression="snappy")


def tables(folder: Path, exposures: str, n_events: int, text: bool, giant: bool) -> tuple[str, str]:
    """Return the paths of exposures and events; write them unless they exist."""
    home = folder / f"{n_events}{'-text' * text}"
    events, shown = home / ("giant" if giant else "events"), home / exposures
    if not events.exists():
        write_events(events, n_events, text, giant)
    if not shown.exists():
        write_exposures(shown, exposures, n_events // EVENTS_PER_USER, text)
    return str(shown), str(events)


def evaluate_case(case: str, paths: tuple[str, str], engine: str) -> Callable[[], Any]:
    """Return a function that evaluates the experiments of a case, and returns the number of used events."""
    from spark_eval import evaluate_experiments

    def run() -> Any:
        found = evaluate_experiments(*paths, METRICS, CASES[case][1], engine=engine)
        return sum(one.rows for one in found.entries if one.source == "events" and one.outcome == "used")

    return run


def floor_case(case: str, paths: tuple[str, str]) -> Callable[[], Any]:
    """Return a function that scans, shuffles or sums both tables by Spark alone."""
    from spark_eval import get_session

    spark = get_session("online")
    columns = {
        "exposures": ["user", "timestamp", "variant"],
        "events": ["user", "timestamp", "kind", "value"],
    }

    def run() -> None:
        frames = [
            spark.read.parquet(path).select(*names)
            for path, names in zip(paths, columns.values(), strict=True)
        ]
        if case == "sql":
            sql(*frames).collect()
            return
        for frame in frames:
            rows = frame.repartition("user") if case == "shuffle" else frame
            rows.write.format("noop").mode("overwrite").save()

    return run


def sql(exposures: Any, events: Any) -> Any:
    """Return the obvious query: first exposures, joined with events; sums by user, then by arm.

    It has no accounting, no pre-period, and neither intervals nor checks.
    """
    from pyspark.sql import functions as F

    one = exposures.groupBy("user").agg(F.min("timestamp").alias("first"), F.min("variant").alias("variant"))
    used = one.join(events, "user", "left").where("timestamp is null or timestamp >= first")
    terms = {
        "clicks": F.sum(F.when(F.col("kind") == "click", 1).otherwise(0)),
        "impressions": F.sum(F.when(F.col("kind") == "impression", 1).otherwise(0)),
        "watch": F.sum(F.when(F.col("kind") == "watch", F.col("value")).otherwise(0)),
    }
    users = used.groupBy("user", "variant").agg(*(term.alias(name) for name, term in terms.items()))
    squares = [F.sum(F.col(one) * F.col(more)) for one in terms for more in terms]
    return users.groupBy("variant").agg(F.count("*"), *(F.sum(name) for name in terms), *squares)


def measure(options: argparse.Namespace, case: str) -> None:
    """Run a case in this process, and print CPU seconds and memory as JSON."""
    exposures = TABLES[case] if case in TABLES else CASES[case][0]
    paths = tables(options.folder, exposures, options.events, options.text, options.giant)
    if case in TABLES or options.engine == "spark":
        from spark_eval import get_session

        settings = {"spark.driver.memory": options.memory, "spark.sql.shuffle.partitions": "16"}
        get_session("online", "local[2]", settings).range(10).count()
    run = floor_case(case, paths) if case in TABLES else evaluate_case(case, paths, options.engine)
    ended, peaks = Event(), [0, 0]

    def watch() -> None:
        while not ended.wait(0.2):
            now = usage(os.getpid())
            peaks[:] = max(peaks[0], now.resident), max(peaks[1], now.worker)

    Thread(target=watch, daemon=True).start()
    seconds = []
    for _ in range(options.times):
        before, start = usage(os.getpid()).cpu, time.monotonic()
        found = run()
        seconds.append((usage(os.getpid()).cpu - before, time.monotonic() - start))
    ended.set()
    cpu, wall = min(seconds)
    mebibytes = [peak >> 20 for peak in peaks]
    print(json.dumps({"case": case, "cpu": cpu, "wall": wall, "peaks": mebibytes, "used": found}))


def main() -> None:
    """Measure each case in a process of its own; print a table."""
    parser = argparse.ArgumentParser(prog="benchmarks.online", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("cases", nargs="*", default=[], help=", ".join([*CASES, *TABLES]))
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--engine", default="local")
    parser.add_argument("--memory", default="1g", help="heap of Spark's JVM")
    parser.add_argument("--text", action="store_true", help="ids are text")
    parser.add_argument("--giant", action="store_true", help="half of the events are of one user")
    parser.add_argument("--times", type=int, default=1, help="repetitions; the fastest counts")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_intermixed_args()
    if options.alone:
        measure(options, options.cases[0])
        return
    print(
        "| case | CPU s | wall s | peak MiB | largest worker MiB | used events |\n|---|---|---|---|---|---|"
    )
    for case in options.cases or [*CASES]:
        given = [one for one in sys.argv[1:] if one not in options.cases]
        command = [sys.executable, "-m", "benchmarks.online", *given, "--alone", case]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        one = json.loads(done.stdout.splitlines()[-1])
        peak, worker = one["peaks"]
        print(
            f"| {case} | {one['cpu']:.1f} | {one['wall']:.1f} | {peak} | {worker} | {one['used']} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
