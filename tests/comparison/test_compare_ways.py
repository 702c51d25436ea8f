"""Users of both sides meet in files or in an exchange: same bits, and the numbers of pandas and scipy."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from scipy import stats

from spark_eval.arrow.codes import bucket_of, hashes_of
from spark_eval.arrow.user_files import file_name
from spark_eval.comparison import extra_passes
from spark_eval.comparison.compare import Comparison, compare_sides
from spark_eval.comparison.extra_passes import ExtraPasses
from spark_eval.comparison.plan import ComparePlan, make_compare_plan
from spark_eval.comparison.rows import ComparisonRow
from spark_eval.comparison.sides import BaselineName, Side, Sides
from spark_eval.errors import DataError
from spark_eval.evaluation.exchange import write_users
from spark_eval.kernels.columns import value_of_column
from spark_eval.runners import user_buckets
from spark_eval.runners.rows import SparkRows
from spark_eval.runners.user_buckets import UserTable

COLUMNS = ("ap_at_5", "ndcg_at_5")
TESTS = ("t", "sign", "wilcoxon", "randomization", "bootstrap", "bca")


def measured(seed: int, *, text: bool = False) -> pd.DataFrame:
    """Two models of a run; each lacks some users, and some values."""
    generator = np.random.default_rng(seed)
    parts = []
    for model in ("als", "knn"):
        ids = np.sort(generator.choice(400, 300, replace=False))
        rows = pd.DataFrame({"model": model, "user": ids, "n_relevant": 1 + ids % 5, "n_recommended": 10})
        rows["country"] = [["at", "be", "cz"][user % 3] for user in ids]
        rows.loc[ids % 11 == seed, "country"] = None
        rows["ap_at_5"] = generator.choice([0.0, 0.2, 0.4, 0.6, 1 / 3], len(ids))
        rows["ndcg_at_5"] = generator.random(len(ids))
        rows.loc[generator.random(len(ids)) < 0.1, "ndcg_at_5"] = np.nan
        parts.append(rows)
    whole = pd.concat(parts, ignore_index=True)
    return whole.assign(user=whole["user"].map("u{}".format)) if text else whole


def side(spark: SparkSession, rows: pd.DataFrame, folder: Path | None = None, n_buckets: int = 0) -> Side:
    """The rows as a frame in other order; with a folder also as files by bucket."""
    table = pa.Table.from_pandas(rows, preserve_index=False)
    if folder is not None:
        buckets = bucket_of(hashes_of(table["user"].combine_chunks()), n_buckets)
        for model in sorted(set(rows["model"])):
            for bucket in range(n_buckets):
                chosen = (buckets == bucket) & (rows["model"] == model).to_numpy()
                own = table.filter(pa.array(chosen)).drop_columns("model")
                write_users(model, own, str(folder), file_name(bucket, n_buckets))
    frame = spark.createDataFrame(table.take(np.random.default_rng(5).permutation(len(table))))
    values = [value for name in COLUMNS if (value := value_of_column(name)) is not None]
    users = UserTable(SparkRows(frame), ["country"], None if folder is None else str(folder))
    return Side(["als", "knn"], values, lambda: users)


def compared(baseline: Side | None, candidate: Side, plan: ComparePlan) -> Comparison:
    spark = candidate.users.frame.session
    baselines = {} if baseline is None else {"baseline": baseline}
    name = BaselineName(None if baseline is None else "baseline")
    return compare_sides(Sides(spark, baselines, candidate, str), plan, name)


@pytest.mark.parametrize("text", [False, True])
def test_files_and_an_exchange_give_the_same_bits(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bool
) -> None:
    plan = make_compare_plan(tests=TESTS, segments="country", resamples=50)
    candidate = side(spark, measured(1, text=text), tmp_path / "candidate", 16)
    baseline = side(spark, measured(2, text=text), tmp_path / "baseline", 48)
    with monkeypatch.context() as patch:
        patch.setattr(user_buckets, "buckets_of_frames", None)
        by_files = compared(baseline, candidate, plan)
    with monkeypatch.context() as patch:
        patch.setattr(user_buckets, "buckets_of_files", None)
        in_memory = candidate.users._replace(folder=None)
        by_exchange = compared(baseline, replace(candidate, read_users=lambda: in_memory), plan)
    assert list(map(repr, by_files.rows)) == list(map(repr, by_exchange.rows))
    assert by_files.entries == by_exchange.entries
    assert by_files.sums == by_exchange.sums
    assert by_files.common == by_exchange.common


@pytest.mark.parametrize(("test", "name"), [("wilcoxon", "counter"), ("bootstrap", "resampler")])
def test_errors_of_workers_in_later_passes_have_names(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test: str, name: str
) -> None:
    candidate = side(spark, measured(1), tmp_path, 4)
    run = getattr(ExtraPasses, name)

    def damaged_before(*arguments: Any) -> Any:
        for file in tmp_path.rglob("*.parquet"):
            file.write_bytes(file.read_bytes()[:100])
        return run(*arguments)

    monkeypatch.setattr(ExtraPasses, name, damaged_before)
    with pytest.raises(DataError, match=r"CORRUPT_FILE.*part-0"):
        compared(None, candidate, make_compare_plan(tests=test))


def test_sums_that_only_gates_need_take_no_extra_pass(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    gates = [{"metric": "ndcg@5", "max_drop": 1.0, "model": "knn", "against": {"model": "als"}}]
    plan = make_compare_plan(gates=gates, tests=TESTS, interval="bca")
    candidate = side(spark, measured(1))
    sides = Sides(spark, {}, candidate, str)
    with monkeypatch.context() as patch:
        patch.setattr(extra_passes, "Resampler", None)
        patch.setattr(extra_passes, "DifferenceCounter", None)
        gated = [replace(gate, min_common=0.1) for gate in plan.gates]
        found = compare_sides(sides, replace(plan, gates=gated), None)
    assert (found.rows, [row.decision for row in found.gate_rows]) == ([], ["not_worse"])
    rows = compare_sides(sides, replace(plan, gates=gated), BaselineName())
    assert rows.gate_rows == found.gate_rows
    assert len(rows.rows) == len(TESTS) * len(COLUMNS)


def test_numbers_are_those_of_pandas_and_scipy(spark: SparkSession) -> None:
    plan = make_compare_plan(tests=["t", "sign", "wilcoxon"], segments="country", zeros="wilcox")
    candidate, baseline = measured(1), measured(2)
    found = compared(side(spark, baseline), side(spark, candidate), plan)
    joined = candidate.merge(baseline, on=["model", "user"], suffixes=("", "_before"))
    joined["country"] = joined["country"].fillna("(missing)")
    assert {row.segment_value for row in found.rows} == {"all", "at", "be", "cz", "(missing)"}
    assert len(found.rows) == 2 * 2 * 5 * 3
    for row in found.rows:
        check(row, joined)
    users = {entry[:4]: entry.users for entry in found.entries}
    for model in ("als", "knn"):
        n_common = int((joined["model"] == model).sum())
        pair = f"{model} against {model}"
        assert found.common[model, model] == (300, 300, n_common)
        assert users["candidate", pair, "dropped", "only_here"] == 300 - n_common
        own = joined[joined["model"] == model]
        n_moved = int((own["country"] != own["country_before"].fillna("(missing)")).sum())
        assert users["candidate", pair, "moved", "country"] == n_moved


def check(row: ComparisonRow, joined: pd.DataFrame) -> None:
    """Compare a row with what pandas and scipy say of the same users."""
    name = {"map": "ap_at_5", "ndcg": "ndcg_at_5"}[row.metric]
    own = joined[joined["model"] == row.candidate]
    own = own if row.segment == "all" else own[own[row.segment] == row.segment_value]
    known = own.dropna(subset=[name, f"{name}_before"])
    difference = (known[name] - known[f"{name}_before"]).to_numpy()
    rounded = np.rint(difference * 2.0**40)
    assert (row.n_users, row.n_undefined) == (len(known), len(own) - len(known))
    assert (row.wins, row.losses) == ((rounded > 0).sum(), (rounded < 0).sum())
    if row.test == "t":
        expected = stats.ttest_rel(known[name], known[f"{name}_before"])
        interval = expected.confidence_interval(0.95)
        assert row.p_value == pytest.approx(expected.pvalue, rel=1e-9)
        assert (row.ci_low, row.ci_high) == pytest.approx((interval.low, interval.high), rel=1e-9)
    elif row.test == "sign":
        assert row.p_value == pytest.approx(stats.binomtest(row.wins, row.wins + row.losses).pvalue, rel=1e-9)
    else:
        expected = stats.wilcoxon(rounded, zero_method="wilcox", method="asymptotic", correction=False)
        assert row.statistic == expected.statistic
        # Of fewer ours counts all signs, with ties, which scipy does not.
        if row.wins + row.losses > 50:
            assert row.p_value == pytest.approx(expected.pvalue, rel=1e-9)
