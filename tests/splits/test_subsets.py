"""Rows, users and items of subsets, without Spark: who is cold, what to train on, when to warn."""

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_eval.results.subsets import MOST_COLD, cold_warnings, counted_ways_to_train, ways_to_train
from spark_eval.schema import SUBSETS, Subset
from spark_eval.splits.rules.fold_rule import FoldRule
from spark_eval.splits.rules.methods import rule_of
from spark_eval.splits.subsets import subset_rows

RULES: dict[str, FoldRule] = {
    "ranker": rule_of("global_local_ranker", {}),
    "time": rule_of("time", {"validation_cut": 0.5}),
    "holdout": rule_of("holdout", {"validation_share": 0.1}),
    "k_fold": rule_of("k_fold", {}),
}


def row(**columns: Any) -> dict[str, Any]:
    """A row of ``subsets``."""
    usual: dict[str, Any] = {"fold": 0, "subset": "test", "rows": 100, "users": 82, "items": 50}
    return {**usual, "trained_on": "train", "cold_users": 0, "cold_items": 0, **columns}


@pytest.mark.parametrize("name", RULES)
@given(data=st.data())
def test_users_and_items_are_counted_as_sets_are(name: str, data: st.DataObject) -> None:
    rule, n_folds = RULES[name], 2
    event = st.tuples(st.integers(0, 1), st.sampled_from(rule.subsets), st.integers(0, 5), st.integers(0, 5))
    events = data.draw(st.lists(event, max_size=30))

    def combinations(place: int) -> dict[int, list[tuple[frozenset[Subset], int]]]:
        found: dict[tuple[int, int], set[Subset]] = defaultdict(set)
        for fold, subset, *ids in events:
            found[fold, ids[place]].add(subset)
        return {
            of_fold: [(frozenset(subsets), 1) for (fold, _), subsets in found.items() if fold == of_fold]
            for of_fold in range(n_folds)
        }

    rows = {
        of_fold: [(frozenset({subset}), 1) for fold, subset, *_ in events if fold == of_fold]
        for of_fold in range(n_folds)
    }
    table = subset_rows(rule, n_folds, rows, combinations(0), combinations(1))
    assert [(one.fold, one.subset) for one in table] == [
        (fold, subset) for fold in range(n_folds) for subset in rule.subset_names
    ]
    for one in table:
        here = [event for event in events if event[0] == one.fold and event[1] in SUBSETS[one.subset]]
        assert (one.rows, one.users, one.items) == (
            len(here),
            len({event[2] for event in here}),
            len({event[3] for event in here}),
        )
        assert one.trained_on == rule.trained_on.get(one.subset)
        if one.trained_on is None:
            assert (one.cold_users, one.cold_items) == (None, None)
            continue
        learnt = [event for event in events if event[0] == one.fold and event[1] in SUBSETS[one.trained_on]]
        assert one.cold_users == len({event[2] for event in here} - {event[2] for event in learnt})
        assert one.cold_items == len({event[3] for event in here} - {event[3] for event in learnt})


@pytest.mark.parametrize("name", RULES)
def test_every_test_has_a_subset_to_train_on(name: str) -> None:
    rule = RULES[name]
    for test, train in rule.trained_on.items():
        assert {test, train} <= set(rule.subset_names)
        assert set(SUBSETS[test]).isdisjoint(SUBSETS[train])
    assert rule.final_test in rule.trained_on


def test_the_two_ways_to_train_are_named() -> None:
    assert ways_to_train(RULES["ranker"].trained_on) == [
        "train on global_train for global_test",
        "train on local_train for ranker_train and ranker_test",
    ]
    assert ways_to_train(RULES["time"].trained_on) == ["train on train for validation and test"]
    learnt = row(subset="train", trained_on=None, rows=1_234, users=56, cold_users=None, cold_items=None)
    assert counted_ways_to_train([learnt, row()]) == ["train on train (1,234 rows, 56 users) for test"]
    folds = [{**one, "fold": fold} for fold in range(2) for one in (learnt, row())]
    assert counted_ways_to_train(folds) == ["train on train of each fold for test"]


@pytest.mark.parametrize("kind", ["users", "items"])
@pytest.mark.parametrize(
    ("share", "is_warned"), [(0.0, False), (MOST_COLD, False), (0.52, True), (1.0, True)]
)
def test_most_users_or_items_that_are_cold_are_warned_of(kind: str, share: float, is_warned: bool) -> None:
    [*warned] = cold_warnings([row(**{kind: 100, f"cold_{kind}": round(100 * share)})])
    assert bool(warned) is is_warned
    if is_warned:
        [text] = warned
        assert text.startswith(
            f"{round(100 * share)} of 100 {kind} of test ({share:.0%}) have no row in train"
        )
        assert f"`cold_{kind}: drop`" in text


def test_the_fold_with_most_cold_users_is_reported() -> None:
    folds = [row(fold=fold, cold_users=50 + fold) for fold in range(5)]
    assert [text.partition(" (")[0] for text in cold_warnings(folds)] == ["54 of 82 users of test"]
    assert cold_warnings([row(subset="local_test", cold_users=80)]) == []
    assert cold_warnings([row(rows=0, users=0, items=0)]) == []
