"""Signatures of ``spark_eval.functions`` for editors; ``python tests/functions/stub.py`` writes them."""

from pathlib import Path

from spark_eval.functions.columns import measured_functions, own_options
from spark_eval.kernels.registry import RankingMetric

FILE = Path(__file__).parents[2] / "src" / "spark_eval" / "functions" / "__init__.pyi"
HEAD = """\
# Written by tests/functions/stub.py from the registry of metrics.
from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column

from spark_eval.conventions import Conventions
from spark_eval.functions.columns import ranking_metrics as ranking_metrics
from spark_eval.functions.columns import register as register
"""


def stub() -> str:
    """What the file must hold."""
    metrics = {metric.name: metric for metric in measured_functions().values()}
    aliases = [f"{name} = {one.name}\n" for name, one in measured_functions().items() if name != one.name]
    return "\n".join([HEAD, *map(defined, metrics.values()), "".join(aliases)])


def defined(metric: RankingMetric) -> str:
    """One function, as ``ruff format`` writes it."""
    lines = [
        f"def {metric.name}(",
        "    recommended: Column | str,",
        "    relevant: Column | str,",
        "    k: int | str,",
        "    *,",
        "    relevances: Column | str | None = None,",
        "    scores: Column | str | None = None,",
        '    conventions: Conventions | str | Mapping[str, Any] = "default",',
        *(f"    {name}: str | None = None," for name in own_options(metric)),
        ") -> Column:",
        f'    """{metric.summary}"""',
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    FILE.write_text(stub(), encoding="utf-8")
