"""What a comparison can be asked, and what it refuses with the nearest name."""

import math
from typing import Any

import pytest

from spark_eval.comparison.plan import make_compare_plan
from spark_eval.conventions.comparison import PairTest
from spark_eval.errors import ConfigError


def test_defaults_are_the_declared_ones() -> None:
    plan = make_compare_plan()
    assert (plan.models, plan.metrics, plan.segments, plan.gates) == (None, None, (), ())
    assert (plan.tests, plan.interval, plan.correction) == (("t",), "t", "holm")
    assert (plan.alternative, plan.zeros, plan.equivalence) == ("two_sided", "pratt", None)
    assert (plan.confidence, plan.resamples, plan.seed, plan.max_pairs) == (0.95, 1000, 0, 1000)


def test_names_are_understood_as_elsewhere_and_once() -> None:
    plan = make_compare_plan(
        models="als", metrics=["NDCG@10", "ndcg@10", "AP(denominator=relevant)", "fcp_micro@all", "hr@k"]
    )
    assert plan.models == ("als",)
    assert plan.metrics == ("ndcg@10", "map(denominator=relevant)", "fcp_micro@all", "hit_rate")
    every = make_compare_plan(tests=[*PairTest, "t"])
    assert every.tests == ("t", "sign", "wilcoxon", "randomization", "bootstrap", "bca")


@pytest.mark.parametrize(
    ("code", "hint", "options"),
    [
        ("UNKNOWN_TEST", "did you mean 'wilcoxon'? ", {"tests": ["t", "wilcoxn"]}),
        ("UNKNOWN_METRIC", "'ndgc' in compare.metrics; did you mean 'ndcg'?", {"metrics": "ndgc@10"}),
        ("INVALID_METRIC", "compare.metrics", {"metrics": ["ndcg@@"]}),
        ("UNKNOWN_OPTION", "did you mean 'gain'?", {"metrics": "ndcg(gian=exp2)"}),
        ("INVALID_K", "k is 'x'", {"metrics": "ndcg@x"}),
        ("INVALID_CHOICE", "'bonferoni' in compare.correction; did you mean", {"correction": "bonferoni"}),
        ("INVALID_CHOICE", "did you mean 'bca'?", {"interval": "bac"}),
        ("INVALID_CHOICE", "did you mean 'two_sided'?", {"alternative": "two-sided"}),
        ("INVALID_CHOICE", "did you mean 'zsplit'?", {"zeros": "split"}),
        ("EMPTY_COMPARISON", "compare.tests is empty", {"tests": []}),
        ("EMPTY_COMPARISON", "compare.metrics is empty", {"metrics": ()}),
        ("EMPTY_COMPARISON", "compare.models is empty", {"models": []}),
        ("OUT_OF_RANGE", "confidence is 1", {"confidence": 1}),
        ("OUT_OF_RANGE", "confidence is nan", {"confidence": math.nan}),
        ("OUT_OF_RANGE", "equivalence is 0", {"equivalence": 0}),
        ("OUT_OF_RANGE", "equivalence is inf", {"equivalence": math.inf}),
        ("OUT_OF_RANGE", "resamples is 0; allowed: 1 to 100000", {"resamples": 0}),
        ("OUT_OF_RANGE", "seed is", {"seed": 2**63 - 1}),
        ("OUT_OF_RANGE", "test_train_ratio is -1", {"test_train_ratio": -1}),
        ("OUT_OF_RANGE", "max_pairs is 0", {"max_pairs": 0}),
    ],
)
def test_what_cannot_be_is_refused_by_name(code: str, hint: str, options: Any) -> None:
    with pytest.raises(ConfigError) as refused:
        make_compare_plan(**options)
    assert refused.value.code == code
    assert hint.strip() in refused.value.message


def test_gates_are_part_of_the_plan() -> None:
    [gate] = make_compare_plan(gates=[{"metric": "ndcg", "k": "all", "max_drop": 0.01}]).gates
    assert (gate.metric, gate.k) == ("ndcg", None)


def test_an_unknown_option_is_an_error_of_the_call() -> None:
    wrong: Any = {"corection": "holm"}
    with pytest.raises(TypeError, match="did you mean 'correction'"):
        make_compare_plan(**wrong)
