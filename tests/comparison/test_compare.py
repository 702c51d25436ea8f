"""``compare``: pairs of models within a table and across two; who is left out, what is refused."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from spark_eval.comparison.compare import Comparison, compare
from spark_eval.errors import SparkEvalError
from spark_eval.evaluation.evaluate import evaluate

A1 = (0.2, 0.4, 0.0, 0.6, 0.2, 0.8, 0.4, 0.0, 0.2, 1.0, 0.4, 0.6)
B1 = (0.4, 0.4, 0.2, 0.6, 0.6, 0.8, 0.2, 0.0, 0.6, 1.0, 0.6, 0.8)
A2 = (0.5, 0.5, 0, 1, 0.25, 0.5, 0, 0, 1, 0.5, 0.2, 0.2, 0, 0.5, 1, 0.25, 0.5, 0, 0.2, 0.5)
B2 = (1, 0.5, 0, 0.5, 0.5, 0.5, 0.25, 0, 1, 1, 0.25, 0.2, 0.2, 0.5, 1, 0.5, 1, 0.2, 0.2, 0.25)


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


def test_folds_are_pooled_by_user_and_compared_as_folds(caplog: pytest.LogCaptureFixture) -> None:
    person, fold = (1, 1, 2, 2, 3, 4, 4, 5, 6, 6), (0, 1, 0, 1, 0, 0, 1, 0, 0, 1)
    differences = np.array([0.2, 0.1, 0, 0.3, -0.1, 0.2, 0.2, 0, 0.4, 0.1])
    rows = pd.DataFrame({"user": person, "fold": fold, "ndcg_at_10": 0.5})
    both = pd.concat([rows.assign(model="a"), rows.assign(model="b", ndcg_at_10=0.5 + differences)])
    without = compare(both, segments="fold")
    assert [own.segment for own in without.rows] == ["all", "fold", "fold"]
    [message] = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert "the row over folds is left out" in message
    assert message.endswith("of as many k-fold parts it is 1")
    found = compare(both, segments="fold", test_train_ratio=1)
    pooled = row(found, segment="all")
    assert rounded(pooled, "difference", "std_error", "p_value") == [0.14, 0.041105, 0.019128]
    assert rounded(row(without, segment="all"), "std_error", "p_value") == [0.041105, 0.019128]
    assert [own.segment_value for own in found.rows if own.segment == "fold"] == ["0", "1"]
    over = row(found, segment="folds")
    of_folds = [differences[np.array(fold) == n].mean() for n in (0, 1)]
    spread = np.sqrt((1 / 2 + 1) * np.var(of_folds, ddof=1))
    assert over["std_error"] == pytest.approx(spread, rel=1e-9)
    assert over["difference"] == pytest.approx(np.mean(of_folds), rel=1e-9)
    assert [over[name] for name in ("n_users", "wins", "ties", "losses")] == [10, 7, 2, 1]
    entries = [entry for entry in found.entries if entry.outcome == "used"]
    assert {(entry.rows, entry.users) for entry in entries} == {(10, 6)}


def test_a_baseline_of_another_table() -> None:
    old, new = (
        users("als", A1[:10]),
        pd.concat([users("als", B1[2:]).assign(user=range(3, 13)), users("x", B1)]),
    )
    found = compare(new, old)
    assert found.pairs == [("als", "als")]
    assert found.common == {("als", "als"): (10, 10, 8)}
    assert row(found)["n_users"] == 8
    counted = {(entry.source, entry.outcome, entry.reason): entry.rows for entry in found.entries}
    assert counted == {
        **{("models of the candidate", *key): n for key, n in zip(OUTCOMES, (2, 1), strict=False)},
        ("models of the candidate", "dropped", "unpaired"): 1,
        **{
            (side, *key): n
            for side in ("baseline", "candidate")
            for key, n in zip(OUTCOMES, (10, 8, 2), strict=True)
        },
    }
    by_name = compare(new, old.drop(columns="model"), baseline_model="als")
    assert by_name.pairs == [("als", "als"), ("als", "x")]


OUTCOMES = (("in", None), ("used", None), ("dropped", "only_here"))


def test_frames_without_a_model_are_named() -> None:
    old, new = users("?", A1).drop(columns="model"), users("?", B1).drop(columns="model")
    found = compare(new, old, model="new", baseline_model="old")
    assert rounded(row(found, baseline="old", candidate="new"), "p_value") == [0.046342]


@pytest.mark.parametrize(
    ("candidate", "baseline", "options", "code"),
    [
        (users("a", A1), users("a", B1).assign(user=range(100, 112)), {}, "NO_COMMON_USERS"),
        (users("a", A1, n_relevant=2), users("a", B1, n_relevant=[2] * 11 + [3]), {}, "TRUTH_DIFFERS"),
        (users("a", A1), users("a", B1).assign(user=list("abcdefghijkl")), {}, "ID_TYPE_MISMATCH"),
        (users("a", A1), users("a", B1, fold=0), {}, "FOLDS_DIFFER"),
        (pd.concat([users("a", A1)] * 2), users("a", B1), {}, "DUPLICATE_USER"),
        (
            users("a", A1).assign(user=pd.Series([None, *range(11)], dtype="Int64")),
            users("a", B1),
            {},
            "NULL_ID",
        ),
        (users("a", [np.inf, *A1[1:]]), users("a", B1), {}, "METRIC_OVERFLOW"),
        (table(A1, B1), None, {"segments": ["countri"]}, "UNKNOWN_SEGMENT"),
        (table(A1, B1), None, {"segments": ["fold"]}, "UNKNOWN_SEGMENT"),
        (table(A1, B1), None, {"metrics": ["ndcg@5"]}, "METRIC_NOT_MEASURED"),
        (table(A1, B1).drop(columns="model"), None, {}, "MISSING_COLUMN"),
        (table(A1, B1), None, {"tests": "bca", "resamples": 100_000, "segments": "s"}, "TOO_MANY_REPLICATES"),
    ],
)
def test_what_is_refused(candidate: Any, baseline: Any, options: Any, code: str) -> None:
    if "segments" in options:
        candidate = candidate.assign(country="at", s=[str(n % 200) for n in range(len(candidate))])
        if code == "TOO_MANY_REPLICATES":
            many = np.arange(600) / 600
            candidate = table(many, many, s=list(map(str, range(600))))
    with pytest.raises(SparkEvalError) as refused:
        compare(candidate, baseline, **options)
    assert refused.value.code == code


EVERY_TEST = ("t", "sign", "wilcoxon", "randomization", "bootstrap", "bca")
NEVER = [np.nan] * 5
ODD: Mapping[str, tuple[Any, Any]] = {
    "one user": ([0.5], [0.75]),
    "no difference": ([0.5, 0.25, 1.0], [0.5, 0.25, 1.0]),
    "constant": ([0.2, 0.4, 0.6], [0.3, 0.5, 0.7]),
    "undefined": (NEVER, NEVER),
    "undefined in one": (NEVER, [0.1] * 5),
    "two users": ([0.0, 1.0], [1.0, 0.0]),
}


@pytest.mark.parametrize("case", ODD)
def test_odd_samples_give_numbers_or_null(case: str) -> None:
    a, b = ODD[case]
    found = compare(table(a, b), tests=EVERY_TEST, equivalence=0.1, resamples=20)
    assert len(found.rows) == len(EVERY_TEST) + 1
    for own in found.rows:
        assert not any(isinstance(value, float) and not np.isfinite(value) for value in own)
        assert own.n_users + own.n_undefined == len(a)
    t = row(found, test="t")
    if case == "no difference":
        assert (t["statistic"], t["p_value"], t["ci_low"], t["ci_high"]) == (None, 1.0, 0.0, 0.0)
    if case == "constant":
        assert (t["statistic"], t["p_value"]) == (None, None)
        assert t["ci_low"] == t["ci_high"] == pytest.approx(0.1)
    if case.startswith("undefined"):
        assert (t["n_users"], t["difference"], t["family_size"]) == (0, None, 0)


def test_many_models_and_many_segment_values() -> None:
    models = pd.concat([users(f"m{n:03}", [n / 300, 1 - n / 300, 0.5]) for n in range(60)])
    with pytest.raises(SparkEvalError, match=r"TOO_MANY_PAIRS.*1,770"):
        compare(models)
    assert len(compare(models, max_pairs=1770).rows) == 1770
    values = np.linspace(0, 1, 3_000)
    found = compare(table(values, values[::-1], s=np.arange(3_000).astype(str)), segments="s", tests="sign")
    assert len(found.rows) == 3_001
    assert {own.n_users for own in found.rows} == {1, 3_000}


def test_gates_are_decided_by_the_same_sums() -> None:
    gate = {"metric": "ndcg@10", "max_drop": 0.01, "min_users": 10, "against": {"model": "b"}}
    found = compare(table(A1, B1), tests="sign", gates=[gate | {"model": "a"}])
    assert [own.test for own in found.rows] == ["sign"]
    [decided] = found.gate_rows
    assert (decided.decision, decided.passed) == ("worse", False)
    assert round(decided.bound_high or 0, 6) == -0.013315
    assert len(found.gates) == 1


def test_a_gate_that_names_no_run_is_against_the_baseline() -> None:
    gate = {"metric": "ndcg@10", "max_drop": 0.01, "min_users": 10}
    before, after = (table(values, values).drop(columns="model") for values in (A1, B1))
    for sides, expected in (((after, before), "not_worse"), ((before, after), "worse")):
        before_and_after = [side.drop_duplicates("user") for side in sides]
        found = compare(*before_and_after, model="als", baseline_model="als", gates=[gate])
        [decided] = found.gate_rows
        assert (decided.decision, decided.against_run, decided.against_model) == (expected, "baseline", "als")


@pytest.mark.parametrize("how", ["one table", "the same table twice", "named by the gate"])
def test_gates_take_the_baseline_of_the_call_and_no_model_is_its_own(how: str) -> None:
    rows = pd.concat([table(A1, B1), users("c", A1[::-1])])
    gate: dict[str, Any] = {"metric": "ndcg@10", "max_drop": 0.01, "min_users": 10, "mode": "certain_drop"}
    options: dict[str, Any] = {"baseline_model": "b"}
    if how == "the same table twice":
        options |= {"baseline": rows}
    if how == "named by the gate":
        options, gate = {}, {**gate, "against": {"model": "b"}}
    found = compare(rows, gates=[gate], **options)
    assert [(own.model, own.against_model, own.against_run) for own in found.gate_rows] == [
        ("a", "b", None),
        ("c", "b", None),
    ]
    assert all(own.baseline != own.candidate for own in found.rows)
    assert {own.family_size for own in found.rows} == {len(found.rows)}
    # Two p-values, the smaller of which Holm doubles.
    p_values = sorted(own.p_worse or 0 for own in found.gate_rows)
    assert min(own.p_adjusted or 0 for own in found.gate_rows) == pytest.approx(2 * p_values[0])


def test_a_gate_of_a_run_needs_a_baseline_side() -> None:
    gate = {"metric": "ndcg@10", "max_drop": 0.01, "against": {"run": "yesterday"}}
    with pytest.raises(SparkEvalError, match=r"MISSING_BASELINE.*'yesterday'.*baseline"):
        compare(table(A1, B1), baseline_model="b", gates=[gate])


@pytest.mark.parametrize("baseline", [None, "yesterday"])
def test_a_gate_with_a_model_of_its_own_stays_in_the_run_of_the_candidate(baseline: str | None) -> None:
    """As in a config: a gate that names a run or a model takes nothing from the call's baseline."""
    gate = {"metric": "ndcg@10", "max_drop": 0.01, "min_users": 10, "against": {"model": "b"}, "model": "a"}
    other = None if baseline is None else table(B1, A1)
    [decided] = compare(table(A1, B1), other, gates=[gate]).gate_rows
    assert (decided.against_run, decided.against_model, decided.decision) == (None, "b", "worse")


def test_gates_name_the_baseline_table_by_any_run_and_pass_if_its_model_is_missing() -> None:
    gate = {"metric": "ndcg@10", "max_drop": 0.01, "min_users": 10, "if_missing": "pass"}
    runs = [{"run": "2024-02-29"}, {"run": "2024-03-01"}, {"run": "2024-03-01", "model": "bb"}]
    gates = [{**gate, "model": "b", "against": run} for run in runs]
    found = compare(table(A1, B1), table(B1, A1), gates=gates)
    assert [(own.against_run, own.decision, own.passed) for own in found.gate_rows] == [
        ("2024-02-29", "not_worse", True),
        ("2024-03-01", "not_worse", True),
        ("2024-03-01", "no_baseline", True),
    ]
    assert "no model 'bb' in run '2024-03-01'; did you mean 'b'?" in found.gate_rows[-1].reason
    assert found.pairs == [("a", "a"), ("b", "b")]
    first = compare(table(A1, B1), table(B1, A1), baseline_model="bb", gates=[{**gate, "model": "b"}])
    assert (first.rows, [own.decision for own in first.gate_rows]) == ([], ["no_baseline"])


def test_gates_on_means_take_those_of_evaluations() -> None:
    options: Any = {"metrics": ["ndcg", "personalization"], "k": 5}
    today, yesterday = (evaluate(LISTS, truth, **options) for truth in (TRUTH, TRUTH.assign(item=0)))
    gate = {"max_drop": 0, "mode": "observed", "pairing": "none", "min_users": 1}
    gates = [{**gate, "metric": "ndcg@5"}, {**gate, "metric": "personalization@5", "direction": "higher"}]
    found = compare(today, yesterday, gates=gates)
    assert found.rows == []  # users of another truth are not paired
    before, after = (
        {(row.model, row.metric): row.value or 0 for row in result.metric_rows}
        for result in (yesterday, today)
    )
    assert len(found.gate_rows) == 4
    for row in found.gate_rows:
        assert row.difference == after[row.model, row.metric] - before[row.model, row.metric]
        assert row.passed == (row.difference >= 0)
    with pytest.raises(SparkEvalError, match=r"INVALID_GATE.*published means"):
        compare(today.per_user, yesterday, gates=gates)
    with pytest.raises(SparkEvalError, match=r"TRUTH_DIFFERS"):
        compare(today, yesterday, gates=[{**gates[1], "pairing": "user"}])


def test_columns_named_as_means_are_compared_as_those_of_per_user() -> None:
    others = {"map_at_5": A1, "MRR@5": A2[:12], "recall_at_5": B2[:12]}
    rows = pd.concat([users("a", A1, **others), users("b", B1, **dict.fromkeys(others, B1))])
    found = compare(rows)
    assert [(own.metric, own.k, own.family_size) for own in found.rows] == [
        ("ndcg", 10, 4),
        ("map", 5, 4),
        ("mrr", 5, 4),
        ("recall", 5, 4),
    ]
    as_published = rows.rename(columns={"map_at_5": "ap_at_5", "MRR@5": "rr_at_5"})
    assert found.rows == compare(as_published).rows
    assert {own.difference for own in compare(rows, as_published).rows} == {0.0}
    with pytest.raises(SparkEvalError, match=r"AMBIGUOUS_COLUMN.*'map_at_5'.*'ap_at_5'"):
        compare(rows.assign(ap_at_5=0.5))


def test_columns_like_metrics_that_are_not_taken_are_named(caplog: pytest.LogCaptureFixture) -> None:
    rows = table(A1, B1, ndgc_at_5=0.5, country="at", born_at_10=["x"] * 12)
    found = compare(rows, segments="country")
    assert {own.metric for own in found.rows} == {"ndcg"}
    [message] = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert "'ndgc_at_5' (did you mean 'ndcg'?)" in message
    assert "born" not in message
    with pytest.raises(SparkEvalError, match=r"METRIC_NOT_MEASURED.*'ndgc_at_5'.*did you mean 'ndcg'"):
        compare(rows.drop(columns="ndcg_at_10"))


def test_a_table_is_not_compared_with_itself() -> None:
    rows = table(A1, B1)
    assert compare(rows, rows).pairs == [("a", "b")]
    result = evaluate(LISTS, TRUTH, metrics="ndcg", k=5)
    for baseline in (result, result.per_user):
        assert compare(result, baseline, baseline_model="b").pairs == [("b", "a")]


LISTS = pd.DataFrame(
    [(model, user, user * way % 5) for model, way in (("a", 1), ("b", 2)) for user in range(5)],
    columns=["model", "user", "item"],
).assign(rank=1)
TRUTH = pd.DataFrame({"user": range(5), "item": range(5)})


def test_evaluations_are_compared_as_their_tables_are(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    lists = pd.DataFrame(
        {
            "model": np.repeat(["a", "b"], 400),
            "user": np.tile(np.repeat(np.arange(40), 10), 2),
            "item": np.concatenate([generator.permutation(30)[:10] for _ in range(80)]),
            "rank": np.tile(np.arange(1, 11), 80),
        }
    )
    truth = pd.DataFrame({"user": np.repeat(np.arange(40), 3), "item": generator.integers(0, 30, 120)})
    options: Any = {"metrics": ["ndcg", "map"], "k": [5, 10]}
    plain, written = (
        evaluate(lists, truth, **options),
        evaluate(lists, truth, folder=str(tmp_path / "users"), **options),
    )
    names = [path.name for path in (tmp_path / "users").rglob("*.parquet")]
    assert len(names) == 2
    assert written.folder is not None
    of_frames = compare(plain, written, tests=["t", "sign"])
    assert {own.p_value for own in of_frames.rows} == {1.0}
    assert {own.conventions for own in of_frames.rows} == {plain.plan.stamp}
    by_files = compare(written, tests=["t", "sign"])
    assert by_files.rows == compare(plain, tests=["t", "sign"]).rows
    assert len(by_files.comparisons) == 8
    assert sum(by_files.accounting["outcome"] == "in") == 2
    with pytest.raises(SparkEvalError, match="TRUTH_DIFFERS"):
        compare(plain, evaluate(lists, truth.head(100), **options))
    with pytest.raises(SparkEvalError, match=r"CONVENTIONS_DIFFER.*gain"):
        compare(plain, evaluate(lists, truth, conventions={"gain": "exp2"}, **options))
