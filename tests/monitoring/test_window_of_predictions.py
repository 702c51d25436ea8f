"""Windows of predictions: the same as one job over all rows, in any order; what is absent or refused."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.monitoring.days import FIRST, publish_day
from tests.monitoring.test_window_verb import no_spark

from spark_eval import add_sums, window
from spark_eval.cli.commands import main
from spark_eval.errors import ConfigError, DataError
from spark_eval.monitoring.plan import make_window_plan
from spark_eval.monitoring.predictions import ScoredDay, ScoredWindow, merge_scored_days
from spark_eval.predictions.tables import PredictionRow
from spark_eval.publishing.local import LocalStore
from spark_eval.runs.run import run_verb
from spark_eval.runs.sections import parse_config
from spark_eval.schema import Table
from spark_eval.verbs import VERBS
from spark_eval.verbs.window import scored_day_of

DAYS = ["2024-02-28", "2024-02-29", "2024-03-01"]
ENDS: Any = {"first": DAYS[0], "last": DAYS[-1]}
ADDED = ["accuracy", "precision", "f1", "confusion", "log_loss", "ece", "mae", "mse", "rmse"]
BINARY = {
    "task": "binary",
    "metrics": [*ADDED, "auc", "gauc"],
    "thresholds": [0.3, 0.7],
    "bins": 4,
    "sampling_rate": 0.5,
    "segments": ["country"],
    "curves": True,
    "choose": {"recall": [0.9]},
    "intervals": "user",
}
REGRESSION = {"task": "regression", "metrics": ["mae", "r2", "mape"], "intervals": "user"}
CLASSES = {"task": "multiclass", "classes": ["a", "b", "c"], "scores": "class", "intervals": "user"}


def publish(root: Path, run_id: str, rows: pd.DataFrame, section: Any, **more: Any) -> None:
    """Publish the predictions of a day, in this process."""
    source = root / "rows" / f"{run_id}-{len(list((root / 'rows').glob('*')))}"
    source.mkdir(parents=True)
    rows.to_parquet(source / "part.parquet", index=False)
    tree = {
        "output": {"path": str(root / "out")},
        "engine": "local",
        "predictions": {"path": str(source), "max_quarantined": 1.0, **section, **more},
    }
    run_verb(VERBS["predictions"], no_spark, parse_config(tree), run_id, True)


def rows_of(seed: int, n: int, n_users: int = 20) -> pd.DataFrame:
    """Rows of two models with weights and a segment; some are quarantined."""
    random = np.random.default_rng(seed)
    score = np.round(random.random(n), 3)
    rows = pd.DataFrame(
        {
            "label": (random.random(n) < score).astype(int),
            "score": score,
            "user": random.integers(0, n_users, n),
            "weight": random.choice([0.0, 0.1, 1.0, 3.3], n),
            "country": random.choice(np.array(["DE", "FR", None], dtype=object), n),
            "model": random.choice(["ctr", "pop/ular"], n),
        }
    )
    rows.loc[:1, "model"] = ["ctr", "pop/ular"]
    rows.loc[2:3, "label"] = 7
    return rows


def numbers(rows: Any) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Value, undefined rows, conventions and rows of each line of ``metrics``."""
    names = ("model", "metric", "segment", "segment_value")
    values = ("value", "n_undefined", "conventions", "n_rows")
    return {
        tuple(getattr(row, name) for name in names): tuple(getattr(row, name) for name in values)
        for row in rows
    }


@settings(max_examples=2, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(
    seeds=st.lists(st.integers(0, 10**6), min_size=3, max_size=3),
    sizes=st.lists(st.integers(4, 60), min_size=3, max_size=3),
    order=st.permutations(range(3)),
)
def test_a_window_of_predictions_is_one_job_over_all_days_in_any_order(
    seeds: list[int], sizes: list[int], order: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("days")
    days = [rows_of(seed, size) for seed, size in zip(seeds, sizes, strict=True)]
    for run_id, rows in zip(DAYS, days, strict=True):
        publish(root, run_id, rows, BINARY)
    publish(root, "whole", pd.concat(days), BINARY)
    plan = make_window_plan(**ENDS)
    store = LocalStore(root / "out")
    merged = merge_scored_days([scored_day_of(store, DAYS[at]) for at in order], plan)
    whole = scored_day_of(store, "whole")
    added = [row for row in metrics_of(whole) if not row.metric.startswith(("auc", "gauc"))]
    assert numbers(merged.metric_rows) == numbers(added)
    assert merged.sum_rows == whole.sum_rows
    curves = whole.open(Table.CURVES).rows()
    assert [row for row in curves if row["curve"].startswith("calibration")] == merged.to_arrow(
        "curves"
    ).to_pylist()
    errors = {(row.model, row.metric, row.segment_value): row for row in added}
    assert {row.segment for row in merged.metric_rows} == {"all", "country"}
    for row in merged.metric_rows:
        one = errors[row.model, row.metric, row.segment_value]
        assert row.n_users == one.n_users
        if row.metric.startswith("ece"):
            # One job resamples its users; a window has no replicates.
            assert row.std_error is None
            continue
        assert (row.std_error is None) == (one.std_error is None)
        assert math.isclose(row.std_error or 0, one.std_error or 0, rel_tol=1e-9, abs_tol=1e-12)
    of_rows = {(one.model, one.outcome, one.reason): one.rows for one in merged.entries}
    assert of_rows["ctr", "in", None] == sum((rows.model == "ctr").sum() for rows in days)
    assert merge_scored_days([scored_day_of(store, run_id) for run_id in DAYS], plan) == merged
    shutil.rmtree(root)


@pytest.mark.parametrize("section", [REGRESSION, CLASSES])
def test_regressions_and_classes_merge_to_the_same_bits(section: Any, tmp_path: Path) -> None:
    days = []
    for seed in range(2):
        random = np.random.default_rng(seed)
        numbers_of = {"label": random.normal(10, 3, 50), "score": random.normal(10, 3, 50)}
        names = {name: random.choice(["a", "b", "c"], 50) for name in ("label", "score")}
        rows = names if section is CLASSES else numbers_of
        days.append(pd.DataFrame({**rows, "user": random.integers(0, 9, 50), "model": "ctr"}))
        publish(tmp_path, DAYS[seed], days[seed], section)
    publish(tmp_path, "whole", pd.concat(days), section)
    merged = window(str(tmp_path / "out"), **TWO)
    whole = scored_day_of(LocalStore(tmp_path / "out"), "whole")
    assert numbers(merged.metric_rows) == numbers(metrics_of(whole))
    assert merged.sum_rows == whole.sum_rows
    assert merged.absent == []
    errors = {row.metric: row.std_error for row in metrics_of(whole)}
    for row in merged.metric_rows:
        assert row.std_error == pytest.approx(errors[row.metric], rel=1e-9)
    independent = window(str(tmp_path / "out"), **TWO, errors="independent")
    assert [row.value for row in independent.metric_rows] == [row.value for row in merged.metric_rows]
    assert [row.std_error for row in independent.metric_rows] != [row.std_error for row in merged.metric_rows]


TWO: Any = {"first": DAYS[0], "last": DAYS[1]}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for seed, run_id in enumerate(DAYS[:2]):
        publish(tmp_path, run_id, rows_of(seed, 40), BINARY)
    return tmp_path


def test_what_no_sum_gives_is_named(root: Path) -> None:
    merged = window(str(root / "out"), **TWO)
    assert isinstance(merged, ScoredWindow)
    assert merged.absent == [
        *("auc", "gauc", "threshold recall>=0.9", "curves other than calibration"),
        "bootstrap interval of ece",
    ]
    assert {row.curve for row in merged.curve_rows} == {"calibration", "calibration(sampling_rate=0.5)"}


def test_days_that_do_not_fit_are_refused(root: Path) -> None:
    out = str(root / "out")
    with pytest.raises(DataError, match=r"MISSING_DAYS.*2024-03-01"):
        window(out, **ENDS)
    with pytest.raises(ConfigError, match=r"INVALID_WINDOW.*rows of predictions"):
        window(out, **TWO, unit="users")
    publish(root, DAYS[2], rows_of(2, 40), BINARY, bins=5)
    with pytest.raises(DataError, match=r"MIXED_CONVENTIONS.*differ in conventions"):
        window(out, **ENDS)
    publish(root, DAYS[2], rows_of(2, 40), BINARY, thresholds=[0.3])
    with pytest.raises(DataError, match=r"MIXED_CONVENTIONS.*config thresholds"):
        window(out, **ENDS)
    publish(root, DAYS[2], rows_of(2, 40).astype({"user": str}), BINARY)
    with pytest.raises(DataError, match=r"MIXED_CONVENTIONS.*users are of types int64 and string"):
        window(out, **ENDS)
    publish_day(root / "out", "2024-03-02", {"als": FIRST})
    with pytest.raises(DataError, match=r"MIXED_CONVENTIONS.*2024-03-02 is a run of evaluate, 2024-02-28"):
        window(out, first=DAYS[0], last="2024-03-02")


def test_sums_of_other_rows_than_per_user_are_refused(root: Path) -> None:
    [path] = (root / "out" / "per_user" / f"run_id={DAYS[0]}" / "model=ctr").glob("*.parquet")
    pq.write_table(pq.read_table(path).slice(1), path)
    with pytest.raises(DataError, match=r"INCOMPLETE_RUN"):
        window(str(root / "out"), **TWO)


def test_without_per_user_there_are_no_errors(root: Path) -> None:
    before = window(str(root / "out"), **TWO)
    shutil.rmtree(root / "out" / "per_user" / f"run_id={DAYS[1]}")
    merged = window(str(root / "out"), **TWO)
    assert merged.unclustered
    assert not before.unclustered
    assert numbers(merged.metric_rows) == numbers(before.metric_rows)
    assert {row.std_error for row in merged.metric_rows} == {None}


def test_sums_of_predictions_are_not_added_without_their_plan(root: Path) -> None:
    sums = pd.read_parquet(root / "out" / "sums" / f"run_id={DAYS[0]}")
    with pytest.raises(ConfigError, match=r"NOT_OF_PREDICTIONS.*spark_eval.window"):
        add_sums(sums)


def test_the_window_is_published_with_its_calibration(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "config.yaml").write_text(json.dumps({"output": {"path": str(root / "out")}}))
    monkeypatch.setattr("spark_eval.cli.runner.open_session", lambda *_: no_spark())

    def run(verb: str, *words: str) -> int:
        with pytest.raises(SystemExit) as end:
            main([verb, "--config", str(root / "config.yaml"), *words])
        return int(str(end.value.code))

    ends = ("--from", DAYS[0], "--to", DAYS[1])
    assert run("window", *ends) == 0
    text = capsys.readouterr().out
    assert "2 days merged" in text
    assert "not merged: auc, gauc, threshold recall>=0.9" in text
    assert "log_loss(sampling_rate=0.5)" in text
    window_id = f"{DAYS[0]}_{DAYS[1]}"
    curves = pd.read_parquet(root / "out" / "curves" / f"run_id={window_id}")
    assert len(curves) > 0
    assert run("window", *ends) == 0
    assert "already published" in capsys.readouterr().out
    publish(root, DAYS[1], rows_of(9, 30), BINARY)
    assert run("status") == 0
    assert f"stale: {DAYS[1]} changed since" in capsys.readouterr().out
    assert run("window", *ends, "--replace") == 0


def metrics_of(day: ScoredDay) -> list[PredictionRow]:
    """Rows of ``metrics``."""
    return [PredictionRow(**row) for row in day.open(Table.METRICS).rows()]
