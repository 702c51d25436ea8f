"""Every day: split the log at the day under test, and evaluate the recommendations for it.

The day is the run's data interval, so a backfill of last month has the same results as the runs of that
month. Environment variables of Airflow configure the DAG; see docs/airflow.md.
"""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from airflow.sdk import DAG, Asset, CronDataIntervalTimetable, Param

from spark_eval_operator import SparkEvalOperator

HOME: Final = os.environ.get("SPARK_EVAL_HOME", str(Path(__file__).resolve().parents[1]))
CONFIG: Final = os.environ.get("SPARK_EVAL_CONFIG", f"{HOME}/conf/example.yaml")
# Folder of the recommendations, with a subfolder per run id.
RECOMMENDATIONS: Final = os.environ.get("SPARK_EVAL_RECOMMENDATIONS", f"{HOME}/recs")
# URL of the reports, with {run_id} in it; if empty, links lead to files.
REPORT_URL: Final = os.environ.get("SPARK_EVAL_REPORT_URL", "")
# The last day that is ever scheduled, of a log that has ended; without it there is none.
LAST_DAY: Final = os.environ.get("SPARK_EVAL_LAST_DAY")

# Manual runs and those triggered by an asset may have no logical date; they use ``run_after``.
DATE: Final = "(dag_run.logical_date or dag_run.run_after) | ds"
DAY: Final = f"{{{{ {DATE} }}}}"
LOCAL_CUT: Final = f"{{{{ macros.ds_add({DATE}, -params.local_test_days) }}}}"

with DAG(
    "spark_eval_daily",
    description=__doc__,
    # The data interval of a run is the previous day; with "@daily" alone, it would be empty.
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=datetime(2023, 1, 1, tzinfo=UTC),
    end_date=datetime.fromisoformat(LAST_DAY).replace(tzinfo=UTC) if LAST_DAY else None,
    catchup=False,
    default_args={"retries": 3, "retry_exponential_backoff": 2},
    params={
        "local_test_days": Param(
            28, type="integer", minimum=1, description="days of local_test before the day"
        ),
        "replace": Param(False, type="boolean", description="replace a published run with different content"),
    },
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
        outlets=[Asset("spark_eval_splits")],
        **common,
    )
    evaluate = SparkEvalOperator(
        task_id="evaluate",
        verb="evaluate",
        settings={"recommendations.path": f"{RECOMMENDATIONS}/{DAY}"},
        outlets=[Asset("spark_eval_metrics")],
        **common,
    )
    # Insert here the task that trains on this run's global_train and recommends for its global_test.
    split >> evaluate
