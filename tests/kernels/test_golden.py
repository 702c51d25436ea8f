"""Our rankings as other programs measured them once: under a program's preset we give its numbers.

``golden/compute.py`` wrote the tables and says how; each names its program, the version and the calls.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spark_eval.conventions.presets import conventions_of
from spark_eval.kernels.values import metric_values
from users import User, batch

GOLDEN = Path(__file__).parent / "golden"
TABLES = ("lenskit", "ranx", "rectools", "replay", "sklearn", "trec_eval")
# The others were given the order of the lists without ties; what RePlay measures goes by order anyway.
SEES_SCORES = ("replay", "sklearn", "trec_eval")


def read(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


RANKINGS = read("rankings")
CASES = [(table, metric) for table in TABLES for metric in read(table)["metrics"]]


def person(ranking: dict[str, Any], table: str) -> User:
    """A user of the rankings: truth of grade 1 or more is relevant, items are numbers."""
    number = {item: place for place, item in enumerate([*ranking["items"], *ranking["truth"]])}
    relevant = {item: grade for item, grade in ranking["truth"].items() if grade >= 1}
    if table == "sklearn":
        # It knows of no item without a score.
        relevant = {item: grade for item, grade in relevant.items() if item in ranking["items"]}
    return User(
        [number[item] for item in ranking["items"]],
        {number[item]: grade for item, grade in relevant.items()},
        ranking["scores"] if table in SEES_SCORES else None,
    )


def difference(table: str, metric: str, preset: str) -> float:
    """The largest difference of a user's value under a preset from the program's."""
    golden = np.array(read(table)["metrics"][metric]["values"], dtype=np.float64)
    conventions = conventions_of(preset)
    [value] = metric_values([metric], [], conventions)
    ours = value.measure(batch([person(ranking, table) for ranking in RANKINGS]), conventions)[value.column]
    is_given = ~np.isnan(golden)
    assert is_given.sum() >= 20
    return float(np.abs(ours - golden)[is_given].max())


@pytest.mark.parametrize(("table", "metric"), CASES)
def test_its_preset_gives_the_numbers_of_the_program(table: str, metric: str) -> None:
    assert difference(table, metric, table) <= 1e-9


@pytest.mark.parametrize("table", TABLES)
def test_the_default_gives_other_numbers_somewhere(table: str) -> None:
    assert max(difference(table, metric, "default") for metric in read(table)["metrics"]) > 0.01


def test_the_rankings_hold_all_kinds_of_users() -> None:
    users = [person(ranking, "trec_eval") for ranking in RANKINGS]
    n_relevant, length = [len(one.truth) for one in users], [len(one.recommended) for one in users]
    assert (len(users), min(n_relevant), min(length)) == (40, 1, 1)
    assert max(n_relevant) > 10 > 3 > 1 in n_relevant
    assert sum(m > size for m, size in zip(n_relevant, length, strict=True)) >= 5
    assert sum(len(set(one.falling)) < len(one.falling) for one in users) >= 15
    assert sum(not any(one.relevances) for one in users) >= 2
    assert all(one.falling == sorted(one.falling, reverse=True) for one in users)
