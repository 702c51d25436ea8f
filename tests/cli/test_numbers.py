"""Numbers that the sources print, through the public command: what a reader of a document would get."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from users import User, graded, hits, user

if TYPE_CHECKING:
    from tests.cli.conftest import Desk

pytestmark = pytest.mark.usefixtures("each_engine")

TUTORIAL = [
    user([11, 1, 17, 7, 21, 8, 0, 28, 9, 20], [11, 1, 7, 17, 21]),
    user([16, 1, 6, 18, 3, 4, 25, 19, 8, 14], [4, 16, 1]),
    user([24, 10, 26, 2, 8, 28, 4, 23, 13, 21], [26, 10, 22, 8]),
]
# Each case is a model with users of its own.
CASES: Mapping[str, Sequence[User]] = {
    "Evaluation Frameworks": [graded([0, 5, 1, 4, 2])],
    "Evaluation Frameworks, a click at rank 3": [hits([3], length=5, n_relevant=1)],
    "Evaluation Frameworks, hits 1 and 4": [hits([1, 4], length=4, n_relevant=2)],
    "Course on metrics": [hits([1, 4, 5, 6], length=6, n_relevant=4)],
    "Validation and Metrics, first hits": [hits(ranks, length=3, n_relevant=1) for ranks in ([1], [3], [])],
    "Validation and Metrics, hits 1 and 4": [hits([1, 4], length=6, n_relevant=2)],
    "Validation and Metrics": [graded([3, 2, 3, 0, 1, 2])],
    "Validation and Metrics, six labels": [hits([1, 2], length=6, n_relevant=2)],
    "Validation and Metrics, one without positives": [user([1, 2, 3], []), user([1, 2, 3], [1, 2])],
    "Tutorial": TUTORIAL,
    "Spark": [
        user([1, 6, 2, 7, 8, 3, 9, 10, 4, 5], [1, 2, 3, 4, 5]),
        user([4, 1, 5, 6, 2, 7, 3, 8, 9, 10], [1, 2, 3]),
        user([1, 2, 3, 4, 5], []),
    ],
    "Spark, graded": [User([1, 2, 3], {3: 1, 2: 2, 1: 3})],
}
NUMBERS = [
    ("Evaluation Frameworks", "dcg", 5, 6.151061),
    ("Evaluation Frameworks", "ndcg", 5, 0.686932),
    ("Evaluation Frameworks", "ndcg(ideal=list)", 5, 0.686932),
    ("Evaluation Frameworks, a click at rank 3", "arhr", 5, 1 / 3),
    ("Evaluation Frameworks, hits 1 and 4", "map", 5, 0.75),  # its first formula gives 1.1667
    ("Evaluation Frameworks, hits 1 and 4", "mar", 5, 0.75),  # 1.25
    ("Course on metrics", "map(denominator=hits)", 6, 0.691667),
    ("Validation and Metrics, first hits", "mrr", 3, 0.444444),
    ("Validation and Metrics, hits 1 and 4", "map", 6, 0.75),
    ("Validation and Metrics, hits 1 and 4", "map", 3, 0.5),
    ("Validation and Metrics, hits 1 and 4", "precision", 6, 0.333333),
    ("Validation and Metrics", "dcg(gain=exp2)", 6, 13.848264),
    ("Validation and Metrics", "ndcg(gain=exp2)", 6, 0.9488107485678985),
    ("Validation and Metrics", "ndcg", 6, 0.960808),
    ("Validation and Metrics", "ndcg(gain=exp2)", 3, 0.959454),
    ("Validation and Metrics", "ndcg", 3, 0.977781),
    ("Validation and Metrics, six labels", "precision", 2, 1.0),  # its code sorts ascending and gives 0
    ("Validation and Metrics, one without positives", "precision", 2, 0.5),  # its code gives -1 for the one
    *(("Tutorial", "recall_capped", k, value) for k, value in ((1, 0.666667), (5, 0.805556), (10, 0.916667))),
    *(("Tutorial", "mrr", k, value) for k, value in ((1, 0.666667), (5, 0.833333), (10, 0.833333))),
    *(("Tutorial", "precision", k, value) for k, value in ((1, 0.666667), (5, 0.666667), (10, 0.366667))),
    *(
        ("Tutorial", "map(denominator=hits)", k, value)
        for k, value in ((1, 0.666667), (5, 0.862963), (10, 0.807407))
    ),
    *(("Tutorial", "map", k, value) for k, value in ((1, 0.666667), (5, 0.702778), (10, 0.758333))),
    *(("Tutorial", "ndcg(gain=binary)", k, v) for k, v in ((1, 0.666667), (5, 0.785958), (10, 0.841678))),
    ("Spark", "precision", 1, 1 / 3),
    ("Spark", "precision", 5, 0.8 / 3),
    ("Spark", "recall", 5, 16 / 45),
    ("Spark", "map", 10, 0.355026),
    ("Spark", "ndcg", 5, 0.328788),
    ("Spark", "ndcg", 10, 0.487913),
    ("Spark", "mrr", 10, 0.5),
    ("Spark, graded", "ndcg(gain=exp2)", 3, 1.0),  # Spark gives 1.469
]


def tables(cases: Mapping[str, Sequence[User]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Recommendations with scores that fall along the list, and truth; no user is in two cases."""
    lists, truth = [], []
    for model, users in cases.items():
        for number, one in enumerate(users):
            name = f"{model} {number}"
            lists += [(model, name, item, -rank / 8) for rank, item in enumerate(one.recommended)]
            truth += [(name, item, float(relevance)) for item, relevance in one.truth.items()]
    return (
        pd.DataFrame(lists, columns=["model", "user", "item", "score"]),
        pd.DataFrame(truth, columns=["user", "item", "relevance"]),
    )


def measured(desk: "Desk", cases: Mapping[str, Sequence[User]], **evaluate: Any) -> pd.Series:
    """Values by model, metric and k."""
    recommendations, truth = tables(cases)
    desk.tree["recommendations"] = {"path": str(desk.write("lists of users", recommendations))}
    desk.tree["truth"] = {"path": str(desk.write("truth", truth))}
    desk.tree["evaluate"] = evaluate
    desk.done("evaluate", "--run-id", "numbers", "--replace")
    return desk.table("metrics").set_index(["model", "metric", "k"])["value"]


@pytest.fixture(scope="module")
def values(each_engine: str, tmp_path_factory: pytest.TempPathFactory, new_desk: "type[Desk]") -> pd.Series:
    # Users of one case have no lists in the others; those without truth count with 0.
    return measured(
        new_desk(tmp_path_factory.mktemp(f"numbers-{each_engine}")),
        CASES,
        metrics=sorted({f"{metric}@{k}" for _, metric, k, _ in NUMBERS} | {f"ndcg@{k}" for k in (1, 5, 10)}),
        no_recommendations="drop",
        no_truth="zero",
    )


@pytest.mark.parametrize(("case", "metric", "k", "value"), NUMBERS)
def test_numbers_of_the_sources(values: pd.Series, case: str, metric: str, k: int, value: float) -> None:
    assert values[case, metric, k] == pytest.approx(value, abs=5e-7)


def test_the_tutorial_prints_an_ndcg_of_document_ids(values: pd.Series) -> None:
    for k, printed in ((1, 0.0), (5, 0.3298), (10, 0.5956)):
        assert values["Tutorial", "ndcg", k] > printed + 0.2


# Hits at ranks 1 and 3 of each list: 5 items of 8 relevant ones, 5 of 3, and a list of only 3, of 8.
THREE_USERS = {
    "als": [
        hits([1, 3], length=5, n_relevant=8),
        hits([1, 3], length=5, n_relevant=3),
        hits([1, 3], length=3, n_relevant=8),
    ]
}


@pytest.mark.parametrize(
    ("conventions", "value"),
    [
        ("trec_eval", 0.324),
        ({"preset": "rectools", "ap_denominator": "k"}, 0.333),
        ("default", 0.407),
        ("lenskit", 0.481),
        ("seed001", 0.833),
    ],
)
def test_three_users_have_five_values_of_map_at_5(
    desk: "Desk", conventions: str | dict[str, str], value: float
) -> None:
    values = measured(desk, THREE_USERS, metrics=["map"], k=5, conventions=conventions)
    assert round(values["als", "map", 5], 3) == value
    [stamp] = set(desk.table("metrics")["conventions"])
    assert stamp.startswith(conventions if isinstance(conventions, str) else "rectools, ap_denominator=k;")


def test_one_run_holds_all_five_side_by_side(desk: "Desk") -> None:
    denominators = {"relevant": 0.324, "k": 0.333, "min_relevant_k": 0.407, "min_relevant_length": 0.481}
    denominators["hits"] = 0.833
    metrics = [f"map(denominator={name})@5" for name in denominators]
    values = measured(desk, THREE_USERS, metrics=metrics, k=1)
    assert {name: round(values["als", f"map(denominator={name})", 5], 3) for name in denominators} == (
        denominators
    )


def test_repeated_truth_never_lifts_a_metric_above_one(desk: "Desk") -> None:
    desk.tree["truth"] = {
        "path": str(desk.write("truth", pd.DataFrame({"user": [1] * 3, "item": [1, 2, 1]})))
    }
    lists = pd.DataFrame({"model": "als", "user": 1, "item": [1, 2, 3], "rank": [1, 2, 3]})
    desk.tree["recommendations"] = {"path": str(desk.write("ranked", lists))}
    desk.tree["evaluate"] = {"metrics": ["map", "recall", "ndcg"], "k": 3}
    desk.done("evaluate")
    assert set(desk.table("metrics")["value"]) == {1.0}


def test_a_threshold_of_0_is_at_or_above_0(desk: "Desk") -> None:
    """Items worth 2, 0 and 0 at ranks 1 to 3: all are relevant, and two of them are worth nothing."""
    cases = {"als": [User([1, 2, 3], {1: 2.0, 2: 0.0, 3: 0.0})]}
    found = measured(
        desk, cases, metrics=["precision", "cg", "ndcg(gain=binary)"], k=3, relevance={"threshold": 0}
    )
    assert found["als", :, 3].to_dict() == {"precision": 1.0, "cg": 2.0, "ndcg(gain=binary)": 1.0}
