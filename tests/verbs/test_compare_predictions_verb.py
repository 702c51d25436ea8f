"""Runs of predictions end to end: sums of users published, compared, gated, refused by name."""

from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Desk

pytestmark = pytest.mark.usefixtures("each_engine")

N_USERS = 60
OPTIONS: dict[str, Any] = {
    "columns": {"label": "clicked", "score": "p", "user": "who"},
    "task": "binary",
    "metrics": ["auc", "log_loss", "precision"],
    "intervals": "user",
}
GATE: dict[str, Any] = {"metric": "auc", "max_drop": 0.02, "min_users": 10}


def clicks(seed: int, noise: float) -> pd.DataFrame:
    """Ten rows of each user: the same users and labels for each seed, scores by the noise of a model."""
    random = np.random.default_rng(seed)
    logit = random.normal(-1, 2, N_USERS * 10)
    label = (random.random(len(logit)) < 1 / (1 + np.exp(-logit))).astype(int)
    score = 1 / (1 + np.exp(-(logit + noise * random.standard_normal(len(logit)))))
    return pd.DataFrame({"who": np.arange(len(logit)) % N_USERS, "clicked": label, "p": score})


@pytest.fixture(scope="module")
def runs(each_engine: str, new_desk: type[Desk], tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """Runs of one model: a and b of the same rows, b with a worse one; c of other rows; d without users."""
    desk = new_desk(tmp_path_factory.mktemp(f"ctr-{each_engine}"))
    desk.tree = {
        "output": {"path": str(desk.out)},
        "predictions": {**OPTIONS, "path": str(desk.write("a", clicks(1, 0.1))), "model": "ctr"},
    }
    desk.done("predictions", "--run-id", "a")
    for run, seed, noise in (("b", 1, 3.0), ("c", 2, 0.1)):
        path = desk.write(run, clicks(seed, noise))
        desk.done("predictions", "--run-id", run, "--set", f"predictions.path={path}")
    desk.done("predictions", "--run-id", "d", "--set", "predictions.intervals=none")
    return desk


def test_sums_of_users_are_published(runs: Desk) -> None:
    rows = pq.read_table(runs.out / "per_user" / "run_id=a").to_pandas()
    assert len(rows) == rows["user"].nunique() == N_USERS
    assert set(rows["rows"]) == {10.0}
    metrics = pq.read_table(runs.out / "metrics" / "run_id=a").to_pandas().set_index("metric")
    assert rows["loss"].sum() / rows["rows"].sum() == pytest.approx(metrics["value"]["log_loss"], rel=1e-14)
    placed = rows["placed_1"].sum() / rows["labels_1"].sum()
    assert placed == pytest.approx(metrics["value"]["auc"], rel=1e-14)
    assert (metrics["std_error"] > 0).all()
    assert not (runs.out / "per_user" / "run_id=d").exists()


def test_a_worse_model_is_told_and_its_gate_fails(runs: Desk, tmp_path: Path) -> None:
    desk = runs.twin(tmp_path)
    desk.tree["output"] = {"path": str(runs.out)}
    desk.change("compare", baseline={"run": "a"})
    desk.tree["gates"] = [GATE]
    answer = desk.run("compare", "--run-id", "b")
    assert answer.code == 5
    assert "1 of 1 gates failed: auc of 'ctr' against 'ctr' of run 'a' is worse" in answer.err
    assert "ctr falls behind ctr of a in auc by" in answer.out
    rows = pq.read_table(runs.out / "comparisons" / "run_id=b").to_pylist()
    assert {row["metric"] for row in rows} == {"auc", "log_loss", "precision(threshold=0.5)"}
    assert {row["k"] for row in rows} == {None}
    for row in rows:
        assert row["ci_low"] <= row["difference"] <= row["ci_high"]
        assert row["wins"] + row["ties"] + row["losses"] == row["n_users"] == N_USERS
    assert desk.run("compare", "--run-id", "b").code == 5
    page = tmp_path / "page.html"
    desk.done("report", "--run-id", "b", "--to", str(page))
    assert "ctr falls behind ctr of a in log_loss by" in unescape(page.read_text(encoding="utf-8"))


def test_segments_of_published_runs_are_compared_and_gated(runs: Desk, tmp_path: Path) -> None:
    """The new model is worse in one country; each row is that of two runs of its country alone."""
    desk = runs.twin(tmp_path)
    desk.change("predictions", segments=["country"])
    old = clicks(1, 0.1).assign(country=np.where(np.arange(N_USERS * 10) % 7 > 2, "DK", "NO"))
    new = old.assign(p=np.where(old["country"] == "NO", clicks(1, 3.0)["p"], old["p"]))
    for run, rows in (("old", old), ("new", new)):
        for part in ("all", "DK", "NO"):
            mine = rows if part == "all" else rows[rows["country"] == part]
            path = desk.write(f"{run}-{part}", mine)
            desk.done("predictions", "--run-id", f"{run}-{part}", "--set", f"predictions.path={path}")
    desk.change("compare", baseline={"run": "old-all"}, segments=["country"])
    desk.tree["gates"] = [GATE | {"segment": "country"}]
    answer = desk.run("compare", "--run-id", "new-all")
    assert answer.code == 5
    assert "1 of 2 gates failed: auc (country 'NO') of 'ctr' against 'ctr' of run" in answer.err
    gates = pq.read_table(desk.out / "gates" / "run_id=new-all").to_pandas()
    assert dict(zip(gates["segment_value"], gates["passed"], strict=True)) == {"DK": True, "NO": False}
    found = numbers_of(desk, "new-all")
    assert {key[1:] for key in found} == {("all", "all"), ("country", "DK"), ("country", "NO")}
    del desk.tree["gates"]
    for part in ("DK", "NO"):
        desk.change("compare", baseline={"run": f"old-{part}"}, segments=None)
        desk.done("compare", "--run-id", f"new-{part}")
        alone = numbers_of(desk, f"new-{part}")
        for (metric, segment, _), numbers in alone.items():
            assert segment == "all"
            assert found[metric, "country", part] == numbers


def numbers_of(desk: Desk, run: str) -> dict[tuple[str, str, str], tuple[float, ...]]:
    """Numbers of the rows of ``comparisons`` by metric, segment and its value."""
    rows = pq.read_table(desk.out / "comparisons" / f"run_id={run}").to_pylist()
    names = ("n_users", "baseline_value", "candidate_value", "difference", "ci_low", "ci_high", "p_value")
    keys = ("metric", "segment", "segment_value")
    return {(row[keys[0]], row[keys[1]], row[keys[2]]): tuple(row[name] for name in names) for row in rows}


def test_gates_follow_predictions(runs: Desk, tmp_path: Path) -> None:
    desk = runs.twin(tmp_path)
    both = [clicks(1, noise).assign(name=name) for name, noise in (("new", 3.0), ("serving", 0.1))]
    desk.tree["predictions"] = OPTIONS | {"path": str(desk.write("both", pd.concat(both)))}
    desk.change("predictions", columns=OPTIONS["columns"] | {"model": "name"})
    desk.tree["output"] = {"path": str(desk.out)}
    desk.tree["gates"] = [GATE | {"model": "new", "against": {"model": "serving"}}]
    answer = desk.run("predictions", "--run-id", "day")
    assert answer.code == 5
    assert "auc of 'new' against 'serving' is worse" in answer.err
    desk.tree["gates"] = [GATE | {"model": "serving", "against": {"model": "new"}}]
    desk.done("compare", "--run-id", "day", "--replace")


@pytest.mark.parametrize(
    ("candidate", "baseline", "code", "part"),
    [
        ("c", "a", "ROWS_DIFFER", "let both models score the same rows"),
        ("a", "d", "NO_USERS", "intervals: user"),
        ("d", "a", "NO_USERS", "intervals: user"),
        ("a", "nowhere", "MISSING_BASELINE", "nowhere"),
    ],
)
def test_what_is_refused(
    runs: Desk, tmp_path: Path, candidate: str, baseline: str, code: str, part: str
) -> None:
    desk = runs.twin(tmp_path)
    desk.tree["output"] = {"path": str(runs.out)}
    desk.change("compare", baseline={"run": baseline})
    answer = desk.run("compare", "--run-id", candidate)
    assert answer.code in (2, 3)
    assert f"error[{code}]" in answer.err
    assert part in answer.err
