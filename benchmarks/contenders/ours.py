"""spark-eval itself: on frames, and as the command line runs it."""

from pathlib import Path

from benchmarks.contenders import Means, Repetition
from benchmarks.contenders.spark import read, session
from benchmarks.workload import RUN_NAMES, Task
from spark_eval import evaluate
from spark_eval.runs.run import run_verb
from spark_eval.runs.sections import parse_config
from spark_eval.schema import ALL
from spark_eval.verbs import VERBS

MODEL = "only"


def frames(task: Task) -> Repetition:
    """``evaluate``; per_user written, metrics and accounting collected."""
    spark, workload = session(task), task.workload

    def repeat(folder: Path) -> Means:
        recommendations, truth = read(spark, task, workload.options)
        evaluation = evaluate(
            recommendations,
            truth,
            model=MODEL if workload.dataset.models == 1 else None,
            metrics=workload.run_metrics,
            k=workload.ks,
            conventions=workload.conventions,
            folder=str(folder / "per_user"),
        )
        metrics = list(evaluation.metrics.itertuples())
        assert len(evaluation.accounting)
        evaluation.unpersist()
        of_mean = {run_name: name for name, run_name in RUN_NAMES.items()}
        everybody = [row for row in metrics if row.segment == ALL]
        return {f"{of_mean[row.metric]}@{row.k}": row.value for row in everybody}

    return repeat


def published(task: Task) -> Repetition:
    """``spark-eval evaluate`` without the command line: tables staged, checked, published."""
    spark, workload = session(task), task.workload

    def repeat(folder: Path) -> None:
        config = parse_config(
            {
                "output": {"path": str(folder)},
                "recommendations": {"path": task.recommendations, "options": dict(workload.options)}
                | ({"model": MODEL} if workload.dataset.models == 1 else {}),
                "truth": {"path": task.truth, "options": dict(workload.options)},
                "evaluate": {
                    "k": list(workload.ks),
                    "metrics": workload.run_metrics,
                    "conventions": {"preset": "default", **workload.conventions},
                },
            }
        )
        run_verb(VERBS["evaluate"], lambda: spark, config, None, replace=False)

    return repeat
