"""The DAG in a real Airflow: by hand and by the scheduler, what fails, what is retried, backfills."""

import json
import os
import shutil
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from tests.airflow.conftest import AIRFLOW, DAG, DAYS, REPOSITORY, Desk
from tests.cluster.conftest import published_bytes, until

from spark_eval.cli.commands import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.airflow.conftest import Airflow

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(1800)]

# The operator over a spark-submit that says what it is given, and an error, and leaves with a code.
OUTCOMES = """
import json, sys
from unittest.mock import MagicMock
from airflow.sdk import Asset
from spark_eval_operator import SparkEvalOperator

home, found = sys.argv[1], {}
for code in range(6):
    context = {"params": {"replace": code == 0}, "outlet_events": MagicMock()}
    task = SparkEvalOperator(
        task_id="evaluate", verb="evaluate", home=home, config="CONFIG", run_id="ID",
        settings={"evaluate.k": str(code)}, outlets=[Asset("metrics")],
    )
    try:
        task.execute(context)
        found[code] = ["done", context["outlet_events"][Asset("metrics")].extra["run_id"]]
    except Exception as error:
        found[code] = [type(error).__name__, str(error)]
print(json.dumps(found))
"""
SUBMIT = """#!/bin/sh
echo "$@" > "$(dirname "$0")/given"
echo "error[NAMED] what is wrong"
echo "26/11/21 INFO SparkContext: Successfully stopped SparkContext"
for last; do case "$last" in evaluate.k=*) exit "${last#*=}"; esac; done
"""


# Where the button Report of tasks leads.
LINKS = """
import json, sys
from pathlib import Path
from spark_eval_operator import SparkEvalOperator

home = Path(sys.argv[1])
config = home / "config.yaml"
config.write_text(f"output: {{path: {home}/out}}")
(home / "my out" / "report").mkdir(parents=True)
(home / "my out" / "report" / "ID.html").write_text("the report")
cases = {
    "served": {"report_url": "https://evals.example.com/{run_id}.html"},
    "missing": {},
    "file": {"settings": {"output.path": f"{home}/my out"}},
    "uri": {"settings": {"output.path": f"file://{home}/my out"}},
    "store": {"settings": {"output.path": "s3a://bucket/out"}},
}
found = {}
for name, options in cases.items():
    task = SparkEvalOperator(
        task_id=name, verb="evaluate", home=str(home), config=str(config), run_id="ID", **options
    )
    [link] = task.operator_extra_links
    found[name] = [link.name, link.get_link(task, ti_key=None)]
print(json.dumps(found))
"""

# The next run of each DAG once it is unpaused, as the scheduler asks for it.
NEXT_RUNS = """
import json
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization

found = {}
for name, dag in DagBag(".").dags.items():
    dag = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
    following = dag.next_dagrun_info(last_automated_run_info=None)
    found[name] = following and str(following.run_after.date())
print(json.dumps(found))
"""


def python(airflow: "Airflow", *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Airflow's Python beside the DAGs, to which every warning is an error."""
    return subprocess.run(
        [AIRFLOW / "python", "-W", "error", *arguments],
        env=airflow.variables,
        cwd=REPOSITORY / "dags",
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.brief
def test_the_dag_is_imported_without_a_warning_and_without_spark(airflow: "Airflow") -> None:
    imported = "import spark_eval_daily, spark_eval_gated, spark_eval_ctr, spark_eval_windows, "
    imported += "spark_eval_online, sys; print({'pyspark', 'spark_eval'} & set(sys.modules))"
    done = python(airflow, "-c", imported)
    assert (done.returncode, done.stdout, done.stderr) == (0, "set()\n", "")


@pytest.mark.parametrize("last_day", ["", "2024-06-29"])
def test_a_log_that_has_ended_has_no_run_of_yesterday(airflow: "Airflow", last_day: str) -> None:
    done = subprocess.run(
        [AIRFLOW / "python", "-c", NEXT_RUNS],
        env={**airflow.variables, "SPARK_EVAL_LAST_DAY": last_day},
        cwd=REPOSITORY / "dags",
        capture_output=True,
        text=True,
        check=True,
    )
    following = json.loads(done.stdout.splitlines()[-1])
    kinds = ("daily", "gated", "ctr", "windows", "online")
    assert set(following) == {f"spark_eval_{kind}" for kind in kinds}
    assert [day is None for day in following.values()] == [bool(last_day)] * 5


@pytest.mark.brief
def test_what_becomes_of_every_exit_code(airflow: "Airflow", tmp_path: Path) -> None:
    submit = tmp_path / ".venv" / "bin" / "spark-submit"
    submit.parent.mkdir(parents=True)
    submit.write_text(SUBMIT)
    submit.chmod(0o755)
    done = python(airflow, "-c", OUTCOMES, str(tmp_path))
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout.splitlines()[-1])
    assert outcomes["0"] == ["done", "ID"]
    assert {code: kind for code, (kind, _) in outcomes.items() if code != "0"} == {
        "1": "AirflowException",
        "2": "AirflowFailException",
        "3": "AirflowFailException",
        "4": "AirflowException",
        "5": "AirflowFailException",
    }
    assert all(outcomes[code][1].endswith(": error[NAMED] what is wrong") for code in "235")
    assert outcomes["5"][1].startswith("ALERT, a gate failed")
    assert (submit.parent / "given").read_text().split()[-6:] == [
        *("--config", "CONFIG", "--run-id", "ID"),
        *("--set", "evaluate.k=5"),
    ]


@pytest.mark.brief
def test_the_link_to_the_report(airflow: "Airflow", tmp_path: Path) -> None:
    done = python(airflow, "-c", LINKS, str(tmp_path))
    assert done.returncode == 0, done.stderr
    links = json.loads(done.stdout.splitlines()[-1])
    assert {name for name, _ in links.values()} == {"Report"}
    assert {case: link for case, (_, link) in links.items()} == {
        "served": "https://evals.example.com/ID.html",
        "missing": "",
        "file": (tmp_path / "my out" / "report" / "ID.html").as_uri(),
        "uri": (tmp_path / "my out" / "report" / "ID.html").as_uri(),
        "store": "s3a://bucket/out/report/ID.html",
    }


@pytest.fixture(scope="module")
def tested(airflow: "Airflow") -> str:
    """A day whose run was done without a scheduler."""
    done = airflow.run("dags", "test", DAG, DAYS[0])
    assert done.returncode == 0, done.stdout + done.stderr
    return DAYS[0]


def test_one_run_without_a_scheduler(desk: "Desk", tested: str) -> None:
    assert desk.record(tested)["jobs"].keys() == {"split", "evaluate"}
    assert all(desk.values(tested).values())


def test_a_model_is_published_or_an_alert_is_sent(airflow: "Airflow", desk: "Desk") -> None:
    first, second = DAYS[3:5]
    log = pd.read_parquet(desk.home / "log.parquet")
    taken = log[pd.to_datetime(log["timestamp"], unit="s").dt.strftime("%Y-%m-%d") == first]
    lists = pd.read_parquet(desk.home / "recommendations" / first)
    best = pd.DataFrame(
        {"user": taken["userId"], "item": taken["movieId"], "score": 10**6, "model": "popular"}
    )
    for day, rows in ((first, pd.concat([lists, best])), (second, lists.assign(item=lists["item"] + 10**6))):
        rows.to_parquet(desk.home / "recommendations" / day / "0.parquet", index=False)
    done = airflow.run("dags", "test", "spark_eval_gated", first)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (desk.home / "current").read_text() == first
    # The day after: published, alerted, not retried. tests/cli shows that the gate fails again and again.
    done = airflow.run("dags", "test", "spark_eval_gated", second)
    told = done.stdout + done.stderr
    assert f"ALERT: the model of {second} is not published; that of {first} stays in service" in told, told
    assert "ALERT, a gate failed: a metric fell against its baseline: error[GATE_FAILED] 1 of 1" in told
    assert told.count("starting task_id=compare") == 1
    assert (desk.home / "current").read_text() == first
    assert desk.record(second)["jobs"].keys() == {"split", "evaluate", "compare"}


def test_the_command_line_gives_the_same_bits(
    desk: "Desk", tested: str, tmp_path: Path, spark: "SparkSession"
) -> None:
    """The run of a day, by hand on the same config, into a root of its own."""
    by_hand = Desk(tmp_path)
    settings = {
        "output.path": str(by_hand.out),
        "split.local_cut": f"{{instant: '{date.fromisoformat(tested) - timedelta(28)}'}}",
        "split.global_cut": f"{{instant: '{tested}'}}",
        "split.test_days": "1",
        "recommendations.path": str(desk.home / "recommendations" / tested),
    }
    given = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    assert spark.getActiveSession() is not None  # the program uses it
    for verb in ("split", "evaluate"):
        with pytest.raises(SystemExit) as left:
            main([verb, "--config", str(desk.config()), "--run-id", tested, *given])
        assert left.value.code == 0
    assert by_hand.values(tested) == desk.values(tested)
    assert published_bytes(by_hand.home, tested) == published_bytes(desk.home, tested)


def driver(verb: str, day: str) -> int | None:
    """The process id of the Python that drives a run."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if "python" in words[0] and day in words and any(word.endswith(f"{verb}.py") for word in words):
                return int(folder.name)
    return None


@dataclass(frozen=True)
class Ended:
    """Runs by one scheduler, each at its end, by their names at Airflow: a whole one, one whose split was
    killed, and that of yesterday, which the scheduler starts as soon as the DAG is switched on.
    """

    whole: str
    killed: str
    yesterday: str
    states: dict[str, str]


@pytest.fixture(scope="module")
def ended(served: "Airflow", desk: "Desk") -> Ended:
    with served.scheduler():
        killed = served.start(DAYS[2])
        until(lambda: list(desk.out.glob(f"_staging/{DAYS[2]}-split-*/splits")), 600, "split at work")
        found = driver("split", DAYS[2])
        assert found is not None
        os.kill(found, signal.SIGKILL)
        whole, scheduled = served.start(DAYS[1]), f"/api/v2/dags/{DAG}/dagRuns?run_type=scheduled"
        [run] = until(lambda: served.ask(scheduled)["dag_runs"], 120, "run of yesterday")
        names = (whole, killed, run["dag_run_id"])
        return Ended(*names, {name: served.ended(name) for name in names})


@pytest.mark.brief
def test_the_scheduler_runs_it(served: "Airflow", desk: "Desk", ended: Ended) -> None:
    assert ended.states[ended.whole] == "success"
    assert served.tasks(ended.whole) == {"split": ("success", 1), "evaluate": ("success", 1)}
    assert all(desk.values(DAYS[1]).values())
    report = desk.out / "report" / f"{DAYS[1]}.html"
    for task in ("split", "evaluate"):
        links = f"/api/v2/dags/{DAG}/dagRuns/{ended.whole}/taskInstances/{task}/links"
        assert served.ask(links)["extra_links"] == {"Report": report.as_uri()}
    events = served.ask("/api/v2/assets/events")["asset_events"]
    assert {(event["name"], event["extra"]["run_id"]) for event in events} >= {
        ("spark_eval_splits", DAYS[1]),
        ("spark_eval_metrics", DAYS[1]),
    }


@pytest.mark.brief
def test_a_run_that_cannot_succeed_is_not_retried_and_says_why(
    served: "Airflow", desk: "Desk", ended: Ended
) -> None:
    """There is no log of yesterday."""
    assert ended.states[ended.yesterday] == "failed"
    tasks = served.tasks(ended.yesterday)
    assert tasks["split"] == ("failed", 1)
    assert tasks["evaluate"][0] == "upstream_failed"
    said = served.log(ended.yesterday, "split")
    assert "the data breaks the contract; nothing was published: error[SPLIT_OUT_OF_RANGE] " in said
    run = served.ask(f"/api/v2/dags/{DAG}/dagRuns/{ended.yesterday}")
    assert not (desk.out / "splits" / f"run_id={run['logical_date'][:10]}").exists()


@pytest.mark.brief
def test_a_run_whose_driver_is_killed_publishes_once(served: "Airflow", desk: "Desk", ended: Ended) -> None:
    day = DAYS[2]
    assert ended.states[ended.killed] == "success"
    assert served.tasks(ended.killed) == {"split": ("success", 2), "evaluate": ("success", 1)}
    # By whichever run of the three was the next to start.
    said = "".join(served.log(run, "split") for run in ended.states)
    assert f"cleared away: attempt {day}-split-" in said
    assert desk.record(day)["jobs"].keys() == {"split", "evaluate"}
    assert not list(desk.out.glob("_staging/*"))
    assert all(desk.values(day).values())


def test_a_backfill_gives_the_same_tables_again(served: "Airflow", desk: "Desk") -> None:
    days = DAYS[-2:]
    assert served.backfill(days[0], days[-1]) == {"success"}
    before = {day: desk.values(day) for day in days}
    assert len({values["splits"] for values in before.values()}) == len(days)
    times = {path: path.stat().st_mtime_ns for path in desk.out.glob(f"*/run_id={days[0]}")}
    for day in days[1:]:  # as if it were lost
        (desk.out / "_commits" / f"{day}.json").unlink()
        for folder in desk.out.glob(f"*/run_id={day}"):
            shutil.rmtree(folder)
    again = ("--reprocess-behavior", "completed", "--run-backwards")
    assert served.backfill(days[0], days[-1], *again) == {"success"}
    assert {day: desk.values(day) for day in days} == before
    assert {path: path.stat().st_mtime_ns for path in times} == times
