"""Every convention has a name, every choice is checked, and the stamp says what was chosen."""

from dataclasses import fields, replace
from typing import Any

import pytest

from spark_eval.conventions import CONVENTIONS, POPULATION, Conventions, Gain, NoTruth, Ties
from spark_eval.conventions.presets import PRESETS, changed_choices, conventions_of, parse_conventions, stamp
from spark_eval.errors import ConfigError, parse_choice

EVERYBODY = "; no_recommendations=zero; no_truth=drop; no_hits=zero; relevance>0"


def test_the_preset_named_default_is_the_default() -> None:
    assert parse_conventions("default") == Conventions()


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_knows_its_name_and_is_stamped_with_it_alone(preset: str) -> None:
    chosen = conventions_of(preset)
    assert chosen.preset == preset
    first, *rules = stamp(chosen).split("; ")
    assert first == preset
    assert [rule.split("=")[0] for rule in rules[:-1]] == list(POPULATION)


@pytest.mark.parametrize("preset", [name for name in PRESETS if name not in ("default", "seed003")])
def test_a_preset_differs_from_the_default_and_is_no_copy_of_another(preset: str) -> None:
    assert changed_choices(conventions_of(preset), conventions_of("default"))
    others = [replace(conventions_of(name), preset=preset) for name in PRESETS if name != preset]
    assert conventions_of(preset) not in others


def test_single_conventions_change_a_preset_and_show_in_the_stamp() -> None:
    chosen = parse_conventions({"preset": "default", "ties": "hash", "gain": "exp2"})
    assert chosen == Conventions(gain=Gain.EXP2, ties=Ties.HASH)
    assert stamp(chosen) == f"default, gain=exp2, ties=hash{EVERYBODY}"


def test_a_convention_set_to_what_the_preset_says_does_not_show() -> None:
    assert stamp(parse_conventions({"gain": "linear"})) == f"default{EVERYBODY}"


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_different_choices_of_a_convention_have_different_stamps(convention: str) -> None:
    kind: Any = type(getattr(Conventions(), convention))
    choices = list(kind)
    assert len({stamp(parse_conventions({convention: choice})) for choice in choices}) == len(choices) > 1
    assert all(choice.meaning for choice in choices)


def test_the_preset_is_no_convention() -> None:
    assert {*CONVENTIONS, "threshold", "preset", "violations_column"} == {
        field.name for field in fields(Conventions)
    }


def test_a_threshold_is_a_number_or_none() -> None:
    assert parse_conventions({"preset": "ranx", "threshold": None}).threshold is None
    assert parse_conventions({"threshold": 4}).threshold == 4.0
    assert stamp(parse_conventions({"threshold": 4})).endswith("relevance>=4.0")


def test_a_value_passes_through_and_a_mapping_is_left_alone() -> None:
    chosen = Conventions(gain=Gain.BINARY)
    mapping = {"preset": "default", "gain": "binary"}
    assert parse_conventions(chosen) is chosen
    assert parse_conventions(mapping) == chosen
    assert mapping == {"preset": "default", "gain": "binary"}


@pytest.mark.parametrize(
    ("value", "code", "words"),
    [
        ("defualt", "UNKNOWN_PRESET", "did you mean 'default'?"),
        ({"preset": "none"}, "UNKNOWN_PRESET", "allowed: default, elliot, evidently, lenskit"),
        ({"threshold": True}, "INVALID_CHOICE", "conventions.threshold"),
        ({"gian": "exp2"}, "UNKNOWN_CONVENTION", "did you mean 'gain'?"),
        ({"gain": "exp"}, "INVALID_CHOICE", "did you mean 'exp2'?"),
        ({"ties": "random"}, "INVALID_CHOICE", "conventions.ties"),
    ],
)
def test_an_unknown_word_is_refused_with_what_is_allowed(
    value: str | dict[str, str], code: str, words: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_conventions(value)
    assert (raised.value.code, words in raised.value.message) == (code, True), raised.value


def test_a_choice_is_parsed_by_its_value() -> None:
    assert parse_choice(NoTruth, "zero", "evaluate.no_truth") is NoTruth.ZERO
