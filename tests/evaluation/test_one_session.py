"""Many verbs in one session, over files that are rewritten in between: never numbers of what was there."""

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import Any, Final

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_eval import compare, evaluate, evaluate_predictions, split
from spark_eval.errors import SparkEvalError
from spark_eval.evaluation.result import Evaluation
from spark_eval.runtime.spark_errors import named_spark_error
from spark_eval.schema import SUBSET

USERS: Final = range(8)
TRUTH: Final = pd.DataFrame({"user": USERS, "item": [user % 3 for user in USERS]})
# How files are given: the workers read a path and a plain frame; with an option, Spark reads all rows.
DAY: Final = 86_400
HOW: Final = ("path", "frame", "merged")


def content(seed: int) -> pd.DataFrame:
    """Rows for every verb; of each seed others, of the same number and types."""
    random = Random(seed)
    days = iter(random.sample(range(60), 24))
    return pd.DataFrame(
        [
            (user, item, rank, next(days) * DAY, float(random.randrange(9)), float(random.randrange(9)))
            for user in USERS
            for rank, item in enumerate(random.sample(range(4), 3), 1)
        ],
        columns=["user", "item", "rank", "timestamp", "label", "score"],
    )


def hits(rows: pd.DataFrame) -> dict[int, float]:
    """Precision at 1 of each user."""
    first = rows[rows["rank"] == 1]
    return {user: float(item == user % 3) for user, item in zip(first["user"], first["item"], strict=True)}


def parts(rows: pd.DataFrame) -> list[tuple[int, int, str]]:
    """Each row with its part: the cuts lie 5 and 20 days before the newest row."""
    newest = int(rows["timestamp"].max())
    return sorted(
        (user, item, "global" if newest - at <= 5 * DAY else "ranker" if newest - at <= 20 * DAY else "local")
        for user, item, at in zip(rows["user"], rows["item"], rows["timestamp"], strict=True)
    )


@dataclass
class Measured:
    """An evaluation with what is true of it; ``is_safe`` if nothing can make it read its files again."""

    found: Evaluation
    expected: dict[int, float]
    rows: pd.DataFrame
    is_safe: bool


class Notebook:
    """One session, one folder of files, and all that is still held of what came of it."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.rows = pd.DataFrame()
        self.evaluations: list[Measured] = []
        self.splits: list[tuple[Any, pd.DataFrame]] = []
        self.frames: list[tuple[Any, pd.DataFrame]] = []
        self.write(0, "pandas")

    def write(self, seed: int, writer: str) -> None:
        """Other rows at the same path: in a file of the same name, in others, or in one more."""
        self.rows = content(seed)
        if writer == "spark":
            self.spark.createDataFrame(self.rows).repartition(2).write.mode("overwrite").parquet(
                str(self.folder)
            )
            return
        rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        half = 0 if writer == "pandas" else len(self.rows) // 2
        self.rows[half:].to_parquet(self.folder / "a.parquet", index=False)
        if half:
            self.rows[:half].to_parquet(self.folder / "b.parquet", index=False)

    def given(self, how: str) -> Any:
        if how == "path":
            return str(self.folder)
        reader = self.spark.read if how == "frame" else self.spark.read.option("mergeSchema", "true")
        frame = reader.parquet(str(self.folder))
        self.frames.append((frame, self.rows))
        return frame

    def evaluate(self, how: str) -> None:
        self.measured(self.given(how), how)

    def stale(self, place: int) -> None:
        """Measure a frame that was read before, perhaps of files that are gone or others now."""
        if self.frames:
            frame, rows = self.frames[place % len(self.frames)]
            true_or_changed(lambda: self.measured(frame, "stale"), may_change=rows is not self.rows)

    def measured(self, lists: Any, how: str) -> None:
        found = evaluate(lists, TRUTH, model="m", metrics=["precision"], k=[1])
        expected = hits(self.rows)
        assert found.metric_rows[0].value == pytest.approx(sum(expected.values()) / len(expected))
        self.evaluations.append(Measured(found, expected, self.rows, is_safe=how in ("path", "frame")))

    def may_change(self, measured: "Measured") -> bool:
        """Whether its table of users may be read anew: Spark forgets what it holds of files it overwrites."""
        return measured.rows is not self.rows and not measured.is_safe

    def per_user(self, place: int, free: bool) -> None:
        """Read a table of users late, perhaps after it was freed, and its inputs rewritten."""
        if self.evaluations:
            one = self.evaluations[place % len(self.evaluations)]
            if free:
                one.found.unpersist()
                one.is_safe = False

            def read() -> None:
                rows = one.found.per_user.collect()
                assert {row.user: row.precision_at_1 for row in rows} == one.expected

            true_or_changed(read, may_change=self.may_change(one))

    def drop(self, place: int) -> None:
        if self.evaluations:
            del self.evaluations[place % len(self.evaluations)]
            gc.collect()

    def compare(self, place: int, other: int) -> None:
        if self.evaluations:
            pair = [self.evaluations[n % len(self.evaluations)] for n in (place, other)]
            if pair[0] is pair[1]:
                return  # its only model is not compared with itself

            def read() -> None:
                rows = compare(pair[0].found, pair[1].found, metrics="precision@1").rows
                of_users = [pair[0].expected[user] - pair[1].expected[user] for user in USERS]
                assert rows[0].difference == pytest.approx(sum(of_users) / len(of_users))

            true_or_changed(read, may_change=any(map(self.may_change, pair)))

    def split(self, how: str) -> None:
        options: dict[str, Any] = {"local_cut": "20d", "global_cut": "5d"}
        self.splits.append((split(self.given(how), timestamp_unit="s", **options), self.rows))
        self.labelled(-1)

    def labelled(self, place: int) -> None:
        """Read a split late."""
        if self.splits:
            found, rows = self.splits[place % len(self.splits)]

            def read() -> None:
                of_rows = [(row.user, row.item, row[SUBSET].split("_")[0]) for row in found.rows.collect()]
                assert sorted(of_rows) == parts(rows)

            true_or_changed(read, may_change=rows is not self.rows)

    def predictions(self, how: str) -> None:
        [row] = evaluate_predictions(self.given(how), "regression", model="m", metrics=["mae"]).metric_rows
        assert row.value == pytest.approx((self.rows.label - self.rows.score).abs().mean())


def true_or_changed(read: Callable[[], None], *, may_change: bool) -> None:
    """Read the truth, or be told that inputs changed where they may have."""
    try:
        read()
    except (SparkEvalError, PySparkException, Py4JError) as error:
        if not may_change or named_spark_error(error).code != "INPUT_CHANGED_DURING_RUN":
            raise


PLACES: Final = st.integers(0, 3)
STEPS: Final = st.one_of(
    st.tuples(st.just("write"), st.integers(0, 5), st.sampled_from(["pandas", "two", "spark"])),
    st.tuples(st.sampled_from(["evaluate", "split", "predictions"]), st.sampled_from(HOW)),
    st.tuples(st.sampled_from(["drop", "stale", "labelled"]), PLACES),
    st.tuples(st.just("per_user"), PLACES, st.booleans()),
    st.tuples(st.just("compare"), PLACES, PLACES),
)


def follow(spark: SparkSession, folder: Path, steps: Sequence[tuple[Any, ...]]) -> None:
    notebook = Notebook(spark, folder)
    for name, *choices in steps:
        getattr(notebook, name)(*choices)


def marks_of(row: int, column: int) -> list[pytest.MarkDecorator]:
    """The sequences below take each way in any order; of nine that repeat them, one is slow."""
    return [pytest.mark.slow if row == column == 1 else pytest.mark.exhaustive]


@pytest.mark.parametrize(
    ("writer", "how"),
    [
        pytest.param(writer, how, marks=marks_of(row, column))
        for row, writer in enumerate(["pandas", "two", "spark"])
        for column, how in enumerate(HOW)
    ],
)
def test_a_notebook_retrains(spark: SparkSession, tmp_path: Path, how: str, writer: str) -> None:
    verbs = [("evaluate", how), ("split", how), ("predictions", how)]
    late = [("stale", 0), ("compare", 0, 1), ("labelled", 0), ("per_user", 0, False), ("per_user", 0, True)]
    follow(spark, tmp_path / "lists", [("write", 1, writer), *verbs, ("write", 2, writer), *verbs, *late])


@pytest.mark.parametrize(
    "n_examples",
    [
        2,
        pytest.param(6, marks=pytest.mark.slow),
        pytest.param(150, marks=[pytest.mark.exhaustive, pytest.mark.timeout(1800)]),
    ],
)
def test_any_sequence_of_verbs_in_one_session(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, n_examples: int
) -> None:
    @settings(max_examples=n_examples, derandomize=n_examples < 10)
    @given(st.lists(STEPS, min_size=4, max_size=12))
    def check(steps: Sequence[tuple[Any, ...]]) -> None:
        follow(spark, tmp_path_factory.mktemp("notebook") / "lists", steps)

    check()


def test_a_folder_of_users_that_is_written_again(spark: SparkSession, tmp_path: Path) -> None:
    notebook, users = Notebook(spark, tmp_path / "lists"), tmp_path / "users"
    options: dict[str, Any] = {"model": "m", "metrics": ["precision"], "k": [1], "folder": str(users)}
    first = evaluate(notebook.given("path"), TRUTH, **options)
    rmtree(users)
    notebook.write(1, "pandas")
    second = evaluate(notebook.given("path"), TRUTH, **options)
    third = evaluate(notebook.given("path"), TRUTH, **{**options, "folder": None})
    assert compare(second, third, metrics="precision@1").rows[0].difference == 0
    with pytest.raises(SparkEvalError, match="INPUT_CHANGED_DURING_RUN"):
        compare(first, second, metrics="precision@1")


def test_what_is_held_is_released_with_its_result(spark: SparkSession, tmp_path: Path) -> None:
    notebook = Notebook(spark, tmp_path / "lists")
    held = spark.sparkContext._jsc.getPersistentRDDs
    gc.collect()
    before = wait_for(lambda: held().size(), 0)
    for how in HOW:
        notebook.evaluate(how)
    assert held().size() == before + len(HOW)
    per_user = notebook.evaluations[0].found.per_user
    notebook.evaluations.clear()
    gc.collect()
    assert (
        wait_for(lambda: held().size(), before + 1) == before + 1
    )  # a table of users outlives its evaluation
    del per_user
    gc.collect()
    assert wait_for(lambda: held().size(), before) == before


def wait_for(count: Callable[[], int], wanted: int) -> int:
    """The count, once it is as wanted or ten seconds have passed."""
    end = time.monotonic() + 10
    while count() != wanted and time.monotonic() < end:
        time.sleep(0.05)
    return count()
