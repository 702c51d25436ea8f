"""Days on a store, whose users Spark brings together: windows and differences are those of local files."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from tests.monitoring.days import UserDay, publish_day
from tests.monitoring.test_window_of_predictions import BINARY, publish, rows_of

from spark_eval.errors import DataError
from spark_eval.monitoring.plan import make_history_plan, make_window_plan
from spark_eval.monitoring.window import Window
from spark_eval.publishing.local import LocalStore
from spark_eval.publishing.remote import HadoopStore
from spark_eval.runtime.hadoop_files import HadoopFiles
from spark_eval.verbs.history import UserPairs, history_of
from spark_eval.verbs.window import merge_published

DAYS = ["2024-02-28", "2024-02-29", "2024-03-01"]
StoreOf = Callable[[Path], HadoopStore]


@pytest.fixture
def store_of(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> StoreOf:
    """Give a folder as a store of another scheme, which this process cannot read by itself."""
    monkeypatch.setattr("spark_eval.runners.spread.ROWS_PER_BUCKET", 40)

    def mounted(folder: Path) -> HadoopStore:
        name = f"t{time.monotonic_ns()}"
        java: Any = spark
        mounts = java._jsc.hadoopConfiguration()
        mounts.set(f"fs.viewfs.mounttable.{name}.link./out", folder.as_uri())
        return HadoopStore(HadoopFiles(spark, f"viewfs://{name}/out"), manifest=False)

    return mounted


def users_of(day: int, *, by_request: bool) -> list[UserDay]:
    """Users who come on some days, with undefined values and, by request, several lists."""
    random = np.random.default_rng(day)
    rows = []
    for user in range(40):
        for request in ["r", "é"][: 1 + user % 2] if by_request else [None]:
            if (user + day) % 3:
                country, fcp = [None, "DE", "FR"][user % 3], random.random() if user % 4 else None
                weight = 0.0 if fcp is None else float(random.integers(1, 9))
                rows.append(UserDay(user * 1000, country, random.random(), fcp, weight, request))
    return rows


def parts_of(window: Window) -> list[Any]:
    return [window.metric_rows, window.sum_rows, window.entries, window.absent, window.unclustered]


@pytest.mark.parametrize(
    ("weight", "unit"),
    [
        (None, "user_days"),
        pytest.param(None, "users", marks=pytest.mark.slow),
        pytest.param("requests", "user_days", marks=pytest.mark.slow),
        pytest.param("users", "users", marks=pytest.mark.slow),
    ],
)
def test_a_window_of_a_store_is_that_of_local_files(
    weight: str | None, unit: str, tmp_path: Path, store_of: StoreOf
) -> None:
    names = {"als": 0, "p/o": 5}
    for day, run_id in enumerate(DAYS):
        models = {name: users_of(day + more, by_request=weight is not None) for name, more in names.items()}
        publish_day(tmp_path, run_id, models, weight=weight)
    plan = make_window_plan(first=DAYS[0], last=DAYS[-1], unit=unit)
    stores = (LocalStore(tmp_path), store_of(tmp_path))
    local, remote = (merge_published(store, DAYS, plan) for store in stores)
    assert parts_of(remote) == parts_of(local)
    assert all(row.std_error for row in remote.metric_rows)


@pytest.mark.slow
def test_a_window_of_predictions_on_a_store_is_that_of_local_files(tmp_path: Path, store_of: StoreOf) -> None:
    for seed, run_id in enumerate(DAYS):
        publish(tmp_path, run_id, rows_of(seed, 80), BINARY)
    for errors in ("clustered", "independent"):
        plan = make_window_plan(first=DAYS[0], last=DAYS[-1], errors=errors)
        stores = (LocalStore(tmp_path / "out"), store_of(tmp_path / "out"))
        local, remote = (merge_published(one, DAYS, plan) for one in stores)
        assert parts_of(remote) == parts_of(local)
        assert any(row.std_error for row in remote.metric_rows)


def test_differences_of_a_store_are_those_of_local_files(tmp_path: Path, store_of: StoreOf) -> None:
    for number, run_id in enumerate(DAYS):
        publish_day(tmp_path, run_id, {"als": users_of(number, by_request=False)})
    plan = make_history_plan(metrics=["map@2", "fcp_micro@2"], segments=["country"], paired=True)
    stores = LocalStore(tmp_path), store_of(tmp_path)
    local, remote = (history_of(store, plan).rows for store in stores)
    assert local == remote
    assert any(row.difference_low for row in remote)
    of_store = UserPairs(stores[1])
    shutil.rmtree(tmp_path / "per_user" / f"run_id={DAYS[0]}")
    of_store.known.clear()
    assert of_store.between([(DAYS[0], "als"), (DAYS[1], "als")], "map", 2) is None


def test_users_of_two_types_on_a_store_are_refused(tmp_path: Path, store_of: StoreOf) -> None:
    publish_day(tmp_path, DAYS[0], {"als": users_of(0, by_request=False)})
    texts = [row._replace(user=str(row.user)) for row in users_of(1, by_request=False)]
    publish_day(tmp_path, DAYS[1], {"als": texts})
    store = store_of(tmp_path)
    plan = make_window_plan(first=DAYS[0], last=DAYS[1])
    with pytest.raises(DataError, match=r"MIXED_CONVENTIONS.*users are of types int64 and string"):
        merge_published(store, DAYS[:2], plan)
    with pytest.raises(DataError, match=r"MIXED_CONVENTIONS.*users are of types int64 and string"):
        UserPairs(store).between([(DAYS[0], "als"), (DAYS[1], "als")], "map", 2)
