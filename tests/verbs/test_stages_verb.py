"""Stages end to end: the tables that evaluate publishes of them, and the funnel on a terminal."""

import re
from typing import Any

import pytest
from rich.console import Console
from tests.cli.conftest import Desk

from spark_eval.cli.funnel import MOST_METRICS, show_funnel
from spark_eval.publishing.published import read_published
from spark_eval.runtime.session import get_session

STAGES = [
    {"name": "candidates", "models": ["best", "late"], "k": 2},
    {"name": "ranking", "model": "late", "k": 1},
    {"name": "final", "model": "half", "k": 1, "reranks": "ranking"},
]


def test_the_tables_are_published_shown_and_read_back(split_desk: Desk) -> None:
    desk = split_desk
    desk.tree["stages"] = STAGES
    out = desk.done("evaluate", "--run-id", "a").out
    stages, funnel = desk.table("stages"), desk.table("funnel")
    assert list(stages.columns[:6]) == ["stage", "model", "metric", "k", "segment", "segment_value"]
    by_key = {
        (row.stage, row.metric, row.k): row.value for row in stages.itertuples() if row.stage != "candidates"
    }
    # Users 1 to 4 want one item each: late has it second, half has it first for users 1 and 2.
    assert by_key["ranking", "mrr", 5] == 0
    assert by_key["final", "mrr", 5] == by_key["final", "efficiency_mrr", 5] == 0.5
    assert {row.step: (row.n_users, row.n_pairs) for row in funnel.itertuples()} == {
        "with_truth": (4, 4),
        "with_candidates": (4, 4),
        "with_relevant_candidate": (4, 4),
        "with_hit_in_ranking": (0, 0),
        "with_hit_in_final": (2, 2),
        "kept": (0, 0),
        "lost_reranking": (0, 0),
        "promoted": (2, 2),
        "lost_ranking": (2, 2),
        "lost_candidates": (0, 0),
        "outside_candidates": (0, 0),
    }
    assert re.search(r"with hit in final +│ 2 +│ 50.0% +│ █{20} ", out), out
    # Every user gets another item at rank 1.
    assert by_key["final", "share_replaced", 1] == 1
    assert re.search(r"final +│ 1 │ 0.0000 +│ 1.0000 +│ - +│", out), out
    assert re.search(r"\(all of them\) │ 2 │ 1.0000 │", out), out
    assert f"  stages      {desk.out}/stages/run_id=a" in out
    read = read_published(get_session(), str(desk.out), "funnel", "a").toPandas()
    assert sorted(read["step"]) == sorted(funnel["step"])
    assert "already published" in desk.done("evaluate", "--run-id", "a").out
    desk.tree["stages"] = STAGES[1:]
    assert desk.refused("evaluate", "--run-id", "a")[:2] == (2, "RUN_EXISTS")
    desk.tree["stages"] = [STAGES[0], {**STAGES[1], "model": "lat"}]
    desk.change("truth", path=str(desk.out / "splits" / "run_id=a"), subset="global_test")
    code, name, line = desk.refused("evaluate", "--run-id", "b")
    assert (code, name) == (2, "UNKNOWN_MODEL")
    assert "did you mean 'late'?" in line


EVERYBODY = {"segment": "all", "segment_value": "all"}


def stage(name: str, metric: str, value: float | None, k: int = 10) -> dict[str, Any]:
    return {"stage": name, "model": "m", "metric": metric, "k": k, **EVERYBODY, "value": value}


def shown(
    stages: list[dict[str, Any]], numbers: dict[str, int], screen: Console, capsys: pytest.CaptureFixture[str]
) -> str:
    steps = [{"step": step, **EVERYBODY, "n_users": n, "n_pairs": n} for step, n in numbers.items()]
    others = [{**row, "segment": "country", "segment_value": "DE"} for row in (*stages, *steps)]
    show_funnel([*stages, *others[: len(stages)]], [*steps, *others[len(stages) :]], screen)
    return capsys.readouterr().out


def test_the_view_has_a_line_per_step_fate_stage_and_metric(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "[red]a\x1b[2J[/]"
    stages = [stage(evil, "stage_recall", 0.5), stage(evil, "oracle_ndcg", 0.25)]
    stages += [stage("last", "stage_recall", 0.125, 3), stage("last", "ndcg", 0.2)]
    stages += [stage("last", "efficiency_ndcg", None), stage("last", "conditional_ndcg", 0.75)]
    numbers = {"with_truth": 8, f"with_hit_in_{evil}": 1, "kept": 1, "lost_candidates": 3}
    out = shown(stages, numbers, Console(width=140, highlight=False), capsys)
    assert "\x1b" not in out
    lines = [re.sub("[┃│]", " ", line).split() for line in out.splitlines()]
    assert ["with", "truth", "8", "100.0%", "█" * 40] in lines
    assert ["kept", "1", "25.0%", "█" * 10] in lines
    assert ["last", "m", "3", "0.1250"] in lines
    assert ["ndcg@10", "0.2500", "0.2000", "-", "0.7500"] in lines
    assert any("[red]a\\x1b[2J[/]" in line for line in lines)


def test_many_metrics_are_cut_and_no_truth_divides_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    cuts = range(1, MOST_METRICS + 3)
    stages = [stage("first", "oracle_cg", None, k) for k in cuts]
    stages += [
        stage("last", f"{before}cg", None, k) for k in cuts for before in ("", "efficiency_", "conditional_")
    ]
    out = shown(stages, {"with_truth": 0, "kept": 0}, Console(width=140, highlight=False), capsys)
    assert "and 2 more in the table stages" in out
    assert f"cg@{MOST_METRICS} " in out
    assert f"cg@{MOST_METRICS + 1} " not in out
