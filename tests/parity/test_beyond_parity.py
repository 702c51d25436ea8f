"""Beyond accuracy, too, each preset gives its library's numbers: per user, in the mean, and of the run."""

import json
import math
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from beyond_cases import CATALOG, ITEMS, Log, log_of
from pyspark.sql import SparkSession

from spark_eval import evaluate
from spark_eval.kernels.values import parse_metric

PYTHON = Path(__file__).parents[2] / ".venv-parity" / "bin" / "python"
SCRIPTS = Path(__file__).parent / "libraries"
pytestmark = [pytest.mark.parity, pytest.mark.timeout(900)]
TOLERANCE = 1e-9
ENOUGH_USERS = 250
# The libraries measure everybody with a list, and nobody else; see docs/beyond_accuracy.md.
CONVENTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "rectools": {"no_recommendations": "drop"},
    "replay": {"no_recommendations": "drop"},
    "recommenders": {},
    "evidently": {"no_hits": "zero"},
}
# Evidently takes every item to have features.
CATALOGS: Final = {"evidently": ITEMS}


@dataclass(frozen=True)
class Found:
    """The numbers of a library, and ours: per user by metric and cutoff, and those of the run."""

    theirs: Mapping[str, Any]
    per_user: Mapping[str, Mapping[str, float | None]]
    of_run: Mapping[str, float | None]


@pytest.fixture(scope="module")
def logs_answered() -> Iterator[Mapping[str, Future[Any]]]:
    """Answers of all libraries, one after the other, while Spark works."""
    if not PYTHON.exists():
        pytest.skip("the libraries are not installed; `make test-parity` installs them and runs this")
    with ThreadPoolExecutor(max_workers=1) as pool:
        yield {preset: pool.submit(ask, preset) for preset in CONVENTIONS}


def ask(preset: str) -> Any:
    """What a library computes of its log, by its script."""
    done = subprocess.run(
        [PYTHON, SCRIPTS / f"ask_{preset}_beyond.py"],
        input=json.dumps(log_of(preset).as_json()),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module", params=CONVENTIONS)
def found(
    request: pytest.FixtureRequest, spark: SparkSession, logs_answered: Mapping[str, Future[Any]]
) -> Found:
    """One library's answer, and one evaluation of the same log under its preset."""
    return measured(spark, request.param, log_of(request.param), logs_answered[request.param].result())


def measured(spark: SparkSession, preset: str, log: Log, theirs: Mapping[str, Any]) -> Found:
    """One evaluation, for every number of the answer."""
    # Of exposure the group stands behind the metric.
    metrics = dict.fromkeys(name.split()[0] for name in [*theirs["per_user"], *theirs["means"]])
    pair, listed = "user string, item string", []
    for model, lists in (("lists", log.lists), ("base", log.base)):
        listed += [(model, user, item, rank) for user in lists for rank, item in enumerate(lists[user], 1)]
    truth = [(user, item) for user, items in log.truth.items() for item in items]
    items = [
        (item, log.vectors[item], log.words[item], [log.letter[item]])
        for item in CATALOGS.get(preset, CATALOG if preset == "rectools" else ITEMS)
    ]
    evaluation = evaluate(
        spark.createDataFrame(listed, f"model string, {pair}, rank long"),
        spark.createDataFrame(truth, pair),
        train=spark.createDataFrame(log.train, pair),
        items=spark.createDataFrame(
            items, "item string, vector array<double>, features array<string>, groups array<string>"
        ),
        metrics=list(metrics),
        base="base",
        conventions={"preset": preset, **CONVENTIONS[preset]},
    )
    rows = evaluation.per_user.where("model = 'lists'").collect()
    of_run = {
        f"{row['metric']}@{row['k']}{' ' * is_group}{row['segment_value'] * is_group}": row["value"]
        for row in evaluation.to_arrow("metrics").to_pylist()
        if row["model"] == "lists"
        for is_group in [row["segment"] == "group"]
    }
    evaluation.unpersist()
    columns = {name: parse_metric(name)[0].column for name in theirs["per_user"]}
    per_user = {name: {row["user"]: row[column] for row in rows} for name, column in columns.items()}
    return Found(theirs, per_user, of_run)


def test_every_user_has_the_number_of_the_library(found: Found, compared: list[str]) -> None:
    differences = [
        (abs(value - ours) if (ours := found.per_user[name][user]) is not None else math.inf, name, user)
        for name, values in found.theirs["per_user"].items()
        for user, value in values.items()
    ]
    worst, name, user = max(differences)
    n_users = len({user for _, _, user in differences})
    compared.append(
        f"{found.theirs['library']} {found.theirs['version']}: beyond accuracy, {n_users} users, "
        f"{len(found.per_user)} metrics, {len(differences)} numbers, worst difference {worst:.1e}"
    )
    assert n_users >= ENOUGH_USERS
    assert worst <= TOLERANCE, f"{name} of {user}"


def test_the_same_users_have_one(found: Found) -> None:
    for name, values in found.theirs["per_user"].items():
        defined = {user for user, value in found.per_user[name].items() if value is not None}
        assert defined == values.keys(), name


def test_the_numbers_of_the_run_are_those_of_the_library(found: Found, compared: list[str]) -> None:
    means = found.theirs["means"]
    differences = {name: abs(value - (found.of_run[name] or 0.0)) for name, value in means.items()}
    compared.append(
        f"{found.theirs['library']}: beyond accuracy, {len(means)} numbers of the run, "
        f"worst difference {max(differences.values()):.1e}"
    )
    assert not {name: far for name, far in differences.items() if far > TOLERANCE}
