"""A verb's options are declared once: the signature, ``help()`` and the section of the config follow."""

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from click.testing import CliRunner

from spark_eval import evaluate, evaluate_experiments, evaluate_predictions, split
from spark_eval.cli.commands import program
from spark_eval.comparison.compare import compare
from spark_eval.comparison.gates import GateOptions
from spark_eval.comparison.plan import CompareOptions, make_compare_plan
from spark_eval.config.keys import Section
from spark_eval.errors import ConfigError
from spark_eval.evaluation.plan import EvaluateOptions, make_plan
from spark_eval.experiments.plan import ExperimentOptions
from spark_eval.options import declared
from spark_eval.predictions.plan import PredictionOptions, make_prediction_plan
from spark_eval.runs.sections import (
    CompareSection,
    EvaluateSection,
    GateSection,
    OnlineSection,
    PredictionsSection,
)
from spark_eval.splits.rules.fold_rule import rule_options
from spark_eval.splits.rules.methods import METHODS, options_by_method, rule_of

VERBS = [
    (evaluate, EvaluateOptions, EvaluateSection),
    (evaluate_predictions, PredictionOptions, PredictionsSection),
    (evaluate_experiments, ExperimentOptions, OnlineSection),
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
    with pytest.raises(ConfigError, match=r"segments\.\d is of type (list|dict); give text") as refused:
        make(segments=values)
    assert refused.value.code == "INVALID_CONFIG"


def test_an_entry_of_gates_has_every_option_of_a_gate() -> None:
    fields = GateSection.model_fields
    assert set(fields) == {"experiment", "metric", "max_drop", *declared(GateOptions)}
    for name, (_, option) in declared(GateOptions).items():
        assert name == "against" or fields[name].default == option.default


def test_a_single_value_of_the_config_becomes_a_list() -> None:
    single: Any = {"metrics": "map", "k": 5, "segments": "known"}
    plan = EvaluateSection(**single).checked()
    assert (plan.columns, plan.segments) == (["ap_at_5"], ("known",))


def test_the_options_of_every_split_rule_are_in_its_help_and_docstring() -> None:
    shown = CliRunner().invoke(program, ["split", "--help"]).output
    for (name, option), methods in options_by_method().items():
        assert option.meaning.endswith("."), name
        assert f"{name} (" in shown
        assert f"{name} (" in str(split.__doc__)
        for method in methods:
            assert rule_options(METHODS[method])[name] == option
            if option.range is not None and option.default is not None:
                assert option.range.holds(option.default), (method, name)


def test_a_value_out_of_the_declared_range_of_a_split_rule_is_refused() -> None:
    for (name, option), methods in options_by_method().items():
        if option.range is not None:
            wrong = next(value for value in (0, 1, -1, 2**63) if not option.range.holds(value))
            for method in methods:
                given = {"by": "genre"} if method == "stratified_k_fold" else {}
                with pytest.raises(ConfigError, match=f"{name} {wrong} {re.escape(option.range.fault)}"):
                    rule_of(method, given | {name: wrong})
