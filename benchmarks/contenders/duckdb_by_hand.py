"""The same table in SQL, by DuckDB; one node, two threads."""

from pathlib import Path

import duckdb
import numpy as np

from benchmarks.contenders import Means, Repetition
from benchmarks.workload import Task, Workload

QUERY = """
CREATE OR REPLACE VIEW recommendations AS SELECT * FROM read_parquet('{recommendations}/*.parquet');
CREATE OR REPLACE VIEW truth AS SELECT * FROM read_parquet('{truth}/*.parquet');
COPY (
    WITH hits AS (
        SELECT user, rank, row_number() OVER (PARTITION BY user ORDER BY rank) AS number
        FROM recommendations JOIN truth USING (user, item)
        WHERE rank <= {depth}
    ), hit_users AS (
        SELECT user, {sums}, min(rank) AS first FROM hits GROUP BY user
    ), lists AS (
        SELECT user, count(*) AS n_recommended FROM recommendations GROUP BY user
    ), users AS (
        SELECT user, count(*) AS n_relevant FROM truth GROUP BY user
    )
    SELECT user, n_relevant, coalesce(n_recommended, 0) AS n_recommended, {values}
    FROM users LEFT JOIN hit_users USING (user) LEFT JOIN lists USING (user)
) TO '{target}' (FORMAT parquet);
"""
SUMS = """
count(*) FILTER (rank <= {k}) AS hits_{k},
sum(number / rank) FILTER (rank <= {k}) AS precisions_{k},
sum(1 / log2(rank + 1)) FILTER (rank <= {k}) AS gains_{k}
"""
VALUES = {
    "precision": "coalesce(hits_{k}, 0) / {k}",
    "recall": "coalesce(hits_{k}, 0) / n_relevant",
    "ap": "coalesce(precisions_{k}, 0) / least(n_relevant, {k})",
    "rr": "CASE WHEN first <= {k} THEN 1 / first ELSE 0 END",
    "ndcg": "coalesce(gains_{k}, 0) / {ideal}[least(n_relevant, {k})]",
    "hit_rate": "CASE WHEN hits_{k} > 0 THEN 1.0::DOUBLE ELSE 0 END",
}


def prepare(task: Task) -> Repetition:
    """The connection and the query."""
    connection = duckdb.connect(config={"threads": 2})

    def repeat(folder: Path) -> Means:
        target = folder / "per_user.parquet"
        connection.execute(query(task, target))
        averages = ", ".join(f"avg({column}) AS {column}" for column in task.workload.columns)
        row = connection.execute(f"SELECT {averages} FROM read_parquet('{target}')").fetchone()
        return {
            column.replace("_at_", "@"): value
            for column, value in zip(task.workload.columns, row, strict=True)
        }

    return repeat


def query(task: Task, target: Path) -> str:
    """The statements."""
    workload: Workload = task.workload
    depth = max(workload.ks)
    ideal = [float(value) for value in (1 / np.log2(np.arange(2, depth + 2))).cumsum()]
    values = [
        f"{VALUES[metric].format(k=k, ideal=ideal)} AS {metric}_at_{k}"
        for metric in workload.metrics
        for k in workload.ks
    ]
    return QUERY.format(
        recommendations=task.recommendations,
        truth=task.truth,
        depth=depth,
        sums=", ".join(SUMS.format(k=k) for k in workload.ks),
        values=", ".join(values),
        target=target,
    )
