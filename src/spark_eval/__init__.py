"""spark-eval: evaluation of recommender systems, offline and online, in one process or on Spark.

``from spark_eval import evaluate, split`` work on DataFrames; the command line and the jobs read and
publish files, which ``read_published`` reads. Names are imported when first asked for, so that executors and
the metric kernels load neither Spark nor the config layer.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from spark_eval.schema import VERSION

if TYPE_CHECKING:
    from spark_eval.calibration.calibrate import Calibration, calibrate
    from spark_eval.cli.metric_tables import metrics
    from spark_eval.comparison.compare import Comparison, compare
    from spark_eval.errors import SparkEvalError
    from spark_eval.evaluation.evaluate import evaluate
    from spark_eval.evaluation.result import Evaluation
    from spark_eval.experiments.evaluate import Experiments, evaluate_experiments
    from spark_eval.experiments.interleaving import Interleaving, evaluate_interleaving
    from spark_eval.experiments.user_days import UserDays, sum_user_days
    from spark_eval.linkage.evaluate import Linkage, evaluate_linkage
    from spark_eval.linkage.reviews import sample_pairs
    from spark_eval.monitoring.gaps import segment_gaps
    from spark_eval.monitoring.history import History
    from spark_eval.monitoring.sums import add_sums
    from spark_eval.monitoring.window import Window
    from spark_eval.predictions.evaluate import Predictions, evaluate_predictions
    from spark_eval.publishing.published import read_published
    from spark_eval.runtime.session import get_session
    from spark_eval.splits.split import Split, split
    from spark_eval.verbs.history import history
    from spark_eval.verbs.report import report
    from spark_eval.verbs.watch import watch
    from spark_eval.verbs.window import window

__version__: Final = VERSION
__all__ = [
    "Calibration",
    "Comparison",
    "Evaluation",
    "Experiments",
    "History",
    "Interleaving",
    "Linkage",
    "Predictions",
    "SparkEvalError",
    "Split",
    "UserDays",
    "Window",
    "__version__",
    "add_sums",
    "calibrate",
    "compare",
    "evaluate",
    "evaluate_experiments",
    "evaluate_interleaving",
    "evaluate_linkage",
    "evaluate_predictions",
    "get_session",
    "history",
    "metrics",
    "read_published",
    "report",
    "sample_pairs",
    "segment_gaps",
    "split",
    "sum_user_days",
    "watch",
    "window",
]

_HOMES: Final = {
    "Calibration": "spark_eval.calibration.calibrate",
    "calibrate": "spark_eval.calibration.calibrate",
    "SparkEvalError": "spark_eval.errors",
    "Comparison": "spark_eval.comparison.compare",
    "compare": "spark_eval.comparison.compare",
    "Evaluation": "spark_eval.evaluation.result",
    "evaluate": "spark_eval.evaluation.evaluate",
    "Experiments": "spark_eval.experiments.evaluate",
    "evaluate_experiments": "spark_eval.experiments.evaluate",
    "get_session": "spark_eval.runtime.session",
    "Predictions": "spark_eval.predictions.evaluate",
    "evaluate_predictions": "spark_eval.predictions.evaluate",
    "read_published": "spark_eval.publishing.published",
    "report": "spark_eval.verbs.report",
    "Split": "spark_eval.splits.split",
    "split": "spark_eval.splits.split",
    "add_sums": "spark_eval.monitoring.sums",
    "segment_gaps": "spark_eval.monitoring.gaps",
    "Window": "spark_eval.monitoring.window",
    "window": "spark_eval.verbs.window",
    "History": "spark_eval.monitoring.history",
    "history": "spark_eval.verbs.history",
    "watch": "spark_eval.verbs.watch",
    "Interleaving": "spark_eval.experiments.interleaving",
    "evaluate_interleaving": "spark_eval.experiments.interleaving",
    "UserDays": "spark_eval.experiments.user_days",
    "sum_user_days": "spark_eval.experiments.user_days",
    "metrics": "spark_eval.cli.metric_tables",
    "Linkage": "spark_eval.linkage.evaluate",
    "evaluate_linkage": "spark_eval.linkage.evaluate",
    "sample_pairs": "spark_eval.linkage.reviews",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'spark_eval' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
