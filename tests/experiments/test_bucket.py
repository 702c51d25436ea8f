"""Sums of a bucket of users against a slow loop: every row is accounted for, whatever the parts."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_eval.errors import ConfigError
from spark_eval.experiments.inputs import rules_of
from spark_eval.experiments.moments import ONE, X, Y
from spark_eval.experiments.parse import make_experiment_plan
from spark_eval.experiments.plan import Assignment
from spark_eval.experiments.worker import timeline
from spark_eval.experiments.worker.assignment import hashed_buckets
from spark_eval.experiments.worker.bucket import BucketSums, Cell, SourceRows, measure_bucket
from spark_eval.experiments.worker.send import (
    SEGMENT_BITS,
    Reach,
    by_bucket,
    exposed_bits,
    filter_of,
    merged_bits,
    n_bits_for,
)
from spark_eval.experiments.worker.sums import moments_by_group
from spark_eval.experiments.worker.timeline import Timeline

DAY: Final = 86_400_000_000
# The clock changes on 2024-03-31 in Berlin, in the middle of the period.
START: Final = int(datetime(2024, 3, 29, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()) * 1_000_000
TIMES: Final = st.integers(-4 * 24, 6 * 24).map(lambda hour: START + hour * DAY // 24)
USERS: Final = st.integers(1, 5)
PLAN: Final = make_experiment_plan(
    [
        {"name": "money", "kind": "mean", "of": {"kind": "buy", "value": "sum"}, "decimals": 2},
        {
            "name": "ctr",
            "kind": "ratio",
            "numerator": {"kind": "click", "value": "count"},
            "denominator": {"kind": "view", "value": "count"},
        },
        {
            "name": "ctr_user",
            "kind": "mean_of_ratios",
            "numerator": {"kind": "click", "value": "any"},
            "denominator": {"kind": "view", "value": "count"},
        },
    ],
    {
        "name": "home",
        "control": "a",
        "variants": {"a": 1, "b": 1},
        "window": "30h",
        "period": ["2024-03-29", "2024-04-02"],
    },
    timezone="Europe/Berlin",
    pre_days=2,
    bots={"ids": ["4"], "pre_events": 2},
)


def measured(
    exposures: list[Any], events: list[Any], n_buckets: int, size: int, is_filtered: bool = False
) -> BucketSums:
    """The sums of the rows in batches of a size, and in so many buckets."""
    reach = None
    types = {"user": pa.int64(), "timestamp": pa.int64(), "value": pa.float64()}
    found: dict[int, list[Any]] = {}
    for source, names, rows in (
        ("exposures", ("user", "timestamp", "variant", "experiment"), exposures),
        ("events", ("user", "timestamp", "kind", "value", "id"), events),
    ):
        schema = pa.schema({name: types.get(name, pa.string()) for name in names})
        valid = [(None if row[-1] else row[0], *row[1:-1]) for row in rows]
        table = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in valid], schema)
        if is_filtered and source == "events" and not table["id"].is_valid().to_numpy().any():
            table = table.drop_columns("id")  # events with ids are not left behind
        judge, batches = rules_of(PLAN)[source], table.to_batches(size)
        if is_filtered and source == "exposures":
            segments: dict[int, list[bytes]] = {}
            for half in (batches[::2], batches[1::2]):
                for number, segment in exposed_bits(half, judge, PLAN, 2 * SEGMENT_BITS):
                    segments.setdefault(number, []).append(segment)
            bits = [merged_bits(number, several) for number, several in segments.items()]
            reach = Reach.of(PLAN, filter_of(bits, 2 * SEGMENT_BITS))
        for number, part in by_bucket(batches, source, judge, PLAN, n_buckets, reach):
            found.setdefault(number, []).append(part)
    total = BucketSums()
    for parts in found.values():
        total += measure_bucket(reversed(parts), PLAN)
    return total


def slow(exposures: list[Any], events: list[Any]) -> tuple[Counter[Any], dict[str, dict[int, list[Any]]]]:
    """The counts, and the used events of each user by arm, row by row."""
    rows: Counter[Any] = Counter()
    shown = slow_exposures(exposures, rows)
    outcomes = slow_events(events, shown)
    past = Counter(user for user, outcome, _ in outcomes if outcome == "pre_period")
    arms: dict[str, dict[int, list[Any]]] = {"a": {}, "b": {}}
    bots = {user for user in shown if user == 4 or past[user] > 2}
    for user, seen in shown.items():
        if len({variant for _, variant in seen}) > 1:
            rows["exposures", "crossover"] += len(seen)
        elif user in bots:
            rows["exposures", "bot"] += len(seen)
        else:
            rows["exposures", "used"] += 1
            rows["exposures", "deduplicated"] += len(seen) - 1
            arms[seen[0][1]][user] = []
    for user, outcome, event in outcomes:
        is_bot = user in bots and outcome in ("pre_period", "before_exposure", "after_window", "used")
        rows["events", "bot" if is_bot else outcome] += 1
        if outcome == "used" and not is_bot:
            arms["a" if user in arms["a"] else "b"][user].append(event)
    return rows, arms


def slow_events(events: list[Any], shown: dict[int, list[Any]]) -> list[Any]:
    """The user, the outcome but for bots, and the kind and value of each event."""
    ids, outcomes = set(), []
    for user, when, kind, value, key, fault in sorted(events, key=lambda row: row[:4]):
        outcome = "quarantined" if fault else "filtered" if kind == "other" else ""
        if not outcome:
            is_repeated = key is not None and (user, key) in ids
            ids.add((user, key))
            outcome = "deduplicated" if is_repeated else slow_outcome(when, shown.get(user, []))
        outcomes.append((user, outcome, (kind, value)))
    return outcomes


def slow_exposures(exposures: list[Any], rows: Counter[Any]) -> dict[int, list[Any]]:
    """The time and variant of each user's exposures in the period; all others are counted."""
    experiment, shown = PLAN.experiments[0], dict[int, list[Any]]()
    for user, when, variant, name, fault in exposures:
        if fault or name != "home":
            rows["exposures", "quarantined" if fault else "filtered"] += 1
        elif not experiment.start <= when < experiment.end:
            rows["exposures", "outside_period"] += 1
        else:
            shown.setdefault(user, []).append((when, variant))
    return shown


def slow_outcome(when: int, seen: list[Any]) -> str:
    """The outcome of an event at a time, of a user with these exposures."""
    experiment, zone = PLAN.experiments[0], ZoneInfo("Europe/Berlin")
    if when < datetime(2024, 3, 27, tzinfo=zone).timestamp() * 1e6 or when >= experiment.end:
        return "outside_period"
    if not seen:
        return "not_exposed"
    if len({variant for _, variant in seen}) > 1:
        return "crossover"
    first = min(seen)[0]
    local = datetime.fromtimestamp(first / 1e6, UTC).astimezone(zone)
    day = datetime(local.year, local.month, local.day, tzinfo=zone)
    past = day - timedelta(days=2)  # by the wall clock
    if past.timestamp() <= when / 1e6 < day.timestamp():
        return "pre_period"
    if when < first:
        return "before_exposure"
    return "after_window" if when >= min(first + 30 * DAY // 24, experiment.end) else "used"


FAULTS: Final = st.sampled_from([None] * 9 + ["NULL_ID"])
EXPOSURES: Final = st.tuples(
    USERS, TIMES, st.sampled_from("aaab"), st.sampled_from(["home", "home", "else"]), FAULTS
)
EVENTS: Final = st.tuples(
    *(USERS, TIMES, st.sampled_from(["buy", "click", "view", "view", "other"])),
    *(st.sampled_from([1.0, 0.25, 2.5, 7.0]), st.sampled_from([None, "x", "y"]), FAULTS),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(EXPOSURES, max_size=12), st.lists(EVENTS, max_size=25), st.integers(1, 4), st.integers(1, 9))
def test_rows_and_moments_are_those_of_a_slow_loop(
    exposures: list[Any], events: list[Any], n_buckets: int, size: int
) -> None:
    found = measured(exposures, events, n_buckets, size)
    rows, arms = slow(exposures, events)
    counted: Counter[Any] = Counter()
    for (name, source, outcome, reason), n_rows in found.rows.items():
        is_of_table = name is None and outcome in ("quarantined", "filtered", "deduplicated")
        if source != "users" and outcome != "in" and (is_of_table or name is not None):
            by_reason = reason is not None and outcome in ("dropped", "used")
            counted[source, str(reason if by_reason else outcome)] += n_rows
    assert +counted == +rows
    for arm, users in arms.items():
        assert found.units["home", arm, 0] == len(users)
        money = [sum(round(v * 100) for k, v in seen if k == "buy") for seen in users.values()]
        moments = found.moments.get(Cell("home", "money", arm, 0, "all", "all"))
        if moments is not None:
            assert moments.n == len(users)
            assert (moments.product(ONE, X), moments.product(X, X)) == (sum(money), sum(m * m for m in money))
        clicks, views = (
            [sum(k == kind for k, _ in seen) for seen in users.values()] for kind in ("click", "view")
        )
        ctr = found.moments.get(Cell("home", "ctr", arm, 0, "all", "all"))
        if ctr is not None:
            assert (ctr.product(ONE, X), ctr.product(ONE, Y)) == (sum(clicks), sum(views))
            assert ctr.product(X, Y) == sum(x * y for x, y in zip(clicks, views, strict=True))
            of_users = found.moments[Cell("home", "ctr_user", arm, 0, "all", "all")]
            assert of_users.n_undefined == views.count(0)


@settings(max_examples=50, deadline=None)
@given(st.lists(EXPOSURES, max_size=12), st.lists(EVENTS, max_size=25), st.randoms())
def test_order_and_partitions_do_not_change_a_bit(
    exposures: list[Any], events: list[Any], random: Any
) -> None:
    whole = measured(exposures, events, 1, 100)
    random.shuffle(exposures)
    random.shuffle(events)
    parts = measured(exposures, events, 3, 2)
    assert +whole.rows == +parts.rows
    assert +whole.units == +parts.units
    both = whole.moments.keys() & parts.moments.keys()
    assert {key: whole.moments[key] for key in both} == {key: parts.moments[key] for key in both}
    assert not any(sums.n for key, sums in {**whole.moments, **parts.moments}.items() if key not in both)


@settings(max_examples=50, deadline=None)
@given(st.lists(EXPOSURES, max_size=5), st.lists(EVENTS, max_size=25), st.booleans())
def test_events_that_are_left_behind_are_counted_alike(
    exposures: list[Any], events: list[Any], has_ids: bool
) -> None:
    if not has_ids:
        events = [(*event[:4], None, event[5]) for event in events]
    whole, left = (measured(exposures, events, 2, 7, is_filtered) for is_filtered in (False, True))
    assert +whole.rows == +left.rows
    assert whole.moments == left.moments


def test_few_events_of_other_users_travel() -> None:
    exposures = [(user, START, "a", "home", None) for user in range(50)]
    events = [(user, START + DAY, "buy", 1.0, None, None) for user in range(10_000)]
    schema = pa.schema(
        {"user": pa.int64(), "timestamp": pa.int64(), "kind": pa.string(), "value": pa.float64()}
    )
    names = ("user", "timestamp", "variant")
    shown = pa.Table.from_pylist([dict(zip(names, row[:3], strict=True)) for row in exposures])
    happened = pa.Table.from_pylist(
        [dict(zip(schema.names, row[:4], strict=True)) for row in events], schema=schema
    )
    n_bits, rules = n_bits_for(len(exposures)), rules_of(PLAN)
    bits = exposed_bits(shown.to_batches(), rules["exposures"], PLAN, n_bits)
    reach = Reach.of(PLAN, filter_of(bits, n_bits))
    parts = [
        part
        for _, part in by_bucket(happened.to_batches(), "events", rules["events"], PLAN, 4, reach)
        if isinstance(part, SourceRows)
    ]
    users = {user for part in parts for user in part.table()["key"].to_pylist()}
    assert set(range(50)) <= users
    assert len(users) < 100


@pytest.mark.parametrize("n_bits", [3, 60])
def test_positions_are_those_of_a_loop(n_bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether times fit into a code with the unit, or ranks of times."""
    monkeypatch.setattr(timeline, "CODE_BITS", n_bits)
    random = np.random.default_rng(3)
    units, times = random.integers(0, 4, 30), random.integers(-(10**15), 10**15, 30)
    rows = {"key": units, "timestamp": times, "kind": np.zeros(30, np.int8), "value": np.ones(30)}
    line = Timeline(PLAN, pa.table(rows), 4)
    assert (line.clock.distinct is None) == (n_bits == 60)
    asked = [*times.tolist(), -(10**16), 10**16, 7]
    for unit in range(4):
        found = line.positions(np.full(len(asked), unit), np.array(asked))
        assert found.tolist() == [
            sum((u, t) < (unit, instant) for u, t in zip(units, times, strict=True)) for instant in asked
        ]


def test_buckets_are_those_of_xxhash64() -> None:
    worked = {"exp1": {"1": 1348, "2": 573, "user_42": 8120}, "exp2": {"1": 2153, "user_42": 3299}}
    for salt, buckets in worked.items():
        found = hashed_buckets(pa.array(list(buckets)), Assignment(salt, {})).tolist()
        assert found == list(buckets.values())


def test_an_unlisted_variant_is_named() -> None:
    found = measured([(1, START, "c", "home", None), (2, START, "a", "home", None)], [], 1, 10)
    assert found.unknown == {("home", "c")}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"period": ["2024-05-02", "2024-05-01"]}, "is not before"),
        ({"period": ["soon", "2024-05-01"]}, "not a day or time"),
        ({"control": "c"}, "among them the control 'c'"),
        ({"variants": {"a": 1, "b": 0}}, "weights are above 0"),
        ({"window": "7w"}, "not a duration"),
        ({"windows": "7d"}, "windows"),
        ({"assignment": {"salt": "s", "ranges": {"a": [0, 6000], "b": [5000, 10000]}}}, "disjoint"),
        ({"assignment": {"salt": "s", "ranges": {"a": [0, 6000]}}}, "one for each variant"),
        ({"weights": [{"since": "2024-05-01", "variants": {"a": 1, "b": 2}}]}, "after the start"),
        ({"weights": [{"since": "2024-05-01T12:00", "variants": {"a": 1}}]}, "a weight above 0 for each"),
    ],
)
def test_a_wrong_experiment_is_refused(change: dict[str, Any], message: str) -> None:
    sound = {
        "name": "h",
        "control": "a",
        "variants": {"a": 1, "b": 1},
        "period": ["2024-05-01", "2024-05-02"],
    }
    clicks = {"name": "clicks", "kind": "mean", "of": {"kind": "click"}}
    make_experiment_plan([clicks], sound)
    with pytest.raises(ConfigError, match=message):
        make_experiment_plan([clicks], {**sound, **change})
    with pytest.raises(ConfigError, match="time zone"):
        make_experiment_plan([clicks], sound, timezone="Mars/Olympus")
    for wrong in (
        {"role": "guardrail"},
        {"margin": 0.1},
        {"decimals": 9},
        {"numerator": {"kind": "a"}},
        {"day": 3},
        {"test": "z_pooled"},
        {"kind": "retention"},
        {"effect": 0},
        {"of": {"kind": "click", "cap": 0}},
        {"of": {"kind": "click", "where": [{"column": "a", "op": "in", "value": 3}]}},
        {"of": {"kind": "click", "where": [{"column": "a", "op": "like", "value": "3"}]}},
    ):
        with pytest.raises(ConfigError, match=r"online.metrics.0"):
            make_experiment_plan([{**clicks, **wrong}], sound)


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        ({"metric": "clicks", "max_drop": 0.1}, "no experiment"),
        ({"experiment": "h", "metric": "click", "max_drop": 0.1}, "did you mean 'clicks'"),
        ({"experiment": "g", "metric": "clicks", "max_drop": 0.1}, "'g'"),
        ({"experiment": "h", "metric": "clicks", "max_drop": 0.1, "mode": "observed"}, "sees no chance"),
        ({"experiment": "h", "metric": "clicks", "max_drop": -1}, "0 or more"),
    ],
)
def test_a_wrong_gate_is_refused(gate: dict[str, Any], message: str) -> None:
    home = {"name": "h", "control": "a", "variants": {"a": 1, "b": 1}, "period": ["2024-05-01", "2024-05-02"]}
    clicks = {"name": "clicks", "kind": "mean", "of": {"kind": "click"}}
    with pytest.raises(ConfigError, match=message):
        make_experiment_plan([clicks], home, [gate])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(*[st.integers(-(2**61), 2**61)] * 2, st.integers(0, 3)), min_size=1, max_size=30))
def test_products_of_integers_of_any_size_are_exact(rows: list[tuple[int, int, int]]) -> None:
    x, y, groups = (np.array(column) for column in zip(*rows, strict=True))
    found = moments_by_group([np.ones_like(x), x, y, None, None, None], groups, 4)
    for group, moments in enumerate(found):
        of_group = [(a, b) for a, b, g in rows if g == group]
        assert moments.product(X, Y) == sum(a * b for a, b in of_group)
        assert moments.product(X, X) == sum(a * a for a, _ in of_group)
        assert moments.n == len(of_group)
