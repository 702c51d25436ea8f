"""Splits in folds: what holds for all of them, and the rules by draws."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fold_logs import in_part, leaks, ledger, log_of, places, random_rows, rows_of, split_log, split_rows
from pyspark.sql import SparkSession

from spark_eval.errors import ConfigError, DataError
from spark_eval.splits.split import split

ROWS = random_rows(80)
USER = {row[4]: row[0] for row in ROWS}
EVENT = {row[4]: row[:3] for row in ROWS}
GENRE = {row[4]: row[3] for row in ROWS}


def draws(engine: str) -> list[Any]:
    """method, options, subsets: those of this process; exact folds are Spark's, and one by draws is too."""
    drawn: list[Any] = [
        ("holdout", {"validation_share": 0.2}, ("train", "validation", "test")),
        ("holdout", {"by": "user", "seed": 1, "test_share": 0.4}, ("train", "test")),
        ("k_fold", {"k": 4}, ("train", "test")),
    ]
    exact = [
        ("k_fold", {"k": 3, "by": "user", "exact": True}, ("train", "test")),
        pytest.param(
            "stratified_k_fold", {"k": 3, "by": ["genre"]}, ("train", "test"), marks=pytest.mark.slow
        ),
    ]
    return drawn if engine == "local" else [*exact, pytest.param(*drawn[1], marks=pytest.mark.slow)]


@pytest.mark.parametrize(("method", "options", "subsets"), draws("local"))
def test_every_row_is_in_one_part_of_every_fold_whatever_the_order(
    method: str, options: dict[str, Any], subsets: tuple[str, ...]
) -> None:
    check_draws(None, method, options, subsets)


@pytest.mark.parametrize(("method", "options", "subsets"), draws("spark"))
def test_every_row_is_in_one_part_of_every_fold_whatever_the_partitions(
    spark: SparkSession, method: str, options: dict[str, Any], subsets: tuple[str, ...]
) -> None:
    check_draws(spark, method, options, subsets)


def check_draws(
    spark: SparkSession | None, method: str, options: dict[str, Any], subsets: tuple[str, ...]
) -> None:
    """Each row in one part of each fold, and in the same one among rows that lie otherwise."""
    done = split_rows(spark, ROWS, method, **options)
    n_folds = options.get("k", 1)
    found = places(done)
    assert set(found) == set(EVENT)
    assert all(set(parts) == set(range(n_folds)) for parts in found.values())
    assert {part for parts in found.values() for part in parts.values()} == set(subsets)
    if n_folds > 1:
        assert all(Counter(parts.values())["test"] == 1 for parts in found.values())
    spread = split_log(log_of(spark, ROWS[::-1], 5), method, **options)
    assert places(spread) == found


def test_rows_of_one_event_and_rows_of_one_user_go_together() -> None:
    rows = ROWS + [(*row[:4], row[4] + 1_000) for row in ROWS]
    by_row = places(split_rows(None, rows, "holdout", test_share=0.5))
    assert all(by_row[row] == by_row[row + 1_000] for row in EVENT)
    by_user = places(split_rows(None, rows, "k_fold", by="user", k=2))
    assert len({(USER[row % 1_000], *sorted(parts.items())) for row, parts in by_user.items()}) == 7


def test_another_seed_is_another_draw() -> None:
    tested = [in_part(places(split_rows(None, ROWS, "holdout", seed=seed)), 0, "test") for seed in (0, 1, -1)]
    assert len(set(map(frozenset, tested))) == 3


def test_shares_and_folds_by_draws_are_within_one_percent() -> None:
    ids = range(40_000)
    log = pa.table({"user": ids, "item": [row % 7 for row in ids], "timestamp": ids})
    held = split_log(log, "holdout", test_share=0.3, validation_share=0.1).rows["subset"]
    parts = {part: n_rows / len(ids) for part, n_rows in Counter(held.to_pylist()).items()}
    assert parts == pytest.approx({"train": 0.6, "validation": 0.1, "test": 0.3}, abs=0.01)
    folds = Counter(split_log(log, "k_fold", k=5).subset("test")["fold"].to_pylist())
    assert [folds[fold] / len(ids) for fold in range(5)] == pytest.approx([0.2] * 5, abs=0.01)


def test_exact_folds_differ_by_one_at_most(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_eval.splits.label.BUCKETS", 3)
    rows = ROWS + [(*row[:4], row[4] + 1_000) for row in ROWS[:21]]
    dealt = places(split_rows(spark, rows, "k_fold", k=4, exact=True))
    assert sorted(len(in_part(dealt, fold, "test")) for fold in range(4)) == [25, 25, 25, 26]
    stratified = places(split_rows(spark, ROWS, "stratified_k_fold", by=["genre"], k=3))
    for genre in ("a", "b", None):
        sizes = [sum(GENRE[row] == genre for row in in_part(stratified, fold, "test")) for fold in range(3)]
        assert max(sizes) - min(sizes) <= 1
        assert sum(sizes) == sum(value == genre for value in GENRE.values())
    users = places(split_rows(spark, ROWS, "k_fold", k=3, by="user", exact=True))
    tested = [{USER[row] for row in in_part(users, fold, "test")} for fold in range(3)]
    assert sorted(map(len, tested)) == [2, 2, 3]


def test_the_ledger_and_the_report_of_folds(session: SparkSession | None, tmp_path: Path) -> None:
    rows: list[tuple[Any, ...]] = [
        ("a", 1, 10, None, 0),
        ("a", 2, 20, None, 1),
        ("b", 1, 10, None, 2),
        ("b", 1, 30, None, 3),
        ("c", 3, None, None, 4),
        (None, 3, 10, None, 5),
    ]
    done = split_rows(session, rows, "k_fold", k=2, exact=session is not None)
    lines = ledger(done)
    assert lines["interactions", "in", None] == (6, None)
    # A row without a timestamp is as good as any, where time does not decide.
    assert lines["interactions", "used", None] == (5, None)
    assert lines["interactions", "quarantined", "NULL_ID"] == (1, None)
    assert lines["folds", "in", None] == (10, None)
    found, user = places(done), {row[4]: row[0] for row in rows}
    for fold in range(2):
        for part in ("train", "test"):
            held = in_part(found, fold, part)
            users = len({user[row] for row in held})
            assert lines["folds", "used", f"fold {fold} {part}"] == (len(held), users)
    pairs = {row[4]: row[:2] for row in rows}
    for (fold, check), (n_rows, n_users, leaked) in leaks(done).items():
        key = pairs if check == "pairs_in_train_and_test" else user
        known = {key[row] for row in in_part(found, fold, "train")}
        met = [row for row in in_part(found, fold, "test") if key[row] in known]
        assert (n_rows, n_users, leaked) == (len(met), len({user[row] for row in met}), False)
    facts = done.write(str(tmp_path / "splits"))
    assert facts == done.log.count()
    assert facts.n_written == 10 == pq.read_table(tmp_path / "splits").num_rows
    assert done.compared(facts, str(tmp_path / "splits")) == done.compared(facts)


def test_a_user_in_two_parts_is_a_leak_where_users_are_drawn() -> None:
    done = split_rows(None, random_rows(80, 40), "holdout", by="user", validation_share=0.3, test_share=0.3)
    assert leaks(done) == {
        (0, "pairs_in_train_and_test"): (0, 0, False),
        (0, "users_in_train_and_test"): (0, 0, False),
    }


@pytest.mark.parametrize(
    ("reason", "method", "options"),
    [
        ("cold_user", "k_fold", {"k": 3}),
        pytest.param("cold_item", "k_fold", {"k": 3}, marks=pytest.mark.exhaustive),
        ("seen", "holdout", {"test_share": 0.4, "validation_share": 0.3}),
    ],
)
def test_cold_and_seen_rows_are_dropped_fold_by_fold(
    spark: SparkSession, reason: str, method: str, options: dict[str, Any]
) -> None:
    keys = {"cold_user": slice(0, 1), "cold_item": slice(1, 2), "seen": slice(0, 2)}
    rows = random_rows(30, n_users=12)
    key = {row[4]: row[keys[reason]] for row in rows}
    before = places(split_rows(spark, rows, method, **options))
    option = reason if reason == "seen" else reason + "s"
    done = split_rows(spark, rows, method, **{option: "drop"}, **options)
    expected: dict[int, dict[int, str]] = {}
    for row, parts in before.items():
        for fold, part in parts.items():
            earlier = ["train"] + (["validation"] if part == "test" and reason == "seen" else [])
            known = {key[other] for name in earlier for other in in_part(before, fold, name)}
            if part == "train" or (key[row] in known) == (reason != "seen"):
                expected.setdefault(row, {})[fold] = part
    assert places(done) == expected
    n_dropped = sum(map(len, before.values())) - sum(map(len, expected.values()))
    assert n_dropped
    lines = ledger(done)
    assert lines["folds", "dropped", reason][0] == n_dropped
    unused = len(set(before) - set(expected))
    assert lines.get(("interactions", "dropped", reason), (0, None))[0] == unused


def test_an_empty_part_or_log_is_refused() -> None:
    with pytest.raises(DataError, match=r"no row is left for test of fold .* more; take fewer folds"):
        _ = split_rows(None, ROWS[:2], "k_fold", k=20).leakage
    with pytest.raises(DataError, match="EMPTY_INPUT"):
        _ = split_rows(None, [(None, 1, 2, None, 3)], "holdout").accounting


def test_a_subset_of_another_method_is_not_known() -> None:
    done = split_rows(None, ROWS, "k_fold", k=2)
    assert {row["fold"] for row in rows_of(done.subset("test", fold=1))} == {1}
    with pytest.raises(ConfigError, match="UNKNOWN_SUBSET"):
        done.subset("global_test")
    with pytest.raises(DataError, match=r"no column 'gener' to stratify by; did you mean 'genre'"):
        split_rows(None, ROWS, "stratified_k_fold", by=["gener"], exact=False)
    with pytest.raises(ConfigError, match="not both: method, k"):
        split(log_of(None, ROWS), done.rule, method="k_fold", k=2)


def test_a_log_without_timestamps_is_split_by_draws(session: SparkSession | None) -> None:
    log = log_of(session, ROWS)
    log = log.drop_columns("timestamp") if session is None else log.drop("timestamp")
    assert not [row for row in rows_of(split_log(log, "holdout").rows) if row["timestamp"] is not None]
    with pytest.raises(DataError, match="MISSING_COLUMN"):
        split_log(log, "time" if session is None else "last_fraction")
