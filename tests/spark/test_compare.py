"""``compare``: pairs of models within a table and across two; who is left out, what is refused."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

from spark_eval.verbs.compare import Comparison, compare

A1 = (0.2, 0.4, 0.0, 0.6, 0.2, 0.8, 0.4, 0.0, 0.2, 1.0, 0.4, 0.6)
B1 = (0.4, 0.4, 0.2, 0.6, 0.6, 0.8, 0.2, 0.0, 0.6, 1.0, 0.6, 0.8)
A2 = (0.5, 0.5, 0, 1, 0.25, 0.5, 0, 0, 1, 0.5, 0.2, 0.2, 0, 0.5, 1, 0.25, 0.5, 0, 0.2, 0.5)
B2 = (1, 0.5, 0, 0.5, 0.5, 0.5, 0.25, 0, 1, 1, 0.25, 0.2, 0.2, 0.5, 1, 0.5, 1, 0.2, 0.2, 0.25)


pytestmark = pytest.mark.usefixtures("spark")


def users(model: str, values: Any, **columns: Any) -> pd.DataFrame:
    """One model's users, from 1."""
    n = len(values)
    return pd.DataFrame({"model": model, "user": np.arange(1, n + 1), "ndcg_at_10": values, **columns})


def table(a: Any, b: Any, **columns: Any) -> pd.DataFrame:
    """Two models of one run."""
    return pd.concat([users("a", a, **columns), users("b", b, **columns)])


def row(found: Comparison, **wanted: Any) -> Mapping[str, Any]:
    """The only row of these values."""
    [one] = [own for own in (each._asdict() for each in found.rows) if {**own, **wanted} == own]
    return one


def rounded(values: Mapping[str, Any], *names: str) -> list[Any]:
    return [None if values[name] is None else round(values[name], 6) for name in names]


def test_worked_numbers_of_the_first_sample() -> None:
    found = compare(table(A1, B1), tests=["t", "sign"], equivalence=0.2)
    t = row(found, test="t")
    names = ("difference", "statistic", "p_value", "ci_low", "ci_high", "effect_size", "mde")
    assert rounded(t, *names) == [0.116667, 2.244412, 0.046342, 0.002257, 0.231076, 0.647906, 0.145629]
    assert rounded(t, "relative", "relative_std_error") == [0.291667, 0.166450]
    assert (t["wins"], t["ties"], t["losses"], t["n_users"], t["n_undefined"]) == (6, 5, 1, 12, 0)
    assert (t["baseline"], t["candidate"], t["metric"], t["k"]) == ("a", "b", "ndcg", 10)
    sign = row(found, test="sign")
    assert sign["p_value"] == 0.125
    assert (sign["ci_low"], sign["ci_high"]) == (t["ci_low"], t["ci_high"])
    assert rounded(row(found, test="tost"), "p_value") == [0.068602]


def test_ranks_flips_and_draws_of_the_first_sample() -> None:
    ranks = {"wilcox": (3.0, 0.09375), "pratt": (8.0, 0.09375), "zsplit": (15.5, None)}
    for zeros, (statistic, p) in ranks.items():
        ranked = row(compare(table(A1, B1), tests="wilcoxon", zeros=zeros))
        assert ranked["statistic"] == statistic
        assert p in (None, ranked["p_value"])
    found = compare(table(A1, B1), tests=["randomization", "bootstrap", "bca"])
    assert row(found, test="randomization")["p_value"] == 12 / 128
    assert rounded(row(found, test="bootstrap"), "ci_low", "ci_high") == [0.015, 0.222292]
    # Of the means 14 equal the users' own.
    assert rounded(row(found, test="bca"), "ci_low", "ci_high") == [0.019365, 0.228571]


def test_worked_numbers_of_the_second_sample() -> None:
    found = compare(table(A2, B2), tests=["t", "sign", "wilcoxon", "randomization"])
    assert rounded(row(found, test="t"), "p_value") == [0.091371]
    sign = row(found, test="sign")
    assert rounded(sign, "p_value") == [0.065430]
    assert (sign["wins"], sign["ties"], sign["losses"]) == (9, 9, 2)
    assert rounded(row(found, test="wilcoxon"), "p_value") == [0.060547]
    assert row(found, test="randomization")["p_value"] == 240 / 2048
    found = compare(table(A2, B2), tests="wilcoxon", zeros="wilcox")
    assert rounded(row(found), "p_value") == [0.117188]
