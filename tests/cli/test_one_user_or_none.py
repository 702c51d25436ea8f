"""Runs of inputs without rows or with one user, and their comparison, in this process."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tests.cli.conftest import Answer, call


def runs(home: Path, users: list[int]) -> list[Answer]:
    """Evaluate two orders of two items for these users, then compare them."""
    ids = pa.array([user for user in users for _ in range(2)], pa.int64())
    truth = pa.table({"user": pa.array(users, pa.int64()), "item": pa.array([0] * len(users), pa.int64())})
    pq.write_table(truth, home / "truth.parquet")
    answers = []
    for run, items in (("first", [0, 1]), ("second", [1, 0])):
        lists = {"user": ids, "item": pa.array(items * len(users), pa.int64())}
        ranks = pa.array([1, 2] * len(users), pa.int64())
        model = pa.array(["als"] * len(ids), pa.string())
        pq.write_table(pa.table({**lists, "rank": ranks, "model": model}), home / f"{run}.parquet")
        config = home / f"{run}.yaml"
        config.write_text(
            f"recommendations: {{path: {home}/{run}.parquet}}\ntruth: {{path: {home}/truth.parquet}}\n"
            f"evaluate: {{k: [1], metrics: [ndcg]}}\noutput: {{path: {home}/out}}\n"
            "compare: {baseline: {run: first}}\n"
        )
        answers.append(call("evaluate", "--engine", "local", "--config", str(config), "--run-id", run))
    return [*answers, call("compare", "--engine", "local", "--config", str(config), "--run-id", "second")]


def test_no_rows_are_named_errors(tmp_path: Path) -> None:
    first, second, comparison = runs(tmp_path, [])
    assert {first.code, second.code, comparison.code} == {3}
    assert "EMPTY_TRUTH" in first.err
    assert "EMPTY_RECOMMENDATIONS" in first.err
    assert comparison.err.startswith("error[UNKNOWN_RUN]")


def test_one_user_has_a_difference_and_no_p_value(tmp_path: Path) -> None:
    *_, comparison = runs(tmp_path, [7])
    assert comparison.code == 0, comparison.err
    assert (
        "als differs from als of first in ndcg@1 by -1.000; how surely, one user cannot tell"
        in comparison.out
    )
