"""Histories: values and their changes by day, breaks, gaps and marks; the page; no Spark, and quick."""

import doctest
import math
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.monitoring.days import FIRST, SECOND, UserDay, publish_day

from spark_eval import History, history
from spark_eval.cli.commands import program
from spark_eval.comparison.rows import GATES, GateRow
from spark_eval.errors import ConfigError, DataError
from spark_eval.evaluation.summary import METRICS, MetricRow
from spark_eval.monitoring import page as history_pages
from spark_eval.monitoring.history import Mark, PastRun, make_history, sorted_rows
from spark_eval.monitoring.plan import make_history_plan
from spark_eval.publishing.attempt import Attempt
from spark_eval.publishing.local import LocalStore
from spark_eval.results.driver_tables import arrow_table, write_small
from spark_eval.runs.run import run_verb
from spark_eval.runs.sections import parse_config
from spark_eval.verbs import VERBS

DAYS = ["2024-03-01", "2024-03-02", "2024-03-03"]


def past(
    run_id: str, value: float | None, *, rules: str = "a", marks: Sequence[Mark] = (), model: str = "als"
) -> PastRun:
    row = MetricRow(model, "ndcg", 10, "all", "all", value, 0.003, 0.1, 0.2, 100, 0, "default")
    return PastRun(run_id, arrow_table([row], METRICS), {"conventions": rules}, marks)


def series(*runs: PastRun, **options: Any) -> History:
    return make_history(runs, make_history_plan(**options), {})


def test_differences_are_those_since_the_run_before_and_a_week_before() -> None:
    found = series(past("2024-03-11", 0.17), past("2024-03-01", 0.15), past("2024-03-04", 0.16))
    assert [(row.run_id, row.before) for row in found.rows] == [
        ("2024-03-01", None),
        ("2024-03-04", "2024-03-01"),
        ("2024-03-11", "2024-03-04"),
    ]
    last = found.rows[-1]
    assert last.difference == pytest.approx(0.01)
    assert last.week_difference == pytest.approx(0.01)
    # Independent errors: 1.96 times the root of two squares.
    assert last.difference_high == pytest.approx(0.01 + 1.959964 * 0.003 * 2**0.5)
    assert found.rows[1].week_difference is None


def test_lines_are_distinguished_however_many_values_their_columns_have() -> None:
    """5 columns of 8,192 values: as one number of 64 bits, models 4,096 apart would be one line."""
    numbers = [*range(8192), *[0] * 8192]
    texts = pa.array(list(map(str, numbers)))
    columns = {"model": pa.array([*["0"] * 8192, *map(str, range(8192))]), "metric": texts}
    columns |= {"k": pa.array(numbers, pa.int32()), "segment": texts, "segment_value": texts}
    lines = sorted_rows(pa.table(columns))["line"]
    assert len(lines.unique()) == 2 * 8192 - 1


@given(
    days=st.dictionaries(st.integers(0, 16), st.tuples(st.booleans(), st.integers(1, 15)), min_size=1),
    order=st.randoms(),
)
def test_changes_are_those_of_a_search_row_by_row(days: dict[int, tuple[bool, int]], order: Any) -> None:
    lines = [("als", 5), ("als", None), ("pop", 5), ("pop", None)]
    runs, plain = [], dict[Any, tuple[int, float]]()
    number, rules = 1, next(days[day][0] for day in sorted(days))
    for day in sorted(days):
        is_other, shown = days[day]
        number, rules = number + (is_other is not rules), is_other
        run_id = (date(2024, 3, 1) + timedelta(days=day)).isoformat()
        own = [line for bit, line in enumerate(lines) if shown >> bit & 1]
        values = {line: day + lines.index(line) / 8 for line in own}
        plain |= {(line, run_id): (number, value) for line, value in values.items()}
        table = arrow_table(
            [
                MetricRow(line[0], "ndcg", line[1], "all", "all", value, None, None, None, 9, 0, "")
                for line, value in values.items()
            ],
            METRICS,
        )
        runs.append(PastRun(run_id, table, {"conventions": is_other}))
    order.shuffle(runs)
    rows = series(*runs).rows
    assert len(rows) == len(plain)
    for row in rows:
        line, (number, value) = (row.model, row.k), plain[(row.model, row.k), row.run_id]
        alike = {run_id: one for (key, run_id), (n, one) in plain.items() if (key, n) == (line, number)}
        before = max((run_id for run_id in alike if run_id < row.run_id), default=None)
        week = alike.get((date.fromisoformat(row.run_id) - timedelta(days=7)).isoformat())
        assert (row.value, row.series, row.before) == (value, number, before)
        assert row.difference == (None if before is None else value - alike[before])
        assert row.week_difference == (None if week is None else value - week)


def test_values_across_a_break_are_not_compared_or_joined() -> None:
    found = series(
        past("2024-03-01", 0.15), past("2024-03-08", 0.5, rules="b"), past("2024-03-09", 0.5, rules="b")
    )
    broken = found.rows[1]
    assert (broken.series, broken.changed, broken.before) == (2, "conventions", None)
    assert (broken.difference, broken.week_difference) == (None, None)
    assert found.rows[2].before == "2024-03-08"


def polylines(page: str) -> list[list[str]]:
    """The points of each line of a page, which must be well-formed."""
    tree = ET.fromstring(page.replace("<!DOCTYPE html>", ""))
    return [line.attrib["points"].split() for line in tree.iter("polyline")]


def well_formed(page: str) -> str:
    """The page with its void elements closed, for a parser of XML."""
    lines = [f"{line[:-1]}/>" if line.startswith(("<meta", "<link")) else line for line in page.splitlines()]
    return "\n".join(lines)


def test_lines_end_at_gaps_and_breaks_and_hostile_names_are_text() -> None:
    hostile = "</svg><script>alert(1)</script>"
    runs = [
        past("2024-03-01", 0.15, model=hostile),
        past("2024-03-02", 0.16, model=hostile),
        past("2024-03-04", 0.16, model=hostile, marks=[Mark(hostile, "ndcg", 10, "model")]),
        past("2024-03-05", 0.17, rules="b", model=hostile),
        past("2024-03-06", 0.17, rules="b", model=hostile, marks=[Mark(hostile, "ndcg", 10, None)]),
        past("2024-03-07", None, rules="b", model=hostile),
    ]
    found = series(*runs)
    page = well_formed(found.page)
    assert [len(line) for line in polylines(page)] == [2, 1, 2]
    assert "<script" not in page
    tree = ET.fromstring(page.replace("<!DOCTYPE html>", ""))
    marks = [mark for mark in tree.iter("circle") if mark.attrib.get("class") == "mark"]
    assert [str(mark[0].text).rpartition(": ")[2] for mark in marks] == ["model", "1 failed gates"]
    breaks = [line for line in tree.iter("line") if line.attrib.get("class") == "break"]
    assert [line[0].text for line in breaks] == ["2024-03-05: conventions changed"]
    assert "Days without a run: 1." in page
    assert [(row.alarm, row.failed_gates) for row in found.rows[2:5]] == [("model", 0), (None, 0), (None, 1)]


def test_the_axes_have_round_values_the_newest_day_and_a_mark_if_they_are_cut() -> None:
    days = [f"2024-03-{day:02}" for day in range(1, 31)]
    runs = [past(day, 0.43 + 0.003 * at) for at, day in enumerate(days)]
    tree = ET.fromstring(well_formed(series(*runs).page).replace("<!DOCTYPE html>", ""))
    labels = [(str(one.text), one.attrib) for one in tree.iter("text")]
    dated = [(text, attributes) for text, attributes in labels if "-" in text]
    assert dated[0][0] == days[-1]
    assert dated[0][1]["text-anchor"] == "end"
    assert len(dated) <= 7
    # A phone has room for every third label, the newest among them.
    assert ["class" in attributes for _, attributes in dated][:4] == [False, True, True, False]
    values = [text for text, attributes in labels if "-" not in text]
    assert 3 <= len(values) <= 6
    assert all(float(value) * 100 % 1 < 1e-9 for value in values)
    [cut] = [str(one.text) for one in tree.iter("p") if one.attrib.get("class") == "cut"]
    assert cut == "The vertical axis begins at .0791, not at 0."
    whole = series(past("2024-03-01", 0.0), past("2024-03-02", 0.1)).page
    assert 'class="cut"' not in whole
    assert doctest.testmod(history_pages).failed == 0


def test_names_that_no_run_has_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"map@10.*ndcg@10") as refused:
        series(past("2024-03-01", 0.15), metrics=["map@10"])
    assert refused.value.code == "METRIC_NOT_MEASURED"
    with pytest.raises(ConfigError, match="bpr") as refused:
        series(past("2024-03-01", 0.15), models=["bpr"])
    assert refused.value.code == "UNKNOWN_MODEL"
    with pytest.raises(ConfigError, match="no day"):
        make_history_plan(first="2024-03-02", last="2024-03-01")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    publish_day(tmp_path / "out", DAYS[0], {"als": FIRST, "p/o": FIRST})
    publish_day(tmp_path / "out", DAYS[1], {"als": SECOND, "p/o": FIRST})
    publish_day(tmp_path / "out", "not-a-day", {"als": SECOND})
    return tmp_path / "out"


def test_published_runs_are_read_and_paired_by_user(root: Path) -> None:
    asked: Any = {"metrics": ["map@2"], "models": ["als"]}
    alone = history(str(root), **asked).rows[1]
    assert (alone.value, alone.difference, alone.n_users) == (0.125, -0.625, 2)
    paired = history(str(root), **asked, paired=True).rows[1]
    assert paired.difference == -0.625
    # By hand, e of a, b, c: (.5 - .75)/2 - (0 - .125)/2 up to the sign, and so on.
    e = [(0 - 0.125) / 2 - (0.5 - 0.75) / 2, -(1 - 0.75) / 2, (0.25 - 0.125) / 2]
    error = (3 / 2 * sum(one**2 for one in e)) ** 0.5
    assert paired.difference_high == pytest.approx(-0.625 + 1.959964 * error)
    same = history(str(root), metrics=["map@2"], models=["p/o"], paired=True).rows[1]
    assert (same.difference, same.difference_low, same.difference_high) == (0, 0, 0)
    in_segment = history(str(root), **asked, segments=["country"], paired=True).rows
    assert [(row.segment_value, row.run_id, row.value) for row in in_segment if row.segment != "all"] == [
        ("(missing)", DAYS[1], 0.25),
        ("DE", DAYS[0], 0.75),
        ("DE", DAYS[1], 0.0),
    ]
    in_germany = in_segment[-1]
    assert in_germany.difference == -0.75


def test_weighted_means_are_paired_by_their_weights(tmp_path: Path) -> None:
    for day, value in ((DAYS[0], 0.5), (DAYS[1], 0.25)):
        publish_day(
            tmp_path, day, {"als": [UserDay("a", None, 0.5, value, 2.0), UserDay("b", None, 1.0, 1.0, 2.0)]}
        )
    row = history(str(tmp_path), metrics=["fcp_micro@2"], paired=True).rows[1]
    assert row.difference == -0.125
    # Only a differs: e = -.0625 and .0625 of two users.
    assert row.difference_high == pytest.approx(-0.125 + 1.959964 * (2 * 2 * 0.0625**2) ** 0.5)


VALUES = st.none() | st.sampled_from([0.0, 0.25, 1 / 3, 1.0])
# Rows of a day by user and request.
REQUESTS = st.dictionaries(
    st.tuples(st.sampled_from("abc"), st.sampled_from("rst")), VALUES, min_size=2, max_size=9
).map(lambda rows: [UserDay(user, None, value, None, 0.0, key) for (user, key), value in rows.items()])


def plain_difference(
    sides: Sequence[Sequence[UserDay]], weight: str
) -> tuple[Fraction, Fraction | None] | None:
    """The second mean minus the first, and its variance by user, by loops over users."""
    of_sides = []
    for rows in sides:
        values: dict[str | int, list[Fraction]] = {}
        for row in rows:
            if row.ap is not None:
                values.setdefault(row.user, []).append(Fraction(row.ap))
        amounts = {user: (sum(own, Fraction()), len(own)) for user, own in values.items()}
        if weight == "users":
            amounts = {user: (Fraction(float(x) / w), 1) for user, (x, w) in amounts.items()}
        of_sides.append(amounts)
    if not all(of_sides):
        return None
    means, influences = [], dict.fromkeys(of_sides[0] | of_sides[1], Fraction())
    for sign, amounts in zip((-1, 1), of_sides, strict=True):
        n = sum(w for _, w in amounts.values())
        means.append(sum(x for x, _ in amounts.values()) / Fraction(n))
        for user, (x, w) in amounts.items():
            influences[user] += sign * (x - means[-1] * w) / n
    n_users = len(influences)
    squares = sum((one**2 for one in influences.values()), Fraction())
    variance = squares * n_users / (n_users - 1) if n_users > 1 else None
    return means[1] - means[0], variance


@settings(max_examples=8)
@example([[UserDay("a", None, 0.25, None, 0.0, "r"), UserDay("a", None, 1.0, None, 0.0, "s")]] * 2, "users")
@given(st.lists(REQUESTS, min_size=2, max_size=2), st.sampled_from(["requests", "users"]))
def test_lists_by_request_are_paired_by_user(days: list[list[UserDay]], weight: str) -> None:
    with TemporaryDirectory() as folder:
        for day, rows in zip(DAYS, days, strict=False):
            publish_day(Path(folder), day, {"als": rows}, weight=weight)
        found = history(folder, metrics=["map@2"], paired=True).rows[-1]
    expected = plain_difference(days, weight)
    if expected is None:
        assert found.difference is None
        return
    difference, variance = expected
    assert found.difference == pytest.approx(float(difference), abs=1e-15)
    if variance is not None:
        assert found.difference_high == pytest.approx(
            float(difference) + 1.959963985 * float(variance) ** 0.5
        )


def no_spark() -> NoReturn:
    raise AssertionError("a session of Spark was opened")


def test_days_of_predictions_keep_the_independent_error(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for day in DAYS[:2]:
        columns = {
            "label": random.integers(0, 2, 90),
            "score": random.random(90),
            "user": random.integers(0, 9, 90),
        }
        pq.write_table(pa.table(columns), tmp_path / "scored.parquet")
        predictions: dict[str, Any] = {
            "path": str(tmp_path / "scored.parquet"),
            "model": "m",
            "task": "binary",
        }
        predictions |= {"metrics": ["accuracy", "log_loss"], "intervals": "user"}
        sections: dict[str, Any] = {
            "engine": "local",
            "output": {"path": str(tmp_path / "out")},
            "predictions": predictions,
        }
        run_verb(VERBS["predictions"], no_spark, parse_config(sections), day, False)
    alone, paired = (history(str(tmp_path / "out"), paired=is_paired).rows for is_paired in (False, True))
    assert len(alone) == 4
    assert paired == alone
    assert all(row.difference_low is not None for row in paired if row.run_id == DAYS[1])


def test_failed_gates_of_a_run_are_marks(root: Path) -> None:
    asked = ("map", 2, "als", None, "pop", 0.0, "absolute", "observed", 0.95, "all", "all", 1, 0.9, "user")
    gate = GateRow(*asked, 0.2, 0.1, -0.1, None, None, 2, "worse", False, "fell", None, None, None)
    with Attempt(LocalStore(root), DAYS[1], "compare") as attempt:
        write_small([gate], GATES, Path(attempt.staged("gates")), by_model=False)
        attempt.publish({"gates": 1}, {"fingerprint": "g"})
    rows = history(str(root), metrics=["map@2"]).rows
    assert {(row.model, row.run_id): row.failed_gates for row in rows}[("als", DAYS[1])] == 1
    assert sum(row.failed_gates for row in rows) == 1


def test_a_damaged_day_is_a_gap_and_named(root: Path) -> None:
    for file in (root / "metrics" / f"run_id={DAYS[1]}").rglob("*.parquet"):
        file.write_bytes(file.read_bytes()[:-9])
    found = history(str(root))
    assert found.runs == DAYS[:1]
    assert list(found.damaged) == [DAYS[1]]
    with pytest.raises(DataError, match="no run of a day") as refused:
        history(str(root), first=DAYS[2])
    assert refused.value.code == "UNKNOWN_RUN"


def test_a_file_with_nan_is_named(root: Path) -> None:
    [file] = (root / "metrics" / f"run_id={DAYS[1]}" / "model=als").glob("*.parquet")
    table = pq.read_table(file)
    at = table.schema.get_field_index("value")
    nan = pa.array([math.nan] * len(table), pa.float64())
    pq.write_table(table.set_column(at, table.schema.field(at), nan), file)
    assert f"{file}': column 'value' holds NaN" in history(str(root)).damaged[DAYS[1]]


def test_the_command_prints_the_newest_values_and_writes_the_page(root: Path, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(f"output: {{path: {root}}}\nhistory: {{metrics: [map@2]}}\n")
    done = CliRunner().invoke(program, ["history", "--config", str(tmp_path / "config.yaml")])
    assert done.exit_code == 0, done.output
    assert "-.6250" in done.output
    assert f"page        {root}/report/_history.html" in done.output
    page = str(tmp_path / "h.html")
    done = CliRunner().invoke(program, ["history", "--path", str(root), "--models", "p/o", "--page", page])
    assert done.exit_code == 0, done.output
    assert "als" not in Path(page).read_text()
    assert CliRunner().invoke(program, ["history"]).exit_code == 2


def test_the_page_is_the_same_for_the_same_runs(root: Path) -> None:
    assert history(str(root)).page == history(str(root)).page
    found = history(str(root))
    assert found.table() is found.history
    assert len(found.history) == found.to_arrow().num_rows == len(found.rows)


def test_no_spark_is_imported(root: Path) -> None:
    look = f"""
import sys
from spark_eval.cli.commands import main
try:
    main(["history", "--path", {str(root)!r}])
finally:
    assert not {{"pyspark", "py4j"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", look], check=True, capture_output=True)


def publish_means(root: Path, day: date) -> None:
    """A run with 300 rows of means: five models, three metrics at four cutoffs, four countries."""
    cells = [("all", "all"), *(("country", name) for name in ("AT", "CH", "DE", "FR"))]
    rows = [
        MetricRow(
            f"m{model}", metric, k, *cell, 0.16 + 0.001 * day.day, 0.001, 0.158, 0.162, 1000, 0, "default"
        )
        for model in range(5)
        for metric in ("ndcg", "map", "mrr")
        for k in (1, 5, 10, 20)
        for cell in cells
    ]
    with Attempt(LocalStore(root), day.isoformat(), "evaluate") as attempt:
        write_small(rows, METRICS, Path(attempt.staged("metrics")), by_model=True)
        attempt.publish({"metrics": len(rows)}, {"fingerprint": "f", "models": ["m0"]})


@pytest.mark.slow
def test_a_year_of_300_rows_a_day_is_a_history(tmp_path: Path) -> None:
    for at in range(365):
        publish_means(tmp_path, date(2023, 1, 1) + timedelta(days=at))
    command = [str(Path(sys.executable).with_name("spark-eval")), "history", "--path", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    assert len(history(str(tmp_path), models=["m0"], metrics=["map@5"]).rows) == 365
