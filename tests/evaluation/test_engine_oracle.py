"""The engine against slow loops on random tables, and the same bits however rows lie and travel."""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import oracle
import pytest
from drive import Found, Layout, Tables, drive
from oracle import Recommendation, Relevance
from slow_ledger import counts_of_lists, counts_of_truth
from trials import CASES, EVERY, MODELS, Case, draw

FEW = ("ndcg@3", "map(tie_order=worst)@10", "auc@all", "mdcg@3")
LAYOUTS = {
    "one bucket, one batch": Layout(n_buckets=1, n_tasks=1, batch_rows=10**6, is_scattered=False),
    "many buckets, small batches": Layout(n_buckets=11, n_tasks=5, batch_rows=7),
    "buckets that are split": Layout(n_buckets=2, most_rows=100),
}


@dataclass(frozen=True)
class Trial:
    """What the rows were, and what came of them."""

    case: Case
    recommendations: list[Recommendation]
    truth: list[Relevance]
    tables: Tables
    found: Found


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.name)
def trial(request: pytest.FixtureRequest) -> Trial:
    case: Case = request.param
    recommendations, truth = draw(case, CASES.index(case))
    tables = case.tables(recommendations, truth)
    return Trial(case, recommendations, truth, tables, drive(case.plan, tables))


@pytest.mark.parametrize("trial", CASES[:-1], indirect=True, ids=lambda case: case.name)
def test_every_user_has_the_numbers_of_the_oracle(trial: Trial) -> None:
    case, found = trial.case, trial.found.per_user
    expected = oracle.evaluate(trial.recommendations, trial.truth, case.rules)
    assert found.keys() == expected.keys()
    # Repeats among items that are no hits are looked for only where lists are sorted or checked in full.
    counts = ("n_relevant", *["n_recommended"] * (case.are_scores or case.plan.checks == "full"))
    wrong = {
        (*key, column): (found[key][column], value[column])
        for key, value in expected.items()
        for column in (*counts, *case.plan.columns)
        if oracle.number(found[key][column])
        != pytest.approx(value[column], rel=1e-12, abs=1e-12, nan_ok=True)
    }
    assert wrong == {}


def test_every_row_is_counted_as_loops_count_it(trial: Trial) -> None:
    case = trial.case
    relevant = oracle.truth_by_user(trial.truth, case.rules)
    expected = counts_of_lists(trial.recommendations, relevant, case.plan, case.are_scores)
    assert {model: +Counter(counts) for model, counts in trial.found.lists.items()} == expected
    of_truth = [entry for entry in trial.found.entries if entry[0] == "truth" and entry[4]]
    assert {(entry[2], entry[3]): entry[4] for entry in of_truth} == counts_of_truth(trial.truth, case.rules)


def test_the_ledger_closes_and_the_means_are_those_of_the_users(trial: Trial) -> None:
    found, per_user = trial.found, trial.found.per_user
    rows_in = {entry[:2]: entry[4] for entry in found.entries if entry[2] == "in"}
    accounted: Counter[Any] = Counter()
    for entry in found.entries:
        accounted[entry[:2]] += entry[4] if entry[2] != "in" and entry[3] != "DUPLICATE_RANK" else 0
    if "DUPLICATE_RANK" not in {entry[3] for entry in found.entries}:
        assert dict(accounted) == rows_in
    used = Counter(model for model, _ in per_user)
    entries = [entry for entry in found.entries if (entry[0], entry[2]) == ("users", "used")]
    assert {model: sum(one[4] for one in entries if one[1] == model) for model in used} == used
    metrics = {(row[0], row[1], row[2]): row for row in found.metrics}
    for model, value in product(MODELS, trial.case.plan.metrics):
        values = [row[value.column] for key, row in per_user.items() if key[0] == model]
        defined = [one for one in values if one is not None]
        row = metrics[model, value.name, value.k]
        mean = sum(defined) / max(len(defined), 1)
        assert row[5] == (pytest.approx(mean, rel=1e-12, abs=1e-15) if defined else None)
        assert row[9:11] == (len(defined), len(values) - len(defined))


def test_the_same_bits_however_rows_lie_and_travel(trial: Trial) -> None:
    plan = trial.case.plan if trial.case.metrics is not EVERY else replace(trial.case, metrics=FEW).plan
    found = drive(plan, trial.tables)
    for name, layout in LAYOUTS.items():
        assert drive(plan, trial.tables, layout) == found, name


@pytest.mark.parametrize("trial", CASES[1:6:3], indirect=True, ids=lambda case: case.name)
def test_a_model_that_the_caller_names_has_the_numbers_of_one_that_a_column_names(trial: Trial) -> None:
    lists = trial.tables.lists
    als = lists.filter([one == "als" for one in lists["model"].to_pylist()]).drop_columns("model")
    alone = drive(trial.case.plan, replace(trial.tables, lists=als, model="als"))
    assert alone.lists == {"als": trial.found.lists["als"]}
    assert alone.per_user == {key: row for key, row in trial.found.per_user.items() if key[0] == "als"}
