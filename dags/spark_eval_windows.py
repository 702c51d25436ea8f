"""Every day, behind spark_eval_daily: watch the day, and merge the seven days up to it into a window.

Tasks wait until ``evaluate`` of their days has succeeded, so that days may be backfilled in any order. An
alarm is exit code 5: the task ``watch`` fails without a retry. See docs/airflow.md.
"""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from airflow.providers.standard.sensors.external_task import ExternalTaskSensor
from airflow.sdk import DAG, CronDataIntervalTimetable

from spark_eval_operator import SparkEvalOperator

HOME: Final = os.environ.get("SPARK_EVAL_HOME", str(Path(__file__).resolve().parents[1]))
CONFIG: Final = os.environ.get("SPARK_EVAL_CONFIG", f"{HOME}/conf/example.yaml")
# Metrics to watch, as in the config's watch.metrics.
METRICS: Final = os.environ.get("SPARK_EVAL_WATCH", "[ndcg@10]")
REPORT_URL: Final = os.environ.get("SPARK_EVAL_REPORT_URL", "")
# The last day that is ever scheduled, of a log that has ended; without it there is none.
LAST_DAY: Final = os.environ.get("SPARK_EVAL_LAST_DAY")
DAYS: Final = 7

DATE: Final = "(dag_run.logical_date or dag_run.run_after) | ds"
DAY: Final = f"{{{{ {DATE} }}}}"
FIRST: Final = f"{{{{ macros.ds_add({DATE}, {1 - DAYS}) }}}}"


def days_of_window(logical_date: datetime) -> list[datetime]:
    """Return the logical dates of the days of a window."""
    return [logical_date - timedelta(days=day) for day in range(DAYS)]


with DAG(
    "spark_eval_windows",
    description=__doc__,
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=datetime(2023, 1, 1, tzinfo=UTC),
    end_date=datetime.fromisoformat(LAST_DAY).replace(tzinfo=UTC) if LAST_DAY else None,
    catchup=False,
    default_args={"retries": 3, "retry_exponential_backoff": 2},
    # Days that were published later, or again, change what a day is judged by and what a window merges.
    params={"replace": True},
    tags=["spark-eval"],
):
    evaluated = {"external_dag_id": "spark_eval_daily", "external_task_id": "evaluate", "mode": "reschedule"}
    common = {"home": HOME, "config": CONFIG, "report_url": REPORT_URL}
    day = ExternalTaskSensor(task_id="day", **evaluated)
    watch = SparkEvalOperator(
        task_id="watch", verb="watch", run_id=DAY, settings={"watch.metrics": METRICS}, **common
    )
    week = ExternalTaskSensor(task_id="week", execution_date_fn=days_of_window, **evaluated)
    window = SparkEvalOperator(
        task_id="window",
        verb="window",
        run_id=f"{FIRST}_{DAY}",
        settings={"window.first": f"'{FIRST}'", "window.last": f"'{DAY}'"},
        **common,
    )
    day >> watch
    week >> window
