"""Numbers that the sources print or compute wrongly: the default must differ from each.

The wrong formula stands beside ours, so that the inputs are seen to tell the two apart.
"""

import math
from itertools import accumulate

import pytest
from choices import measured, one

from spark_eval.conventions import AverageDenominator, AverageVariant, Conventions, Gain
from users import User, graded, user


def test_validation_and_metrics_sorts_scores_ascending() -> None:
    labels = [0, 0, 1, 1, 0, 0]
    scores = [0.1, 0.2, 0.9, 0.8, 0.3, 0.4]
    worst_first = [label for _, label in sorted(zip(scores, labels, strict=True))]
    assert sum(worst_first[:2]) / 2 == 0.0
    assert one("precision", graded(worst_first[::-1]), 2) == 1.0


def test_validation_and_metrics_gives_minus_one_to_a_user_without_positives() -> None:
    assert one("precision", user([1, 2, 3], []), 2) == 0.0


@pytest.mark.parametrize(
    ("k", "printed", "correct"), [(1, 0, 2 / 3), (5, 0.3298, 0.785958), (10, 0.5956, 0.841678)]
)
def test_the_tutorial_passes_document_ids_as_scores(k: int, printed: float, correct: float) -> None:
    users = [
        user([11, 1, 17, 7, 21, 8, 0, 28, 9, 20], [11, 1, 7, 17, 21]),
        user([16, 1, 6, 18, 3, 4, 25, 19, 8, 14], [4, 16, 1]),
        user([24, 10, 26, 2, 8, 28, 4, 23, 13, 21], [26, 10, 22, 8]),
    ]
    mean = measured("ndcg", users, k, Conventions()).mean()
    assert mean == pytest.approx(correct, abs=5e-7)
    assert mean > printed + 0.2


def test_frameworks_sums_over_all_ranks() -> None:
    hits = [1, 0, 0, 1]
    found = list(accumulate(hits))
    wrong_ap = sum(n / rank for rank, n in enumerate(found, 1)) / 2
    wrong_ar = sum(n / 2 for n in found) / 2
    assert wrong_ap == pytest.approx(1.1667, abs=5e-5)
    assert wrong_ar == 1.25
    assert one("ap", graded(hits), 4) == 0.75
    assert one("ar", graded(hits), 4) == 0.75


@pytest.mark.parametrize("denominator", AverageDenominator)
def test_no_choice_gives_what_frameworks_sums(denominator: AverageDenominator) -> None:
    for variant in AverageVariant:
        conventions = Conventions(
            ap_denominator=denominator, ap_variant=variant, ar_denominator=denominator, ar_variant=variant
        )
        assert one("ap", graded([1, 0, 0, 1]), 4, conventions) <= 1
        assert one("ar", graded([1, 0, 0, 1]), 4, conventions) <= 1


@pytest.mark.parametrize("gain", Gain)
def test_spark_takes_the_graded_ideal_in_array_order(gain: Gain) -> None:
    perfect = User(recommended=[1, 2, 3], truth={3: 1, 2: 2, 1: 3})
    assert one("ndcg", perfect, 3, Conventions(gain=gain)) == 1.0


def test_spark_graded_ideal_is_no_ideal() -> None:
    def exp2_dcg(relevances: list[int]) -> float:
        return sum((2.0**rel - 1) / math.log2(rank + 1) for rank, rel in enumerate(relevances, 1))

    assert exp2_dcg([3, 2, 1]) / exp2_dcg([1, 2, 3]) == pytest.approx(1.469, abs=5e-4)


def test_repeated_truth_pushes_average_precision_of_other_libraries_above_one() -> None:
    rows = [1, 2, 1]
    wrong = sum(rows.count(item) for item in [1, 2, 3]) / len(set(rows))
    assert wrong == 1.5
    assert one("ap", user([1, 2, 3], rows), 3) == 1.0
