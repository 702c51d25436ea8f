"""spark-eval's verbs as Airflow tasks; nothing here needs Spark or spark-eval where Airflow runs."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseOperatorLink, Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException

# Exit codes after which no retry helps; 1 (infrastructure) and 4 (another attempt holds the run) are retried.
FINAL: Final = {
    2: "the config or the command line is wrong",
    3: "the data breaks the contract; nothing was published",
    5: "ALERT, a gate failed: a metric fell against its baseline",
}
# How the hook quotes the exit code, and the program's last words among those of Spark.
EXIT_CODE: Final = re.compile(r"Error code is: (-?\d+)")
NAMED_ERROR: Final = re.compile(r"^error\[[A-Z_]+\] .*", re.MULTILINE)


class ReportLink(BaseOperatorLink):
    """The button ``Report`` of a task."""

    name = "Report"

    def get_link(self, operator: Any, **_: Any) -> str:
        """Return where the report is; nothing where there is none."""
        return str(operator.report_link())


class SparkEvalOperator(SparkSubmitOperator):
    """``spark-submit jobs/<verb>.py``: retried where a retry can help, failed at once where it cannot.

    ``home`` is a clone with ``.venv`` and ``dist/spark_eval.zip`` (``make demo package``). ``settings`` are
    config keys to override, as ``--set`` takes them; they, ``run_id`` and ``config`` may be templates. The
    DAG's parameter ``replace`` is passed on as ``--replace``. Events of the outlets carry the run id.

    The task has a button ``Report``. ``report_url`` is where your reports are served,
    ``https://evals.example.com/{run_id}.html``; without it the button leads to the file.
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
        """Submit and wait."""
        if context["params"].get("replace"):
            self.application_args.append("--replace")
        try:
            super().execute(context)
        except AirflowException as failure:
            code, said = EXIT_CODE.search(str(failure)), NAMED_ERROR.findall(str(failure))
            meaning = FINAL.get(int(code[1])) if code else None
            if meaning is None:
                raise
            raise AirflowFailException(": ".join([meaning, *said[-1:]])) from failure
        for asset in self.outlets:
            context["outlet_events"][asset].extra = {"run_id": self.run_id}

    def report_link(self) -> str:
        """Return the address of the run's report; nothing where a file of this machine is not there."""
        if self.report_url:
            return self.report_url.replace("{run_id}", self.run_id)
        arguments = self.application_args
        config = Path(arguments[arguments.index("--config") + 1])
        given = [word.partition("=")[2] for word in arguments if word.startswith("output.path=")]
        path = given[-1] if given else yaml.safe_load(config.read_text())["output"]["path"]
        place = f"{path}/report/{self.run_id}.html"
        if "://" in place and not place.startswith("file:"):
            return place
        # Nothing is encoded in it, as Hadoop has it.
        file = Path(place.removeprefix("file://").removeprefix("file:")).absolute()
        return file.as_uri() if file.is_file() else ""
