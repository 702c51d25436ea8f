"""The DAG of a CTR model without Airflow: its tasks and settings, by stand-ins of the classes."""

import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

DAGS = Path(__file__).parents[2] / "dags"


class Task:
    """A task, and the tasks that follow it."""

    def __init__(self, **arguments: Any) -> None:
        self.arguments, self.following = arguments, list[Any]()

    def __rshift__(self, other: Any) -> Any:
        self.following += other
        return other


class Ignored:
    """A schedule or a parameter."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass


class Dag:
    """A DAG, to be entered."""

    entered: ClassVar["list[Dag]"] = []

    def __init__(self, name: str, **_: Any) -> None:
        self.name = name

    def __enter__(self) -> "Dag":
        Dag.entered.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        pass


def task(function: Callable[[str], None] | None = None, trigger_rule: str = "all_success") -> Any:
    """Airflow's decorator, with and without arguments."""
    if function is None:
        return lambda of: task(of, trigger_rule)
    return lambda day: (function, trigger_rule, day)


@pytest.fixture
def dag(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """The names of the DAG's file."""
    sdk, operator = ModuleType("airflow.sdk"), ModuleType("spark_eval_operator")
    vars(sdk).update(DAG=Dag, task=task, Param=Ignored, CronDataIntervalTimetable=Ignored)
    vars(operator).update(SparkEvalOperator=Task)
    for module in (ModuleType("airflow"), sdk, operator):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setenv("SPARK_EVAL_HOME", str(tmp_path))
    monkeypatch.delenv("SPARK_EVAL_CURRENT", raising=False)
    return runpy.run_path(str(DAGS / "spark_eval_ctr.py"))


def test_an_experiment_that_fails_is_stopped(dag: dict[str, Any], tmp_path: Path) -> None:
    names = runpy.run_path(str(DAGS / "spark_eval_online.py"))
    assert Dag.entered[-1].name == "spark_eval_online"
    arguments, following = names["online"].arguments, names["online"].following
    assert (arguments["verb"], arguments["config"]) == ("online", f"{tmp_path}/conf/online.yaml")
    assert arguments["run_id"] == dag["DAY"]
    assert following == [(names["stop"], "one_failed", dag["DAY"])]


def test_predictions_are_gated_before_a_model_is_published(dag: dict[str, Any], tmp_path: Path) -> None:
    assert Dag.entered[-1].name == "spark_eval_ctr"
    arguments, following = dag["predictions"].arguments, dag["predictions"].following
    assert arguments["verb"] == "predictions"
    assert arguments["config"] == f"{tmp_path}/conf/ctr.yaml"
    assert arguments["settings"] == {"predictions.path": f"{tmp_path}/scored/{dag['DAY']}"}
    assert following == [
        (dag["publish"], "all_success", dag["DAY"]),
        (dag["alert"], "one_failed", dag["DAY"]),
    ]


def test_a_model_that_is_not_published_leaves_the_other_in_service(
    dag: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dag["alert"]("2024-03-01")
    dag["publish"]("2024-03-02")
    assert (tmp_path / "current").read_text() == "2024-03-02"
    dag["alert"]("2024-03-03")
    out = capsys.readouterr().out.splitlines()
    assert "no day stays in service" in out[0]
    assert "2024-03-03 is not published; that of 2024-03-02 stays" in out[1]
