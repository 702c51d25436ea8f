"""What stages may be: every wrong choice has a name, and says how to fix it."""

from typing import Any

import pytest

from spark_eval.errors import ConfigError
from spark_eval.evaluation.plan import make_plan
from spark_eval.kernels.stages import Stage, make_stages
from spark_eval.runs.sections import parse_config

FIRST = {"name": "candidates", "model": "cg", "k": 500}
SECOND = {"name": "final", "model": "ranker", "k": 10}
UNION = {"name": "all", "models": ["a", "b"], "k": 3}
THIRD = {"name": "shown", "model": "page", "k": 5}


def test_stages_are_checked_and_kept_in_order() -> None:
    stages = (Stage("candidates", ("cg",), 500), Stage("final", ("ranker",), 10))
    assert make_stages([FIRST, SECOND]) == stages
    assert make_plan(stages=[FIRST, SECOND]).stages == stages
    assert make_plan().stages == ()
    reranked = make_stages([FIRST, {**SECOND, "reranks": "candidates"}])[1]
    assert reranked == Stage("final", ("ranker",), 10, "candidates")
    union = make_stages([UNION, SECOND])[0]
    assert (union.models, union.model) == (("a", "b"), None)


@pytest.mark.parametrize(
    ("stages", "code", "says"),
    [
        ([FIRST], "TOO_FEW_STAGES", "has only 'candidates'"),
        ([FIRST, SECOND, THIRD, {**THIRD, "name": "x"}], "TOO_MANY_STAGES", "at most 3"),
        ([FIRST, {**SECOND, "name": "candidates"}], "DUPLICATE_STAGE", "'candidates'"),
        ([FIRST, {"model": "ranker", "k": 10}], "INVALID_STAGE", "stages.1 has no name"),
        ([FIRST, {**SECOND, "name": ""}], "INVALID_STAGE", "no name"),
        ([FIRST, {"name": "final", "k": 10}], "INVALID_STAGE", "'final'.* no model"),
        ([FIRST, {"name": "final", "model": "ranker"}], "INVALID_STAGE", "'final'.* no k"),
        ([FIRST, {**SECOND, "k": 0}], "INVALID_K", "1 to 100000"),
        ([{**FIRST, "k": 100_001}, SECOND], "INVALID_K", "1 to 100000"),
        ([{**FIRST, "k": "all"}, SECOND], "INVALID_K", "k is 'all'; give a whole number"),
        ([FIRST, {**SECOND, "k": True}], "INVALID_K", "k is True"),
        ([{**FIRST, "models": ["a", "b"]}, SECOND], "INVALID_STAGE", "both model and models"),
        ([{"name": "c", "models": ["a", "a"], "k": 3}, SECOND], "INVALID_STAGE", "not distinct"),
        ([FIRST, {"name": "final", "models": ["a", "b"], "k": 3}], "INVALID_STAGE", "only candidates"),
        ([FIRST, {**SECOND, "modell": "x"}], "UNKNOWN_CONFIG_KEY", "did you mean 'model'"),
        ([FIRST, "final"], "INVALID_STAGE", "give a mapping"),
        ([FIRST, {**SECOND, "reranks": "candidate"}], "INVALID_STAGE", "did you mean 'candidates'"),
        ([FIRST, {**SECOND, "reranks": "final"}], "INVALID_STAGE", "'final'.*candidates"),
        ([{**FIRST, "reranks": "final"}, SECOND], "INVALID_STAGE", "'candidates': reranks"),
        ([FIRST, {**SECOND, "reranks": 5}], "INVALID_CONFIG", "reranks"),
        ([UNION, {**SECOND, "reranks": "all"}], "INVALID_STAGE", "a union of several models"),
    ],
)
def test_a_wrong_stage_has_a_named_error(stages: Any, code: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as error:
        make_plan(stages=stages)
    assert error.value.code == code


def test_the_config_has_stages_beside_evaluate() -> None:
    tree: dict[str, Any] = {"output": {"path": "out"}, "stages": [FIRST, SECOND]}
    assert parse_config(tree).plan.stages == make_stages([FIRST, SECOND])
    union = {"name": "candidates", "models": "cg", "k": 3}
    assert parse_config({**tree, "stages": [union, SECOND]}).plan.stages[0].models == ("cg",)
    for wrong, code in [
        ([FIRST], "TOO_FEW_STAGES"),
        ([FIRST, {**SECOND, "kk": 3}], "UNKNOWN_CONFIG_KEY"),
        ([FIRST, {**SECOND, "k": "ten"}], "INVALID_CONFIG"),
        ([FIRST, {"name": "final", "model": "ranker"}], "INVALID_STAGE"),
    ]:
        with pytest.raises(ConfigError) as error:
            parse_config({**tree, "stages": wrong})
        assert error.value.code == code
    named = {"recommendations": {"path": "lists", "model": "cg"}}
    with pytest.raises(ConfigError, match="ranker") as error:
        parse_config(tree | named)
    assert error.value.code == "UNKNOWN_MODEL"
