"""Distances within lists: exact where vectors are equal, the same however they are stored or divided."""

import math
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_eval.conventions import Conventions
from spark_eval.conventions.beyond import Distance, NoFeatures, SerendipityVariant
from spark_eval.kernels.beyond import similarity, spread
from spark_eval.kernels.beyond.catalog import Sets
from spark_eval.kernels.beyond.diversity import LEAST_LENGTH
from spark_eval.kernels.distances import cosine, euclid, lengths
from spark_eval.kernels.lists import Lists
from spark_eval.kernels.registry import RANKING
from spark_eval.statistics.exact import Floats

N_ITEMS, DIMENSIONS = 12, 5
VECTORS = (Distance.COSINE, Distance.EUCLID)
tiny = st.one_of(st.just(5e-324), st.floats(-1e-3, 1e-3))
components = st.one_of(st.just(0.0), st.floats(-1e3, 1e3, allow_subnormal=False), tiny)
tables = st.lists(
    st.none() | st.lists(components, min_size=DIMENSIONS, max_size=DIMENSIONS),
    min_size=N_ITEMS,
    max_size=N_ITEMS,
)
many_lists = st.lists(st.permutations(range(N_ITEMS)).map(lambda items: items[:7]), min_size=1, max_size=5)


def known(table: list[list[float] | None]) -> list[list[float]]:
    return [[math.nan] * DIMENSIONS if row is None else row for row in table]


def sparse(lists: Lists) -> Lists:
    """The same with vectors stored by their components other than 0; one of zeros keeps a first 0."""
    context: Any = lists.context
    rows = [
        [] if np.isnan(row).any() else np.flatnonzero(row).tolist() or [0] for row in context.catalog.vectors
    ]
    members = np.array([member for row in rows for member in row], dtype=np.int64)
    owner = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    starts = np.append(0, np.cumsum([len(row) for row in rows]))
    sets = Sets(starts, members, values=context.catalog.vectors[owner, members])
    return replace(lists, context=replace(context, catalog=replace(context.catalog, vectors=sets)))


def ild(lists: Lists, **choices: object) -> Floats:
    values: Floats = RANKING["ild"].kernel(lists, None, Conventions().changed(choices))
    return values


def pair_distance(one: list[float], other: list[float], distance: Distance) -> float:
    if distance is Distance.EUCLID:
        return math.dist(one, other)
    a, b = math.hypot(*one), math.hypot(*other)
    if min(a, b) < LEAST_LENGTH:
        return 1.0
    return math.fsum((x / a - y / b) ** 2 for x, y in zip(one, other, strict=True)) / 2


@pytest.mark.parametrize("distance", VECTORS)
@given(table=tables, lists=many_lists)
def test_dense_and_sparse_vectors_are_as_far_apart_as_pair_by_pair(
    distance: Distance, table: list[list[float] | None], lists: list[list[int]]
) -> None:
    dense = Lists.of_items(lists, vectors=known(table))
    expected = []
    for items in lists:
        vectors = [row for item in items if (row := table[item]) is not None]
        pairs = [pair_distance(one, other, distance) for one, other in combinations(vectors, 2)]
        expected.append(math.fsum(pairs) / len(pairs) if pairs else math.nan)
    np.testing.assert_allclose(ild(dense, ild_distance=distance), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(ild(sparse(dense), ild_distance=distance), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("distance", VECTORS)
@given(row=st.lists(st.floats(-1e3, 1e3, allow_subnormal=False), min_size=DIMENSIONS, max_size=DIMENSIONS))
def test_a_list_of_equal_items_is_not_diverse_at_all(distance: Distance, row: list[float]) -> None:
    lists = Lists.of_items([list(range(9))], vectors=[row] * 9)
    # Vectors of zeros have no direction to share.
    is_apart = distance is Distance.COSINE and math.hypot(*row) < LEAST_LENGTH
    for stored in (lists, sparse(lists)):
        assert ild(stored, ild_distance=distance)[0] == is_apart


@given(table=tables, lists=many_lists, no_features=st.sampled_from(NoFeatures))
def test_serendipity_is_the_same_for_dense_and_sparse_vectors(
    table: list[list[float] | None], lists: list[list[int]], no_features: NoFeatures
) -> None:
    train = [[item, (item + 3) % N_ITEMS] for item in range(len(lists))]
    dense = Lists.of_items(lists, truth=[items[1:4] for items in lists], train=train, vectors=known(table))
    for variant in (SerendipityVariant.RECOMMENDERS_COSINE, SerendipityVariant.EVIDENTLY):
        conventions = Conventions(serendipity_variant=variant, no_features=no_features)
        one, other = (
            RANKING["serendipity"].kernel(stored, 5, conventions) for stored in (dense, sparse(dense))
        )
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def crowd() -> Lists:
    random = np.random.default_rng(3)
    vectors = np.where(random.random((40, 6)) < 0.4, 0.0, random.normal(size=(40, 6)))
    words = [[f"w{word}" for word in random.integers(0, 9, 3)] for _ in range(40)]
    lists = [random.permutation(40)[: random.integers(0, 12)].tolist() for _ in range(50)]
    train = [random.permutation(40)[: random.integers(0, 9)].tolist() for _ in range(60)]
    truth = [items[::2] for items in lists]
    return Lists.of_items(lists, truth=truth, train=train, features=words, vectors=vectors.tolist())


def measured(lists: Lists) -> list[bytes]:
    """All variants that compare items, of lists with nothing kept."""
    fresh = replace(lists, context=replace(lists.context)) if lists.context else lists
    cases: list[tuple[str, Any]] = [("ild", {"ild_distance": distance}) for distance in Distance]
    cases += [("serendipity", {"serendipity_variant": variant}) for variant in SerendipityVariant]
    return [
        RANKING[name].kernel(fresh, 10, Conventions().changed(choices)).tobytes() for name, choices in cases
    ]


@pytest.mark.parametrize("is_sparse", [False, True])
def test_how_many_are_compared_at_once_changes_no_bit(
    is_sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = sparse(crowd()) if is_sparse else crowd()
    before = measured(lists)
    monkeypatch.setattr(spread, "MOST_IN_CACHE", 7)
    monkeypatch.setattr(similarity, "MOST_COMPARED", 5)
    assert measured(lists) == before


def test_lengths_neither_overflow_nor_vanish() -> None:
    vectors = np.array([[3e200, 4e200], [3e-200, 4e-200], [0.0, 0.0], [math.nan, 1.0]])
    assert lengths(vectors) == pytest.approx([5e200, 5e-200, 0, math.nan], nan_ok=True, rel=1e-15)
    assert cosine(vectors[0], vectors[1]) == pytest.approx(0, abs=1e-15)


def test_cosine_has_corners() -> None:
    one = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [math.nan, 1.0], [1.0, 1.0]])
    other = np.array([[1.0, 0.0], [-2.0, 0.0], [0.0, 3.0], [0.0, 0.0], [3.0, 3.0]])
    np.testing.assert_allclose(cosine(one, other), [1, 2, 1, math.nan, 0], atol=1e-15)
    assert euclid(one, one).tolist()[:3] == [0, 0, 0]
