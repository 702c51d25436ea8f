"""What the verbs give of frames in any session, and what a session of Spark Connect refuses."""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.errors import UnsupportedOperationException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_eval import compare, evaluate, evaluate_predictions, functions, get_session, split
from spark_eval.errors import SparkEvalError
from spark_eval.runtime.hadoop_files import HadoopFiles

DAY = 86_400
# What serverless compute of Databricks says to whoever persists a frame.
SERVERLESS = (
    "[NOT_SUPPORTED_WITH_SERVERLESS] PERSIST TABLE is not supported on serverless compute. SQLSTATE: 0A000"
)


def values(frame: DataFrame) -> list[list[str]]:
    """The rows in one order; doubles to the last bit."""
    return sorted(
        [value.hex() if isinstance(value, float) else str(value) for value in row] for row in frame.collect()
    )


def refused(spark: SparkSession) -> str:
    """The code with which the files of a store are refused in this session, or nothing."""
    try:
        HadoopFiles(spark, "file:///")
    except SparkEvalError as error:
        return error.code
    return ""


def answers(spark: SparkSession) -> dict[str, Any]:
    """Tables of a split, of evaluations and of predictions, and the code of what is refused."""
    log = spark.createDataFrame(
        [(user, (user * n) % 7, n * DAY, float(n)) for user in range(20) for n in range(1, 11)],
        "user long, item long, timestamp long, relevance double",
    )
    parts = split(log, local_cut=0.6, global_cut=0.8, timestamp_unit="s")
    train, test = parts.subset("global_train"), parts.subset("global_test")
    popular = train.groupBy("item").count().withColumnRenamed("count", "score")
    lists = test.select("user").distinct().crossJoin(popular)
    users = spark.createDataFrame([(user, "ab"[user % 2]) for user in range(20)], "user long, shop string")
    found: dict[str, Any] = {"get_session gives this": get_session() is spark}
    found |= {"accounting of split": values(parts.to_spark("accounting"))}
    found |= {"leakage": values(parts.to_spark("leakage"))}
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
        tables = {table: result.to_spark(table) for table in ("metrics", "per_user", "accounting")}
        found |= {f"{table} by {name}": values(frame) for table, frame in tables.items()}
        result.unpersist()

    def of_persisted() -> dict[str, Any]:
        parts = of_folder(ranked, test), of_predictions(lists), of_items(ranked, test, train)
        compared = of_requests(ranked, test), of_compared_predictions(lists)
        return {name: rows for part in (*parts, *compared) for name, rows in part.items()}

    kept = of_persisted()
    with patch.object(type(ranked), "persist", side_effect=UnsupportedOperationException(SERVERLESS)):
        anew = of_persisted()
    found |= kept | of_functions(ranked, test) | {"the same if nothing is persisted": anew == kept}
    return found | {"refused": refused(spark)}


def of_functions(ranked: DataFrame, truth: DataFrame) -> dict[str, Any]:
    """Metrics of array columns, by functions and by SQL."""
    items = ranked.groupBy("user").agg(
        F.expr("array_sort(collect_list(struct(rank, item))).item AS recommended")
    )
    relevant = truth.groupBy("user").agg(F.expr("array_sort(collect_list(item)) AS relevant"))
    rows = items.join(relevant, "user")
    several = functions.ranking_metrics(
        "recommended", "relevant", ["map", "gauc@all"], 5, conventions="spark"
    )
    measured = rows.select("user", several.alias("m"), functions.ndcg("recommended", "relevant", 5))
    functions.register(rows.sparkSession)
    rows.createOrReplaceTempView("lists")
    by_sql = rows.sparkSession.sql("SELECT user, ndcg_at(recommended, relevant, 5) FROM lists")
    return {
        "functions": values(measured.select("user", "m.*", "ndcg_at_5")),
        "functions of SQL": values(by_sql),
    }


def of_items(ranked: DataFrame, truth: DataFrame, train: DataFrame) -> dict[str, Any]:
    """Metrics of a table of 40,000 items, whose vectors every worker gets: 10 MB of them."""
    vector = F.transform(
        F.sequence(F.lit(1), F.lit(64)), lambda place: (F.col("id") * place % 97).cast("float")
    )
    items = ranked.sparkSession.range(40_000).select(F.col("id").alias("item"), vector.alias("vector"))
    asked = ["ild", "novelty", "catalog_coverage", "gini_catalog"]
    result = evaluate(ranked, truth, model="popular", train=train, items=items, metrics=asked, k=5)
    found = {"metrics of items": values(result.to_spark("metrics")), "diversity": values(result.per_user)}
    result.unpersist()
    return found


def of_folder(lists: DataFrame, truth: DataFrame) -> dict[str, Any]:
    """The rows of ``per_user`` in a folder, and whether Spark itself has written them there."""
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home, "per_user")
        result = evaluate(lists, truth, model="popular", folder=str(folder))
        rows = values(result.per_user)
        result.unpersist()
        return {"per_user of a folder": rows, "written by Spark": (folder / "_SUCCESS").exists()}


def of_predictions(lists: DataFrame) -> dict[str, Any]:
    """Tables of predictions: sums of rows, sums of users, and what follows from the order of scores."""
    scored = lists.selectExpr("user", "item % 2 AS label", "1 / (1 + item) AS score")
    metrics, choose = ["log_loss", "auc", "gauc"], {"recall": [0.9]}
    result = evaluate_predictions(scored, "binary", model="m", metrics=metrics, choose=choose, curves=True)
    tables = ("metrics", "thresholds", "curves", "accounting")
    return {f"{table} of predictions": values(result.to_spark(table)) for table in tables}


def of_requests(ranked: DataFrame, truth: DataFrame) -> dict[str, Any]:
    """Tables of two models' lists by request, which are stages, and of their comparison by user."""
    requests = ranked.withColumn("request", F.explode(F.array(F.lit("am"), F.lit("pm"))))
    place = F.when(F.col("request") == "am", 9 - F.col("rank")).otherwise(F.col("rank"))
    lists = requests.withColumn("model", F.lit("a")).unionByName(
        requests.withColumn("rank", place).withColumn("model", F.lit("b"))
    )
    stages = [{"name": "first", "model": "a", "k": 5}, {"name": "last", "model": "b", "k": 2}]
    result = evaluate(lists, truth, metrics=["ndcg", "recall"], k=3, stages=stages)
    compared = compare(result, baseline_model="a", tests=["t", "bootstrap"], resamples=50)
    tables = {table: result.to_spark(table) for table in ("metrics", "per_user", "stages", "funnel")}
    tables["comparisons"] = compared.to_spark("comparisons")
    found = {f"{table} by request": values(frame) for table, frame in tables.items()}
    result.unpersist()
    return found


def of_compared_predictions(lists: DataFrame) -> dict[str, Any]:
    """Two results of predictions by user, country and fold, and their comparison."""
    scored = lists.selectExpr(
        *("user", "item % 2 AS label", "1 / (1 + item) AS a", "1 / (2 + user % 5 + item) AS b"),
        *("concat('c', user % 3 + item % 2) AS country", "item % 3 AS fold"),
    )
    options: dict[str, Any] = {
        "metrics": ["log_loss", "auc", "auprc", "ece"],
        "segments": ["country"],
        "intervals": "user",
        "resamples": 50,
    }
    both = [
        evaluate_predictions(scored, "binary", model="m", columns={"score": name}, **options) for name in "ab"
    ]
    gate = {"metric": "log_loss", "segment": "country", "max_drop": 0.5, "min_users": 1}
    compared = compare(*both, segments=["country", "fold"], test_train_ratio=0.5, gates=[gate])
    found = {
        f"intervals of {name}": values(of.to_spark("metrics")) for name, of in zip("ab", both, strict=True)
    }
    found["sums of users"] = values(both[0].per_user)
    tables = ("comparisons", "gates", "accounting")
    return found | {f"{table} of predictions compared": values(compared.to_spark(table)) for table in tables}


if __name__ == "__main__":
    session = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
    session.addArtifacts(sys.argv[2], pyfile=True)
    print(json.dumps(answers(session)))
