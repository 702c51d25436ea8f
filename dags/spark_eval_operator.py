"""Airflow operator for spark-eval's verbs; the Airflow machine needs neither Spark nor spark-eval."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseOperatorLink, Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException

# Exit codes that no retry can fix; 1 (infrastructure) and 4 (another attempt holds the run) are retried.
FINAL: Final = {
    2: "the config or the command line is wrong",
    3: "the data breaks the contract; nothing was published",
    5: "ALERT, a gate failed: a metric fell against its baseline",
}
# The exit code and the program's error line in the messages of Airflow's Spark hook.
EXIT_CODE: Final = re.compile(r"Error code is: (-?\d+)")
NAMED_ERROR: Final = re.compile(r"^error\[[A-Z_]+\] .*", re.MULTILINE)


class ReportLink(BaseOperatorLink):
    """Button ``Report`` of a task."""

    name = "Report"

    def get_link(self, operator: Any, **_: Any) -> str:
        """Return the link to the report; empty if there is none."""
        return str(operator.report_link())


class SparkEvalOperator(SparkSubmitOperator):
    """Run ``spark-submit jobs/<verb>.py``; errors that a retry cannot fix fail the task at once.

    The DAG's parameter ``replace`` becomes ``--replace``. Events of the outlets have the run id. The task has
    a button ``Report``.

    Args:
        verb: Verb of spark-eval that has a file in ``jobs/``, such as ``evaluate`` or ``calibrate``.
        home: A clone with ``.venv`` and ``dist/spark_eval.zip`` (``make demo package``).
        config: Path of the config; may be a template.
        run_id: Id of the run; may be a template.
        settings: Config keys to override, as in ``--set``; values may be templates.
        report_url: URL of your reports, such as ``https://evals.example.com/{run_id}.html``; without it, the
            button leads to the file.
        **kwargs: Arguments of ``SparkSubmitOperator``.
    """

    template_fields = (*SparkSubmitOperator.template_fields, "run_id", "report_url")
    operator_extra_links = (ReportLink(),)

    def __init__(
        self,
        *,
        verb: str,
        home: str,
        config: str,
        run_id: str,
        settings: Mapping[str, str] | None = None,
        report_url: str = "",
        **kwargs: Any,
    ) -> None:
        self.run_id = run_id
        self.report_url = report_url
        given = [word for name, value in (settings or {}).items() for word in ("--set", f"{name}={value}")]
        python = f"{home}/.venv/bin/python"
        super().__init__(
            application=f"{home}/jobs/{verb}.py",
            application_args=["--config", config, "--run-id", run_id, *given],
            py_files=f"{home}/dist/spark_eval.zip",
            spark_binary=f"{home}/.venv/bin/spark-submit",
            name=f"spark-eval {verb} {run_id}",
            env_vars={
                "PYSPARK_DRIVER_PYTHON": python,
                "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", python),
            },
            **kwargs,
        )

    def execute(self, context: Context) -> None:
        """Submit the job and wait for its end."""
        if context["params"].get("replace"):
            self.application_args.append("--replace")
        try:
            super().execute(context)
        except AirflowException as failure:
            code, errors = EXIT_CODE.search(str(failure)), NAMED_ERROR.findall(str(failure))
            meaning = FINAL.get(int(code[1])) if code else None
            if meaning is None:
                raise
            raise AirflowFailException(": ".join([meaning, *errors[-1:]])) from failure
        for asset in self.outlets:
            context["outlet_events"][asset].extra = {"run_id": self.run_id}

    def report_link(self) -> str:
        """Return the URL of the run's report; empty if it is a local file that does not exist."""
        if self.report_url:
            return self.report_url.replace("{run_id}", self.run_id)
        arguments = self.application_args
        config = Path(arguments[arguments.index("--config") + 1])
        given = [word.partition("=")[2] for word in arguments if word.startswith("output.path=")]
        path = given[-1] if given else yaml.safe_load(config.read_text())["output"]["path"]
        report = f"{path}/report/{self.run_id}.html"
        if "://" in report and not report.startswith("file:"):
            return report
        # Hadoop's file URIs are not percent-encoded.
        file = Path(report.removeprefix("file://").removeprefix("file:")).absolute()
        return file.as_uri() if file.is_file() else ""
