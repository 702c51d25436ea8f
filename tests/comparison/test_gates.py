"""What gates take, and what they decide: worked numbers, and the edges of each decision."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_eval.comparison.decisions import (
    Evidence,
    GatedPair,
    MeanCell,
    decide_all,
    evidence_of_means,
    failure_of,
    gated_pairs,
    row_without_baseline,
)
from spark_eval.comparison.gates import Gate, make_gates, with_baseline
from spark_eval.comparison.matching import match_metrics
from spark_eval.comparison.plan import make_compare_plan
from spark_eval.comparison.rows import GateRow
from spark_eval.errors import ConfigError, DataError, GateFailure
from spark_eval.kernels.means import means_of_users
from spark_eval.kernels.registry import RANKING
from spark_eval.kernels.values import parse_metric
from spark_eval.schema import Direction
from spark_eval.statistics.differences import PairSums
from spark_eval.statistics.intervals import Summary

# The values of twelve users; the candidate of a gate is the worse one.
BETTER = [0.4, 0.4, 0.2, 0.6, 0.6, 0.8, 0.2, 0.0, 0.6, 1.0, 0.6, 0.8]
WORSE = [0.2, 0.4, 0.0, 0.6, 0.2, 0.8, 0.4, 0.0, 0.2, 1.0, 0.4, 0.6]
GATE: dict[str, Any] = {"metric": "ndcg@10", "max_drop": 0.01, "min_users": 1}


def gate_of(**keys: Any) -> Gate:
    [gate] = make_gates([{**GATE, **keys}])
    return gate


def evidence_of(
    baseline: list[float] = BETTER, candidate: list[float] = WORSE, *, common: float = 1.0, **keys: Any
) -> Evidence:
    return Evidence.of_users(gate_of(**keys), "als", "all", PairSums.of(baseline, candidate), common)


def decide(baseline: list[float] = BETTER, candidate: list[float] = WORSE, **keys: Any) -> GateRow:
    [row] = decide_all([evidence_of(baseline, candidate, **keys)])
    return row


@pytest.mark.parametrize(
    ("keys", "decision", "low", "high", "p_worse"),
    [
        ({"max_drop": 0.01}, "worse", None, -0.013315, 0.032374),
        ({"max_drop": 0.05, "drop": "relative"}, "undecided", -0.182950, 0.001283, None),
        ({"max_drop": 0.25}, "not_worse", 0.039982, None, None),
    ],
)
def test_worked_numbers_of_paired_gates(
    keys: dict[str, Any], decision: str, low: float | None, high: float | None, p_worse: float | None
) -> None:
    row = decide(**keys)
    assert (row.decision, row.passed) == (decision, decision == "not_worse")
    for expected, found in ((low, row.bound_low), (high, row.bound_high), (p_worse, row.p_worse)):
        assert expected is None or found == pytest.approx(expected, abs=1e-6)
    assert row.difference == pytest.approx(-0.116667, abs=1e-6)
    assert (row.baseline_value, row.candidate_value) == pytest.approx((6.2 / 12, 4.8 / 12))
    # A mirror image of both in a metric of which lower values are better decides the same.
    upside_down = [[1 - value for value in values] for values in (BETTER, WORSE)]
    if "drop" not in keys:
        mirrored = decide(*upside_down, **keys, direction="lower")
        assert mirrored.decision == decision
        assert mirrored.bound_high == pytest.approx(row.bound_high)


def test_worked_numbers_of_published_means() -> None:
    before, after = Summary(0.33, 0.011, None, None, 1000), Summary(0.30, 0.012, None, None, 900)
    gate = gate_of(max_drop=0.0, pairing="none")
    evidence = Evidence.of_means(gate, "als", "all", before, after)
    assert evidence.estimate.freedom == pytest.approx(1861.68, abs=0.005)
    assert evidence.p_worse == pytest.approx(0.065505 / 2, abs=5e-7)
    [row] = decide_all([evidence])
    assert (row.decision, row.n_users, row.users_needed) == ("worse", 900, None)
    # With 5 % of the baseline allowed, its noise shrinks as its value does.
    relative = Evidence.of_means(gate_of(max_drop=0.05, drop="relative"), "als", "all", before, after)
    assert relative.estimate.std_error == pytest.approx(math.hypot(0.95 * 0.011, 0.012))
    assert float(relative.estimate.value or 0) == pytest.approx(0.30 - 0.95 * 0.33)


@pytest.mark.parametrize("source", ["users", "means"])
@pytest.mark.parametrize("direction", ["higher", "lower"])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("max_drop", [0.0, 0.05, 0.4, 2.0])
def test_a_relative_drop_is_a_share_of_the_size_of_the_baseline(
    source: str, direction: str, sign: int, max_drop: float
) -> None:
    """The margin is the candidate's gain plus max_drop * |mean of the baseline|, whatever its sign."""
    baseline, candidate = ([sign * value for value in values] for values in (BETTER, WORSE))
    keys: dict[str, Any] = {"max_drop": max_drop, "drop": "relative", "direction": direction}
    better = 1 if direction == "higher" else -1

    def evidence(candidate: list[float]) -> Evidence:
        if source == "users":
            return evidence_of(baseline, candidate, **keys)
        means = [
            Summary(float(np.mean(values)), float(np.std(values, ddof=1)) / math.sqrt(12), None, None, 12)
            for values in (baseline, candidate)
        ]
        return Evidence.of_means(gate_of(**keys, pairing="none"), "als", "all", *means)

    allowed = max_drop * abs(np.mean(baseline))
    found = evidence(candidate).estimate
    assert float(found.value or 0) == pytest.approx(
        better * (np.mean(candidate) - np.mean(baseline)) + allowed, abs=1e-12
    )
    # By the delta method, the size of the mean adds the noise of the baseline times its sign.
    share = max_drop * np.sign(np.mean(baseline))
    if source == "users":
        margins = better * np.subtract(candidate, baseline) + share * np.asarray(baseline)
        assert found.std_error == pytest.approx(np.std(margins, ddof=1) / math.sqrt(12), rel=1e-9)
    # A model that is its own baseline never falls.
    assert float(evidence(baseline).estimate.value or 0) == pytest.approx(allowed, abs=1e-12)


@pytest.mark.parametrize(
    ("mode", "decision", "passed"),
    [("non_inferior", "undecided", False), ("certain_drop", "undecided", True), ("observed", "worse", False)],
)
def test_what_is_not_certain_passes_by_the_mode(mode: str, decision: str, passed: bool) -> None:
    row = decide(max_drop=0.1, mode=mode)
    assert (row.decision, row.passed) == (decision, passed)
    assert row.reason.startswith("warning") == (mode == "certain_drop")
    assert ("not enough users to tell: 12; about " in row.reason) == (mode != "observed")
    assert row.reason.startswith("by the values alone") == (mode == "observed")
    has_bounds = mode != "observed"
    assert (row.bound_low is not None, row.users_needed is not None) == (has_bounds, has_bounds)


def test_so_many_users_are_needed() -> None:
    deviation = float(np.std(np.subtract(WORSE, BETTER), ddof=1))
    by_normal = ((1.6448536269514722 + 0.8416212335729143) * deviation / 0.01) ** 2
    row = decide(max_drop=0.01)
    assert row.users_needed is not None
    # The t distribution asks for half a squared quantile more.
    assert row.users_needed == math.ceil(by_normal + 1.6448536269514722**2 / 2)
    # Where no drop is allowed, a gain of 5 % of the baseline is assumed.
    gain = 0.05 * 6.2 / 12
    by_normal = ((1.6448536269514722 + 0.8416212335729143) * deviation / gain) ** 2
    for drop in ("absolute", "relative"):
        row = decide(max_drop=0.0, drop=drop)
        assert row.users_needed == math.ceil(by_normal + 1.6448536269514722**2 / 2)
    assert decide([0.0] * 12, WORSE, max_drop=0.0).users_needed is None
    # One user has no error; and no table has so many.
    assert decide(max_drop=1e6).users_needed == 2
    assert decide(max_drop=1e-300).users_needed is None


def test_certain_drops_are_corrected_for_their_number_and_no_other_gates() -> None:
    alarms = [evidence_of(mode="certain_drop") for _ in range(2)]
    rows = decide_all([*alarms, evidence_of(), evidence_of(mode="observed")])
    assert [row.p_adjusted for row in rows] == [pytest.approx(2 * 0.032374, abs=2e-6)] * 2 + [None, None]
    # Alone each would have been certain.
    assert [row.decision for row in rows] == ["undecided", "undecided", "worse", "worse"]
    assert decide(mode="certain_drop").decision == "worse"


@pytest.mark.parametrize("mode", ["non_inferior", "certain_drop", "observed"])
@pytest.mark.parametrize(("drop", "decision"), [(0.1, "not_worse"), (0.2, "worse")])
def test_a_constant_drop_is_judged_by_itself(mode: str, drop: float, decision: str) -> None:
    """A drop of exactly max_drop in decimals passes, whatever the binary digits say."""
    values = [0.3, 0.7, 0.9, 0.1 + 0.2]
    row = decide(values, [value - drop for value in values], max_drop=0.1, mode=mode)
    assert (row.decision, row.p_worse) == (decision, None)
    if mode != "observed":
        assert row.bound_low == row.bound_high


def test_equal_models_are_not_worse_and_one_user_decides_nothing() -> None:
    assert decide(BETTER, BETTER, max_drop=0.0).decision == "not_worse"
    row = decide([0.5], [0.25])
    assert (row.decision, row.bound_low, row.p_worse, row.users_needed) == ("undecided", None, None, None)


@pytest.mark.parametrize(
    ("code", "keys"),
    [
        ("TOO_FEW_USERS", {"min_users": 13}),
        ("POPULATIONS_DIFFER", {"common": 0.9899}),
        ("TOO_FEW_USERS", {"baseline": [], "candidate": []}),
    ],
)
def test_what_is_no_evidence_is_refused(code: str, keys: dict[str, Any]) -> None:
    with pytest.raises(DataError) as refused:
        decide(**keys)
    assert refused.value.code == code
    assert "ndcg@10 of 'als' against 'als'" in refused.value.message
    key = "min_common" if code == "POPULATIONS_DIFFER" else "min_users"
    assert f"set the gate's key {key}" in refused.value.message


def test_all_that_is_no_evidence_is_told_at_once() -> None:
    with pytest.raises(DataError, match=r"TOO_FEW_USERS.*POPULATIONS_DIFFER"):
        decide_all([evidence_of(min_users=99), evidence_of(common=0.5)])


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=30))
def test_a_larger_drop_allowed_never_fails_what_passed(pairs: list[tuple[float, float]]) -> None:
    baseline, candidate = map(list, zip(*pairs, strict=True))
    order = ["worse", "undecided", "not_worse"]
    for mode in ("non_inferior", "certain_drop", "observed"):
        found = [decide(baseline, candidate, max_drop=drop, mode=mode) for drop in (0.0, 0.1, 0.5, 1.0)]
        places = [order.index(row.decision) for row in found]
        assert places == sorted(places)
        assert found[-1].decision == "not_worse" or found[-1].bound_low is not None


def test_the_failure_names_the_gates_that_failed() -> None:
    passed, failed = decide(max_drop=0.25), decide(against={"run": "2024-02-29"})
    assert failure_of([passed]) is None
    failure = failure_of([passed, *[failed] * 7])
    assert isinstance(failure, GateFailure)
    assert failure.exit_code == 5
    assert str(failure).startswith(
        "error[GATE_FAILED] 7 of 8 gates failed: ndcg@10 of 'als' against 'als' of run '2024-02-29' is worse"
    )
    assert failure.message.count("is worse") == 5
    assert "and 2 more" in failure.message


def test_a_first_run_passes_where_the_gate_says_so() -> None:
    row = row_without_baseline(gate_of(if_missing="pass", segment="country"), "als", "no run 'a'")
    assert (row.model, row.segment_value, row.decision) == ("als", "country", "no_baseline")
    assert row.passed
    assert row.reason == "warning: there is nothing to compare with yet: no run 'a'"
    assert failure_of([row]) is None


@pytest.mark.parametrize(
    ("code", "hint", "keys"),
    [
        ("UNKNOWN_CONFIG_KEY", "did you mean 'max_drop'?", {"max_dorp": 1}),
        ("UNKNOWN_CONFIG_KEY", "did you mean 'run'?", {"against": {"rn": "a"}}),
        ("UNKNOWN_METRIC", "did you mean 'ndcg'?", {"metric": "ndgc@10"}),
        ("INVALID_GATE", "max_drop", {"max_drop": None}),
        ("INVALID_GATE", "needs one k: k: 10 beside it, or ndcg@10", {"metric": "ndcg"}),
        ("INVALID_GATE", "needs one k: k: 10 beside it, or ndcg@10", {"metric": "ndcg@k"}),
        ("INVALID_GATE", "'ndcg@10' has a k, and so has the gate; leave out k: 5", {"k": 5}),
        ("INVALID_K", "k is 0", {"metric": "ndcg", "k": 0}),
        ("INVALID_CHOICE", "did you mean 'non_inferior'?", {"mode": "noninferior"}),
        ("INVALID_CHOICE", "did you mean 'relative'?", {"drop": "relativ"}),
        ("INVALID_CHOICE", "allowed", {"if_missing": "never"}),
        ("INVALID_CHOICE", "allowed: none, user", {"pairing": "xyz"}),
        ("OUT_OF_RANGE", "max_drop is -1", {"max_drop": -1}),
        ("OUT_OF_RANGE", "max_drop is inf", {"max_drop": math.inf}),
        ("OUT_OF_RANGE", "max_drop is nan", {"max_drop": math.nan}),
        ("OUT_OF_RANGE", "confidence is 95", {"confidence": 95}),
        ("OUT_OF_RANGE", "min_users is 0", {"min_users": 0}),
        ("OUT_OF_RANGE", "min_common is 1.1", {"min_common": 1.1}),
        ("NO_INTERVAL", "coverage", {"metric": "catalog_coverage@5"}),
        ("NO_DIRECTION", "higher or lower", {"direction": "up"}),
        ("SAME_MODEL", "is its own baseline", {"model": "als", "against": {"model": "als"}}),
    ],
)
def test_what_no_gate_can_be_is_refused_by_name(code: str, hint: str, keys: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as refused:
        gate_of(**keys)
    assert refused.value.code == code
    assert hint in refused.value.message
    assert "gates.0" in refused.value.message or code in ("INVALID_K", "SAME_MODEL")


def test_a_metric_without_a_direction_is_given_one() -> None:
    object.__setattr__(RANKING["ndcg"], "direction", Direction.NONE)
    try:
        with pytest.raises(ConfigError, match="NO_DIRECTION"):
            gate_of()
        gate = gate_of(direction="lower")
    finally:
        object.__setattr__(RANKING["ndcg"], "direction", Direction.HIGHER)
    assert (gate.factors(None), gate.amount) == ((Fraction(1), Fraction(-1)), 0.01)


def test_weighted_means_are_only_observed() -> None:
    gate = gate_of(metric="fcp_micro@5", mode="observed")
    assert (gate.metric, gate.k, str(gate.value), gate.sees_users) == ("fcp_micro", 5, "fcp_micro@5", True)
    before, after = Summary(0.5, None, None, None, 200), Summary(0.25, None, None, None, 300)
    [row] = decide_all([Evidence.of_means(gate, "als", "all", before, after)])
    assert (row.decision, row.difference, row.bound_low) == ("worse", -0.25, None)


def test_values_of_runs_are_gated_as_they_are_published() -> None:
    gate = gate_of(metric="catalog_coverage@5", mode="observed")
    assert not gate.sees_users
    for value, decision in ((0.6, "not_worse"), (0.4, "worse")):
        before, after = (Summary(one, None, None, None, 0) for one in (0.5, value))
        [row] = decide_all([Evidence.of_means(gate, "als", "all", before, after)])
        assert (row.decision, row.passed, row.n_users) == (decision, decision == "not_worse", 0)
        assert row.difference == pytest.approx(value - 0.5)


@pytest.mark.parametrize("if_missing", ["refuse", "pass"])
@pytest.mark.parametrize(
    ("baselines", "missing"),
    [
        (["als", "pop"], None),
        (["alz"], "no model 'als' in run 'a'; did you mean 'alz'?"),
        (None, "no model 'als' in run 'a'; no run"),
    ],
)
def test_only_a_baseline_that_is_not_there_is_missing(
    baselines: list[str] | None, missing: str | None, if_missing: str
) -> None:
    gate = gate_of(against={"run": "a"}, if_missing=if_missing, model="als")
    if missing is not None and if_missing == "refuse":
        with pytest.raises(DataError, match="MISSING_BASELINE") as refused:
            gated_pairs(gate, baselines, ["als", "pop"], "no run")
        assert missing in refused.value.message
    else:
        assert gated_pairs(gate, baselines, ["als", "pop"], "no run") == [
            GatedPair(gate, "als", "als", missing)
        ]


def test_gates_without_a_baseline_take_that_of_the_comparison_and_others_take_nothing_of_it() -> None:
    given = {"none": {}, "run": {"run": "a"}, "model": {"model": "pop"}, "both": {"run": "a", "model": "pop"}}
    gates = {name: with_baseline(gate_of(against=against), "b", "als") for name, against in given.items()}
    assert {name: (gate.against_run, gate.against_model) for name, gate in gates.items()} == {
        "none": ("b", "als"),
        "run": ("a", None),
        "model": (None, "pop"),
        "both": ("a", "pop"),
    }
    with pytest.raises(ConfigError, match="SAME_MODEL"):
        with_baseline(gate_of(model="als"), None, "als")


def test_a_value_that_a_run_lacks_lets_nothing_pass() -> None:
    pair = GatedPair(gate_of(metric="catalog_coverage@5", mode="observed"), "als", "als")
    means: dict[MeanCell, Summary] = {
        ("als", "catalog_coverage", 5, "all", "all"): Summary(0.5, None, None, None, 0)
    }
    assert len(list(evidence_of_means(pair, means, means))) == 1
    nothing: dict[MeanCell, Summary] = {}
    for before, after, side in ((nothing, means, "baseline"), (means, nothing, "candidate")):
        with pytest.raises(ConfigError, match=rf"METRIC_NOT_MEASURED.*of the {side}"):
            list(evidence_of_means(pair, before, after))


def test_values_of_runs_are_not_compared_by_users() -> None:
    plan = make_compare_plan(metrics=["catalog_coverage@5"])
    with pytest.raises(ConfigError, match=r"NOT_PER_USER.*catalog_coverage@5"):
        match_metrics(None, parse_metric("ndcg@5"), plan)
    measured = [*parse_metric("ndcg@5"), *parse_metric("catalog_coverage@5")]
    assert list(map(str, means_of_users(measured))) == ["ndcg@5"]
