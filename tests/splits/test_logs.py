"""Rows of a log, counted by time and labelled: each as a loop over the rows has it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_eval.arrow.xxhash64 import id_hashes
from spark_eval.errors import DataError
from spark_eval.splits.facts import latest
from spark_eval.splits.rules.fold_rule import HASH_STEPS
from spark_eval.splits.rules.global_local_ranker import GlobalLocalRanker, Timeline
from spark_eval.splits.rules.moments import Boundary
from spark_eval.splits.worker.labels import RowLabeller, moments

# Parts end at 10, 30 (with gaps up to 20 and 40) and 50.
LINE = Timeline(local_train_end=10, local_cut=20, local_test_end=30, global_cut=40, end=50)
LOCAL = ("ranker_train", "ranker_test")


def batch(times: list[int | None], **columns: list[object]) -> pa.RecordBatch:
    """Rows of a log at these microseconds, of users 0, 1, ... unless it says otherwise."""
    ids: list[object] = list(range(len(times)))
    return pa.record_batch(
        {"timestamp": pa.array(times, pa.int64())}
        | {name: pa.array(values) for name, values in ({"user": ids, "item": ids} | columns).items()}
    )


def labelling(rule: GlobalLocalRanker, line: Timeline = LINE) -> RowLabeller:
    """The labelling of a log with this timeline."""
    return RowLabeller(rule, rule.layout(line), "us")


def outcomes(rule: GlobalLocalRanker, rows: pa.RecordBatch, line: Timeline = LINE) -> list[str]:
    """What becomes of rows."""
    of_log = labelling(rule, line)
    found = of_log.numbers(rows, moments(rows["timestamp"], "us"))
    return [of_log.outcomes[number][0] for number in found]


def labels(times: list[int | None], line: Timeline = LINE, **rule: Any) -> list[str]:
    """What becomes of rows at these moments; both parts of local_test are one."""
    found = outcomes(GlobalLocalRanker(**rule), batch(times), line)
    return ["local_test" if outcome in LOCAL else outcome for outcome in found]


@pytest.mark.parametrize(("unit", "factor"), [("s", 1_000_000), ("ms", 1_000), ("us", 1), (None, 1)])
def test_integers_are_moments_of_their_unit(unit: str | None, factor: int) -> None:
    most = (2**63 - 1) // factor
    assert moments(pa.array([3, None, -most]), unit).to_pylist() == [3 * factor, None, -most * factor]
    if factor > 1:
        with pytest.raises(DataError, match=r"VALUE_TOO_LARGE.*timestamp_unit"):
            moments(pa.array([most + 1]), unit)


def test_timestamps_have_a_unit_already() -> None:
    times = pa.array([datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), None], pa.timestamp("us", "UTC"))
    assert moments(times, "s").to_pylist() == [-1_000_000, None]


def test_a_moment_on_an_edge_is_of_the_part_that_the_boundary_says() -> None:
    times: list[int | None] = [9, 10, 11, 19, 20, 21, 29, 30, 31, 39, 40, 41, 49, 50, 51]
    train, gap, local, test, late = "local_train", "gap", "local_test", "global_test", "after_end"
    exclusive = [train, *[gap] * 3, *[local] * 3, *[gap] * 3, *[test] * 3, late, late]
    inclusive = [train, train, *[gap] * 3, *[local] * 3, *[gap] * 3, *[test] * 3, late]
    assert labels(times, boundary=Boundary.EXCLUSIVE) == exclusive
    assert labels(times, boundary=Boundary.INCLUSIVE_TRAIN) == inclusive
    endless = Timeline(10, 10, 40, 40, None)
    assert labels(times, endless) == [train, *[local] * 9, *[test] * 5]


def test_a_missing_id_is_reported_before_a_missing_time() -> None:
    rows = batch([None, None, 15], user=[None, 1, 2], item=[1, 1, None])
    assert outcomes(GlobalLocalRanker(), rows) == ["NULL_ID", "NULL_TIMESTAMP", "NULL_ID"]


@pytest.mark.parametrize("seed", [0, -9])
def test_a_user_is_tested_whose_draw_is_below_the_share(seed: int) -> None:
    users = [f"u{number % 50}" for number in range(100)]
    rows = batch([25] * 100, user=list(users))
    draws = [int(value) % HASH_STEPS for value in id_hashes(pa.array(users), np.int64(seed))]
    for share in (draws[7] / HASH_STEPS, (draws[7] + 1) / HASH_STEPS):
        rule = GlobalLocalRanker(ranker_test_share=share, seed=seed)
        expected = ["ranker_test" if draw < share * HASH_STEPS else "ranker_train" for draw in draws]
        assert outcomes(rule, rows) == expected
        assert set(expected) == set(LOCAL)


def test_rows_are_written_by_part_and_counted(tmp_path: Path) -> None:
    early = -2_208_988_800_000_000
    times: list[int | None] = [early - 1, early, 5, 25, 45, 44, 43, 55, None]
    rows = batch(times, stars=[1] * 9)
    facts, files = labelling(GlobalLocalRanker()).write([rows.slice(0, 6), rows.slice(6)], str(tmp_path))
    assert (facts.n_rows, facts.n_used, facts.n_written) == (9, 7, 7)
    assert facts.counts == {"after_end": 1, "NULL_TIMESTAMP": 1, "before_1900": 1}
    assert sum(facts.assigned[name] for name in LOCAL) == 1
    assert (facts.assigned["local_train"], facts.assigned["global_test"]) == (3, 3)
    assert sorted(files) == sorted(str(f.relative_to(tmp_path)) for f in tmp_path.rglob("*.parquet"))
    [file] = [file for file in files if "global_test" in file]
    table = pq.read_table(tmp_path / file, partitioning=None)
    assert table.column_names == ["user", "item", "timestamp", "relevance", "fold", "stars"]
    assert table["user"].to_pylist() == [4, 5, 6]
    assert table["relevance"].to_pylist() == [1.0, 1.0, 1.0]
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [45, 44, 43]
    assert table["fold"].type == pa.int32()
    assert not np.any(table["fold"].to_numpy())


def test_of_two_parts_the_later_moment_of_each_key_is_kept() -> None:
    one, other = {"train": 1, "test": 5}, {"train": 3, "gap": 2}
    assert latest(one, other) == latest(other, one) == {"train": 3, "test": 5, "gap": 2}
