"""Tables without rows, or with one user, by path and in memory."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_eval import compare
from spark_eval.arrow.user_files import file_name
from spark_eval.comparison.given import open_sides
from spark_eval.errors import SparkEvalError

SIZES = {"neither": (0, 0), "not the baseline": (0, 3), "not the candidate": (3, 0), "one user": (1, 1)}


def users_of(n: int) -> pa.Table:
    """Rows of a model."""
    return pa.table({"user": pa.array(range(n), pa.int64()), "ndcg_at_5": pa.array([0.5] * n, pa.float64())})


def write(folder: Path, sizes: tuple[int, int]) -> None:
    """Write the rows of two models by bucket."""
    for model, size in zip(("als", "knn"), sizes, strict=True):
        (folder / f"model={model}").mkdir(parents=True)
        pq.write_table(users_of(size), folder / f"model={model}" / file_name(0, 1))


def outcome(given: str | pa.Table) -> str:
    """The code of the error, or what is known of one user."""
    try:
        [row] = compare(given, engine="local").rows
    except SparkEvalError as error:
        return error.code
    return f"{row.n_users} user, {row.difference}, {row.p_value}"


@pytest.mark.parametrize("who", SIZES)
def test_of_no_rows_there_is_an_error_and_of_one_user_no_p_value(who: str, tmp_path: Path) -> None:
    write(tmp_path / "by_bucket", SIZES[who])
    models = [
        users_of(size).append_column("model", pa.array([model] * size, pa.string()))
        for model, size in zip(("als", "knn"), SIZES[who], strict=True)
    ]
    whole = pa.concat_tables(models)
    pq.write_table(whole, tmp_path / "whole.parquet")
    outcomes = [
        outcome(given) for given in (str(tmp_path / "by_bucket"), str(tmp_path / "whole.parquet"), whole)
    ]
    # Folders name models without rows; columns of models do not.
    one, none = "1 user, 0.0, None", ["NO_COMMON_USERS", "NOTHING_TO_COMPARE", "NOTHING_TO_COMPARE"]
    assert outcomes == ([one] * 3 if who == "one user" else none)


def test_a_relative_path_has_the_buckets_of_the_absolute_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "by_bucket", (3, 3))
    monkeypatch.chdir(tmp_path)
    sides = open_sides({"candidate": "by_bucket"}, {"candidate": None}, (), "local")
    assert sides["candidate"].users.folder == os.fspath(tmp_path / "by_bucket")
