"""Run the examples of all docstrings; check that public names say all, and that kernels have a source."""

import doctest
import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from tests.monitoring.days import FIRST, SECOND, publish_day
from tests.results.report import made_runs

import spark_eval
from spark_eval import functions
from spark_eval.kernels.registry import RANKING
from spark_eval.predictions import PREDICTION_METRICS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE: Final = Path(__file__).parents[1] / "src"
MODULES: Final = sorted(
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in SOURCE.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)
VERBS: Final = ("split", "evaluate", "evaluate_predictions", "evaluate_experiments", "compare", "calibrate")
RESULTS: Final = (
    "Split",
    "Evaluation",
    "Predictions",
    "Experiments",
    "Comparison",
    "Window",
    "History",
    "Interleaving",
    "Linkage",
    "UserDays",
    "Calibration",
)
FUNCTIONS: Final = tuple(vars(functions)["__all__"])  # its stub has none
# Nothing that a caller does makes these fail.
NEVER_RAISE: Final = {"metrics", "summary", "unpersist", "History.table"}
SECTIONS: Final = re.compile(
    r"^(Args|Keyword args|Returns|Raises|Examples):\n((?:\n|    .*(?:\n|$))*)", re.MULTILINE
)


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Verbs and other functions, the methods that results offer, functions of array columns."""
    for name in spark_eval.__all__:
        named = getattr(spark_eval, name)
        if inspect.isfunction(named):
            yield name, named
    for name in RESULTS:
        kind = getattr(spark_eval, name)
        for offered in sorted({*dir(object.__new__(kind)), "subset", "table", "write"}):
            method = inspect.getattr_static(kind, offered, None)
            if inspect.isfunction(method) and not offered.startswith("__"):
                yield f"{name}.{offered}", method
    for name in FUNCTIONS:
        yield f"functions.{name}", getattr(functions, name)


PUBLIC: Final = dict(public_functions())
# Their examples have a session, and the results of the examples of verbs.
WITH_RESULTS: Final = {one.__module__ for one in PUBLIC.values()} | {
    getattr(spark_eval, name).__module__ for name in RESULTS
}


@pytest.fixture(scope="module")
def results(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the examples of verbs have made, a session, and an output with a published run."""
    found: dict[str, Any] = {"spark": spark, "out": str(tmp_path_factory.mktemp("out"))}
    made_runs.predictions(Path(found["out"]), "clicks", ["ctr", "old"])
    found["daily"] = str(tmp_path_factory.mktemp("daily"))
    for run_id, rows in (("2024-03-01", FIRST), ("2024-03-02", SECOND)):
        publish_day(Path(found["daily"]), run_id, {"als": rows})
    for verb in VERBS:
        for example in doctest.DocTestParser().get_examples(inspect.getdoc(PUBLIC[verb]) or ""):
            exec(example.source, found)
    return found


@pytest.fixture
def given(
    results: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, Any]]:
    """The same, with MLflow, in a folder of one's own."""
    monkeypatch.chdir(tmp_path)
    # A test of the program may have left its journal, which would print into the examples.
    monkeypatch.setattr("spark_eval.runtime.events.log.handlers", [])
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    import mlflow

    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    yield {**results, "mlflow": mlflow, "folder": str(tmp_path)}
    mlflow.end_run()
    mlflow.set_tracking_uri("")


@pytest.mark.usefixtures("each_engine")
@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[pytest.mark.spark] * (one in WITH_RESULTS)) for one in MODULES]
)
def test_the_examples_of_a_module_hold(name: str, request: pytest.FixtureRequest) -> None:
    more = request.getfixturevalue("given") if name in WITH_RESULTS else {}
    assert doctest.testmod(import_module(name), extraglobs={"np": np, **more}).failed == 0


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_function_says_what_it_takes_gives_and_raises(name: str) -> None:
    function = PUBLIC[name]
    sections = dict(SECTIONS.findall(f"{inspect.getdoc(function)}\n"))
    signature = inspect.signature(function)
    said = re.findall(
        r"^    \**(\w+): ", sections.get("Args", "") + sections.get("Keyword args", ""), re.MULTILINE
    )
    assert said == [one for one in signature.parameters if one != "self"]
    assert ("Returns" in sections) == (signature.return_annotation not in (None, "None"))
    assert "Raises" in sections or NEVER_RAISE & {name, name.rpartition(".")[2]}
    assert ">>> " in sections["Examples"]
    assert "+SKIP" not in sections["Examples"]


@pytest.mark.parametrize("name", [*RESULTS, "SparkEvalError"])
def test_a_public_class_has_an_example(name: str) -> None:
    kind = getattr(spark_eval, name)
    assert ">>> " in dict(SECTIONS.findall(f"{inspect.getdoc(kind)}\n"))["Examples"]
    assert kind.__module__ in MODULES


def test_the_examples_of_functions_of_columns_hold(spark: "SparkSession") -> None:
    """Those after their arguments; the examples of kernels are run with these."""
    runner = doctest.DocTestRunner()
    for name in FUNCTIONS:
        text = dict(SECTIONS.findall(f"{inspect.getdoc(PUBLIC[f'functions.{name}'])}\n"))["Examples"]
        runner.run(doctest.DocTestParser().get_doctest(text, {"spark": spark}, name, None, None))
    assert runner.summarize().attempted >= 3 * len(FUNCTIONS)
    assert runner.summarize().failed == 0


def test_most_modules_with_kernels_have_examples() -> None:
    """Guards the search itself: an empty list of modules would pass."""
    assert {
        "spark_eval.kernels.binary",
        "spark_eval.kernels.stages",
        "spark_eval.conventions.presets",
    } <= set(MODULES)


def test_every_kernel_has_an_example_and_a_source() -> None:
    notes = {metric.name: metric.notes for metric in RANKING.values()}
    notes |= {f"{metric.name} of predictions": metric.notes for metric in PREDICTION_METRICS.values()}
    for name, text in notes.items():
        assert ">>> " in text, name
        assert "Source: " in text, name
