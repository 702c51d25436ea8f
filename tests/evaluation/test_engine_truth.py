"""What is relevant: all sound rows of a user and an item are combined first, then judged."""

from collections.abc import Mapping

import numpy as np
import oracle
import pyarrow as pa
import pytest
from drive import Tables, drive, table_of
from oracle import Recommendation, Relevance, Rules
from slow_ledger import counts_of_truth

from spark_eval.errors import ConfigError
from spark_eval.evaluation.plan import make_plan

METRICS = ("cg", "ndcg", "ndcg(gain=binary)", "precision", "fcp", "map(tie_order=worst)")
# The rows of one user and item, and which rules make the item relevant: the worked rows of the documents.
RATED_THEN_ZERO, TWICE_TWO, TENTHS, ZERO, DISLIKED = range(100, 105)
WORKED = [
    *((RATED_THEN_ZERO, 5.0, 1), (RATED_THEN_ZERO, 0.0, 2)),
    *((TWICE_TWO, 2.0, 1), (TWICE_TWO, 2.0, 2)),
    *((TENTHS, 0.1, time) for time in range(10)),
    (ZERO, 0.0, 1),
    *((DISLIKED, 3.0, 1), (DISLIKED, -4.0, 2)),
]
# Conventions, threshold, and the worked items that are relevant with their relevance.
CASES: Mapping[str, tuple[dict[str, str], float | None, dict[int, float]]] = {
    "max": (
        {},
        None,
        {RATED_THEN_ZERO: 5, TWICE_TWO: 2, TENTHS: 0.1, DISLIKED: 3},
    ),
    "max from 0": (
        {},
        0.0,
        {RATED_THEN_ZERO: 5, TWICE_TWO: 2, TENTHS: 0.1, ZERO: 0, DISLIKED: 3},
    ),
    "last": ({"truth_duplicates": "last"}, None, {TWICE_TWO: 2, TENTHS: 0.1}),
    "last from 4": ({"truth_duplicates": "last"}, 4.0, {}),
    "sum from 1": ({"truth_duplicates": "sum"}, 1.0, {RATED_THEN_ZERO: 5, TWICE_TWO: 4, TENTHS: 1}),
    "count from 2": (
        {"truth_duplicates": "count"},
        2.0,
        {RATED_THEN_ZERO: 2, TWICE_TWO: 2, TENTHS: 10, DISLIKED: 2},
    ),
}
WORKED_USER = -1


@pytest.fixture(scope="module")
def rows() -> tuple[list[Recommendation], list[Relevance]]:
    """Forty users with repeated rows of all signs, with faults; one with the worked rows alone."""
    random = np.random.default_rng(11)
    truth = [Relevance(WORKED_USER, item, relevance, time) for item, relevance, time in WORKED]
    lists = [Recommendation("als", WORKED_USER, item, -float(item)) for item in range(100, 105)]
    for user in range(40):
        for _ in range(random.integers(0, 14)):
            relevance = random.choice([-2.0, 0.0, 0.5, 2.0, 4.0, 5.0, float("nan")])
            item = None if random.random() < 0.05 else int(random.integers(5))
            truth.append(Relevance(user, item, float(relevance), int(random.integers(4))))
        lists += [Recommendation("als", user, item, float(random.integers(3))) for item in range(5)]
    return lists, truth


@pytest.mark.parametrize("name", CASES)
def test_rows_are_combined_and_then_judged(
    name: str, rows: tuple[list[Recommendation], list[Relevance]]
) -> None:
    conventions, threshold, worked = CASES[name]
    plan = make_plan(
        metrics=METRICS,
        k=3,
        conventions={"negative_relevance": "irrelevant", **conventions},
        threshold=threshold,
    )
    rules = Rules(plan.conventions, plan.metrics, are_scores=True)
    expected = oracle.evaluate(*rows, rules)
    judged = oracle.truth_by_user(rows[1], rules).get(WORKED_USER, {})
    assert judged == pytest.approx(worked)
    kind = pa.int64()
    tables = Tables(
        table_of(rows[0], model=pa.string(), user=kind, item=kind, score=pa.float64()),
        table_of(rows[1], user=kind, item=kind, relevance=pa.float64(), timestamp=kind),
    )
    found = drive(plan, tables)
    assert found.per_user.keys() == expected.keys()
    wrong = {
        (*key, column): (found.per_user[key][column], value[column])
        for key, value in expected.items()
        for column in ("n_relevant", *plan.columns)
        if oracle.number(found.per_user[key][column])
        != pytest.approx(value[column], rel=1e-12, abs=1e-12, nan_ok=True)
    }
    assert wrong == {}
    outcomes = {entry[2:4]: entry[4] for entry in found.entries if entry[0] == "truth" and entry[4]}
    assert outcomes == counts_of_truth(rows[1], rules)


@pytest.mark.parametrize("threshold", [-1.0, -0.5, float("nan"), float("inf")])
def test_a_threshold_that_judges_nothing_is_refused(threshold: float) -> None:
    with pytest.raises(ConfigError, match="smallest relevance of a relevant item, 0 or more") as raised:
        make_plan(threshold=threshold)
    assert raised.value.code == "INVALID_CHOICE"
