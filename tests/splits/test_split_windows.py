"""Back-tests: rolling and expanding windows of time."""

from typing import Any

import pytest
from fold_logs import (
    SECONDS_PER_DAY,
    in_part,
    leaks,
    ledger,
    log_of,
    places,
    random_rows,
    split_log,
    split_rows,
)
from pyspark.sql import SparkSession

from spark_eval.errors import DataError

# A row a day, numbered as its day, from 0 to 20.
DAILY: list[tuple[Any, ...]] = [("a", day % 4, day * SECONDS_PER_DAY, None, day) for day in range(21)]


def days(session: SparkSession | None, method: str, **options: Any) -> list[tuple[list[int], list[int]]]:
    """Of each fold the days of train and of test."""
    found = places(split_rows(session, DAILY, method, **options))
    folds = range(options.get("n_folds", 3))
    return [(sorted(in_part(found, fold, "train")), sorted(in_part(found, fold, "test"))) for fold in folds]


def span(first: int, last: int) -> list[int]:
    """These days and all between them."""
    return list(range(first, last + 1))


def test_windows_roll_or_expand_to_the_end_of_the_log(session: SparkSession | None) -> None:
    assert days(session, "rolling", test_days=3, train_days=5, gap_days=1) == [
        (span(5, 9), span(11, 13)),
        (span(8, 12), span(14, 16)),
        (span(11, 15), span(17, 20)),
    ]
    assert days(session, "expanding", test_days=2, step_days=4, n_folds=2, boundary="inclusive_train") == [
        (span(0, 14), [15, 16]),
        (span(0, 18), [19, 20]),
    ]


def test_windows_end_at_an_instant_and_what_is_in_none_is_dropped(session: SparkSession | None) -> None:
    options = {"test_days": 2, "step_days": 4, "train_days": 3, "n_folds": 2, "end": "1970-01-19"}
    assert days(session, "rolling", **options) == [([9, 10, 11], [12, 13]), ([13, 14, 15], [16, 17])]
    lines = ledger(split_rows(session, DAILY, "rolling", **options))
    assert {key[2]: rows for key, (rows, _) in lines.items() if key[1] == "dropped"} == {
        "before_start": 9,
        "after_end": 3,
    }
    gapped = split_rows(session, DAILY, "rolling", **{**options, "train_days": 1, "gap_days": 1})
    assert ledger(gapped)["interactions", "dropped", "gap"] == (2, None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "boundary", ["exclusive", pytest.param("inclusive_train", marks=pytest.mark.exhaustive)]
)
def test_test_windows_never_overlap_nor_divide_a_moment(spark: SparkSession, boundary: str) -> None:
    rows = random_rows(200)
    options: dict[str, Any] = {"n_folds": 4, "test_days": 5, "step_days": 6, "boundary": boundary}
    done = split_rows(spark, rows, "expanding", cold_items="drop", **options)
    found = places(done)
    assert all(list(parts.values()).count("test") <= 1 for parts in found.values())
    when = {row[4]: row[2] for row in rows}
    for fold in range(4):
        train, test = (in_part(found, fold, part) for part in ("train", "test"))
        assert max(when[row] for row in train) < min(when[row] for row in test)
    everywhere = places(split_rows(spark, rows, "expanding", **options))
    assert len({(when[row], *sorted(parts.items())) for row, parts in everywhere.items()}) == len(
        {when[row] for row in everywhere}
    )
    spread = split_log(log_of(spark, rows[::-1], 5), "expanding", cold_items="drop", **options)
    assert places(spread) == found
    assert not any(leaked for _, _, leaked in leaks(done).values())
    assert {check for _, check in leaks(done)} == {"test_at_or_before_train", "pairs_in_train_and_test"}


def test_a_log_that_is_too_short_is_refused() -> None:
    with pytest.raises(
        DataError, match=r"no event is left for train of fold 0 .* should begin at"
    ) as refused:
        split_rows(None, DAILY, "rolling", test_days=7)
    assert refused.value.code == "SPLIT_OUT_OF_RANGE"
    with pytest.raises(DataError, match=r"no event is left for test of fold 2 from 1979"):
        split_rows(None, DAILY, "expanding", end="1980-01-01", test_days=14)
