"""Sums over users who recur: those of fractions, user by user, also of more rows than are added at once."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from spark_eval.days.worker.user_sums import ROWS_AT_ONCE, MeanColumns, UserSums, user_sums

N_ROWS = 2 * ROWS_AT_ONCE + 100
N_USERS = 5000
VALUE, WEIGHTED = MeanColumns("ap"), MeanColumns("ap", "pairs")


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
    return UserSums(
        n_users=len(users),
        n=len(defined),
        total=sum(x.values(), Fraction()),
        squares=sum((one**2 for one in x.values()), Fraction()),
        products=sum((one * w[user] for user, one in x.items()), Fraction()),
        weight=sum(w.values(), Fraction()),
        weight_squares=sum((one**2 for one in w.values()), Fraction()),
    )


@pytest.mark.parametrize("case", ["usual values", "small values", "a user of many rows"])
def test_sums_are_those_of_fractions(case: str) -> None:
    rows = rows_of(case)
    sums = user_sums(rows, ["country"], [VALUE, WEIGHTED], of_users=False)
    assert sums[VALUE]["all", "all"] == plain(rows, None, None)
    assert sums[WEIGHTED]["all", "all"] == plain(rows, "pairs", None)
    assert sums[VALUE]["country", "at"] == plain(rows, None, "at")
    assert sums[WEIGHTED]["country", "(missing)"] == plain(rows, "pairs", "(missing)")
