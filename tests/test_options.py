"""A verb's options are declared once: the signature, ``help()`` and the section of the config follow."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from spark_eval import evaluate, evaluate_predictions
from spark_eval.comparing.gates import GateOptions
from spark_eval.comparing.options import CompareOptions, make_compare_plan
from spark_eval.config.keys import Section
from spark_eval.config.sections import CompareSection, EvaluateSection, GateSection, PredictionsSection
from spark_eval.errors import ConfigError
from spark_eval.metrics.options import EvaluateOptions, make_plan
from spark_eval.options import declared
from spark_eval.pointwise.options import PredictionOptions, make_prediction_plan
from spark_eval.verbs.compare import compare

VERBS = [
    (evaluate, EvaluateOptions, EvaluateSection),
    (evaluate_predictions, PredictionOptions, PredictionsSection),
    (compare, CompareOptions, CompareSection),
]
# Options that the config has elsewhere: in a mapping, or as a section of their own.
GROUPED = {"threshold", "choose", "stages"}


@pytest.mark.parametrize(("verb", "options", "section"), VERBS)
def test_signature_help_and_section_have_every_option(
    verb: Callable[..., Any], options: type[Mapping[str, Any]], section: type[Section]
) -> None:
    shown = inspect.signature(verb).parameters
    assert not any(one.kind is one.VAR_KEYWORD for one in shown.values())
    for name, (kind, option) in declared(options).items():
        assert shown[name].default == option.default
        assert shown[name].annotation == kind
        assert f"{name}: " in str(verb.__doc__)
        if name not in GROUPED:
            default = section.model_fields[name].default
            assert (tuple(default) if isinstance(default, list) else default) == option.default


def test_an_unknown_option_is_an_error_of_the_call() -> None:
    wrong: Any = {"matrics": ["map"]}
    with pytest.raises(TypeError, match="unexpected keyword argument 'matrics'; did you mean 'metrics'"):
        make_plan(**wrong)
    with pytest.raises(TypeError, match="unexpected keyword argument 'matrics'; did you mean 'metrics'"):
        make_prediction_plan("binary", **wrong)
    with pytest.raises(TypeError, match="unexpected keyword argument 'matrics'; did you mean 'metrics'"):
        make_compare_plan(**wrong)


@pytest.mark.parametrize("values", [[["country"]], ["country", {"a": 1}]])
@pytest.mark.parametrize(
    "make", [make_plan, make_compare_plan, lambda **given: make_prediction_plan("binary", **given)]
)
def test_a_list_within_a_list_is_named(make: Callable[..., Any], values: Any) -> None:
    with pytest.raises(ConfigError, match=r"segments: .* is not a single value; give a flat list") as refused:
        make(segments=values)
    assert refused.value.code == "INVALID_CONFIG"


def test_an_entry_of_gates_has_every_option_of_a_gate() -> None:
    fields = GateSection.model_fields
    assert set(fields) == {"metric", "max_drop", *declared(GateOptions)}
    for name, (_, option) in declared(GateOptions).items():
        assert name == "against" or fields[name].default == option.default


def test_a_single_value_of_the_config_stands_for_a_list() -> None:
    single: Any = {"metrics": "map", "k": 5, "segments": "known"}
    plan = EvaluateSection(**single).checked()
    assert (plan.columns, plan.segments) == (["ap_at_5"], ("known",))
