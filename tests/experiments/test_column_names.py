"""Names of columns: each slice, segment and condition has the values of its own column."""

import itertools
import re
from typing import Any, Final

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_eval import evaluate_experiments, sum_user_days
from spark_eval.errors import ConfigError
from spark_eval.experiments.worker.judge import own_column

NOON: Final = pd.Timestamp("2024-05-02T12:00:00Z")
HOME: Final[dict[str, Any]] = {
    "name": "home",
    "control": "a",
    "variants": {"a": 1, "b": 1},
    "period": ["2024-05-01", "2024-05-08"],
}
# Alike once what is odd in them is written as a number.
ALIKE: Final = ["a b", "a_20_b", "a_20 b", "a 20_b", "a_5f_20_5f_b", "a__20__b", "own_a b", "a", "own_a"]
ODD: Final = st.text(st.sampled_from("ab0125f_ -.é`"), min_size=1, max_size=9)


@given(st.lists(ODD, min_size=2, max_size=30, unique=True))
def test_names_of_columns_stay_apart(names: list[str]) -> None:
    ours = [own_column(name) for name in names]
    assert len(set(ours)) == len(names)
    assert all(re.fullmatch(r"\w+", name, re.ASCII) for name in ours)


def test_short_names_all_stay_apart() -> None:
    names = ["".join(one) for n in range(1, 7) for one in itertools.product("_2 0", repeat=n)]
    assert len({own_column(name) for name in names}) == len(names)


def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Exposures and events with a column for each name, which holds its number and one of two halves."""
    users = np.arange(40)
    exposures = pd.DataFrame({"user": users, "variant": np.where(users % 2, "b", "a"), "timestamp": NOON})
    events = pd.DataFrame({"user": users, "kind": "click", "timestamp": NOON})
    for number, name in enumerate(ALIKE):
        values = [f"{number} {half}" for half in (users // 2 + number) % 2]
        exposures[name], events[name] = values, values
    return exposures, events


def clicks(name: str = "clicks", **of: Any) -> dict[str, Any]:
    return {"name": name, "kind": "mean", "of": {"kind": "click", **of}}


def check_values(engine: str) -> None:
    wanted = {name: {f"{number} 0", f"{number} 1"} for number, name in enumerate(ALIKE)}
    exposures, events = tables()
    for by, slices in ((ALIKE, []), ([], ALIKE)):
        options: dict[str, Any] = {"by": by, "slices": slices, "engine": engine, "cuped": False}
        found = evaluate_experiments(exposures, events, [clicks()], HOME, **options)
        values: dict[str, set[str]] = {}
        for row in found.experiment_rows:
            if row.method == "raw" and row.segment != "all":
                values.setdefault(row.segment, set()).add(row.segment_value)
        assert values == wanted


def test_slices_and_segments_have_the_values_of_their_columns() -> None:
    check_values("local")


@pytest.mark.spark
def test_slices_and_segments_have_the_values_of_their_columns_on_spark() -> None:
    check_values("spark")


def test_conditions_are_on_their_columns_also_of_days() -> None:
    exposures, events = tables()
    metrics = [
        clicks(f"m{number}", where=[{"column": name, "op": "==", "value": f"{number} 0"}])
        for number, name in enumerate(ALIKE)
    ]
    whole = evaluate_experiments(exposures, events, metrics, HOME, engine="local", cuped=False)
    assert {row.control_value for row in whole.experiment_rows} == {0.5}
    days = sum_user_days(exposures, events, metrics, HOME, engine="local").rows
    again = evaluate_experiments(exposures, days, metrics, HOME, engine="local", cuped=False)
    assert again.experiment_rows == whole.experiment_rows


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": ["page"], "slices": ["page"]}, "page is in by and in slices"),
        ({"by": ["all"]}, "all is a name of ours"),
        ({"slices": ["novelty"]}, "novelty is a name of ours"),
        ({"by": ["day_since_exposure"]}, "day_since_exposure is a name of ours"),
        ({"slices": ["exposed_on"]}, "exposed_on is a name of ours"),
        ({"slices": ["hour"]}, "hour is a name of ours"),
        ({"slices": ["day"]}, "day is a name of ours"),
    ],
)
def test_a_name_with_two_meanings_is_refused(options: dict[str, Any], message: str) -> None:
    exposures, events = tables()
    for change in (options, {key: value for key, value in options.items() if key == "slices"}):
        home = {**HOME, **({"by": options["by"]} if "by" in options and change is not options else {})}
        with pytest.raises(ConfigError, match=f"INVALID_EXPERIMENT.*{message}"):
            evaluate_experiments(exposures, events, [clicks()], home, engine="local", **change)
