"""Logs split in this process: the rows, tables and files of Spark, for all rules."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_eval.errors import ConfigError, DataError
from spark_eval.results.driver_tables import to_arrow
from spark_eval.splits.rules.fold_rule import Numbering
from spark_eval.splits.rules.methods import METHODS, rule_of
from spark_eval.splits.rules.targets import TargetRule
from spark_eval.splits.split import Split, split
from spark_eval.tables.arrow_frames import cast_for_spark

NAMES = {"user": "who", "timestamp": "at", "relevance": "stars"}
TABLES = ("accounting", "leakage", "subsets")
BY_TIME: list[dict[str, Any]] = [
    {"local_cut": 0.4, "global_cut": "10d", "gap_days": 1},
    {"method": "time", "test_cut": 0.7, "validation_cut": 0.5, "boundary": "inclusive_train"},
    {"method": "rolling", "test_days": 3, "train_days": 9},
    {"method": "expanding", "test_days": 9, "gap_days": 1, "targets": "successive"},
]
BY_DRAW: list[dict[str, Any]] = [
    {"method": "k_fold", "k": 3, "seed": -4},
    {"method": "k_fold", "k": 2, "by": "user"},
    {"method": "holdout", "test_share": 0.3, "validation_share": 0.2},
    {"method": "stratified_k_fold", "by": ["shop"], "exact": False, "k": 2},
]
# Rules whose subset of a row depends on other rows.
DROPS: dict[str, Any] = {"cold_users": "drop", "cold_items": "drop", "seen": "drop"}
BY_OTHERS: list[dict[str, Any]] = [
    {"method": "leave_one_out"},
    {"method": "leave_one_out", "choose": "hash", "seed": 3, "seen": "drop"},
    {"method": "leave_p_out", "p": 2, "ties": "together"},
    {"method": "last_fraction", "test_share": 0.3},
    {"method": "k_fold", "k": 3, "exact": True, "seed": 5},
    {"method": "k_fold", "k": 3, "exact": True, "by": "user", "cold_items": "drop", "seen": "drop"},
    {"method": "stratified_k_fold", "by": ["is_new", "shop"], "k": 3},
    {"method": "stratified_k_fold", "by": ["user"], "k": 2},
    {"local_cut": 0.4, "global_cut": "10d"} | DROPS,
    {"local_cut": 0.4, "global_cut": "10d", "targets": "last"},
    {"method": "time", "test_cut": 0.7, "validation_cut": 0.5, "targets": "random", "seed": 9} | DROPS,
    {"method": "rolling", "test_days": 3, "train_days": 9, "seen": "drop"},
    {"method": "expanding", "test_days": 9, "targets": "first"},
]


def a_log(text: bool, n_rows: int = 150) -> pa.Table:
    """Rows within a month, some without an id or a time, with columns of all plain types."""
    random = Random(7)
    start = datetime(1970, 1, 1, tzinfo=UTC)
    users = [None if random.random() < 0.05 else random.randrange(20) for _ in range(n_rows)]
    items = [None if random.random() < 0.02 else random.randrange(9) for _ in users]
    times = [
        None if random.random() < 0.03 else start + timedelta(hours=random.randrange(700)) for _ in users
    ]
    as_text = [None if user is None else f"ü{user}" for user in users]
    return pa.table(
        {
            "shop": pa.array([random.choice(["a", 'b"', None]) for _ in users], pa.large_string()),
            "who": pa.array(as_text) if text else pa.array(users, pa.int32()),
            "item": pa.array(items, pa.int64()),
            "at": pa.array(times, pa.timestamp("ms", "Europe/Berlin")),
            "stars": pa.array([random.choice([None, 1, 5]) for _ in users], pa.int8()),
            "day": pa.array([time and time.date() for time in times]),
            "clock": pa.array([time and time.replace(tzinfo=None) for time in times], pa.timestamp("us")),
            "is_new": pa.array([random.choice([None, True]) for _ in users]),
            "price": pa.array([random.choice([None, 0.1, 1e-9]) for _ in users], pa.float32()),
        }
    )


def rows_of(frame: Any) -> pd.DataFrame:
    """The rows in an order of their own, with the types of their columns."""
    table = pa.table(
        [cast_for_spark(column) for column in to_arrow(frame).columns], to_arrow(frame).column_names
    )
    rows = table.to_pandas(types_mapper=pd.ArrowDtype)
    texts = rows.astype(str)
    order = texts.sort_values(list(texts.columns), kind="stable").index
    ordered: pd.DataFrame = rows.loc[order].reset_index(drop=True)
    return ordered


def assert_alike(done: Split, by_spark: Split, folder: Path) -> None:
    """The same rows, tables, counts and files."""
    assert (done.spark, done.timeline) == (None, by_spark.timeline)
    for name in ("labelled", "rows"):
        pd.testing.assert_frame_equal(rows_of(getattr(done, name)), rows_of(getattr(by_spark, name)))
    for name in TABLES:
        assert isinstance(getattr(done, name), pd.DataFrame)
        assert done.to_arrow(name).to_pylist() == by_spark.to_arrow(name).to_pylist()
    written = [one.write(str(folder / name)) for name, one in (("here", done), ("spark", by_spark))]
    assert written[0] == written[1] == done.log.count()
    here = str(folder / "here")
    assert done.compared(written[0], here) == done.compared(written[0])
    assert done.counted_subsets(here) == done.counted_subsets()
    files = [
        {path.parent.name: rows_of(pq.read_table(path)) for path in (folder / name).rglob("*.parquet")}
        for name in ("here", "spark")
    ]
    assert files[0].keys() <= files[1].keys()
    for subset, rows in files[0].items():
        of_spark = pq.read_table(folder / "spark" / subset)
        pd.testing.assert_frame_equal(
            rows.drop(columns="subset", errors="ignore"),
            rows_of(of_spark).drop(columns="subset", errors="ignore"),
        )


@pytest.mark.parametrize(
    "options",
    [
        BY_TIME[0],
        BY_DRAW[0],
        *(pytest.param(one, marks=pytest.mark.slow) for one in (*BY_TIME[1:], *BY_DRAW[1:])),
    ],
    ids=str,
)
@pytest.mark.usefixtures("spark")
def test_this_process_splits_as_spark_does(tmp_path: Path, options: dict[str, Any]) -> None:
    is_text = options is BY_TIME[0]
    log = a_log(is_text)
    if options in BY_DRAW[1:3]:
        log = log.drop_columns("at")
    names = {ours: one for ours, one in NAMES.items() if one in log.column_names}
    frames = [log.to_pandas(types_mapper=pd.ArrowDtype), log] if is_text else [pl.from_arrow(log), log]
    local = split(frames[0], columns=names, engine="local", **options)
    assert type(
        local.train if local.layout.n_folds == 1 and "local_cut" not in options else local.rows
    ) is type(frames[0])
    assert_alike(local, split(log, columns=names, engine="spark", **options), tmp_path)


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize(
    "options", [BY_OTHERS[0], *(pytest.param(one, marks=pytest.mark.slow) for one in BY_OTHERS[1:])], ids=str
)
@pytest.mark.usefixtures("spark")
def test_rows_are_put_in_order_as_by_spark(tmp_path: Path, options: dict[str, Any], text: bool) -> None:
    """Some rows differ from others in columns that no draw sees; some differ in nothing."""
    log = a_log(text)
    number = log.column_names.index("stars")
    other = log.slice(0, 60).set_column(number, "stars", pa.array([2, None, 7] * 20, pa.int8()))
    log = pa.concat_tables([other, log, log.slice(90)])
    local = split(log, columns=NAMES, engine="local", **options)
    assert_alike(local, split(log, columns=NAMES, engine="spark", **options), tmp_path)


@pytest.mark.spark
def test_every_choice_of_rows_has_a_fold(tmp_path: Path) -> None:
    log = a_log(text=False, n_rows=9)
    options: dict[str, Any] = {"method": "leave_p_out", "p": 2, "exhaustive": True}
    local = split(log, columns=NAMES, engine="local", **options)
    assert_alike(local, split(log, columns=NAMES, engine="spark", **options), tmp_path)


def timed(method: str) -> bool:
    """True for methods whose test may have targets."""
    return issubclass(METHODS[method], TargetRule)


@pytest.mark.parametrize("method", METHODS)
def test_a_rule_says_whether_it_needs_other_rows(method: str) -> None:
    class Log:
        def span(self) -> tuple[int, int]:
            return 0, 10**15

        def moments(self, cuts: Sequence[Any], *_: object) -> list[int]:
            return [10**14 * (number + 1) for number, _ in enumerate(cuts)]

        def n_rows(self) -> int:
            return 9

    options: dict[str, dict[str, Any]] = {
        "stratified_k_fold": {"by": ["shop"]},
        "rolling": {"test_days": 1, "train_days": 2},
        "expanding": {"test_days": 1},
        "time": {"test_cut": 0.5},
    }
    drops: list[dict[str, Any]] = [{}, {"cold_users": "drop"}]
    targets: list[dict[str, Any]] = [{"targets": targets} for targets in ("all", "last", "successive")]
    exacts: list[dict[str, Any]] = [{}, {"exact": True}, {"exact": False}]
    for drop in drops:
        for exact in exacts if "fold" in method else targets if timed(method) else [{}]:
            rule = rule_of(method, options.get(method, {}) | drop | exact)
            numbering = rule.layout(rule.find(Log())).numbering
            assert rule.needs_other_rows == (bool(drop) or not isinstance(numbering, Numbering))


def test_files_are_split_as_frames_are(tmp_path: Path) -> None:
    log = a_log(text=True)
    (tmp_path / "log").mkdir()
    for number in range(3):
        pq.write_table(log.slice(50 * number, 50), tmp_path / "log" / f"{number}.parquet", row_group_size=20)
    of_files = split(tmp_path / "log", columns=NAMES, engine="local", **BY_TIME[0])
    of_frame = split(log, columns=NAMES, engine="local", **BY_TIME[0])
    assert isinstance(of_files.rows, pd.DataFrame)
    assert isinstance(of_frame.rows, pa.Table)
    pd.testing.assert_frame_equal(rows_of(of_files.labelled), rows_of(of_frame.labelled))
    assert of_files.to_arrow("subsets") == of_frame.to_arrow("subsets")
    assert len(of_files.subset("local_test", 0)) == of_frame.subset("ranker_train").num_rows + len(
        of_frame.subset("ranker_test")
    )


def test_a_log_without_rows_has_no_split() -> None:
    with pytest.raises(DataError, match="EMPTY_INPUT"):
        split(a_log(text=False).slice(0, 0), columns=NAMES, engine="local")


@pytest.mark.parametrize(
    ("change", "options", "reason"),
    [
        ({}, {"method": "stratified_k_fold", "by": ["relevance"]}, "is dealt out by relevance"),
        ({}, {"method": "stratified_k_fold", "by": ["price"]}, "column 'price' is float; text keeps it here"),
        ({"prices": pa.array([[1]] * 150)}, {}, "column 'prices' is list.*; text or a number keeps it here"),
        (
            {"at": pa.array([datetime(2024, 1, 1)] * 150)},
            {"timezone": "Europe/Berlin"},
            "column 'at' is timestamp_ntz; timestamps of a zone keep it here",
        ),
    ],
)
def test_what_only_spark_splits_is_refused_by_name(
    change: dict[str, Any], options: dict[str, Any], reason: str
) -> None:
    log = a_log(text=False)
    for name, values in change.items():
        log = log.drop_columns(name) if name in log.column_names else log
        log = log.append_column(name, values)
    with pytest.raises(ConfigError, match=rf"NEEDS_SPARK.*{reason}"):
        split(log, columns=NAMES, engine="local", **options)


def test_missing_columns_are_named() -> None:
    log = a_log(text=False).drop_columns(["who", "at"])
    with pytest.raises(DataError) as fault:
        split(log, columns=NAMES, engine="local")
    assert "no column 'who'" in str(fault.value)
    assert "no column 'at'" in str(fault.value)
    with pytest.raises(DataError, match="no column 'shops' to stratify by"):
        split(
            a_log(text=False),
            columns=NAMES,
            engine="local",
            method="stratified_k_fold",
            by=["shops"],
            exact=False,
        )
