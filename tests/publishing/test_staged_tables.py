"""What lies in the staging is what was measured, or it is not published."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from spoiling import LISTS, Inputs, call, given

from spark_eval.arrow.checksums import KEYS, key_sum
from spark_eval.errors import SparkEvalError
from spark_eval.publishing.verify import Expected, sum_of_keys
from spark_eval.runs.job import Job

RECS = "recommendations"
NAMES = ["user", "n_relevant", "n_recommended"]
A, B = (pa.table(dict(zip(NAMES, ([1, 2, 3], [4, 4, 4], [n, n, n]), strict=True))) for n in (5, 6))
OTHERS = A.set_column(0, "user", pa.array([1, 2, 4]))
NOBODY = A.set_column(0, "user", pa.array([1, 2, None], pa.int64()))


def staged(folder: Path, **files: pa.Table) -> Path:
    """A file for each model."""
    for model, rows in files.items():
        (folder / f"model={model}").mkdir()
        pq.write_table(rows, folder / f"model={model}" / "part-0.parquet")
    return folder


@pytest.mark.parametrize(
    ("a", "b", "says"),
    [
        (A, A, "not those that were measured"),
        (B, A, "not those that were measured"),
        (OTHERS, B, "not those that were measured"),
        (A, B.slice(1), "not those that were measured"),
        (NOBODY, B, "1 rows have no user"),
    ],
    ids=["twice", "swapped", "other users", "lost", "nobody"],
)
def test_other_keys_than_were_measured_are_refused(
    tmp_path: Path, a: pa.Table, b: pa.Table, says: str
) -> None:
    expected = Expected(keys=key_sum("a", A) + key_sum("b", B))
    with pytest.raises(SparkEvalError, match=f"STAGED_OTHERWISE.*{says}"):
        expected.check_files(staged(tmp_path, a=a, b=b))


def test_the_same_keys_in_other_files_are_accepted(tmp_path: Path) -> None:
    folder = staged(tmp_path, **{"a%2Fb": A.slice(2), "b": B})
    pq.write_table(A.slice(0, 2), folder / "model=a%2Fb" / "part-1.parquet")
    Expected(keys=key_sum("a/b", A) + key_sum("b", B)).check_files(folder)


def test_values_beyond_their_bounds_are_refused(tmp_path: Path) -> None:
    rows = pa.table({"ap": [0.25, None, 0.75], "gain": [-1.0, 0.0, 2.0]})
    folder = staged(tmp_path, a=rows)
    bounds = {"ap": (0, 0.75), "gain": (-1.0, 2.0)}
    Expected(bounds).check_files(folder)
    for wrong, says in (
        ({"ap": (0, 0.7)}, "ap goes from 0.25 to 0.75, it must lie in 0 to 0.7;"),
        ({"gain": (-0.5, 2.0)}, "gain goes from -1.0 to 2.0, it must lie in -0.5 to 2.0;"),
        ({"gain": (0, 2.0)}, "gain goes from -1.0 to 2.0, it must lie in 0 to 2.0;"),
    ):
        with pytest.raises(SparkEvalError, match=f"STAGED_OTHERWISE.*{says}"):
            Expected({**bounds, **wrong}).check_files(folder)


@pytest.mark.parametrize("kind", ["int", "long", "string"])
def test_spark_adds_up_the_same_keys(spark: SparkSession, kind: str) -> None:
    users = [7, -1, 2**31 - 1] if kind != "string" else ["", "é" * 20, "x"]
    rows = [("als/1", user, place, 10**12 + place) for place, user in enumerate(users)]
    frame = spark.createDataFrame(rows, f"model string, user {kind}, n_relevant long, n_recommended long")
    [[total]] = frame.repartition(3).agg(sum_of_keys()).collect()
    table = frame.toArrow()
    assert int(total) == key_sum("als/1", table) == sum(key_sum("als/1", table.slice(n, 1)) for n in range(3))
    assert list(KEYS) == NAMES


def test_a_spoilt_staging_is_not_published(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SparkSession.getActiveSession() is spark
    inputs = Inputs(tmp_path)
    inputs.spoil(given(RECS, LISTS.slice(0, 7)))
    check_rest = Job.check_rest

    def spoilt(job: Job, *given: Any) -> None:
        [one, other] = (
            next(inputs.out.glob(f"_staging/*/per_user/model={model}/*.parquet")) for model in "ab"
        )
        shutil.copy(one, other)
        check_rest(job, *given)

    assert call("evaluate", "--config", inputs.config(), "--run-id", "whole").code == 0
    monkeypatch.setattr(Job, "check_rest", spoilt)
    answer = call("evaluate", "--config", inputs.config(), "--run-id", "spoilt")
    assert (answer.code, answer.err.partition("]")[0]) == (1, "error[STAGED_OTHERWISE")
    assert [folder.name for folder in (inputs.out / "per_user").iterdir()] == ["run_id=whole"]
