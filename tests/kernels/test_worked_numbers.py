"""The numbers that the sources print, each under the preset or the options of its source.

The sources: the pages "Evaluation Frameworks" (FRAMEWORKS) and "Evaluation Metrics and Their Limitations"
(LIMITATIONS), a course on recommenders (COURSE), the chapter "Validation and Metrics" (VALIDATION), and a
tutorial's notebook (TUTORIAL).

A row's value is the mean over its users, to the six digits that the sources print.
"""

from collections.abc import Sequence
from typing import NamedTuple

import pytest

from spark_eval.conventions.presets import conventions_of
from spark_eval.kernels.values import parse_metric
from users import User, batch, graded, hits, user


class Row(NamedTuple):
    preset: str
    metric: str
    users: Sequence[User]
    value: float


# Hits at ranks 1 and 3; A and B got 5 items, C only 3.
THREE = [hits([1, 3], 5, n_relevant=8), hits([1, 3], 5, n_relevant=3), hits([1, 3], 3, n_relevant=8)]

FRAMEWORKS = [graded([0, 5, 1, 4, 2])]
FRAMEWORKS_CLICK = [hits([3], length=5, n_relevant=1)]
COURSE = [hits([1, 4, 5, 6], length=6, n_relevant=8)]
VALIDATION_FIRST_HITS = [hits(ranks, length=3, n_relevant=1) for ranks in ([1], [3], [])]
VALIDATION = [hits([1, 4], length=6, n_relevant=2)]
VALIDATION_GRADED = [graded([3, 2, 3, 0, 1, 2])]
LIMITATIONS = [graded([1, 1, 0], scores=[0.9, 0.8, 0.7])]
TUTORIAL = [
    user([11, 1, 17, 7, 21, 8, 0, 28, 9, 20], [11, 1, 7, 17, 21]),
    user([16, 1, 6, 18, 3, 4, 25, 19, 8, 14], [4, 16, 1]),
    user([24, 10, 26, 2, 8, 28, 4, 23, 13, 21], [26, 10, 22, 8]),
]
# Spark's own RankingMetricsSuite; the population rule of its preset lets the user without truth in.
SPARK = [
    user([1, 6, 2, 7, 8, 3, 9, 10, 4, 5], [1, 2, 3, 4, 5]),
    user([4, 1, 5, 6, 2, 7, 3, 8, 9, 10], [1, 2, 3]),
    user([1, 2, 3, 4, 5], []),
]

FIVE_VALUES = [
    Row("rectools", "map@5", THREE, 35 / 108),
    Row("trec_eval", "map@5", THREE, 35 / 108),
    Row("ranx", "map@5", THREE, 35 / 108),
    Row("seed002", "map@5", THREE, 35 / 108),
    Row("default", "map(denominator=relevant)@5", THREE, 35 / 108),
    Row("rectools", "map(denominator=k)@5", THREE, 1 / 3),
    Row("default", "map(denominator=k)@5", THREE, 1 / 3),
    Row("default", "map@5", THREE, 11 / 27),
    Row("spark", "map@5", THREE, 11 / 27),
    Row("replay", "map@5", THREE, 11 / 27),
    Row("recommenders", "map@5", THREE, 11 / 27),
    Row("lenskit", "map@5", THREE, 13 / 27),
    Row("default", "map(denominator=min_relevant_length)@5", THREE, 13 / 27),
    Row("seed001", "map@5", THREE, 5 / 6),
    Row("seed004", "map@5", THREE, 5 / 6),
    Row("default", "map(denominator=hits)@5", THREE, 5 / 6),
]

SEEDS = [
    Row("seed000", "dcg@5", FRAMEWORKS, 6.151061),
    Row("seed000", "dcg@5", [graded([5, 4, 2, 1])], 8.954396),
    Row("seed000", "ndcg@5", FRAMEWORKS, 0.686932),
    Row("seed000", "arhr@5", FRAMEWORKS_CLICK, 1 / 3),
    Row("seed000", "arhr@2", FRAMEWORKS_CLICK, 0),
    Row("seed001", "map@6", COURSE, 0.691667),
    Row("default", "map@6", COURSE, 0.461111),
    Row("seed002", "mrr@3", VALIDATION_FIRST_HITS, 0.444444),
    Row("seed002", "mrr@2", VALIDATION_FIRST_HITS, 1 / 3),
    Row("seed002", "map@6", VALIDATION, 0.75),
    Row("seed002", "map@3", VALIDATION, 0.5),
    Row("default", "map@6", VALIDATION, 0.75),
    Row("default", "map@3", VALIDATION, 0.5),
    Row("seed002", "precision@6", VALIDATION, 0.333333),
    Row("seed002", "dcg@6", VALIDATION_GRADED, 13.848264),
    Row("seed002", "dcg@6", [graded([3, 3, 2, 2, 1])], 14.595391),
    Row("seed002", "ndcg@6", VALIDATION_GRADED, 0.9488107485678985),
    Row("seed002", "ndcg@3", VALIDATION_GRADED, 0.959454),
    Row("default", "ndcg@6", VALIDATION_GRADED, 0.960808),
    Row("default", "ndcg@3", VALIDATION_GRADED, 0.977781),
    Row("seed003", "gauc@3", LIMITATIONS, 1.0),
    Row("seed004", "recall@1", TUTORIAL, 0.666667),
    Row("seed004", "recall@5", TUTORIAL, 0.805556),
    Row("seed004", "recall@10", TUTORIAL, 0.916667),
    Row("default", "recall_capped@5", TUTORIAL, 0.805556),
    Row("seed004", "mrr@1", TUTORIAL, 0.666667),
    Row("seed004", "mrr@5", TUTORIAL, 0.833333),
    Row("seed004", "mrr@10", TUTORIAL, 0.833333),
    Row("seed004", "precision@1", TUTORIAL, 0.666667),
    Row("seed004", "precision@5", TUTORIAL, 0.666667),
    Row("seed004", "precision@10", TUTORIAL, 0.366667),
    Row("seed004", "map@1", TUTORIAL, 0.666667),
    Row("seed004", "map@5", TUTORIAL, 0.862963),
    Row("seed004", "map@10", TUTORIAL, 0.807407),
    Row("default", "map@1", TUTORIAL, 0.666667),
    Row("default", "map@5", TUTORIAL, 0.702778),
    Row("default", "map@10", TUTORIAL, 0.758333),
    Row("seed004", "ndcg@1", TUTORIAL, 0.666667),
    Row("seed004", "ndcg@5", TUTORIAL, 0.785958),
    Row("seed004", "ndcg@10", TUTORIAL, 0.841678),
]

OF_SPARK = [
    Row("spark", "precision@1", SPARK, 1 / 3),
    Row("spark", "precision@5", SPARK, 0.8 / 3),
    Row("spark", "recall@5", SPARK, 16 / 45),
    Row("spark", "map@10", SPARK, 0.355026),
    Row("spark", "map@all", SPARK, 0.355026),
    Row("spark", "ndcg@5", SPARK, 0.328788),
    Row("spark", "ndcg@10", SPARK, 0.487913),
    Row("spark", "mrr@10", SPARK, 0.5),
]


@pytest.mark.parametrize(
    "row", [*FIVE_VALUES, *SEEDS, *OF_SPARK], ids=lambda row: f"{row.preset}, {row.metric}, {row.value:.4g}"
)
def test_worked_number(row: Row) -> None:
    [value] = parse_metric(row.metric)
    columns = value.measure(batch(row.users), conventions_of(row.preset))
    assert columns[value.column].mean() == pytest.approx(row.value, abs=5e-7)


def test_five_conventions_give_five_values() -> None:
    assert len({round(row.value, 3) for row in FIVE_VALUES}) == 5
