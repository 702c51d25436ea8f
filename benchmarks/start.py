"""What the start costs: `spark-eval evaluate` of ten rows of CSV against the barest program of its session.

``python -m benchmarks.start [REPETITIONS]``: both are whole processes, and they take turns. The bare one
starts the session of the command line and runs one job with one Python worker. CPU time is that of the
process with everything it started, the JVM and the workers that outlive it included. Linux only.
"""

import ctypes
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Final

PR_SET_CHILD_SUBREAPER: Final = 36
BARE: Final = """
from spark_eval import get_session

spark = get_session("bare", "local[2]")
rows = spark.range(1, numPartitions=1).mapInArrow(lambda batches: batches, "id long").collect()
assert [row.id for row in rows] == [0]
spark.stop()
"""
CONFIG: Final = """
output: {path: out}
spark: {master: "local[2]"}
recommendations: {path: lists.csv, format: csv, options: {header: true}, model: ten}
truth: {path: truth.csv, format: csv, options: {header: true}}
"""


@dataclass(frozen=True)
class Cost:
    """Seconds of a whole process."""

    cpu: float
    wall: float


def write_tables(folder: Path) -> None:
    """Ten rows of recommendations, the truth that they hit, and the config."""
    (folder / "lists.csv").write_text(
        "user,item,rank\n" + "".join(f"{n // 5},{n},{n % 5 + 1}\n" for n in range(10))
    )
    (folder / "truth.csv").write_text("user,item\n0,0\n1,7\n")
    (folder / "config.yaml").write_text(CONFIG)


def cost_of(command: list[str], folder: Path) -> Cost:
    """What a command costs until nothing of it is left; CalledProcessError where it fails."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    wall = perf_counter() - start
    while has_children():
        os.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall)


def has_children() -> bool:
    """Whether a process is left that was started here, whoever started it first."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def adopt_orphans() -> None:
    """Make this process the parent of what outlives its own parent, so that its seconds count here."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def main(repetitions: int) -> None:
    """Print a line per program: medians, and the range of CPU seconds."""
    adopt_orphans()
    program = str(Path(sys.executable).parent / "spark-eval")
    costs: dict[str, list[Cost]] = {"bare": [], "evaluate": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tables(folder)
        for number in range(repetitions):
            evaluate = [program, "evaluate", "--config", "config.yaml", "--run-id", str(number)]
            costs["bare"].append(cost_of([sys.executable, "-c", BARE], folder))
            costs["evaluate"].append(cost_of(evaluate, folder))
    print("| program | CPU s | least | most | wall s |\n|---|---|---|---|---|")
    for name, found in costs.items():
        cpu = sorted(cost.cpu for cost in found)
        wall = statistics.median(cost.wall for cost in found)
        print(f"| {name} | {statistics.median(cpu):.1f} | {cpu[0]:.1f} | {cpu[-1]:.1f} | {wall:.1f} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 3)
