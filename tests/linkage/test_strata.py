"""Strata of different edges are different; intervals of estimates cover the truth."""

from fractions import Fraction
from math import comb, log
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from spark_eval import evaluate_linkage, sample_pairs
from spark_eval.errors import ConfigError, DataError
from spark_eval.linkage.estimates import Stratum, estimates
from spark_eval.linkage.limits import limits
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


def share_of_tail(n_pairs: int, n_true: int, n_reviewed: int, most: int) -> Fraction:
    """The probability of fewer matches in a sample, and half that of just as many, by counting samples."""
    ways = [comb(n_true, at) * comb(n_pairs - n_true, n_reviewed - at) for at in range(n_reviewed + 1)]
    return Fraction(2 * sum(ways[:most]) + ways[most], 2 * comb(n_pairs, n_reviewed))


@pytest.mark.parametrize("n_pairs", [2, 3, 7, 20, 41])
def test_limits_of_a_stratum_are_those_of_all_samples(n_pairs: int) -> None:
    """By counting all samples of each number of matches, in fractions."""
    for n_reviewed in range(1, n_pairs + 1):
        for n_matches in range(n_reviewed + 1):
            possible = range(n_matches, n_pairs - n_reviewed + n_matches + 1)
            tails = {true: share_of_tail(n_pairs, true, n_reviewed, n_matches) for true in possible}
            inside = [true for true, tail in tails.items() if Fraction(1, 40) <= tail <= Fraction(39, 40)]
            low, high = limits(n_pairs, n_reviewed, n_matches)
            if n_reviewed == n_pairs:
                assert (low, high) == (n_matches, n_matches)
                continue
            assert (low, high) == (max(min(inside) - 0.5, 0), min(max(inside) + 0.5, n_pairs))


@pytest.mark.parametrize(("n_pairs", "n_reviewed"), [(10**9, 100), (10**6, 10**5), (10**10, 2)])
def test_limits_of_large_strata(n_pairs: int, n_reviewed: int) -> None:
    """Without a match, just fewer than (1 - p)^n / 2 = .025; with all, the same on the other side."""
    low, high = limits(n_pairs, n_reviewed, 0)
    unsampled = 1 - n_reviewed / n_pairs
    share = 1 - 0.05 ** (1 / n_reviewed) if n_reviewed < 1000 else log(0.05) / log(unsampled) / n_pairs
    assert low == 0
    assert high / n_pairs == pytest.approx(share, rel=0.2 if n_reviewed > 1000 else 1e-5)
    assert limits(n_pairs, n_reviewed, n_reviewed) == (n_pairs - high, n_pairs)


def test_a_census_of_one_pair_is_a_stratum_without_error() -> None:
    found = estimates(
        [Stratum("a", True, 1, 1, 1), Stratum("b", True, 9, 9, 3), Stratum("c", False, 1, 1, 1)]
    )
    assert [tuple(one) for one in found.values()] == [
        (0.4, 0.0, 0.4, 0.4),
        (0.8, 0.0, 0.8, 0.8),
        (8 / 15, 0.0, pytest.approx(8 / 15), pytest.approx(8 / 15)),
    ]
    with pytest.raises(DataError, match="strata a have") as few:
        estimates([Stratum("a", True, 2, 1, 1), Stratum("b", False, 1, 1, 0)])
    assert few.value.code == "TOO_FEW_REVIEWS"


# Strata of designs: predicted or not, pairs, reviewed pairs, and all matches among the pairs.
DESIGNS = {
    "of the page": [(1, 2000, 100, 1940), (1, 500, 100, 350), (0, 1000, 100, 120), (0, 100_000, 200, 500)],
    "example of the page": [(0, 500, 50, 0), (0, 300, 50, 100), (1, 100, 50, 95), (1, 100, 50, 100)],
    "nearly all match": [(1, 2000, 50, 1990), (0, 2000, 50, 200)],
    "rare": [(1, 2000, 100, 1900), (0, 20_000, 100, 40)],
    "rare beside others": [(1, 500, 100, 475), (1, 500, 100, 300), (0, 1000, 100, 100), (0, 20_000, 100, 40)],
    "many rare": [(1, 1000, 50, 990), (1, 500, 50, 400), *[(0, 5000, 50, 5)] * 8],
    "nearly a census": [(1, 60, 50, 59), (0, 60, 50, 1)],
    "census": [(1, 1, 1, 1), (1, 500, 60, 450), (0, 1, 1, 0), (0, 2000, 60, 60)],
    "two of each": [(1, 50, 2, 45), (1, 50, 2, 30), (0, 200, 2, 10)],
    "large": [(1, 10**6, 400, 970_000), (0, 10**6, 400, 20_000), (0, 10**8, 400, 10_000)],
}


@pytest.mark.parametrize(
    "n_samples", [400, pytest.param(5_000, marks=[pytest.mark.exhaustive, pytest.mark.slow])]
)
@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS)
def test_intervals_cover(design: list[tuple[int, int, int, int]], n_samples: int) -> None:
    """Of many samples, 93 % of the intervals have the truth in them; of few, as many less their own error."""
    margin = 3 * (0.93 * 0.07 / n_samples) ** 0.5 if n_samples < 1000 else 0
    for name, share in coverage(design, n_samples, np.random.default_rng(45)).items():
        assert share >= 0.93 - margin, name


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(20))
def test_intervals_cover_in_random_designs(seed: int) -> None:
    """One to three strata of links, one to four of others, of any size, share and sample."""
    random = np.random.default_rng(seed)
    design = []
    for is_predicted, most in ((1, 3), (0, 4)):
        for _ in range(random.integers(1, most + 1)):
            n_pairs = int(10 ** random.uniform(2, 6 - is_predicted))
            size = min(n_pairs, int(10 ** random.uniform(1, 2.6)))
            share = random.uniform(0.3, 1) if is_predicted else 10 ** random.uniform(-4, -0.3)
            design.append((is_predicted, n_pairs, size, int(n_pairs * share)))
    margin = 3 * (0.93 * 0.07 / 1000) ** 0.5
    for name, share in coverage(design, 1000, random).items():
        assert share >= 0.93 - margin, (name, design)


def coverage(
    design: list[tuple[int, int, int, int]], n_samples: int, random: np.random.Generator
) -> dict[str, float]:
    """Return, of each estimate, the share of samples whose interval has the truth in it."""
    drawn = [random.hypergeometric(true, n - true, size, n_samples) for _, n, size, true in design]
    both = sum(true for is_predicted, _, _, true in design if is_predicted)
    all_matches = sum(true for *_, true in design)
    links = sum(n for is_predicted, n, _, _ in design if is_predicted)
    truth = {"precision": both / links, "recall": both / all_matches, "f1": 2 * both / (links + all_matches)}
    covered: dict[str, list[bool]] = {name: [] for name in truth}
    for matches in zip(*drawn, strict=True):
        found = estimates(
            [
                Stratum(str(at), bool(p), n, size, int(m))
                for at, ((p, n, size, _), m) in enumerate(zip(design, matches, strict=True))
            ]
        )
        for name, (value, _, low, high) in found.items():
            if value is None or low is None or high is None:
                assert value is low is high is None
                continue
            assert 0 <= low <= value + 1e-12
            assert value - 1e-12 <= high <= 1
            covered[name].append(low - 1e-12 <= truth[name] <= high + 1e-12)
    return {name: float(np.mean(inside)) for name, inside in covered.items()}


def test_the_interval_of_the_worked_numbers() -> None:
    """Of each stratum Clopper-Pearson's mid-p limits; their distances add as squares, weighted."""
    design = [(True, 2000, 100, 97), (True, 500, 100, 70), (False, 1000, 100, 12), (False, 100_000, 200, 1)]
    found = estimates([Stratum(str(at), *one) for at, one in enumerate(design)])
    below = above = 0.0
    for _, n, size, matches in design[:2]:
        tails = {
            true: hypergeom.cdf(matches - 1, n, true, size) + hypergeom.pmf(matches, n, true, size) / 2
            for true in range(matches, n - size + matches + 1)
        }
        inside = [true for true, tail in tails.items() if 0.025 <= tail <= 0.975]
        below += (n * matches / size - (min(inside) - 0.5)) ** 2
        above += (max(inside) + 0.5 - n * matches / size) ** 2
    _, _, low, high = found["precision"]
    assert low == pytest.approx(0.916 - below**0.5 / 2500, abs=1e-9)
    assert high == pytest.approx(0.916 + above**0.5 / 2500, abs=1e-9)
