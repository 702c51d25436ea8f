"""The ledger closes, by arithmetic alone: no Spark here."""

from collections import Counter

import pytest

from spark_eval.accounting import (
    ACCOUNTING,
    Counts,
    Entry,
    EntryKey,
    ListCounts,
    TruthCounts,
    check_accounting,
    list_entries,
    table_entries,
)
from spark_eval.conventions import Conventions
from spark_eval.conventions.presets import parse_conventions
from spark_eval.errors import DataError, SparkEvalError
from spark_eval.schema import FATAL, Fault, Outcome, Reason

DEFAULT = Conventions()

IN, USED, DROPPED, FILTERED = Outcome.IN, Outcome.USED, Outcome.DROPPED, Outcome.FILTERED
REPEATED = (Outcome.DEDUPLICATED, Reason.REPEATED_ITEM)


def truth(*used: tuple[str | None, int, int]) -> TruthCounts:
    """Counts of 10 rows: 6 used as 4 items of 2 users, 1 below the threshold, 3 without an id.

    ``used`` are the reason, items and users of each line of what is used.
    """
    lines: dict[EntryKey, tuple[int, int]] = {
        (Outcome.QUARANTINED, "NULL_ID"): (3, 1),
        (IN, None): (10, 3),
        (FILTERED, "below_threshold"): (1, 1),
        **{(USED, reason): (items, users) for reason, items, users in used or [(None, 4, 2)]},
    }
    rows = Counter({line: rows for line, (rows, _) in lines.items()} | {REPEATED: 2})
    return TruthCounts(rows, Counter({line: users for line, (_, users) in lines.items()}))


def lists(clashes: int = 0) -> dict[str | None, ListCounts]:
    """Counts of a model's 12 rows, each kind of outcome once."""
    lines: dict[EntryKey, tuple[int, int]] = {
        (IN, None): (12, 4),
        (USED, None): (4, 2),
        (DROPPED, Reason.NO_TRUTH): (2, 1),
        (FILTERED, Reason.BEYOND_K): (3, 1),
        REPEATED: (1, 1),
        (Outcome.QUARANTINED, "NULL_ID"): (2, 0),
        (Outcome.QUARANTINED, "NULL_SCORE"): (0, 0),
    }
    users: dict[EntryKey, int] = {(Outcome.TIES_AT_CUT, "k=1"): 0, (Outcome.TIES_AT_CUT, "k=5"): 2}
    of_model = ListCounts(
        Counter({line: rows for line, (rows, _) in lines.items()}),
        Counter({line: users for line, (_, users) in lines.items()} | users),
        with_truth=2,
        without_hits=1,
        without_truth=1,
        clashes=clashes,
    )
    return {"als": of_model}


def entry(outcome: str, rows: int, reason: str | None = None, model: str | None = "als") -> Entry:
    return Entry("recommendations", model, outcome, reason, rows, None)


def test_entries_of_the_truth_add_up() -> None:
    entries = table_entries("truth", truth())
    assert [(e.outcome, e.reason, e.rows, e.users) for e in entries] == [
        ("in", None, 10, 3),
        ("used", None, 4, 2),
        ("deduplicated", "repeated_item", 2, None),
        ("quarantined", "NULL_ID", 3, 1),
        ("filtered", "below_threshold", 1, 1),
    ]
    check_accounting(entries)


def test_truth_without_a_row_has_an_entry_all_the_same() -> None:
    empty = TruthCounts(Counter({(IN, None): 0}), Counter({(IN, None): 0}))
    assert table_entries("truth", empty) == [Entry("truth", None, "in", None, 0, 0)]


def test_entries_of_the_recommendations_add_up() -> None:
    entries = list_entries(lists(), 5, DEFAULT)
    assert [(e.outcome, e.reason, e.rows, e.users) for e in entries] == [
        ("in", None, 12, 4),
        ("used", None, 4, 2),
        ("dropped", "no_truth", 2, 1),
        ("filtered", "beyond_k", 3, 1),
        ("deduplicated", "repeated_item", 1, 1),
        ("quarantined", "NULL_ID", 2, 0),
        ("no_recommendations", "zero", 0, 3),
        ("ties_at_cut", "k=5", 0, 2),
        ("in", None, 6, 6),
        ("used", None, 1, 1),
        ("used", "no_hits", 1, 1),
        ("used", "no_recommendations", 3, 3),
        ("dropped", "no_truth", 1, 1),
    ]
    assert [e.source for e in entries] == ["recommendations"] * 8 + ["users"] * 5
    check_accounting(entries)


def test_cold_items_are_a_part_of_what_is_used() -> None:
    cold: EntryKey = (USED, Reason.COLD_ITEM)
    more = ListCounts(Counter({(USED, None): -1, cold: 1}), Counter({cold: 1}))
    entries = list_entries({"als": lists()["als"] + more}, 5, DEFAULT)
    used = [(e.reason, e.rows) for e in entries if (e.source, e.outcome) == ("recommendations", "used")]
    assert used == [(None, 3), ("cold_item", 1)]
    check_accounting(entries)


def test_cold_items_of_the_truth_are_a_part_of_what_is_used() -> None:
    for warm, cold in (((4, 2), (0, 0)), ((3, 2), (1, 1)), ((0, 0), (4, 2))):
        entries = table_entries("truth", truth((None, *warm), (Reason.COLD_ITEM, *cold)))
        lines = [("used", None, *warm), ("used", "cold_item", *cold)]
        assert [e[2:] for e in entries if e.outcome == USED] == [line for line in lines if line[2]]
        check_accounting(entries)


def test_entries_of_the_training_interactions_add_up() -> None:
    bad: EntryKey = (Outcome.QUARANTINED, "NULL_ID")
    rows, users = {bad: 3, (IN, None): 9, (USED, None): 6}, {bad: 1, (IN, None): 2, (USED, None): 2}
    entries = table_entries("train", Counts(Counter(rows), Counter(users), largest=5))
    assert entries == [
        ("train", None, "in", None, 9, 2),
        ("train", None, "used", None, 6, 2),
        ("train", None, "largest", "rows=5", 0, 1),
        ("train", None, "quarantined", "NULL_ID", 3, 1),
    ]
    check_accounting(entries)


def test_rows_of_users_without_truth_are_used_where_these_count() -> None:
    entries = list_entries(lists(), 5, parse_conventions({"no_truth": "zero"}))
    found = [(e.source, e.outcome, e.rows) for e in entries if e.reason == Reason.NO_TRUTH]
    assert found == [("recommendations", "used", 2), ("users", "used", 1)]


def test_the_accounting_names_the_rule_for_users_without_recommendations() -> None:
    entries = list_entries(lists(), 5, parse_conventions({"no_recommendations": "drop"}))
    assert [(e.reason, e.users) for e in entries if e.outcome == Outcome.NO_RECOMMENDATIONS] == [("drop", 3)]


def test_every_model_has_its_own_sum_in_the_order_of_names() -> None:
    entries = list_entries({"bpr": lists()["als"], **lists()}, 5, DEFAULT)
    totals = [(e.source, e.model, e.rows) for e in entries if e.outcome == Outcome.IN]
    of_model = [("recommendations", 12), ("users", 6)]
    assert totals == [(source, model, rows) for model in ("als", "bpr") for source, rows in of_model]


def test_users_left_out_are_counted_by_reason() -> None:
    rules = {"no_recommendations": "drop", "no_truth": "zero", "no_hits": "drop"}
    entries = list_entries(lists(), 5, parse_conventions(rules))
    assert [(e.outcome, e.reason, e.rows) for e in entries if e.source == "users"] == [
        ("in", None, 6),
        ("used", None, 1),
        ("dropped", "no_hits", 1),
        ("dropped", "no_recommendations", 3),
        ("used", "no_truth", 1),
    ]
    check_accounting(entries)


def test_a_row_too_few_or_too_many_leaves_the_ledger_open() -> None:
    for rows in (11, 13):
        more = ListCounts(Counter({(IN, None): rows - 12}))
        entries = list_entries({"als": lists()["als"] + more}, 5, DEFAULT)
        with pytest.raises(SparkEvalError, match="recommendations of model 'als'") as raised:
            check_accounting(entries)
        assert raised.value.code == "LEDGER_OPEN"


def test_another_models_rows_do_not_close_a_ledger() -> None:
    with pytest.raises(SparkEvalError) as raised:
        check_accounting([entry("in", 1), entry("used", 1, model="bpr")])
    assert raised.value.code == "LEDGER_OPEN"


@pytest.mark.parametrize("fault", FATAL)
def test_a_single_row_of_a_fatal_fault_refuses_the_table(fault: Fault) -> None:
    with pytest.raises(DataError, match=r"1 (rows|relevant items)") as raised:
        check_accounting([entry("in", 1), entry("quarantined", 1, fault)])
    assert raised.value.code == fault


def test_relevant_items_that_share_a_rank_refuse_the_table() -> None:
    with pytest.raises(DataError) as raised:
        check_accounting(list_entries(lists(clashes=2), 5, DEFAULT))
    assert raised.value.code == Fault.DUPLICATE_RANK


def test_all_fatal_faults_come_in_one_error() -> None:
    faults = [entry("quarantined", 2, Fault.RANK_BASE), entry("quarantined", 3, Fault.NULL_MODEL, model=None)]
    with pytest.raises(DataError) as raised:
        check_accounting(faults)
    assert str(raised.value).startswith("error[RANK_BASE] recommendations of model 'als': 2 rows")
    assert "also [NULL_MODEL] recommendations: 3 rows" in str(raised.value)


def test_a_fault_that_is_not_fatal_passes() -> None:
    check_accounting([entry("in", 1), entry("quarantined", 1, Fault.NULL_ID)])


def test_a_line_has_the_order_of_the_table() -> None:
    assert Entry("truth", None, "used", None, 4, 2) == ("truth", None, "used", None, 4, 2)
    assert [field.split()[0] for field in ACCOUNTING.split(", ")] == list(Entry._fields)
