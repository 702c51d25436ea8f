"""spark-eval: distributed offline evaluation of recommender systems on Spark.

``from spark_eval import evaluate, split`` work on DataFrames; the command line and the jobs read and
publish files, which ``read_published`` reads. Names are imported when first asked for, so that executors and
the metric kernels load neither Spark nor the config layer.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from spark_eval.schema import VERSION

if TYPE_CHECKING:
    from spark_eval import metrics
    from spark_eval.errors import SparkEvalError
    from spark_eval.publishing.published import read_published
    from spark_eval.runs.report import report
    from spark_eval.runtime.session import get_session
    from spark_eval.verbs.compare import Comparison, compare
    from spark_eval.verbs.evaluate import evaluate
    from spark_eval.verbs.evaluation import Evaluation
    from spark_eval.verbs.predictions import PredictionMetrics, evaluate_predictions
    from spark_eval.verbs.split import Split, split

__version__: Final = VERSION
__all__ = [
    "Comparison",
    "Evaluation",
    "PredictionMetrics",
    "SparkEvalError",
    "Split",
    "__version__",
    "compare",
    "evaluate",
    "evaluate_predictions",
    "get_session",
    "metrics",
    "read_published",
    "report",
    "split",
]

_HOMES: Final = {
    "SparkEvalError": "spark_eval.errors",
    "Comparison": "spark_eval.verbs.compare",
    "compare": "spark_eval.verbs.compare",
    "Evaluation": "spark_eval.verbs.evaluation",
    "evaluate": "spark_eval.verbs.evaluate",
    "get_session": "spark_eval.runtime.session",
    "PredictionMetrics": "spark_eval.verbs.predictions",
    "evaluate_predictions": "spark_eval.verbs.predictions",
    "read_published": "spark_eval.publishing.published",
    "report": "spark_eval.runs.report",
    "Split": "spark_eval.verbs.split",
    "split": "spark_eval.verbs.split",
}


def __getattr__(name: str) -> Any:
    if name == "metrics":  # a package that can be called
        return import_module("spark_eval.metrics")
    if name in _HOMES:
        import_module("spark_eval.runs.verbs")  # they declare their tables, which readers then know
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'spark_eval' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
