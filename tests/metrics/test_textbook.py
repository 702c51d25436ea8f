"""Numbers that a person can check with pencil and paper, or that a source prints: a row per metric and case.

A row's value is the mean over its users, to the six digits that the sources print.
"""

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from users import User, batch, graded, hits, user

from spark_eval.conventions import ApDenominator, Conventions, Gain
from spark_eval.metrics import RANKING

DEFAULT = Conventions()
BY_HITS = Conventions(ap_denominator=ApDenominator.HITS)
BY_RELEVANT = Conventions(ap_denominator=ApDenominator.RELEVANT)
BY_K = Conventions(ap_denominator=ApDenominator.K)
EXP2 = Conventions(gain=Gain.EXP2)
BINARY = Conventions(gain=Gain.BINARY)

# Hits at ranks 1 and 3; C got only 3 items.
A = hits([1, 3], length=5, n_relevant=8)
B = hits([1, 3], length=5, n_relevant=3)
C = hits([1, 3], length=3, n_relevant=8)
ABC = [A, B, C]

# Seed documents, by their first three digits.
SEED_000 = [graded([0, 5, 1, 4, 2])]
SEED_000_CLICK = [hits([3], length=5, n_relevant=1)]
SEED_001 = [hits([1, 4, 5, 6], length=6, n_relevant=8)]
SEED_002_FIRST_HITS = [
    hits([1], length=3, n_relevant=1),
    hits([3], length=3, n_relevant=1),
    hits([], length=3, n_relevant=1),
]
SEED_002 = [hits([1, 4], length=6, n_relevant=2)]
SEED_002_GRADED = [graded([3, 2, 3, 0, 1, 2])]
SEED_004 = [
    user([11, 1, 17, 7, 21, 8, 0, 28, 9, 20], [11, 1, 7, 17, 21]),
    user([16, 1, 6, 18, 3, 4, 25, 19, 8, 14], [4, 16, 1]),
    user([24, 10, 26, 2, 8, 28, 4, 23, 13, 21], [26, 10, 22, 8]),
]
# Spark's own RankingMetricsSuite; its user without truth is let in as zero.
SPARK = [
    user([1, 6, 2, 7, 8, 3, 9, 10, 4, 5], [1, 2, 3, 4, 5]),
    user([4, 1, 5, 6, 2, 7, 3, 8, 9, 10], [1, 2, 3]),
    user([1, 2, 3, 4, 5], []),
]


class Row(NamedTuple):
    metric: str
    case: str
    users: Sequence[User]
    k: int
    value: float
    conventions: Conventions = DEFAULT


TABLE = [
    Row("precision", "three users, a short list", ABC, 5, 2 / 5),
    Row("precision", "seed 002", SEED_002, 6, 0.333333),
    Row("precision", "seed 004", SEED_004, 1, 0.666667),
    Row("precision", "seed 004", SEED_004, 5, 0.666667),
    Row("precision", "seed 004", SEED_004, 10, 0.366667),
    Row("precision", "Spark", SPARK, 1, 1 / 3),
    Row("precision", "Spark", SPARK, 5, 0.8 / 3),
    Row("recall", "2 of 8", [A], 5, 2 / 8),
    Row("recall", "2 of 3", [B], 5, 2 / 3),
    Row("recall", "only the hit at rank 1", [B], 2, 1 / 3),
    Row("recall", "Spark", SPARK, 5, 16 / 45),
    Row("recall_capped", "2 of 5 places, m = 8", [A], 5, 2 / 5),
    Row("recall_capped", "seed 004", SEED_004, 1, 0.666667),
    Row("recall_capped", "seed 004", SEED_004, 5, 0.805556),
    Row("recall_capped", "seed 004", SEED_004, 10, 0.916667),
    Row("f1", "P = 2/5, R = 2/8", [A], 5, 2 * 0.4 * 0.25 / 0.65),
    Row("f1", "P = 2/5, R = 2/3", [B], 5, 1 / 2),
    Row("f1", "mean of the users' own, (4/13 + 1/2 + 4/13) / 3", ABC, 5, 29 / 78),
    Row("hit_rate", "hits in two lists of three", SEED_002_FIRST_HITS, 3, 2 / 3),
    Row("hit_rate", "second list's hit is at rank 3", SEED_002_FIRST_HITS, 2, 1 / 3),
    Row("hit_rate", "seed 004", SEED_004, 1, 2 / 3),
    Row("ap", "three users, / min(m, k)", ABC, 5, 11 / 27),
    Row("ap", "three users, / m", ABC, 5, 35 / 108, BY_RELEVANT),
    Row("ap", "three users, / k", ABC, 5, 1 / 3, BY_K),
    Row("ap", "three users, / h", ABC, 5, 5 / 6, BY_HITS),
    Row("ap", "seed 001, / h", SEED_001, 6, 0.691667, BY_HITS),
    Row("ap", "seed 001, / min(8, 6)", SEED_001, 6, 0.461111),
    Row("ap", "seed 002", SEED_002, 6, 0.75),
    Row("ap", "seed 002", SEED_002, 3, 0.5),
    Row("ap", "seed 004", SEED_004, 1, 0.666667),
    Row("ap", "seed 004", SEED_004, 5, 0.702778),
    Row("ap", "seed 004", SEED_004, 10, 0.758333),
    Row("ap", "seed 004, / h", SEED_004, 1, 0.666667, BY_HITS),
    Row("ap", "seed 004, / h", SEED_004, 5, 0.862963, BY_HITS),
    Row("ap", "seed 004, / h", SEED_004, 10, 0.807407, BY_HITS),
    Row("ap", "Spark", SPARK, 10, 0.355026),
    Row("ar", "recalls 1/2 and 2/2 over 2", SEED_002, 6, 0.75),
    Row("ar", "recall 1/2 over 2", SEED_002, 3, 0.25),
    Row("ar", "recalls 1/8 and 2/8 over min(8, 5)", [A], 5, 3 / 40),
    Row("rr", "seed 002, first hit at rank 1, 3, none", SEED_002_FIRST_HITS, 3, 0.444444),
    Row("rr", "second list's hit is at rank 3", SEED_002_FIRST_HITS, 2, 1 / 3),
    Row("rr", "seed 004", SEED_004, 1, 0.666667),
    Row("rr", "seed 004", SEED_004, 5, 0.833333),
    Row("rr", "seed 004", SEED_004, 10, 0.833333),
    Row("rr", "Spark", SPARK, 10, 0.5),
    Row("rhr", "seed 000, a click at rank 3", SEED_000_CLICK, 5, 1 / 3),
    Row("rhr", "hits at ranks 1 and 3", [A], 5, 4 / 3),
    Row("rhr", "hits at ranks 1 and 4", SEED_002, 6, 1.25),
    Row("dcg", "seed 000", SEED_000, 5, 6.151061),
    Row("dcg", "seed 000's ideal", [graded([5, 4, 2, 1])], 5, 8.954396),
    Row("dcg", "seed 002, exp2", SEED_002_GRADED, 6, 13.848264, EXP2),
    Row("dcg", "seed 002's ideal, exp2", [graded([3, 3, 2, 2, 1])], 6, 14.595391, EXP2),
    Row("dcg", "1 + 1/2, whatever the relevance", [graded([3, 0, 2])], 3, 1.5, BINARY),
    Row("ndcg", "seed 000", SEED_000, 5, 0.686932),
    Row("ndcg", "seed 002, exp2", SEED_002_GRADED, 6, 0.9488107485678985, EXP2),
    Row("ndcg", "seed 002, exp2", SEED_002_GRADED, 3, 0.959454, EXP2),
    Row("ndcg", "seed 002", SEED_002_GRADED, 6, 0.960808),
    Row("ndcg", "seed 002", SEED_002_GRADED, 3, 0.977781),
    Row("ndcg", "the ideal holds a missed item, 1 / 5", [graded([1], missed=[5])], 1, 1 / 5),
    Row("ndcg", "1.5 / (1 + log_3 2), whatever the relevance", [graded([3, 0, 2])], 3, 0.919721, BINARY),
    Row("ndcg", "seed 004", SEED_004, 1, 0.666667, BINARY),
    Row("ndcg", "seed 004", SEED_004, 5, 0.785958, BINARY),
    Row("ndcg", "seed 004", SEED_004, 10, 0.841678, BINARY),
    Row("ndcg", "Spark", SPARK, 5, 0.328788),
    Row("ndcg", "Spark", SPARK, 10, 0.487913),
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.metric}@{row.k}, {row.case}")
def test_textbook(row: Row) -> None:
    values = RANKING[row.metric].kernel(batch(row.users), row.k, row.conventions)
    assert values.mean() == pytest.approx(row.value, abs=5e-7)


@pytest.mark.parametrize("metric", RANKING)
def test_every_metric_has_a_row(metric: str) -> None:
    assert metric in {row.metric for row in TABLE}
