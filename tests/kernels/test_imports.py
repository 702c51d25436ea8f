"""What runs on executors and in kernels must not pull in Spark or the config layer."""

import subprocess
import sys

LIGHT = (
    "spark_eval.kernels",
    "spark_eval.predictions.plan",
    "spark_eval.statistics.exact",
    "spark_eval.statistics.intervals",
    "spark_eval.conventions",
    "spark_eval.conventions.presets",
    "spark_eval.evaluation.segments",
    "spark_eval.schema",
    "spark_eval.errors",
    "spark_eval.splits.rules.global_local_ranker",
)
HEAVY = ("pyspark", "pydantic", "yaml", "click", "rich")


def test_help_needs_no_library_of_tables_or_configs() -> None:
    names = ("pyspark", "pydantic", "yaml", "rich", "numpy", "pandas", "pyarrow", "scipy", "jinja2")
    program = f"import sys, spark_eval.cli.commands; print(*sorted(set({names}) & set(sys.modules)))"
    fresh = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert fresh.returncode == 0, fresh.stderr
    assert fresh.stdout.split() == []


def test_kernels_and_rules_import_neither_spark_nor_the_config_layer() -> None:
    program = f"import sys, {', '.join(LIGHT)}; print(*sorted(set({HEAVY}) & set(sys.modules)))"
    fresh = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert fresh.returncode == 0, fresh.stderr
    assert fresh.stdout.split() == []
