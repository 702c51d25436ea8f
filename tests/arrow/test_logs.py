"""Rows of a log, counted by time and labelled: each as a loop over the rows has it."""

from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_eval.arrow.xxhash64 import id_hashes
from spark_eval.errors import DataError
from spark_eval.splits.labels import OUTCOMES, Counting, Labelling, moments
from spark_eval.splits.moments import Boundary
from spark_eval.splits.rules import HASH_STEPS, GlobalLocalRanker, Timeline

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


def labels(times: list[int | None], line: Timeline = LINE, **rule: Any) -> list[str]:
    """What becomes of rows at these moments; both parts of local_test are one."""
    labelling = Labelling(GlobalLocalRanker(**rule), line, "us")
    rows = batch(times)
    found = labelling.outcomes(rows, moments(rows["timestamp"], "us"))
    return ["local_test" if OUTCOMES[code] in LOCAL else OUTCOMES[code] for code in found]


@pytest.mark.parametrize("bits", [None, 0, 2, 5])
@pytest.mark.parametrize("spans", [[], [(-40, -8)], [(-40, -8), (3, 3), (20, 90)]])
def test_stretches_are_those_of_the_rows_in_the_spans(spans: list[tuple[int, int]], bits: int | None) -> None:
    draw = Random(f"{spans} {bits}")
    batches = [batch([draw.choice([None, draw.randrange(-60, 99)]) for _ in range(90)]) for _ in range(3)]
    batches.append(batch([], user=[], item=[]))
    expected = defaultdict(list)
    for time in (time for rows in batches for time in rows["timestamp"].to_pylist()):
        if time is not None and (not spans or any(first <= time <= last for first, last in spans)):
            expected[0 if bits is None else time // 2**bits].append(time)
    found = [row for rows in Counting("us", spans, bits).stretches(batches) for row in rows.to_pylist()]
    assert sorted(map(tuple, map(dict.values, found))) == sorted(
        (key, min(times), max(times), len(times)) for key, times in expected.items()
    )


def test_rows_without_an_id_or_a_time_are_not_counted() -> None:
    rows = batch([5, 6, 7, None], user=[1, None, 3, 4], item=[None, 2, 3, 4])
    assert Counting("us", [], None).times(rows).tolist() == [7]
    assert Counting("us", [], None).times(rows.select(["timestamp", "user"])).tolist() == [5, 7]
    assert Counting("us", [], None).times(rows.select(["timestamp"])).tolist() == [5, 6, 7]
    assert list(Counting("us", [], None).stretches([rows.slice(3)])) == []


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


def test_a_row_without_an_id_is_told_before_one_without_a_time() -> None:
    rows = batch([None, None, 15], user=[None, 1, 2], item=[1, 1, None])
    labelling = Labelling(GlobalLocalRanker(), LINE, "us")
    found = [OUTCOMES[code] for code in labelling.outcomes(rows, moments(rows["timestamp"], "us"))]
    assert found == ["NULL_ID", "NULL_TIMESTAMP", "NULL_ID"]


@pytest.mark.parametrize("seed", [0, -9])
def test_a_user_is_tested_whose_draw_is_below_the_share(seed: int) -> None:
    users = [f"u{number % 50}" for number in range(100)]
    rows = batch([25] * 100, user=list(users))
    draws = [int(value) % HASH_STEPS for value in id_hashes(pa.array(users), np.int64(seed))]
    for share in (draws[7] / HASH_STEPS, (draws[7] + 1) / HASH_STEPS):
        rule = GlobalLocalRanker(ranker_test_share=share, seed=seed)
        found = Labelling(rule, LINE, "us").outcomes(rows, moments(rows["timestamp"], "us"))
        expected = ["ranker_test" if draw < share * HASH_STEPS else "ranker_train" for draw in draws]
        assert [OUTCOMES[code] for code in found] == expected
        assert set(expected) == set(LOCAL)


def test_rows_are_written_by_part_and_counted(tmp_path: Path) -> None:
    early = -2_208_988_800_000_000
    times: list[int | None] = [early - 1, early, 5, 25, 45, 44, 43, 55, None]
    rows = batch(times, stars=[1] * 9)
    labelling = Labelling(GlobalLocalRanker(), LINE, "us")
    written = labelling.write([rows.slice(0, 6), rows.slice(6)], str(tmp_path))
    counts = {name: n for name, n in written.counts.items() if n and name not in LOCAL}
    assert counts == {
        "local_train": 3,
        "global_test": 3,
        "after_end": 1,
        "NULL_TIMESTAMP": 1,
        "before_1900": 1,
    }
    assert sum(written.counts[name] for name in LOCAL) == 1
    [local] = [name for name in LOCAL if written.counts[name]]
    assert written.ends == {"local_train": 5, local: 25, "global_test": 45}
    assert sorted(written.files) == sorted(str(f.relative_to(tmp_path)) for f in tmp_path.rglob("*.parquet"))
    [file] = [file for file in written.files if "global_test" in file]
    table = pq.read_table(tmp_path / file, partitioning=None)
    assert table.column_names == ["user", "item", "timestamp", "relevance", "fold", "stars"]
    assert table["user"].to_pylist() == [4, 5, 6]
    assert table["relevance"].to_pylist() == [1.0, 1.0, 1.0]
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [45, 44, 43]
    assert table["fold"].type == pa.int32()
    assert not np.any(table["fold"].to_numpy())
