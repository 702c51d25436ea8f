"""The verb calibrate: worked numbers from published runs, runs that lack, and what is refused."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml
from tests.calibration.programmes import STAMP, compared, measured, publish, write_programme
from tests.calibration.test_calibrate import NAMES, OFFLINE, ONLINE, X_ERROR, Y_ERROR, X, Y
from tests.cli.conftest import Answer, call

from spark_eval import calibrate
from spark_eval.calibration.calibrate import calibrate_rows


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with the programme, its runs, and a config."""
    write_config(tmp_path, **write_programme(tmp_path)["calibrate"])
    return tmp_path


@cache
def expected_row() -> dict[str, Any]:
    """The row of the worked example, by the call in Python."""
    [row] = calibrate(OFFLINE.assign(conventions=STAMP), ONLINE).rows
    return row._asdict()


def write_config(home: Path, **section: Any) -> None:
    tree = {"output": {"path": str(home / "out")}, "calibrate": section}
    (home / "c.yaml").write_text(yaml.safe_dump(tree))


def run(home: Path, *words: str, run_id: str = "spring") -> Answer:
    return call("calibrate", "--config", str(home / "c.yaml"), "--run-id", run_id, *words)


def rows_of(home: Path, table: str, run_id: str = "spring") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(home / "out" / table / f"run_id={run_id}").to_pylist()
    return [{name: value for name, value in row.items() if name != "run_id"} for row in rows]


def change_programme(home: Path, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    change(pd.read_csv(home / "programme.csv", dtype=str)).to_csv(home / "programme.csv", index=False)


def test_published_runs_give_the_numbers_of_the_call_in_python(home: Path) -> None:
    answer = run(home)
    assert (answer.code, answer.err) == (0, "")
    assert rows_of(home, "calibration") == [expected_row()]
    assert "of 8 decided experiments 7 had the sign of ndcg@10" in answer.out
    assert "ctr is expected to rise by 0.448 ± 0.593" in answer.out
    assert "7 had the sign of ndcg@10; a gain like this has won in about 77 %" in answer.out
    [forecast] = rows_of(home, "forecasts")
    assert [round(forecast[name], 6) for name in ("expected", "deviation", "p_win")] == [
        0.447716,
        0.593387,
        0.774728,
    ]
    assert (forecast["candidate"], forecast["n_experiments"], forecast["n_decided"]) == (None, 16, 8)
    assert [one["reason"] for one in rows_of(home, "programme")] == [None] * 16
    counts = [(one["outcome"], one["rows"]) for one in rows_of(home, "accounting")]
    assert counts == [("in", 16), ("used", 16)]
    assert "already published" in run(home).out


def test_the_id_follows_from_programme_and_runs(home: Path) -> None:
    def id_of() -> str:
        assert call("calibrate", "--config", str(home / "c.yaml")).code == 0
        return max((home / "out" / "_commits").glob("c-*.json"), key=lambda one: one.stat().st_mtime_ns).stem

    first = id_of()
    change_programme(home, lambda rows: rows[::-1])
    assert id_of() == first
    publish(home / "out", "online", "other", [measured(NAMES[0], 0.5, 0.1)])
    change_programme(home, lambda rows: rows.assign(online_run=[*["live"] * 15, "other"]))
    assert id_of() != first


def test_a_run_that_lacks_is_named_or_its_experiments_are_counted(home: Path) -> None:
    change_programme(home, lambda rows: rows.assign(offline_run=["pasta", *["past"] * 15]))
    answer = run(home)
    assert (answer.code, answer.error) == (3, "UNKNOWN_RUN")
    assert "'pasta'" in answer.err
    assert not (home / "out" / "calibration").exists()
    answer = run(home, "--set", "calibrate.if_missing=leave_out")
    assert answer.code == 0
    assert "left out, a run is not published: 1" in answer.out
    [row] = rows_of(home, "calibration")
    assert row["n"] == 15
    [dropped] = [one for one in rows_of(home, "accounting") if one["outcome"] == "dropped"]
    assert (dropped["reason"], dropped["rows"]) == ("no_run", 1)
    change_programme(home, lambda rows: rows.assign(offline_run="pasta", online_run="life"))
    answer = run(home, "--set", "calibrate.if_missing=leave_out", run_id="other")
    assert (answer.code, answer.error) == (3, "UNKNOWN_RUN")
    assert "2 runs are not published" in answer.err
    assert "life of online" in answer.err


@pytest.mark.parametrize(("published", "lower"), [("lower", []), ("higher", ["ctr"]), ("lower", ["ctr"])])
def test_a_pair_is_found_in_either_order_and_lower_is_turned(
    home: Path, published: str, lower: list[str]
) -> None:
    swapped = [
        compared("base", -x, error)._replace(baseline=name)
        for name, x, error in zip(NAMES, X, X_ERROR, strict=True)
    ]
    publish(home / "out", "compare", "swapped", swapped)
    fewer = [
        measured(name, -y, error, direction=published)
        for name, y, error in zip(NAMES, Y, Y_ERROR, strict=True)
    ]
    publish(home / "out", "online", "fewer", fewer)
    change_programme(home, lambda rows: rows.assign(offline_run="swapped", online_run="fewer"))
    assert run(home, "--set", f"calibrate.lower={lower}").code == 0
    assert rows_of(home, "calibration") == [expected_row()]


def test_treatments_of_an_experiment_are_told_apart(home: Path) -> None:
    both = [
        measured("home", y, error, treatment=name) for name, y, error in zip(NAMES, Y, Y_ERROR, strict=True)
    ]
    publish(home / "out", "online", "many", both)
    change_programme(
        home, lambda rows: rows.assign(online_run="many", experiment="home", treatment=rows["candidate"])
    )
    assert run(home).code == 0
    assert rows_of(home, "calibration") == [expected_row()]
    change_programme(home, lambda rows: rows.drop(columns="treatment")[:1])
    answer = run(home, run_id="other")
    assert (answer.code, answer.error) == (3, "DUPLICATE_EXPERIMENT")


def test_one_name_in_several_runs_is_several_experiments(home: Path) -> None:
    for name, y, error in zip(NAMES, Y, Y_ERROR, strict=True):
        publish(home / "out", "online", f"live-{name}", [measured("home", y, error)])
    change_programme(
        home, lambda rows: rows.assign(online_run="live-" + rows["experiment"], experiment="home")
    )
    assert run(home).code == 0
    assert rows_of(home, "calibration") == [expected_row()]
    assert rows_of(home, "programme")[0]["experiment"] == "live-e0/home"


BAD = {
    "no column": (lambda rows: rows.drop(columns="online_run"), 3, "MISSING_COLUMN"),
    "several pairs": (lambda rows: rows.drop(columns=["candidate"]), 3, "DUPLICATE_EXPERIMENT"),
    "no rows": (lambda rows: rows[:0], 3, "EMPTY_INPUT"),
    "a null": (lambda rows: rows.assign(online_run=[None, *["live"] * 15]), 3, "NULL_ID"),
    "a row twice": (lambda rows: pd.concat([rows, rows[:1]]), 3, "DUPLICATE_EXPERIMENT"),
    "a folder as id": (lambda rows: rows.assign(offline_run="../past"), 2, "INVALID_RUN_ID"),
    "an unknown model": (lambda rows: rows.assign(baseline="bass"), 2, "UNKNOWN_MODEL"),
    "an unknown experiment": (
        lambda rows: rows.replace({"experiment": {"e9": "e99"}}),
        2,
        "UNKNOWN_EXPERIMENT",
    ),
    "an unknown treatment": (lambda rows: rows.assign(treatment="c"), 2, "UNKNOWN_EXPERIMENT"),
    "runs of another verb": (lambda rows: rows.assign(offline_run="live"), 3, "UNKNOWN_RUN"),
}


@pytest.mark.parametrize(("change", "code", "name"), BAD.values(), ids=BAD)
def test_bad_programmes_are_refused_by_name(
    home: Path, change: Callable[[pd.DataFrame], pd.DataFrame], code: int, name: str
) -> None:
    change_programme(home, change)
    answer = run(home)
    assert (answer.code, answer.error) == (code, name)
    assert not (home / "out" / "calibration").exists()


def test_models_may_be_left_out_where_a_run_compares_one_pair(home: Path) -> None:
    change_programme(home, lambda rows: rows.drop(columns="baseline"))
    assert run(home).code == 0
    assert rows_of(home, "calibration") == [expected_row()]
    for name, x, error in zip(NAMES, X, X_ERROR, strict=True):
        publish(home / "out", "compare", f"past-{name}", [compared(name, x, error)])
    change_programme(
        home, lambda rows: rows.drop(columns="candidate").assign(offline_run="past-" + rows["experiment"])
    )
    assert run(home, run_id="other").code == 0
    assert rows_of(home, "calibration", "other") == [expected_row()]


def test_conventions_of_metrics_that_are_not_asked_for_do_not_matter(home: Path) -> None:
    rows = [compared(name, x, error) for name, x, error in zip(NAMES, X, X_ERROR, strict=True)]
    rows += [row._replace(k=5, conventions=row.candidate) for row in rows]
    publish(home / "out", "compare", "both", rows)
    change_programme(home, lambda rows: rows.assign(offline_run="both"))
    assert run(home).error == "MIXED_CONVENTIONS"
    assert run(home, "--set", "calibrate.metrics=nDCG@10").code == 0
    assert rows_of(home, "calibration") == [expected_row()]


def test_status_calls_a_calibration_stale_when_one_of_its_runs_is_published_again(home: Path) -> None:
    def stale() -> list[str]:
        answer = call("status", "--config", str(home / "c.yaml"), "--json")
        [run] = [one for one in json.loads(answer.out)["runs"] if one["verb"] == "calibrate"]
        return list(run["stale"])

    change_programme(home, lambda rows: rows.assign(offline_run=["later", *["past"] * 15]))
    assert run(home, "--set", "calibrate.if_missing=leave_out").code == 0
    assert stale() == []
    publish(home / "out", "online", "live", [measured("e0", 0.5, 0.1)], fingerprint="2")
    assert stale() == ["online live"]
    publish(home / "out", "compare", "later", [compared("e0", 0.5, 0.1)])
    assert stale() == ["compare later", "online live"]
    assert "is stale: compare later, online live" in call("status", "--config", str(home / "c.yaml")).out


def test_a_programme_that_is_not_there_is_named(home: Path) -> None:
    (home / "programme.csv").unlink()
    answer = run(home)
    assert (answer.code, answer.error) == (3, "MISSING_INPUT")
    assert "programme.csv" in answer.err


def test_comparisons_of_other_conventions_are_refused(home: Path) -> None:
    publish(home / "out", "compare", "old", [compared("e0", 1.2, 0.2, conventions="gain=exp2")])
    change_programme(home, lambda rows: rows.assign(offline_run=["old", *["past"] * 15]))
    answer = run(home)
    assert (answer.code, answer.error) == (3, "MIXED_CONVENTIONS")
    assert "gain=exp2" in answer.err


def test_too_few_experiments_have_no_forecast_and_say_so(home: Path) -> None:
    change_programme(home, lambda rows: rows[:7])
    answer = run(home)
    assert answer.code == 0
    assert "7 experiments are too few to tell" in answer.out
    assert "ctr cannot be predicted: TOO_FEW_EXPERIMENTS" in answer.out


def test_a_run_published_again_meanwhile_is_noticed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from spark_eval.verbs import calibrate as verb

    def calibrate_late(*given: Any) -> Any:
        change_programme(home, lambda rows: rows[:-1])
        return calibrate_rows(*given)

    monkeypatch.setattr(verb, "calibrate_rows", calibrate_late)
    answer = run(home)
    assert (answer.code, answer.error) == (3, "INPUT_CHANGED_DURING_RUN")


def test_validate_names_the_runs(home: Path) -> None:
    answer = call("validate", "--config", str(home / "c.yaml"), "--verb", "calibrate")
    assert (answer.code, answer.err) == (0, "")
    assert "run past of compare, run live of online" in answer.out


def test_a_candidate_out_of_range_and_a_config_without_the_section_are_refused(home: Path) -> None:
    answer = run(home, "--set", "calibrate.predict={difference: 1, std_error: -1}")
    assert (answer.code, answer.error) == (2, "INVALID_CONFIG")
    answer = run(home, "--set", "calibrate.predict={difference: 1, std_error: 1, metric: map@10}")
    assert (answer.code, answer.error) == (2, "METRIC_NOT_MEASURED")
    (home / "c.yaml").write_text(yaml.safe_dump({"output": {"path": str(home / "out")}}))
    assert run(home).error == "MISSING_SECTION"
