"""Samples for review: the pairs that are drawn, estimates against worked numbers and a simulation, labels."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from spark_eval import evaluate_linkage, sample_pairs
from spark_eval.errors import DataError
from spark_eval.linkage.coded import CodedRelations, pair_hashes
from spark_eval.linkage.estimates import Stratum, cohens_kappa, estimates
from spark_eval.runners.local_rows import LocalTable

pytestmark = pytest.mark.usefixtures("engine_of_users")
N_PAIRS = 4_000


def test_worked_numbers() -> None:
    strata = [
        Stratum("a", True, 2000, 100, 97),
        Stratum("b", True, 500, 100, 70),
        Stratum("c", False, 1000, 100, 12),
        Stratum("d", False, 100_000, 200, 1),
    ]
    found = estimates(strata)
    expected = {"precision": (0.916, 0.015703), "recall": (0.786942, 0.135368), "f1": (0.846580, 0.078760)}
    for name, (value, error) in expected.items():
        assert found[name].value == pytest.approx(value, abs=5e-7)
        assert found[name].std_error == pytest.approx(error, abs=5e-7)


def test_a_sample_of_all_pairs_has_no_error() -> None:
    found = estimates([Stratum("a", True, 4, 4, 3), Stratum("b", False, 10, 10, 1)])
    assert [tuple(one[:2]) for one in found.values()] == [(0.75, 0.0)] * 3
    assert [tuple(one[2:]) for one in found.values()] == [pytest.approx((0.75, 0.75))] * 3
    nothing = estimates([Stratum("b", False, 10, 5, 0)])
    assert nothing["precision"] == nothing["recall"] == (None, None, None, None)
    with pytest.raises(DataError, match="strata a have") as few:
        estimates([Stratum("a", True, 9, 1, 1)])
    assert few.value.code == "TOO_FEW_REVIEWS"


def candidates() -> tuple[pa.Table, np.ndarray[Any, Any]]:
    """Pairs with scores, and which of them are matches: the more likely, the higher the score."""
    random = np.random.default_rng(0)
    score = random.random(N_PAIRS)
    table = pa.table({"a": np.arange(N_PAIRS), "b": np.arange(N_PAIRS) + N_PAIRS, "score": score})
    return table, random.random(N_PAIRS) < score**2


def estimate(drawn: pa.Table, is_match: Any, predicted: pa.Table) -> Any:
    labels = ["match" if is_match[pair] else "non_match" for pair in drawn["a"].to_pylist()]
    reviews = pa.table({"a": drawn["b"], "b": drawn["a"], "reviewer": ["ann"] * len(labels), "label": labels})
    found = evaluate_linkage(predicted, sample=drawn, reviews=reviews)
    return {row.metric: (row.value, row.std_error) for row in found.rows}


@pytest.mark.parametrize(
    "n_samples", [60, pytest.param(1000, marks=[pytest.mark.exhaustive, pytest.mark.slow])]
)
def test_errors_are_those_of_the_design(n_samples: int) -> None:
    """Over many seeds, estimates vary around the truth as their errors say."""
    table, is_match = candidates()
    predicted = table.filter(pa.array(np.asarray(table["score"]) >= 0.6))
    is_predicted = np.asarray(table["score"]) >= 0.6
    truth = {
        "estimated_precision": (is_match & is_predicted).sum() / is_predicted.sum(),
        "estimated_recall": (is_match & is_predicted).sum() / is_match.sum(),
        "estimated_f1": 2 * (is_match & is_predicted).sum() / (is_match.sum() + is_predicted.sum()),
    }
    options: Any = {"strata": [0.3, 0.8], "per_stratum": 120}
    samples = [sample_pairs(table, predicted, seed=seed, **options) for seed in range(n_samples)]
    found = [estimate(drawn, is_match, predicted) for drawn in samples]
    for metric, value in truth.items():
        values = np.array([one[metric][0] for one in found])
        errors = np.array([one[metric][1] for one in found])
        spread = values.std(ddof=1)
        assert abs(values.mean() - value) < 4 * spread / n_samples**0.5, metric
        # The standard deviation of n values has a relative error of 1/sqrt(2 (n - 1)).
        assert abs(errors.mean() / spread - 1) < 4 / (2 * (n_samples - 1)) ** 0.5, metric
        assert np.mean(np.abs(values - value) < 1.96 * errors) > 0.85, metric


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32), order=st.integers(0, 9))
def test_the_same_pairs_are_drawn_in_any_order_of_rows(seed: int, order: int) -> None:
    table, _ = candidates()
    turned = table.take(np.random.default_rng(order).permutation(N_PAIRS))
    turned = turned.rename_columns(["b", "a", "score"])
    drawn, again = (
        sample_pairs(one, table[:9], strata=[0.5], per_stratum=5, seed=seed) for one in (table, turned)
    )
    assert drawn == again
    assert drawn["weight"].to_pylist() == [row["stratum_size"] / row["sampled"] for row in drawn.to_pylist()]
    assert len(drawn) == 2 * 5 + min(5, sum(np.asarray(table["score"])[:9] < 0.5)) + min(
        5, sum(np.asarray(table["score"])[:9] >= 0.5)
    )


def test_hashes_are_those_of_spark(spark: SparkSession) -> None:
    table = pa.table({"a": ["2", "zw\u00f6lf"], "b": ["1", "1"]})
    relations = CodedRelations.of({"pairs": LocalTable.of(table)}, scored="pairs")
    pairs: Any = relations.tables["pairs"]
    [row] = spark.sql("SELECT xxhash64(7L, '1', '2'), xxhash64(7L, '1', 'zw\u00f6lf')").collect()
    assert pair_hashes(pairs, 7).tolist() == list(row)


def reviews(rows: list[tuple[str, str, str, str]]) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table(dict(zip(("a", "b", "reviewer", "label"), map(list, columns), strict=True)))


SAMPLE = pa.table(
    {
        "a": list("aaab"),
        "b": list("bcdc"),
        "stratum": ["predicted", "predicted", "not predicted", "not predicted"],
        "stratum_size": [10, 10, 20, 20],
        "sampled": [2] * 4,
        "weight": [5.0, 5.0, 10.0, 10.0],
    }
)
LINKS = pa.table({"a": ["a", "c"], "b": ["b", "a"]})
ANN = [("a", "b", "ann", "match"), ("c", "a", "ann", "match"), ("a", "d", "ann", "non_match")]


def test_labels_are_decided_by_majority_and_ties_are_counted() -> None:
    rest = [("b", "c", "ann", "match"), ("x", "y", "ann", "match")]
    bob = [("a", "b", "bob", "match"), ("a", "c", "bob", "non_match"), ("b", "c", "bob", "unsure")]
    cid = [("a", "c", "cid", "non_match")]
    found = evaluate_linkage(LINKS, sample=SAMPLE, reviews=reviews([*ANN, *rest, *bob, *cid]))
    # ab match, ac two to one against, ad not, bc match.
    assert found.value("estimated_precision") == 0.5
    assert found.value("estimated_recall") == 5 / 15
    lines = {(one.source, one.outcome, one.reason): one.rows for one in found.entries}
    assert lines["reviews", "dropped", "not_sampled"] == 1
    assert lines["reviewed pairs", "used", None] == 4
    tied = evaluate_linkage(
        LINKS,
        sample=SAMPLE.slice(0, 2).append_column("more", [[1, 2]]),
        reviews=reviews([*ANN[:2], ("a", "b", "bob", "match")]),
    )
    assert tied.value("estimated_precision") == 1.0
    with pytest.raises(DataError, match="not predicted") as few:
        evaluate_linkage(LINKS, sample=SAMPLE, reviews=reviews([*ANN, ("a", "d", "bob", "match")]))
    assert few.value.code == "TOO_FEW_REVIEWS"


@pytest.mark.parametrize("links", [LINKS[:1], pa.table({"record": list("abcd"), "cluster": [1, 1, 1, 1]})])
def test_a_sample_of_other_links_is_refused(links: pa.Table) -> None:
    with pytest.raises(DataError, match="sampled pairs were drawn with other predicted links") as refused:
        evaluate_linkage(links, sample=SAMPLE, reviews=reviews(ANN))
    assert refused.value.code == "LINKS_DIFFER"


def test_agreement_of_reviewers() -> None:
    one = {("a", str(at)): "match" if at < 25 else "non_match" for at in range(50)}
    # 20 and 15 agreed of 50, 5 and 10 not: .7 agreed, .5 by chance.
    other = {("a", str(at)): "match" if at < 20 or at >= 40 else "non_match" for at in range(50)}
    assert cohens_kappa({"ann": one, "bob": other}) == (0.4, 50)
    assert cohens_kappa({"ann": one}) == (None, 0)
    assert cohens_kappa({"ann": one, "bob": one}) == (1.0, 50)
    # All labels alike: no kappa, but pairs in common; beside two reviewers with one, they do not count.
    alike = {("a", str(at)): "match" for at in range(10)}
    assert cohens_kappa({"ann": alike, "bob": alike}) == (None, 10)
    assert cohens_kappa({"ann": alike, "bob": alike, "cid": alike}) == (None, 30)
    assert cohens_kappa({"ann": alike, "bob": alike | other, "cid": one}) == cohens_kappa(
        {"bob": alike | other, "cid": one}
    )


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([("a", "b", "ann", "yes")], "UNKNOWN_LABEL"),
        ([("a", "b", "ann", "match"), ("b", "a", "ann", "match")], "DUPLICATE_REVIEW"),
    ],
)
def test_labels_that_cannot_be_used_are_refused(rows: Any, code: str) -> None:
    with pytest.raises(DataError) as refused:
        evaluate_linkage(LINKS, sample=SAMPLE, reviews=reviews(rows))
    assert refused.value.code == code
