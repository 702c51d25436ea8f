"""The whole chain of verbs on a store, and one hash of the values that it publishes."""

import copy
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import yaml
from pyspark.sql import SparkSession

from spark_eval import read_published

DAY: Final = 86_400
N_USERS: Final = 60
TABLES: Final = (
    "splits",
    "subsets",
    "leakage",
    "per_user",
    "metrics",
    "sums",
    "accounting",
    "comparisons",
    "gates",
)
RUN: Final = "2024-05-01"


def write_inputs(home: Path) -> None:
    """Write a log, and lists of two models with ties, one of them much worse, each as three files."""
    random = np.random.default_rng(34)
    users = np.repeat(np.arange(N_USERS), 12)
    log = pd.DataFrame(
        {
            "user": users,
            "item": random.integers(0, 40, len(users)),
            "timestamp": random.integers(0, 100 * DAY, len(users)),
            "relevance": random.random(len(users)) * 5,
        }
    )
    lists = pd.DataFrame(
        {
            "model": random.choice(["als", "top"], 40 * N_USERS),
            "user": random.integers(0, N_USERS, 40 * N_USERS),
            "item": random.integers(0, 40, 40 * N_USERS),
            "score": random.integers(0, 9, 40 * N_USERS) / 7,
        }
    )
    for name, rows in (("log", log), ("lists", lists)):
        write_folder(home / name, rows, 3)


def write_folder(folder: Path, rows: pd.DataFrame, n_files: int) -> None:
    """Write rows as a folder of Parquet files."""
    folder.mkdir(parents=True)
    for number in range(n_files):
        rows.iloc[number::n_files].to_parquet(folder / f"{number}.parquet", index=False)


def tree_of(inputs: str, out: str, **output: Any) -> dict[str, Any]:
    """Return a config with inputs below one path and all output below another."""
    gate = {"metric": "ndcg", "k": 10, "against": {"model": "top"}, "model": "als", "min_users": 5}
    return {
        "output": {"path": out, **output},
        "interactions": {"path": f"{inputs}/log", "timestamp_unit": "s"},
        "recommendations": {"path": f"{inputs}/lists"},
        "evaluate": {"k": [5, 10], "metrics": ["map", "ndcg", "recall", "mrr"]},
        "compare": {"baseline": {"model": "top"}, "tests": ["t", "sign"]},
        "gates": [{**gate, "max_drop": 1.0, "min_common": 0.1}],
    }


def failing(tree: dict[str, Any]) -> dict[str, Any]:
    """Return the same config with a gate that no model passes."""
    other = copy.deepcopy(tree)
    other["gates"][0] |= {"max_drop": 0.0, "mode": "non_inferior", "confidence": 0.999999}
    return other


def write_config(path: Path, tree: dict[str, Any]) -> str:
    """Write a config to a local file; return its path."""
    path.write_text(yaml.safe_dump(tree))
    return str(path)


def hash_of(spark: SparkSession, out: str, run_id: str = RUN) -> dict[str, str]:
    """Return a hash of each published table of the chain."""
    return {table: hash_of_table(spark, out, table, run_id) for table in TABLES}


def hash_of_table(spark: SparkSession, out: str, table: str, run_id: str) -> str:
    """Return a hash of a published table: its rows in a fixed order, doubles by their bits."""
    return hashlib.sha256("\n".join(rows_of(spark, out, table, run_id)).encode()).hexdigest()


def rows_of(spark: SparkSession, out: str, table: str = "splits", run_id: str = RUN) -> list[str]:
    """Return the columns of a published table, then its rows in a fixed order, doubles by their bits."""
    frame = read_published(spark, out, table, [run_id])
    names = sorted(frame.columns)
    lines = [
        "|".join(value.hex() if isinstance(value, float) else str(value) for value in row)
        for row in frame.select(names).collect()
    ]
    return [*names, *sorted(lines)]


def run_chain(
    call: Callable[..., Any], config: str, *of_report: str, is_repeated: bool = True
) -> dict[str, Any]:
    """Run split, evaluate, compare, report (with more words) and status; return what status tells as JSON.

    If ``is_repeated``, each verb is run again, and has nothing to do.
    """
    for verb in ("split", "evaluate", "compare"):
        done = call(verb, "--config", config, "--run-id", RUN)
        assert (done.code, done.err) == (0, ""), done.err
        if not is_repeated:
            continue
        again = call(verb, "--config", config, "--run-id", RUN)
        assert again.code == 0, again.err
        assert "already published" in again.out
    done = call("report", "--config", config, "--run-id", RUN, *of_report)
    assert (done.code, done.err) == (0, ""), done.err
    status = call("status", "--config", config, "--json")
    assert (status.code, status.err) == (0, ""), status.err
    told: dict[str, Any] = json.loads(status.out)
    return told
