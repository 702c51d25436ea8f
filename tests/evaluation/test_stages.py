"""The stages of a pipeline: worked numbers, slow loops over random tables, the same bits however rows lie."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from drive import Layout, Tables, drive, table_of
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_stages import Person, funnel, means

from spark_eval.evaluation.plan import Plan, make_plan
from spark_eval.evaluation.stages.rows import StageSums

INT, TEXT, DOUBLE = pa.int64(), pa.string(), pa.float64()
Lists = Mapping[str, Mapping[int, Sequence[int]]]

T = {1: [1, 2, 3], 2: [4], 3: [5, 6], 4: [2], 5: [3, 8]}
E: Lists = {
    "cg": {
        1: [9, 1, 8, 2, 7, 5],
        2: [5, 6, 7, 8, 9, 1],
        3: [5, 6, 1, 2, 3, 4],
        4: [],
        5: [8, 1, 4, 6, 7, 9],
    },
    "ranker": {1: [1, 7], 2: [5, 6], 3: [5, 6], 5: [1, 4]},
    "reranked": {1: [7, 2], 2: [5, 6], 3: [5, 1], 4: [2, 3], 5: [1, 4]},
}
THREE: list[dict[str, Any]] = [
    {"name": "candidates", "model": "cg", "k": 6},
    {"name": "ranking", "model": "ranker", "k": 2},
    {"name": "final", "model": "reranked", "k": 2},
]


def by_rank(lists: Lists) -> pa.Table:
    rows = [
        (model, user, item, rank)
        for model, of_users in lists.items()
        for user, items in of_users.items()
        for rank, item in enumerate(items, 1)
    ]
    return table_of(rows, model=TEXT, user=INT, item=INT, rank=INT)


def liked(truth: Mapping[int, Sequence[int]]) -> pa.Table:
    rows = [(user, item, 1.0) for user, items in truth.items() for item in items]
    return table_of(rows, user=INT, item=INT, relevance=DOUBLE)


def values(sums: StageSums, *names: str, segment: tuple[str, str] = ("all", "all")) -> dict[Any, Any]:
    return {
        (row.stage, row.metric): row.value if row.value is None else round(row.value, 6)
        for row in sums.stage_rows()
        if row.metric in names and (row.segment, row.segment_value) == segment
    }


def numbers(sums: StageSums, segment: tuple[str, str] = ("all", "all")) -> dict[str, tuple[int, int]]:
    rows = [row for row in sums.funnel_rows() if (row.segment, row.segment_value) == segment]
    return {row.step: (row.n_users, row.n_pairs) for row in rows}


def worked(**options: Any) -> StageSums:
    plan = make_plan(**{"metrics": ["recall", "ndcg"], "k": 2, "stages": THREE, **options})
    return drive(plan, Tables(by_rank(E), liked(T))).stages(plan)


def test_worked_recalls() -> None:
    assert values(worked(), "stage_recall", "oracle_recall", "recall") == {
        ("candidates", "stage_recall"): 0.433333,
        ("candidates", "oracle_recall"): 0.433333,
        ("candidates", "recall"): 0.366667,
        ("ranking", "stage_recall"): 0.266667,
        ("ranking", "recall"): 0.266667,
        ("final", "stage_recall"): 0.366667,
        ("final", "recall"): 0.366667,
    }


def test_worked_oracle_efficiency_and_conditional() -> None:
    sums = worked()
    found = values(sums, "oracle_ndcg", "ndcg", "efficiency_ndcg", "conditional_ndcg")
    assert found["candidates", "oracle_ndcg"] == 0.522629
    assert (found["ranking", "ndcg"], found["final", "ndcg"]) == (0.322629, 0.4)
    assert found["ranking", "efficiency_ndcg"] == 0.617320
    assert found["ranking", "conditional_ndcg"] == 0.537716
    # The final list has a hit that was no candidate.
    assert found["final", "efficiency_ndcg"] is None
    [row] = [r for r in sums.stage_rows() if (r.stage, r.metric) == ("ranking", "conditional_ndcg")]
    assert (row.n_users, row.n_undefined) == (3, 2)
    assert row.std_error is not None
    [row] = [r for r in sums.stage_rows() if (r.stage, r.metric) == ("ranking", "efficiency_ndcg")]
    assert (row.std_error, row.ci_low, row.ci_high, row.n_users) == (None, None, None, 5)


def test_worked_cells_and_funnel() -> None:
    found = numbers(worked())
    fates = ("kept", "lost_reranking", "promoted", "lost_ranking", "lost_candidates", "outside_candidates")
    assert [found[fate][1] for fate in fates] == [1, 2, 1, 1, 3, 1]
    steps = ("truth", "candidates", "relevant_candidate", "hit_in_ranking", "hit_in_final")
    assert [found[f"with_{step}"][0] for step in steps] == [5, 4, 3, 2, 3]
    assert found["with_truth"] == (5, 9)


def test_two_stages_have_four_cells() -> None:
    found = numbers(worked(stages=[THREE[0], THREE[2]]))
    assert {name: pairs for name, (_, pairs) in found.items() if not name.startswith("with_")} == {
        "kept": 2,
        "lost_ranking": 3,
        "lost_candidates": 3,
        "outside_candidates": 1,
    }


def test_a_union_says_what_each_generator_adds() -> None:
    stages = [{"name": "candidates", "models": ["cg", "reranked"], "k": 2}, THREE[1]]
    sums = worked(stages=stages)
    recalls = {
        (row.model, row.metric): round((row.value or 0) * 30)
        for row in sums.stage_rows()
        if row.stage == "candidates" and row.metric.endswith("_recall")
    }
    # cg at 2: 1 of 3, 0, 2 of 2, 0, 1 of 2; reranked: 1 of 3 (another), 0, 1 of 2 (the same), 1 of 1, 0.
    assert recalls == {
        (None, "stage_recall"): round(30 * (2 / 3 + 1 + 1 + 1 / 2) / 5),
        ("cg", "stage_recall"): round(30 * (1 / 3 + 1 + 1 / 2) / 5),
        ("cg", "added_recall"): round(30 * (1 / 3 + 1 / 2 + 1 / 2) / 5),
        ("reranked", "stage_recall"): round(30 * (1 / 3 + 1 / 2 + 1) / 5),
        ("reranked", "added_recall"): round(30 * (1 / 3 + 1) / 5),
        (None, "oracle_recall"): round(30 * (2 / 3 + 1 + 1 + 1 / 2) / 5),
    }
    # A union has no order, so no metric of its own.
    assert ("candidates", "ndcg") not in values(sums, "ndcg")


def test_the_population_is_that_of_the_truth_whatever_the_run_leaves_out() -> None:
    dropped = worked(no_recommendations="drop", no_truth="zero", conventions={"no_hits": "drop"})
    same = worked()
    assert dropped.stage_rows() == same.stage_rows()
    assert "no_recommendations=zero; no_truth=drop; no_hits=zero" in dropped.stamp


def test_hits_reach_as_far_as_the_largest_k_of_a_stage() -> None:
    plan = make_plan(metrics=["mrr"], k=1, stages=THREE)
    assert plan.depth == 6
    found = drive(plan, Tables(by_rank(E), liked(T)))
    assert found.stages(plan).stage_rows()[0].value == pytest.approx(0.433333, abs=1e-6)
    without = make_plan(metrics=["mrr"], k=1)
    assert without.depth == 1
    # What is measured beside them stays as it is.
    same = drive(without, Tables(by_rank(E), liked(T)))
    assert (same.metrics, same.per_user) == (found.metrics, found.per_user)


def test_worked_changes_of_a_reranker() -> None:
    stages = [THREE[0], {**THREE[1], "reranks": "candidates"}, {**THREE[2], "reranks": "ranking"}]
    sums = worked(stages=stages)
    found = values(sums, "rank_biased_overlap", "share_replaced", "largest_promotion")
    second, both = 0.85 / 2 / 1.85, (1 + 0.85 / 2) / 1.85
    assert found == {
        # u1 has 1 at ranks 2 and 1, 7 at 5 and 2; u2 and u3 keep theirs; u5 has 1 at 2 and 1, 4 at 3 and 2.
        ("ranking", "rank_biased_overlap"): round((second + 1 + 1 + second) / 4, 6),
        ("ranking", "share_replaced"): round((1 / 2 + 0 + 0 + 1 / 2) / 4, 6),
        ("ranking", "largest_promotion"): (3 + 0 + 0 + 1) / 4,
        # u1 keeps 7, from rank 2 to 1; u3 keeps 5 at 1; u4 had no list; u2 and u5 keep both.
        ("final", "rank_biased_overlap"): round((second + 1 + both + 0 + 1) / 5, 6),
        ("final", "share_replaced"): (1 / 2 + 0 + 1 / 2 + 1 + 0) / 5,
        ("final", "largest_promotion"): 1 / 4,
    }
    counts = {(row.metric, row.stage): (row.n_users, row.n_undefined) for row in sums.stage_rows()}
    assert counts["rank_biased_overlap", "ranking"] == (4, 1)  # u4 has neither list
    assert counts["largest_promotion", "final"] == (4, 1)  # u4's lists have no item in common
    assert "rank_biased_overlap" not in {row.metric for row in worked().stage_rows()}


def test_a_list_compared_with_itself_is_unchanged() -> None:
    deep = {"name": "deep", "model": "cg", "k": 6}
    found = worked(stages=[deep, {"name": "shown", "model": "cg", "k": 3, "reranks": "deep"}])
    changed = values(found, "rank_biased_overlap", "share_replaced", "largest_promotion")
    assert list(changed.values()) == [1, 0, 0]


def test_repeated_items_and_ranks_are_searched_where_lists_are_compared() -> None:
    stages = [THREE[0], {**THREE[1], "reranks": "candidates"}]
    assert make_plan(metrics=["ndcg"], k=2, stages=stages).checks == "full"
    assert make_plan(metrics=["ndcg"], k=2, stages=THREE).checks == "hits"
    # Users 2 and 3 have an item twice, which is not relevant to them.
    twice = {**E, "ranker": {**E["ranker"], 2: [5, 5], 3: [1, 1]}}
    plan = make_plan(metrics=["ndcg"], k=2, stages=stages)
    found = values(drive(plan, Tables(by_rank(twice), liked(T))).stages(plan), "share_replaced")
    assert found["ranking", "share_replaced"] == (1 / 2 + 0 + 1 + 1 / 2) / 4


def test_segments_and_folds_have_rows_of_their_own() -> None:
    lists = pa.concat_tables([in_fold(by_rank(E), 0), in_fold(by_rank({**E, "reranked": E["ranker"]}), 1)])
    truth = pa.concat_tables([in_fold(liked(T), fold) for fold in (0, 1)])
    country = ["a", "b", "a", None, "a"]
    users = pa.table({"user": pa.array(range(1, 6), INT), "country": pa.array(country, TEXT)})
    plan = replace(make_plan(metrics=["recall", "ndcg"], k=2, stages=THREE), segments=("fold", "country"))
    sums = drive(plan, Tables(lists, truth, users=users)).stages(plan)
    first = worked()
    for metric in ("oracle_ndcg", "ndcg", "conditional_ndcg", "efficiency_ndcg"):
        assert values(sums, metric, segment=("fold", "0")) == values(first, metric)
    assert numbers(sums, ("fold", "0")) == numbers(first)
    # In the other fold the final list is the ranking, all of candidates.
    second = values(sums, "efficiency_ndcg", segment=("fold", "1"))
    assert second["final", "efficiency_ndcg"] == second["ranking", "efficiency_ndcg"] == 0.617320
    assert values(sums, "efficiency_ndcg")["final", "efficiency_ndcg"] is None
    over = values(sums, "stage_recall", segment=("folds", "mean"))
    assert over["final", "stage_recall"] == pytest.approx((0.366667 + 0.266667) / 2, abs=1e-6)
    assert numbers(sums, ("country", "a"))["with_truth"] == (6, 14)
    assert numbers(sums, ("country", "(missing)"))["outside_candidates"] == (1, 1)
    # Users who are not in the segment have the hits outside of candidates.
    assert values(sums, "efficiency_ndcg", segment=("country", "a"))["final", "efficiency_ndcg"] is not None


def in_fold(rows: pa.Table, fold: int) -> pa.Table:
    return rows.append_column("fold", pa.array([fold] * len(rows), INT))


METRICS = (
    *("precision", "recall", "f1", "hit_rate", "map", "mar", "mrr", "arhr_norm", "ndcg", "mdcg", "cg", "fcp"),
    *("r_precision", "precision(denominator=min_k_length)", "recall(denominator=retrieved)", "ndcg@all"),
    *("ndcg(tie_order=best)", "map(tie_order=worst)", "map(tie_order=shared)", "map(denominator=hits)@all"),
)
MODELS = ("cg", "knn", "ranker", "final")


def people_of(seed: int) -> list[Person]:
    """Users with lists by score, with ties, or by rank, with gaps; some without truth, some without lists."""
    source = random.Random(seed)
    has_scores = source.random() < 0.5
    found = []
    for _ in range(source.randrange(1, 8)):
        relevant = source.sample(range(12), source.randrange(6))
        lists, scores = {}, {}
        for model in MODELS:
            items = source.sample(range(12), source.randrange(9))
            if has_scores:
                falling = sorted((float(source.randrange(4)) for _ in items), reverse=True)
                scores[model] = falling
                # Of equal scores the larger item comes first.
                items = [item for _, item in sorted(zip(falling, items, strict=True), reverse=True)]
            else:
                items = [item if source.random() < 0.8 else -rank - 1 for rank, item in enumerate(items)]
            lists[model] = items
        found.append(Person({item: source.choice([0.5, 1.0, 2.0]) for item in relevant}, lists, scores))
    return found


# Users are costly to draw one by one, and then seldom have ties across a cut.
people = st.integers(0, 2**31).map(people_of)


def tables_of(found: Sequence[Person]) -> Tables:
    has_scores = any(one.scores for one in found)
    rows = [
        (model, user, item, one.scores[model][place] if has_scores else place + 1)
        for user, one in enumerate(found)
        for model in MODELS
        for place, item in enumerate(one.lists[model])
        if item >= 0
    ]
    # Each model has a row, of a user without truth.
    rows += [(model, 99, 0, 1) for model in MODELS]
    order = {"score": DOUBLE} if has_scores else {"rank": INT}
    truth = [(user, *pair) for user, one in enumerate(found) for pair in one.truth.items()]
    return Tables(
        table_of(rows, model=TEXT, user=INT, item=INT, **order),
        table_of(truth, user=INT, item=INT, relevance=DOUBLE),
    )


def plan_of(
    n_stages: int, is_union: bool, cuts: Sequence[int], is_compared: bool = True, **options: Any
) -> Plan:
    first: dict[str, Any] = {"models": ["cg", "knn"]} if is_union else {"model": "cg"}
    later = [{"name": "between", "model": "ranker"}, {"name": "last", "model": "final"}][1 - n_stages :]
    stages = zip([{"name": "first", **first}, *later], cuts, strict=False)
    chosen = [{**stage, "k": k} for stage, k in stages]
    # The last stage is compared with the one before, unless that is a union; with three, that one is, too.
    for before, stage in pairwise(chosen if is_compared else ()):
        if "model" in before:
            stage["reranks"] = before["name"]
    return make_plan(metrics=METRICS, k=[1, 4], stages=chosen, **options)


plans = st.builds(
    plan_of,
    st.sampled_from([2, 3]),
    st.booleans(),
    st.lists(st.integers(1, 9), min_size=3, max_size=3),
    st.booleans(),
    threshold=st.sampled_from([None, 1.0]),
)


def relevant_ones(found: Sequence[Person], plan: Plan) -> list[Person]:
    """The same users, with what is relevant by the plan's threshold."""
    least = plan.conventions.threshold or 0.0
    return [
        replace(one, truth={item: grade for item, grade in one.truth.items() if grade >= least})
        for one in found
    ]


@settings(max_examples=15)
@given(drawn=people, plan=plans)
def test_loops_over_users_find_the_same(drawn: list[Person], plan: Plan) -> None:
    found = relevant_ones(drawn, plan)
    if not any(one.truth for one in found):
        return
    tables = tables_of(drawn)
    sums = drive(plan, tables, Layout(n_buckets=2, n_tasks=1)).stages(plan)
    ours = {
        (row.stage, row.model, row.metric, row.k): (row.value, row.n_users, row.n_undefined)
        for row in sums.stage_rows()
    }
    theirs = means(found, plan)
    assert ours.keys() == theirs.keys()
    wrong = {
        key: (ours[key], theirs[key])
        for key, (value, *counts) in theirs.items()
        if ours[key] != (value and pytest.approx(value, rel=1e-9, abs=1e-12), *counts)
    }
    assert wrong == {}
    counted = numbers(sums)
    assert {step: number for step, number in counted.items() if number != (0, 0)} == funnel(found, plan)
    fates = [pairs for step, (_, pairs) in counted.items() if not step.startswith("with_")]
    assert sum(fates) == counted["with_truth"][1]


def test_bits_do_not_depend_on_how_rows_lie() -> None:
    source = random.Random(5)
    drawn = [
        Person(
            {item: source.random() for item in source.sample(range(30), source.randrange(8))},
            {model: source.sample(range(30), source.randrange(20)) for model in MODELS},
            {},
        )
        for _ in range(80)
    ]
    plan = plan_of(3, True, [12, 6, 4])
    layouts = (
        Layout(n_buckets=1, n_tasks=1, batch_rows=10**6, is_scattered=False),
        Layout(n_buckets=7, n_tasks=5, batch_rows=11),
        Layout(n_buckets=2, most_rows=100),
    )
    found = [drive(plan, tables_of(drawn), layout).stages(plan) for layout in layouts]
    assert found[0].stage_rows() == found[1].stage_rows() == found[2].stage_rows()
    assert found[0].funnel_rows() == found[1].funnel_rows() == found[2].funnel_rows()
