"""Linkage: worked numbers, a second computation by pairs, accounting, and what is refused."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from spark_eval import Linkage, evaluate_linkage
from spark_eval.errors import ConfigError, DataError
from spark_eval.linkage.clusters import Contingency
from spark_eval.linkage.coded import CodedRelations
from spark_eval.runners.local_rows import LocalTable

# Clusters of records, by record.
Clustering = Mapping[int, int]
CLUSTERINGS = st.dictionaries(st.integers(0, 12), st.integers(0, 4), min_size=1, max_size=13)
PREDICTED = dict(zip(range(1, 9), map(int, "11232444"), strict=True))
TRUE = dict(zip(range(1, 9), map(int, "11122334"), strict=True))


def frame(clusters: Clustering) -> pa.Table:
    records, labels = list(clusters), list(clusters.values())
    return pa.table({"record": pa.array(records, pa.int64()), "cluster": pa.array(labels, pa.int64())})


def pairs(rows: Sequence[tuple[Any, Any]]) -> pa.Table:
    return pa.table({"a": [row[0] for row in rows], "b": [row[1] for row in rows]})


def rows_used(found: Linkage, source: str) -> int:
    [n] = [entry.rows for entry in found.entries if entry[:4] == (source, None, "used", None)]
    return n


def test_worked_numbers() -> None:
    found = evaluate_linkage(frame(PREDICTED), frame(TRUE))
    expected = {
        "pairwise_precision": 0.4,
        "pairwise_recall": 0.4,
        "pairwise_f1": 0.4,
        "bcubed_precision": 0.708333,
        "bcubed_recall": 0.708333,
        "bcubed_f1": 0.708333,
        "bcubed_precision_by_cluster": 0.645833,
        "bcubed_recall_by_cluster": 0.763889,
        "cluster_exact_precision": 0.0,
        "cluster_exact_recall": 0.0,
        "cluster_closest_precision": 0.541667,
        "cluster_closest_recall": 0.541667,
    }
    for metric, value in expected.items():
        assert found.value(metric) == pytest.approx(value, abs=5e-7), metric


def members(clusters: Clustering) -> list[set[int]]:
    return [{one for one in clusters if clusters[one] == label} for label in sorted(set(clusters.values()))]


def plain(predicted: Clustering, true: Clustering, missing: str) -> dict[str, Fraction | None]:
    """The same by sets, in fractions; a missing record has the cluster -1 - record."""
    either, both = predicted.keys() | true.keys(), predicted.keys() & true.keys()
    both = either if missing == "singleton" else both
    predicted, true = ({one: clusters.get(one, -1 - one) for one in both} for clusters in (predicted, true))
    ours, theirs = members(predicted), members(true)
    links = [{pair for one in of_one for pair in combinations(sorted(one), 2)} for of_one in (ours, theirs)]

    def mean(values: Sequence[Fraction]) -> Fraction | None:
        return sum(values, Fraction()) / len(values) if values else None

    def overlap(one: int, whose: Clustering) -> Fraction:
        own = {other for other in both if predicted[other] == predicted[one] and true[other] == true[one]}
        return Fraction(len(own), sum(whose[other] == whose[one] for other in both))

    def best(one: set[int], others: Sequence[set[int]]) -> Fraction:
        return max(Fraction(len(one & other), len(one | other)) for other in others)

    found: dict[str, Fraction | None] = {}
    for name, whose, own, other, clusters in (
        ("precision", predicted, links[0], links[1], (ours, theirs)),
        ("recall", true, links[1], links[0], (theirs, ours)),
    ):
        found[f"pairwise_{name}"] = Fraction(len(own & other), len(own)) if own else None
        found[f"bcubed_{name}"] = mean([overlap(one, whose) for one in both])
        by_cluster = [mean([overlap(one, whose) for one in cluster]) or Fraction() for cluster in theirs]
        found[f"bcubed_{name}_by_cluster"] = mean(by_cluster)
        found[f"cluster_exact_{name}"] = mean([Fraction(one in clusters[1]) for one in clusters[0]])
        found[f"cluster_closest_{name}"] = mean([best(one, clusters[1]) for one in clusters[0]])
    return found


@settings(max_examples=60, deadline=None)
@given(predicted=CLUSTERINGS, true=CLUSTERINGS, missing=st.sampled_from(["singleton", "leave_out"]))
def test_clusters_are_those_of_a_computation_by_sets(
    predicted: Clustering, true: Clustering, missing: str
) -> None:
    found = evaluate_linkage(frame(predicted), frame(true), missing=missing)
    for metric, value in plain(predicted, true, missing).items():
        expected = None if value is None else pytest.approx(float(value), rel=1e-12)
        assert found.value(metric) == expected, metric
    assert rows_used(found, "predicted") == len(predicted.keys() & true.keys())
    outcome = "used" if missing == "singleton" else "dropped"
    lines = {(one.source, one.outcome): one.rows for one in found.entries if one.reason == "not_in_both"}
    lacking = {
        ("predicted", outcome): len(predicted.keys() - true.keys()),
        ("true", outcome): len(true.keys() - predicted.keys()),
    }
    assert lines == {key: n for key, n in lacking.items() if n}


PAIRWISE = ("pairwise_precision", "pairwise_recall", "pairwise_f1")


@settings(max_examples=60, deadline=None)
@given(predicted=CLUSTERINGS, seed=st.integers(0, 99))
def test_singletons_may_be_listed_or_left_out(predicted: Clustering, seed: int) -> None:
    """Any table without some of its singletons has the numbers of the whole one; so have its pairs."""
    random = np.random.default_rng(seed)
    true = {one: int(random.integers(0, 4)) for one in predicted}
    whole = evaluate_linkage(frame(predicted), frame(true))

    def without(clusters: Clustering, keeps: Clustering) -> Clustering:
        sizes = {one: sum(other == label for other in clusters.values()) for one, label in clusters.items()}
        return {
            one: label
            for one, label in clusters.items()
            if sizes[one] > 1 or one not in keeps or random.random() < 0.5
        }

    fewer = without(predicted, true)
    less = without(true, fewer)  # each record is in one table at least
    assume(fewer and less)
    for tables in ((fewer, true), (fewer, less), (predicted, less)):
        both = {*tables[0], *tables[1]} == {*predicted}
        found = evaluate_linkage(*map(frame, tables))
        for row in whole.rows:
            if both or row.metric in PAIRWISE:
                assert found.value(row.metric) == row.value, (row.metric, tables)
    links = [pair for one in members(predicted) for pair in combinations(sorted(one), 2)]
    assume(links)
    of_pairs = evaluate_linkage(pairs(links), frame(less))
    assert [of_pairs.value(metric) for metric in PAIRWISE] == [whole.value(metric) for metric in PAIRWISE]


def test_pairs_of_records_without_a_cluster_are_wrong_or_left_out() -> None:
    links, true = pairs([(1, 2), (3, 4), (3, 5)]), frame({1: 0, 2: 0, 3: 1})
    found = evaluate_linkage(links, true)
    assert [found.value(metric) for metric in PAIRWISE] == [1 / 3, 1.0, 0.5]
    found = evaluate_linkage(links, true, missing="leave_out")
    assert [found.value(metric) for metric in PAIRWISE] == [1.0, 1.0, 1.0]


def test_the_preset_of_er_evaluation() -> None:
    """Its inner join leaves records out, and its pairwise metrics of no pair are 1."""
    none, other = frame({1: 0, 2: 1, 3: 2}), frame({1: 5, 2: 6, 9: 6})
    found = evaluate_linkage(none, other, conventions="er_evaluation")
    assert [found.value(metric) for metric in PAIRWISE] == [1.0, 1.0, 1.0]
    found = evaluate_linkage(none, frame({1: 5, 2: 5}), conventions="er_evaluation")
    assert [found.value(metric) for metric in PAIRWISE] == [1.0, 0.0, 0.0]
    found = evaluate_linkage(none, other, conventions="er_evaluation", missing="singleton")
    assert [found.value(metric) for metric in PAIRWISE] == [1.0, 0.0, 0.0]
    found = evaluate_linkage(none, other)
    assert [found.value(metric) for metric in PAIRWISE] == [None, 0.0, 0.0]


@settings(max_examples=40, deadline=None)
@given(predicted=CLUSTERINGS, seed=st.integers(0, 99))
def test_pairs_and_clusters_agree_and_the_order_of_rows_does_not_matter(
    predicted: Clustering, seed: int
) -> None:
    """The same links as pairs, in any order and either direction, once or twice, give the same numbers."""
    random = np.random.default_rng(seed)
    true = {one: int(random.integers(0, 4)) for one in predicted}
    links = [pair for one in members(predicted) for pair in combinations(sorted(one), 2)]
    assume(links)
    turned = [pair[::-1] if random.random() < 0.5 else pair for pair in links * 2]
    table = pairs([turned[at] for at in random.permutation(len(turned))]).cast(
        pa.schema({"a": pa.int64(), "b": pa.int64()})
    )
    found, of_clusters = (evaluate_linkage(one, frame(true)) for one in (table, frame(predicted)))
    for metric in ("pairwise_precision", "pairwise_recall", "pairwise_f1"):
        assert found.value(metric) == of_clusters.value(metric)


def test_one_cluster_of_a_million_records_is_no_exception() -> None:
    n = 1_000_000
    found = Contingency.of(np.zeros(n, dtype=np.int64), np.arange(n) // 2)
    assert (found.n_common, found.n_predicted_pairs) == (n // 2, n * (n - 1) // 2)


def test_every_row_of_pairs_is_accounted_for() -> None:
    predicted = pa.table({"a": ["x", "y", "x", "x", None, "x"], "b": ["y", "x", "x", "z", "y", "w"]})
    true = pa.table({"record": ["x", "y", "z", "x"], "cluster": [1, 1, 2, 1]})
    found = evaluate_linkage(predicted, true)
    lines = {(one.source, one.outcome, one.reason): one.rows for one in found.entries}
    assert lines == {
        ("predicted", "in", None): 6,
        ("predicted", "used", None): 2,
        ("predicted", "dropped", "null_value"): 1,
        ("predicted", "dropped", "self_pair"): 1,
        ("predicted", "deduplicated", "repeated_pair"): 1,
        ("predicted", "used", "not_in_both"): 1,
        ("true", "in", None): 4,
        ("true", "used", None): 3,
        ("true", "deduplicated", "repeated_record"): 1,
    }
    # Of xy and xz, and xw, whose w has no cluster, xy is true.
    assert (found.value("pairwise_precision"), found.value("pairwise_recall")) == (1 / 3, 1.0)


def test_a_repeated_pair_has_its_highest_score() -> None:
    rows = {"a": [3, 1, 2, 1, 4], "b": [1, 2, 1, 3, 4], "score": [0.5, 0.25, 0.75, 0.125, 1.0]}
    found = CodedRelations.of({"predicted": LocalTable.of(pa.table(rows))}, scored="predicted")
    pairs: Any = found.tables["predicted"]
    assert list(zip(pairs.least.tolist(), pairs.greatest.tolist(), pairs.scores.tolist(), strict=True)) == [
        (0, 1, 0.75),
        (0, 2, 0.5),
    ]


def test_blocking() -> None:
    """Six candidates of 28 pairs of eight records; two of the five true pairs are among them."""
    candidates = pairs([(1, 2), (2, 1), (1, 3), (1, 4), (1, 5), (1, 6), (6, 8)])
    found = evaluate_linkage(frame(PREDICTED), frame(TRUE), candidates=candidates)
    assert found.value("pair_completeness") == 2 / 5
    assert found.value("pair_quality") == 2 / 6
    assert found.value("reduction_ratio") == 1 - 6 / 28
    assert found.value("candidates_per_record") == 12 / 8
    two = evaluate_linkage(frame(PREDICTED), frame(TRUE), candidates=candidates, n_records=[4, 5])
    assert two.value("reduction_ratio") == 1 - 6 / 20


def test_frames_of_pandas_and_text_ids() -> None:
    table = pd.DataFrame({"a": ["x", "y"], "b": ["y", "z"], "score": [0.5, 0.25]})
    assert evaluate_linkage(table, table[:1]).table("linkage")["value"].tolist() == [0.5, 1.0, 2 / 3]


@pytest.mark.parametrize(
    ("predicted", "code"),
    [
        (pa.table({"a": [1], "c": [2]}), "MISSING_COLUMN"),
        (pa.table({"a": [1.5], "b": [2.5]}), "ID_IS_FLOAT"),
        (pa.table({"a": ["1"], "b": ["2"]}), "ID_TYPE_MISMATCH"),
        (pa.table({"record": [1, 1], "cluster": [1, 2]}), "RECORD_IN_TWO_CLUSTERS"),
    ],
)
def test_bad_tables_are_refused_by_name(predicted: pa.Table, code: str) -> None:
    with pytest.raises(DataError) as refused:
        evaluate_linkage(predicted, frame(TRUE))
    assert refused.value.code == code


def test_options_and_tables_that_lack_something_are_refused() -> None:
    for options, code in (
        ({}, "NOTHING_TO_COMPARE"),
        ({"reviews": frame(TRUE)}, "NOTHING_TO_COMPARE"),
        ({"true": frame(TRUE), "candidates": pairs([(1, 2)]), "n_records": [3]}, "OUT_OF_RANGE"),
        ({"true": frame(TRUE), "n_records": [0]}, "OUT_OF_RANGE"),
    ):
        asked: Any = options
        with pytest.raises(ConfigError) as refused:
            evaluate_linkage(frame(PREDICTED), **asked)
        assert refused.value.code == code
    with pytest.raises(ConfigError, match="pairwise_f1"):
        evaluate_linkage(frame(PREDICTED), frame(TRUE)).value("pairwise_f2")
