"""Runs where few threads can start, or none: they end by themselves, and say why."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pytest
import yaml

import spark_eval

# A library that starts so many threads and then no more, as under a limit of a container.
FEW_THREADS: Final = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
typedef int create_t(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static int started;
int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*call)(void *), void *with) {
    if (__sync_fetch_and_add(&started, 1) >= atoi(getenv("MOST_THREADS"))) return EAGAIN;
    return ((create_t *)dlsym(RTLD_NEXT, "pthread_create"))(thread, how, call, with);
}
"""
PROGRAM: Final = "from spark_eval.cli.commands import main; main()"
COMPILER: Final = shutil.which("cc")
SECONDS: Final = 100
# Methods of tables and files that start Arrow's own threads unless they are told not to, and the scanner's.
THREADED: Final = ("group_by", "iter_batches", "read_table", "head")
OF_SCANNERS: Final = ("to_table", "scanner", "count_rows")


def calls_of(*names: str) -> list[tuple[str, str]]:
    """Calls of methods of these names in the package: the file, and the call."""
    calls = []
    for path in sorted(Path(spark_eval.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in names:
                calls.append((path.name, ast.unparse(node)))
    return calls


def test_arrow_starts_no_further_threads() -> None:
    """Where no thread can start, Arrow waits for ever for its pool, deaf to signals."""
    joins = [call for call in calls_of("join") if "join_type" in call[1]]
    # Those of pandas and Spark have one thread.
    calls = [call for call in calls_of(*THREADED) if "MOST_LINES_SHOWN" not in call[1]]
    assert joins
    assert len(calls) > 15
    assert not [call for call in joins + calls if "use_threads=False" not in call[1]]
    assert not calls_of(*OF_SCANNERS)


@pytest.fixture(scope="module")
def few_threads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, to be loaded before all others."""
    if COMPILER is None or sys.platform != "linux":
        pytest.skip("no C compiler on this machine, or no Linux")
    home = tmp_path_factory.mktemp("threads")
    (home / "few.c").write_text(FEW_THREADS)
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", "few.so", "few.c", "-ldl"], cwd=home, check=True)
    return home / "few.so"


def config(home: Path) -> str:
    """Lists of two models with a gate, and predictions: verbs that read, group, compare and print."""
    tables: dict[str, dict[str, list[Any]]] = {
        "lists": {"model": ["a", "b"] * 20, "user": [n // 4 for n in range(40)], "item": [1, 2, 3, 4] * 10},
        "truth": {"user": [*range(10)], "item": [1, 2, 3, 4, 1, 2, 3, 4, 1, 2]},
        "shown": {"model": ["a", "b"] * 20, "label": [0, 1, 1, 0] * 10, "score": [n / 40 for n in range(40)]},
    }
    tables["lists"]["rank"] = [n // 2 % 2 + 1 for n in range(40)]
    for name, columns in tables.items():
        pd.DataFrame(columns).to_parquet(home / f"{name}.parquet")
    tree = {
        "output": {"path": str(home / "out")},
        "engine": "local",
        "recommendations": {"path": str(home / "lists.parquet")},
        "truth": {"path": str(home / "truth.parquet")},
        "predictions": {"path": str(home / "shown.parquet"), "task": "binary"},
        "compare": {"baseline": {"model": "a"}, "metrics": ["mrr"]},
    }
    (home / "config.yaml").write_text(yaml.safe_dump(tree))
    return str(home / "config.yaml")


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["evaluate", "predictions"])
def test_a_run_ends_however_few_threads_can_start(tmp_path: Path, few_threads: Path, verb: str) -> None:
    path, ends = config(tmp_path), []
    for most in (0, 1, 2, 3, 4, 5, 6, 7, 100):
        process = subprocess.run(
            [sys.executable, "-c", PROGRAM, verb, "--config", path, "--run-id", f"of-{most}"],
            env={**os.environ, "LD_PRELOAD": str(few_threads), "MOST_THREADS": str(most)},
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        ends.append((process.returncode, process.stderr))
    # numpy's library of linear algebra sends SIGINT where it cannot start threads.
    named = ("error[OUT_OF_MEMORY] ", "error[INTERRUPTED] ")
    assert not [(left, said) for left, said in ends if left and not any(code in said for code in named)]
    assert {left for left, _ in ends} == {0, 1}
    assert ends[-1][0] == 0
