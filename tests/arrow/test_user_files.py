"""Files of users by bucket: which of two runs belong together."""

import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from spark_eval.arrow.codes import bucket_of, hashes_of
from spark_eval.arrow.files import named_read_errors
from spark_eval.arrow.user_files import UserFile, check_no_nan, file_name, overlapping_groups, user_files
from spark_eval.errors import DataError


def files(model: str, n_buckets: int) -> list[UserFile]:
    return [
        UserFile(model, f"{model}{n}", Fraction(n, n_buckets), Fraction(n + 1, n_buckets))
        for n in range(n_buckets)
    ]


@pytest.mark.parametrize(
    ("one", "other", "sizes"),
    [(4, 4, [2] * 4), (2, 8, [5] * 2), (4, 6, [5] * 2), (3, 4, [7]), (1, 1, [2])],
)
def test_files_meet_where_their_ranges_overlap(one: int, other: int, sizes: list[int]) -> None:
    assert [len(group) for group in overlapping_groups([*files("a", one), *files("b", other)])] == sizes


def test_buckets_of_other_numbers_hold_the_users_of_their_range() -> None:
    hashes = hashes_of(pa.array(range(1_000)))
    for n_few, n_many in ((2, 6), (5, 35)):
        few, many = bucket_of(hashes, n_few), bucket_of(hashes, n_many)
        assert np.array_equal(few, many * n_few // n_many)


def test_file_names_have_the_bucket(tmp_path: Path) -> None:
    for model in ("model=a%2Fb", "model=c"):
        (tmp_path / model).mkdir()
        (tmp_path / model / file_name(3, 8)).touch()
    found = user_files(str(tmp_path))
    assert found is not None
    assert {(file.model, file.start, file.end) for file in found} == {
        ("a/b", Fraction(3, 8), Fraction(1, 2)),
        ("c", Fraction(3, 8), Fraction(1, 2)),
    }
    (tmp_path / "model=c" / "part-0.parquet").touch()
    assert user_files(str(tmp_path)) is None


@pytest.mark.parametrize(
    "error",
    [
        pa.ArrowMemoryError("malloc of size 64 failed"),
        pa.ArrowException("Unknown error: Failed to launch worker thread: Resource temporarily unavailable"),
        pa.ArrowException("Unknown error: std::bad_alloc"),
    ],
)
def test_a_file_is_not_corrupt_for_want_of_memory(error: Exception) -> None:
    with pytest.raises(type(error), match=re.escape(str(error))), named_read_errors("users.parquet"):
        raise error


@pytest.mark.parametrize("values", [[0.5, float("nan")], [float("inf"), -float("inf"), float("nan")]])
def test_nan_is_found_beside_other_values(values: list[float]) -> None:
    with pytest.raises(DataError, match=r"INCOMPLETE_RUN.*'mrr' holds NaN"):
        check_no_nan(pa.table({"user": [1] * len(values), "mrr": values}), "users.parquet")


def test_nulls_and_infinities_are_not_nan() -> None:
    check_no_nan(pa.table({"ndcg": [float("inf"), -float("inf"), None], "mrr": [None, None, 0.5]}), "a")
    check_no_nan(pa.table({"ndcg": pa.array([], pa.float64()), "none": pa.array([], pa.float32())}), "a")
