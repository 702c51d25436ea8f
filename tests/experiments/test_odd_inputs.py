"""Odd names and odd rows of experiments: the same counts, reasons and refusals on both engines."""

from typing import Any, Final

import pandas as pd
import pytest

from spark_eval import evaluate_experiments, evaluate_interleaving
from spark_eval.errors import ConfigError, DataError
from spark_eval.experiments.evaluate import Experiments
from spark_eval.experiments.parse import make_experiment_plan

NOON: Final = pd.Timestamp("2024-05-01T12:00:00Z")
# Names as text of a query, a path or a column of a table may have them.
COLUMN: Final = "sur`face.kind; --"
ARMS: Final = ("control'--", "b; DROP TABLE x", "größer/..", "nobody")
HOME: Final[dict[str, Any]] = {
    "name": "home/../'1'='1",
    "control": ARMS[0],
    "variants": dict.fromkeys(ARMS, 0.25),
    "period": ["2024-05-01", "2024-05-03"],
    "by": [COLUMN],
}
CLICKS: Final[dict[str, Any]] = {
    "name": "select count(*)",
    "kind": "mean",
    "of": {"kind": "click; --", "where": [{"column": COLUMN, "op": "!=", "value": "no`where"}]},
}


def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two users of the control, two of an arm, a single one of the next, nobody of the last; odd events."""
    exposures = pd.DataFrame(
        {
            "user": ["o'neil", '"; --', "x\\y", "😀", "only"],
            "variant": [ARMS[0], ARMS[0], ARMS[1], ARMS[1], ARMS[2]],
            "timestamp": NOON,
            COLUMN: ["a`b", "a`b", "a.b", "a.b", None],
        }
    )
    events = pd.DataFrame(
        [
            ("o'neil", NOON, 1.0, "e1"),
            ("o'neil", NOON, 1.0, "e1"),
            ("x\\y", NOON, 2.0, "e1"),
            ("😀", NOON, 3.0, None),
            ("only", NOON, 4.0, None),
            ("only", NOON, -1.0, "e2"),
            ("only", NOON, float("nan"), "e3"),
            ("only", NOON, float("inf"), "e4"),
            ("nobody", NOON, 1.0, "e5"),
            ("😀", pd.Timestamp("1969-12-31T23:59:59Z"), 1.0, "e6"),
            ("😀", NOON - pd.Timedelta(days=2), 5.0, "e7"),
            ("😀", NOON - pd.Timedelta(hours=1), 5.0, "e8"),
            (None, NOON, 1.0, "e9"),
        ],
        columns=["user", "timestamp", "value", "id"],
    )
    return exposures, events.assign(kind=CLICKS["of"]["kind"], **{COLUMN: "some`where"})


def run(engine: str, **change: Any) -> Experiments:
    shown, happened = tables()
    return evaluate_experiments(
        shown, happened, [CLICKS], {**HOME, **change}, engine=engine, max_quarantined=0.5
    )


def check_rows(found: Experiments) -> None:
    counts = {
        (entry.outcome, entry.reason): entry.rows
        for entry in found.entries
        if entry.source == "events" and (entry.model or entry.outcome in ("quarantined", "deduplicated"))
    }
    assert counts == {
        ("in", None): 8,
        ("used", None): 4,
        ("used", "pre_period"): 1,
        ("dropped", "not_exposed"): 1,
        ("dropped", "outside_period"): 1,
        ("dropped", "before_exposure"): 1,
        ("quarantined", "NULL_ID"): 1,
        ("quarantined", "NEGATIVE_VALUE"): 1,
        ("quarantined", "VALUE_OUT_OF_RANGE"): 2,
        ("deduplicated", None): 1,
    }
    rows = {
        row.treatment: row for row in found.experiment_rows if (row.method, row.segment) == ("raw", "all")
    }
    assert [rows[arm].treatment_value for arm in ARMS[1:]] == [2.5, 4.0, None]
    assert [rows[arm].reason for arm in ARMS[1:]] == [
        None,
        "an arm with a single unit",
        "an arm without units",
    ]
    assert {row.segment_value for row in found.experiment_rows} == {"all", "a`b", "a.b", "(missing)"}


def test_odd_names_and_rows_are_counted_in_this_process() -> None:
    check_rows(run("local"))


@pytest.mark.spark
def test_odd_names_and_rows_are_the_same_on_spark() -> None:
    one, other = run("local"), run("spark")
    check_rows(other)
    assert one.experiment_rows == other.experiment_rows
    assert one.check_rows == other.check_rows
    assert one.entries == other.entries
    with pytest.raises(DataError, match=r"UNKNOWN_VARIANT.*größer"):
        run("spark", variants={ARMS[0]: 1, ARMS[1]: 1, ARMS[3]: 1})


def test_an_unlisted_variant_is_named() -> None:
    with pytest.raises(DataError, match=r"UNKNOWN_VARIANT.*größer"):
        run("local", variants={ARMS[0]: 1, ARMS[1]: 1, ARMS[3]: 1})


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ((0.5, 0.6), "the sum of the weights is 1.1"),
        ((0.3, 0.3), "the sum of the weights is 0.6"),
        ((0.5, -0.5), "above 0"),
        ((0.5, float("nan")), "above 0"),
        ((0.5, 0.5), None),
        ((1, 9), None),
        ((0.6665, 0.3333), None),
    ],
)
def test_weights_have_the_sum_1_or_are_whole(weights: tuple[float, float], message: str | None) -> None:
    home = {
        "name": "h",
        "control": "a",
        "period": HOME["period"],
        "variants": dict(zip("ab", weights, strict=True)),
    }
    shown = pd.DataFrame({"user": [1, 2], "variant": ["a", "b"], "timestamp": NOON})
    happened = pd.DataFrame({"user": [1], "kind": "click", "timestamp": NOON})
    clicks = {"name": "clicks", "kind": "mean", "of": {"kind": "click"}}
    if message is None:
        evaluate_experiments(shown, happened, [clicks], home, engine="local")
        return
    with pytest.raises(ConfigError, match=message):
        evaluate_experiments(shown, happened, [clicks], home, engine="local")
    later = [{"since": "2024-05-02", "variants": home["variants"]}]
    sound = {**home, "variants": {"a": 1, "b": 1}, "weights": later}
    with pytest.raises(ConfigError, match=message):
        evaluate_experiments(shown, happened, [clicks], sound, engine="local")


def test_names_that_collide_are_refused() -> None:
    shown, happened = tables()
    for metrics, experiments in (([CLICKS, CLICKS], HOME), ([CLICKS], [HOME, HOME])):
        with pytest.raises(ConfigError, match="distinct names"):
            evaluate_experiments(shown, happened, metrics, experiments, engine="local")


@pytest.mark.parametrize("table", ["exposures", "events"])
@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_times_that_are_numbers_need_a_unit(table: str, engine: str) -> None:
    given = dict(zip(("exposures", "events"), tables(), strict=True))
    given[table] = given[table].assign(timestamp=1_714_564_800)
    with pytest.raises(DataError, match=f"TIMESTAMP_UNIT_MISSING. {table}: the timestamp is a number"):
        evaluate_experiments(given["exposures"], given["events"], [CLICKS], HOME, engine=engine)


@pytest.mark.parametrize("name", ["b ", " b", "B", "b\t", "", "b, c", "None"])
def test_an_unlisted_name_is_shown_as_it_is(name: str) -> None:
    shown = pd.DataFrame({"user": [1, 2], "variant": ["a", name], "timestamp": NOON})
    happened = pd.DataFrame({"user": [1], "kind": "click", "timestamp": NOON})
    clicks = {"name": "clicks", "kind": "mean", "of": {"kind": "click"}}
    home = {"name": "h", "control": "a", "variants": {"a": 1, "b": 1}, "period": HOME["period"]}
    with pytest.raises(DataError) as caught:
        evaluate_experiments(shown, happened, [clicks], home, engine="local")
    assert f"variants {name!r} are not in the config; listed are 'a', 'b'" in str(caught.value)
    draft = pd.DataFrame({"item": ["x", "y"], "team": ["a", name], "clicked": [1, 0]})
    draft = draft.assign(impression=1, user=7, position=[1, 2], first_pick="a")
    with pytest.raises(DataError) as caught:
        evaluate_interleaving(draft, engine="local")
    assert f"unknown teams {name!r}; teams are 'a', 'b'" in str(caught.value)


@pytest.mark.parametrize(
    ("start", "instant"),
    [
        # The clock of Berlin goes back from 03:00 to 02:00, and forward from 02:00 to 03:00.
        ("2024-10-27T02:30", "2024-10-27T00:30Z"),
        ("2024-10-27T02:30+01:00", "2024-10-27T01:30Z"),
        ("2024-03-31T02:30", "2024-03-31T01:30Z"),
        ("2024-10-27", "2024-10-26T22:00Z"),
    ],
)
def test_a_time_that_exists_twice_is_the_first_and_a_skipped_one_is_later(start: str, instant: str) -> None:
    home = {"name": "h", "control": "a", "variants": {"a": 1, "b": 1}, "period": [start, "2024-12-01"]}
    clicks = {"name": "clicks", "kind": "mean", "of": {"kind": "click"}}
    plan = make_experiment_plan([clicks], [home], timezone="Europe/Berlin")
    assert plan.experiments[0].start == pd.Timestamp(instant).timestamp() * 1_000_000
