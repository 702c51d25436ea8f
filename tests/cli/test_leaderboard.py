"""What a terminal shows of a run: the metrics asked for, what is left out, and what a method promises."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console
from tests.cli.conftest import published_run

from spark_eval.accounting import Entry
from spark_eval.cli import terminal
from spark_eval.cli.leaderboard import show
from spark_eval.evaluation.plan import DEFAULT_METRICS
from spark_eval.kernels.registry import RANKING
from spark_eval.results.leaderboard import Leaderboard
from spark_eval.results.subsets import SubsetRow
from spark_eval.schema import Direction, Table
from spark_eval.splits.leakage import LeakageRow
from spark_eval.splits.rules.folds import Holdout, KFold
from spark_eval.splits.rules.global_local_ranker import GlobalLocalRanker
from spark_eval.splits.rules.leave_out import LastFraction
from spark_eval.verbs import VERBS, split


def row(metric: str, k: int | None = 10, segment: str = "all", value: str = "all") -> dict[str, object]:
    return {
        "model": "m",
        "metric": metric,
        "k": k,
        "segment": segment,
        "segment_value": value,
        "value": 0.25,
        "n_users": 82,
    }


def shown(rows: list[dict[str, object]], width: int, capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    show(Leaderboard.of(rows), "metrics of run a", Console(width=width, highlight=False))
    return [line.replace("┃", " ").replace("│", " ").split() for line in capsys.readouterr().out.splitlines()]


def test_all_that_is_asked_for_is_shown_in_its_order(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row(metric, k) for metric in DEFAULT_METRICS for k in (5, None)]
    lines = shown(rows, 140, capsys)
    assert lines[2] == ["model", "k", *DEFAULT_METRICS, "users"]
    assert lines[4] == ["m", "5", *["0.2500"] * 9, "82"]
    assert lines[5][:2] == ["m", "all"]
    assert len(lines) == 7


def test_what_does_not_fit_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row(metric) for metric in DEFAULT_METRICS]
    lines = shown(rows, 60, capsys)
    assert lines[2] == ["model", "k", "precision", "recall", "f1", "users"]
    told = "3 of 9 metrics fit here; in the table metrics also: hit_rate, map, mar, mrr, arhr, ndcg"
    assert " ".join(lines[-1]) == told
    # One is shown however narrow it is.
    assert "precision," not in shown(rows, 10, capsys)[-1]


def test_a_threshold_says_which_gain_ndcg_takes(capsys: pytest.CaptureFixture[str]) -> None:
    stamps = {"conventions": "default, gain=exp2; no_hits=zero; relevance>=4.0"}
    rows = [row(name) | stamps for name in ("ndcg", "ndcg(gain=binary)", "map")]
    said = "an item of relevance 4 or more gains"
    assert [" ".join(line) for line in shown(rows, 80, capsys)[-2:]] == [
        f"ndcg: {said} 2^relevance - 1 (gain=exp2); others gain 0",
        f"ndcg(gain=binary): {said} 1 (gain=binary); others gain 0",
    ]
    without = [row("ndcg") | {"conventions": "default; relevance>0"}]
    assert "gain" not in " ".join(shown(without, 80, capsys)[-1])


def test_segments_and_folds_are_mentioned(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row("map"), row("map", segment="shop", value="x"), row("map", segment="folds", value="mean")]
    rows.append(row("map", segment="folds", value="sd"))
    lines = shown(rows, 80, capsys)
    assert ["m", "10", "0.2500", "±", "0.2500", "82"] in lines
    assert " ".join(lines[-1]) == "by shop: `leaderboard(segment='shop')` in Python, or the table metrics"


def mean(
    model: str, value: float | None, error: float | None = 0.01, metric: str = "ndcg"
) -> dict[str, object]:
    return {**row(metric), "model": model, "value": value, "std_error": error, "n_users": 1000}


def marked(*rows: dict[str, object]) -> dict[str, str]:
    board = Leaderboard.of(rows)
    [cells] = board.metrics.values()
    return {
        model: cell.lstrip("0123456789.-") for model, cell in zip(board.lines["model"], cells, strict=True)
    }


def test_the_best_model_is_marked_and_those_that_are_not_certainly_worse(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [mean("a", 0.30), mean("b", 0.32), mean("c", 0.25), mean("d", None)]
    # From b to c it is 0.07 / 0.0141: 4.9 standard errors; to a 1.4.
    assert marked(*rows) == {"a": "~", "b": "*", "c": "", "d": ""}
    lines = shown(rows, 120, capsys)
    assert " ".join(lines[-1]) == (
        "* the best of its k; ~ not significantly worse than the best "
        "(approximate; `spark-eval compare` runs the paired test)"
    )


def test_what_is_certain_is_corrected_for_the_number_of_models() -> None:
    # Alone p is 0.038; of three such models the least p counts three times.
    alone = [mean("a", 0.30), mean("b", 0.275)]
    assert marked(*alone) == {"a": "*", "b": ""}
    assert marked(*alone, mean("c", 0.275), mean("d", 0.275)) == {"a": "*", "b": "~", "c": "~", "d": "~"}


def test_marks_need_several_models_and_errors_of_their_means() -> None:
    assert marked(mean("a", 0.3)) == {"a": ""}
    assert marked(mean("a", 0.3, None), mean("b", 0.2, None)) == {"a": "*", "b": ""}
    assert marked(mean("a", 0.3), mean("b", 0.3)) == {"a": "*", "b": "*"}
    folds = [
        {**mean(model, 0.3), "segment": "folds", "segment_value": value}
        for model in "ab"
        for value in ("mean", "sd")
    ]
    assert set(marked(mean("a", 0.3), mean("b", 0.3), *folds).values()) == {" ± 0.3000"}


@pytest.mark.parametrize("differs", [{"n_users": 19}, {"n_rows": 7}])
def test_models_of_different_populations_have_no_marks(differs: dict[str, object]) -> None:
    others = [mean("a", 0.30), mean("b", 0.32)]
    few = {**mean("few", 0.9), **differs}
    assert {mark.split(" (")[0] for mark in marked(*others, few).values()} == {""}
    # Another metric or cutoff, and a model without a value, are no other population of this one.
    assert marked(*others, {**few, "value": None, "n_users": 0}) == {"a": "~", "b": "*", "few": ""}
    board = Leaderboard.of([*others, {**few, "k": 5}])
    assert sorted(board.metrics["ndcg"]) == ["0.3000~", "0.3200*", "0.9000"]


def test_a_cell_of_other_users_than_its_line_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    of_few = {**mean("als", 3.5, metric="novelty"), "n_users": 19}
    rows = [mean("als", 0.3), of_few, mean("pop", 0.2), mean("pop", 2.5, metric="novelty")]
    board = Leaderboard.of(rows)
    assert board.metrics == {"ndcg": ["0.3000*", "0.2000"], "novelty": ["3.5000 (19)", "2.5000"]}
    assert board.users == {"users": ["1,000", "1,000"]}
    lines = shown(rows, 120, capsys)
    assert "(n): a mean of n users, not of all in its line; no marks between models of other users" in [
        " ".join(line) for line in lines
    ]
    assert not any("(n)" in note for note in Leaderboard.of([mean("als", 0.3), mean("pop", 0.2)]).notes)


@pytest.mark.parametrize(
    ("choice", "says"),
    [
        ("zero", "they count as 0, and are left out of metrics of the items in a list"),
        ("drop", "they are left out"),
    ],
)
def test_users_without_a_list_are_mentioned(choice: str, says: str) -> None:
    rows = [mean("als", 0.3), mean("knn", 0.2), mean("pop", 0.1)]
    entries = [
        {"outcome": "no_recommendations", "reason": choice, "model": model, "users": n}
        for model, n in (("als", 1062), ("knn", 0), ("pop", 1))
    ]
    [note] = [one for one in Leaderboard.of(rows, entries=entries).notes if "no list" in one]
    assert note == f"no list: als for 1,062 users, pop for 1 user; {says} (no_recommendations={choice})"
    # One metric of one model alone is not about the others.
    assert not any("no list" in one for one in Leaderboard.of(rows).notes)


def test_many_models_without_lists_are_counted() -> None:
    rows = [mean(f"m{n}", 0.3) for n in range(9)]
    entries = [
        {"outcome": "no_recommendations", "reason": "zero", "model": f"m{n}", "users": 2} for n in range(9)
    ]
    [note] = [one for one in Leaderboard.of(rows, entries=entries).notes if "no list" in one]
    assert "m4 for 2 users and 4 more models; they" in note


def test_lower_values_are_better_where_the_metric_says_so() -> None:
    object.__setattr__(RANKING["ndcg"], "direction", Direction.LOWER)
    try:
        assert marked(mean("a", 0.30), mean("b", 0.32), mean("c", 0.25)) == {"a": "", "b": "", "c": "*"}
    finally:
        object.__setattr__(RANKING["ndcg"], "direction", Direction.HIGHER)


def show_split(tmp_path: Path, checks: Sequence[LeakageRow], subsets: Sequence[SubsetRow]) -> None:
    """Print a split of these checks and subsets."""
    rows: dict[Table, tuple[Sequence[Any], type[Any]]] = {
        Table.LEAKAGE: (checks, LeakageRow),
        Table.SUBSETS: (subsets, SubsetRow),
        Table.ACCOUNTING: ([Entry("interactions", None, "in", None, 9, None)], Entry),
    }
    tables: dict[str, pa.Table] = {
        table: pa.table({name: [getattr(row, name) for row in of_table] for name in kind._fields})
        for table, (of_table, kind) in rows.items()
    }
    terminal.show_done(VERBS["split"], published_run("split", tables, tmp_path))


def test_repeated_pairs_of_a_split_are_called_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = [
        LeakageRow(0, "global_test_at_or_before_global_train", 0, 0, False),
        LeakageRow(0, "users_in_both_ranker_parts", 3, 1, True),
        LeakageRow(0, "pairs_in_train_and_global_test", 1355, 80, False),
    ]
    show_split(tmp_path, checks, [])
    out = capsys.readouterr().out
    verdicts = [
        line.replace("│", " ").split()[-1] for line in out.splitlines() if "│" in line and "_" in line
    ]
    assert verdicts == ["no", "LEAK", "allowed"]
    assert (
        "leaked rows: 3\n1,355 test rows repeat a train pair; allowed here, `seen: drop` removes them\n"
        in out
    )


def test_a_split_says_what_to_train_on_and_counts_cold_users(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subsets = [
        SubsetRow(0, "local_train", 8_000, 200, 90, None, None, None),
        SubsetRow(0, "ranker_test", 500, 40, 80, "local_train", 4, 2),
        SubsetRow(0, "global_test", 1_355, 82, 100, "global_train", 60, 50),
        SubsetRow(0, "global_train", 9_000, 300, 99, None, None, None),
    ]
    show_split(tmp_path, [LeakageRow(0, "users_in_both_ranker_parts", 0, 0, False)], subsets)
    out = capsys.readouterr().out
    assert (
        "train on global_train (9,000 rows, 300 users) for global_test\n"
        "train on local_train (8,000 rows, 200 users) for ranker_test\n"
        "warning: 60 of 82 users of global_test (73%) have no row in global_train: no model can know them; "
        "`cold_users: drop` leaves their rows out\n" in out
    )
    lines = [line.replace("│", " ").split() for line in out.splitlines()]
    cold = ["60", "(73%)", "50", "(50%)"]
    assert ["global_test", "1,355", "82", "100", "global_train", *cold] in lines
    assert ["local_train", "8,000", "200", "90"] in lines


def test_every_check_that_may_be_allowed_says_why() -> None:
    rules = [kind() for kind in (GlobalLocalRanker, Holdout, KFold, LastFraction)]
    checks = [check for rule in rules for check in rule.checks.items()]
    assert {name for name, check in checks if not check.is_leak} == set(split.ALLOWED)
