"""A segment's numbers are those of its users alone, to the last bit, however the tables lie."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from arrow_rows import table
from choices import ACCURACY
from frames import settings
from pyspark.sql import DataFrame, SparkSession

from spark_eval.evaluation.evaluate import evaluate
from spark_eval.evaluation.result import Evaluation

Rows = Sequence[tuple[Any, ...]]
N_ITEMS, N_USERS = 30, 60


@dataclass(frozen=True)
class World:
    """Rows of every table, of users 0 to 59, and an evaluation of them by segments."""

    lists: Rows
    truth: Rows
    users: Rows
    train: Rows
    evaluation: Evaluation
    metrics: list[dict[str, Any]]
    per_user: list[dict[str, Any]]

    def cell(self, segment: str, value: str) -> list[dict[str, Any]]:
        """The numbers of a segment, without its name."""
        return [
            {name: number for name, number in row.items() if not name.startswith("segment")}
            for row in self.metrics
            if (row["segment"], row["segment_value"]) == (segment, value)
        ]


LISTS = "model string, user int, item int, score double"
TRUTH = "user int, item int, relevance double"
SEGMENTS = ["country", "known", "vip", "activity"]


def measured(make: Callable[[Rows, str], Any], lists: Rows, truth: Rows, **options: Any) -> Evaluation:
    return evaluate(
        make(lists, LISTS), make(truth, TRUTH), metrics=ACCURACY, k=[3], no_truth="zero", **options
    )


def tables_of(make: Callable[[Rows, str], Any], users: Rows, train: Rows) -> dict[str, Any]:
    return {
        "users": make(users, "user bigint, country string, vip string"),
        "train": make(train, "user smallint, item int"),
        "segments": SEGMENTS,
    }


def collected(evaluation: Evaluation, name: str) -> list[dict[str, Any]]:
    keys = ("model", "segment", "segment_value", "metric", "user")
    rows = evaluation.to_arrow(name).to_pylist()
    return sorted(rows, key=lambda row: [str(row.get(key)) for key in keys])


@pytest.fixture(scope="module")
def world() -> World:
    source = random.Random(11)
    lists = [
        (model, user, item, source.randrange(5) / 4)
        for model in ("als", "bpr")
        for user in range(N_USERS)
        if user % 10 != 9
        for item in source.sample(range(N_ITEMS), source.randrange(1, 9))
    ]
    truth = [
        (user, item, source.random() * 5)
        for user in range(N_USERS)
        if user % 10 != 8
        for item in source.sample(range(N_ITEMS), source.randrange(1, 6))
    ]
    users = [
        (user, [None, "it", "fr"][user % 4], str(user % 5 == 0)) for user in range(N_USERS) if user % 4 != 3
    ]
    train = [
        (user, source.randrange(N_ITEMS - 5)) for user in range(1, N_USERS, 3) for _ in range(1 + user % 7)
    ]
    evaluation = measured(table, lists, truth, engine="local", **tables_of(table, users, train))
    per_user, metrics = collected(evaluation, "per_user"), collected(evaluation, "metrics")
    return World(lists, truth, users, train, evaluation, metrics, per_user)


@pytest.mark.parametrize(
    ("segment", "value", "is_in"),
    [
        ("country", "(missing)", lambda user: user % 4 in (0, 3)),
        ("known", "no_train", lambda user: user % 3 != 1),
    ],
)
def test_the_numbers_of_a_segment_are_those_of_its_users_alone(
    world: World, segment: str, value: str, is_in: Callable[[int], bool]
) -> None:
    lists = [row for row in world.lists if is_in(row[1])]
    truth = [row for row in world.truth if is_in(row[0])]
    alone = measured(table, lists, truth, engine="local")
    expected = [
        {name: number for name, number in row.items() if not name.startswith("segment")}
        for row in collected(alone, "metrics")
    ]
    assert len(expected) == 2 * (len(ACCURACY) + 3)
    assert world.cell(segment, value) == expected


def decile_of(interactions: int, of_users: Sequence[int]) -> int:
    """ceil(10 * users with at most so many interactions / users)."""
    return -(-10 * sum(number <= interactions for number in of_users) // len(of_users))


def test_every_user_is_in_one_value_of_each_segment(world: World) -> None:
    of_users = Counter(user for user, _ in world.train)
    countries = {user: country for user, country, _ in world.users}
    wrong = []
    for row in world.per_user:
        user = row["user"]
        decile = decile_of(of_users[user], [*of_users.values()]) if of_users[user] else "no_train"
        expected = (countries.get(user), "known" if of_users[user] else "no_train", str(decile))
        if (row["country"], row["known"], row["activity"]) != expected:
            wrong.append((row, expected))
    assert (wrong, len(world.per_user)) == ([], 2 * N_USERS)
    total = {(row["model"], row["metric"]): row for row in world.metrics if row["segment"] == "all"}
    for segment in SEGMENTS:
        users: defaultdict[tuple[str, str], int] = defaultdict(int)
        for row in world.metrics:
            if row["segment"] == segment:
                users[row["model"], row["metric"]] += row["n_users"] + row["n_undefined"]
        assert users == {key: row["n_users"] + row["n_undefined"] for key, row in total.items()}


def test_cold_items_of_the_lists_and_of_the_truth_are_counted(world: World) -> None:
    trained = {item for _, item in world.train}
    with_truth = {user for user, *_ in world.truth}
    expected: Counter[tuple[str, str | None]] = Counter(
        (model, "cold_item" if item not in trained else None)
        for model, user, item, _ in world.lists
        if user in with_truth
    )
    expected.update(("", "cold_item" if item not in trained else None) for _, item, _ in world.truth)
    found = {
        (entry.model or "", entry.reason): entry.rows
        for entry in world.evaluation.entries
        if entry.source in ("recommendations", "truth")
        and entry.outcome == "used"
        and entry.reason in (None, "cold_item")
    }
    assert found == expected
    assert len(found) == 6


def test_the_same_bits_however_the_tables_lie(spark: SparkSession, world: World) -> None:
    def scattered(rows: Rows, schema: str) -> DataFrame:
        return spark.createDataFrame(rows, schema).repartition(5)

    source = random.Random(1)
    lists, truth, users, train = (
        source.sample(rows, len(rows)) for rows in (world.lists, world.truth, world.users, world.train)
    )
    conf = {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.adaptive.enabled": "false"}
    with settings(spark, conf):
        again = measured(scattered, lists, truth, **tables_of(scattered, users, train))
        assert collected(again, "metrics") == world.metrics
        assert collected(again, "per_user") == world.per_user
        assert list(again.entries) == list(world.evaluation.entries)
        again.unpersist()
