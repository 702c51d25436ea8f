"""Every preset differs from the default in exactly what it states, and its stamp says so."""

from dataclasses import fields
from typing import Any

import pytest
from choices import one
from hypothesis import given
from hypothesis import strategies as st

from spark_eval.conventions import CONVENTIONS, POPULATION, Conventions
from spark_eval.conventions.presets import PRESETS, changed_choices, conventions_of, parse_conventions, stamp
from users import User, graded

# What each preset changes, written down a second time.
CHANGES: dict[str, dict[str, Any]] = {
    "default": {},
    "spark": {"gain": "binary", "no_truth": "zero"},
    "trec_eval": {
        "ap_denominator": "relevant",
        "negative_relevance": "irrelevant",
        "no_recommendations": "drop",
        "threshold": 1.0,
    },
    "ranx": {"ap_denominator": "relevant", "negative_relevance": "irrelevant", "threshold": 1.0},
    "recommenders": {
        "gain": "binary",
        "no_recommendations": "drop",
        "popularity": "rows",
        "novelty_popularity": "rows",
        "novelty_unseen": "zero",
        "no_features": "unlike",
        "serendipity_variant": "recommenders",
        "catalog_coverage_variant": "by_trained",
    },
    "replay": {
        "gain": "binary",
        "one_class": "extremes",
        "auc_ties": "as_ranked",
        "novelty_scale": "share",
        "novelty_denominator": "k",
        "unexpectedness_no_base": "zero",
        "catalog_coverage_variant": "trained",
    },
    "rectools": {
        "ap_denominator": "relevant",
        "gain": "binary",
        "ideal": "positions",
        "popularity": "rows",
        "ild_distance": "hamming",
        "ild_short": "zero",
        "unexpectedness_denominator": "length",
        "unexpectedness_no_base": "one",
        "catalog_coverage_variant": "recommended",
    },
    "warprec": {
        "gain": "exp2_plus_1",
        "popularity": "rows",
        "arp_unseen": "one",
        "gini_variant": "n_minus_1",
    },
    "lenskit": {
        "precision_denominator": "min_k_length",
        "recall_denominator": "min_relevant_k",
        "ap_denominator": "min_relevant_length",
        "gain": "binary",
        "discount": "log2_clipped",
    },
    "evidently": {
        "precision_denominator": "min_k_length",
        "recall_denominator": "retrieved",
        "ap_denominator": "retrieved",
        "ar_denominator": "retrieved",
        "ideal": "list",
        "no_recommendations": "drop",
        "no_hits": "drop",
        "arp_unseen": "drop",
        "novelty_unseen": "drop",
        "ild_average": "length",
        "ild_short": "zero",
        "serendipity_variant": "evidently",
        "catalog_coverage_variant": "trained",
        "gini_variant": "n_minus_1",
        "personalization_variant": "full_lists",
    },
    "elliot": {
        "ap_variant": "window",
        "ar_variant": "window",
        "gain": "exp2",
        "no_recommendations": "drop",
        "gini_variant": "equality",
        "entropy_weights": "slots",
    },
    "sklearn": {"ap_denominator": "relevant", "tie_order": "shared"},
    "seed000": {"ideal": "list"},
    "seed001": {"ap_denominator": "hits"},
    "seed002": {"ap_denominator": "relevant", "gain": "exp2", "ideal": "list"},
    "seed003": {},
    "seed004": {"recall_denominator": "min_relevant_k", "ap_denominator": "hits", "gain": "binary"},
}
any_choice = st.fixed_dictionaries(
    {"preset": st.sampled_from(list(PRESETS))},
    optional={convention: st.sampled_from(list(choices)) for convention, choices in CONVENTIONS.items()}
    | {"threshold": st.floats(0, 5)},
)


def test_every_preset_is_written_down() -> None:
    assert CHANGES.keys() == PRESETS.keys()


@pytest.mark.parametrize("name", PRESETS)
def test_it_differs_from_the_default_in_exactly_this(name: str) -> None:
    preset, default = conventions_of(name), conventions_of("default")
    differences = {
        field.name: getattr(preset, field.name)
        for field in fields(Conventions)
        if getattr(preset, field.name) != getattr(default, field.name) and field.name != "preset"
    }
    assert differences == CHANGES[name]
    assert preset == parse_conventions(name) == parse_conventions({"preset": name})
    assert preset.preset == name
    assert changed_choices(preset, default) == {
        convention: choice for convention, choice in CHANGES[name].items() if convention != "threshold"
    }


def test_the_default_is_what_conventions_are_without_a_choice() -> None:
    assert conventions_of("default") == Conventions()


@pytest.mark.parametrize("name", PRESETS)
def test_it_says_whose_numbers_it_gives_and_why_they_differ(name: str) -> None:
    preset = PRESETS[name]
    assert preset.source
    assert preset.differs.endswith(".")
    assert not preset.leaves_out or preset.leaves_out.endswith(".")


def read_stamp(text: str) -> Conventions:
    """The conventions that a stamp names."""
    first, *rules, relevance = text.split("; ")
    preset, *conventions = first.split(", ")
    chosen: dict[str, Any] = {"preset": preset, **dict(part.split("=", 1) for part in [*conventions, *rules])}
    threshold = None if relevance == "relevance>0" else float(relevance.removeprefix("relevance>="))
    return parse_conventions({**chosen, "threshold": threshold})


@pytest.mark.parametrize("name", PRESETS)
def test_the_stamp_of_a_preset_names_it_and_its_population(name: str) -> None:
    conventions = conventions_of(name)
    population = [f"{convention}={getattr(conventions, convention)}" for convention in POPULATION]
    relevance = "relevance>=1.0" if "threshold" in CHANGES[name] else "relevance>0"
    assert stamp(conventions) == "; ".join([name, *population, relevance])
    assert read_stamp(stamp(conventions)) == conventions


@given(choice=any_choice)
def test_the_stamp_is_read_back(choice: dict[str, Any]) -> None:
    conventions = parse_conventions(choice)
    assert read_stamp(stamp(conventions)) == conventions


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_different_choices_of_a_convention_have_different_stamps(convention: str) -> None:
    stamps = {stamp(parse_conventions({convention: choice})) for choice in CONVENTIONS[convention]}
    assert len(stamps) == len(CONVENTIONS[convention]) > 1


# Two users whom every row below tells apart: hits at ranks 1 and 3 of 3, the better one last.
SHORT = graded([1, 0, 3], missed=[2] * 6)
ONE_HIT = graded([1], missed=[1])
SEPARATE: list[tuple[str, str, User, float]] = [
    ("spark", "ndcg", SHORT, 0.508740),  # 1.5 / 2.948459, all worth 1
    ("trec_eval", "ap", SHORT, 5 / 24),  # (1/1 + 2/3) / 8
    ("recommenders", "ndcg", SHORT, 0.508740),
    ("replay", "auc", ONE_HIT, 1.0),
    ("rectools", "ndcg", ONE_HIT, 1 / 2.948459),
    ("lenskit", "precision", SHORT, 2 / 3),
    ("lenskit", "recall", SHORT, 2 / 5),
    ("lenskit", "dcg", SHORT, 1 + 0.630930),  # ranks 1 and 3 weigh 1 and 1 / log2(3)
    ("evidently", "recall", SHORT, 1.0),
    ("evidently", "ar", SHORT, (1 / 2 + 2 / 2) / 2),
    ("seed001", "ap", SHORT, 5 / 6),
    ("seed002", "dcg", SHORT, 1 + 7 / 2),
]


@pytest.mark.parametrize(("preset", "name", "person", "value"), SEPARATE)
def test_its_choices_reach_the_numbers(preset: str, name: str, person: User, value: float) -> None:
    assert one(name, person, 5, conventions_of(preset)) == pytest.approx(value, abs=5e-7)
    assert one(name, person, 5) != pytest.approx(value, abs=5e-7)
