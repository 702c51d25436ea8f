"""Empty tables are refused by name, and pairs of two sources are told apart, in either engine."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_eval import evaluate_linkage, sample_pairs
from spark_eval.errors import ConfigError, DataError

PAIRS = pa.table({"a": [1, 2], "b": [2, 3]})
SCORED = PAIRS.append_column("score", [[0.5, 0.75]])
CLUSTERS = pa.table({"record": [1, 2, 3], "cluster": [1, 1, 2]})
REVIEWS = pa.table({"a": [1], "b": [2], "reviewer": ["ann"], "label": ["match"]})
SAMPLE = sample_pairs(PAIRS, PAIRS, engine="local")


@pytest.fixture(params=["local", pytest.param("spark", marks=pytest.mark.slow)])
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if name == "spark":
        request.getfixturevalue("spark")
    return name


def all_null(table: pa.Table) -> pa.Table:
    """As many rows, without a value."""
    return pa.table({field.name: pa.nulls(len(table), field.type) for field in table.schema})


def one_null(table: pa.Table) -> pa.Table:
    """The same rows, each without its first value."""
    return table.set_column(0, table.schema.names[0], pa.nulls(len(table), table.schema.types[0]))


def not_finite(table: pa.Table) -> pa.Table:
    """The same rows with scores that are not finite."""
    return table.set_column(2, "score", [[float("nan"), float("inf")]])


NOTHING = {"no row": lambda table: table.slice(0, 0), "nulls": all_null, "a null each": one_null}
TABLES = {
    "predicted pairs": ("predicted", PAIRS),
    "predicted clusters": ("predicted", CLUSTERS),
    "true pairs": ("true", PAIRS),
    "true clusters": ("true", CLUSTERS),
    "candidates": ("candidates", PAIRS),
}


@pytest.mark.parametrize("emptied", NOTHING.values(), ids=NOTHING)
@pytest.mark.parametrize(("name", "table"), TABLES.values(), ids=TABLES)
def test_linkage_of_an_empty_table_is_refused(engine: str, emptied: Any, name: str, table: pa.Table) -> None:
    with pytest.raises(DataError, match=f"{name}: none of {len(emptied(table))} rows") as refused:
        evaluate_linkage(**({"predicted": PAIRS, "true": PAIRS} | {name: emptied(table)}), engine=engine)
    assert refused.value.code == "EMPTY_INPUT"


@pytest.mark.parametrize("emptied", [*NOTHING.values(), not_finite], ids=[*NOTHING, "not finite"])
@pytest.mark.parametrize("name", ["candidates", "predicted"])
def test_samples_of_an_empty_table_are_refused(engine: str, emptied: Any, name: str) -> None:
    with pytest.raises(DataError, match=f"{name}: none of") as refused:
        sample_pairs(**({"candidates": SCORED, "predicted": SCORED} | {name: emptied(SCORED)}), engine=engine)
    assert refused.value.code == "EMPTY_INPUT"


@pytest.mark.parametrize("emptied", NOTHING.values(), ids=NOTHING)
@pytest.mark.parametrize("name", ["sample", "reviews"])
def test_reviews_of_nothing_are_refused(emptied: Any, name: str) -> None:
    tables = {"sample": SAMPLE, "reviews": REVIEWS}
    with pytest.raises(DataError, match=f"{name}: none of") as refused:
        evaluate_linkage(PAIRS, **(tables | {name: emptied(tables[name])}), engine="local")
    assert refused.value.code == "EMPTY_INPUT"


def test_empty_tables_are_found_together() -> None:
    with pytest.raises(
        DataError, match=r"predicted: none of 2 rows.*also \[EMPTY_INPUT\] true: none of 0 rows"
    ):
        evaluate_linkage(all_null(PAIRS), CLUSTERS.slice(0, 0), engine="local")


def of_sources(table: pa.Table) -> pa.Table:
    """The same pairs as of one source: ids have a prefix of their side."""
    sides = {"a": "crm-", "b": "web-"}
    return pa.table(
        {
            name: [f"{sides[name]}{one}" for one in table[name].to_pylist()] if name in sides else table[name]
            for name in table.column_names
        }
    )


def two_sources(seed: int, n: int = 200) -> dict[str, pa.Table]:
    """Pairs of two sources that number their records alike; a pair and its reverse are different."""
    random = np.random.default_rng(seed)

    def drawn(n_pairs: int) -> pa.Table:
        a = random.integers(0, n, n_pairs)
        same = random.random(n_pairs) < 0.3
        return pa.table({"a": a, "b": np.where(same, a, random.integers(0, n // 8, n_pairs))})

    true, candidates = drawn(300), drawn(600)
    mixed = pa.concat_tables([true.slice(0, 150), candidates.slice(0, 150)])
    return {
        "predicted": mixed,
        "true": true,
        "candidates": candidates.append_column("score", pa.array(random.random(600).round(1))),
    }


@pytest.mark.parametrize("seed", range(3))
def test_two_sources_have_the_numbers_of_ids_with_prefixes(engine: str, seed: int) -> None:
    tables = two_sources(seed)
    prefixed = {name: of_sources(table) for name, table in tables.items()}
    found = evaluate_linkage(**tables, engine=engine, sources="bipartite")
    expected = {row.metric: row for row in evaluate_linkage(**prefixed, engine="local").rows}
    n = [len(set().union(*(table[side].to_pylist() for table in tables.values()))) for side in "ab"]
    for row in found.rows:
        if row.metric != "reduction_ratio":
            assert row == expected[row.metric]
    n_candidates = len(set(zip(*(tables["candidates"][side].to_pylist() for side in "ab"), strict=True)))
    assert found.value("reduction_ratio") == pytest.approx(1 - n_candidates / (n[0] * n[1]), rel=1e-14)
    assert not [one for one in found.entries if one.reason == "self_pair"]


@pytest.mark.parametrize("seed", range(3))
def test_samples_and_reviews_of_two_sources(engine: str, seed: int) -> None:
    """Strata are those of ids with prefixes; a label is of the pair as it is written, not of its reverse."""
    tables = two_sources(seed)
    options: Any = {"strata": [0.5], "per_stratum": 10_000}
    drawn = sample_pairs(
        tables["candidates"], tables["predicted"], engine=engine, sources="bipartite", **options
    )
    whole = sample_pairs(
        of_sources(tables["candidates"]), of_sources(tables["predicted"]), engine="local", **options
    )
    rows, expected = (
        sorted(one.select(["a", "b", "stratum", "weight"]).to_pylist(), key=str)
        for one in (of_sources(drawn), whole)
    )
    assert rows == expected

    def reviews(of: pa.Table) -> pa.Table:
        labels = ["match" if a[-1:] == b[-1:] else "non_match" for a, b in zip(*ids(of), strict=True)]
        return (
            of.select(["a", "b"])
            .append_column("reviewer", [["ann"] * len(of)])
            .append_column("label", [labels])
        )

    def ids(of: pa.Table) -> list[list[str]]:
        return [list(map(str, of[name].to_pylist())) for name in "ab"]

    found = evaluate_linkage(
        tables["predicted"], sample=drawn, reviews=reviews(drawn), engine=engine, sources="bipartite"
    )
    other = evaluate_linkage(
        of_sources(tables["predicted"]), sample=whole, reviews=reviews(whole), engine="local"
    )
    assert found.rows == other.rows


def test_links_of_two_sources_that_number_alike(engine: str) -> None:
    links, true = pa.table({"a": [1, 2, 3], "b": [1, 2, 5]}), pa.table({"a": [1, 2, 3], "b": [1, 2, 3]})
    found = evaluate_linkage(links, true, engine=engine, sources="bipartite")
    assert [row.value for row in found.rows] == [2 / 3, 2 / 3, 2 / 3]
    with pytest.raises(DataError, match=r"true: none of 3 rows.*sources: bipartite") as refused:
        evaluate_linkage(links, true, engine=engine)
    assert refused.value.code == "EMPTY_INPUT"


def test_many_self_pairs_are_a_warning_that_names_the_key(
    engine: str, caplog: pytest.LogCaptureFixture
) -> None:
    links, true = pa.table({"a": [1, 2, 3], "b": [1, 2, 5]}), pa.table({"a": [1, 2], "b": [1, 3]})
    evaluate_linkage(links, true, engine=engine)
    told = [one.getMessage() for one in caplog.records if "SELF_PAIRS" in one.getMessage()]
    assert len(told) == 1
    assert "predicted: 2 of 3" in told[0]
    assert "true: 1 of 2" in told[0]
    assert "sources: bipartite" in told[0]
    caplog.clear()
    evaluate_linkage(links, true, engine=engine, sources="bipartite")
    evaluate_linkage(pa.table({"a": range(40), "b": [0, *range(2, 41)]}), true.slice(1), engine=engine)
    assert not [one for one in caplog.records if "SELF_PAIRS" in one.getMessage()]


def test_what_two_sources_cannot_be(engine: str) -> None:
    with pytest.raises(DataError, match="predicted: clusters do not say which source") as refused:
        evaluate_linkage(CLUSTERS, PAIRS, engine=engine, sources="bipartite")
    assert refused.value.code == "MISSING_COLUMN"
    for n_records in ([6], [1, 9]):
        with pytest.raises(ConfigError, match="n_records") as wrong:
            evaluate_linkage(
                PAIRS, PAIRS, candidates=PAIRS, engine=engine, sources="bipartite", n_records=n_records
            )
        assert wrong.value.code == "OUT_OF_RANGE"
