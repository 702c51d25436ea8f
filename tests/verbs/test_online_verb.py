"""The verb online: what it publishes, what it counts, what it refuses, and when it ends with exit code 5."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
import pyarrow.parquet as pq
import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Answer, Desk

pytestmark = pytest.mark.usefixtures("each_engine")

NOON: Final = pd.Timestamp("2024-05-03T12:00:00Z")
METRICS: Final[list[dict[str, Any]]] = [
    {
        "name": "ctr",
        "kind": "ratio",
        "numerator": {"kind": "click", "value": "count"},
        "denominator": {"kind": "view", "value": "count"},
    },
    {
        "name": "watch",
        "kind": "mean",
        "of": {"kind": "watch", "value": "sum"},
        "decimals": 3,
        "role": "guardrail",
        "margin": 0.5,
        "margin_kind": "relative",
    },
]
HOME: Final[dict[str, Any]] = {
    "name": "home",
    "control": "a",
    "variants": {"a": 1.0, "b": 1.0},
    "period": ["2024-05-01", "2024-05-08"],
}


def exposures(n_users: int = 40) -> pd.DataFrame:
    """Users by turns in a and b."""
    users = range(n_users)
    return pd.DataFrame({"user": users, "arm": ["ab"[user % 2] for user in users], "timestamp": NOON})


def events(n_users: int = 40) -> pd.DataFrame:
    """Ten views of each user; in b twice as many clicks; the same watch time in both."""
    rows: list[tuple[Any, ...]] = []
    for user in range(n_users):
        n_clicks = 1 + user // 2 % 3 + 3 * (user % 2)
        rows += [(user, "view", None)] * 10 + [(user, "click", None)] * n_clicks
        rows.append((user, "watch", 10.5 + user // 2 % 7))
    found = pd.DataFrame(rows, columns=["user", "kind", "value"]).assign(timestamp=NOON)
    return found.astype({"value": float})


def with_experiment(
    desk: "Desk",
    shown: pd.DataFrame | None = None,
    happened: pd.DataFrame | None = None,
    metrics: list[dict[str, Any]] | None = None,
    **change: Any,
) -> "Desk":
    shown = exposures() if shown is None else shown
    happened = events() if happened is None else happened
    desk.change("exposures", path=str(desk.write("exposures", shown)), columns={"variant": "arm"})
    desk.change("events", path=str(desk.write("events", happened)))
    desk.change("online", metrics=metrics or METRICS, experiments={**HOME, **change})
    return desk


def rows_of(desk: "Desk", table: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(desk.out / table).to_pylist()
    return rows


@pytest.fixture(scope="module")
def told(
    each_engine: str, new_desk: type["Desk"], tmp_path_factory: pytest.TempPathFactory
) -> tuple["Desk", "Answer"]:
    """A desk with one run, only to be read, and what the verb said."""
    bad = pd.DataFrame(
        [(1, "watch", -2.0), (2, "watch", float("inf")), (3, "scroll", 1.0), (99, "click", 1.0)],
        columns=["user", "kind", "value"],
    ).assign(timestamp=NOON)
    early = events(1).assign(timestamp=pd.Timestamp("1969-12-31T23:00:00Z"))
    happened = pd.concat([events(), bad, early], ignore_index=True)
    desk = with_experiment(new_desk(tmp_path_factory.mktemp(f"online-{each_engine}")), happened=happened)
    return desk, desk.done("online", "--run-id", "o")


def test_it_says_the_difference_and_the_decision(told: tuple["Desk", "Answer"]) -> None:
    desk, answer = told
    assert "home, b: win: ctr won: +" in answer.out
    for table in ("experiments", "checks", "decisions", "accounting", "quarantine"):
        assert str(desk.out / table) in answer.out
    found = {(row["metric"], row["method"]): row for row in rows_of(desk, "experiments")}
    assert found.keys() == {
        *((metric, method) for metric in ("ctr", "watch") for method in ("raw", "cuped")),
        ("watch", "non_inferiority"),
    }
    ctr = found["ctr", "raw"]
    assert (ctr["n_control"], ctr["n_treatment"]) == (20, 20)
    assert ctr["difference"] == pytest.approx(0.3)
    assert ctr["p_adjusted"] == ctr["p_value"] < 0.001
    assert found["watch", "raw"]["difference"] == 0
    assert found["watch", "non_inferiority"]["p_value"] < 0.05
    assert {row["check"] for row in rows_of(desk, "checks")} == {"srm", "srm_day", "crossover", "pre_period"}


def test_experiments_have_their_own_unit_slices_and_sequential_test(desk: "Desk") -> None:
    with_experiment(
        desk,
        exposures().assign(country=["DE", "FR", "FR", "DE"] * 10),
        unit="user",
        by=["hour", "day", "country"],
        sequential={"tightest_at": 5000, "min_users": 5},
        metrics=[{**METRICS[0], "cuped": False}, {**METRICS[1], "cuped": True}],
    )
    desk.tree["gates"] = [{"metric": "ctr", "experiment": "home"}]
    desk.done("online")
    rows = rows_of(desk, "experiments")
    # All events are on the day of exposure, which is no whole day: there are no hours.
    assert {row["segment"] for row in rows} == {"all", "day", "country"}
    assert {row["metric"] for row in rows if row["method"] == "cuped"} == {"watch"}
    assert {row["metric"] for row in rows if row["method"] == "sequential"} == {"ctr", "watch"}
    assert not [row for row in rows if row["method"] == "gate"]
    assert [row["gate"] for row in rows_of(desk, "decisions")] == [True]


def test_a_gate_without_a_limit_fails_with_the_decision(desk: "Desk") -> None:
    lost = {**METRICS[0], "direction": "lower"}
    with_experiment(desk, metrics=[lost])
    desk.tree["gates"] = [{"metric": "ctr", "experiment": "home", "mode": "certain_drop"}]
    code, error, text = desk.refused("online")
    assert (code, error) == (2, "INVALID_GATE")
    assert "max_drop, which mode needs" in text
    desk.tree["gates"] = [{"metric": "ctr", "experiment": "home"}]
    answer = desk.run("online")
    assert (answer.code, answer.error) == (5, "EXPERIMENT_FAILED")


def test_every_row_is_accounted_for(told: tuple["Desk", "Answer"]) -> None:
    desk, _ = told
    found = {
        (row["source"], row["model"], row["outcome"], row["reason"]): row["rows"]
        for row in rows_of(desk, "accounting")
    }
    n_events = len(events())
    assert found["events", None, "quarantined", "NEGATIVE_VALUE"] == 1
    assert found["events", None, "quarantined", "VALUE_OUT_OF_RANGE"] == 1
    assert found["events", None, "filtered", "other_kind"] == 1
    assert found["events", "home", "dropped", "not_exposed"] == 1
    assert found["events", "home", "dropped", "outside_period"] == len(events(1))
    assert found["events", "home", "used", None] == n_events
    assert found["exposures", "home", "used", None] == found["users", "home", "used", None] == 40
    assert {row["code"] for row in rows_of(desk, "quarantine")} == {"NEGATIVE_VALUE", "VALUE_OUT_OF_RANGE"}


def test_the_same_run_is_published_once_and_files_in_any_order_give_the_same_bits(
    told: tuple["Desk", "Answer"], tmp_path: Path
) -> None:
    desk, _ = told
    assert "already" in desk.done("online", "--run-id", "o").out
    before = rows_of(desk, "experiments")
    for number, part in enumerate((2, 0, 1)):
        events()[part::3][::-1].to_parquet(tmp_path / f"{number}.parquet")
    desk.done("online", "--run-id", "other", "--set", f"events.path={tmp_path}")
    both = pq.read_table(desk.out / "experiments").to_pylist()
    other = [row for row in both if row["run_id"] == "other"]
    names = before[0].keys() - {"run_id"}
    assert [{name: row[name] for name in names} for row in other] == [
        {name: row[name] for name in names} for row in before
    ]


def test_a_skewed_sample_and_a_lost_gate_are_exit_code_5(desk: "Desk") -> None:
    shown = exposures(400)
    skewed = shown[(shown["arm"] == "a") | (shown["user"] > 200)]
    answer = with_experiment(desk, skewed, events(400)).run("online", "--run-id", "skewed")
    assert answer.code == 5
    assert "EXPERIMENT_FAILED" in answer.err
    assert (
        "not trusted: srm: a has 200 and b has 100 units, which the planned weights do not explain"
        in answer.err
    )
    lower = [{**METRICS[0], "direction": "lower"}]
    with_experiment(desk, metrics=lower).done("online", "--run-id", "open")
    gate = {"experiment": "home", "metric": "ctr", "max_drop": 0.5}
    answer = with_experiment(desk, metrics=lower).run(
        "online", "--run-id", "gated", "--set", f"gates=[{gate}]"
    )
    assert answer.code == 5
    assert "home, b: loss: ctr lost: +" in answer.err
    assert {row["decision"] for row in rows_of(desk, "decisions")} == {"loss", "blocked"}


@pytest.mark.parametrize(
    ("arms", "code"),
    [({0: "c"}, "UNKNOWN_VARIANT"), ({0: "b", 1: "a"}, None), ({40: "b"}, "TOO_MANY_CROSSOVERS")],
)
def test_odd_variants(desk: "Desk", arms: dict[int, str], code: str | None) -> None:
    shown = exposures()
    again = pd.DataFrame({"user": [0], "arm": ["a"], "timestamp": [NOON]})
    shown = pd.concat([shown, again], ignore_index=True)
    for row, arm in arms.items():
        shown.loc[row, "arm"] = arm
    if code is None:
        shown = shown[:40]
    answer = with_experiment(desk, shown).run("online")
    assert answer.code == (0 if code is None else 3)
    assert code is None or code in answer.err


def test_events_in_another_unit_and_empty_arms(desk: "Desk") -> None:
    late = events().assign(timestamp=pd.Timestamp("2224-05-03T12:00:00Z"))
    answer = with_experiment(desk, happened=late).run("online")
    assert (answer.code, "EVENTS_OUTSIDE_PERIOD" in answer.err) == (3, True)
    shown = exposures(4)
    with_experiment(desk, shown[shown["arm"] == "a"], metrics=[METRICS[0]]).done(
        "online", "--run-id", "empty"
    )
    row = rows_of(desk, "experiments")[0]
    assert (row["n_treatment"], row["p_value"], row["reason"]) == (0, None, "an arm without units")
    assert [row["decision"] for row in rows_of(desk, "decisions")] == ["undecided"]


def test_variants_follow_from_the_hash_and_a_logged_one_must_agree(desk: "Desk") -> None:
    halves = {"salt": "exp1", "ranges": {"a": [0, 5000], "b": [5000, 10000]}}
    with_experiment(desk, exposures().drop(columns="arm"), assignment=halves)
    desk.change("exposures", columns={})
    desk.done("online", "--run-id", "hashed")
    answer = with_experiment(desk, assignment=halves).run("online", "--run-id", "both")
    assert answer.code == 5
    assert "not trusted: assignment" in answer.err


def test_the_config_is_checked(desk: "Desk") -> None:
    with_experiment(desk)
    assert "exposures" in desk.done("validate", "--verb", "online").out
    answer = desk.run("online", "--set", "online.sequent=true")
    assert (answer.code, "UNKNOWN_CONFIG_KEY" in answer.err) == (2, True)
    answer = with_experiment(desk, period=["2024-05-08", "2024-05-01"]).run("online")
    assert (answer.code, "INVALID_EXPERIMENT" in answer.err) == (2, True)


def drafts(n_users: int = 40) -> pd.DataFrame:
    """A list of two items for each user, begun by a or b in turns; that of a is clicked; one row is bad."""
    rows = [
        {
            "list": user,
            "user": f"u{user}",
            "item": team,
            "position": position,
            "team": team,
            "first_pick": "ab"[user % 2],
            "clicked": team == "a",
            "rank_a": 1 if team == "a" else 2,
            "rank_b": 1 if team == "b" else None,
        }
        for user in range(n_users)
        for position, team in enumerate("ab" if user % 2 == 0 else "ba", start=1)
    ]
    return pd.DataFrame([*rows, {**rows[0], "list": None}])


def with_drafts(desk: "Desk", shown: pd.DataFrame) -> "Desk":
    path = str(desk.write("drafts", shown.astype({"list": "Int64"})))
    desk.change("interleaving", path=path, columns={"impression": "list"})
    return desk


def test_interleaved_lists_need_no_experiments(desk: "Desk") -> None:
    with_drafts(desk, drafts())
    answer = desk.done("online", "--run-id", "i", "--set", "report=true")
    assert "all, a: win: 40 of 40 users prefer it" in answer.out
    rows = rows_of(desk, "interleavings")
    assert [(row["analysis"], row["difference"], row["wins"]) for row in rows] == [
        ("preference", 0.5, 40),
        ("impressions", 0.5, 40),
        ("paired", 1.0, 40),
    ]
    found = {
        (row["source"], row["outcome"], row["reason"]): row["rows"] for row in rows_of(desk, "accounting")
    }
    assert found == {
        ("interleaving", "in", None): 81,
        ("interleaving", "used", None): 80,
        ("interleaving", "quarantined", "NULL_ID"): 1,
    }
    assert [row["code"] for row in rows_of(desk, "quarantine")] == ["NULL_ID"]
    assert {row["check"] for row in rows_of(desk, "checks")} == {"first_pick", "position"}
    assert not (desk.out / "experiments").exists()
    page = (desk.out / "report" / "i.html").read_text()
    assert "Preference for the first team" in page
    assert "interleaving" in desk.done("validate", "--verb", "online").out
    answer = desk.run("online", "--set", "interleaving.max_quarantined=0")
    assert (answer.code, "QUARANTINE_SHARE" in answer.err) == (3, True)


def test_days_are_summed_and_then_read(desk: "Desk") -> None:
    later = events().assign(timestamp=NOON + pd.Timedelta(days=1))
    with_experiment(desk, happened=pd.concat([events(), later], ignore_index=True))
    days = ("2024-05-03", "2024-05-04")
    for day in days:
        answer = desk.done("online", "--day", day, "--run-id", f"day-{day}")
        assert f"user_days of {day}" in answer.out
    assert not (desk.out / "experiments").exists()
    rows = rows_of(desk, "user_days")
    assert sum(row["n_events"] for row in rows) == 2 * len(events())
    desk.done("online", "--run-id", "whole")
    path = desk.out / "user_days"
    desk.done("online", "--run-id", "as-events", "--set", f"events.path={path}")
    for day in ("2024-05-01", "2024-05-02"):
        desk.done("online", "--day", day, "--run-id", f"day-{day}")
    answer = desk.done("online", "--from", "2024-05-01", "--to", "2024-05-04", "--run-id", "merged")
    assert "home, b: win: ctr won: +" in answer.out
    assert "the pre-period lacks days that were not read: 2024-04-17 to 2024-04-30" in answer.out
    for table in ("experiments", "checks", "decisions", "accounting"):
        by_run: dict[str, list[Any]] = {"whole": [], "as-events": [], "merged": []}
        for row in rows_of(desk, table):
            if (found := by_run.get(row.pop("run_id"))) is not None:
                found.append(row)
        assert by_run["whole"] == by_run["merged"] == by_run["as-events"] != []
    # A day that is summed again makes the merged run stale, and the next one reads the new sums.
    desk.done(
        "online", "--day", days[1], "--run-id", f"day-{days[1]}", "--replace", "--set", "online.power=0.9"
    )
    stale = {run["run_id"]: run["stale"] for run in json.loads(desk.done("status", "--json").out)["runs"]}
    assert (stale["merged"], stale["whole"]) == ([f"day-{days[1]}"], [])


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        (("--from", "2024-05-01", "--to", "2024-05-03"), 3, "MISSING_DAYS"),
        (("--from", "2024-05-03", "--to", "2024-05-03"), 2, "'home' begins on 2024-05-01"),
        (("--from", "2024-05-03", "--to", "2024-05-01"), 2, "is after"),
        (("--from", "2024-05-01"), 2, "give both"),
        (("--from", "2024-05-01", "--to", "2024-05-03", "--day", "2024-05-03"), 2, "one or the other"),
        (("--from", "May", "--to", "2024-05-03"), 2, "2024-05-01"),
        (
            ("--from", "2024-05-01", "--to", "2024-05-01", "--set", "online.timezone=Asia/Tokyo"),
            3,
            "INVALID_USER_DAYS",
        ),
    ],
)
def test_days_that_cannot_be_read(desk: "Desk", given: tuple[str, ...], code: int, message: str) -> None:
    with_experiment(desk).done("online", "--day", "2024-05-01", "--run-id", "day")
    answer = desk.run("online", *given)
    assert (answer.code, message in answer.err) == (code, True)


def test_an_unfair_draft_ends_with_exit_code_5(desk: "Desk") -> None:
    answer = with_drafts(desk, drafts().assign(first_pick="a")).run("online")
    assert (answer.code, "not trusted: first_pick" in answer.err) == (5, True)


def test_both_engines_publish_the_same(desk: "Desk", tmp_path: Path) -> None:
    bad = pd.DataFrame([(1, "watch", -2.0), (2, None, 1.0)], columns=["user", "kind", "value"])
    happened = pd.concat([events(), bad.assign(timestamp=NOON)], ignore_index=True)
    with_experiment(desk, happened=happened.assign(surface="home"))
    desk.change("online", metrics=METRICS, experiments=HOME, by=["hour"], slices=["surface"])
    with_drafts(desk, drafts())
    found: list[dict[str, Any]] = []
    for engine in ("local", "spark"):
        out = tmp_path / engine
        answer = desk.done("online", "--run-id", "o", "--engine", engine, "--set", f"output.path={out}")
        assert ("engine: local" in answer.out, "engine: spark" in answer.out) == (
            engine == "local",
            engine == "spark",
        )
        tables = ("experiments", "interleavings", "checks", "decisions", "accounting", "quarantine")
        found.append(
            {
                name: sorted(map(str, pq.read_table(out / name).drop_columns("run_id").to_pylist()))
                for name in tables
            }
        )
    assert found[0] == found[1]
    assert len(found[0]["quarantine"]) == 3
