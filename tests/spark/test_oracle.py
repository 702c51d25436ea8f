"""The whole evaluation against a slow oracle of it, on random users."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest
from frames import settings
from oracle import Id, Recommendation, Relevance, Rules
from pyspark.sql import DataFrame, SparkSession

from spark_eval.metrics import RANKING
from spark_eval.plan import Plan, make_plan
from spark_eval.verbs.evaluate import evaluate
from spark_eval.verbs.evaluation import Evaluation

N_USERS, N_ITEMS, LONGEST = 200, 40, 14
KS = (3, 10)
# What asks for the length of a list makes checks complete of itself.
OF_HITS = [name for name, metric in RANKING.items() if metric.kind == "hits"]
EVERY = (
    *RANKING,
    *("ndcg(gain=exp2, ideal=list)", "ndcg(ideal=positions)@3", "dcg(discount=log2_clipped)@10"),
    *("map(denominator=min_relevant_length)", "map(variant=window)", "mar(variant=window)@3"),
    *("precision@all", "map@all", "ndcg@all", "mdcg@all", "recall(denominator=retrieved)@3"),
    *("ndcg(tie_order=best)@3", "map(tie_order=worst)@10", "map(tie_order=shared)@all"),
)
MODELS = ("als", "bpr", "pop")


@dataclass(frozen=True)
class Case:
    """The form of the input, and the rules."""

    name: str
    layout: str
    has_text_ids: bool
    conventions: dict[str, str]
    threshold: float | None = None
    no_recommendations: str = "zero"
    no_truth: str = "drop"
    checks: str = "hits"
    metrics: Sequence[str] = EVERY

    @property
    def plan(self) -> Plan:
        return make_plan(
            self.metrics,
            KS,
            self.conventions,
            self.threshold,
            self.no_recommendations,
            self.no_truth,
            self.checks,
        )

    @property
    def rules(self) -> Rules:
        return Rules(self.plan.conventions, self.plan.metrics, are_scores=self.layout == "scores")


CASES = [
    Case("scores, all defaults", "scores", False, {}),
    Case(
        "scores of strings, ties ascending",
        "scores",
        True,
        {"ties": "item_asc", "gain": "exp2", "ap_denominator": "hits", "truth_duplicates": "sum"},
        threshold=2.0,
        no_truth="zero",
    ),
    Case(
        "ranks, the last relevance",
        "ranks",
        True,
        {"gain": "binary", "ap_denominator": "relevant", "truth_duplicates": "last"},
        no_recommendations="drop",
        metrics=OF_HITS,
    ),
    Case("ranks under full checks", "ranks", False, {"ap_denominator": "k"}, checks="full", threshold=0.0),
    Case("ranks as LensKit sees them", "ranks", False, {"preset": "lenskit", "no_hits": "drop"}),
    Case(
        "arrays, counted relevance",
        "arrays",
        False,
        {"truth_duplicates": "count"},
        no_recommendations="drop",
        no_truth="zero",
        metrics=OF_HITS,
    ),
]


@dataclass(frozen=True)
class Trial:
    """What the rows were, and what came of them."""

    case: Case
    recommendations: list[Recommendation]
    truth: list[Relevance]
    frames: tuple[DataFrame, DataFrame]
    evaluation: Evaluation
    per_user: dict[tuple[str, Id], dict[str, Any]]


def draw(case: Case, seed: int) -> tuple[list[Recommendation], list[Relevance]]:
    """Random rows: repeats, ties, gaps, nulls, not-a-numbers; users without list or truth; short lists."""
    random = np.random.default_rng(seed)

    def identity(kind: str, number: int) -> Id:
        # Numbers without leading zeros, so that text has another order than the numbers.
        return f"{kind}{number}" if case.has_text_ids else number - 7

    def rarely(value: Any, other: Any, chance: float = 0.02) -> Any:
        return other if random.random() < chance else value

    truth, recommendations = [], []
    for user in (identity("u", number) for number in range(N_USERS)):
        for _ in range(random.integers(0, LONGEST) if random.random() < 0.85 else 0):
            item = identity("i", int(random.integers(N_ITEMS)))
            relevance = rarely(float(random.integers(0, 11)) / 2, rarely(None, float("nan"), 0.5))
            truth.append(
                Relevance(rarely(user, None), rarely(item, None), relevance, int(random.integers(5)))
            )
        for model in MODELS:
            if random.random() < 0.1:
                continue
            n_items = int(random.integers(0, LONGEST))
            ranks = random.choice(np.arange(1, LONGEST + 4), n_items, replace=False)
            items = [identity("i", int(number)) for number in random.integers(0, N_ITEMS, n_items)]
            if case.layout == "arrays":
                ranks = np.arange(1, n_items + 1)
            for item, rank in zip(items, ranks, strict=True):
                if case.layout == "arrays":
                    recommendations.append(Recommendation(model, user, rarely(item, None), int(rank)))
                elif case.layout == "ranks":
                    order = rarely(int(rank), None)
                    recommendations.append(
                        Recommendation(model, rarely(user, None), rarely(item, None), order)
                    )
                else:
                    score = rarely(float(random.integers(-3, 4)) / 4, rarely(None, float("nan"), 0.5))
                    recommendations.append(
                        Recommendation(model, rarely(user, None), rarely(item, None), score)
                    )
    return recommendations, truth


def frames_of(
    spark: SparkSession, case: Case, recommendations: list[Recommendation], truth: list[Relevance]
) -> tuple[DataFrame, DataFrame]:
    """The rows as Spark reads them."""
    kind = "string" if case.has_text_ids else "bigint"
    judged = spark.createDataFrame(truth, f"user {kind}, item {kind}, relevance double, timestamp bigint")
    if case.layout == "arrays":
        lists: dict[tuple[str, Id | None], list[Id | None]] = {}
        for model, user, item, _ in recommendations:
            lists.setdefault((model, user), []).append(item)
        arrays = [(*key, items) for key, items in lists.items()]
        return spark.createDataFrame(arrays, f"model string, user {kind}, items array<{kind}>"), judged
    order = "score double" if case.layout == "scores" else "rank bigint"
    rows = spark.createDataFrame(recommendations, f"model string, user {kind}, item {kind}, {order}")
    return rows, judged


def run(case: Case, frames: tuple[DataFrame, ...], plan: str = "auto") -> Evaluation:
    recommendations, truth = frames
    return evaluate(
        recommendations,
        truth,
        layout="array" if case.layout == "arrays" else "long",
        timestamp_unit="s",
        metrics=case.metrics,
        k=KS,
        conventions=case.conventions,
        threshold=case.threshold,
        no_recommendations=case.no_recommendations,
        no_truth=case.no_truth,
        checks=case.checks,
        plan=plan,
    )


def collected(evaluation: Evaluation) -> dict[tuple[str, Id], dict[str, Any]]:
    return {(row["model"], row["user"]): row.asDict() for row in evaluation.per_user.collect()}


# The default run takes one case of each layout.
IN_FULL = ("scores of strings, ties ascending", "ranks under full checks", "ranks as LensKit sees them")


def marked(case: Case) -> Any:
    return pytest.param(case, id=case.name, marks=[pytest.mark.slow] if case.name in IN_FULL else [])


@pytest.fixture(scope="module", params=map(marked, CASES))
def trial(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[Trial]:
    case: Case = request.param
    recommendations, truth = draw(case, CASES.index(case))
    frames = frames_of(spark, case, recommendations, truth)
    evaluation = run(case, frames)
    yield Trial(case, recommendations, truth, frames, evaluation, collected(evaluation))
    evaluation.unpersist()


def test_every_user_has_the_numbers_of_the_oracle(trial: Trial) -> None:
    expected = oracle.evaluate(trial.recommendations, trial.truth, trial.case.rules)
    assert trial.per_user.keys() == expected.keys()
    counts = ["n_relevant"]
    # Repeats among items that are no hits are looked for only where lists are sorted or checked in full.
    if trial.case.layout == "scores" or trial.case.plan.checks == "full":
        counts.append("n_recommended")
    wrong = {
        (*key, column): (trial.per_user[key][column], value[column])
        for key, value in expected.items()
        for column in (*counts, *trial.case.plan.columns)
        if oracle.number(trial.per_user[key][column])
        != pytest.approx(value[column], rel=1e-12, abs=1e-12, nan_ok=True)
    }
    assert wrong == {}


@pytest.mark.parametrize("trial", CASES[:1], indirect=True, ids=lambda case: case.name)
def test_the_mean_is_that_of_the_users(trial: Trial) -> None:
    rows = trial.evaluation.metrics.collect()
    found = {(row["model"], row["metric"], row["k"]): row for row in rows}
    assert len(rows) == len(found) == len(MODELS) * len(trial.case.plan.columns)
    for model, value in product(MODELS, trial.case.plan.metrics):
        users = [user for (other, _), user in trial.per_user.items() if other == model]
        defined = [user for user in users if user[value.column] is not None]
        row = found[model, value.name, value.k]
        mean = sum(user[value.column] for user in defined) / len(defined)
        assert row["value"] == pytest.approx(mean, rel=1e-12, abs=1e-15)
        assert (row["n_users"], row["n_undefined"]) == (len(defined), len(users) - len(defined))
        for name, weight in value.weights.items():
            weights = [user[value.column_of(weight.name)] for user in defined]
            total = sum(w * user[value.column] for w, user in zip(weights, defined, strict=True))
            row = found[model, name, value.k]
            assert row["value"] == pytest.approx(total / sum(weights), rel=1e-12)
            assert (row["n_users"], row["std_error"]) == (len(defined), None)


def test_every_input_row_is_accounted_for(trial: Trial) -> None:
    entries = trial.evaluation.entries
    rows_in = {(entry.source, entry.model): entry.rows for entry in entries if entry.outcome == "in"}
    by_model = Counter(row.model for row in trial.recommendations)
    expected: dict[tuple[str, str | None], int] = {("recommendations", m): n for m, n in by_model.items()}
    expected |= {("truth", None): len(trial.truth)}
    assert {key: n for key, n in rows_in.items() if key[0] != "users"} == expected
    in_the_mean: Counter[str | None] = Counter()
    for entry in entries:
        if (entry.source, entry.outcome) == ("users", "used"):
            in_the_mean[entry.model] += entry.rows
    assert in_the_mean == Counter(model for model, _ in trial.per_user)
    accounted: Counter[tuple[str, str | None]] = Counter()
    for entry in entries:
        accounted[entry.source, entry.model] += entry.rows if entry.outcome != "in" else 0
    assert dict(accounted) == rows_in


@pytest.mark.parametrize("trial", CASES[:1] + CASES[2:3], indirect=True, ids=lambda case: case.name)
def test_a_join_that_shuffles_gives_the_same_bits(
    trial: Trial, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_eval.verbs.by_shuffle.BROADCAST_ROWS", 0)
    conf = {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.adaptive.enabled": "false"}
    with settings(spark, conf):
        frames = (trial.frames[0].repartition(5), trial.frames[1].repartition(3))
        evaluation = run(trial.case, frames, plan="shuffle")
        assert collected(evaluation) == trial.per_user
        evaluation.unpersist()


def everything(evaluation: Evaluation) -> list[Any]:
    """Users, means and ledger."""
    metrics = sorted(map(tuple, evaluation.metrics.collect()), key=str)
    return [collected(evaluation), metrics, sorted(evaluation.entries, key=str)]


def test_both_plans_give_the_same_bits(
    trial: Trial, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists that are sorted or checked lie together, in more than one partition; others anywhere."""
    monkeypatch.setattr("spark_eval.verbs.by_workers.ROWS_PER_BUCKET", 200)
    recommendations, truth = trial.frames
    is_seen_whole = trial.case.layout == "scores" or trial.case.plan.checks == "full"
    if is_seen_whole and trial.case.layout != "arrays":
        recommendations = recommendations.repartitionByRange(3, "model", "user", "item")
        recommendations = recommendations.sortWithinPartitions("model", "user")
    by_shuffle = run(trial.case, (recommendations, truth), plan="shuffle")
    by_workers = run(trial.case, (recommendations, truth))
    assert by_shuffle.reason == "shuffle: plan=shuffle is asked for"
    needs_hash = trial.case.layout == "scores" and trial.case.plan.conventions.ties == "hash"
    assert by_workers.reason.startswith("shuffle: " if needs_hash else "workers: ")
    assert everything(by_workers) == everything(by_shuffle)
    by_workers.unpersist()
    for name, frame in zip(("recommendations", "truth"), (recommendations, truth), strict=True):
        frame.write.parquet(str(tmp_path / name))
    by_files = run(
        trial.case, tuple(spark.read.parquet(str(folder)) for folder in sorted(tmp_path.iterdir()))
    )
    is_plain = trial.case.layout != "arrays" and not needs_hash
    assert by_files.reason.endswith("as plain Parquet files") == is_plain
    assert everything(by_files) == everything(by_shuffle)
    by_files.unpersist()
    by_shuffle.unpersist()
