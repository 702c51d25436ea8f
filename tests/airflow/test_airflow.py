"""The DAG in a real Airflow: by hand and by the scheduler, what fails, what is retried, backfills."""

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from tests.airflow.conftest import AIRFLOW, DAG, DAYS, REPOSITORY, Desk
from tests.cluster.conftest import published_bytes, until

if TYPE_CHECKING:
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


def test_the_dag_is_imported_without_a_warning_and_without_spark(airflow: "Airflow") -> None:
    imported = "import spark_eval_daily, spark_eval_gated, sys; "
    imported += "print({'pyspark', 'spark_eval'} & set(sys.modules))"
    done = python(airflow, "-c", imported)
    assert (done.returncode, done.stdout, done.stderr) == (0, "set()\n", "")


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


def test_one_run_without_a_scheduler(airflow: "Airflow", desk: "Desk") -> None:
    done = airflow.run("dags", "test", DAG, DAYS[0])
    assert done.returncode == 0, done.stdout + done.stderr
    assert desk.record(DAYS[0])["jobs"].keys() == {"split", "evaluate"}
    assert all(desk.values(DAYS[0]).values())


def test_a_model_is_published_or_somebody_is_alerted(airflow: "Airflow", desk: "Desk") -> None:
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
    # The day after, and again: published, alerted, not retried.
    for _ in range(2):
        done = airflow.run("dags", "test", "spark_eval_gated", second)
        told = done.stdout + done.stderr
        assert f"ALERT: the model of {second} is not published; that of {first} serves on" in told, told
        assert "ALERT, a gate failed: a metric fell against its baseline: error[GATE_FAILED] 1 of 1" in told
        assert told.count("starting task_id=compare") == 1
        assert (desk.home / "current").read_text() == first
        assert desk.record(second)["jobs"].keys() == {"split", "evaluate", "compare"}


def test_the_command_line_gives_the_same_bits(airflow: "Airflow", desk: "Desk", tmp_path: Path) -> None:
    """The run of a day, by hand on the same config, into a root of its own."""
    day = DAYS[0]
    if not (desk.out / "_commits" / f"{day}.json").exists():
        assert airflow.run("dags", "test", DAG, day).returncode == 0
    by_hand = Desk(tmp_path)
    settings = {
        "output.path": str(by_hand.out),
        "spark.master": "local[2]",
        "split.local_cut": f"{{instant: '{date.fromisoformat(day) - timedelta(28)}'}}",
        "split.global_cut": f"{{instant: '{day}'}}",
        "split.test_days": "1",
        "recommendations.path": str(desk.home / "recommendations" / day),
    }
    given = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    for verb in ("split", "evaluate"):
        program = Path(sys.executable).parent / "spark-eval"
        arguments = [program, verb, "--config", str(desk.config()), "--run-id", day, *given]
        subprocess.run(arguments, check=True, capture_output=True)
    assert by_hand.values(day) == desk.values(day)
    assert published_bytes(by_hand.home, day) == published_bytes(desk.home, day)


def test_the_scheduler_runs_it(scheduled: "Airflow", desk: "Desk") -> None:
    run = scheduled.start(DAYS[1])
    assert scheduled.ended(run) == "success"
    assert scheduled.tasks(run) == {"split": ("success", 1), "evaluate": ("success", 1)}
    assert all(desk.values(DAYS[1]).values())
    report = desk.out / "report" / f"{DAYS[1]}.html"
    for task in ("split", "evaluate"):
        links = f"/api/v2/dags/{DAG}/dagRuns/{run}/taskInstances/{task}/links"
        assert scheduled.ask(links)["extra_links"] == {"Report": report.as_uri()}
    events = scheduled.ask("/api/v2/assets/events")["asset_events"]
    assert {(event["name"], event["extra"]["run_id"]) for event in events} >= {
        ("spark_eval_splits", DAYS[1]),
        ("spark_eval_metrics", DAYS[1]),
    }


def test_a_run_that_cannot_succeed_is_not_retried_and_says_why(scheduled: "Airflow", desk: "Desk") -> None:
    """As soon as the DAG is switched on, the scheduler starts yesterday's run, for which there is no log."""
    runs = f"/api/v2/dags/{DAG}/dagRuns?run_type=scheduled"
    [run] = until(lambda: scheduled.ask(runs)["dag_runs"], 120, "run of yesterday")
    assert scheduled.ended(run["dag_run_id"]) == "failed"
    tasks = scheduled.tasks(run["dag_run_id"])
    assert tasks["split"] == ("failed", 1)
    assert tasks["evaluate"][0] == "upstream_failed"
    assert "the data breaks the contract; nothing was published: error[SPLIT_OUT_OF_RANGE] " in scheduled.log(
        run["dag_run_id"], "split"
    )
    assert not (desk.out / "splits" / f"run_id={run['logical_date'][:10]}").exists()


def driver(verb: str, day: str) -> int | None:
    """The process id of the Python that drives a run."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if "python" in words[0] and day in words and any(word.endswith(f"{verb}.py") for word in words):
                return int(folder.name)
    return None


def test_a_run_whose_driver_is_killed_publishes_once(scheduled: "Airflow", desk: "Desk") -> None:
    day = DAYS[2]
    run = scheduled.start(day)
    until(lambda: list(desk.out.glob(f"_staging/{day}-split-*/splits")), 600, "split at work")
    found = driver("split", day)
    assert found is not None
    os.kill(found, signal.SIGKILL)
    assert scheduled.ended(run) == "success"
    assert scheduled.tasks(run) == {"split": ("success", 2), "evaluate": ("success", 1)}
    assert f"cleared away: attempt {day}-split-" in scheduled.log(run, "split")
    assert desk.record(day)["jobs"].keys() == {"split", "evaluate"}
    assert not list(desk.out.glob("_staging/*"))
    assert all(desk.values(day).values())


def test_a_backfill_gives_the_same_tables_again(served: "Airflow", desk: "Desk") -> None:
    days = DAYS[-5:]
    assert served.backfill(days[0], days[-1]) == {"success"}
    before = {day: desk.values(day) for day in days}
    assert len({values["splits"] for values in before.values()}) == len(days)
    times = {path: path.stat().st_mtime_ns for path in desk.out.glob(f"*/run_id={days[0]}")}
    for day in days[3:]:  # as if they were lost
        (desk.out / "_commits" / f"{day}.json").unlink()
        for folder in desk.out.glob(f"*/run_id={day}"):
            shutil.rmtree(folder)
    again = ("--reprocess-behavior", "completed", "--run-backwards")
    assert served.backfill(days[0], days[-1], *again) == {"success"}
    assert {day: desk.values(day) for day in days} == before
    assert {path: path.stat().st_mtime_ns for path in times} == times
