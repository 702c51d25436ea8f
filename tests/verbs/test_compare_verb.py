"""``compare`` end to end: published runs side by side, gates, exit code 5, and what is refused by name."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from tests.calibration.test_calibrate import OFFLINE, ONLINE
from tests.cli.conftest import Desk
from tests.cli.damaging import TABLES, place_of

from spark_eval import calibrate
from spark_eval.schema import Table

pytestmark = pytest.mark.usefixtures("engine_of_users")

N_USERS = 60
GATE: dict[str, Any] = {"metric": "mrr", "k": 5, "max_drop": 0.05, "min_users": 10}


def lists_of(seed: int, best: float = 0.8) -> pd.DataFrame:
    """Lists of two models: ``good`` has the relevant item first for a share of users, ``poor`` for fewer."""
    random = np.random.default_rng(seed)
    rows = []
    for model, share in (("good", best), ("poor", 0.3)):
        for user in range(N_USERS):
            relevant, other = (2.0, 1.0) if random.random() < share else (1.0, 2.0)
            rows += [(model, user, user, relevant), (model, user, 1000, other)]
    return pd.DataFrame(rows, columns=["model", "user", "item", "score"])


@pytest.fixture(scope="module")
def runs(new_desk: type[Desk], tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """Runs a and b of the same truth, b with a worse model ``good``; c of another truth; d by other rules."""
    desk = new_desk(tmp_path_factory.mktemp("runs"))
    users = np.arange(N_USERS)
    truth = pd.DataFrame({"user": users, "item": users})
    desk.write("truth", truth)
    desk.write("other", truth.assign(item=truth["item"] % 2 * 900 + truth["item"] % 2 * 100))
    desk.write("people", pd.DataFrame({"user": users, "country": np.where(users % 3, "AT", "DE")}))
    desk.tree = {
        "output": {"path": str(desk.out)},
        "recommendations": {"path": str(desk.write("a", lists_of(1)))},
        "truth": {"path": str(desk.home / "truth")},
        "users": {"path": str(desk.home / "people")},
        "evaluate": {"k": [1, 5], "metrics": ["mrr", "recall", "auc"], "segments": ["country"]},
    }
    desk.done("evaluate", "--run-id", "a")
    desk.done(
        "evaluate", "--run-id", "b", "--set", f"recommendations.path={desk.write('b', lists_of(2, 0.4))}"
    )
    desk.done("evaluate", "--run-id", "c", "--set", f"truth.path={desk.home / 'other'}")
    desk.done("evaluate", "--run-id", "d", "--set", "evaluate.no_recommendations=drop")
    return desk


@pytest.fixture
def desk(runs: Desk, tmp_path: Path) -> Desk:
    """The same runs, to publish beside."""
    copied = runs.twin(tmp_path)
    shutil.copytree(runs.out, copied.out)
    return copied


def table(desk: Desk, name: str, run: str) -> list[dict[str, Any]]:
    rows: Any = pd.read_parquet(desk.out / name / f"run_id={run}").to_dict("records")
    named: list[dict[str, Any]] = [
        {key: None if value is pd.NA or value != value else value for key, value in row.items()}
        for row in rows
    ]
    return named


def test_rows_that_this_process_cannot_read_are_compared_on_spark(desk: Desk) -> None:
    for path in (desk.out / "per_user" / "run_id=b").rglob("*.parquet"):
        pq.write_table(pq.ParquetFile(path).read(), path, compression="lz4")
    run = ("compare", "--run-id", "a", "--set", "compare.baseline.run=b")
    assert desk.refused(*run, "--engine", "local")[:2] == (2, "NEEDS_SPARK")
    out = desk.done(*run, "--engine", "auto").out
    assert "engine: spark (per_user is not plain Parquet)" in out
    assert {row["baseline_run"] for row in table(desk, "comparisons", "a")} == {"b"}


def test_all_pairs_of_a_run_are_compared_and_told(desk: Desk) -> None:
    out = desk.done(
        "compare", "--run-id", "a", "--set", "compare.metrics=mrr@5", "--set", "compare.segments=country"
    ).out
    rows = table(desk, "comparisons", "a")
    assert [(row["baseline"], row["candidate"], row["segment_value"]) for row in rows] == [
        ("good", "poor", value) for value in ("all", "AT", "DE")
    ]
    everybody = rows[0]
    good, poor = (
        pd.read_parquet(desk.out / "per_user" / "run_id=a" / f"model={model}").sort_values("user")["rr_at_5"]
        for model in ("good", "poor")
    )
    assert everybody["difference"] == pytest.approx(float((poor.to_numpy() - good.to_numpy()).mean()))
    assert (everybody["n_users"], everybody["baseline_run"]) == (N_USERS, None)
    assert "poor falls behind good in mrr@5 by " in out
    assert f"run a published\n  comparisons {desk.out}/comparisons/run_id=a" in out
    entries = pd.read_parquet(desk.out / "accounting" / "run_id=a" / "compare.parquet")
    assert set(entries["outcome"]) == {"in", "used"}
    again = desk.done(
        "compare", "--run-id", "a", "--set", "compare.metrics=mrr@5", "--set", "compare.segments=country"
    )
    assert "already published" in again.out
    other = desk.run("compare", "--run-id", "a")
    assert (other.code, other.error) == (2, "RUN_EXISTS")


def test_a_gate_that_fails_is_published_and_ends_with_5_again_and_again(desk: Desk) -> None:
    desk.change("compare", baseline={"run": "a"})
    desk.tree["gates"] = [GATE, {**GATE, "model": "poor", "max_drop": 0.5}, {**GATE, "segment": "country"}]
    first, second = (desk.run("compare", "--run-id", "b") for _ in range(2))
    assert (first.code, second.code) == (5, 5)
    assert first.error == second.error == "GATE_FAILED"
    assert first.err == second.err
    assert "mrr@5 of 'good' against 'good' of run 'a' is worse" in first.err
    assert "run b published" in first.out
    assert "already published" in second.out
    rows = {(row["model"], row["segment_value"], row["max_drop"]): row for row in table(desk, "gates", "b")}
    assert len(rows) == 7
    good, poor = rows["good", "all", 0.05], rows["poor", "all", 0.5]
    assert (good["decision"], good["passed"], good["against_run"]) == ("worse", False, "a")
    assert (poor["decision"], poor["passed"]) == ("not_worse", True)
    assert {row["baseline_run"] for row in table(desk, "comparisons", "b")} == {"a"}
    record = json.loads((desk.out / "_commits" / "b.json").read_text())["jobs"]["compare"]
    assert set(record["runs"]) == {"a", "b"}
    assert record["tables"]["gates"]["rows"] == 7


def test_an_evaluation_checks_the_gates_at_its_end(desk: Desk) -> None:
    desk.tree["gates"] = [{**GATE, "model": "good", "against": {"run": "a"}}]
    desk.change("recommendations", path=str(desk.home.parent / "none"))
    lists = desk.write("b", lists_of(2, 0.4))
    first, second = (
        desk.run("evaluate", "--run-id", "e", "--set", f"recommendations.path={lists}") for _ in range(2)
    )
    assert (first.code, first.error) == (second.code, second.error) == (5, "GATE_FAILED")
    assert [row["decision"] for row in table(desk, "gates", "e")] == ["worse"]
    assert len(table(desk, "metrics", "e")) > 0
    passing = desk.run(
        "evaluate", "--run-id", "f", "--set", f"recommendations.path={desk.write('a', lists_of(1))}"
    )
    assert (passing.code, passing.err) == (0, "")
    # Without an id both are of the same content.
    nameless = desk.run("evaluate", "--set", f"recommendations.path={lists}")
    assert nameless.code == 5


@pytest.mark.parametrize(
    ("baseline", "gate", "code"),
    [
        (None, {"model": "poor", "against": {"model": "good"}}, 5),
        (None, {"against": {"model": "good"}, "max_drop": 1.0}, 0),
        ({"model": "good"}, {"max_drop": 1.0}, 0),
        ({"model": "good"}, {"segment": "country"}, 5),
        (None, {"model": "poor", "against": {"model": "good"}, "pairing": "none"}, 5),
        (None, {"against": {"model": "good"}, "metric": "catalog_coverage", "mode": "observed"}, 5),
    ],
)
def test_an_evaluation_decides_gates_between_its_own_models(
    desk: Desk, baseline: dict[str, str] | None, gate: dict[str, Any], code: int
) -> None:
    desk.change("compare", baseline=baseline)
    if gate.get("metric") == "catalog_coverage":
        items = desk.write("items", pd.DataFrame({"item": [*range(N_USERS), 1000]}))
        desk.change("items", path=str(items))
        desk.change("evaluate", metrics=["catalog_coverage"])
        desk.change("recommendations", path=str(desk.write("partial", partial_lists())))
    desk.tree["gates"] = [{**GATE, **gate}]
    first, second = (desk.run("evaluate", "--run-id", "g") for _ in range(2))
    assert (first.code, second.code) == (code, code), first.err
    assert first.err == second.err
    assert "gates of run g" in first.out
    rows = table(desk, "gates", "g")
    assert {(row["model"], row["against_model"], row["against_run"]) for row in rows} == {
        ("poor", "good", None)
    }
    assert {row["passed"] for row in rows} == {code == 0}
    assert len(table(desk, "metrics", "g")) > 0
    assert desk.run("compare", "--run-id", "g").code == code


def partial_lists() -> pd.DataFrame:
    """Lists of which those of ``poor`` have one item in common."""
    lists = lists_of(1)
    return lists[(lists["model"] == "good") | (lists["item"] == 1000)]


def test_an_evaluation_tells_of_gates_that_it_cannot_decide(desk: Desk) -> None:
    desk.tree["gates"] = [{**GATE, "against": {"model": "good"}, "max_drop": 1.0}, GATE]
    answer = desk.run("evaluate", "--run-id", "g")
    assert (answer.code, (desk.out / "gates").exists()) == (0, False)
    assert "warning: run g is published, but: its gates are not decided: gate mrr@5 names no" in answer.err


def test_gates_name_baselines_of_their_own(desk: Desk) -> None:
    desk.tree["gates"] = [
        {**GATE, "model": "poor", "against": {"model": "good"}, "mode": "observed"},
        {**GATE, "model": "good", "against": {"run": "b", "model": "poor"}},
        {
            **GATE,
            "model": "good",
            "against": {"run": "b"},
            "metric": "gauc_by_impressions",
            "mode": "observed",
        },
        {**GATE, "model": "good", "against": {"run": "b"}, "metric": "recall"}
        | {"drop": "relative", "max_drop": 1.0},
    ]
    answer = desk.run("compare", "--run-id", "a")
    assert answer.code == 5
    rows = table(desk, "gates", "a")
    assert [(row["model"], row["against_model"], row["against_run"], row["metric"]) for row in rows] == [
        ("poor", "good", None, "mrr"),
        ("good", "poor", "b", "mrr"),
        ("good", "good", "b", "gauc_by_impressions"),
        ("good", "good", "b", "recall"),
    ]
    assert [row["decision"] for row in rows] == ["worse", "not_worse", "not_worse", "not_worse"]


def test_days_of_other_truth_are_compared_without_pairs(desk: Desk) -> None:
    gate = {**GATE, "model": "good", "max_drop": 0.0}
    desk.change("compare", baseline={"run": "c"})
    desk.tree["gates"] = [gate]
    refused = desk.run("compare", "--run-id", "a")
    assert (refused.code, refused.error) == (3, "TRUTH_DIFFERS")
    unpaired = {**gate, "pairing": "none"}
    desk.tree["gates"] = [unpaired, {**unpaired, "segment": "country"}]
    desk.done("compare", "--run-id", "a")
    assert table(desk, "comparisons", "a") == []
    rows = table(desk, "gates", "a")
    assert [row["segment_value"] for row in rows] == ["all", "AT", "DE"]
    before, after = (
        next(
            row
            for row in table(desk, "metrics", run)
            if row["model"] == "good" and row["metric"] == "mrr" and row["k"] == 5
        )
        for run in "ca"
    )
    assert rows[0]["difference"] == after["value"] - before["value"]
    assert rows[0]["bound_low"] < rows[0]["difference"] < rows[0]["bound_high"]


@pytest.mark.parametrize(
    ("code", "exit_code", "hint", "arguments"),
    [
        ("UNKNOWN_RUN", 3, "allowed: a, b, c, d", ("--run-id", "xyz")),
        (
            "MISSING_BASELINE",
            3,
            "did you mean 'b'?",
            ("--run-id", "a", "--set", "compare.baseline={run: bb}"),
        ),
        (
            "CONVENTIONS_DIFFER",
            3,
            "no_recommendations",
            ("--run-id", "a", "--set", "compare.baseline={run: d}"),
        ),
        ("TRUTH_DIFFERS", 3, "truth_digest", ("--run-id", "a", "--set", "compare.baseline={run: c}")),
        ("METRIC_NOT_MEASURED", 2, "ndcg", ("--run-id", "a", "--set", "compare.metrics=ndcg@5")),
        ("UNKNOWN_MODEL", 2, "did you mean 'good'?", ("--run-id", "a", "--set", "compare.models=[god]")),
        ("UNKNOWN_TEST", 2, "did you mean 'sign'?", ("--run-id", "a", "--set", "compare.tests=[sing]")),
        ("INVALID_RUN_ID", 2, "..", ("--run-id", "a", "--set", "compare.baseline={run: ../a}")),
    ],
)
def test_what_cannot_be_compared_is_refused_by_name(
    desk: Desk, code: str, exit_code: int, hint: str, arguments: tuple[str, ...]
) -> None:
    refused = desk.run("compare", *arguments)
    assert (refused.code, refused.error) == (exit_code, code)
    assert hint in refused.err
    assert not (desk.out / "comparisons").exists()


@pytest.mark.parametrize(
    ("code", "hint", "keys"),
    [
        ("MISSING_BASELINE", "did you mean 'b'?", {"against": {"run": "bb"}}),
        ("MISSING_BASELINE", "did you mean 'good'?", {"against": {"run": "b", "model": "god"}}),
        ("TOO_FEW_USERS", "60 users in both, min_users is 61", {"against": {"run": "b"}, "min_users": 61}),
        ("TOO_FEW_USERS", "set the gate's key min_users", {"against": {"run": "b"}, "min_users": 61}),
        ("CONVENTIONS_DIFFER", "no_recommendations", {"against": {"run": "d"}, "pairing": "none"}),
        ("UNKNOWN_MODEL", "did you mean 'good'?", {"against": {"run": "b"}, "model": "god"}),
        ("SAME_MODEL", "the baseline itself", {"against": {"run": "a"}, "model": "good"}),
        ("INVALID_GATE", "names no baseline", {}),
        ("METRIC_NOT_MEASURED", "ndcg@5", {"against": {"run": "b"}, "metric": "ndcg"}),
        ("UNKNOWN_SEGMENT", "did you mean 'country'?", {"against": {"run": "b"}, "segment": "cuntry"}),
    ],
)
def test_gates_that_cannot_be_decided_are_refused_by_name(
    desk: Desk, code: str, hint: str, keys: dict[str, Any]
) -> None:
    desk.tree["gates"] = [{**GATE, **keys}]
    refused = desk.run("compare", "--run-id", "a")
    assert refused.error == code
    assert hint in refused.err


def test_a_first_run_passes_where_its_gate_says_so(desk: Desk) -> None:
    desk.change("compare", baseline={"run": "yesterday"})
    desk.tree["gates"] = [{**GATE, "if_missing": "pass"}]
    answer = desk.done("compare", "--run-id", "a")
    rows = table(desk, "gates", "a")
    assert {row["decision"] for row in rows} == {"no_baseline"}
    assert table(desk, "comparisons", "a") == []
    # A run that is misspelt is no first run: nobody may take it for one without noticing.
    assert {row["reason"].startswith("warning: ") for row in rows} == {True}
    assert (
        answer.out.count("no model 'good' in run 'yesterday'; that run is not there; allowed: b, c, d") == 1
    )


@pytest.mark.parametrize("against", [{"run": "bb"}, {"run": "b", "model": "god"}])
def test_a_gate_that_passes_without_its_baseline_warns_with_the_nearest(
    desk: Desk, against: dict[str, str]
) -> None:
    desk.tree["gates"] = [{**GATE, "model": "good", "against": against, "if_missing": "pass"}]
    out = desk.done("compare", "--run-id", "a").out
    name = "b" if "model" not in against else "good"
    assert f"did you mean {name!r}?" in out
    assert "gate mrr@5 of good: no_baseline: warning: there is nothing to compare with yet: " in out


def test_runs_that_are_not_whole_or_of_another_version_are_refused(desk: Desk) -> None:
    commit = desk.out / "_commits" / "b.json"
    desk.change("compare", baseline={"run": "b"})
    record = commit.read_text()
    commit.write_text(record.replace('"spark_eval": "0.1', '"spark_eval": "0.0'))
    assert desk.run("compare", "--run-id", "a").error == "VERSIONS_DIFFER"
    commit.unlink()
    assert desk.run("compare", "--run-id", "a").error == "INCOMPLETE_RUN"
    commit.write_text(record)
    shutil.rmtree(desk.out / "per_user" / "run_id=b")
    assert desk.run("compare", "--run-id", "a").error == "INCOMPLETE_RUN"


@pytest.mark.parametrize("kind", TABLES)
def test_users_of_a_damaged_run_are_not_compared(desk: Desk, kind: str) -> None:
    desk.change("compare", baseline={"run": "b"}, metrics=["mrr@5"])
    TABLES[kind].spoil(place_of(desk.out, "b", Table.PER_USER))
    before = desk.files()
    refused = desk.run("compare", "--run-id", "a")
    assert (refused.code, refused.error) == (3, TABLES[kind].code)
    assert "per_user/run_id=b" in refused.err
    assert desk.files() == before


def test_gates_by_means_need_no_users(desk: Desk) -> None:
    desk.tree["gates"] = [{**GATE, "against": {"run": "b"}, "pairing": "none", "mode": "observed"}]
    for run in ("a", "b"):
        shutil.rmtree(desk.out / "per_user" / f"run_id={run}")
    desk.done("compare", "--run-id", "a")
    TABLES["values of text"].spoil(place_of(desk.out, "b", Table.METRICS))
    desk.tree["gates"][0]["max_drop"] = 0.5
    assert desk.run("compare", "--run-id", "a", "--replace").error == "INCOMPLETE_RUN"


def test_a_split_that_lost_a_file_is_no_truth(desk: Desk) -> None:
    log = pd.DataFrame({"user": np.arange(60) % 20, "item": np.arange(60), "timestamp": np.arange(60)})
    desk.tree["interactions"] = {"path": str(desk.write("log", log)), "timestamp_unit": "s"}
    desk.tree["split"] = {"method": "holdout", "test_share": 0.5}
    del desk.tree["truth"]
    desk.done("split", "--run-id", "s")
    [*files] = (desk.out / "splits" / "run_id=s" / "subset=test").glob("*.parquet")
    files[0].unlink()
    refused = desk.run("evaluate", "--run-id", "s")
    assert refused.error in ("INCOMPLETE_RUN", "MISSING_INPUT")


def test_the_config_and_its_baselines_can_be_checked_before(desk: Desk) -> None:
    desk.tree["gates"] = [{**GATE, "against": {"run": "b"}}, {**GATE, "against": {"run": "c"}}]
    assert "config is valid; inputs checked: run b, run c" in desk.done("validate", "--verb", "compare").out
    desk.change("compare", baseline={"run": "bb"})
    refused = desk.run("validate", "--verb", "compare")
    assert refused.error == "MISSING_BASELINE"
    assert "did you mean 'b'?" in refused.err
    desk.tree["gates"] = [{**GATE, "if_missing": "pass"}]
    assert "inputs checked: none" in desk.done("validate", "--verb", "compare").out


def test_too_few_common_users_are_no_evidence(desk: Desk) -> None:
    lists = lists_of(1)
    fewer = desk.write("fewer", lists[lists["user"] < N_USERS - 10])
    desk.done(
        "evaluate",
        "--run-id",
        "few",
        "--set",
        f"recommendations.path={fewer}",
        "--set",
        "evaluate.no_recommendations=drop",
    )
    desk.tree["gates"] = [{**GATE, "against": {"run": "few"}}]
    refused = desk.run("compare", "--run-id", "d")
    assert refused.error == "POPULATIONS_DIFFER"
    assert "0.8333 of all users are in both" in refused.err


@pytest.mark.slow
def test_runs_by_manifest_are_compared_as_those_of_a_folder(desk: Desk) -> None:
    there = desk.twin(desk.home / "there")
    there.home.mkdir()
    there.change("output", manifest=True)
    there.done("evaluate", "--run-id", "a")
    lists = there.write("worse", lists_of(2, 0.4))
    there.tree["gates"] = [{**GATE, "model": "good", "against": {"run": "a"}}]
    first, second = (
        there.run("evaluate", "--run-id", "b", "--set", f"recommendations.path={lists}") for _ in range(2)
    )
    assert (first.code, first.error) == (second.code, second.error) == (5, "GATE_FAILED")
    assert "good falls behind good of a in mrr@5" in second.out


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table of a calibration of ``mrr@5``."""
    path = tmp_path_factory.mktemp("calibration")
    calibrate(OFFLINE.assign(metric="mrr@5"), ONLINE).to_pandas().to_parquet(path / "part.parquet")
    return path


def test_a_calibration_says_what_past_experiments_say(desk: Desk, calibrated: Path, tmp_path: Path) -> None:
    desk.tree["compare"] = {"metrics": ["mrr@5"], "calibration": str(calibrated)}
    desk.tree["gates"] = [{**GATE, "max_drop": 0.9, "against": {"model": "poor"}}]
    desk.tree["report"] = True
    verdicts = [tmp_path / "v.json", tmp_path / "v.md"]
    for verdict in verdicts:
        answer = desk.done("compare", "--run-id", "a", "--replace", "--verdict", str(verdict))
    said = "of 8 decided experiments 7 had the sign of mrr@5; a gain like this has won in about"
    assert said in answer.out
    [row] = [one for one in table(desk, "forecasts", "a") if one["candidate"] == "good"]
    [compared] = [one for one in table(desk, "comparisons", "a") if one["segment"] == "all"]
    forecast = calibrate(OFFLINE, ONLINE).predict(compared["difference"], compared["std_error"])
    assert [row[name] for name in forecast._fields] == list(forecast)
    [past] = json.loads(verdicts[0].read_text())["past"]
    assert said in past
    assert "- mrr@5 of good against poor" in verdicts[1].read_text()
    page = (desk.out / "report" / "a.html").read_text()
    assert "What the past says" in page
    assert said in page


def test_another_calibration_is_another_comparison(desk: Desk, calibrated: Path, tmp_path: Path) -> None:
    path = tmp_path / "calibration"
    shutil.copytree(calibrated, path)
    desk.tree["compare"] = {"baseline": {"model": "poor"}, "calibration": str(path)}
    run = ("compare", "--run-id", "a")
    desk.done(*run)
    assert "already published" in desk.done(*run).out
    row = pd.read_parquet(path / "part.parquet")
    row.assign(rho=0.1).to_parquet(path / "part.parquet")
    assert desk.refused(*run)[:2] == (2, "RUN_EXISTS")
    (path / "part.parquet").unlink()
    assert desk.refused(*run)[:2] == (3, "EMPTY_INPUT")
    path.rmdir()
    assert desk.refused(*run)[:2] == (3, "MISSING_INPUT")
    answer = desk.refused("validate", "--verb", "compare", "--set", "compare.baseline.run=b")
    assert answer[:2] == (3, "MISSING_INPUT")
