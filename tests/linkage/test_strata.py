"""Strata of different edges are different; intervals of estimates cover the truth."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_eval import evaluate_linkage, sample_pairs
from spark_eval.errors import ConfigError, DataError
from spark_eval.linkage.plan import parse_edges
from spark_eval.linkage.reviews import stratum_name

pytestmark = pytest.mark.usefixtures("engine_of_users")
FINITE = st.floats(allow_nan=False, allow_infinity=False)
# Edges that agree in their first digits, as well as any others.
ALIKE = st.builds(
    lambda base, steps: sorted({base + step for step in steps}),
    st.sampled_from([1e6, 123456.0, 0.1234561, -1e9, 2.0**53 - 64]),
    st.lists(st.integers(0, 40), min_size=1, max_size=6),
)
NEIGHBOURS = st.builds(lambda edge: [edge, float(np.nextafter(edge, np.inf))], st.floats(-1e300, 1e300))
EDGES = st.one_of(ALIKE, NEIGHBOURS, st.lists(FINITE, min_size=1, max_size=6, unique=True).map(sorted))
N = 600


@given(edges=EDGES)
def test_each_stratum_has_a_name_of_its_own(edges: list[float]) -> None:
    plan = parse_edges(edges, "sample.strata")
    names = [stratum_name(number, plan) for number in range(2 * (len(plan) + 1))]
    assert len(set(names)) == len(names)


def test_names_are_as_short_as_they_can_be() -> None:
    names = [stratum_name(number, (-3.0, 0.5, 1e6, 1e22)) for number in (0, 3, 4, 7, 9)]
    assert names == [
        "not predicted, score below -3",
        "predicted, score from -3 to 0.5",
        "not predicted, score from 0.5 to 1000000",
        "predicted, score from 1000000 to 1e+22",
        "predicted, score from 1e+22",
    ]


def estimated(edges: tuple[float, ...], shift: float) -> tuple[list[Any], list[int]]:
    """Estimates of a census of four bands of unequal size; scores and edges are moved by ``shift``."""
    score = np.repeat([0.5, 1.5, 2.5, 3.5], [20, 400, 10, 170]) + shift
    candidates = pa.table({"a": np.arange(N), "b": np.arange(N) + N, "score": score})
    links = candidates.filter(pa.array(score > edges[-1] + shift))
    drawn = sample_pairs(candidates, links, strata=[edge + shift for edge in edges], per_stratum=20)
    labels = ["match" if pair % 7 < 2 else "non_match" for pair in drawn["a"].to_pylist()]
    reviews = pa.table({"a": drawn["a"], "b": drawn["b"], "reviewer": ["ann"] * len(labels), "label": labels})
    found = evaluate_linkage(links, sample=drawn, reviews=reviews)
    return list(found.rows), drawn["stratum_size"].to_pylist()


@settings(max_examples=8, deadline=None)
@given(shift=st.sampled_from([2.0**20, 1e6, -(2.0**30), 2.0**40, 0.25]))
def test_estimates_do_not_depend_on_the_digits_of_edges(shift: float) -> None:
    assert estimated((1.0, 2.0, 3.0), shift) == estimated((1.0, 2.0, 3.0), 0.0)


@pytest.mark.parametrize("edges", [[np.nan], [0.5, np.inf], [-np.inf, 0.5], [0.5, 0.5], [2**53, 2**53 + 1]])
def test_edges_that_make_no_bands_are_refused(edges: list[float]) -> None:
    with pytest.raises(ConfigError) as refused:
        sample_pairs(pa.table({"a": [1], "b": [2]}), pa.table({"a": [1], "b": [2]}), strata=edges)
    assert refused.value.code == "OUT_OF_RANGE"


def test_a_sample_with_two_strata_of_one_name_is_refused() -> None:
    sample = pa.table(
        {
            "a": [1, 2, 3, 4],
            "b": [5, 6, 7, 8],
            "stratum": ["predicted"] * 4,
            "stratum_size": [10, 10, 90, 90],
            "sampled": [2] * 4,
            "weight": [5.0, 5.0, 45.0, 45.0],
        }
    )
    reviews = sample.select(["a", "b"]).append_column("reviewer", [["ann"] * 4])
    reviews = reviews.append_column("label", [["match"] * 4])
    with pytest.raises(DataError, match="stratum 'predicted' has several sizes: 10, 90") as refused:
        evaluate_linkage(sample.select(["a", "b"]), sample=sample, reviews=reviews)
    assert refused.value.code == "STRATA_ALIKE"
