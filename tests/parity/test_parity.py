"""Each preset gives its library's numbers: the same users through the library and through ``evaluate``."""

import math
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pytest
from ask_spark import ask_spark
from cases import User, users_of
from pyspark.sql import SparkSession

from spark_eval import evaluate
from spark_eval.kernels.values import parse_metric

pytestmark = [
    pytest.mark.parity,
    pytest.mark.timeout(900),
    # RankingMetrics asks for its session in a way that Spark deprecates.
    pytest.mark.filterwarnings("ignore:Deprecated in 3.0.0:FutureWarning"),
]

PRESETS = (
    "trec_eval",
    "rectools",
    "replay",
    "lenskit",
    "ranx",
    "sklearn",
    "spark",
    "recommenders",
    "evidently",
)
TOLERANCE = 1e-9
ENOUGH_USERS = 500

# Values by metric, then by user.
PerUser = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Trial:
    """The numbers of a library, its ``answer``, and those of its preset: per user, and their means."""

    answer: Mapping[str, Any]
    per_user: PerUser
    means: Mapping[str, float]

    @property
    def theirs(self) -> PerUser:
        """What the library computes for single users."""
        found: PerUser = self.answer["per_user"]
        return found

    @property
    def n_users(self) -> int:
        """How many users the library says something of, alone or in a group."""
        alone = {user for values in self.theirs.values() for user in values}
        return len(alone.union(*(group["members"] for group in self.answer.get("groups", []))))

    def differences(self) -> Iterator[tuple[float, str, str]]:
        """How far apart the numbers are, of which metric, and whose."""
        for metric, values in self.theirs.items():
            for user, value in values.items():
                yield distance(value, self.per_user[metric][user]), metric, user
        for group in self.answer.get("groups", []):
            members: Mapping[str, int] = group["members"]
            weight = sum(members.values())
            for metric, mean in group["means"].items():
                ours = math.fsum(self.per_user[metric][user] * n for user, n in members.items()) / weight
                # What a single user's value would have to be wrong by.
                yield distance(mean, ours) * weight, metric, " ".join(members)


def distance(one: float, other: float) -> float:
    """How far apart two numbers are; two that are undefined are not."""
    if math.isnan(one) or math.isnan(other):
        return 0.0 if math.isnan(one) and math.isnan(other) else math.inf
    return abs(one - other)


@pytest.fixture(scope="module", params=PRESETS)
def trial(request: pytest.FixtureRequest, spark: SparkSession) -> Trial:
    """A library's answer, and one evaluation under its preset of all metrics that the answer holds."""
    preset: str = request.param
    users = users_of(preset)
    if preset == "spark":
        answer: Mapping[str, Any] = ask_spark(spark, users)
    else:
        answers: Mapping[str, Future[Any]] = request.getfixturevalue("answers")
        answer = answers[preset].result()
    return measured(spark, preset, users, answer)


def measured(spark: SparkSession, preset: str, users: list[User], answer: Mapping[str, Any]) -> Trial:
    """One evaluation of all users, for every metric of the answer."""
    listed = [(user.name, item, score) for user in users for item, score in user.scores.items()]
    truth = [(user.name, item, float(relevance)) for user in users for item, relevance in user.truth]
    groups = answer.get("groups", [])
    metrics = dict.fromkeys([*answer["per_user"], *(metric for group in groups for metric in group["means"])])
    evaluation = evaluate(
        spark.createDataFrame(listed, "user string, item string, score double"),
        spark.createDataFrame(truth, "user string, item string, relevance double"),
        model=preset,
        metrics=list(metrics),
        conventions=preset,
    )
    values = {metric: parse_metric(metric)[0] for metric in metrics}
    rows = evaluation.per_user.collect()
    by_name = {(row["metric"], row["k"]): row["value"] for row in evaluation.to_arrow("metrics").to_pylist()}
    evaluation.unpersist()
    return Trial(
        answer,
        {metric: {row["user"]: row[value.column] for row in rows} for metric, value in values.items()},
        {metric: by_name[value.name, value.k] for metric, value in values.items()},
    )


def test_every_user_has_the_number_of_the_library(trial: Trial, compared: list[str]) -> None:
    differences = list(trial.differences())
    worst, metric, user = max(differences)
    compared.append(
        f"{trial.answer['library']} {trial.answer['version']}: {trial.n_users} users, "
        f"{len(trial.per_user)} metrics, {len(differences)} numbers, worst difference {worst:.1e}"
    )
    assert trial.n_users >= ENOUGH_USERS
    assert worst <= TOLERANCE, f"{metric} of {user}"


def test_the_same_users_count(trial: Trial) -> None:
    """Everybody whom the library says something of, be it at one cutoff only; and nobody else."""
    theirs = {user for values in trial.theirs.values() for user in values}
    ours = {user for values in trial.per_user.values() for user in values}
    assert not trial.theirs or theirs == ours


def test_the_means_over_the_run_are_those_of_the_library(trial: Trial) -> None:
    means: Mapping[str, float] = trial.answer.get("means", {})
    differences = {metric: distance(mean, trial.means[metric]) for metric, mean in means.items()}
    assert not {metric: far for metric, far in differences.items() if far > TOLERANCE}
