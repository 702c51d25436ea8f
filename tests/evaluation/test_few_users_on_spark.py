"""Every way through the data with no, one, two and three users: numbers, or an error with a name."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_eval import compare, evaluate, evaluate_predictions, split
from spark_eval.errors import ConfigError, DataError

EVERY_TEST = ["t", "sign", "wilcoxon", "randomization", "bootstrap", "bca"]
# One user and none show most faults; the others repeat them.
USERS = [0, 1, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in (2, 3))]


# Files without rows are also in the zoo of folders.
@pytest.fixture(params=["frames", pytest.param("files", marks=pytest.mark.exhaustive)])
def given(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path
) -> Callable[[pd.DataFrame], Any]:
    """Hands a table over as a frame of Spark, or as plain files."""

    def as_frame(rows: pd.DataFrame) -> Any:
        return spark.createDataFrame(pa.Table.from_pandas(rows, preserve_index=False))

    def as_files(rows: pd.DataFrame) -> Any:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        rows.to_parquet(folder / "0.parquet", index=False)
        return str(folder)

    return as_frame if request.param == "frames" else as_files


def done(call: Callable[[], Any], *, may_refuse: bool) -> Any:
    """The result of a call; None if it refused by name what it may refuse."""
    with suppress(*([ConfigError, DataError] if may_refuse else [])):
        return call()
    return None


def lists_of(n: int, model: str = "a") -> pd.DataFrame:
    """Two items for each of n users."""
    users = np.repeat(np.arange(n, dtype=np.int64), 2)
    items = np.tile(np.arange(2, dtype=np.int64), n) + users % 2
    return pd.DataFrame(
        {"model": pd.Series([model] * len(users), dtype="str"), "user": users, "item": items}
    ).assign(rank=np.tile(np.array([1, 2], dtype=np.int32), n))


def truth_of(n: int) -> pd.DataFrame:
    """An item for each of n users."""
    return pd.DataFrame({"user": np.arange(n, dtype=np.int64), "item": np.arange(n, dtype=np.int64)})


@pytest.mark.parametrize("n_truth", USERS)
@pytest.mark.parametrize(
    "n_lists", [pytest.param(0, marks=pytest.mark.slow), 1, pytest.param(3, marks=pytest.mark.slow)]
)
def test_evaluations_and_their_comparison(
    given: Callable[[pd.DataFrame], Any], n_truth: int, n_lists: int
) -> None:
    people = truth_of(3).drop(columns="item").assign(country=["at", "be", "at"])
    lists = pd.concat([lists_of(n_lists), lists_of(min(n_lists, 1), "b")])
    tables: Any = {"users": given(people), "segments": ["country"]}
    found = done(
        lambda: evaluate(given(lists), given(truth_of(n_truth)), k=[1, 2], metrics=["ndcg", "map"], **tables),
        may_refuse=0 in (n_truth, n_lists),
    )
    if found is None:
        return
    assert found.per_user.count() == n_truth * len(found.models)
    assert {row.n_users for row in found.metric_rows if row.segment == "all"} <= {n_truth}
    if len(found.models) > 1 and n_truth:
        compared = compare(found, segments=["country"], tests=EVERY_TEST, resamples=10)
        assert {row.n_users for row in compared.rows if row.segment == "all"} == {n_truth}


@pytest.mark.parametrize(
    ("n_baseline", "n_candidate"),
    [
        *[(0, 3), (3, 1)],
        *(
            pytest.param(*both, marks=pytest.mark.slow)
            for both in ((0, 0), (1, 1), (1, 3), (2, 1), (2, 2), (3, 0), (3, 3))
        ),
    ],
)
def test_comparisons_of_tables(
    given: Callable[[pd.DataFrame], Any], n_baseline: int, n_candidate: int
) -> None:
    users = pd.DataFrame({"user": np.arange(3, dtype=np.int64), "ndcg_at_5": [0.0, 0.5, 1.0]})
    users = users.assign(country=pd.Series(["at", "be", None], dtype="object"), model="a")
    baseline, candidate = users.head(n_baseline), users.tail(n_candidate).assign(ndcg_at_5=0.25)
    n_common = max(0, n_baseline + n_candidate - 3)
    options: Any = {"segments": "country", "tests": EVERY_TEST, "equivalence": 0.1, "resamples": 10}
    found = done(lambda: compare(given(candidate), given(baseline), **options), may_refuse=not n_common)
    assert (found is None) == (not n_common)
    if found is not None:
        assert {row.n_users for row in found.rows if row.segment == "all"} == {n_common}
        assert sum(row.n_users for row in found.rows if row.test == "t") == 2 * n_common


@pytest.mark.parametrize("n", USERS)
@pytest.mark.parametrize("options", [{"local_cut": 0.6, "global_cut": 0.8}, {"method": "k_fold", "k": 2}])
def test_splits(given: Callable[[pd.DataFrame], Any], n: int, options: dict[str, Any]) -> None:
    days = pd.to_datetime("2024-01-01", utc=True) + pd.to_timedelta(np.arange(10), "D")
    users, items = np.repeat(np.arange(n, dtype=np.int64), 10), np.tile(np.arange(10), n)
    log = pd.DataFrame({"user": users, "item": items})
    log = log.assign(timestamp=pd.Series(np.tile(days, n), dtype="datetime64[us, UTC]"))
    counted = done(
        lambda: [
            row.rows
            for row in split(given(log), **options).accounting.itertuples()
            if (row.source, row.outcome) == ("interactions", "in")
        ],
        may_refuse=n == 0,
    )
    assert counted in ([10 * n], None)


@pytest.mark.parametrize("n", USERS)
def test_predictions(given: Callable[[pd.DataFrame], Any], n: int) -> None:
    users = np.repeat(np.arange(n, dtype=np.int64), 2)
    rows = pd.DataFrame({"user": users, "label": np.tile([0, 1], n), "score": np.tile([0.25, 0.75], n)})
    rows = rows.assign(country=pd.Series(["at"] * len(rows), dtype="str"))
    options: Any = {"model": "a", "metrics": ["auc", "gauc", "log_loss"], "segments": ["country"]}
    found = done(lambda: evaluate_predictions(given(rows), "binary", **options), may_refuse=n == 0)
    if found is not None:
        values = {row.metric: row.value for row in found.metric_rows if row.segment == "all"}
        assert values["auc"] == (1.0 if n else None)
