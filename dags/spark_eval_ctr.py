"""Every day: score the day's rows by the new model and the model in service, then publish it, or alert.

``predictions`` measures both models on the same rows, and decides the gates of the config. If one fails, it
exits with code 5: the task fails without a retry, and ``alert`` runs instead of ``publish``. See
docs/airflow.md.
"""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from airflow.sdk import DAG, CronDataIntervalTimetable, Param, task

from spark_eval_operator import SparkEvalOperator

HOME: Final = os.environ.get("SPARK_EVAL_HOME", str(Path(__file__).resolve().parents[1]))
CONFIG: Final = os.environ.get("SPARK_EVAL_CTR_CONFIG", f"{HOME}/conf/ctr.yaml")
# Folder of the scored rows, with a subfolder per day: label, score, user and model of each row.
SCORED: Final = os.environ.get("SPARK_EVAL_SCORED", f"{HOME}/scored")
# URL of the reports, with {run_id} in it; if empty, links lead to files.
REPORT_URL: Final = os.environ.get("SPARK_EVAL_REPORT_URL", "")
# Last scheduled day, for a log that has ended; empty: no end.
LAST_DAY: Final = os.environ.get("SPARK_EVAL_LAST_DAY")
# File with the day of the model in service; the serving system reads it.
CURRENT: Final = Path(os.environ.get("SPARK_EVAL_CURRENT", f"{HOME}/current"))

DAY: Final = "{{ (dag_run.logical_date or dag_run.run_after) | ds }}"


def publish(day: str) -> None:
    """Put the model of this day into service."""
    CURRENT.write_text(day)


def alert(day: str) -> None:
    """Alert the team; this example prints to the task's log. That of ``predictions`` has the failed gates."""
    serving = CURRENT.read_text() if CURRENT.exists() else "no day"
    print(f"ALERT: the model of {day} is not published; that of {serving} stays in service")


with DAG(
    "spark_eval_ctr",
    description=__doc__,
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=datetime(2023, 1, 1, tzinfo=UTC),
    end_date=datetime.fromisoformat(LAST_DAY).replace(tzinfo=UTC) if LAST_DAY else None,
    catchup=False,
    default_args={"retries": 3, "retry_exponential_backoff": 2},
    params={"replace": Param(False, type="boolean", description="replace runs with different content")},
    tags=["spark-eval"],
):
    # Insert here the task that scores the day's rows by both models.
    predictions = SparkEvalOperator(
        task_id="predictions",
        verb="predictions",
        home=HOME,
        config=CONFIG,
        run_id=DAY,
        settings={"predictions.path": f"{SCORED}/{DAY}"},
        report_url=REPORT_URL,
    )
    is_better, is_worse = task(publish), task(trigger_rule="one_failed")(alert)
    predictions >> [is_better(DAY), is_worse(DAY)]
