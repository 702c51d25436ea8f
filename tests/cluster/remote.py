"""What ``split`` and ``evaluate`` give in any session, and what a session of Spark Connect refuses."""

import json
import sys
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark_eval import evaluate, evaluate_predictions, get_session, split
from spark_eval.errors import SparkEvalError
from spark_eval.preflight import check_workers

DAY = 86_400


def values(frame: DataFrame) -> list[list[str]]:
    """The rows in one order; doubles to the last bit."""
    return sorted(
        [value.hex() if isinstance(value, float) else str(value) for value in row] for row in frame.collect()
    )


def refused(call: Callable[[], object]) -> str:
    """The code of the error that a call ends in."""
    try:
        call()
    except SparkEvalError as error:
        return error.code
    return ""


def answers(spark: SparkSession) -> dict[str, Any]:
    """Tables of a split and of evaluations by scores and by ranks; codes of what is refused."""
    log = spark.createDataFrame(
        [(user, (user * n) % 7, n * DAY, float(n)) for user in range(20) for n in range(1, 11)],
        "user long, item long, timestamp long, relevance double",
    )
    parts = split(log, local_cut=0.6, global_cut=0.8, timestamp_unit="s")
    train, test = parts.subset("global_train"), parts.subset("global_test")
    popular = train.groupBy("item").count().withColumnRenamed("count", "score")
    # Rows of one list lie together, as the plan `workers` needs it.
    lists = test.select("user").distinct().crossJoin(popular).orderBy("user")
    users = spark.createDataFrame([(user, "ab"[user % 2]) for user in range(20)], "user long, shop string")
    found: dict[str, Any] = {"get_session gives this": get_session() is spark}
    found |= {"accounting of split": values(parts.accounting)}
    ranked = lists.selectExpr("user", "item", "int(item) + 1 AS rank")
    for name, given in (("score", lists), ("rank", ranked)):
        result = evaluate(
            given,
            test,
            model="popular",
            train=train,
            users=users,
            segments=["shop", "known", "activity"],
            metrics=["map", "ndcg", "gauc@all"],
            k=[1, 5],
        )
        tables = {"metrics": result.metrics, "per_user": result.per_user, "accounting": result.accounting}
        found |= {f"{table} by {name}": values(frame) for table, frame in tables.items()}
        found[f"plan by {name}"] = result.reason.partition(":")[0]
        result.unpersist()
    scored = lists.selectExpr("item % 2 AS label", "1 / (1 + item) AS score")
    found["refused"] = [
        refused(lambda: parts.leakage),
        refused(lambda: evaluate_predictions(scored, "binary", model="m")),
        refused(lambda: evaluate(ranked, test, model="m", plan="workers")),
        refused(lambda: check_workers(spark)),
    ]
    return found


if __name__ == "__main__":
    session = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
    session.addArtifacts(sys.argv[2], pyfile=True)
    print(json.dumps(answers(session)))
