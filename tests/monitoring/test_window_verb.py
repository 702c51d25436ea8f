"""``spark-eval window``: published whole or not at all, without a session, and stale once a day changes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.monitoring.days import UserDay, publish_day

from spark_eval.accounting import Entry
from spark_eval.cli.commands import main
from spark_eval.publishing.attempt import Attempt
from spark_eval.publishing.local import LocalStore
from spark_eval.results.driver_tables import write_rows

DAYS = ["2024-03-01", "2024-03-02"]
WINDOW = "2024-03-01_2024-03-02"
ROWS = [UserDay("a", "DE", 0.5, 1.0, 2.0), UserDay("b", None, 1.0, None, 0.0)]
Run = Callable[..., int]


def no_spark() -> NoReturn:
    raise AssertionError("a session of Spark was opened")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    for day in DAYS:
        publish_day(tmp_path / "out", day, {"als": ROWS, "pop": ROWS[:1]})
    (tmp_path / "config.yaml").write_text(json.dumps({"output": {"path": str(tmp_path / "out")}}))
    return tmp_path / "out"


@pytest.fixture
def run(out: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr("spark_eval.cli.runner.open_session", lambda *_: no_spark())

    def command(verb: str, *more: str) -> int:
        with pytest.raises(SystemExit) as end:
            main([verb, "--config", str(out.parent / "config.yaml"), *more])
        return int(str(end.value.code))

    return command


def window(run: Run, *more: str) -> int:
    return run("window", "--from", DAYS[0], "--to", DAYS[1], *more)


def test_a_window_is_published_once_and_again_when_a_day_changes(
    run: Run, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert window(run) == 0
    said = capsys.readouterr().out
    assert f"run {WINDOW} published" in said
    assert "2 days merged" in said
    record = json.loads((out / "_commits" / f"{WINDOW}.json").read_text())["jobs"]["window"]
    assert sorted(record["parts"]) == DAYS
    assert window(run) == 0
    assert "already published, nothing to do" in capsys.readouterr().out
    assert run("status") == 0
    assert "stale" not in capsys.readouterr().out
    publish_day(out, DAYS[1], {"als": ROWS[:1], "pop": ROWS}, fingerprint="late data")
    assert run("status") == 0
    assert f"stale: {DAYS[1]} changed since" in capsys.readouterr().out
    assert window(run) == 2
    assert "RUN_EXISTS" in capsys.readouterr().err
    assert window(run, "--replace") == 0
    assert run("status", "--json") == 0
    text = capsys.readouterr().out
    runs = {one["run_id"]: one for one in json.loads(text[text.index("\n{") :])["runs"]}
    assert runs[WINDOW]["stale"] == []


def test_rows_that_days_have_quarantined_are_counted_and_stay_there(run: Run, out: Path) -> None:
    counts = {("in", None): 3, ("used", None): 2, ("quarantined", "NULL_ID"): 1}
    entries = [Entry("recommendations", "als", *line, n_rows, None) for line, n_rows in counts.items()]
    publish_day(out, DAYS[0], {"als": ROWS, "pop": ROWS[:1]}, entries=entries)
    assert window(run) == 0
    counted = pq.read_table(out / "accounting" / f"run_id={WINDOW}").to_pylist()
    assert [row["rows"] for row in counted if row["reason"] == "NULL_ID"] == [1]
    assert not (out / "quarantine").exists()


def test_what_is_missing_is_exit_3_and_checked_by_validate(
    run: Run, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("window", "--from", DAYS[0], "--to", "2024-03-03") == 3
    assert "MISSING_DAYS" in capsys.readouterr().err
    with Attempt(LocalStore(out), "2024-03-03", "predictions") as attempt:
        write_rows(pa.table({"row": [1]}), Path(attempt.staged("accounting")), by_model=False)
        attempt.publish({"accounting": 1}, {"fingerprint": "of predictions"})
    assert run("window", "--from", DAYS[0], "--to", "2024-03-03") == 3
    assert "error[MIXED_CONVENTIONS] 2024-03-01 is a run of evaluate, 2024-03-03 one of predictions" in (
        capsys.readouterr().err
    )
    settings = ("--set", f"window.first={DAYS[0]}", "--set", f"window.last={DAYS[1]}")
    assert run("validate", "--verb", "window", *settings) == 0
    assert run("window") == 2
    assert "INVALID_WINDOW" in capsys.readouterr().err
    assert not (out / "metrics" / f"run_id={WINDOW}").exists()
