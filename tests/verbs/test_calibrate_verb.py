"""``calibrate`` end to end: worked numbers from published runs, forecasts, and what is refused by name."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pytest
from tests.calibration.runs import (
    COLUMNS,
    comparison,
    effect,
    publish_comparison,
    publish_effects,
    trial,
    write_programme,
)
from tests.calibration.test_calibrate import OFFLINE, ONLINE, X_ERROR, Y_ERROR, X, Y
from tests.cli.conftest import Desk

from spark_eval import calibrate

N: Final = len(X)
CALL: Final = ("calibrate", "--run-id", "c")


@pytest.fixture(scope="module")
def worked(new_desk: type[Desk], tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """The worked experiments: a run of compare and one of online for each."""
    desk = new_desk(tmp_path_factory.mktemp("worked"))
    desk.tree = {
        "output": {"path": str(desk.out)},
        "calibrate": {"metrics": ["nDCG@10"], "goals": ["ctr"]},
    }
    for number in range(N):
        of_offline(desk, number)
        of_online(desk, number)
    return desk


@pytest.fixture
def desk(worked: Desk, tmp_path: Path) -> Desk:
    """The same runs, to publish beside, and their programme."""
    copied = worked.twin(tmp_path)
    shutil.copytree(worked.out, copied.out)
    copied.change("calibrate", programme=str(copied.home / "programme.csv"))
    write_trials(copied, range(N))
    return copied


def of_offline(desk: Desk, number: int, **others: Any) -> None:
    """Publish the comparison of an experiment, with rows that do not count."""
    row = comparison(X[number], X_ERROR[number], **others)
    beside = [
        row._replace(segment="country", segment_value="AT"),
        row._replace(test="wilcoxon", std_error=None),
    ]
    other_pair = row._replace(candidate="other", difference=9.0)
    publish_comparison(desk.out, f"off-{number}", [beside[1], row, beside[0], other_pair])


def of_online(desk: Desk, number: int, **others: Any) -> None:
    """Publish the effect of an experiment, with rows that do not count."""
    row = effect(f"e{number}", Y[number], Y_ERROR[number], **others)
    beside = [row._replace(segment="country"), row._replace(method="sequential", difference=7.0)]
    publish_effects(desk.out, f"live-{number}", [*beside, row, row._replace(experiment="another")])


def write_trials(desk: Desk, numbers: Sequence[int], *more: dict[str, str]) -> None:
    write_programme(desk.home / "programme.csv", [*map(trial, numbers), *more])


def table(desk: Desk, name: str, run: str = "c") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pd.read_parquet(desk.out / name / f"run_id={run}").to_dict("records")
    return rows


def accounting(desk: Desk) -> dict[str, int]:
    entries = pd.read_parquet(desk.out / "accounting" / "run_id=c" / "calibrate.parquet")
    assert set(entries["source"]) == {"programme"}
    return dict(zip(entries["outcome"], entries["rows"], strict=True))


def test_worked_numbers_and_a_forecast(desk: Desk) -> None:
    desk.change("calibrate", predict={"difference": 0.8, "std_error": 0.25})
    done = desk.done(*CALL)
    [row] = table(desk, "calibration")
    [expected] = calibrate(OFFLINE, ONLINE).rows
    assert {name: None if value != value else value for name, value in row.items() if name != "reason"} == {
        name: value for name, value in expected._asdict().items() if name != "reason"
    }
    assert (round(row["rho"], 6), row["n_decided"], row["agree"]) == (0.769123, 8, 7)
    [forecast] = table(desk, "forecasts")
    named = ("expected", "deviation", "p_win")
    assert [round(forecast[name], 6) for name in named] == [0.447716, 0.593387, 0.774728]
    assert len(table(desk, "programme")) == N
    assert accounting(desk) == {"in": N, "used": N}
    assert "ndcg@10 and ctr: of 8 decided experiments 7 had the sign of ndcg@10" in done.out
    assert "ndcg@10 and ctr: a true gain online in about 77 of 100 candidates like this" in done.out
    assert "already published" in desk.done(*CALL).out
    desk.done("report", "--run-id", "c")
    page = (desk.out / "report" / "c.html").read_text(encoding="utf-8")
    assert "0.769123" in page or ".769" in page


def test_the_id_follows_from_the_programme_and_its_runs(desk: Desk) -> None:
    desk.done("calibrate")
    [first] = (desk.out / "calibration").iterdir()
    write_trials(desk, range(N - 1, -1, -1))
    assert "already published" in desk.done("calibrate").out
    of_online(desk, 0, lift=0.5)
    write_trials(desk, range(N - 1))
    desk.done("calibrate")
    assert len(list((desk.out / "calibration").iterdir())) == 2
    assert first.name.startswith("run_id=c-")


def test_status_tells_that_a_run_was_published_again(desk: Desk) -> None:
    desk.done(*CALL)
    assert "stale" not in desk.done("status").out
    (desk.out / "_commits" / "off-3.json").unlink()
    told = desk.done("status", "--json").out
    assert '"off-3"' in told


def test_a_run_that_lacks_is_named_or_left_out(desk: Desk) -> None:
    gone = {**trial(N), "offline_run": "off-of", "online_run": "live-of"}
    write_trials(desk, range(N), gone, {**trial(N + 1), "offline_run": "off-2"})
    code, error, message = desk.refused(*CALL)
    assert (code, error) == (3, "UNKNOWN_RUN")
    assert "not published: off-of of compare, live-17 of online, live-of of online" in message
    desk.change("calibrate", if_missing="leave_out")
    desk.done(*CALL)
    [row] = table(desk, "calibration")
    assert (row["n"], row["left_out"]) == (N, 2)
    reasons = {row["experiment"]: row["reason"] for row in table(desk, "programme") if row["reason"]}
    assert reasons == {f"e{N}": "NO_OFFLINE", f"e{N + 1}": "NO_ONLINE"}
    assert accounting(desk) == {"in": N + 2, "used": N, "dropped": 2}


def test_few_experiments_have_counts_and_no_forecast(desk: Desk) -> None:
    desk.change("calibrate", predict=[{"difference": 0.8, "std_error": 0.25}])
    write_trials(desk, range(7))
    out = desk.done(*CALL).out
    assert "7 experiments are too few to tell" in out
    assert "ndcg@10 and ctr: no forecast: TOO_FEW_EXPERIMENTS" in out
    [row] = table(desk, "forecasts")
    assert row["reason"] == "TOO_FEW_EXPERIMENTS"
    assert row["p_win"] is None or row["p_win"] != row["p_win"]


def test_goals_of_which_less_is_better_are_turned(desk: Desk) -> None:
    for number in range(N):
        row = effect(f"e{number}", -Y[number], Y_ERROR[number], direction="lower")
        publish_effects(desk.out, f"down-{number}", [row])
    trials = [{**trial(number), "online_run": f"down-{number}"} for number in range(N)]
    write_programme(desk.home / "programme.csv", trials)
    desk.done(*CALL)
    assert round(table(desk, "calibration")[0]["rho"], 6) == 0.769123


def test_several_treatments_of_an_experiment_are_told_apart(desk: Desk) -> None:
    rows = [effect("e0", Y[number], Y_ERROR[number], treatment=f"t{number}") for number in range(N)]
    publish_effects(desk.out, "many", rows)
    of_many = {"experiment": "e0", "online_run": "many"}
    trials = [{**trial(number), **of_many, "treatment": f"t{number}"} for number in range(N)]
    write_programme(desk.home / "programme.csv", trials)
    desk.done(*CALL)
    assert round(table(desk, "calibration")[0]["rho"], 6) == 0.769123
    write_programme(desk.home / "programme.csv", [{**trials[0], "treatment": ""}])
    assert desk.refused("calibrate", "--run-id", "d")[:2] == (3, "DUPLICATE_EXPERIMENT")


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ({"candidate": "nobody"}, (2, "UNKNOWN_MODEL")),
        ({"candidate": ""}, (3, "DUPLICATE_EXPERIMENT")),
        ({"experiment": "e1x"}, (2, "UNKNOWN_EXPERIMENT")),
        ({"treatment": "z"}, (2, "UNKNOWN_EXPERIMENT")),
        ({"experiment": ""}, (3, "NULL_ID")),
        ({"online_run": "../x"}, (2, "INVALID_RUN_ID")),
        ({"experiment": "e0"}, (3, "DUPLICATE_EXPERIMENT")),
    ],
)
def test_bad_rows_of_a_programme_are_refused(
    desk: Desk, change: dict[str, str], answer: tuple[int, str]
) -> None:
    write_trials(desk, [0], {**trial(1), **change})
    assert desk.refused(*CALL)[:2] == answer
    assert not (desk.out / "calibration").exists()


def test_bad_files_and_settings_are_refused(desk: Desk) -> None:
    file = desk.home / "programme.csv"
    write_programme(file, [trial(0)], COLUMNS[:3])
    assert desk.refused(*CALL)[:2] == (3, "MISSING_COLUMN")
    write_programme(file, [])
    assert desk.refused(*CALL)[:2] == (3, "EMPTY_INPUT")
    file.write_text('experiment,online_run\n"')
    assert desk.refused(*CALL)[:2] == (3, "CORRUPT_FILE")
    file.unlink()
    assert desk.refused(*CALL)[:2] == (3, "MISSING_INPUT")
    desk.change("calibrate", programme="hdfs://far/programme.csv")
    assert desk.refused(*CALL)[:2] == (2, "UNSUPPORTED_INPUT")
    desk.change("calibrate", programme=str(file), predict={"difference": 0.1, "std_error": -1})
    assert desk.refused(*CALL)[:2] == (2, "INVALID_CONFIG")
    del desk.tree["calibrate"]
    assert desk.refused(*CALL)[:2] == (2, "MISSING_SECTION")


def test_bad_tables_are_refused(desk: Desk) -> None:
    publish_effects(desk.out, "zero", [effect("e1", 0.5, 0.0)])
    publish_comparison(desk.out, "other", [comparison(0.5, 0.1, conventions="spark")])
    publish_comparison(desk.out, "both", [comparison(0.5, 0.1)])
    publish_effects(desk.out, "both", [effect("e1", 0.5, 0.1)])
    for change, code in (
        ({"online_run": "zero"}, "INVALID_STD_ERROR"),
        ({"offline_run": "other"}, "MIXED_CONVENTIONS"),
    ):
        write_trials(desk, [0], {**trial(1), **change})
        assert desk.refused(*CALL)[:2] == (3, code)
    write_trials(desk, [0], {**trial(1), "offline_run": "both", "online_run": "both"})
    desk.change("calibrate", goals=["watch"])
    assert desk.refused(*CALL)[:2] == (2, "METRIC_NOT_MEASURED")
    desk.change("calibrate", goals=["ctr"], predict={"difference": 1, "std_error": 1, "metric": "map@5"})
    assert desk.refused(*CALL)[:2] == (2, "METRIC_NOT_MEASURED")
    del desk.tree["calibrate"]["predict"]
    desk.done(*CALL)


def test_parquet_is_read_and_validate_checks_the_runs(desk: Desk) -> None:
    file = desk.home / "programme.parquet"
    pd.DataFrame([trial(number) for number in range(N)]).replace("", None).to_parquet(file)
    desk.change("calibrate", programme=str(file))
    assert "run live-0" in desk.done("validate", "--verb", "calibrate").out
    desk.done(*CALL)
    assert round(table(desk, "calibration")[0]["rho"], 6) == 0.769123
    pd.DataFrame([trial(99)]).to_parquet(file)
    assert desk.refused("validate", "--verb", "calibrate")[:2] == (3, "UNKNOWN_RUN")
