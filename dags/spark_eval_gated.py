"""Every day: split and evaluate as spark_eval_daily does, then publish the model, or alert.

``compare`` decides the gates of the config, with the previous day as baseline. If a gate fails, it exits with
code 5: the task fails without a retry, and ``alert`` runs instead of ``publish``. See docs/airflow.md.
"""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from airflow.sdk import DAG, CronDataIntervalTimetable, Param, task

from spark_eval_operator import SparkEvalOperator

HOME: Final = os.environ.get("SPARK_EVAL_HOME", str(Path(__file__).resolve().parents[1]))
CONFIG: Final = os.environ.get("SPARK_EVAL_CONFIG", f"{HOME}/conf/example.yaml")
RECOMMENDATIONS: Final = os.environ.get("SPARK_EVAL_RECOMMENDATIONS", f"{HOME}/recs")
# URL of the reports, with {run_id} in it; if empty, links lead to files.
REPORT_URL: Final = os.environ.get("SPARK_EVAL_REPORT_URL", "")
# Last scheduled day, for a log that has ended; empty: no end.
LAST_DAY: Final = os.environ.get("SPARK_EVAL_LAST_DAY")
# File with the day of the model in service; the serving system reads it.
CURRENT: Final = Path(os.environ.get("SPARK_EVAL_CURRENT", f"{HOME}/current"))

DATE: Final = "(dag_run.logical_date or dag_run.run_after) | ds"
DAY: Final = f"{{{{ {DATE} }}}}"
DAY_BEFORE: Final = f"{{{{ macros.ds_add({DATE}, -1) }}}}"
LOCAL_CUT: Final = f"{{{{ macros.ds_add({DATE}, -28) }}}}"


def publish(day: str) -> None:
    """Put the model of this day into service."""
    CURRENT.write_text(day)


def alert(day: str) -> None:
    """Alert the team; this example prints to the task's log. The log of ``compare`` has the failed gates."""
    serving = CURRENT.read_text() if CURRENT.exists() else "no day"
    print(f"ALERT: the model of {day} is not published; that of {serving} stays in service")


with DAG(
    "spark_eval_gated",
    description=__doc__,
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=datetime(2023, 1, 1, tzinfo=UTC),
    end_date=datetime.fromisoformat(LAST_DAY).replace(tzinfo=UTC) if LAST_DAY else None,
    catchup=False,
    default_args={"retries": 3, "retry_exponential_backoff": 2},
    params={"replace": Param(False, type="boolean", description="replace runs with different content")},
    tags=["spark-eval"],
):
    common = {"home": HOME, "config": CONFIG, "run_id": DAY, "report_url": REPORT_URL}
    split = SparkEvalOperator(
        task_id="split",
        verb="split",
        settings={
            "split.local_cut": f"{{instant: '{LOCAL_CUT}'}}",
            "split.global_cut": f"{{instant: '{DAY}'}}",
            "split.test_days": "1",
        },
        **common,
    )
    evaluate = SparkEvalOperator(
        task_id="evaluate",
        verb="evaluate",
        settings={"recommendations.path": f"{RECOMMENDATIONS}/{DAY}"},
        **common,
    )
    compare = SparkEvalOperator(
        task_id="compare",
        verb="compare",
        settings={"compare.baseline": f"{{run: '{DAY_BEFORE}'}}"},
        **common,
    )
    is_better, is_worse = task(publish), task(trigger_rule="one_failed")(alert)
    split >> evaluate >> compare >> [is_better(DAY), is_worse(DAY)]
