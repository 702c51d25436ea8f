"""Sums over users who recur: those of fractions, user by user, also of more rows than are added at once."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_eval.arrow.user_files import read_ids
from spark_eval.monitoring.worker.user_rows import UserFiles, UserTables
from spark_eval.monitoring.worker.user_sums import MeanColumns, UserSums, user_sums
from spark_eval.statistics.exact import VALUES_AT_ONCE

N_ROWS = 2 * VALUES_AT_ONCE + 100
N_USERS = 5000
VALUE, WEIGHTED = MeanColumns("ap"), MeanColumns("ap", "pairs")


def files_of(folder: Path, parts: list[pa.Table]) -> list[str]:
    """Write each part to a file."""
    paths = [str(folder / f"{number}.parquet") for number in range(len(parts))]
    for part, path in zip(parts, paths, strict=True):
        pq.write_table(part, path, row_group_size=3000)
    return paths


def rows_of(case: str) -> pa.Table:
    """Rows of users in no order, a tenth without a value; some values are too small to be added by halves."""
    draw = np.random.default_rng(3)
    users, values = draw.integers(0, N_USERS, N_ROWS), draw.random(N_ROWS)
    if case == "small values":
        values[-200:] *= 2.0**-40
    if case == "a user of many rows":
        users[:1000], values[:1000] = 7, 2.0**-26 * (64.4 + values[:1000] / 100)
    values[draw.random(N_ROWS) < 0.1] = np.nan
    return pa.table(
        {
            "user": users,
            "country": pa.array(["at", "de", None]).take(pa.array(draw.integers(0, 3, N_ROWS))),
            "ap": pa.array(values, from_pandas=True),
            "pairs": draw.integers(0, 9, N_ROWS).astype(np.float64),
        }
    )


def plain(rows: pa.Table, weight: str | None, country: str | None) -> UserSums:
    """Sums over users, by loops over fractions."""
    x, w, defined, users = dict[int, Fraction](), dict[int, Fraction](), set[int](), set[int]()
    for row in rows.to_pylist():
        if country in (None, row["country"] or "(missing)"):
            user = row["user"]
            users.add(user)
            times = Fraction(1 if weight is None else row[weight])
            if row["ap"] is not None:
                defined.add(user)
                x[user] = x.get(user, Fraction()) + Fraction(row["ap"] * float(times))
            if weight is not None or row["ap"] is not None:
                w[user] = w.get(user, Fraction()) + times
    # Squares and products are of doubles.
    rounded, weights = ({user: Fraction(float(one)) for user, one in own.items()} for own in (x, w))
    return UserSums(
        n_users=len(users),
        n=len(defined),
        total=sum(x.values(), Fraction()),
        squares=sum((one**2 for one in rounded.values()), Fraction()),
        products=sum((one * weights[user] for user, one in rounded.items()), Fraction()),
        weight=sum(w.values(), Fraction()),
        weight_squares=sum((one**2 for one in weights.values()), Fraction()),
    )


@pytest.mark.parametrize("case", ["usual values", "small values", "a user of many rows"])
def test_sums_are_those_of_fractions(case: str, tmp_path: Path) -> None:
    rows = rows_of(case)
    paths = files_of(tmp_path, [rows.slice(start, 30_000) for start in range(0, N_ROWS, 30_000)])
    sums = user_sums(UserFiles(paths), ["country"], [VALUE, WEIGHTED], of_users=False)
    assert sums[VALUE]["all", "all"] == plain(rows, None, None)
    assert sums[WEIGHTED]["all", "all"] == plain(rows, "pairs", None)
    assert sums[VALUE]["country", "at"] == plain(rows, None, "at")
    assert sums[WEIGHTED]["country", "(missing)"] == plain(rows, "pairs", "(missing)")


def days_of(case: str) -> list[pa.Table]:
    """Three days of users with one row a day; by case the same users, or others, in some order."""
    draw, days = np.random.default_rng(5), []
    for day in range(3):
        users = np.arange(4000) * 1_000_003
        if case == "others":
            users = users + 2000 * day * 1_000_003
        if case == "in another order":
            users = draw.permutation(users)
        values = np.where(draw.random(4000) < 0.1, np.nan, draw.random(4000))
        columns = {
            "user": users.astype(str) if case == "text" else users,
            "country": np.array(["at", "de"])[users % 2],
            "ap": pa.array(values, from_pandas=True),
            "pairs": draw.integers(0, 9, 4000).astype(np.float64),
        }
        days.append(pa.table(columns))
    return days


@pytest.mark.parametrize("case", ["the same", "text", "others", "in another order"])
def test_days_of_the_same_users_have_the_sums_of_days_of_others(case: str, tmp_path: Path) -> None:
    days = days_of(case)
    paths, rows = files_of(tmp_path, days), pa.concat_tables(days)
    sums = user_sums(UserFiles(paths), ["country"], [VALUE, WEIGHTED], of_users=False)
    assert user_sums(UserTables(days), ["country"], [VALUE, WEIGHTED], of_users=False) == sums
    for mean in (VALUE, WEIGHTED):
        for country in (None, "at", "de"):
            cell = ("all", "all") if country is None else ("country", country)
            assert sums[mean][cell] == plain(rows, mean.weight, country)
    ids = read_ids(paths, "user")
    assert (ids[0] is ids[1] is ids[2]) == (case in ("the same", "text"))


def test_ids_are_shared_by_files_with_the_same_bytes_alone(tmp_path: Path) -> None:
    same, other = pa.table({"a": [1, 2], "user": [3, 4]}), pa.table({"a": [1, 2], "user": [3, 5]})
    small = pa.table({"a": [1, 2], "user": pa.array([3, 4], pa.int32())})
    ids = read_ids(files_of(tmp_path, [same, same, other, small, same]), "user")
    assert [one.to_pylist() for one in ids] == [[3, 4], [3, 4], [3, 5], [3, 4], [3, 4]]
    assert ids[0] is ids[1]
    assert ids[3].type == pa.int32()


def test_users_count_once_with_the_mean_of_their_days(tmp_path: Path) -> None:
    days = [{"user": [1, 2], "ap": [0.5, -1.0]}, {"user": [1, 3], "ap": [0.0, 0.25]}]
    paths = files_of(tmp_path, [pa.table(day) for day in days])
    sums = user_sums(UserFiles(paths), [], [VALUE, WEIGHTED], of_users=True)
    total = Fraction(1, 4) - 1 + Fraction(1, 4)
    assert list(sums) == [VALUE]
    assert (sums[VALUE]["all", "all"].n, sums[VALUE]["all", "all"].total) == (3, total)


def test_a_day_without_the_column_of_a_segment_counts_as_missing(tmp_path: Path) -> None:
    days = [{"user": [1, 2], "ap": [0.5, 1.0], "fold": ["0", "1"]}, {"user": [1, 3], "ap": [0.0, 0.25]}]
    sums = user_sums(
        UserFiles(files_of(tmp_path, [pa.table(day) for day in days])), ["fold"], [VALUE], of_users=False
    )
    totals = {value: float(one.total) for (_, value), one in sums[VALUE].items()}
    assert totals == {"all": 1.75, "0": 0.5, "1": 1.0, "(missing)": 0.25}
