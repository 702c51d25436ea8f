"""Every day: compare the variants of the running experiments, and end one that loses.

``online`` exits with code 5 if an experiment with a gate is lost or blocked, or cannot be trusted: the task
fails without a retry, and ``stop`` runs. Looks at running experiments need ``sequential`` in the config; see
docs/experiments.md.
"""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from airflow.sdk import DAG, CronDataIntervalTimetable, Param, task

from spark_eval_operator import SparkEvalOperator

HOME: Final = os.environ.get("SPARK_EVAL_HOME", str(Path(__file__).resolve().parents[1]))
CONFIG: Final = os.environ.get("SPARK_EVAL_ONLINE_CONFIG", f"{HOME}/conf/online.yaml")
# URL of the reports, with {run_id} in it; if empty, links lead to files.
REPORT_URL: Final = os.environ.get("SPARK_EVAL_REPORT_URL", "")
# Last scheduled day, for experiments that have ended; empty: no end.
LAST_DAY: Final = os.environ.get("SPARK_EVAL_LAST_DAY")

DAY: Final = "{{ (dag_run.logical_date or dag_run.run_after) | ds }}"


def stop(day: str) -> None:
    """Tell the team; this example prints to the task's log. That of ``online`` has the reasons."""
    print(f"STOP: an experiment is lost, blocked or not trusted on {day}")


with DAG(
    "spark_eval_online",
    description=__doc__,
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=datetime(2023, 1, 1, tzinfo=UTC),
    end_date=datetime.fromisoformat(LAST_DAY).replace(tzinfo=UTC) if LAST_DAY else None,
    catchup=False,
    default_args={"retries": 3, "retry_exponential_backoff": 2},
    params={"replace": Param(False, type="boolean", description="replace runs with different content")},
    tags=["spark-eval"],
):
    # Insert here the task that collects the exposures and events up to this day.
    online = SparkEvalOperator(
        task_id="online", verb="online", home=HOME, config=CONFIG, run_id=DAY, report_url=REPORT_URL
    )
    online >> [task(trigger_rule="one_failed")(stop)(DAY)]
