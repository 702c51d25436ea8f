"""What a report of many models costs: ``python -m benchmarks.report [MODELS [MEASURES [VALUES]]]``.

A made-up run of 200 models, 50 metrics at their cutoffs and 30 values of three segments is published without
Spark. Measured are CPU seconds and memory of ``spark-eval report``, the bytes of the page, and, where
Chromium is installed, how long it takes to open and to draw all models. Linux only.
"""

import resource
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Final

from tests.browsers import BROWSER, DRIVER, browsing
from tests.results.report import made_runs

HITS: Final = ("ndcg", "recall", "precision", "map", "mrr", "hit_rate", "f1")
BEYOND: Final = ("novelty", "ild", "arp", "serendipity", "catalog_coverage", "gini_catalog")
CUTOFFS: Final = (5, 10, 20, 50)
SEGMENTS: Final = 3
USERS: Final = 2_000
RUN: Final = "many"


def publish(root: Path, n_models: int, n_measures: int, n_values: int) -> None:
    """Publish what ``evaluate`` would."""
    measures = [(metric, k) for metric in (*HITS, *BEYOND) for k in CUTOFFS][:n_measures]
    names = [f"value {number}" for number in range(n_values // SEGMENTS)]
    segments = {f"segment_{number}": names for number in range(SEGMENTS)}
    models = [f"model_{number:03d}_with_a_name" for number in range(n_models)]
    made_runs.lists(root, RUN, models, measures, segments, USERS)


def main(n_models: int = 200, n_measures: int = 50, n_values: int = 30) -> None:
    """Print what the page costs to make, to keep and to open."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name, "out")
        publish(root, n_models, n_measures, n_values)
        program = str(Path(sys.executable).parent / "spark-eval")
        subprocess.run([program, "report", "--path", str(root), "--run-id", RUN], check=True)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        page = root / "report" / f"{RUN}.html"
        print(f"{n_models} models, {n_measures} metrics, {n_values} values of segments")
        print(f"made: {used.ru_utime + used.ru_stime:.1f} CPU s, {used.ru_maxrss / 1024:.0f} MiB at most")
        print(f"page: {page.stat().st_size / 1e6:.1f} MB")
        if BROWSER and DRIVER:
            print("opened: {:.1f} s, a model more: {:.1f} s, all models: {:.1f} s".format(*opened(page)))


def opened(page: Path) -> list[float]:
    """Return the seconds until the page is drawn, with one model more, and with all models chosen."""
    with browsing() as driver:
        seconds = [perf_counter()]
        driver.get(page.as_uri())
        for control in (None, "#model-boxes label:last-child input", "#model-boxes button"):
            if control is not None:
                driver.execute_script(f"document.querySelector({control!r}).click()")
            driver.execute_script("return document.body.getBoundingClientRect().height")
            seconds.append(perf_counter())
    return [after - before for before, after in pairwise(seconds)]


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
