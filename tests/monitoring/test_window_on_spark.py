"""Days that Spark measured: their window is one evaluation with a fold for each day."""

from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import SparkSession

from spark_eval import evaluate, window
from spark_eval.runs.run import run_verb
from spark_eval.runs.sections import parse_config
from spark_eval.verbs import VERBS

DAYS = ["2024-03-01", "2024-03-02", "2024-03-03"]
ASKED: Any = {"metrics": ["ndcg", "fcp", "catalog_coverage"], "k": [3]}


def rows_of(day: int, n_users: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    users = [user for user in range(n_users) if (user + day) % 3]
    lists = [(user, (user * 7 + rank * day) % 40, rank) for user in users for rank in range(1, 5)]
    truth = [(user, (user * 5 + item) % 40, 1.0 + item % 3) for user in users for item in range(6 + day)]
    return (
        pd.DataFrame(lists, columns=["user", "item", "rank"]).drop_duplicates(["user", "item"]),
        pd.DataFrame(truth, columns=["user", "item", "relevance"]),
    )


def test_a_window_of_published_days_is_one_evaluation(spark: SparkSession, tmp_path: Path) -> None:
    together: list[list[pd.DataFrame]] = [[], []]
    for day, run_id in enumerate(DAYS):
        frames = rows_of(day + 1, 60)
        for name, frame, whole in zip(("lists", "truth"), frames, together, strict=True):
            (tmp_path / name / run_id).mkdir(parents=True)
            frame.assign(fold=0).to_parquet(tmp_path / name / run_id / "part.parquet", index=False)
            whole.append(frame.assign(fold=day))
        config = parse_config(
            {
                "output": {"path": str(tmp_path / "out")},
                "recommendations": {"path": str(tmp_path / "lists" / run_id), "model": "als"},
                "truth": {"path": str(tmp_path / "truth" / run_id)},
                "train": {"path": str(tmp_path / "truth" / run_id)},
                "evaluate": ASKED,
            }
        )
        run_verb(VERBS["evaluate"], lambda: spark, config, run_id, False)
    merged = window(str(tmp_path / "out"), first=DAYS[0], last=DAYS[-1])
    lists, truth = map(pd.concat, together)
    one_job = evaluate(
        spark.createDataFrame(lists),
        spark.createDataFrame(truth),
        model="als",
        metrics=ASKED["metrics"][:2],
        k=ASKED["k"],
    )
    expected = {row[:11] for row in one_job.sum_rows if row.segment == "all"}
    assert {row[:11] for row in merged.sum_rows if row.segment == "all"} == expected
    assert {row.segment for row in merged.sum_rows} == {"all", "fold"}
    assert merged.absent == ["catalog_coverage@3", "mean and deviation over folds"]
    assert all(row.std_error for row in merged.metric_rows)
