"""The rule that trains on what came first and tests on what came last, without Spark."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_eval.errors import ConfigError, DataError
from spark_eval.schema import Reason, Subset
from spark_eval.splits.rules.by_time import Periods, TimeSplit
from spark_eval.splits.rules.fold_rule import Numbering
from spark_eval.splits.rules.methods import rule_of
from spark_eval.splits.rules.moments import MICROSECONDS_PER_DAY as DAY
from spark_eval.splits.rules.moments import Boundary

HOUR = DAY // 24


def of(oldest: int, newest: int, *cuts: int, **options: Any) -> Periods:
    """The periods of a log, cut at these moments: validation, if there are two, and test."""
    middle = {"validation_cut": 0.5} if len(cuts) > 1 else {}
    rule = rule_of("time", {"test_cut": 0.8, **middle, **options})
    assert isinstance(rule, TimeSplit)
    return Periods.of(rule, cuts, oldest, newest)


def test_validation_is_a_part_only_where_it_has_a_cut() -> None:
    assert rule_of("time", {}).subsets == (Subset.TRAIN, Subset.TEST)
    with_one = rule_of("time", {"validation_cut": "20d", "test_cut": "10d"})
    assert with_one.subsets == (Subset.TRAIN, Subset.VALIDATION, Subset.TEST)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"validation_cut": 0.9}, "share 0.9 is not before share 0.8"),
        ({"validation_cut": "3d", "test_cut": "5d"}, "3.0 days back is not before 5.0 days back"),
        ({"test_cut": 1.5}, "share 1.5 is not in (0, 1)"),
        ({"test_days": 0}, "test_days 0 is not above 0"),
        ({"gap_days": -1}, "gap_days -1 is below 0"),
        ({"test_share": 0.2}, "unknown option 'test_share'"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        rule_of("time", options)
    assert message in refused.value.message


@pytest.mark.parametrize(
    ("cuts", "options", "message"),
    [
        ((0,), {}, "no event is left for train before test_cut"),
        ((2 * DAY,), {"gap_days": 3}, "no event is left for train before test_cut"),
        ((11 * DAY,), {}, "no event is left for test from test_cut"),
        ((5 * DAY, 4 * DAY), {}, "validation_cut (share 0.5) at 1970-01-06"),
        ((3 * DAY, 4 * DAY), {"gap_days": 1}, "gap_days 1 leave no time for validation"),
    ],
)
def test_a_part_that_must_be_empty_is_refused(
    cuts: tuple[int, ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError) as refused:
        of(0, 10 * DAY, *cuts, **options)
    assert refused.value.code == "SPLIT_OUT_OF_RANGE"
    assert message in refused.value.message
    assert "the log runs from 1970-01-01" in refused.value.message


@given(st.data())
def test_every_moment_has_one_part_and_earlier_parts_come_first(data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(3 * DAY, 9 * DAY), min_size=1, max_size=2)))
    gap = data.draw(st.sampled_from([0, 0.25, 1]))
    options: dict[str, Any] = {
        "gap_days": gap if len(cuts) == 1 or cuts[1] - cuts[0] > gap * DAY else 0,
        "test_days": data.draw(st.sampled_from([None, 0.5, 2])),
        "boundary": data.draw(st.sampled_from(list(Boundary))).value,
    }
    periods = of(0, 10 * DAY, *cuts, **options)
    rule = rule_of("time", {"validation_cut": 0.5, **options} if len(cuts) > 1 else options)
    layout = rule.layout(periods)
    numbering = layout.numbering
    assert isinstance(numbering, Numbering)
    found = []
    for at in range(0, 10 * DAY, HOUR):
        number = sum(not numbering.boundary.before(at, edge) for edge in numbering.edges)
        [outcome] = layout.outcomes[number]
        found.append(outcome)
    order = list(dict.fromkeys(found))
    parts = [one for one in order if one in set(Subset)]
    assert parts == [one for one in rule.subsets if one in parts]
    assert parts[0] == Subset.TRAIN
    if options["gap_days"]:
        assert found.count(Reason.GAP) == pytest.approx(24 * gap * len(cuts), abs=len(cuts))
    else:
        assert Reason.GAP not in found
    assert (Reason.AFTER_END in found) <= (options["test_days"] is not None)
    for earlier, later in pairwise(periods.periods):
        assert earlier.end is not None
        assert later.start is not None
        assert earlier.end <= later.start
