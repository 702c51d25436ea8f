"""Reports of runs that are published without Spark."""

from pathlib import Path

import pytest
from tests.results.report import made_experiments, made_pipeline, made_runs

from spark_eval.publishing.local import LocalStore
from spark_eval.results.report.page import report_page
from spark_eval.verbs.report import write_report

MODELS = ("als", "popularity", made_runs.HOSTILE)


@pytest.fixture(scope="session")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An output with runs: lists (all verbs of lists), before (other means), clicks (scored), stages.

    In words and word (scored) everything has a name that objects of JavaScript have, too.
    """
    root = tmp_path_factory.mktemp("out")
    made_runs.lists(root, "lists", MODELS)
    made_runs.windows(root, "lists")
    made_runs.compared(root, "lists", MODELS, passes=False)
    made_runs.lists(root, "before", MODELS[:2], shift=-0.05)
    made_runs.predictions(root, "clicks", ["ctr", "old"])
    made_pipeline.pipeline(root, "stages")
    made_runs.others(root, "others")
    made_runs.repeats(root, "repeats")
    words = dict.fromkeys(made_runs.WORDS[:3], made_runs.WORDS)
    made_runs.lists(root, "words", made_runs.WORDS, values=words, gap=7)
    made_runs.compared(root, "words", made_runs.WORDS, passes=True, values=words)
    made_runs.predictions(root, "word", made_runs.WORDS, dict.fromkeys(made_runs.WORDS, 0.5), gap=27)
    return root


@pytest.fixture(scope="session")
def pages(output: Path) -> dict[str, Path]:
    """The report of each run, and of two experiments; that of lists stands beside the run before."""
    store = LocalStore(output)
    runs = (
        ("lists", "before"),
        ("clicks", None),
        ("stages", None),
        ("others", None),
        ("repeats", None),
        ("words", None),
        ("word", None),
    )
    written = {run: Path(write_report(store, run, baseline)) for run, baseline in runs}
    written["online"] = output / "report" / "online.html"
    written["online"].write_text(report_page(made_experiments.experiments().facts_of_run()))
    return written
