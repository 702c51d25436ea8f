"""The engine on tables small enough to work out by hand."""

from collections import Counter
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from drive import Found, Layout, Tables, drive, table_of
from oracle import Id, Recommendation
from slow_ledger import counts_of_lists

from spark_eval.arrow.codes import lexsort
from spark_eval.cli.metric_tables import WORKED
from spark_eval.conventions import TruthDuplicates
from spark_eval.evaluation.plan import make_plan
from spark_eval.evaluation.worker import truth as truth_module
from spark_eval.evaluation.worker.ranks import descending_keys
from spark_eval.evaluation.worker.truth import Truth, combine_duplicates

INT, TEXT, DOUBLE = pa.int64(), pa.string(), pa.float64()
NAN, INFINITY = float("nan"), float("inf")
# Of items 1 to 8, the order in which the hash of their text puts them.
BY_HASH = [2, 1, 5, 6, 8, 7, 3, 4]


def liked(*rows: tuple[Any, ...], kind: pa.DataType = INT) -> pa.Table:
    """Rows of user, item and, if need be, relevance."""
    return table_of([(*row, 1.0)[:3] for row in rows], user=kind, item=kind, relevance=DOUBLE)


def ranks_of(items: list[Any], scores: pa.Array, ties: str, kind: pa.DataType = INT) -> list[int | None]:
    """The rank of each item of one list, by the reciprocal rank of a user who likes that one alone."""
    users = range(len(items))
    lists = pa.table(
        {
            "user": pa.array([user for user in users for _ in items], INT),
            "item": pa.array(items * len(items), kind),
            "score": pa.concat_arrays([scores] * len(items)),
        }
    )
    truth = table_of([(user, item) for user, item in enumerate(items)], user=INT, item=kind)
    found = drive(
        make_plan(metrics=["rr"], k="all", conventions={"ties": ties}), Tables(lists, truth, model="m")
    )
    return [round(1 / found.per_user["m", user]["rr_at_all"]) for user in users]


@pytest.mark.parametrize(
    ("ties", "kind", "best_first"),
    [
        ("item_desc", INT, [10, 9, 2, 1]),
        ("item_asc", INT, [1, 2, 9, 10]),
        ("item_desc", TEXT, ["é", "a", "9", "10"]),
        ("item_asc", TEXT, ["10", "9", "a", "é"]),
        ("hash", INT, BY_HASH),
        ("hash", TEXT, [str(item) for item in BY_HASH]),
    ],
)
def test_equal_scores_fall_in_this_order(ties: str, kind: pa.DataType, best_first: list[Any]) -> None:
    items = Random(3).sample(best_first, len(best_first))
    scores = pa.array([0.0, -0.0] * (len(items) // 2))
    assert ranks_of(items, scores, ties, kind) == [best_first.index(item) + 1 for item in items]


@pytest.mark.parametrize(
    "scores",
    [
        pa.array([2**53, 2**53 + 1, -(2**63), 2**63 - 1, 2**63 - 2]),
        pa.array([Decimal(f"12345678901234567.{n:02}") for n in (3, 7, 1, 99, 98)], pa.decimal128(20, 2)),
        pa.array([1.0, 1.0 + 2**-52, -1e308, 5e-324, 0.0]),
        pa.array([0.1, 0.3, -0.5, 2.5, 1.5], pa.float32()),
    ],
    ids=["longs", "decimals", "doubles", "floats"],
)
def test_no_two_scores_are_taken_for_one(scores: pa.Array) -> None:
    falling_values = sorted(scores.to_pylist(), reverse=True)
    expected = [falling_values.index(score) + 1 for score in scores.to_pylist()]
    assert ranks_of([5, 4, 3, 2, 1], scores, "item_asc") == expected


def test_orders_are_those_of_python_whether_the_keys_fit_one_number_or_not() -> None:
    random = np.random.default_rng(2)
    for least, most in ((0, 3), (-(2**62), 2**62), (-(2**63), 2**63 - 1)):
        keys = [random.integers(least, most, 300, endpoint=True) for _ in range(3)]
        rows = list(zip(*keys, strict=True))
        assert [rows[row] for row in lexsort(*keys)] == sorted(rows)
    scores = np.array([NAN, 0.0, -0.0, 1.5, -2.0, INFINITY])[1:]
    assert descending_keys(scores).argsort(kind="stable").tolist() == [4, 2, 0, 1, 3]


@pytest.mark.parametrize("is_wide", [False, True], ids=["ids of a narrow range", "of all 64 bits"])
@pytest.mark.parametrize("collide", [False, True], ids=["", "all hashes are equal"])
def test_hits_are_those_of_a_dictionary(
    monkeypatch: pytest.MonkeyPatch, collide: bool, is_wide: bool
) -> None:
    if collide:
        monkeypatch.setattr(truth_module, "pair_hashes", lambda user, _: np.zeros(len(user), np.uint64))
    random = np.random.default_rng(5)
    pairs = {(int(user), int(item)): 1.0 for user, item in random.integers(0, [40, 60], (500, 2))}
    ids = {n: (n + 15) % 90 for n in range(90)}  # some that are asked for lie before all others, some behind
    if is_wide:
        ids = {n: [-(2**63), 2**63 - 1, 0, 7][n % 4] + (-1) ** (n % 2) * n for n in range(90)}
    user, item = (np.array(one) for one in zip(*sorted((u, ids[i]) for u, i in pairs), strict=True))
    truth = Truth(50, user, item, None)
    assert isinstance(truth.items, range) is not is_wide
    asked = [(int(u), ids[int(i)]) for u, i in random.integers(0, [50, 90], (3000, 2))]
    rows, found = truth.find(*(np.array(one) for one in zip(*asked, strict=True)))
    known = set(zip(user.tolist(), item.tolist(), strict=True))
    assert rows.tolist() == [row for row, pair in enumerate(asked) if pair in known]
    assert [(user[pair], item[pair]) for pair in found] == [asked[row] for row in rows]
    nobody = Truth(3, user[:0], item[:0], None)
    assert [one.tolist() for one in nobody.find(user, item)] == [[], []]


@pytest.mark.parametrize("worked", WORKED, ids=lambda row: row[0])
def test_worked_rows_are_combined_as_the_document_says(worked: list[str]) -> None:
    relevance = [float(one) for one in worked[0].split(",")]
    for duplicates, expected in zip(TruthDuplicates, worked[1:], strict=True):
        for order in (1, -1):  # the order of rows never decides
            rows = pa.table({"relevance": relevance[::order], "timestamp": [*range(len(relevance))][::order]})
            one = np.ones(len(relevance), np.int64)
            assert combine_duplicates(one, one, rows, duplicates)[1].tolist() == [float(expected)]


def test_of_rows_without_a_time_or_equally_late_ones() -> None:
    user, item = np.array([1, 1, 2, 2, 2]), np.array([7, 7, 7, 7, 7])
    time = pa.array([-100, None, 100, 200, 200])
    rows = pa.table({"relevance": [1.0, 2.0, 5.0, 2.0, 3.0], "timestamp": time})
    assert combine_duplicates(user, item, rows, TruthDuplicates.LAST)[1].tolist() == [1.0, 3.0]


# The tables of tests/evaluation/test_account.py, with a model whose every row has a fault.
MANY_FAULTS = [
    Recommendation(*row)
    for row in [
        ("als", 1, 10, 0.9),
        ("als", None, None, NAN),
        ("als", 1, None, None),
        ("als", 2, 10, None),
        ("als", 2, 11, INFINITY),
        ("bad", 1, 10, NAN),
        ("bad", None, 10, 0.5),
        (None, 1, 10, 0.5),
        (None, None, 10, NAN),
    ]
]


def test_a_row_has_the_first_of_its_faults_and_a_model_of_faults_alone_faces_the_truth() -> None:
    lists = table_of(MANY_FAULTS, model=TEXT, user=INT, item=INT, score=DOUBLE)
    plan = make_plan(metrics=["rr"], k=1)
    found = drive(plan, Tables(lists, liked((1, 10), (2, 10))))
    expected = counts_of_lists(MANY_FAULTS, {1: {10: 1.0}, 2: {10: 1.0}}, plan, are_scores=True)
    assert {model: +Counter(counts) for model, counts in found.lists.items()} == expected
    assert {name: row["rr_at_1"] for name, row in found.per_user.items() if name[0]} == {
        **{("als", user): 2.0 - user for user in (1, 2)},
        **{("bad", user): 0.0 for user in (1, 2)},
    }


@pytest.mark.parametrize("checks", ["hits", "full"])
def test_accounting_has_gaps_odd_ids_and_the_largest_user(checks: str) -> None:
    ranks = [(1, "x"), (2, "y"), (5, "z")]
    lists: list[tuple[Any, ...]] = [
        ("a", user, item, rank) for user in ("é", "e\u0301", " p", "p") for rank, item in ranks
    ]
    lists += [("b", "p", "y", 1), ("b", "p", None, 2), ("b", None, "x", 7), ("b", None, "x", 8)]
    truth = [("é", "x"), ("e\u0301", "x"), ("p", "x\n"), ("p", "\u00a0x"), ("p", "y"), ("q\u212b", "\u1100")]
    found = drive(
        make_plan(metrics=["map"], k=2, checks=checks),
        Tables(table_of(lists, model=TEXT, user=TEXT, item=TEXT, rank=INT), liked(*truth, kind=TEXT)),
    )
    told = ("rank_gaps", "odd_ids", "largest")
    assert {(*entry[:4], entry[5]) for entry in found.entries if entry[2] in told} == {
        ("recommendations", "a", "largest", "rows=3", 1),
        ("recommendations", "a", "odd_ids", "user", 2),
        ("recommendations", "a", "rank_gaps", None, 4),
        ("recommendations", "b", "largest", "rows=2", 1),
        ("truth", None, "largest", "rows=3", 1),
        ("truth", None, "odd_ids", "item", 2),
        ("truth", None, "odd_ids", "user", 2),
    }


def test_hits_that_share_a_rank_are_counted_without_full_checks() -> None:
    rows = [(1, 10, 1), (1, 11, 1), (1, 12, 1), (1, 13, 2), (1, 99, 2), (2, 10, 1), (2, 10, 1)]
    truth = liked(*((1, item) for item in range(10, 14)), (2, 10))
    lists = table_of(rows, user=INT, item=INT, rank=INT)
    assert drive(make_plan(metrics=["map"], k=10), Tables(lists, truth, model="m")).lists["m"]["clashes"] == 2


@pytest.mark.parametrize("n_lists", [0, 2])
@pytest.mark.parametrize("n_truth", [0, 2])
@pytest.mark.parametrize("kind", [INT, TEXT], ids=str)
def test_tables_without_rows(n_lists: int, n_truth: int, kind: pa.DataType) -> None:
    ids = [1, 2] if kind == INT else ["1", "2"]
    lists = table_of(
        [("m", user, user, 0.5) for user in ids[:n_lists]], model=TEXT, user=kind, item=kind, score=DOUBLE
    )
    truth = liked(*((user, user) for user in ids[:n_truth]), kind=kind)
    found = drive(make_plan(metrics=["rr"], k=1), Tables(lists, truth))
    assert sum(row["rr_at_1"] for row in found.per_user.values()) == (2.0 if n_lists and n_truth else 0)
    assert list(found.lists) == (["m"] if n_lists else [])
    of_truth = {("in", None): 2, ("used", None): 2} if n_truth else {}
    assert (+found.truth.rows, found.truth.n_users) == (of_truth, n_truth)


def test_a_model_without_a_row_in_a_bucket_faces_its_truth() -> None:
    lists = table_of(
        [("a", user, 1, 1) for user in range(50)] + [("b", 7, 1, 1)], model=TEXT, user=INT, item=INT, rank=INT
    )
    truth = liked(*((user, 1) for user in range(50)))
    found = drive(make_plan(metrics=["rr"], k=1), Tables(lists, truth), Layout(n_buckets=9))
    users = Counter(model for model, _ in found.per_user)
    assert users == {"a": 50, "b": 50}
    assert sum(row["rr_at_1"] for row in found.per_user.values()) == 51


FOLDS = (0, 3, 11)


def folds_world() -> tuple[dict[str, list[tuple[Any, ...]]], dict[int, set[int]]]:
    """Lists, truth, train and users, all but the last by fold; and the items of the training interactions."""
    source = Random(7)
    rows: dict[str, list[tuple[Any, ...]]] = {"lists": [], "truth": [], "train": []}
    trained: dict[int, set[int]] = {}
    for fold in FOLDS:
        trained[fold] = set(source.sample(range(15), 8))
        users = source.sample(range(12), 10)
        rows["train"] += [(user, source.randrange(1, 9), fold) for user in users[:5]]
        for user in range(12):
            for item in range(15):
                for model in ("als", "pop"):
                    if user in users and source.random() < 0.5:
                        rows["lists"].append((model, user, item, source.randrange(4) / 3, fold))
                if source.random() < 0.2:
                    rows["truth"].append((user, item, float(source.randrange(1, 4)), fold))
    rows["users"] = [(user, "NP"[user % 2]) for user in range(1, 12)]
    return rows, trained


def of_folds(rows: dict[str, list[tuple[Any, ...]]], trained: dict[int, set[int]], fold: int | None) -> Found:
    """What is measured of all folds, or of the rows of one without a word of folds."""
    tables = {
        "lists": table_of(rows["lists"], model=TEXT, user=INT, item=INT, score=DOUBLE, fold=pa.int32()),
        "truth": table_of(rows["truth"], user=INT, item=INT, relevance=DOUBLE, fold=INT),
        "train": table_of(rows["train"], user=INT, n_interactions=INT, fold=pa.int32()),
    }
    items: dict[int | None, pa.Array] = {one: pa.array(sorted(known)) for one, known in trained.items()}
    segments = ["country", "known"]
    if fold is None:
        segments.append("fold")
    else:
        of_fold = {name: np.array([row[-1] == fold for row in rows[name]]) for name in tables}
        tables = {
            name: table.filter(pa.array(of_fold[name])).drop_columns("fold") for name, table in tables.items()
        }
        items = {None: items[fold]}
    users = table_of(rows["users"], user=INT, country=TEXT)
    plan = make_plan(metrics=["ap", "ndcg", "gauc"], k=[3, 20], segments=segments)
    return drive(plan, Tables(**tables, users=users, trained=items))


def test_a_fold_has_the_numbers_of_its_rows_alone() -> None:
    rows, trained = folds_world()
    everything = of_folds(rows, trained, None)
    cold: Counter[Any] = Counter()
    for fold in FOLDS:
        alone = of_folds(rows, trained, fold)
        mine = {
            (model, user): {name: value for name, value in row.items() if name != "fold"}
            for (model, of, user), row in everything.per_user.items()
            if of == fold
        }
        assert mine == alone.per_user
        of_fold = [(*row[:3], *row[5:]) for row in everything.metrics if row[3:5] == ("fold", str(fold))]
        assert of_fold == [(*row[:3], *row[5:]) for row in alone.metrics if row[3] == "all"]
        cold.update({entry[:4]: entry[4] for entry in alone.entries if entry[3] == "cold_item"})
        assert {row[3:5] for row in alone.metrics} == {
            ("all", "all"),
            *(("country", value) for value in ("N", "P", "(missing)")),
            *(("known", value) for value in ("known", "no_train")),
        }
    assert cold == {entry[:4]: entry[4] for entry in everything.entries if entry[3] == "cold_item"} != {}
    assert {fold for one in everything.summaries for fold in one.folds} == set(FOLDS)


def test_a_model_has_the_folds_in_which_it_has_lists() -> None:
    rows, trained = folds_world()
    rows["lists"] = [row for row in rows["lists"] if row[0] != "pop" or row[-1] != FOLDS[1]]
    found = of_folds(rows, trained, None)
    folds: dict[str | None, set[int]] = {}
    for one in (model for summary in found.summaries for model in summary.models):
        folds.setdefault(one.model, set()).update(one.folds)
    assert folds == {"als": set(FOLDS), "pop": {FOLDS[0], FOLDS[2]}}


def test_cold_items_are_distinct_sound_and_within_reach() -> None:
    source = Random(3)
    rows = [
        Recommendation("m", user, source.choice([None, *range(12)]), place)
        for user in range(60)
        for place in range(1, 8)
    ]
    truth: dict[Id, dict[Id, float]] = {
        user: {source.randrange(12): 1.0 for _ in range(3)} for user in range(0, 69, 2)
    }
    trained = {0, 2, 3, 5, 7, 10}
    lists = table_of(rows, model=TEXT, user=INT, item=INT, rank=INT)
    pairs = liked(*((user, item) for user, items in truth.items() for item in items))
    known = pa.array(sorted(trained))
    for rules in ({"k": 4}, {"k": 4, "checks": "full"}, {"k": "all"}):
        plan = make_plan(metrics=["precision" if "checks" not in rules else "map"], **rules)
        expected = counts_of_lists(rows, truth, plan, False, trained)
        told = drive(plan, Tables(lists, pairs, trained={None: known}))
        assert {model: +Counter(counts) for model, counts in told.lists.items()} == expected
        assert expected["m"]["used.cold_item.rows"] > 0
        # Where Spark tells of every row whether its item is known.
        marked = Tables(*(with_mark(table, trained) for table in (lists, pairs)))
        assert drive(plan, marked).entries == told.entries


def test_cold_items_are_counted_though_a_bucket_has_no_truth() -> None:
    """Only rows that came from Spark tell of cold items; of a bucket without any truth none did."""
    lists = table_of([("m", user, 1, 1) for user in range(40)], model=TEXT, user=INT, item=INT, rank=INT)
    for user in range(40):
        tables = Tables(*(with_mark(table, {2}) for table in (lists, liked((user, 1), (user, 2)))))
        entries = drive(make_plan(metrics=["rr"], k=1), tables, Layout(n_buckets=9)).entries
        assert ("truth", None, "used", "cold_item", 1, 1) in entries
        assert ("truth", None, "used", None, 1, 1) in entries


def with_mark(table: pa.Table, trained: set[int]) -> pa.Table:
    """A column that tells whether the item of a row has training interactions."""
    return table.append_column("in_train", pa.array([item in trained for item in table["item"].to_pylist()]))


def test_a_user_may_have_more_than_a_worker_measures_at_once() -> None:
    rows = [("m", user, item, float(item)) for user in (1, 2) for item in range(40)]
    lists = table_of(rows, model=TEXT, user=INT, item=INT, score=DOUBLE)
    found = drive(
        make_plan(metrics=["rr"], k=50), Tables(lists, liked((1, 0), (2, 39))), Layout(most_rows=10)
    )
    assert [found.per_user["m", user]["rr_at_50"] for user in (1, 2)] == [1 / 40, 1.0]


def test_a_text_that_a_dictionary_holds_twice_is_one_text() -> None:
    """What writes a file may put a text into its dictionary twice; Arrow gives the codes as they are."""
    twice = pa.array(["a", "b", "b"], TEXT)
    users, items = (pa.DictionaryArray.from_arrays(pa.array(codes), twice) for codes in ([0, 0], [1, 2]))
    lists = pa.table({"user": users, "item": items, "rank": pa.array([1, 2], INT)})
    plan = make_plan(metrics=["recall"], k=2, checks="full")
    found = drive(plan, Tables(lists, liked(kind=TEXT), model="m"), Layout(1, 1))
    assert found.lists["m"]["deduplicated.repeated_item.rows"] == 1
